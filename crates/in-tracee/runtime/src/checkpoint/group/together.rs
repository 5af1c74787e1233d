//! Checkpoints of all processes that share memory, and the way back of all of them.
//!
//! The process that was asked leads. It holds the token, so that none of the others runs;
//! their agents follow its steps. Before anything changes, all have said that they can.
//!
//! Invariant: what several processes show is kept in one of the shadows only, and put
//! back by the process of that one.
//!
//! Deliberately absent: which processes follow (the supervisor's: it gives the command).

mod following;

use core::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, command_phase, request, ticket_in_place, together_step as step, together_task as task,
};
use linux_abi::{errno, general as nr};

use crate::checkpoint::group::undertaking::{go_to, leave, sharers, together};
use crate::checkpoint::restore::rollback::{Arrived, Planned};
use crate::checkpoint::restore::ways::{Way, ask_supervisor};
use crate::checkpoint::take::slots::Group;
use crate::checkpoint::take::{checkpoint, quiesce};
use crate::ground::kernel::{self, error};
use crate::ground::proc_files::{self, Path};
use crate::scheduler::{own_token, tickets, token};
use crate::state::block::{lane, process, thread, thread_status};
use crate::state::report;
pub use following::follow;

/// How long a process may be silent in a step that changes nothing. One whose threads come to a
/// stand slowly is not, and gives up by itself: see `quiesce`.
const WAIT_MAX_NS: u64 = 10_000_000_000;
/// How long it may take to go back, or to save its memory.
const LONG_WAIT_MAX_NS: u64 = 60_000_000_000;
/// Before it is asked whether they live.
const ASK_AFTER_NS: u64 = 200_000_000;
const LOOK_EVERY_MS: u64 = 20;

// --- leading ---

/// Calls the others in: how many there are. The caller holds the token. EDEADLK: another one's agent
/// waits for this one, and goes first; the command is to be given again behind that.
fn lead(what: u32, number: u32) -> Result<u32, i64> {
    if thread().status != thread_status::AGENT {
        return call_in(what, number, false);
    }
    let phase = &lane().command.phase;
    let before = phase.swap(command_phase::LEADING, Ordering::AcqRel);
    let result = call_in(what, number, true);
    phase.store(before, Ordering::Release);
    result
}

fn call_in(what: u32, number: u32, is_agent: bool) -> Result<u32, i64> {
    let together = together();
    let begin_ns = kernel::monotonic_ns();
    loop {
        if together.leader.compare_exchange(0, process().pid, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            together.task.store(what, Ordering::SeqCst);
            together.number.store(number, Ordering::SeqCst);
            for word in [&together.ready, &together.has_ticket, &together.present, &together.object_count] {
                word.store(0, Ordering::SeqCst);
            }
            together.error.store(0, Ordering::SeqCst);
            let round = (together.step.load(Ordering::SeqCst) >> step::BITS) + 1;
            together.step.store(round << step::BITS | step::PREPARE, Ordering::SeqCst);
            match ask_supervisor(request::TOGETHER, [0; 4]) {
                Ok(()) => return Ok(together.followers.load(Ordering::SeqCst)),
                Err(number) => {
                    leave();
                    // Who is no agent can be called in while it waits here.
                    let goes_on =
                        number == error(errno::EAGAIN) || !is_agent && number == error(errno::EDEADLK);
                    if !goes_on {
                        return Err(number);
                    }
                }
            }
        }
        forget_dead_leader();
        if kernel::monotonic_ns() - begin_ns > LONG_WAIT_MAX_NS {
            return Err(error(errno::EBUSY));
        }
        // One that does something else may need the token for that.
        if !is_agent {
            quiesce::park_if_wanted();
        }
        token::give();
        kernel::futex_wait_ns(&together.ready, together.ready.load(Ordering::SeqCst), 1_000_000);
        token::take();
    }
}

