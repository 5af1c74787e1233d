//! The engine looks at memory of processes, and its nodes look at files.

use std::sync::atomic::Ordering;

use lane_protocol::{LAB_CHANGES, LAB_WORDS};

use crate::engine::Engine;
use crate::files::Change;
use crate::questions::Answer;

impl Engine {
    /// Files that the thread has changed since its last question.
    pub fn take_changes(&mut self, slot: u32) {
        let memory = std::sync::Arc::clone(&self.memory);
        let lab = memory.lab();
        let count = lab.changes_count.load(Ordering::Acquire) as usize;
        if count == 0 {
            return;
        }
        let (node, began_ns) = (self.processes.node_of(slot), lab.realtime_ns.load(Ordering::Relaxed));
        for change in &lab.changes[..count.min(LAB_CHANGES)] {
            let word = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
            let key = (node, word(&change.device), word(&change.inode));
            let at_ns = began_ns.saturating_add(word(&change.at_ns));
            let content_ns = word(&change.content_ns);
            self.files.note(key, Change { what: word(&change.what), at_ns, content_ns });
        }
        lab.changes_count.store(0, Ordering::Relaxed);
    }

    /// A thread looks at a file: device, inode, times of its content and of the inode.
    pub fn look_at_file(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Answer {
        let [device, inode, content_ns, change_ns, ..] = *words;
        let realtime_ns = self.memory.lab().realtime_ns.load(Ordering::Relaxed);
        let now_ns = realtime_ns + self.now_ns;
        // What the lab's own programs look at is the machine's.
        let process = self.processes.of_slot(slot).filter(|process| !process.is_labs_own);
        let key = (process.and_then(|process| process.node), device, inode);
        let seen = self.files.look(key, [content_ns, change_ns], now_ns);
        let [content_ns, change_ns] = seen.lab_ns;
        self.slot(slot).words[0].store(change_ns, Ordering::Relaxed);
        Answer { until_ns: content_ns, ..Answer::result(seen.number as i64) }
    }
}

impl Engine {
    /// A process ends, or the lab does: what is in its memory.
    pub fn sum_memory(&mut self, pid: i32) {
        let Some(process) = self.processes.processes.get(&pid) else { return };
        let Some(node) = process.node.filter(|_| !process.is_labs_own) else { return };
        let number = process.inner_pid;
        if let Err(error) = self.memory_sums.add(node, number, pid) {
            // Not the same as any other run.
            self.name_unsupported_of(
                Some(node),
                &format!("a hash of the memory of process {number}: {error}"),
            );
        }
    }

    /// Of all processes that are there.
    pub fn sum_all_memory(&mut self) {
        let mut pids: Vec<(i32, i32)> =
            self.processes.processes.iter().map(|(&pid, process)| (process.inner_pid, pid)).collect();
        pids.sort_unstable();
        pids.into_iter().for_each(|(_, pid)| self.sum_memory(pid));
    }
}
