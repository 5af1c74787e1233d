//! Recording and replaying where something is refused, missing or limited: it
//! works, or it says what is missing before the program runs.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    Case, Mode, RUN_TIME_MAX, Scratch, TestResult, Tool, User, build_refuse, check_case, run, run_suite,
    tests_run_as_root, unless_missing,
};

/// Pipes, a fork and an exec, and an exit code of its own.
const SCRIPT: &str = "echo first $((1 + 2)); ls /etc/passwd | wc -c; (exit 7)";

/// How it ends.
#[derive(Clone, Copy)]
enum Expect {
    Works,
    /// The exit code, and a word of the message; nothing of the program is seen.
    Refused(i32, &'static str),
    /// It runs without being recorded, and a message has this word.
    Unrecorded(&'static str),
}

struct Environment {
    name: &'static str,
    needs_root: bool,
    /// `REFUSE` stands for the launcher that refuses calls.
    launcher: &'static [&'static str],
    expect: Expect,
}

const fn works(name: &'static str, needs_root: bool, launcher: &'static [&'static str]) -> Environment {
    Environment { name, needs_root, launcher, expect: Expect::Works }
}

const fn refused(
    name: &'static str,
    launcher: &'static [&'static str],
    code: i32,
    word: &'static str,
) -> Environment {
    Environment { name, needs_root: false, launcher, expect: Expect::Refused(code, word) }
}

const ENVIRONMENTS: &[Environment] = &[
    works("docker_profile", false, &["REFUSE", "docker"]),
    works("no_user_dispatch", false, &["REFUSE", "dispatch"]),
    works("no_user_dispatch_in_docker", false, &["REFUSE", "dispatch,docker"]),
    works("no_randomisation", false, &["setarch", "-R"]),
    works("few_descriptors", false, &["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"]),
    works("address_space_of_4_gb", false, &["sh", "-c", "ulimit -v 4000000; exec \"$@\"", "sh"]),
    works("address_space_of_1_gb", false, &["sh", "-c", "ulimit -v 1000000; exec \"$@\"", "sh"]),
    works("small_stack", false, &["sh", "-c", "ulimit -s 256; exec \"$@\"", "sh"]),
    works("unlimited_stack", true, &["sh", "-c", "ulimit -s unlimited; exec \"$@\"", "sh"]),
    works("pid_namespace", true, &["unshare", "-pf", "--mount-proc"]),
    works(
        "small_dev_shm",
        true,
        &["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k shm /dev/shm && exec \"$@\"", "sh"],
    ),
    refused("no_ptrace", &["REFUSE", "ptrace"], 122, "ptrace"),
    refused("no_interception", &["REFUSE", "dispatch,seccomp"], 122, "seccomp"),
    Environment {
        name: "little_address_space",
        needs_root: false,
        launcher: &["sh", "-c", "ulimit -v 100000; exec \"$@\"", "sh"],
        expect: Expect::Unrecorded("ulimit -v"),
    },
];

fn launcher(environment: &Environment, scratch: &Scratch) -> Result<Vec<OsString>, String> {
    let refuse = scratch.join("refuse");
    if environment.launcher[0] == "REFUSE" {
        build_refuse(&refuse)?;
    }
    let words = environment.launcher.iter();
    Ok(words.map(|word| if *word == "REFUSE" { refuse.clone().into() } else { word.into() }).collect())
}

fn check(tool: &Tool, environment: &Environment) -> TestResult {
    let scratch = Scratch::new(environment.name)?;
    let launcher = launcher(environment, &scratch)?;
    let user = User::Current;
    let (code, word, runs) = match environment.expect {
        Expect::Works => {
            let mut case = Case::new(user, vec!["bash".into(), "-c".into(), SCRIPT.into()]);
            case.launcher = launcher;
            case.code = Some(7);
            return check_case(tool, &scratch, &case);
        }
        Expect::Refused(code, word) => (code, word, false),
        Expect::Unrecorded(word) => (7, word, true),
    };
    let mut command = user.command(&launcher[0]);
    command.args(&launcher[1..]).arg(&tool.binary);
    command.args(["record", "-o"]).arg(scratch.join("trace")).args(["--", "bash", "-c", SCRIPT]);
    suites::plain_environment(&mut command, &scratch.fresh_directory("home")?);
    let outcome = run(command, RUN_TIME_MAX)?;
    let text = outcome.stderr_text();
    let wanted = match runs {
        true => {
            let mut native = user.command(&launcher[0]);
            native.args(&launcher[1..]).args(["bash", "-c", SCRIPT]);
            run(native, RUN_TIME_MAX)?.stdout
        }
        false => Vec::new(),
    };
    if outcome.code == code && text.contains(word) && outcome.stdout == wanted {
        return Ok(());
    }
    Err(format!(
        "expected code {code}, {word:?}, and {wanted:?} on stdout; got {}\nstdout: {}\nstderr: {text}",
        outcome.code,
        outcome.stdout_text()
    ))
}

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let is_root = tests_run_as_root();
    ENVIRONMENTS
        .iter()
        .map(|environment| {
            let tool_mode = tool.mode;
            let own = Arc::clone(tool);
            let trial = Trial::test(environment.name, move || check(&own, environment).map_err(Failed::from));
            let missing = if environment.needs_root && !is_root {
                Some("needs root")
            } else {
                (tool_mode == Mode::Native).then_some("needs the tool")
            };
            unless_missing(trial, missing)
        })
        .collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
