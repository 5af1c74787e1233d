//! An event as JSON. The fields are documented in `retrovane dump --help`.

use std::os::unix::ffi::OsStrExt;

use events::{BEFORE_CALL, DETECTED, FATAL, Kind, REFUSED, SHARED};
use serde_json::{Map, Value, json};
use trace_store::LaneInfo;

use super::call::Call;
use super::{Showing, line, names};
use crate::births::Image;
use crate::info::stop_text;
use crate::lane_events::WholeEvent;
use crate::wording;

/// One event of a thread, counted from 0, that was logged at this time.
pub fn event(
    whole: &WholeEvent,
    info: &LaneInfo,
    thread: u16,
    time: Option<String>,
    showing: &Showing<'_>,
) -> Value {
    let text = line::text(whole, showing);
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("pid", json!(info.pid));
    put("thread", json!(u32::from(thread) + 1));
    put("lane", json!(info.lane));
    put("event", json!(whole.index));
    put("kind", json!(kind_name(whole.kind)));
    put("text", json!(text));
    if let Some(time) = time {
        put("time", json!(time));
    }
    match whole.kind {
        Kind::Syscall => call(&mut put, whole, showing),
        _ => other(&mut put, whole),
    }
    Value::Object(fields)
}

/// What an event says that is no call.
fn other(put: &mut impl FnMut(&str, Value), whole: &WholeEvent) {
    match whole.kind {
        Kind::Signal => {
            put("signal", json!(wording::signal(i32::from(whole.code))));
            put("before_call", json!(whole.flags & BEFORE_CALL != 0));
        }
        Kind::Fault => {
            put("signal", json!(wording::signal(i32::from(whole.code))));
            put("address", hex(whole.event().body_word(0).unwrap_or(0)));
            put("fatal", json!(whole.flags & FATAL != 0));
        }
        Kind::Instruction => {
            if let Some(body) = whole.event().instruction() {
                put("call", json!(line::instruction_name(body.instruction)));
                put("inputs", body.inputs.map(hex).into());
                put("outputs", body.outputs.map(hex).into());
            }
        }
        Kind::Birth => {
            if let Some(image) = Image::of(whole) {
                put("path", json!(String::from_utf8_lossy(image.path.as_bytes())));
                let command = image.arguments.map(|list| {
                    list.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
                });
                put("command", json!(command));
                put("entry", hex(image.entry));
                put("maps", json!(image.map_count));
            }
        }
        Kind::Exit => put("code", json!(whole.event().result() as i32)),
        Kind::Trampoline => {
            let [address, bytes] = line::words(whole);
            put("address", hex(address));
            put("bytes", json!(bytes));
        }
        Kind::Checksum => {
            let [sum, events] = line::words(whole);
            put("sum", hex(sum));
            put("events", json!(events));
        }
        Kind::Stop => put("reason", json!(stop_text(whole))),
        Kind::Preemption => {
            let (address, sum) = line::pause(whole);
            put("address", hex(address));
            put("sum", hex(sum));
        }
        Kind::Token => {
            for (name, number) in
                ["turn", "ticket"].into_iter().zip(line::ticket(whole).into_iter().flatten())
            {
                put(name, json!(number));
            }
        }
        Kind::Change if whole.flags & SHARED != 0 => put("memory", memory(whole)),
        Kind::Change => put("changes", json!(recorder::described_environment(u32::from(whole.code)))),
        Kind::Edit => {
            let instruction = line::edited_place(whole);
            put("instruction", json!(instruction.map(|address| format!("{address:#x}"))));
            put("memory", memory(whole));
        }
        Kind::Syscall | Kind::Data | Kind::Store => {}
    }
}

/// The memory that an event holds.
fn memory(whole: &WholeEvent) -> Value {
    line::memory(whole).map(|(address, bytes)| json!({ "address": hex(address), "bytes": bytes })).collect()
}

/// The end of a lane that no event tells.
pub fn end(info: &LaneInfo) -> Value {
    let mut text = String::new();
    line::end(&mut text, info);
    json!({ "pid": info.pid, "lane": info.lane, "event": info.events, "kind": "end", "text": text, "end": info.end })
}

fn call(put: &mut impl FnMut(&str, Value), whole: &WholeEvent, showing: &Showing<'_>) {
    let call = Call::new(whole, showing);
    put("number", json!(whole.code));
    put("call", json!(call.name()));
    if let Some(request) = call.request() {
        put("request", json!(request));
    }
    let argument = |index: usize| {
        let mut text = String::new();
        call.argument(&mut text, index);
        json!({ "name": call.argument_name(index), "raw": hex(call.event.arg(index)), "text": text })
    };
    put("arguments", call.arguments().map(argument).collect());
    put("result", json!(call.event.result()));
    if let Some(number) = names::error_of(call.event.result()) {
        put("error", json!(names::error(number).0));
    }
    let marks = match whole.is_filtered() {
        true => [("filtered", true), ("", false)],
        false => [("refused", whole.has_flag(REFUSED)), ("detected", whole.has_flag(DETECTED))],
    };
    for (name, _) in marks.into_iter().filter(|mark| mark.1) {
        put(name, json!(true));
    }
    if let Some(lane) = whole.child_lane() {
        put("child", json!({ "pid": showing.pids.get(&lane), "lane": lane }));
    }
    if let Some((class, order)) = whole.output() {
        put("output", json!({ "stream": line::stream_name(class), "order": order }));
    }
}

/// 64 bits as text: JSON's numbers lose the last of them.
fn hex(value: u64) -> Value {
    json!(format!("{value:#x}"))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Syscall => "syscall",
        Kind::Data => "data",
        Kind::Signal => "signal",
        Kind::Fault => "fault",
        Kind::Instruction => "instruction",
        Kind::Trampoline => "island",
        Kind::Birth => "birth",
        Kind::Exit => "exit",
        Kind::Checksum => "checksum",
        Kind::Stop => "stop",
        Kind::Preemption => "pause",
        Kind::Token => "turn",
        Kind::Store => "store",
        Kind::Change => "change",
        Kind::Edit => "edit",
    }
}
