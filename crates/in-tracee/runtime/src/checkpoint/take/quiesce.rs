//! Bringing all threads of the process to a stand: each either goes on afterwards, or
//! leaves its stack for good.

use core::sync::atomic::Ordering;

use lane_protocol::command_phase;
use linux_abi::errno;

use crate::checkpoint::area::area;
use crate::checkpoint::restore::parked_threads;
use crate::ground::proc_files::{self, Path};
use crate::ground::{kernel, notices};
use crate::scheduler::token;
use crate::signals;
use crate::state::block::{known_threads, lane, process, thread, thread_at, thread_status};

/// What parked threads do next.
mod verdict {
    pub const NONE: u32 = 0;
    /// Go on as if nothing had been.
    pub const GO_ON: u32 = 1;
    /// Leave the stack.
    pub const SIT_DOWN: u32 = 2;
    /// Take no signals any more, and wait.
    pub const BLOCK: u32 = 3;
}

/// How long threads may sleep where nothing brings them out of the kernel.
const WAIT_MAX_NS: u64 = 5_000_000_000;
/// How long all may take, however busy the machine is.
const LONG_WAIT_MAX_NS: u64 = 300_000_000_000;
const LOOK_EVERY_NS: u64 = 2_000_000;
/// How often it is asked whether they wait for a processor or a disk only.
const ASK_EVERY_NS: u64 = 500_000_000;
/// How long one that has ended may take to leave its stack.
const LEAVING_NS: u64 = 1_000_000_000;

/// Threads of the program that run, but for the calling one.
fn others() -> impl Iterator<Item = usize> {
    let (own, process) = (thread().index, &raw const *process() as u64);
    (0..known_threads()).filter(move |&index| {
        let other = &mut *thread_at(index);
        index != own && other.process == process && other.status == thread_status::LIVE
    })
}

/// The calling thread has asked for what comes, and parks by itself as soon as that is wanted; or
/// it waits for it no more.
pub fn note_asker(waits: bool) {
    area().asker = if waits { thread().index as u32 + 1 } else { 0 };
}

/// Sleeps until threads are to park, or for so long.
pub fn wait_until_asked(timeout_ms: u64) {
    kernel::futex_wait(&area().parking, 0, timeout_ms);
}

/// How many those are.
pub fn threads() -> usize {
    others().count()
}

/// Waits for threads that have ended, and released the token, but do not sit yet.
/// Nobody holds them up; where one does not come, it is met at the next checkpoint.
pub fn wait_for_leaving() {
    let begin_ns = kernel::monotonic_ns();
    let mut looks = 0;
    while leaving() && kernel::monotonic_ns() - begin_ns < LEAVING_NS {
        wait_a_moment(&mut looks);
    }
}

/// Waits for what other threads are about to do by themselves, and leaves them the processor.
pub fn wait_a_moment(looks: &mut u32) {
    const SPINS: u32 = 1000;
    const YIELDS: u32 = 2000;
    const NAP_NS: u64 = 200_000;
    static NOBODY: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    *looks = looks.saturating_add(1);
    match *looks {
        0..SPINS => core::hint::spin_loop(),
        SPINS..YIELDS => {
            kernel::sched_yield();
        }
        _ => {
            kernel::futex_wait_ns(&NOBODY, 0, NAP_NS);
        }
    }
}

/// Threads that have ended, and whose kernel thread has not left its stack yet.
fn those_leaving() -> impl Iterator<Item = usize> {
    (0..known_threads()).filter(|&index| {
        let other = &mut *thread_at(index);
        other.status == thread_status::ENDED && other.alive.load(Ordering::Acquire) != 0
    })
}

fn leaving() -> bool {
    those_leaving().next().is_some()
}

/// Threads that run and have not come to a stand.
fn missing() -> impl Iterator<Item = usize> {
    others().filter(|&index| !thread_at(index).parked)
}

/// True if a thread that is waited for only waits for a processor, or for a disk where no signal
/// reaches it: on a machine with too much to do that may take many seconds.
fn is_one_on_its_way() -> bool {
    missing().chain(those_leaving()).any(|index| is_delayed(thread_at(index).tid))
}

/// True if the kernel says so of a thread of ours.
fn is_delayed(tid: i32) -> bool {
    let (mut path, mut text) = (Path::new(), [0u8; 128]);
    path.text(b"/proc/self/task/").number(tid as u64).text(b"/stat");
    matches!(path.read(&mut text).and_then(proc_files::state), Some(b'R' | b'D'))
}

