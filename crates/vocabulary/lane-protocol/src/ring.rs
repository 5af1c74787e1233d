//! The counters of a ring of bytes with one producer and one consumer.
//!
//! Positions count all bytes ever written; an index into the ring is a position
//! modulo its size. The hot side only stores its position; it announces progress
//! through a futex word when it crosses a threshold, and when it has to wait.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Counters of a ring, each side's on a cache line of its own.
#[repr(C, align(64))]
pub struct Ring {
    /// Bytes produced. Written by the producer.
    pub head: AtomicU64,
    _head_line: [u64; 7],
    /// Bytes consumed. Written by the consumer.
    pub tail: AtomicU64,
    _tail_line: [u64; 7],
    /// Counts changes that the hot side may sleep for; a futex word.
    pub hot_wake: AtomicU32,
    /// Not zero while the hot side sleeps on `hot_wake`.
    pub hot_sleeping: AtomicU32,
    /// Not zero when the cold side will add no more: the end of the log in replay.
    pub closed: AtomicU32,
    _wake_line: [u32; 13],
}

impl Ring {
    /// An empty ring, for the model checker; a real one is zeroed memory.
    #[cfg(loom)]
    pub fn new() -> Ring {
        Ring {
            head: AtomicU64::new(0),
            _head_line: [0; 7],
            tail: AtomicU64::new(0),
            _tail_line: [0; 7],
            hot_wake: AtomicU32::new(0),
            hot_sleeping: AtomicU32::new(0),
            closed: AtomicU32::new(0),
            _wake_line: [0; 13],
        }
    }

    /// Bytes that can be consumed.
    #[inline]
    pub fn filled_bytes(&self) -> u64 {
        self.head.load(Ordering::Acquire).wrapping_sub(self.tail.load(Ordering::Acquire))
    }

    /// Cold side, after it moved its position: wakes the hot side if it sleeps.
    /// Returns true if the caller has to call futex wake on `hot_wake`.
    ///
    /// The position's store, this fence and the load of `hot_sleeping` pair with
    /// [`Ring::hot_prepare_sleep`]: one of the two sides sees the other.
    pub fn cold_announce(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.hot_sleeping.load(Ordering::Relaxed) != 0 {
            self.hot_wake.fetch_add(1, Ordering::Release);
            return true;
        }
        false
    }

    /// Hot side: announces that it will sleep and returns the value to give to
    /// futex wait. The caller checks the ring once more before it waits, and
    /// calls [`Ring::hot_end_sleep`] afterwards.
    pub fn hot_prepare_sleep(&self) -> u32 {
        let seen = self.hot_wake.load(Ordering::Acquire);
        self.hot_sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        seen
    }

    /// Hot side: it is awake.
    pub fn hot_end_sleep(&self) {
        self.hot_sleeping.store(0, Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Ring>() == 192);
