//! The same run again, and other futures of it: a lab with the virtual clock is gone back to by running
//! it again, which gives the same up to where its description differs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use lab::{CLOCK, Record, Spec};

use crate::exit;
use crate::lab::kept::{KEPT, Kept, SPEC, read_json};
use crate::lab::start::RunArguments;
use crate::lab::{differences, run_aside, running, said, start, tree};
use crate::settings::Settings;

#[derive(Args, Debug)]
pub struct ReplayArguments {
    /// The run: its name, its folder
    run: String,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct BranchArguments {
    /// The run that this one is another future of: its name, its folder
    run: String,
    /// The description of the branch: other events, links, seeds or nodes
    file: PathBuf,
    /// Where everything about the run is kept [default: lab-N in RETROVANE_HOME/labs]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Say everything as JSON, an object a line
    #[arg(long)]
    json: bool,
}

/// The folder of a run.
pub fn named(run: &str, settings: &Settings) -> Result<PathBuf, ExitCode> {
    let home = settings.home().map_err(|error| exit::failure(error.code(), &error))?;
    running::find(&home, Some(run)).map_err(|error| exit::failure(exit::BAD_TRACE, &error))
}

/// Runs a lab again, and says whether it was the same.
pub fn replay(arguments: &ReplayArguments, settings: &Settings) -> ExitCode {
    let dir = match named(&arguments.run, settings) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    let dir = &dir;
    let known =
        read_json::<Spec>(&dir.join(SPEC)).and_then(|spec| Ok((spec, read_json::<Kept>(&dir.join(KEPT))?)));
    let (spec, before): (Spec, Kept) = match known {
        Ok(known) => known,
        Err(error) => return exit::failure(exit::BAD_TRACE, &error),
    };
    let aside = std::env::temp_dir().join(format!("retrovane-lab-replay-{}", std::process::id()));
    let clock = spec.keeps_clock().then(|| dir.join(CLOCK));
    let again = run_aside(&dir.join(SPEC), &aside, clock.as_deref());
    let parted = first_difference(dir, &aside);
    let said = [said(dir), said(&aside)];
    // Only the result counts.
    let _ = std::fs::remove_dir_all(&aside);
    let again = match again {
        Ok(again) => again,
        Err(error) => return exit::failure(exit::FAILED, &error),
    };
    let found = differences(&spec, &before, &again, &said);
    if arguments.json {
        let result = serde_json::json!({ "equal": found.is_empty(), "differences": found,
            "parted_at_ns": parted.filter(|_| !found.is_empty()) });
        println!("{result}");
        return ExitCode::from(if found.is_empty() { 0 } else { exit::DIVERGED });
    }
    if found.is_empty() {
        println!("equal, until the end at {:.6} s", again.digest.ended_at_ns as f64 / 1e9);
        return ExitCode::SUCCESS;
    }
    let at = parted.map_or(String::new(), |at_ns| format!(" from {:.6} s on", at_ns as f64 / 1e9));
    println!("different{at}: {}", found.join(", "));
    ExitCode::from(exit::DIVERGED)
}

/// Runs another future, and says from when on it is another.
pub fn branch(arguments: &BranchArguments, settings: &Settings) -> ExitCode {
    let parent = match named(&arguments.run, settings) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    let file = arguments.file.clone();
    let run = RunArguments {
        file,
        output: arguments.output.clone(),
        json: arguments.json,
        ..RunArguments::default()
    };
    let (dir, code) = match start::run_into(&run, settings) {
        Ok(run) => run,
        Err(code) => return code,
    };
    let parted_at_ns = first_difference(&parent, &dir);
    tree::note_parent(&dir, &parent, parted_at_ns);
    if arguments.json {
        println!("{}", serde_json::json!({ "is": "branch", "parted_at_ns": parted_at_ns }));
    } else if !settings.quiet {
        match parted_at_ns {
            Some(at_ns) => diagnostics::tell!("retrovane: the same until {:.6} s", at_ns as f64 / 1e9),
            None => diagnostics::tell!("retrovane: the same until the end"),
        }
    }
    code
}

/// When two runs were seen to differ first, in what was said and in packets.
fn first_difference(one: &Path, other: &Path) -> Option<u64> {
    let said = first_said(one, other);
    let sent = first_sent(one, other);
    said.into_iter().chain(sent).min()
}

fn first_said(one: &Path, other: &Path) -> Option<u64> {
    let [one, other] =
        [one, other].map(|dir| std::fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default());
    let time = |line: &str| Some(serde_json::from_str::<Record>(line).ok()?.at_ns());
    let (mut ours, mut theirs) = (one.lines(), other.lines());
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return None,
            (our, their) if our == their => {}
            (our, their) => return our.into_iter().chain(their).filter_map(time).min(),
        }
    }
}

fn first_sent(one: &Path, other: &Path) -> Option<u64> {
    let [one, other] = [one, other].map(|dir| std::fs::read(dir.join("packets.pcapng")).unwrap_or_default());
    let (mut one, mut other) = (&one[..], &other[..]);
    loop {
        let (ours, theirs) = (take_block(&mut one), take_block(&mut other));
        if ours.is_none() && theirs.is_none() {
            return None;
        }
        if ours != theirs {
            return [ours, theirs].into_iter().flatten().filter_map(time_of).min();
        }
    }
}

/// The next block of a pcapng file.
fn take_block<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*bytes.get(4..8)?.first_chunk()?) as usize;
    let block = bytes.get(..length.max(12))?;
    *bytes = &bytes[block.len()..];
    Some(block)
}

/// The time of an enhanced packet block.
fn time_of(block: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u32::from_le_bytes(*block.get(at..at + 4)?.first_chunk()?));
    (word(0)? == 6).then_some(())?;
    Some(u64::from(word(12)?) << 32 | u64::from(word(16)?))
}
