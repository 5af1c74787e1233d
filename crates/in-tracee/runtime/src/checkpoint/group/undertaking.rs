//! What processes that share memory undertake together: whether they do, and how far they are.

use core::sync::atomic::Ordering;

use lane_protocol::{
    Together, sharing_policy, ticket_of_place, together_step as step, together_task as task,
};

use crate::ground::kernel;
use crate::scheduler::{own_token, tickets};
use crate::state::block::{process, session};

pub fn together() -> &'static Together {
    &session().together
}

/// True if other processes may have to take part.
#[inline]
pub fn is_needed() -> bool {
    process().in_group && session().sharing_policy == sharing_policy::TOGETHER
}

/// True if what is shared stays as it is, whoever goes back.
#[inline]
pub fn keeps_shared() -> bool {
    process().in_group && session().sharing_policy == sharing_policy::KEEP
}

/// True in the process that leads, and in its shadows.
pub fn leads() -> bool {
    together().leader.load(Ordering::SeqCst) == process().pid
}

/// The process shares memory from now on.
pub fn note_sharer() {
    if crate::state::live::is_on() {
        together().sharers.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many did so.
pub fn sharers() -> u32 {
    together().sharers.load(Ordering::SeqCst)
}

/// The agent of one that follows still waits for its threads.
pub fn note_progress() {
    if process().in_group {
        together().progress.fetch_add(1, Ordering::Relaxed);
    }
}

/// True if the log that the process follows ends together with others.
pub fn goes_again() -> bool {
    let together = together();
    together.leader.load(Ordering::SeqCst) != 0
        && together.task.load(Ordering::SeqCst) == task::REPLAY
        && process().in_group
}

pub fn leave() {
    together().leader.store(0, Ordering::SeqCst);
}

pub fn go_to(next: u32) {
    let together = together();
    together.ready.store(0, Ordering::SeqCst);
    let round = together.step.load(Ordering::SeqCst) >> step::BITS;
    together.step.store(round << step::BITS | next, Ordering::SeqCst);
    kernel::futex_wake(&together.step);
}

/// The log of this process has ended: waits until those of all have. Nobody holds the token
/// then.
pub fn wait_for_present() {
    let together = together();
    tickets::leave();
    process().ticket = ticket_of_place(process().ticket);
    let word = together.step.load(Ordering::SeqCst);
    let all = together.followers.load(Ordering::SeqCst) + 1;
    if together.present.fetch_add(1, Ordering::SeqCst) + 1 == all {
        own_token::my_token().begin_again(together.tickets.load(Ordering::SeqCst));
        go_to(step::PRESENT);
        return;
    }
    while together.step.load(Ordering::SeqCst) == word {
        kernel::futex_wait(&together.step, word, 100);
    }
}

/// The process records again. When all do, something else can be undertaken.
pub fn leave_replay() {
    if together().present.fetch_sub(1, Ordering::SeqCst) == 1 {
        leave();
    }
}
