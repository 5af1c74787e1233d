//! Telling the supervisor why a replaying process stands still, and our own bugs.

use core::sync::atomic::Ordering;
use events::Header;

use lane_protocol::{lane_state, report_kind};

use crate::ground::kernel;
use crate::ground::registers::Registers;
use crate::state::block::{lane, process, session};

// What other rooms do before the process ends; `entry::endings` has it, which stands behind all.
unsafe extern "Rust" {
    safe fn rv_stands_at_end(kind: u32, code: i32);
    safe fn rv_leaves_shared_memory();
    safe fn rv_log_ends();
}

/// Fills the report and stands still for ever; the supervisor reads the
/// process's memory and ends it.
pub fn stand(kind: u32, code: i32, text: &str) -> ! {
    note_text(text);
    rv_stands_at_end(kind, code);
    publish(kind, code);
    let kind_word = &lane().report.kind;
    loop {
        kernel::futex_wait(kind_word, kind, 1000);
        if kernel::call(linux_abi::general::__NR_getppid, [0; 6]) == 1 {
            kernel::exit_group(255);
        }
    }
}

/// Fills the report and ends the process.
pub fn leave(kind: u32, code: i32, text: &str) -> ! {
    note_text(text);
    rv_stands_at_end(kind, code);
    publish(kind, code);
    rv_leaves_shared_memory();
    kernel::exit_group(0)
}

fn note_text(text: &str) {
    let report = &mut lane().report;
    let bytes = text.len().min(report.text.len());
    report.text[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    report.text_bytes = bytes as u32;
}

fn publish(kind: u32, code: i32) {
    let lane = &mut *lane();
    lane.events_done.store(process().log.events, Ordering::Relaxed);
    lane.report.code = code;
    lane.report.event = process().log.events;
    lane.report.kind.store(kind, Ordering::Release);
    lane.state.store(lane_state::REPORTED, Ordering::Release);
    let session = session();
    session.doorbell.fetch_add(1, Ordering::Release);
    kernel::futex_wake(&session.doorbell);
}

/// Notes the program's registers for the report.
pub fn note_registers(registers: &Registers) {
    lane().report.registers = registers.numbered();
}

/// The log ended before the process did.
pub fn log_ended() -> ! {
    rv_log_ends();
    leave(report_kind::LOG_ENDED, 0, "")
}

/// Something is wrong with us or with the trace.
pub fn fail(text: &str) -> ! {
    if process().replays() {
        stand(report_kind::FAILED, 0, text)
    }
    die(text)
}

/// The program came to a call (or signal) that the log does not expect.
pub fn diverge(registers: &Registers, word: Header, number: u64, args: &[u64]) -> ! {
    diverge_saying(registers, word, number, args, "")
}

/// The same, with what else there is to say.
pub fn diverge_saying(registers: &Registers, word: Header, number: u64, args: &[u64], text: &str) -> ! {
    note_registers(registers);
    let log = &process().log;
    let report = &mut lane().report;
    report.expected_header = word.0;
    let words = (word.bytes() / 8).saturating_sub(1).min(8);
    for index in 0..words {
        report.expected[index as usize] = log.body(index);
    }
    report.got_number = number;
    for (slot, &arg) in report.got.iter_mut().zip(args) {
        *slot = arg;
    }
    stand(report_kind::DIVERGENCE, 0, text)
}

/// Ends a recorded process of which we lost control: better dead than wrong.
pub fn die(text: &str) -> ! {
    let start = "retrovane: the runtime failed: ";
    kernel::write_all(2, start.as_ptr() as u64, start.len() as u64);
    kernel::write_all(2, text.as_ptr() as u64, text.len() as u64);
    kernel::write_all(2, "\n".as_ptr() as u64, 1);
    kernel::call(linux_abi::general::__NR_kill, [process().pid as u64, 9, 0, 0, 0, 0]);
    kernel::exit_group(255)
}

/// Says something to whoever sees the program's standard error.
pub fn tell(text: &str) {
    for part in ["retrovane: ", text, "\n"] {
        kernel::write_all(2, part.as_ptr() as u64, part.len() as u64);
    }
}

/// Writes a number to standard error in hexadecimal, for `die`.
pub fn print_number(text: &str, number: u64) {
    kernel::write_all(2, text.as_ptr() as u64, text.len() as u64);
    let mut digits = [0u8; 17];
    for (index, digit) in digits.iter_mut().take(16).enumerate() {
        *digit = b"0123456789abcdef"[(number >> (60 - 4 * index) & 15) as usize];
    }
    digits[16] = b'\n';
    kernel::write_all(2, digits.as_ptr() as u64, 17);
}
