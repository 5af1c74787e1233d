//! Memory for the disassembler, which is used at preemption points only: handed out
//! once, never given back.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::ground::owned::Owned;

const ARENA_BYTES: usize = 2 << 20;

struct Arena {
    bytes: Owned<[u8; ARENA_BYTES]>,
    used: AtomicUsize,
}

#[global_allocator]
static ARENA: Arena = Arena { bytes: Owned::new([0; ARENA_BYTES]), used: AtomicUsize::new(0) };

// SAFETY: every block lies in the arena, aligned as asked, and is handed out once.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get() as usize;
        let used = self.used.load(Ordering::Relaxed);
        let at = (start + used).next_multiple_of(layout.align());
        let end = at + layout.size() - start;
        if end > ARENA_BYTES {
            return core::ptr::null_mut();
        }
        self.used.store(end, Ordering::Relaxed);
        at as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
