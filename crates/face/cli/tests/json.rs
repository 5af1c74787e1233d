//! `--json` is an option of every command that prints, and all of them say with it why they fail.
//!
//! The commands are those that `--help` lists: one that is new has to be in a table here.

mod bench;

use std::path::Path;
use std::process::{Command, Stdio};

use bench::Bench;
use serde_json::{Value, json};

/// Why a command has no `--json`.
const WITHOUT: [(&str, &str); 7] = [
    ("debug", "its standard output is gdb's, and it becomes gdb"),
    ("mcp", "its standard output is a protocol"),
    ("dap", "its standard output is a protocol"),
    ("query", "it prints JSON and nothing else"),
    ("completions", "it prints a script for a shell"),
    ("man", "it prints a manual page"),
    ("help", "it prints help"),
];

/// Those whose standard output is the program's: the object goes to a file.
const INTO_FILES: [&str; 3] = ["record", "replay", "live"];

/// How each command fails: the words behind it, and the exit code. `NOWHERE` is no trace.
const FAILING: &[(&str, &[&str], i32)] = &[
    ("record", &["--", "/nowhere/at/all"], 127),
    ("replay", &["NOWHERE"], 121),
    ("live", &["--", "/nowhere/at/all"], 127),
    ("hunt", &["-o", "full", "--", "true"], 125),
    ("retry", &["NOWHERE"], 121),
    ("minimize", &["NOWHERE"], 121),
    ("diff", &["NOWHERE", "NOWHERE"], 121),
    ("report", &["NOWHERE"], 121),
    ("screenshot", &["NOWHERE"], 121),
    ("ctl", &["nobody"], 2),
    ("ctl checkpoint", &[], 2),
    ("ls", &["--no-such-option"], 2),
    ("info", &["NOWHERE"], 121),
    ("dump", &["NOWHERE"], 121),
    ("print", &["--at", "x.c:1", "NOWHERE", "x"], 121),
    ("calls", &["NOWHERE", "main"], 121),
    ("bt", &["NOWHERE"], 121),
    ("who-wrote", &["x", "NOWHERE"], 121),
    ("when", &["NOWHERE"], 121),
    ("race", &["NOWHERE"], 121),
    ("timeline", &["-o", "page.html", "NOWHERE"], 121),
    ("keyframe", &["NOWHERE"], 121),
    ("pack", &["NOWHERE"], 121),
    ("rm", &["NOWHERE"], 121),
    ("doctor", &["--no-such-option"], 2),
    ("lab run", &["NOWHERE.toml"], 2),
    ("lab check", &["--twice", "NOWHERE.toml"], 2),
    ("lab replay", &["NOWHERE"], 121),
    ("lab branch", &["NOWHERE", "NOWHERE.toml"], 121),
    ("lab log", &["NOWHERE"], 121),
    ("lab ps", &["--no-such-option"], 2),
    ("lab stop", &["NOWHERE"], 125),
    ("lab exec", &["--run", "NOWHERE", "one", "--", "true"], 2),
    ("lab link", &["--run", "NOWHERE", "one", "two"], 2),
    ("lab checkpoint", &["--run", "NOWHERE"], 2),
    ("lab discard", &["--run", "NOWHERE", "1"], 2),
    ("lab back", &["--run", "NOWHERE"], 2),
    ("lab tree", &["--no-such-option"], 2),
    ("lab gdb", &["one", "--run", "NOWHERE", "--at", "1s", "--show"], 2),
];

/// Names of the commands in the help of one.
fn commands_in(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    names
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

fn help(bench: &Bench, command: &[&str]) -> String {
    let ran = bench.retrovane(command).arg("-h").output().expect("it runs");
    String::from_utf8(ran.stdout).expect("text")
}

/// True if the option is listed; other options speak of it.
fn has_json(help: &str) -> bool {
    help.lines().any(|line| line.trim_start().starts_with("--json"))
}

/// Each command with its words, down to the last, and whether it has `--json`.
fn all_commands(bench: &Bench) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for name in commands_in(&help(bench, &[])).iter().filter(|name| *name != "help") {
        let about = help(bench, &[name]);
        let inner: Vec<String> = commands_in(&about).into_iter().filter(|inner| inner != "help").collect();
        // `lab` alone asks for one of its commands; `ctl` prints.
        if inner.is_empty() || name == "ctl" {
            found.push((name.clone(), has_json(&about)));
        }
        for inner in inner {
            found.push((format!("{name} {inner}"), has_json(&help(bench, &[name, &inner]))));
        }
    }
    found
}

