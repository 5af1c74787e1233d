//! Taking checkpoints, and the shadows that keep them.

use core::sync::atomic::Ordering;

use lane_protocol::{
    Checkpoint, checkpoint_origin, checkpoint_state, crash_policy, idle_base, image_result, lane_state,
    request,
};
use linux_abi::{errno, general as nr};

use crate::address_space::unforked;
use crate::checkpoint::group::together;
use crate::checkpoint::resources::{keeper, lists, locks, mappings, postponed, tables, timers, user};
use crate::checkpoint::restore::seats;
use crate::checkpoint::take::{increments, quiesce, window};
use crate::checkpoint::{area, obstacle};
use crate::ground::kernel::{self, error};
use crate::ground::open_files::raise_open_files;
use crate::log::kept_files::request_answer;
use crate::scheduler::{kept_registers, turn};
use crate::signals::{self, stopping};
use crate::state::block::{lane, process, session, space, thread, thread_status};

/// A shadow looks this often whether its process is still there, in milliseconds.
pub const LOOK_EVERY_MS: u64 = 1000;
/// A shadow whose process was killed: between two looks, and after how many it goes too, if
/// nobody asked for anything.
const KILLED_LOOK_MS: u64 = 20;
const KILLED_LOOKS: u32 = 250;
/// A base that was idle so often when it looked ends.
const IDLE_LOOKS: u32 = 3;
const SIGKILL: u64 = 9;
/// What waitid(2) says of a process that ended by itself.
const CLD_EXITED: i32 = 1;

pub fn all() -> &'static [Checkpoint] {
    &lane().checkpoints
}

pub fn is_taken(at: &Checkpoint) -> bool {
    at.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
}

/// The checkpoint with this id.
pub fn find(id: u64) -> Option<&'static Checkpoint> {
    all().iter().find(|at| is_taken(at) && u64::from(at.id.load(Ordering::Relaxed)) == id)
}

/// True if the log is kept from this checkpoint on.
pub fn is_window(id: u64) -> bool {
    find(id).is_some_and(begins_window)
}

/// True if the supervisor took it, for the log's sake.
pub fn begins_window(at: &Checkpoint) -> bool {
    at.origin.load(Ordering::Relaxed) == checkpoint_origin::WINDOW
}

/// The one taken last, if there is one.
pub fn last() -> Option<&'static Checkpoint> {
    newest_of(&|_| true)
}

/// The one taken last of some.
pub fn newest_of(wanted: &dyn Fn(&Checkpoint) -> bool) -> Option<&'static Checkpoint> {
    let those = all().iter().filter(|at| is_taken(at) && wanted(at));
    those.max_by_key(|at| at.id.load(Ordering::Relaxed))
}

/// True if nobody can have pages that the process wrote since the checkpoint: it made no
/// process, and no later shadow made by fork is there.
pub fn is_alone_since(slot: &Checkpoint) -> bool {
    reap();
    let increments = &area().increments;
    area().forks == slot.forks.load(Ordering::Relaxed)
        && area().ended.iter().all(|pid| *pid == 0)
        && increments.increment_of(slot).is_none()
        && increments.is_newest_base(slot)
}

/// How many there are.
pub fn count() -> usize {
    all().iter().filter(|at| is_taken(at)).count()
}

/// The processes that take a checkpoint together.
#[derive(Clone, Copy)]
pub struct Group {
    /// Which of the checkpoints that were taken together; 0: this one is alone.
    pub number: u32,
    pub others: u32,
}

impl Group {
    pub const ALONE: Group = Group { number: 0, others: 0 };
}

/// Takes a checkpoint, with the turn, of all processes that share memory: the id of this
/// one's, or an errno.
pub fn take(origin: u32) -> i64 {
    if let Some(error) = obstacle() {
        return error;
    }
    // A window of one that shares memory is refused.
    if together::is_needed() && origin != checkpoint_origin::WINDOW {
        return together::take(origin);
    }
    take_one(origin, Group::ALONE)
}

