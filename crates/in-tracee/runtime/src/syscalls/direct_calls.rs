//! Recording: calls that the entry code makes itself (`Leave::Make`), between what is done before
//! and what is done behind them. Nothing of ours is on the stack meanwhile: kernels that guard
//! their returns (safe RET, Linux 6.5) leave a processor that predicts none of those right behind
//! a call, and each costs some 6 ns there.

use linux_abi::general as nr;
use syscall_model::{Act, Special, TABLE};

use crate::address_space::{descriptor_classes, foreign_writes, logged_calls, packet_rings};
use crate::checkpoint::observed_calls;
use crate::checkpoint::resources::pushback;
use crate::ground::kernel::ABORTED;
use crate::ground::registers::{Leave, Registers};
use crate::log::effects::{self, Meaning};
use crate::preemption::preempt;
use crate::scheduler::{chaos, short_calls, token};
use crate::state::block::{process, session, thread};
use crate::state::call_state::{self, Before, Form};
use crate::state::{deliverable, in_lab, live};
use crate::syscalls::{calls, descriptors, dispatch, filters, proc_opens, time_calls};

/// Begins a call, if no signal, checksum or shortage of space stands in the way, and nothing has
/// to be done before it. `None`: not begun.
#[inline]
pub fn begin_at_once(registers: &mut Registers) -> Option<Leave> {
    let number = registers.rax as u32 as usize;
    let process = &mut *process();
    if process.check_every != 0 || process.log.broken != 0 || pushback::is_any() || in_lab::is_on() {
        return None;
    }
    match effects::SHORT.get(number).copied()? {
        effects::LONG_WAY => begin_described(registers, number),
        effects::TIME => time_calls::record_short(registers),
        _ => begin_short(registers, number),
    }
}

/// The same of one that needs nothing but its number, arguments and result.
#[inline]
fn begin_short(registers: &Registers, number: usize) -> Option<Leave> {
    if number == nr::__NR_lseek as usize {
        if call_state::map_lists_are_open() {
            return None;
        }
        observed_calls::before_seek(&registers.args());
        descriptor_classes::note_seek(&registers.args());
    }
    if thread().filters.newest != 0 && !filters::let_through(number as u32, &registers.args()) {
        return None;
    }
    if process().shares_token {
        let args = registers.args();
        let sleeps = calls::BLOCKS[number] && !short_calls::returns_at_once(number as u64, &args);
        let yields = number == nr::__NR_sched_yield as usize || token::is_wanted() || chaos::is_on();
        if sleeps || yields {
            return None;
        }
        calls::note_flags(number as u64, &args);
    }
    thread().direct.form = Form::Short;
    Some(Leave::Make)
}

/// The same of one that its row describes, of a process with one thread.
#[inline]
fn begin_described(registers: &Registers, number: usize) -> Option<Leave> {
    if process().shares_token || chaos::is_on() || live::is_on() || thread().filters.newest != 0 {
        return None;
    }
    let row = TABLE[number].as_ref()?;
    let meaning = Meaning { args: row.args, work: effects::WORK[number], act: row.act, blocks: row.blocks };
    begin(number as u64, &registers.args(), &meaning)
}

/// Begins a call before which everything is done, if nothing happens at it but that it is made.
#[inline]
pub fn begin(number: u64, args: &[u64; 6], meaning: &Meaning) -> Option<Leave> {
    let form = match meaning.act {
        Act::Inject if session().detect_all == 0 && meaning.work & effects::SIGNALS == 0 => Form::Injected,
        Act::Execute(Special::Output) if descriptor_classes::class_of(args[0]) == 0 => Form::Output,
        _ => return None,
    };
    // What is written to may take nothing for a while.
    let is_only_made = calls::is_only_made(number, args, meaning.blocks || form == Form::Output);
    if !is_only_made || thread().preemption.aside != 0 {
        return None;
    }
    let direct = &mut thread().direct;
    direct.form = form;
    direct.work = meaning.work;
    direct.model = meaning.args;
    if form == Form::Injected {
        if meaning.work & effects::NEEDS_BEFORE != 0 {
            direct.before = effects::before(meaning.args, args);
        }
        packet_rings::give_back();
    }
    Some(Leave::Make)
}

/// Called by the entry code with what the call gave.
pub unsafe extern "C" fn on_made(registers: *mut Registers, result: i64) -> Leave {
    // SAFETY: the entry code passes the registers that it pushed.
    let registers = unsafe { &mut *registers };
    let leave = if result == ABORTED {
        dispatch::aborted(registers)
    } else {
        match thread().direct.form {
            Form::Short => end_short(registers, result),
            Form::Injected => end(registers, result),
            Form::Output => end_output(registers, result),
        }
    };
    note_pending();
    if thread().direct.trapped {
        dispatch::leave_trapped(registers, leave);
    }
    leave
}

/// A call is over: where a signal came when it was logged, the program may compute from here on.
#[inline]
pub fn note_pending() {
    if thread().pending != 0 && deliverable::has_deliverable() {
        preempt::signal_waits();
    }
}

#[inline]
fn end_short(registers: &mut Registers, result: i64) -> Leave {
    let number = registers.rax as u32;
    let args = registers.args();
    let count = usize::from(effects::SHORT[number as usize]).min(6);
    let is_long = thread().pending != 0 || foreign_writes::are_new();
    if is_long || !process().log.short_call(number as u16, &args[..count], result) {
        return finish_long(registers, u64::from(number), result);
    }
    registers.rax = result as u64;
    Leave::Call
}

/// The call was made the short way, and something came up before it was logged.
#[cold]
fn finish_long(registers: &mut Registers, nr: u64, result: i64) -> Leave {
    let args = registers.args();
    let model = syscall_model::row(nr).map_or(&[][..], |row| row.args);
    logged_calls::log_call(nr, &args, model, 0, result, &Before::default(), 0);
    dispatch::leave_logged(result, registers)
}

fn end(registers: &mut Registers, mut result: i64) -> Leave {
    let number = u64::from(registers.rax as u32);
    let args = registers.args();
    let direct = &thread().direct;
    calls::note_made(number, &args, result);
    if direct.work & effects::READS_TEXT != 0 && result >= 0 {
        result = proc_opens::opened(number, &args, result);
    }
    logged_calls::log_call(number, &args, direct.model, direct.work, result, &direct.before, 0);
    dispatch::leave_logged(result, registers)
}

fn end_output(registers: &mut Registers, result: i64) -> Leave {
    let number = u64::from(registers.rax as u32);
    let args = registers.args();
    calls::note_made(number, &args, result);
    descriptors::log_output(number, &args, 0, thread().direct.model, result);
    dispatch::leave_logged(result, registers)
}
