//! `retrovane diff`: where two recordings differ first.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use events::{Instruction, Kind};
use linux_abi::general as raw;
use serde_json::{Value, json};
use trace_store::{LaneInfo, TraceReader};

use crate::dump::{Showing, line_of};
use crate::exit::{self, CommandError};
use crate::info::in_tree_order;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::settings::Settings;
use crate::stack_at::{Past, frame_text};
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane diff parser-0 parser-1        where two runs of a program part
  retrovane diff --json before after

Compares process by process, event by event: calls with their texts, results and data that are
shown, signals, ends. Addresses, process ids, times and random numbers do not count, nor what programs
cannot see. Where both have code with
symbols, the innermost functions at the first difference are shown, with their lines.

Ends with 0 if nothing differs, else with 1.";

/// Frames that are shown of each side.
const FRAMES_SHOWN: usize = 4;
/// Bytes of a text that are compared and shown.
const STRING_BYTES: usize = 64;

/// Find the first difference between two recordings
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DiffArguments {
    /// Name or directory of a trace
    left: String,
    /// Name or directory of another
    right: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// The first difference.
pub struct Difference {
    /// Process and event on each side; the text is empty where that side has ended.
    pub sides: [Side; 2],
}

/// One side of it.
pub struct Side {
    pub pid: i32,
    pub event: u64,
    pub text: String,
    pub frames: Vec<String>,
}

impl Difference {
    pub fn json(&self) -> Value {
        let side = |side: &Side| json!({ "pid": side.pid, "event": side.event, "text": side.text, "frames": side.frames });
        json!({ "left": side(&self.sides[0]), "right": side(&self.sides[1]) })
    }

    /// Lines for people, with names for both sides.
    pub fn lines(&self, names: [&str; 2]) -> Vec<String> {
        let mut lines = Vec::new();
        for (side, name) in self.sides.iter().zip(names) {
            let text = if side.text.is_empty() { "(it has ended)" } else { &side.text };
            lines.push(format!("  {name}: process {}, event {}: {text}", side.pid, side.event));
            lines.extend(side.frames.iter().map(|frame| format!("      in {frame}")));
        }
        lines
    }
}

/// Compares.
pub fn run(arguments: &DiffArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let [left, right] = [settings.open(Some(&arguments.left))?, settings.open(Some(&arguments.right))?];
    let found = first_difference(&left, &right, true, settings)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", json!({ "first_difference": found.as_ref().map(Difference::json) }))?;
    } else {
        match &found {
            Some(difference) => {
                writeln!(out, "the first difference:")?;
                for line in difference.lines([&arguments.left, &arguments.right]) {
                    writeln!(out, "{line}")?;
                }
            }
            None => writeln!(out, "no difference")?,
        }
    }
    Ok(if found.is_some() { ExitCode::from(exit::NOT_CAUGHT) } else { ExitCode::SUCCESS })
}

/// Goes through both traces, process by process in the order of their making. Paths and arguments
/// of programs count where that is wanted.
pub fn first_difference(
    left: &TraceReader,
    right: &TraceReader,
    with_commands: bool,
    settings: &Settings,
) -> Result<Option<Difference>, CommandError> {
    let orders = [left, right].map(|trace| in_tree_order(trace.lanes()));
    for place in 0..orders[0].len().max(orders[1].len()) {
        let lane = |trace: &'_ TraceReader, side: usize| {
            orders[side].get(place).map(|(position, _)| trace.lanes()[*position].clone())
        };
        let difference = match (lane(left, 0), lane(right, 1)) {
            (Some(a), Some(b)) => in_lane((left, &a), (right, &b), with_commands)?,
            (a, b) => {
                let whole = |info: Option<LaneInfo>| match info {
                    Some(info) => Side {
                        pid: info.pid,
                        event: 0,
                        text: "a process more".to_owned(),
                        frames: Vec::new(),
                    },
                    None => Side { pid: 0, event: 0, text: String::new(), frames: Vec::new() },
                };
                Some(Difference { sides: [whole(a), whole(b)] })
            }
        };
        if let Some(mut difference) = difference {
            for (side, trace) in difference.sides.iter_mut().zip([left, right]) {
                add_frames(side, trace, settings);
            }
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// Stacks are an extra: where there is none to be had, the difference is told all the same.
fn add_frames(side: &mut Side, trace: &TraceReader, settings: &Settings) {
    if side.event > 0
        && let Ok(mut past) = Past::open(trace, side.pid, settings)
        && let Ok(frames) = past.at_event(side.event + 1)
    {
        side.frames = frames.iter().take(FRAMES_SHOWN).map(frame_text).collect();
    }
}

fn in_lane(
    (left, left_info): (&TraceReader, &LaneInfo),
    (right, right_info): (&TraceReader, &LaneInfo),
    with_commands: bool,
) -> Result<Option<Difference>, CommandError> {
    let mut sides =
        [Reading::new(left, left_info, with_commands)?, Reading::new(right, right_info, with_commands)?];
    loop {
        let [a, b] = &mut sides;
        let (one, other) = (a.next()?, b.next()?);
        if one == other {
            if one.is_none() {
                return Ok(None);
            }
            continue;
        }
        let side = |reading: &Reading<'_>, compared: Option<String>| Side {
            pid: reading.info.pid,
            event: reading.whole.index,
            text: compared.map(|_| reading.shown.clone()).unwrap_or_default(),
            frames: Vec::new(),
        };
        return Ok(Some(Difference { sides: [side(a, one), side(b, other)] }));
    }
}

/// A lane that is read for comparison.
struct Reading<'t> {
    events: LaneEvents,
    whole: WholeEvent,
    showing: Showing<'t>,
    info: &'t LaneInfo,
    shown: String,
    /// Paths and arguments of programs count.
    with_commands: bool,
}

