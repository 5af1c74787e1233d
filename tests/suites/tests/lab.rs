//! Labs: real programs as nodes, under one clock, and the same again to the bit.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, in_workspace, run, run_suite,
    unless_missing,
};

/// Runs `retrovane lab` with these words.
fn call(tool: &Tool, home: &Path, words: &[&str]) -> Result<Outcome, String> {
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

/// A lab: its description, the code that it ends with, and lines that its output has.
struct Lab {
    name: &'static str,
    description: &'static str,
    code: i32,
    lines: &'static [&'static str],
}

const LABS: &[Lab] = &[
    Lab {
        name: "time",
        description: r#"
            [node.one]
            command = ["sh", "-c", "hostname; date -u +%s; sleep 3600; date -u +%s; echo $$"]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | one",
            "    0.000000 one | 1767225600",
            " 3600.000000 one | 1767229200",
            " 3600.000000 one | 2",
            " 3600.000000 one | * ended with 0",
        ],
    },
    Lab {
        name: "failing_node",
        description: r#"
            [node.good]
            command = ["true"]
            [node.bad]
            command = ["sh", "-c", "sleep 1; exit 3"]
        "#,
        code: 1,
        lines: &["    0.000000 good | * ended with 0", "    1.000000 bad  | * ended with 3"],
    },
    Lab {
        name: "killed_and_restarted",
        description: r#"
            [node.one]
            command = ["sh", "-c", "echo up; sleep 10; echo done"]
            [[event]]
            at = "4s"
            do = "kill"
            node = "one"
            [[event]]
            at = "5s"
            do = "restart"
            node = "one"
            [[event]]
            at = "6s"
            do = "run"
            node = "one"
            command = ["sh", "-c", "echo beside"]
        "#,
        code: 0,
        lines: &[
            "    0.000000 one | up",
            "    4.000000 lab | * one loses power",
            "    5.000000 one | up",
            "    6.000000 one | beside",
            "   15.000000 one | done",
        ],
    },
    Lab {
        name: "nothing_comes",
        description: r#"
            [node.one]
            command = ["sh", "-c", "mkfifo pipe; exec 3<>pipe; read line <&3"]
        "#,
        code: 125,
        lines: &[],
    },
];

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
        if !stdout.lines().any(|said| said == *line) {
            return Err(failed(&format!("nobody said: {line}"), &outcome));
        }
    }
    Ok(())
}

/// An example runs, says these things, is the same again, and its recording replays.
fn run_example(tool: &Tool, name: &str, says: &[&str]) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
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
    let again = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if again.code != 0 {
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

/// What is wrong with a description is said with its line.
fn bad_descriptions(tool: &Tool) -> TestResult {
    const BAD: [(&str, &str); 5] = [
        ("[node.a]\ncommand = [\"true\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n", ":3: there is no node `b`"),
        ("[node.a]\ncommand = []\n", ":1: the node `a` has an empty command"),
        ("[node.a]\ncommand = [\"true\"]\ncolour = 1\n", ":3: unknown field `colour`"),
        (
            "[node.a]\ncommand = [\"true\"]\n[[event]]\nat = \"soon\"\ndo = \"heal\"\n",
            ":3: `soon` is no time: write it like `10ms`",
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
    trials.push(trial("bad_descriptions", tool, bad_descriptions));
    let website = trial("website", tool, |tool| {
        run_example(tool, "website", &["server | ! 10.0.0.2", "client | * ended with 0"])
    });
    trials.push(unless_missing(website, missing(&["python3", "curl"])));
    let redis = trial("redis_stale_read", tool, |tool| {
        let says = ["replica: old", "stale: the replica still says old", "replica: new"];
        run_example(tool, "redis-stale-read", &says)
    });
    trials.push(unless_missing(redis, missing(&["redis-server", "redis-cli"])));
    trials
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
