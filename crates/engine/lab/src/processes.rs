//! The lab's processes and threads, as the engine knows them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use injector::{PidFd, kill_process, poll_exited};
use lane_protocol::LAB_WORDS;

use crate::memory::Memory;

/// How long one that was killed is waited for: somebody else may not be killed by the one who tried.
const END_MAX: Duration = Duration::from_secs(5);

/// What a process has had of processor time, and its timers (setitimer(2)).
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessorTime {
    pub ran_ns: u64,
    /// ITIMER_VIRTUAL and ITIMER_PROF: when, by `ran_ns`, and how often again.
    pub alarms: [Option<(u64, u64)>; 2],
    /// RLIMIT_CPU: how many seconds until SIGXCPU, and until SIGKILL.
    pub limit: CpuLimit,
}

/// A limit of processor time in seconds: a soft and a hard one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit(pub [u64; 2]);

impl Default for CpuLimit {
    fn default() -> CpuLimit {
        CpuLimit([libc::RLIM_INFINITY; 2])
    }
}

impl ProcessorTime {
    /// Which of the alarms `setitimer` means by a number.
    pub fn alarm_mut(&mut self, which: u64) -> Option<&mut Option<(u64, u64)>> {
        self.alarms.get_mut(usize::try_from(which.checked_sub(1)?).ok()?)
    }
}

/// A process of the lab.
#[derive(Debug)]
pub struct Process {
    pub node: Option<usize>,
    pub parent: Option<i32>,
    /// Its id in its own namespace, by which its node names it.
    pub inner_pid: i32,
    pub handle: PidFd,
    pub memory: Memory,
    /// Which memory it has: processes that share it have the same number.
    pub space: u64,
    /// The slot of the thread that waits in vfork(2) for it.
    pub waited_by: Option<u32>,
    /// ITIMER_REAL: when, and how often again.
    pub alarm: Option<(u64, u64)>,
    pub processor: ProcessorTime,
    /// When it was made, by the lab's clock.
    pub began_ns: u64,
    /// How much memory it has, when that was asked last.
    pub sizes: crate::sizes::Known,
    /// It is one of the lab's own programs.
    pub is_labs_own: bool,
    /// Where its log is.
    pub segment: Option<injector::Segment>,
}

/// A thread, or one that is about to be made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub pid: Option<i32>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Processes {
    pub slots: BTreeMap<u32, Slot>,
    pub processes: BTreeMap<i32, Process>,
    next_space: u64,
    next_slot: u32,
}

impl Processes {
    pub fn pid_of(&self, slot: u32) -> Option<i32> {
        self.slots.get(&slot)?.pid
    }

    pub fn of_slot(&self, slot: u32) -> Option<&Process> {
        self.processes.get(&self.pid_of(slot)?)
    }

    /// Processor time that a process has had.
    pub fn ran_ns(&self, pid: i32) -> u64 {
        self.processes.get(&pid).map_or(0, |process| process.processor.ran_ns)
    }

    /// The same of the process that a thread is of.
    pub fn ran_ns_of_slot(&self, slot: u32) -> u64 {
        self.pid_of(slot).map_or(0, |pid| self.ran_ns(pid))
    }

    pub fn of_slot_mut(&mut self, slot: u32) -> Option<&mut Process> {
        let pid = self.pid_of(slot)?;
        self.processes.get_mut(&pid)
    }

    pub fn node_of(&self, slot: u32) -> Option<usize> {
        self.of_slot(slot)?.node
    }

    pub fn new_space(&mut self) -> u64 {
        self.next_space += 1;
        self.next_space
    }

    /// A slot that nobody has; the first one that was given back longest ago.
    pub fn take_slot(&mut self) -> Option<u32> {
        let count = lane_protocol::LAB_SLOTS as u32;
        for _ in 0..count {
            self.next_slot = (self.next_slot + 1) % count;
            let slot = self.next_slot;
            if slot != 0 && !self.slots.contains_key(&slot) {
                self.slots.insert(slot, Slot::default());
                return Some(slot);
            }
        }
        None
    }

    pub fn slots_of(&self, pid: i32) -> Vec<u32> {
        self.slots.iter().filter(|(_, slot)| slot.pid == Some(pid)).map(|(&slot, _)| slot).collect()
    }

    pub fn of_node(&self, node: usize) -> Vec<i32> {
        let is_there = |process: &Process| process.node == Some(node);
        self.processes.iter().filter(|(_, process)| is_there(process)).map(|(&pid, _)| pid).collect()
    }

