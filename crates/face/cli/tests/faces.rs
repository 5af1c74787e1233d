//! Recordings as programs see them: the Model Context Protocol, `query`, and the page.

mod bench;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bench::{Bench, RETROVANE};
use serde_json::{Value, json};

/// The demo's program, recorded until it crashed.
struct Crash {
    bench: Bench,
}

impl Crash {
    fn record() -> Crash {
        Crash::of(Bench::new(), Path::new("demo/sessions.c"))
    }

    fn of(bench: Bench, source: &Path) -> Crash {
        let program = bench.build(source.to_str().expect("text"), "-O0");
        let mut hunt = bench.retrovane(&["hunt", "-q", "--tries", "2000", "-o"]);
        let hunted = hunt.arg(bench.trace()).arg("--").arg(program).output();
        assert!(hunted.expect("it runs").status.success(), "the demo's bug shows once in some forty runs");
        Crash { bench }
    }

    fn trace(&self) -> PathBuf {
        self.bench.trace()
    }

    fn retrovane(&self, words: &[&str]) -> Command {
        self.bench.retrovane(words)
    }

    fn query(&self, words: &[&str]) -> (Value, i32) {
        let (verb, rest) = words.split_first().expect("a verb");
        let ran = self.retrovane(&["query", verb]).arg(self.trace()).args(rest).output().expect("it runs");
        let text = String::from_utf8(ran.stdout).expect("text");
        let answer = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        (answer, ran.status.code().expect("it was not killed"))
    }
}

/// A client that speaks only the protocol.
struct Client {
    server: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    next: u64,
    /// Answers of tools, and their bytes.
    asked: usize,
    bytes: usize,
}

impl Client {
    fn new(crash: &Crash) -> Client {
        Client::with(crash, &[])
    }

