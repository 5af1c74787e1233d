//! Labs: real programs as nodes, under one clock, and the same again to the bit.

#[path = "lab/back.rs"]
mod back;
#[path = "lab/daemons.rs"]
mod daemons;
#[path = "lab/described.rs"]
mod described;
#[path = "lab/endings.rs"]
mod endings;
#[path = "lab/go.rs"]
mod go;
#[path = "lab/layers.rs"]
mod layers;
#[path = "lab/lines.rs"]
mod lines;
#[path = "lab/waits.rs"]
mod waits;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use described::{LABS, Lab};
use libtest_mimic::{Failed, Trial};
use lines::Lines;
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, in_workspace, run, run_suite,
    unless_missing,
};

/// Runs `retrovane lab` with these words.
fn call(tool: &Tool, home: &Path, words: &[&str]) -> Result<Outcome, String> {
    tool.share_kept_files(home)?;
    let args: Vec<_> = ["lab"].iter().chain(words).map(Into::into).collect();
    run(tool.command(User::Current, home, &args), RUN_TIME_MAX)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn failed(what: &str, outcome: &Outcome) -> String {
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    format!("{what}\ncode {}\nstdout: {stdout}\nstderr: {stderr}", outcome.code)
}

/// The time before what a lab says.
const TIME_BYTES: usize = 13;

fn run_lab(tool: &Tool, lab: &Lab) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-{}", lab.name))?;
    let file = scratch.join("lab.toml");
    fs::write(&file, lab.description).map_err(|error| error.to_string())?;
    let (file, dir) = (file.display().to_string(), scratch.join("run").display().to_string());
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let stdout = text(&outcome.stdout);
    if outcome.code != lab.code {
        return Err(failed(&format!("the lab should end with {}", lab.code), &outcome));
    }
    for line in lab.lines {
        if !stdout.lines().any(|said| said == *line || said.get(TIME_BYTES..) == Some(line)) {
            return Err(failed(&format!("nobody said: {line}"), &outcome));
        }
    }
    Ok(())
}

/// An example runs and says these things; gives the folder that it ran in, its file, and the run's.
fn say_example(tool: &Tool, name: &str, says: &[&str]) -> Result<Option<(Scratch, String, String)>, String> {
    if tool.mode == Mode::Native {
        return Ok(None);
    }
    let scratch = Scratch::new(&format!("lab-{name}"))?;
    let file = in_workspace(&format!("examples/lab/{name}.toml")).display().to_string();
    let dir = scratch.join("run").display().to_string();
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    if outcome.code != 0 || !says.iter().all(|words| text(&outcome.stdout).contains(words)) {
        return Err(failed(&format!("it should say {says:?}"), &outcome));
    }
    let log = call(tool, scratch.path(), &["log", &dir])?;
    if log.stdout != outcome.stdout {
        return Err(failed("the log should say what the run said", &log));
    }
    Ok(Some((scratch, file, dir)))
}

/// Examples whose processes have the same in memory in two runs.
const MEMORY_TOO: [&str; 1] = ["website"];

/// An example runs, says these things, is the same again, and its recording replays.
fn run_example(tool: &Tool, name: &str, says: &[&str]) -> TestResult {
    let Some((scratch, file, dir)) = say_example(tool, name, says)? else { return Ok(()) };
    let mut check = vec!["check", "--twice", &file];
    if MEMORY_TOO.contains(&name) {
        check.push("--memory");
    }
    let again = call(tool, scratch.path(), &check)?;
    if again.code != 0 || text(&again.stdout).contains("not the same again") {
        return Err(failed("two runs should be the same", &again));
    }
    let trace = format!("{dir}/trace");
    let words = ["--quiet", "replay", &trace].map(Into::into);
    let replay = run(tool.command(User::Current, scratch.path(), &words), RUN_TIME_MAX)?;
    if replay.code != 0 {
        return Err(failed("the recording should replay", &replay));
    }
    Ok(())
}

