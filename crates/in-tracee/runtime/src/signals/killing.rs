//! SIGKILL for other processes. Of where one stood that the kernel kills, and of what the kernel
//! then does in memory that others have, nothing is known. So those of the recording are asked to
//! die where that is logged, as of any signal that ends a process; who does not in time is killed
//! where it is. And then nobody is killed who has written to the recorded standard output or error,
//! and not logged it: replay would not show what everybody saw.
//!
//! Deliberately absent: SIGKILL from outside of the recording, or from another namespace of process
//! ids, and what the kernel sends by itself (RLIMIT_CPU, memory that is out, PR_SET_PDEATHSIG,
//! F_SETSIG).

use core::sync::atomic::Ordering;

use lane_protocol::{ASKING, KILLED_ANYONE};
use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::ground::proc_files::{self, Path};
use crate::lab;
use crate::scheduler::{output_lock, token};
use crate::signals::{self, stopping};
use crate::state::block::{process, session, thread};
use crate::state::in_lab;
use crate::state::live;
use crate::state::recorded_processes::{each_recorded, is_recorded};
use crate::state::signal_numbers::SIGKILL;
use crate::state::signal_state::Info;

/// Code of the signal that asks a process to die as of SIGKILL.
pub const DIE: i32 = -81;
/// How long those who were asked have for it: those who compute are to be preempted first.
const DEATH_NS: u64 = 100_000_000;
const POLLIN: u64 = 1;
/// Looks at a process that was killed, at most, a millisecond each: one that ends slowly has long
/// been told, and writes nothing more.
const LOOKS_AT_END: u32 = 20;
/// How often, and how long each time, a process is waited for that has been made just now.
const LOOKS_AT_NEWBORN: u32 = 1000;
const NEWBORN_NS: u64 = 100_000;
/// How often others run in a lab until then.
const ROUNDS_IN_LAB: u32 = 16;
/// Most processes that are asked at once.
const ASKED_MAX: usize = 64;

/// The signal that a call sends.
fn sent(number: u64, args: &[u64; 6]) -> u32 {
    match number as u32 {
        nr::__NR_tgkill | nr::__NR_rt_tgsigqueueinfo => args[2] as u32,
        _ => args[1] as u32,
    }
}

/// True for a call that sends SIGKILL.
pub fn kills(number: u64, args: &[u64; 6]) -> bool {
    sent(number, args) == SIGKILL
}

/// Makes a call that [`kills`] while nobody is between an output and its event.
#[cold]
pub fn kill(number: u64, args: &[u64; 6], make: &mut dyn FnMut() -> i64) -> i64 {
    if signals::kills_itself(number, args) {
        output_lock::take();
        output_lock::give();
        return make();
    }
    note_killed(number, args);
    let mut asked = Asked::new();
    asked.ask(number, args);
    asked.wait();
    output_lock::take();
    let result = if asked.total == 0 {
        let result = make();
        if result == 0 {
            wait_for_end(number, args);
        }
        result
    } else {
        // Who was asked may have been waited for meanwhile, and the call is over for the program: a
        // handler of its own that comes first would see them gone, and the call made again fail.
        let result = kernel::call(number as u32, *args);
        if in_lab::is_on() {
            lab::tell_signal(number, args);
        }
        match result {
            result if result == -i64::from(errno::ESRCH) => 0,
            result => result,
        }
    };
    output_lock::give();
    result
}

/// The process of a call's target, where it names one.
fn named(number: u64, args: &[u64; 6]) -> Option<i32> {
    match number as u32 {
        nr::__NR_pidfd_send_signal => proc_files::process_of(args[0]),
        _ => Some(args[0] as i32),
    }
}

/// Who dies of it was killed on purpose, as far as the recording goes: the supervisor takes that
/// for no crash.
fn note_killed(number: u64, args: &[u64; 6]) {
    let whom = match named(number, args) {
        _ if process().pid_space != 0 => KILLED_ANYONE,
        Some(0) if number as u32 == nr::__NR_kill => -(kernel::call(nr::__NR_getpgrp, [0; 6]) as i32),
        None | Some(-1) => KILLED_ANYONE,
        Some(whom) => whom,
    };
    let session = session();
    let place = session.next_killed.fetch_add(1, Ordering::AcqRel) as usize % session.killed.len();
    session.killed[place].store(whom, Ordering::Release);
}

/// Those who were asked to die.
struct Asked {
    /// For poll(2), those who are not dead yet: descriptor, events, revents.
    polled: [u64; ASKED_MAX],
    count: usize,
    total: usize,
}

impl Asked {
    fn new() -> Asked {
        Asked { polled: [0; ASKED_MAX], count: 0, total: 0 }
    }

