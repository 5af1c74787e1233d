//! The comparison: each scheme at each size, with checkpoints and without.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::kills;
use crate::measure::{median, quantile};
use crate::output::{Failure, say, warn};
use crate::plots;
use crate::recovery;
use crate::rivals::{Fork, Mirror, Scheme, Stop};
use crate::server::{self, Load};
use crate::task::{self, Length, STORES};
use crate::write_protect::{Mprotect, Userfault};
use crate::{Bench, Part};

const MIB: usize = 1 << 20;
/// The paper's region.
const SMALL: usize = 24 * MIB;
/// The large region.
fn large(quick: bool) -> usize {
    if quick { 256 * MIB } else { 1024 * MIB }
}

/// The part of periods that are no worse than what is reported.
const WORST: f64 = 0.9999;
/// Names of all schemes, in the order of the output.
const SCHEMES: [&str; 5] = ["mirror", "fork", "mprotect", "uffd", "stop"];

/// What is told of each.
const KEYS: [&str; 9] = [
    "worst_extra_us_24mb",
    "worst_extra_us_1gb",
    "first_writes_ratio",
    "barrier_median",
    "barrier_worst",
    "recovery_first_ms",
    "server_p999_ratio",
    "kills",
    "lost",
];

fn scheme(name: &str, folder: &Path, size: usize) -> Result<Box<dyn Scheme>, String> {
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let _ = [0, 1].map(|slot| std::fs::remove_file(folder.join(format!("mirror.{slot}"))));
    Ok(match name {
        "mirror" => Box::new(Mirror::new(folder, size).map_err(|error| error.to_string())?),
        "fork" => Box::new(Fork::new(folder, size).map_err(failed)?),
        "mprotect" => Box::new(Mprotect::new(folder, size).map_err(failed)?),
        "uffd" => Box::new(Userfault::new(folder, size).map_err(failed)?),
        _ => Box::new(Stop::new(folder, size).map_err(failed)?),
    })
}

