//! A lane's segment as the supervisor sees it: states, request, report, ring.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use lane_protocol::{
    Birth, CHECKPOINTS_MAX, Change, Checkpoint, Command, LANE_HEADER_BYTES, LaneHeader, Missing, RING_BYTES,
    Report, Request, Ring, SEGMENTS, TurnSleepers, command, lane_state, request,
};

use crate::futex::{futex_wait, futex_wake};
use std::time::Duration;

/// Index of a segment: below [`SEGMENTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment(usize);

impl Segment {
    /// The segment of the first process.
    pub const FIRST: Segment = Segment(0);

    /// The segment with this index, if there is one.
    pub fn new(index: usize) -> Option<Segment> {
        (index < SEGMENTS).then_some(Segment(index))
    }

    /// Its index.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The counters of a ring contradict each other: the program wrote over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the counters of a lane's ring are damaged: the program overwrote them")]
pub struct RingDamaged;

/// A lane's segment. Plain fields are read and written as values, so that no
/// reference to memory that the other side changes exists.
#[derive(Clone, Copy)]
pub struct Lane<'session> {
    header: *mut LaneHeader,
    ring: *mut u8,
    _session: PhantomData<&'session ()>,
}

// SAFETY: a view of shared memory that is accessed as `SessionMemory` says.
unsafe impl Send for Lane<'_> {}
// SAFETY: as above.
unsafe impl Sync for Lane<'_> {}

