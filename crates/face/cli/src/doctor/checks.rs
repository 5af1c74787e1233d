//! What the findings mean to a user.

use nix::errno::Errno;

use super::probes::{Interception, Machine, NodeFiles};
use crate::wording;

/// Below this, free space is worth a word: a busy program logs so much in minutes.
const SPACE_BYTES_MIN: u64 = 1 << 30;
/// Clock sources that programs read without entering the kernel.
const QUICK_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "hyperv_clocksource_msr"];

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Good,
    /// Recording needs it.
    Missing,
    /// Something costs more, or is less exact.
    Lacking,
    /// Neither good nor bad.
    Neutral,
}

impl State {
    /// As JSON names it.
    pub fn name(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Missing => "missing",
            State::Lacking => "lacking",
            State::Neutral => "neutral",
        }
    }

    /// As a list shows it.
    pub fn sign(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Missing => "MISSING",
            State::Lacking => "lacking",
            State::Neutral => "-",
        }
    }
}

/// One finding, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub found: String,
    pub meaning: String,
    /// What a user can do about it.
    pub advice: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>, meaning: impl Into<String>) -> Check {
        Check { name, state, found: found.into(), meaning: meaning.into(), advice: None }
    }

    fn advising(self, advice: impl Into<String>) -> Check {
        Check { advice: Some(advice.into()), ..self }
    }
}

/// All findings, what recording needs first.
pub fn all(machine: &Machine) -> Vec<Check> {
    vec![
        kernel(machine),
        interception(machine),
        fallback(machine),
        ptrace(machine),
        shared_memory(machine),
        space(machine),
        layout(machine),
        cpuid(machine),
        time_counter(machine),
        clock(machine),
        write_tracking(machine),
        locked_memory(machine),
        counters(machine),
        sandbox(machine),
        labs(machine),
    ]
}

fn kernel(machine: &Machine) -> Check {
    let found = format!("Linux {} on {}", machine.release, machine.processor);
    match (machine.version >= (5, 11), machine.interception()) {
        (true, _) => Check::new("kernel", State::Good, found, "Linux 5.11 or later, as is needed."),
        (false, Some(_)) => Check::new(
            "kernel",
            State::Lacking,
            found,
            "Older than Linux 5.11, from which on this is tested: the fallback may serve.",
        )
        .advising("use Linux 5.11 or later"),
        (false, None) => {
            Check::new("kernel", State::Missing, found, "Older than Linux 5.11: calls cannot be intercepted.")
                .advising("use Linux 5.11 or later")
        }
    }
}

fn interception(machine: &Machine) -> Check {
    const NAME: &str = "syscall user dispatch";
    match machine.interception() {
        Some(Interception::UserDispatch) => Check::new(
            NAME,
            State::Good,
            "works",
            "System calls are intercepted this way, the quickest there is.",
        ),
        Some(Interception::Seccomp) => Check::new(
            NAME,
            State::Lacking,
            "not here",
            "A seccomp filter does it instead: each system call costs some 20 to 80 ns more, and the \
             filter stays when a recording stops early.",
        )
        .advising("use Linux 5.11 or later with CONFIG_GENERIC_ENTRY, as all distributions build it"),
        None => Check::new(
            NAME,
            State::Missing,
            "not here",
            "Nothing on this machine can intercept system calls.",
        )
        .advising("use Linux 5.11 or later; in a sandbox (gVisor and the like) run outside of it"),
    }
}

fn fallback(machine: &Machine) -> Check {
    let needed = !machine.user_dispatch;
    let found = if machine.is_filtered { "a container's filter is active" } else { "no filter is active" };
    match machine.seccomp_trap {
        true => Check::new(
            "seccomp",
            State::Good,
            format!("works, {found}"),
            if needed {
                "It intercepts system calls here."
            } else {
                "The fallback, not needed; `record --seccomp` takes it."
            },
        ),
        false if needed => {
            Check::new("seccomp", State::Missing, "not here", "Nothing can intercept system calls.")
                .advising("use a kernel with CONFIG_SECCOMP_FILTER")
        }
        false => Check::new("seccomp", State::Neutral, "not here", "It would be a fallback only."),
    }
}

fn ptrace(machine: &Machine) -> Check {
    let scope = match machine.yama_scope {
        0 => "no restriction (Yama scope 0)".to_owned(),
        1 => "Yama scope 1: only of own children".to_owned(),
        scope => format!("Yama scope {scope}"),
    };
    match machine.ptrace_error {
        None => Check::new(
            "ptrace",
            State::Good,
            format!("works, {scope}"),
            "It is used once for each program that is started, never while one runs.",
        ),
        Some(error) => Check::new(
            "ptrace",
            State::Missing,
            format!("refused ({}), {scope}", error.desc()),
            "Without it the recorder cannot enter a program that starts.",
        )
        .advising(ptrace_advice(machine, error)),
    }
}

