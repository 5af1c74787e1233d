//! `retrovane lab`: a distributed system on one machine.

mod again;
mod back;
mod discard;
mod future;
mod future_process;
mod futures;
mod interfaces;
mod kept;
pub mod layers;
pub mod own;
mod place;
mod running;
mod show;
mod start;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, Subcommand};
use lab::{Record, Spec};

use crate::exit;
use crate::lab::kept::{KEPT, Kept, SPEC, read_json};
use crate::settings::Settings;

pub use own::OwnArguments;

const EXAMPLES: &str = "\
Examples:
  retrovane lab run lab.toml            run the nodes that lab.toml describes
  retrovane lab run --json lab.toml     the same, with what they say as JSON
  retrovane lab check --twice lab.toml  run it twice: is it the same, to the bit?
  retrovane lab replay DIR              run it again, and compare with what it was
  retrovane lab branch DIR other.toml   another future: until when is it the same?
  retrovane lab log DIR                 what the nodes of an earlier run said
  retrovane lab ps                      the runs, and the nodes of those that run
  retrovane lab exec web -- ip addr     a command in a node of the lab that runs
  retrovane lab link web db --delay 1s  another link, from now on
  retrovane lab checkpoint              take a checkpoint
  retrovane lab checkpoint --every 1s   take one each second from now on, and thin them
  retrovane lab discard 2               do without a checkpoint
  retrovane lab back                    go back to it, as often as you like
  retrovane lab back 5.2s --seed 7      go back to a time, and on with other chance
  retrovane lab stop                    end it
  retrovane lab tree                    runs, their branches and checkpoints
  retrovane lab gdb web --at 12.5s      gdb on a node of the latest run, at that time
  retrovane replay DIR/trace            replay what was recorded of a run

docs/LAB.md has a tutorial, and what lab.toml may say.";

/// Run a distributed system on one machine, under one clock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Debug)]
enum LabCommand {
    /// Run a lab to its end.
    #[command(after_help = EXAMPLES)]
    Run(start::RunArguments),
    /// Run a lab twice, and say whether both runs were the same.
    #[command(after_help = EXAMPLES)]
    Check(CheckArguments),
    /// Run a lab again as it was, and say whether it was the same.
    #[command(after_help = EXAMPLES)]
    Replay(again::ReplayArguments),
    /// Run another future of a run: the same until its description differs.
    #[command(after_help = EXAMPLES)]
    Branch(again::BranchArguments),
    /// What the nodes of a run said, with the lab's times.
    #[command(after_help = EXAMPLES)]
    Log(LogArguments),
    /// The runs that are known, and the nodes of those that run.
    #[command(after_help = EXAMPLES)]
    Ps(running::PsArguments),
    /// End a lab that runs; what was recorded stays.
    #[command(after_help = EXAMPLES)]
    Stop(running::StopArguments),
    /// Run a command in a node of a lab that runs.
    #[command(after_help = EXAMPLES)]
    Exec(running::ExecArguments),
    /// Change a link of a lab that runs.
    #[command(after_help = EXAMPLES)]
    Link(running::LinkArguments),
    /// Take a checkpoint of a lab that runs, of all nodes and their network.
    #[command(after_help = EXAMPLES)]
    Checkpoint(running::CheckpointArguments),
    /// Discard checkpoints: they are not gone back to any more.
    #[command(after_help = EXAMPLES)]
    Discard(discard::DiscardArguments),
    /// Go back to a checkpoint or a time, and on from there.
    #[command(after_help = EXAMPLES)]
    Back(back::BackArguments),
    /// What `lab run` keeps at checkpoints.
    #[command(hide = true, after_help = EXAMPLES)]
    Future(future::FutureArguments),
    /// Runs, their branches and checkpoints.
    #[command(after_help = EXAMPLES)]
    Tree(tree::TreeArguments),
    /// Open gdb on a node of a run, at a time of the lab.
    #[command(after_help = EXAMPLES)]
    Gdb(place::GdbAtArguments),
}

