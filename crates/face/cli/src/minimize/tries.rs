//! Tries of a changed input, and whether each fails as the recording did.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use injector::{
    ExitReport, Readiness, TryEnd, TryError, TryInput, TryLimits, TryProgram, TryServer, Written, run_whole,
};
use reducer::{Oracle, Pass};

use super::Interruption;
use super::crew::{Crew, Now};
use super::orders::Verdict;
use super::undo::Undo;
use crate::failure::{CrashReader, Failure};

/// Time of tries, or of a whole run, behind which it takes less time to start a crew than to go on alone.
pub const WORTH_HELP: Duration = Duration::from_millis(15);

/// Why a search ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Try(#[from] TryError),
    #[error("cannot run the test of --until: {0}")]
    Test(std::io::Error),
    #[error("cannot undo what a run wrote in the sandbox: {0}")]
    Undo(std::io::Error),
    /// What was taken for the same crash is another one; see [`Trust`].
    #[error("another crash was taken for the same")]
    Slipped,
}

/// A crash with the wanted signal is taken for the same one without a look at its stack: that takes longer than many
/// tries. The 1st, 2nd, 4th, 8th, ... of them is looked at; where one is another crash the search goes on
/// from the last that was looked at, and looks at all.
pub struct Trust {
    /// That was looked at last.
    pub seen: Vec<u8>,
    since: u64,
    until: u64,
}

impl Trust {
    /// From this one on.
    pub fn of(seen: Vec<u8>) -> Trust {
        Trust { seen, since: 0, until: 0 }
    }
}

/// What counts as the failure.
#[derive(Clone)]
pub enum Wanted {
    /// This one.
    Same(Failure),
    /// Whatever this shell test succeeds for.
    Test(std::ffi::OsString),
}

impl Wanted {
    /// What two searches for the same say.
    pub fn text(&self) -> String {
        match self {
            Wanted::Same(failure) => failure.text(),
            Wanted::Test(_) => "what the test says".to_owned(),
        }
    }
}

/// Makes the program with another content of its input.
pub type Changing = dyn FnMut(&[u8]) -> Result<TryProgram, TryError>;
/// Hears of everything smaller that is found, and of the tests so far.
pub type Noting<'a> = dyn FnMut(&[u8], u64) + 'a;

/// A way to run the program with another input.
pub enum Runner {
    /// Copies of a process that stands before the input.
    Copies(Box<Copies>),
    /// From the beginning each time.
    Whole(Box<Changing>),
}

/// Copies, and what belongs to them.
pub struct Copies {
    pub server: TryServer,
    /// The files that its tries begin with.
    beginning: Written,
    /// A try has written to others than its input: what it wrote is undone before the next one.
    writes: bool,
}

impl Copies {
    /// Undoes what the last tries wrote. True if that was something, of which later ones may have seen what earlier ones
    /// wrote.
    fn undo(&mut self, undo: &Undo, tries: usize) -> Result<bool, Ended> {
        let is_first = !self.writes && tries > 1;
        self.writes |= undo.to(&self.beginning)?;
        Ok(is_first && self.writes)
    }
}

/// An oracle for the search.
pub struct Tries<'a> {
    pub runner: Runner,
    pub wanted: Wanted,
    pub limits: TryLimits,
    pub crashes: CrashReader,
    pub interruption: &'a Interruption,
    pub undo: &'a Undo,
    /// `None`: each crash is looked at.
    pub trust: Option<Trust>,
    /// Who tries at the same time, where anybody does.
    pub crew: Option<&'a Crew>,
    /// Tries that were made beside those that count.
    pub in_vain: u64,
    /// Time of tries that each were a process.
    pub spent: Duration,
    pub note: Box<Noting<'a>>,
}

/// Runs a program from its beginning, and says how it failed.
pub fn observe_whole(
    program: &TryProgram,
    limits: &TryLimits,
    crashes: &mut CrashReader,
    undo: &Undo,
) -> Result<(Failure, Vec<u8>, Vec<u8>), Ended> {
    undo.all()?;
    let (end, out, errors) = run_whole(program, limits, &mut |stopping| crashes.note(stopping))?;
    Ok((Failure::new(end, crashes.take(), &errors), out, errors))
}

/// Makes a runner of copies, if the program can stand before this input.
pub fn copies(
    program: &TryProgram,
    input: &TryInput,
    readiness: Readiness,
    limits: &TryLimits,
    undo: &Undo,
) -> Result<Runner, Ended> {
    undo.all()?;
    let server = TryServer::start(program, input, readiness, limits)?;
    Ok(Runner::Copies(Box::new(Copies { server, beginning: undo.now()?, writes: false })))
}

