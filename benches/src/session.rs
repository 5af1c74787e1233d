//! Where runs happen: compiled micro programs, fresh directories, and one
//! function for each way to run a program.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Options;
use crate::limited::{self, Ended, RUN_TIME_MAX};
use crate::measure::median;
use crate::rows::{Row, START_UP, Target, Work, all};

const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --";

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub wall: Duration,
    /// The inner loop's time, as the program itself measured it.
    pub inner: Option<Duration>,
    /// A server's answers per second, as its clients counted them.
    pub per_s: Option<f64>,
}

/// How a program that does nothing is replayed, for subtraction.
pub struct StartUp {
    pub replay: Duration,
}

/// A program with its inputs in place, ready to be run again and again.
pub struct Ready {
    pub argv: Vec<OsString>,
    pub prepare: String,
    pub inputs: PathBuf,
    /// Put before the program when it runs natively.
    native_before: Vec<OsString>,
    /// A script that runs its arguments as a server, loads and stops it.
    driver: Option<String>,
}

pub struct Session {
    pub directory: PathBuf,
    pub tool: PathBuf,
    pub rounds: u32,
    pub quick: bool,
    pub with_peers: bool,
    /// Where servers listen, one after the other.
    pub port: u16,
    /// What makes a command run as nobody, where this is root.
    as_nobody: &'static str,
}

impl Session {
    pub fn new(options: &Options) -> Result<Session, String> {
        let tool = match &options.tool {
            Some(path) => path.clone(),
            None => own_directory()?.join("retrovane"),
        };
        if !tool.exists() {
            return Err(format!("no tool at {}: `cargo build --release` makes it", tool.display()));
        }
        let tool = fs::canonicalize(&tool).map_err(|error| error.to_string())?;
        let directory = std::env::temp_dir().join(format!("retrovane-bench-{}", std::process::id()));
        let session = Session {
            directory,
            tool,
            rounds: options.rounds.max(1),
            quick: options.quick,
            with_peers: !options.no_peers,
            port: free_port()?,
            as_nobody: if is_root() { AS_NOBODY } else { "" },
        };
        fresh(&session.directory)?;
        Ok(session)
    }

