//! Which files the program has mapped: when it writes to one of them by a system
//! call, the kernel changes its memory too, and the log has to say so.

use events::Tag;
use linux_abi::general as nr;

use crate::block::{process, space};
use crate::{kernel, outputs};

const FILES: usize = 256;

/// A file's mapping.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mapped {
    start: u64,
    end: u64,
    identity: [u64; 2],
    offset: u64,
    writes_shared: bool,
}

/// The mappings of an address space.
#[repr(C)]
pub struct MappedFiles {
    files: [Mapped; FILES],
    count: usize,
}

fn all() -> &'static mut [Mapped] {
    let mapped = &mut space().mapped;
    &mut mapped.files[..mapped.count]
}

/// Notes a new mapping. Descriptors that were looked at before may reach it.
pub fn note(start: u64, end: u64, identity: [u64; 2], offset: u64, writes_shared: bool) {
    let mapped = &mut space().mapped;
    if mapped.count < FILES {
        mapped.files[mapped.count] = Mapped { start, end, identity, offset, writes_shared };
        mapped.count += 1;
    }
    outputs::forget_range(0, u64::from(u32::MAX));
}

/// True if a new mapping would show the same memory as another, and one of them is
/// written: replay, which maps copies, could not follow.
pub fn has_alias(identity: [u64; 2], writes_shared: bool) -> bool {
    all().iter().any(|file| file.identity == identity && (writes_shared || file.writes_shared))
}

/// True if the file is mapped.
pub fn is_mapped(identity: [u64; 2]) -> bool {
    all().iter().any(|file| file.identity == identity)
}

/// Memory went away.
pub fn forget(start: u64, bytes: u64) {
    let end = start.saturating_add(bytes);
    let mapped = &mut space().mapped;
    let mut index = 0;
    while index < mapped.count {
        let file = mapped.files[index];
        if start <= file.start && file.end <= end {
            mapped.count -= 1;
            mapped.files[index] = mapped.files[mapped.count];
        } else {
            index += 1;
        }
    }
}

/// Memory moved or grew.
pub fn moved(old: u64, old_bytes: u64, new: u64, new_bytes: u64) {
    for file in all() {
        if file.start <= old && old < file.end {
            file.offset += old - file.start;
            file.start = new;
            file.end = new + new_bytes.max(if old_bytes == 0 { new_bytes } else { 0 });
        }
    }
}

/// A new image has mappings of its own.
pub fn reset() {
    space().mapped.count = 0;
}

/// The program wrote to a mapped file through a descriptor: logs what the
/// mappings show now, as blobs of the event at hand.
#[cold]
pub fn log_written(fd: u64, position: Option<u64>, bytes: u64) {
    let mut stat = [0u64; 18];
    if kernel::failed(kernel::call(nr::__NR_fstat, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0])) {
        return;
    }
    let identity = [stat[0], stat[1]];
    let from = position.unwrap_or_else(|| {
        const SEEK_CUR: u64 = 1;
        (kernel::call(nr::__NR_lseek, [fd, 0, SEEK_CUR, 0, 0, 0]) as u64).wrapping_sub(bytes)
    });
    let to = from.saturating_add(bytes);
    for file in all().iter().filter(|file| file.identity == identity) {
        let file_end = file.offset + (file.end - file.start);
        let (first, last) = (from.max(file.offset), to.min(file_end));
        if first < last {
            let address = file.start + (first - file.offset);
            process().log.blob(address, last - first, Tag::Memory, address);
        }
    }
}