impl<'session> Lane<'session> {
    /// # Safety
    /// `segment` is the start of a segment that stays mapped for `'session`.
    pub(crate) unsafe fn new(segment: *mut u8) -> Lane<'session> {
        // SAFETY: a segment is a header and, behind it, a ring.
        let ring = unsafe { segment.add(LANE_HEADER_BYTES as usize) };
        Lane { header: segment.cast(), ring, _session: PhantomData }
    }

    pub(crate) fn header(&self) -> *mut LaneHeader {
        self.header
    }

    pub(crate) fn set_lane(&self, lane: u32, parent: u32) {
        self.number(lane, parent);
    }

    fn number(&self, lane: u32, parent: u32) {
        // SAFETY: see `Lane::new`; the fields are atomics.
        unsafe {
            (*self.header).lane.store(lane, Ordering::Relaxed);
            (*self.header).parent_lane.store(parent, Ordering::Relaxed);
        }
    }

    /// The lane's id and its parent's.
    pub fn ids(&self) -> (u32, u32) {
        // SAFETY: see `Lane::new`; the fields are atomics.
        unsafe {
            ((*self.header).lane.load(Ordering::Relaxed), (*self.header).parent_lane.load(Ordering::Relaxed))
        }
    }

    /// What the runtime reports (replay). Meaningful in state REPORTED.
    pub fn report(&self) -> ReportCopy {
        // SAFETY: see `Lane::new`. All fields are numbers, for which any bits are
        // valid; the process stands still and writes no more.
        unsafe {
            let report: *const Report = &raw const (*self.header).report;
            ReportCopy {
                kind: (*report).kind.load(Ordering::Acquire),
                code: (&raw const (*report).code).read_volatile(),
                event: (&raw const (*report).event).read_volatile(),
                expected_header: (&raw const (*report).expected_header).read_volatile(),
                expected: (&raw const (*report).expected).read_volatile(),
                got_number: (&raw const (*report).got_number).read_volatile(),
                got: (&raw const (*report).got).read_volatile(),
                registers: (&raw const (*report).registers).read_volatile(),
                text: {
                    let text = (&raw const (*report).text).read_volatile();
                    let bytes = (&raw const (*report).text_bytes).read_volatile() as usize;
                    String::from_utf8_lossy(&text[..bytes.min(text.len())]).into_owned()
                },
            }
        }
    }

    pub(crate) fn set_birth(&self, birth: &Birth) {
        // SAFETY: see `Lane::new`; the process stands at its birth, so that this
        // side is the only one that uses the field.
        unsafe { (&raw mut (*self.header).birth).write_volatile(*birth) }
    }

    /// Makes the segment as good as new, except for its bit.
    pub(crate) fn clear(&self) {
        // Who sees one of the words below cleared sees that the lane is over.
        self.state().store(lane_state::ENDED, Ordering::SeqCst);
        let ring = self.ring();
        for word in [
            &ring.head,
            &ring.tail,
            self.waits_for_output(),
            self.events_done(),
            self.waits_for_ticket(),
            self.told_death_at(),
        ] {
            word.store(0, Ordering::Relaxed);
        }
        let mailbox = self.mailbox();
        for word in [
            &ring.hot_sleeping,
            &ring.closed,
            self.turn(),
            self.has_ticket(),
            self.goes_again(),
            self.dying(),
            self.takes_part(),
            &mailbox.kind,
            &mailbox.phase,
        ] {
            word.store(0, Ordering::Release);
        }
        self.turn_sleepers().clear();
        self.request().state.store(request::NONE, Ordering::Relaxed);
        self.pid().store(0, Ordering::Relaxed);
        self.waited_pid().store(0, Ordering::Relaxed);
        // SAFETY: see `Lane::new`; the field is an atomic.
        unsafe { (*self.header).report.kind.store(0, Ordering::Relaxed) };
        self.clear_agent();
        self.state().store(lane_state::FREE, Ordering::Release);
    }

    /// Appends all that the ring holds to `to`, frees it, and wakes the producer
    /// if it waits for space. Returns how many bytes there were.
    ///
    /// # Errors
    /// [`RingDamaged`] when the counters are impossible.
    pub fn copy_out(&self, to: &mut Vec<u8>) -> Result<usize, RingDamaged> {
        let ring = self.ring();
        let head = ring.head.load(Ordering::Acquire);
        let tail = ring.tail.load(Ordering::Relaxed);
        let filled_bytes = head.wrapping_sub(tail);
        if filled_bytes > RING_BYTES {
            return Err(RingDamaged);
        }
        if filled_bytes == 0 {
            return Ok(0);
        }
        let (first, second) = spans(tail, filled_bytes);
        to.reserve(filled_bytes as usize);
        for (start, len_bytes) in [first, second] {
            // SAFETY: both spans lie inside of the ring; `to` has the room. The
            // producer does not write there before it sees the new tail; a program
            // that breaks this rule spoils its own log, whose reader trusts nothing.
            unsafe {
                let end = to.as_mut_ptr().add(to.len());
                std::ptr::copy_nonoverlapping(self.ring.add(start), end, len_bytes);
                to.set_len(to.len() + len_bytes);
            }
        }
        ring.tail.store(head, Ordering::Release);
        self.announce();
        Ok(filled_bytes as usize)
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
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.ring.add(start), span_bytes) };
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
            self.ring.add(spans(tail + index as u64 * 8, 8).0.0).cast::<u64>().read()
        };
        (tail, std::array::from_fn(word))
    }

    /// Replay: no more will come.
    pub fn close(&self) {
        self.ring().closed.store(1, Ordering::Release);
        self.announce();
    }

    /// Live: both ends of the ring are at a position of the log; it is empty and open.
    /// The process waits for an answer meanwhile.
    pub fn go_to(&self, position: u64) {
        let ring = self.ring();
        ring.closed.store(0, Ordering::Relaxed);
        ring.tail.store(position, Ordering::Relaxed);
        ring.head.store(position, Ordering::Release);
    }

    /// Live: gives the process a command and waits for its answer, a negated errno if
    /// it is negative. `None`: `waits` says, again and again, that it is no longer waited for.
    pub fn command(&self, kind: u32, argument: u64, waits: &mut dyn FnMut() -> bool) -> Option<i32> {
        let command = self.mailbox();
        let mut wait = |seen: u32| {
            futex_wait(&command.kind, seen, Duration::from_millis(20));
            waits()
        };
        while let Err(seen) = command.kind.compare_exchange(
            command::NONE,
            command::CLAIMED,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            if !wait(seen) {
                return None;
            }
        }
        command.argument.store(argument, Ordering::Relaxed);
        command.kind.store(kind, Ordering::Release);
        futex_wake(&command.kind);
        while command.kind.load(Ordering::Acquire) == kind {
            if !wait(kind) {
                return None;
            }
        }
        Some(command.answer.load(Ordering::Relaxed))
    }

    /// Live: somebody waits for the command that the process has, or is about to be given. To be
    /// repeated while that lasts.
    pub fn hurry(&self) {
        self.mailbox().urgent.store(1, Ordering::Relaxed);
    }

    /// Live: how far the process is with its command, a [`lane_protocol::command_phase`], and how
    /// many threads have not come to a stand.
    pub fn command_phase(&self) -> (u32, u32) {
        let command = self.mailbox();
        (command.phase.load(Ordering::Acquire), command.missing.load(Ordering::Relaxed))
    }

    fn announce(&self) {
        if self.ring().cold_announce() {
            futex_wake(&self.ring().hot_wake);
        }
    }

    /// Live: asks the shadow of a checkpoint for an image in the ring of a segment, which is
    /// this side's; to be repeated until it has begun.
    pub fn ask_for_image(&self, at: &Checkpoint, into: Segment) {
        at.image_segment.store(into.index() as u32 + 1, Ordering::Release);
        futex_wake(self.image());
    }

    /// Answers the outstanding request and wakes who waits for it.
    pub fn answer(&self, answer: i32) {
        self.request().answer.store(answer, Ordering::Relaxed);
        self.set_request_state(request::ANSWERED);
    }

    pub(crate) fn set_request_state(&self, state: u32) {
        self.request().state.store(state, Ordering::Release);
        futex_wake(&self.request().state);
    }
}

