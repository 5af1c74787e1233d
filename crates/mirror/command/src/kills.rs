//! Kills at random moments: a process that stores and takes checkpoints, and what is back.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use retrovane_mirror::{Error, Options, Region, Word};
use serde_json::{Map, Value, json};

use crate::output::{Failure, say, warn};

const SIZE: usize = 1 << 20;
const WORDS: usize = 20_000;
/// Words between two checkpoints at most.
const WORDS_BETWEEN: usize = 1000;
/// A victim lives so long at least, and so much longer at most, in microseconds.
const LIFE_US: (u64, u64) = (2_000, 30_000);

fn open(path: &Path) -> Result<Region, Error> {
    Region::open(path, &Options { size: SIZE, ..Options::default() })
}

/// Stores and takes checkpoints until it is killed. Each round stores its number in all words, in one order:
/// a state of one moment has a round up to some word, and the round before behind it.
pub fn victim(path: &Path) -> Result<(), Failure> {
    let failed = |error: Error| Failure::Told(error.to_string());
    let region = open(path).map_err(failed)?;
    let words = region.words("words", WORDS).map_err(failed)?;
    let start = words[WORDS - 1].get();
    for round in start + 1.. {
        for (index, word) in words.iter().enumerate() {
            word.set(round);
            if index % WORDS_BETWEEN == 0 && region.is_idle() {
                let block = region.allocate(index + 1, 64).map_err(failed)?;
                region.checkpoint().map_err(failed)?;
                region.free(block);
            }
        }
        let checkpoint = region.checkpoint().map_err(failed)?;
        region.wait(checkpoint, None).map_err(failed)?;
        say(format_args!("durable {round}"))?;
    }
    Ok(())
}

/// The round of a state of one moment, or what is wrong.
fn whole_round(region: &Region) -> Result<u64, String> {
    let words: &[Word] = region.words("words", WORDS).map_err(|error| error.to_string())?;
    let (first, last) = (words[0].get(), words[WORDS - 1].get());
    if first != last && first != last + 1 {
        return Err(format!("{first} and {last} are not of one moment"));
    }
    let change = words.iter().position(|word| word.get() != first).unwrap_or(WORDS);
    if words[change..].iter().any(|word| word.get() != last) {
        return Err(format!("torn at word {change}"));
    }
    region.check_heap()?;
    region.wait_verified(None).map_err(|error| error.to_string())?;
    Ok(last)
}

/// What one series of kills came to.
struct Series {
    lost: u64,
    /// The last round that was back.
    recovered: u64,
}

/// Kills so many, in several series at once, each with files of its own; the keys `kills` and `lost`.
pub fn run(folder: &Path, kills: u64) -> Result<Map<String, Value>, Failure> {
    let workers = 2 * std::thread::available_parallelism().map_or(1, |count| count.get().min(8)) as u64;
    let begun = Instant::now();
    let all: Vec<Series> = std::thread::scope(|scope| {
        let spawn = |worker: u64| {
            let share = kills / workers + u64::from(worker < kills % workers);
            scope.spawn(move || series(folder, worker, share))
        };
        let started: Vec<_> = (0..workers).map(spawn).collect();
        started
            .into_iter()
            .map(|series| series.join().expect("its failures are values"))
            .collect::<Result<_, String>>()
    })?;
    let (lost, rounds) =
        all.iter().fold((0, 0), |(lost, rounds), one| (lost + one.lost, rounds + one.recovered));
    say(format_args!(
        "{kills} kills by {workers} at once, {lost} lost, {rounds} rounds, {:.0} s",
        begun.elapsed().as_secs_f64()
    ))?;
    Ok(Map::from_iter([("kills".into(), json!(kills)), ("lost".into(), json!(lost))]))
}

/// A process has one region at a time.
static ONE_REGION: Mutex<()> = Mutex::new(());

fn series(folder: &Path, worker: u64, kills: u64) -> Result<Series, String> {
    let failed = |error: std::io::Error| format!("the victim: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let (path, said) = (folder.join(format!("killed-{worker}")), folder.join(format!("said-{worker}")));
    let (mut series, mut seed) = (Series { lost: 0, recovered: 0 }, 12345 + worker);
    for kill in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let output = std::fs::File::create(&said).map_err(failed)?;
        let mut command = Command::new(&program);
        command.arg("victim").arg(&path).stdout(output).stderr(Stdio::null());
        let mut victim = {
            // A child has the open files, and so their locks, until it begins its program.
            let _one = ONE_REGION.lock().unwrap_or_else(PoisonError::into_inner);
            command.spawn().map_err(failed)?
        };
        let until = Instant::now() + Duration::from_micros(LIFE_US.0 + (seed >> 33) % LIFE_US.1);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        victim.kill().and_then(|()| victim.wait()).map_err(failed)?;
        let said = std::fs::read_to_string(&said).map_err(failed)?;
        let durable = said.lines().filter_map(|line| line.strip_prefix("durable ")?.parse().ok()).next_back();
        let wanted = durable.unwrap_or(0).max(series.recovered);
        let found = {
            let _one = ONE_REGION.lock().unwrap_or_else(PoisonError::into_inner);
            open(&path).map_err(|error| error.to_string()).and_then(|region| whole_round(&region))
        };
        match found {
            Ok(round) if round >= wanted => series.recovered = round,
            Ok(round) => {
                series.lost += 1;
                warn(format_args!("kill {kill}: round {round} is back, but {wanted} was durable"));
            }
            Err(error) => {
                series.lost += 1;
                warn(format_args!("kill {kill}: {error}"));
            }
        }
    }
    Ok(series)
}
