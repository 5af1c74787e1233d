//! Recorded failures that are run again with something changed, compared, and made small.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Failed, Trial};
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Recording, TestResult, Tool, check, run, run_suite, unless_missing,
};

/// Some 64 KB with three words that are needed.
fn long_input(needed: [&str; 3]) -> String {
    let mut text = String::new();
    for line in 0..2000 {
        let _ = writeln!(text, "  int value = compute({line}, argument);");
        match line {
            77 => text.push_str(&format!("  if (x) {} end;\n", needed[0])),
            1033 => text.push_str(&format!("  {} (y) {{ case 1: break; }}\n", needed[1])),
            1998 => text.push_str(&format!("  {} u {{ int a; }};\n", needed[2])),
            _ => {}
        }
    }
    text
}

/// The script that `minimize` leaves fails by itself with this code.
fn check_script(recording: &Recording, code: i32) -> TestResult {
    let mut script = Command::new("sh");
    script.arg(recording.path("small/reproduce.sh")).stdin(Stdio::null());
    let outcome = run(script, RUN_TIME_MAX)?;
    if outcome.code == code { Ok(()) } else { Err(format!("the script ended with {outcome:?}")) }
}

fn stdin_gets_small(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-stdin", "parser")?;
    recording.write("in", &long_input(["goto", "switch", "union"]))?;
    check(&recording.tool(&["--quiet", "record", "-o", "trace", "--", "./parser"], Some("in"))?, 139, "")?;
    // What is minimised is what was recorded, not what is there today.
    recording.write("in", "")?;
    let outcome = recording.tool(&["minimize", "trace", "-o", "small"], None)?;
    check(&outcome, 0, "1-minimal")?;
    let small = recording.read("small/stdin")?;
    let mut words: Vec<&str> = small.split(|char: char| !char.is_alphabetic()).collect();
    words.sort_unstable();
    if small.len() != 17 || words != ["goto", "switch", "union"] {
        return Err(format!("not the smallest: {small:?}"));
    }
    let last = outcome.stdout_text().lines().last().unwrap_or_default().to_owned();
    if !last.contains(" 17 bytes after") {
        return Err(format!("the last line does not say the size: {last}"));
    }
    check_script(&recording, 139)
}

fn files_get_small(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-file", "parser")?;
    recording.write("in.txt", &long_input(["goto", "while", "if"]))?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 3, "error: 'goto' is forbidden")?;
    let before = recording.read("in.txt")?;
    check(&recording.tool(&["minimize", "trace", "-o", "small"], None)?, 0, "1-minimal")?;
    if recording.read("in.txt")? != before {
        return Err("the program's own file has changed".into());
    }
    let small = recording.read("small/files/in.txt")?;
    if small != "goto" {
        return Err(format!("not the smallest: {small:?}"));
    }
    check_script(&recording, 3)
}