#[test]
fn every_command_that_prints_has_it() {
    let bench = Bench::new();
    let all = all_commands(&bench);
    assert!(all.len() > 40, "{all:?}");
    for (name, has_json) in &all {
        let why = WITHOUT.iter().find(|(without, _)| without == name);
        assert_eq!(*has_json, why.is_none(), "{name}: {why:?}");
    }
    let is_known = |name: &str| all.iter().any(|(other, _)| other == name);
    for (name, _) in WITHOUT {
        assert!(is_known(name) || name == "help", "{name} is no command any more");
    }
}

#[test]
fn every_command_says_why_it_fails() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("full")).expect("a folder");
    std::fs::write(bench.path("full/file"), "").expect("a file");
    let mut checked = Vec::new();
    for (name, has_json) in all_commands(&bench) {
        if !has_json {
            continue;
        }
        let case = FAILING.iter().find(|(command, ..)| {
            *command == name || name.starts_with("ctl ") && *command == "ctl checkpoint"
        });
        let (_, words, code) = case.unwrap_or_else(|| panic!("{name} has no row in FAILING"));
        let mut command = bench.retrovane(&[]);
        command.stdin(Stdio::null());
        match name.strip_prefix("ctl ") {
            // Its commands are of a session.
            Some(inner) => {
                let numbers = ["discard", "rollback", "replay"].contains(&inner).then_some("1");
                let dir = (inner == "save").then_some("saved");
                command.args(["ctl", "--json", "nobody", inner]).args(numbers).args(dir)
            }
            None if INTO_FILES.contains(&name.as_str()) => {
                command.args([&name, "--json", "said.json"]).args(*words)
            }
            None => command.args(name.split(' ')).arg("--json").args(*words),
        };
        let ran = command.output().expect("it runs");
        let said = match INTO_FILES.contains(&name.as_str()) {
            true => std::fs::read_to_string(bench.path("said.json")).expect("the file is written"),
            false => String::from_utf8_lossy(&ran.stdout).into_owned(),
        };
        let errors = String::from_utf8_lossy(&ran.stderr);
        let one: Value = serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("{name} {words:?}: {error}: {said:?} {errors}"));
        assert!(one["error"].as_str().is_some_and(|why| !why.is_empty()), "{name}: {one}");
        assert_eq!(ran.status.code(), Some(*code), "{name}: {one}");
        assert_eq!(one["code"], *code, "{name}: {one}");
        checked.push(json!(["error", one]));
    }
    assert!(checked.len() > 30);
    check(&checked);
}

