//! Verbs of a whole trace: answered from its log, or by a replay of all of it.
//!
//! What `info`, `print` and `calls` say with `--json`, in a bounded number of objects: each runs as a process of
//! its own, which can be ended when it takes too long. What the index of the log answers is in [`super::log`].

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::cursor::Limit;
use super::log::{self, LastIndex, Way};
use super::{Arguments, VerbError, is_true, number, text, turns};

/// Objects that one answer has where nobody says how many.
pub const OBJECTS: u64 = 20;
pub const OBJECTS_MAX: u64 = 200;
/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The answer to one of these verbs.
pub fn answer(
    verb: &str,
    trace: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    last: &LastIndex,
) -> Result<Value, VerbError> {
    match verb {
        "overview" => overview(trace, limit),
        "search" => log::search(trace, arguments, limit, last),
        "sender" => log::meeting(trace, arguments, limit, last, Way::Sender),
        "receiver" => log::meeting(trace, arguments, limit, last, Way::Receiver),
        "turns" => turns::answer(trace, arguments, limit, last),
        "calls" => calls(trace, arguments, limit),
        "values" => values(trace, arguments, limit),
        other => Err(VerbError::Refused(format!("{other} is no verb of a trace"))),
    }
}

/// What the recording is: command, processes, how it ended.
fn overview(trace: &Path, limit: &Limit<'_>) -> Result<Value, VerbError> {
    let mut about = Value::Null;
    run(&["info", "--json"], trace, &[], limit, &mut |line| {
        about = line;
        false
    })?;
    Ok(about)
}

/// Each call of a function, with its arguments and result.
fn calls(trace: &Path, arguments: &Arguments, limit: &Limit<'_>) -> Result<Value, VerbError> {
    let function = text(arguments, "function")?
        .filter(|name| !name.is_empty() && !name.starts_with('-'))
        .ok_or_else(|| VerbError::Refused("`function` is the name of a function".to_owned()))?;
    replayed("calls", &[], trace, &[function], arguments, "calls", limit)
}

/// Values of expressions at each execution of a line.
fn values(trace: &Path, arguments: &Arguments, limit: &Limit<'_>) -> Result<Value, VerbError> {
    let missing = |name: &str| VerbError::Refused(format!("`{name}` is missing"));
    let line = text(arguments, "line")?.ok_or_else(|| missing("line"))?;
    let expressions = texts(arguments, "expressions")?
        .filter(|text| !text.starts_with('-'))
        .ok_or_else(|| missing("expressions"))?;
    replayed("print", &[format!("--at={line}")], trace, &[&expressions], arguments, "values", limit)
}

/// A list of texts as one, or a text that has commas by itself.
fn texts(arguments: &Arguments, name: &str) -> Result<Option<String>, VerbError> {
    let Some(Value::Array(list)) = arguments.get(name) else {
        return Ok(text(arguments, name)?.map(str::to_owned));
    };
    let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    words
        .map(|words| Some(words.join(", ")))
        .ok_or_else(|| VerbError::Refused(format!("`{name}` is a list of texts")))
}

fn replayed(
    command: &str,
    options: &[String],
    trace: &Path,
    operands: &[&str],
    arguments: &Arguments,
    name: &str,
    limit: &Limit<'_>,
) -> Result<Value, VerbError> {
    let condition = text(arguments, "condition")?.map(|condition| format!("--if={condition}"));
    let mut words = vec![command, "--json", "--exact"];
    words.extend(options.iter().map(String::as_str));
    words.extend(condition.as_deref());
    let is_last = is_true(arguments, "last");
    let mut collected = Collected::new(arguments, is_last)?;
    let ended = run(&words, trace, operands, limit, &mut |row| collected.add(with_position(row)));
    match ended {
        // What was found before it ended is an answer, too.
        Err(VerbError::Refused(problem)) if collected.found != 0 => {
            let mut answer = collected.answer(name);
            answer["said"] = json!([problem]);
            Ok(answer)
        }
        ended => ended.map(|()| collected.answer(name)),
    }
}

