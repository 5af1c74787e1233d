//! What the kernel delivers to the runtime's one handler, and whose it is: a call of the program, a stop or
//! step of the debugger's, a preemption's, a fault, or a signal that comes to the program; and how the program
//! goes on behind a handler that was left.

use events::{FATAL, Kind};
use lane_protocol::{ASKING, report_kind};

use crate::address_space::file_ends;
use crate::code::{clocks, gs, trampolines};
use crate::debugger::{agent, agent_state, caught_signals, displaced, translate};
use crate::entry::{self, preemptions};
use crate::ground::frame::RealFrame;
use crate::ground::memory::{self, in_region};
use crate::ground::registers::TRAP_FLAG;
use crate::ground::{assembly, kernel};
use crate::lab;
use crate::preemption::left_handlers::leave_handler;
use crate::preemption::{circles, preempt, preemption_point, replay_trap, sampled_places};
use crate::scheduler::{contention, token};
use crate::signals::{
    INFO_BYTES, STOP_CODE, arrive, deaths, deliver, die_of, hide_interruption, killing, on_asked_to_stop,
    replay_fault, set_real, set_real_mask,
};
use crate::state::block::{process, space, thread};
use crate::state::report;
use crate::state::signal_numbers::{FAULTS, IGNORE, SIGBUS, SIGKILL, SIGSEGV, SIGSYS, SIGTRAP, bit};
use crate::state::signal_state::{Action, Info};
use crate::syscalls::{calls_of_32_bits, instructions};

/// True if the kernel had no memory left to tell where a signal comes from, and why:
/// RLIMIT_SIGPENDING. It looks as if sent by the process of number 0.
fn lost_all(info: &Info) -> bool {
    const SI_USER: u64 = 0;
    info[1] & 0xffff_ffff == SI_USER && info[2] == 0
}

/// Another thread asked for what the kernel has forgotten.
fn on_asked_for_something(context: &mut RealFrame, inside: bool) {
    if crate::checkpoint::take::quiesce::stop_asked() {
        on_asked(context, inside, STOP_CODE);
    } else if token::is_wanted() {
        on_asked(context, inside, contention::PREEMPT_HARD);
    } else if inside {
        // It has got the token meanwhile.
        hide_interruption(context);
    }
}

/// Codes of a step's trap: TRAP_BRKPT, TRAP_TRACE, TRAP_HWBKPT. In a virtual machine the
/// kernel may not learn that a trap was a step's.
const STEPS: [i32; 3] = [1, 2, 4];

/// The runtime's only real handler, behind `rv_entry_signal`.
pub unsafe extern "C" fn on_signal(signal: i32, info: *mut Info, context: *mut RealFrame) {
    // SAFETY: the kernel passes both, on our signal stack.
    let (info, context) = unsafe { (&mut *info, &mut *context) };
    let was_shared = gs::is_shared();
    let found = gs::take(context.rip);
    // On the way in, which needs the block: now it is there.
    let lacked_block = gs::is_shared() && !was_shared && found.is_inside;
    if !(lacked_block && signal as u32 == SIGSEGV) {
        handle(signal as u32, info, context);
    }
    found.give_back(context.rip);
}

/// A call of the program trapped.
fn on_trapped_call(info: &Info, context: &mut RealFrame) {
    let rip = context.rip;
    if space().clocks.in_vdso {
        let args = [context.rdi, context.rsi, context.rdx, context.r10, context.r8, context.r9];
        context.rax = kernel::call(context.rax as u32, args) as u64;
        return;
    }
    if thread().preemption.stepping || agent_state::is_stepping() {
        context.flags &= !TRAP_FLAG;
    }
    preempt::abandon();
    if calls_of_32_bits::is_one(info[3] >> 32) {
        return leave_handler(context, context.registers(), calls_of_32_bits::MAKES_CALL);
    }
    // It goes on at our entry as if it came from a trampoline.
    context.rcx = rip;
    context.r11 = rip;
    context.rip = assembly::rv_site as *const () as u64;
    thread().trapped = 1;
}

