//! A server's requests while it saves: with its data in a region, and as it is, by fork.
//!
//! Requests are sent at fixed times, whether or not the one before was answered by then, and
//! their latency counts from that time: a pause is in all requests that should have been
//! answered in it. The saves follow one another without pause.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::measure::{median, quantile};
use crate::output::{Failure, say};
use crate::task::{become_important, wait_until};

/// Between two requests.
const PERIOD: Duration = Duration::from_micros(250);
/// Bytes of the region: enough for a million keys with such values.
const REGION_BYTES: u64 = 384 << 20;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Between two looks at whether a save is over.
const LOOK: Duration = Duration::from_millis(20);
/// Requests that are sent together when keys are loaded.
const BATCH: usize = 1000;

/// What is measured.
pub struct Load {
    pub keys: usize,
    /// Requests of one round.
    pub requests: usize,
    pub rounds: usize,
}

/// What one server's requests took, in microseconds, in each round: without saves, and with them.
struct Measured<'a> {
    /// What keys begin with.
    name: &'a str,
    server: Server,
    latencies: [Vec<Vec<f64>>; 2],
    saves: usize,
}

/// Measures both servers by turns, so that what else the machine does is in the figures of both. Keys of the
/// mirror's have no name before them. Each figure is the median of the rounds, the worst one is of all.
pub fn compare(
    mirror: &Path,
    fork: &Path,
    folder: &Path,
    load: &Load,
) -> Result<Map<String, Value>, Failure> {
    let failed = |error: std::io::Error| format!("the server: {error}");
    let mut both = Vec::new();
    for (name, program) in [("", mirror), ("fork_", fork)] {
        let server = Server::start(program, folder, name)?;
        server.fill(load.keys).and_then(|()| server.save_once()).map_err(failed)?;
        both.push(Measured { name, server, latencies: Default::default(), saves: 0 });
    }
    for _ in 0..load.rounds {
        for measured in &mut both {
            for saves in [false, true] {
                let (samples, count) = run(&measured.server, load, saves).map_err(failed)?;
                measured.latencies[usize::from(saves)].push(samples);
                measured.saves += count;
            }
        }
    }
    let mut keys = Map::new();
    say(format_args!(
        "{:22} {:>9} {:>9} {:>9} {:>9}  saves",
        "server", "p50 us", "p99 us", "p99.9 us", "max us"
    ))?;
    let mut p999 = Vec::new();
    for measured in &both {
        if measured.saves == 0 {
            return Err(format!("{}: no save ended", measured.server.socket.display()).into());
        }
        measured.tell("quiet_", 0, &mut keys)?;
        p999.push(measured.tell("", 1, &mut keys)?);
        let peak = memory(&measured.server, load).map_err(failed)?;
        say(format_args!("{:22} {peak:.0} MiB while saving", ""))?;
        keys.insert(format!("{}server_memory_mib", measured.name), json!(peak.round()));
    }
    keys.insert("server_p999_ratio".into(), json!((p999[0] / p999[1] * 1000.0).round() / 1000.0));
    keys.insert("fork_server_p999_ratio".into(), json!(1.0));
    Ok(keys)
}

impl Measured<'_> {
    /// Prints the latencies, and puts them among the keys; returns the 99.9th percentile.
    fn tell(&self, kind: &str, saves: usize, keys: &mut Map<String, Value>) -> Result<f64, Failure> {
        let rounds = &self.latencies[saves];
        let of = |part: f64| median(&rounds.iter().map(|round| quantile(round, part)).collect::<Vec<_>>());
        let max = rounds.iter().flatten().copied().fold(0.0, f64::max);
        let values = [of(0.5), of(0.99), of(0.999), max];
        let title = format!("{}server{}", self.name, if saves == 0 { ", no saves" } else { "" });
        let [p50, p99, p999, max] = values;
        let count = if saves == 0 { 0 } else { self.saves };
        say(format_args!("{title:22} {p50:9.1} {p99:9.1} {p999:9.1} {max:9.1}  {count}"))?;
        for (part, value) in ["p50", "p99", "p999", "max"].iter().zip(values) {
            let key = format!("{}server_{kind}{part}_us", self.name);
            keys.insert(key, json!((value * 10.0).round() / 10.0));
        }
        Ok(p999)
    }
}