fn what_clients_sent_gets_small(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-clients", "sums_numbers")?;
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .map_err(|error| error.to_string())?
        .port();
    let clients = std::thread::spawn(move || {
        let lines: String =
            (0..300).map(|number| format!("add key{number} {number}\nget key{number}\n")).collect();
        for text in [lines.clone(), lines.replace("key140 140", "key140 -5") + "sum\n"] {
            let connect = || TcpStream::connect(("127.0.0.1", port));
            let begun = Instant::now();
            // It listens at some time; that nobody connects is found by the recording's limit.
            let mut stream = loop {
                match connect() {
                    Ok(stream) => break stream,
                    Err(_) if begun.elapsed() < RUN_TIME_MAX => std::thread::yield_now(),
                    Err(error) => return Err(error),
                }
            };
            stream.write_all(text.as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            // A server that fails resets the connection.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        Ok::<(), std::io::Error>(())
    });
    let port = port.to_string();
    check(
        &recording.tool(&["--quiet", "record", "-o", "trace", "--", "./sums_numbers", &port], None)?,
        139,
        "",
    )?;
    clients.join().map_err(|_| "the clients failed")?.map_err(|error| error.to_string())?;
    let outcome = recording.tool(&["minimize", "trace", "-o", "small", "--input-only"], None)?;
    check(&outcome, 0, "1-minimal")?;
    let small = [recording.read("small/connections/1")?, recording.read("small/connections/2")?];
    // `add k -1` and `sum`, with what the format of scanf leaves.
    if !small[0].is_empty() || small[1].len() > 14 || !small[1].contains("sum") {
        return Err(format!("not the smallest: {small:?}"));
    }
    check_script(&recording, 139)
}

/// Each try of a hunt reads all that came through a pipe.
fn tries_of_a_hunt_read_a_pipe(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "hunt-pipe", "lucky")?;
    for (bytes, kind) in [("1000", "-p"), ("300000", "-f")] {
        let feed = format!("head -c {bytes} /dev/zero | \"$@\"");
        let test = format!("[ {kind} /proc/self/fd/0 ] && [ $(wc -c) = {bytes} ]");
        let hunt = ["hunt", "--tries", "3", "-o", bytes, "--", "sh", "-c", &test];
        check(&recording.tool_behind(&["sh", "-c", &feed, "sh"], &hunt)?, 1, "none of 3 tries failed")?;
    }
    Ok(())
}

/// What is tried at the same time in other sandboxes meets in no file, and changes neither the result nor what counts.
fn helpers_change_nothing(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-helpers", "parser")?;
    let lines: String = (0..120).map(|at| format!("line {at} (of it)\n")).collect();
    recording.write("in", &format!("{lines}the first\n{lines}the second\n{lines}"))?;
    // A try writes what the next command of it reads.
    let script = ": >copy; while read -r line; do echo \"$line\" >>copy; done
        [ \"$(grep -c -e first -e second copy)\" = 2 ] || exit 0; echo 'error: both' >&2; exit 9";
    let record = ["--quiet", "record", "-o", "trace", "--", "sh", "-c", script];
    check(&recording.tool(&record, Some("in"))?, 9, "error: both")?;
    let mut found = Vec::new();
    for (jobs, dir) in [("1", "alone"), ("4", "together")] {
        let minimize = ["-v", "minimize", "trace", "-o", dir, "--input-only", "--jobs", jobs, "--json"];
        let outcome = recording.tool(&minimize, None)?;
        check(&outcome, 0, "\"is_minimal\":true")?;
        if outcome.stderr_text().contains("a helper is ready") != (jobs == "4") {
            return Err(format!("{jobs} at once: {}", outcome.stderr_text()));
        }
        let tests = outcome
            .stdout_text()
            .split("\"tests\":")
            .nth(1)
            .map(|text| text.chars().take_while(char::is_ascii_digit).collect::<String>());
        found.push((recording.read(&format!("{dir}/stdin"))?, tests));
    }
    if found[0] != found[1] || found[0].0 != "first\nsecond\n" {
        return Err(format!("alone, and with helpers: {found:?}"));
    }
    Ok(())
}

fn a_test_decides(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-until", "parser")?;
    recording.write("in", "one two goto three\nfour five six\n")?;
    check(&recording.tool(&["--quiet", "record", "-o", "trace", "--", "./parser"], Some("in"))?, 3, "")?;
    let until = "grep -q five \"$RETROVANE_INPUT\"";
    let minimize = ["minimize", "trace", "-o", "small", "--input-only", "--until", until];
    check(&recording.tool(&minimize, None)?, 0, "1-minimal")?;
    let small = recording.read("small/stdin")?;
    if small == "five" { Ok(()) } else { Err(format!("not the smallest: {small:?}")) }
}

/// Another crash with the same signal is not the wanted one, though not each stack is looked at.
fn another_crash_is_not_the_same(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-crashes", "two_crashes")?;
    recording.write("in", &long_input(["first", "while", "second"]))?;
    check(
        &recording.tool(&["--quiet", "record", "-o", "trace", "--", "./two_crashes"], Some("in"))?,
        139,
        "",
    )?;
    let minimize = ["minimize", "trace", "-o", "small", "--input-only", "--json", "--rate"];
    let outcome = recording.tool(&minimize, None)?;
    check(&outcome, 0, "SIGSEGV in wanted < main")?;
    check(&outcome, 0, "\"is_minimal\":true")?;
    // Where the crashes of copies were others than they were taken for, whole runs had to find it.
    if outcome.stdout_text().contains("\"tries_per_s\":null") {
        return Err(format!("not by copies: {}", outcome.stdout_text()));
    }
    let small = recording.read("small/stdin")?;
    if small.len() == "firstsecond".len() && small.contains("first") && small.contains("second") {
        return check_script(&recording, 139);
    }
    Err(format!("not the smallest of this crash: {small:?}"))
}

/// Which files have to be there is a part of the result, and of those that need not be there none is.
fn files_that_are_needed_are_found(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-needs", "needs_files")?;
    for name in ["notes", "settings", "more"] {
        recording.write(name, "some text\n")?;
    }
    check(
        &recording.tool(&["--quiet", "record", "-o", "trace", "--", "./needs_files"], None)?,
        4,
        "error: ",
    )?;
    let outcome = recording.tool(&["minimize", "trace", "-o", "small"], None)?;
    check(&outcome, 0, "files present: 3 -> 1, ")?;
    let needed = recording.read("small/files-needed")?;
    if needed.lines().count() != 1 || !needed.ends_with("/settings\n") {
        return Err(format!("it needs {needed:?}"));
    }
    let script = recording.read("small/reproduce.sh")?;
    for (does, name) in [("needs", "settings"), ("does not need", "notes"), ("does not need", "more")] {
        if !script.lines().any(|line| line.starts_with(&format!("# It {does} ")) && line.ends_with(name)) {
            return Err(format!("the script does not say that it {does} {name}:\n{script}"));
        }
    }
    if !script.contains("# It asks for the time, and fails whatever that says.\n") {
        return Err(format!("the script does not speak of the time:\n{script}"));
    }
    let facts = recording.read("small/minimize.json")?;
    for fact in ["\"time\":\"asked for, not needed\"", "/settings\"]"] {
        if !facts.contains(fact) {
            return Err(format!("no {fact} in {facts}"));
        }
    }
    if recording.read("notes")? != "some text\n" {
        return Err("a file outside of the sandbox has changed".into());
    }
    check_script(&recording, 4)
}

/// No run finds what another one wrote, and none what the recorded one has left.
fn files_that_are_written_begin_anew(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-table", "keeps_table")?;
    let words: String =
        (0..300).map(|word| format!("word{}\n", if word == 200 { 17 } else { word })).collect();
    recording.write("in.txt", &words)?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./keeps_table"];
    check(&recording.tool(&record, Some("in.txt"))?, 4, "this word is there already")?;
    let left = recording.read("table")?;
    let outcome = recording.tool(&["minimize", "trace", "-o", "small"], None)?;
    check(&outcome, 0, "1-minimal")?;
    let small = recording.read("small/stdin")?;
    if small.len() != 3 || small.as_bytes()[0] != small.as_bytes()[2] {
        return Err(format!("not the smallest input: {small:?}"));
    }
    if recording.read("table")? != left {
        return Err("a file outside of the sandbox has changed".into());
    }
    Ok(())
}

/// What fails with the recorded time, or the recorded random numbers, only gets them in each try, and it is said.
fn circumstances_of_then_come_again(tool: &Arc<Tool>) -> TestResult {
    let words = format!("{}bad\n{0}", "good words\n".repeat(100));
    let minimized = |name: &str, fact: &str, record: &dyn Fn(&Recording) -> TestResult| {
        let recording = Recording::new(tool, "changed", name, "lucky")?;
        recording.write("in.txt", &words)?;
        record(&recording)?;
        let outcome = recording.tool(&["minimize", "trace", "-o", "small", "--input-only"], None)?;
        check(&outcome, 0, "1-minimal")?;
        let (small, facts) = (recording.read("small/stdin")?, recording.read("small/minimize.json")?);
        match small == "bad" && facts.contains(fact) {
            true => Ok(()),
            false => Err(format!("{fact}: {small:?}, {facts}")),
        }
    };
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    minimized("minimize-time", "\"time\":\"needed as recorded\"", &|recording| {
        let until = now() + 3;
        let command = ["--quiet", "record", "-o", "trace", "--", "./lucky", &until.to_string()];
        check(&recording.tool(&command, Some("in.txt"))?, 4, "a bad time")?;
        while now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    })?;
    minimized("minimize-random", "\"random_numbers\":\"needed as recorded\"", &|recording| {
        let hunt = ["--quiet", "hunt", "--tries", "5000", "-o", "trace", "--", "./lucky"];
        check(&recording.tool(&hunt, Some("in.txt"))?, 0, "")
    })
}

/// A fix is tried on the recorded crash, whose files are gone meanwhile.
fn a_fix_is_tried(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "retry", "parser")?;
    recording.write("in.txt", "goto switch union\n")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 139, "")?;
    std::fs::remove_file(recording.path("in.txt")).map_err(|error| error.to_string())?;
    check(&recording.tool(&["retry", "trace", "-o", "again"], None)?, 1, "the failure: the same")?;
    recording.build("parser", "-DFIXED", "fixed")?;
    let retry = ["retry", "trace", "--program", "fixed", "-o", "fixed-trace"];
    let outcome = recording.tool(&retry, None)?;
    check(&outcome, 118, "the failure: another")?;
    check(&outcome, 118, "recorded: SIGSEGV in check_words < main")?;
    recording.write("other.txt", "union switch\n")?;
    let retry = ["retry", "trace", "--input", "in.t?t=other.txt", "-o", "other", "--json"];
    check(&recording.tool(&retry, None)?, 0, "\"failure\":\"gone\"")?;
    // What was written is inside of the sandbox alone.
    if recording.path("in.txt").exists() {
        return Err("the file came back outside of the sandbox".into());
    }
    check(&recording.tool(&["diff", "trace", "again"], None)?, 0, "no difference")?;
    check(&recording.tool(&["diff", "trace", "other"], None)?, 1, "st_size=18")?;
    check(&recording.tool(&["replay", "--run", "again"], None)?, 139, "")?;
    // What was recorded last is still what is meant by no name.
    check(&recording.tool(&["--quiet", "record", "--", "true"], None)?, 0, "")?;
    check(&recording.tool(&["retry", "trace"], None)?, 1, "the failure: the same")?;
    check(&recording.tool(&["info"], None)?, 0, "command    true")?;
    check(&recording.tool(&["retry", "trace", "--program", "nowhere"], None)?, 2, "no such file")?;
    check(&recording.tool(&["retry", "trace", "--arg", "7=x"], None)?, 2, "the last argument")?;
    check(&recording.tool(&["retry", "trace", "--arg", "1=missing", "-o", "arg"], None)?, 118, "exit 2")
}

