//! One Apache under load: its configuration, its start and end, what clients saw, and what
//! its processes used and told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::session::{Session, is_installed};

/// Bytes of the files that are fetched, which are named for them.
pub const FILES: [(&str, u64); 4] = [("5K", 5_000), ("50K", 50_000), ("500K", 500_000), ("5M", 5_000_000)];
/// How many of a thousand requests are for each of them, where they are mixed.
pub const MIX_OF_1000: [u64; 4] = [850, 140, 9, 1];
/// What a mixture is called.
pub const MIXED: &str = "mix";
/// Most clients that there are at a time.
const CLIENTS_MAX: u32 = 64;
const START_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(60);
/// Of the times in /proc/PID/stat: the kernel's USER_HZ.
const TICKS_PER_S: f64 = 100.0;

/// How a server is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is.
    Native,
    /// With a forked child in place of each checkpoint, and nothing recorded.
    Forks,
    /// In a live session, without checkpoints.
    Live,
    /// In a live session, with three checkpoints for each request.
    Checkpoints,
    /// Likewise, but while a thread's checkpoint stands, others take none.
    Shared,
}

impl Way {
    pub fn title(self) -> &'static str {
        match self {
            Way::Native => "native",
            Way::Forks => "3 forks",
            Way::Live => "live",
            Way::Checkpoints => "live, 3 checkpoints",
            Way::Shared => "live, shared",
        }
    }

    /// What the module is told; native has none.
    fn directive(self) -> Option<&'static str> {
        match self {
            Way::Native => None,
            Way::Forks => Some("fork"),
            Way::Live => Some("off"),
            Way::Checkpoints => Some("each"),
            Way::Shared => Some("shared"),
        }
    }

    fn is_live(self) -> bool {
        matches!(self, Way::Live | Way::Checkpoints | Way::Shared)
    }

    /// How many the module must have taken for so many requests, at least.
    fn least_taken(self, requests: u64) -> u64 {
        match self {
            Way::Native | Way::Live => 0,
            Way::Forks | Way::Checkpoints => 3 * requests,
            Way::Shared => requests.min(3),
        }
    }
}

/// What clients saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub per_s: f64,
    pub median_ms: f64,
    pub requests: u64,
    /// Processors that the server kept busy.
    pub cores: f64,
}

/// What one server's processes told at their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub taken: u64,
    pub discarded: u64,
    pub failed: u64,
}

/// The command that installs what is missing, if something is.
pub fn is_missing() -> Option<String> {
    let needs = [("apache2", "apache2-bin"), ("wrk", "wrk"), ("apxs", "apache2-dev")];
    let packages: Vec<&str> =
        needs.iter().filter(|(program, _)| !is_installed(program)).map(|need| need.1).collect();
    (!packages.is_empty()).then(|| format!("apt-get install {}", packages.join(" ")))
}

/// The module and the files that are fetched, for all servers.
pub struct Site {
    directory: PathBuf,
    port: u16,
}

impl Site {
    pub fn prepare(session: &Session) -> Result<Site, String> {
        let directory = session.directory.join("apache");
        let html = directory.join("html");
        fs::create_dir_all(&html).map_err(|error| format!("cannot make {}: {error}", html.display()))?;
        for (name, bytes) in FILES {
            write(&html.join(name), &vec![b'x'; bytes as usize])?;
        }
        let mut bounds = MIX_OF_1000;
        for index in 1..bounds.len() {
            bounds[index] += bounds[index - 1];
        }
        let mut script = "request = function()\n  local chance = math.random(1000)\n".to_owned();
        for ((name, _), bound) in FILES.iter().zip(bounds) {
            script += &format!("  if chance <= {bound} then return wrk.format('GET', '/{name}') end\n");
        }
        write(&directory.join("mix.lua"), format!("{script}end\n").as_bytes())?;
        compile_module(&directory)?;
        Ok(Site { directory, port: session.port })
    }

