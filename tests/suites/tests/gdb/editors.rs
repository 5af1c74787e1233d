//! `retrovane dap`, as an editor speaks to it, and `retrovane mcp`, as an agent does. Each message is checked against the
//! protocol's published schema.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, have_program, run};

use super::compare;

/// The package that brings the schema, as `make setup-test` fetches it.
const SCHEMA: &str = "debugpy-1.8.22-py2.py3-none-any.whl";

struct Scenario {
    name: &'static str,
    /// Source of the program, from the root of the repository.
    source: &'static str,
    expected: &'static [&'static str],
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "demo",
        source: "demo/sessions.c",
        expected: &[
            "stopped: exception SIGSEGV: Segmentation fault",
            "why: SIGSEGV",
            "threads: 1",
            "in main: True",
            "inside of cache: buckets, log",
            "buckets: 128",
            "elements: ['[126]', '[127]']",
            "watched: True",
            "back: data breakpoint add at sessions.c:39 True",
            "bucket: 128 of 128",
            "stepBack: step True",
            "position: 1 +",
            "goto: goto main True",
            "changed: True",
            "changed in a branch: 0x0",
            "and by expression: 0x10",
            "seek: goto add at sessions.c",
            "breakpoint: True True",
            "hit: breakpoint True",
            "out: main",
            "functions: [True, False]",
            "begin: history goes no further",
            "refused",
            "code: 4",
            "end: exception SIGSEGV: Segmentation fault",
        ],
    },
    Scenario {
        name: "pause",
        source: "tests/dap/computes.c",
        expected: &[
            "paused: pause",
            "set meanwhile: True",
            "hit: function breakpoint step",
            "back: step",
            "gone: True",
        ],
    },
    Scenario {
        name: "attached",
        source: "tests/dap/computes.c",
        expected: &[
            "attached: main",
            "continue: step",
            "continue: step",
            "reverseContinue: step",
            "goes on: True",
        ],
    },
    Scenario {
        name: "exceptions",
        source: "tests/gdb/uncaught.cpp",
        expected: &[
            "crash: True",
            "thrown: exception C++ exception",
            "why: C++ exception",
            "in pay: True",
            "before: exception",
            "begin: history goes no further",
        ],
    },
    Scenario {
        name: "bad",
        source: "demo/sessions.c",
        expected: &["no program is looked at yet", "/no/such/trace", "/no/such/program", "one of: `program`"],
    },
    Scenario { name: "gives_up", source: "tests/dap/computes.c", expected: &["gone: True"] },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> PathBuf {
    suites::target_directory().join("sources").join(SCHEMA)
}

/// Why the editor cannot be tried.
fn missing() -> Option<&'static str> {
    let mut python = Command::new("python3");
    python.args(["-c", "import jsonschema"]).stderr(Stdio::null());
    // As the editor itself is started: another python3 may be first elsewhere.
    suites::plain_environment(&mut python, Path::new("/"));
    if !python.status().is_ok_and(|status| status.success()) {
        return Some("needs python3-jsonschema");
    }
    (!schema().exists()).then_some("needs the schema of the protocol (make setup-test)")
}

fn check(tool: &Tool, scenario: &Scenario) -> TestResult {
    let scratch = Scratch::new(scenario.name)?;
    let (program, source) = (scratch.join("program"), root().join(scenario.source));
    let mut compiler = Command::new(if scenario.source.ends_with(".cpp") { "g++" } else { "gcc" });
    compiler.args(["-g", "-O0", "-no-pie", "-o"]).arg(&program).arg(&source);
    run(compiler, RUN_TIME_MAX)?;
    let mut editor = Command::new("python3");
    editor.arg(root().join("tests/dap/editor.py")).arg(schema()).arg(scenario.name);
    editor.arg(&tool.binary).arg("dap").arg("--").arg(&program).arg(&source);
    suites::plain_environment(&mut editor, &scratch.fresh_directory("home")?);
    editor.env("TMPDIR", scratch.fresh_directory("temporary")?);
    let outcome = run(editor, RUN_TIME_MAX)?;
    compare(&format!("{}{}", outcome.stdout_text(), outcome.stderr_text()), scenario.expected, &[])?;
    let left = std::fs::read_dir(scratch.join("temporary")).map_err(|error| error.to_string())?;
    match left.flatten().next() {
        Some(entry) => Err(format!("it leaves {} behind", entry.path().display())),
        None => Ok(()),
    }
}

