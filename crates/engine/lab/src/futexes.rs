//! Who waits for which word of memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;

use lane_protocol::LAB_WORDS;

use crate::engine::Engine;
use crate::questions::{Answer, Outcome, Wait};

/// A word: by the memory and the address, or by the file and the place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    OfMemory(u64, u64),
    OfFile(u64, u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    slot: u32,
    bits: u32,
}

/// Each so often those who are woken go on before who has woken them.
const WAKES_IN_TURN: u32 = 8;

/// All that wait.
#[derive(Debug, Default)]
pub struct Futexes {
    queues: BTreeMap<Word, VecDeque<Waiter>>,
    /// How often each thread has woken others.
    wakes: BTreeMap<u32, u32>,
}

impl Futexes {
    /// The thread waits for no word any more.
    pub fn forget(&mut self, slot: u32) {
        for queue in self.queues.values_mut() {
            queue.retain(|waiter| waiter.slot != slot);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
    }

    fn waits(&self, word: Word, slot: u32) -> bool {
        self.queues.get(&word).is_some_and(|queue| queue.iter().any(|waiter| waiter.slot == slot))
    }

    fn take(&mut self, word: Word, bits: u32, count: usize) -> Vec<u32> {
        let Some(queue) = self.queues.get_mut(&word) else { return Vec::new() };
        let mut taken = Vec::new();
        queue.retain(|waiter| {
            let is_taken = taken.len() < count && waiter.bits & bits != 0;
            if is_taken {
                taken.push(waiter.slot);
            }
            !is_taken
        });
        taken
    }
}

impl Engine {
    fn word(&self, slot: u32, address: u64, is_shared: bool) -> Word {
        let space = self.processes.of_slot(slot).map_or(0, |process| process.space);
        let shared = self.processes.pid_of(slot).filter(|_| is_shared);
        shared.and_then(|pid| file_place(pid, address)).unwrap_or(Word::OfMemory(space, address))
    }

    pub fn futex_wait(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Outcome {
        let [address, bits, until_ns, shared, ..] = *words;
        let word = self.word(slot, address, shared != 0);
        if !self.futexes.waits(word, slot) {
            let waiter = Waiter { slot, bits: bits as u32 };
            self.futexes.queues.entry(word).or_default().push_back(waiter);
        }
        self.note_late(slot, until_ns);
        Outcome::Wait(Wait::Futex { until_ns })
    }

    pub fn futex_wake(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Outcome {
        let [address, bits, count, shared, in_turn, ..] = *words;
        let word = self.word(slot, address, shared != 0);
        let mut woken = self.futexes.take(word, bits as u32, count as usize);
        if shared != 0 && woken.len() < count as usize {
            // A word of one's own, woken as one that processes share.
            let own = self.word(slot, address, false);
            let more = self.futexes.take(own, bits as u32, count as usize - woken.len());
            woken.extend(more);
        }
        for &slot in &woken {
            self.make_ready(slot, Answer::result(0));
        }
        let answer = Answer::result(woken.len() as i64);
        if in_turn == 0 || woken.is_empty() {
            return Outcome::Answer(answer);
        }
        let wakes = self.futexes.wakes.entry(slot).or_default();
        *wakes += 1;
        match wakes.is_multiple_of(WAKES_IN_TURN) {
            true => self.go_behind(slot, answer),
            false => Outcome::Answer(answer),
        }
    }

    pub fn futex_requeue(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Outcome {
        let [from, to, wake, moved, shared, ..] = *words;
        let (from, to) = (self.word(slot, from, shared != 0), self.word(slot, to, shared != 0));
        let woken = self.futexes.take(from, u32::MAX, wake as usize);
        for &slot in &woken {
            self.make_ready(slot, Answer::result(0));
        }
        let others = self.futexes.take(from, u32::MAX, moved as usize);
        let result = woken.len() + others.len();
        let waiters = others.into_iter().map(|slot| Waiter { slot, bits: u32::MAX });
        self.futexes.queues.entry(to).or_default().extend(waiters);
        Outcome::Answer(Answer::result(result as i64))
    }
}

/// The place in a file that is mapped shared at an address.
fn file_place(pid: i32, address: u64) -> Option<Word> {
    let maps = injector::read_maps(pid).ok()?;
    let mapping = maps.iter().find(|mapping| mapping.contains(address)).filter(|mapping| mapping.shared)?;
    let file = std::fs::metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    let device = file.map_or(0, |file| file.dev());
    Some(Word::OfFile(device, mapping.inode, address - mapping.start + mapping.file_offset))
}
