//! The lab's processes and threads, as the engine knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use injector::{PidFd, kill_process, poll_exited};

use crate::memory::Memory;

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

    /// Whether the process has ended.
    pub fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_none_or(|process| poll_exited(&[&process.handle])[0])
    }

    /// Waits until a process that is ending has ended.
    pub fn await_end(&self, pid: i32) {
        while !self.has_ended(pid) {
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
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.and_then(|ids| ids.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}
