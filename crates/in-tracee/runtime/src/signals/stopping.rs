//! Stopping another process of one's lane. Until the kernel has stopped all of
//! its threads, one of them could acquire the token, be stopped with it, and hold up whoever
//! is to continue it. So the sender keeps the token until they stand. Of one that is killed
//! where it is (see `killing`) the kernel marks the robust futexes, which the sender then logs.
//!
//! Deliberately absent: stops that come from outside of the lane. The token of who is
//! stopped so waits for who continues it.

use events::{Kind, Tag};
use linux_abi::general as nr;

use crate::ground::proc_files::{self, Path};
use crate::ground::{kernel, memory};
use crate::signals::deaths;
use crate::signals::robust_futexes::{self, OWNER_DIED, WAITERS};
use crate::state::block::{process, space, thread};

const SIGKILL: u64 = 9;
const SIGSTOP: u64 = 19;
const SIGTTOU: u64 = 22;
/// Looks at the threads, at most, a millisecond apart.
const SPINS: u32 = 2000;
/// The same where the signal may be ignored after all: by an orphaned group of
/// processes (setpgid(2)).
const LOOKS_UNSURE: u32 = 100;
const PAGE_BYTES: usize = 4096;
/// Pages of shared memory that are searched for robust futexes.
const PAGES_MAX: u32 = 1024;
/// Such words, at most about: a program that is full of them means something else.
const WORDS_MAX: u32 = 1024;

/// The process that a call stops or kills, if it was made for that.
pub fn target(number: u64, args: &[u64; 6]) -> Option<(i32, u64)> {
    let signal = match number as u32 {
        nr::__NR_kill => args[1],
        nr::__NR_tgkill => args[2],
        _ => return None,
    };
    let pid = args[0] as i32;
    let other = pid > 0 && pid != process().pid;
    (other && matches!(signal, SIGKILL | SIGSTOP..=SIGTTOU)).then_some((pid, signal))
}

/// True for a call by which the process stops itself: the others of its lane run meanwhile.
pub fn stops_itself(number: u64, args: &[u64; 6]) -> bool {
    let (own, signal) = match number as u32 {
        nr::__NR_kill => (args[0] as u32 == 0 || args[0] as i32 == process().pid, args[1]),
        nr::__NR_tgkill => (args[0] as i32 == process().pid, args[2]),
        nr::__NR_tkill => (args[0] as i32 == thread().tid, args[1]),
        _ => return false,
    };
    own && process().in_group && matches!(signal, SIGSTOP..=SIGTTOU)
}

/// A call was made with the token, and is not logged yet: if it kills a process, or tells that one
/// was killed, logs what the kernel did to the robust futexes that they share. The program behind
/// the call sees them so.
#[inline]
pub fn log_killed(number: u64, args: &[u64; 6], result: i64) {
    if !process().in_group || result < 0 {
        return;
    }
    if matches!(number as u32, nr::__NR_wait4 | nr::__NR_waitid) {
        if let Some(pid) = told_killed(number, args, result) {
            log_dead_owners(pid);
        }
    } else if result == 0
        && let Some((pid, SIGKILL)) = target(number, args)
    {
        wait_until(pid, LOOKS_UNSURE);
        log_dead_owners(pid);
    }
}

/// The child of which wait4 or waitid told that it was killed, or did not tell how it ended.
#[cold]
fn told_killed(number: u64, args: &[u64; 6], result: i64) -> Option<i32> {
    const CLD_KILLED: u32 = 2;
    const CLD_DUMPED: u32 = 3;
    if number as u32 == nr::__NR_wait4 {
        // WIFEXITED, WIFSTOPPED, WIFCONTINUED.
        let lives_or_exited = |status: u32| matches!(status & 0x7f, 0 | 0x7f);
        let is_known = memory::read::<u32>(args[1]).is_some_and(lives_or_exited);
        return (result > 0 && !is_known).then_some(result as i32);
    }
    // siginfo_t: si_signo, si_errno, si_code, a gap, si_pid.
    let [_, _, code, _, pid] = memory::read::<[u32; 5]>(args[2])?;
    matches!(code, CLD_KILLED | CLD_DUMPED).then_some(pid as i32)
}

