//! Traces that are moved, damaged, cut, packed, named and looked at.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use suites::{RUN_TIME_MAX, TestResult, Tool, compare, plain_environment, run};

use crate::bench::{Bench, ORDINARY, check, path, says, trace_files};

pub fn moved_trace(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "moved")?;
    let recorded = bench.record(ORDINARY)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    let elsewhere = bench.scratch.fresh_directory("else where")?.join("renamed");
    fs::rename(&bench.trace, &elsewhere).map_err(|error| format!("cannot move the trace: {error}"))?;
    bench.trace = elsewhere;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

pub fn replayed_repeatedly(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "repeatedly")?;
    let recorded = bench.record(ORDINARY)?;
    for _ in 0..3 {
        compare("recorded", &recorded, "replayed", &bench.replay()?)?;
    }
    Ok(())
}

/// Whatever file is damaged: the replay is right, or is refused.
pub fn damaged_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "damaged")?;
    let recorded = bench.record(ORDINARY)?;
    let mut refused = 0;
    for file in trace_files(&bench.trace)? {
        let original = fs::read(&file).map_err(|error| error.to_string())?;
        if original.is_empty() {
            continue;
        }
        let middle = original.len() as u64 / 2;
        let mut handle = OpenOptions::new().write(true).open(&file).map_err(|error| error.to_string())?;
        handle.seek(SeekFrom::Start(middle)).map_err(|error| error.to_string())?;
        handle.write_all(&[!original[middle as usize]]).map_err(|error| error.to_string())?;
        drop(handle);
        let replayed = bench.replay()?;
        if compare("recorded", &recorded, "replayed", &replayed).is_err() {
            refused += 1;
            check(
                replayed.code != 0 && replayed.code != recorded.code && replayed.code < 128,
                &format!("with {} damaged: a code of its own", file.display()),
                &replayed,
            )?;
            check(!replayed.stderr.is_empty(), "a message that says what is wrong", &replayed)?;
        }
        fs::write(&file, &original).map_err(|error| error.to_string())?;
    }
    compare("recorded", &recorded, "replayed after repair", &bench.replay()?)?;
    check(refused > 0, "damage was noticed nowhere", &recorded)
}

/// Cut at any length the trace replays to its last event, or is refused.
pub fn truncated_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "truncated")?;
    let recorded = bench.record(ORDINARY)?;
    for file in trace_files(&bench.trace)? {
        let original = fs::read(&file).map_err(|error| error.to_string())?;
        for length in [original.len() * 9 / 10, original.len() / 3, 1, 0] {
            fs::write(&file, &original[..length]).map_err(|error| error.to_string())?;
            let replayed = bench.replay()?;
            let same = compare("recorded", &recorded, "replayed", &replayed).is_ok();
            let is_part = is_part_of(&replayed.stdout, &recorded.stdout);
            check(
                same || (is_part && !replayed.stderr.is_empty()),
                &format!("with {} cut to {length} bytes", file.display()),
                &replayed,
            )?;
        }
        fs::write(&file, &original).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// True if the lines of one text stand in the other in the same order: what is cut
/// off may be the end of one process while a later line of another is there.
fn is_part_of(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.split(|&byte| byte == b'\n');
    part.split(|&byte| byte == b'\n').all(|line| line.is_empty() || rest.any(|other| other == line))
}

/// A program that goes back in its output, as one does that writes a header last: replay makes the
/// same file, behind what is there already, and says so where it cannot.
pub fn output_goes_back(tool: &Tool) -> TestResult {
    const PROGRAM: &str = "import os
first = os.lseek(1, 0, os.SEEK_CUR)
os.write(1, b'head....'); os.write(1, b'body'); os.pwrite(1, b'HH', first)
os.lseek(1, -2, os.SEEK_END); os.write(1, b'DY and'); os.lseek(1, 2, os.SEEK_CUR); os.write(1, b'more')
os.lseek(1, first + 4, os.SEEK_SET); os.writev(1, [b'1', b'2', b'34']); os.lseek(1, 0, os.SEEK_END)
os.write(1, b'gone'); os.ftruncate(1, os.lseek(1, -4, os.SEEK_CUR))
os.system('echo child; echo error >&2'); os.write(1, b'end\\n')";
    let bench = Bench::new(tool, "goes-back")?;
    fs::write(bench.run.join("program.py"), PROGRAM).map_err(|error| error.to_string())?;
    let script = format!(
        "run() {{ echo before; \"$@\" 2>&1; }}
         run {tool} -q record -o {trace} -- python3 program.py > recorded
         run {tool} -q replay {trace} > replayed
         cmp recorded replayed && cat replayed && {tool} replay {trace} | cat",
        tool = path(&tool.binary),
        trace = path(&bench.trace),
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(&bench.run);
    plain_environment(&mut command, &bench.scratch.join("home"));
    let outcome = run(command, RUN_TIME_MAX)?;
    let begins = outcome.stdout_text().starts_with("before\nHHad1234boDY and\0\0morechild\nerror\nend\n");
    check(begins, "the file should be as recorded", &outcome)?;
    says(&outcome, &["another place"])
}

pub fn private_trace(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "private")?;
    let recorded = bench.record("umask 0; echo secret")?;
    check(recorded.code == 0, "the program's code", &recorded)?;
    let mode =
        |path: &Path| fs::metadata(path).map(|m| m.permissions().mode() & 0o777).map_err(|e| e.to_string());
    check(mode(&bench.trace)? == 0o700, "the trace's directory is for its owner only", &recorded)?;
    for file in trace_files(&bench.trace)? {
        let open = mode(&file)? & 0o077;
        check(open == 0, &format!("{} is open to others", file.display()), &recorded)?;
    }
    Ok(())
}

pub fn named_traces(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "named")?;
    let first = bench.call(&["record", "--", "bash", "-c", "echo first"])?;
    check(first.stdout == b"first\n", "the program's output", &first)?;
    bench.call(&["record", "--", "bash", "-c", "echo second"])?;
    let latest = bench.call(&["replay", "-q"])?;
    check(latest.stdout == b"second\n", "the latest trace is the default", &latest)?;
    let list = bench.call(&["ls"])?;
    check(list.stdout_text().lines().count() >= 2, "both traces are listed", &list)
}

