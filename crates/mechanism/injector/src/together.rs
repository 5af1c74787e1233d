//! Live: the processes that share memory, and the command to all of them.

use std::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, Command, ExecutionToken, KILLED_ANYONE, TOKENS, Together, checkpoint_state, command,
    command_phase, lane_state, sharing_policy, together_step, together_task,
};

use crate::futex::futex_wake;
use crate::lane::{Lane, Segment};
use crate::process::{PidFd, poll_exited};
use crate::process_facts::group_of;
use crate::session_memory::SessionMemory;

impl SessionMemory {
    fn together(&self) -> &Together {
        // SAFETY: the header is mapped as long as `self`; this part is made of atomics.
        unsafe { &(*self.session()).together }
    }

    /// Recording: the other processes that have the same token as this one: they share memory.
    pub fn sharers(&self, own: Segment) -> Vec<Segment> {
        let runs =
            |segment: &Segment| self.lane(*segment).state().load(Ordering::Acquire) == lane_state::LIVE;
        let Some(token) = self.last_token(self.lane(own)) else { return Vec::new() };
        let others = self.segments_in_use().into_iter().filter(|other| *other != own && runs(other));
        others.filter(|other| self.last_token(self.lane(*other)) == Some(token)).collect()
    }

    /// True if a process is about to be in the segment that will share memory.
    fn expects_sharer(&self, segment: Segment) -> bool {
        match self.unborn(segment).load(Ordering::Acquire) {
            0 => false,
            // One whose maker was killed as well begins when it begins.
            pid => runs(pid.abs()),
        }
    }

    /// Recording: true if the process that was to be in the segment was killed before it began.
    pub fn is_stillborn(&self, segment: Segment) -> bool {
        let pid = self.unborn(segment).load(Ordering::Acquire);
        pid > 0 && !runs(pid)
    }

    /// Live: the process in the segment is gone. Those that it led are left to themselves. Where
    /// it was doing the same again with others, these cannot come to the present without it:
    /// their processes.
    pub fn leave_together(&self, segment: Segment) -> Vec<i32> {
        let (together, lane) = (self.together(), self.lane(segment));
        let goes_again = |lane: Lane| lane.goes_again().load(Ordering::Acquire) != 0;
        let pid = lane.pid().load(Ordering::Acquire);
        let leads = together.leader.load(Ordering::Acquire) == pid && pid != 0;
        let is_replayed = together.task.load(Ordering::Acquire) == together_task::REPLAY && goes_again(lane);
        // All have come to the present, and go on from there: the others do not need it.
        let step = together.step.load(Ordering::Acquire) & ((1 << together_step::BITS) - 1);
        let is_needed = is_replayed && step != together_step::PRESENT;
        let mut left = if is_needed { self.sharers(segment) } else { Vec::new() };
        left.retain(|other| goes_again(self.lane(*other)));
        if leads || is_replayed {
            together.leader.store(0, Ordering::Release);
            futex_wake(&together.step);
        }
        left.into_iter().map(|other| self.lane(other).pid().load(Ordering::Acquire)).collect()
    }

    /// Live: if the process in the segment goes back with others: which undertaking that is, and
    /// all of them, each with the position of its log that it goes back to.
    pub fn going_back_together(&self, segment: Segment) -> Option<(u32, Vec<(Segment, u64)>)> {
        let together = self.together();
        let is_led = together.leader.load(Ordering::Acquire) != 0;
        if !is_led || together.task.load(Ordering::Acquire) != together_task::ROLLBACK {
            return None;
        }
        let members = self.members(segment, together.number.load(Ordering::Acquire))?;
        Some((together.step.load(Ordering::Acquire) >> together_step::BITS, members))
    }

    /// Live: who would go back together to the checkpoint with this id, each with the position of
    /// its log; `None` where the process goes back alone.
    pub fn taken_together(&self, segment: Segment, id: u64) -> Option<Vec<(Segment, u64)>> {
        let is_it = |at: &&Checkpoint| {
            at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
                && u64::from(at.id.load(Ordering::Relaxed)) == id
        };
        let number = self.lane(segment).checkpoints().iter().find(is_it)?.together.load(Ordering::Acquire);
        if number == 0 { None } else { self.members(segment, number) }
    }

    fn members(&self, segment: Segment, number: u32) -> Option<Vec<(Segment, u64)>> {
        let position = |segment: Segment| {
            let then = checkpoint(self.lane(segment), number)?;
            Some((segment, then.position.load(Ordering::Relaxed)))
        };
        std::iter::once(segment).chain(self.sharers(segment)).map(position).collect()
    }

    /// The number of a lane's token, or of the one that took its place.
    fn last_token(&self, lane: Lane<'_>) -> Option<u32> {
        let mut number = lane.token().load(Ordering::Acquire).checked_sub(1)?;
        // As often as there are tokens, at most.
        for _ in 0..TOKENS {
            match self.token(number).successor.load(Ordering::Acquire) {
                0 => break,
                next => number = next - 1,
            }
        }
        Some(number)
    }

