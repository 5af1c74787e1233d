//! Kills, interrupts and full disks in the middle of a recording.

use std::fs;
use std::process::Command;
use std::time::Duration;

use suites::{
    Live, Outcome, RUN_TIME_MAX, TestResult, Tool, User, compare, hearing_interrupts, plain_environment, run,
};

use crate::bench::{Bench, check, check_status, no_panic, path, says};

fn is_prefix_of_waiting(outcome: &Outcome) -> TestResult {
    let whole: String = (1..=200).map(|i| format!("line {i}\n")).collect();
    let text = outcome.stdout_text();
    let lines = text.split("ready ").next().unwrap_or_default();
    check(whole.starts_with(lines), "stdout is not what the program printed", outcome)
}

fn cut_trace_is_replayed(bench: &Bench) -> TestResult {
    let replayed = bench.replay()?;
    is_prefix_of_waiting(&replayed)?;
    says(&replayed, &["cut", "does not say how the program ended"])?;
    check(replayed.code == 119, "the replay should not end as if the program had", &replayed)
}

pub fn program_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "program-killed")?;
    let (live, pid) = bench.start_waiting()?;
    Live::kill(&pid)?;
    let recorded = live.end()?;
    check(recorded.code == 137, "the recording should end as the program did, by SIGKILL", &recorded)?;
    let replayed = bench.replay()?;
    check(replayed.stdout == recorded.stdout, "nothing that was printed may be lost", &replayed)?;
    check(replayed.code == 137, "the replay should end with the recorded code", &replayed)
}

pub fn recorder_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "recorder-killed")?;
    let (live, _) = bench.start_waiting()?;
    Live::kill(&live.pid().to_string())?;
    // The program goes on without its recorder, and logs to memory that outlives it.
    fs::write(bench.run.join("gate"), "go\n").map_err(|error| format!("nobody reads the gate: {error}"))?;
    let recorded = live.end()?;
    check(recorded.stdout_text().ends_with("after\n"), "the program should have finished", &recorded)?;
    let replayed = bench.replay()?;
    says(&replayed, &["recorder", "killed", "taken over"])?;
    check(replayed.stdout == recorded.stdout, "all that the program did is in the trace", &replayed)?;
    check(replayed.code == 0, "the trace says how the program ended", &replayed)
}

pub fn both_killed(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "both-killed")?;
    let (live, pid) = bench.start_waiting()?;
    Live::kill(&format!("{} {pid}", live.pid()))?;
    live.end()?;
    cut_trace_is_replayed(&bench)
}

/// How children ended that the log itself says nothing of, while they wait for their
/// parent and after it.
pub fn ends_of_children(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "ends-of-children")?;
    let script = "sleep 100 & kill -TERM $!; wait $!; echo $?; \
         bash -c 'kill -KILL $$'; echo $?; \
         bash -c 'ulimit -c 0; kill -ABRT $$'; echo $?; \
         sleep 0.2 & exec sleep 0.4";
    let recorded = bench.record(script)?;
    check(recorded.stdout_text() == "143\n137\n134\n", "the children should have been killed", &recorded)?;
    let replayed = bench.replay()?;
    compare("recorded", &recorded, "replayed", &replayed)?;
    let dump = bench.call(&["dump", path(&bench.trace)])?;
    let ends = ["killed by SIGTERM", "killed by SIGKILL", "killed by SIGABRT"];
    ends.iter().try_for_each(|end| check(dump.stdout_text().contains(end), end, &dump))?;
    check(!dump.stdout_text().contains("nobody knows"), "an end is not known", &dump)
}

/// Who is ended while computing, with no handler: replay ends there, and not about there.
pub fn ended_while_computing(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "ended-while-computing")?;
    let script = "timeout 0.2 bash -c 'while :; do :; done'; echo $?; \
         timeout -s KILL 0.2 bash -c 'while :; do :; done' || echo $?";
    let recorded = bench.record(script)?;
    check(recorded.stdout_text().starts_with("124\n137\n"), "both should have been ended", &recorded)?;
    let replayed = bench.replay()?;
    compare("recorded", &recorded, "replayed", &replayed)?;
    let is_said = replayed.stderr_text().contains("ended in its own code");
    check(!is_said, "it is not known where one ended", &replayed)
}

pub fn interrupted_from_terminal(tool: &Tool) -> TestResult {
    // As a terminal does it: to every process of the group.
    interrupted(tool, "interrupted", "-")
}

pub fn interrupted_alone(tool: &Tool) -> TestResult {
    interrupted(tool, "interrupted-alone", "")
}