#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The lab's description
    file: PathBuf,
    /// Run it twice and compare: each node's outputs with their times, and all packets
    #[arg(long, required = true)]
    twice: bool,
    /// What nodes have in memory when they end counts, too: programs that look at the machine (memory that is free,
    /// numbers of pages) have other numbers there without saying so
    #[arg(long)]
    memory: bool,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct LogArguments {
    /// The run: its name, its folder
    run: String,
    /// Only of this node
    #[arg(long)]
    node: Option<String>,
    /// As JSON, an object a line
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: LabArguments, settings: &Settings) -> ExitCode {
    match arguments.command {
        LabCommand::Run(arguments) => {
            start::run_into(&arguments, settings).map_or_else(|code| code, |(_, code)| code)
        }
        LabCommand::Check(arguments) => check(&arguments),
        LabCommand::Replay(arguments) => again::replay(&arguments, settings),
        LabCommand::Branch(arguments) => again::branch(&arguments, settings),
        LabCommand::Log(arguments) => log(&arguments, settings),
        LabCommand::Ps(arguments) => running::ps(&arguments, settings),
        LabCommand::Stop(arguments) => running::stop(&arguments, settings),
        LabCommand::Exec(arguments) => running::exec(&arguments, settings),
        LabCommand::Link(arguments) => running::link(&arguments, settings),
        LabCommand::Checkpoint(arguments) => running::checkpoint(&arguments, settings),
        LabCommand::Discard(arguments) => discard::discard(&arguments, settings),
        LabCommand::Back(arguments) => back::back(&arguments, settings),
        LabCommand::Future(arguments) => future::run(&arguments, settings),
        LabCommand::Tree(arguments) => tree::run(&arguments, settings),
        LabCommand::Gdb(arguments) => place::run(&arguments, settings),
    }
}

/// Runs the lab in a process of its own, silently.
fn run_aside(file: &Path, dir: &Path, clock: Option<&Path>) -> Result<Kept, String> {
    let own = std::env::current_exe().map_err(|error| format!("retrovane's own path: {error}"))?;
    let words = ["lab", "run", "--json", "--standing", "0", "--sums-memory", "--output"];
    let mut command = Command::new(own);
    command.arg("--quiet").args(words).arg(dir).arg(file).stdout(Stdio::null());
    if let Some(clock) = clock {
        command.arg("--clock").arg(clock);
    }
    command.status().map_err(|error| format!("the lab cannot be run: {error}"))?;
    read_json(&dir.join(KEPT)).map_err(|error| format!("the run has no result: {error}"))
}

fn check(arguments: &CheckArguments) -> ExitCode {
    let spec = match lab::read(&arguments.file) {
        Ok(spec) => spec,
        Err(error) => return exit::failure(exit::USAGE, &error),
    };
    let base = std::env::temp_dir().join(format!("retrovane-lab-check-{}", std::process::id()));
    let dirs = [0, 1].map(|number: u8| base.join(number.to_string()));
    // Programs can tell the folder in which they run: it is the same one.
    let place = base.join("run");
    let runs = dirs.each_ref().map(|dir| {
        let kept = run_aside(&arguments.file, &place, None)?;
        std::fs::rename(&place, dir).map_err(|error| format!("{}: {error}", place.display()))?;
        Ok::<_, String>(kept)
    });
    let said = dirs.each_ref().map(|dir| said(dir));
    let pages: Vec<Option<String>> =
        (0..spec.nodes.len()).map(|node| lab::memory_difference(&dirs[0], &dirs[1], node)).collect();
    // Only the results count.
    let _ = std::fs::remove_dir_all(&base);
    let [one, other] = runs;
    let (one, other) = match (one, other) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => return exit::failure(exit::FAILED, &error),
    };
    let mut differences = differences(&spec, &one, &other, &said);
    let in_memory = memory_differences(&spec, &one, &other, &pages);
    if arguments.memory {
        differences.extend(in_memory.iter().cloned());
    }
    if arguments.json {
        let result = serde_json::json!({ "equal": differences.is_empty(), "differences": differences,
            "memory_differences": in_memory, "first": one, "second": other });
        println!("{result}");
    } else if differences.is_empty() {
        let digest = &one.digest;
        println!(
            "equal: outputs of {} nodes, {} packets ({}), {:.6} s; {}",
            digest.outputs.len(),
            digest.packet_count,
            &digest.packets[..16],
            digest.ended_at_ns as f64 / 1e9,
            if in_memory.is_empty() {
                "memory, too".to_owned()
            } else {
                format!("other: {}", in_memory.join(", "))
            }
        );
    } else {
        println!("different: {}", differences.join(", "));
    }
    if let Some(text) = one.not_the_same_text().filter(|_| !arguments.json) {
        println!("{text}{}", first_preempted(&spec, &said[0]));
    }
    ExitCode::from(u8::from(!differences.is_empty()))
}

