//! Damaged traces, looked at by every command: each ends in time, shows no panic, and never passes
//! off for whole what is not.
//!
//! A mutation is a seed: it chooses the sample, what becomes of it, and the command. The usual run takes
//! the first few; `RETROVANE_MUTATIONS=FIRST..END` tries others, and tells how many of what came out.

mod damage;
mod random;
mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{Leftovers, Mode, Outcome, Scratch, TestResult, Tool, run_suite, unless_missing};

use damage::{Damaged, Nature, damage};
use random::Random;
use sample::{KINDS, Sample, View};

/// What `make test` tries: some 20 seconds on two processors.
const USUAL: std::ops::Range<u64> = 1..241;
/// Mutations of one trial.
const OF_TRIAL: u64 = 40;
/// How long a command may take, of which the whole trace takes a tenth of a second: a replay that has
/// missed what its log has next is given up after 20 s of its processor's time.
const TIME_MAX: Duration = Duration::from_secs(100);
/// Most failures of one trial that are told.
const TOLD_MAX: usize = 20;

fn seeds() -> Result<std::ops::Range<u64>, String> {
    let Ok(asked) = std::env::var("RETROVANE_MUTATIONS") else {
        return Ok(USUAL);
    };
    let range = asked.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.ok_or_else(|| format!("RETROVANE_MUTATIONS is FIRST..END, not {asked:?}"))
}

/// The samples, each recorded when it is first needed, and what came out so far.
struct Samples {
    tool: Arc<Tool>,
    recorded: [OnceLock<Result<Sample, String>>; KINDS.len()],
    counts: Mutex<BTreeMap<String, u64>>,
    left: AtomicU64,
}

impl Samples {
    fn get(&self, index: usize) -> Result<&Sample, String> {
        let recorded = self.recorded[index].get_or_init(|| Sample::record(&self.tool, KINDS[index]));
        recorded.as_ref().map_err(Clone::clone)
    }

    fn count(&self, view: View, damaged: &Damaged, code: i32) {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *counts.entry(format!("{view:?} {:?} {code}", damaged.nature)).or_default() += 1;
    }

    /// Tells what came out, when all is done.
    fn done(&self, count: u64) {
        if self.left.fetch_sub(count, Ordering::AcqRel) == count
            && std::env::var_os("RETROVANE_MUTATIONS").is_some()
        {
            let counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (what, count) in counts.iter() {
                eprintln!("{count:>7} {what}");
            }
        }
    }
}

/// What is wrong with how a command ended.
fn verdict(sample: &Sample, view: View, damaged: &Damaged, outcome: &Outcome) -> TestResult {
    let (said, code) = (outcome.stderr_text(), outcome.code);
    if said.contains("panicked at") || code == 101 || code >= 128 {
        return Err(format!("it breaks (code {code})"));
    }
    if said.contains("which is a fault of retrovane") {
        return Err("it takes the blame".to_owned());
    }
    if code != 0 && code != sample.code_of(view) {
        let tells = !said.trim().is_empty();
        return if tells { Ok(()) } else { Err(format!("code {code}, and not a word")) };
    }
    let same = sample.whole(view).is_none_or(|whole| whole.stdout == outcome.stdout);
    if damaged.nature == Nature::Decayed && view.is_compared() && !same {
        return Err(format!("code {code}, and it shows something else"));
    }
    Ok(())
}

fn try_one(samples: &Samples, scratch: &Scratch, seed: u64) -> TestResult {
    let mut random = Random::new(seed);
    let kind = random.below(KINDS.len());
    let sample = samples.get(kind)?;
    let view = View::of(seed);
    let copy = scratch.join("trace");
    let damaged = damage(&sample.trace, &copy, &mut random)?;
    let what = format!("seed {seed}, {}, {view:?}, {}", KINDS[kind], damaged.what);
    let folder = scratch.fresh_directory("run")?;
    let leftovers = Leftovers::of(&folder);
    let outcome = sample
        .look(view, &copy, &folder.join("out.rvpack"), TIME_MAX)
        .map_err(|error| format!("{what}: {error}"))?;
    samples.count(view, &damaged, outcome.code);
    let judged = verdict(sample, view, &damaged, &outcome).and_then(|()| leftovers.are_none());
    fs::remove_dir_all(&copy).map_err(|error| error.to_string())?;
    judged.map_err(|error| {
        let said: String = outcome.stderr_text().chars().take(400).collect();
        format!("{what}: {error}\n{said}")
    })
}

fn try_some(samples: &Samples, seeds: std::ops::Range<u64>) -> TestResult {
    let scratch = Scratch::new(&format!("mutations-{}", seeds.start))?;
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        failures.extend(try_one(samples, &scratch, seed).err());
        // What failed may have left its copy.
        scratch.remove("trace")?;
    }
    samples.done(seeds.end - seeds.start);
    if failures.is_empty() {
        return Ok(());
    }
    let count = failures.len();
    failures.truncate(TOLD_MAX);
    Err(format!("{count} of {} mutations:\n{}", seeds.end - seeds.start, failures.join("\n")))
}

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let seeds = seeds()?;
    let samples = Arc::new(Samples {
        tool: Arc::clone(tool),
        recorded: Default::default(),
        counts: Mutex::default(),
        left: AtomicU64::new(seeds.end.saturating_sub(seeds.start)),
    });
    let mut trials = Vec::new();
    let mut first = seeds.start;
    while first < seeds.end {
        let some = first..(first + OF_TRIAL).min(seeds.end);
        first = some.end;
        let samples = Arc::clone(&samples);
        let name = format!("seeds_{}_to_{}", some.start, some.end - 1);
        let trial = Trial::test(name, move || try_some(&samples, some.clone()).map_err(Failed::from));
        trials.push(unless_missing(trial, (tool.mode == Mode::Native).then_some("needs the tool")));
    }
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
