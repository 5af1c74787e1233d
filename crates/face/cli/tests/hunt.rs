//! Hunting: what ends it, what stays of it, and chaos as such.

mod synthetic;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use synthetic::Home;

/// A home, and a folder for what the hunted program leaves.
struct Hunt {
    home: Home,
    scratch: tempfile::TempDir,
}

impl Hunt {
    fn new() -> Hunt {
        Hunt { home: Home::new(), scratch: tempfile::tempdir().expect("a temporary directory") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A command that hunts a shell script, which counts its runs as `$n` first.
    fn command(&self, options: &[&str], script: &str) -> Command {
        let counted = format!("echo >> runs; n=$(($(wc -l < runs))); {script}");
        let mut command = self.home.command();
        command.arg("hunt").args(options).args(["--", "sh", "-c", &counted]);
        command.current_dir(self.scratch.path());
        command
    }

    fn run(&self, options: &[&str], script: &str) -> Caught {
        Caught::from(self.command(options, script).output().expect("the command starts"))
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.file("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn traces(&self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.home.prints(&["ls", "--json"])).expect("it is a list")
    }
}

/// How a hunt ended, and what it said.
#[derive(Debug)]
struct Caught {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl From<Output> for Caught {
    fn from(output: Output) -> Caught {
        let text = |bytes| String::from_utf8(bytes).expect("it is text");
        Caught { code: output.status.code(), output: text(output.stdout), errors: text(output.stderr) }
    }
}

impl Caught {
    /// The rest of the line that begins so.
    fn said(&self, start: &str) -> &str {
        let line = self.errors.lines().find_map(|line| line.strip_prefix("retrovane: ")?.strip_prefix(start));
        line.unwrap_or_else(|| panic!("{start:?} is not said: {self:?}")).trim()
    }
}

/// The seed that is in a trace.
fn seed_in(home: &Home, trace: &str) -> String {
    let info: serde_json::Value =
        serde_json::from_str(&home.prints(&["info", trace, "--json"])).expect("it is JSON");
    info["meta"]["options"]["chaos"].as_str().expect("the trace has a seed").to_owned()
}

#[test]
fn the_try_that_fails_is_kept_and_the_others_are_gone() {
    let hunt = Hunt::new();
    let caught = hunt.run(&[], "echo run $n; echo errors $n >&2; [ $n -lt 3 ] || exit 7");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert_eq!(hunt.runs(), 3);
    assert_eq!(caught.output, "run 3\n", "the output of the others is not shown");
    assert!(caught.errors.starts_with("errors 3\n"), "{caught:?}");
    assert_eq!(caught.said("caught in try 3 of 100:"), "it ended with exit code 7");
    assert_eq!(caught.said("replay it: "), "retrovane replay sh-0");
    let dir = hunt.home.path().join("sh-0");
    assert_eq!(Path::new(caught.said("its trace is ")), dir);
    let traces = hunt.traces();
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert_eq!(traces[0]["exit"], serde_json::json!({ "exited": 7 }));
    assert_eq!(seed_in(&hunt.home, "sh-0"), caught.said("its seed is "));
    let info = hunt.home.prints(&["info"]);
    assert!(info.contains(&format!("chaos={}", caught.said("its seed is "))), "{info}");
    let replayed = hunt.home.run(&["replay"]);
    assert_eq!((replayed.status.code(), replayed.stdout.as_slice()), (Some(7), &b"run 3\n"[..]));
}

#[test]
fn a_signal_is_a_failure() {
    let hunt = Hunt::new();
    let caught = hunt.run(&["--show", "--tries", "5"], "echo run $n; [ $n -lt 2 ] || kill -SEGV $$");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert_eq!(caught.output, "run 1\nrun 2\n", "--show shows all output");
    assert_eq!(caught.said("caught in try 2 of 5:"), "SIGSEGV killed it");
}

#[test]
fn a_hunt_for_nothing_leaves_nothing() {
    let hunt = Hunt::new();
    let caught = hunt.run(&["--tries", "3", "--seed", "9"], "echo run $n");
    assert_eq!((caught.code, caught.output.as_str()), (Some(1), ""), "{caught:?}");
    assert_eq!(hunt.runs(), 3);
    assert!(caught.said("none of 3 tries failed").ends_with("--seed 9"));
    assert!(hunt.traces().is_empty());
    let quiet = hunt.run(&["--tries", "1", "--quiet"], "true");
    assert_eq!((quiet.code, quiet.errors.as_str()), (Some(1), ""));
    assert_eq!(hunt.home.fails(&["hunt", "--tries", "0", "--", "true"]).0, 2);
    assert_eq!(hunt.home.fails(&["hunt", "--timeout", "soon", "--", "true"]).0, 2);
}

#[test]
fn a_test_of_the_shell_decides() {
    let hunt = Hunt::new();
    let test =
        "[ \"$RETROVANE_EXIT_CODE/$RETROVANE_SIGNAL\" = 137/9 ] && [ -f \"$RETROVANE_TRACE/trace.json\" ]";
    let caught = hunt.run(&["--until", test], "case $n in 1) exit 9;; 2) exit 137;; 4) kill -9 $$;; esac");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert_eq!(hunt.runs(), 4, "the test alone decides what is a failure");
    assert_eq!(caught.said("caught in try 4 of 100:"), "the test of --until succeeded");
    assert_eq!(hunt.traces().len(), 1);

    let caught = hunt.run(&["--until", "no-such-command-anywhere"], "true");
    assert_eq!(caught.code, Some(2), "{caught:?}");
    assert_eq!(hunt.runs(), 5, "a test that cannot succeed is not tried again");
    assert_eq!(hunt.traces().len(), 1);
}

#[test]
fn a_try_that_hangs_is_killed_with_all_its_processes() {
    let hunt = Hunt::new();
    // One in another session and one that ignores signals; the shell waits for both.
    let script =
        "[ $n -lt 2 ] && exit; trap '' INT TERM HUP; setsid sleep 1000 & echo $! > left; (sleep 1000; :)";
    let caught = hunt.run(&["--timeout", "1500ms"], script);
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert!(caught.said("caught in try 2 of 100:").starts_with("it ran for longer than 1.50 s"));
    let left = std::fs::read_to_string(hunt.file("left")).expect("it was started");
    assert!(!Path::new("/proc").join(left.trim()).exists(), "process {left} is left");
    let traces = hunt.traces();
    assert_eq!((traces.len(), &traces[0]["cut"]), (1, &serde_json::json!(false)), "{traces:?}");
    assert_eq!(traces[0]["exit"], serde_json::json!({ "killed": 9 }));
    assert_eq!(hunt.home.run(&["replay"]).status.code(), Some(137));
}

#[test]
fn a_directory_that_is_named_holds_the_trace() {
    let hunt = Hunt::new();
    let caught = hunt.run(&["--keep", "kept"], "[ $n -lt 2 ]");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    let dir = std::fs::canonicalize(hunt.file("kept")).expect("it is there");
    assert_eq!(std::fs::canonicalize(caught.said("its trace is ")).expect("it is there"), dir);
    assert!(caught.said("replay it: ").starts_with("retrovane replay /"), "{caught:?}");
    assert!(hunt.traces().is_empty(), "no other name is used");
    // Also with the same seeds, it is not taken for a new one.
    let again = hunt.run(&["-o", "kept"], "false");
    assert_eq!(again.code, Some(125), "{again:?}");
    assert_eq!(hunt.runs(), 2, "nothing ran");
    let none = hunt.run(&["-o", "none", "--tries", "2"], "true");
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(!hunt.file("none").exists());
    // What another hunt left beside is not in the way, and stays.
    let left = hunt.file("other.try-1");
    std::fs::create_dir(&left).expect("it can be made");
    std::fs::write(left.join("mine"), "").expect("it can be written");
    let beside = hunt.run(&["-o", "other"], "false");
    assert_eq!(beside.code, Some(0), "{beside:?}");
    assert!(hunt.file("other").exists() && left.join("mine").exists());
}

#[test]
fn what_cannot_be_recorded_is_not_tried_again() {
    let hunt = Hunt::new();
    for (program, code) in [("no-such-program-anywhere", 127), ("/", 126)] {
        let (got, message) = hunt.home.fails(&["hunt", "--", program]);
        assert_eq!(got, code, "{message}");
        assert_eq!(message.matches(program).count(), 1, "it is said once: {message}");
    }
    // A program for a machine with 32 bits: the first page of it is enough.
    let foreign = hunt.file("foreign");
    let mut header = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0];
    header.resize(16, 0);
    header.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    header.resize(4096, 0);
    std::fs::write(&foreign, header).expect("it can be written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&foreign, executable).expect("it is ours");
    let (got, message) = hunt.home.fails(&["hunt", "--", foreign.to_str().expect("the path is text")]);
    assert_eq!(got, 122, "{message}");
    assert!(hunt.traces().is_empty());
}

/// Starts a hunt, and returns when the program has written a line that is shown.
fn start(hunt: &Hunt, options: &[&str], script: &str) -> Child {
    let hunting = hunt.command(&[&["--show"], options].concat(), script);
    // What a shell starts in the background ignores SIGINT, and a shell that ignored a signal
    // when it began cannot trap it.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(hunting.get_program()).args(hunting.get_args());
    for (name, value) in hunting.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(hunt.scratch.path());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it writes");
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn an_interruption_ends_it_cleanly() {
    use std::os::unix::process::ExitStatusExt;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let hunt = Hunt::new();
        // The program may clean up; what does not end by itself is killed.
        // (A shell that is about to wait for long does not hear of a signal before that.)
        let script = "trap 'echo cleaned > cleaned; exit 3' INT TERM; \
            (trap '' INT TERM; exec sleep 1000) & echo $! > left; echo ready; while :; do sleep 0.1; done";
        let child = start(&hunt, &[], script);
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid is an int"));
        kill(pid, signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(signal as i32), "{message}");
        assert!(message.contains("interrupted in try 1; 0 before it did not fail"), "{message}");
        assert!(hunt.file("cleaned").exists(), "the program was told");
        let left = std::fs::read_to_string(hunt.file("left")).expect("it was started");
        assert!(!Path::new("/proc").join(left.trim()).exists(), "process {left} is left");
        assert!(hunt.traces().is_empty());
    }
}

/// True once a child of the process has ended that nobody has reaped.
fn has_ended_child(parent: Pid) -> bool {
    let stats = std::fs::read_dir("/proc").expect("it is there").flatten();
    let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // Behind the name: state, parent (proc_pid_stat(5)).
    stats.any(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(&format!(" Z {parent} "))))
}

#[test]
fn an_interruption_that_comes_with_the_end_of_a_try_ends_it_at_once() {
    use std::os::unix::process::ExitStatusExt;
    let hunt = Hunt::new();
    let child = start(&hunt, &[], "echo ready; until [ -e go ]; do sleep 0.01; done");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid is an int"));
    kill(pid, Signal::SIGSTOP).expect("it runs");
    std::fs::write(hunt.file("go"), "").expect("it can be written");
    while !has_ended_child(pid) {
        std::thread::yield_now();
    }
    let began = Instant::now();
    // It finds both when it goes on.
    kill(pid, Signal::SIGTERM).expect("it is there");
    kill(pid, Signal::SIGCONT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(Signal::SIGTERM as i32), "{output:?}");
    // A try whose end was lost was waited for, for 32 seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    assert!(hunt.traces().is_empty());
}

#[test]
fn a_hunt_that_is_killed_asks_its_program_to_end() {
    let hunt = Hunt::new();
    let script = "trap 'kill -KILL $!; echo asked; exit 0' TERM; sleep 1000 & echo ready; wait";
    let mut child = start(&hunt, &[], script);
    child.kill().expect("it runs");
    // Program and recorder have the pipe too: it ends with the last of them.
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"asked\n");
    let traces = hunt.traces();
    assert_eq!((traces.len(), &traces[0]["cut"]), (1, &serde_json::json!(false)), "{traces:?}");
}

#[test]
fn a_program_that_signals_its_group_does_not_end_the_hunt() {
    let hunt = Hunt::new();
    let caught = hunt.run(&["--tries", "2"], "trap '' TERM; kill -TERM 0; true");
    assert_eq!(caught.code, Some(1), "{caught:?}");
    assert_eq!(hunt.runs(), 2);
}

#[test]
fn the_same_hunt_has_the_same_seeds() {
    let seeds = [(); 2].map(|()| {
        let hunt = Hunt::new();
        hunt.run(&["--seed", "5"], "[ $n -lt 2 ]").said("its seed is ").to_owned()
    });
    assert_eq!(seeds[0], seeds[1]);
}

#[test]
fn chaos_has_a_seed_that_is_said_and_kept() {
    let home = Home::new();
    let output = home.run(&["record", "--chaos", "--", "true"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    let seed = message.trim().strip_prefix("retrovane: chaos has the seed ").expect("it is said");
    assert_eq!(seed_in(&home, "true-0"), seed);
    for seed in ["0", "18446744073709551615"] {
        let output = home.run(&["record", "--seed", seed, "--", "true"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(seed_in(&home, "latest"), seed);
    }
    home.prints(&["record", "--", "true"]);
    assert!(!home.prints(&["info"]).contains("chaos"));
    assert_eq!(home.fails(&["record", "--seed", "-1", "--", "true"]).0, 2);
}