    fn scale(&self) -> &'static str {
        if self.quick { "10" } else { "1" }
    }

    /// Compiles or generates what the row needs.
    pub fn ready(&self, row: &Row) -> Result<Ready, String> {
        let name = row.name;
        let native_before = match row.target {
            Target::OneCore { .. } => on_one_core()?,
            Target::Ratio { .. } | Target::MoreMs { .. } | Target::Followed { .. } | Target::Rate { .. } => {
                Vec::new()
            }
        };
        let inputs = self.directory.join("inputs");
        fresh(&inputs)?;
        match &row.work {
            Work::Micro { source, count, quick_count, .. } => {
                let program = self.directory.join(source);
                compile(source, &program)?;
                let count = if self.quick { quick_count } else { count };
                Ok(Ready {
                    argv: vec![program.into(), count.to_string().into()],
                    prepare: String::new(),
                    inputs,
                    native_before,
                    driver: None,
                })
            }
            Work::Shell { needs, inputs: script, prepare, command } => {
                if !is_installed(needs) {
                    return Err(format!("{name} needs {needs}, which is not installed"));
                }
                self.shell(script, &inputs, &inputs)?;
                Ok(Ready {
                    argv: ["sh", "-c", command].map(OsString::from).to_vec(),
                    prepare: (*prepare).to_owned(),
                    inputs,
                    native_before,
                    driver: None,
                })
            }
            Work::Server(server) => {
                if !is_installed(server.needs) {
                    return Err(format!("{name} needs {}, which is not installed", server.needs));
                }
                let start = format!("echo $$ > pid; exec {}", server.start);
                Ok(Ready {
                    argv: ["sh".into(), "-c".into(), start.into()].to_vec(),
                    prepare: server.prepare.to_owned(),
                    inputs,
                    native_before,
                    driver: Some(server.driver()),
                })
            }
        }
    }

    /// Compiles a program of `micro`, which has no arguments yet.
    pub fn ready_micro(&self, source: &str) -> Result<Ready, String> {
        let program = self.directory.join(source);
        if !program.exists() {
            compile(source, &program)?;
        }
        Ok(Ready {
            argv: vec![program.into()],
            prepare: String::new(),
            inputs: self.directory.join("inputs"),
            native_before: Vec::new(),
            driver: None,
        })
    }

    fn environment(&self, command: &mut Command, inputs: &Path) {
        command
            .env("IN", inputs)
            .env("SCALE", self.scale())
            .env("RETROVANE_HOME", self.directory.join("home"))
            .env("PORT", self.port.to_string())
            .env("AS", self.as_nobody)
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }

    fn shell(&self, script: &str, directory: &Path, inputs: &Path) -> Result<(), String> {
        if script.is_empty() {
            return Ok(());
        }
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(directory);
        self.environment(&mut command, inputs);
        let status = command.status().map_err(|error| format!("cannot start sh: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("a preparation failed: {status}")) }
    }

    /// The directory of the latest recording.
    pub fn trace(&self) -> PathBuf {
        self.directory.join("trace")
    }

    pub fn native(&self, ready: &Ready) -> Result<Taken, String> {
        self.timed(ready, &[&ready.native_before[..], &ready.argv].concat())
    }

    pub fn recorded(&self, ready: &Ready) -> Result<Taken, String> {
        let trace = self.trace();
        remove(&trace)?;
        let mut argv: Vec<OsString> = vec![self.tool.clone().into(), "record".into(), "-q".into()];
        argv.extend(["-o".into(), trace.into(), "--".into()]);
        argv.extend(ready.argv.iter().cloned());
        self.timed(ready, &argv)
    }

    pub fn replayed(&self, ready: &Ready) -> Result<Taken, String> {
        let argv: [OsString; 4] =
            [self.tool.clone().into(), "replay".into(), "-q".into(), self.trace().into()];
        fresh(&self.run_directory())?;
        self.taken(ready, &argv, RUN_TIME_MAX)
    }

    fn run_directory(&self) -> PathBuf {
        self.directory.join("run")
    }

    /// Runs in a fresh directory, a server with its load.
    pub fn timed(&self, ready: &Ready, argv: &[OsString]) -> Result<Taken, String> {
        self.timed_within(ready, argv, RUN_TIME_MAX)
    }

    /// The same, with another limit of time.
    pub fn timed_within(
        &self,
        ready: &Ready,
        argv: &[OsString],
        time_max: Duration,
    ) -> Result<Taken, String> {
        let directory = self.run_directory();
        fresh(&directory)?;
        self.shell(&ready.prepare, &directory, &ready.inputs)?;
        let Some(driver) = &ready.driver else {
            return self.taken(ready, argv, time_max);
        };
        let driven = ["sh", "-ec", driver, "driver"].map(OsString::from);
        let mut taken = self.taken(ready, &[&driven[..], argv].concat(), time_max)?;
        let rate = fs::read_to_string(directory.join("rate")).unwrap_or_default();
        let per_s = rate.trim().parse().map_err(|_| format!("the load tells no rate: {rate:?}"))?;
        taken.per_s = Some(per_s);
        Ok(taken)
    }

    /// The clock covers the process only.
    fn taken(&self, ready: &Ready, argv: &[OsString], time_max: Duration) -> Result<Taken, String> {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(self.run_directory());
        self.environment(&mut command, &ready.inputs);
        let Ended { status, stderr, wall } = limited::run(&mut command, time_max)?;
        if !status.success() {
            let last = stderr.lines().last().unwrap_or_default();
            return Err(format!("{status}: {last}"));
        }
        let inner = stderr
            .lines()
            .find_map(|line| line.strip_prefix("inner_ns "))
            .and_then(|number| number.parse().ok())
            .map(Duration::from_nanos);
        Ok(Taken { wall, inner, per_s: None })
    }

    /// Bytes that the program and its children read, by one more native run:
    /// the kernel adds the counts of children that were waited for.
    pub fn bytes_read(&self, ready: &Ready) -> Option<u64> {
        if ready.driver.is_some() {
            return None;
        }
        let count = self.directory.join("io");
        let script = "\"$@\" > /dev/null 2>&1; while read key value; do \
                      [ $key = rchar: ] && echo $value > $COUNT; done < /proc/$$/io";
        let directory = self.run_directory();
        fresh(&directory).ok()?;
        self.shell(&ready.prepare, &directory, &ready.inputs).ok()?;
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(&ready.argv).env("COUNT", &count).current_dir(&directory);
        self.environment(&mut command, &ready.inputs);
        limited::run(&mut command, RUN_TIME_MAX).ok()?;
        fs::read_to_string(&count).ok()?.trim().parse().ok()
    }

    /// The replay of a program that does nothing.
    pub fn start_up_times(&self) -> Result<StartUp, String> {
        let row = all().find(|row| row.name == START_UP).expect("the table has a row for start-up");
        let ready = self.ready(row)?;
        self.recorded(&ready).map_err(|error| format!("recording a trivial program: {error}"))?;
        let mut walls = Vec::new();
        for _ in 0..self.rounds {
            let taken =
                self.replayed(&ready).map_err(|error| format!("replaying a trivial program: {error}"))?;
            walls.push(taken.wall.as_secs_f64());
        }
        Ok(StartUp { replay: Duration::from_secs_f64(median(&walls)) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What stays behind lies in the temporary directory.
        let _ = remove(&self.directory);
    }
}

fn own_directory() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.parent().expect("a program lies in a directory").to_path_buf())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("no port is free: {error}"))
}

/// What pins a command to the first core that this process may use.
fn on_one_core() -> Result<Vec<OsString>, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.and_then(|list| list.trim().split([',', '-']).next()).unwrap_or("0");
    Ok(["taskset", "-c", first].map(OsString::from).to_vec())
}

fn compile(source: &str, program: &Path) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("micro").join(format!("{source}.c"));
    let status = Command::new("gcc")
        .args(["-O2", "-Wall", "-pthread", "-o"])
        .arg(program)
        .arg(&file)
        .status()
        .map_err(|error| format!("cannot start gcc: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cannot compile {}", file.display())) }
}

pub fn is_installed(program: &str) -> bool {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        .split(':')
        .any(|directory| Path::new(directory).join(program).exists())
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", directory.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn fresh(directory: &Path) -> Result<(), String> {
    remove(directory)?;
    fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))
}
