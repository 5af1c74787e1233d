//! A lab goes back to its checkpoints, and on from there.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use suites::{Leftovers, Mode, Scratch, TestResult, Tool, User};

use crate::lines::Lines;
use crate::{call, failed, text};

/// Counts in its memory and in a file; each connection has a thread.
const SERVER: &str = "
import os, socket, threading
count = 0
def serve(connection):
    global count
    while connection.recv(1):
        count += 1
        with open('kept', 'a') as kept: kept.write('x')
        connection.sendall(b'%d %d' % (count, os.path.getsize('kept')))
listener = socket.create_server(('', 7000))
while True: threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
";
/// Counts too, over one connection, and with a process for each line.
const CLIENT: &str = "
import socket, subprocess, time
time.sleep(.2)
server, count = socket.create_connection(('server', 7000)), 0
while True:
    time.sleep(.1)
    server.sendall(b'x')
    count += 1
    subprocess.run(['echo', str(count), server.recv(64).decode()])
";

/// A lab that runs, and what it says.
struct Running {
    child: Child,
    stdout: Lines,
}

impl Running {
    fn start(tool: &Tool, scratch: &Scratch, description: &str, more: &[&str]) -> Result<Running, String> {
        let file = scratch.join("lab.toml");
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let (dir, file) = (scratch.join("run").display().to_string(), file.display().to_string());
        let own = ["--quiet", "lab", "run", "-o", &dir];
        let words: Vec<_> =
            own.into_iter().chain(more.iter().copied()).chain([file.as_str()]).map(Into::into).collect();
        tool.share_kept_files(scratch.path())?;
        let mut command = tool.command(User::Current, scratch.path(), &words);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("no output")?;
        Ok(Running { child, stdout: Lines::of(stdout) })
    }

    /// The next line that has these words.
    fn line(&mut self, words: &str) -> Result<String, String> {
        let mut said = String::new();
        loop {
            let line = self.stdout.next().map_err(|error| format!("{error}; `{words}` is waited for"))?;
            let line = line.ok_or_else(|| format!("nobody said `{words}` behind:\n{said}"))?;
            if line.contains(words) {
                return Ok(line);
            }
            said += &line;
        }
    }

    /// The next lines of the client.
    fn rounds(&mut self, count: usize) -> Result<Vec<String>, String> {
        (0..count).map(|_| self.line("client | ")).collect()
    }
}

/// The count that all agree on.
fn count(line: &str) -> Result<u64, String> {
    let words = line.split(" | ").nth(1).unwrap_or_default();
    let counts: Vec<u64> = words.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match counts[..] {
        [own, theirs, kept] if own == theirs && own == kept => Ok(own),
        _ => Err(format!("client, server and file do not agree: {line}")),
    }
}

fn described(clock: &str) -> String {
    let quoted = |program: &str| program.replace('\n', "\\n");
    format!(
        "clock = \"{clock}\"\n[node.server]\ncommand = [\"python3\", \"-c\", \"{}\"]\n[node.client]\n\
         command = [\"python3\", \"-c\", \"{}\"]\n[[link]]\nbetween = [\"server\", \"client\"]\ndelay = \"5ms\"\n",
        quoted(SERVER),
        quoted(CLIENT)
    )
}

/// Memory, files, threads, processes and connections of all nodes are as they were, each time; how the lab
/// ends then is as ever, and what remains is the same again.
pub fn goes_back(tool: &Tool, clock: &str, signal: i32) -> TestResult {
    const SIGKILL: i32 = 9;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-back-{signal}"))?;
    let ask = |words: &[&str]| call(tool, scratch.path(), words);
    let mut lab = Running::start(tool, &scratch, &described(clock), &[])?;
    lab.rounds(3)?;
    let taken = ask(&["checkpoint"])?;
    if taken.code != 0 {
        return Err(failed("a checkpoint should be taken", &taken));
    }
    lab.line("lab    | * checkpoint")?;
    let first = lab.rounds(4)?;
    let from = count(&first[0])?;
    for to in [&["back"][..], &["back", "1"], &["back", "1", "--seed", "7"]] {
        let back = ask(to)?;
        if back.code != 0 {
            return Err(failed(&format!("{to:?} should go back"), &back));
        }
        lab.line("lab    | * back at checkpoint 1")?;
        let again = lab.rounds(4)?;
        for (place, line) in again.iter().enumerate() {
            if count(line)? != from + place as u64 {
                return Err(format!("after {to:?} it should go on with {from}: {again:?}"));
            }
        }
        if clock == "virtual" && again != first {
            return Err(format!("it should be the same to the nanosecond: {first:?}, {again:?}"));
        }
    }
    let wrong = ask(&["back", "5"])?;
    if wrong.code == 0 || !text(&wrong.stderr).contains("no checkpoint 5") {
        return Err(failed("a checkpoint that was not taken should be named", &wrong));
    }
    // A signal that comes while the present changes is for the next one.
    let last = ask(&["back", "--seed", "8"])?;
    if last.code != 0 {
        return Err(failed("it should go back once more", &last));
    }
    let sent = Command::new("kill").args([format!("-{signal}"), lab.child.id().to_string()]).status();
    sent.map_err(|error| error.to_string())?;
    let status = lab.child.wait().map_err(|error| error.to_string())?;
    lab.stdout.rest()?;
    if signal == SIGKILL {
        return Ok(());
    }
    if status.code() != Some(128 + signal) {
        return Err(format!("signal {signal}: it ended with {status}"));
    }
    let words =
        ["--quiet", "replay", &scratch.join("run/futures/0/trace").display().to_string()].map(Into::into);
    let replay = suites::run(tool.command(User::Current, scratch.path(), &words), suites::RUN_TIME_MAX)?;
    if replay.code != 137 {
        return Err(failed("what the first future recorded should replay", &replay));
    }
    Ok(())
}

