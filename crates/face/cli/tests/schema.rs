//! What commands print as JSON is what `docs/json.schema.json` says.

mod bench;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::Bench;
use serde_json::{Value, json};

/// Reads pairs of a definition and a value; what does not fit is said.
const CHECK: &str = r##"
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
for line in sys.stdin:
    name, value = json.loads(line)
    assert name in schema["$defs"], name
    one = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
    for error in one.iter_errors(value):
        print(name, "/".join(map(str, error.absolute_path)), error.message[:300], flush=True)
"##;

struct Recording {
    bench: Bench,
    checked: Vec<Value>,
}

impl Recording {
    fn of_the_demo() -> Recording {
        let bench = Bench::new();
        let program = bench.build("demo/sessions.c", "-O0");
        let mut recording = Recording { bench, checked: Vec::new() };
        let hunted = recording.retrovane(&["hunt", "-q", "--tries", "2000", "--"]).arg(program).output();
        assert!(hunted.expect("it runs").status.success(), "the demo's bug shows once in some forty runs");
        let found = recording.answers("ls", &["ls", "--json"], 0);
        recording.folder_of_trace(&found);
        recording
    }

    /// Gives the trace a name that does not change.
    fn folder_of_trace(&self, found: &[Value]) {
        let path = found[0][0]["path"].as_str().expect("a path");
        std::fs::rename(path, self.trace()).expect("it can be moved");
    }

    fn trace(&self) -> PathBuf {
        self.bench.trace()
    }

    fn retrovane(&self, words: &[&str]) -> Command {
        self.bench.retrovane(words)
    }

    /// Asks, and keeps what is answered to be checked.
    fn answers(&mut self, definition: &str, words: &[&str], code: i32) -> Vec<Value> {
        let ran = self.retrovane(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {said}");
        let values: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(&ran.stdout).into_iter().collect();
        let values = values.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(!values.is_empty(), "{words:?} prints nothing");
        self.checked.extend(values.iter().map(|value| json!([definition, value])));
        values
    }

    fn check(&self) {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/json.schema.json");
        let mut python = Command::new("python3")
            .args(["-c", CHECK])
            .arg(schema)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let lines: String = self.checked.iter().map(|pair| format!("{pair}\n")).collect();
        let mut stdin = python.stdin.take().expect("piped");
        let writing = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, lines.as_bytes()));
        let ended = python.wait_with_output().expect("it ends");
        writing.join().expect("it was written").expect("it was read");
        assert!(
            ended.status.success() && ended.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&ended.stdout)
        );
    }
}

#[test]
fn answers_are_as_the_schema_says() {
    let mut recording = Recording::of_the_demo();
    let trace = recording.trace();
    let trace = trace.to_str().expect("text");
    let commands: [(&str, &[&str], i32); 12] = [
        ("race", &["race", "--json", trace], 1),
        ("info", &["info", "--json", trace], 0),
        ("dump", &["dump", "--json", trace], 0),
        ("bt", &["bt", "--json", trace], 0),
        ("when", &["when", "--json", trace], 0),
        ("who-wrote", &["who-wrote", "--json", "cache->log", trace], 0),
        ("print", &["print", "--json", "--exact", "--at", "sessions.c:39", trace, "bucket"], 0),
        ("calls_row", &["calls", "--json", trace, "add"], 0),
        ("doctor", &["doctor", "--json"], 0),
        ("diff", &["diff", "--json", trace, trace], 0),
        ("report", &["report", "--json", trace], 0),
        ("error", &["bt", "--json", "--at", "0+0", "nowhere"], 121),
    ];
    for (definition, words, code) in commands {
        recording.answers(definition, words, code);
    }
    let verbs: [&[&str]; 17] = [
        &["overview"],
        &["turns"],
        &["report"],
        &["hunt", "--allow-hunt", "tries=1"],
        &["search", "text=write"],
        &["calls", "function=add"],
        &["values", "line=sessions.c:39", "expressions=bucket"],
        &["where"],
        &["go", "to=start"],
        &["backtrace", "locals=true"],
        &["evaluate", "expressions=cache", "expressions=nothing"],
        &["last_write", "expression=cache->log"],
        &["writes", "expression=cache->log"],
        &["step"],
        &["run_to", "location=add"],
        &["threads"],
        &["search"],
    ];
    for verb in verbs {
        let mut words = vec!["query", verb[0], trace];
        words.extend(&verb[1..]);
        recording.answers(verb[0], &words, 0);
    }
    recording.answers("error", &["query", "evaluate", trace, "expressions=f()"], 1);
    recording.check();
}

