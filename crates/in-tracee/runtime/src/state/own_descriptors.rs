//! Descriptors of the runtime's own, at numbers that the program does not use next.

use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::state::block::process;
use crate::state::proc_dir;

/// Opens a file of /proc/self for the runtime at a number that the program does
/// not use next: what the call opens shall get the number that it gets natively.
pub fn open_high(path: &core::ffi::CStr) -> Option<i32> {
    let fd = proc_dir::open(path);
    if fd == -i64::from(errno::EACCES) {
        return open_undumpable(path);
    }
    move_high(fd)
}

/// A process that changed its user ids does not own its files in /proc (proc(5),
/// PR_SET_DUMPABLE in prctl(2)).
fn open_undumpable(path: &core::ffi::CStr) -> Option<i32> {
    let mut fd = None;
    while_dumpable(&mut || fd = move_high(proc_dir::open(path)));
    fd
}

/// Does something while the process has its files in /proc; nothing if it has them anyway.
pub fn while_dumpable(act: &mut dyn FnMut()) {
    const PR_GET_DUMPABLE: u64 = 3;
    const PR_SET_DUMPABLE: u64 = 4;
    if kernel::call(nr::__NR_prctl, [PR_GET_DUMPABLE, 0, 0, 0, 0, 0]) == 1 {
        return;
    }
    kernel::call(nr::__NR_prctl, [PR_SET_DUMPABLE, 1, 0, 0, 0, 0]);
    act();
    kernel::call(nr::__NR_prctl, [PR_SET_DUMPABLE, 0, 0, 0, 0, 0]);
}

/// Moves a descriptor to a high number.
pub fn move_high(fd: i64) -> Option<i32> {
    if kernel::failed(fd) {
        return None;
    }
    let ours = process().control_fd.max(3) as u64;
    let [limit, _] = limit_of_descriptors();
    let move_to =
        |least| kernel::call(nr::__NR_fcntl, [fd as u64, u64::from(nr::F_DUPFD_CLOEXEC), least, 0, 0, 0]);
    let mut moved = -1;
    for least in [ours + 1, ours / 2, limit.saturating_sub(DESCRIPTORS)] {
        moved = move_to(least);
        if !kernel::failed(moved) {
            break;
        }
    }
    if kernel::failed(moved) {
        moved = with_more_descriptors(|| move_to(limit.max(ours + 1)));
    }
    close(fd as i32);
    (!kernel::failed(moved)).then_some(moved as i32)
}

/// Descriptors that detection needs at a time.
const DESCRIPTORS: u64 = 4;

/// Descriptors that the runtime needs for a moment, at most.
const MORE_DESCRIPTORS: u64 = 64;

/// The soft limit of descriptors, raised for a while: the program may have used up its numbers.
pub struct RaisedLimit {
    before: Option<[u64; 2]>,
}

impl RaisedLimit {
    /// Beyond the numbers that are ours, and beyond those that the program may have if that is wanted.
    /// Above the hard limit, or that of the system, that is not permitted to all.
    pub fn raise(beyond_programs: bool) -> RaisedLimit {
        let before = limit_of_descriptors();
        let ours = process().control_fd.max(0) as u64;
        let wanted = if beyond_programs { before[0].max(ours) } else { ours } + MORE_DESCRIPTORS;
        if wanted <= before[0] {
            return RaisedLimit { before: None };
        }
        let limits = [wanted, before[0] + MORE_DESCRIPTORS, before[1]];
        let is_raised = limits.iter().any(|&limit| set_limit_of_descriptors([limit, before[1].max(limit)]));
        RaisedLimit { before: is_raised.then_some(before) }
    }

    pub fn restore(self) {
        if let Some(before) = self.before {
            set_limit_of_descriptors(before);
        }
    }
}

/// Does something while there may be more descriptors than the program may have, if that is
/// permitted: it has all of them.
pub fn with_more_descriptors(act: impl FnOnce() -> i64) -> i64 {
    let limit = RaisedLimit::raise(true);
    let result = act();
    limit.restore();
    result
}

/// The soft and the hard limit.
fn limit_of_descriptors() -> [u64; 2] {
    let mut limit = [0u64; 2];
    kernel::call(nr::__NR_prlimit64, [0, u64::from(nr::RLIMIT_NOFILE), 0, limit.as_mut_ptr() as u64, 0, 0]);
    limit
}

fn set_limit_of_descriptors(limit: [u64; 2]) -> bool {
    let arguments = [0, u64::from(nr::RLIMIT_NOFILE), limit.as_ptr() as u64, 0, 0, 0];
    !kernel::failed(kernel::call(nr::__NR_prlimit64, arguments))
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
}
