//! Where a command's JSON object goes whose standard output is the program's: a file that `--json` names.
//!
//! Errors go there, too. Deliberately absent: a use of the program's own outputs, among which nothing could tell the
//! object from what the program writes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use replayer::ExitReport;
use serde_json::{Value, json};
use trace_store::TraceReader;

use crate::exit::{self, CommandError};

static PLACE: OnceLock<File> = OnceLock::new();

/// Commands whose `--json` names a file.
const COMMANDS: [&str; 3] = ["record", "replay", "live"];

/// `--json FILE`.
#[derive(Args, Debug, Default)]
pub struct JsonArguments {
    /// Write one JSON object there at the end, or why it failed; /dev/fd/3 is a descriptor
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonArguments {
    pub fn is_given(&self) -> bool {
        self.json.is_some()
    }

    /// From here on answers and errors go there.
    pub fn open(&self) -> Result<(), CommandError> {
        self.json.as_deref().map_or(Ok(()), open)
    }
}

fn open(path: &Path) -> Result<(), CommandError> {
    if path == Path::new("-") {
        let why =
            "--json -: standard output is the program's: name a file, or a descriptor such as /dev/fd/3";
        return Err(CommandError::Usage(why.to_owned()));
    }
    // A descriptor of the caller's may be a file that others write to as well.
    let is_descriptor = ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder));
    let mut options = OpenOptions::new();
    match is_descriptor {
        true => options.append(true),
        false => options.write(true).create(true).truncate(true),
    };
    let opened = options.open(path);
    let file = opened.map_err(|source| CommandError::Write { path: path.to_owned(), source })?;
    // There is one of them for a command.
    let _ = PLACE.set(file);
    Ok(())
}

/// Writes an object there; false where none was named.
pub fn write(object: &Value) -> bool {
    let Some(mut file) = PLACE.get() else { return false };
    if let Err(error) = writeln!(file, "{object}") {
        diagnostics::tell!("retrovane: the JSON object cannot be written: {error}");
    }
    true
}

/// A trace, and how its program ended, recorded or replayed; `None` for what ends where it is meant to.
pub fn object_of_run(trace_dir: &Path, status: Option<ExitReport>) -> Value {
    let trace = TraceReader::open(trace_dir).ok();
    json!({
        "trace": trace_dir,
        "events": trace.as_ref().map(|trace| trace.totals().events),
        "processes": trace.as_ref().map(|trace| trace.lanes().len()),
        "end": status.map_or(Value::Null, exit::end_object),
        "code": status.map_or(0, exit::code_of_program),
    })
}

/// True for a command line whose standard output is not for our objects.
pub fn is_elsewhere() -> bool {
    command().is_some_and(|command| COMMANDS.contains(&command.as_str()))
}

/// The word that names the command: the first that is neither an option of all commands nor its value.
fn command() -> Option<String> {
    const WITH_VALUES: [&str; 2] = ["--home", "--sandbox"];
    let mut words = words().into_iter();
    while let Some(word) = words.next() {
        if WITH_VALUES.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Opens the file of a command line that makes no sense otherwise. Only where `--` tells which words are ours: the
/// program's may name a file, too.
pub fn open_of_bad_line() {
    let is_clear =
        std::env::args_os().any(|word| word == "--") || command().is_some_and(|command| command == "replay");
    let words = words();
    let named = words.iter().enumerate().find_map(|(place, word)| match word.strip_prefix("--json") {
        Some("") => words.get(place + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    });
    if let Some(path) = named.filter(|_| is_clear) {
        // That it cannot be written matters less than what is wrong.
        let _ = open(Path::new(&path));
    }
}

/// The words before `--`.
fn words() -> Vec<String> {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}
