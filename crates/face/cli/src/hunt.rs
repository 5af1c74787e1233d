//! `retrovane hunt`.

mod attempt;
mod input;
mod reach;
mod told;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use recorder::PreparedMemory;
use serde_json::json;
use trace_store::{LaneEnd, StoreError, TraceReader, traces};

use crate::exit::{self, CommandError};
use crate::progress;
use crate::seeds;
use crate::settings::Settings;
use crate::wording;
use attempt::{Try, TryEnd};
use input::Input;
use watch::{Limited, Waited, Watch};

const EXAMPLES: &str = "\
Examples:
  retrovane hunt -- ./flaky-test
  retrovane hunt --tries 1000 --timeout 30s -- ./flaky-test --gtest_filter=Queue.*
  retrovane hunt --until '[ \"$RETROVANE_SIGNAL\" = 11 ]' -- ./server --selftest
  retrovane hunt --until 'retrovane dump \"$RETROVANE_TRACE\" | grep -q ECONNRESET' -- ./client

Records the program with --chaos, each time with another seed, until it fails: it
ends with another code than 0, a signal kills it, or it runs for longer than
--timeout. The trace of that try is kept, and those of the others are removed.
The seed also draws how a try looks: threads are preempted at places in the code,
at calls or some steps behind them, by time, rarely or often.

The test of --until is a shell's. It finds in its environment RETROVANE_EXIT_CODE
(128+N if signal N killed the program), RETROVANE_SIGNAL (the number of that
signal, else empty) and RETROVANE_TRACE (the directory of the trace). What the
program ends with is then the test's affair alone.

Standard input is empty, unless it is a file: each try reads that from where it
stands. What the program wrote is shown of the try that failed.

Ends with 0 if a failure was caught, with 1 if no try failed.";

const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;
/// Between two messages of how far the hunt is, where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Record a program again and again, until it fails
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct HuntArguments {
    /// Most tries
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    tries: u64,
    /// Tries at once [default: 1, or one for each processor if the first try shows that the program
    /// neither writes to files nor waits at addresses]
    #[arg(short, long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Shell test that ends the hunt, instead of a failure, when it succeeds
    #[arg(long, value_name = "TEST")]
    until: Option<OsString>,
    /// Kill a try that runs for longer (30s, 500ms, 2m): it has failed
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// The number that the seeds of all tries come from [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Directory of the trace that is kept [default: NAME-N in RETROVANE_HOME]
    #[arg(short, long, visible_alias = "keep", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Show at once what the program writes, in every try
    #[arg(long)]
    show: bool,
    /// One JSON object on standard output; what the program wrote goes to standard error
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A number of tries on the command line.
fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=1024) => Ok(jobs),
        Ok(_) | Err(_) => Err("a number from 1 to 1024 is wanted".to_owned()),
    }
}

/// How many tries may run at once, by what the first one did.
fn jobs_beside(first: &Try) -> usize {
    let trace = TraceReader::open(&first.dir).ok();
    let alone = trace.is_none_or(|trace| !reach::keeps_to_itself(&trace).unwrap_or(false));
    if alone { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// A length of time on the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("{unit} is no unit of time: ms, s, m and h are")),
    };
    let number: f64 = digits.parse().map_err(|_| "a number and a unit are wanted, like 30s".to_owned())?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) | Err(_) => Err("a length of time is more than nothing".to_owned()),
    }
}

