//! The debugger that stays behind a question: it answers as one that was opened for the question, and never for
//! a trace that is another one now.

mod bench;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bench::Bench;
use serde_json::Value;

/// How long something may take that comes by itself.
const PATIENCE: Duration = Duration::from_secs(60);

struct Asked {
    bench: Bench,
}

impl Asked {
    /// The demo's program, recorded until it crashed; gdb is one that counts how often it was opened.
    fn new() -> Asked {
        let bench = Bench::new();
        let source = bench.path("sessions.c");
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../demo/sessions.c");
        fs::copy(original, &source).expect("the source is copied");
        let program = bench.build(source.to_str().expect("text"), "-O0");
        let asked = Asked { bench };
        asked.record(&["hunt", "-q", "--tries", "2000", "-o"], &program);
        fs::create_dir(asked.runtime_dir()).expect("a folder");
        fs::create_dir(asked.bench.path("bin")).expect("a folder");
        let counting = asked.bench.path("bin/gdb");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] || echo x >> {}\nPATH=${{PATH#*:}} exec gdb \"$@\"\n",
            asked.bench.path("opened").display()
        );
        fs::write(&counting, script).expect("it is written");
        fs::set_permissions(&counting, PermissionsExt::from_mode(0o755)).expect("it can be executed");
        asked
    }

    fn record(&self, words: &[&str], program: &Path) {
        let mut command = self.bench.retrovane(words);
        assert!(command.arg(self.bench.trace()).arg("--").arg(program).status().expect("it runs").success());
    }

    fn runtime_dir(&self) -> PathBuf {
        self.bench.path("run")
    }

    fn folder(&self) -> PathBuf {
        self.runtime_dir().join(format!("retrovane-standby-{}", rustix::process::geteuid().as_raw()))
    }

    fn sockets(&self) -> usize {
        fs::read_dir(self.folder()).map_or(0, Iterator::count)
    }

    /// How often gdb was opened since this was asked last.
    fn opened(&self) -> usize {
        let path = self.bench.path("opened");
        let times = fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        let _ = fs::remove_file(path);
        times
    }

    fn query(&self, stays_s: u64, words: &[&str]) -> Value {
        let (verb, rest) = words.split_first().expect("a verb");
        let path =
            format!("{}:{}", self.bench.path("bin").display(), std::env::var("PATH").expect("there is one"));
        let mut command: Command = self.bench.retrovane(&["query", verb]);
        command.arg(self.bench.trace()).args(rest);
        command.env("PATH", path).env("XDG_RUNTIME_DIR", self.runtime_dir());
        let ran = command.env("RETROVANE_STANDBY", stays_s.to_string()).output().expect("it runs");
        // What was answered before is not to be answered from there.
        let _ = fs::remove_file(self.bench.trace().join("answers.rvi"));
        let text = String::from_utf8(ran.stdout).expect("text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text:?}"))
    }

    /// Processes that serve the trace.
    fn servers(&self) -> usize {
        let serves = |entry: &fs::DirEntry| {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("serve-questions") && words.contains(self.bench.trace().to_str().expect("text"))
        };
        fs::read_dir("/proc").expect("it is there").flatten().filter(serves).count()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what}: {} servers, {} sockets", self.servers(), self.sockets());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // Its servers end with the trace.
        let _ = fs::remove_dir_all(self.bench.trace());
        let until = Instant::now() + PATIENCE;
        while self.servers() != 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn its_answers_are_those_of_a_debugger_that_is_opened_for_the_question() {
    let asked = Asked::new();
    let write = asked.query(0, &["last_write", "expression=cache->log"]);
    let at = write["position"].as_str().expect("a position").to_owned();
    let questions: [&[&str]; 17] = [
        &["where"],
        &["backtrace", "locals=true"],
        &["last_write", "expression=cache->log"],
        &["where", "--at", &at],
        &["evaluate", "--at", &at, "expressions=bucket", "expressions=no_such_name"],
        &["writes", "expression=cache->log", "most=3"],
        &["threads"],
        &["step", "way=back_line"],
        &["backtrace", "--at", "start"],
        &["run_to", "location=add"],
        &["evaluate", "expressions=f()"],
        &["where", "--at", "end"],
        &["backtrace", "--at", "99999999"],
        &["go", "to=start"],
        &["where"],
        &["backtrace", "--at", "end"],
        &["where", "--at", "start"],
    ];
    let fresh: Vec<Value> = questions.iter().map(|words| asked.query(0, words)).collect();
    assert!(asked.opened() >= questions.len());
    assert_eq!((asked.servers(), asked.sockets()), (0, 0));
    for (words, expected) in questions.iter().zip(&fresh) {
        assert_eq!(asked.query(300, words), *expected, "{words:?}");
    }
    // One for the crash, one for the first process, one for the place that is not there, and some for the beginning, which
    // gdb does not come back to.
    let opened = asked.opened();
    assert!(opened <= 7, "{opened} debuggers");
    assert_eq!((asked.servers(), asked.sockets()), (1, 1));
    assert_eq!(fs::metadata(asked.folder()).expect("it is there").permissions().mode() & 0o777, 0o700);
}

#[test]
fn it_never_answers_for_another_trace_or_another_source() {
    let asked = Asked::new();
    let before = asked.query(300, &["where"]);
    let source = asked.bench.path("sessions.c");
    let text = fs::read_to_string(&source).expect("the source");
    fs::write(&source, text.replace("cache->log->write(", "cache->log->write (")).expect("it is written");
    let changed = asked.query(300, &["where"]);
    assert!(changed["source"].to_string().contains("write ("), "{before} {changed}");
    assert_eq!(before["position"], changed["position"]);

    // Another recording under the same name.
    let other = asked.bench.path("other.c");
    fs::write(&other, "int main(void) { *(volatile int *)8 = 1; }\n").expect("it is written");
    let other = asked.bench.build(other.to_str().expect("text"), "-O0");
    fs::remove_dir_all(asked.bench.trace()).expect("it is removed");
    let mut command = asked.bench.retrovane(&["record", "-q", "-o"]);
    command.arg(asked.bench.trace()).arg("--").arg(other).status().expect("it runs");
    let answer = asked.query(300, &["where"]);
    assert!(answer["frame"]["at"].as_str().is_some_and(|at| at.ends_with("other.c:1")), "{answer}");
    // The server of what is gone ends.
    asked.wait_until("the first server stays", || asked.servers() == 1 && asked.sockets() == 1);
}

#[test]
fn it_ends_by_itself_and_leaves_nothing() {
    let asked = Asked::new();
    let begun = Instant::now();
    asked.query(1, &["where"]);
    // Who asked does not wait for it.
    assert!(begun.elapsed() < PATIENCE);
    asked.wait_until("it stays", || asked.servers() == 0 && !asked.folder().exists());
}

#[test]
fn a_folder_that_others_may_enter_is_not_used() {
    let asked = Asked::new();
    fs::create_dir(asked.folder()).expect("a folder");
    fs::set_permissions(asked.folder(), PermissionsExt::from_mode(0o755)).expect("it is open");
    let answer = asked.query(300, &["where"]);
    assert!(answer["position"].is_string(), "{answer}");
    assert_eq!((asked.servers(), asked.sockets()), (0, 0));
}
