//! `retrovane doctor`: what this machine offers, and what follows from it.

mod checks;
mod probes;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{CommandError, NOT_RECORDABLE};
use crate::settings::Settings;
use checks::{Check, State, all};
use probes::Machine;

const EXAMPLES: &str = "\
Examples:
  retrovane doctor
  retrovane doctor --json | jq -r '.checks[] | select(.state == \"missing\") | .advice'

Ends with 0 if programs can be recorded here, else with 122.

With --json: one object with the fields works, interception (user-dispatch,
seccomp or null) and checks, each with name, state (good, missing: recording needs
it, lacking: something costs more or is less exact, or neutral), found, meaning
and advice (null if there is nothing to do).";

/// Tell what this machine offers, and what a missing feature costs
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArguments {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Wait until standard input ends: the process that the probe of ptrace attaches to
    #[arg(long, hide = true)]
    stand_still: bool,
    /// Be what a node of a lab is, and end with 0 if that is possible, with 1 if it is without layers of files
    #[arg(long, hide = true)]
    enter_node: bool,
}

/// Examines the machine.
pub fn run(arguments: &DoctorArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    if arguments.stand_still {
        let _ = std::io::stdin().read(&mut [0]);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.enter_node {
        let found = probes::enter_node(settings.home().ok().as_deref());
        return Ok(ExitCode::from(found as u8));
    }
    let machine = Machine::probe(settings.home().ok().as_deref());
    let checks = all(&machine);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &as_json(&machine, &checks))?;
        writeln!(out)?;
    } else {
        out.write_all(text(&machine, &checks, settings.quiet).as_bytes())?;
    }
    out.flush()?;
    Ok(if works(&checks) { ExitCode::SUCCESS } else { ExitCode::from(NOT_RECORDABLE) })
}

fn works(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.state != State::Missing)
}

fn text(machine: &Machine, checks: &[Check], quiet: bool) -> String {
    let mut text = String::new();
    let mut put =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("writing to a String does not fail");
    let lacking = checks.iter().filter(|check| check.state == State::Lacking).count();
    let path = machine.interception().map_or("", |path| path.meaning());
    match (works(checks), lacking) {
        (true, 0) => put(format_args!("Programs can be recorded here. {path}")),
        (true, _) => {
            put(format_args!("Programs can be recorded here, with {lacking} limits, see below. {path}"))
        }
        (false, _) => put(format_args!("Programs cannot be recorded here; what to do is said below.")),
    }
    if quiet && works(checks) {
        return text;
    }
    put(format_args!(""));
    for check in checks {
        put(format_args!("{:<8} {:<22} {}", check.state.sign(), check.name, check.found));
        put(format_args!("{:<8} {:<22} {}", "", "", check.meaning));
        if let Some(advice) = &check.advice {
            put(format_args!("{:<8} {:<22} To do: {advice}", "", ""));
        }
    }
    text
}

fn as_json(machine: &Machine, checks: &[Check]) -> Value {
    let one = |check: &Check| {
        json!({
            "name": check.name,
            "state": check.state.name(),
            "found": check.found,
            "meaning": check.meaning,
            "advice": check.advice,
        })
    };
    json!({
        "works": works(checks),
        "interception": machine.interception().map(|path| path.name()),
        "checks": checks.iter().map(one).collect::<Vec<_>>(),
    })
}