/// What the kernel delivers, with gs as the runtime has it.
fn handle(signal: u32, info: &mut Info, context: &mut RealFrame) {
    let rip = context.rip;
    let inside = clocks::is_ours_at(rip);
    let code = (info[1] & 0xffff_ffff) as i32;
    if signal == SIGSYS && (code == 1 || code == 2) && !in_region(rip, 1) {
        return on_trapped_call(info, context);
    }
    if signal == ASKING && on_asking(info, context, inside) {
        return;
    }
    if process().has_agent() && translate::is_copy(rip) && code > 0 && translate::on_fault(context) {
        return;
    }
    if signal == SIGTRAP && STEPS.contains(&code) && thread().preemption.stepping {
        return preempt::on_step(context);
    }
    let trapped = signal == SIGTRAP
        && (agent::on_trap(code, context, inside, info[3])
            || preempt::on_breakpoint(context)
            || sampled_places::on_trap(context));
    if trapped {
        return;
    }
    let replaying = process().replays();
    if replaying && signal == SIGTRAP && (replay_trap::on_step(context) || replay_trap::on_trap(context)) {
        return;
    }
    if replaying && code > 0 && replay_trap::on_write(signal, info[2], context, inside) {
        return;
    }
    if replaying && (replay_trap::on_fault(context) || replay_trap::on_interior(signal, context)) {
        return;
    }
    if process().has_agent() && displaced::on_fault(signal, context) {
        return;
    }
    let synchronous = code > 0 && bit(signal) & FAULTS != 0;
    if signal == SIGTRAP && synchronous && (inside || trampolines::in_trampoline(rip)) {
        // The program single-steps itself (trap flag): our own steps are not its, and where its flags
        // are kept, there are none any more.
        if entry::is_behind_entry(rip) {
            context.flags &= !TRAP_FLAG;
        }
        return;
    }
    if signal == SIGTRAP && synchronous && thread().swallow_step != 0 && rip == thread().target {
        // The step into the program at the end of rt_sigreturn, which the kernel
        // makes without a trap.
        thread().swallow_step = 0;
        return;
    }
    if synchronous && inside {
        on_own_fault(info, context);
        return;
    }
    if synchronous {
        on_program_fault(signal, info, context);
        return;
    }
    arrive(signal, info, context);
}

/// The signal that never reaches a program. False: this one was sent by somebody else.
fn on_asking(info: &Info, context: &mut RealFrame, inside: bool) -> bool {
    const SI_TIMER: i32 = -2;
    let sent = (info[1] & 0xffff_ffff) as i32;
    match if lost_all(info) { lab::asked_last().unwrap_or(sent) } else { sent } {
        agent::INTERRUPT if process().has_agent() && translate::is_copy(context.rip) => {
            translate::interrupt()
        }
        agent::INTERRUPT => agent::on_interrupt(context, inside),
        SI_TIMER => on_own_timer(context, inside, info[3]),
        code @ (contention::PREEMPT_HARD | contention::PREEMPT_SOFT | STOP_CODE) => {
            on_asked(context, inside, code)
        }
        lane_protocol::LAB_PREEMPTS if inside => {
            // It may spin there.
            thread().preemption.is_preempted = true;
            hide_interruption(context);
        }
        lane_protocol::LAB_PREEMPTS => preempt::on_preempted(context),
        lane_protocol::LAB_LOOKS if inside => hide_interruption(context),
        lane_protocol::LAB_LOOKS => circles::begin(context),
        killing::DIE => {
            arrive(SIGKILL, &[u64::from(SIGKILL), 0, info[2], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], context)
        }
        _ if lost_all(info) && process().shares_token => on_asked_for_something(context, inside),
        _ => return false,
    }
    true
}

/// Another thread of ours asks for something.
fn on_asked(context: &mut RealFrame, inside: bool, code: i32) {
    if code == STOP_CODE {
        on_asked_to_stop(context, inside);
    } else {
        on_asked_for_token(context, inside, code);
    }
}

/// The time for a preemption has come, or for those that were woken.
fn on_own_timer(context: &mut RealFrame, inside: bool, purpose: u64) {
    if inside {
        hide_interruption(context);
    }
    preempt::on_timer(context, purpose);
}

/// Another thread wants the token.
fn on_asked_for_token(context: &mut RealFrame, inside: bool, code: i32) {
    if inside {
        hide_interruption(context);
    } else if code == contention::PREEMPT_SOFT {
        preempt::on_asked_gently(context);
    } else {
        preempt::on_asked(context);
    }
}