fn ptrace_advice(machine: &Machine, error: Errno) -> String {
    match machine.yama_scope {
        2 => "run as root, or: sudo sysctl kernel.yama.ptrace_scope=1".to_owned(),
        3.. => "kernel.yama.ptrace_scope is 3, which lasts until the next boot: set it to 1 in /etc/sysctl.d and reboot"
            .to_owned(),
        _ if error == Errno::ECHILD => "no process could be started to try it on: is there memory, and a /proc?".to_owned(),
        _ if machine.is_filtered => {
            "start the container with --cap-add=SYS_PTRACE, or with a seccomp profile that permits ptrace".to_owned()
        }
        _ => "is this process being traced itself, by strace or gdb? Run without it".to_owned(),
    }
}

fn shared_memory(machine: &Machine) -> Check {
    match machine.shared_memory {
        true => {
            Check::new("memfd_create", State::Good, "works", "The log's memory, which outlives the program.")
        }
        false => Check::new(
            "memfd_create",
            State::Missing,
            "refused",
            "There is no memory to share with the program.",
        )
        .advising("permit memfd_create in the container's seccomp profile"),
    }
}

fn space(machine: &Machine) -> Check {
    const NAME: &str = "space for traces";
    let Some(space) = &machine.home else {
        return Check::new(NAME, State::Missing, "no place", "Neither RETROVANE_HOME nor HOME is set.")
            .advising("set RETROVANE_HOME, or give --home or `record -o`");
    };
    let found = format!("{} free for {}", wording::bytes(space.free_bytes), space.path.display());
    if !space.is_writable {
        return Check::new(NAME, State::Missing, found, "The directory cannot be written.")
            .advising("set RETROVANE_HOME to a directory of yours");
    }
    if space.free_bytes < SPACE_BYTES_MIN {
        return Check::new(
            NAME,
            State::Lacking,
            found,
            "A full disk ends a recording, though not the program.",
        )
        .advising("remove traces with `retrovane rm`, or set RETROVANE_HOME to a larger disk");
    }
    Check::new(NAME, State::Good, found, "Traces go there, and one copy of each file that programs map.")
}

fn layout(machine: &Machine) -> Check {
    const NAME: &str = "address layout";
    match machine.layout_error {
        None => Check::new(
            NAME,
            State::Good,
            "randomisation can be switched off",
            "Layouts are recreated with ease.",
        ),
        Some(error) => Check::new(
            NAME,
            State::Neutral,
            format!("randomisation cannot be switched off ({})", error.desc()),
            "As in containers. Layouts are recreated mapping by mapping, at no loss.",
        ),
    }
}

fn cpuid(machine: &Machine) -> Check {
    const NAME: &str = "cpuid faulting";
    match machine.cpuid_faulting {
        true => Check::new(
            NAME,
            State::Good,
            "works",
            "What cpuid says is recorded, and traces replay on other processors.",
        ),
        false => Check::new(
            NAME,
            State::Lacking,
            "not here (most virtual machines, and AMD before Zen 4)",
            "cpuid is recorded where a file's code executes it. Generated code asks the processor itself: traces of such programs replay for sure only on one like this.",
        ),
    }
}

fn time_counter(machine: &Machine) -> Check {
    const NAME: &str = "time stamp counter";
    match machine.time_counter_trap {
        true => Check::new(
            NAME,
            State::Good,
            "can be made to trap (PR_SET_TSC)",
            "Programs that read it are recorded exactly.",
        ),
        false => Check::new(
            NAME,
            State::Lacking,
            "cannot be made to trap",
            "rdtsc is recorded where it is found in files; generated code that reads it will diverge.",
        )
        .advising("permit prctl(PR_SET_TSC) in the sandbox"),
    }
}

fn clock(machine: &Machine) -> Check {
    let source = machine.clock_source.as_str();
    if QUICK_CLOCKS.contains(&source) {
        return Check::new("clock", State::Good, source, "Time is read without entering the kernel.");
    }
    Check::new(
        "clock",
        State::Lacking,
        source,
        "Reading the time enters the kernel, with or without retrovane: some 200 ns or more.",
    )
    .advising("if the hypervisor offers a stable tsc, boot with clocksource=tsc")
}

fn write_tracking(machine: &Machine) -> Check {
    const NAME: &str = "page-write tracking";
    match machine.write_tracking {
        true => Check::new(
            NAME,
            State::Good,
            "the kernel has it (userfaultfd, PAGEMAP_SCAN)",
            "A signal that finds a program computing costs what the program wrote since the one before.",
        ),
        false => Check::new(
            NAME,
            State::Lacking,
            "not here: it came with Linux 6.7, and containers may refuse it",
            "A signal that finds a program computing costs a sum of its memory: 0.2 s for each gigabyte.",
        ),
    }
}

