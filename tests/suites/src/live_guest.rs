//! Guests that take checkpoints, in C and in other languages, ready to be run.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::TestResult;
use crate::guest::{Guest, Variant, find_live_guests, in_workspace};
use crate::leftovers::Leftovers;
use crate::outcome::{Outcome, without_nondeterminism};
use crate::run::{User, plain_environment, run};
use crate::scratch::Scratch;
use crate::tool::{Tool, build_refuse, has_static_libc, have_program};

/// How long one guest may run.
const TIME_MAX: Duration = Duration::from_secs(120);
/// How a guest ends that finds no live session.
const NO_SESSION: i32 = 77;

/// A program of another language than C.
#[derive(Clone, Copy)]
struct Foreign {
    /// Below tests/live.
    source: &'static str,
    needs: &'static [&'static str],
    /// Run by bash in the directory of binaries; `$live` is tests/live.
    build: &'static str,
    /// The program and its arguments; `{bin}` and `{live}` stand for the directories.
    argv: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const FOREIGN: [Foreign; 4] = [
    Foreign {
        source: "counter.py",
        needs: &["python3"],
        build: "",
        argv: &["python3", "-B", "{live}/counter.py"],
        environment: &[("PYTHONPATH", "{live}/../../python")],
    },
    Foreign {
        source: "counter.go",
        needs: &["go"],
        build: "GOCACHE=$PWD/cache GOFLAGS=-mod=mod go build -o counter_go \"$live/counter.go\" && rm -rf cache",
        argv: &["{bin}/counter_go"],
        environment: &[],
    },
    Foreign {
        source: "counter.js",
        needs: &["node"],
        build: "include=$(dirname $(dirname $(readlink -f $(command -v node))))/include/node
            gcc -Wall -Werror -O2 -shared -fPIC -I $include -o addon.node \"$live/native/node.c\"",
        argv: &["node", "{live}/counter.js"],
        environment: &[("RETROVANE_ADDON", "{bin}/addon.node")],
    },
    Foreign {
        source: "Counter.java",
        needs: &["java", "javac"],
        build: "include=$(dirname $(dirname $(readlink -f $(command -v javac))))/include
            gcc -Wall -Werror -O2 -shared -fPIC -I $include -I $include/linux -o libcounter.so \\
                \"$live/native/java.c\" && javac -d . \"$live/Counter.java\"",
        argv: &["java", "-cp", "{bin}", "-Djava.library.path={bin}", "Counter"],
        environment: &[],
    },
];

#[derive(Clone, Copy)]
enum Kind {
    C(Variant),
    Foreign(Foreign),
}

/// A guest and one way to build it.
#[derive(Clone)]
pub struct LiveGuest {
    /// Of the guest and its way.
    pub name: String,
    guest: Guest,
    kind: Kind,
}

/// One that was built, in a directory of its own.
pub struct BuiltGuest<'a> {
    guest: &'a Guest,
    pub scratch: Scratch,
    argv: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
}

impl LiveGuest {
    /// All of them, built in all ways.
    pub fn all() -> Result<Vec<LiveGuest>, String> {
        let mut all = Vec::new();
        for guest in find_live_guests()? {
            for variant in Variant::ALL.into_iter().filter(|variant| guest.has_variant(*variant)) {
                let name = format!("{}::{}", guest.name, variant.name);
                all.push(LiveGuest { name, guest: guest.clone(), kind: Kind::C(variant) });
            }
        }
        for foreign in FOREIGN {
            let guest = Guest::read(&in_workspace("tests/live").join(foreign.source))?;
            let name = foreign.source.replace('.', "::");
            all.push(LiveGuest { name, guest, kind: Kind::Foreign(foreign) });
        }
        Ok(all)
    }

    /// True if a user who may not look into the workspace can run it.
    pub fn is_for_everybody(&self) -> bool {
        matches!(self.kind, Kind::C(_))
    }

    /// True if no other user than root can run it.
    pub fn needs_root(&self) -> bool {
        self.guest.needs.iter().any(|need| need == "root")
    }

    /// True for one way of each guest, where one is enough.
    pub fn is_plain(&self) -> bool {
        match self.kind {
            Kind::C(variant) => variant.name == "O2",
            Kind::Foreign(_) => true,
        }
    }

    /// What this machine lacks.
    pub fn missing(&self) -> Option<String> {
        match self.kind {
            Kind::C(variant) => {
                (variant.is_static && !has_static_libc()).then(|| "needs a static libc".to_owned())
            }
            Kind::Foreign(foreign) => {
                foreign.needs.iter().find(|name| !have_program(name)).map(|name| format!("needs {name}"))
            }
        }
    }

