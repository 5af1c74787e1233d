//! The sessions of docs/sessions: each page is run, and says what gdb says.
//!
//! A page names its program in a comment: a source in C, Go or Rust, a script that builds one with
//! sources of other projects, or a program's text; `needs` names programs and files without which it
//! is skipped. What its line `$ retrovane record` says is recorded. Its lines that begin with
//! `(gdb)` are given to gdb, in one session that begins as its line `$ retrovane replay` says;
//! what follows them is compared with what gdb answers, but for addresses, process ids,
//! positions and the numbers of threads. With RETROVANE_UPDATE=1 it is written instead.

#[path = "languages.rs"]
mod languages;
#[path = "panics.rs"]
mod panics;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, run, search_path};

/// One of the programs works for a minute.
const RECORD_TIME_MAX: Duration = Duration::from_secs(120);

use super::workloads;

const PROMPT: &str = "(gdb) ";
const RECORD: &str = "$ retrovane record --";
const REPLAY: &str = "$ retrovane replay";
/// The name of scripts that build a program.
const BUILD: &str = "build";
const MARKER: &str = "=== the next command ===";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sessions")
}

/// All pages, by their names.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut pages: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".md").map(str::to_owned)).collect();
    pages.sort();
    pages
}

/// The words of a line that begins so.
fn words_behind<'a>(text: &'a str, start: &str) -> Option<Vec<&'a str>> {
    let line = text.lines().find_map(|line| line.strip_prefix(start))?;
    Some(line.trim_end_matches("-->").split_whitespace().collect())
}

/// The page's program, and the flags that it is compiled with.
fn program(page: &str) -> Result<(&str, Vec<&str>), String> {
    let mut words = words_behind(page, "<!-- program:").ok_or("the page names no program")?;
    if words.is_empty() {
        return Err("the page names no program".to_owned());
    }
    Ok((words.remove(0), words))
}

/// What the page needs and is not there.
fn missing(page: &str) -> Option<String> {
    let is_there = |name: &&str| match name.starts_with('/') {
        true => Path::new(name).exists(),
        false => path_of_compilers().split(':').any(|folder| Path::new(folder).join(name).exists()),
    };
    let needs = words_behind(page, "<!-- needs:").unwrap_or_default();
    if let Some(name) = needs.iter().find(|name| !is_there(name)) {
        return Some((*name).to_owned());
    }
    let (source, _) = program(page).ok()?;
    let script = workloads().join(source);
    if !script.ends_with(BUILD) {
        return None;
    }
    let said = Command::new(script).arg("--missing").output().ok()?.stdout;
    Some(String::from_utf8_lossy(&said).trim().to_owned()).filter(|name| !name.is_empty())
}

/// Makes the page's program in the scratch directory, under the name that the page uses.
fn build(scratch: &Scratch, page: &str) -> TestResult {
    let (source, flags) = program(page)?;
    let path = workloads().join(source);
    let name = path.file_name().ok_or("the page names no program")?;
    if name != BUILD {
        std::fs::copy(&path, scratch.join(source)).map_err(|error| format!("{source}: {error}"))?;
    }
    let kind = path.extension().and_then(|extension| extension.to_str()).unwrap_or(BUILD);
    let mut builder = match kind {
        "c" => with_arguments("gcc", &["-g", "-Wno-unused-result"]),
        "cpp" => with_arguments("g++", &["-g"]),
        "go" => with_arguments("go", &["build", "-gcflags=-N -l"]),
        "rs" => with_arguments("rustc", &["-g"]),
        BUILD => Command::new(path.canonicalize().map_err(|error| format!("{source}: {error}"))?),
        // It is run as it is.
        _ => return Ok(()),
    };
    if kind != BUILD {
        builder.args(flags).args(["-o", "program", source]);
    }
    let built = builder.current_dir(scratch.join(".")).env("PATH", path_of_compilers()).status();
    if built.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("{source} does not build")) }
}

/// A program that its arguments follow.
fn with_arguments(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("GO111MODULE", "off").env("GOTOOLCHAIN", "local");
    command
}

/// Compilers may be the user's own.
fn path_of_compilers() -> String {
    format!("{}:{}", search_path(), std::env::var("PATH").unwrap_or_default())
}

/// What gdb answers to each of the page's commands.
fn answers(tool: &Tool, scratch: &Scratch, page: &str) -> Result<Vec<String>, String> {
    build(scratch, page)?;
    let (home, trace) = (scratch.fresh_directory("home")?, scratch.join("trace"));
    let mut args: Vec<OsString> =
        ["record".into(), "-q".into(), "-o".into(), trace.clone().into(), "--".into()].into();
    let recorded = words_behind(page, RECORD).ok_or("the page records nothing")?;
    args.extend(recorded.iter().map(OsString::from));
    let mut command = tool.command(User::Current, &home, &args);
    command.current_dir(scratch.join("."));
    run(command, RECORD_TIME_MAX)?;
    let options = words_behind(page, REPLAY).ok_or("the page opens no gdb")?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["replay", "--batch"]);
    command.args(options).current_dir(scratch.join("."));
    for asked in page.lines().filter_map(|line| line.strip_prefix(PROMPT)) {
        command.arg("-ex").arg(format!("echo {MARKER}\\n")).args(["-ex", asked]);
    }
    // What gdb says when it ends belongs to no command.
    command.arg("-ex").arg(format!("echo {MARKER}\\n")).arg(trace);
    suites::plain_environment(&mut command, &home);
    let text = run(command, RUN_TIME_MAX)?.stdout_text();
    let mut parts: Vec<String> = text.split(MARKER).map(str::to_owned).collect();
    parts.pop();
    if parts.is_empty() {
        return Err(format!("gdb did not open:\n{text}"));
    }
    parts.remove(0);
    // The directories of this run are no part of what a page shows.
    let here = scratch.join(".").display().to_string();
    Ok(parts.iter().map(|part| tidied(&without_folders(part, here.trim_end_matches(['/', '.'])))).collect())
}

