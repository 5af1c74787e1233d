//! The fewest switches between threads that must be forced for a recorded failure.
//!
//! Tries are recordings in which threads are switched only where they wait, and where a list says. First
//! nothing is forced, then one of the places at which the recording switched (or to which a function returns
//! in which it did), at its first executions, then two of them (Musuvathi and Qadeer, Iterative context
//! bounding, PLDI 2007): what is found first has the fewest, so without any of them the failure does not
//! come.
//!
//! Invariant: the trace that is kept was recorded by one of the tries. Deliberately absent: programs that
//! execute others, and places in libraries.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use injector::{ExitReport, Side, TryEnd, enter_sandbox};
use lane_protocol::{ForcedPlace, ForcedSwitch};
use nix::sys::personality::{self, Persona};
use replayer::Frame;
use serde_json::{Value, json};
use trace_store::{LaneEnd, TraceReader, traces};

use super::callers::with_callers;
use super::pasts::Pasts;
use super::switches::{Candidate, Made, Switches};
use super::{Interruption, MinimizeArguments, NOT_THE_SAME, say, usual_limit};
use crate::exit::CommandError;
use crate::failure::Failure;
use crate::recorded::{Recorded, World};
use crate::retry;
use crate::schedule;
use crate::settings::Settings;
use crate::stack_at::frame_text;

/// For the whole search.
const SEARCH_MAX: Duration = Duration::from_secs(60);
/// Executions of a place at which a switch is tried: all of the first ones.
const ORDINALS: u64 = 12;
/// Switches that are forced together, at most.
const TOGETHER_MAX: usize = 3;
/// Runs again of a schedule that failed; one of them may pass, as a busy machine has its own schedule.
const CONFIRMATIONS: usize = 3;
const PASSES_MAX: usize = 1;
/// Runs without a forced switch of which one is to pass.
const PASSING_TRIES: usize = 5;
/// What the process in the sandbox leaves for the one outside.
const FOUND: &str = "schedule.json";

/// What cannot be searched is said before any long work.
pub fn check_before(trace: &TraceReader, recorded: &Recorded) -> Result<(), CommandError> {
    let switches = Switches::of(trace)?;
    let why = match recorded.end {
        LaneEnd::Exited(0) => "the recorded program did not fail (exit code 0)",
        LaneEnd::Unknown | LaneEnd::Stopped(_) => "the recording does not say how the program ended",
        _ if switches.images != 1 => {
            "it executed another program: --schedule is for one program's threads and processes"
        }
        _ if switches.count == 0 => "it never switched between threads: there is no schedule to minimise",
        _ => return Ok(()),
    };
    Err(CommandError::Usage(why.to_owned()))
}

/// Searches in the sandbox, and reports outside of it.
pub fn run(
    arguments: &MinimizeArguments,
    settings: &Settings,
    trace: &TraceReader,
    recorded: &Recorded,
    output: &Path,
) -> Result<ExitCode, CommandError> {
    let home = settings.home_to_write()?;
    let wanted = recorded_failure(trace, recorded, &home)?;
    let switches = Switches::of(trace)?;
    // The last switches before the failure are the likeliest, and come first.
    let places = with_callers(trace, &switches, settings)?;
    for name in ["failing", "passing"] {
        let _ = traces::discard(&output.join(name));
    }
    let world =
        World::of(trace, recorded, vec![output.to_owned(), home.clone()], settings.home().ok().as_deref());
    match enter_sandbox(&world.plan).map_err(|error| CommandError::Sandbox(error.to_string()))? {
        Side::Outside(ExitReport::Exited(0)) => report(arguments, settings, output),
        Side::Outside(ExitReport::Exited(code)) => Ok(ExitCode::from(code as u8)),
        Side::Outside(ExitReport::Killed(signal)) => Ok(ExitCode::from(128u8.wrapping_add(signal as u8))),
        Side::Inside => {
            let failed = |source| CommandError::Try { doing: "listen to signals", source };
            let interruption = Interruption::begin().map_err(failed)?;
            // Addresses are the same in each try.
            if let Ok(before) = personality::get() {
                let _ = personality::set(before | Persona::ADDR_NO_RANDOMIZE);
            }
            let limit = arguments.timeout.unwrap_or_else(|| usual_limit(trace));
            let mut search = Search {
                recorded,
                home,
                output: output.to_owned(),
                wanted,
                limit,
                interruption,
                begun: Instant::now(),
                tries: 0,
            };
            search.run(&switches, &places, settings)
        }
    }
}