/// Says a row's place in the form that `go` takes.
fn with_position(mut row: Value) -> Value {
    let place = row.get("event").and_then(Value::as_u64).zip(row.get("steps").and_then(Value::as_u64));
    if let (Some((event, steps)), Some(object)) = (place, row.as_object_mut()) {
        object.insert("position".to_owned(), Value::String(format!("{event}+{steps}")));
    }
    row
}

/// The first objects that were found, or the last.
struct Collected {
    objects: std::collections::VecDeque<Value>,
    most: usize,
    is_last: bool,
    found: u64,
}

impl Collected {
    fn new(arguments: &Arguments, is_last: bool) -> Result<Collected, VerbError> {
        let most = number(arguments, "most", OBJECTS_MAX)?.unwrap_or(OBJECTS).max(1) as usize;
        Ok(Collected { objects: Default::default(), most, is_last, found: 0 })
    }

    /// False if no more are wanted.
    fn add(&mut self, object: Value) -> bool {
        self.found += 1;
        if self.objects.len() == self.most {
            if !self.is_last {
                return false;
            }
            self.objects.pop_front();
        }
        self.objects.push_back(object);
        true
    }

    fn answer(self, name: &str) -> Value {
        let more = self.found > self.objects.len() as u64;
        json!({name: Vec::from(self.objects), "more": more})
    }
}

/// A text of bounded length.
pub fn cut(text: &str) -> String {
    const CHARS_MAX: usize = 240;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Runs one of our own commands and gives its JSON objects, until one is the last that is wanted.
fn run(
    words: &[&str],
    trace: &Path,
    operands: &[&str],
    limit: &Limit<'_>,
    each: &mut dyn FnMut(Value) -> bool,
) -> Result<(), VerbError> {
    let operands: Vec<&OsStr> =
        [trace.as_os_str()].into_iter().chain(operands.iter().map(OsStr::new)).collect();
    run_ending(words, &operands, &[], limit, each)
}

/// True for what a command prints where it fails; its words are on standard error, too.
fn is_error(value: &Value) -> bool {
    value["error"].is_string() && value["code"].is_number()
}

/// The same for a command that may end with one of these codes, too.
pub fn run_ending(
    words: &[&str],
    operands: &[&OsStr],
    codes: &[i32],
    limit: &Limit<'_>,
    each: &mut dyn FnMut(Value) -> bool,
) -> Result<(), VerbError> {
    let doing = |doing| move |source| VerbError::Try { doing, source };
    let own = std::env::current_exe().map_err(doing("find retrovane itself"))?;
    let mut command = Command::new(own);
    limit.pass_on(&mut command);
    command.args(words);
    if !operands.is_empty() {
        command.arg("--").args(operands);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(doing("run retrovane itself"))?;
    let (sender, lines) = sync_channel(64);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading = std::thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        let mut stdout = BufReader::new(stdout);
        // `info` prints one object in many lines; the others one a line.
        let values = serde_json::Deserializer::from_reader(&mut stdout).into_iter::<Value>();
        for value in values {
            let Ok(value) = value else { return };
            if sender.send(value).is_err() {
                return;
            }
        }
    });
    let problem = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(stderr) = stderr {
            let mut stderr = BufReader::new(stderr);
            let _ = stderr.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
            // Who writes more must not fail by it.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        }
        text.trim().trim_start_matches("retrovane: ").to_owned()
    });
    let ended = loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(value) if is_error(&value) => {}
            Ok(value) => {
                if !each(value) {
                    break Ok(false);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(true),
            Err(RecvTimeoutError::Timeout) if limit.is_reached() => break Err(limit.error()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    drop(lines);
    if !matches!(ended, Ok(true)) {
        let _ = child.kill();
    }
    let status = child.wait().map_err(doing("wait for retrovane itself"))?;
    let _ = reading.join();
    let problem = problem.join().unwrap_or_default();
    match ended? {
        true if !status.success() && !status.code().is_some_and(|code| codes.contains(&code)) => {
            Err(VerbError::Refused(problem))
        }
        true | false => Ok(()),
    }
}