/// Two runs that said and sent the same, and had other things in memory, are told apart.
fn other_memory(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-memory")?;
    let file = scratch.join("lab.toml");
    // How often the machine was interrupted is never twice the same.
    let reads = "kept = open('/proc/interrupts').read()";
    // Links have uptimes, a time by chance, and counts of packets that the kernel sends by its own timers.
    let links = "import socket, struct, time; s = socket.socket(16, 3, 0); time.sleep(5); \
        s.send(struct.pack('IHHIIQ', 24, 18, 0x301, 7, 0, 0)); kept = s.recv(8192)";
    for (program, code) in [("kept = list(range(1000))", 0), (reads, 1), (links, 0)] {
        let description = format!("[node.a]\ncommand = [\"python3\", \"-c\", \"{program}\"]\n");
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let check =
            call(tool, scratch.path(), &["check", "--twice", "--memory", &file.display().to_string()])?;
        let said = if code == 0 { "; memory, too" } else { "different: memory of a (" };
        let names_it = code == 0 || text(&check.stdout).contains("of process 2, ");
        if check.code != code || !text(&check.stdout).contains(said) || !names_it {
            return Err(failed(&format!("{program}: it should say `{said}`"), &check));
        }
    }
    Ok(())
}

/// What tells of memory, load and the machine's processors is the lab's, as chance is: each who reads it gets other
/// bytes, and each run the same.
fn sizes_and_chance(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-sizes")?;
    let file = scratch.join("lab.toml");
    let tells = "for each in self/stat self/statm self/status self/maps self/smaps self/mountinfo self/sched 1/stat \
        1/cmdline meminfo loadavg uptime stat sys/kernel/random/uuid; do cat /proc/$each; done; ls -l /proc/self/fd; \
        stat /proc/self/maps /dev/shm; ps -eo pid,rss,cputime,comm; df; stat -f / /dev/shm; nproc; taskset -c 0 nproc; sleep 1; head -c 3000000 /dev/urandom | cksum; \
        for one in 1 2 3; do echo drawn $(head -c 8 /dev/urandom | od -An -tx8); done; exec head -c 8 /dev/random";
    let command = format!("[\"sh\", \"-c\", \"\"\"{tells}\"\"\"]");
    let description = format!("[node.a]\ncommand = {command}\n[node.b]\ncommand = {command}\n");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let file = file.display().to_string();
    let check = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if check.code != 0 {
        return Err(failed("two runs should be the same", &check));
    }
    let ran = call(tool, scratch.path(), &["run", &file])?;
    let said = text(&ran.stdout);
    let mut drawn: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("drawn ")).map(|one| one.1).collect();
    drawn.sort_unstable();
    drawn.dedup();
    if ran.code != 0 || drawn.len() != 6 || !said.contains("MemTotal:        4194304 kB") {
        return Err(failed("six other numbers should be drawn, of a machine with 4 GiB", &ran));
    }
    Ok(())
}

/// Programs of node.js and Java, in a lab that is the same again.
fn node_and_java(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-node-and-java")?;
    let (js, java) = (in_workspace("tests/lab/server.js"), in_workspace("tests/lab/client.java"));
    let description = format!(
        r#"
        [node.server]
        command = ["node", "server.js"]
        files = {{ "server.js" = "{}" }}
        [node.client]
        command = ["java", "-XX:TieredStopAtLevel=1", "client.java"]
        files = {{ "client.java" = "{}" }}
        [[link]]
        between = ["server", "client"]
        delay = "5ms"
        "#,
        js.display(),
        java.display()
    );
    let file = scratch.join("lab.toml");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let (file, dir) = (file.display().to_string(), scratch.join("run").display().to_string());
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let says = [
        "client is fd00::2",
        "elsewhere is ENOTFOUND",
        "served /one",
        "served /two",
        "took 80 ms",
        "eth0 true 2",
        "client | * ended with 0",
    ];
    if outcome.code != 0 || !says.iter().all(|words| text(&outcome.stdout).contains(words)) {
        return Err(failed(&format!("it should say {says:?}"), &outcome));
    }
    let again = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if again.code != 0 { Err(failed("two runs should be the same", &again)) } else { Ok(()) }
}

