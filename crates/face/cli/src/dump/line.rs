//! An event as text.

use events::{FATAL, FOREIGN, Instruction, Kind, OUTPUT_STDERR, OUTPUT_STDOUT, SHARED, Tag, preemption_word};
use recorder::described_environment;
use syscall_model::Shape;
use trace_store::{LaneEnd, LaneInfo};

use super::call::Call;
use super::quote::{put, quoted};
use super::{Showing, shapes};
use crate::births::Image;
use crate::info::stop_text;
use crate::lane_events::WholeEvent;
use crate::wording;

/// An event as [`event`] shows it.
pub fn text(whole: &WholeEvent, showing: &Showing<'_>) -> String {
    let mut text = String::new();
    event(&mut text, whole, showing);
    text
}

/// Appends one line, or two where a process ends with the event: `exit` is shown as
/// `exit_group`, since a process has one thread and both end it.
pub fn event(out: &mut String, whole: &WholeEvent, showing: &Showing<'_>) {
    match whole.kind {
        Kind::Syscall => call(out, whole, showing),
        Kind::Signal => signal(out, whole, 0, showing),
        Kind::Fault => {
            signal(out, whole, 8, showing);
            put(out, format_args!(" at {:#x}", whole.event().body_word(0).unwrap_or(0)));
            if whole.flags & FATAL != 0 {
                put(out, format_args!("\n+++ killed by {} +++", wording::signal(i32::from(whole.code))));
            }
        }
        Kind::Instruction => instruction(out, whole),
        Kind::Birth => birth(out, whole),
        Kind::Exit => {
            let code = whole.event().result() as i32;
            put(out, format_args!("exit_group({code}) = ?\n+++ exited with {code} +++"));
        }
        Kind::Trampoline => {
            let [address, bytes] = words(whole);
            put(out, format_args!("=== an island of rewritten code: {bytes} bytes at {address:#x} ==="));
        }
        Kind::Checksum => {
            let [sum, events] = words(whole);
            put(out, format_args!("=== checksum of memory {sum:#018x} after {events} events ==="));
        }
        Kind::Stop => put(out, format_args!("=== recording stopped: {} ===", stop_text(whole))),
        Kind::Token => {
            put(out, format_args!("=== thread {}", u32::from(whole.code) + 1));
            if let Some([token, ticket]) = ticket(whole) {
                put(out, format_args!(", token {token}, ticket {ticket}"));
            }
            out.push_str(" ===");
        }
        Kind::Store => out.push_str("=== memory that a call changed before it slept ==="),
        Kind::Change if whole.flags & SHARED != 0 && whole.code == FOREIGN => {
            out.push_str("=== mapped files, as others wrote to them ===");
        }
        Kind::Change if whole.flags & SHARED != 0 => {
            out.push_str("=== memory that is shared, as somebody left it who was killed ===");
        }
        Kind::Change if whole.code == 0 => out.push_str("=== mapped files stay as they are ==="),
        Kind::Change => {
            put(
                out,
                format_args!(
                    "=== from here on {} ===",
                    described_environment(u32::from(whole.code)).join(", ")
                ),
            );
        }
        Kind::Preemption => {
            let (address, sum) = pause(whole);
            put(out, format_args!("=== paused at {address:#x}, checksum of memory {sum:#018x} ==="));
        }
        Kind::Edit => {
            out.push_str("=== the debugger changed");
            let instruction = edited_place(whole);
            if let Some(address) = instruction {
                put(out, format_args!(" the registers (to go on at {address:#x})"));
            }
            for (number, (address, bytes)) in memory(whole).enumerate() {
                let comma = if number > 0 || instruction.is_some() { "," } else { "" };
                put(out, format_args!("{comma} {bytes} bytes at {address:#x}"));
            }
            out.push_str(" ===");
        }
        Kind::Data => out.push_str("=== data of nothing ==="),
    }
}

/// Appends how a lane ended of which the log does not tell it.
pub fn end(out: &mut String, info: &LaneInfo) {
    match info.end {
        Some(LaneEnd::Exited(code)) => put(out, format_args!("+++ exited with {code} +++")),
        Some(LaneEnd::Killed(number)) => {
            put(out, format_args!("+++ killed by {} +++", wording::signal(number)))
        }
        Some(LaneEnd::Unknown) => out.push_str("+++ nobody knows how it ended +++"),
        Some(LaneEnd::Stopped(reason)) => {
            put(out, format_args!("=== recording stopped: {} ===", wording::stop_reason(reason)));
        }
        None => out.push_str("+++ the trace is cut here +++"),
    }
}

/// The first two words of the body.
pub fn words(whole: &WholeEvent) -> [u64; 2] {
    [0, 1].map(|index| whole.event().body_word(index).unwrap_or(0))
}