/// Takes one of this process, while no thread of the lane runs.
pub fn take_one(origin: u32, group: Group) -> i64 {
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
    slot.sharers.store(together::sharers(), Ordering::Relaxed);
    slot.tickets.store(turn::my_turn().ticket.load(Ordering::SeqCst), Ordering::Relaxed);
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
    if is_copy && space().shared_count != 0 && !together::keeps_shared() {
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
fn keep_increment(slot: &'static Checkpoint, taken: increments::Taken) -> i64 {
    taken.increment.table.copy_locks(&area().tables.then);
    taken.increment.pending.copy(&area().pending);
    if postponed::note(taken.increment) {
        taken.increment.offsets.fill((0, 0));
        taken.keep(slot);
        return 0;
    }
    crate::checkpoint::resources::first_use::note_offsets();
    taken.increment.offsets = area().offsets;
    let keeper = keeper::make(slot, taken.increment);
    if kernel::failed(keeper) {
        taken.drop();
    } else {
        slot.shadow.store(keeper as i32, Ordering::Release);
        taken.keep(slot);
    }
    keeper
}

/// True if the checkpoint's shadow, and the base that it rests on, were not killed.
pub fn is_alive(slot: &Checkpoint) -> bool {
    let shadow = slot.shadow.load(Ordering::Acquire);
    let base = slot.base.load(Ordering::Acquire);
    is_there(shadow) && (base == shadow || is_there(base))
}

/// Why the way back to a checkpoint is not open: the errno if what keeps it is gone, or was
/// killed and will be gone in a moment.
pub fn loss(slot: &Checkpoint) -> Option<i64> {
    let is_killed = |pid| {
        stopping::masks_have(pid, SIGKILL, &[b"SigPnd:\t", b"ShdPnd:\t"]) == Some(true) || !is_there(pid)
    };
    let base = slot.base.load(Ordering::Acquire);
    if postponed::is(slot) {
        return is_killed(base).then_some(error(errno::ESRCH));
    }
    let shadow = slot.shadow.load(Ordering::Acquire);
    if shadow < 0 {
        // It could not be made when it was needed.
        return Some(error(errno::EAGAIN));
    }
    if end_of(shadow) == Some(CLD_EXITED) && slot.ready.load(Ordering::Acquire) == 0 {
        // It could not list what there was.
        return Some(error(errno::ENOMEM));
    }
    (is_killed(shadow) || (base != shadow && is_killed(base))).then_some(error(errno::ESRCH))
}

/// True if the shadow was not killed.
pub fn is_there(pid: i32) -> bool {
    end_of(pid).is_none()
}

/// How a shadow ended, as waitid(2) gives it; `None`: it has not.
fn end_of(pid: i32) -> Option<i32> {
    // WEXITED, WNOHANG, WNOWAIT, __WCLONE.
    const FLAGS: u64 = 4 | 1 | 0x0100_0000 | 0x8000_0000;
    const P_PID: u64 = 1;
    // siginfo_t: the signal's number, an errno, the code.
    let mut info = [0i32; 32];
    let result = kernel::call(nr::__NR_waitid, [P_PID, pid as u64, info.as_mut_ptr() as u64, FLAGS, 0, 0]);
    (result != 0 || info[0] != 0).then_some(info[2])
}

/// The copy of the process that keeps the checkpoint's memory.
fn be_shadow(slot: &'static Checkpoint) -> ! {
    let parent = process().pid;
    let image = lane().image.load(Ordering::Acquire);
    hide();
    let area = area();
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
    let lane = lane();
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

/// A process of ours begins, which nobody shall meet.
pub fn hide() {
    signals::set_real_mask(!0);
    kernel::call(nr::__NR_setpgid, [0; 6]);
    const PR_SET_NAME: u64 = 15;
    kernel::call(nr::__NR_prctl, [PR_SET_NAME, c"rv-shadow".as_ptr() as u64, 0, 0, 0, 0]);
    raise_open_files();
}

/// True if the process that the calling one is for is gone, or has another image, or nobody is there any more
/// to ask for the checkpoint.
pub fn is_left_over(parent: i32, image: u32) -> bool {
    kernel::call(nr::__NR_getppid, [0; 6]) != i64::from(parent)
        || lane().image.load(Ordering::Acquire) != image
        || crate::log::supervisor_died()
}

/// Forgets a checkpoint, and those that were taken together with it; 0, or an errno.
pub fn discard(id: u64) -> i64 {
    let Some(slot) = find(id) else {
        return error(errno::ENOENT);
    };
    let number = slot.together.load(Ordering::Relaxed);
    if number != 0 && together::is_needed() {
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
        Some(oldest) => seats::end_before(oldest),
        None => seats::end_all(),
    }
    0
}

fn end(slot: &'static Checkpoint) {
    if !postponed::is(slot) {
        lists::wait_until_ready(slot);
    }
    slot.state.store(checkpoint_state::FREE, Ordering::Release);
    increments::discard(slot);
}

/// Ends a shadow, if it was made.
pub fn end_process(pid: i32) {
    if pid <= 0 {
        return;
    }
    let killed = kernel::call(nr::__NR_kill, [pid as u64, SIGKILL, 0, 0, 0, 0]);
    if killed == error(errno::EPERM) {
        // It has the user that the process had.
        request_answer(request::END_SHADOW, [pid as u64, 0, 0, 0], &session().keep_doorbell);
    }
    let ended = &mut area().ended;
    match ended.iter_mut().find(|place| **place == 0) {
        Some(place) => *place = pid,
        None => {
            wait_for(pid, 0);
        }
    }
    reap();
}

/// wait4(2): WNOHANG.
const NO_HANG: u64 = 1;

/// Reaps shadows that have ended, which the program does not know of.
pub fn reap() {
    for place in &mut area().ended {
        if *place != 0 && wait_for(*place, NO_HANG) {
            *place = 0;
        }
    }
}

/// Nobody asks for checkpoints any more: waits until their shadows have seen that and ended.
pub fn reap_last() {
    for _ in 0..30 {
        let is_there = |at: &&Checkpoint| {
            let shadow = at.shadow.load(Ordering::Acquire);
            shadow > 0 && !wait_for(shadow, NO_HANG)
        };
        let left = all().iter().filter(is_there).count();
        reap();
        if left == 0 {
            break;
        }
        kernel::sleep_ns(LOOK_EVERY_MS * 1_000_000 / 10);
    }
}

/// The program waits for children of any kind: shadows that have ended are none.
pub fn reap_before(number: u64, args: &[u64; 6]) {
    const CHILDREN_WITHOUT_SIGNAL: u64 = 0xc000_0000;
    let flags = match number as u32 {
        nr::__NR_wait4 => args[2],
        nr::__NR_waitid => args[3],
        _ => return,
    };
    if flags & CHILDREN_WITHOUT_SIGNAL != 0 {
        if count() == 0 {
            area().increments.reset();
        }
        for place in &mut area().ended {
            let pid = core::mem::take(place);
            if pid != 0 {
                wait_for(pid, 0);
            }
        }
    }
}

/// True if the shadow is gone.
pub fn wait_for(pid: i32, flags: u64) -> bool {
    const ONLY_WITHOUT_SIGNAL: u64 = 0x8000_0000;
    kernel::call(nr::__NR_wait4, [pid as u64, 0, flags | ONLY_WITHOUT_SIGNAL, 0, 0, 0]) != 0
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

/// How often the program was rolled back to a checkpoint, or an errno.
pub fn rollbacks(id: u64) -> i64 {
    find(id).map_or(error(errno::ENOENT), |slot| i64::from(slot.rollbacks.load(Ordering::Relaxed)))
}

/// A process begins that has none: what the lane's header says is of another.
pub fn forget_all() {
    for slot in all().iter().filter(|slot| is_taken(slot)) {
        slot.state.store(checkpoint_state::FREE, Ordering::Release);
        kernel::futex_wake(&slot.state);
    }
}

/// The process ends: its shadows end with it.
pub fn end_all() {
    if !crate::checkpoint::has_area() || process().slot != 0 || process().replaying {
        return;
    }
    for slot in all().iter().filter(|slot| is_taken(slot)) {
        end(slot);
    }
    area().increments.reset();
}