/// What is asked of a lab that runs is done, becomes an event of it, and is the same again; and gdb comes to a
/// time of the lab.
fn asked_while_it_runs(tool: &Tool) -> TestResult {
    const ROUNDS: &str = "#include <unistd.h>\n#include <stdio.h>\nint rounds;\n\
        int main(void) { for (;; rounds++) { puts(\"round\"); fflush(stdout); sleep(1); } }\n";
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-asked")?;
    let (source, program) = (scratch.join("rounds.c"), scratch.join("rounds"));
    fs::write(&source, ROUNDS).map_err(|error| error.to_string())?;
    let built = Command::new("cc").args(["-g", "-o"]).args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("rounds.c cannot be built".to_owned());
    }
    let description = format!(
        "[node.one]\ncommand = [\"{}\"]\n[node.two]\ncommand = [\"sleep\", \"100000000\"]\n",
        program.display()
    );
    let file = scratch.join("lab.toml");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let dir = scratch.join("run").display().to_string();
    let words = ["--quiet", "lab", "run", "-o", &dir, &file.display().to_string()].map(Into::into);
    tool.share_kept_files(scratch.path())?;
    let mut command = tool.command(User::Current, scratch.path(), &words);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let stdout = Lines::of(child.stdout.take().ok_or("no output")?);
    let mut said = String::new();
    let ended = || "it ended".to_owned();
    while said.matches("round").count() < 5 {
        said += &stdout.next()?.ok_or_else(ended)?;
    }
    let ask = |words: &[&str]| call(tool, scratch.path(), words);
    let listed = ask(&["ps", "--json"])?;
    if !text(&listed.stdout).contains("\"state\":\"running\"") {
        return Err(failed("it should be listed", &listed));
    }
    for words in [
        &["link", "one", "two", "--delay", "20ms"][..],
        &["exec", "two", "--", "sh", "-c", "echo beside; hostname"],
        &["checkpoint"],
    ] {
        let asked = ask(words)?;
        if asked.code != 0 {
            return Err(failed(&format!("{words:?} should be done"), &asked));
        }
    }
    let wrong = ask(&["link", "one", "three", "--delay", "1ms"])?;
    if wrong.code != 2 || !text(&wrong.stderr).contains("there is no node `three`") {
        return Err(failed("a node that is not there should be named", &wrong));
    }
    while !said.contains("two | two") {
        said += &stdout.next()?.ok_or_else(ended)?;
    }
    ask(&["stop"])?;
    said += &stdout.rest()?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.code() != Some(1) || !said.contains("beside") || !said.contains("lab | * checkpoint") {
        return Err(format!("it ended with {status}, after:\n{said}"));
    }
    let again = ask(&["replay", &dir])?;
    if again.code != 0 {
        return Err(failed("the run should be the same again", &again));
    }
    let gdb = ask(&["gdb", "--run", &dir, "one", "--at", "2.5s", "--batch", "--ex", "print rounds"])?;
    if !text(&gdb.stdout).contains("$1 = 2") {
        return Err(failed("at 2.5 s there were two rounds", &gdb));
    }
    let gdb = ask(&["gdb", "--run", &dir, "one", "--at", "1000s", "--batch", "--ex", "print rounds > 2"])?;
    if !text(&gdb.stdout).contains("$1 = 1") {
        return Err(failed("behind its last event it stands at its end", &gdb));
    }
    Ok(())
}

/// A run, its branch, and where they part, are shown as a tree.
fn tree(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-tree")?;
    let file = scratch.join("lab.toml");
    for (number, at) in [(0, "3s"), (1, "4s")] {
        let description = format!(
            "[node.one]\ncommand = [\"sleep\", \"9\"]\n[[event]]\nat = \"2s\"\ndo = \"checkpoint\"\n\
             [[event]]\nat = \"{at}\"\ndo = \"heal\"\n"
        );
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let file = file.display().to_string();
        let made = match number {
            0 => call(tool, scratch.path(), &["run", &file])?,
            _ => call(tool, scratch.path(), &["branch", "lab-0", &file])?,
        };
        if made.code != 0 {
            return Err(failed("it should run", &made));
        }
    }
    let shown = call(tool, scratch.path(), &["tree"])?;
    let expected = "lab-0 (ended, until 9.000000 s)\n    checkpoint 1 at 2.000000 s\n    \
        from 3.000000 s on: lab-1 (ended, until 9.000000 s)\n        checkpoint 1 at 2.000000 s\n";
    if text(&shown.stdout) != expected {
        return Err(failed(&format!("it should be\n{expected}"), &shown));
    }
    Ok(())
}