/// The extension for VS Code, in a stand-in for the editor.
fn check_extension(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("extension")?;
    let home = scratch.fresh_directory("home")?;
    for program in ["echo", "true"] {
        let mut record = Command::new(&tool.binary);
        record.args(["--quiet", "record", "--", program]);
        suites::plain_environment(&mut record, &home);
        run(record, RUN_TIME_MAX)?;
    }
    let mut node = Command::new("node");
    node.arg(root().join("tests/dap/extension.js")).arg(root().join("editors/vscode")).arg(&tool.binary);
    suites::plain_environment(&mut node, &home);
    node.env("TMPDIR", scratch.fresh_directory("temporary")?);
    let outcome = run(node, RUN_TIME_MAX)?;
    compare(&format!("{}{}", outcome.stdout_text(), outcome.stderr_text()), &["the extension is whole"], &[])
}

/// Perfetto's own classes of its format, as `make setup-test` fetches them.
fn perfetto_classes() -> PathBuf {
    suites::target_directory().join("sources/perfetto")
}

/// What `timeline` writes for Perfetto, read by Perfetto's classes: each event is a slice of its thread, each arrow a flow.
fn check_perfetto(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("perfetto")?;
    let (home, program) = (scratch.fresh_directory("home")?, scratch.join("program"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(root().join("tests/senders/meets.c"));
    run(compiler, RUN_TIME_MAX)?;
    let words: [&[&str]; 3] = [
        &["record", "--quiet", "-o", "trace", "--", "./program"],
        &["timeline", "--quiet", "trace", "--perfetto", "own.pftrace"],
        &["timeline", "--quiet", "trace", "--perfetto", "own.json"],
    ];
    for words in words {
        let mut command = Command::new(&tool.binary);
        command.args(words).current_dir(scratch.path());
        suites::plain_environment(&mut command, &home);
        run(command, RUN_TIME_MAX)?;
    }
    let mut python = Command::new("python3");
    python.arg(root().join("tests/page/slices.py")).args(["own.pftrace", "own.json"]);
    suites::plain_environment(&mut python, &home);
    python.current_dir(scratch.path()).env("PYTHONPATH", perfetto_classes());
    let outcome = run(python, RUN_TIME_MAX)?;
    let expected = ["slices as in the JSON: True", "tracks: True", "arrows: True", "processes: 17"];
    compare(&format!("{}{}", outcome.stdout_text(), outcome.stderr_text()), &expected, &[])
}

/// Emacs with dap-mode, as Debian has them.
fn have_dap_mode() -> bool {
    let mut emacs = Command::new("emacs");
    emacs.args(["--batch", "--eval", "(progn (package-initialize) (require 'dap-mode))"]);
    emacs.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    have_program("emacs") && emacs.status().is_ok_and(|status| status.success())
}

/// The demo's bug, hunted and gone back to by Emacs' dap-mode.
fn check_emacs(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("emacs")?;
    let (program, source) = (scratch.join("program"), scratch.join("sessions.c"));
    std::fs::copy(root().join("demo/sessions.c"), &source).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("gcc");
    compiler.args(["-g", "-O0", "-no-pie", "-o"]).arg(&program).arg(&source);
    run(compiler, RUN_TIME_MAX)?;
    let mut emacs = Command::new("emacs");
    emacs.args(["--batch", "-l"]).arg(root().join("tests/dap/dap-mode.el"));
    emacs.arg(&tool.binary).arg(&program).arg(&source);
    suites::plain_environment(&mut emacs, &scratch.fresh_directory("home")?);
    emacs.env("TMPDIR", scratch.fresh_directory("temporary")?);
    let outcome = run(emacs, RUN_TIME_MAX)?;
    let expected = [
        "stopped: main: cache->log->write(",
        "reverseContinue: add: cache->buckets[bucket] = session;",
        "bucket: 128",
        "stepBack: add: session->next = cache->buckets[bucket];",
        "next: add: cache->buckets[bucket] = session;",
        "is running: yes",
        "gone: yes",
    ];
    compare(&format!("{}{}", outcome.stdout_text(), outcome.stderr_text()), &expected, &[])
}

/// The package that checks messages of agents, as `make setup-test` fetches it.
fn agents_modules() -> PathBuf {
    suites::target_directory().join("sources/mcp")
}

/// `retrovane mcp`, as a client by another official library of the protocol speaks to it.
fn check_agent(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("agent")?;
    let (home, program) = (scratch.fresh_directory("home")?, scratch.join("program"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-g", "-O0", "-no-pie", "-o"]).arg(&program).arg(root().join("demo/sessions.c"));
    run(compiler, RUN_TIME_MAX)?;
    let mut hunt = Command::new(&tool.binary);
    hunt.args(["hunt", "--quiet", "--tries", "2000", "-o"])
        .arg(scratch.join("trace"))
        .arg("--")
        .arg(&program);
    suites::plain_environment(&mut hunt, &home);
    run(hunt, RUN_TIME_MAX)?;
    let mut node = Command::new("node");
    node.arg(root().join("tests/mcp/agent.mjs"))
        .arg(agents_modules())
        .arg(&tool.binary)
        .arg(scratch.join("trace"));
    suites::plain_environment(&mut node, &home);
    node.env("TMPDIR", scratch.fresh_directory("temporary")?);
    let outcome = run(node, RUN_TIME_MAX)?;
    let expected = ["written in add, bucket 128", "all messages are as the schema says"];
    compare(&format!("{}{}", outcome.stdout_text(), outcome.stderr_text()), &expected, &[])
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let one = |scenario: &'static Scenario| {
        let own = Arc::clone(tool);
        let name = format!("editor_{}", scenario.name);
        let trial = Trial::test(name, move || check(&own, scenario).map_err(Failed::from));
        match missing() {
            Some(kind) => trial.with_kind(kind).with_ignored_flag(true),
            None => trial,
        }
    };
    let own = Arc::clone(tool);
    let extension = Trial::test("editor_extension", move || check_extension(&own).map_err(Failed::from));
    let extension = match have_program("node") {
        true => extension,
        false => extension.with_kind("needs node").with_ignored_flag(true),
    };
    let own = Arc::clone(tool);
    let agent = Trial::test("agent_client", move || check_agent(&own).map_err(Failed::from));
    let agent = match have_program("node") && agents_modules().join("node_modules").exists() {
        true => agent,
        false => {
            agent.with_kind("needs node and the client of agents (make setup-test)").with_ignored_flag(true)
        }
    };
    let own = Arc::clone(tool);
    let emacs = Trial::test("editor_emacs", move || check_emacs(&own).map_err(Failed::from));
    let emacs = match have_dap_mode() {
        true => emacs,
        false => emacs.with_kind("needs emacs with dap-mode").with_ignored_flag(true),
    };
    let own = Arc::clone(tool);
    let perfetto = Trial::test("perfetto_classes", move || check_perfetto(&own).map_err(Failed::from));
    let perfetto = match perfetto_classes().join("perfetto").exists() {
        true => perfetto,
        false => perfetto.with_kind("needs Perfetto's classes (make setup-test)").with_ignored_flag(true),
    };
    SCENARIOS.iter().map(one).chain([extension, agent, emacs, perfetto]).collect()
}
