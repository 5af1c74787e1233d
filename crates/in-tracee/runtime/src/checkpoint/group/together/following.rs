//! What a process does that follows another's lead through a common checkpoint or way back.

use core::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, checkpoint_origin, checkpoint_state, together_step as step, together_task as task,
};
use linux_abi::errno;

use super::{LOOK_EVERY_MS, arrive, plan_reachable};
use crate::checkpoint::area::obstacle;
use crate::checkpoint::group::undertaking::together;
use crate::checkpoint::restore::rollback::plan;
use crate::checkpoint::restore::ways::Way;
use crate::checkpoint::take::slots::{self, Group};
use crate::checkpoint::take::{checkpoint, quiesce};
use crate::ground::kernel::{self, error};
use crate::scheduler::token;
use crate::state::block::process;
use crate::state::report;

/// The agent was called in. It has not got the token, but for the time in which threads
/// come to a stand.
pub fn follow() -> i64 {
    let together = together();
    let round = together.step.load(Ordering::SeqCst) >> step::BITS;
    let number = together.number.load(Ordering::SeqCst);
    let is_able = !process().replays() && process().given_up.load(Ordering::Acquire) == 0;
    match together.task.load(Ordering::SeqCst) {
        task::CHECKPOINT => follow_checkpoint(round, number),
        task::DISCARD => {
            if let Some(slot) = find(number) {
                checkpoint::discard_one(u64::from(slot.id.load(Ordering::Relaxed)));
            }
            say(round, 0);
            wait(round, step::PREPARE);
            say(round, 0);
        }
        task::TRY => {
            let result = if is_able { try_back(number) } else { error(errno::EBUSY) };
            say(round, result);
            wait(round, step::PREPARE);
            say(round, 0);
        }
        what => {
            let way = if what == task::REPLAY { Way::Replay } else { Way::Branch };
            if is_able {
                follow_back(round, number, way);
            } else {
                say(round, error(errno::EBUSY));
                wait(round, step::PREPARE);
                say(round, 0);
            }
        }
    }
    0
}

/// The step at hand is done, or cannot be.
fn say(round: u32, result: i64) {
    let together = together();
    if together.step.load(Ordering::SeqCst) >> step::BITS != round {
        return;
    }
    if result < 0 {
        let _ = together.error.compare_exchange(0, result as i32, Ordering::SeqCst, Ordering::SeqCst);
    }
    together.ready.fetch_add(1, Ordering::SeqCst);
    kernel::futex_wake(&together.ready);
}

/// Waits for the step behind this one. If the leader is gone: none is done.
fn wait(round: u32, now: u32) -> u32 {
    let together = together();
    let word = round << step::BITS | now;
    while together.step.load(Ordering::SeqCst) == word {
        if together.leader.load(Ordering::SeqCst) == 0 {
            return step::LEAVE;
        }
        kernel::futex_wait(&together.step, word, LOOK_EVERY_MS);
    }
    let next = together.step.load(Ordering::SeqCst);
    if next >> step::BITS == round { next & ((1 << step::BITS) - 1) } else { step::LEAVE }
}

fn follow_checkpoint(round: u32, number: u32) {
    if wait(round, step::PREPARE) != step::DO {
        return say(round, 0);
    }
    let origin = match together().origin.load(Ordering::SeqCst) {
        checkpoint_origin::TIME => checkpoint_origin::TIME,
        _ => checkpoint_origin::TOGETHER,
    };
    let group = Group { number, others: together().followers.load(Ordering::SeqCst) };
    let id = if process().replays() { error(errno::EBUSY) } else { checkpoint::take_one(origin, group) };
    say(round, id.min(0));
    if wait(round, step::DO) != step::DONE && !kernel::failed(id) {
        checkpoint::discard_one(id as u64);
    }
    say(round, 0);
}

fn find(number: u32) -> Option<&'static Checkpoint> {
    slots::all().iter().find(|at| {
        at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
            && at.together.load(Ordering::Relaxed) == number
    })
}

fn try_back(number: u32) -> i64 {
    match find(number).ok_or(error(errno::ESRCH)).and_then(|slot| plan(slot, Way::Branch)) {
        Ok(_) => 0,
        Err(error) => error,
    }
}

fn follow_back(round: u32, number: u32, way: Way) {
    let parked = match obstacle() {
        Some(error) => Err(error),
        None => {
            token::take();
            let parked = quiesce::park_all();
            token::give();
            parked
        }
    };
    let slot = parked.and_then(|()| find(number).ok_or(error(errno::ESRCH)));
    let planned = slot.and_then(|slot| plan_reachable(slot, way));
    say(round, planned.as_ref().err().copied().unwrap_or(0));
    let next = wait(round, step::PREPARE);
    let (step::DO, Ok(planned)) = (next, planned) else {
        if parked.is_ok() {
            quiesce::let_go_on();
        }
        return say(round, 0);
    };
    let arrived = arrive(planned, way);
    say(round, 0);
    if wait(round, step::DO) != step::DONE {
        report::die("a process that shares memory with this one did not go back with it");
    }
    if way == Way::Branch {
        say(round, 0);
    }
    arrived.set_off();
}