/// A running server, which ends with it.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(program: &Path, folder: &Path, name: &str) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("{} cannot be started: {error}", program.display());
        let socket = folder.join(format!("{name}server.sock"));
        let mut command = Command::new(program.canonicalize().map_err(failed)?);
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).arg("--dir").arg(folder);
        if name.is_empty() {
            command
                .env("REDIS_MIRROR", folder.join("server"))
                .env("REDIS_MIRROR_BYTES", REGION_BYTES.to_string());
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut server = Server { child, socket };
        while UnixStream::connect(&server.socket).is_err() {
            if server.child.try_wait().map_err(failed)?.is_some() {
                return Err(format!("{} ended before it could be connected to", program.display()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        server.become_important();
        Ok(server)
    }

    /// The thread that answers gets a processor when there is a request, as on a machine that is not
    /// shared with others. What it forks is an ordinary process.
    fn become_important(&self) {
        // SAFETY: changes how the thread is scheduled; where that is refused it is an ordinary one.
        unsafe {
            let parameter = libc::sched_param { sched_priority: 1 };
            let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
            libc::sched_setscheduler(self.child.id() as i32, policy, &parameter);
        }
    }

    fn connect(&self) -> std::io::Result<Connection> {
        let stream = UnixStream::connect(&self.socket)?;
        Ok(Connection { answers: BufReader::new(stream.try_clone()?), stream })
    }

    fn fill(&self, keys: usize) -> std::io::Result<()> {
        let mut connection = self.connect()?;
        let value = "v".repeat(VALUE_BYTES);
        for first in (0..keys).step_by(BATCH) {
            let batch = first..(first + BATCH).min(keys);
            let text: String =
                batch.clone().map(|key| request(&["SET", &format!("key:{key}"), &value])).collect();
            connection.stream.write_all(text.as_bytes())?;
            for _ in batch {
                connection.answer()?;
            }
        }
        Ok(())
    }

    fn save_once(&self) -> std::io::Result<()> {
        let mut connection = self.connect()?;
        connection.ask("BGSAVE")?;
        while connection.is_saving()? {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

struct Connection {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

fn request(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
    text
}

impl Connection {
    /// An answer that is a status, a number or a string.
    fn answer(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let wrong = || std::io::Error::other(format!("the server answered {line:?}"));
        match (line.as_bytes().first(), line.get(1..).map(str::trim_end)) {
            (Some(b'+' | b':'), Some(text)) => Ok(text.to_owned()),
            (Some(b'$'), Some(count)) => {
                let count: usize = count.parse().map_err(|_| wrong())?;
                let mut bytes = vec![0; count + 2];
                self.answers.read_exact(&mut bytes)?;
                Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
            }
            _ => Err(wrong()),
        }
    }

    fn ask(&mut self, command: &str) -> std::io::Result<String> {
        let words: Vec<&str> = command.split(' ').collect();
        self.stream.write_all(request(&words).as_bytes())?;
        self.answer()
    }

    fn is_saving(&mut self) -> std::io::Result<bool> {
        Ok(self.ask("INFO persistence")?.contains("rdb_bgsave_in_progress:1"))
    }
}

/// Sends requests; returns their latencies in microseconds, and how many saves ended meanwhile.
fn run(server: &Server, load: &Load, saves: bool) -> std::io::Result<(Vec<f64>, usize)> {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| looks(server, &ends, saves));
        let requests = scope.spawn(|| requests(server, load));
        let samples = requests.join().expect("it only sends");
        ends.store(true, SeqCst);
        Ok((samples?, beside.join().expect("it only asks")?))
    })
}

/// Saves, again and again; without, asks the same questions.
fn looks(server: &Server, ends: &AtomicBool, saves: bool) -> std::io::Result<usize> {
    let mut connection = server.connect()?;
    let (mut count, mut is_under_way) = (0, false);
    while !ends.load(SeqCst) {
        let is_saving = connection.is_saving()?;
        if saves && !is_saving {
            count += usize::from(is_under_way);
            connection.ask("BGSAVE")?;
            is_under_way = true;
        }
        std::thread::sleep(LOOK);
    }
    while connection.is_saving()? {
        std::thread::sleep(LOOK);
    }
    Ok(count)
}

fn requests(server: &Server, load: &Load) -> std::io::Result<Vec<f64>> {
    let mut connection = server.connect()?;
    become_important();
    let value = "w".repeat(VALUE_BYTES);
    let (mut samples, mut seed) = (Vec::with_capacity(load.requests), 1u64);
    let mut wanted = Instant::now() + PERIOD;
    for round in 0..load.requests {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = format!("key:{}", (seed >> 33) as usize % load.keys);
        let text = if round % 2 == 0 { request(&["SET", &key, &value]) } else { request(&["GET", &key]) };
        wait_until(wanted);
        connection.stream.write_all(text.as_bytes())?;
        connection.answer()?;
        samples.push(wanted.elapsed().as_secs_f64() * 1e6);
        wanted += PERIOD;
    }
    Ok(samples)
}

/// The most MiB that the server and its children have together while requests and saves go on.
fn memory(server: &Server, load: &Load) -> std::io::Result<f64> {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| looks(server, &ends, true));
        let requests = scope.spawn(move || requests(server, load));
        let mut peak: f64 = 0.0;
        while !requests.is_finished() {
            peak = peak.max(proportional_mib(server.child.id()));
            std::thread::sleep(LOOK);
        }
        requests.join().expect("it only sends")?;
        ends.store(true, SeqCst);
        beside.join().expect("it only asks")?;
        Ok(peak)
    })
}

/// Pages that several of the processes have count once (`Pss`, proc_pid_smaps(5)).
fn proportional_mib(process: u32) -> f64 {
    let own = |process: u32| -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0)
    };
    let children =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    (own(process) + children.map(own).sum::<f64>()) / 1024.0
}
