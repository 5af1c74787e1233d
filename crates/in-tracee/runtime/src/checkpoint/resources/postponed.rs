//! Keepers that are not made yet. Most checkpoints of a moment are discarded before the program
//! has closed anything that was open then: what can change of a descriptor is noted at the
//! checkpoint, and the process that keeps the descriptors is made when something is about to go.
//!
//! Invariant: whatever a keeper would list otherwise than at the checkpoint, and is not noted, is
//! preceded by [`lists::wait_for_all`], or for what is closed by
//! [`lists::wait_for_closing`].
//!
//! Deliberately absent: a process with timers behind descriptors, terminals, or what epoll reports
//! once only: those change by themselves, and the keeper is made at once.

use lane_protocol::Checkpoint;
use linux_abi::general as nr;

use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::Increment;
use crate::checkpoint::kept_resources::{self, Calm, Noted, Notes};
use crate::checkpoint::resources::interests::EPOLLONESHOT;
use crate::checkpoint::resources::tables;
use crate::checkpoint::take::saved_pages;
use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::state::block::{known_threads, process, thread, thread_at, thread_status};
use crate::state::signal_state::ResumeState;

const NO_OFFSET: u64 = u64::MAX;

impl Notes {
    /// Notes what is open now; false if that is more than it can hold.
    fn fill(&mut self) -> bool {
        self.count = 0;
        let mut fits = true;
        let listed = tables::each_open(&mut |fd| {
            let Some(place) = self.all.get_mut(self.count) else {
                fits = false;
                return;
            };
            let number = u64::from(fd);
            let ask = |what: u32| kernel::call(nr::__NR_fcntl, [number, u64::from(what), 0, 0, 0, 0]);
            let offset = kernel::call(nr::__NR_lseek, [number, 0, 1, 0, 0, 0]);
            *place = Noted {
                fd,
                flags: ask(nr::F_GETFD).max(0) as u32,
                status: ask(nr::F_GETFL).max(0) as u64,
                offset: if kernel::failed(offset) { NO_OFFSET } else { offset as u64 },
            };
            self.count += 1;
        });
        listed && fits
    }

    fn all(&self) -> &[Noted] {
        &self.all[..self.count]
    }

    fn has_any(&self, first: u32, last: u32) -> bool {
        let next = self.all().partition_point(|one| one.fd < first);
        self.all().get(next).is_some_and(|one| one.fd <= last)
    }

    /// Leaves of a table what was open at the checkpoint, as it was.
    pub fn apply(&self, table: &mut kept_resources::Table) {
        if !self.is_noted {
            return;
        }
        table.keep_only(&mut |one| {
            let noted = self.all().binary_search_by_key(&one.fd, |noted| noted.fd);
            let noted = noted.ok().map(|index| self.all[index]);
            if let Some(noted) = noted {
                one.set(noted.flags, noted.status, (noted.offset != NO_OFFSET).then_some(noted.offset));
            }
            noted.is_some()
        });
    }
}

/// Notes the descriptors of an increment; false if its keeper is to be made at once.
pub fn note(increment: &mut Increment) -> bool {
    let calm = &mut area().calm;
    if *calm == Calm::Unknown {
        let table = &mut area().tables.now;
        table.fill();
        *calm = if table.changes_by_itself() { Calm::No } else { Calm::Yes };
    }
    let is_possible = *calm == Calm::Yes && !one_is_closing();
    increment.notes.is_noted = is_possible && increment.notes.fill();
    if is_possible && !increment.notes.is_noted {
        // There are too many. The next base is soon enough to look again.
        *calm = Calm::No;
    }
    increment.notes.is_noted
}

/// The way back needs the descriptors of then, of which none was closed since: the process itself
/// has them.
pub fn list(increment: &mut Increment) {
    increment.table.fill();
    increment.notes.apply(&mut increment.table);
}

/// True if another thread is in a call that closes, which it has begun before the checkpoint.
fn one_is_closing() -> bool {
    let (own, process) = (thread().index, &raw const *process() as u64);
    (0..known_threads()).filter(|&index| index != own).any(|index| {
        let other = &mut *thread_at(index);
        let is_in_call = other.process == process
            && other.status == thread_status::LIVE
            && other.resume_state == ResumeState::Call
            && other.registers_at != 0;
        // SAFETY: they lie on the stack of a thread that has not got the token.
        is_in_call && closes(unsafe { (*(other.registers_at as *const Registers)).rax } as u32)
    })
}

fn closes(number: u32) -> bool {
    matches!(number, nr::__NR_close | nr::__NR_close_range)
}

/// Forks are made seldom: those after the next one may be of other descriptors.
pub fn begin_base() {
    area().calm = Calm::Unknown;
}

/// A call is about to be made: it may make a descriptor that changes by itself.
#[inline]
pub fn before_call(number: u64, args: &[u64; 6]) {
    let is_one = match number as u32 {
        nr::__NR_timerfd_create => true,
        nr::__NR_epoll_ctl => memory::read::<u32>(args[3]).is_some_and(|events| events & EPOLLONESHOT != 0),
        _ => false,
    };
    if is_one {
        area().calm = Calm::No;
    }
}

/// True if one of these numbers was open at the checkpoint.
pub fn has_any(slot: &Checkpoint, first: u32, last: u32) -> bool {
    let increment = area().increments.increment_of(slot).map(saved_pages::of);
    increment.is_some_and(|increment| increment.notes.has_any(first, last))
}
