//! `retrovane print` and `retrovane calls`: values of a recorded program, after the fact.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use printer::{Failing, Request, Row, Shown, Wanted, parse, parse_list, print};
use serde_json::{Map, Value, json};

use crate::exit::{self, CommandError};
use crate::settings::Settings;
use crate::wording;

const PRINT_EXAMPLES: &str = "\
Examples:
  retrovane print --at parser.c:212 'token, depth'
  retrovane print make-3 --at list.c:40 'node->next->key, table[i]' --if 'i > 100 && node'
  retrovane print --at src/main.rs:17 count --exact
  retrovane print --at app.c:99 '*request' --json | jq .values";

const PRINT_DETAILS: &str = "\
The program has to be compiled with debug information (-g); nothing has to be known
before it is recorded. Values are those before the line is executed. A line counts each time
it is come to from another one: the head of a `for` once at its beginning and once for each
round. What the compiler did not keep at that place is shown as <optimized out>.

Expressions are C's, without assignments and calls: variables (also static and global
ones, and a::b), members (a.b, p->x), elements, *p, &x, casts to numbers and pointers,
arithmetic (also with floating-point numbers), comparisons, && and ||, names of
enumerations, registers ($rax). Structures are shown with their members, pointers to char
with the text.

Each row begins with the process (and /THREAD if it has several) and the position: how
many events were before, and which execution since then it is. With --exact it is a
position for `retrovane replay --at`, which takes a little longer.

With --json: one object a line, with pid, thread, event, hit, steps (with --exact) and
values. What is missing is {\"missing\": why}.";

const CALLS_EXAMPLES: &str = "\
Examples:
  retrovane calls insert
  retrovane calls make-3 list::push --if 'value < 0'
  retrovane calls sqlite3VdbeExec --pid 4711 --json | jq .result";

const CALLS_DETAILS: &str = "\
A function is named as in the source; a::b, or the end of such a name, where there are
namespaces. Calls that were inlined are none. A call whose return was not seen (longjmp,
an exception, the end) has no result. For --if and the rows see `retrovane help print`;
in --json each row has function, arguments and result.";

/// Show values at every execution of a line of the program
#[derive(Args, Debug)]
#[command(after_help = PRINT_EXAMPLES, after_long_help = format!("{PRINT_EXAMPLES}\n\n{PRINT_DETAILS}"))]
pub struct PrintArguments {
    /// The trace [default: the latest], and the expressions, with commas between them
    #[arg(value_names = ["TRACE", "EXPRESSIONS"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// The line: the end of a source file's path, and a number
    #[arg(long, value_name = "FILE:LINE")]
    at: String,
    #[command(flatten)]
    common: CommonArguments,
}

/// Show every call of a function with its arguments and its result
#[derive(Args, Debug)]
#[command(after_help = CALLS_EXAMPLES, after_long_help = format!("{CALLS_EXAMPLES}\n\n{CALLS_DETAILS}"))]
pub struct CallsArguments {
    /// The trace [default: the latest], and the function
    #[arg(value_names = ["TRACE", "FUNCTION"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Args, Debug)]
struct CommonArguments {
    /// Only where this is not 0
    #[arg(long = "if", value_name = "CONDITION", allow_hyphen_values = true)]
    condition: Option<String>,
    /// Only in these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<i32>,
    /// With exact positions, for `retrovane replay --at`
    #[arg(long)]
    exact: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// `retrovane print`.
pub fn run_print(arguments: &PrintArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let (trace, text) = split(&arguments.words);
    let bad = || {
        CommandError::Usage(format!(
            "--at {}: a source file and a line are wanted, as main.c:12",
            arguments.at
        ))
    };
    let (file, line) = arguments.at.rsplit_once(':').ok_or_else(bad)?;
    let line: u64 = line.parse().map_err(|_| bad())?;
    if file.is_empty() {
        return Err(bad());
    }
    let expressions = parse_list(text)?;
    let wanted = Wanted::Line { file: PathBuf::from(file), line, expressions };
    let what = format!("line {line} of {file} was never executed");
    show(wanted, trace, &arguments.common, settings, &what)
}

/// `retrovane calls`.
pub fn run_calls(arguments: &CallsArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let (trace, function) = split(&arguments.words);
    let wanted = Wanted::Calls { function: function.to_owned() };
    show(wanted, trace, &arguments.common, settings, &format!("{function} was never called"))
}

/// The trace, if there is a word for it, and the other word.
fn split(words: &[String]) -> (Option<&str>, &str) {
    match words {
        [trace, other, ..] => (Some(trace), other),
        [other] => (None, other),
        [] => (None, ""),
    }
}

fn show(
    wanted: Wanted,
    trace: Option<&str>,
    arguments: &CommonArguments,
    settings: &Settings,
    nothing: &str,
) -> Result<ExitCode, CommandError> {
    let condition = arguments.condition.as_deref().map(parse).transpose()?;
    let request = Request {
        trace_dir: settings.trace_dir(trace)?,
        home: settings.home().ok(),
        wanted,
        condition,
        pids: arguments.pid.clone(),
        exactly: arguments.exact,
        sandbox: settings.sandbox,
    };
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let printed = print(&request, &mut |row| {
        if arguments.json { writeln!(out, "{}", to_json(row)) } else { write_row(&mut out, row) }
    });
    // What was shown before an error belongs before it.
    out.flush()?;
    let outcome = printed?;
    if !settings.quiet {
        for note in &outcome.notes {
            diagnostics::tell!("retrovane: {note}");
        }
        if outcome.rows == 0 {
            let limit = if arguments.condition.is_some() { " where the condition holds" } else { "" };
            diagnostics::tell!("retrovane: {nothing}{limit}");
        }
    }
    Ok(match outcome.worst {
        Some(Failing::Diverged) => ExitCode::from(exit::DIVERGED),
        Some(Failing::Stuck) => ExitCode::from(exit::BAD_TRACE),
        None => exit::of_shown(outcome.cut.as_ref()),
    })
}

fn write_row(out: &mut impl Write, row: &Row) -> std::io::Result<()> {
    let position = match row.steps {
        Some(steps) => format!("{}+{steps}", row.event),
        None => format!("{}#{}", row.event, row.ordinal),
    };
    let process = wording::process(row.pid, row.thread);
    write!(out, "{process:<8} {position:<12} ")?;
    if let Some(function) = row.function() {
        write!(out, "{function}(")?;
    }
    for (index, (name, value)) in row.values.iter().enumerate() {
        write!(out, "{}{name} = {value}", if index == 0 { "" } else { ", " })?;
    }
    match &row.result {
        None => writeln!(out),
        Some(Shown::Nothing) => writeln!(out, ")"),
        Some(result) => writeln!(out, ") = {result}"),
    }
}

fn to_json(row: &Row) -> Value {
    let values: Map<String, Value> =
        row.values.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    let mut object = json!({
        "pid": row.pid,
        "thread": row.thread + 1,
        "event": row.event,
        "hit": row.ordinal,
    });
    if let Some(steps) = row.steps {
        object["steps"] = json!(steps);
    }
    match (&row.result, row.function()) {
        (Some(result), Some(function)) => {
            object["function"] = json!(function);
            object["arguments"] = Value::Object(values);
            object["result"] = result.to_json();
        }
        _ => object["values"] = Value::Object(values),
    }
    object
}
