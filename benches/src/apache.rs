//! Apache with three checkpoints for each request, as the paper's section 6.3 had it:
//! throughput, latency and the processors that it uses, beside the same server without.
//!
//! What parts it off: plain forks in place of checkpoints, and a live session in which none
//! are taken. Rounds alternate all of them.

mod server;

use std::collections::HashMap;

use crate::figures::{Curve, Figure, linear, log};
use crate::measure::median;
use crate::session::Session;

use server::{FILES, Load, MIX_OF_1000, MIXED, Site, Way};

const ROUNDS_MAX: u32 = 3;
const ROUNDS_QUICK: u32 = 2;
/// At least so much of the native rate is aimed at.
const GOAL: f64 = 0.9;
const GOAL_CLIENTS: u32 = 32;
const GOAL_FILE: &str = "5K";
const CLIENTS: [u32; 6] = [1, 4, 8, 16, 32, 64];
/// The paper's network, in bits per second.
const PAPERS_LINK: f64 = 100e6;

const PREFORK_WAYS: &[Way] = &[Way::Native, Way::Forks, Way::Live, Way::Checkpoints];
const EVENT_WAYS: &[Way] = &[Way::Native, Way::Forks, Way::Live, Way::Checkpoints, Way::Shared];

/// What is fetched, and by how many clients.
type Point = (&'static str, u32);

/// What all rounds saw.
#[derive(Default)]
struct Series {
    loads: HashMap<(Point, usize), Vec<Load>>,
    taken: u64,
    requests: u64,
}

impl Series {
    fn median(&self, point: Point, way: usize, of: fn(&Load) -> f64) -> f64 {
        let loads = self.loads.get(&(point, way)).map_or(&[][..], Vec::as_slice);
        median(&loads.iter().map(of).collect::<Vec<f64>>())
    }
}

/// Prints the tables and gives the figures.
pub fn measure(session: &Session) -> Result<Vec<Figure>, String> {
    if let Some(command) = server::is_missing() {
        println!("\napache with checkpoints was not measured: {command}");
        return Ok(Vec::new());
    }
    let site = Site::prepare(session)?;
    let points = points(session.quick);
    let mut figures = Vec::new();
    for (mpm, number, ways) in [("prefork", 8, PREFORK_WAYS), ("event", 9, EVENT_WAYS)] {
        let series = run_rounds(session, &site, mpm, ways, &points)?;
        print!("{}", table(mpm, ways, &points, &series));
        figures.extend(figures_of(mpm, number, ways, &points, &series));
    }
    Ok(figures)
}

fn points(quick: bool) -> Vec<Point> {
    if quick {
        return vec![(GOAL_FILE, GOAL_CLIENTS)];
    }
    let by_clients = CLIENTS.iter().map(|&clients| (MIXED, clients));
    by_clients.chain(FILES.iter().map(|&(name, _)| (name, GOAL_CLIENTS))).collect()
}

fn run_rounds(
    session: &Session,
    site: &Site,
    mpm: &str,
    ways: &[Way],
    points: &[Point],
) -> Result<Series, String> {
    let rounds = if session.quick { ROUNDS_QUICK } else { session.rounds.min(ROUNDS_MAX) };
    let seconds = if session.quick { 1 } else { 2 };
    let mut series = Series::default();
    for round in 0..rounds {
        eprintln!("measuring apache {mpm} with checkpoints, round {}", round + 1);
        for (index, &way) in ways.iter().enumerate() {
            let in_words = |problem: String| format!("apache {mpm}: {problem}");
            let mut server = site.start(session, mpm, way).map_err(in_words)?;
            for &point in points {
                let load = server.load(point.0, point.1, seconds).map_err(in_words)?;
                series.requests += load.requests;
                series.loads.entry((point, index)).or_default().push(load);
            }
            let told = server.stop().map_err(in_words)?;
            series.taken += told.taken;
        }
    }
    Ok(series)
}

/// The rate beside the native one, and the median of what a request took.
fn table(mpm: &str, ways: &[Way], points: &[Point], series: &Series) -> String {
    let mut text = format!(
        "\napache {mpm}, a connection and 3 checkpoints for each request (goal: {GOAL} of native, \
         {GOAL_CLIENTS} clients, {GOAL_FILE})\nclients   file   native/s       ms"
    );
    for way in &ways[1..] {
        text += &format!("  {:>20}      ms", way.title());
    }
    for &point in points {
        let native = series.median(point, 0, |load| load.per_s);
        let native_ms = series.median(point, 0, |load| load.median_ms);
        text += &format!("\n{:>7}  {:>5}  {native:>9.0}  {native_ms:>7.2}", point.1, point.0);
        for way in 1..ways.len() {
            let ratio = series.median(point, way, |load| load.per_s) / native;
            text += &format!("  {ratio:>20.3} {:>7.1}", series.median(point, way, |load| load.median_ms));
        }
    }
    let goal = (GOAL_FILE, GOAL_CLIENTS);
    let position = ways.iter().position(|&way| way == Way::Checkpoints).expect("all tables have this way");
    let reached =
        series.median(goal, position, |load| load.per_s) / series.median(goal, 0, |load| load.per_s);
    let word = if reached >= GOAL { "ok" } else { "missed, see docs/CHECKPOINTS.md" };
    text += &format!(
        "\n{reached:.3} of native ({GOAL}) {word}; {} requests, none failed; {} checkpoints taken, all discarded\n",
        series.requests, series.taken
    );
    text
}

fn figures_of(mpm: &str, number: u32, ways: &[Way], points: &[Point], series: &Series) -> Vec<Figure> {
    let curves = |wanted: &dyn Fn(Point) -> Option<f64>, of: fn(&Load) -> f64| -> Vec<Curve> {
        let curve = |(index, way): (usize, &Way)| {
            let values =
                points.iter().filter_map(|&point| Some((wanted(point)?, series.median(point, index, of))));
            Curve::measured(way.title(), values.collect())
        };
        ways.iter().enumerate().map(curve).collect()
    };
    // A quick run has no mixture.
    let file = if points.iter().any(|point| point.0 == MIXED) { MIXED } else { GOAL_FILE };
    let by_clients = |point: Point| (point.0 == file).then(|| f64::from(point.1));
    let by_size = |point: Point| {
        let (_, bytes) = FILES.iter().find(|(name, _)| *name == point.0 && point.1 == GOAL_CLIENTS)?;
        Some(*bytes as f64 / 1000.0)
    };
    let figure = |name: &str, title: &str, x, y, curves| Figure {
        name: format!("figure-{name}"),
        title: format!("Figure {title}, apache {mpm}"),
        x,
        y,
        curves,
    };
    let clients = linear("clients");
    let mut rate = figure(
        &format!("{number}a-apache-{mpm}-throughput"),
        &format!("{number}a: throughput"),
        clients.clone(),
        log("requests/s"),
        curves(&by_clients, |load| load.per_s),
    );
    let link = PAPERS_LINK / 8.0 / mean_bytes(file);
    let ends = [CLIENTS[0], CLIENTS[CLIENTS.len() - 1]].map(|clients| (f64::from(clients), link));
    rate.curves.push(Curve::of_paper("paper: its 100 Mbit/s, with and without", ends.to_vec()));
    let latency = figure(
        &format!("{number}b-apache-{mpm}-latency"),
        &format!("{number}b: median response time"),
        clients.clone(),
        log("ms"),
        curves(&by_clients, |load| load.median_ms),
    );
    let cores = figure(
        &format!("10-apache-{mpm}-processors"),
        "10: processors kept busy by the server",
        clients,
        linear("processors"),
        curves(&by_clients, |load| load.cores),
    );
    let sizes = figure(
        &format!("{number}c-apache-{mpm}-file-sizes"),
        &format!("{number}c: throughput by file size, {GOAL_CLIENTS} clients"),
        log("KB of a file"),
        log("requests/s"),
        curves(&by_size, |load| load.per_s),
    );
    vec![rate, latency, sizes, cores]
}

/// Of what is fetched.
fn mean_bytes(file: &str) -> f64 {
    let bytes = |(name, bytes): (&str, u64), of_1000: u64| match file {
        MIXED => bytes as f64 * of_1000 as f64 / 1000.0,
        _ if name == file => bytes as f64,
        _ => 0.0,
    };
    FILES.iter().zip(MIX_OF_1000).map(|(&one, of_1000)| bytes(one, of_1000)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(per_s: f64) -> Load {
        Load { per_s, median_ms: 1000.0 / per_s, requests: 10, cores: 1.0 }
    }

    #[test]
    fn the_table_says_whether_the_goal_is_reached() {
        let goal = (GOAL_FILE, GOAL_CLIENTS);
        let series = |rate: f64| {
            let rates = [1000.0, 300.0, 500.0, rate];
            let loads = rates.iter().enumerate().map(|(way, &rate)| ((goal, way), vec![load(rate)]));
            Series { loads: loads.collect(), taken: 30, requests: 40 }
        };
        assert!(table("prefork", PREFORK_WAYS, &[goal], &series(900.0)).contains("0.900 of native (0.9) ok"));
        let missed = table("prefork", PREFORK_WAYS, &[goal], &series(890.0));
        assert!(missed.contains("0.890 of native (0.9) missed"), "{missed}");
    }

    #[test]
    fn figures_have_the_points_that_were_measured() {
        let points = points(false);
        let loads = points.iter().map(|&point| ((point, 0), vec![load(f64::from(point.1))]));
        let series = Series { loads: loads.collect(), taken: 0, requests: 0 };
        let figures = figures_of("prefork", 8, PREFORK_WAYS, &points, &series);
        assert_eq!(figures.len(), 4);
        let clients: Vec<f64> = figures[0].curves[0].points.iter().map(|point| point.0).collect();
        assert_eq!(clients, CLIENTS.map(f64::from));
        assert_eq!(
            figures[2].curves[0].points.iter().map(|point| point.0).collect::<Vec<_>>(),
            [5.0, 50.0, 500.0, 5000.0]
        );
    }

    #[test]
    fn the_mixture_is_complete() {
        assert_eq!(MIX_OF_1000.iter().sum::<u64>(), 1000);
        assert_eq!(mean_bytes("5K"), 5000.0);
        assert!(mean_bytes(MIXED) > 5000.0);
    }
}
