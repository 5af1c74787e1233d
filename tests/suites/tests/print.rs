//! `print` and `calls` on recordings: each guest in `tests/print` writes itself what is
//! to be printed of it, which is the oracle.
//!
//! A comment in its second line says what is wanted: `at: MARK  print: EXPRESSIONS`, or
//! `calls: FUNCTIONS`; behind two blanks more may follow (`if: CONDITION`, `unordered`,
//! `library`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{
    Mode, Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, has_static_libc, have_program,
    in_workspace, run, run_suite,
};

/// How guests are compiled.
struct Build {
    name: &'static str,
    flags: &'static [&'static str],
    /// Values may be optimised out; those that are shown have to be right.
    is_optimised: bool,
}

const BUILDS: &[Build] = &[
    Build { name: "plain", flags: &["-O0"], is_optimised: false },
    Build { name: "fixed", flags: &["-O0", "-no-pie", "-fno-pie"], is_optimised: false },
    Build { name: "static", flags: &["-O0", "-static"], is_optimised: false },
    Build { name: "O1", flags: &["-O1"], is_optimised: true },
    Build { name: "O2", flags: &["-O2"], is_optimised: true },
];

/// What a guest's comment asks for.
#[derive(Default)]
struct Wanted {
    mark: Option<String>,
    expressions: String,
    condition: Option<String>,
    functions: Vec<String>,
    is_unordered: bool,
    is_library: bool,
}

fn wanted(source: &str) -> Result<Wanted, String> {
    let line = source.lines().nth(1).ok_or("the guest has no second line")?;
    let inside = line.strip_prefix("/*").and_then(|line| line.strip_suffix("*/"));
    let mut wanted = Wanted::default();
    for part in inside.ok_or("the second line is no comment")?.trim().split("  ") {
        match part.split_once(": ") {
            Some(("at", mark)) => wanted.mark = Some(mark.to_owned()),
            Some(("print", expressions)) => expressions.clone_into(&mut wanted.expressions),
            Some(("if", condition)) => wanted.condition = Some(condition.to_owned()),
            Some(("calls", names)) => wanted.functions = names.split(", ").map(str::to_owned).collect(),
            None if part == "unordered" => wanted.is_unordered = true,
            None if part == "library" => wanted.is_library = true,
            _ => return Err(format!("the guest asks for {part:?}, which is not understood")),
        }
    }
    Ok(wanted)
}

/// A recorded guest.
struct Recorded {
    source: PathBuf,
    text: String,
    wanted: Wanted,
    home: PathBuf,
    trace: PathBuf,
    /// What it wrote.
    said: String,
}

fn compile(scratch: &Scratch, source: &Path, output: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let output = scratch.join(output);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-pthread", "-w"]).args(flags).arg("-o").arg(&output).arg(source);
    let outcome = run(compiler, RUN_TIME_MAX)?;
    if outcome.code == 0 { Ok(output) } else { Err(format!("cannot compile:\n{}", outcome.stderr_text())) }
}

fn record(tool: &Tool, scratch: &Scratch, name: &str, build: &Build) -> Result<Recorded, String> {
    let source = in_workspace("tests/print").join(format!("{name}.c"));
    let text = std::fs::read_to_string(&source).map_err(|error| error.to_string())?;
    let wanted = wanted(&text)?;
    let program = compile(scratch, &source, "program", build.flags)?;
    let trace = scratch.join("trace");
    let home = scratch.fresh_directory("home")?;
    let mut args: Vec<OsString> =
        vec!["record".into(), "-q".into(), "-o".into(), trace.clone().into(), "--".into(), program.into()];
    if wanted.is_library {
        let flags = [&build.flags[..1], &["-DLIBRARY", "-shared", "-fPIC"]].concat();
        args.push(compile(scratch, &source, "library.so", &flags)?.into());
    }
    let outcome = run(tool.command(User::Current, &home, &args), RUN_TIME_MAX)?;
    if !outcome.code == 0 {
        return Err(format!("recording ended with {}:\n{}", outcome.code, outcome.stderr_text()));
    }
    let said = outcome.stdout_text().to_string();
    Ok(Recorded { source, text, wanted, home, trace, said })
}

impl Recorded {
    /// `FILE:LINE` of the line with the mark.
    fn place(&self, mark: &str) -> Result<String, String> {
        let mark = format!("/* {mark} */");
        let line = self.text.lines().position(|line| line.contains(&mark) && line.trim() != mark);
        let name = self.source.file_name().unwrap_or_default().to_string_lossy();
        line.map(|line| format!("{name}:{}", line + 1)).ok_or_else(|| format!("no line has {mark}"))
    }

