//! Where programs failed that no signal of their own fault killed: `bt` and `query` show the frames that led there.

use std::ffi::OsString;
use std::sync::Arc;

use libtest_mimic::Trial;
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, run};

use super::super::compare;
use super::languages::{Check, trials_of};
use super::{build, missing};

const GO: &str = "<!-- program: panics.go -->\n<!-- needs: go -->\n";
const RUST: &str = "<!-- program: panics.rs --edition 2021 -->\n<!-- needs: rustc -->\n";
const CPP: &str = "<!-- program: uncaught.cpp -->\n<!-- needs: g++ -->\n";
const C: &str = "<!-- program: deadlock.c -->\n";

/// A recording of the page's program with these words.
struct Recording<'a> {
    tool: &'a Tool,
    scratch: Scratch,
}

impl Recording<'_> {
    fn new<'a>(tool: &'a Tool, name: &str, page: &str, words: &[&str]) -> Result<Recording<'a>, String> {
        let scratch = Scratch::new(name)?;
        build(&scratch, page)?;
        scratch.fresh_directory("home")?;
        let recording = Recording { tool, scratch };
        let mut all: Vec<OsString> = vec![recording.scratch.join("program").into()];
        all.extend(words.iter().map(OsString::from));
        recording.said(&["record", "-q", "-o"], &all)?;
        Ok(recording)
    }

    /// What a command says of the trace.
    fn said(&self, words: &[&str], behind: &[OsString]) -> Result<String, String> {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        all.push(self.scratch.join("trace").into());
        all.extend(behind.iter().cloned());
        let outcome = run(self.tool.command(User::Current, &self.scratch.join("home"), &all), RUN_TIME_MAX)?;
        Ok(format!("{}{}", outcome.stdout_text(), outcome.stderr_text()))
    }
}

/// Go's runtime ends a program on a stack of its own: the goroutine's frames are shown.
fn check_go(tool: &Tool) -> TestResult {
    let cases: [(&str, &[&str]); 3] = [
        ("panic", &["runtime.gopanic(", "main.price(", "panics.go:14"]),
        ("deep", &["main.deep(", "panics.go:19", "main.deep("]),
        ("deadlock", &["runtime.chanrecv", "main.wait(", "panics.go:24", "main.main("]),
    ];
    for (word, expected) in cases {
        let recording = Recording::new(tool, "go_panics", GO, &[word])?;
        compare(&recording.said(&["bt"], &[])?, expected, &["?? at 0x0", "the debugger has ended"])?;
    }
    let recording = Recording::new(tool, "go_panics", GO, &["panic"])?;
    let text = recording.said(&["query", "where"], &[])?;
    compare(&text, &["\"from\":{", "panics.go:14", "main.price"], &[])?;
    let text = recording.said(&["query", "go", "--at", "start"], &["to=crash".into()])?;
    compare(&text, &["main.price"], &["did not crash"])
}

/// Where Rust tells of the panic the stack is not unwound yet.
fn check_rust(tool: &Tool) -> TestResult {
    let recording = Recording::new(tool, "rust_panics", RUST, &[])?;
    let text = recording.said(&["bt"], &[])?;
    compare(&text, &["panics::Queue::run(", "panics.rs:12", "panics::main"], &["#0  __GI__exit"])?;
    // The program's own frames are among the few that an agent gets.
    let text = recording.said(&["query", "backtrace"], &["frames=6".into()])?;
    compare(
        &text,
        &["\"frames\":[", "panics::Queue::run", "panics::main", "\"from\":{", "panics.rs:12"],
        &[],
    )?;
    let text = recording
        .said(&["query", "evaluate"], &["frame=0".into(), "expressions=[\"1+1\", \"2+2\"]".into()])?;
    compare(&text, &["\"value\":\"2\"", "\"value\":\"4\""], &["error"])?;
    let text = recording.said(&["query", "go", "--at", "start"], &["to=crash".into()])?;
    compare(&text, &["panics.rs:12"], &["did not crash"])?;
    let path = recording.scratch.join("page.html");
    recording.said(&["report", "--no-pack"], &["-o".into(), path.clone().into()])?;
    let page = std::fs::read_to_string(path);
    compare(
        &page.map_err(|error| error.to_string())?,
        &["It panicked", "panics::Queue::run", "Values", "panics.rs:12"],
        &[],
    )
}

/// What is thrown and never caught unwinds nothing.
fn check_cpp(tool: &Tool) -> TestResult {
    let recording = Recording::new(tool, "cpp_uncaught", CPP, &[])?;
    let text = recording.said(&["bt"], &[])?;
    compare(&text, &["std::terminate", "__cxa_throw", "pay(", "uncaught.cpp:9", "main("], &[])?;
    // The program's line, and not that of a header of the library's.
    let text = recording.said(&["when"], &[])?;
    compare(&text, &["pay(", "uncaught.cpp:9"], &[])
}

/// Of threads deep in a library the program's frame is told, too.
fn check_deadlock(tool: &Tool) -> TestResult {
    let recording = Recording::new(tool, "deadlock", C, &[])?;
    let text = recording.said(&["query", "threads"], &[])?;
    let expected =
        ["\"thread\":1", "deadlock.c:30", "\"thread\":2", "deadlock.c:19", "\"thread\":3", "deadlock.c:12"];
    let told: String = text.replace("\"from\"", "\n\"from\"");
    for one in expected {
        compare(&told, &[one], &[])?;
    }
    Ok(())
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let cases: [(&str, Check, Option<String>); 4] = [
        ("panics_of_go_have_frames", check_go, missing(GO)),
        ("panics_of_rust_are_gone_to", check_rust, missing(RUST)),
        ("uncaught_exceptions_of_cpp_have_frames", check_cpp, missing(CPP)),
        ("threads_in_libraries_have_frames_of_the_program", check_deadlock, missing(C)),
    ];
    trials_of(tool, cases)
}