    fn with(crash: &Crash, options: &[&str]) -> Client {
        let mut command = crash.retrovane(&["mcp"]);
        command.args(options);
        command.arg(crash.trace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("the server starts");
        let requests = server.stdin.take().expect("piped");
        let answers = BufReader::new(server.stdout.take().expect("piped"));
        let mut client = Client { server, requests, answers, next: 0, asked: 0, bytes: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let welcome = client.call("initialize", hello);
        assert_eq!(welcome["serverInfo"]["name"], "retrovane");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").expect("the server reads");
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.answers.read_line(&mut line).expect("the server answers"), 0, "it ended");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    /// What a tool answers, as an agent reads it, and whether it is an error.
    fn ask(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        let result = self.call("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().expect("text");
        self.asked += 1;
        self.bytes += text.len();
        (serde_json::from_str(text).expect("JSON"), result["isError"] == true)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn an_agent_finds_the_demos_bug() {
    let crash = Crash::record();
    let mut client = Client::new(&crash);
    let tools = client.call("tools/list", json!({}));
    let names: Vec<&str> =
        tools["tools"].as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(["open", "last_write", "evaluate"].iter().all(|name| names.contains(name)), "{names:?}");

    let (place, _) = client.ask("open", json!({}));
    let cursor = place["cursor"].clone();
    let source = place["source"].to_string();
    assert!(source.contains("cache->log->write"), "{place}");
    // The line calls through a pointer: who wrote it?
    let (write, _) = client.ask("last_write", json!({"cursor": cursor, "expression": "cache->log"}));
    assert_eq!(write["frame"]["function"], "add", "{write}");
    let asked = json!({"cursor": cursor, "expressions": ["bucket", "sizeof(cache->buckets) / sizeof(cache->buckets[0])"]});
    let (values, _) = client.ask("evaluate", asked);
    let text = values["values"].to_string();
    // One element behind the end of the table.
    assert_eq!(values["values"]["bucket"]["value"], "128", "{text}");
    assert!(text.contains("\"128\""), "{text}");
    assert!(client.asked <= 8, "{} answers", client.asked);
    assert!(client.bytes <= 16 * 1024, "{} bytes", client.bytes);

    // What fails leaves the cursor where it was.
    let (before, _) = client.ask("where", json!({"cursor": cursor}));
    for (tool, arguments) in [
        ("go", json!({"cursor": cursor, "to": "100000"})),
        ("go", json!({"cursor": cursor, "to": "shell id"})),
        ("evaluate", json!({"cursor": cursor, "expressions": ["system(\"id\")"]})),
        ("evaluate", json!({"cursor": cursor, "expressions": ["$_shell(\"id\")"]})),
        ("last_write", json!({"cursor": cursor, "expression": "nothing_of_this_name"})),
        ("run_to", json!({"cursor": cursor, "location": "x; shell id"})),
        ("where", json!({"cursor": cursor, "no_such_argument": 1})),
    ] {
        let (answer, is_error) = client.ask(tool, arguments);
        assert!(is_error && answer["error"].is_string(), "{tool}: {answer}");
    }
    let (after, _) = client.ask("where", json!({"cursor": cursor}));
    assert_eq!(before["position"], after["position"]);

    // Two cursors do not move each other.
    let (other, _) = client.ask("open", json!({"at": "start"}));
    assert_ne!(other["position"], after["position"]);
    let (again, _) = client.ask("where", json!({"cursor": cursor}));
    assert_eq!(after["position"], again["position"]);
    let (_, is_error) = client.ask("close", json!({"cursor": cursor}));
    assert!(!is_error);
    let (_, is_error) = client.ask("where", json!({"cursor": cursor}));
    assert!(is_error);
}

#[test]
fn a_cursor_goes_back_to_bookmarks_and_to_the_crash() {
    let crash = Crash::record();
    let mut client = Client::new(&crash);
    let (place, _) = client.ask("open", json!({}));
    let cursor = place["cursor"].clone();
    let mut ask = |tool: &str, mut arguments: Value| {
        arguments["cursor"] = cursor.clone();
        client.ask(tool, arguments)
    };
    let (write, _) = ask("last_write", json!({"expression": "cache->log"}));
    let (marked, is_error) = ask("bookmark", json!({"name": "the_write"}));
    assert!(!is_error && marked["bookmarks"]["the_write"] == write["position"], "{marked}");
    let (again, is_error) = ask("go", json!({"to": "crash"}));
    assert!(!is_error && again["position"] == place["position"], "{again}");
    let (back, is_error) = ask("go", json!({"to": "the_write"}));
    assert!(!is_error && back["position"] == write["position"], "{back}");
    for (tool, arguments) in [
        ("go", json!({"to": "elsewhere"})),
        ("bookmark", json!({"name": "crash"})),
        ("bookmark", json!({"name": "a b; shell id"})),
    ] {
        let (answer, is_error) = ask(tool, arguments);
        assert!(is_error && answer["error"].is_string(), "{tool}: {answer}");
    }
    let (listed, _) = ask("bookmark", json!({}));
    assert_eq!(listed["bookmarks"].as_object().map(serde_json::Map::len), Some(1), "{listed}");
    assert_eq!(listed["position"], write["position"]);
}

#[test]
fn a_hunt_is_permitted_by_who_starts_the_server() {
    let crash = Crash::record();
    let mut client = Client::new(&crash);
    let (answer, is_error) = client.ask("hunt", json!({"tries": 1}));
    assert!(is_error && answer["error"].as_str().is_some_and(|why| why.contains("--allow-hunt")), "{answer}");
    let (refused, code) = crash.query(&["hunt", "tries=1"]);
    assert_eq!((code, refused["error"].is_string()), (1, true), "{refused}");
    assert!(!crash.bench.path("home").join("sessions-0").exists());

    let mut client = Client::with(&crash, &["--allow-hunt"]);
    let (caught, is_error) = client.ask("hunt", json!({"tries": 2000, "timeout_s": 600}));
    assert!(!is_error && caught["caught"] == true && caught["as_recorded"] == true, "{caught}");
    let (place, is_error) = client.ask("open", json!({"trace": caught["trace"]}));
    assert!(!is_error && place["source"].to_string().contains("cache->log->write"), "{place}");
    // Of the other tries nothing is left.
    let home = std::fs::read_dir(crash.bench.path("home")).expect("there is one").flatten();
    let traces = home.filter(|entry| entry.path().join("trace.json").exists()).count();
    assert_eq!(traces, 1);
    // Several schedules that do not fail, and a hunt that is given up.
    let (nothing, is_error) = client.ask("hunt", json!({"tries": 10_000, "timeout_s": 1, "seed": 1}));
    assert!(is_error || nothing["caught"].is_boolean(), "{nothing}");
}

#[test]
fn a_report_is_written_beside_the_trace() {
    let crash = Crash::record();
    let mut client = Client::new(&crash);
    let (first, is_error) = client.ask("report", json!({}));
    assert!(!is_error && first["pack"].is_null(), "{first}");
    let page = PathBuf::from(first["page"].as_str().expect("a path"));
    assert_eq!(page.parent(), crash.trace().parent());
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(text.contains("SIGSEGV") && first["page_bytes"] == text.len(), "{first}");
    // What is there stays.
    let (second, _) = client.ask("report", json!({"pack": true}));
    assert_ne!(second["page"], first["page"], "{second}");
    assert!(second["pack_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{second}");
    assert_eq!(std::fs::read_to_string(&page).expect("the page"), text);
    let (redacted, _) = client.ask("report", json!({"redact": true}));
    assert_eq!(redacted["redacted"], true, "{redacted}");
}

#[test]
fn who_ran_when_is_answered_from_the_log() {
    let bench = Bench::new();
    let program = bench.build("tests/senders/meets.c", "-O1");
    let recorded =
        bench.retrovane(&["record", "-q", "-o"]).arg(bench.trace()).arg("--").arg(program).output();
    assert!(recorded.expect("it runs").status.success());
    let crash = Crash { bench };
    let (answer, code) = crash.query(&["turns", "most=200"]);
    let turns = answer["turns"].as_array().expect("a list").clone();
    assert!(code == 0 && turns.len() > 20, "{answer}");
    // The thread is the second one of its process.
    let second: Vec<&Value> = turns.iter().filter(|turn| turn["thread"] == 2).collect();
    assert!(!second.is_empty(), "{answer}");
    let process = second[0]["process"].to_string();
    let (own, _) = crash.query(&["turns", &format!("process={process}")]);
    assert!(
        own["turns"]
            .as_array()
            .is_some_and(|own| own.iter().all(|turn| turn["process"] == second[0]["process"]))
    );
    let from = format!("position={}", second[0]["from"].as_str().expect("text"));
    let (later, _) = crash.query(&["turns", &format!("process={process}"), &from, "most=1"]);
    assert_eq!(later["more"], true, "{later}");
    let (last, _) = crash.query(&["turns", "last=true", "most=1"]);
    assert_eq!(last["turns"][0], turns[turns.len() - 1], "{last}");
}

#[test]
fn positions_of_values_lead_to_them() {
    let crash = Crash::record();
    let (answer, _) = crash.query(&["values", "line=sessions.c:39", "expressions=bucket", "most=200"]);
    let rows = answer["values"].as_array().expect("a list");
    for row in [rows.first(), rows.last()] {
        let row = row.expect("it is executed");
        let at = row["position"].as_str().expect("text");
        let (there, _) = crash.query(&["evaluate", "--at", at, "expressions=bucket"]);
        assert_eq!(there["values"]["bucket"]["value"], row["values"]["bucket"].to_string(), "{row} {there}");
        assert!(there["frame"]["at"].as_str().is_some_and(|at| at.ends_with("sessions.c:39")), "{there}");
    }
}

#[test]
fn an_error_of_a_command_behind_a_verb_is_no_answer() {
    let crash = Crash::record();
    let (answer, code) = crash.query(&["calls", "function=no_such_function"]);
    assert!(
        code == 1 && answer["error"].as_str().is_some_and(|why| why.contains("no_such_function")),
        "{answer}"
    );
    let (answer, code) = crash.query(&["values", "line=sessions.c:39", "expressions=no_such_name"]);
    assert!(code == 1 && answer["error"].is_string() && answer["values"].is_null(), "{answer}");
}

#[test]
fn a_query_answers_with_one_object() {
    let crash = Crash::record();
    let (answer, code) = crash.query(&["last_write", "expression=cache->log"]);
    assert_eq!((code, &answer["frame"]["function"]), (0, &json!("add")), "{answer}");
    let (answer, code) = crash.query(&["search", "calls=getrandom", "last=true", "most=1"]);
    assert_eq!((code, answer["events"].as_array().map(Vec::len)), (0, Some(1)), "{answer}");
    let (answer, code) = crash.query(&["values", "line=sessions.c:38", "expressions=bucket"]);
    let last = answer["values"].as_array().and_then(|rows| rows.last()).cloned().unwrap_or_default();
    assert_eq!((code, last["position"].is_string()), (0, true), "{answer}");
    let (answer, code) = crash.query(&["evaluate", "expressions=cache->log = 0"]);
    assert_eq!((code, answer["error"].is_string()), (1, true), "{answer}");
    // Of several, the others have their values.
    let (answer, _) = crash.query(&["evaluate", "expressions=f()", "expressions=cache"]);
    let values = &answer["values"];
    assert!(values["f()"]["error"].is_string() && values["cache"]["value"].is_string(), "{answer}");
    let refused = crash.retrovane(&["query", "shell"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn common_questions_have_the_names_that_debuggers_give_them() {
    let crash = Crash::record();
    let trace = crash.trace();
    let ask = |words: &[&str], rest: &[&str]| {
        let ran = crash.retrovane(words).arg(&trace).args(rest).output().expect("it runs");
        (String::from_utf8(ran.stdout).expect("text"), ran.status.code())
    };
    let (text, code) = ask(&["bt"], &[]);
    assert!(code == Some(0) && text.contains("#0  main() at ") && text.contains("sessions.c:"), "{text}");
    let (text, code) = ask(&["who-wrote", "cache->log"], &[]);
    assert!(code == Some(0) && text.contains(" -> ") && text.contains("#0  add("), "{text}");
    let (text, _) = ask(&["when"], &["--json"]);
    let here: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert_eq!(here, crash.query(&["where"]).0);
    let (text, code) = ask(&["who-wrote", "no_such_name"], &["--json"]);
    let problem: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert!(code == Some(1) && problem["error"].is_string(), "{text}");
    assert_eq!(ask(&["who-wrote", "no_such_name"], &[]), (String::new(), Some(1)));
}

#[test]
fn a_question_that_was_asked_before_needs_no_debugger_until_its_source_changes() {
    let bench = Bench::new();
    let (source, original) = (bench.path("sessions.c"), "../../../demo/sessions.c");
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join(original);
    std::fs::copy(original, &source).expect("the source is copied");
    let crash = Crash::of(bench, &source);
    let ask = |path: &str| {
        let mut command = crash.retrovane(&["query", "last_write"]);
        command.arg(crash.trace()).args(["expression=cache->log"]).env("PATH", path);
        command.env("RETROVANE_STANDBY", "0");
        let ran = command.output().expect("it runs");
        (String::from_utf8(ran.stdout).expect("text"), ran.status.code())
    };
    let usual = std::env::var("PATH").expect("there is one");
    let (first, code) = ask(&usual);
    assert_eq!(code, Some(0), "{first}");
    assert!(!first.contains("sources_read"), "{first}");
    // No gdb is found there.
    let nowhere = crash.bench.path("nowhere");
    let nowhere = nowhere.to_str().expect("text");
    assert_eq!(ask(nowhere), (first, Some(0)));
    let text = std::fs::read_to_string(&source).expect("the source");
    std::fs::write(&source, format!("{text}\n")).expect("the source changes");
    let (again, code) = ask(nowhere);
    assert_ne!(code, Some(0), "{again}");
}

#[test]
fn a_recording_is_drawn_as_a_page() {
    use std::os::unix::fs::PermissionsExt;
    let crash = Crash::record();
    let (page, perfetto) = (crash.bench.path("page.html"), crash.bench.path("trace.json"));
    let mut command = crash.retrovane(&["timeline", "-q", "-o"]);
    let drawn = command.arg(&page).arg("--perfetto").arg(&perfetto).arg(crash.trace()).status();
    assert!(drawn.expect("it runs").success());
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(!text.contains("@ABOUT@") && text.contains("DecompressionStream"));
    assert_eq!(std::fs::metadata(&page).expect("it is there").permissions().mode() & 0o777, 0o600);
    let about = text.lines().find_map(|line| line.strip_prefix("const about = ")).expect("its description");
    let about: Value = serde_json::from_str(about.trim_end_matches(';')).expect("JSON");
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(&perfetto).expect("the trace")).expect("JSON");
    let events =
        trace["traceEvents"].as_array().expect("a list").iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(about["events"], events);
    assert!(about["end"].as_str().is_some_and(|end| end.contains("SIGSEGV")), "{about}");
}

/// A variable that was set to what stood at its place before has no write of its own that could be seen.
#[test]
fn a_write_before_the_variables_function_was_called_is_told_apart() {
    let bench = Bench::new();
    let source = bench.path("stale.c");
    let text = "static int __attribute__((noinline)) fill(int n) { volatile int a[8]; for (int i = 0; i < 8; i++) a[i] = n; return a[n]; }\n\
                static void __attribute__((noinline)) crash(int n) { volatile int a[8]; for (int i = 0; i < 8; i++) a[i] = 5;\n\
                int own = 1; volatile int *at = &own; *at = n; *(volatile char *)0 = a[own & 1]; }\n\
                int main(void) { int sum = fill(5); crash(sum); return 0; }\n";
    std::fs::write(&source, text).expect("it is written");
    let program = bench.build(source.to_str().expect("text"), "-O0");
    let recorded =
        bench.retrovane(&["record", "-q", "-o"]).arg(bench.trace()).arg("--").arg(program).output();
    assert!(!recorded.expect("it runs").status.success());
    let ask = |expression: &str| {
        let ran = bench.retrovane(&["who-wrote", expression]).arg(bench.trace()).output().expect("it runs");
        String::from_utf8(ran.stdout).expect("text")
    };
    // The same of `main`, which gdb takes for the outermost.
    let main = bench.path("outermost.c");
    let text = "static void __attribute__((constructor)) fill(void) { volatile int a[512]; for (int i = 0; i < 512; i++) a[i] = 5; }\n\
                int main(void) { volatile int b[8]; for (int i = 0; i < 8; i++) b[i] = 5; *(volatile char *)0 = b[1]; return 0; }\n";
    std::fs::write(&main, text).expect("it is written");
    let program = bench.build(main.to_str().expect("text"), "-O0");
    let other = bench.path("other");
    let recorded = bench.retrovane(&["record", "-q", "-o"]).arg(&other).arg("--").arg(program).output();
    assert!(!recorded.expect("it runs").status.success());
    let ran = bench.retrovane(&["who-wrote", "b[3]"]).arg(&other).output().expect("it runs");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(said.contains("This was before main was called") && said.contains("#0  fill("), "{said}");

    let (stale, own) = (ask("a[3]"), ask("own"));
    assert!(stale.contains("This was before crash was called") && stale.contains("#0  fill("), "{stale}");
    assert!(!own.contains("This was before") && own.contains("#0  crash("), "{own}");
}

/// What a program reads from a command that fails: why, and the exit code.
#[test]
fn errors_are_objects_where_json_is_asked_for() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let nowhere = home.path().join("nowhere");
    let nowhere = nowhere.to_str().expect("text");
    let cases: [&[&str]; 6] = [
        &["info", "--json", nowhere],
        &["dump", "--json", nowhere],
        &["bt", "--json", nowhere],
        &["calls", "--json", nowhere, "main"],
        &["query", "overview", nowhere],
        &["info", nowhere],
    ];
    for words in cases {
        let ran =
            Command::new(RETROVANE).args(words).env("RETROVANE_HOME", home.path()).output().expect("it runs");
        let code = ran.status.code().expect("it was not killed");
        assert_ne!(code, 0, "{words:?}");
        let text = String::from_utf8(ran.stdout).expect("text");
        if words.contains(&"--json") || words[0] == "query" {
            let error: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text:?}"));
            assert_eq!(error["code"], code, "{words:?}");
            assert!(error["error"].as_str().is_some_and(|why| why.contains("nowhere")), "{error}");
        } else {
            assert_eq!(text, "", "{words:?}");
        }
    }
}