/// Checkpoints every so often are thinned, by the description and by a wish; several can be gone back to, also after
/// that; one that is discarded cannot.
pub fn every_so_often(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-every")?;
    let ask = |words: &[&str]| call(tool, scratch.path(), words);
    let description = described("virtual")
        + "[[event]]\ndo = \"checkpoint\"\nevery = \"1s\"\nkeep = 4\n\
         [[event]]\nat = \"12.5s\"\ndo = \"checkpoint\"\nevery = \"0s\"\n";
    let mut lab = Running::start(tool, &scratch, &description, &["--standing", "2"])?;
    lab.line("no more checkpoints by time")?;
    let kept = |expected: &[usize]| -> TestResult {
        let tree = text(&ask(&["tree"])?.stdout);
        let number = |line: &str| line.trim().strip_prefix("checkpoint ")?.split(' ').next()?.parse().ok();
        let numbers: Vec<usize> = tree.lines().filter_map(number).collect();
        if numbers == expected { Ok(()) } else { Err(format!("kept are {numbers:?}, not {expected:?}")) }
    };
    kept(&[1, 8, 11, 12])?;
    for to in ["12", "11", "12", "8"] {
        // The twelfth is not in the past of the eleventh.
        let back = ask(&["back", to])?;
        if to == "12" && back.code != 0 && text(&back.stderr).contains("no checkpoint 12 was taken") {
            continue;
        }
        if back.code != 0 {
            return Err(failed(&format!("it should go back to {to}"), &back));
        }
        lab.line(&format!("back at checkpoint {to}"))?;
        count(&lab.rounds(1)?[0])?;
    }
    lab.line("no more checkpoints by time")?;
    let discarded = ask(&["discard", "8"])?;
    let back = ask(&["back", "8"])?;
    if discarded.code != 0 || back.code == 0 || !text(&back.stderr).contains("checkpoint 8 was discarded") {
        return Err(failed("a checkpoint that was discarded should not be gone back to", &back));
    }
    let wish = ask(&["checkpoint", "--every", "500ms", "--keep", "2"])?;
    if wish.code != 0 {
        return Err(failed("it should take more of them", &wish));
    }
    lab.line("a checkpoint every 0.5 s, of which 2 are kept")?;
    lab.rounds(20)?;
    let stopped = ask(&["stop"])?;
    lab.stdout.rest()?;
    lab.child.wait().map_err(|error| error.to_string())?;
    let run = scratch.join("run").display().to_string();
    let again = ask(&["replay", &run])?;
    if stopped.code != 0 || again.code != 0 {
        return Err(failed("what it was at its end should be the same again", &again));
    }
    Ok(())
}

/// Nothing is left of a lab that is ended at any moment, the first ones of its own too, in which it makes its
/// processes, and another lab that is to stand at the checkpoint.
pub fn ended_at_any_moment(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-any-moment")?;
    let file = scratch.join("lab.toml").display().to_string();
    let description = "clock = \"virtual\"\n[node.a]\ncommand = [\"sh\", \"-c\", \"while sleep 1; do echo; done\"]\n\
         [[event]]\nat = \"0.5s\"\ndo = \"checkpoint\"\n";
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let leftovers = Leftovers::of(scratch.path());
    for (number, signal) in [2, 9, 15].into_iter().cycle().take(24).enumerate() {
        let dir = scratch.join(format!("run-{number}")).display().to_string();
        let words = ["--quiet", "lab", "run", "-o", &dir, &file].map(Into::into);
        let mut command = tool.command(User::Current, scratch.path(), &words);
        command.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        // Not to wait for anything: each is ended a little later than the one before.
        std::thread::sleep(Duration::from_millis(8 * number as u64));
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        sent.map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        leftovers.are_none().map_err(|error| format!("run {number}, signal {signal}: {error}"))?;
    }
    Ok(())
}