impl<'a> Tries<'a> {
    /// How a run with this input fails.
    pub fn observe(&mut self, input: &[u8]) -> Result<(Failure, Vec<u8>, Vec<u8>), Ended> {
        let crashes = &mut self.crashes;
        Ok(match &mut self.runner {
            Runner::Copies(copies) => {
                let end = copies.server.observe(input, &mut |stopping| crashes.note(stopping))?;
                copies.undo(self.undo, 1)?;
                let (out, errors) = copies.server.outputs()?;
                (Failure::new(end, crashes.take(), &errors), out, errors)
            }
            Runner::Whole(program) => observe_whole(&program(input)?, &self.limits, crashes, self.undo)?,
        })
    }

    /// Begins with an input that fails as wanted. Copies of a process deep down do so in their own way: what it is then; false if it
    /// is no failure, or not always the same.
    pub fn begin_with(&mut self, content: &[u8]) -> Result<bool, Ended> {
        if let (Runner::Copies(_), Wanted::Same(_)) = (&self.runner, &self.wanted) {
            let own = self.observe(content)?.0;
            if !own.is_one() || self.observe(content)?.0 != own {
                return Ok(false);
            }
            // Of whole runs, and of messages, nothing is taken for granted.
            self.trust = own.crash.is_some().then(|| Trust::of(content.to_vec()));
            self.wanted = Wanted::Same(own);
        }
        Ok(true)
    }

    /// How many copies a second try this input; `None` where there are no copies.
    pub fn rate(&mut self, input: &[u8]) -> Result<Option<f64>, Ended> {
        const TRIES: usize = 1000;
        let Runner::Copies(copies) = &mut self.runner else { return Ok(None) };
        let begun = std::time::Instant::now();
        copies.server.run(&vec![input; TRIES], None)?;
        Ok(Some((TRIES as f64 / begun.elapsed().as_secs_f64()).round()))
    }

    /// True if this input fails as wanted.
    pub fn fails(&mut self, input: &[u8]) -> Result<bool, Ended> {
        self.interruption.check()?;
        let (failure, out, errors) = self.observe(input)?;
        match &self.wanted {
            Wanted::Same(wanted) => Ok(failure == *wanted),
            Wanted::Test(test) => succeeds(test, failure.end, input, &out, &errors),
        }
    }

    /// How a try of this input ends.
    pub fn verdict(&mut self, input: &[u8]) -> Result<Verdict, Ended> {
        let plain = |fails| if fails { Verdict::Fails } else { Verdict::Passes };
        if let (Wanted::Same(wanted), Runner::Copies(copies)) = (&self.wanted, &mut self.runner)
            && let TryEnd::Ended(end) = wanted.end
        {
            let ends = copies.server.run(&[input], Some(end))?;
            copies.undo(self.undo, 1)?;
            return Ok(match (ends.last(), wanted.crash.is_some()) {
                (Some(last), _) if *last != wanted.end => Verdict::Passes,
                (Some(last @ TryEnd::Ended(ExitReport::Exited(_))), false) => {
                    plain(Failure::new(*last, None, &copies.server.outputs()?.1) == *wanted)
                }
                _ => Verdict::Dies,
            });
        }
        self.fails(input).map(plain)
    }

