//! The checkpoints that there are, and the shadows that keep them.

use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, checkpoint_origin, checkpoint_state, request};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::ground::kernel::{self, error};
use crate::ground::open_files::raise_open_files;
use crate::log::kept_files::request_answer;
use crate::signals::{self, stopping};
use crate::state::block::{lane, session};

pub fn all() -> &'static [Checkpoint] {
    // SAFETY: they are atomics.
    unsafe { &lane().shared().checkpoints }
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
    if is_postponed(slot) {
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

/// Reaps shadows that have ended, which the program does not know of.
pub fn reap() {
    for place in &mut area().ended {
        if *place != 0 && wait_for(*place, NO_HANG) {
            *place = 0;
        }
    }
}

/// True if the shadow is gone.
pub fn wait_for(pid: i32, flags: u64) -> bool {
    const ONLY_WITHOUT_SIGNAL: u64 = 0x8000_0000;
    kernel::call(nr::__NR_wait4, [pid as u64, 0, flags | ONLY_WITHOUT_SIGNAL, 0, 0, 0]) != 0
}

/// wait4(2): WNOHANG.
const NO_HANG: u64 = 1;

/// A shadow looks this often whether its process is still there, in milliseconds.
pub const LOOK_EVERY_MS: u64 = 1000;

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

const SIGKILL: u64 = 9;

/// What waitid(2) says of a process that ended by itself.
const CLD_EXITED: i32 = 1;

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

impl Group {
    pub const ALONE: Group = Group { number: 0, others: 0 };
}

/// True if the checkpoint's keeper is not made yet.
pub fn is_postponed(slot: &Checkpoint) -> bool {
    slot.state.load(Ordering::Acquire) == checkpoint_state::TAKEN
        && slot.shadow.load(Ordering::Acquire) == 0
        && area().increments.increment_of(slot).is_some()
}
