//! Memory for the pages that increments save: it does not go back, and no child of the
//! program gets it.

use lane_protocol::{STORE_BYTES, STORE_FREE_START, STORE_START};
use linux_abi::general as nr;

use crate::checkpoint::kept_memory::Store;
use crate::ground::kernel;
use crate::ground::owned::Held;

const PAGE_BYTES: u64 = 4096;
/// Pages that are mapped at a time.
const CHUNK_PAGES: u64 = 512;
const CHUNK_BYTES: u64 = CHUNK_PAGES * PAGE_BYTES;
const PAGES_MAX: u64 = STORE_BYTES / PAGE_BYTES;
/// So many stay mapped while nothing is saved.
const IDLE_CHUNKS_MAX: u64 = 8;
/// For as many pages, memory comes in large ones: without a fault for each.
const LARGE_FROM: u64 = CHUNK_PAGES / 4;

/// Maps memory of the runtime's that children of the program do not get.
pub fn map_unforked(start: u64, bytes: u64) -> bool {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
    if kernel::failed(kernel::mmap(start, bytes, 3, flags, -1, 0)) {
        return false;
    }
    kernel::call(nr::__NR_madvise, [start, bytes, u64::from(nr::MADV_DONTFORK), 0, 0, 0]);
    true
}

fn free_list() -> Held<[u32; PAGES_MAX as usize]> {
    // SAFETY: mapped before the first page is; the token's holder uses it alone.
    unsafe { Held::of(STORE_FREE_START as *mut [u32; PAGES_MAX as usize]) }
}

impl Store {
    /// Maps memory for as many pages; false if it is short.
    pub fn reserve(&mut self, pages: u64) -> bool {
        while self.free < pages {
            if !self.grow(pages - self.free >= LARGE_FROM) {
                return false;
            }
        }
        true
    }

    /// The address of a page; `None` if none was reserved.
    pub fn take(&mut self) -> Option<u64> {
        self.free = self.free.checked_sub(1)?;
        Some(STORE_START + u64::from(free_list()[self.free as usize]) * PAGE_BYTES)
    }

    pub fn give(&mut self, page: u64) {
        free_list()[self.free as usize] = ((page - STORE_START) / PAGE_BYTES) as u32;
        self.free += 1;
    }

    fn grow(&mut self, large: bool) -> bool {
        if !self.is_mapped {
            self.is_mapped = map_unforked(STORE_FREE_START, PAGES_MAX * 4);
        }
        let first = self.chunks * CHUNK_PAGES;
        let start = STORE_START + first * PAGE_BYTES;
        if !self.is_mapped || first + CHUNK_PAGES > PAGES_MAX || !map_unforked(start, CHUNK_BYTES) {
            return false;
        }
        if large {
            kernel::call(nr::__NR_madvise, [start, CHUNK_BYTES, u64::from(nr::MADV_HUGEPAGE), 0, 0, 0]);
        }
        self.chunks += 1;
        for page in (first..first + CHUNK_PAGES).rev() {
            free_list()[self.free as usize] = page as u32;
            self.free += 1;
        }
        true
    }

    /// No page is in use any more: gives memory back, if it is much.
    pub fn end_use(&mut self) {
        if self.chunks <= IDLE_CHUNKS_MAX {
            return;
        }
        if self.chunks != 0 {
            kernel::munmap(STORE_START, self.chunks * CHUNK_BYTES);
        }
        if self.is_mapped {
            kernel::munmap(STORE_FREE_START, PAGES_MAX * 4);
        }
        *self = Store { chunks: 0, free: 0, is_mapped: false };
    }
}