/// SIGINT to the recorder, or to its group: the program gets it once.
fn interrupted(tool: &Tool, name: &str, group: &str) -> TestResult {
    let bench = Bench::new(tool, name)?;
    // A shell that is about to wait for long does not hear of a signal before that.
    let script = "trap 'echo interrupted' INT; echo ready $$
        for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit 9";
    let mut live = Live::start(hearing_interrupts(&bench.record_command(script)))?;
    live.wait_for_line("ready ")?;
    let kill = format!("kill -INT {group}{}", live.pid());
    let sent = std::process::Command::new("sh").args(["-c", &kill]).status();
    check_status(sent.is_ok_and(|status| status.success()), "cannot send SIGINT")?;
    let recorded = live.end()?;
    check(recorded.code == 9, "the program's own handler decides", &recorded)?;
    let times = recorded.stdout_text().matches("interrupted\n").count();
    check(times == 1, "the trap should have run once", &recorded)?;
    let replayed = bench.replay()?;
    compare("recorded", &recorded, "replayed", &replayed)
}

pub fn disk_full(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "disk-full")?;
    fs::create_dir(bench.scratch.join("small")).map_err(|error| error.to_string())?;
    let small = bench.scratch.join("small");
    let script = format!(
        "mount -t tmpfs -o size=3m small {small} || exit 99
         {tool} record -o {small}/trace -- bash -c 'head -c 20000000 /dev/urandom | wc -c; echo end; exit 6'
         echo recorded $?
         {tool} replay {small}/trace; echo replayed $?",
        small = path(&small),
        tool = path(&tool.binary),
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "bash", "-c", &script]).current_dir(&bench.run);
    plain_environment(&mut command, &bench.scratch.join("home"));
    let outcome = run(command, RUN_TIME_MAX)?;
    no_panic(&outcome)?;
    check(
        outcome.stdout_text().starts_with("20000000\nend\nrecorded 6\n"),
        "the program should have finished as without a recorder",
        &outcome,
    )?;
    says(&outcome, &["space"])
}

/// Two processes in turns, which go on for long enough to be stopped on the way.
const ALTERNATELY: &str = "exec python3 -c '
import mmap, os
shared = mmap.mmap(-1, 4096)
child = os.fork()
own = child == 0
for _ in range(60000):
    while shared[0] % 2 != own:
        os.sched_yield()
    shared[0] ^= 1
if child:
    os.waitpid(child, 0)
    print(shared[0])
'";

/// One that has its token, and does not get to run, waits for nobody.
pub fn token_comes_while_stopped(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "turn-while-stopped")?;
    let recorded = bench.record(ALTERNATELY)?;
    check(recorded.stdout_text() == "0\n", "the two should have shared the token", &recorded)?;
    let live = Live::start(bench.tool_command(User::Current, &["replay", path(&bench.trace)]))?;
    // Longer than waiting for a token that nobody hands over is allowed to take.
    let script = "for round in 1 2 3; do
        for first in $(pgrep -P $0); do for pid in $first $(pgrep -P $first); do
            kill -STOP $pid; sleep 1.6; kill -CONT $pid; sleep 0.02
        done; done 2> /dev/null
    done";
    let stopping = Command::new("bash").args(["-c", script, &live.pid().to_string()]).status();
    check_status(stopping.is_ok(), "nobody stopped the processes")?;
    let replayed = live.end()?;
    compare("recorded", &recorded, "replayed", &replayed)
}

/// Children count in memory that they share with their parent until somebody kills them.
const VICTIMS: &str = "exec python3 -c '
import mmap, os
counts = memoryview(mmap.mmap(-1, 1 << 20)).cast(\"Q\")
for _ in range(4):
    before = counts[0]
    victim = os.fork()
    while victim == 0:
        counts[0] += 1
        counts[1] ^= counts[0]
        counts[counts[0] % len(counts)] += 3
    while counts[0] == before:
        os.sched_yield()
    print(\"victim\", victim, flush=True)
    os.waitpid(victim, 0)
    print(counts[0], counts[1], sum(counts[2:]), flush=True)
'";

/// What a process left in memory that others have, which somebody killed who is not recorded.
pub fn killed_from_outside(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "killed-from-outside")?;
    let mut live = Live::start(bench.record_command(VICTIMS))?;
    for _ in 0..4 {
        let victim = live.wait_for_line("victim ")?;
        std::thread::sleep(Duration::from_millis(30));
        Live::kill(&victim)?;
    }
    let recorded = live.end()?;
    check(recorded.code == 0, "the parent should have ended by itself", &recorded)?;
    let replayed = bench.replay()?;
    check(replayed.code == 0, "the replay should end as the program did", &replayed)?;
    check(replayed.stdout == recorded.stdout, "what the victims had counted is another number", &replayed)
}