/// A page and a pack, and what is left out of them.
fn a_report_tells(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "report", "parser")?;
    recording.write("in.txt", "goto switch union <b> secret-word\n")?;
    let record = ["--quiet", "record", "-o", "trace", "--", "./parser", "in.txt"];
    check(&recording.tool(&record, None)?, 139, "")?;
    check(&recording.tool(&["report", "trace", "-o", "page.html"], None)?, 0, "page.rvpack")?;
    let page = recording.read("page.html")?;
    for wanted in [
        "SIGSEGV in check_words, called by main",
        "secret-word",
        "&lt;b&gt;",
        "first-&gt;text[0]",
        "      first = 0x8",
        "The program followed first, which is 0x8",
        ", and became 0x8, at position ",
    ] {
        if !page.contains(wanted) {
            return Err(format!("the page does not say {wanted}:\n{page}"));
        }
    }
    check(&recording.tool(&["replay", "--run", "page.rvpack"], None)?, 139, "")?;
    check(&recording.tool(&["report", "trace", "-o", "safe.html", "--redact"], None)?, 0, "left out")?;
    let page = recording.read("safe.html")?;
    if page.contains("secret-word") || recording.path("safe.rvpack").exists() {
        return Err(format!("a secret is left:\n{page}"));
    }
    // A value of the environment that is in the page elsewhere, too.
    let words =
        ["--quiet", "record", "-o", "keyed", "--", "env", "API_KEY=sesame-0815", "./parser", "in.txt"];
    check(&recording.tool(&words, None)?, 139, "")?;
    check(&recording.tool(&["report", "keyed", "-o", "keyed.html", "--redact"], None)?, 0, "API_KEY")?;
    let page = recording.read("keyed.html")?;
    if page.contains("sesame-0815") || !page.contains("API_KEY=[redacted]") {
        return Err(format!("a value of the environment is left:\n{page}"));
    }
    check(&recording.tool(&["report", "trace", "--minimal", "."], None)?, 2, "no result of")
}