    /// A connection for each request, as the paper's clients made.
    fn configuration(&self, mpm: &str, way: Way) -> String {
        let modules = "/usr/lib/apache2/modules";
        let root = self.directory.display();
        let sizes = match mpm {
            "prefork" => format!(
                "StartServers {CLIENTS_MAX}\nMinSpareServers {CLIENTS_MAX}\n\
                 MaxSpareServers {}\nMaxRequestWorkers {CLIENTS_MAX}",
                CLIENTS_MAX + 2
            ),
            _ => format!(
                "StartServers 2\nThreadsPerChild {}\nMaxRequestWorkers {CLIENTS_MAX}\n\
                 MinSpareThreads 1\nMaxSpareThreads {CLIENTS_MAX}",
                CLIENTS_MAX / 2
            ),
        };
        let checkpoints = way.directive().map_or(String::new(), |word| {
            format!("LoadModule checkpoints_module {root}/mod_checkpoints.so\nCheckpoints {word}\n")
        });
        format!(
            "LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\n\
             ServerRoot {root}\nDefaultRuntimeDir {root}\nServerName localhost\nPidFile {root}/httpd.pid\n\
             Listen 127.0.0.1:{}\nErrorLog {root}/error.log\nDocumentRoot {root}/html\n\
             User nobody\nGroup nogroup\nKeepAlive Off\n{sizes}\n{checkpoints}",
            self.port
        )
    }

