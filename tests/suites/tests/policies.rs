//! Policies of streams: what a trace keeps of inputs, and what becomes of inputs and outputs in a replay.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{Mode, Outcome, Recording, TestResult, Tool, check, run_suite};

/// The age from which a file's times tell of each later change.
const SETTLED: Duration = Duration::from_millis(3200);

/// Recorded output is dropped, or goes into a file.
fn outputs_go_where_policies_say(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "policies", "parser")?;
    recording.write("in.txt", "goto\n")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 3, "is forbidden")?;
    let replay = |policy: &[&str]| recording.tool(&[&["replay", "--run", "trace"], policy].concat(), None);
    check(&replay(&[])?, 3, "is forbidden")?;
    for policy in [&["--output", "stderr=drop"][..], &["--policy", "policies"]] {
        recording.write("policies", "# quiet\noutput *=drop\noutput stderr=to errors.txt\n")?;
        let outcome = replay(policy)?;
        if outcome.code != 3 || !outcome.stderr.is_empty() {
            return Err(format!("{policy:?}: {outcome:?}"));
        }
    }
    if !recording.read("errors.txt")?.contains("is forbidden") {
        return Err("the output did not go into the file".into());
    }
    check(&replay(&["--output", "tcp:*=show"])?, 2, "stdout and stderr")
}

/// gdb shows recorded output once, however often it goes back; policies say where. What is real it cannot have.
fn gdb_shows_outputs_where_policies_say(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "policies-gdb", "parser")?;
    recording.write("in.txt", "goto\n")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 3, "is forbidden")?;
    let twice = ["--batch", "-ex", "continue", "-ex", "reverse-continue", "-ex", "continue"];
    let replay = |policy: &[&str]| recording.tool(&[&["replay", "trace"], policy, &twice].concat(), None);
    let shown = |outcome: &Outcome| {
        [outcome.stdout_text(), outcome.stderr_text()].concat().matches("is forbidden").count()
    };
    for (policy, expected) in
        [(&[][..], 1), (&["--output", "stderr=drop"], 0), (&["--output", "stderr=to errors"], 0)]
    {
        let outcome = replay(policy)?;
        if outcome.code != 0 || shown(&outcome) != expected {
            return Err(format!("{policy:?}: {outcome:?}"));
        }
    }
    if recording.read("errors")?.matches("is forbidden").count() != 1 {
        return Err(format!("the file of the output has {:?}", recording.read("errors")?));
    }
    check(&replay(&["--input", "file:**=real"])?, 2, "retrovane retry")?;
    check(&replay(&["--output", "stderr=check errors"])?, 2, "retrovane retry")
}

/// Waits until a file is old enough to be referred to.
fn settle(recording: &Recording, name: &str) -> TestResult {
    let path = recording.path(name);
    let written =
        std::fs::metadata(path).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
    while written.elapsed().is_ok_and(|age| age < SETTLED) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Of files that are referred to the trace has a digest; replay reads them, and says which has changed.
fn files_are_referred_to(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "refer", "parser")?;
    let text = "one two\n".repeat(2000);
    recording.write("in.txt", &text)?;
    settle(&recording, "in.txt")?;
    let folder = recording.scratch.path().canonicalize().map_err(|error| error.to_string())?;
    let refer = format!("file:{}/**=refer", folder.display());
    let keep = format!("file:{}/in.txt=keep", folder.display());
    let record = |name: &str, policies: &[&str]| {
        let words = [&["--quiet", "record", "-o", name], policies, &["--", "./parser", "in.txt"]].concat();
        recording.tool(&words, None)
    };
    check(&record("kept", &["--input", &refer, "--input", &keep])?, 0, "")?;
    recording.write("policies", &format!("# small traces\ninput {refer}\ninput stdin=real\n"))?;
    check(&record("referred", &["--policy", "policies"])?, 0, "")?;
    check(&recording.tool(&["dump", "referred", "--call", "read"], None)?, 0, "in.txt>\n")?;
    check(&recording.tool(&["info", "referred"], None)?, 0, "digests only")?;
    let replayed = |name: &str| recording.tool(&["replay", "--run", name], None);
    check(&replayed("referred")?, 0, "")?;
    check(&recording.tool(&["pack", "referred", "-o", "whole.rvpack"], None)?, 0, "")?;
    // The same length, and another content; then none.
    recording.write("in.txt", &text.replace("two", "owt"))?;
    check(&replayed("referred")?, 117, "in.txt is not what it was")?;
    std::fs::remove_file(recording.path("in.txt")).map_err(|error| error.to_string())?;
    check(&replayed("referred")?, 117, "in.txt is not what it was")?;
    check(&replayed("kept")?, 0, "")?;
    check(&replayed("whole.rvpack")?, 0, "")?;
    recording.write("in.txt", &text)?;
    check(&replayed("referred")?, 0, "")?;
    check(&record("wrong", &["--input", "stdin=refer"])?, 2, "only files can be referred to")?;
    check(&record("wrong", &["--input", "file:/a[=refer"])?, 2, "--input file:/a[=refer")?;
    check(&record("wrong", &["--input", "file:/**=real"])?, 2, "keep or refer is wanted")
}