    fn run(&self, tool: &Tool, words: &[&str]) -> Result<Outcome, String> {
        let args: Vec<OsString> = words
            .iter()
            .map(|word| if *word == "TRACE" { self.trace.clone().into() } else { OsString::from(word) })
            .collect();
        run(tool.command(User::Current, &self.home, &args), RUN_TIME_MAX)
    }
}

/// Rows without process and position.
fn rows(output: &str) -> Vec<String> {
    let rest = |line: &str| {
        let mut columns = line.splitn(2, char::is_whitespace);
        let behind = columns.nth(1).unwrap_or_default().trim_start();
        behind.split_once(char::is_whitespace).map_or(String::new(), |(_, rest)| rest.trim_start().to_owned())
    };
    output.lines().map(rest).collect()
}

/// True if a row says what is expected; where values may be missing, if it says nothing else.
fn agrees(row: &str, expected: &str, may_miss: bool) -> bool {
    if row == expected {
        return true;
    }
    if !may_miss {
        return false;
    }
    // Between the missing values all has to be there, in order.
    const MISSING: &str = "<optimized out>";
    let row = [
        "its location is not understood",
        "it is in a vector register",
        "not recorded",
        "the compiler changed how it is called",
    ]
    .iter()
    .fold(row.to_owned(), |row, why| row.replace(&format!("<{why}>"), MISSING));
    let mut rest = expected;
    let mut pieces = row.split(MISSING);
    let Some(first) = pieces.next() else { return false };
    let Some(behind) = rest.strip_prefix(first) else { return false };
    rest = behind;
    let mut last = first;
    for piece in pieces {
        let Some(place) = (if piece.is_empty() { Some(rest.len()) } else { rest.find(piece) }) else {
            return false;
        };
        rest = &rest[place + piece.len()..];
        last = piece;
    }
    rest.is_empty() || last.is_empty()
}

