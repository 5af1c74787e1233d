//! What gdb tells of a crash: values in the frames, and who wrote the pointer that led to it.
//!
//! Deliberately absent: a way without gdb. The page then says that it has no values.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use replayer::Sandbox;
use serde_json::{Map, Value, json};
use trace_store::TraceReader;

use super::page::Page;
use crate::verbs::VerbError;
use crate::verbs::cursor::{Beginning, Cursor, Limit};

/// So long gdb may look for what it is asked, in seconds.
const SECONDS_MAX: u64 = 60;

/// Adds the values of a process that died of a signal, and who wrote what led to that.
pub fn add(page: &mut Page, trace: &TraceReader, pid: i32, sandbox: Sandbox) {
    let Some(mut cursor) = add_frames(page, trace, pid, sandbox) else { return };
    let give_up = AtomicBool::new(false);
    page.section("Who wrote the value");
    match cursor.ask("blame", &Map::new(), Limit::new(SECONDS_MAX, &give_up, sandbox)) {
        Ok(answer) => add_write(page, &answer),
        Err(VerbError::Refused(why)) => page.line(&format!("It is not known: {why}.")),
        Err(error) => page.line(&format!("It is not known: {error}")),
    }
}

/// Adds the values where a process failed; gives gdb there.
pub fn add_frames(page: &mut Page, trace: &TraceReader, pid: i32, sandbox: Sandbox) -> Option<Cursor> {
    let give_up = AtomicBool::new(false);
    let limit = || Limit::new(SECONDS_MAX, &give_up, sandbox);
    let beginning = Beginning { trace: trace.dir(), pid: u64::try_from(pid).ok(), at: "crash" };
    page.section("Values");
    let mut cursor = match Cursor::open(&beginning, limit()) {
        Ok((cursor, _)) => cursor,
        Err(error) => {
            page.line(&format!("There are none, as gdb could not look: {error}"));
            return None;
        }
    };
    match cursor.ask("backtrace", &arguments(json!({ "locals": true })), limit()) {
        Ok(answer) => page.text(&frames_text(&answer)),
        Err(error) => page.line(&format!("There are none: {error}")),
    }
    Some(cursor)
}

fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer.get(name).and_then(Value::as_str).unwrap_or("?")
}

/// `check (word=0x8) at parser.c:36`
fn frame_text(frame: &Value) -> String {
    let mut words = text(frame, "function").to_owned();
    if let Some(values) = frame.get("arguments").and_then(Value::as_object) {
        let values: Vec<String> =
            values.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        let _ = write!(words, " ({})", values.join(", "));
    }
    if let Some(at) = frame.get("at").and_then(Value::as_str) {
        let _ = write!(words, " at {at}");
    }
    words
}

fn frames_text(answer: &Value) -> String {
    let mut words = String::new();
    let frames = answer.get("frames").and_then(Value::as_array);
    for (place, frame) in frames.into_iter().flatten().enumerate() {
        // Some between them may be left out.
        let level = frame.get("level").and_then(Value::as_u64).unwrap_or(place as u64);
        let _ = writeln!(words, "#{level} {}", frame_text(frame));
        for (name, value) in frame.get("locals").and_then(Value::as_object).into_iter().flatten() {
            let _ = writeln!(words, "      {name} = {}", plain(value));
        }
    }
    words
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn add_write(page: &mut Page, answer: &Value) {
    let (expression, value) = (text(answer, "expression"), text(answer, "value"));
    page.line(&format!("The program followed {expression}, which is {value}."));
    if answer.get("written").and_then(Value::as_bool) != Some(true) {
        return page.line("Nothing of the recording wrote it: it has its value from the beginning.");
    }
    let frames = answer.get("frames").and_then(Value::as_array);
    let by: Vec<String> = frames.into_iter().flatten().map(frame_text).collect();
    page.line(&format!(
        "It was {}, and became {}, at position {}, written by:",
        text(answer, "old"),
        text(answer, "new"),
        text(answer, "position")
    ));
    page.text(&by.join("\n"));
    let lines: Vec<&str> =
        answer.get("source").and_then(Value::as_array).into_iter().flatten().map(plain).collect();
    if !lines.is_empty() {
        page.text(&lines.join("\n"));
    }
}