    /// The crew, if some can help.
    fn ready(&self) -> Option<&'a Crew> {
        let stays = matches!(&self.runner, Runner::Copies(copies) if copies.server.has_copy_that_stays());
        self.crew.filter(|crew| !stays && crew.ready() > 0)
    }

    /// Many at the same time: the first of them that fails counts, and what was tried behind it does not.
    fn together(&mut self, crew: &Crew, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Ended> {
        let together = crew.begin(candidates.to_vec());
        let mut own = 0;
        let found = loop {
            if let Err(error) = self.interruption.check() {
                break Err(error);
            }
            match together.next() {
                Now::Try(at) => match self.verdict(&candidates[at]) {
                    Ok(verdict) => {
                        own += 1;
                        together.note(at, verdict);
                    }
                    Err(error) => break Err(error),
                },
                Now::Known(None) => break Ok(None),
                Now::Known(Some((at, Verdict::Dies))) => match self.is_same_crash(&candidates[at]) {
                    Ok(true) => break Ok(Some(at)),
                    Ok(false) => together.passes(at),
                    Err(error) => break Err(error),
                },
                Now::Known(Some((at, _))) => break Ok(Some(at)),
            }
        };
        let begun = together.end();
        let found = found?;
        tracing::debug!(candidates = candidates.len(), begun, own, ?found, "tried together");
        let tests = found.map_or(candidates.len(), |at| at + 1) as u64;
        self.in_vain += begun.saturating_sub(tests);
        Ok((found, tests))
    }

    /// Many at once, where ends alone sort most of them out.
    fn sift(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Ended> {
        let Wanted::Same(wanted) = self.wanted.clone() else { return self.one_by_one(candidates) };
        let TryEnd::Ended(end) = wanted.end else { return self.one_by_one(candidates) };
        let mut from = 0;
        loop {
            self.interruption.check()?;
            let Runner::Copies(copies) = &mut self.runner else { return self.one_by_one(candidates) };
            let until = if copies.writes { from + 1 } else { candidates.len() };
            let these: Vec<&[u8]> = candidates[from..until].iter().map(Vec::as_slice).collect();
            let ends = copies.server.run(&these, Some(end))?;
            if copies.undo(self.undo, ends.len())? {
                continue;
            }
            let Some(last) = ends.last().filter(|last| **last == TryEnd::Ended(end)) else {
                if until == candidates.len() {
                    return Ok((None, candidates.len() as u64));
                }
                from = until;
                continue;
            };
            let at = from + ends.len() - 1;
            // A message is there already; a stack needs another look.
            let is_same = match (last, wanted.crash.is_some()) {
                (TryEnd::Ended(ExitReport::Exited(_)), false) => {
                    Failure::new(*last, None, &copies.server.outputs()?.1) == wanted
                }
                _ => self.is_same_crash(&candidates[at])?,
            };
            if is_same {
                return Ok((Some(at), at as u64 + 1));
            }
            from = at + 1;
            if from == candidates.len() {
                return Ok((None, candidates.len() as u64));
            }
        }
    }

    fn is_same_crash(&mut self, input: &[u8]) -> Result<bool, Ended> {
        match &mut self.trust {
            Some(trust) if trust.since < trust.until => {
                trust.since += 1;
                Ok(true)
            }
            Some(_) => self.look(input),
            None => self.fails(input),
        }
    }

    /// Looks at a crash; if it is another one, others that were not looked at may be, too.
    fn look(&mut self, input: &[u8]) -> Result<bool, Ended> {
        let is_same = self.fails(input)?;
        if let Some(trust) = &mut self.trust {
            if !is_same && trust.since > 0 {
                return Err(Ended::Slipped);
            }
            if is_same {
                *trust = Trust { seen: input.to_vec(), since: 0, until: trust.until * 2 + 1 };
            }
        }
        Ok(is_same)
    }

    /// The end of a search by trust: an error if its result is another crash.
    pub fn confirm(&mut self, best: &[u8]) -> Result<(), Ended> {
        match &self.trust {
            Some(trust) if trust.since > 0 => self.look(best).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    fn one_by_one(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Ended> {
        for (at, candidate) in candidates.iter().enumerate() {
            if self.fails(candidate)? {
                return Ok((Some(at), at as u64 + 1));
            }
        }
        Ok((None, candidates.len() as u64))
    }
}

impl Oracle for Tries<'_> {
    type Error = Ended;

    fn first_failing(&mut self, candidates: &[Vec<u8>]) -> Result<(Option<usize>, u64), Ended> {
        if let Some(crew) = self.ready()
            && candidates.len() > 1
        {
            return self.together(crew, candidates);
        }
        let begun = Instant::now();
        let found = self.sift(candidates)?;
        let stays = matches!(&self.runner, Runner::Copies(copies) if copies.server.has_copy_that_stays());
        if let (Some(crew), false) = (self.crew, stays) {
            self.spent += begun.elapsed();
            if self.spent > WORTH_HELP {
                crew.start();
            }
        }
        Ok(found)
    }

    fn ahead(&self) -> usize {
        /// For each of those who try: none waits for the slowest one.
        const EACH: usize = 4;
        self.ready().map_or(1, |crew| EACH * (crew.ready() + 1))
    }

    fn found(&mut self, best: &[u8], tests: u64) -> Result<(), Ended> {
        (self.note)(best, tests);
        Ok(())
    }

    fn passed(&mut self, pass: &Pass) {
        if pass.tests > 0 {
            let Pass { name, bytes_before, bytes_after, tests, hits } = *pass;
            tracing::debug!(name, bytes_before, bytes_after, tests, hits, "pass");
        }
    }
}

/// Asks the test of --until.
pub fn succeeds(
    test: &std::ffi::OsStr,
    end: TryEnd,
    input: &[u8],
    out: &[u8],
    errors: &[u8],
) -> Result<bool, Ended> {
    let (code, signal) = match end {
        TryEnd::Ended(ExitReport::Exited(code)) => (code, String::new()),
        TryEnd::Ended(ExitReport::Killed(signal)) => (128 + signal, signal.to_string()),
        TryEnd::Expired => (124, String::new()),
    };
    let folder = std::env::temp_dir();
    let number = std::process::id();
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(format!(".retrovane-{number}-{name}"));
        std::fs::write(&path, content).map_err(Ended::Test).map(|()| path)
    };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(test).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.env("RETROVANE_EXIT_CODE", code.to_string()).env("RETROVANE_SIGNAL", signal);
    shell.env("RETROVANE_INPUT", write("input", input)?);
    shell.env("RETROVANE_STDOUT", write("stdout", out)?).env("RETROVANE_STDERR", write("stderr", errors)?);
    Ok(shell.status().map_err(Ended::Test)?.success())
}