/// Of a command, each process that fails leaves a page; the command ends as without it.
fn a_wrapped_command_leaves_reports(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "report-wrap", "parser")?;
    recording.write("good.txt", "one two\n")?;
    recording.write("bad.txt", "goto switch union\n")?;
    let wrapped =
        |script: &str| recording.tool(&["report", "--wrap", "-o", "reports", "--", "sh", "-c", script], None);
    let pages = || {
        let listed = std::fs::read_dir(recording.path("reports")).into_iter().flatten().flatten();
        let names = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".html")).collect::<Vec<_>>()
    };
    let passes = "if test -f missing; then exit 9; fi; ./parser good.txt";
    check(&wrapped(passes)?, 0, "no process failed")?;
    if !pages().is_empty() {
        return Err(format!("a command that passes left {:?}", pages()));
    }
    check(&wrapped("./parser bad.txt; ./parser good.txt; exit 5")?, 5, "reports/process-")?;
    let [page] = &pages()[..] else { return Err(format!("not one page: {:?}", pages())) };
    if !recording.read(&format!("reports/{page}"))?.contains("SIGSEGV in check_words") {
        return Err(format!("{page} does not tell of the crash"));
    }
    check(&recording.tool(&["replay", "--run", "reports/trace.rvpack"], None)?, 5, "")?;
    check(&recording.tool(&["report", "--wrap"], None)?, 2, "command is wanted")
}

