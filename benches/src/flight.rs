//! redis as a flight recorder: `retrovane live` with a bounded past, beside the native server. How
//! many requests it answers, and how much memory all of it takes at most.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::measure::median;
use crate::session::Session;

const LOG_MB: u64 = 64;
const CHECKPOINTS_MB: u64 = 256;
/// Of the native rate, as recording.
const GOAL: f64 = 0.7;
/// Besides the server, its log and its checkpoints: the recorder, and what is in flight to it.
const REST_MB: f64 = 64.0;
const LOADS: [(&str, &str, u32); 2] = [("SET, GET", "", 200_000), ("SET, GET, -P 16", "-P 16", 2_000_000)];
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// One run: requests per second, and megabytes at most.
struct Run {
    per_s: f64,
    mb: f64,
}

/// Prints the table.
pub fn measure(session: &Session) -> Result<(), String> {
    if Command::new("redis-benchmark").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("\nthe flight recorder was not measured: there is no redis-benchmark");
        return Ok(());
    }
    println!(
        "\nredis as a flight recorder: a checkpoint each second, {LOG_MB} MB of log, {CHECKPOINTS_MB} MB of \
         checkpoints (goals: {GOAL} of native, and no more memory than the server, these, and {REST_MB} MB)\n\
         load               native/s    live/s  ratio   native MB   live MB"
    );
    for (name, options, requests) in LOADS {
        let requests = if session.quick { requests / 10 } else { requests };
        let load = format!("{options} -n {requests}");
        let (mut native, mut live) = (Vec::new(), Vec::new());
        for round in 0..session.rounds {
            eprintln!("measuring the flight recorder, {name}, round {}", round + 1);
            native.push(run(session, &load, false)?);
            live.push(run(session, &load, true)?);
        }
        let of = |runs: &[Run], what: fn(&Run) -> f64| median(&runs.iter().map(what).collect::<Vec<f64>>());
        let rates = [of(&native, |run| run.per_s), of(&live, |run| run.per_s)];
        let most = |runs: &[Run]| runs.iter().map(|run| run.mb).fold(0.0, f64::max);
        let [own, all] = [most(&native), most(&live)];
        let ratio = rates[1] / rates[0];
        let is_bounded = all <= own + (LOG_MB + CHECKPOINTS_MB) as f64 + REST_MB;
        println!(
            "{name:<17} {:>9.0} {:>9.0}  {ratio:>5.2} {} {own:>8.0} {all:>9.0} {}",
            rates[0],
            rates[1],
            if ratio >= GOAL { "ok" } else { "missed" },
            if is_bounded { "ok" } else { "missed" }
        );
    }
    Ok(())
}

fn run(session: &Session, load: &str, is_live: bool) -> Result<Run, String> {
    let folder = session.directory.join("flight");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let port = session.port.to_string();
    let mut words: Vec<String> = Vec::new();
    if is_live {
        words.extend([session.tool.display().to_string(), "live".into(), "-q".into(), "--home".into()]);
        words.extend([folder.display().to_string(), "--checkpoint-every".into(), "1s".into()]);
        words.extend([
            format!("--log-max={LOG_MB}M"),
            format!("--memory-max={CHECKPOINTS_MB}M"),
            "--".into(),
        ]);
    }
    words.extend(["redis-server", "--port", &port, "--save", "", "--appendonly", "no"].map(str::to_owned));
    let mut server = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", words[0]))?;
    let measured = loaded(&mut server, &port, load);
    let _ = Command::new("redis-cli").args(["-p", &port, "shutdown", "nosave"]).output();
    let ended = server.wait().map_err(|error| error.to_string())?;
    match ended.success() {
        true => measured,
        false => Err(format!("the server under {} ended with {ended}", words[0])),
    }
}

fn loaded(server: &mut Child, port: &str, load: &str) -> Result<Run, String> {
    let answers = || Command::new("redis-cli").args(["-p", port, "ping"]).output();
    while !answers().is_ok_and(|answer| answer.stdout.starts_with(b"PONG")) {
        if let Some(status) = server.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("the server ended before it was ready: {status}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (is_over, first) = (AtomicBool::new(false), server.id());
    let (output, mb) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0.0f64;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(megabytes(&descendants(first)));
                thread::sleep(LOOK_EVERY);
            }
            most
        });
        let load = format!("redis-benchmark -p {port} -t set,get -c 50 -d 100 -r 100000 --csv {load}");
        let output = Command::new("sh").args(["-c", &load]).output();
        is_over.store(true, Ordering::Relaxed);
        (output, watcher.join().unwrap_or(0.0))
    });
    let output = output.map_err(|error| format!("cannot start a shell: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rates: Vec<f64> =
        text.lines().skip(1).filter_map(|line| line.split('"').nth(3)?.parse().ok()).collect();
    match rates[..] {
        [set, get] => Ok(Run { per_s: 2.0 / (1.0 / set + 1.0 / get), mb }),
        _ => Err(format!("redis-benchmark said\n{text}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A process and all that came of it.
fn descendants(first: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![first];
    let mut next = 0;
    while let Some(&of) = found.get(next) {
        found.extend(all.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Memory of processes, of what several share a part each (Pss of proc_pid_smaps(5)).
fn megabytes(pids: &[u32]) -> f64 {
    let kilobytes = |pid: &u32| {
        let text = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("smaps_rollup")).ok()?;
        let line = text.lines().find(|line| line.starts_with("Pss:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    pids.iter().filter_map(kilobytes).sum::<f64>() / 1024.0
}