/// One that was killed does not lead any more.
fn forget_dead_leader() {
    let leader = together().leader.load(Ordering::SeqCst);
    let is_gone = || kernel::call(nr::__NR_kill, [leader as u64, 0, 0, 0, 0, 0]) == error(errno::ESRCH);
    if leader != 0 && is_gone() {
        let _ = together().leader.compare_exchange(leader, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Waits until all have done the step at hand.
fn gather(followers: u32, wait_max_ns: u64) -> Result<(), i64> {
    let together = together();
    let begin_ns = kernel::monotonic_ns();
    let (mut seen, mut heard_ns) = (together.progress.load(Ordering::SeqCst), begin_ns);
    loop {
        let ready = together.ready.load(Ordering::SeqCst);
        if ready >= followers {
            break;
        }
        let (progress, now_ns) = (together.progress.load(Ordering::SeqCst), kernel::monotonic_ns());
        if progress != seen {
            (seen, heard_ns) = (progress, now_ns);
        }
        let asks = now_ns - begin_ns > ASK_AFTER_NS;
        let wait_max_ns = match if asks { look(followers) } else { None } {
            // One that has said it before its end is not missed.
            Some(b'Z') if ready == together.ready.load(Ordering::SeqCst) => return Err(error(errno::ESRCH)),
            Some(b'T') => wait_max_ns.min(WAIT_MAX_NS),
            _ => wait_max_ns,
        };
        if now_ns - heard_ns > wait_max_ns {
            return Err(error(errno::ETIMEDOUT));
        }
        kernel::futex_wait(&together.ready, ready, LOOK_EVERY_MS);
    }
    match together.error.load(Ordering::SeqCst) {
        0 => Ok(()),
        number => Err(i64::from(number)),
    }
}

/// `Z` if a process that follows was killed, else `T` if somebody has stopped one.
fn look(followers: u32) -> Option<u8> {
    let states = together().follower_pids.iter().take(followers as usize).map(|pid| {
        let (mut path, mut text) = (Path::new(), [0u8; 128]);
        path.text(b"/proc/").number(pid.load(Ordering::SeqCst) as u64).text(b"/stat");
        match path.read(&mut text).and_then(proc_files::state) {
            None | Some(b'Z' | b'X') => b'Z',
            Some(b'T' | b't') => b'T',
            Some(state) => state,
        }
    });
    states.filter(|state| matches!(state, b'Z' | b'T')).max()
}

/// The last step: nobody looks at the undertaking any more.
fn end(last: u32, followers: u32) {
    go_to(last);
    // One that is gone does not say so.
    let _ = gather(followers, WAIT_MAX_NS);
    leave();
}

/// Takes a checkpoint of each process: the own one's id, or an errno.
pub fn take(origin: u32) -> i64 {
    loop {
        let number = together().last_number.fetch_add(1, Ordering::SeqCst) + 1;
        let followers = match lead(task::CHECKPOINT, number) {
            Ok(followers) => followers,
            Err(error) => return error,
        };
        if followers == 0 {
            leave();
            return checkpoint::take_one(origin, Group::ALONE);
        }
        let id = take_all(origin, Group { number, others: followers });
        // One that was killed meanwhile is none of them any more.
        if id != error(errno::ESRCH) {
            return id;
        }
    }
}

fn take_all(origin: u32, group: Group) -> i64 {
    together().origin.store(origin, Ordering::SeqCst);
    let id = checkpoint::take_one(origin, group);
    if kernel::failed(id) {
        end(step::LEAVE, group.others);
        return id;
    }
    go_to(step::DO);
    match gather(group.others, LONG_WAIT_MAX_NS) {
        Ok(()) => {
            end(step::DONE, group.others);
            id
        }
        Err(error) => {
            checkpoint::discard_one(id as u64);
            end(step::LEAVE, group.others);
            error
        }
    }
}

/// Forgets the checkpoints that were taken with this one; 0, or an errno.
pub fn discard(number: u32) -> i64 {
    match lead(task::DISCARD, number) {
        Ok(followers) => {
            let _ = gather(followers, WAIT_MAX_NS);
            end(step::DONE, followers);
            0
        }
        Err(error) => error,
    }
}

/// Whether all could go back; 0, or an errno.
pub fn could_go_back(number: u32) -> i64 {
    let followers = match lead(task::TRY, number) {
        Ok(followers) => followers,
        Err(error) => return error,
    };
    let result = gather(followers, WAIT_MAX_NS);
    end(step::LEAVE, followers);
    result.err().unwrap_or(0)
}

/// All go back. The own threads are parked, and the caller holds the token; it has given it
/// when this returns without an error.
pub fn go_back(slot: &'static Checkpoint, way: Way) -> Result<(), i64> {
    let what = if way == Way::Replay { task::REPLAY } else { task::ROLLBACK };
    if way == Way::Replay && slot.sharers.load(Ordering::Relaxed) != sharers() {
        // One that was made since, even if it has ended, is not there to do its part again.
        return Err(error(errno::EBUSY));
    }
    let followers = lead(what, slot.together.load(Ordering::Relaxed))?;
    // They park, one after the other.
    token::give();
    let ready = gather(followers, WAIT_MAX_NS);
    token::take();
    let planned = ready.and_then(|()| plan_reachable(slot, way));
    let planned = match planned {
        Ok(planned) => planned,
        Err(error) => {
            end(step::LEAVE, followers);
            return Err(error);
        }
    };
    together().tickets.store(own_token::my_token().ticket.load(Ordering::SeqCst), Ordering::SeqCst);
    go_to(step::DO);
    let arrived = arrive(planned, way);
    if gather(followers, LONG_WAIT_MAX_NS).is_err() {
        report::die("a process that shares memory with this one did not go back with it");
    }
    let (token, tickets) = (own_token::my_token(), slot.tickets.load(Ordering::Relaxed));
    if way == Way::Replay {
        // One more is over if the process that had it is no more.
        let is_over = together().has_ticket.load(Ordering::SeqCst) == 0;
        let over = tickets + u64::from(is_over);
        token.ticket.store(ticket_in_place(process().token, over), Ordering::SeqCst);
        // The last that comes to the present ends it.
        go_to(step::DONE);
    } else {
        token.ticket.store(tickets, Ordering::SeqCst);
        end(step::DONE, followers);
    }
    token::give();
    arrived.set_off();
    Ok(())
}

/// Nothing lies in the way, and the log reaches back.
fn plan_reachable(slot: &'static Checkpoint, way: Way) -> Result<Planned, i64> {
    let position = slot.position.load(Ordering::Relaxed);
    ask_supervisor(request::REACHES, [position, 0, 0, 0])?;
    Planned::new(slot, way)
}

fn arrive(planned: Planned, way: Way) -> Arrived {
    let (slot, own_token) = (planned.slot(), process().token);
    let arrived = planned.go(way, &mut || {
        let process = &mut *process();
        process.token = own_token;
        process.has_ticket = false;
        if way == Way::Replay && process.ticket == slot.tickets.load(Ordering::Relaxed) {
            tickets::hold(ticket_in_place(process.token, process.ticket));
            together().has_ticket.store(1, Ordering::SeqCst);
        }
    });
    arrived.unwrap_or_else(|_| report::die("the log could not be cut where all go back to"))
}

// --- following ---

// --- the present ---
