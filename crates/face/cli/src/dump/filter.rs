//! Which events are shown.

use events::{Event, Instruction, Kind, Tag};
use syscall_model::{Arg, Row, TABLE, Ty, by_name};

use crate::exit::CommandError;
use crate::lane_events::WholeEvent;

/// Classes of calls that are lists of names. Prefixes end with `*`.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "network",
        &[
            "socket",
            "connect",
            "accept",
            "accept4",
            "sendto",
            "recvfrom",
            "sendmsg",
            "recvmsg",
            "shutdown",
            "bind",
            "listen",
            "getsockname",
            "getpeername",
            "socketpair",
            "setsockopt",
            "getsockopt",
            "recvmmsg",
            "sendmmsg",
        ],
    ),
    (
        "process",
        &[
            "clone",
            "clone3",
            "fork",
            "vfork",
            "execve",
            "execveat",
            "exit",
            "exit_group",
            "wait4",
            "waitid",
            "rt_sigqueueinfo",
            "kill",
            "tkill",
            "tgkill",
            "pidfd_open",
            "pidfd_send_signal",
            "unshare",
            "setns",
        ],
    ),
    (
        "memory",
        &[
            "mmap",
            "munmap",
            "mprotect",
            "brk",
            "mremap",
            "madvise",
            "msync",
            "mincore",
            "mlock*",
            "munlock*",
            "mbind",
            "set_mempolicy*",
            "get_mempolicy",
            "migrate_pages",
            "move_pages",
            "shmat",
            "shmdt",
            "remap_file_pages",
            "pkey_*",
            "process_madvise",
            "map_shadow_stack",
            "mseal",
            "userfaultfd",
        ],
    ),
    (
        "signal",
        &[
            "rt_sig*",
            "sigaltstack",
            "kill",
            "tkill",
            "tgkill",
            "signalfd*",
            "pause",
            "rt_tgsigqueueinfo",
            "pidfd_send_signal",
        ],
    ),
    ("ipc", &["shm*", "sem*", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_*"]),
    (
        "time",
        &[
            "clock_*",
            "timer_*",
            "timerfd_*",
            "gettimeofday",
            "settimeofday",
            "time",
            "times",
            "nanosleep",
            "alarm",
            "getitimer",
            "setitimer",
            "adjtimex",
        ],
    ),
    ("poll", &["poll", "ppoll", "select", "pselect6", "epoll_*", "eventfd*"]),
];

/// Classes that follow from the arguments, and the instructions.
const OTHER_CLASSES: [&str; 3] = ["file", "desc", "instruction"];

const INSTRUCTIONS: [&str; 8] = ["rdtsc", "rdtscp", "cpuid", "rdrand", "rdseed", "xsavec", "spin", "rdpid"];

/// What of a trace is wanted.
#[derive(Debug, Default)]
pub struct Filter {
    /// By number; `None`: all.
    calls: Option<Vec<bool>>,
    instructions: [bool; INSTRUCTIONS.len()],
    signals: bool,
    path: Option<String>,
    pids: Vec<i32>,
}

impl Filter {
    /// Understands `--call`, `--path` and `--pid`.
    pub fn new(names: &[String], path: Option<&str>, pids: &[i32]) -> Result<Filter, CommandError> {
        let mut filter = Filter { path: path.map(str::to_owned), pids: pids.to_vec(), ..Filter::default() };
        if names.is_empty() {
            return Ok(filter);
        }
        let mut calls = vec![false; TABLE.len()];
        for name in names {
            filter.add(name, &mut calls)?;
        }
        filter.calls = Some(calls);
        Ok(filter)
    }

    fn add(&mut self, name: &str, calls: &mut [bool]) -> Result<(), CommandError> {
        let (class, must_be_class) = match name.strip_prefix('%') {
            Some(class) => (class, true),
            None => (name, false),
        };
        let rows = TABLE.iter().flatten();
        if let Some((_, patterns)) =
            CLASSES.iter().find(|(known, _)| *known == class && (must_be_class || by_name(name).is_none()))
        {
            rows.filter(|row| patterns.iter().any(|pattern| fits(pattern, row.name)))
                .for_each(|row| mark(calls, row));
            self.signals |= class == "signal";
        } else if class == "file" {
            rows.filter(|row| row.args.iter().any(is_path)).for_each(|row| mark(calls, row));
        } else if class == "desc" {
            rows.filter(|row| row.args.iter().any(is_descriptor)).for_each(|row| mark(calls, row));
        } else if class == "instruction" {
            self.instructions = [true; INSTRUCTIONS.len()];
        } else if let (Some(row), false) = (by_name(name), must_be_class) {
            mark(calls, row);
        } else if let (Some(index), false) =
            (INSTRUCTIONS.iter().position(|known| *known == name), must_be_class)
        {
            self.instructions[index] = true;
        } else {
            return Err(CommandError::Usage(unknown(name)));
        }
        Ok(())
    }

    /// True if this call is wanted.
    pub fn has_call(&self, name: &str) -> bool {
        let Some(calls) = &self.calls else { return true };
        by_name(name).is_some_and(|row| calls[usize::from(row.nr)])
    }

    /// True if a process with this pid is wanted.
    pub fn has_pid(&self, pid: i32) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    /// True if ends of processes are wanted that no event tells.
    pub fn wants_ends(&self) -> bool {
        self.calls.is_none() && self.path.is_none()
    }

    /// True if an event of this process is wanted.
    pub fn wants(&self, whole: &WholeEvent, pid: i32) -> bool {
        self.has_pid(pid) && self.wants_kind(whole.kind, whole.code) && self.wants_path(whole)
    }

    /// True if events of this kind, with this code, are wanted.
    pub fn wants_kind(&self, kind: Kind, code: u16) -> bool {
        let Some(calls) = &self.calls else { return true };
        let has = |name: &str| self.has_call(name);
        match kind {
            Kind::Syscall => calls.get(usize::from(code)).copied().unwrap_or(false),
            Kind::Birth => has("execve") || has("execveat"),
            Kind::Exit => has("exit") || has("exit_group"),
            Kind::Signal | Kind::Fault => self.signals,
            Kind::Instruction => {
                Instruction::from_code(code).is_some_and(|_| self.instructions[usize::from(code)])
            }
            Kind::Data
            | Kind::Trampoline
            | Kind::Checksum
            | Kind::Stop
            | Kind::Preemption
            | Kind::Token
            | Kind::Store
            | Kind::Change
            | Kind::Edit => false,
        }
    }

    fn wants_path(&self, whole: &WholeEvent) -> bool {
        let Some(wanted) = &self.path else { return true };
        let contains = |text: &[u8]| text.windows(wanted.len().max(1)).any(|part| part == wanted.as_bytes());
        let of_birth = |event: Event<'_>| event.birth().is_some_and(|birth| contains(birth.path));
        of_birth(whole.event()) || whole.blobs().any(|blob| blob.tag == Tag::Text && contains(blob.data))
    }
}

fn mark(calls: &mut [bool], row: &Row) {
    calls[usize::from(row.nr)] = true;
}

fn is_path(arg: &Arg) -> bool {
    matches!(arg.ty, Ty::Path)
}

fn is_descriptor(arg: &Arg) -> bool {
    matches!(arg.ty, Ty::Fd | Ty::DirFd)
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// What to say of a name that is none, with the nearest that there is.
fn unknown(name: &str) -> String {
    let classes = CLASSES.iter().map(|(class, _)| *class).chain(OTHER_CLASSES);
    let names = TABLE.iter().flatten().map(|row| row.name).chain(INSTRUCTIONS).chain(classes);
    let nearest = names.map(|known| (distance(name, known), known)).min();
    match nearest {
        Some((far, known)) if far <= 2 => {
            format!("--call {name}: there is no such call or class; is {known} meant?")
        }
        Some(_) | None => {
            format!("--call {name}: there is no such call or class; docs/SYSCALLS.md lists the calls")
        }
    }
}

/// How many characters have to be changed, added or left out to come from one
/// word to the other.
fn distance(one: &str, other: &str) -> usize {
    let mut line: Vec<usize> = (0..=other.len()).collect();
    for (row, byte) in one.bytes().enumerate() {
        let mut diagonal = line[0];
        line[0] = row + 1;
        for (column, other_byte) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(byte != other_byte);
            diagonal = line[column + 1];
            line[column + 1] = changed.min(diagonal + 1).min(line[column] + 1);
        }
    }
    line[other.len()]
}

#[cfg(test)]
mod tests {
    use syscall_model::row;

    use super::*;

    fn calls(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let filter = Filter::new(&names, None, &[]).expect("the names are known");
        let marked = filter.calls.expect("names were given");
        let shown = marked.iter().enumerate().filter(|(_, marked)| **marked);
        shown.filter_map(|(nr, _)| row(nr as u64)).map(|row| row.name).collect()
    }

    #[test]
    fn names_and_classes_select_calls() {
        assert_eq!(calls(&["openat", "read"]), ["read", "openat"]);
        assert!(calls(&["file"]).contains(&"openat") && !calls(&["file"]).contains(&"read"));
        assert!(calls(&["%desc"]).contains(&"read"));
        assert!(calls(&["signal"]).contains(&"rt_sigaction"));
        assert_eq!(calls(&["poll"]), ["poll"], "a call's name is stronger than a class's");
        assert!(calls(&["%poll"]).contains(&"epoll_wait"));
    }

    #[test]
    fn every_pattern_of_a_class_names_a_call() {
        for (class, patterns) in CLASSES {
            for pattern in *patterns {
                assert!(TABLE.iter().flatten().any(|row| fits(pattern, row.name)), "{class}: {pattern}");
            }
        }
    }

    #[test]
    fn a_misspelt_name_is_helped() {
        let error = Filter::new(&["opnat".to_owned()], None, &[]).expect_err("there is no such call");
        assert_eq!(error.to_string(), "--call opnat: there is no such call or class; is openat meant?");
    }
}
