//! A branch: a copy of a replaying process that has left its log and goes on by itself,
//! to be thrown away. The debugger calls functions of the program in one.
//!
//! Memory, signal actions and time work as in any process. What would reach the world
//! outside does not: it fails with EPERM, and the debugger is told. What goes to the
//! standard output and error is shown to the debugger instead.
//!
//! Architecture invariant: no call of a branch's program reaches a descriptor or another
//! process. Deliberately absent: threads. Those of the original that did not run stand
//! still for ever.

use lane_protocol::{AgentCommand, agent_stop};
use linux_abi::{PAGE_BYTES, errno, general as nr};
use syscall_model::{Act, Arg, Special};

use crate::code::sites;
use crate::debugger::agent_state::{self, mailbox};
use crate::debugger::{agent, breakpoints, copies, stop_report, translate};
use crate::ground::assembly::rv_agent_stop;
use crate::ground::frame::RealFrame;
use crate::ground::kernel;
use crate::ground::memory::{self, in_region};
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::{Leave, Registers};
use crate::log::effects::meaning;
use crate::signals;
use crate::state::block::{Mode, process, thread};
use crate::state::call_state::Done;

struct State {
    /// Why the branch stops at its next boundary; one of `agent_stop`, or 0.
    wanted_stop: u32,
    /// Signal or exit code of the stop.
    code: i32,
    /// The process id that was recorded.
    pid: i32,
}

static STATE: Owned<State> = Owned::new(State { wanted_stop: 0, code: 0, pid: 0 });

fn own() -> Held<State> {
    STATE.hold()
}

// --- its beginning ---

/// Makes a branch; returns its process in the one that asked, and 0 in the branch.
pub fn make(command: &AgentCommand) -> i32 {
    let made = copies::make_alone(command.segment);
    if made != 0 {
        return made;
    }
    let count = command.breakpoint_count as usize & !1;
    for range in command.breakpoints[..count].chunks_exact(2) {
        take_over(range[0], range[1]);
    }
    let process = &mut *process();
    process.mode = Mode::Branch;
    // What is logged goes to the ring of our own, which nobody reads.
    process.log.broken = events::StopReason::Unsupported as u16;
    process.given_up.store(1, core::sync::atomic::Ordering::Relaxed);
    (process.shares_token, process.in_group, process.threads) = (false, false, 1);
    own().pid = command.pid;
    0
}

/// Memory that is shared with others becomes the branch's own.
fn take_over(start: u64, end: u64) {
    static PAGE: Owned<[u8; PAGE_BYTES as usize]> = Owned::new([0; PAGE_BYTES as usize]);
    let buffer = PAGE.get() as u64;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED;
    for page in (start..end).step_by(PAGE_BYTES as usize) {
        if !in_region(page, PAGE_BYTES)
            && memory::copy(buffer, page, PAGE_BYTES)
            && !kernel::failed(kernel::mmap(page, PAGE_BYTES, 3, flags, -1, 0))
        {
            memory::copy(page, buffer, PAGE_BYTES);
        }
    }
}

/// Where history has ended: waits for a command, and makes a branch if it says so, which
/// goes on at the program's last registers. True if the debugger has been told.
pub fn from_end() -> bool {
    stop_report::take_command();
    let command = &agent_state::state().command;
    if command.verb != lane_protocol::agent_verb::BRANCH {
        return false;
    }
    let registers = stop_report::waiting_registers(&thread());
    let made = if registers.is_some() { make(command) } else { -(errno::EAGAIN as i32) };
    let (0, Some(registers)) = (made, registers) else {
        stop_report::publish(None, agent_stop::COPIED, 0, made);
        return true;
    };
    own().wanted_stop = agent_stop::REACHED;
    // SAFETY: the registers are the program's; the handler of the trap stops there.
    unsafe { rv_agent_stop(&registers) }
}

/// The debugger sets the registers of a branch that stands still.
pub fn set_registers(context: &mut RealFrame, command: &AgentCommand) {
    if !process().is_branch() {
        return;
    }
    let mut registers = context.registers();
    registers.set_numbered(&command.registers);
    context.set_registers(&registers);
}

// --- its stops ---

/// True if the branch is to stop at the boundary that it is coming to.
pub fn wants_stop() -> bool {
    own().wanted_stop != 0
}

/// Why it stops at this boundary, if it does.
pub fn take_stop() -> Option<u32> {
    let kind = core::mem::take(&mut own().wanted_stop);
    (kind != 0).then_some(kind)
}

/// The signal of the stop at hand.
pub fn code() -> i32 {
    core::mem::take(&mut own().code)
}