    /// A process of a node, by its id there, and those that it made, and these.
    pub fn made_by(&self, node: usize, inner_pid: i32) -> Vec<i32> {
        let is_it = |process: &Process| process.node == Some(node) && process.inner_pid == inner_pid;
        let line = |pid: i32| {
            let first = self.processes.get(&pid);
            std::iter::successors(first, |process| self.processes.get(&process.parent?))
        };
        self.processes.keys().copied().filter(|&pid| line(pid).any(is_it)).collect()
    }

    /// Whether the process has ended.
    pub fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_none_or(|process| poll_exited(&[&process.handle])[0])
    }

    /// Those of a node that a call which sent a signal was surely meant for; `words`: its number and arguments.
    pub fn targets(&self, own: Option<i32>, mates: &[i32], words: &[u64; LAB_WORDS]) -> Vec<i32> {
        let (call, target) = (words[0] as i64, words[1] as i32);
        let Some(own) = own else { return Vec::new() };
        let view = View::of(own);
        let is_target = |&pid: &i32| match (call, target) {
            (libc::SYS_pidfd_send_signal, fd) => process_of_descriptor(own, fd) == Some(pid),
            (libc::SYS_kill, 0) => view.group(own) == view.group(pid),
            (libc::SYS_kill, -1) => view.id(pid).is_some_and(|id| id != 1),
            (libc::SYS_kill, ..-1) => view.group(pid) == Some(-target),
            (libc::SYS_tkill, _) => view.id(pid) == Some(target) || thread_of(pid, target).is_some(),
            _ => view.id(pid) == Some(target),
        };
        // The first process of a namespace is neither killed nor stopped by those in it.
        let is_open = |&pid: &i32| pid != own && !view.is_first(pid);
        mates.iter().copied().filter(is_open).filter(is_target).collect()
    }

    /// The process of a node that one of its processes knows by this id.
    pub fn known_as(&self, own: i32, node: Option<usize>, id: i32) -> Option<i32> {
        let view = View::of(own);
        let mates = self.processes.iter().filter(|(_, process)| process.node == node);
        mates.map(|(&pid, _)| pid).find(|&pid| view.id(pid) == Some(id))
    }

    /// Waits until a process that is ending has ended.
    pub fn await_end(&self, pid: i32) {
        let began = Instant::now();
        while !self.has_ended(pid) && began.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Ends all processes of a node.
    pub fn kill_node(&self, node: usize) {
        for pid in self.of_node(node) {
            kill_process(pid, libc::SIGKILL);
        }
    }

    /// Ends all processes.
    pub fn kill_all(&self) {
        for (&pid, process) in &self.processes {
            if !poll_exited(&[&process.handle])[0] {
                kill_process(pid, libc::SIGKILL);
            }
        }
    }
}

/// A process's id in its innermost namespace.
pub fn inner_pid(pid: i32) -> i32 {
    ids(pid, "NSpid:").last().copied().unwrap_or(pid)
}

/// The ids of a line of proc_pid_status(5): one for each namespace, the innermost last.
fn ids(pid: i32, name: &str) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process has addresses by chance: none of a lab has, but one whose file has a set-user-ID or set-group-ID bit,
/// with which the kernel forgets that (execve(2), personality(2)), and those that it makes.
pub fn is_randomised(pid: i32) -> bool {
    let personality = std::fs::read_to_string(format!("/proc/{pid}/personality")).ok();
    let bits = personality.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
    bits.is_some_and(|bits| bits & libc::ADDR_NO_RANDOMIZE as u32 == 0)
}

/// How the processes in one namespace of ids know others.
struct View {
    depth: usize,
    namespace: Option<PathBuf>,
}

impl View {
    fn of(pid: i32) -> View {
        View { depth: ids(pid, "NSpid:").len(), namespace: namespace(pid) }
    }

    /// The id by which they know a process, in their namespace or one within it.
    fn id(&self, pid: i32) -> Option<i32> {
        let ids = ids(pid, "NSpid:");
        let is_other = ids.len() == self.depth && namespace(pid) != self.namespace;
        ids.get(self.depth.checked_sub(1)?).copied().filter(|_| !is_other)
    }

    fn group(&self, pid: i32) -> Option<i32> {
        ids(pid, "NSpgid:").get(self.depth.checked_sub(1)?).copied()
    }

    /// Whether it is the first process of their own namespace.
    fn is_first(&self, pid: i32) -> bool {
        ids(pid, "NSpid:").len() == self.depth && self.id(pid) == Some(1)
    }
}

fn namespace(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The process, as the supervisor sees it, that a descriptor of another one is for (pidfd_open(2)).
fn process_of_descriptor(pid: i32, fd: i32) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// The thread that a process knows by an id.
pub fn thread_of(pid: i32, inner: i32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    ids.into_iter().find(|&id| inner_pid(id) == inner)
}