/// A fault in the program's own code.
fn on_program_fault(signal: u32, info: &Info, context: &mut RealFrame) {
    let thread = &mut *thread();
    let [error, _, address] = context.fault_words(thread.signals.last_fault);
    let ends_file = signal == SIGSEGV && process().replays() && file_ends::is_awaited(address);
    let signal = if ends_file { SIGBUS } else { signal };
    let gave_back = signal == SIGSEGV && crate::code::non_executable::on_fault(error, address);
    if gave_back || instructions::emulate(signal, context) {
        return;
    }
    let mut registers = context.registers();
    if thread.preemption.stepping || agent_state::is_stepping() {
        registers.flags &= !TRAP_FLAG;
    }
    preempt::abandon();
    thread.fault_info = *info;
    thread.signals.last_fault = context.fault_words(thread.signals.last_fault);
    leave_handler(context, registers, signal);
}

/// An instruction of the runtime's trapped: where it may, or by mistake.
fn on_own_fault(info: &Info, context: &mut RealFrame) {
    let copying = assembly::rv_replay_trap_copy as *const () as u64
        ..assembly::rv_replay_trap_landing as *const () as u64;
    if context.rip == assembly::rv_end as *const () as u64 {
        end_in_program(context);
    } else if copying.contains(&context.rip) {
        context.rip = assembly::rv_replay_trap_landing as *const () as u64;
    } else {
        report::print_number("retrovane: fault inside the runtime at ", context.rip);
        report::print_number("retrovane: fault address ", info[2]);
        report::fail("a fault inside the runtime");
    }
}

/// The way from there to the program, which makes no further instruction.
fn end_in_program(context: &mut RealFrame) {
    let thread = &mut *thread();
    context.set_registers(&thread.fault_registers);
    context.let_through_only(bit(thread.fault_signal));
}

/// Goes on after a fault of the program: its handler runs, or it dies.
pub unsafe extern "C" fn on_fault() -> ! {
    let thread = &mut *thread();
    let mut registers = thread.fault_registers;
    thread.user_registers = &raw const thread.fault_registers as u64;
    let signal = thread.fault_signal;
    match signal {
        0 => preemptions::on_preemption(registers),
        calls_of_32_bits::MAKES_CALL => calls_of_32_bits::make(registers),
        crate::syscalls::spins::GIVES => crate::syscalls::spins::stop_after_trap(registers),
        crate::debugger::live_stops::ORDER_OF_DEBUGGER => {
            crate::checkpoint::restore::debugging::obey_debugger()
        }
        _ => {}
    }
    thread.resume_state = crate::state::signal_state::ResumeState::Fault;
    let mut info = thread.fault_info;
    let signals = &mut thread.signals;
    let action = process().actions().actions[signal as usize];
    let handled = action.handler > IGNORE && signals.mask & bit(signal) == 0;
    if !handled {
        caught_signals::note_death(&info);
    }
    if process().is_branch() && (!handled || agent_state::breakpoints().contains(&registers.rip)) {
        crate::debugger::branch::on_fault(&registers, signal);
    }
    if !handled && !process().replays() {
        crate::checkpoint::restore::debugging::stop_at_fault(&registers, signal);
        crate::checkpoint::restore::crash::before_crash(signal);
        deaths::let_go_if_seen();
    }
    let flags = if handled { 0 } else { FATAL };
    if process().replays() {
        info = replay_fault(&registers, signal, handled);
    } else {
        let log = &mut process().log;
        log.begin(Kind::Fault, flags, signal as u16);
        log.word(registers.rip);
        log.raw(info.as_ptr() as u64, INFO_BYTES);
        log.raw(signals.last_fault.as_ptr() as u64, 24);
        log.end();
    }
    if handled && deliver(&mut registers, signal, &info) {
        if process().replays() {
            preemption_point::arm_if_next();
        }
        agent::leaving(&mut registers);
        // SAFETY: the registers are the program's, complete.
        unsafe { assembly::rv_resume(&registers) }
    }
    deaths::leave_blocks();
    if process().replays() {
        report::note_registers(&registers);
        report::leave(report_kind::FAULTED, signal as i32, "");
    }
    crate::checkpoint::restore::crash::after_crash(signal);
    // The default action once more, at the same instruction: core dump and all.
    set_real(signal, &Action::default_real());
    set_real_mask(signals.mask & !bit(signal));
    if signal == SIGTRAP {
        // int3 is over: it does not come again by itself. Of a signal that is sent the first
        // process of a namespace does not die.
        const INT3: u8 = 0xcc;
        const SI_KERNEL: u32 = 0x80;
        match memory::read::<u8>(registers.rip.wrapping_sub(1)) {
            Some(INT3) if info[1] as u32 == SI_KERNEL => registers.rip -= 1,
            _ => die_of(signal),
        }
    }
    // SAFETY: as above.
    unsafe { assembly::rv_resume(&registers) }
}
