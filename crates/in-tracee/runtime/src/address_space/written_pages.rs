//! Finding the pages that are written between two moments: by write protection,
//! or by sums.

use lane_protocol::{SCRATCH_BYTES, SCRATCH_START};
use linux_abi::{errno, general as nr};

use crate::address_space::checksum;
use crate::address_space::writable_ranges::{RANGES_BYTES, Ranges, SCRATCH_FLAGS};
use crate::ground::owned::Owned;
use crate::ground::page_entries::{OF_FILE, POPULATED, for_each_entry};
use crate::ground::{kernel, memory};
use crate::state::own_descriptors::{close, move_high, open_high};
use runtime_logic::range_set::Range;

const PAGE_BYTES: u64 = 4096;
pub const PAGEMAP: &core::ffi::CStr = c"/proc/thread-self/pagemap";

// --- write protection ---

// linux/userfaultfd.h
const UFFD_USER_MODE_ONLY: u64 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_REGISTER_MODE_WP: u64 = 2;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
// linux/fs.h
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PM_SCAN_WP_MATCHING: u64 = 1;
const PM_SCAN_CHECK_WPASYNC: u64 = 2;
const PAGE_IS_WRITTEN: u64 = 2;
const PAGE_IS_FILE: u64 = 4;
const PAGE_IS_PRESENT: u64 = 8;
const PAGE_IS_SWAPPED: u64 = 16;
const PAGE_IS_PFNZERO: u64 = 32;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<Scan>() == 96);

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Writable memory under asynchronous write protection.
///
/// Pages that are not populated are not protected, so that sparse memory costs
/// nothing: one that is populated meanwhile, by reading or writing, counts as
/// written.
pub struct WriteProtection {
    uffd: Uffd,
}

/// A userfaultfd for asynchronous write protection.
pub struct Uffd {
    pub fd: i32,
}

impl Uffd {
    /// `None` where it, or PAGEMAP_SCAN, is refused.
    pub fn open() -> Option<Uffd> {
        let flags = UFFD_USER_MODE_ONLY | u64::from(nr::O_CLOEXEC);
        let fd = move_high(kernel::call(nr::__NR_userfaultfd, [flags, 0, 0, 0, 0, 0]))?;
        let features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
        let mut api = [UFFD_API, features, 0];
        if control(fd, UFFDIO_API, api.as_mut_ptr() as u64).is_none() {
            close(fd);
            return None;
        }
        Some(Uffd { fd })
    }

    pub fn register(&self, start: u64, end: u64) -> bool {
        let mut register = [start, end - start, UFFDIO_REGISTER_MODE_WP, 0];
        control(self.fd, UFFDIO_REGISTER, register.as_mut_ptr() as u64).is_some()
    }

    /// Takes the protection back; nothing happens where there is none.
    pub fn unregister(&self, start: u64, end: u64) {
        let range = [start, end - start];
        let _ = control(self.fd, UFFDIO_UNREGISTER, range.as_ptr() as u64);
    }

    /// The range counts as written, as what is not registered does anyway. False if that fails.
    pub fn count_as_written(&self, start: u64, end: u64) -> bool {
        let range = [start, end - start, 0];
        let place = range.as_ptr() as u64;
        let result = kernel::call(nr::__NR_ioctl, [self.fd as u64, UFFDIO_WRITEPROTECT, place, 0, 0, 0]);
        let is_other = result == -i64::from(errno::ENOENT);
        if is_other && end - start > PAGE_BYTES {
            // What is registered may lie behind it.
            return (start..end)
                .step_by(PAGE_BYTES as usize)
                .all(|at| self.count_as_written(at, at + PAGE_BYTES));
        }
        is_other || !kernel::failed(result)
    }
}

impl WriteProtection {
    /// Protects the ranges; `None`, with nothing changed, where that is refused.
    pub fn begin(ranges: &Ranges) -> Option<WriteProtection> {
        let uffd = Uffd::open()?;
        let protection = WriteProtection { uffd };
        if protection.protect(ranges).is_none() {
            protection.end(ranges);
            return None;
        }
        Some(protection)
    }

    fn protect(&self, ranges: &Ranges) -> Option<()> {
        let pagemap = open_high(PAGEMAP)?;
        let mut ranges = ranges.all().iter();
        let protected = ranges.all(|range| {
            self.uffd.register(range.start, range.end) && protect(pagemap, range.start, range.end)
        });
        close(pagemap);
        protected.then_some(())
    }

