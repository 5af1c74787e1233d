//! Live: the processes that share memory, and the command to all of them.

use std::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, Command, TURNS, Together, Turn, checkpoint_state, command, lane_state, shared_state,
    together_task,
};

use crate::futex::futex_wake;
use crate::lane::{Lane, Segment};
use crate::session_memory::SessionMemory;

impl SessionMemory {
    fn together(&self) -> &Together {
        // SAFETY: the header is mapped as long as `self`; this part is made of atomics.
        unsafe { &(*self.session()).together }
    }

    /// Recording: the other processes that have the same turn as this one: they share memory.
    pub fn sharers(&self, own: Segment) -> Vec<Segment> {
        let runs =
            |segment: &Segment| self.lane(*segment).state().load(Ordering::Acquire) == lane_state::LIVE;
        let Some(turn) = self.last_turn(self.lane(own)) else { return Vec::new() };
        let others = self.segments_in_use().into_iter().filter(|other| *other != own && runs(other));
        others.filter(|other| self.last_turn(self.lane(*other)) == Some(turn)).collect()
    }

    /// The number of a lane's turn, or of the one that took its place.
    fn last_turn(&self, lane: Lane<'_>) -> Option<u32> {
        let mut number = lane.turn().load(Ordering::Acquire).checked_sub(1)?;
        // As often as there are turns, at most.
        for _ in 0..TURNS {
            match self.turn(number).successor.load(Ordering::Acquire) {
                0 => break,
                next => number = next - 1,
            }
        }
        Some(number)
    }

    /// Recording: the files that processes share memory through, device and inode.
    pub fn shared_files(&self) -> Vec<(u64, u64)> {
        // SAFETY: the header is mapped as long as `self`; the table is made of atomics.
        let files = unsafe { &(*self.session()).shared_files };
        let known = files.iter().take_while(|file| file.state.load(Ordering::Acquire) == shared_state::READY);
        known.map(|file| (file.device.load(Ordering::Relaxed), file.inode.load(Ordering::Relaxed))).collect()
    }

    fn turn(&self, number: u32) -> &Turn {
        // SAFETY: the header is mapped as long as `self`; turns are made of atomics.
        unsafe { &(*self.session()).turns[number as usize % TURNS] }
    }

    /// Gives the command to follow to all processes that share memory with the leader's: 0,
    /// or an errno, and then nobody has it.
    pub fn call_together(&self, leader: Segment) -> i32 {
        let together = self.together();
        let (task, number) = (together.task.load(Ordering::Acquire), together.number.load(Ordering::Acquire));
        if task != together_task::DISCARD && together.unborn.load(Ordering::Acquire) != 0 {
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
        if claimed < followers.len() {
            for mailbox in mailboxes().take(claimed) {
                mailbox.kind.store(command::NONE, Ordering::Release);
                futex_wake(&mailbox.kind);
            }
            return libc::EAGAIN;
        }
        together.followers.store(followers.len() as u32, Ordering::Release);
        for mailbox in mailboxes() {
            mailbox.kind.store(command::FOLLOW, Ordering::Release);
            futex_wake(&mailbox.kind);
        }
        0
    }
}

/// The checkpoint of this number among those that were taken together.
fn checkpoint<'a>(lane: Lane<'a>, number: u32) -> Option<&'a Checkpoint> {
    lane.checkpoints().iter().find(|at| {
        at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
            && at.together.load(Ordering::Acquire) == number
    })
}
