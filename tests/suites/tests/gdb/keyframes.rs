//! Keyframes: what one gdb has written to the disk leads another to the same places; what is
//! damaged, or of another trace, leads nowhere, and this is said.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, run};

use super::{compare, recorded, workloads};

/// The tool's output and errors.
fn said(tool: &Tool, scratch: &Scratch, words: &[&str], trace: &Path) -> Result<String, String> {
    let words = words.iter().map(|word| word.replace("SCRIPTS", &workloads().to_string_lossy()).into());
    let args: Vec<OsString> = words.chain([trace.into()]).collect();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(args);
    suites::plain_environment(&mut command, &scratch.join("home"));
    Ok(run(command, RUN_TIME_MAX)?.stdout_text())
}

fn files_of(trace: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(trace.join("keyframes")).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// Written in one gdb at turns of threads, also between events; in another all turns are gone
/// to, from the last to the first.
fn check_places(tool: &Tool, name: &str, flags: &[&str]) -> TestResult {
    let scratch = Scratch::new(name)?;
    let trace = recorded(tool, &scratch, "threads", flags)?;
    let script = ["replay", "--batch", "-ex", "source SCRIPTS/keyframes_written.py"];
    let text = said(tool, &scratch, &script, &trace)?;
    compare(&text, &["keyframe at ", "keyframe at ", "turns "], &["no keyframe", "Error"])?;
    for file in files_of(&trace)? {
        let mode = fs::metadata(&file).map_err(|error| error.to_string())?.permissions().mode();
        if mode & 0o777 != 0o600 {
            return Err(format!("{} has mode {mode:o}", file.display()));
        }
    }
    let script = ["replay", "--batch", "-ex", "source SCRIPTS/keyframes_read.py"];
    let text = said(tool, &scratch, &script, &trace)?;
    let wrong = ["differs", "Error", "not used", "keyframes 0 "];
    compare(&text, &["differences 0", "not taken up 0"], &wrong)?;
    let end = end_of(tool, &scratch, &trace)?;
    compare(&text, &[&format!("ends at {end}")], &[])
}

/// The position of the end, without keyframes.
fn end_of(tool: &Tool, scratch: &Scratch, trace: &Path) -> Result<String, String> {
    let text = said(tool, scratch, &END_WITHOUT, trace)?;
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    let is_position =
        |line: &&str| line.split_once('+').is_some_and(|(event, steps)| is_number(event) && is_number(steps));
    let line = text.lines().find(is_position);
    line.map(str::to_owned).ok_or_else(|| format!("no position of the end:\n{text}"))
}

const END_WITHOUT: [&str; 7] = ["replay", "--batch", "--at", "end", "--keyframes", "off", "--ex=when"];

/// From the end of history back: the same places, with keyframes and without; and what is
/// before all keyframes is found too.
fn check_backwards(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("keyframes_backwards")?;
    let trace = recorded(tool, &scratch, "threads", &["-O1", "-pthread"])?;
    let commands = [
        "handle SIGUSR1 nostop noprint",
        "when",
        "info registers",
        "watch finished",
        "reverse-continue",
        "when",
        "backtrace",
        "delete",
        "reverse-stepi",
        "when",
        "break turn_of if me == 1 && round == 2",
        "reverse-continue",
        "when",
        "info registers",
        "seek end",
        "when",
    ];
    let mut words = vec!["replay", "--batch", "--at", "end"];
    words.extend(commands.iter().flat_map(|command| ["-ex", command]));
    let without = said(tool, &scratch, &words, &trace)?;
    let text = said(tool, &scratch, &["keyframe", "--every", "1ms"], &trace)?;
    compare(&text, &["keyframe at "], &["no keyframes"])?;
    let with = said(tool, &scratch, &words, &trace)?;
    if plain(&without) != plain(&with) {
        return Err(format!("without keyframes:\n{without}\nwith them:\n{with}"));
    }
    let wanted = ["watchpoint", "New value = 4", "Breakpoint 2, turn_of (me=me@entry=1, round=round@entry=2"];
    compare(&with, &wanted, &["retrovane:"])?;
    let text = said(tool, &scratch, &["keyframe", "--remove"], &trace)?;
    compare(&text, &["keyframes removed"], &["0 keyframes"])?;
    files_of(&trace).map_or(Ok(()), |files| Err(format!("{files:?} are left")))
}

/// Without the names of gdb's private folders, and without what the program prints, which comes by a pipe of its own.
fn plain(text: &str) -> Vec<&str> {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_printed = |line: &str| line.contains(' ') && line.split(' ').all(is_number);
    text.lines().filter(|line| !line.contains("/retrovane-gdb-") && !is_printed(line)).collect()
}

/// What is damaged, of another trace, or could have been written by others is said to be so,
/// and the way is that without it.
fn check_distrust(tool: &Tool) -> TestResult {
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let scratch = Scratch::new("keyframes_distrusted")?;
    let trace = recorded(tool, &scratch, "threads", &["-O1", "-pthread"])?;
    let text = said(tool, &scratch, &["keyframe", "--every", "1ms"], &trace)?;
    compare(&text, &["keyframe at "], &["no keyframes"])?;
    let end = &end_of(tool, &scratch, &trace)?[..];
    let at_end = ["replay", "--batch", "--at", "end", "--ex=when"];
    let files = files_of(&trace)?;
    let whole: Vec<Vec<u8>> = files.iter().flat_map(fs::read).collect();
    let spoil = |change: Change| {
        for (file, bytes) in files.iter().zip(&whole) {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            fs::write(file, bytes).map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    let half = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let in_payload = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
    };
    let in_head = |bytes: &mut Vec<u8>| bytes[60] ^= 1;
    let changes: [(Change, &str); 3] = [
        (&half, "another length"),
        (&in_payload, "a keyframe is not used"),
        (&in_head, "checksum of its head"),
    ];
    for (change, told) in changes {
        spoil(change)?;
        compare(&said(tool, &scratch, &at_end, &trace)?, &["retrovane: ", told, end], &[])?;
    }
    spoil(&|_| ())?;
    compare(&said(tool, &scratch, &at_end, &trace)?, &[end], &["retrovane: "])?;
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).map_err(|error| error.to_string())?;
    }
    compare(&said(tool, &scratch, &at_end, &trace)?, &["not a file of yours alone", end], &[])?;
    let scratch = Scratch::new("keyframes_of_another")?;
    let other = recorded(tool, &scratch, "threads", &["-O2", "-pthread"])?;
    fs::create_dir(other.join("keyframes")).map_err(|error| error.to_string())?;
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).map_err(|error| error.to_string())?;
        let name = file.file_name().ok_or("a keyframe without a name")?;
        fs::copy(file, other.join("keyframes").join(name)).map_err(|error| error.to_string())?;
    }
    let text = said(tool, &scratch, &at_end, &other)?;
    let end = end_of(tool, &scratch, &other)?;
    compare(&text, &["are of another trace", &end], &[])
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    type Check = fn(&Tool) -> TestResult;
    let checks: [(&str, Check); 4] = [
        ("keyframes_lead_to_the_same_places", |tool| {
            check_places(tool, "keyframes_places", &["-O1", "-pthread"])
        }),
        ("keyframes_of_a_static_program", |tool| {
            check_places(tool, "keyframes_static", &["-O2", "-static", "-pthread"])
        }),
        ("keyframes_on_the_way_back", check_backwards),
        ("keyframes_that_are_not_trusted", check_distrust),
    ];
    let trial = |(name, check): (&str, Check)| {
        let own = Arc::clone(tool);
        Trial::test(name, move || check(&own).map_err(Failed::from))
    };
    checks.into_iter().map(trial).collect()
}