/// A lab that is asked to end by a signal leaves nothing, ends with that, and its recording replays.
fn ended_by_signals(tool: &Tool) -> TestResult {
    const SIGKILL: i32 = 9;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    for (clock, signal) in [("virtual", 2), ("real", 15), ("real", SIGKILL)] {
        let scratch = Scratch::new(&format!("lab-ended-{signal}"))?;
        let file = scratch.join("lab.toml");
        let loops = r#"while :; do echo up; sleep 1; done"#;
        let description = format!(
            "clock = \"{clock}\"\n[node.one]\ncommand = [\"sh\", \"-c\", \"{loops}\"]\n[node.two]\n\
             command = [\"sleep\", \"100000000\"]\n"
        );
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let dir = scratch.join("run").display().to_string();
        let words = ["lab", "run", "-o", &dir, &file.display().to_string()].map(Into::into);
        tool.share_kept_files(scratch.path())?;
        let mut command = tool.command(User::Current, scratch.path(), &words);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let stdout = Lines::of(child.stdout.take().ok_or("no output")?);
        let said = stdout.next()?.unwrap_or_default();
        // The process there is ours, and not waited for yet.
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        sent.map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        if signal != SIGKILL && status.code() != Some(128 + signal) {
            return Err(format!("signal {signal}: it ended with {status}, after `{said}`"));
        }
        stdout.rest()?;
        let words = ["--quiet", "replay", &format!("{dir}/trace")].map(Into::into);
        let replay = run(tool.command(User::Current, scratch.path(), &words), RUN_TIME_MAX)?;
        let is_good = if signal == SIGKILL { replay.code == 119 } else { replay.code == 137 };
        if !is_good {
            return Err(failed(&format!("signal {signal}: the recording should replay"), &replay));
        }
    }
    Ok(())
}

/// What is wrong with a description is said with its line.
fn bad_descriptions(tool: &Tool) -> TestResult {
    const BAD: [(&str, &str); 7] = [
        (
            "[node.a]\ncommand = [\"true\"]\n[[router]]\nbetween = [\"a\"]\n",
            ":3: there are no routers in a lab",
        ),
        ("[node.a]\ncommand = [\"true\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n", ":3: there is no node `b`"),
        ("[node.a]\ncommand = []\n", ":1: the node `a` has an empty command"),
        ("[node.a]\ncommand = [\"true\"]\ncolour = 1\n", ":3: unknown field `colour`"),
        (
            "[node.a]\ncommand = [\"true\"]\n[[event]]\nat = \"soon\"\ndo = \"heal\"\n",
            ":3: `soon` is no time: write it like `10ms`",
        ),
        (
            "[node.a]\ncommand = [\"true\"]\n[[event]]\ndo = \"checkpoint\"\nevery = \"10us\"\n",
            ":3: a checkpoint every 10us is too often: each 1ms at most",
        ),
        ("clock = \"sun\"\n[node.a]\ncommand = [\"true\"]\n", ":1: unknown variant `sun`"),
    ];
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-bad")?;
    let file = scratch.join("lab.toml");
    for (description, message) in BAD {
        fs::write(&file, description).map_err(|error| error.to_string())?;
        let outcome = call(tool, scratch.path(), &["run", &file.display().to_string()])?;
        if outcome.code != 2 || !text(&outcome.stderr).contains(message) {
            return Err(failed(&format!("it should say `{message}`"), &outcome));
        }
    }
    Ok(())
}

fn trial(name: &str, tool: &Arc<Tool>, test: impl FnOnce(&Tool) -> TestResult + Send + 'static) -> Trial {
    let tool = Arc::clone(tool);
    Trial::test(format!("lab::{name}"), move || test(&tool).map_err(Failed::from))
}

