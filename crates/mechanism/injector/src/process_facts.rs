//! What /proc says of a process that is to be boarded, and why it may not be.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::str::SplitAsciiWhitespace;

use crate::error::{InjectError, Refusal};
use crate::program::executable_is_32_bit;

/// What has to be known of a process before it is stopped.
pub(crate) struct Facts {
    pub pid: i32,
    pub exe: Vec<u8>,
    /// Where the program's break began.
    pub break_start: u64,
    /// Where its arguments begin on the first stack.
    pub stack_start: u64,
    /// Its limit on descriptors.
    pub descriptors_max: u64,
}

/// Fields of /proc/PID/stat, counted from 1 (proc_pid_stat(5)).
const START_STACK: usize = 28;
const START_BREAK: usize = 47;
/// Flag of a kernel thread in its field 9.
const FLAGS: usize = 9;
const IS_KERNEL_THREAD: u64 = 0x0020_0000;

/// True if this very process is recorded: the runtime's code is where it is in every recorded process.
pub fn is_recorded() -> bool {
    const PAGE_BYTES: usize = 4096;
    // SAFETY: the call changes nothing; it fails where nothing is mapped.
    unsafe { libc::msync(lane_protocol::TEXT_START as *mut libc::c_void, PAGE_BYTES, libc::MS_ASYNC) == 0 }
}

impl Facts {
    pub fn of(pid: i32) -> Result<Facts, InjectError> {
        let refused = |why| InjectError::Boarding { pid, why };
        let no_such = |_| refused(Refusal::NoSuchProcess);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(no_such)?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(no_such)?;
        look_at_status(pid, &status).map_err(refused)?;
        let word = |field: usize| field_of(&stat, field).unwrap_or(0);
        if word(FLAGS) & IS_KERNEL_THREAD != 0 {
            return Err(refused(Refusal::KernelThread));
        }
        let exe = fs::read_link(format!("/proc/{pid}/exe"))
            .map_err(|error| refused(why_not_permitted(pid, error)))?;
        if executable_is_32_bit(pid).unwrap_or(false) {
            return Err(refused(Refusal::ThirtyTwoBit));
        }
        let (break_start, stack_start) = (word(START_BREAK), word(START_STACK));
        if break_start == 0 {
            let error = io::Error::from_raw_os_error(libc::EPERM);
            return Err(refused(why_not_permitted(pid, error)));
        }
        let descriptors_max = descriptors_max(pid).unwrap_or(1024);
        Ok(Facts { pid, exe: exe.as_os_str().as_bytes().to_vec(), break_start, stack_start, descriptors_max })
    }
}

/// The fields of /proc/PID/stat from the third on, the state; the second is in parentheses and
/// may hold anything.
pub(crate) fn fields_of(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace())
}

/// A number of /proc/PID/stat.
fn field_of(stat: &str, field: usize) -> Option<u64> {
    fields_of(stat)?.nth(field - 3)?.parse().ok()
}

/// The letter of a process's state (proc_pid_stat(5)); `None` if it is not there.
fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    fields_of(&stat)?.next()?.chars().next()
}

/// True if the process was stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    state_of(pid) == Some('T')
}

/// True of a process that is not there, or that only its parent still has to learn of.
pub fn has_ended(pid: i32) -> bool {
    state_of(pid).is_none_or(|state| matches!(state, 'Z' | 'X'))
}

/// The same of one that may be there although nothing can be opened to look at it.
pub fn is_gone(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    let is_there =
        unsafe { libc::kill(pid, 0) } == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
    !is_there || matches!(state_of(pid), Some('Z' | 'X'))
}