/// A recording of the program of streams.
fn record(recording: &Recording, name: &str, argument: &str, stdin: Option<&str>) -> TestResult {
    let words = ["--quiet", "record", "-o", name, "--", "./streams", argument];
    check(&recording.tool(&words, stdin)?, 0, "")
}

fn replay(
    recording: &Recording,
    name: &str,
    policies: &[&str],
    stdin: Option<&str>,
) -> Result<Outcome, String> {
    recording.tool(&[&["replay", "--run", name], policies].concat(), stdin)
}

/// A policy for a file of the folder, or for all of them.
fn of(recording: &Recording, name: &str, policy: &str) -> Result<String, String> {
    let folder = recording.scratch.path().canonicalize().map_err(|error| error.to_string())?;
    Ok(format!("file:{}/{name}={policy}", folder.display()))
}

fn remove(recording: &Recording) -> TestResult {
    let failed = |error: std::io::Error| error.to_string();
    std::fs::remove_file(recording.path("out")).map_err(failed)?;
    std::fs::remove_file(recording.path("log")).map_err(failed)?;
    std::fs::remove_dir_all(recording.path("dir")).map_err(failed)
}

/// Files are written, appended to, renamed and removed again, by two processes, and only where a policy says so.
fn files_are_real(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "policies", "files", "streams")?;
    recording.write("in", "one..\ntwo..\nthree\nfour.\n")?;
    record(&recording, "trace", "files", None)?;
    let names = ["out", "log", "dir/copied"];
    let read = |names: [&str; 3]| names.map(|name| recording.read(name).unwrap_or_default());
    let written = read(names);
    remove(&recording)?;
    check(&replay(&recording, "trace", &[], None)?, 0, "fourth: three")?;
    if recording.path("out").exists() || recording.path("log").exists() {
        return Err("a replay without a policy wrote".into());
    }
    let all = of(&recording, "**", "real")?;
    check(&replay(&recording, "trace", &["--output", &all], None)?, 0, "out.new")?;
    if read(names) != written || recording.path("out.new").exists() || recording.path("gone").exists() {
        return Err(format!("{:?} were written, and {:?} in the replay", written, read(names)));
    }
    let compared = of(&recording, "out*", "check")?;
    check(&replay(&recording, "trace", &["--output", &compared], None)?, 0, "to compare it")?;
    recording.write("out", "01BA4567childmore")?;
    check(
        &replay(&recording, "trace", &["--output", &compared], None)?,
        117,
        "out is not what the program wrote: byte 2",
    )?;
    let log = of(&recording, "log", "check")?;
    check(&replay(&recording, "trace", &["--output", &log], None)?, 2, "appending")?;
    let mine = of(&recording, "out.new", "to mine")?;
    check(&replay(&recording, "trace", &["--output", &mine], None)?, 0, "in place of")?;
    if recording.read("mine")? != written[0] || recording.read("out")? != "01BA4567childmore" {
        return Err("the output did not go into the file alone".into());
    }
    let half = of(&recording, "out.new", "real")?;
    check(&replay(&recording, "trace", &["--output", &half], None)?, 2, "the policies for both")?;
    check(&replay(&recording, "trace", &["--output", &all, "--sandbox", "always"], None)?, 2, "the sandbox")
}

