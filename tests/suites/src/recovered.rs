//! Programs of tests/recover, which go back instead of dying: they survive in a changed
//! environment, and what happened replays, in place and from a trace, to the very same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::TestResult;
use crate::guest::{Guest, Variant, find_recover_guests};
use crate::leftovers::Leftovers;
use crate::outcome::Outcome;
use crate::run::{Live, User, run};
use crate::scratch::Scratch;
use crate::tool::Tool;

/// How long one command may take.
const TIME_MAX: Duration = Duration::from_secs(100);
/// How the log shows a changed environment.
const CHANGED: &str = "=== from here on ";
/// What a program prints when it has come through.
const SURVIVED: &str = "survived";

/// A program that would crash, and one way to build it.
#[derive(Clone)]
pub struct RecoverGuest {
    pub name: String,
    guest: Guest,
    variant: Variant,
    /// What the session says of it.
    says: Vec<String>,
    /// Its code is as it was.
    unchanged: bool,
    /// It is not sent back once more.
    once: bool,
}

impl RecoverGuest {
    /// All of them; each in all ways to build it.
    pub fn all() -> Result<Vec<RecoverGuest>, String> {
        let mut all = Vec::new();
        for guest in find_recover_guests()? {
            let text = std::fs::read_to_string(&guest.source).map_err(|error| error.to_string())?;
            let values = |key: &'static str| {
                text.lines().filter_map(move |line| line.strip_prefix(key)).map(str::to_owned)
            };
            for variant in Variant::ALL.into_iter().filter(|variant| guest.has_variant(*variant)) {
                all.push(RecoverGuest {
                    name: format!("recover::{}::{}", guest.name, variant.name),
                    guest: guest.clone(),
                    variant,
                    says: values("// says: ").collect(),
                    unchanged: values("// unchanged:").count() != 0,
                    once: values("// once: ").count() != 0,
                });
            }
        }
        Ok(all)
    }

    /// True for one way of each, where one is enough.
    pub fn is_plain(&self) -> bool {
        let has_dynamic = Variant::ALL.iter().any(|one| one.name == "O2" && self.guest.has_variant(*one));
        self.variant.name == if has_dynamic { "O2" } else { "O2-static" }
    }

    pub fn is_static(&self) -> bool {
        self.variant.is_static
    }

    /// Runs it until it has survived, replays that in place, sends it back once more, and
    /// saves it both times; `options` of the session are added to its own.
    pub fn check(&self, tool: &Tool, user: User, options: &[&str]) -> TestResult {
        self.check_then(tool, user, options, &|_, _| Ok(()))
    }

    /// The same, and gdb goes to and fro over the change.
    pub fn check_gdb(&self, tool: &Tool) -> TestResult {
        self.check_then(tool, User::Current, &[], &|round, trace| {
            let mut args: Vec<OsString> = ["replay", "--batch", "--at", "end"].map(OsString::from).to_vec();
            let look = "x/i malloc";
            for command in
                ["tbreak main", look, "reverse-continue", look, "tbreak survived", "continue", look]
            {
                args.extend(["-ex".into(), command.into()]);
            }
            // A call through the change, there and back.
            for command in ["tbreak allocate", "reverse-continue", "finish", "bt", "reverse-continue"] {
                args.extend(["-ex".into(), command.into()]);
            }
            args.push(trace.into());
            let outcome = round.run(&args)?;
            let text = outcome.stdout_text();
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("malloc>:") || line.contains("malloc+4>:"))
                .collect();
            let jumps: Vec<bool> = lines.iter().map(|line| line.contains("jmp")).collect();
            let is_right =
                outcome.code == 0 && jumps == [true, false, true] && text.contains("Value returned");
            if is_right { Ok(()) } else { Err(printed(&outcome)) }
        })
    }

    fn check_then(
        &self,
        tool: &Tool,
        user: User,
        options: &[&str],
        then: &dyn Fn(&Round, &Path) -> TestResult,
    ) -> TestResult {
        let scratch = Scratch::new("rec")?;
        let binary = scratch.fresh_directory("bin")?.join(&self.guest.name);
        self.guest.put(self.variant, &binary)?;
        let (home, here) = (scratch.fresh_directory("home")?, scratch.fresh_directory("run")?);
        let leftovers = Leftovers::of(scratch.path());
        let round = Round { tool, user, home, here };
        let mut args: Vec<OsString> = ["live", "--name=it"].map(OsString::from).to_vec();
        args.extend(options.iter().map(Into::into));
        args.extend(self.guest.options.iter().map(Into::into));
        args.extend(["--".into(), binary.into()]);
        let mut session = Live::start(round.command(&args))?;
        let told = self.look(&round, &mut session);
        if told.is_err() {
            // It would wait for ever.
            Live::kill(&format!("-{}", session.pid()))?;
        }
        let outcome = session.end()?;
        told.map_err(|error| format!("{error}\nthe session said: {}", outcome.stderr_text()))?;
        self.check_said(&outcome)?;
        for name in self.traces() {
            self.check_trace(&round, &round.home.join(name))?;
        }
        then(&round, &round.home.join(self.traces()[0]))?;
        // Shadows too are gone.
        leftovers.are_none()
    }

    fn traces(&self) -> &'static [&'static str] {
        if self.once { &["first"] } else { &["first", "second"] }
    }

    /// Does to the session what there is to do.
    fn look(&self, round: &Round, session: &mut Live) -> TestResult {
        for name in self.traces() {
            session.wait_for_line(SURVIVED)?;
            round.control(&["save".into(), round.home.join(name).into()])?;
            round.control(&["replay".into(), "1".into()])?;
            if *name == "first" && !self.once {
                round.control(&["rollback".into(), "1".into()])?;
            }
        }
        let processes = round.control(&["processes".into()])?;
        let pid = processes.split_whitespace().next().unwrap_or_default();
        let mut kill = round.user.command("kill".as_ref());
        kill.args(["-USR1", pid]);
        let outcome = run(kill, TIME_MAX)?;
        if outcome.code == 0 { Ok(()) } else { Err(printed(&outcome)) }
    }

    /// What the program and the session said, in all runs that ended well.
    fn check_said(&self, outcome: &Outcome) -> TestResult {
        let run: String = self.guest.prints.iter().map(|line| format!("{line}\n")).collect();
        let text = outcome.stdout_text();
        let ended = text.ends_with(&format!("{run}{SURVIVED}\nend\n"));
        let runs = text.lines().filter(|line| *line == SURVIVED).count() == self.traces().len();
        let said = outcome.stderr_text();
        let missing = self.says.iter().find(|says| !said.contains(says.as_str()));
        if ended && runs && outcome.code == 0 && missing.is_none() && !said.contains("panicked") {
            return Ok(());
        }
        Err(format!("missing: {missing:?}\n{}", printed(outcome)))
    }

    /// A trace has the last run only, and replays to its end.
    fn check_trace(&self, round: &Round, trace: &Path) -> TestResult {
        let run: String = self.guest.prints.iter().map(|line| format!("{line}\n")).collect();
        let replayed = round.run(&["replay".into(), trace.into()])?;
        if replayed.code != 0 || replayed.stdout_text() != format!("{run}{SURVIVED}\n") {
            return Err(format!("{}: {}", trace.display(), printed(&replayed)));
        }
        let dump = round.run(&["dump".into(), trace.into()])?;
        let changes = dump.stdout_text().lines().filter(|line| line.contains(CHANGED)).count();
        if changes == usize::from(!self.unchanged) { Ok(()) } else { Err(printed(&dump)) }
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

    /// A command to the session, which has to be obeyed.
    fn control(&self, words: &[OsString]) -> Result<String, String> {
        let args: Vec<OsString> =
            ["ctl".into(), "it".into()].into_iter().chain(words.iter().cloned()).collect();
        let outcome = self.run(&args)?;
        if outcome.code == 0 { Ok(outcome.stdout_text()) } else { Err(printed(&outcome)) }
    }
}

fn printed(outcome: &Outcome) -> String {
    format!("code {}, and printed:\n{}\n{}", outcome.code, outcome.stdout_text(), outcome.stderr_text())
}