/// A folder for checkpoints, which goes away.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(within: &Path) -> std::io::Result<Folder> {
        let path = within.join(format!("retrovane-mirror-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path.canonicalize()?))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays, and hurts nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn run(options: &Bench) -> Result<(), Failure> {
    let folder = Folder::new(&options.dir).map_err(|error| format!("{}: {error}", options.dir.display()))?;
    if let Some(plots) = &options.plots {
        std::fs::create_dir_all(plots).map_err(|error| format!("{}: {error}", plots.display()))?;
    }
    let mut keys = Map::new();
    let wants = |part: Part| options.only.is_empty() || options.only.contains(&part);
    if wants(Part::Pauses) {
        pauses(options, &folder.0, &mut keys)?;
    }
    if wants(Part::Recovery) {
        match recovery::run(&folder.0, large(options.quick)) {
            Ok((found, plain)) => {
                keys.extend(found);
                SCHEMES[1..].iter().for_each(|rival| {
                    keys.insert(format!("{rival}_recovery_first_ms"), plain.clone());
                });
            }
            Err(Failure::Told(error)) => warn(format_args!("recovery was not measured: {error}")),
            Err(Failure::Unheard) => return Err(Failure::Unheard),
        }
    }
    if wants(Part::Kills) {
        keys.extend(kills::run(&folder.0, if options.quick { 100 } else { 10_000 })?);
    }
    if let (true, Some(mirror), Some(fork)) = (wants(Part::Server), &options.server, &options.fork_server) {
        let load = match options.quick {
            true => Load { keys: 100_000, requests: 4_000, rounds: 2 },
            false => Load { keys: 1_000_000, requests: 10_000, rounds: 12 },
        };
        keys.extend(server::compare(mirror, fork, &folder.0, &load)?);
    }
    for path in &options.merge {
        keys.extend(read_keys(path)?);
    }
    // Stores that are made once have no barrier.
    for (rival, key) in SCHEMES[1..].iter().flat_map(|rival| ["median", "worst"].map(|key| (rival, key))) {
        keys.insert(format!("{rival}_barrier_{key}"), json!(1.0));
    }
    // What was not measured in this run is there all the same, and says so.
    for (scheme, key) in SCHEMES.iter().flat_map(|scheme| KEYS.map(|key| (scheme, key))) {
        keys.entry(named(scheme, key)).or_insert(Value::Null);
    }
    let text = serde_json::to_string_pretty(&Value::Object(keys)).map_err(|error| error.to_string())?;
    std::fs::write(&options.json, format!("{text}\n"))
        .map_err(|error| format!("{}: {error}", options.json.display()))?;
    say(format_args!("{text}"))
}

/// The periodic task and the first stores.
fn pauses(options: &Bench, folder: &Path, keys: &mut Map<String, Value>) -> Result<(), Failure> {
    let (own, rivals) = if options.quick { (1000, 500) } else { (40_000, 10_000) };
    let large = large(options.quick);
    say(format_args!(
        "{:9} {:>6} {:>12} {:>12} {:>12}  checkpoints",
        "scheme", "MiB", "without us", "with us", "extra us"
    ))?;
    let mut shown = Vec::new();
    let mut counted = usize::MAX;
    for name in SCHEMES {
        let periods = if name == "mirror" { own } else { rivals };
        for (size, key) in [(SMALL, "24mb"), (large, "1gb")] {
            let measured = periods_of(name, folder, size, Length::of(periods), options.plots.as_deref());
            if let Ok(measured) = &measured {
                if name == "mirror" {
                    counted = counted.min(measured.periods);
                }
                if size == large {
                    shown.push((name, measured.shares));
                }
            }
            let extra = measured.map(|measured| measured.extra);
            keys.insert(named(name, &format!("worst_extra_us_{key}")), number(extra)?);
        }
        keys.insert(named(name, "first_writes_ratio"), number(first_writes(name, folder, options.quick))?);
    }
    if let Some(plots) = &options.plots {
        let title = format!("A periodic task beside checkpoints of {} MiB without pause", large / MIB);
        if let Err(error) = plots::draw_together(plots, &title, &shown) {
            warn(error);
        }
    }
    keys.insert("periods".into(), json!(counted));
    keys.insert("rival_periods_most".into(), json!(rivals));
    keys.insert("large_mib".into(), json!(large / MIB));
    Ok(())
}

fn read_keys(path: &Path) -> Result<Map<String, Value>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// A key of the output: the mirror's have no name before them.
fn named(scheme: &str, key: &str) -> String {
    if scheme == "mirror" { key.to_owned() } else { format!("{scheme}_{key}") }
}

fn number(value: Result<f64, Failure>) -> Result<Value, Failure> {
    match value {
        Ok(value) => Ok(json!((value * 1000.0).round() / 1000.0)),
        Err(Failure::Told(error)) => {
            warn(format_args!("not measured: {error}"));
            Ok(Value::Null)
        }
        Err(Failure::Unheard) => Err(Failure::Unheard),
    }
}

/// What the task's periods took.
struct Measured {
    /// Microseconds that checkpoints add to the worst period.
    extra: f64,
    /// What parts of the periods took.
    shares: [f64; plots::SHARES.len()],
    /// How many there were.
    periods: usize,
}

fn periods_of(
    name: &str,
    folder: &Path,
    size: usize,
    length: Length,
    plots: Option<&Path>,
) -> Result<Measured, Failure> {
    let scheme = scheme(name, folder, size)?;
    let (without, _) = task::run(&*scheme, length, false);
    let (with, checkpoints) = task::run(&*scheme, length, true);
    let worst = |samples: &[task::Sample]| {
        quantile(&samples.iter().map(|sample| sample.total()).collect::<Vec<_>>(), WORST)
    };
    let (plain, extra) = (worst(&without), worst(&with) - worst(&without));
    let mib = size / MIB;
    say(format_args!("{name:9} {mib:6} {plain:12.1} {:12.1} {extra:12.1}  {checkpoints}", worst(&with)))?;
    if let Some(plots) = plots {
        for (kind, samples) in [("without", &without), ("with", &with)] {
            let title = format!("{} ({mib} MiB), {kind} checkpoints", scheme.name());
            plots::draw(plots, &format!("{name}-{mib}-{kind}"), &title, samples)?;
        }
    }
    if checkpoints == 0 {
        return Err(format!("{name}: no checkpoint was taken in {} periods", with.len()).into());
    }
    let totals: Vec<f64> = with.iter().map(|sample| sample.total()).collect();
    let shares = plots::SHARES.map(|(share, _)| quantile(&totals, share));
    Ok(Measured { extra, shares, periods: without.len().min(with.len()) })
}

/// How much longer the first stores take behind the beginning of a checkpoint: one to a page.
fn first_writes(name: &str, folder: &Path, quick: bool) -> Result<f64, Failure> {
    let scheme = scheme(name, folder, SMALL)?;
    let rounds = if quick { 15 } else { 200 };
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        task::stores(&*scheme, round);
        before.push(task::stores(&*scheme, round + 1));
        std::thread::scope(|scope| {
            scheme.begin();
            behind.push(task::stores(&*scheme, round + 2));
            scope.spawn(|| scheme.wait());
        });
    }
    say(format_args!(
        "{name:9} {STORES} stores: {:.0} us, behind a checkpoint {:.0} us",
        median(&before),
        median(&behind)
    ))?;
    Ok(median(&behind) / median(&before))
}