/// Inputs come from where a policy says, and what is another one is named.
fn inputs_are_real(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "policies", "inputs", "streams")?;
    recording.write("in", "one..\ntwo..\nthree\nfour.\n")?;
    record(&recording, "trace", "files", None)?;
    let real = of(&recording, "in", "real")?;
    recording.write("policies", &format!("input {real}\n"))?;
    let outcome = replay(&recording, "trace", &["--policy", "policies"], None)?;
    check(&outcome, 0, "fourth: three")?;
    if outcome.stderr_text().contains("is not what it was") {
        return Err(format!("the same file: {outcome:?}"));
    }
    recording.write("in", "one..\ntwo..\nTHREE\nfour.\n")?;
    let changed = replay(&recording, "trace", &["--input", &real], None)?;
    check(&changed, 0, "in is not what it was: byte 0 of what event")?;
    check(&changed, 0, "fourth: THREE")?;
    recording.write("other", "1111.\n2222.\n3333.\n4444.\n")?;
    let from = of(&recording, "in", "from other")?;
    check(&replay(&recording, "trace", &["--input", &from], None)?, 0, "third: 3333.")?;
    recording.write("in", "one..\n")?;
    check(&replay(&recording, "trace", &["--input", &real], None)?, 117, "in ends before it did")?;
    std::fs::remove_file(recording.path("in")).map_err(|error| error.to_string())?;
    check(&replay(&recording, "trace", &["--input", &real], None)?, 117, "No such file")?;
    check(&replay(&recording, "trace", &[], None)?, 0, "fourth: three")?;

    recording.write("typed", "abcdef\n")?;
    record(&recording, "stdin", "stdin", Some("typed"))?;
    check(&replay(&recording, "stdin", &[], Some("other"))?, 0, "stdin: abcdef")?;
    check(&replay(&recording, "stdin", &["--input", "stdin=real"], Some("other"))?, 0, "stdin: 1111.")?;
    check(&replay(&recording, "stdin", &["--input", "stdin=from other"], None)?, 0, "stdin: 1111.")?;
    recording.write("expected", "stdin: abcdef\n")?;
    check(&replay(&recording, "stdin", &["--output", "stdout=check expected"], None)?, 0, "")?;
    check(&replay(&recording, "stdin", &["--output", "stdout=check other"], None)?, 117, "byte 0 differs")
}

/// Answers each connection with a text of six bytes, and counts what it was asked.
fn serve(
    mut connections: impl Iterator<Item = std::io::Result<impl Read + Write>> + Send + 'static,
    answers: &'static [&'static str],
    asked: &Arc<AtomicUsize>,
) {
    let asked = Arc::clone(asked);
    std::thread::spawn(move || {
        for answer in answers {
            let Some(Ok(mut connection)) = connections.next() else { return };
            let mut question = [0; 6];
            if connection.read_exact(&mut question).is_ok() && question == *b"hello\n" {
                asked.fetch_add(1, Ordering::SeqCst);
            }
            // Who asked may be gone: its test says why.
            let _ = connection.write_all(answer.as_bytes());
        }
    });
}

/// Unix and TCP connections are made anew, beside what is fed, in one epoll set.
fn connections_are_real(tool: &Arc<Tool>) -> TestResult {
    let failed = |error: std::io::Error| error.to_string();
    let recording = Recording::new(tool, "policies", "connections", "streams")?;
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = UnixListener::bind(recording.path("socket")).map_err(failed)?;
    serve(
        std::iter::from_fn(move || Some(listener.accept().map(|(one, _)| one))),
        &["local1", "local2"],
        &asked,
    );
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port().to_string();
    serve(
        std::iter::from_fn(move || Some(listener.accept().map(|(one, _)| one))),
        &["far..1", "far..2"],
        &asked,
    );
    record(&recording, "trace", &port, None)?;
    let counted = |expected: usize| match asked.load(Ordering::SeqCst) {
        found if found == expected => Ok(()),
        found => Err(format!("the servers were asked {found} times instead of {expected}")),
    };
    let outcome = replay(&recording, "trace", &[], None)?;
    check(&outcome, 0, "unix: local1")?;
    counted(2)?;
    let tcp = format!("tcp:*:{port}=real");
    let policies = ["--input", &tcp, "--output", &tcp, "--input", "unix:**=real", "--output", "unix:**=real"];
    let outcome = replay(&recording, "trace", &policies, None)?;
    for says in ["unix: local2", "tcp: far..2", "pipe: fed", "this replay connects to tcp:127.0.0.1:"] {
        check(&outcome, 0, says)?;
    }
    counted(4)?;
    // What was sent, without anybody who is asked.
    check(&replay(&recording, "trace", &["--output", "tcp:**=to sent"], None)?, 0, "tcp: far..1")?;
    if recording.read("sent")? != "hello\n" {
        return Err("what was sent is not in the file".into());
    }
    recording.write("answer", "typed.")?;
    check(&replay(&recording, "trace", &["--input", "unix:**=from answer"], None)?, 0, "unix: typed.")?;
    std::fs::remove_file(recording.path("socket")).map_err(failed)?;
    check(&replay(&recording, "trace", &["--input", "unix:**=real"], None)?, 117, "No such file")
}

