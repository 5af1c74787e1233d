//! Listing, describing, packing and removing traces; the words around them.

mod synthetic;

use events::{DETECTED, Kind, REFUSED, StopReason, Tag};
use synthetic::{Home, birth, call, event, exit, first_return, flagged_call, fork};
use trace_store::LaneEnd;

/// A finished trace of two processes, one of which recording left.
fn write(home: &Home, name: &str) {
    let mut trace = home.trace(name);
    let parent = [
        birth("/bin/prog", &["prog", "an argument"]),
        fork(1, 101),
        flagged_call("io_uring_setup", REFUSED, -38, &[8, 0x10], &[]),
        flagged_call("ioctl", DETECTED, 0, &[3, 0x1234_5678, 0x10], &[]),
        exit(3),
    ];
    trace.lane(0, None, 100, &parent, Some(LaneEnd::Exited(3)));
    let stop =
        event(Kind::Stop, 0, StopReason::Thread as u16, &[], &[(0, Tag::Text, b"it created a thread")]);
    trace.lane(1, Some(0), 101, &[first_return(), stop], Some(LaneEnd::Stopped(StopReason::Thread as u16)));
    trace.finish(LaneEnd::Exited(3));
}

#[test]
fn ls_shows_a_line_for_each_trace() {
    let home = Home::new();
    assert_eq!(home.prints(&["ls"]), "");
    assert_eq!(home.prints(&["ls", "--json"]), "[]\n");
    write(&home, "prog-0");
    drop(home.trace("prog-1"));
    let text = home.prints(&["ls"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("NAME    WHEN (UTC)           COMMAND"));
    assert!(lines[1].starts_with("prog-0  2024-03-01 12:30:00  prog 'an argument'  3          7"), "{text}");
    assert!(lines[2].contains("  cut "), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&home.prints(&["list", "--json"])).expect("it is JSON");
    assert_eq!(json[0]["exit"], serde_json::json!({ "exited": 3 }));
    assert_eq!(json[0]["command"], serde_json::json!(["prog", "an argument"]));
    assert_eq!(json[1]["cut"], true);
}

#[test]
fn info_tells_what_a_user_asks() {
    let home = Home::new();
    write(&home, "prog-0");
    let text = home.prints(&["info", "prog-0"]);
    for expected in [
        "command    prog 'an argument'",
        "ended      with exit code 3",
        "state      whole",
        "stopped    process 101: it created a thread",
        "events     7 in 2 processes",
        "  100    prog 'an argument'",
        "    101  (its parent's image)",
        "io_uring_setup  its rings are memory that the kernel writes at any time",
        "ioctl 0x12345678",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&home.prints(&["info", "--json"])).expect("it is JSON");
    assert_eq!(json["refused"][0]["count"], 1);
    assert_eq!(json["processes"][1]["stop"], "it created a thread");
    assert_eq!(json["processes"][1]["parent_lane"], 0);
    assert_eq!(json["cut"], serde_json::Value::Null);
}

#[test]
fn info_says_that_a_trace_is_cut() {
    let home = Home::new();
    let mut trace = home.trace("prog-0");
    trace.lane(0, None, 100, &[call("getpid", 100, &[], &[])], None);
    drop(trace);
    let output = home.run(&["info", "prog-0"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(119));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not say how the program ended"));
    assert!(text.contains("what lies before can be replayed"), "{text}");
    assert!(text.contains("after the trace's end"), "{text}");
}

#[test]
fn rm_removes_what_is_named_and_all_only_if_it_is_meant() {
    let home = Home::new();
    for name in ["a-0", "a-1", "a-2"] {
        write(&home, name);
    }
    home.prints(&["rm", "a-0"]);
    assert!(!home.path().join("a-0").exists() && home.path().join("a-1").exists());
    let (code, message) = home.fails(&["rm", "--all"]);
    assert_eq!(code, 2);
    assert!(message.contains("2 traces") && message.contains("--yes"), "{message}");
    let (code, message) = home.fails(&["rm", "nothing-0", "a-1"]);
    assert_eq!(code, 121);
    assert!(message.contains("nothing-0"), "{message}");
    assert!(!home.path().join("a-1").exists(), "one name that is wrong does not keep the others");
    assert_eq!(home.fails(&["rm", "../a-2"]).0, 2);
    home.prints(&["rm", "--all", "--yes"]);
    assert_eq!(home.prints(&["ls"]), "");
}

#[test]
fn a_pack_is_a_trace_elsewhere() {
    let home = Home::new();
    write(&home, "prog-0");
    let pack = home.path().join("elsewhere.rvpack");
    let pack = pack.to_str().expect("the path is text");
    home.prints(&["pack", "prog-0", "-o", pack]);
    let message = String::from_utf8_lossy(&home.run(&["info", pack]).stderr).into_owned();
    assert!(message.contains("pack"), "{message}");

    let mut other = Home::new();
    // As on a machine where nothing was recorded yet.
    other.use_folder("new/home");
    // The trace holds no program that runs: replay fails after it has unpacked.
    let _ = other.run(&["replay", pack]);
    assert!(other.path().join("elsewhere/trace.json").exists());
    let _ = other.run(&["replay", pack]);
    assert_eq!(other.prints(&["ls"]).lines().count(), 2, "it is unpacked once");
    assert_eq!(other.prints(&["dump", "elsewhere"]), home.prints(&["dump", "prog-0"]));
}

#[test]
fn a_pack_that_nobody_names_has_the_name_of_its_trace() {
    let home = Home::new();
    write(&home, "prog-0");
    let here = tempfile::tempdir().expect("a temporary directory");
    let pack = || home.command().args(["pack", "prog-0"]).current_dir(&here).output().expect("it starts");
    for _ in 0..2 {
        let output = pack();
        assert!(output.status.success(), "the pack of the same trace is replaced: {output:?}");
        assert_eq!(output.stdout, b"prog-0.rvpack\n");
        assert!(here.path().join("prog-0.rvpack").is_file());
    }
    std::fs::write(here.path().join("prog-0.rvpack"), "precious").expect("it can be written");
    assert_eq!(pack().status.code(), Some(2), "another file is not replaced");
    assert_eq!(std::fs::read(here.path().join("prog-0.rvpack")).expect("it is there"), b"precious");
}

#[test]
fn failures_say_what_to_do() {
    let home = Home::new();
    let (code, message) = home.fails(&["info"]);
    assert_eq!(code, 121);
    assert!(message.contains("retrovane record"), "{message}");
    let (code, message) = home.fails(&["dump", "nothing-7"]);
    assert_eq!(code, 121);
    assert!(message.contains("nothing-7"), "{message}");
    assert_eq!(home.fails(&["--no-such-option"]).0, 2);
    assert_eq!(home.fails(&["pack", "nothing-7", "-o", "x"]).0, 121);
    write(&home, "prog-0");
    std::fs::write(home.path().join("prog-0/trace.json"), "{}").expect("it can be overwritten");
    assert_eq!(home.fails(&["info", "prog-0"]).0, 121);
    assert!(home.prints(&["ls"]).contains("prog-0"), "a trace that is damaged is listed");
}

#[test]
fn home_can_be_given_on_the_command_line() {
    let (home, other) = (Home::new(), Home::new());
    write(&other, "prog-0");
    let dir = other.path().to_str().expect("the path is text");
    assert!(home.prints(&["ls", "--home", dir]).contains("prog-0"));
    let path = other.path().join("prog-0");
    assert!(home.prints(&["info", path.to_str().expect("the path is text")]).contains("whole"));
}

#[test]
fn completions_and_manual_pages_are_made() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.prints(&["completions", shell]).contains("doctor"), "{shell}");
    }
    assert!(home.prints(&["man"]).contains(".TH retrovane 1"));
    assert!(home.prints(&["man", "dump"]).contains("strace"));
    assert_eq!(home.fails(&["man", "nothing"]).0, 2);
    let dir = home.path().join("man");
    home.prints(&["man", "--dir", dir.to_str().expect("the path is text")]);
    assert!(dir.join("retrovane.1").exists() && dir.join("retrovane-dump.1").exists());
}

#[test]
fn doctor_answers_in_words_and_in_json() {
    let home = Home::new();
    let output = home.run(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("Programs can"), "{text}");
    let json = home.run(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    let code = if json["works"].as_bool().expect("it is a truth value") { 0 } else { 122 };
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn a_recording_that_fails_leaves_no_trace() {
    let home = Home::new();
    assert_eq!(home.fails(&["record", "no-such-program-anywhere"]).0, 127);
    assert_eq!(home.fails(&["record", "/"]).0, 126);
    assert_eq!(home.prints(&["ls", "--json"]), "[]\n");
    let left = std::fs::read_dir(home.path()).expect("it exists").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| name != "kept").collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("no-such")), "{left:?}");
}
