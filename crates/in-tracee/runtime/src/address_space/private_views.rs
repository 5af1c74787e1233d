//! Replay: private mappings of a file that has a shared one, too. As long as a page of theirs is not their own (they did not
//! store there), it shows what is stored through the shared one. What the log has for it is written only where it shows something else (`log/shown.rs`).

use linux_abi::general as nr;

use crate::address_space::mapped_files;
use crate::address_space::written_pages::PAGEMAP;
use crate::ground::{kernel, maps, memory, notices, page_entries};
use crate::state::block::space;
use crate::state::own_descriptors::open_high;
use crate::state::report;

const PAGE_BYTES: u64 = 4096;
/// Parts of one mapping with other rights.
const PARTS: usize = 40;

/// A private mapping shows what stands for a shared file.
pub fn note() {
    space().mapped.has_private_views = true;
}

/// A file that was only mapped privately has a shared mapping now, of `object`: the private ones show that, but for the
/// pages that are theirs.
pub fn follow(identity: [u64; 2], object: i32) {
    for place in mapped_files::all().iter().filter(|place| place.is_private && place.identity == identity) {
        let mut parts = [(0, 0, 0); PARTS];
        let mut count = 0;
        maps::for_each(&mut |map| {
            let (start, end) = (map.start.max(place.start), map.end.min(place.end));
            if start < end && count < PARTS {
                parts[count] = (start, end, maps::protection(map));
                count += 1;
            }
        });
        for &(start, end, protection) in &parts[..count] {
            show(start, end, protection, object, place.offset + (start - place.start));
        }
        note();
    }
}

fn show(start: u64, end: u64, protection: u32, object: i32, offset: u64) {
    let bytes = end - start;
    let flags = nr::MAP_PRIVATE | nr::MAP_NORESERVE;
    let made = kernel::mmap(0, bytes, nr::PROT_READ | nr::PROT_WRITE, flags, object, offset);
    if kernel::failed(made) {
        report::stand(
            lane_protocol::report_kind::MISSING,
            made as i32,
            "a private view of a shared file could not be mapped",
        );
    }
    let made = made as u64;
    if protection & nr::PROT_READ == 0 {
        kernel::mprotect(start, bytes, nr::PROT_READ);
    }
    let pagemap = open_high(PAGEMAP);
    page_entries::for_each_entry(pagemap, start, end, &mut |page, entry| {
        if entry.is_none_or(page_entries::is_own) {
            memory::copy(made + (page - start), page, PAGE_BYTES);
        }
    });
    if let Some(pagemap) = pagemap {
        kernel::call(nr::__NR_close, [pagemap as u64, 0, 0, 0, 0, 0]);
    }
    kernel::mprotect(made, bytes, protection);
    let how = u64::from(nr::MREMAP_MAYMOVE | nr::MREMAP_FIXED);
    kernel::call(nr::__NR_mremap, [made, bytes, bytes, how, start, 0]);
    notices::memory_lost(start, bytes);
}
