//! Programs whose data are in a region of the mirror, recorded, replayed and in live sessions: what they print in replay is what
//! they printed, a replay changes no file, and what is on disk behind a rollback is of the branch that went on.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Failed, Trial};
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Recording, Scratch, TestResult, Tool, check, compare, have_program,
    in_workspace, make_file, plain_environment, run, run_suite, target_directory, times, unless_missing,
};

/// The versions of clang that the pass is for. The programs are built with the oldest that is there: the mirror's own tests have
/// the others.
const CLANGS: &str = include_str!("../../../crates/mirror/pass/versions");

/// One program, and how it is called.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    source: &'static str,
    /// What is before it.
    with: &'static [&'static str],
    level: &'static str,
    /// Behind the region's path.
    arguments: &'static [&'static str],
    /// In its output, when it has ended well.
    says: &'static str,
}

/// Each store is saved, so that those without a barrier are known.
const CHECKED: &[&str] = &["env", "RETROVANE_MIRROR_CHECK=1"];

/// What most of them have.
const PLAIN: Case = Case { name: "", source: "", with: &[], level: "-O2", arguments: &[], says: "" };

/// It lives until something is durable, three times.
const KILLED: &[&str] = &["3", "slow"];

const CASES: [Case; 6] = [
    Case {
        name: "stores::O0",
        source: "stores.c",
        with: CHECKED,
        level: "-O0",
        says: "all mirrored",
        ..PLAIN
    },
    Case { name: "stores::O2", source: "stores.c", with: CHECKED, says: "all mirrored", ..PLAIN },
    Case { name: "threads", source: "threads.c", arguments: &["60"], says: "all done", ..PLAIN },
    Case { name: "killed_threads", source: "late.c", arguments: KILLED, says: " rounds", ..PLAIN },
    Case { name: "btree", source: "btree.c", level: "-O1", arguments: KILLED, says: "all whole", ..PLAIN },
    Case { name: "containers", source: "containers.cc", arguments: KILLED, says: "all whole", ..PLAIN },
];

/// The version of clang that is there, with the headers that the pass needs.
fn clang() -> Option<u32> {
    CLANGS.split_whitespace().filter_map(|version| version.parse().ok()).find(|version: &u32| {
        ["clang", "clang++", "llvm-config"].iter().all(|name| have_program(&format!("{name}-{version}")))
    })
}

/// The pass, which is built once.
fn plugin(version: u32) -> Result<String, String> {
    static BUILT: OnceLock<Result<Scratch, String>> = OnceLock::new();
    let build = || {
        let scratch = Scratch::new("mirror-pass")?;
        let mut command = Command::new(in_workspace("crates/mirror/pass/build"));
        command.arg(version.to_string()).arg(scratch.join("pass.so")).env("CXXFLAGS", "-O0");
        make_file(command)?;
        Ok(scratch)
    };
    let scratch = BUILT.get_or_init(build).as_ref().map_err(String::clone)?;
    Ok(scratch.join("pass.so").display().to_string())
}

/// Compiles a program of the mirror's tests.
fn compile(case: &Case, version: u32, recording: &Recording) -> TestResult {
    let folders = ["tests/mirror", "crates/mirror/pass/tests"];
    let source = folders.map(|folder| in_workspace(folder).join(case.source));
    let source = source.iter().find(|source| source.exists()).ok_or("there is no such source")?;
    let compiler = if case.source.ends_with(".cc") { "clang++" } else { "clang" };
    let mut command = Command::new(format!("{compiler}-{version}"));
    command.args(["-Wall", "-g", "-pthread", case.level]);
    command.arg(format!("-fpass-plugin={}", plugin(version)?));
    command.arg("-I").arg(in_workspace("include")).arg("-o").arg(recording.path("program")).arg(source);
    command.arg(target_directory().join("release/libretrovane_mirror.a")).args(["-lm", "-ldl"]);
    make_file(command)
}

/// The region's files, as they are.
fn files(recording: &Recording) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
    let read = |name: &'static str| match std::fs::read(recording.path(name)) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => Err(format!("{name}: {error}")),
    };
    ["region.0", "region.1"].into_iter().map(read).collect()
}

fn same_files(recording: &Recording, before: &BTreeMap<&'static str, Vec<u8>>, who: &str) -> TestResult {
    let now = files(recording)?;
    let changed: Vec<_> = before.keys().filter(|name| now.get(*name) != before.get(*name)).collect();
    if changed.is_empty() { Ok(()) } else { Err(format!("{who} changed {changed:?}")) }
}

