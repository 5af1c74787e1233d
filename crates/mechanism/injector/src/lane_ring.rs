//! The bytes of a lane's ring: out of it, into it, and what is left in it.

use std::sync::atomic::Ordering;

use lane_protocol::RING_BYTES;

use crate::lane::Lane;

/// The counters of a ring contradict each other: the program wrote over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the counters of a lane's ring are damaged: the program overwrote them")]
pub struct RingDamaged;

impl Lane<'_> {
    /// Appends to `to` what the ring holds behind its first `taken` bytes, which were read
    /// before; it stays there until [`Lane::release`]. Returns how many bytes there were.
    ///
    /// # Errors
    /// [`RingDamaged`] when the counters are impossible.
    pub fn copy_out(&self, taken: u64, to: &mut Vec<u8>) -> Result<usize, RingDamaged> {
        let ring = self.ring();
        let head = ring.head.load(Ordering::Acquire);
        let from = ring.tail.load(Ordering::Relaxed).wrapping_add(taken);
        let new_bytes = head.wrapping_sub(from);
        if new_bytes > RING_BYTES || new_bytes + taken > RING_BYTES {
            return Err(RingDamaged);
        }
        self.append_span(from, new_bytes, to);
        Ok(new_bytes as usize)
    }

    /// Appends so many bytes, at most [`RING_BYTES`], of the ring from a position on.
    fn append_span(&self, from: u64, len_bytes: u64, to: &mut Vec<u8>) {
        let (first, second) = spans(from, len_bytes);
        to.reserve(len_bytes as usize);
        for (start, len_bytes) in [first, second] {
            // SAFETY: both spans lie inside of the ring; `to` has the room. The
            // producer does not write there before it sees the new tail; a program
            // that breaks this rule spoils its own log, whose reader trusts nothing.
            unsafe {
                let end = to.as_mut_ptr().add(to.len());
                std::ptr::copy_nonoverlapping(self.ring_start().add(start), end, len_bytes);
                to.set_len(to.len() + len_bytes);
            }
        }
    }

    /// The log from a position on, as far as the ring still holds it, of a process that nobody
    /// reads any more. The process may have written on behind what is there, into other memory.
    pub fn left_behind(&self, position: u64) -> Vec<u8> {
        let ring = self.ring();
        let (head, tail) = (ring.head.load(Ordering::Acquire), ring.tail.load(Ordering::Acquire));
        let filled_bytes = head.saturating_sub(tail).min(RING_BYTES);
        let mut bytes = Vec::new();
        // What was written to the trace, and not released.
        let known_bytes = position.checked_sub(tail).filter(|known| *known <= filled_bytes);
        if let Some(known_bytes) = known_bytes {
            self.append_span(position, filled_bytes - known_bytes, &mut bytes);
        }
        bytes
    }

    /// Frees the first `taken` bytes of the ring, which are kept elsewhere now, and wakes the
    /// producer if it waits for space.
    pub fn release(&self, taken: u64) {
        if taken != 0 {
            self.ring().tail.fetch_add(taken, Ordering::Release);
            self.announce();
        }
    }

    /// True while the producer waits for space.
    pub fn waits_for_space(&self) -> bool {
        self.ring().hot_sleeping.load(Ordering::Acquire) != 0
    }

    /// Puts as much of `from` into the ring as there is space for and wakes the
    /// consumer if it waits. Returns how many bytes went in.
    ///
    /// # Errors
    /// [`RingDamaged`] when the counters are impossible.
    pub fn copy_in(&self, from: &[u8]) -> Result<usize, RingDamaged> {
        let len_bytes = self.put(from)?;
        if len_bytes != 0 {
            self.announce();
        }
        Ok(len_bytes)
    }

    fn put(&self, from: &[u8]) -> Result<usize, RingDamaged> {
        let ring = self.ring();
        let head = ring.head.load(Ordering::Relaxed);
        let filled_bytes = head.wrapping_sub(ring.tail.load(Ordering::Acquire));
        let space_bytes = RING_BYTES.checked_sub(filled_bytes).ok_or(RingDamaged)?;
        let len_bytes = space_bytes.min(from.len() as u64);
        let (first, second) = spans(head, len_bytes);
        let mut rest = from;
        for (start, span_bytes) in [first, second] {
            let (part, tail) = rest.split_at(span_bytes);
            // SAFETY: both spans lie inside of the ring, in the part that is free:
            // the consumer does not read there before it sees the new head.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.ring_start().add(start), span_bytes) };
            rest = tail;
        }
        ring.head.store(head.wrapping_add(len_bytes), Ordering::Release);
        Ok(len_bytes as usize)
    }

    /// Puts one whole event into the ring for a process that stands still and
    /// cannot itself; false if there is no space now. The consumer looks at rings
    /// by itself, so nobody is woken.
    pub(crate) fn put_for_stopped(&self, event: &[u8]) -> bool {
        let ring = self.ring();
        let filled_bytes = ring.head.load(Ordering::Relaxed).wrapping_sub(ring.tail.load(Ordering::Acquire));
        RING_BYTES.checked_sub(filled_bytes).is_some_and(|space| space >= event.len() as u64)
            && self.put(event) == Ok(event.len())
    }

    /// Replay: where the process is in its log, in bytes, and the first words that come next. The
    /// process may go on meanwhile: they mean something where it has not.
    pub fn next_words(&self) -> (u64, [u64; 17]) {
        let tail = self.ring().tail.load(Ordering::Acquire);
        // SAFETY: inside of the ring, by whole words.
        let word = |index: usize| unsafe {
            self.ring_start().add(spans(tail + index as u64 * 8, 8).0.0).cast::<u64>().read()
        };
        (tail, std::array::from_fn(word))
    }
}