/// How the recording failed, with what it said, which its replay says again.
fn recorded_failure(trace: &TraceReader, recorded: &Recorded, home: &Path) -> Result<Failure, CommandError> {
    let failed = |source| CommandError::Try { doing: "replay the recording", source };
    let mut replay = std::process::Command::new("/proc/self/exe");
    replay.args(["--quiet", "replay", "--home"]).arg(home).arg(trace.dir());
    let output = replay.stdin(Stdio::null()).output().map_err(failed)?;
    let end = match recorded.end {
        LaneEnd::Killed(signal) => ExitReport::Killed(signal),
        LaneEnd::Exited(code) => ExitReport::Exited(code),
        LaneEnd::Unknown | LaneEnd::Stopped(_) => ExitReport::Exited(0),
    };
    Ok(Failure::new(TryEnd::Ended(end), None, &output.stderr))
}

/// How a run of the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    AsRecorded,
    Otherwise,
    /// It was not over in time.
    TooLate,
}

struct Search<'a> {
    recorded: &'a Recorded,
    home: PathBuf,
    output: PathBuf,
    wanted: Failure,
    limit: Duration,
    interruption: Interruption,
    begun: Instant,
    tries: u64,
}

impl Search<'_> {
    fn run(
        &mut self,
        recorded: &Switches,
        places: &[Candidate],
        settings: &Settings,
    ) -> Result<ExitCode, CommandError> {
        let passing = self.output.join("passing");
        let mut found = self.confirmed(&[])?.map(|confirmed| (Vec::new(), confirmed));
        if found.is_none() {
            self.record_passing(&passing)?;
            let entry = Switches::of(&TraceReader::open(&passing)?)?.entry;
            found = self.search(&recorded.moved_to(entry, places))?;
        }
        let Some((switches, confirmed)) = found else {
            say(
                settings,
                &format!(
                    "the failure did not come in {} tries with up to {TOGETHER_MAX} of the recorded switches forced",
                    self.tries
                ),
            );
            return Ok(ExitCode::from(NOT_THE_SAME));
        };
        let facts = json!({
            "recorded_switches": recorded.count,
            "tries": self.tries,
            "seconds": self.begun.elapsed().as_secs_f64(),
            "forced": schedule::text(&switches),
            "failed_again": confirmed,
            "runs_again": CONFIRMATIONS,
            "failing": self.output.join("failing"),
            // There is none where it fails without a forced switch.
            "passing": (!switches.is_empty()).then_some(passing),
        });
        let path = self.output.join(FOUND);
        std::fs::write(&path, facts.to_string()).map_err(|source| CommandError::Write { path, source })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Keeps a run in which nothing is forced, and which ended well: it passed once at least.
    fn record_passing(&mut self, passing: &Path) -> Result<(), CommandError> {
        for _ in 0..PASSING_TRIES {
            if self.run_with(&[], passing)? == Ended::Otherwise {
                return Ok(());
            }
            traces::discard(passing)?;
        }
        Err(CommandError::Usage(format!(
            "in {PASSING_TRIES} runs without a forced switch it failed, or was not over within {:.0} s (--timeout)",
            self.limit.as_secs_f64()
        )))
    }

    /// The fewest switches with which it fails again and again, and how often of some runs it did.
    fn search(
        &mut self,
        candidates: &[Candidate],
    ) -> Result<Option<(Vec<ForcedSwitch>, usize)>, CommandError> {
        let mut switches = Vec::new();
        for ordinal in 1..=ORDINALS {
            let is_new = |place: &&Candidate| ordinal == 1 || place.call == 0;
            switches.extend(candidates.iter().filter(is_new).map(|place| place.at(ordinal)));
        }
        for together in 1..=TOGETHER_MAX.min(switches.len()) {
            let mut places: Vec<usize> = (0..together).collect();
            loop {
                if self.begun.elapsed() > SEARCH_MAX {
                    return Ok(None);
                }
                let chosen: Vec<ForcedSwitch> = places.iter().map(|&index| switches[index]).collect();
                if let Some(confirmed) = self.confirmed(&chosen)? {
                    return Ok(Some((chosen, confirmed)));
                }
                if !advance(&mut places, switches.len()) {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// How often it fails again, if it fails now, and not by luck: the trace of now is kept then.
    fn confirmed(&mut self, switches: &[ForcedSwitch]) -> Result<Option<usize>, CommandError> {
        let (dir, failing) = (self.output.join("try"), self.output.join("failing"));
        if !self.fails(switches, &failing)? {
            traces::discard(&failing)?;
            return Ok(None);
        }
        let mut passes = 0;
        for _ in 0..CONFIRMATIONS {
            passes += usize::from(!self.fails(switches, &dir)?);
            traces::discard(&dir)?;
            if passes > PASSES_MAX {
                traces::discard(&failing)?;
                return Ok(None);
            }
        }
        Ok(Some(CONFIRMATIONS - passes))
    }

    /// Records a run with these switches forced: true if it fails as the recording did.
    fn fails(&mut self, switches: &[ForcedSwitch], dir: &Path) -> Result<bool, CommandError> {
        Ok(self.run_with(switches, dir)? == Ended::AsRecorded)
    }

    /// The same: how it ended.
    fn run_with(&mut self, switches: &[ForcedSwitch], dir: &Path) -> Result<Ended, CommandError> {
        let failed = |source| CommandError::Try { doing: "record a schedule", source };
        self.interruption.check().map_err(|error| CommandError::Usage(error.to_string()))?;
        self.tries += 1;
        let [list, said] = ["forced", "said"].map(|name| self.output.join(name));
        std::fs::write(&list, schedule::text(switches)).map_err(failed)?;
        let errors = File::create(&said).map_err(failed)?;
        let program = &self.recorded.program;
        let list = list.to_string_lossy().into_owned();
        let options = ["--volatile", "--schedule", &list];
        let mut recorder = retry::recorder(program, &self.home, dir, &options);
        recorder.stdout(Stdio::null()).stderr(errors);
        let mut child = retry::start(&mut recorder, program).map_err(failed)?;
        let until = Instant::now() + self.limit;
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break Some(status),
                None if Instant::now() > until => {
                    // The program ends with its recorder.
                    child.kill().map_err(failed)?;
                    child.wait().map_err(failed)?;
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let Some(end) = status.and_then(end_of) else { return Ok(Ended::TooLate) };
        let text = std::fs::read(&said).map_err(failed)?;
        let is_it = Failure::new(TryEnd::Ended(end), None, &text) == self.wanted;
        Ok(if is_it { Ended::AsRecorded } else { Ended::Otherwise })
    }
}

fn end_of(status: ExitStatus) -> Option<ExitReport> {
    status.code().map(ExitReport::Exited).or(status.signal().map(ExitReport::Killed))
}

/// The next choice of places; false if that was the last. All of the first ones come before any with a
/// later one: the likeliest are the first.
fn advance(places: &mut [usize], count: usize) -> bool {
    let limit = |at: usize, places: &[usize]| places.get(at + 1).copied().unwrap_or(count);
    let Some(at) = (0..places.len()).find(|&at| places[at] + 1 < limit(at, places)) else { return false };
    places[at] += 1;
    for (index, place) in places[..at].iter_mut().enumerate() {
        *place = index;
    }
    true
}

/// Says what was found, with the stacks of both threads at each switch.
fn report(
    arguments: &MinimizeArguments,
    settings: &Settings,
    output: &Path,
) -> Result<ExitCode, CommandError> {
    let path = output.join(FOUND);
    let text = std::fs::read(&path).map_err(|source| CommandError::Read { path: path.clone(), source })?;
    let mut facts: Value =
        serde_json::from_slice(&text).map_err(|error| CommandError::Usage(format!("{FOUND}: {error}")))?;
    let switches = schedule::parse_all(facts["forced"].as_str().unwrap_or("")).unwrap_or_default();
    let forced = switches.len();
    let failing = TraceReader::open(&output.join("failing"))?;
    let stacks = stacks(&failing, &switches, settings)?;
    facts["schedule_switches"] = json!(forced);
    facts["switches"] = json!(
        stacks
            .iter()
            .map(|Stacks { who, stopped, next }| {
                json!({ "process": who.0, "thread": who.1, "stopped": stopped, "next": next })
            })
            .collect::<Vec<_>>()
    );
    for name in ["forced", "said"] {
        let _ = std::fs::remove_file(output.join(name));
    }
    let path = output.join("minimize.json");
    std::fs::write(&path, facts.to_string()).map_err(|source| CommandError::Write { path, source })?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{facts}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_alone = failing.lanes().len() == 1;
    for (number, Stacks { who: (process, thread), stopped, next }) in stacks.iter().enumerate() {
        let of = if is_alone { String::new() } else { format!(" of process {process}") };
        writeln!(out, "switch {}: thread {thread}{of} is stopped:", number + 1)?;
        stopped.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        if !next.is_empty() {
            writeln!(out, "  and another one goes on, which stands at:")?;
        }
        next.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    writeln!(out, "it fails: retrovane replay {}", output.join("failing").display())?;
    if forced != 0 {
        writeln!(
            out,
            "without a forced switch it passes: retrovane replay {}",
            output.join("passing").display()
        )?;
    }
    writeln!(
        out,
        "{} switches before, {forced} forced ones after, {} tries, {:.2} s",
        facts["recorded_switches"],
        facts["tries"],
        facts["seconds"].as_f64().unwrap_or(0.0)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The stacks of who was stopped and who went on.
struct Stacks {
    /// Process, and its thread as `dump` counts.
    who: (i32, u32),
    stopped: Vec<String>,
    next: Vec<String>,
}

/// The stacks at each forced switch of the trace.
fn stacks(
    trace: &TraceReader,
    forced: &[ForcedSwitch],
    settings: &Settings,
) -> Result<Vec<Stacks>, CommandError> {
    let mut pasts = Pasts::new(trace, settings);
    let lines = |frames: Vec<Frame>| frames.iter().map(frame_text).collect::<Vec<String>>();
    let all = Switches::of(trace)?.all;
    let is_forced = |place: &Candidate| {
        let is_it = |switch: &ForcedSwitch| {
            let is_call = switch.place == ForcedPlace::Call as u32;
            (place.lane, place.thread, place.address) == (switch.lane, switch.thread, switch.address)
                && (!is_call || place.call == switch.ordinal)
        };
        forced.iter().any(is_it)
    };
    let made = all.iter().filter(|made| is_forced(&made.place));
    let process = |lane| trace.lanes().iter().find(|info| info.lane == lane).map_or(0, |info| info.pid);
    let both = |made: &Made| {
        let who = (process(made.place.lane), made.place.thread + 1);
        let stopped = lines(made.place.stack(pasts.of(made.place.lane)?, made.stopped)?);
        let next = match made.next {
            Some((lane, events)) => lines(pasts.of(lane)?.at_event(events)?),
            None => Vec::new(),
        };
        Ok(Stacks { who, stopped, next })
    };
    made.map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_made_once() {
        let mut places = vec![0, 1];
        let mut all = vec![places.clone()];
        while advance(&mut places, 4) {
            all.push(places.clone());
        }
        assert_eq!(all, [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]);
    }
}
