//! Every guest × variant × user: native, recorded and replayed runs agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Failed, Trial};
use suites::{
    Case, Guest, Mode, Outcome, RUN_TIME_MAX, Scratch, Tool, User, Variant, check_against,
    covered_system_calls, find_guests, has_static_libc, run, run_suite, tests_run_as_root, unless_missing,
};

/// What decides which tests can run here.
struct Machine {
    is_root: bool,
    has_static_libc: bool,
    has_write_protection: bool,
}

impl Machine {
    fn look() -> Machine {
        Machine {
            is_root: tests_run_as_root(),
            has_static_libc: has_static_libc(),
            has_write_protection: has_write_protection(),
        }
    }

    fn users(&self) -> &'static [User] {
        if self.is_root { &[User::Current, User::Nobody] } else { &[User::Current] }
    }
}

/// PAGEMAP_SCAN is there since Linux 6.7; a sandbox's filter may refuse userfaultfd.
fn has_write_protection() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    version >= (6, 7) && status.contains("Seccomp:\t0")
}

/// One way of recording, besides the usual one.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    options: &'static [&'static str],
}

/// With chaos, threads are paused in the midst of anything. With detection, every call that
/// only gives results counts as undescribed: a strong test of finding what the kernel wrote.
const WAYS: [Way; 5] = [
    Way { name: "", options: &[] },
    Way { name: "chaos", options: &["--seed", "1"] },
    Way { name: "seccomp", options: &["--seccomp"] },
    Way { name: "write-protection", options: &["--detect-all", "--detection", "write-protection"] },
    Way { name: "sums", options: &["--detect-all", "--detection", "sums"] },
];

/// What one user's recordings of all guests share: what is known of the C library's code is found
/// out once, as for every user. What is linked statically has files of its own.
struct KeptFiles {
    scratch: Scratch,
}

impl KeptFiles {
    fn new() -> Result<KeptFiles, String> {
        let scratch = Scratch::new("kept")?;
        Ok(KeptFiles { scratch })
    }

    fn of(&self, variant: Variant, user: User) -> Option<PathBuf> {
        let folder = match user {
            User::Current => "current",
            User::Nobody => "nobody",
        };
        (!variant.is_static).then(|| self.scratch.join(folder))
    }
}

/// A program as a user has it. All ways of recording are compared with one native run, in which
/// they do not differ.
struct Subject {
    guest: Guest,
    variant: Variant,
    user: User,
    native: OnceLock<Result<Outcome, String>>,
}

fn check_guest(tool: &Tool, subject: &Subject, kept_files: &KeptFiles, way: Way) -> Result<(), String> {
    let Subject { guest, variant, user, native } = subject;
    let mut scratch = Scratch::new(&format!("{}-{}{}", guest.name, variant.name, way.name))?;
    let binary = scratch.fresh_directory("bin")?.join(&guest.name);
    guest.put(*variant, &binary)?;
    let mut case = Case::new(*user, vec![binary.clone().into()]);
    case.code = Some(guest.code);
    case.record_options = way.options.iter().map(Into::into).collect();
    case.kept_files = kept_files.of(*variant, *user);
    // A trace replays without the program too: tried with half of the variants.
    if variant.name.starts_with("O2") {
        case.removed_before_replay.push(binary);
    }
    let native = native.get_or_init(|| case.native(&scratch)).as_ref().map_err(String::clone)?;
    check_against(tool, &scratch, &case, native).inspect_err(|_| scratch.keep_if_asked())
}

/// What is mapped for rewritten code is no part of what the program has in memory: the sums are the same where nothing is
/// rewritten, though the program has memory of its own beside it.
fn check_sums_without_rewriting(tool: &Tool) -> Result<(), String> {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("sums-without-rewriting")?;
    let guests = find_guests()?;
    let guest = guests.iter().find(|guest| guest.name == "code_beside_trampolines").ok_or("no such guest")?;
    let variant = Variant::ALL.into_iter().find(|variant| variant.name == "O2").ok_or("no such variant")?;
    let (binary, trace) = (scratch.fresh_directory("bin")?.join(&guest.name), scratch.join("trace"));
    guest.put(variant, &binary)?;
    let home = scratch.fresh_directory("home")?;
    let record = [
        "record".into(),
        "--check".into(),
        "1".into(),
        "-o".into(),
        trace.clone().into_os_string(),
        binary.into_os_string(),
    ];
    let replay = ["replay".into(), "--run".into(), "--no-rewrite".into(), trace.into_os_string()];
    for words in [&record[..], &replay[..]] {
        let outcome = run(tool.command(User::Current, &home, words), RUN_TIME_MAX)?;
        if outcome.code != 0 {
            return Err(format!("{words:?} ended with {}: {}", outcome.code, outcome.stderr_text()));
        }
    }
    Ok(())
}

