//! The program's own seccomp filters (seccomp(2)).
//!
//! In the kernel they would judge the runtime's calls, and what the program calls is not what
//! the kernel sees. So the runtime keeps them, and asks them before each call of the
//! program's, whoever answers that call. What they held back is in the log: replay asks none.
//! As in the kernel they form a tree: a thread has the newest one, which knows the one before.
//!
//! Invariant: they lie in the runtime's variables, which fork copies and which go back in
//! time; execve carries them in the lane's segment, and where recording ends the kernel gets
//! them. Deliberately absent: notifications (SECCOMP_FILTER_FLAG_NEW_LISTENER), whose
//! listener would see calls that the kernel does not.

mod held_back;

use bytecode::classic::INSTRUCTIONS_MAX;
use linux_abi::{errno, general as nr};

use crate::code::filter_tree::{self, BY_PRCTL, EFAULT, EINVAL, Filter, LOG, SPEC_ALLOW, STRICT, action};
use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::log::call_event::replayed;
use crate::state::block::{process, thread, thread_status};
use crate::state::call_state::Done;
use crate::state::live;
use crate::syscalls::specials::{is_filtered, own};
pub use held_back::{hold_back, let_through, replay, replay_death};

// Flags of SECCOMP_SET_MODE_FILTER.
const TSYNC: u64 = 1;
const TSYNC_ESRCH: u64 = 16;

// --- the calls ---

/// seccomp(2), in both modes.
pub fn seccomp(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    const SET_MODE_STRICT: u32 = 0;
    const SET_MODE_FILTER: u32 = 1;
    const GET_ACTION_AVAIL: u32 = 2;
    const GET_NOTIF_SIZES: u32 = 3;
    let (operation, flags, address) = (args[0] as u32, args[1] & 0xffff_ffff, args[2]);
    let plain = match operation {
        SET_MODE_STRICT => flags == 0 && address == 0,
        GET_ACTION_AVAIL | GET_NOTIF_SIZES => flags == 0,
        SET_MODE_FILTER => true,
        _ => false,
    };
    let mut written = [(0, 0)];
    let result = match operation {
        _ if !plain => EINVAL,
        SET_MODE_STRICT | SET_MODE_FILTER => {
            let strict = operation == SET_MODE_STRICT;
            return set(registers, number, args, 3, if strict { None } else { Some((flags, address)) });
        }
        GET_ACTION_AVAIL => action_available(address),
        _ => {
            // seccomp_notif, seccomp_notif_resp, seccomp_data.
            written = [(address, 6)];
            if memory::write(address, &[80u16, 24, 64]) { 0 } else { EFAULT }
        }
    };
    own(registers, number, args, 3, result, &written)
}

/// prctl(PR_SET_SECCOMP), in both modes.
pub fn set_by_prctl(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    match args[1] {
        1 => set(registers, number, args, 5, None),
        2 => set(registers, number, args, 5, Some((BY_PRCTL, args[2]))),
        _ => own(registers, number, args, 5, EINVAL, &[]),
    }
}

/// What PR_GET_SECCOMP says.
pub fn mode() -> i64 {
    if thread().filters.newest == 0 { 0 } else { 2 }
}

fn action_available(address: u64) -> i64 {
    use action::{ALLOW, ERRNO, KILL_PROCESS, KILL_THREAD, LOG, TRACE, TRAP};
    match memory::read::<u32>(address) {
        None => EFAULT,
        Some(KILL_PROCESS | KILL_THREAD | TRAP | ERRNO | TRACE | LOG | ALLOW) => 0,
        Some(_) => -i64::from(errno::EOPNOTSUPP),
    }
}

/// Sets the strict mode, or adds the filter that these flags and this address describe.
fn set(
    registers: &Registers,
    number: u64,
    args: &[u64; 6],
    count: usize,
    filter: Option<(u64, u64)>,
) -> Done {
    if !process().replays() {
        let result = match filter {
            None if thread().filters.newest != 0 => EINVAL,
            None => 0,
            Some((flags, address)) => add(flags, address),
        };
        if result == 0 && filter.is_none() {
            thread().filters.newest = STRICT;
        }
        return own(registers, number, args, count, result, &[]);
    }
    let done = replayed(registers);
    if live::goes_again() && matches!(done, Done::Result(0)) {
        // The present that the replay leads to has them.
        match filter {
            None => thread().filters.newest = STRICT,
            Some((flags, address)) => {
                attach(flags, address);
            }
        }
    }
    done
}

/// Adds a filter, as far as it may be added; the call's result.
fn add(flags: u64, address: u64) -> i64 {
    // A kernel before 5.0 knows no listeners.
    if flags & !(TSYNC | LOG | SPEC_ALLOW | TSYNC_ESRCH | BY_PRCTL) != 0 {
        return EINVAL;
    }
    let Some([count, _]) = memory::read::<[u64; 2]>(address) else { return EFAULT };
    if !(1..=INSTRUCTIONS_MAX as u64).contains(&(count & 0xffff)) {
        return EINVAL;
    }
    if !may_filter() {
        return -i64::from(errno::EACCES);
    }
    attach(flags, address)
}

/// Reads, checks and adds a filter.
fn attach(flags: u64, address: u64) -> i64 {
    let Some([count, program]) = memory::read::<[u64; 2]>(address) else { return EFAULT };
    let made = match Filter::read(program, count as usize & 0xffff, flags, thread().filters.newest) {
        Ok(made) => made,
        Err(error) => return error,
    };
    if flags & TSYNC != 0
        && let Some(other) =
            others().find(|&index| !can_follow(crate::state::block::thread_at(index).filters.newest))
    {
        let tid = crate::state::block::thread_at(other).tid;
        return if flags & TSYNC_ESRCH != 0 { -i64::from(errno::ESRCH) } else { i64::from(tid) };
    }
    thread().filters.newest = made;
    if flags & TSYNC != 0 {
        let owes = has_no_new_privileges();
        for index in others() {
            let other = &mut *crate::state::block::thread_at(index);
            other.filters.newest = made;
            other.filters.owes_privileges |= owes;
        }
    }
    0
}

/// True if a thread with this newest filter can have ours: its own are among them.
fn can_follow(newest: u64) -> bool {
    newest == 0
        || newest != STRICT
            && filter_tree::chain(thread().filters.newest).any(|filter| filter.address() == newest)
}

/// The process's other threads.
fn others() -> impl Iterator<Item = usize> {
    let (own, process) = (thread().index, thread().process);
    (0..crate::state::block::known_threads()).filter(move |&index| {
        let other = &mut *crate::state::block::thread_at(index);
        index != own && other.process == process && other.status == thread_status::LIVE
    })
}

/// Filters are for those who can gain no privileges by them, or have them all.
fn may_filter() -> bool {
    has_no_new_privileges() || has_all_privileges()
}

fn has_no_new_privileges() -> bool {
    const PR_GET_NO_NEW_PRIVS: u64 = 39;
    match is_filtered() {
        true => process().no_new_privileges,
        false => kernel::call(nr::__NR_prctl, [PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0]) == 1,
    }
}

fn has_all_privileges() -> bool {
    const CAP_SYS_ADMIN: u32 = 1 << 21;
    const VERSION_3: u32 = 0x2008_0522;
    let head = [VERSION_3, 0];
    // Effective, permitted, inheritable; of the upper capabilities the same.
    let mut sets = [0u32; 6];
    let result = kernel::call(nr::__NR_capget, [head.as_ptr() as u64, sets.as_mut_ptr() as u64, 0, 0, 0, 0]);
    result == 0 && sets[0] & CAP_SYS_ADMIN != 0
}
