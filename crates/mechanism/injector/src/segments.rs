//! Which segments of a session's memory are in use, taken and given back.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::futex::futex_wake;
use crate::lane::Segment;
use crate::session_memory::SessionMemory;

impl SessionMemory {
    /// Segments in use.
    pub fn segments_in_use(&self) -> Vec<Segment> {
        let mut found = Vec::new();
        for index in 0..self.segments() / 64 {
            let mut bits = self.segment_word(index).load(Ordering::Acquire);
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                found.extend(Segment::new(index * 64 + bit));
            }
        }
        found
    }

    /// Gives a segment back: it is cleared, and its bit last of all.
    pub fn free_segment(&self, segment: Segment) {
        self.lane(segment).clear();
        // SAFETY: the session's header is mapped as long as `self`; atomics may be shared.
        let gone = unsafe { &(*self.session()).gone[segment.index()] };
        gone.fetch_add(1, Ordering::AcqRel);
        futex_wake(gone);
        self.unborn(segment).store(0, Ordering::Release);
        let bit = 1 << (segment.index() % 64);
        self.segment_word(segment.index() / 64).fetch_and(!bit, Ordering::AcqRel);
    }

    /// Recording: who is to have a segment and share memory: see `Session::unborn`.
    pub(crate) fn unborn(&self, segment: Segment) -> &AtomicI32 {
        // SAFETY: the session's header is mapped as long as `self`; atomics may be shared.
        unsafe { &(*self.session()).unborn[segment.index()] }
    }

    /// Takes a free segment, if there is one.
    pub fn take_segment(&self) -> Option<Segment> {
        for index in 0..self.segments() / 64 {
            let word = self.segment_word(index);
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let free = (!bits).trailing_zeros();
                match word.compare_exchange_weak(bits, bits | 1 << free, Ordering::AcqRel, Ordering::Relaxed)
                {
                    Ok(_) => return Segment::new(index * 64 + free as usize),
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    fn segment_word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the session's header is mapped as long as `self`; atomics may be shared.
        unsafe { &(*self.session()).segments[index] }
    }
}