/// All that a pack holds, as it is without compression.
fn content_of(recording: &Recording, pack: &str) -> Result<Vec<u8>, String> {
    let failed = |error: trace_store::StoreError| error.to_string();
    let unpacked = recording.path(&format!("{pack}.unpacked"));
    trace_store::pack::unpack(&recording.path(pack), &unpacked).map_err(failed)?;
    let trace = trace_store::TraceReader::open(&unpacked).map_err(failed)?;
    let mut content = format!("{:?} {:?}", trace.meta(), trace.summary()).into_bytes();
    let mut chunk = Vec::new();
    for info in trace.lanes() {
        let mut reader = trace.lane(info.lane).map_err(failed)?;
        while reader.next_chunk(&mut chunk).map_err(failed)?.is_some() {
            content.extend_from_slice(&chunk);
        }
    }
    Ok(content)
}

/// Which of the texts are in a pack.
fn found_in(recording: &Recording, pack: &str, texts: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let content = content_of(recording, pack)?;
    let is_there = |text: &str| content.windows(text.len()).any(|window| window == text.as_bytes());
    Ok(texts.iter().copied().filter(|text| is_there(text)).collect())
}

/// What is masked is in no byte of a pack, which is replayed all the same; what no mask reaches is not handed out.
fn secrets_are_masked(tool: &Arc<Tool>) -> TestResult {
    const KEY: &str = "sesame-0815-tower";
    const KEY_IN_HEX: &str = "736573616d652d303831352d746f776572";
    const SECRETS: [&str; 4] = [KEY, "736573616d65", "filed-secret", "far.-secret"];
    let failed = |error: std::io::Error| error.to_string();
    let recording = Recording::new(tool, "policies", "secrets", "secrets")?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port().to_string();
    let connections = std::iter::from_fn(move || Some(listener.accept().map(|(one, _)| one)));
    serve(connections, &["far.-secret", "far.-secret"], &Arc::default());
    recording.write("in", "typed-secret\n")?;
    recording.write("settings", "password = filed-secret\n")?;
    let key = format!("API_KEY={KEY}");
    let record = ["--quiet", "record", "-o", "trace", "--", "env", &key, "./secrets", &port];
    check(&recording.tool(&record, Some("in"))?, 0, KEY_IN_HEX)?;
    check(&recording.tool(&["pack", "trace", "-o", "whole.rvpack"], None)?, 0, "")?;
    if found_in(&recording, "whole.rvpack", &SECRETS)?.len() != SECRETS.len() {
        return Err("the program has no secrets".into());
    }
    let outcome = recording.tool(&["pack", "trace", "--redact", "-o", "usual.rvpack"], None)?;
    for says in ["masked: API_KEY", "masked: tcp:127.0.0.1:", "replays to its end", "end of 1 processes"] {
        check(&outcome, 0, says)?;
    }
    let left = found_in(&recording, "usual.rvpack", &SECRETS)?;
    if left != ["filed-secret"] {
        return Err(format!("the usual pack holds {left:?}"));
    }
    let settings = of(&recording, "settings", "")?;
    let settings = settings.trim_end_matches('=');
    let more = ["--redact", "--mask", "stdin", "--mask", settings];
    let report = [&["report", "trace", "-o", "page.html"], &more[..]].concat();
    check(&recording.tool(&report, None)?, 0, "masked: stdin")?;
    let left = found_in(&recording, "page.rvpack", &SECRETS)?;
    if !left.is_empty()
        || SECRETS.iter().any(|text| recording.read("page.html").is_ok_and(|page| page.contains(text)))
    {
        return Err(format!("the pack holds {left:?}, or the page some"));
    }
    let replayed = recording.tool(&["replay", "--run", "page.rvpack"], None)?;
    check(&replayed, 0, &format!("at xxxxxxxxxxxxxxxxx\n{}\n12 24 11\n", "78".repeat(KEY.len())))?;
    check(&recording.tool(&["info", "page.rvpack.unpacked"], None)?, 0, "redacted")?;
    // A value is found although each of its bytes was read by itself.
    let typed = ["pack", "trace", "--redact", "--mask", "value:typed-secret", "-o", "typed.rvpack"];
    check(&recording.tool(&typed, None)?, 0, "a value that was given (1 places)")?;
    content_of(&recording, "typed.rvpack")?;
    let dumped = recording.tool(&["dump", "typed.rvpack.unpacked"], None)?.stdout_text();
    if dumped.matches("read(0, \"x\", 1)").count() != "typed-secret".len() {
        return Err(format!("what was typed is there:\n{dumped}"));
    }
    // Of "unsen-secret" each byte is another one in the log.
    let record = [
        "--quiet",
        "record",
        "-o",
        "hidden",
        "--",
        "env",
        "API_KEY=none1234",
        "./secrets",
        &port,
        "tordo,rdbsdu",
    ];
    check(&recording.tool(&record, Some("in"))?, 0, "12 24 11")?;
    let hidden = ["pack", "hidden", "--redact", "--mask", "value:unsen-secret", "-o", "hidden.rvpack"];
    check(&recording.tool(&hidden, None)?, 125, "holds the value of a value that was given at its end")?;
    if recording.path("hidden.rvpack").exists() {
        return Err("it was handed out".into());
    }
    check(&recording.tool(&["pack", "trace", "--redact", "--mask", "stdout"], None)?, 2, "computed again")
}