/// With short names for the directory of the run, and for the one that gdb reads from.
fn without_folders(text: &str, here: &str) -> String {
    let mut text = text.replace(here, "/example");
    while let Some(at) = text.find("/retrovane-gdb-") {
        // The files under its root have the paths that the program knew.
        let start = text[..at].rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let end = text[at..].find("/root").map_or(text.len(), |end| at + end + "/root".len());
        text.replace_range(start..end, "");
    }
    text
}

/// Without empty lines, and what gdb tells of threads as they come and go.
fn tidied(text: &str) -> String {
    let is_news = |line: &str| {
        let words = ["[New Thread ", "[Switching to Thread ", "[The program ", "[Thread "];
        line.trim().is_empty() || words.iter().any(|word| line.starts_with(word))
    };
    text.lines().filter(|line| !is_news(line)).fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "{}", line.trim_end());
        all
    })
}

/// The page with these answers behind its commands.
fn filled(page: &str, answers: &[String]) -> String {
    let mut all = String::new();
    let mut answers = answers.iter();
    let mut is_answer = false;
    for line in page.lines() {
        let is_command = line.starts_with(PROMPT);
        if is_command || line.starts_with("```") {
            is_answer = false;
        }
        if !is_answer {
            let _ = writeln!(all, "{line}");
        }
        if is_command {
            all.push_str(answers.next().map_or("", |answer| answer));
            is_answer = true;
        }
    }
    all
}

/// With what differs from run to run made equal, and from machine to machine: numbers of
/// processes and threads, addresses, positions, and all that is said of places in libraries.
fn made_equal(text: &str) -> String {
    let in_library = [
        " at ../",
        " at ./",
        "\t../",
        "\t./",
        " in ../",
        " in ./",
        " file ../",
        " from /",
        " at /rustc/",
        " at /usr/",
        " at library/",
    ];
    let mut own = String::new();
    for line in text.lines() {
        let line = match line.split_once("), ") {
            Some((caught, _)) if caught.starts_with("Catchpoint") => caught,
            _ => line,
        };
        if !in_library.iter().any(|words| line.contains(words)) {
            let _ = writeln!(own, "{line}");
        }
    }
    let mut all = String::new();
    let mut rest = &own[..];
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        all.push_str(before);
        let is_part = |character: char| character.is_ascii_hexdigit() || character == 'x';
        let end = number.find(|character| !is_part(character)).unwrap_or(number.len());
        let (digits, behind) = number.split_at(end);
        let address = digits.strip_prefix("0x").map_or("", |digits| digits.trim_start_matches('0'));
        // What is longer is no address, but text where one should be.
        let is_address = (6..=12).contains(&address.len());
        let names_one =
            ["process ", "Thread ", "LWP ", "\"thread "].iter().any(|word| before.ends_with(word));
        let is_position =
            behind.strip_prefix('+').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if is_position {
            let skipped = behind[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len() - 1);
            all.push_str("POSITION");
            rest = &behind[1 + skipped..];
            continue;
        }
        all.push_str(match (is_address, names_one) {
            (true, _) => "ADDRESS",
            (_, true) => "NUMBER",
            _ => digits,
        });
        rest = behind;
    }
    all.push_str(rest);
    all
}

fn check_page(tool: &Tool, name: &str) -> TestResult {
    let scratch = Scratch::new(&format!("page-{name}"))?;
    let path = folder().join(format!("{name}.md"));
    let page = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let now = filled(&page, &answers(tool, &scratch, &page)?);
    if std::env::var_os("RETROVANE_UPDATE").is_some() {
        return std::fs::write(&path, now).map_err(|error| error.to_string());
    }
    let (written, said) = (made_equal(&page), made_equal(&now));
    let differs = written.lines().zip(said.lines()).find(|(one, other)| one != other);
    match differs {
        None if written.lines().count() == said.lines().count() => Ok(()),
        _ => Err(format!(
            "docs/sessions/{name}.md says something else than gdb (RETROVANE_UPDATE=1 writes it): {differs:?}; now:\n{now}"
        )),
    }
}

/// One for each page.
pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let one = |name: String| {
        let own = Arc::clone(tool);
        let title = format!("page_{}", name.replace('-', "_"));
        let page = std::fs::read_to_string(folder().join(format!("{name}.md"))).unwrap_or_default();
        let trial = Trial::test(title, move || check_page(&own, &name).map_err(Failed::from));
        match missing(&page) {
            Some(what) => trial.with_kind(format!("needs {what}")).with_ignored_flag(true),
            None => trial,
        }
    };
    pages().into_iter().map(one).chain(languages::trials(tool)).chain(panics::trials(tool)).collect()
}