fn locked_memory(machine: &Machine) -> Check {
    let found = match machine.lockable_bytes {
        Some(bytes) => wording::bytes(bytes),
        None => "no limit".to_owned(),
    };
    Check::new("locked memory", State::Neutral, found, "Nothing is locked: the limit is the program's alone.")
}

fn counters(machine: &Machine) -> Check {
    let found = if machine.hardware_counters { "present" } else { "not here, as in most virtual machines" };
    Check::new("hardware counters", State::Neutral, found, "Not needed: nothing here depends on them.")
}

fn sandbox(machine: &Machine) -> Check {
    const NAME: &str = "sandbox of replays";
    match machine.sandbox_lacks {
        None => Check::new(
            NAME,
            State::Good,
            "works (seccomp, Landlock)",
            "The code of a trace that came in a pack reaches nothing of this machine.",
        ),
        Some(what) => Check::new(
            NAME,
            State::Neutral,
            format!("not here: nothing keeps code from {what}"),
            "Traces that came in a pack are replayed with `--sandbox never` only.",
        )
        .advising("use Linux 6.12 or later; or replay packs of strangers in a virtual machine"),
    }
}

fn labs(machine: &Machine) -> Check {
    const NAME: &str = "nodes of labs";
    match machine.node_files {
        NodeFiles::Layers => Check::new(
            NAME,
            State::Good,
            "namespaces and layers of files of their own",
            "Each node of a lab sees its own changes of the machine's files, which go back with it.",
        ),
        NodeFiles::Folder => Check::new(
            NAME,
            State::Neutral,
            "namespaces of their own; layers of files (overlayfs) are refused",
            "Each node of a lab has a folder of its own, which goes back with it; other files are the machine's: nodes see each other's changes of them, which stay.",
        )
        .advising("use Linux 5.11 or later, and keep RETROVANE_HOME on ext4, XFS, Btrfs or tmpfs"),
        NodeFiles::NoNode => Check::new(
            NAME,
            State::Neutral,
            "not here: namespaces are refused",
            "`retrovane lab` cannot run nodes.",
        )
        .advising(
            "permit user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone), or be root",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::probes::{Space, version_of};

    fn good_machine() -> Machine {
        Machine {
            release: "6.12.1".to_owned(),
            version: (6, 12),
            processor: "x".to_owned(),
            user_dispatch: true,
            seccomp_trap: true,
            is_filtered: false,
            yama_scope: 1,
            ptrace_error: None,
            shared_memory: true,
            cpuid_faulting: true,
            time_counter_trap: true,
            layout_error: None,
            write_tracking: true,
            clock_source: "tsc".to_owned(),
            home: Some(Space { path: "/h".into(), free_bytes: 1 << 40, is_writable: true }),
            lockable_bytes: None,
            hardware_counters: false,
            sandbox_lacks: None,
            node_files: NodeFiles::Layers,
        }
    }

    fn states(machine: &Machine, state: State) -> Vec<&'static str> {
        all(machine).iter().filter(|check| check.state == state).map(|check| check.name).collect()
    }

    #[test]
    fn a_good_machine_lacks_nothing() {
        let machine = good_machine();
        assert!(states(&machine, State::Missing).is_empty() && states(&machine, State::Lacking).is_empty());
        assert!(all(&machine).iter().all(|check| check.advice.is_none()));
    }

    #[test]
    fn without_dispatch_seccomp_serves_and_without_both_nothing_does() {
        let older = Machine { user_dispatch: false, version: (5, 4), ..good_machine() };
        assert_eq!(older.interception(), Some(Interception::Seccomp));
        assert!(states(&older, State::Missing).is_empty());
        let none = Machine { seccomp_trap: false, ..older };
        assert_eq!(states(&none, State::Missing), ["kernel", "syscall user dispatch", "seccomp"]);
    }

    #[test]
    fn everything_that_is_missing_says_what_to_do() {
        let worst = Machine {
            user_dispatch: false,
            seccomp_trap: false,
            ptrace_error: Some(Errno::EPERM),
            shared_memory: false,
            home: None,
            ..good_machine()
        };
        let missing: Vec<Check> =
            all(&worst).into_iter().filter(|check| check.state == State::Missing).collect();
        assert_eq!(missing.len(), 5);
        assert!(missing.iter().all(|check| check.advice.is_some()), "{missing:?}");
        for (scope, word) in [(1, "traced"), (2, "root"), (3, "boot")] {
            let advice = ptrace_advice(&Machine { yama_scope: scope, ..good_machine() }, Errno::EPERM);
            assert!(advice.contains(word), "{advice}");
        }
    }

    #[test]
    fn releases_have_two_numbers() {
        assert_eq!(["6.12.1-rc3", "5.4", "6", "x"].map(version_of), [(6, 12), (5, 4), (6, 0), (0, 0)]);
    }
}
