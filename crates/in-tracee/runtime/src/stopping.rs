//! Stopping or killing another process of one's lane. Until the kernel has stopped all of
//! its threads, one of them could take the turn, be stopped with it, and hold up whoever
//! is to continue it. So the sender keeps the turn until they stand. Of one that is killed
//! the kernel marks the robust futexes, which the sender then logs. And nobody is killed
//! who has written to the recorded standard output or error, and not logged it: replay
//! would not show what everybody saw.
//!
//! Deliberately absent: stops that come from outside of the lane. The turn of who is
//! stopped so waits for who continues it. And SIGKILL from outside of the recording: of what
//! is written just then, nothing is known.

use core::sync::atomic::Ordering;

use events::{Kind, Tag};
use lane_protocol::KILLED_ANYONE;
use linux_abi::general as nr;

use crate::block::{process, session, space, thread};
use crate::proc_files::{self, Path};
use crate::threads::{self, OWNER_DIED, WAITERS};
use crate::{deaths, kernel, memory, output_lock, signals};

const SIGKILL: u64 = 9;
const SIGSTOP: u64 = 19;
const SIGTTOU: u64 = 22;
/// Looks at the threads, at most, a millisecond apart.
const LOOKS: u32 = 2000;
/// The same where the signal may be ignored after all: by an orphaned group of
/// processes (setpgid(2)).
const LOOKS_UNSURE: u32 = 100;
/// Looks at a process that was killed, at most, a millisecond each: one that ends slowly has long
/// been told, and writes nothing more.
const LOOKS_AT_END: u32 = 20;
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

/// The signal that a call sends.
fn sent(number: u64, args: &[u64; 6]) -> u64 {
    match number as u32 {
        nr::__NR_tgkill | nr::__NR_rt_tgsigqueueinfo => args[2],
        _ => args[1],
    }
}

/// True for a call that sends to others a signal of which the kernel lets a process die, and does
/// not tell us before.
pub fn kills(number: u64, args: &[u64; 6]) -> bool {
    let own = match number as u32 {
        nr::__NR_tkill => args[0] as i32 == thread().tid,
        nr::__NR_pidfd_send_signal => false,
        _ => args[0] as i32 == process().pid,
    };
    let signal = sent(number, args) as u32;
    signals::ends_untold(signal) && (!own || signal == signals::SIGKILL)
}

/// Makes a call that [`kills`] while nobody is between an output and its event.
#[cold]
pub fn kill_between_outputs(number: u64, args: &[u64; 6], make: &mut dyn FnMut() -> i64) -> i64 {
    output_lock::take();
    if signals::kills_itself(number, args) {
        output_lock::give();
        return make();
    }
    if sent(number, args) == SIGKILL {
        note_killed(number, args);
    }
    let result = make();
    // One of the others may have a handler: nobody need end.
    if result == 0 && sent(number, args) == SIGKILL {
        wait_for_end(number, args);
    }
    output_lock::give();
    result
}

/// Who dies of it was killed on purpose, as far as the recording goes: the supervisor takes that
/// for no crash.
fn note_killed(number: u64, args: &[u64; 6]) {
    let named = args[0] as i32;
    let whom = match number as u32 {
        _ if process().pid_space != 0 => KILLED_ANYONE,
        nr::__NR_pidfd_send_signal => proc_files::process_of(args[0]).unwrap_or(KILLED_ANYONE),
        nr::__NR_kill if named == 0 => -(kernel::call(nr::__NR_getpgrp, [0; 6]) as i32),
        nr::__NR_kill if named == -1 => KILLED_ANYONE,
        _ => named,
    };
    let session = session();
    let place = session.next_killed.fetch_add(1, Ordering::AcqRel) as usize % session.killed.len();
    session.killed[place].store(whom, Ordering::Release);
}

/// Waits until the process is gone: until then it could begin to write.
fn wait_for_end(number: u64, args: &[u64; 6]) {
    const POLLIN: u64 = 1;
    let mut pidfd = args[0] as i64;
    if number as u32 != nr::__NR_pidfd_send_signal {
        // Of a group, its leader.
        let pid = u64::from((args[0] as i32).unsigned_abs());
        pidfd = kernel::call(nr::__NR_pidfd_open, [pid, 0, 0, 0, 0, 0]);
        if kernel::failed(pidfd) {
            return;
        }
    }
    for _ in 0..LOOKS_AT_END {
        // struct pollfd: fd, events, revents.
        let mut poll = u64::from(pidfd as u32) | POLLIN << 32;
        let arguments = [&raw mut poll as u64, 1, 1, 0, 0, 0];
        if kernel::call(nr::__NR_poll, arguments) > 0 {
            break;
        }
    }
    if number as u32 != nr::__NR_pidfd_send_signal {
        kernel::call(nr::__NR_close, [pidfd as u64, 0, 0, 0, 0, 0]);
    }
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

/// A call was made with the turn, and is not logged yet: if it kills a process, logs what
/// the kernel did to the robust futexes that they share. The program behind the call
/// sees them so.
#[inline]
pub fn log_killed(number: u64, args: &[u64; 6], result: i64) {
    if process().in_group
        && result == 0
        && let Some((pid, SIGKILL)) = target(number, args)
    {
        wait_until(pid, LOOKS_UNSURE);
        log_dead_owners(pid);
    }
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
                        threads::wake_futex(word);
                    }
                }
            }
            at += PAGE_BYTES as u64;
        }
    }
    log.end();
}

/// A call was made with the turn: if it stops a process, waits until that stands.
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
    wait_until(pid, if signal == SIGSTOP { LOOKS } else { LOOKS_UNSURE });
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
    let mut text = [0u8; 256];
    let Some(text) = path.read(&mut text) else { return true };
    matches!(proc_files::state(text), None | Some(b'T' | b't' | b'Z' | b'X'))
}