/// Recorded and replayed twice, the second time with what the first one left on disk.
fn replays(tool: &Arc<Tool>, case: &Case, version: u32, options: &[&str]) -> TestResult {
    let recording = built(tool, case, version)?;
    for trace in ["new", "recovered"] {
        let record =
            [&["--quiet", "record", "-o", trace], options, &["--"], case.with, &["./program", "region"]]
                .concat();
        let recorded = recording.tool(&[&record[..], case.arguments].concat(), None)?;
        check(&recorded, 0, case.says).map_err(|error| format!("{trace}, recorded: {error}"))?;
        if recorded.stdout.starts_with(b"0 ") {
            return Err(format!(
                "{trace}: nothing was durable when it was killed: {}",
                recorded.stdout_text()
            ));
        }
        let left = files(&recording)?;
        for _ in 0..2 {
            let replayed = recording.tool(&["--quiet", "replay", "--run", trace], None)?;
            compare("recorded", &recorded, "replayed", &replayed)
                .map_err(|error| format!("{trace}: {error}"))?;
            same_files(&recording, &left, "a replay")?;
        }
    }
    Ok(())
}

fn built(tool: &Arc<Tool>, case: &Case, version: u32) -> Result<Recording, String> {
    let recording = Recording::empty(tool, "mirror", &format!("mirror-{}", case.name))?;
    compile(case, version, &recording)?;
    Ok(recording)
}

/// Runs the program without the tool.
fn natively(recording: &Recording, arguments: &[&str]) -> Result<Outcome, String> {
    let mut command = Command::new(recording.path("program"));
    command.args(arguments).current_dir(recording.scratch.path());
    plain_environment(&mut command, recording.scratch.path());
    run(command, RUN_TIME_MAX)
}

/// A live session: checkpoints of the process and of its region, and rollbacks between them.
fn goes_back(tool: &Arc<Tool>, version: u32, options: &[&str]) -> TestResult {
    let case = Case { name: "back", source: "goes_back.c", says: "done", ..PLAIN };
    let recording = built(tool, &case, version)?;
    let live = [&["--quiet", "live"], options, &["--", "./program", "region"]].concat();
    let lived = recording.tool(&live, None)?;
    check(&lived, 0, "4 times back\ndone\n")?;
    check(&natively(&recording, &["region", "check"])?, 0, "all right")
}

/// A live session whose checkpoints come by time.
fn lives(tool: &Arc<Tool>, version: u32) -> TestResult {
    let case = Case { name: "lives", source: "threads.c", says: "all done", ..PLAIN };
    let recording = built(tool, &case, version)?;
    let live = ["--quiet", "live", "--checkpoint-every", "50ms", "--", "./program", "region", "60"];
    check(&recording.tool(&live, None)?, 0, case.says)
}

type Check = Box<dyn Fn(&Arc<Tool>, u32) -> TestResult + Send>;

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let found = clang();
    let trial = |name: String, check: Check| {
        let tool = Arc::clone(tool);
        let missing = match (tool.mode, found) {
            (Mode::Native, _) => Some("needs the tool".to_owned()),
            (_, None) => Some("needs a clang and the headers of its llvm".to_owned()),
            _ => None,
        };
        let run = move || {
            let version = found.ok_or("no clang")?;
            (1..=times()).try_for_each(|_| check(&tool, version)).map_err(Failed::from)
        };
        unless_missing(Trial::test(name, run), missing)
    };
    let mut trials = Vec::new();
    for case in CASES {
        let check = move |tool: &Arc<Tool>, version| replays(tool, &case, version, &[]);
        trials.push(trial(case.name.to_owned(), Box::new(check)));
    }
    let chaos = |tool: &Arc<Tool>, version| replays(tool, &CASES[2], version, &["--chaos"]);
    trials.push(trial("threads::chaos".to_owned(), Box::new(chaos)));
    for (name, options) in [
        ("back", &[][..]),
        ("back::pages", &["--checkpoints=pages"]),
        ("back::files", &["--files=snapshot"]),
        ("back::pages::files", &["--checkpoints=pages", "--files=snapshot"]),
    ] {
        let check = move |tool: &Arc<Tool>, version| goes_back(tool, version, options);
        trials.push(trial(name.to_owned(), Box::new(check)));
    }
    trials.push(trial("lives".to_owned(), Box::new(lives)));
    trials
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