    pub fn build(&self) -> Result<BuiltGuest<'_>, String> {
        // The path of a session's socket may not be long.
        let scratch = Scratch::new("live")?;
        let bin = scratch.fresh_directory("bin")?;
        let (argv, environment) = match self.kind {
            Kind::C(variant) => {
                let binary = bin.join(&self.guest.name);
                self.guest.put(variant, &binary)?;
                (vec![binary.into()], Vec::new())
            }
            Kind::Foreign(foreign) => {
                foreign.build(&bin)?;
                let filled = |text: &&str| foreign.filled(text, &bin);
                let argv = foreign.argv.iter().map(|word| filled(word).into()).collect();
                let environment =
                    foreign.environment.iter().map(|(name, value)| (*name, filled(value))).collect();
                (argv, environment)
            }
        };
        Ok(BuiltGuest { guest: &self.guest, scratch, argv, environment })
    }
}

impl Foreign {
    fn filled(&self, text: &str, bin: &Path) -> String {
        text.replace("{bin}", &bin.to_string_lossy())
            .replace("{live}", &in_workspace("tests/live").to_string_lossy())
    }

    fn build(&self, bin: &Path) -> TestResult {
        let mut command = Command::new("bash");
        command.args(["-ec", self.build]).current_dir(bin);
        plain_environment(&mut command, bin);
        command.env("live", in_workspace("tests/live"));
        let built = run(command, TIME_MAX)?;
        if built.code == 0 {
            Ok(())
        } else {
            Err(format!("cannot build {}:\n{}", self.source, built.stderr_text()))
        }
    }
}

impl BuiltGuest<'_> {
    fn ready(&self, mut command: Command) -> Result<Command, String> {
        command.current_dir(self.scratch.fresh_directory("run")?);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Runs it natively: it must notice.
    pub fn check_outside(&self) -> TestResult {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]);
        plain_environment(&mut command, &self.scratch.fresh_directory("home")?);
        says_no_session("natively", &run(self.ready(command)?, TIME_MAX)?)
    }

    /// Records and replays it: it must notice too, and equally.
    pub fn check_recorded(&self, tool: &Tool) -> TestResult {
        let home = self.scratch.fresh_directory("home")?;
        let trace = self.scratch.join("trace");
        let mut args: Vec<OsString> = vec!["record".into(), "-q".into(), "-o".into(), trace.clone().into()];
        args.push("--".into());
        args.extend(self.argv.iter().cloned());
        let command = tool.command(User::Current, &home, &args);
        says_no_session("recorded", &run(self.ready(command)?, TIME_MAX)?)?;
        let command = tool.command(User::Current, &home, &["replay".into(), "-q".into(), trace.into()]);
        says_no_session("replayed", &run(self.ready(command)?, TIME_MAX)?)
    }

    /// Runs it in a live session: it prints and ends as its header says.
    pub fn check_live(&self, tool: &Tool, user: User) -> TestResult {
        self.check_behind(&[], &[], tool, user)
    }

    /// The same with checkpoints that save the pages written since the one before, however
    /// small the program is.
    pub fn check_live_saving(&self, tool: &Tool, user: User) -> TestResult {
        self.check_behind(&[], &["--checkpoints=pages"], tool, user)
    }

    /// The same where the kernel refuses userfaultfd: each checkpoint is a fork after all.
    pub fn check_live_refused(&self, tool: &Tool, user: User) -> TestResult {
        let refuse = self.scratch.join("refuse");
        build_refuse(&refuse)?;
        self.check_behind(&[refuse.into(), "userfaultfd".into()], &["--checkpoints=pages"], tool, user)
    }

    fn check_behind(&self, launcher: &[OsString], options: &[&str], tool: &Tool, user: User) -> TestResult {
        let mut args: Vec<OsString> = vec!["live".into()];
        args.extend(options.iter().map(Into::into));
        args.extend(self.guest.options.iter().map(Into::into));
        args.push("--".into());
        args.extend(self.argv.iter().cloned());
        let home = self.scratch.fresh_directory("home")?;
        let command = tool.command_behind(launcher, user, &home, &args);
        let leftovers = Leftovers::of(self.scratch.path());
        let outcome = run(self.ready(command)?, TIME_MAX)?;
        let printed = String::from_utf8_lossy(&without_nondeterminism(&outcome.stdout)).into_owned();
        let expected: String = self.guest.prints.iter().map(|line| format!("{line}\n")).collect();
        if printed != expected || outcome.code != self.guest.code {
            return Err(format!(
                "expected end {}:\n{expected}\ngot end {}:\n{printed}\nstderr:\n{}",
                self.guest.code,
                outcome.code,
                outcome.stderr_text()
            ));
        }
        if outcome.stderr_text().contains("panicked") {
            return Err(format!("the tool panicked:\n{}", outcome.stderr_text()));
        }
        // Shadows too are gone when the session has ended.
        leftovers.are_none()
    }
}

fn says_no_session(how: &str, outcome: &Outcome) -> TestResult {
    if outcome.code == NO_SESSION && outcome.stdout == b"no retrovane\n" {
        return Ok(());
    }
    let (out, err) = (outcome.stdout_text(), outcome.stderr_text());
    Err(format!("{how} it ended with {} and printed:\n{out}\n{err}", outcome.code))
}
