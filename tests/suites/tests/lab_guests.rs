//! Every guest as the node of a lab: it says and ends as it does natively, and its recording replays.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use suites::{
    Case, Guest, Mode, Outcome, Scratch, TestResult, Tool, User, Variant, compare, find_guests,
    has_static_libc, run, run_suite, tests_run_as_root, unless_missing, without_nondeterminism,
};

/// A run takes a second or two; far longer where others use the machine.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Guests that are other in a lab by what a lab is, and what it is.
const OTHER_BY_DESIGN: &[(&str, &str)] = &[
    ("address_sanitizer", "the sanitizer traces its own threads (ptrace)"),
    ("fault_signals_restart", "it reads in /proc which call the kernel has a thread in"),
    (
        "interrupted_clocks",
        "it computes until alarms come in a loop that reads the time, which stands meanwhile",
    ),
    ("packet_rings", "there are no packet sockets"),
    ("partial_effects", "it maps a file of /proc, which the kernel refuses; a lab's is a copy"),
    ("shared_processors", "all of a lab runs on one processor, whatever is set"),
    ("shared_with_who_left", "it traces another process (ptrace)"),
    ("sigsuspend_several", "it reads in /proc which call the kernel has a thread in"),
    ("socket_options", "it reads back a filter of packets"),
    ("stat", "the time of the last read is that of the last change"),
    ("stop_the_world", "it traces its own threads (ptrace)"),
    ("traces_child", "it traces another process (ptrace)"),
    ("traces_outsider", "it traces another process (ptrace)"),
    ("traces_program", "it traces another process (ptrace)"),
];

/// The way to build it that is tried: the first of these that it has.
fn variant_of(guest: &Guest) -> Option<Variant> {
    const ORDER: [&str; 4] = ["O2", "O0", "O2-static", "O0-static"];
    let named = |name: &str| Variant::ALL.into_iter().find(|variant| variant.name == name);
    ORDER.into_iter().filter_map(named).find(|variant| guest.has_variant(*variant))
}

/// What this machine lacks for the guest, or why it is not tried.
fn reason_not_to(guest: &Guest, variant: Variant, has_static_libc: bool) -> Option<String> {
    let mut listed = OTHER_BY_DESIGN.iter();
    let reason = listed.find(|(name, _)| *name == guest.name).map(|(_, reason)| (*reason).to_owned());
    let lacks_libc = variant.is_static && !has_static_libc;
    reason
        .or_else(|| guest.missing_need(tests_run_as_root()))
        .or_else(|| lacks_libc.then(|| "needs a static libc".to_owned()))
}

/// Lines without those that differ between native runs, each with an end, as a lab says them.
fn normalised(output: &[u8]) -> Vec<u8> {
    let kept = without_nondeterminism(output);
    String::from_utf8_lossy(&kept).lines().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

/// What the node said, and how it ended, by the records of `lab run --json`.
fn node_outcome(records: &[u8]) -> Option<Outcome> {
    let mut said = Outcome { stdout: Vec::new(), stderr: Vec::new(), code: -1 };
    for line in String::from_utf8_lossy(records).lines() {
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        if record["is"] == "output" {
            let into = if record["stream"] == "stdout" { &mut said.stdout } else { &mut said.stderr };
            into.extend(record["line"].as_str()?.bytes().chain([b'\n']));
        } else if record["is"] == "end" {
            said.code = i32::try_from(record["end"]["ended"].as_i64()?).ok()?;
        }
    }
    Some(said)
}

fn check_guest(tool: &Tool, guest: &Guest, variant: Variant) -> TestResult {
    let mut scratch = Scratch::new(&format!("lab-{}", guest.name))?;
    let binary = scratch.fresh_directory("bin")?.join(&guest.name);
    guest.put(variant, &binary)?;
    let mut case = Case::new(User::Current, vec![binary.clone().into()]);
    case.code = Some(guest.code);
    let native = case.native(&scratch)?;
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let file = scratch.join("lab.toml");
    let description =
        format!("preempts_after = \"50ms\"\n[node.one]\ncommand = [\"{}\"]\n", binary.display());
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let ran = scratch.join("ran");
    let words = ["lab".into(), "run".into(), "--json".into(), "-o".into(), ran.clone().into(), file.into()];
    let home = scratch.fresh_directory("home")?;
    tool.share_kept_files(&home)?;
    let outcome = run(tool.command(User::Current, &home, &words), TIME_MAX)?;
    let said =
        node_outcome(&outcome.stdout).ok_or_else(|| format!("no records: {}", outcome.stdout_text()))?;
    let native =
        Outcome { stdout: normalised(&native.stdout), stderr: normalised(&native.stderr), code: native.code };
    let said = Outcome { stdout: normalised(&said.stdout), stderr: normalised(&said.stderr), ..said };
    let replay = |scratch: &Scratch| {
        let words = ["--quiet".into(), "replay".into(), ran.join("trace").into()];
        let replayed = run(tool.command(User::Current, scratch.path(), &words), TIME_MAX)?;
        match replayed.code {
            0 => Ok(()),
            code => Err(format!("the replay ended with {code}: {}", replayed.stderr_text())),
        }
    };
    compare("native", &native, "in a lab", &said)
        .map_err(|error| format!("{error}\n{}", outcome.stderr_text()))
        .and_then(|()| replay(&scratch))
        .inspect_err(|_| scratch.keep_if_asked())
}

/// Each name of the list is a guest's.
fn check_list(guests: &[Guest]) -> TestResult {
    match OTHER_BY_DESIGN.iter().find(|(name, _)| !guests.iter().any(|guest| guest.name == *name)) {
        None => Ok(()),
        Some((name, _)) => Err(format!("there is no guest {name}")),
    }
}

fn trials(tool: &Arc<Tool>) -> Result<Vec<Trial>, String> {
    let guests = find_guests()?;
    check_list(&guests)?;
    let (mut trials, has_static_libc) = (Vec::new(), has_static_libc());
    for guest in guests {
        let Some(variant) = variant_of(&guest) else { continue };
        let (tool, missing) = (Arc::clone(tool), reason_not_to(&guest, variant, has_static_libc));
        let trial = Trial::test(guest.name.clone(), move || {
            check_guest(&tool, &guest, variant).map_err(Failed::from)
        });
        trials.push(unless_missing(trial, missing));
    }
    Ok(trials)
}

fn main() -> ExitCode {
    run_suite(trials)
}
