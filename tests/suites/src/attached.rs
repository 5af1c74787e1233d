//! Programs of tests/attach: started natively, attached to while they run, and let go.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::TestResult;
use crate::guest::{Guest, Variant, in_workspace};
use crate::leftovers::Leftovers;
use crate::outcome::Outcome;
use crate::run::{Live, Running, User, plain_environment, run};
use crate::scratch::Scratch;
use crate::tool::Tool;

/// How long one command may take, and how long a state may take to come.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Between two looks at a state that is to come.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How many steps a program makes before something is done with it.
const STEPS: usize = 3;

/// A program that is attached to, and one way to build it.
#[derive(Clone)]
pub struct AttachedGuest {
    pub name: String,
    guest: Guest,
    variant: Variant,
    prints_in_replay: bool,
    rolls_back: bool,
    /// How often it is sent back besides, in both ways, to checkpoints of its present.
    rounds: usize,
    pub crashes: bool,
}

/// What a test of one program has at hand.
struct Round<'a> {
    tool: &'a Tool,
    user: User,
    scratch: Scratch,
    home: PathBuf,
    binary: PathBuf,
}

impl AttachedGuest {
    /// All of them, built in all ways.
    pub fn all() -> Result<Vec<AttachedGuest>, String> {
        let mut all = Vec::new();
        for guest in crate::guest::find_attached_guests()? {
            let text = std::fs::read_to_string(&guest.source).map_err(|error| error.to_string())?;
            let says = |word: &str| text.lines().any(|line| line == format!("// {word}"));
            let rounds = text.lines().find_map(|line| line.strip_prefix("// rounds: ")?.parse().ok());
            for variant in Variant::ALL {
                all.push(AttachedGuest {
                    name: format!("attach::{}::{}", guest.name, variant.name),
                    guest: guest.clone(),
                    variant,
                    prints_in_replay: says("prints-in-replay"),
                    rolls_back: !says("without-rollback"),
                    rounds: rounds.unwrap_or(0),
                    crashes: says("crashes"),
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

    /// Attaches, goes back in both ways, saves, lets go, and replays what was saved.
    pub fn check(&self, tool: &Tool, user: User) -> TestResult {
        let round = Round::new(tool, user, &self.guest, self.variant)?;
        let leftovers = Leftovers::of(round.scratch.path());
        let result = if self.crashes { self.crash(&round) } else { self.go_around(&round) };
        // Shadows too are gone.
        result.and_then(|()| leftovers.are_none())
    }

    fn go_around(&self, round: &Round) -> TestResult {
        let mut program = round.start(&[])?;
        let pid = program.pid();
        let session = round.attach(pid, &[])?;
        let result = self.in_session(round, &mut program, pid);
        let ended = session.end(TIME_MAX)?;
        result.map_err(|error| format!("{error}\nthe session said: {}", ended.stderr_text()))?;
        if ended.code != 0 {
            return Err(format!("the session ended with {}: {}", ended.code, ended.stderr_text()));
        }
        // It goes on by itself.
        steps(&mut program, 2 * STEPS)?;
        Live::kill(&pid.to_string())?;
        let outcome = program.end()?;
        let printed = outcome.stdout_text();
        if printed.contains("bad: ") || outcome.code != 128 + 9 {
            return Err(format!("it ended with {} and printed:\n{printed}", outcome.code));
        }
        self.replay(round)
    }

    fn in_session(&self, round: &Round, program: &mut Live, pid: u32) -> TestResult {
        steps(program, STEPS)?;
        round.ctl(pid, &["checkpoint"])?;
        steps(program, STEPS)?;
        round.ctl(pid, &["replay", "0"])?;
        steps(program, STEPS)?;
        if self.rolls_back {
            round.ctl(pid, &["rollback", "1"])?;
            steps(program, STEPS)?;
        }
        for _ in 0..self.rounds {
            self.go_back_again(round, program, pid)?;
        }
        round.ctl(pid, &["discard", "0"])?;
        round.ctl(pid, &["save", &round.trace()])?;
        round.ctl(pid, &["detach"])?;
        Ok(())
    }

    /// To a checkpoint of the present, and to one that was taken as soon as the present was
    /// there again.
    fn go_back_again(&self, round: &Round, program: &mut Live, pid: u32) -> TestResult {
        let take = || {
            let said = round.ctl(pid, &["checkpoint"])?;
            let id = said.lines().find_map(|line| line.strip_prefix("checkpoint "));
            id.map(str::to_owned).ok_or_else(|| format!("`ctl checkpoint` said {said}"))
        };
        let first = take()?;
        steps(program, 1)?;
        round.ctl(pid, &["replay", &first])?;
        let second = take()?;
        for (way, id) in [("replay", &second), ("rollback", &second), ("rollback", &first)] {
            steps(program, 1)?;
            round.ctl(pid, &[way, id])?;
        }
        steps(program, 1)?;
        round.ctl(pid, &["discard", &first]).map(drop)
    }

    /// What was saved does the same again.
    fn replay(&self, round: &Round) -> TestResult {
        let outcome = round.run(&["replay".into(), "-q".into(), round.trace().into()])?;
        let printed = outcome.stdout_text();
        if outcome.code != 0 {
            return Err(format!("replay ended with {}:\n{}", outcome.code, outcome.stderr_text()));
        }
        if !self.prints_in_replay {
            return Ok(());
        }
        let numbers: Vec<u64> =
            printed.lines().filter_map(|line| line.strip_prefix("step ")?.parse().ok()).collect();
        let follow = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if numbers.len() < STEPS || !follow {
            return Err(format!("replay printed:\n{printed}\n{}", outcome.stderr_text()));
        }
        Ok(())
    }

    /// It dies, and what it did since it was attached to is a trace.
    fn crash(&self, round: &Round) -> TestResult {
        let program = round.start(&[])?;
        let pid = program.pid();
        let trace = round.trace();
        let session = round.attach(pid, &["--on-crash", "save", "--crash-dir", &trace])?;
        let told = run(round.user.command("kill".as_ref()).arg_pair("-USR1", &pid.to_string()), TIME_MAX)?;
        if told.code != 0 {
            return Err(told.stderr_text());
        }
        let outcome = program.end()?;
        let ended = session.end(TIME_MAX)?;
        let replayed = round.run(&["replay".into(), "-q".into(), trace.into()])?;
        let codes = [outcome.code, ended.code, replayed.code];
        if codes == [128 + 11; 3] {
            return Ok(());
        }
        Err(format!(
            "program, session and replay ended with {codes:?}\n{}\n{}",
            ended.stderr_text(),
            replayed.stderr_text()
        ))
    }
}

/// So that a command is one expression.
trait ArgPair {
    fn arg_pair(self, one: &str, other: &str) -> Command;
}

impl ArgPair for Command {
    fn arg_pair(mut self, one: &str, other: &str) -> Command {
        self.args([one, other]);
        self
    }
}

/// Waits until the program has made so many steps more.
fn steps(program: &mut Live, count: usize) -> TestResult {
    (0..count).try_for_each(|_| program.wait_for_line("step ").map(drop))
}

impl<'a> Round<'a> {
    fn new(tool: &'a Tool, user: User, guest: &Guest, variant: Variant) -> Result<Round<'a>, String> {
        let scratch = Scratch::new("att")?;
        let binary = scratch.fresh_directory("bin")?.join(&guest.name);
        guest.put(variant, &binary)?;
        let home = scratch.fresh_directory("home")?;
        scratch.fresh_directory("run")?;
        Ok(Round { tool, user, scratch, home, binary })
    }

    fn trace(&self) -> String {
        self.home.join("saved").display().to_string()
    }

    /// Starts the program, and waits until it makes steps.
    fn start(&self, arguments: &[&str]) -> Result<Live, String> {
        let mut command = self.user.command(self.binary.as_os_str());
        command.args(arguments).current_dir(self.scratch.join("run"));
        plain_environment(&mut command, &self.home);
        let mut program = Live::start(command)?;
        steps(&mut program, STEPS)?;
        Ok(program)
    }

    fn command(&self, args: &[OsString]) -> Command {
        let mut command = self.tool.command(self.user, &self.home, args);
        command.current_dir(self.scratch.join("run"));
        command
    }

    fn run(&self, args: &[OsString]) -> Result<Outcome, String> {
        run(self.command(args), TIME_MAX)
    }

    fn attach_command(&self, pid: u32, options: &[&str]) -> Command {
        let mut args: Vec<OsString> = vec!["live".into(), "--attach".into(), pid.to_string().into()];
        args.extend(options.iter().map(Into::into));
        self.command(&args)
    }

    /// Attaches, and waits for the first checkpoint.
    fn attach(&self, pid: u32, options: &[&str]) -> Result<Running, String> {
        let mut session = Running::start(self.attach_command(pid, options))?;
        let start = Instant::now();
        let list: [OsString; 3] = ["ctl".into(), pid.to_string().into(), "list".into()];
        loop {
            let outcome = self.run(&list)?;
            // A heading, and checkpoint 0.
            if outcome.code == 0 && outcome.stdout_text().lines().count() > 1 {
                return Ok(session);
            }
            if session.has_ended() || start.elapsed() > TIME_MAX {
                return Err(format!("it was not attached to:\n{}", session.kill()));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// What the command says.
    fn ctl(&self, pid: u32, words: &[&str]) -> Result<String, String> {
        let mut args: Vec<OsString> = vec!["ctl".into(), pid.to_string().into()];
        args.extend(words.iter().map(Into::into));
        let outcome = self.run(&args)?;
        match outcome.code {
            0 => Ok(outcome.stdout_text()),
            code => Err(format!("ctl {words:?} ended with {code}: {}", outcome.stderr_text())),
        }
    }
}

/// A process that cannot be attached to is told why, and goes on as it was.
#[derive(Clone, Copy)]
pub struct RefusedAttach {
    pub name: &'static str,
    guest: &'static str,
    argument: &'static str,
    /// Run by bash before, with the process's id; what it starts is ended with the test.
    before: &'static str,
    /// Run by bash behind it.
    after: &'static str,
    code: i32,
    says: &'static str,
    /// A user other than the program's attaches; for root only.
    pub by_nobody: bool,
}

/// In each case the program had three steps behind it, and makes six more.
pub const REFUSED: [RefusedAttach; 5] = [
    RefusedAttach {
        name: "attach::refused::stopped",
        guest: "loop.c",
        argument: "",
        before: "kill -STOP $1; until grep -q '^State:.*T' /proc/$1/status; do sleep 0.01; done",
        after: "grep -q '^State:.*T' /proc/$1/status && kill -CONT $1",
        code: 122,
        says: "it is stopped",
        by_nobody: false,
    },
    RefusedAttach {
        name: "attach::refused::shares_memory",
        guest: "calls.c",
        argument: "shared",
        before: "",
        after: "",
        code: 122,
        says: "shares memory with it that both can write",
        by_nobody: false,
    },
    RefusedAttach {
        name: "attach::refused::no_descriptor_left",
        guest: "threads.c",
        argument: "",
        before: "prlimit --pid $1 --nofile=0:1024",
        after: "prlimit --pid $1 --nofile=1024:1024",
        code: 122,
        says: "no descriptor can be opened in it",
        by_nobody: false,
    },
    RefusedAttach {
        name: "attach::refused::no_memory_left",
        guest: "computes.c",
        argument: "",
        before: "prlimit --pid $1 --as=1000000:",
        after: "prlimit --pid $1 --as=unlimited:",
        code: 122,
        says: "no memory can be mapped in it",
        by_nobody: false,
    },
    RefusedAttach {
        name: "attach::refused::another_user",
        guest: "loop.c",
        argument: "",
        before: "",
        after: "",
        code: 123,
        says: "it belongs to another user",
        by_nobody: true,
    },
];

impl RefusedAttach {
    pub fn check(&self, tool: &Tool) -> TestResult {
        let guest = Guest::read(&in_workspace("tests/attach").join(self.guest))?;
        let variant = Variant::ALL.into_iter().find(|variant| variant.name == "O2").ok_or("no variant")?;
        let mut round = Round::new(tool, User::Current, &guest, variant)?;
        let leftovers = Leftovers::of(round.scratch.path());
        let mut program = round.start(&[self.argument])?;
        let pid = program.pid();
        script(self.before, pid)?;
        if self.by_nobody {
            round.user = User::Nobody;
            round.home = round.scratch.fresh_directory("nobody")?;
        }
        let maps = maps_of(pid)?;
        let outcome = run(round.attach_command(pid, &[]), TIME_MAX)?;
        if outcome.code != self.code || !outcome.stderr_text().contains(self.says) {
            return Err(format!("attaching ended with {}: {}", outcome.code, outcome.stderr_text()));
        }
        if maps_of(pid)? != maps {
            return Err("its mappings are others than before".to_owned());
        }
        script(self.after, pid)?;
        steps(&mut program, 2 * STEPS)?;
        Live::kill(&pid.to_string())?;
        let ended = program.end()?;
        drop(leftovers);
        if ended.code != 128 + 9 || ended.stdout_text().contains("bad: ") {
            return Err(format!("it ended with {}:\n{}", ended.code, ended.stdout_text()));
        }
        Ok(())
    }
}

/// Where memory is mapped; not how much of a stack or heap.
fn maps_of(pid: u32) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| error.to_string())?;
    Ok(text.lines().filter(|line| !line.ends_with(']')).map(str::to_owned).collect())
}

fn script(text: &str, pid: u32) -> TestResult {
    let mut command = Command::new("bash");
    command.args(["-c", text, "bash", &pid.to_string()]);
    let outcome = run(command, TIME_MAX)?;
    if outcome.code == 0 { Ok(()) } else { Err(format!("`{text}` ended with {}", outcome.code)) }
}

/// A process that is not there.
pub fn check_no_such_process(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("att")?;
    let args: [OsString; 3] = ["live".into(), "--attach".into(), i32::MAX.to_string().into()];
    let home: &Path = &scratch.fresh_directory("home")?;
    let outcome = run(tool.command(User::Current, home, &args), TIME_MAX)?;
    let said = outcome.stderr_text().contains("there is no such process");
    if outcome.code == 127 && said {
        Ok(())
    } else {
        Err(format!("{}: {}", outcome.code, outcome.stderr_text()))
    }
}
