//! Freezing: the states of the mirror, and how all threads agree on them.
//!
//! *Mirror*: every store is made twice. *Frozen*: the mirror is as it was at one moment, and
//! stores go to the region only. Between them is *hold*: plain stores are already made once,
//! atomic ones wait until the freeze is complete. Whoever waits completes it himself: that is
//! one membarrier and one look at each thread, and depends on nobody's being scheduled.
//!
//! Why the cut is one moment (the end of the fence in `hold`) is argued in
//! docs/adr/0055-the-mirror-is-frozen-by-an-offset-word.md and model-checked in
//! `crates/mirror/region/tests/loom.rs`.

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

use crate::fence;
use crate::layout::MIRROR_DISTANCE;
use crate::sections::{self, CONTROL};
use crate::watch;

/// Stores go to the region only.
pub const FROZEN: u64 = 0;
/// Stores are made twice.
pub const MIRROR: u64 = 1;
/// A freeze is under way.
pub const HOLD: u64 = 2;
/// Bits of the state word that hold one of these.
const KIND: u64 = 3;
/// One generation further.
const GENERATION: u64 = 4;

/// The atomic operations that a thread has begun, as others see them.
pub struct Announcement {
    /// Addresses of the values, with the size's logarithm in the lowest bits; 0 without one.
    /// There are several where signal handlers interrupted one another.
    pending: [AtomicUsize; NESTED_MAX],
    is_used: AtomicBool,
    next: AtomicPtr<Announcement>,
}

/// How many atomic operations of one thread may interrupt each other.
const NESTED_MAX: usize = 8;

/// All announcements that there ever were, the latest first.
static ANNOUNCEMENTS: AtomicPtr<Announcement> = AtomicPtr::new(core::ptr::null_mut());

/// An announcement that is free again when its thread ends.
struct Own(&'static Announcement);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.is_used.store(false, SeqCst);
    }
}

thread_local! {
    static OWN: Own = Own(Announcement::claim());
}

impl Announcement {
    /// One that nobody uses, or a new one: they are as many as threads at one time, and never freed.
    fn claim() -> &'static Announcement {
        for known in all() {
            if !known.is_used.swap(true, SeqCst) {
                return known;
            }
        }
        let new = Box::leak(Box::new(Announcement {
            pending: [const { AtomicUsize::new(0) }; NESTED_MAX],
            is_used: AtomicBool::new(true),
            next: AtomicPtr::default(),
        }));
        let mut head = ANNOUNCEMENTS.load(Acquire);
        loop {
            new.next.store(head, Relaxed);
            match ANNOUNCEMENTS.compare_exchange(head, new, SeqCst, Acquire) {
                Ok(_) => return new,
                Err(other) => head = other,
            }
        }
    }
}

fn all() -> impl Iterator<Item = &'static Announcement> {
    let mut at = ANNOUNCEMENTS.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: announcements are leaked, so that each pointer in the list stays valid.
        let found = unsafe { at.as_ref() }?;
        at = found.next.load(Acquire);
        Some(found)
    })
}

/// Makes a compare-exchange in the region and in its mirror; returns what was there.
///
/// # Safety
/// The address is in the region, aligned to the size, which is 1, 2, 4 or 8.
pub unsafe fn compare_exchange(address: usize, size: usize, expected: u64, new: u64) -> u64 {
    // A store that faults ends its sequence, which would begin again for ever.
    // SAFETY: as the caller says.
    watch::unwatched(address, || unsafe { exchange(address, size, expected, new) })
}

/// # Safety
/// As for `compare_exchange`.
unsafe fn exchange(address: usize, size: usize, expected: u64, new: u64) -> u64 {
    OWN.with(|own| {
        let announced = address << 2 | size.trailing_zeros() as usize;
        let free = own.0.pending.iter().find(|place| place.load(Relaxed) == 0);
        let place = free.expect("signal handlers do not interrupt each other so often");
        place.store(announced, SeqCst);
        let found = loop {
            // SAFETY: as the caller says.
            let done = unsafe {
                match size {
                    1 => sections::exchange1(address, expected & 0xff, new),
                    2 => sections::exchange2(address, expected & 0xffff, new),
                    4 => sections::exchange4(address, expected & 0xffff_ffff, new),
                    _ => sections::exchange8(address, expected, new),
                }
            };
            if done.held == 0 {
                break done.found;
            }
            complete_freeze();
        };
        copy_until_equal(address, size);
        place.store(0, SeqCst);
        found
    })
}