/// A run with the machine's clock is the same again, by what the clock was.
pub fn real_time_again(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    for clock in ["clock = \"real\"", "clock = \"virtual\"\ncpu = \"measured\""] {
        let scratch = Scratch::new("lab-real-again")?;
        let file = scratch.join("lab.toml");
        let description = format!(
            "{clock}\n[node.one]\ncommand = [\"sh\", \"-c\", \"for i in 1 2 3; do date +%s.%N; sleep .05; done\"]\n\
             [node.two]\ncommand = [\"python3\", \"-c\", \"import time\\nfor i in range(200): time.time_ns()\\nprint(time.time_ns())\"]\n"
        );
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let dir = scratch.join("run").display().to_string();
        let first = call(tool, scratch.path(), &["run", "-o", &dir, &file.display().to_string()])?;
        if first.code != 0 {
            return Err(failed("it should run", &first));
        }
        let again = call(tool, scratch.path(), &["replay", &dir])?;
        if again.code != 0 {
            return Err(failed(&format!("{clock}: the run should be the same again"), &again));
        }
    }
    Ok(())
}

/// A run that has ended goes on from a time of its past, with another event.
pub fn ended_run_goes_on(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-back-ended")?;
    let [file, other] = [("lab.toml", "1s"), ("other.toml", "1050ms")].map(|(name, at)| {
        let description = format!(
            "[node.one]\ncommand = [\"sh\", \"-c\", \"for i in 1 2 3; do sleep .4; echo $i; done\"]\n\
             [[event]]\nat = \"{at}\"\ndo = \"run\"\nnode = \"one\"\ncommand = [\"echo\", \"beside\"]\n"
        );
        let file = scratch.join(name);
        fs::write(&file, description).map(|()| file.display().to_string())
    });
    let (file, other) = (file.map_err(|error| error.to_string())?, other.map_err(|error| error.to_string())?);
    let [dir, next] = ["run", "next"].map(|name| scratch.join(name).display().to_string());
    let first = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let back =
        call(tool, scratch.path(), &["back", "500ms", "--run", &dir, "--events", &other, "-o", &next])?;
    let said = text(&back.stdout);
    let is_right = said.starts_with("    0.500000 lab | * back at checkpoint 1\n")
        && said.contains("    1.050000 one | beside\n")
        && said.contains("    1.200")
        && !said.contains("one | 1\n");
    if first.code != 0 || back.code != 0 || !is_right {
        return Err(failed("it should go on from 0.5 s, with the event at 1.05 s", &back));
    }
    let log = call(tool, scratch.path(), &["log", &next])?;
    if !text(&log.stdout).contains("one | 1\n") {
        return Err(failed("the log should have what was before, too", &log));
    }
    Ok(())
}

/// A lab that went another way is not gone on with, and the present goes on.
pub fn another_way_is_refused(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-back-refused")?;
    let outside = scratch.join("outside");
    fs::write(&outside, "before\n").map_err(|error| error.to_string())?;
    let description = format!(
        "[node.client]\ncommand = [\"sh\", \"-c\", \"while :; do cat {}; sleep 1; done\"]\n[node.b]\n\
         command = [\"sleep\", \"100000000\"]\n",
        outside.display()
    );
    let mut lab = Running::start(tool, &scratch, &description, &["--standing", "0"])?;
    lab.rounds(2)?;
    let taken = call(tool, scratch.path(), &["checkpoint"])?;
    lab.line("lab    | * checkpoint")?;
    fs::write(&outside, "after\n").map_err(|error| error.to_string())?;
    lab.line("client | after")?;
    let back = call(tool, scratch.path(), &["back"])?;
    if taken.code != 0 || back.code == 0 || !text(&back.stderr).contains("was not the same at") {
        return Err(failed("the lab should not go back", &back));
    }
    lab.line("client | after")?;
    let stopped = call(tool, scratch.path(), &["stop"])?;
    lab.child.wait().map_err(|error| error.to_string())?;
    if stopped.code == 0 { Ok(()) } else { Err(failed("it should end", &stopped)) }
}
