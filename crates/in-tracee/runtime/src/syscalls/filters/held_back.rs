//! A call that a filter does not let through: what comes in its place.

use bytecode::classic::Data;
use events::{ENDS_THREAD, FATAL, FILTERED, Header, Kind, SIGNAL_FOLLOWS};
use linux_abi::{errno, general as nr};

use crate::checkpoint::asked_calls;
use crate::checkpoint::restore::{crash, debugging};
use crate::code::filter_tree::{self, AUDIT_ARCH_X86_64, STRICT, action};
use crate::ground::kernel;
use crate::ground::registers::{Leave, Registers};
use crate::log::call_event::{begin_call, inject};
use crate::log::effects::{self, meaning};
use crate::process::threads;
use crate::signals::{self, deaths, robust_futexes};
use crate::state::block::{process, thread};
use crate::state::signal_numbers::{SIGKILL, SIGSYS};
use crate::state::signal_state::Info;
use crate::state::{live, report};

/// MAX_ERRNO of the kernel.
const ERROR_MAX: u32 = 4095;

/// True if a call passes the thread's filters, which is known without asking them.
#[inline]
pub fn let_through(number: u32, args: &[u64; 6]) -> bool {
    let Some(newest) = filter_tree::newest(thread().filters.newest) else { return false };
    newest.always_lets_through(number) || is_vdsos(number, args[0])
}

/// True for what the vDSO answers without the kernel, and so without filters: the functions of ours
/// make these calls. (Whoever means the call is not told apart.)
fn is_vdsos(number: u32, clock: u64) -> bool {
    match number {
        // Real and monotonic, raw, coarse, since boot, atomic.
        nr::__NR_clock_gettime | nr::__NR_clock_getres => matches!(clock, 0 | 1 | 4..=7 | 11),
        nr::__NR_gettimeofday | nr::__NR_time | nr::__NR_getcpu => true,
        _ => false,
    }
}

/// Before a call is made, of a thread that has filters: what is done instead, if they do not
/// let it through.
pub fn hold_back(registers: &mut Registers, args: &[u64; 6]) -> Option<Leave> {
    let number = registers.rax as u32;
    if core::mem::take(&mut thread().filters.owes_privileges) {
        const PR_SET_NO_NEW_PRIVS: u64 = 38;
        kernel::call(nr::__NR_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
    }
    if live::is_on() && asked_calls::is_call(u64::from(number)) || let_through(number, args) {
        return None;
    }
    if thread().filters.newest == STRICT {
        let may = matches!(number, nr::__NR_read | nr::__NR_write | nr::__NR_exit | nr::__NR_rt_sigreturn)
            || is_vdsos(number, args[0]);
        return if may { None } else { end_thread(registers, args, SIGKILL) };
    }
    let verdict = filter_tree::judge(thread().filters.newest, &data_of(registers, args));
    let data = verdict & !action::MASK;
    match verdict & action::MASK {
        action::ALLOW | action::LOG => None,
        action::ERRNO => Some(answer(registers, args, -i64::from(data.min(ERROR_MAX)))),
        // Nobody traces, and nobody listens.
        action::TRACE | action::USER_NOTIF => Some(answer(registers, args, -i64::from(errno::ENOSYS))),
        action::TRAP => Some(trap(registers, args, data)),
        action::KILL_THREAD => end_thread(registers, args, SIGSYS),
        _ => die(registers, SIGSYS, &info_of(registers, data)),
    }
}

fn data_of(registers: &Registers, args: &[u64; 6]) -> Data {
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let [low, high] = halves(registers.rcx);
    let mut data = [registers.rax as u32, AUDIT_ARCH_X86_64, low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (index, &arg) in args.iter().enumerate() {
        data[4 + 2 * index..][..2].copy_from_slice(&halves(arg));
    }
    data
}

/// What the signal says of the call (sigaction(2)): si_errno is the filter's data.
fn info_of(registers: &Registers, data: u32) -> Info {
    const SYS_SECCOMP: u64 = 1;
    let mut info: Info = [0; 16];
    info[0] = u64::from(SIGSYS) | u64::from(data) << 32;
    info[1] = SYS_SECCOMP;
    info[2] = registers.rcx;
    info[3] = registers.rax & 0xffff_ffff | u64::from(AUDIT_ARCH_X86_64) << 32;
    info
}

/// The call is not made, and gives this.
#[cold]
fn answer(registers: &mut Registers, args: &[u64; 6], result: i64) -> Leave {
    log_held_back(registers, args, result);
    process().log.end();
    registers.rax = result as u64;
    if thread().pending != 0 && signals::deliver_after(registers) {
        return Leave::Exactly;
    }
    Leave::Call
}

/// Begins the event of the call.
fn log_held_back(registers: &Registers, args: &[u64; 6], result: i64) {
    let number = u64::from(registers.rax as u32);
    let meaning = meaning(number, args);
    begin_call(number, args, meaning.args.len(), result, FILTERED);
    if effects::work_of(meaning.args) & effects::READS_TEXT != 0 {
        effects::log_texts(meaning.args, args);
    }
}

/// A signal comes in place of the call. Its handler finds the call's number where the result
/// would be, and may put one there.
#[cold]
fn trap(registers: &mut Registers, args: &[u64; 6], data: u32) -> Leave {
    let info = info_of(registers, data);
    if !signals::force(SIGSYS, &info) {
        die(registers, SIGSYS, &info);
    }
    log_held_back(registers, args, registers.rax as i64);
    process().log.end();
    if !signals::deliver_after(registers) {
        report::fail("a signal in place of a call does not come");
    }
    Leave::Exactly
}

/// The thread ends, and with the last one the process dies.
#[cold]
fn end_thread(registers: &mut Registers, args: &[u64; 6], signal: u32) -> ! {
    if process().threads > 1 {
        threads::end(registers, u64::from(signal), &|| log_held_back(registers, args, ENDS_THREAD));
    }
    die(registers, signal, &info_of(registers, 0))
}

/// The process dies in place of the call.
#[cold]
fn die(registers: &mut Registers, signal: u32, info: &Info) -> ! {
    signals::point_at_call(registers);
    let is_crash = signal == SIGSYS;
    if is_crash {
        debugging::stop_at_fault(registers, signal);
        crash::before_crash(signal);
    }
    if process().in_group {
        robust_futexes::log_dead_owner();
    }
    let log = &mut process().log;
    log.begin(Kind::Fault, FATAL, signal as u16);
    log.word(registers.rip);
    log.raw(info.as_ptr() as u64, 128);
    log.raw(thread().signals.last_fault.as_ptr() as u64, 24);
    log.end();
    deaths::tell();
    if is_crash {
        crash::after_crash(signal);
    }
    signals::die_of(signal);
    kernel::exit_group(128 + signal as i32)
}

// --- replaying ---

/// Replay: a filter held the call at hand back.
pub fn replay(registers: &mut Registers, word: Header) -> Leave {
    if process().log.body(0) as i64 == ENDS_THREAD {
        threads::end(registers, u64::from(SIGSYS), &|| {});
    }
    registers.rax = inject(word, registers) as u64;
    if word.flags() & SIGNAL_FOLLOWS != 0 && signals::replay_following(registers) {
        return Leave::Exactly;
    }
    Leave::Call
}

/// Replay: the process died in place of the call at hand.
pub fn replay_death(registers: &mut Registers, word: Header) -> ! {
    signals::point_at_call(registers);
    let signal = u32::from(word.code());
    signals::replay_fault(registers, signal, false);
    report::note_registers(registers);
    report::leave(lane_protocol::report_kind::FAULTED, signal as i32, "")
}
