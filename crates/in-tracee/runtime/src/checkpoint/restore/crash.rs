//! What is done where a fault would end the process.

use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, command, crash_policy, recover_way, request};
use linux_abi::errno;

use crate::checkpoint::area::area;
use crate::checkpoint::restore::{agent, environment};
use crate::checkpoint::take::{quiesce, slots};
use crate::ground::kernel::{self, error};
use crate::log::kept_files::request_answer;
use crate::scheduler::token;
use crate::state::block::{lane, process, session};

fn policy() -> u32 {
    let takes_part =
        crate::state::live::is_on() && process().slot == 0 && crate::checkpoint::area::lane_takes_part();
    if takes_part { session().on_crash } else { crash_policy::DIE }
}

/// Before the log says that the process dies. With the token.
pub fn before_crash(signal: u32) {
    match policy() {
        crash_policy::HOLD => hold(signal),
        crash_policy::ROLLBACK => recover(signal),
        _ => {}
    }
}

/// The thread stands at its fault until the process goes back, or is killed.
fn hold(signal: u32) {
    tell(signal);
    let word = &area().verdict;
    loop {
        quiesce::park_if_wanted();
        token::give();
        kernel::futex_wait(word, word.load(Ordering::SeqCst), 20);
        token::take();
    }
}

/// Goes back, as often as that is permitted. Returns if it is not, or cannot be done: then
/// the process dies.
fn recover(signal: u32) {
    let tries = &lane().recoveries;
    if tries.fetch_add(1, Ordering::SeqCst) >= session().recoveries_max {
        return;
    }
    while let Some((checkpoint, way)) = choose() {
        let is_new = checkpoint.recoveries.fetch_add(1, Ordering::SeqCst) < ways();
        let id = u64::from(checkpoint.id.load(Ordering::Relaxed));
        let (is_only, is_so) = (ways() == 1, environment::is_so(checkpoint, way));
        if is_so && !is_only {
            // So it was as before.
            continue;
        }
        if !go_back(id, if is_so { recover_way::SAME } else { way }, signal) {
            return;
        }
        // The next way; or, if there is none, as before.
        if is_only || !is_new {
            go_back(id, recover_way::SAME, signal);
            return;
        }
    }
}

/// How many there are.
fn ways() -> u32 {
    session().recover_ways.iter().take_while(|&&way| way != recover_way::NONE).count() as u32
}

/// Does not return if it can be done. True if only this way cannot.
fn go_back(id: u64, way: u32, signal: u32) -> bool {
    area().recovering = [u64::from(way), u64::from(signal)];
    let answer = agent::ask(command::ROLLBACK, id);
    area().recovering = [0; 2];
    answer == error(errno::EOPNOTSUPP)
}

/// The newest checkpoint at which not all ways were tried, and the next of them; if there
/// is none, or only one way that is the same everywhere, the last way at the last checkpoint.
/// Those that were taken for the log's sake come after those that somebody wanted.
fn choose() -> Option<(&'static Checkpoint, u32)> {
    let (count, all) = (ways(), &session().recover_ways);
    let next = |at: &Checkpoint| at.recoveries.load(Ordering::Relaxed);
    let is_wanted = |at: &Checkpoint| !slots::begins_window(at);
    let untried = match count {
        // Blocks that were made before a checkpoint are as they were: an earlier one may help.
        0 | 1 if all[0] & recover_way::ENVIRONMENT == 0 => None,
        _ => slots::newest_of(&|at| next(at) < count && is_wanted(at))
            .or_else(|| slots::newest_of(&|at| next(at) < count)),
    };
    let chosen = untried.or_else(|| slots::newest_of(&is_wanted)).or_else(slots::last)?;
    let index = next(chosen).min(count.max(1) - 1) as usize;
    Some((chosen, all[index].max(recover_way::SAME)))
}

/// True the first time that the process is about to die, if its past is to be saved then.
/// Handlers may run on the way, and the same signal be sent by several.
fn is_to_be_saved() -> bool {
    policy() == crash_policy::SAVE && area().saved.swap(1, Ordering::SeqCst) == 0
}

/// The log says that the process dies; the supervisor saves it.
pub fn after_crash(signal: u32) {
    if is_to_be_saved() {
        tell(signal);
    }
}

fn tell(signal: u32) {
    let doorbell = &session().doorbell;
    request_answer(request::CRASH, [u64::from(signal), 0, 0, 0], doorbell);
}

/// Somebody sent a signal that the process dies of at once. In a signal's handler, with the
/// token or without: the supervisor saves what is logged.
pub fn save_before_death(signal: u32) {
    if !is_to_be_saved() {
        return;
    }
    let dying = &lane().dying;
    dying.store(signal, Ordering::SeqCst);
    while dying.load(Ordering::SeqCst) != 0 && !crate::log::supervisor_died() {
        kernel::futex_wait(dying, signal, 100);
    }
}
