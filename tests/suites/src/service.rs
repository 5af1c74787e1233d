//! Servers, as rows of a table: started under the tool, loaded from outside of
//! the recording, stopped in their normal way, replayed.
//!
//! What clients see is compared with what they should see; native runs print
//! other times and pids, so only the replay is compared with the recording
//! byte by byte. A phase that does not end in time fails the case, and names
//! itself.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

use crate::TestResult;
use crate::leftovers::Leftovers;
use crate::outcome::{Outcome, compare};
use crate::program::{CHECK_INTERVAL, repeatedly, unless_missing};
use crate::run::{Running, User, plain_environment, run, tail};
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use crate::tool::{Mode, tests_run_as_root};

/// How long each of the phases before the replay may take.
const PHASE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long the replay may take.
const REPLAY_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two attempts to connect to a server that starts.
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

/// How one finds out that a server has started.
#[derive(Clone, Copy)]
pub enum Listens {
    /// On `{port}` of the loopback interface.
    Port,
    /// On this socket in its directory.
    Socket(&'static str),
}

/// One row. All scripts are run by bash, in the same fresh directory, by the
/// same user; only `start` is recorded. It writes its pid to the file `pid`.
#[derive(Clone, Copy)]
pub struct Service {
    pub name: &'static str,
    pub needs: &'static [&'static str],
    /// Run once, in the directory `{built}`, by whoever runs the tests.
    pub build: &'static str,
    pub setup: &'static str,
    /// A program in the foreground, with its arguments.
    pub start: &'static str,
    pub listens: Listens,
    /// Ends with 0 if clients saw what they should see.
    pub load: &'static str,
    pub stop: &'static str,
    /// How the server ends when it is stopped so.
    pub code: i32,
    /// Runs as root, and so in no test that does not.
    pub as_root: bool,
    /// Recorded with checksums of the server's memory.
    pub checked: bool,
    /// Left out of a quick run.
    pub slow: bool,
}

impl Service {
    pub const PLAIN: Service = Service {
        name: "",
        needs: &[],
        build: "",
        setup: "",
        start: "",
        listens: Listens::Port,
        load: "",
        stop: "kill -TERM $(cat pid)",
        code: 0,
        as_root: false,
        checked: false,
        slow: false,
    };

    fn user(&self) -> User {
        if self.as_root || !tests_run_as_root() { User::Current } else { User::Nobody }
    }
}

/// A trial for each row.
pub fn service_trials(surroundings: &Arc<Surroundings>, services: &'static [Service]) -> Vec<Trial> {
    let is_root = tests_run_as_root();
    let trial_of = |service: &'static Service| {
        let surroundings = Arc::clone(surroundings);
        let trial = Trial::test(format!("{}::{}", service.name, service.user().name(is_root)), move || {
            check_service(&surroundings, service).map_err(Failed::from)
        });
        if service.as_root && !is_root {
            return trial.with_kind("needs root").with_ignored_flag(true);
        }
        unless_missing(trial, service.needs, service.slow)
    };
    services.iter().map(trial_of).collect()
}

fn check_service(surroundings: &Surroundings, service: &Service) -> TestResult {
    let mut scratch = Scratch::new(service.name)?;
    let built = surroundings.build(service.build, &scratch)?;
    let round = Round { surroundings, service, scratch: &scratch, built };
    if surroundings.tool.mode == Mode::Native {
        return repeatedly(|_| round.serve(None).map(drop)).inspect_err(|_| scratch.keep_if_asked());
    }
    repeatedly(|check| round.check(check || service.checked)).inspect_err(|_| scratch.keep_if_asked())
}

/// One service in one directory.
struct Round<'a> {
    surroundings: &'a Surroundings,
    service: &'a Service,
    scratch: &'a Scratch,
    built: (&'static str, String),
}

/// How a recording is made.
struct Recording<'a> {
    trace: &'a Path,
    with_checks: bool,
}

