//! Kills at random moments: a process that stores and takes checkpoints, and what is back.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use retrovane_mirror::{Error, Options, Region, Word};
use serde_json::{Map, Value, json};

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
pub fn victim(path: &Path) -> Result<(), Error> {
    let region = open(path)?;
    let words = region.words("words", WORDS)?;
    let start = words[WORDS - 1].get();
    for round in start + 1.. {
        for (index, word) in words.iter().enumerate() {
            word.set(round);
            if index % WORDS_BETWEEN == 0 && region.is_idle() {
                let block = region.allocate(index + 1, 64)?;
                region.checkpoint()?;
                region.free(block);
            }
        }
        let checkpoint = region.checkpoint()?;
        region.wait(checkpoint, None)?;
        println!("durable {round}");
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
    Ok(last)
}

/// Kills so many; the keys `kills` and `lost`.
pub fn run(folder: &Path, kills: u64) -> Result<Map<String, Value>, String> {
    let failed = |error: std::io::Error| format!("the victim: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let path = folder.join("killed");
    let (mut recovered, mut lost, mut seed) = (0, 0, 12345u64);
    for kill in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let said = folder.join("said");
        let output = std::fs::File::create(&said).map_err(failed)?;
        let mut victim = Command::new(&program)
            .arg("victim")
            .arg(&path)
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let until = Instant::now() + Duration::from_micros(LIFE_US.0 + (seed >> 33) % LIFE_US.1);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        victim.kill().and_then(|()| victim.wait()).map_err(failed)?;
        let said = std::fs::read_to_string(&said).map_err(failed)?;
        let durable = said.lines().filter_map(|line| line.strip_prefix("durable ")?.parse().ok()).next_back();
        let wanted = durable.unwrap_or(0).max(recovered);
        let found = open(&path).map_err(|error| error.to_string()).and_then(|region| whole_round(&region));
        match found {
            Ok(round) if round >= wanted => recovered = round,
            Ok(round) => {
                lost += 1;
                eprintln!("kill {kill}: round {round} is back, but {wanted} was durable");
            }
            Err(error) => {
                lost += 1;
                eprintln!("kill {kill}: {error}");
            }
        }
    }
    println!("{kills} kills, {lost} lost, {recovered} rounds");
    std::io::stdout().flush().map_err(failed)?;
    Ok(Map::from_iter([("kills".into(), json!(kills)), ("lost".into(), json!(lost))]))
}
