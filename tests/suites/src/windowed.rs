//! Programs of tests/window, whose log becomes longer than it may be: what is left of it is
//! saved, when they crash and when somebody asks, and replays to its end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::TestResult;
use crate::guest::{Guest, Variant, find_window_guests, in_workspace};
use crate::leftovers::Leftovers;
use crate::outcome::Outcome;
use crate::run::{Live, User, plain_environment, run};
use crate::scratch::Scratch;
use crate::tool::Tool;

/// How long one command may take, and how long a state may take to come.
const TIME_MAX: Duration = Duration::from_secs(100);
/// Between two looks at a state that is to come.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Short, so that the programs soon pass it.
const LOG_MAX: &str = "--log-max=600K";
/// How `ctl list` shows a checkpoint at which the log begins.
const BEGINS: &str = "the log's limit";
/// What is said of a trace that begins there.
const BEGINS_LATER: &str = "what came before has fallen off";

/// A program with a long log, and one way to build it.
#[derive(Clone)]
pub struct WindowGuest {
    pub name: String,
    guest: Guest,
    variant: Variant,
    /// `// refused:` why nothing can be saved.
    refused: Option<String>,
}

impl WindowGuest {
    /// All of them; each in all ways to build it.
    pub fn all() -> Result<Vec<WindowGuest>, String> {
        let mut all = Vec::new();
        for guest in find_window_guests()? {
            let text = std::fs::read_to_string(&guest.source).map_err(|error| error.to_string())?;
            let refused = text.lines().find_map(|line| line.strip_prefix("// refused: "));
            for variant in Variant::ALL {
                all.push(WindowGuest {
                    name: format!("window::{}::{}", guest.name, variant.name),
                    guest: guest.clone(),
                    variant,
                    refused: refused.map(str::to_owned),
                });
            }
        }
        Ok(all)
    }

    /// True for one way of each, where one is enough.
    pub fn is_plain(&self) -> bool {
        self.variant.name == "O2"
    }

    pub fn is_static(&self) -> bool {
        self.variant.is_static
    }

    /// True if it is its session's only process, and can be saved.
    pub fn is_alone(&self) -> bool {
        self.refused.is_none() && matches!(self.guest.name.as_str(), "alone" | "signals" | "threads")
    }

    /// True if the process that it is about may be killed, and what is saved is of that one.
    pub fn can_be_killed(&self) -> bool {
        self.is_alone() || self.guest.name == "child"
    }

    /// Runs it until its log has lost its beginning, saves it, lets it crash, and replays
    /// what was saved.
    pub fn check(&self, tool: &Tool, user: User) -> TestResult {
        self.check_then(tool, user, End::Crash(self.guest.code), &|_, _| Ok(()))
    }

    /// The same, but it is killed, and so is not asked.
    pub fn check_killed(&self, tool: &Tool, user: User) -> TestResult {
        self.check_then(tool, user, End::Killed, &|_, _| Ok(()))
    }

    /// The same, and gdb looks at the crash, goes back from there, and comes to it again.
    pub fn check_gdb(&self, tool: &Tool) -> TestResult {
        self.check_then(tool, User::Current, End::Crash(self.guest.code), &|round, trace| {
            let mut args: Vec<OsString> = ["replay", "--batch", "--at", "crash"].map(OsString::from).to_vec();
            for command in ["backtrace", "reverse-continue", "stepi", "continue", "backtrace"] {
                args.extend(["-ex".into(), command.into()]);
            }
            args.push(trace.into());
            let outcome = round.run(&args)?;
            let frames = outcome.stdout_text().lines().filter(|line| line.contains(" in main ")).count();
            if outcome.code == 0 && frames == 2 { Ok(()) } else { Err(printed(&outcome)) }
        })
    }

    fn check_then(
        &self,
        tool: &Tool,
        user: User,
        end: End,
        then: &dyn Fn(&Round, PathBuf) -> TestResult,
    ) -> TestResult {
        let scratch = Scratch::new("win")?;
        let binary = scratch.fresh_directory("bin")?.join(&self.guest.name);
        self.guest.put(self.variant, &binary)?;
        let home = scratch.fresh_directory("home")?;
        let here = scratch.fresh_directory("run")?;
        let leftovers = Leftovers::of(scratch.path());
        let round = Round { tool, user, home, here };
        let crashed = round.home.join("crashed");
        let mut args: Vec<OsString> =
            ["live", "--name=it", LOG_MAX, "--on-crash=save", "--crash-dir"].map(OsString::from).to_vec();
        args.extend([crashed.clone().into(), "--".into(), binary.into()]);
        let mut session = Live::start(round.command(&args))?;
        let told = session.wait_for_line("pid ").and_then(|pid| self.save_and_end(&round, &pid, end));
        if told.is_err() {
            // It would go on for ever.
            Live::kill(&format!("-{}", session.pid()))?;
        }
        let outcome = session.end()?;
        told.map_err(|error| format!("{error}\nthe session said: {}", outcome.stderr_text()))?;
        if outcome.code != end.code() || outcome.stdout_text().contains("bad: ") {
            return Err(format!("it ended with {} and printed:\n{}", outcome.code, printed(&outcome)));
        }
        let saved = self.check_saved(&round, &outcome, crashed.clone(), end);
        let saved = saved.and_then(|()| then(&round, crashed));
        // Shadows too are gone.
        saved.and_then(|()| leftovers.are_none())
    }