/// A megabyte that no compression makes shorter.
fn random_bytes() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..1 << 17).flat_map(|_| next()).collect()
}

/// What was read of a file that is kept is not in the log; what is not surely the same is.
fn reads_are_by_reference(tool: &Arc<Tool>) -> TestResult {
    /// The age from which a file's times tell of each later change.
    const SETTLED: Duration = Duration::from_millis(3200);
    let recording = Recording::new(tool, "changed", "reads", "reads")?;
    let failed = |error: std::io::Error| format!("the file to read: {error}");
    std::fs::write(recording.path("in"), random_bytes()).map_err(failed)?;
    let written =
        std::fs::metadata(recording.path("in")).and_then(|found| found.modified()).map_err(failed)?;
    while written.elapsed().is_ok_and(|age| age < SETTLED) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let log_bytes = |name: &str, recorded: &Outcome| {
        let replayed = recording.tool(&["replay", "--run", name], None)?;
        if recorded.code != 0 || replayed.code != 0 || recorded.stdout != replayed.stdout {
            return Err(format!("{name}: {recorded:?}, replayed {replayed:?}"));
        }
        std::fs::metadata(recording.path(name).join("events.rvt")).map(|log| log.len()).map_err(failed)
    };
    let words = |name, file, how| ["--quiet", "record", "-o", name, "--", "./reads", file, how];
    let opened = |name, how| log_bytes(name, &recording.tool(&words(name, "in", how), None)?);
    let logs = [opened("first", "plain")?, opened("plain", "plain")?, opened("shared", "shared")?];
    // Standard input, which somebody outside may move, too.
    let input = log_bytes("input", &recording.tool(&words("input", "-", "plain"), Some("in"))?)?;
    let by_outsider = "exec 3<in; \"$@\" <&3 & while ! [ -e go ]; do sleep 0.02; done;
        head -c 5000 <&3 >/dev/null; : >gone; wait $!";
    let launcher = ["sh", "-c", by_outsider, "sh"];
    let moved = log_bytes("moved", &recording.tool_behind(&launcher, &words("moved", "-", "moved"))?)?;
    let changed = opened("changed", "changed")?;
    // The first one logs what it reads while the file is copied; of the last ones at least what is read
    // behind the change, or the fork.
    let few = 1 << 18;
    if logs[0] < few || [logs[1], input, moved].iter().any(|&log| log > few) || logs[2].min(changed) < 1 << 19
    {
        return Err(format!("bytes of the logs: {logs:?}, {input}, {moved}, {changed}"));
    }
    check(&recording.tool(&["dump", "plain"], None)?, 0, "\"F\\272\\243\\345\\f\\332H")?;
    // The content is in the pack.
    std::fs::remove_file(recording.path("in")).map_err(failed)?;
    check(&recording.tool(&["pack", "plain", "-o", "plain.rvpack"], None)?, 0, "")?;
    check(&recording.tool(&["replay", "--run", "plain.rvpack"], None)?, 0, "in parts")
}

