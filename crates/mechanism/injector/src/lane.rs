//! A lane's segment as the supervisor sees it: states, request, report, ring.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use lane_protocol::{
    Birth, CHECKPOINTS_MAX, Change, Checkpoint, Command, LANE_HEADER_BYTES, LaneHeader, Missing, Report,
    Request, Ring, SEGMENTS, TokenSleepers, command, lane_state, request,
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

    /// Where its ring's bytes lie.
    pub(crate) fn ring_start(&self) -> *mut u8 {
        self.ring
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

    /// Bytes of its log so far.
    pub fn produced_bytes(&self) -> u64 {
        self.ring().head.load(Ordering::Acquire)
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
            self.token(),
            self.has_ticket(),
            self.goes_again(),
            self.dying(),
            self.takes_part(),
            &mailbox.kind,
            &mailbox.phase,
        ] {
            word.store(0, Ordering::Release);
        }
        self.token_sleepers().clear();
        self.request().state.store(request::NONE, Ordering::Relaxed);
        self.pid().store(0, Ordering::Relaxed);
        self.waited_pid().store(0, Ordering::Relaxed);
        // SAFETY: see `Lane::new`; the field is an atomic.
        unsafe { (*self.header).report.kind.store(0, Ordering::Relaxed) };
        self.clear_agent();
        self.state().store(lane_state::UNBORN, Ordering::Release);
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

    pub(crate) fn announce(&self) {
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
    /// See [`LaneHeader::held_up`].
    held_up: AtomicU64;
    /// See [`LaneHeader::token`].
    token: AtomicU32;
    /// See [`LaneHeader::token_sleepers`].
    token_sleepers: TokenSleepers;
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