    /// The trace of the crash, and the one that was asked for before.
    fn check_saved(&self, round: &Round, outcome: &Outcome, crashed: PathBuf, end: End) -> TestResult {
        if let Some(why) = &self.refused {
            let said = outcome.stderr_text();
            let told = said.contains("has fallen off") && said.contains(why.as_str());
            return if told && !crashed.exists() { Ok(()) } else { Err(format!("it said:\n{said}")) };
        }
        if !outcome.stderr_text().contains(BEGINS_LATER) {
            return Err(format!("it said:\n{}", outcome.stderr_text()));
        }
        round.replay(crashed, outcome, Some(end))?;
        round.replay(round.home.join("asked"), outcome, None)
    }

    fn save_and_end(&self, round: &Round, pid: &str, end: End) -> TestResult {
        let asked = round.home.join("asked");
        let save: [OsString; 4] = ["ctl".into(), pid.into(), "save".into(), asked.into()];
        let start = Instant::now();
        loop {
            let list = round.run(&["ctl".into(), pid.into(), "list".into()])?;
            let saved = match &self.refused {
                None if list.stdout_text().lines().filter(|line| line.contains(BEGINS)).count() == 0 => None,
                _ => Some(round.run(&save)?),
            };
            match (saved, &self.refused) {
                (Some(outcome), Some(why)) if outcome.stderr_text().contains(why.as_str()) => break,
                (Some(outcome), None) if outcome.stdout_text().contains(BEGINS_LATER) => break,
                // It was whole still.
                (Some(outcome), _) if outcome.code == 0 => {
                    std::fs::remove_dir_all(round.home.join("asked")).map_err(|error| error.to_string())?;
                }
                (Some(outcome), None) => return Err(format!("saving failed: {}", printed(&outcome))),
                (_, _) => {}
            }
            if start.elapsed() > TIME_MAX {
                return Err(format!("its log did not pass the limit:\n{}", list.stdout_text()));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        let mut kill = round.user.command("kill".as_ref());
        kill.args([end.signal(), pid]);
        let outcome = run(kill, TIME_MAX)?;
        if outcome.code == 0 { Ok(()) } else { Err(outcome.stderr_text()) }
    }
}

/// How a program ends.
#[derive(Clone, Copy)]
enum End {
    /// It is told to crash, and ends with this code.
    Crash(i32),
    /// By SIGKILL.
    Killed,
}

impl End {
    fn code(self) -> i32 {
        match self {
            End::Crash(code) => code,
            End::Killed => 128 + 9,
        }
    }

    fn signal(self) -> &'static str {
        match self {
            End::Crash(_) => "-USR1",
            End::Killed => "-KILL",
        }
    }
}

struct Round<'a> {
    tool: &'a Tool,
    user: User,
    home: PathBuf,
    here: PathBuf,
}

impl Round<'_> {
    fn command(&self, args: &[OsString]) -> Command {
        let mut command = self.tool.command(self.user, &self.home, args);
        command.current_dir(&self.here);
        command
    }

    fn run(&self, args: &[OsString]) -> Result<Outcome, String> {
        run(self.command(args), TIME_MAX)
    }

    /// What a trace prints again is a piece of what was printed; with `end` the last one, of
    /// a program that ended so.
    fn replay(&self, trace: PathBuf, recorded: &Outcome, end: Option<End>) -> TestResult {
        let replayed = self.run(&["replay".into(), trace.clone().into()])?;
        let (all, part) = (recorded.stdout_text(), replayed.stdout_text());
        let without_last = all.trim_end_matches('\n').rfind('\n').map_or("", |end| &all[..=end]);
        let is_piece = match end {
            Some(End::Crash(_)) => all.ends_with(&*part) && part.contains("end "),
            // It may have said nothing since, and not have come to log what it said last.
            Some(End::Killed) => all.ends_with(&*part) || without_last.ends_with(&*part),
            None => all.contains(&*part),
        };
        let begins_later = part.len() < all.len() && replayed.stderr_text().contains(BEGINS_LATER);
        if replayed.code == end.map_or(0, End::code) && is_piece && begins_later {
            return Ok(());
        }
        Err(format!("{} is replayed with {}\nrecorded:\n{all}", trace.display(), printed(&replayed)))
    }
}

fn printed(outcome: &Outcome) -> String {
    format!("code {}, and printed:\n{}\n{}", outcome.code, outcome.stdout_text(), outcome.stderr_text())
}