/// The first thread that was preempted, and where.
fn first_preempted(spec: &Spec, said: &[Record]) -> String {
    let text = said.iter().find_map(|record| match record {
        Record::Preempted { node, thread, place, .. } => {
            let name = node.and_then(|node| spec.nodes.get(node)).map_or("lab", |node| node.name.as_str());
            Some(format!(" (thread {thread} of {name}, at {place})"))
        }
        _ => None,
    });
    text.unwrap_or_default()
}

/// The nodes whose memory is different in two runs, and which pages.
fn memory_differences(spec: &Spec, one: &Kept, other: &Kept, pages: &[Option<String>]) -> Vec<String> {
    let sums = one.digest.memory.iter().zip(&other.digest.memory);
    let pairs = spec.nodes.iter().zip(sums).zip(pages).filter(|((_, (one, other)), _)| one != other);
    let which = |pages: &Option<String>| pages.as_ref().map_or(String::new(), |pages| format!(" ({pages})"));
    pairs.map(|((node, _), pages)| format!("memory of {}{}", node.name, which(pages))).collect()
}

/// What the nodes of a run said; nothing where that cannot be read any more.
fn said(dir: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Where two runs say something else for the first time: a node's line in both, with its times.
fn first_other_output(spec: &Spec, node: usize, said: &[Vec<Record>; 2]) -> String {
    let of_node = |record: &&Record| match record {
        Record::Output { node: of, .. } | Record::End { node: of, .. } | Record::Command { node: of, .. } => {
            *of == node
        }
        _ => false,
    };
    let shown = show::Shown::new(spec, false, None);
    let [mut one, mut other] = said.each_ref().map(|said| said.iter().filter(of_node));
    let line = |record: Option<&Record>| {
        record.map_or("nothing".to_owned(), |record| shown.text(record, &spec.nodes[node].name))
    };
    loop {
        match (one.next(), other.next()) {
            (None, None) => return String::new(),
            (one, other) if one == other => (),
            (one, other) => {
                return format!(" (first: `{}` and `{}`)", line(one).trim(), line(other).trim());
            }
        }
    }
}

/// What is different in two runs.
fn differences(spec: &Spec, one: &Kept, other: &Kept, said: &[Vec<Record>; 2]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        if one.digest.outputs.get(index) != other.digest.outputs.get(index) {
            found.push(format!("outputs of {}{}", node.name, first_other_output(spec, index, said)));
        }
    }
    let (one_digest, other_digest) = (&one.digest, &other.digest);
    if one_digest.packets != other_digest.packets {
        let counts = [one_digest, other_digest].map(|digest| digest.packet_count);
        found.push(format!("packets ({} and {})", counts[0], counts[1]));
    }
    if one_digest.ended_at_ns != other_digest.ended_at_ns {
        let ends = [one_digest, other_digest].map(|digest| digest.ended_at_ns as f64 / 1e9);
        found.push(format!("ends ({} s and {} s)", ends[0], ends[1]));
    }
    if one.is_good != other.is_good {
        found.push("success".to_owned());
    }
    found
}

fn log(arguments: &LogArguments, settings: &Settings) -> ExitCode {
    let dir = match again::named(&arguments.run, settings) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    let spec: Spec = match read_json(&dir.join(SPEC)) {
        Ok(spec) => spec,
        Err(error) => return exit::failure(exit::BAD_TRACE, &error),
    };
    let path = dir.join("log.jsonl");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return exit::failure(exit::BAD_TRACE, &format!("{}: {error}", path.display())),
    };
    let mut show = show::Shown::new(&spec, arguments.json, arguments.node.clone());
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(record) => show.record(&record),
            Err(error) => return exit::failure(exit::BAD_TRACE, &format!("{}: {error}", path.display())),
        }
    }
    ExitCode::SUCCESS
}
