//! `retrovane query`: one verb of [`crate::verbs`], asked from a shell.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{CommandError, as_json};
use crate::settings::Settings;
use crate::standby;
use crate::verbs::answers::{Answers, Question};
use crate::verbs::cursor::{Beginning, Cursor, Limit};
use crate::verbs::log::LastIndex;
use crate::verbs::table::{self, Kind, Of, VERBS, Verb};
use crate::verbs::{Arguments, VerbError, bounded, made, whole};

const EXAMPLES: &str = "\
Examples:
  retrovane query backtrace locals=true             at the crash of the latest recording
  retrovane query last_write expression=cache->log  who wrote it last
  retrovane query evaluate --at 109+4578 expressions=n expressions=p->key
  retrovane query search make-3 text=ENOENT calls=file most=5
  retrovane query calls function=insert last=true
  retrovane query sender --pid 4711 --at 109        who sent what process 4711 had read there
  retrovane query turns last=true                   who ran when, the last of it
  retrovane query hunt --allow-hunt tries=500       run the program again in its recorded world, until it fails
  retrovane query --list                            all verbs and their arguments

The answer is one JSON object; its fields are those of the tools of `retrovane mcp` (docs/AGENTS.md).
A debugger stays for a minute, for the next question about the trace; RETROVANE_STANDBY says for how many seconds, 0 for none.
An error is {\"error\": why}, with exit code 1.";

/// Its version grows where something that was there is gone, or means something else.
const SCHEMA: &str = include_str!("../../../../docs/json.schema.json");

/// Ask a recording one question, and get one JSON object
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct QueryArguments {
    /// What to ask; --list shows all
    #[arg(required_unless_present_any = ["list", "schema"])]
    verb: Option<String>,
    /// The trace [default: the latest], and the verb's arguments
    #[arg(value_name = "TRACE|NAME=VALUE")]
    words: Vec<String>,
    /// Where to ask: start, end, crash, or a position [default: the crash, or the end]
    #[arg(long, value_name = "start|end|crash|POSITION")]
    at: Option<String>,
    /// Of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u64>,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Permit the verb `hunt`: it runs the recorded program again, in a sandbox without network
    #[arg(long)]
    allow_hunt: bool,
    /// List the verbs, with their arguments
    #[arg(long)]
    list: bool,
    /// Print the JSON schema of all that our commands print with --json
    #[arg(long)]
    schema: bool,
}

pub fn run(arguments: &QueryArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    answer(arguments, settings).inspect_err(|error| {
        if !error.is_broken_pipe() {
            as_json(error.code(), error);
        }
    })
}

fn answer(arguments: &QueryArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let mut out = std::io::stdout().lock();
    if arguments.schema {
        out.write_all(SCHEMA.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = arguments.verb.as_deref().filter(|_| !arguments.list) else {
        for verb in VERBS {
            writeln!(out, "{}", listed(verb))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let verb = table::find(name).ok_or_else(|| {
        let names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
        CommandError::Usage(format!("there is no verb {name}: it is one of {}", names.join(", ")))
    })?;
    let (trace, given) = parse(verb, &arguments.words)?;
    let place = Place { trace, pid: arguments.pid, at: arguments.at.as_deref() };
    let answered = match verb.of {
        Of::Made => make(verb, &place, &given, arguments, settings)?,
        Of::Trace | Of::Log | Of::Cursor => ask(verb, &place, &given, arguments.timeout, settings)?,
    };
    match answered {
        Ok(answer) => {
            writeln!(out, "{}", bounded(answer))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{}", json!({"error": error.to_string()}))?;
            Ok(ExitCode::from(1))
        }
    }
}

/// What a verb makes that leaves something beside the trace: it is asked for each time.
fn make(
    verb: &Verb,
    place: &Place<'_>,
    given: &Arguments,
    arguments: &QueryArguments,
    settings: &Settings,
) -> Result<Result<Value, VerbError>, CommandError> {
    let trace = settings.trace_dir(place.trace)?;
    let never = AtomicBool::new(false);
    let limit = Limit::new(arguments.timeout, &never, settings.sandbox);
    Ok(made::answer(verb.name, &trace, given, &limit, settings, arguments.allow_hunt))
}

/// Where something is asked.
pub struct Place<'a> {
    /// The trace; `None`: the latest.
    pub trace: Option<&'a str>,
    pub pid: Option<u64>,
    /// `None`: at the crash, or at the end.
    pub at: Option<&'a str>,
}

/// The answer to a verb, or why there is none.
pub fn ask(
    verb: &Verb,
    place: &Place<'_>,
    given: &Arguments,
    seconds: u64,
    settings: &Settings,
) -> Result<Result<Value, VerbError>, CommandError> {
    let trace = settings.trace_dir(place.trace)?;
    let never = AtomicBool::new(false);
    let limit = Limit::new(seconds, &never, settings.sandbox);
    let question = Question { verb: verb.name, pid: place.pid, at: place.at, given };
    let answers = Answers::of(&trace);
    if let Some(answer) = answers.as_ref().and_then(|answers| answers.get(question)) {
        return Ok(Ok(answer.clone()));
    }
    let standing = (verb.of == Of::Cursor).then(|| standby::ask(question, &trace, seconds, settings));
    let computed = standing.flatten().unwrap_or_else(|| compute(verb, &trace, place, given, limit));
    if let (Ok((answer, sources)), Some(answers)) = (&computed, answers) {
        answers.keep(question, answer, sources);
    }
    Ok(computed.map(|(answer, _)| answer))
}

/// The answer, from the trace; and which sources were read for it.
fn compute(
    verb: &Verb,
    trace: &Path,
    place: &Place<'_>,
    given: &Arguments,
    limit: Limit<'_>,
) -> Result<(Value, Vec<PathBuf>), VerbError> {
    match verb.of {
        Of::Trace | Of::Log | Of::Made => {
            let given = with_place(verb, place, given);
            let answer = whole::answer(verb.name, trace, &given, &limit, &LastIndex::default())?;
            Ok((answer, Vec::new()))
        }
        Of::Cursor => {
            let open = |at| Cursor::open(&Beginning { trace, pid: place.pid, at }, limit);
            let opened = match place.at {
                Some(at) => open(at),
                None => open("crash").or_else(|_| open("end")),
            };
            let (mut cursor, place) = opened?;
            let answer = match verb.name {
                "where" => place,
                name => cursor.ask(name, given, limit)?,
            };
            Ok((answer, cursor.take_sources()))
        }
    }
}

/// The arguments, and where the command line asks, for verbs that take it as arguments.
fn with_place(verb: &Verb, place: &Place<'_>, given: &Arguments) -> Arguments {
    let mut given = given.clone();
    let named = [("process", place.pid.map(Value::from)), ("position", place.at.map(Value::from))];
    for (name, value) in named {
        if let Some(value) = value
            && verb.parameters.iter().any(|parameter| parameter.name == name)
        {
            given.entry(name).or_insert(value);
        }
    }
    given
}

/// The trace, if one is named, and the arguments by their kinds.
fn parse<'a>(verb: &Verb, words: &'a [String]) -> Result<(Option<&'a str>, Arguments), CommandError> {
    let (mut trace, mut given) = (None, Arguments::new());
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            if trace.replace(word.as_str()).is_some() {
                return Err(CommandError::Usage(format!(
                    "{word}: a trace was named before; arguments are NAME=VALUE"
                )));
            }
            continue;
        };
        let parameter = verb.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
            let known: Vec<&str> = verb.parameters.iter().map(|parameter| parameter.name).collect();
            CommandError::Usage(format!("{} has no argument {name}: it has {}", verb.name, known.join(", ")))
        })?;
        let wrong = |what: &str| CommandError::Usage(format!("{word}: {name} is {what}"));
        let value = match parameter.kind {
            Kind::Number => Value::from(value.parse::<u64>().map_err(|_| wrong("a number"))?),
            Kind::Truth => Value::from(value.parse::<bool>().map_err(|_| wrong("true or false"))?),
            Kind::Text | Kind::OneOf(_) => Value::from(value),
            Kind::Texts => {
                let mut list = given.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
                // Expressions do not begin so.
                match serde_json::from_str::<Vec<String>>(value) {
                    Ok(several) => list.extend(several.into_iter().map(Value::from)),
                    Err(_) => list.push(Value::from(value)),
                }
                Value::from(list)
            }
        };
        given.insert(name.to_owned(), value);
    }
    Ok((trace, given))
}

fn listed(verb: &Verb) -> String {
    let mut text = verb.name.to_owned();
    for parameter in verb.parameters {
        let shown = match parameter.kind {
            Kind::OneOf(words) => words.join("|"),
            Kind::Number => "N".to_owned(),
            Kind::Truth => "true".to_owned(),
            Kind::Text => "TEXT".to_owned(),
            Kind::Texts => "TEXT|[TEXTS]".to_owned(),
        };
        text += &match parameter.is_needed {
            true => format!(" {}={shown}", parameter.name),
            false => format!(" [{}={shown}]", parameter.name),
        };
    }
    format!("{text}\n    {}", verb.about)
}