    /// Calls `each` with what was written since then; false if that is not known.
    pub fn written(&self, ranges: &Ranges, each: &mut dyn FnMut(u64, u64)) -> bool {
        let Some(pagemap) = open_high(PAGEMAP) else { return false };
        let mut known = true;
        for &Range { start, end, .. } in ranges.all() {
            known = known
                && for_each_part(pagemap, start, end, &mut |start, end| {
                    scan_regions(pagemap, start, end, &WRITTEN, each)
                });
        }
        close(pagemap);
        known
    }

    /// Takes the protection back: mappings are as they were.
    pub fn end(self, ranges: &Ranges) {
        for &Range { start, end, .. } in ranges.all() {
            self.uffd.unregister(start, end);
        }
        close(self.uffd.fd);
    }
}

fn control(fd: i32, request: u64, argument: u64) -> Option<i64> {
    let result = kernel::call(nr::__NR_ioctl, [fd as u64, request, argument, 0, 0, 0]);
    (!kernel::failed(result)).then_some(result)
}

/// Which pages a scan finds, and what it does to them.
struct Wanted {
    /// At which the scan stops; 0: none.
    pages_max: u64,
    flags: u64,
    inverted: u64,
    all: u64,
    any: u64,
}

const WRITTEN: Wanted =
    Wanted { pages_max: 0, flags: PM_SCAN_CHECK_WPASYNC, inverted: 0, all: PAGE_IS_WRITTEN, any: 0 };
const WRITTEN_PROTECTING: Wanted = Wanted { flags: PM_SCAN_CHECK_WPASYNC | PM_SCAN_WP_MATCHING, ..WRITTEN };
/// Nothing but what is populated: else the kernel leaves marks where nothing is, of which nobody can
/// tell whether they are pages that are swapped out.
const WRITTEN_POPULATED: Wanted = Wanted { any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED, ..WRITTEN };
const WRITTEN_POPULATED_PROTECTING: Wanted = Wanted { flags: WRITTEN_PROTECTING.flags, ..WRITTEN_POPULATED };
/// Of the program's own, not a file's that it never wrote to.
const POPULATED_PRIVATE: Wanted = Wanted {
    pages_max: 0,
    flags: 0,
    inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
    all: PAGE_IS_FILE | PAGE_IS_PFNZERO,
    any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
};
/// The same, a few at a time.
const POPULATED_PRIVATE_FEW: Wanted = Wanted { pages_max: 512, ..POPULATED_PRIVATE };
const POPULATED_SHARED: Wanted =
    Wanted { pages_max: 0, flags: 0, inverted: 0, all: 0, any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED };

const POPULATED_FIRST: Wanted = Wanted { pages_max: 1, ..POPULATED_SHARED };

/// So many that were written one after the other are the program's own.
const FEW_PAGES: u64 = 8;

/// Where nothing is populated, marks would need page tables of their own: 2 GB for a terabyte, and
/// a sanitizer's shadow has many. So longer ranges than this are looked at in parts of as much, and
/// those where nothing is are left out. What is populated there later counts as written.
const PART_BYTES: u64 = 16 << 20;

/// Calls `each` with the parts of a range where something is populated. It says whether it wants
/// more; false where it does not.
pub fn for_each_part(pagemap: i32, start: u64, end: u64, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
    let mut at = start;
    while end - at > PART_BYTES {
        let Some(first) = next_populated(pagemap, at, end) else { break };
        if first >= end {
            return true;
        }
        let part = first & !(PART_BYTES - 1);
        let part_end = (part + PART_BYTES).min(end);
        if !each(part.max(at), part_end) {
            return false;
        }
        at = part_end;
    }
    at >= end || each(at, end)
}

/// Protects the parts of a range that is registered where something is populated; false if that
/// fails.
pub fn protect(pagemap: i32, start: u64, end: u64) -> bool {
    for_each_part(pagemap, start, end, &mut |start, end| {
        scan(pagemap, start, end, &WRITTEN_PROTECTING, &mut []).is_some()
    })
}

/// The same of the pages that are populated: what comes to be there later counts as written.
pub fn protect_populated(pagemap: i32, start: u64, end: u64) -> bool {
    for_each_part(pagemap, start, end, &mut |start, end| {
        scan(pagemap, start, end, &WRITTEN_POPULATED_PROTECTING, &mut []).is_some()
    })
}