    /// True if rollbacks leave memory as it is that processes share.
    pub(crate) fn keeps_shared_memory(&self) -> bool {
        // SAFETY: the header is mapped as long as `self`; the field was set when it was made.
        unsafe { (*self.session()).sharing_policy == sharing_policy::KEEP }
    }

    /// Recording: somebody of ours, or this one, is about to kill a process by SIGKILL.
    pub fn note_killed(&self, pid: i32) {
        // SAFETY: the header is mapped as long as `self`; both fields are atomics.
        let (killed, next) = unsafe { (&(*self.session()).killed, &(*self.session()).next_killed) };
        let place = next.fetch_add(1, Ordering::AcqRel) as usize % killed.len();
        killed[place].store(pid, Ordering::Release);
    }

    /// Recording: true if it may have been one of the recording, or this one, who killed the process.
    pub fn was_killed_inside(&self, pid: i32) -> bool {
        // SAFETY: as above.
        let killed = unsafe { &(*self.session()).killed };
        let is_it = |by: i32| match by {
            0 => false,
            KILLED_ANYONE => true,
            // Where the group of one that has ended is not known any more, it may be that.
            by if by < 0 => group_of(pid).is_none_or(|group| group == -by),
            by => by == pid,
        };
        killed.iter().any(|by| is_it(by.load(Ordering::Acquire)))
    }

    fn token(&self, number: u32) -> &ExecutionToken {
        // SAFETY: the header is mapped as long as `self`; tokens are made of atomics.
        unsafe { &(*self.session()).tokens[number as usize % TOKENS] }
    }

    /// Gives the command to follow to all processes that share memory with the leader's: 0,
    /// or an errno, and then nobody has it.
    pub fn call_together(&self, leader: Segment) -> i32 {
        let together = self.together();
        let (task, number) = (together.task.load(Ordering::Acquire), together.number.load(Ordering::Acquire));
        let expects = |segment: &Segment| self.expects_sharer(*segment);
        if task != together_task::DISCARD && self.segments_in_use().iter().any(expects) {
            return libc::EAGAIN;
        }
        let has_it = |segment: &Segment| checkpoint(self.lane(*segment), number).is_some();
        let mut followers = self.sharers(leader);
        match task {
            together_task::DISCARD => followers.retain(has_it),
            together_task::CHECKPOINT => {}
            _ => {
                let then = checkpoint(self.lane(leader), number);
                let others = then.map_or(0, |at| at.others.load(Ordering::Acquire)) as usize;
                if followers.iter().filter(|follower| has_it(follower)).count() < others {
                    return libc::ESRCH;
                }
                if followers.len() > others {
                    return libc::EBUSY;
                }
            }
        }
        // One that was made a moment ago has no agent yet.
        let is_ready = |segment: &Segment| self.lane(*segment).takes_part().load(Ordering::Acquire) != 0;
        if !followers.iter().all(is_ready) {
            return libc::EAGAIN;
        }
        if followers.iter().any(|segment| self.lane(*segment).stands_still()) {
            return libc::EBUSY;
        }
        let mailboxes = || followers.iter().map(|segment| self.lane(*segment).mailbox());
        let claim = |mailbox: &&Command| {
            let (from, to) = (command::NONE, command::CLAIMED);
            mailbox.kind.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let claimed = mailboxes().take_while(claim).count();
        if let Some(busy) = followers.get(claimed).map(|segment| self.lane(*segment)) {
            for mailbox in mailboxes().take(claimed) {
                mailbox.kind.store(command::NONE, Ordering::Release);
                futex_wake(&mailbox.kind);
            }
            // Two that wait for each other: the earlier lane goes first.
            let also_leads = busy.command_phase().0 == command_phase::LEADING;
            let is_first = busy.ids().0 < self.lane(leader).ids().0;
            return if also_leads && is_first { libc::EDEADLK } else { libc::EAGAIN };
        }
        let pids = followers.iter().map(|follower| self.lane(*follower).pid().load(Ordering::Acquire));
        for (word, pid) in together.follower_pids.iter().zip(pids.chain(std::iter::repeat(0))) {
            word.store(pid, Ordering::Release);
        }
        together.followers.store(followers.len() as u32, Ordering::Release);
        let leads = self.lane(leader).mailbox();
        let is_urgent = leads.kind.load(Ordering::Acquire) != command::CHECKPOINT
            || leads.urgent.load(Ordering::Relaxed) != 0;
        for mailbox in mailboxes() {
            mailbox.urgent.store(u32::from(is_urgent), Ordering::Relaxed);
            mailbox.kind.store(command::FOLLOW, Ordering::Release);
            futex_wake(&mailbox.kind);
        }
        0
    }
}

/// True unless the process has ended.
fn runs(pid: i32) -> bool {
    PidFd::open(pid).is_some_and(|process| poll_exited(&[&process]) == [false])
}

/// The checkpoint of this number among those that were taken together.
fn checkpoint<'a>(lane: Lane<'a>, number: u32) -> Option<&'a Checkpoint> {
    lane.checkpoints().iter().find(|at| {
        at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
            && at.together.load(Ordering::Acquire) == number
    })
}