/// Copies a value to its mirror again until nobody has changed it meanwhile.
///
/// Of several threads that do so at once, the one that stores last compares last, and so
/// leaves the mirror as the value is; `crates/mirror/region/tests/loom.rs` has it with two.
fn copy_until_equal(address: usize, size: usize) {
    loop {
        let state = CONTROL.state.load(SeqCst);
        match state & KIND {
            MIRROR => {
                copy_if(address, size, state);
                if load(address, size) == load(address + MIRROR_DISTANCE, size) {
                    return;
                }
            }
            // Whoever completes the freeze copies what is announced.
            HOLD => complete_freeze(),
            _ => return,
        }
    }
}

fn copy_if(address: usize, size: usize, state: u64) {
    let to = address + MIRROR_DISTANCE;
    // SAFETY: the address was announced by a thread that makes an atomic operation there, so
    // that it is aligned, and mapped with its mirror.
    unsafe {
        match size {
            1 => sections::copy_if1(address, to, state),
            2 => sections::copy_if2(address, to, state),
            4 => sections::copy_if4(address, to, state),
            _ => sections::copy_if8(address, to, state),
        }
    }
    core::sync::atomic::fence(SeqCst);
}

/// A value of the region or of the mirror.
pub fn load(address: usize, size: usize) -> u64 {
    use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
    let at = address as *const u8;
    // SAFETY: the address is aligned to the size, and mapped: see `copy_if`.
    unsafe {
        match size {
            1 => u64::from((*at.cast::<AtomicU8>()).load(SeqCst)),
            2 => u64::from((*at.cast::<AtomicU16>()).load(SeqCst)),
            4 => u64::from((*at.cast::<AtomicU32>()).load(SeqCst)),
            _ => (*at.cast::<AtomicU64>()).load(SeqCst),
        }
    }
}

/// Freezes the mirror. One thread at a time may call this, while stores are mirrored.
pub fn freeze() {
    let state = CONTROL.state.load(SeqCst);
    assert_eq!(state & KIND, MIRROR, "the mirror is frozen already");
    CONTROL.state.store(state - MIRROR + HOLD, SeqCst);
    complete_freeze();
}

/// Ends `hold`, whoever began it.
fn complete_freeze() {
    let state = CONTROL.state.load(SeqCst);
    if state & KIND != HOLD {
        return;
    }
    // One who comes late, when this freeze is long over, must not stop mirroring again.
    // SAFETY: it writes the offset word, and nothing else.
    unsafe { sections::clear_offset_if(state) };
    fence::all_threads();
    for place in all().flat_map(|thread| &thread.pending) {
        let pending = place.load(SeqCst);
        if pending != 0 {
            copy_if(pending >> 2, 1 << (pending & 3), state);
        }
    }
    let frozen = state - HOLD + FROZEN;
    // Another one may have done it meanwhile.
    let _ = CONTROL.state.compare_exchange(state, frozen, SeqCst, SeqCst);
}

/// Mirrors stores again. Behind this every store that was not mirrored is visible.
pub fn thaw() {
    let state = CONTROL.state.load(SeqCst);
    assert_eq!(state & KIND, FROZEN, "the mirror is not frozen");
    CONTROL.state.store(state + GENERATION + MIRROR, SeqCst);
    // Nobody who would complete the freeze of before clears the offset behind this.
    fence::all_threads();
    CONTROL.offset.store(MIRROR_DISTANCE, SeqCst);
    fence::all_threads();
}

/// Stops mirroring for good, or in a child that has no checkpoints: no second store is made.
pub fn stop() {
    CONTROL.offset.store(0, SeqCst);
    let state = CONTROL.state.load(SeqCst);
    CONTROL.state.store((state & !KIND) + GENERATION + FROZEN, SeqCst);
}