fn value_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn look_at_status(pid: i32, status: &str) -> Result<(), Refusal> {
    let number = |name: &str| value_of(status, name).and_then(|text| text.parse::<i32>().ok());
    if pid == std::process::id() as i32 {
        return Err(Refusal::Ourselves);
    }
    if let Some(group) = number("Tgid")
        && group != pid
    {
        return Err(Refusal::IsThread(group));
    }
    if value_of(status, "State").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return Err(Refusal::NoSuchProcess);
    }
    match number("TracerPid") {
        None | Some(0) => {}
        Some(tracer) => return Err(Refusal::Traced(tracer)),
    }
    if number("Seccomp").is_some_and(|mode| mode != 0) {
        return Err(Refusal::Seccomp);
    }
    if let Some(parent) = number("PPid")
        && shares_memory(pid, parent)
    {
        return Err(Refusal::SharesWithParent(parent));
    }
    Ok(())
}

/// True if both run in the same memory, as a child of vfork does.
fn shares_memory(pid: i32, parent: i32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: the call only compares; where it is refused nothing is known.
    parent > 0 && unsafe { libc::syscall(libc::SYS_kcmp, pid, parent, KCMP_VM, 0, 0) } == 0
}

/// The group of a process that is there, or has not been waited for.
pub(crate) fn group_of(pid: i32) -> Option<i32> {
    const GROUP: usize = 5;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    field_of(&stat, GROUP).and_then(|group| i32::try_from(group).ok())
}

/// The process that traces a thread; 0: none.
pub(crate) fn tracer_of(tid: i32) -> Option<i32> {
    value_of(&fs::read_to_string(format!("/proc/{tid}/status")).ok()?, "TracerPid")?.parse().ok()
}

/// Signals that wait for a thread or its process.
pub fn waiting_signals(tid: i32) -> u64 {
    let [own, of_all] = pending_signals(tid);
    own | of_all
}

/// Signals that wait for a thread, and those that wait for any of its process (proc_pid_status(5)).
pub fn pending_signals(tid: i32) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    ["SigPnd", "ShdPnd"].map(|name| signal_set(&status, name))
}

/// A set of signals of a process's status, 0 if it is not there.
pub(crate) fn signal_set(status: &str, name: &str) -> u64 {
    value_of(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
}

/// The soft limit of a process on open descriptors.
fn descriptors_max(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Why the kernel does not let us at the process.
pub(crate) fn why_not_permitted(pid: i32, error: io::Error) -> Refusal {
    if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
        return Refusal::Memory(error);
    }
    let owner = |path: String| fs::metadata(path).ok().map(|found| found.uid());
    let (own, its) = (owner("/proc/self".into()), owner(format!("/proc/{pid}")));
    // SAFETY: asks for a number.
    let (is_root, real) = unsafe { (libc::geteuid() == 0, libc::getuid()) };
    if !is_root && its.is_some() && own != its {
        return Refusal::OtherUser { its: its.unwrap_or(0), own: real };
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    match scope.and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(scope) if scope >= 3 || (scope >= 1 && !is_root) => Refusal::Yama(scope),
        _ => Refusal::NotPermitted(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 77";
        assert_eq!(field_of(stat, 4), Some(1));
        assert_eq!(field_of("7 (x) S 1 2 3 4 5 4194304 8", FLAGS), Some(4_194_304));
    }

    #[test]
    fn who_cannot_be_boarded_is_found_in_the_status() {
        let status = "Name:\tx\nState:\tS (sleeping)\nTgid:\t40\nPPid:\t0\nTracerPid:\t0\nSeccomp:\t0\n";
        assert!(look_at_status(40, status).is_ok());
        assert!(matches!(look_at_status(41, status), Err(Refusal::IsThread(40))));
        let traced = status.replace("TracerPid:\t0", "TracerPid:\t9");
        assert!(matches!(look_at_status(40, &traced), Err(Refusal::Traced(9))));
        let filtered = status.replace("Seccomp:\t0", "Seccomp:\t2");
        assert!(matches!(look_at_status(40, &filtered), Err(Refusal::Seccomp)));
        let dead = status.replace("S (sleeping)", "Z (zombie)");
        assert!(matches!(look_at_status(40, &dead), Err(Refusal::NoSuchProcess)));
    }
}
