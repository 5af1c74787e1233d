//! Taking checkpoints, and the shadows that keep them.

use core::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, checkpoint_origin, checkpoint_state, crash_policy, idle_base, image_result, lane_state,
};
use linux_abi::{errno, general as nr};

use crate::address_space::unforked;
use crate::checkpoint::area::{area, obstacle};
use crate::checkpoint::group::{together, undertaking};
use crate::checkpoint::resources::{keeper, lists, locks, mappings, postponed, tables, timers, user};
use crate::checkpoint::restore::parked_threads;
use crate::checkpoint::take::slots::{self, Group, LOOK_EVERY_MS, all, find, hide, is_left_over, is_taken};
use crate::checkpoint::take::{increments, quiesce, window};
use crate::ground::kernel::{self, error};
use crate::scheduler::{kept_registers, own_token};
use crate::signals;
use crate::state::block::{lane, process, session, space, thread, thread_status};
use crate::state::runtime_log::{LogSubject, say};

/// A shadow whose process was killed: between two looks, and after how many it goes too, if
/// nobody asked for anything.
const KILLED_LOOK_MS: u64 = 20;
const KILLED_LOOKS: u32 = 250;
/// A base that was idle so often when it looked ends.
const IDLE_LOOKS: u32 = 3;

/// Takes a checkpoint, with the token, of all processes that share memory: the id of this
/// one's, or an errno.
pub fn take(origin: u32) -> i64 {
    if let Some(error) = obstacle() {
        return error;
    }
    // A window of one that shares memory is refused.
    if undertaking::is_needed() && origin != checkpoint_origin::WINDOW {
        return together::take(origin);
    }
    take_one(origin, Group::ALONE)
}

/// Takes one of this process, while no thread of the lane runs.
pub fn take_one(origin: u32, group: Group) -> i64 {
    say(LogSubject::Checkpoint, "checkpoint begins", [u64::from(origin), 0]);
    if let Some(error) = obstacle() {
        return error;
    }
    let is_window = origin == checkpoint_origin::WINDOW;
    if is_window && let Some(error) = window::obstacle() {
        return error;
    }
    let begin_ns = kernel::monotonic_ns();
    let Some(slot) = all().iter().find(|at| !is_taken(at)) else {
        return error(errno::EAGAIN);
    };
    let is_agent = thread().status == thread_status::AGENT;
    if !is_agent {
        kept_registers::note();
        signals::set_real_mask(!0);
    }
    let id = lane().next_checkpoint.load(Ordering::Relaxed);
    slot.id.store(id, Ordering::Relaxed);
    slot.rollbacks.store(0, Ordering::Relaxed);
    slot.recoveries.store(0, Ordering::Relaxed);
    slot.position.store(process().log.position(), Ordering::Relaxed);
    slot.events.store(process().log.events, Ordering::Relaxed);
    slot.ready.store(0, Ordering::Relaxed);
    slot.shadow.store(0, Ordering::Relaxed);
    slot.base.store(0, Ordering::Relaxed);
    slot.forks.store(area().forks, Ordering::Relaxed);
    user::note(slot);
    slot.environment.store(space().environment, Ordering::Relaxed);
    slot.origin.store(origin, Ordering::Relaxed);
    slot.together.store(group.number, Ordering::Relaxed);
    slot.others.store(group.others, Ordering::Relaxed);
    slot.sharers.store(undertaking::sharers(), Ordering::Relaxed);
    slot.tickets.store(own_token::my_token().ticket.load(Ordering::SeqCst), Ordering::Relaxed);
    slot.image_segment.store(0, Ordering::Relaxed);
    slot.image_result.store(image_result::NONE, Ordering::Relaxed);
    signals::note_pending(&mut area().pending);
    timers::note();
    slot.taken_ns.store(begin_ns, Ordering::Relaxed);
    slot.state.store(checkpoint_state::TAKEN, Ordering::Release);
    locks::note();
    // A window's beginning holds all memory itself, and so does what others rest on.
    let taken = if is_window || group.number != 0 { increments::leave() } else { increments::take() };
    let shadow = match taken {
        Some(taken) => keep_increment(slot, taken),
        None => make_shadow(slot),
    };
    if !is_agent {
        signals::set_real_mask(thread().signals.mask);
    }
    if kernel::failed(shadow) {
        slot.state.store(checkpoint_state::FREE, Ordering::Release);
        return shadow;
    }
    lane().next_checkpoint.store(id + 1, Ordering::Relaxed);
    area().unready = 1;
    let is_copy = slot.base.load(Ordering::Relaxed) == shadow as i32;
    if is_copy && space().shared_count != 0 && !undertaking::keeps_shared() {
        // It copies what we could change.
        lists::wait_until_ready(slot);
    }
    slot.cost_ns.store(kernel::monotonic_ns() - begin_ns, Ordering::Relaxed);
    i64::from(id)
}