impl<'t> Reading<'t> {
    fn new(
        trace: &'t TraceReader,
        info: &'t LaneInfo,
        with_commands: bool,
    ) -> Result<Reading<'t>, CommandError> {
        let events = LaneEvents::open(trace, info.lane)?;
        let showing = Showing::new(trace, STRING_BYTES);
        Ok(Reading {
            events,
            whole: WholeEvent::default(),
            showing,
            info,
            shown: String::new(),
            with_commands,
        })
    }

    /// What the next event that a program can see is compared by.
    fn next(&mut self) -> Result<Option<String>, CommandError> {
        while self.events.read(&mut self.whole)? {
            if is_seen(&self.whole) {
                self.shown = wording::printable(line_of(&self.whole, &self.showing).as_bytes());
                return Ok(Some(self.compared()));
            }
        }
        Ok(None)
    }
}

impl Reading<'_> {
    /// Its line without what is different every time: addresses, process ids, times, random numbers.
    fn compared(&self) -> String {
        if self.whole.kind == Kind::Birth && !self.with_commands {
            return "execve".to_owned();
        }
        let is_chance = match self.whole.kind {
            Kind::Syscall => CHANCE.contains(&u32::from(self.whole.code)),
            Kind::Instruction => true,
            _ => false,
        };
        if is_chance {
            return self.shown.split('(').next().unwrap_or_default().to_owned();
        }
        without_addresses(&self.shown)
    }
}

/// Calls whose results are the machine's: times, random numbers, ids of processes.
const CHANCE: [u32; 20] = [
    raw::__NR_clock_gettime,
    raw::__NR_gettimeofday,
    raw::__NR_time,
    raw::__NR_times,
    raw::__NR_getrandom,
    raw::__NR_getrusage,
    raw::__NR_getpid,
    raw::__NR_getppid,
    raw::__NR_gettid,
    raw::__NR_set_tid_address,
    raw::__NR_getpgrp,
    raw::__NR_getpgid,
    raw::__NR_sysinfo,
    raw::__NR_kill,
    raw::__NR_tkill,
    raw::__NR_tgkill,
    raw::__NR_wait4,
    raw::__NR_clone,
    raw::__NR_fork,
    raw::__NR_vfork,
];

fn is_seen(whole: &WholeEvent) -> bool {
    match whole.kind {
        Kind::Syscall | Kind::Signal | Kind::Fault | Kind::Exit | Kind::Birth => true,
        Kind::Instruction => whole
            .event()
            .instruction()
            .is_some_and(|body| !matches!(body.instruction, Instruction::Xsavec | Instruction::Spin)),
        Kind::Data
        | Kind::Trampoline
        | Kind::Checksum
        | Kind::Stop
        | Kind::Preemption
        | Kind::Token
        | Kind::Store
        | Kind::Change
        | Kind::Edit => false,
    }
}

/// The text without numbers that are addresses.
fn without_addresses(text: &str) -> String {
    /// Digits from which on a number in hexadecimal is an address.
    const DIGITS: usize = 5;
    let mut parts = text.split("0x");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        masked.push_str("0x");
        masked.push_str(if digits >= DIGITS { "..." } else { &part[..digits] });
        masked.push_str(&part[digits..]);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_count() {
        assert_eq!(
            without_addresses("mmap(NULL, 0x10, 0x7ffff7fc1000) = 0x55000"),
            "mmap(NULL, 0x10, 0x...) = 0x..."
        );
    }
}
