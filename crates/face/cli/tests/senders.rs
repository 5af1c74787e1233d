//! Which event sent what another received: asked, and drawn.

mod bench;

use std::path::PathBuf;
use std::process::Command;

use bench::Bench;
use serde_json::Value;

/// `tests/senders/meets.c`, recorded.
struct Meetings {
    bench: Bench,
    said: String,
}

impl Meetings {
    fn record() -> Meetings {
        let bench = Bench::new();
        let program = bench.build("tests/senders/meets.c", "-O1");
        let mut record = bench.retrovane(&["record", "-q", "-o"]);
        let ran = record.arg(bench.trace()).arg("--").arg(program).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Meetings { bench, said: String::from_utf8(ran.stdout).expect("text") }
    }

    fn trace(&self) -> PathBuf {
        self.bench.trace()
    }

    fn retrovane(&self, words: &[&str]) -> Command {
        self.bench.retrovane(words)
    }

    fn query(&self, words: &[&str]) -> Value {
        let (verb, rest) = words.split_first().expect("a verb");
        let ran = self.retrovane(&["query", verb]).arg(self.trace()).args(rest).output().expect("it runs");
        let text = String::from_utf8(ran.stdout).expect("text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The events whose text holds this.
    fn events(&self, calls: &str, text: &str) -> Vec<Value> {
        let found = self.query(&["search", &format!("calls={calls}"), &format!("text={text}"), "most=100"]);
        found["events"].as_array().cloned().unwrap_or_else(|| panic!("{found}"))
    }

    fn sender(&self, of: &Value) -> Value {
        let (process, position) = (of["process"].to_string(), of["position"].to_string());
        self.query(&["sender", "--pid", &process, "--at", &position])
    }
}

#[test]
fn each_message_leads_to_who_sent_it() {
    const RECEIVE: &str = "read,recvfrom,recvmsg";
    let meetings = Meetings::record();
    let mut asked = 0;
    for message in meetings.said.lines().filter(|message| *message != "by queue") {
        let quoted = format!("\"{message}");
        let received = meetings.events(RECEIVE, &quoted);
        assert_eq!(received.len(), 1, "{message}: {received:?}");
        let answer = meetings.sender(&received[0]);
        let sent = answer["sent"].as_array().unwrap_or_else(|| panic!("{message}: {answer}"));
        assert_eq!(sent.len(), 1, "{message}: {answer}");
        // Of a message in several parts the log has the first.
        let begin = quoted.trim_end_matches("there").trim_end();
        assert!(sent[0]["text"].as_str().is_some_and(|text| text.contains(begin)), "{message}: {answer}");
        assert_ne!(sent[0]["process"], received[0]["process"], "{message}: {answer}");
        assert_eq!(answer["certain"], true, "{message}: {answer}");
        let thread = if message == "by thread" { 2 } else { 1 };
        assert_eq!(sent[0]["thread"], thread, "{message}: {answer}");
        // And back again.
        let (process, event) = (sent[0]["process"].to_string(), sent[0]["event"].to_string());
        let back = meetings.query(&["receiver", "--pid", &process, "--at", &event]);
        assert_eq!(back["received"][0]["event"], received[0]["position"], "{message}: {back}");
        asked += 1;
    }
    assert_eq!(asked, 20, "{}", meetings.said);
}

#[test]
fn signals_deaths_waits_and_queues_have_senders() {
    let meetings = Meetings::record();
    let by = |event: &Value, what: &str, text: &str| {
        let answer = meetings.sender(event);
        assert_eq!(answer["by"], what, "{event}: {answer}");
        let sent = answer["sent"][0]["text"].as_str().unwrap_or_default();
        assert!(sent.contains(text), "{event}: {answer}");
        assert_ne!(answer["sent"][0]["process"], event["process"], "{event}: {answer}");
    };
    let signals = meetings.events("", "--- SIGUSR1");
    assert_eq!(signals.len(), 2, "{signals:?}");
    for signal in &signals {
        by(signal, "signal", "SIGUSR1) = 0");
    }
    let deaths = meetings.events("", "+++ killed by SIGKILL");
    assert_eq!(deaths.len(), 1, "{deaths:?}");
    by(&deaths[0], "signal", "SIGKILL) = 0");
    let waits = meetings.events("waitid", "");
    assert_eq!(waits.len(), 15);
    for wait in &waits {
        by(wait, "wait", "+++ exited with 0 +++");
    }
    by(&meetings.events("msgrcv", "")[0], "message queue", "msgsnd(");
    let sum = meetings.query(&["search", "calls=read", "text=\"\\7\\0\\0"]);
    by(&sum["events"][0], "eventfd", "write(");
    // A process is shown behind the ends that it waited for.
    let shown = meetings.retrovane(&["dump", "--call", "waitid,exit_group"]).arg(meetings.trace()).output();
    let shown = String::from_utf8(shown.expect("it runs").stdout).expect("text");
    let lines: Vec<&str> = shown.lines().collect();
    let of = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("si_pid=")) {
        let pid = line.split("si_pid=").nth(1).and_then(|rest| rest.split(',').next()).expect("a pid");
        assert!(lines[..number].iter().any(|line| of(line) == pid), "{line}\n{shown}");
    }
}

#[test]
fn the_index_is_made_again_where_it_does_not_fit() {
    use std::os::unix::fs::PermissionsExt;
    let meetings = Meetings::record();
    let index = meetings.trace().join("events.rvi");
    assert!(!index.exists(), "recording makes none");
    let answers = meetings.trace().join("answers.rvi");
    let ask = || {
        // What was answered before is not looked up.
        let _ = std::fs::remove_file(&answers);
        meetings.query(&["search", "text=by"])
    };
    let first = ask();
    let about = std::fs::metadata(&index).expect("the index is kept");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(), first);
    let whole = std::fs::read(&index).expect("it can be read");
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&index, &bytes).expect("it can be written");
        assert_eq!(ask(), first, "byte {at}");
        assert!(std::fs::read(&index).expect("it is there") == whole, "byte {at}: it was made again");
        assert!(answers.exists(), "a search is kept, too");
    }
    // One that others may write to is nobody's word.
    let others = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&index, others).expect("it is the test's own");
    assert_eq!(ask(), first);
    let mode = std::fs::metadata(&index).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it was made again");
}

