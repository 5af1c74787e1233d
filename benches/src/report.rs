//! The table for people; the JSON holds the same results.

use std::fmt::Write as _;

use serde::Serialize;

use crate::figures::Figure;
use crate::measure::{RowResult, Series, Verdict};

#[derive(Debug, Default, Serialize)]
pub struct Results {
    pub rows: Vec<RowResult>,
    pub figures: Vec<Figure>,
}

/// The table as text.
pub fn table(results: &Results) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<26} {:>12} {:>28} {:>30} {:>11} {:>11}",
        "workload", "native", "record (target)", "replay (target)", "trace", "read"
    );
    for row in &results.rows {
        let _ = writeln!(
            text,
            "{:<26} {:>12} {:>28} {:>30} {:>11} {:>11}",
            row.name,
            native(&row.native),
            verdict(row.record),
            verdict(row.replay),
            bytes(row.trace_bytes),
            bytes(row.bytes_read),
        );
        for peer in &row.peers {
            let _ = match &peer.ratio {
                Ok(ratio) => writeln!(text, "    {:<22} {ratio:>10.1} x native", peer.peer),
                Err(error) => writeln!(text, "    {:<22} failed: {error}", peer.peer),
            };
        }
        for problem in &row.problems {
            let _ = writeln!(text, "    not measured: {problem}");
        }
    }
    let (met, missed) = count(results);
    let _ = writeln!(text, "{met} targets met, {missed} missed or not measured");
    text
}

fn count(results: &Results) -> (usize, usize) {
    let verdicts = results.rows.iter().flat_map(|row| [row.record, row.replay]);
    let met = verdicts.filter(|verdict| verdict.is_some_and(|v| v.met)).count();
    (met, results.rows.len() * 2 - met)
}

fn native(series: &Series) -> String {
    match series.median_per_s {
        Some(per_s) => format!("{per_s:.0}/s"),
        None => format!("{:.2} ms", series.median_s * 1000.0),
    }
}

fn verdict(verdict: Option<Verdict>) -> String {
    match verdict {
        None => "-".to_owned(),
        Some(v) => {
            let word = if v.met { "ok" } else { "missed" };
            format!("{:.2}{} ({}) {word}", v.measured, v.unit, v.target)
        }
    }
}

fn bytes(count: Option<u64>) -> String {
    match count {
        None => "-".to_owned(),
        Some(count) if count >= 10_000_000 => format!("{} MB", count / 1_000_000),
        Some(count) if count >= 10_000 => format!("{} KB", count / 1_000),
        Some(count) => format!("{count} B"),
    }
}
