//! What a way back does not restore, in words: before it is gone, and afterwards.
//!
//! Deliberately absent: what was done since (see `undo`), and how much of it is undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use injector::{Lane, Segment, SessionMemory};

use crate::channels::{Member, taken_back};
use crate::crash::source_of;
use crate::file_journals::FileJournals;
use crate::listing::checkpoints;
use crate::partners;
use crate::sink::Sink;
use crate::undo::{Source, Undo};
use crate::undoing::{pids_of, undo_since};

/// Longest text, in bytes; one that is longer ends with its last whole line.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A way back of a process.
pub(crate) struct Back<'session> {
    pub memory: &'session SessionMemory,
    pub sink: &'session Sink,
    pub journals: Option<&'session FileJournals>,
    pub segment: Segment,
}

impl Back<'_> {
    /// Lines of what is not restored, but for content of files. `goes_on`: processes that were
    /// made since; `taken_back`: descriptors to which nothing was written since in the end.
    pub fn notes(
        &self,
        id: u32,
        position: u64,
        undo: &Undo,
        goes_on: usize,
        taken_back: &BTreeSet<u32>,
    ) -> Vec<String> {
        let lane = self.memory.lane(self.segment);
        let (number, pid) = (lane.ids().0, lane.pid().load(Ordering::Acquire));
        let in_file = |fd| self.journals.is_some_and(|journals| journals.restores(number, pid, position, fd));
        let is_file = |fd| source_of(pid, fd) == Source::File;
        let mut notes = undo.notes(&|fd| taken_back.contains(&fd) || in_file(fd), &is_file, goes_on);
        notes.extend(self.partners(id, undo));
        notes.extend(self.missing(id).into_iter().map(|fd| {
            format!("descriptor {fd}: it was closed since, and what it was cannot be opened again")
        }));
        notes
    }

    /// What went to processes of the session that stay as they are, and came from them.
    fn partners(&self, id: u32, undo: &Undo) -> Vec<String> {
        let members = self.memory.taken_together(self.segment, u64::from(id)).unwrap_or_default();
        let together: Vec<Segment> = members.into_iter().map(|(segment, _)| segment).collect();
        partners::notes(self.memory, self.segment, &together, &undo.traffic())
    }

    /// Descriptors that the process has found to be closed for good.
    fn missing(&self, id: u32) -> Vec<u32> {
        let missing = self.memory.lane(self.segment).missing();
        if missing.checkpoint.load(Ordering::Acquire) != u64::from(id) + 1 {
            return Vec::new();
        }
        numbers(&missing.words)
    }
}

/// The numbers of the bits that are set.
fn numbers(words: &[AtomicU64]) -> Vec<u32> {
    let words = (0..).zip(words.iter().map(|word| word.load(Ordering::Relaxed)));
    let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
    words.flat_map(|(index, word)| bits(word).map(move |bit| index * 64 + bit)).collect()
}

/// What the ways back of a session's processes did not restore.
#[derive(Default)]
pub(crate) struct Lost {
    /// Of the last way back to each checkpoint of each lane.
    texts: Mutex<BTreeMap<(u32, u32), String>>,
    /// Processes that were made since are killed.
    kills_children: bool,
}

impl Lost {
    pub fn new(kills_children: bool) -> Lost {
        Lost { texts: Mutex::default(), kills_children }
    }

    /// A process goes back; what is known of checkpoints that are no more is forgotten.
    pub fn keep(&self, memory: &SessionMemory, segment: Segment, id: u32, lines: &[String]) {
        let known: BTreeSet<(u32, u32)> = memory
            .segments_in_use()
            .into_iter()
            .flat_map(|segment| {
                let lane = memory.lane(segment);
                checkpoints(lane).into_iter().map(move |at| (lane.ids().0, at.id))
            })
            .collect();
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = memory.lane(segment).ids().0;
        // The future goes.
        texts.retain(|key, _| known.contains(key) && (key.0 != lane || key.1 < id));
        texts.insert((lane, id), text_of(lines));
    }

    /// What the last way back to a checkpoint did not restore.
    pub fn of(&self, lane: Lane, id: u32) -> String {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = texts.get(&(lane.ids().0, id)).cloned().unwrap_or_default();
        let missing = lane.missing();
        if missing.locks_of.load(Ordering::Acquire) == u64::from(id) + 1 {
            for fd in numbers(&missing.locks) {
                text += &format!("descriptor {fd}: a lock on its file is somebody else's by now\n");
            }
        }
        text
    }

    /// What a way back to a checkpoint would not restore.
    pub fn of_next(&self, back: &Back, id: u32) -> String {
        let lane = back.memory.lane(back.segment);
        let number = lane.ids().0;
        let Some(at) = checkpoints(lane).into_iter().find(|at| at.id == id) else { return String::new() };
        let members = back.memory.taken_together(back.segment, u64::from(id)).unwrap_or_default();
        let members = Member::all(back.memory, &members);
        let found = back.sink.with_history(|history| {
            (undo_since(history, number, at.position, &[]), taken_back(&members, history))
        });
        let Some((undo, taken_back)) = found else { return String::new() };
        let goes_on = if self.kills_children { 0 } else { pids_of(back.memory, &undo.children).len() };
        let mut lines = back.notes(id, at.position, &undo, goes_on, &taken_back);
        lines.extend(back.journals.map(|journals| journals.notes(number, at.position)).unwrap_or_default());
        text_of(&lines)
    }
}

/// Input that a way back to a checkpoint would lose, a line each.
pub(crate) fn input_lost_by(back: &Back, id: u32) -> Vec<String> {
    let lane = back.memory.lane(back.segment);
    let at = checkpoints(lane).into_iter().find(|at| at.id == id);
    let undo = at
        .and_then(|at| back.sink.with_history(|history| undo_since(history, lane.ids().0, at.position, &[])));
    undo.map_or_else(Vec::new, |undo| undo.lost_input())
}

fn text_of(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() >= TEXT_BYTES_MAX {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