/// The words in shared memory whose owner is dead: FUTEX_OWNER_DIED and no owner
/// (get_robust_list(2)).
#[cold]
fn log_dead_owners(pid: i32) {
    let log = &mut process().log;
    log.begin(Kind::Store, 0, 0);
    deaths::let_go_of(pid);
    let (mut pages, mut words) = (0, 0);
    for range in &space().shared[..space().shared_count] {
        let mut at = range.start;
        while at < range.end && pages < PAGES_MAX && words < WORDS_MAX {
            pages += 1;
            let mut page = [0u32; PAGE_BYTES / 4];
            if memory::copy(page.as_mut_ptr() as u64, at, PAGE_BYTES as u64) {
                let dead = page.iter().enumerate().filter(|(_, word)| *word & !WAITERS == OWNER_DIED);
                for (index, value) in dead {
                    let word = at + 4 * index as u64;
                    log.blob(word, 4, Tag::Memory, word);
                    words += 1;
                    if value & WAITERS != 0 {
                        // With priority inheritance the kernel knows of no waiter.
                        robust_futexes::wake_futex(word);
                    }
                }
            }
            at += PAGE_BYTES as u64;
        }
    }
    log.end();
}

/// A call was made with the token: if it stops a process, waits until that stands.
#[inline]
pub fn finish(number: u64, args: &[u64; 6], result: i64) {
    if process().in_group
        && result == 0
        && let Some((pid, signal @ SIGSTOP..=SIGTTOU)) = target(number, args)
    {
        wait_for(pid, signal);
    }
}

#[cold]
fn wait_for(pid: i32, signal: u64) {
    if signal != SIGSTOP && takes_otherwise(pid, signal) {
        return;
    }
    wait_until(pid, if signal == SIGSTOP { SPINS } else { LOOKS_UNSURE });
}

/// Waits until every thread of the process stands.
fn wait_until(pid: i32, looks: u32) {
    for _ in 0..looks {
        if all_stand(pid) {
            return;
        }
        kernel::sleep_ns(1_000_000);
    }
}

/// True if the process blocks, ignores or handles the signal.
fn takes_otherwise(pid: i32, signal: u64) -> bool {
    masks_have(pid, signal, &[b"SigBlk:\t", b"SigIgn:\t", b"SigCgt:\t"]).unwrap_or(true)
}

/// True if a signal is in one of these masks of a process (proc_pid_status(5)); `None` if
/// that cannot be read.
pub fn masks_have(pid: i32, signal: u64, names: &[&[u8]]) -> Option<bool> {
    let mut path = Path::new();
    path.text(b"/proc/").number(pid as u64).text(b"/status");
    let mut text = [0u8; 4096];
    let mut lines = path.read(&mut text)?.split(|&byte| byte == b'\n');
    Some(lines.any(|line| {
        let digits = names.iter().find_map(|name| line.strip_prefix(*name)).unwrap_or_default();
        let digit = |&byte: &u8| u64::from((byte as char).to_digit(16).unwrap_or(0));
        digits.iter().fold(0, |mask, byte| mask << 4 | digit(byte)) & 1 << (signal - 1) != 0
    }))
}

/// True if a process can take a signal soon: it is not stopped, nor does its first thread wait for a
/// child of vfork(2), or for a disk.
pub fn can_hear(pid: i32) -> bool {
    let mut path = Path::new();
    path.text(b"/proc/").number(pid as u64).text(b"/stat");
    state_at(&path) != Some(b'D') && !all_stand(pid)
}

/// True if every thread of the process is stopped or gone.
fn all_stand(pid: i32) -> bool {
    let mut path = Path::new();
    path.text(b"/proc/").number(pid as u64).text(b"/task");
    let fd = path.open();
    if kernel::failed(fd) {
        return true;
    }
    let mut all = true;
    let mut buffer = [0u8; 2048];
    loop {
        let arguments = [fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0];
        let bytes = kernel::call(nr::__NR_getdents64, arguments);
        if bytes <= 0 {
            break;
        }
        let mut entries = &buffer[..bytes as usize];
        // struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name.
        while let Some(&[low, high]) = entries.get(16..18) {
            let length = usize::from(u16::from_le_bytes([low, high]));
            let Some(name) = entries.get(19..length) else { break };
            if name[0] != b'.' {
                all &= stands(pid, name);
            }
            entries = &entries[length..];
        }
    }
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    all
}

/// True if the thread, of which the name is the number, is stopped or gone.
fn stands(pid: i32, thread: &[u8]) -> bool {
    let number = thread.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut path = Path::new();
    path.text(b"/proc/").number(pid as u64).text(b"/task/").text(number).text(b"/stat");
    matches!(state_at(&path), None | Some(b'T' | b't' | b'Z' | b'X'))
}

/// The state that a file `stat` of proc(5) tells.
fn state_at(path: &Path) -> Option<u8> {
    let mut text = [0u8; 256];
    proc_files::state(path.read(&mut text)?)
}