#[test]
fn answers_of_a_lab_are_as_the_schema_says() {
    const LAB: &str = r#"
clock = "real"
[node.one]
command = ["sleep", "60"]
[node.two]
command = ["sh", "-c", "echo begun; echo failed >&2; exit 3"]
[[link]]
between = ["one", "two"]
"#;
    let mut recording = Recording { bench: Bench::new(), checked: Vec::new() };
    let file = recording.bench.path("lab.toml");
    std::fs::write(&file, LAB).expect("it can be written");
    let mut running = recording.retrovane(&["lab", "run", "--json", "-o", "run", "lab.toml"]);
    let mut running = running.stdout(Stdio::piped()).spawn().expect("it runs");
    // It is asked from the first line on that it says.
    let mut lines = BufReader::new(running.stdout.take().expect("piped")).lines();
    let mut said = vec![lines.next().expect("it says something").expect("text")];
    let asked: [(&str, &[&str]); 7] = [
        ("lab_ps", &["lab", "ps", "--json"]),
        ("lab_done", &["lab", "exec", "--json", "one", "--", "false"]),
        ("lab_done", &["lab", "link", "--json", "one", "two", "--delay", "5ms"]),
        ("lab_done", &["lab", "checkpoint", "--json"]),
        ("lab_back", &["lab", "back", "--json"]),
        ("lab_tree", &["lab", "tree", "--json"]),
        ("lab_discard", &["lab", "discard", "--json", "1"]),
    ];
    let mut at = String::new();
    for (definition, words) in asked {
        let answers = recording.answers(definition, words, 0);
        if definition == "lab_back" {
            at = format!("{}ns", answers[0]["at_ns"]);
        }
        let is_checkpoint = words[1] == "checkpoint";
        assert_eq!(
            answers[0].get("checkpoint").is_some(),
            is_checkpoint || words[1] == "back",
            "{answers:?}"
        );
    }
    recording.answers("lab_done", &["lab", "stop", "--json"], 0);
    said.extend(lines.map(|line| line.expect("text")));
    running.wait().expect("it ends");
    assert!(said.iter().any(|line| line.contains("back at") || line.contains("\"back\"")), "{said:?}");
    for line in said {
        recording.checked.push(json!(["lab_line", serde_json::from_str::<Value>(&line).expect("an object")]));
    }
    recording.answers("lab_line", &["lab", "log", "--json", "run"], 0);
    recording.answers("lab_gdb", &["lab", "gdb", "one", "--run", "run", "--at", &at, "--show", "--json"], 0);
    recording.answers("lab_replay", &["lab", "replay", "--json", "run"], 0);
    std::fs::write(&file, LAB.replace("real", "virtual").replace("60", "1")).expect("it can be written");
    recording.answers("lab_check", &["lab", "check", "--twice", "--json", "lab.toml"], 0);
    recording.check();
}

#[test]
fn a_command_line_that_makes_no_sense_is_an_object_too() {
    let mut recording = Recording { bench: Bench::new(), checked: Vec::new() };
    for words in [
        &["info", "--json", "--no-such-option"] as &[&str],
        &["dump", "--json", "--pid", "x"],
        &["query"],
        &["query", "no_such_verb"],
        &["query", "search", "no_such=1"],
        &["bt", "--json", "one", "two"],
    ] {
        let answers = recording.answers("error", words, 2);
        assert!(answers.len() == 1 && answers[0]["code"] == 2, "{words:?}: {answers:?}");
        let why = answers[0]["error"].as_str().expect("text");
        assert!(!why.contains("Usage") && !why.contains('\n') && !why.starts_with("error"), "{why}");
    }
    recording.check();
    // People are told as ever, and who asks for help gets it.
    let plain = recording.retrovane(&["info", "--no-such-option"]).output().expect("it runs");
    assert!(plain.stdout.is_empty() && plain.status.code() == Some(2));
    let help = recording.retrovane(&["info", "--json", "--help"]).output().expect("it runs");
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Usage:"));
}