/// The agent, which holds the token, brings all threads to a stand; it holds the token
/// again when this returns. An errno if one does not come.
pub fn park_all() -> Result<(), i64> {
    let area = &mut *area();
    area.verdict.store(verdict::NONE, Ordering::SeqCst);
    area.parked.store(0, Ordering::SeqCst);
    for index in 0..known_threads() {
        thread_at(index).parked = false;
    }
    area.parking.store(1, Ordering::SeqCst);
    kernel::futex_wake(&area.parking);
    let command = &lane().command;
    let before = command.phase.swap(command_phase::PARKING, Ordering::AcqRel);
    let parked = wait_for_parked();
    command.phase.store(before, Ordering::Release);
    if parked.is_err() {
        let_go_on();
    }
    parked
}

/// See [`park_all`].
fn wait_for_parked() -> Result<(), i64> {
    let (area, command) = (area(), &lane().command);
    let (mut waited_ns, mut slept_ns) = (0, 0);
    loop {
        let seen = area.parked.load(Ordering::SeqCst);
        if missing().next().is_none() && !leaving() {
            return Ok(());
        }
        command.missing.store(missing().count() as u32, Ordering::Relaxed);
        // Who asked for it comes by itself.
        let asker = if waited_ns == 0 { area.asker } else { 0 };
        for index in missing().filter(|&index| index as u32 + 1 != asker) {
            signals::ask_to_stop(thread_at(index).tid);
        }
        token::give();
        kernel::futex_wait_ns(&area.parked, seen, LOOK_EVERY_NS);
        token::take();
        waited_ns += LOOK_EVERY_NS;
        crate::checkpoint::group::undertaking::note_progress();
        if waited_ns % ASK_EVERY_NS == 0 && !is_one_on_its_way() {
            slept_ns += ASK_EVERY_NS;
        }
        if slept_ns >= WAIT_MAX_NS || waited_ns >= LONG_WAIT_MAX_NS {
            return Err(crate::ground::kernel::error(errno::ETIMEDOUT));
        }
    }
}

/// All parked threads go on as if nothing had been.
pub fn let_go_on() {
    let area = &mut *area();
    area.parking.store(0, Ordering::SeqCst);
    area.verdict.store(verdict::GO_ON, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    // The next time another verdict is waited for.
    let mut looks = 0;
    while others().any(|index| thread_at(index).parked) {
        wait_a_moment(&mut looks);
    }
}

/// No parked thread takes signals any more: whose handlers they come to is about to
/// change. They go on so.
pub fn block_all() {
    let area = &mut *area();
    area.arrived.store(0, Ordering::SeqCst);
    area.verdict.store(verdict::BLOCK, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    let wanted = others().count() as u32;
    loop {
        let blocked = area.arrived.load(Ordering::SeqCst);
        if blocked >= wanted {
            return;
        }
        kernel::futex_wait(&area.arrived, blocked, 100);
    }
}

/// All parked threads leave their stacks. They do nothing else on the way, so that only the
/// kernel can hold them up: there is no limit of time.
pub fn sit_down_all() {
    let wanted = others().count();
    let before = parked_threads::count();
    let area = &mut *area();
    area.verdict.store(verdict::SIT_DOWN, Ordering::SeqCst);
    kernel::futex_wake(&area.verdict);
    let mut looks = 0;
    while parked_threads::count() < before + wanted {
        wait_a_moment(&mut looks);
    }
    area.parking.store(0, Ordering::SeqCst);
}

/// True if the calling thread is to stop.
#[inline]
pub fn stop_asked() -> bool {
    crate::state::live::is_on()
        && process().slot == 0
        && !process().replays()
        && crate::checkpoint::area::lane_takes_part()
        && area().parking.load(Ordering::Relaxed) != 0
}

/// At a boundary, with the token: parks if that is asked. Returns with the token.
#[inline]
pub fn park_if_wanted() {
    if stop_asked() {
        park();
    }
}

/// The same at a preemption that was logged, and releases the token.
pub fn park_at_preemption() {
    thread().yielded = true;
    park();
    notices::leave_if_over();
}

#[cold]
fn park() {
    if thread().index as u32 == area().agent_index {
        return;
    }
    let area = &mut *area();
    token::give();
    thread().parked = true;
    area.parked.fetch_add(1, Ordering::SeqCst);
    kernel::futex_wake(&area.parked);
    loop {
        match area.verdict.load(Ordering::SeqCst) {
            verdict::NONE => {
                kernel::futex_wait(&area.verdict, verdict::NONE, 1000);
            }
            verdict::GO_ON => break,
            verdict::BLOCK => {
                signals::block_all();
                area.arrived.fetch_add(1, Ordering::SeqCst);
                kernel::futex_wake(&area.arrived);
                while area.verdict.load(Ordering::SeqCst) == verdict::BLOCK {
                    kernel::futex_wait(&area.verdict, verdict::BLOCK, 1000);
                }
            }
            _ => parked_threads::sit_down(0),
        }
    }
    thread().parked = false;
    token::take();
}