fn compare_rows(output: &Outcome, expected: &str, unordered: bool, may_miss: bool) -> TestResult {
    let text = output.stdout_text().to_string();
    let (found, mut wanted) = (rows(&text), expected.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut same = found.len() == wanted.len();
    for row in &found {
        // Each row takes the one that it agrees with, in order if there is one.
        let place = wanted.iter().take(if unordered { wanted.len() } else { 1 });
        match place.into_iter().position(|expected| agrees(row, expected, may_miss)) {
            Some(place) => drop(wanted.remove(place)),
            None => same = false,
        }
    }
    if output.code == 0 && same {
        return Ok(());
    }
    Err(format!(
        "it ended with {} and printed\n{text}\n{}\nwhere the program wrote\n{expected}",
        output.code,
        output.stderr_text()
    ))
}

/// What is printed is what the program wrote.
fn check(tool: &Tool, name: &str, build: &Build) -> TestResult {
    let mut scratch = Scratch::new(&format!("print-{name}-{}", build.name))?;
    scratch.keep_if_asked();
    let recorded = record(tool, &scratch, name, build)?;
    let wanted = &recorded.wanted;
    if let Some(mark) = &wanted.mark {
        let place = recorded.place(mark)?;
        let mut words = vec!["print", "TRACE", "--at", &place, &wanted.expressions];
        if let Some(condition) = &wanted.condition {
            words.extend(["--if", condition]);
        }
        let output = recorded.run(tool, &words)?;
        compare_rows(&output, &recorded.said, wanted.is_unordered, build.is_optimised)?;
    }
    for function in &wanted.functions {
        let mut words = vec!["calls", "TRACE", function];
        if let Some(condition) = &wanted.condition {
            words.extend(["--if", condition]);
        }
        let output = recorded.run(tool, &words)?;
        let start = format!("{function}(");
        let own = recorded.said.lines().filter(|line| line.starts_with(&start));
        let own: String = own.map(|line| format!("{line}\n")).collect();
        compare_rows(&output, &own, false, build.is_optimised)?;
    }
    Ok(())
}

/// Errors are told apart, and help.
fn check_errors(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("print-errors")?;
    let recorded = record(tool, &scratch, "often", &BUILDS[0])?;
    let place = recorded.place("MARK")?;
    let cases: &[(&[&str], i32, &str)] = &[
        (&["print", "TRACE", "--at", &place, "i +"], 2, "at character 4"),
        (&["print", "TRACE", "--at", &place, "i = 3"], 2, "nothing can be assigned"),
        (&["print", "TRACE", "--at", &place, "nothing"], 2, "no variable `nothing` at often.c"),
        (&["print", "TRACE", "--at", &place, "i.x"], 2, "no structure"),
        (&["print", "TRACE", "--at", "often.c:1", "i"], 2, "the nearest line that has is"),
        (&["print", "TRACE", "--at", "no.c:1", "i"], 2, "no source file `no.c`"),
        (&["print", "TRACE", "--at", "often.c", "i"], 2, "a source file and a line"),
        (&["calls", "TRACE", "nobody"], 2, "no function `nobody`"),
        (&["print", "TRACE", "--at", &place, "--pid", "1", "i"], 121, "no process 1"),
    ];
    for (words, code, text) in cases {
        let outcome = recorded.run(tool, words)?;
        let said = outcome.stderr_text().to_string();
        if outcome.code != *code || !said.contains(text) {
            return Err(format!("{words:?} ended with {} and said\n{said}", outcome.code));
        }
    }
    Ok(())
}

/// Without -g there is nothing to print, and that is said.
fn check_without_debug_information(tool: &Tool) -> TestResult {
    if !has_static_libc() {
        return Ok(());
    }
    let scratch = Scratch::new("print-without")?;
    // Of a library the machine may have debug information.
    let build = Build { name: "without", flags: &["-O0", "-static", "-g0"], is_optimised: false };
    let recorded = record(tool, &scratch, "often", &build)?;
    let outcome = recorded.run(tool, &["print", "TRACE", "--at", "often.c:12", "i"])?;
    let said = outcome.stderr_text().to_string();
    if outcome.code == 121 && said.contains("no file of the recording has debug information") {
        return Ok(());
    }
    Err(format!("it ended with {} and said\n{said}", outcome.code))
}

/// Exact positions are where the values are: `replay --at` finds the line there.
fn check_positions(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("print-positions")?;
    let recorded = record(tool, &scratch, "often", &BUILDS[0])?;
    let place = recorded.place("MARK")?;
    let condition = "i == 7007";
    let exact = recorded
        .run(tool, &["print", "TRACE", "--at", &place, "--if", condition, "--exact", "--json", "i, hash"])?;
    let text = exact.stdout_text().to_string();
    let number = |key: &str| {
        let rest = text.split_once(&format!("\"{key}\":"))?.1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let (Some(event), Some(steps), Some(hash)) = (number("event"), number("steps"), number("hash")) else {
        return Err(format!("no position in\n{text}{}", exact.stderr_text()));
    };
    if !have_program("gdb") {
        return Ok(());
    }
    let at = format!("{event}+{steps}");
    let gdb = recorded.run(
        tool,
        &[
            "replay",
            "TRACE",
            "--batch",
            "--at",
            &at,
            "-ex",
            "print i",
            "-ex",
            "print hash",
            "-ex",
            "info line *$pc",
        ],
    )?;
    let said = gdb.stdout_text().to_string();
    let line = place.rsplit(':').next().unwrap_or_default();
    if said.contains("$1 = 7007")
        && said.contains(&format!("$2 = {hash}"))
        && said.contains(&format!("Line {line} "))
    {
        return Ok(());
    }
    Err(format!("at {at} gdb said\n{said}{}", gdb.stderr_text()))
}

fn guests() -> Result<Vec<String>, String> {
    let folder = in_workspace("tests/print");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".c").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

type Check = fn(&Tool) -> TestResult;

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    for name in guests()? {
        for build in BUILDS {
            // dlopen is for what is linked dynamically.
            if build.name == "static" && (name == "library" || !has_static_libc()) {
                continue;
            }
            let (own, guest) = (Arc::clone(tool), name.clone());
            let title = format!("{name}_{}", build.name);
            trials.push(Trial::test(title, move || check(&own, &guest, build).map_err(Failed::from)));
        }
    }
    let others: [(&str, Check); 3] = [
        ("errors", check_errors),
        ("without_debug_information", check_without_debug_information),
        ("exact_positions", check_positions),
    ];
    for (name, check) in others {
        let own = Arc::clone(tool);
        trials.push(Trial::test(name, move || check(&own).map_err(Failed::from)));
    }
    if tool.mode == Mode::Native {
        trials = trials
            .into_iter()
            .map(|trial| trial.with_kind("needs the tool").with_ignored_flag(true))
            .collect();
    }
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