pub fn pack_and_unpack(tool: &Tool) -> TestResult {
    let mut bench = Bench::new(tool, "pack")?;
    let recorded = bench.record(ORDINARY)?;
    let packed = bench.call(&["pack", "-q", path(&bench.trace)])?;
    check(packed.code == 0 && packed.stdout == b"trace.rvpack\n", "pack prints where the pack is", &packed)?;
    fs::remove_dir_all(&bench.trace).map_err(|error| error.to_string())?;
    // Another machine has neither the traces' home nor what was kept there.
    bench.scratch.fresh_directory("home")?;
    bench.trace = bench.run.join("trace.rvpack");
    let replayed = bench.call(&["replay", "-q", path(&bench.trace)])?;
    compare("recorded", &recorded, "replayed", &replayed)
}

pub fn dump_and_info(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "dump")?;
    bench.record("echo a word; cat /etc/hostname > /dev/null; exit 5")?;
    let dump = bench.call(&["dump", path(&bench.trace)])?;
    check(dump.code == 0, "dump works", &dump)?;
    for part in ["execve(", "write(1, \"a word\\n\"", "exit_group(5)"] {
        check(dump.stdout_text().contains(part), &format!("the dump lacks {part}"), &dump)?;
    }
    let json = bench.call(&["dump", "--json", path(&bench.trace)])?;
    let whole = json.stdout_text().lines().all(|line| line.starts_with(['{', '[', ' ', '}', ']']));
    check(json.code == 0 && whole, "the dump as JSON", &json)?;
    let info = bench.call(&["info", path(&bench.trace)])?;
    check(info.code == 0 && info.stdout_text().contains("bash"), "info names the command", &info)
}

/// A kept file that holds something else, of the same length, is believed by nobody who needs it.
pub fn changed_kept_file(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "changed")?;
    let recorded = bench.record(ORDINARY)?;
    // What was found to be right once is not taken for right for ever.
    compare("recorded", &recorded, "replayed", &bench.replay()?)?;
    let kept =
        trace_files(&bench.trace)?.into_iter().filter(|file| file.starts_with(bench.trace.join("files")));
    let largest = kept.max_by_key(|file| fs::metadata(file).map_or(0, |found| found.len()));
    let file = largest.ok_or("the trace keeps no file")?;
    let mut bytes = fs::read(&file).map_err(|error| error.to_string())?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // The file is a link into the store.
    fs::remove_file(&file).and_then(|()| fs::write(&file, bytes)).map_err(|error| error.to_string())?;
    for words in [&["replay", "--run"][..], &["info"], &["keyframe"], &["calls", "main"]] {
        let mut arguments = words.to_vec();
        arguments.insert(1, path(&bench.trace));
        let outcome = bench.call(&arguments)?;
        check(outcome.code == 121, &format!("{} should refuse it", words[0]), &outcome)?;
        says(&outcome, &["was changed since it was recorded"])?;
    }
    Ok(())
}

/// Somebody removes the trace while it is written: that is told at the end.
pub fn removed_meanwhile(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "removed")?;
    let outcome = bench.record(&format!("rm -r {}; exit 5", path(&bench.trace)))?;
    check(outcome.code == 5, "the program's code", &outcome)?;
    says(&outcome, &["was removed"])
}

/// The directory of traces has names of its own, which a pack does not get.
pub fn pack_named_as_the_store(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "store")?;
    bench.record("exit 5")?;
    let packed = bench.call(&["pack", "-q", "-o", "files.rvpack", path(&bench.trace)])?;
    check(packed.code == 0, "it is packed", &packed)?;
    bench.scratch.fresh_directory("home")?;
    let replayed = bench.call(&["replay", "--run", "files.rvpack"])?;
    check(replayed.code == 5, "it is replayed", &replayed)?;
    says(&replayed, &["files-0"])
}