/// The same of as much of the range as is registered.
pub fn protect_registered(pagemap: i32, start: u64, end: u64) -> bool {
    let wanted = Wanted { flags: PM_SCAN_WP_MATCHING, ..WRITTEN_POPULATED };
    scan(pagemap, start, end, &wanted, &mut []).is_some()
}

/// Calls `each` with what was written since it was protected, and protects it again;
/// false if a part of the range is not registered.
pub fn scan_written(pagemap: i32, start: u64, end: u64, each: &mut dyn FnMut(u64, u64)) -> bool {
    scan_regions(pagemap, start, end, &WRITTEN_PROTECTING, each)
}

/// Calls `each` with what was written of what was protected by [`protect_populated`], but for most of
/// what a file has; `again` protects it again. `each` says whether it wants more; false where it
/// does not, too.
pub fn scan_written_private(
    pagemap: i32,
    range: &Range,
    again: bool,
    each: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    // Whether a page was written, and is there, stands in the page tables. What it is does not: to
    // ask for all at a time costs five times as much, written or not. Where nothing is, all counts as
    // written, and that is mostly much at a time.
    let wanted = if again { &WRITTEN_POPULATED_PROTECTING } else { &WRITTEN };
    for_each_part(pagemap, range.start, range.end, &mut |start, end| {
        scan_while(pagemap, start, end, wanted, &mut |start, end| {
            // Few pages are dearer to ask for than to take, if one of them is nobody's.
            if end - start <= FEW_PAGES * PAGE_BYTES {
                return each(start, end);
            }
            scan_while(pagemap, start, end, &POPULATED_PRIVATE_FEW, each)
        })
    })
}

/// Calls `each` with what is populated and may differ from a file's content; all,
/// where the kernel does not tell.
pub fn scan_populated(pagemap: i32, start: u64, end: u64, shared: bool, each: &mut dyn FnMut(u64, u64)) {
    let wanted = if shared { &POPULATED_SHARED } else { &POPULATED_PRIVATE };
    if scan_regions(pagemap, start, end, wanted, each) {
        return;
    }
    for_each_entry(Some(pagemap), start, end, &mut |page, entry| {
        let own = |entry| entry & POPULATED != 0 && (shared || entry & OF_FILE == 0);
        if entry.is_none_or(own) {
            each(page, page + PAGE_BYTES);
        }
    });
}

/// The first page at `start` or behind it that is populated, or `end`; `None` where
/// the kernel does not tell.
pub fn next_populated(pagemap: i32, start: u64, end: u64) -> Option<u64> {
    let mut regions = [Region::default(); 1];
    let (found, _) = scan(pagemap, start, end, &POPULATED_FIRST, &mut regions)?;
    Some(if found == 0 { end } else { regions[0].start.max(start) })
}

/// How many pages of the program's own are populated, but at most so many; `None` where
/// the kernel does not tell.
pub fn count_populated(pagemap: i32, start: u64, end: u64, pages_max: u64) -> Option<u64> {
    let (mut at, mut count) = (start, 0);
    while at < end && count < pages_max {
        let mut regions = [Region::default(); 64];
        let wanted = Wanted { pages_max: pages_max - count, ..POPULATED_PRIVATE };
        let (found, walk_end) = scan(pagemap, at, end, &wanted, &mut regions)?;
        let pages = |region: &Region| (region.end - region.start) / PAGE_BYTES;
        count += regions[..found.min(regions.len())].iter().map(pages).sum::<u64>();
        at = if walk_end > at { walk_end } else { end };
    }
    Some(count)
}

/// Calls `each` with all regions; false if the kernel refuses.
fn scan_regions(pagemap: i32, start: u64, end: u64, wanted: &Wanted, each: &mut dyn FnMut(u64, u64)) -> bool {
    scan_while(pagemap, start, end, wanted, &mut |start, end| {
        each(start, end);
        true
    })
}