impl Round<'_> {
    fn check(&self, with_checks: bool) -> TestResult {
        let trace = self.scratch.join("trace");
        self.scratch.remove("trace")?;
        let recorded =
            self.serve(Some(&Recording { trace: &trace, with_checks })).map_err(|error| {
                match self.serve(None) {
                    Ok(_) => format!("recorded: {error}\n(a native run passes)"),
                    Err(native) => format!("recorded: {error}\n(a native run fails too: {native})"),
                }
            })?;
        // Replay has nothing of the server's but the trace.
        self.scratch.fresh_directory("run")?;
        let home = self.scratch.fresh_directory("home")?;
        let args = ["replay".into(), "-q".into(), trace.into()];
        let mut command = self.surroundings.tool.command(self.service.user(), &home, &args);
        command.current_dir(self.scratch.fresh_directory("elsewhere")?);
        let _leftovers = Leftovers::of(self.scratch.path());
        let replayed = run(command, REPLAY_TIME_MAX).map_err(|error| format!("replay: {error}"))?;
        compare("recorded", &recorded, "replayed", &replayed)
    }

    /// Starts, loads and stops the server; what it printed, if all went well.
    fn serve(&self, recording: Option<&Recording<'_>>) -> Result<Outcome, String> {
        let directory = self.scratch.fresh_directory("run")?;
        let home = self.scratch.fresh_directory("home")?;
        let port = free_port()?;
        let own = [self.built.clone(), ("{port}", port.to_string())];
        let script = |text: &str| {
            let mut command = self.service.user().command("bash".as_ref());
            command.args(["-c", &self.surroundings.fill(text, &own)]).current_dir(&directory);
            plain_environment(&mut command, &home);
            command
        };
        let phase = |name: &str, text: &str| {
            let strict = format!("set -euo pipefail\n. {{workloads}}/load.sh\n{text}");
            let outcome = run(script(&strict), PHASE_TIME_MAX).map_err(|error| format!("{name}: {error}"))?;
            if outcome.code == 0 {
                return Ok(());
            }
            let (out, err) = (tail(&outcome.stdout), tail(&outcome.stderr));
            Err(format!("{name} ended with {}\nstdout ends: {out}\nstderr ends: {err}", outcome.code))
        };

        // Dropped last: what a failure left is found by its directory.
        let _leftovers = Leftovers::of(self.scratch.path());
        phase("setup", self.service.setup)?;
        let start = format!("echo $$ > pid; exec {}", self.service.start);
        let command = match recording {
            None => script(&start),
            Some(recording) => {
                let mut args = vec!["record".into(), "-q".into(), "-o".into(), recording.trace.into()];
                if recording.with_checks {
                    args.extend(["--check".into(), CHECK_INTERVAL.into()]);
                }
                args.extend(["--".into(), "bash".into(), "-c".into()]);
                args.push(self.surroundings.fill(&start, &own).into());
                let mut command = self.surroundings.tool.command(self.service.user(), &home, &args);
                command.current_dir(&directory);
                command
            }
        };
        let mut server = Running::start(command)?;
        let loaded = self
            .wait_until_it_listens(&mut server, &directory, port)
            .and_then(|()| phase("load", self.service.load))
            .and_then(|()| phase("stop", self.service.stop));
        if let Err(error) = loaded {
            return Err(format!("{error}\nthe server's {}", server.kill()));
        }
        let outcome = server.end(PHASE_TIME_MAX).map_err(|error| format!("end of the server: {error}"))?;
        if outcome.code != self.service.code {
            let (out, err) = (tail(&outcome.stdout), tail(&outcome.stderr));
            return Err(format!(
                "the server ended with {} instead of {}\nstdout ends: {out}\nstderr ends: {err}",
                outcome.code, self.service.code
            ));
        }
        Ok(outcome)
    }

    fn wait_until_it_listens(&self, server: &mut Running, directory: &Path, port: u16) -> TestResult {
        let socket: PathBuf;
        let connects: &dyn Fn() -> bool = match self.service.listens {
            Listens::Port => &|| TcpStream::connect(("127.0.0.1", port)).is_ok(),
            Listens::Socket(name) => {
                socket = directory.join(name);
                &|| UnixStream::connect(&socket).is_ok()
            }
        };
        let start = Instant::now();
        while !connects() {
            if server.has_ended() {
                return Err("start: the server ended before it listened".into());
            }
            if start.elapsed() > PHASE_TIME_MAX {
                return Err(format!("start: nobody listens after {} s", PHASE_TIME_MAX.as_secs()));
            }
            thread::sleep(CONNECT_INTERVAL);
        }
        Ok(())
    }
}

/// A port that nobody listens on, below those that the kernel gives to clients:
/// another test's client cannot take it before the server does.
fn free_port() -> Result<u16, String> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id() % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (own + number) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}