/// A server under load, whose log passes the limit several times, and which is killed then.
const REDIS: &str = r#"
RETROVANE_HOME=$PWD/home; export RETROVANE_HOME
"$rv" live --name=red --log-max 1M --on-crash save --crash-dir "$PWD/crashed" -- redis-server --port 0 \
    --unixsocket sock --save '' --appendonly no --crash-log-enabled no > out 2> err &
session=$!
trap 'kill -KILL -- -$session $session 2> /dev/null || true' EXIT
until redis-cli -s sock ping 2> /dev/null | grep -q PONG; do kill -0 $session; sleep 0.05; done
newest() { "$rv" ctl red list | awk "/the log's limit/ { last = \$1 } END { print last + 0 }"; }
until [ "$(newest)" -ge 4 ]; do
    redis-benchmark -s sock -q -n 20000 -c 20 -t set,get -d 200 -r 100000 > /dev/null
done
redis-cli -s sock set before crash > /dev/null
kill -SEGV "$(redis-cli -s sock info server | tr -d '\r' | sed -n 's/^process_id://p')"
code=0; wait $session || code=$?
echo "ended with $code"
code=0; "$rv" replay crashed > /dev/null 2> replayed || code=$?
cat err replayed
echo "replayed with $code"
"$rv" replay --batch --at crash -ex backtrace crashed 2>&1 | grep ' in main '
"#;

/// redis, as a program of the world.
pub fn check_redis(tool: &Tool) -> TestResult {
    check_script(tool, User::Current, REDIS, &|text| {
        ["ended with 139", "replayed with 139", BEGINS_LATER].iter().all(|said| text.contains(said))
    })
}

/// A process that is attached to, with a log that loses its beginning, and one whose log is whole;
/// both are killed from outside. A child that its own parent kills is no crash.
const KILLED: &str = r#"
RETROVANE_HOME=$PWD/home; export RETROVANE_HOME
cat > reads.c <<'END'
#include "attach.h"
#include <fcntl.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
	permit();
	unsigned char bytes[4096];
	int fd = open("/dev/urandom", O_RDONLY);
	pid_t child = argc > 1 ? fork() : 1;
	for (long step = 1; argc < 2 || child == 0 || step < 20; step++) {
		CHECK(read(fd, bytes, sizeof bytes) == sizeof bytes);
		printf("step %ld\n", step);
		nap(2);
	}
	CHECK(argv[1] && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}
END
cc -O1 -I "$tests/attach" -o reads reads.c -pthread
trap 'kill -KILL $program $session 2> /dev/null || true' EXIT
try() {
    ./reads > out & program=$!
    until grep -q step out; do sleep 0.05; done
    "$rv" live --attach $program --on-crash save --crash-dir "$PWD/$1" $2 > said 2>&1 & session=$!
    newest() { "$rv" ctl $program list 2> /dev/null | awk -v by="$1" 'index($0, by) { last = $1 + 1 } END { print last + 0 }'; }
    until [ "$(newest "$3")" -gt $4 ]; do kill -0 $session; sleep 0.05; done
    kill -KILL $program
    code=0; wait $session || code=$?
    cat said
    echo "$1 ended with $code"
    code=0; "$rv" replay -q "$1" || code=$?
    echo "$1 replayed with $code"
}
try later --log-max=600K "the log's limit" 4
try whole "" command 0
code=0; "$rv" live --on-crash save --crash-dir "$PWD/none" -- ./reads own > out || code=$?
[ -e none ] || echo "own child: $code"
"#;

/// SIGKILL from outside for a process that is attached to.
pub fn check_killed(tool: &Tool) -> TestResult {
    check_script(tool, User::Current, KILLED, &|text| {
        let wanted = ["later ended with 137", "later replayed with 137", "whole ended with 137"];
        let others = ["whole replayed with 137", "own child: 0", BEGINS_LATER];
        wanted.iter().chain(&others).all(|said| text.contains(said))
    })
}

/// A script that starts a session as `$rv`, in a directory of its own; `is_right` judges what
/// it prints. Nothing is left when it ends.
pub fn check_script(tool: &Tool, user: User, script: &str, is_right: &dyn Fn(&str) -> bool) -> TestResult {
    let scratch = Scratch::new("script")?;
    let here = scratch.fresh_directory("run")?;
    let home = scratch.fresh_directory("home")?;
    let leftovers = Leftovers::of(scratch.path());
    let mut command = user.command("bash".as_ref());
    command.args(["-ec", script]).current_dir(&here);
    plain_environment(&mut command, &home);
    command.env("rv", &tool.binary).env("tests", in_workspace("tests"));
    let outcome = run(command, TIME_MAX)?;
    if outcome.code != 0 || !is_right(&outcome.stdout_text()) {
        return Err(printed(&outcome));
    }
    leftovers.are_none()
}