/// What those write whose standard output is the program's.
#[test]
fn programs_keep_their_outputs_to_themselves() {
    let bench = Bench::new();
    let run = |words: &[&str], code: i32| {
        let ran = bench.retrovane(words).stdin(Stdio::null()).output().expect("it runs");
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {errors}");
        let said = std::fs::read_to_string(bench.path("said.json")).expect("the file is written");
        std::fs::remove_file(bench.path("said.json")).expect("it is there");
        let object: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        (object, String::from_utf8(ran.stdout).expect("text"))
    };
    let program = "echo told; exit 3";
    let words = ["record", "--json", "said.json", "--seed", "7", "-o", "trace", "--", "sh", "-c", program];
    let (recorded, out) = run(&words, 3);
    assert_eq!(out, "told\n");
    assert_eq!(
        (&recorded["code"], &recorded["end"], &recorded["seed"]),
        (&json!(3), &json!({"exited": 3}), &json!(7))
    );
    assert_eq!(recorded["trace"], json!(bench.trace().canonicalize().expect("it is there")));
    let (replayed, out) = run(&["replay", "--json", "said.json", "--run", "trace"], 3);
    assert_eq!(out, "told\n");
    for name in ["trace", "events", "processes", "end", "code"] {
        let file = |value: &Value| value.as_str().and_then(|name| name.rsplit('/').next().map(str::to_owned));
        let is_same = replayed[name] == recorded[name] || file(&replayed[name]) == Some("trace".to_owned());
        assert!(is_same && !replayed[name].is_null(), "{name}: {replayed} {recorded}");
    }
    let (lived, out) = run(&["live", "--json", "said.json", "--", "sh", "-c", program], 3);
    assert_eq!((out.as_str(), &lived["code"], &lived["session"]), ("told\n", &json!(3), &json!("sh")));
    // A descriptor.
    let shell =
        "exec 9>said.json; echo '[' >&9; \"$0\" record --json=/dev/fd/9 -o other -- sh -c 'kill -9 $$'";
    let ran = bench.command("sh").args(["-c", shell, bench::RETROVANE]).status().expect("it runs");
    assert!(!ran.success());
    let said = std::fs::read_to_string(bench.path("said.json")).expect("it is written");
    let said = said.strip_prefix("[\n").expect("what was there stays");
    let killed: Value = serde_json::from_str(said).expect("an object");
    assert_eq!((&killed["end"], &killed["code"]), (&json!({"killed": 9}), &json!(137)));
    // What makes no sense, and a place that cannot be written to.
    let (bad, out) = run(&["record", "--json", "said.json", "--no-such-option", "--", "true"], 2);
    assert!(bad["code"] == 2 && out.is_empty(), "{bad}");
    let (gdb, _) = run(&["replay", "--json", "said.json", "--at", "end", "trace"], 2);
    assert!(gdb["error"].as_str().is_some_and(|why| why.contains("without gdb")), "{gdb}");
    let nowhere =
        bench.retrovane(&["record", "--json", "no/such/folder", "--", "true"]).output().expect("it runs");
    assert!(nowhere.status.code() == Some(125) && nowhere.stdout.is_empty());
    // The program's own words are no file of ours.
    std::fs::write(bench.path("own"), "kept").expect("it is written");
    let own =
        bench.retrovane(&["record", "--no-such-option", "ls", "--json", "own"]).output().expect("it runs");
    assert_eq!(own.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(bench.path("own")).expect("it is there"), "kept");
    check(&[
        json!(["record", recorded]),
        json!(["replay", replayed]),
        json!(["live", lived]),
        json!(["record", killed]),
        json!(["error", bad]),
        json!(["error", gdb]),
    ]);
}

/// What those print of which no other test holds it against the schema.
#[test]
fn what_is_made_is_named() {
    let bench = Bench::new();
    let ask = |definition: &str, words: &[&str]| {
        let ran = bench.retrovane(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let value: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"));
        json!([definition, value])
    };
    let mut checked = vec![ask("hunt", &["hunt", "-q", "--json", "--tries", "2", "--", "false"])];
    let caught = &checked[0][1];
    assert_eq!((&caught["caught"], &caught["failure"]), (&json!(true), &json!("it ended with exit code 1")));
    let trace = caught["trace"].as_str().expect("a path").to_owned();
    checked.push(ask("hunt", &["hunt", "-q", "--json", "--tries", "2", "--", "echo", "x"]));
    assert_eq!(checked[1][1]["caught"], false);
    checked.push(ask("timeline", &["timeline", "-q", "--json", "-o", "page.html", &trace]));
    checked.push(ask("keyframe", &["keyframe", "-q", "--json", &trace]));
    checked.push(ask("keyframe", &["keyframe", "-q", "--json", "--remove", &trace]));
    checked.push(ask("pack", &["pack", "-q", "--json", "--redact", &trace]));
    checked.push(ask("pack", &["pack", "-q", "--json", "--sources", "-o", "other.rvpack", &trace]));
    checked.push(ask("ctl", &["ctl", "--json"]));
    checked.push(ask("retry", &["retry", "-q", "--json", "-o", "again", &trace]));
    checked.push(ask("rm", &["rm", "-q", "--json", &trace, "again"]));
    assert_eq!(checked[9][1]["removed"].as_array().map(Vec::len), Some(2), "{}", checked[9]);
    check(&checked);
}

/// Holds pairs of a definition and a value against the schema.
fn check(pairs: &[Value]) {
    const CHECK: &str = r##"
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
for name, value in json.load(sys.stdin):
    one = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
    for error in one.iter_errors(value):
        print(name, "/".join(map(str, error.absolute_path)), error.message[:300], flush=True)
"##;
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/json.schema.json");
    let mut python = Command::new("python3");
    let python = python.args(["-c", CHECK]).arg(schema).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3 is installed");
    let stdin = python.stdin.take().expect("piped");
    serde_json::to_writer(stdin, pairs).expect("it is read");
    let ended = python.wait_with_output().expect("it ends");
    assert!(ended.status.success() && ended.stdout.is_empty(), "{}", String::from_utf8_lossy(&ended.stdout));
}