/// Where `len_bytes` from a position on lie in the ring: start and length of the
/// part before its end and of the part that wrapped around.
fn spans(position: u64, len_bytes: u64) -> ((usize, usize), (usize, usize)) {
    let start = position % RING_BYTES;
    let first_bytes = len_bytes.min(RING_BYTES - start);
    ((start as usize, first_bytes as usize), (0, (len_bytes - first_bytes) as usize))
}

#[cfg(test)]
mod tests {
    use lane_protocol::lane_state;

    use super::*;
    use crate::Segment;
    use crate::session_memory::{Features, SessionMemory, Setup};
    use lane_protocol::{Interception, Mode};

    fn memory() -> SessionMemory {
        SessionMemory::create(&Setup {
            mode: Mode::Record,
            interception: Interception::UserDispatch,
            features: Features {
                has_proc: true,
                user_dispatch: true,
                seccomp_trap: true,
                cpuid_faulting: false,
                yama_scope: 0,
            },
            check_every_events: 0,
            rewriting_off: false,
            detection: lane_protocol::Detection::Best,
            detect_all: false,
            chaos_seed: None,
            schedule: None,
            refers: false,
            real: lane_protocol::RealStreams::None,
            live: None,
            running: None,
            files_dir: None,
            objects_dir: None,
            show_output: false,
            wanted_lanes: None,
            debugged_lane: None,
        })
        .expect("memory for the test")
    }

    #[test]
    fn what_goes_in_comes_out_across_the_end_of_the_ring() {
        let memory = memory();
        let lane = memory.lane(Segment::new(3).expect("below the bound"));
        let pattern: Vec<u8> = (0..251u8).collect();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let near_end = RING_BYTES - 100;
        lane.ring().head.store(near_end, Ordering::Relaxed);
        lane.ring().tail.store(near_end, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(lane.copy_in(&pattern), Ok(pattern.len()));
            sent.extend_from_slice(&pattern);
            assert_eq!(lane.copy_out(0, &mut received), Ok(pattern.len()));
            lane.release(pattern.len() as u64);
        }
        assert_eq!(received, sent);
        assert_eq!(lane.copy_out(0, &mut received), Ok(0));
    }

    #[test]
    fn what_is_not_released_stays_and_is_copied_once() {
        let memory = memory();
        let lane = memory.lane(Segment::FIRST);
        let mut out = Vec::new();
        assert_eq!(lane.copy_in(b"first"), Ok(5));
        assert_eq!(lane.copy_out(0, &mut out), Ok(5));
        assert_eq!(lane.copy_in(b"second"), Ok(6));
        assert_eq!(lane.copy_out(5, &mut out), Ok(6));
        assert_eq!(out, b"firstsecond");
        let rest = vec![7; RING_BYTES as usize];
        assert_eq!(lane.copy_in(&rest), Ok(RING_BYTES as usize - 11));
        lane.release(11);
        assert_eq!(lane.copy_in(&rest), Ok(11));
        assert_eq!(lane.copy_out(RING_BYTES + 1, &mut out), Err(RingDamaged));
    }

    #[test]
    fn a_full_ring_takes_no_more_than_its_size() {
        let memory = memory();
        let lane = memory.lane(Segment::FIRST);
        lane.ring().head.store(77, Ordering::Relaxed);
        lane.ring().tail.store(77, Ordering::Relaxed);
        let bytes: Vec<u8> = (0..RING_BYTES as usize + 5).map(|index| (index / 3) as u8).collect();
        assert_eq!(lane.copy_in(&bytes), Ok(RING_BYTES as usize));
        assert_eq!(lane.copy_in(&bytes), Ok(0));
        assert!(!lane.put_for_stopped(&[0; 8]));
        let mut out = Vec::new();
        assert_eq!(lane.copy_out(0, &mut out), Ok(RING_BYTES as usize));
        assert_eq!(out, bytes[..RING_BYTES as usize]);
    }

    #[test]
    fn positions_may_wrap_around_and_damage_is_noticed() {
        let memory = memory();
        let lane = memory.lane(Segment::FIRST);
        lane.ring().head.store(u64::MAX - 3, Ordering::Relaxed);
        lane.ring().tail.store(u64::MAX - 3, Ordering::Relaxed);
        let mut out = Vec::new();
        assert_eq!(lane.copy_in(&[1, 2, 3, 4, 5, 6, 7, 8]), Ok(8));
        assert_eq!(lane.copy_out(0, &mut out), Ok(8));
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
        lane.ring().tail.store(lane.ring().head.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        assert_eq!(lane.copy_out(0, &mut out), Err(RingDamaged));
        assert_eq!(lane.copy_in(&[0; 8]), Err(RingDamaged));
    }

    #[test]
    fn segments_are_taken_and_given_back() {
        let memory = memory();
        assert_eq!(memory.segments_in_use(), [Segment::FIRST]);
        assert_eq!(memory.lane(Segment::FIRST).ids(), (0, u32::MAX));
        memory.free_segment(Segment::FIRST);
        assert!(memory.segments_in_use().is_empty());
        assert_eq!(memory.lane(Segment::FIRST).state().load(Ordering::Relaxed), lane_state::UNBORN);
    }
}
