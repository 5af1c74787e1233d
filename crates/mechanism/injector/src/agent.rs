//! The debugger's side of a lane's mailbox.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lane_protocol::bytecode::PROGRAM_BYTES_MAX;
use lane_protocol::{ASKING, Agent, AgentCommand, AgentStop, agent_interrupt, lane_state};

use crate::futex::{futex_wait, futex_wake};
use crate::lane::{Lane, Segment};
use crate::session_memory::SessionMemory;

/// Code of the signal that makes the agent look at `interrupt`.
const INTERRUPT: i32 = -79;

impl Lane<'_> {
    fn agent(&self) -> *mut Agent {
        // SAFETY: see `Lane::new`; only the place is taken.
        unsafe { &raw mut (*self.header()).agent }
    }

    fn agent_counts(&self) -> (u32, u32) {
        // SAFETY: see `Lane::new`; the fields are atomics.
        unsafe {
            let agent = self.agent();
            ((*agent).asked.load(Ordering::Acquire), (*agent).stopped.load(Ordering::Acquire))
        }
    }

    /// True if the process stands still and waits for a command.
    pub fn stands_still(&self) -> bool {
        let (asked, stopped) = self.agent_counts();
        asked != stopped
    }

    /// Waits until the process stands still, at most for `timeout`; true if it does.
    pub fn wait_for_stop(&self, timeout: Duration) -> bool {
        let (asked, stopped) = self.agent_counts();
        if asked != stopped {
            return true;
        }
        // SAFETY: see `Lane::new`; the field is an atomic.
        futex_wait(unsafe { &(*self.agent()).stopped }, stopped, timeout);
        self.stands_still()
    }

    /// Where the process stands. Meaningful while it stands still.
    pub fn agent_stop(&self) -> Box<AgentStop> {
        // SAFETY: see `Lane::new`. All fields are numbers, for which any bits are valid;
        // the process stands still and writes no more.
        unsafe { Box::new((&raw const (*self.agent()).stop).read_volatile()) }
    }

    /// Block of the thread that runs, and where its stack ends. Meaningful while the process
    /// stands as `agent_verb::STAND` says.
    pub fn standing(&self) -> [u64; 2] {
        // SAFETY: as for `agent_stop`.
        unsafe { (&raw const (*self.agent()).standing).read_volatile() }
    }

    /// Tells a process that stands still what to do.
    ///
    /// # Panics
    /// If the programs do not fit: see [`PROGRAM_BYTES_MAX`].
    pub fn give_command(&self, command: &AgentCommand, programs: &[u8]) {
        assert!(programs.len() <= PROGRAM_BYTES_MAX, "programs were counted before");
        let (_, stopped) = self.agent_counts();
        // SAFETY: see `Lane::new`; the process reads the command after `asked` says so.
        unsafe {
            let agent = self.agent();
            (&raw mut (*agent).command).write_volatile(*command);
            let room = (&raw mut (*agent).programs).cast::<u8>();
            room.copy_from_nonoverlapping(programs.as_ptr(), programs.len());
            // An interrupt that came when it stood already has been obeyed.
            (*agent).interrupt.store(0, Ordering::SeqCst);
            (*agent).asked.store(stopped, Ordering::Release);
            futex_wake(&(*agent).asked);
        }
    }

    /// The mailbox as it is before anybody uses it.
    pub(crate) fn clear_agent(&self) {
        // SAFETY: see `Lane::new`; the fields are atomics.
        unsafe {
            let agent = self.agent();
            for word in [&(*agent).asked, &(*agent).stopped, &(*agent).interrupt] {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Asks the process to stand still at its next event, and not before.
    pub fn interrupt_at_event(&self) {
        // SAFETY: see `Lane::new`; the field is an atomic.
        let word = unsafe { &(*self.agent()).interrupt };
        // Who wants it to stop anywhere gets that.
        let _ = word.compare_exchange(0, agent_interrupt::AT_EVENT, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Asks the process to stand still where it traps next, or with `at_once` wherever it
    /// is.
    pub fn interrupt(&self, at_once: bool) {
        // SAFETY: see `Lane::new`; the fields are atomics.
        let tid = unsafe {
            let agent = self.agent();
            (*agent).interrupt.store(agent_interrupt::ANYWHERE, Ordering::SeqCst);
            (*agent).running_tid.load(Ordering::Relaxed)
        };
        if at_once {
            self.interrupt_thread(tid);
        }
    }

    /// Asks this thread of the process to make it stand still, wherever it is. No process
    /// is asked that does so already.
    pub fn interrupt_thread(&self, tid: i32) {
        if self.stands_still() {
            return;
        }
        // SAFETY: see `Lane::new`; the field is an atomic.
        unsafe { (*self.agent()).interrupt.store(agent_interrupt::ANYWHERE, Ordering::SeqCst) };
        let pid = self.pid().load(Ordering::Acquire);
        if pid > 0 && tid > 0 {
            let mut info = [0i32; 32];
            info[0] = ASKING as i32;
            info[2] = INTERRUPT;
            // SAFETY: the call reads 128 bytes of `info`, its length.
            unsafe {
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, ASKING, info.as_ptr());
            }
        }
    }
}

impl SessionMemory {
    /// Takes a segment for a copy of the process that replays `lane`, whose log goes
    /// on at this position. `None`: all are in use.
    pub fn take_segment_for_copy(&self, lane: u32, parent: u32, position: u64) -> Option<Segment> {
        let segment = self.take_segment()?;
        let header = self.lane(segment);
        header.set_lane(lane, parent);
        header.ring().head.store(position, Ordering::Relaxed);
        header.ring().tail.store(position, Ordering::Relaxed);
        header.state().store(lane_state::LIVE, Ordering::Release);
        Some(segment)
    }
}