    pub fn start(&self, session: &Session, mpm: &str, way: Way) -> Result<Server<'_>, String> {
        let configuration = self.directory.join("apache.conf");
        write(&configuration, self.configuration(mpm, way).as_bytes())?;
        write(&self.directory.join("error.log"), b"")?;
        let mut command = Command::new("setsid");
        if way.is_live() {
            command.arg(&session.tool).args([
                "live",
                "-q",
                "--shared-memory=keep",
                "--log-max",
                "256M",
                "--home",
            ]);
            command.arg(self.directory.join("home")).arg("--");
        }
        let out = self.directory.join("out");
        let output = fs::File::create(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let child = command
            .args(["apache2", "-DFOREGROUND", "-f"])
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot start setsid: {error}"))?;
        let mut server = Server { site: self, child, way, requests: 0 };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn url(&self, file: &str) -> String {
        format!("http://127.0.0.1:{}/{file}", self.port)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn compile_module(directory: &Path) -> Result<(), String> {
    let asked = |what: &str| -> Result<String, String> {
        let output = Command::new("apxs").args(["-q", what]).output();
        let output = output.map_err(|error| format!("cannot start apxs: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC"])
        .args(asked("EXTRA_CPPFLAGS")?.split_whitespace())
        .arg(format!("-I{}", asked("INCLUDEDIR")?))
        .arg(format!("-I{}", asked("APR_INCLUDEDIR")?))
        .arg("-iquote")
        .arg(here.join("../include"))
        .arg("-o")
        .arg(directory.join("mod_checkpoints.so"))
        .arg(here.join("apache/mod_checkpoints.c"))
        .status()
        .map_err(|error| format!("cannot start gcc: {error}"))?;
    if status.success() { Ok(()) } else { Err("apache/mod_checkpoints.c does not compile".to_owned()) }
}

/// One that runs, in a session (setsid) of its own.
pub struct Server<'a> {
    site: &'a Site,
    child: Child,
    way: Way,
    /// That were answered.
    requests: u64,
}

impl Server<'_> {
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let since = Instant::now();
        let answers = || {
            let url = self.site.url("5K");
            Command::new("curl").args(["-sf", "-o", "/dev/null", &url]).status().is_ok_and(|s| s.success())
        };
        while !answers() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || since.elapsed() > START_MAX {
                return Err(format!(
                    "{}: the server does not answer: {}",
                    self.way.title(),
                    self.last_words()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.requests = 1;
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = |name: &str| fs::read_to_string(self.site.directory.join(name)).unwrap_or_default();
        let (out, log) = (text("out"), text("error.log"));
        let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
        format!("{} {}", last(&out), last(&log))
    }

    /// So many clients fetch the file, or the mixture, again and again.
    pub fn load(&mut self, file: &str, clients: u32, seconds: u32) -> Result<Load, String> {
        let mut command = Command::new("wrk");
        command.args(["-t", "1", "--latency", "--timeout", "60s"]);
        command.args(["-c", &clients.to_string(), "-d", &format!("{seconds}s")]);
        if file == MIXED {
            command.arg("-s").arg(self.site.directory.join("mix.lua"));
        }
        let (before, since) = (self.cpu_s(), Instant::now());
        let output = command
            .arg(self.site.url(file))
            .output()
            .map_err(|error| format!("cannot start wrk: {error}"))?;
        let cores = (self.cpu_s() - before) / since.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&output.stdout);
        let load = read_load(&text, cores).map_err(|problem| format!("{}: {problem}", self.way.title()))?;
        self.requests += load.requests;
        Ok(load)
    }

    /// Seconds that all processes of its session have computed, ended ones with those that
    /// waited for them.
    fn cpu_s(&self) -> f64 {
        let own = self.child.id().to_string();
        let Ok(entries) = fs::read_dir("/proc") else { return 0.0 };
        let stats = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter_map(|stat| ticks_of(&stat, &own)).sum::<f64>() / TICKS_PER_S
    }

    /// Ends it after what it is at, as clients that ended leave requests behind; what its
    /// processes told.
    pub fn stop(mut self) -> Result<Told, String> {
        let pid = fs::read_to_string(self.site.directory.join("httpd.pid"))
            .map_err(|error| format!("httpd.pid: {error}"))?;
        let _ = Command::new("kill").args(["-WINCH", pid.trim()]).status();
        let since = Instant::now();
        while self.child.try_wait().map_err(|error| error.to_string())?.is_none() {
            if since.elapsed() > END_MAX {
                return Err(format!("{}: the server does not end", self.way.title()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = fs::read_to_string(self.site.directory.join("error.log")).unwrap_or_default();
        let told = read_told(&log);
        let (title, requests) = (self.way.title(), self.requests);
        if told.failed != 0 || told.discarded != told.taken || told.taken < self.way.least_taken(requests) {
            return Err(format!("{title}: {requests} requests, and {told:?}"));
        }
        Ok(told)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // What has ended is not there any more; else all of its session ends.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = Command::new("pkill").args(["-KILL", "-s", &self.child.id().to_string()]).status();
            let _ = self.child.wait();
        }
    }
}

/// Ticks of a process and of the children that it waited for, if it is of this session.
fn ticks_of(stat: &str, session: &str) -> Option<f64> {
    // Behind the name, which may hold anything: state, parent, group, session.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let times = fields.get(11..15)?;
    (fields[3] == session).then(|| times.iter().filter_map(|field| field.parse::<f64>().ok()).sum())
}

/// What wrk printed; an error if a request was not answered well.
fn read_load(text: &str, cores: f64) -> Result<Load, String> {
    if let Some(line) = text.lines().find(|line| line.contains("Socket errors") || line.contains("Non-2xx")) {
        return Err(format!("requests failed: {}", line.trim()));
    }
    let after = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let per_s = after("Requests/sec:").and_then(|number| number.parse().ok());
    let median_ms = after("50%").and_then(milliseconds);
    match (per_s, median_ms, requests) {
        (Some(per_s), Some(median_ms), Some(requests)) => Ok(Load { per_s, median_ms, requests, cores }),
        _ => Err(format!("wrk tells no rate: {text:?}")),
    }
}

fn milliseconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|letter: char| letter.is_alphabetic())?;
    let number: f64 = text[..unit_at].parse().ok()?;
    let ms = match &text[unit_at..] {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        "m" => 60_000.0,
        _ => return None,
    };
    Some(number * ms)
}

/// Adds up the lines of all processes.
fn read_told(log: &str) -> Told {
    let mut all = Told::default();
    for line in log.lines().filter_map(|line| line.split_once("checkpoints: ")) {
        for (number, word) in line.1.split(", ").filter_map(|part| part.split_once(' ')) {
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "taken" => all.taken += number,
                "discarded" => all.discarded += number,
                "failed" => all.failed += number,
                _ => {}
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &str = "Running 1s test @ http://127.0.0.1:8099/5K
  Latency Distribution
     50%  970.00us
     99%    4.59ms
  1234 requests in 1.01s, 6.19MB read
Requests/sec:   1222.50
";

    #[test]
    fn a_load_is_read_and_one_with_failures_is_none() {
        let load = Load { per_s: 1222.5, median_ms: 0.97, requests: 1234, cores: 1.5 };
        assert_eq!(read_load(LOAD, 1.5), Ok(load));
        let failed = format!("{LOAD}  Non-2xx or 3xx responses: 3\n");
        assert!(read_load(&failed, 1.5).is_err());
        assert!(read_load("", 1.5).is_err());
        assert_eq!(milliseconds("1.50s"), Some(1500.0));
    }

    #[test]
    fn what_processes_told_is_added_up() {
        let line =
            "[notice] [pid 1] checkpoints: 30 taken, 29 discarded, 4 left out, 1 failed, last errno 16\n";
        let told = read_told(&format!("begins\n{line}{line}"));
        assert_eq!(told, Told { taken: 60, discarded: 58, failed: 2 });
    }

    #[test]
    fn times_are_those_of_the_session() {
        let stat = "7 (a) b) S 1 7 4711 0 -1 0 0 0 0 0 10 20 30 40 20 0";
        assert_eq!(ticks_of(stat, "4711"), Some(100.0));
        assert_eq!(ticks_of(stat, "7"), None);
    }
}
