//! Runs with a limit of time, of which nothing is left.
//!
//! A process group is not enough: gdb gives what it runs a group of its own, daemons make sessions, and a
//! child that outlives them keeps the pipe that is read. So a run is known by a variable of its
//! environment, which all of its processes have, and whoever has it is killed when the run is over.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a run may take.
pub const RUN_TIME_MAX: Duration = Duration::from_secs(180);
/// The same of another tool, of which it is one run.
pub const PEER_TIME_MAX: Duration = Duration::from_secs(60);
/// What those that hear of the end may take before they are killed.
const TO_END: Duration = Duration::from_secs(1);
/// Killed processes are gone by then.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Name of the variable; its value is of this process and of the run.
const MARK: &str = "RETROVANE_BENCH_RUN";
static RUNS: AtomicU32 = AtomicU32::new(0);

/// How a run ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
    /// From its start to the end of its first process.
    pub wall: Duration,
}

/// Runs the command to the end of its first process, and ends whatever else there is of it.
///
/// # Errors
/// In words: it cannot be started, or its time is over.
pub fn run(command: &mut Command, time_max: Duration) -> Result<Ended, String> {
    let run = Run::mark(command);
    let start = Instant::now();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    let mut pipe = child.stderr.take().expect("stderr is piped");
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that fails yields what came before.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    });
    let (sender, end) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let status = child.wait();
        // Nobody listens any more when the limit has passed.
        let _ = sender.send((start.elapsed(), status));
    });
    let ended = end.recv_timeout(time_max);
    if ended.is_err() {
        // First what a driver can act upon.
        run.signal("TERM");
        thread::sleep(TO_END);
    }
    run.end();
    // All that could hold the pipe, or be waited for, is gone.
    let bytes = reading.join().map_err(|_| "reading what a run says failed")?;
    waiting.join().map_err(|_| "waiting for a run failed")?;
    let (wall, status) = ended.map_err(|_| format!("no end after {} s", time_max.as_secs()))?;
    let status = status.map_err(|error| error.to_string())?;
    Ok(Ended { status, stderr: String::from_utf8_lossy(&bytes).into_owned(), wall })
}

/// The processes of one run.
struct Run {
    mark: Vec<u8>,
}

impl Run {
    fn mark(command: &mut Command) -> Run {
        let value = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        command.env(MARK, &value);
        Run { mark: format!("{MARK}={value}").into_bytes() }
    }

    /// Those that there are. Of other users' processes the environment cannot be read, but by root.
    fn pids(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|pid| {
                environment(pid).is_some_and(|environment| {
                    environment.split(|byte| *byte == 0).any(|variable| variable == self.mark)
                })
            })
            .collect()
    }

    /// Returns whether there were any.
    fn signal(&self, signal: &str) -> bool {
        let pids = self.pids();
        if !pids.is_empty() {
            // Some may have gone by themselves.
            let kill =
                Command::new("kill").arg(format!("-{signal}")).args(&pids).stderr(Stdio::null()).status();
            drop(kill);
        }
        !pids.is_empty()
    }

    /// Kills those that there are until there are none.
    fn end(&self) {
        let start = Instant::now();
        while self.signal("KILL") && start.elapsed() < KILLED_WITHIN {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A process' environment as it was at its last execve; none where it is gone or not to be read.
///
/// In the middle of an execve the process has its new memory, and the kernel does not yet say where in it
/// the environment lies: proc_pid_environ(5) is empty then. An end of the run at such a moment overlooked
/// the process, so what is read is what it has when the call is over.
fn environment(pid: &str) -> Option<Vec<u8>> {
    let start = Instant::now();
    loop {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !environment.is_empty() || has_none(pid) || start.elapsed() > KILLED_WITHIN {
            return Some(environment);
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Whether the process has no environment, at one moment of its last image: no memory either (threads of the
/// kernel, processes that have ended), or a place of no length (proc_pid_stat(5): vsize, the 23rd field,
/// env_start and env_end, the 50th and 51st).
fn has_none(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in brackets, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
    field(23) == "0" || (field(51) != "0" && field(50) == field(51))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn who_outlives_a_run_in_another_session_holds_it_up_no_longer() {
        let start = Instant::now();
        let ended = run(&mut shell("setsid sleep 100 & echo said >&2; exit 3"), Duration::from_secs(50));
        let ended = ended.expect("its first process ends at once");
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(3), "said\n"));
        assert!(start.elapsed() < Duration::from_secs(30), "the child was waited for");
    }

    #[test]
    fn a_run_that_does_not_end_is_ended_with_all_that_it_made() {
        let start = Instant::now();
        let error = run(&mut shell("setsid sleep 100 & sleep 100"), Duration::from_millis(300)).err();
        assert!(error.as_ref().is_some_and(|error| error.contains("no end")), "{error:?}");
        assert!(start.elapsed() < Duration::from_secs(30), "the child was waited for");
    }
}