/// Hunts.
pub fn run(arguments: &HuntArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let mut hunt = Hunt::new(arguments, settings)?;
    let result = hunt.run();
    hunt.bar.finish_and_clear();
    hunt.prune();
    match result? {
        Outcome::Caught { number, seed, failure, dir } => hunt.tell_caught(number, seed, failure, &dir)?,
        Outcome::Nothing => {
            if arguments.json {
                let nothing = json!({"caught": false, "tries": arguments.tries, "hunt_seed": hunt.seed});
                writeln!(std::io::stdout(), "{nothing}")?;
            }
            hunt.say(&format!(
                "none of {} tries failed; the same seeds again: --seed {}",
                wording::count(arguments.tries),
                hunt.seed
            ));
            return Ok(ExitCode::from(exit::NOT_CAUGHT));
        }
        Outcome::Refused(code) => return Ok(ExitCode::from(code)),
        Outcome::Interrupted { number, signal } => {
            let before = wording::count(number - 1);
            hunt.say(&format!(
                "interrupted in try {}; {before} before it did not fail",
                wording::count(number)
            ));
            injector::die_by_signal(signal);
            return Ok(ExitCode::from(128u8.wrapping_add(signal as u8)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A hunt that goes on.
struct Hunt<'a> {
    arguments: &'a HuntArguments,
    settings: &'a Settings,
    home: PathBuf,
    /// Where all tries go, if that was said.
    output: Option<PathBuf>,
    seed: u64,
    input: Input,
    watch: Watch,
    is_pruned: bool,
    /// Memory for tries that are to come.
    prepared: Vec<Arc<PreparedMemory>>,
    bar: ProgressBar,
    told: Instant,
    noted: bool,
}

/// What a hunt ends with.
enum Outcome {
    Caught { number: u64, seed: u64, failure: Failure, dir: PathBuf },
    Nothing,
    Refused(u8),
    Interrupted { number: u64, signal: i32 },
}

/// What was hunted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Exited(i32),
    Killed(i32),
    Hung(Duration),
    /// The test of `--until` succeeded.
    Test,
}

/// What one try leads to.
enum Verdict {
    Good,
    Failed(Failure),
    Refused(u8),
    /// The recorder failed in the middle.
    Broken,
    Interrupted(i32),
}

impl<'a> Hunt<'a> {
    fn new(arguments: &'a HuntArguments, settings: &'a Settings) -> Result<Hunt<'a>, CommandError> {
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).map_err(|source| CommandError::Read { path: path.clone(), source })
        };
        let output = arguments.output.clone().map(absolute).transpose()?;
        // Whatever is there would be taken for the first try's trace.
        if let Some(dir) = &output
            && std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
        {
            return Err(StoreError::NotEmpty { path: dir.clone() }.into());
        }
        let failed = |source| CommandError::Try { doing: "read standard input", source };
        let input = Input::of_hunt(settings.quiet).map_err(failed)?;
        let watch = Watch::begin().map_err(|source| CommandError::Try { doing: "watch tries", source })?;
        let bar = if arguments.show {
            ProgressBar::hidden()
        } else {
            progress::tries(settings, "hunting", arguments.tries)
        };
        Ok(Hunt {
            arguments,
            settings,
            home: absolute(settings.home_to_write()?)?,
            output,
            seed: arguments.seed.unwrap_or_else(seeds::random),
            input,
            watch,
            is_pruned: false,
            prepared: Vec::new(),
            bar,
            told: Instant::now(),
            noted: false,
        })
    }

    fn run(&mut self) -> Result<Outcome, CommandError> {
        let mut running = Vec::new();
        let outcome = self.run_tries(&mut running);
        // Those that still run are of no use to anybody.
        let ended = self.watch.kill_all();
        running.iter().for_each(|attempt: &Try| self.forget(&attempt.dir));
        ended.map_err(|source| CommandError::Try { doing: "end the other tries", source })?;
        outcome
    }

    fn run_tries(&mut self, running: &mut Vec<Try>) -> Result<Outcome, CommandError> {
        let failed = |source| CommandError::Try { doing: "wait for a try", source };
        let (mut started, mut done) = (0, 0);
        // The first one says whether others may run beside it.
        let mut jobs = if self.arguments.show { 1 } else { self.arguments.jobs.unwrap_or(1) };
        loop {
            while running.len() < jobs && started < self.arguments.tries {
                started += 1;
                running.push(self.start(started)?);
            }
            if running.is_empty() {
                return Ok(Outcome::Nothing);
            }
            let mut recorders: Vec<&mut Limited> =
                running.iter_mut().map(|attempt| &mut attempt.recorder).collect();
            let (index, waited) = self.watch.wait_for_any(&mut recorders).map_err(failed)?;
            let mut attempt = running.swap_remove(index);
            let verdict = self.judge(&mut attempt, waited).inspect_err(|_| self.forget(&attempt.dir))?;
            let is_first = started == 1 && self.arguments.jobs.is_none() && !self.arguments.show;
            if is_first && matches!(verdict, Verdict::Good) {
                jobs = jobs_beside(&attempt);
            }
            let is_last = started == self.arguments.tries && running.is_empty();
            if let Some(outcome) = self.conclude(attempt, verdict, is_last)? {
                return Ok(outcome);
            }
            done += 1;
            self.tell_progress(done);
        }
    }

    fn start(&mut self, number: u64) -> Result<Try, CommandError> {
        let seed = seeds::of_try(self.seed, number);
        let dir = self.new_dir(number)?;
        // Without it a try makes memory of its own, or says why it cannot.
        let prepared = self.prepared.pop().or_else(|| PreparedMemory::new().ok().map(Arc::new));
        Try::start(self.arguments, &self.watch, &self.input, (number, seed), &self.home, &dir, prepared)
            .inspect_err(|_| self.forget(&dir))
    }

    /// Frees what the tries kept of files, once, but for what the last one has: the next hunt of the program is
    /// likely to need it, and to copy and analyse it takes as long as ten short tries.
    fn prune(&mut self) {
        // While somebody records, all stay until the next `rm`.
        self.is_pruned = self.is_pruned || traces::prune(&self.home).is_ok();
    }

    /// The memory of a try that has left no process is for the next one.
    fn take_back(&mut self, prepared: Option<Arc<PreparedMemory>>) {
        self.prepared.extend(prepared.filter(|prepared| prepared.empty().is_ok()));
    }

    /// What a try leads to, if the hunt does not go on.
    fn conclude(
        &mut self,
        mut attempt: Try,
        verdict: Verdict,
        is_last: bool,
    ) -> Result<Option<Outcome>, CommandError> {
        let dir = attempt.dir.clone();
        match verdict {
            Verdict::Good => {
                if is_last {
                    self.prune();
                }
                traces::discard(&dir)?;
                return Ok(None);
            }
            Verdict::Interrupted(signal) => {
                self.prune();
                self.forget(&dir);
                return Ok(Some(Outcome::Interrupted { number: attempt.number, signal }));
            }
            Verdict::Refused(_) => self.forget(&dir),
            Verdict::Failed(_) | Verdict::Broken => {}
        }
        self.bar.finish_and_clear();
        attempt.show_output(self.arguments.json)?;
        match verdict {
            Verdict::Failed(failure) => {
                let dir = self.keep(dir)?;
                Ok(Some(Outcome::Caught { number: attempt.number, seed: attempt.seed, failure, dir }))
            }
            Verdict::Refused(code) => Ok(Some(Outcome::Refused(code))),
            Verdict::Broken => {
                let why = format!("its recorder ended before the trace {} was whole", dir.display());
                let source = std::io::Error::other(why);
                Err(CommandError::Try { doing: "record a try", source })
            }
            Verdict::Good | Verdict::Interrupted(_) => Ok(None),
        }
    }

    /// Where a try goes: beside the directory that was named, as several may run.
    fn new_dir(&self, number: u64) -> Result<PathBuf, CommandError> {
        match &self.output {
            Some(dir) => {
                let mut name = dir.as_os_str().to_owned();
                name.push(format!(".try-{number}"));
                // A hunt that was killed may have left its own.
                while Path::new(&name).exists() {
                    name.push("-again");
                }
                Ok(name.into())
            }
            None => Ok(traces::new_dir(&self.home, &self.arguments.command[0].to_string_lossy())?),
        }
    }

    /// The trace of the try that failed gets the name that was asked for.
    fn keep(&self, dir: PathBuf) -> Result<PathBuf, CommandError> {
        let Some(output) = &self.output else { return Ok(dir) };
        // An empty directory is replaced.
        match std::fs::rename(&dir, output) {
            Ok(()) => Ok(output.clone()),
            Err(source) => {
                Err(CommandError::Try { doing: "rename the trace of the try that failed", source })
            }
        }
    }

    /// Removes what a try left that did not come to its end.
    fn forget(&self, dir: &Path) {
        // No trace: then the empty directory.
        if traces::discard(dir).is_err() {
            let _ = std::fs::remove_dir(dir);
        }
    }

    /// What a try leads to that was waited for.
    fn judge(&mut self, attempt: &mut Try, waited: Waited) -> Result<Verdict, CommandError> {
        let failed = |source| CommandError::Try { doing: "wait for a try", source };
        let (status, hung) = match waited {
            Waited::Ended(status) => (status, None),
            Waited::Expired => {
                (self.watch.kill(attempt.recorder.pid).map_err(failed)?, self.arguments.timeout)
            }
            Waited::Interrupted(signal) => {
                self.watch.interrupt(&mut attempt.recorder, signal).map_err(failed)?;
                return Ok(Verdict::Interrupted(signal));
            }
        };
        let (end, notes) = match attempt.end(status) {
            TryEnd::Recorded { end, notes, has_left_nobody } => {
                if has_left_nobody {
                    self.take_back(attempt.prepared.take());
                }
                (end, notes)
            }
            TryEnd::Refused(code) => return Ok(Verdict::Refused(code)),
            TryEnd::Broken => return Ok(Verdict::Broken),
        };
        self.tell_notes(&notes);
        if let Some(limit) = hung {
            return Ok(Verdict::Failed(Failure::Hung(limit)));
        }
        if self.arguments.until.is_some() {
            return self.test(attempt, end);
        }
        Ok(match end {
            LaneEnd::Exited(0) => Verdict::Good,
            LaneEnd::Exited(code) => Verdict::Failed(Failure::Exited(code)),
            LaneEnd::Killed(signal) => Verdict::Failed(Failure::Killed(signal)),
            // No summary says so.
            LaneEnd::Unknown | LaneEnd::Stopped(_) => Verdict::Good,
        })
    }

    /// Asks the test of `--until`.
    fn test(&self, attempt: &Try, end: LaneEnd) -> Result<Verdict, CommandError> {
        let failed = |source| CommandError::Try { doing: "run the test of --until", source };
        let (code, signal) = match end {
            LaneEnd::Exited(code) => (code, String::new()),
            LaneEnd::Killed(signal) => (128 + signal, signal.to_string()),
            LaneEnd::Unknown | LaneEnd::Stopped(_) => (0, String::new()),
        };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(self.arguments.until.as_deref().unwrap_or_default());
        shell.env("RETROVANE_EXIT_CODE", code.to_string()).env("RETROVANE_SIGNAL", signal);
        shell.env("RETROVANE_TRACE", &attempt.dir).stdin(Stdio::null());
        let pid = self.watch.start(&mut shell).map_err(failed)?;
        let mut shell = Limited { pid, left: None };
        match self.watch.wait(&mut shell).map_err(failed)? {
            Waited::Ended(status) => verdict_of_test(status),
            Waited::Interrupted(signal) => {
                injector::kill_process(shell.pid, SIGKILL);
                Ok(Verdict::Interrupted(signal))
            }
            Waited::Expired => unreachable!("the test has no limit of time"),
        }
    }

    /// Says something, above the bar.
    fn say(&self, text: &str) {
        if !self.settings.quiet {
            self.bar.suspend(|| diagnostics::tell!("retrovane: {text}"));
        }
    }

    fn tell_progress(&mut self, done: u64) {
        progress::show(&self.bar, done, self.arguments.tries);
        if self.bar.is_hidden() && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let (done, tries) = (wording::count(done), wording::count(self.arguments.tries));
            self.say(&format!("{done} of {tries} tries, none failed"));
        }
    }

    /// Says once what is missing in the traces of this program.
    fn tell_notes(&mut self, notes: &[String]) {
        if !self.noted {
            for note in notes {
                self.noted = true;
                self.say(&format!("not all of a try was recorded: {}", wording::printable(note.as_bytes())));
            }
        }
    }
}

fn verdict_of_test(status: ExitStatus) -> Result<Verdict, CommandError> {
    match status.code() {
        Some(0) => Ok(Verdict::Failed(Failure::Test)),
        // It would never succeed.
        Some(code @ (126 | 127)) => {
            Err(CommandError::Usage(format!("the shell cannot run the test of --until: exit code {code}")))
        }
        Some(_) | None => Ok(Verdict::Good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_units() {
        let read =
            ["500ms", "30", "1.5s", "2m", "1h"].map(|text| duration(text).map(|read| read.as_millis()));
        assert_eq!(read, [Ok(500), Ok(30_000), Ok(1500), Ok(120_000), Ok(3_600_000)]);
        for wrong in ["", "s", "0", "-1s", "10x", "1e400s", "naN", "inf", "ä"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