/// A program that the example needs, and that is not there.
fn missing(needs: &[&str]) -> Option<String> {
    needs.iter().find(|name| !have_program(name)).map(|name| format!("without {name}"))
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        LABS.iter().map(|lab| trial(lab.name, tool, move |tool| run_lab(tool, lab))).collect();
    for daemon in daemons::DAEMONS.iter().chain(endings::LABS) {
        let serves =
            trial(&format!("daemon::{}", daemon.name), tool, move |tool| daemons::serves(tool, daemon));
        let root = (daemon.as_root && !suites::tests_run_as_root()).then(|| "without root".to_owned());
        trials.push(unless_missing(serves, missing(daemon.needs).or(root)));
    }
    trials.push(trial("bad_descriptions", tool, bad_descriptions));
    trials.push(trial("ended_by_signals", tool, ended_by_signals));
    trials.push(trial("tree", tool, tree));
    trials.push(trial("reads_block", tool, waits::reads_block));
    trials.push(trial("processes_are_stopped", tool, waits::processes_are_stopped));
    let without = layers::missing(tool);
    let files = trial("files_of_its_own", tool, layers::files_of_its_own);
    trials.push(unless_missing(files, without.clone()));
    let root = (!suites::tests_run_as_root()).then(|| "without root".to_owned());
    trials.push(unless_missing(trial("without_layers", tool, layers::without_layers), without.or(root)));
    for (name, clock, signal) in [("virtual", "virtual", 2), ("real", "real", 15), ("killed", "real", 9)] {
        let goes_back =
            trial(&format!("goes_back::{name}"), tool, move |tool| back::goes_back(tool, clock, signal));
        trials.push(unless_missing(goes_back, missing(&["python3"])));
    }
    let pool = trial("pool_of_python", tool, waits::pool_of_python);
    trials.push(unless_missing(pool, missing(&["python3"])));
    let memory = trial("other_memory", tool, other_memory);
    trials.push(unless_missing(memory, missing(&["python3"])));
    trials.push(trial("sizes_and_chance", tool, sizes_and_chance));
    let again = trial("real_time_again", tool, back::real_time_again);
    trials.push(unless_missing(again, missing(&["python3"])));
    let every = trial("every_so_often", tool, back::every_so_often);
    trials.push(unless_missing(every, missing(&["python3"])));
    trials.push(trial("ended_at_any_moment", tool, back::ended_at_any_moment));
    trials.push(trial("ended_run_goes_on", tool, back::ended_run_goes_on));
    trials.push(trial("another_way_is_refused", tool, back::another_way_is_refused));
    let asked = trial("asked_while_it_runs", tool, asked_while_it_runs);
    trials.push(unless_missing(asked, missing(&["gdb", "cc"])));
    let website = trial("website", tool, |tool| {
        run_example(tool, "website", &["server | ! 10.0.0.2", "client | * ended with 0"])
    });
    trials.push(unless_missing(website, missing(&["python3", "curl"])));
    let languages = trial("node_and_java", tool, node_and_java);
    trials.push(unless_missing(languages, missing(&["node", "java"])));
    let go = trial("go_behind_nginx", tool, go::behind_nginx);
    trials.push(unless_missing(go, missing(&["go", "nginx"])));
    let etcd = trial("etcd", tool, |tool| {
        run_example(tool, "etcd", &["client | said OK", "client | read: 2", "client | * ended with 0"])
    });
    trials.push(unless_missing(etcd, missing(&["etcd", "etcdctl"])));
    let redis = trial("redis_stale_read", tool, |tool| {
        let says = ["replica: old", "stale: the replica still says old", "replica: new"];
        run_example(tool, "redis-stale-read", &says)
    });
    trials.push(unless_missing(redis, missing(&["redis-server", "redis-cli"])));
    let sentinel = trial("redis_sentinel", tool, |tool| {
        let says = [
            "main is 10.0.0.1",
            "primary loses power",
            "main is 10.0.0.2, with kept",
            "client     | * ended with 0",
        ];
        run_example(tool, "redis-sentinel", &says)
    });
    trials.push(unless_missing(sentinel, missing(&["redis-server", "redis-cli"])));
    trials
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