impl<'session> Lane<'session> {
    /// See [`LaneHeader::command`].
    pub(crate) fn mailbox(&self) -> &'session Command {
        // SAFETY: see `Lane::new`; what this side uses is made of atomics.
        unsafe { &(*self.header).command }
    }
}

/// Accessors of the header's shared words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl<'session> Lane<'session> {
            $($(#[$doc])*
            pub fn $name(&self) -> &'session $type {
                // SAFETY: see `Lane::new`; the target is made of atomics only.
                unsafe { &(*self.header).$name }
            })*
        }
    };
}

words! {
    /// See [`lane_state`].
    state: AtomicU32;
    /// See [`LaneHeader::dying`].
    dying: AtomicU32;
    /// See [`LaneHeader::image`].
    image: AtomicU32;
    /// The process that runs the lane.
    pid: AtomicI32;
    /// See [`LaneHeader::waited_pid`].
    waited_pid: AtomicI32;
    /// See [`LaneHeader::interrupts`].
    interrupts: AtomicU64;
    /// See [`LaneHeader::told_death_at`].
    told_death_at: AtomicU64;
    /// See [`LaneHeader::waits_for_output`].
    waits_for_output: AtomicU64;
    /// See [`LaneHeader::events_done`].
    events_done: AtomicU64;
    /// See [`LaneHeader::turn`].
    turn: AtomicU32;
    /// See [`LaneHeader::turn_sleepers`].
    turn_sleepers: TurnSleepers;
    /// See [`LaneHeader::has_ticket`].
    has_ticket: AtomicU32;
    /// See [`LaneHeader::ticket`].
    ticket: AtomicU64;
    /// See [`LaneHeader::waits_for_ticket`].
    waits_for_ticket: AtomicU64;
    /// The ring's counters.
    ring: Ring;
    /// The outstanding request.
    request: Request;
    /// See [`LaneHeader::change`].
    change: Change;
    /// See [`LaneHeader::missing`].
    missing: Missing;
    /// See [`LaneHeader::checkpoints`].
    checkpoints: [Checkpoint; CHECKPOINTS_MAX];
    /// See [`LaneHeader::goes_again`].
    goes_again: AtomicU32;
    /// See [`LaneHeader::takes_part`].
    takes_part: AtomicU32;
}

/// A [`Report`] as it was when it was read.
#[derive(Debug, Clone)]
pub struct ReportCopy {
    pub kind: u32,
    pub code: i32,
    pub event: u64,
    pub expected_header: u64,
    pub expected: [u64; 8],
    pub got_number: u64,
    pub got: [u64; 8],
    pub registers: [u64; 18],
    pub text: String,
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
    use super::*;
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
            assert_eq!(lane.copy_out(&mut received), Ok(pattern.len()));
        }
        assert_eq!(received, sent);
        assert_eq!(lane.copy_out(&mut received), Ok(0));
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
        assert_eq!(lane.copy_out(&mut out), Ok(RING_BYTES as usize));
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
        assert_eq!(lane.copy_out(&mut out), Ok(8));
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
        lane.ring().tail.store(lane.ring().head.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        assert_eq!(lane.copy_out(&mut out), Err(RingDamaged));
        assert_eq!(lane.copy_in(&[0; 8]), Err(RingDamaged));
    }

    #[test]
    fn segments_are_taken_and_given_back() {
        let memory = memory();
        assert_eq!(memory.segments_in_use(), [Segment::FIRST]);
        assert_eq!(memory.lane(Segment::FIRST).ids(), (0, u32::MAX));
        memory.free_segment(Segment::FIRST);
        assert!(memory.segments_in_use().is_empty());
        assert_eq!(memory.lane(Segment::FIRST).state().load(Ordering::Relaxed), lane_state::FREE);
    }
}
