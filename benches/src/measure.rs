//! One row: rounds of native, recorded and replayed runs, and their statistics.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::peers::{PeerResult, measure_peers};
use crate::rows::{Row, START_UP, Target, Work};
use crate::session::{Ready, Session, StartUp, Taken};

/// Seconds of several runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    pub median_s: f64,
    pub min_s: f64,
    pub max_s: f64,
    pub all_s: Vec<f64>,
    /// The median of a server's answers per second.
    pub median_per_s: Option<f64>,
    pub all_per_s: Vec<f64>,
}

impl Series {
    fn of(all_s: Vec<f64>, all_per_s: Vec<f64>) -> Series {
        Series {
            median_s: median(&all_s),
            min_s: all_s.iter().copied().fold(f64::INFINITY, f64::min),
            max_s: all_s.iter().copied().fold(0.0, f64::max),
            all_s,
            median_per_s: (!all_per_s.is_empty()).then(|| median(&all_per_s)),
            all_per_s,
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// A measured value beside what is aimed at.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Verdict {
    pub target: f64,
    pub measured: f64,
    /// `x` for a ratio to native, `ms` for milliseconds more than native, `of
    /// native` for a share of native's rate, `of recording` for a ratio to that.
    pub unit: &'static str,
    pub met: bool,
}

#[derive(Debug, Default, Serialize)]
pub struct RowResult {
    pub name: String,
    pub native: Series,
    pub recorded: Option<Series>,
    pub replayed: Option<Series>,
    pub record: Option<Verdict>,
    pub replay: Option<Verdict>,
    pub trace_bytes: Option<u64>,
    pub bytes_read: Option<u64>,
    pub peers: Vec<PeerResult>,
    /// Why something was not measured.
    pub problems: Vec<String>,
}

pub fn measure_row(session: &Session, row: &Row, start_up: &StartUp) -> RowResult {
    let mut result = RowResult { name: row.name.to_owned(), ..RowResult::default() };
    let ready = match session.ready(row) {
        Ok(ready) => ready,
        Err(problem) => {
            result.problems.push(problem);
            return result;
        }
    };
    run_rounds(session, row, &ready, start_up, &mut result);
    let recorded = result.recorded.as_ref();
    result.record = recorded.map(|series| verdict_of_recording(row.target, &result.native, series));
    result.replay = recorded
        .zip(result.replayed.as_ref())
        .map(|(recorded, series)| verdict_of_replay(row.target, &result.native, recorded, series));
    result.trace_bytes = result.recorded.as_ref().map(|_| bytes_under(&session.trace()));
    result.bytes_read = session.bytes_read(&ready);
    if session.with_peers {
        result.peers = measure_peers(session, row, &ready, result.native.median_s);
    }
    result
}

fn run_rounds(session: &Session, row: &Row, ready: &Ready, start_up: &StartUp, result: &mut RowResult) {
    let by_inner_loop = matches!(row.work, Work::Micro { .. }) && row.name != START_UP;
    let own = |taken: Taken| match taken.inner {
        Some(inner) if by_inner_loop => inner,
        Some(_) | None => taken.wall,
    };
    let (mut native, mut recorded, mut replayed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut native_per_s, mut recorded_per_s) = (Vec::new(), Vec::new());
    for _ in 0..session.rounds {
        match session.native(ready) {
            Ok(taken) => {
                native.push(own(taken).as_secs_f64());
                native_per_s.extend(taken.per_s);
            }
            Err(problem) => {
                result.problems.push(format!("native: {problem}"));
                break;
            }
        }
        match session.recorded(ready) {
            Ok(taken) => {
                recorded.push(own(taken).as_secs_f64());
                recorded_per_s.extend(taken.per_s);
            }
            Err(problem) => {
                result.problems.push(format!("record: {problem}"));
                break;
            }
        }
        match session.replayed(ready) {
            Ok(taken) => {
                let taken_off = if by_inner_loop { start_up.replay } else { Duration::ZERO };
                replayed.push(taken.wall.saturating_sub(taken_off).as_secs_f64());
            }
            Err(problem) => {
                result.problems.push(format!("replay: {problem}"));
                break;
            }
        }
    }
    result.native = Series::of(native, native_per_s);
    result.recorded = (!recorded.is_empty()).then(|| Series::of(recorded, recorded_per_s));
    result.replayed = (!replayed.is_empty()).then(|| Series::of(replayed, Vec::new()));
}

fn verdict_of_recording(target: Target, native: &Series, recorded: &Series) -> Verdict {
    let ratio = recorded.median_s / native.median_s;
    match target {
        Target::Ratio { record, .. } | Target::OneCore { record, .. } | Target::Followed { record, .. } => {
            at_most(record, ratio, "x")
        }
        Target::MoreMs { record, .. } => {
            at_most(record, (recorded.median_s - native.median_s) * 1000.0, "ms")
        }
        Target::Rate { record, .. } => {
            let rate = |series: &Series| series.median_per_s.unwrap_or(0.0);
            let measured = rate(recorded) / rate(native);
            Verdict { target: record, measured, unit: " of native", met: measured >= record }
        }
    }
}

fn verdict_of_replay(target: Target, native: &Series, recorded: &Series, replayed: &Series) -> Verdict {
    match target {
        Target::Ratio { replay, .. } => at_most(replay, replayed.median_s / native.median_s, "x"),
        Target::MoreMs { replay, .. } => {
            at_most(replay, (replayed.median_s - native.median_s) * 1000.0, "ms")
        }
        Target::OneCore { replay, .. } | Target::Followed { replay, .. } | Target::Rate { replay, .. } => {
            at_most(replay, replayed.median_s / recorded.median_s, " of recording")
        }
    }
}

fn at_most(target: f64, measured: f64, unit: &'static str) -> Verdict {
    Verdict { target, measured, unit, met: measured <= target }
}

/// Bytes of all files below.
pub fn bytes_under(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_under(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    fn seconds(value: f64) -> Series {
        Series::of(vec![value], Vec::new())
    }

    #[test]
    fn a_target_is_met_up_to_its_value() {
        let (native, target) = (seconds(1.0), Target::Ratio { record: 1.5, replay: 1.0 });
        assert!(verdict_of_recording(target, &native, &seconds(1.5)).met);
        assert!(!verdict_of_replay(target, &native, &seconds(1.5), &seconds(1.5)).met);
        let target = Target::OneCore { record: 1.5, replay: 1.2 };
        assert!(verdict_of_replay(target, &native, &seconds(1.5), &seconds(1.8)).met);
    }

    #[test]
    fn a_rate_is_met_from_its_value_on() {
        let rate = |per_s: f64| Series::of(vec![1.0], vec![per_s]);
        let target = Target::Rate { record: 0.7, replay: 1.2 };
        assert!(verdict_of_recording(target, &rate(1000.0), &rate(700.0)).met);
        assert!(!verdict_of_recording(target, &rate(1000.0), &rate(690.0)).met);
    }
}