/// The same while `each` wants more; false where it does not, too.
fn scan_while(
    pagemap: i32,
    start: u64,
    end: u64,
    wanted: &Wanted,
    each: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    let mut at = start;
    while at < end {
        let mut regions = [Region::default(); 64];
        let Some((found, walk_end)) = scan(pagemap, at, end, wanted, &mut regions) else {
            return false;
        };
        for region in &regions[..found.min(regions.len())] {
            if !each(region.start, region.end) {
                return false;
            }
        }
        // Behind a full vector the walk ends early.
        at = if walk_end > at { walk_end } else { end };
    }
    true
}

/// Finds pages: how many regions, and where the walk ended.
fn scan(pagemap: i32, start: u64, end: u64, wanted: &Wanted, regions: &mut [Region]) -> Option<(usize, u64)> {
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: wanted.flags,
        start,
        end,
        vec: if regions.is_empty() { 0 } else { regions.as_mut_ptr() as u64 },
        vec_len: regions.len() as u64,
        max_pages: wanted.pages_max,
        category_inverted: wanted.inverted,
        category_mask: wanted.all,
        category_anyof_mask: wanted.any,
        return_mask: PAGE_IS_WRITTEN,
        ..Scan::default()
    };
    let found = control(pagemap, PAGEMAP_SCAN, &raw mut scan as u64)?;
    Some((found as usize, scan.walk_end))
}

// --- sums ---

/// Where the sums are: behind the list of ranges.
const SUMS_START: u64 = SCRATCH_START + RANGES_BYTES;
/// Most populated pages: 15 GiB.
const SUMS_MAX: usize = ((SCRATCH_BYTES - RANGES_BYTES) / 16) as usize;
const SUMS_BYTES: u64 = SUMS_MAX as u64 * 16;
/// The sum of a page that is not populated, and that of one that cannot be read
/// (behind the end of a file). Sums of content are odd.
const NOTHING: u64 = 0;

static PAGE: Owned<[u64; 512]> = Owned::new([0; 512]);

/// The addresses and sums of all populated pages, in the order of addresses.
pub struct PageSums {
    count: usize,
}

impl PageSums {
    /// Sums the ranges; `None` if more is populated than this method can hold.
    pub fn begin(ranges: &Ranges) -> Option<PageSums> {
        if kernel::failed(kernel::mmap(SUMS_START, SUMS_BYTES, 3, SCRATCH_FLAGS, -1, 0)) {
            return None;
        }
        let mut count = 0;
        for_each_page(ranges, &mut |page, populated| {
            if !populated {
                return;
            }
            if count < SUMS_MAX {
                // SAFETY: below the maximum, inside of the mapping made above.
                unsafe { (SUMS_START as *mut [u64; 2]).add(count).write([page, sum(page)]) };
            }
            count += 1;
        });
        let sums = PageSums { count };
        if count > SUMS_MAX {
            sums.end();
            return None;
        }
        Some(sums)
    }

    /// Calls `each` with what differs now.
    pub fn written(&self, ranges: &Ranges, each: &mut dyn FnMut(u64, u64)) {
        // SAFETY: `begin` wrote as many.
        let mut before = unsafe { core::slice::from_raw_parts(SUMS_START as *const [u64; 2], self.count) };
        for_each_page(ranges, &mut |page, populated| {
            let mut old = NOTHING;
            if let Some((&[first, sum], rest)) = before.split_first()
                && first == page
            {
                old = sum;
                before = rest;
            }
            if populated || old != NOTHING {
                let now = sum(page);
                if now != old && now != NOTHING {
                    each(page, page + PAGE_BYTES);
                }
            }
        });
        assert!(before.is_empty());
    }

    /// Gives the memory back.
    pub fn end(self) {
        kernel::munmap(SUMS_START, SUMS_BYTES);
    }
}

/// The odd sum of a page's content, or [`NOTHING`].
fn sum(page: u64) -> u64 {
    let copy = PAGE.get() as u64;
    if !memory::copy(copy, page, PAGE_BYTES) {
        return NOTHING;
    }
    checksum::page_sum(copy) | 1
}

/// Calls `each` with the address of every page and whether it is populated.
fn for_each_page(ranges: &Ranges, each: &mut dyn FnMut(u64, bool)) {
    let pagemap = open_high(PAGEMAP);
    for range in ranges.all() {
        for_each_entry(pagemap, range.start, range.end, &mut |page, entry| {
            // What pagemap does not tell counts as populated.
            each(page, entry.is_none_or(|entry| entry & POPULATED != 0));
        });
    }
    if let Some(pagemap) = pagemap {
        close(pagemap);
    }
}