/// Makes a copy of the process: its id, or an errno.
fn make_shadow(slot: &'static Checkpoint) -> i64 {
    if !unforked::is_known() {
        return error(errno::ENOMEM);
    }
    crate::checkpoint::resources::first_use::note_offsets();
    increments::prepare();
    // No signal at its end, so that the program never waits for it.
    unforked::permit(true);
    let shadow = kernel::call(nr::__NR_clone, [0; 6]);
    if shadow == 0 {
        be_shadow(slot);
    }
    unforked::permit(false);
    if kernel::failed(shadow) {
        increments::give_up();
    } else {
        slot.shadow.store(shadow as i32, Ordering::Release);
        area().moved.clear();
        increments::begin(slot);
    }
    shadow
}

/// The memory is saved: keeps the descriptors, too. The id of the process that does, 0 if it is
/// not made yet, or an errno.
fn keep_increment(slot: &'static Checkpoint, mut taken: increments::Taken) -> i64 {
    taken.increment.table.copy_locks(&area().tables.then);
    taken.increment.pending.copy(&area().pending);
    if postponed::note(&mut taken.increment) {
        taken.increment.offsets.fill((0, 0));
        taken.keep(slot);
        return 0;
    }
    crate::checkpoint::resources::first_use::note_offsets();
    taken.increment.offsets = area().offsets;
    let keeper = keeper::make(slot, &mut taken.increment);
    if kernel::failed(keeper) {
        taken.drop();
    } else {
        slot.shadow.store(keeper as i32, Ordering::Release);
        taken.keep(slot);
    }
    keeper
}

/// The copy of the process that keeps the checkpoint's memory.
fn be_shadow(slot: &'static Checkpoint) -> ! {
    let parent = process().pid;
    let image = lane().image.load(Ordering::Acquire);
    hide();
    let area = &mut *area();
    tables::keep_files(&mut area.tables.then, &area.offsets, None);
    let complete = mappings::list_then() && mappings::keep_shared(slot);
    mappings::open_then();
    if !complete {
        kernel::exit_group(1);
    }
    slot.ready.store(1, Ordering::Release);
    kernel::futex_wake(&slot.ready);
    let own = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    let mut idle_looks = 0;
    // It is killed when nothing needs it any more.
    while !is_left_over(parent, image) {
        kernel::futex_wait(&lane().image, image, LOOK_EVERY_MS);
        window::serve(slot, own);
        let idle = &lane().idle_base;
        idle_looks = if idle.load(Ordering::SeqCst) == own { idle_looks + 1 } else { 0 };
        if idle_looks >= IDLE_LOOKS
            && idle.compare_exchange(own, idle_base::GONE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            break;
        }
    }
    serve_killed(slot, own, image);
    kernel::exit_group(0)
}

/// The process is gone. If it was killed, the supervisor may save what there is of its log, which
/// begins at this checkpoint: it says so by the lane's word, and ends the lane when it has.
fn serve_killed(slot: &'static Checkpoint, own: i32, image: u32) {
    let lane = &mut *lane();
    let may_be_saved = || {
        session().on_crash == crash_policy::SAVE
            && lane.image.load(Ordering::Acquire) == image
            && lane.state.load(Ordering::Acquire) == lane_state::LIVE
            && !crate::log::supervisor_died()
    };
    let mut looks = 0;
    while looks < KILLED_LOOKS && may_be_saved() {
        let is_saved = lane.dying.load(Ordering::Acquire) != 0;
        looks = if is_saved { 0 } else { looks + 1 };
        kernel::futex_wait(&lane.image, image, KILLED_LOOK_MS);
        window::serve(slot, own);
    }
}

/// Forgets a checkpoint, and those that were taken together with it; 0, or an errno.
pub fn discard(id: u64) -> i64 {
    let Some(slot) = find(id) else {
        return error(errno::ENOENT);
    };
    let number = slot.together.load(Ordering::Relaxed);
    if number != 0 && undertaking::is_needed() {
        let result = together::discard(number);
        if kernel::failed(result) {
            return result;
        }
    }
    discard_one(id)
}

/// Forgets the one of this process.
pub fn discard_one(id: u64) -> i64 {
    let Some(slot) = find(id) else {
        return error(errno::ENOENT);
    };
    end(slot);
    // One that ended a moment ago looked before this, and sits down behind it.
    quiesce::wait_for_leaving();
    match all().iter().filter(|at| is_taken(at)).map(|at| at.position.load(Ordering::Relaxed)).min() {
        Some(oldest) => parked_threads::end_before(oldest),
        None => parked_threads::end_all(),
    }
    0
}

fn end(slot: &'static Checkpoint) {
    if !slots::is_postponed(slot) {
        lists::wait_until_ready(slot);
    }
    slot.state.store(checkpoint_state::FREE, Ordering::Release);
    increments::discard(slot);
}

/// The future of a checkpoint is dropped, and with it the checkpoints in it.
pub fn drop_future(position: u64, keep: u32) {
    for slot in all() {
        let later =
            slot.position.load(Ordering::Relaxed) >= position && slot.id.load(Ordering::Relaxed) > keep;
        if is_taken(slot) && later {
            end(slot);
        }
    }
}

/// The process ends: its shadows end with it.
pub fn end_all() {
    if !crate::checkpoint::area::has_area() || process().slot != 0 || process().replays() {
        return;
    }
    for slot in all().iter().filter(|slot| is_taken(slot)) {
        end(slot);
    }
    area().increments.reset();
}