/// Which token came from another process of the lane, and the ticket of that.
pub fn ticket(whole: &WholeEvent) -> Option<[u64; 2]> {
    (whole.flags & events::TICKET != 0).then(|| words(whole))
}

/// Where the program goes on, if an edit sets registers.
pub fn edited_place(whole: &WholeEvent) -> Option<u64> {
    let sets = whole.flags & events::SETS_REGISTERS != 0;
    whole.event().body_word(preemption_word::RIP).filter(|_| sets)
}

/// The memory that an event holds: addresses and bytes.
pub fn memory(whole: &WholeEvent) -> impl Iterator<Item = (u64, u64)> {
    whole.blobs().filter_map(|blob| match blob.tag {
        Tag::Memory => Some((blob.address, blob.data.len() as u64)),
        Tag::Zeros => {
            let bytes = blob.data.first_chunk().copied().map_or(0, u64::from_le_bytes);
            Some((blob.address, bytes))
        }
        _ => None,
    })
}

/// Where a pause point is, and the sum of memory there.
pub fn pause(whole: &WholeEvent) -> (u64, u64) {
    let word = |index| whole.event().body_word(index).unwrap_or(0);
    (word(preemption_word::RIP), word(preemption_word::MEMORY_SUM))
}

fn call(out: &mut String, whole: &WholeEvent, showing: &Showing<'_>) {
    let call = Call::new(whole, showing);
    out.push_str(&call.name());
    out.push('(');
    if call.lacks_arguments() {
        out.push_str("...");
    }
    for index in call.arguments() {
        if index > 0 {
            out.push_str(", ");
        }
        call.argument(out, index);
    }
    out.push_str(") = ");
    call.result(out);
    call.marks(out);
}

/// A signal with its siginfo, which stands at this offset of the body.
fn signal(out: &mut String, whole: &WholeEvent, offset: usize, showing: &Showing<'_>) {
    let info = whole.event().body.get(offset..).unwrap_or_default();
    put(out, format_args!("--- {} ", wording::signal(i32::from(whole.code))));
    shapes::show(out, Shape::Siginfo, info, info.len() as u64, showing.string_bytes_max);
    out.push_str(" ---");
}

fn instruction(out: &mut String, whole: &WholeEvent) {
    let Some(body) = whole.event().instruction() else {
        put(out, format_args!("an instruction of unknown kind {}", whole.code));
        return;
    };
    let [rax, rbx, rcx, rdx, _] = body.outputs;
    let [leaf, subleaf] = body.inputs;
    let time = rdx << 32 | (rax & 0xffff_ffff);
    match body.instruction {
        Instruction::Rdtsc => put(out, format_args!("rdtsc() = {time}")),
        Instruction::Rdtscp => put(out, format_args!("rdtscp() = {time} {{processor={rcx}}}")),
        Instruction::Cpuid => put(
            out,
            format_args!(
                "cpuid({leaf:#x}, {subleaf:#x}) = {{eax={rax:#x}, ebx={rbx:#x}, ecx={rcx:#x}, edx={rdx:#x}}}"
            ),
        ),
        Instruction::Rdrand => put(out, format_args!("rdrand() = {rax:#x}")),
        Instruction::Rdseed => put(out, format_args!("rdseed() = {rax:#x}")),
        Instruction::Rdpid => put(out, format_args!("rdpid() = {rcx}")),
        Instruction::Xsavec => out.push_str("xsavec()"),
        Instruction::Spin => put(out, format_args!("spin({leaf:#x}), time {subleaf}: waits")),
    }
}

/// Name of an instruction.
pub fn instruction_name(instruction: Instruction) -> &'static str {
    match instruction {
        Instruction::Rdtsc => "rdtsc",
        Instruction::Rdtscp => "rdtscp",
        Instruction::Cpuid => "cpuid",
        Instruction::Rdrand => "rdrand",
        Instruction::Rdseed => "rdseed",
        Instruction::Xsavec => "xsavec",
        Instruction::Spin => "spin",
        Instruction::Rdpid => "rdpid",
    }
}

/// Name of a stream that a call wrote to.
pub fn stream_name(class: u32) -> &'static str {
    match class {
        OUTPUT_STDOUT => "stdout",
        OUTPUT_STDERR => "stderr",
        _ => "unknown",
    }
}

fn birth(out: &mut String, whole: &WholeEvent) {
    use std::os::unix::ffi::OsStrExt;
    let Some(image) = Image::of(whole) else {
        out.push_str("execve(...) = 0");
        return;
    };
    out.push_str("execve(");
    quoted(out, image.path.as_bytes());
    match &image.arguments {
        Some(list) => {
            out.push_str(", [");
            for (index, argument) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                quoted(out, argument.as_bytes());
            }
            out.push(']');
        }
        None => out.push_str(", ..."),
    }
    if let Some(count) = image.environment_count {
        put(out, format_args!(", [/* {count} vars */]"));
    }
    out.push_str(") = 0");
}