#[test]
fn meetings_are_drawn() {
    let meetings = Meetings::record();
    let (page, perfetto) = (meetings.bench.path("page.html"), meetings.bench.path("perfetto.json"));
    let mut command = meetings.retrovane(&["timeline", "-q", "-o"]);
    let drawn = command.arg(&page).arg("--perfetto").arg(&perfetto).arg(meetings.trace()).status();
    assert!(drawn.expect("it runs").success());
    let text = std::fs::read_to_string(&perfetto).expect("it was written");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let ends = |phase: &str| {
        let flows = events.iter().filter(|event| event["ph"] == phase && event["name"] == "pipe");
        flows.map(|flow| (flow["id"].clone(), flow["pid"].clone())).collect::<Vec<_>>()
    };
    let (starts, finishes) = (ends("s"), ends("f"));
    assert!(starts.len() == finishes.len() && starts.len() >= 4, "{starts:?}");
    for ((id, from), (other, to)) in starts.iter().zip(&finishes) {
        assert!(id == other && from != to, "{starts:?} {finishes:?}");
    }
}

#[test]
fn descriptors_that_went_with_a_message_are_shown() {
    let meetings = Meetings::record();
    let sent = meetings.events("sendmsg", "SCM_RIGHTS [");
    assert_eq!(sent.len(), 2, "{sent:?}");
    let of_many = meetings.events("sendmmsg", "{msg_len=1}, {msg_len=1, msg_control=[{SCM_RIGHTS [");
    assert_eq!(of_many.len(), 1, "{of_many:?}");
}

/// `sender` in gdb says who sent what was read, and leads there.
#[test]
fn gdb_goes_to_the_sender() {
    let meetings = Meetings::record();
    let received = meetings.events("read", "\"by pipe 1");
    let behind = received[0]["position"].as_u64().expect("a number") + 1;
    let mut gdb = meetings.retrovane(&["replay", "--gdb", "--batch", "--at", &behind.to_string()]);
    gdb.args(["--pid", &received[0]["process"].to_string(), "--ex", "sender", "--ex", "sender go"]);
    gdb.args([
        "--ex",
        "python print('process', gdb.selected_inferior().pid)",
        "--ex",
        "inferior 1",
        "--ex",
        "when",
    ]);
    let ran = gdb.arg(meetings.trace()).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let answer = meetings.sender(&received[0]);
    let sender = answer["sent"][0]["process"].to_string();
    assert!(said.contains(&format!("sent by process {sender} (")), "{said}");
    assert!(said.contains(&format!("\nprocess {sender}\n")) && said.contains("pipes ("), "{said}");
    assert!(said.contains(&format!("\n{behind}+0\n")), "{said}");
}
