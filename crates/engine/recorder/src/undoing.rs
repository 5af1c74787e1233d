//! Live: how a branch undoes what happened outside of the process.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use injector::{Segment, SessionMemory};

use crate::channels::{Channels, Member};
use crate::file_journals::FileJournals;
use crate::history::History;
use crate::lost::Lost;
use crate::sink::Sink;
use crate::undo::Undo;

pub(crate) struct Undoing {
    /// Where the process finds what is given back to it.
    pub dir: PathBuf,
    /// Processes that were made since are killed.
    pub kills_children: bool,
    /// What led to the end of a process is saved.
    pub saves_crashes: bool,
    /// The session's first process ran already, and is no child of ours.
    pub main_ran_already: bool,
    /// What was changed in files, if it is undone.
    pub journals: Option<Arc<FileJournals>>,
    /// What is between processes that go back together.
    pub channels: Mutex<Channels>,
    /// What was not undone.
    pub lost: Arc<Lost>,
}

impl Undoing {
    /// Writes a file for a process; 0, or an errno.
    pub fn write(&self, name: &str, bytes: &[u8], end: &[u8]) -> i32 {
        let written = std::fs::write(self.dir.join(name), [bytes, end].concat());
        if written.is_ok() { 0 } else { libc::ENOSPC }
    }
}

/// Descriptors of a process at channels that are again as they were.
#[derive(Clone, Default)]
pub(crate) struct Between {
    /// Their input is in them again.
    pub read: BTreeSet<u32>,
    /// What was written to them since is not in them any more.
    pub written: BTreeSet<u32>,
}

/// Puts back what was between processes that go back together, when the first of them does: all
/// stand still, and have logged what they did.
pub(crate) fn restore_channels(
    memory: &SessionMemory,
    sink: &Sink,
    undoing: &Undoing,
    segment: Segment,
    lane: u32,
) -> Between {
    let Some((round, members)) = memory.going_back_together(segment) else { return Between::default() };
    let members = Member::all(memory, &members);
    let mut channels = undoing.channels.lock().unwrap_or_else(PoisonError::into_inner);
    sink.with_history(|history| channels.restore(round, &members, history));
    channels.restored(round, lane)
}

/// The processes of these lanes.
pub(crate) fn pids_of(memory: &SessionMemory, lanes: &[u32]) -> Vec<i32> {
    let segments = memory.segments_in_use();
    let found = segments.iter().filter(|segment| lanes.contains(&memory.lane(**segment).ids().0));
    found.map(|segment| memory.lane(*segment).pid().load(Ordering::Acquire)).collect()
}

/// A descriptor that a call had made whose beginning is before a checkpoint, and its end behind it:
/// found on a way back there. The call was made again, so that the log knows nothing of it any more.
pub(crate) struct MadeThen {
    /// Of the checkpoint.
    pub position: u64,
    pub descriptor: u32,
}

impl MadeThen {
    /// So many are known at most: the last ones.
    const MAX: usize = 4096;

    /// A way back led to a position.
    pub fn note(all: &mut Vec<MadeThen>, position: u64, undo: &Undo) {
        all.retain(|made| made.position <= position);
        let is_known = |descriptor: &u32| {
            all.iter().any(|made| made.position == position && made.descriptor == *descriptor)
        };
        let new: Vec<u32> = undo.made.iter().copied().filter(|descriptor| !is_known(descriptor)).collect();
        all.extend(new.into_iter().map(|descriptor| MadeThen { position, descriptor }));
        all.drain(..all.len().saturating_sub(Self::MAX));
    }
}

/// What happened in a lane since a position. `made`: in their order, see [`MadeThen`].
pub(crate) fn undo_since(history: &mut History, lane: u32, position: u64, made: &[MadeThen]) -> Undo {
    let mut undo = Undo::default();
    let mut at = position;
    let mut made = made.iter().filter(|made| made.position >= position).peekable();
    while let Some(log) = history.read(lane, at) {
        let mut rest = &log[..];
        while let Some(next) = made.next_if(|made| made.position < at + rest.len() as u64) {
            let (before, behind) = rest.split_at((next.position - at) as usize);
            undo.add(before);
            undo.makes(next.descriptor);
            at = next.position;
            rest = behind;
        }
        undo.add(rest);
        at += rest.len() as u64;
    }
    made.for_each(|made| undo.makes(made.descriptor));
    undo
}