/// What was read from a stream that is masked is masked where another thread passes it on, too.
fn what_is_passed_on_is_masked(tool: &Arc<Tool>) -> TestResult {
    const CONTENT: &str = "Qz8Word = filed-secret\nuser = Qx-Somebody\nQ7y1\n";
    const PARTS: [&str; 6] = ["Qz8W", "filed-secret", "d-secr", "Qx-Somebody", "Q7y1", "66696c65642d736563"];
    const COUNTS: &str = "47 91 94";
    let recording = Recording::new(tool, "policies", "masked-threads", "masked_threads")?;
    recording.write("settings", CONTENT)?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./masked_threads"];
    check(&recording.tool(&record, None)?, 0, &format!("{CONTENT}{CONTENT}{COUNTS}"))?;
    check(&recording.tool(&["pack", "trace", "-o", "whole.rvpack"], None)?, 0, "")?;
    if found_in(&recording, "whole.rvpack", &PARTS)?.len() != PARTS.len() {
        return Err("the program passes nothing on".into());
    }
    let settings = of(&recording, "settings", "")?;
    let mask = ["pack", "trace", "--redact", "--mask", settings.trim_end_matches('='), "-o", "masked.rvpack"];
    let masked = recording.tool(&mask, None)?;
    let says =
        ["processes passed on", "what programs made of it (48 B)", "the masked trace replays to its end"];
    for says in says {
        check(&masked, 0, says)?;
    }
    let left = found_in(&recording, "masked.rvpack", &PARTS)?;
    if !left.is_empty() {
        return Err(format!("the pack holds {left:?}"));
    }
    let lines: String = CONTENT.chars().map(|letter| if letter == '\n' { letter } else { 'x' }).collect();
    let replayed = recording.tool(&["replay", "--run", "masked.rvpack"], None)?;
    check(&replayed, 0, &format!("{lines}{lines}{COUNTS}"))
}

type Check = fn(&Arc<Tool>) -> TestResult;

/// A block that is read again and again is in the trace twice at most, though others were read meanwhile.
fn what_was_read_is_not_stored_again(tool: &Arc<Tool>) -> TestResult {
    /// The program reads 1,500 blocks of 4 KiB that cannot be compressed, each nine times and more.
    const CONTENT_BYTES: u64 = 1500 * 4096;
    let recording = Recording::new(tool, "guests", "reread", "rereads_own_file")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./rereads_own_file"];
    check(&recording.tool(&record, None)?, 0, "parent: ")?;
    check(&recording.tool(&["replay", "--run", "trace"], None)?, 0, "parent: ")?;
    let log = std::fs::metadata(recording.path("trace").join("events.rvt"));
    let bytes = log.map_err(|error| error.to_string())?.len();
    if bytes > 2 * CONTENT_BYTES {
        return Err(format!("a log of {bytes} bytes, of {CONTENT_BYTES} that were read"));
    }
    Ok(())
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let checks: [(&str, Check); 9] = [
        ("outputs", outputs_go_where_policies_say),
        ("gdb", gdb_shows_outputs_where_policies_say),
        ("refer", files_are_referred_to),
        ("reread", what_was_read_is_not_stored_again),
        ("files", files_are_real),
        ("inputs", inputs_are_real),
        ("connections", connections_are_real),
        ("secrets", secrets_are_masked),
        ("masked_threads", what_is_passed_on_is_masked),
    ];
    let trial = |(name, check): (&str, Check)| {
        let tool = Arc::clone(tool);
        Trial::test(name, move || match tool.mode {
            Mode::Native => Ok(()),
            _ => check(&tool).map_err(Failed::from),
        })
    };
    checks.into_iter().map(trial).collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