/// The rows of the system-call table that no guest names.
fn check_coverage() -> Result<(), String> {
    let covered = covered_system_calls()?;
    let all: BTreeSet<String> =
        syscall_model::TABLE.iter().flatten().map(|row| row.name.to_owned()).collect();
    let missing: Vec<_> = all.difference(&covered).collect();
    let unknown: Vec<_> = covered.difference(&all).collect();
    if missing.is_empty() && unknown.is_empty() {
        Ok(())
    } else {
        Err(format!("no guest covers {missing:?}; not in the table: {unknown:?}"))
    }
}

/// What compiler, linker and user choose decides different things: where instructions stand, how
/// the program is loaded, what the kernel allows. Each pair of such choices is tried (pairwise
/// testing: a fault that takes one or two of them shows), and all ways beside -O2, with which
/// they are compared. The ways differ in nothing that a compiler decides, chaos and sums in
/// nothing that a user may do. A guest that is not built in all variants, or not for both users,
/// runs in all that it has.
///
/// Another user's -O2 is tried in those ways in which a user may do less, and not in the usual
/// one as well: each pair that is in it is in another row, too (-O2 and dynamic with root, dynamic
/// and another user with -O0, -O2 and another user with -O2-static).
fn is_tried(guest: &Guest, variant: Variant, user: User, way: Way, is_root: bool) -> bool {
    let as_current = user == User::Current;
    let is_for_both = !guest.needs.iter().any(|need| need == "root" || need == "user");
    let is_complete = is_for_both && Variant::ALL.iter().all(|other| guest.has_variant(*other));
    match (way.name, variant.name) {
        ("", _) if !is_complete || !is_root => true,
        ("", "O2" | "O0-static") => as_current,
        ("", _) => !as_current,
        ("chaos" | "sums", "O2") => as_current,
        (_, "O2") => true,
        _ => false,
    }
}

fn trials(tool: &Arc<Tool>, machine: &Machine, kept_files: &Arc<KeptFiles>) -> Result<Vec<Trial>, String> {
    let mut trials = vec![Trial::test("coverage::every_system_call_has_a_guest", || {
        check_coverage().map_err(Failed::from)
    })];
    let own = Arc::clone(tool);
    trials.push(Trial::test("sums::without_rewriting", move || {
        check_sums_without_rewriting(&own).map_err(Failed::from)
    }));
    for guest in find_guests()? {
        for variant in Variant::ALL.into_iter().filter(|v| guest.has_variant(*v)) {
            for &user in machine.users() {
                let native = OnceLock::new();
                let subject = Arc::new(Subject { guest: guest.clone(), variant, user, native });
                let is_tried = |way: &Way| is_tried(&guest, variant, user, *way, machine.is_root);
                for way in WAYS.into_iter().filter(is_tried) {
                    let missing = missing_for(&subject, way, machine);
                    let user_name = user.name(machine.is_root);
                    let mut name = format!("{}::{}::{user_name}", guest.name, variant.name);
                    if !way.name.is_empty() {
                        name = format!("{name}::{}", way.name);
                    }
                    let (tool, subject) = (Arc::clone(tool), Arc::clone(&subject));
                    let kept_files = Arc::clone(kept_files);
                    let trial = Trial::test(name, move || {
                        check_guest(&tool, &subject, &kept_files, way).map_err(Failed::from)
                    });
                    trials.push(unless_missing(trial, missing));
                }
            }
        }
    }
    Ok(trials)
}

/// What is missing for this trial, if anything is.
fn missing_for(subject: &Subject, way: Way, machine: &Machine) -> Option<String> {
    let Subject { guest, variant, user, .. } = subject;
    if variant.is_static && !machine.has_static_libc {
        Some("needs a static libc".to_owned())
    } else if guest.not_by.iter().any(|name| name == way.name) {
        Some(format!("not by {}", way.name))
    } else if way.name == "write-protection" && !machine.has_write_protection {
        Some("needs userfaultfd and PAGEMAP_SCAN".to_owned())
    } else {
        guest.missing_need(machine.is_root && *user == User::Current)
    }
}

fn main() -> ExitCode {
    // It goes when the trials, which have it, are gone.
    run_suite(|tool| trials(tool, &Machine::look(), &Arc::new(KeptFiles::new()?)))
}