/// What makes no sense is said at once.
fn nonsense_is_refused(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "changed", "minimize-nonsense", "parser")?;
    recording.write("in", "one two\n")?;
    check(&recording.tool(&["--quiet", "record", "-o", "trace", "--", "./parser"], Some("in"))?, 0, "")?;
    check(&recording.tool(&["minimize", "trace", "-o", "small"], None)?, 2, "did not fail")?;
    let missing = ["minimize", "trace", "-o", "small", "--until", "true", "--input", "nothing"];
    check(&recording.tool(&missing, None)?, 2, "did not read nothing")?;
    let never = ["minimize", "trace", "-o", "small", "--until", "false"];
    check(&recording.tool(&never, None)?, 1, "does not succeed for the recorded run itself")
}

/// Why there is no sandbox here, if so.
fn missing_sandbox() -> Option<String> {
    let tried = Command::new("unshare").args(["-U", "-r", "-m", "-n", "-p", "-f", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => None,
        _ => Some("user namespaces (unshare -U) are not permitted here".to_owned()),
    }
}

type Check = fn(&Arc<Tool>) -> TestResult;

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let checks: [(&str, Check); 15] = [
        ("reads", reads_are_by_reference),
        ("report", a_report_tells),
        ("wrap", a_wrapped_command_leaves_reports),
        ("retry", a_fix_is_tried),
        ("minimize::stdin", stdin_gets_small),
        ("minimize::file", files_get_small),
        ("minimize::clients", what_clients_sent_gets_small),
        ("hunt", tries_of_a_hunt_read_a_pipe),
        ("minimize::helpers", helpers_change_nothing),
        ("minimize::until", a_test_decides),
        ("minimize::crashes", another_crash_is_not_the_same),
        ("minimize::needs", files_that_are_needed_are_found),
        ("minimize::table", files_that_are_written_begin_anew),
        ("minimize::luck", circumstances_of_then_come_again),
        ("minimize::nonsense", nonsense_is_refused),
    ];
    let missing = missing_sandbox();
    let trial = |(name, check): (&str, Check)| {
        let tool = Arc::clone(tool);
        let run = move || match tool.mode {
            Mode::Native => Ok(()),
            _ => check(&tool).map_err(Failed::from),
        };
        unless_missing(Trial::test(name, run), missing.clone())
    };
    checks.into_iter().map(trial).collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