/// A fault that the program does not handle: the branch stops before it. gdb lets a
/// function return to a breakpoint on the stack, which need not be executable.
pub fn on_fault(registers: &Registers, signal: u32) -> ! {
    if agent_state::breakpoints().contains(&registers.rip) {
        own().wanted_stop = agent_stop::BREAKPOINT;
    } else {
        (own().wanted_stop, own().code) = (agent_stop::FAULTED, signal as i32);
    }
    // SAFETY: the registers are the program's; the handler of the trap stops there.
    unsafe { rv_agent_stop(registers) }
}

/// Tells the debugger something, and goes on when it says so.
fn tell(kind: u32, code: i32, address: u64, bytes: u64) {
    let stop = &mut mailbox().stop;
    (stop.output, stop.output_bytes) = (address, bytes);
    stop_report::publish(None, kind, 0, code);
    stop_report::wait_for_command();
}

fn end(code: i32) -> ! {
    breakpoints::give_back_code();
    loop {
        stop_report::publish(None, agent_stop::EXITED, 0, code);
        stop_report::wait_for_command();
    }
}

// --- its calls ---

/// Performs a call with code of its own: `specials::execute`.
pub type Execute = fn(Special, u64, &mut Registers, &'static [Arg]) -> Done;

/// One call of the program.
pub fn call(registers: &mut Registers, execute: Execute) -> Leave {
    let trapped = core::mem::take(&mut thread().trapped) != 0;
    if trapped {
        registers.rip = sites::translate(registers.rip);
    }
    thread().user_registers = registers as *const Registers as u64;
    let number = u64::from(registers.rax as u32);
    agent::note_call(number as u32);
    let done = answer(number, registers, execute);
    translate::forget();
    let leave = match done {
        Done::Result(result) => {
            registers.rax = result as u64;
            Leave::Call
        }
        Done::Aborted => {
            registers.rax = -i64::from(errno::EINTR) as u64;
            Leave::Call
        }
        Done::Elsewhere(leave) => leave,
    };
    leave_debugged(registers, leave)
}

fn failed(error: u32) -> Done {
    Done::Result(-i64::from(error))
}

fn answer(number: u64, registers: &mut Registers, execute: Execute) -> Done {
    let args = registers.args();
    if let Some(done) = answer_memory_and_signals(number, registers, &args, execute) {
        return done;
    }
    let standard = args[0] as u32 <= 2;
    match number as u32 {
        nr::__NR_exit_group | nr::__NR_exit => end(args[0] as i32),
        nr::__NR_write | nr::__NR_pwrite64 if standard => Done::Result(show(args[1], args[2])),
        nr::__NR_writev if standard => Done::Result(show_parts(args[1], args[2])),
        nr::__NR_read if standard => Done::Result(0),
        nr::__NR_lseek if standard => failed(errno::ESPIPE),
        nr::__NR_ioctl if standard => failed(errno::ENOTTY),
        nr::__NR_fstat if standard => Done::Result(describe_terminal(args[1])),
        nr::__NR_newfstatat if standard && args[3] & u64::from(nr::AT_EMPTY_PATH) != 0 => {
            Done::Result(describe_terminal(args[2]))
        }
        nr::__NR_getpid => Done::Result(i64::from(own().pid)),
        nr::__NR_gettid => Done::Result(i64::from(tid())),
        nr::__NR_kill | nr::__NR_tgkill | nr::__NR_tkill => kill(number as u32, &args),
        nr::__NR_futex => futex(&args),
        nr::__NR_nanosleep | nr::__NR_clock_nanosleep | nr::__NR_sched_yield | nr::__NR_close => {
            Done::Result(0)
        }
        // They tell of the machine, and change nothing.
        nr::__NR_getuid
        | nr::__NR_geteuid
        | nr::__NR_getgid
        | nr::__NR_getegid
        | nr::__NR_uname
        | nr::__NR_sysinfo
        | nr::__NR_getrandom
        | nr::__NR_getrusage
        | nr::__NR_times
        | nr::__NR_getrlimit
        | nr::__NR_clock_getres
        | nr::__NR_sched_getaffinity => Done::Result(kernel::call(number as u32, args)),
        nr::__NR_prlimit64 if args[2] == 0 => Done::Result(kernel::call(number as u32, args)),
        _ => reject(number),
    }
}

/// Calls that concern the process alone: the runtime executes them as when recording.
fn answer_memory_and_signals(
    number: u64,
    registers: &mut Registers,
    args: &[u64; 6],
    execute: Execute,
) -> Option<Done> {
    let meaning = meaning(number, args);
    let Act::Execute(special) = meaning.act else { return None };
    let is_own = match special {
        Special::Mmap => args[3] & u64::from(nr::MAP_ANONYMOUS) != 0,
        Special::Munmap
        | Special::Mprotect
        | Special::Mremap
        | Special::Brk
        | Special::Madvise
        | Special::RtSigaction
        | Special::RtSigprocmask
        | Special::Sigaltstack
        | Special::RtSigreturn
        | Special::ArchPrctl
        | Special::ClockGettime
        | Special::Gettimeofday
        | Special::Time
        | Special::Getcpu => true,
        _ => false,
    };
    is_own.then(|| execute(special, number, registers, meaning.args))
}

fn reject(number: u64) -> Done {
    tell(agent_stop::REFUSED, number as i32, 0, 0);
    failed(errno::EPERM)
}

/// What goes to the standard output or error.
fn show(address: u64, bytes: u64) -> i64 {
    if bytes == 0 {
        return 0;
    }
    if memory::read::<u8>(address).is_none() {
        return -i64::from(errno::EFAULT);
    }
    tell(agent_stop::OUTPUT, 0, address, bytes);
    bytes as i64
}

fn show_parts(parts: u64, count: u64) -> i64 {
    const PARTS_MAX: u64 = 1024;
    let mut total = 0;
    for index in 0..count.min(PARTS_MAX) {
        let Some([address, bytes]) = memory::read::<[u64; 2]>(parts.wrapping_add(16 * index)) else {
            return -i64::from(errno::EFAULT);
        };
        let shown = show(address, bytes);
        if shown < 0 {
            return shown;
        }
        total += shown;
    }
    total
}

/// fstat(2) of a terminal, so that the C library shows each line.
fn describe_terminal(address: u64) -> i64 {
    const STAT_WORDS: usize = 18;
    const CHARACTER_DEVICE: u64 = 0o020_620;
    const PSEUDO_TERMINAL: u64 = 136 << 8;
    let mut words = [0u64; STAT_WORDS];
    words[2] = 1;
    words[3] = CHARACTER_DEVICE;
    words[5] = PSEUDO_TERMINAL;
    words[7] = 1024;
    if memory::write(address, &words) { 0 } else { -i64::from(errno::EFAULT) }
}

/// The thread's id, where the C library keeps it; else the process's.
fn tid() -> i32 {
    let place = thread().clear_tid;
    let known = if place == 0 { None } else { memory::read::<i32>(place) };
    known.filter(|&tid| tid > 0).unwrap_or(own().pid)
}

/// A signal that the branch would die of stops it; others do not arrive.
fn kill(number: u32, args: &[u64; 6]) -> Done {
    let (mut real, recorded) = (*args, own().pid);
    let is_own = match number {
        nr::__NR_tkill => args[0] as i32 == tid(),
        _ => args[0] as i32 == recorded,
    };
    if !is_own {
        return reject(u64::from(number));
    }
    real[0] = if number == nr::__NR_tkill { thread().tid } else { process().pid } as u64;
    let signal = if number == nr::__NR_tgkill { args[2] } else { args[1] };
    if signals::kills_itself(u64::from(number), &real) {
        (own().wanted_stop, own().code) = (agent_stop::FAULTED, signal as i32);
        return Done::Result(0);
    }
    if signal == 0 { Done::Result(0) } else { reject(u64::from(number)) }
}

/// futex(2), where there is nobody else.
fn futex(args: &[u64; 6]) -> Done {
    const COMMAND: u64 = 127;
    let [address, operation, value, timeout, ..] = *args;
    match operation & COMMAND {
        // FUTEX_WAIT, FUTEX_WAIT_BITSET
        0 | 9 => match memory::read::<u32>(address) {
            None => failed(errno::EFAULT),
            Some(word) if word != value as u32 => failed(errno::EAGAIN),
            Some(_) if timeout != 0 => failed(errno::ETIMEDOUT),
            Some(_) => {
                own().wanted_stop = agent_stop::STUCK;
                failed(errno::EINTR)
            }
        },
        // FUTEX_WAKE, FUTEX_WAKE_BITSET
        1 | 10 => Done::Result(0),
        _ => reject(u64::from(nr::__NR_futex)),
    }
}

/// Under the debugger: the registers are complete before the agent sees them.
#[cold]
pub fn leave_debugged(registers: &mut Registers, leave: Leave) -> Leave {
    if leave == Leave::Call {
        registers.r11 = registers.flags;
    }
    agent::leaving(registers);
    Leave::Exactly
}