    /// Asks all whom the call would kill, or nobody. A live session has ways of its own.
    fn ask(&mut self, number: u64, args: &[u64; 6]) {
        let Some(whom) = named(number, args) else { return };
        if live::is_on() {
            return;
        }
        let own_group = || kernel::call(nr::__NR_getpgrp, [0; 6]) as i32;
        let group_of = |pid: i32| kernel::call(nr::__NR_getpgid, [pid as u64, 0, 0, 0, 0, 0]) as i32;
        let is_meant = |pid: i32| match whom {
            -1 => pid != 1,
            0 => group_of(pid) == own_group(),
            group if group < 0 => group_of(pid) == -group,
            one => pid == one,
        };
        // Lane, process, descriptor.
        let mut found = [(0u32, 0i32, 0u64); ASKED_MAX];
        let mut count = 0;
        let mut are_too_many = false;
        let shows_outer = shows_outer_ids();
        let by_descriptor = number as u32 == nr::__NR_pidfd_send_signal;
        each_recorded(&mut |lane, pid, outer_pid| {
            let shown = if shows_outer { outer_pid } else { pid };
            // What a descriptor is of, /proc says.
            let is_meant = if by_descriptor { shown == whom } else { is_meant(pid) };
            if pid == process().pid || !is_meant || !stopping::can_hear(shown) {
                return;
            }
            let pidfd = kernel::call(nr::__NR_pidfd_open, [pid as u64, 0, 0, 0, 0, 0]);
            match found.get_mut(count) {
                _ if kernel::failed(pidfd) => {}
                Some(place) => {
                    *place = (lane, pid, pidfd as u64);
                    count += 1;
                }
                None => {
                    close(pidfd as u32);
                    are_too_many = true;
                }
            }
        });
        let found = &mut found[..count];
        // Parents first: none hears of the death of a child before its own.
        found.sort_unstable();
        for &(_, pid, pidfd) in found.iter() {
            if are_too_many || !ask_one(pid) {
                close(pidfd as u32);
                continue;
            }
            self.polled[self.count] = pidfd | POLLIN << 32;
            self.count += 1;
        }
        self.total = self.count;
    }

    /// Waits until they are dead. They may need the token for it.
    fn wait(&mut self) {
        if in_lab::is_on() {
            return self.wait_in_lab();
        }
        if self.count == 0 {
            return;
        }
        let releases_token = process().shares_token && !thread().keeps_token;
        if releases_token {
            token::give();
        }
        let until_ns = kernel::monotonic_ns() + DEATH_NS;
        while self.count > 0 && kernel::monotonic_ns() < until_ns {
            kernel::call(nr::__NR_poll, [self.polled.as_mut_ptr() as u64, self.count as u64, 1, 0, 0, 0]);
            self.drop_dead();
        }
        for polled in &self.polled[..self.count] {
            close(*polled as u32);
        }
        if releases_token {
            token::take_back();
        }
    }

    /// The same in a lab, where they run when this thread lets them.
    fn wait_in_lab(&mut self) {
        for _ in 0..ROUNDS_IN_LAB {
            if self.count == 0 {
                break;
            }
            lab::let_signalled_run();
            kernel::call(nr::__NR_poll, [self.polled.as_mut_ptr() as u64, self.count as u64, 0, 0, 0, 0]);
            self.drop_dead();
        }
        self.polled[..self.count].iter().for_each(|polled| close(*polled as u32));
    }

    fn drop_dead(&mut self) {
        let mut kept = 0;
        for index in 0..self.count {
            let polled = self.polled[index];
            if polled >> 48 == 0 {
                self.polled[kept] = polled;
                kept += 1;
            } else {
                close(polled as u32);
            }
        }
        self.count = kept;
    }
}

fn ask_one(pid: i32) -> bool {
    let mut info: Info = [0; 16];
    info[0] = u64::from(ASKING);
    info[1] = u64::from(DIE as u32);
    let arguments = [pid as u64, u64::from(ASKING), info.as_ptr() as u64, 0, 0, 0];
    !kernel::failed(kernel::call(nr::__NR_rt_sigqueueinfo, arguments))
}

fn close(fd: u32) {
    kernel::call(nr::__NR_close, [u64::from(fd), 0, 0, 0, 0, 0]);
}

/// True if /proc is that of an outer namespace, and shows this process by its id there.
fn shows_outer_ids() -> bool {
    if process().pid_space == 0 {
        return false;
    }
    let (mut path, mut room) = (Path::new(), [0u8; 64]);
    let own = proc_files::number(path.text(b"/proc/self").target(&mut room));
    own != Some(process().pid as u32)
}

/// The process of a thread, by its id; the id itself where nobody knows it.
pub fn process_of_thread(tid: i32) -> i32 {
    let mut process = tid;
    let (mut path, mut room) = (Path::new(), [0u8; 1024]);
    let status = path.text(b"/proc/").number(tid.unsigned_abs().into()).text(b"/status").read(&mut room);
    for line in status.unwrap_or_default().split(|&byte| byte == b'\n') {
        if let Some(number) = line.strip_prefix(b"Tgid:\t") {
            process = number.iter().fold(0i32, |sum, &digit| {
                sum.wrapping_mul(10).wrapping_add(i32::from(digit.wrapping_sub(b'0')))
            });
        }
    }
    process
}

/// True for a process that may not be traced, as far as is known from here: it is recorded, or
/// records.
pub fn is_of_recording(tid: i32) -> bool {
    if process().pid_space != 0 {
        return true;
    }
    let process = process_of_thread(tid);
    if process == session().supervisor_pid {
        return true;
    }
    for _ in 0..LOOKS_AT_NEWBORN {
        if let Some(is_recorded) = is_recorded(process) {
            return is_recorded;
        }
        kernel::sleep_ns(NEWBORN_NS);
    }
    false
}

/// Waits until the process is gone: until then it could begin to write.
fn wait_for_end(number: u64, args: &[u64; 6]) {
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
        close(pidfd as u32);
    }
}
