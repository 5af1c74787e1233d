//! `retrovane lab back`: to a checkpoint, or a time, and on from there; in the lab that runs, or where it has ended
//! in another one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

use clap::Args;
use lab::{CLOCK, Changes, PastPlace, Spec, Taken, read_checkpoints};
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::lab::futures::{self, Event};
use crate::lab::kept::{SPEC, read_json};
use crate::lab::running;
use crate::lab::start::{Run, There, new_dir};
use crate::lab::tree;
use crate::settings::Settings;

#[derive(Args, Debug)]
pub struct BackArguments {
    /// The number of a checkpoint, or a time as 5.2s [default: the latest checkpoint]
    to: Option<String>,
    /// The run: its name, its folder [default: the latest that runs]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// What chance draws by from there on
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A description: its events of later times happen in place of those that would
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Of a run that has ended: where everything about the new one is kept [default: lab-N in RETROVANE_HOME/labs]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

/// How going back went.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    At(Taken),
    Failed(String),
}

/// Hands a wish to the keeper; waits for its answer.
pub fn ask_keeper(keeper: Option<&Sender<Event>>, to: Option<PastPlace>, changes: Changes) -> Answer {
    let (reply, answer) = channel();
    let asked = keeper.is_some_and(|keeper| keeper.send(Event::Back { to, changes, reply }).is_ok());
    let answer = asked.then(|| answer.recv().ok()).flatten();
    match answer {
        Some(Ok(taken)) => Answer::At(taken),
        Some(Err(reason)) => Answer::Failed(reason),
        None => Answer::Failed("the lab has ended meanwhile".to_owned()),
    }
}

fn place(to: &str) -> Result<PastPlace, String> {
    if let Ok(number) = to.parse() {
        return Ok(PastPlace::Checkpoint(number));
    }
    lab::time_ns(to).map(PastPlace::Time).map_err(|_| {
        format!("`{to}` is neither the number of a checkpoint nor a time: write it like `2` or `5.2s`")
    })
}

fn changes(arguments: &BackArguments, spec: &Spec) -> Result<Changes, String> {
    let read = |file: &PathBuf| {
        let other = lab::read(file).map_err(|error| error.to_string())?;
        let names = |spec: &Spec| spec.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        match names(&other) == names(spec) {
            true => Ok(other.events),
            false => Err(format!("{}: its nodes are not those of the run", file.display())),
        }
    };
    Ok(Changes { seed: arguments.seed, events: arguments.events.as_ref().map(read).transpose()? })
}

pub fn back(arguments: &BackArguments, settings: &Settings) -> ExitCode {
    let wished = running::named_run(arguments.run.as_deref(), settings).and_then(|dir| {
        let to = arguments.to.as_deref().map(place).transpose()?;
        let spec: Spec = read_json(&futures::present(&dir).join(SPEC))?;
        Ok((dir, to, changes(arguments, &spec)?, spec))
    });
    let (dir, to, changes, spec) = match wished {
        Ok(wished) => wished,
        Err(error) => return exit::failure(exit::USAGE, &error),
    };
    let answer = match running::ask_back(&dir, to, changes.clone()) {
        Ok(answer) => answer,
        // Nobody runs it any more.
        Err(_) => return go_on(arguments, settings, &futures::present(&dir), spec, to, changes),
    };
    match answer {
        Answer::At(taken) if arguments.json => {
            println!("{}", serde_json::json!({ "at_ns": taken.at_ns, "checkpoint": taken.number }));
        }
        Answer::At(taken) => println!("back at {:.6} s", taken.at_ns as f64 / 1e9),
        Answer::Failed(reason) => return exit::failure(exit::FAILED, &reason),
    }
    ExitCode::SUCCESS
}

/// A lab that has ended goes on from its past, as a run of its own.
fn go_on(
    arguments: &BackArguments,
    settings: &Settings,
    past: &std::path::Path,
    spec: Spec,
    to: Option<PastPlace>,
    changes: Changes,
) -> ExitCode {
    let taken = read_checkpoints(past);
    let latest = taken.last().map(|taken| PastPlace::Checkpoint(taken.number));
    let Some(to) = to.or(latest) else {
        return exit::failure(exit::USAGE, &"the run has no checkpoint: give a time, as 5.2s");
    };
    if let PastPlace::Checkpoint(number) = to
        && let Err(error) = futures::known(past, number)
    {
        return exit::failure(exit::USAGE, &error);
    }
    let known = lab::until(&spec, to);
    let (spec, number) = match known {
        Ok(known) => known,
        Err(error) => return exit::failure(exit::USAGE, &error),
    };
    let expected = match to {
        PastPlace::Checkpoint(number) => taken.into_iter().find(|one| one.number == number),
        PastPlace::Time(_) => None,
    };
    let home = match settings.home_to_write() {
        Ok(home) => home,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let dir = match new_dir(arguments.output.as_ref(), &home) {
        Ok(dir) => dir,
        Err(error) => return exit::failure(exit::FAILED, &error),
    };
    let clock = spec.keeps_clock().then(|| past.join(CLOCK));
    let run = Run {
        dir,
        home,
        spec,
        as_json: arguments.json,
        quiet: settings.quiet,
        shadows: 1,
        sums_memory: false,
    };
    if let Err(error) = run.furnish() {
        return exit::failure(exit::FAILED, &error);
    }
    let at_ns = match to {
        PastPlace::Time(at_ns) => Some(at_ns),
        PastPlace::Checkpoint(_) => expected.as_ref().map(|taken| taken.at_ns),
    };
    tree::note_parent(&run.dir, past, at_ns);
    let there = There { number, expected, past: past.to_owned(), changes };
    run.present(clock, Some(there)).unwrap_or_else(|code| code)
}
