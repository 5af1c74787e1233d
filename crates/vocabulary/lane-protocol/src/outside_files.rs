//! Recording: files, and segments of System V, whose memory somebody may write whom the log of those
//! that have them mapped does not follow.
//!
//! Invariant: a file's state only rises, but for what the supervisor found out, which never takes back that
//! a recorded process stores there. Deliberately absent: locks. Who adds a file may be killed.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::written_files::{MARKS, is_set, set, spread_marks};

/// Files that a session knows.
pub const OUTSIDE_FILES_MAX: usize = 4096;
/// Places that a file may have.
const PROBES: usize = 32;

/// State of an [`OutsideFile`].
pub mod outside_state {
    /// Nothing is known of it.
    pub const FREE: u32 = 0;
    /// Somebody fills it in.
    pub const CLAIMED: u32 = 1;
    /// Nobody but recorded processes can write to its memory.
    pub const INSIDE: u32 = 2;
    /// A recorded process stores there, which is not followed where others map it privately.
    pub const STORED: u32 = 3;
    /// The supervisor is asked. Until it knows, it counts as outside.
    pub const ASKED: u32 = 4;
    /// Processes that are not recorded can write to its memory.
    pub const OUTSIDE: u32 = 5;
}

/// Whether a file's memory changed where the program could not have learned of it.
pub mod untimely {
    /// Again and again, and the program can store there itself.
    pub const POSSIBLE: u32 = 1;
    pub const CERTAIN: u32 = 2;
}

/// One file.
#[repr(C)]
pub struct OutsideFile {
    /// See [`outside_state`].
    pub state: AtomicU32,
    /// Who has it mapped, as the supervisor sees the process.
    pub pid: AtomicI32,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// See [`untimely`].
    pub untimely: AtomicU32,
    /// Not zero: it has no name, and nobody of the recording made it.
    pub is_foreign: AtomicU32,
    /// Not zero: a recorded process stores there. It stays so when the supervisor answers what it was
    /// asked meanwhile.
    is_stored: AtomicU32,
    /// Not zero: it has a name, and somebody who may not be recorded had it when it was mapped.
    pub is_opened: AtomicU32,
    /// How often recorded processes have opened it since then.
    opens: AtomicU32,
    /// Not zero: somebody opened it, and none of these is known to be who. It is their number as of then, plus one.
    opened_at: AtomicU32,
    /// Not zero: nobody is known who writes there, but there are processes that may not be looked at.
    pub is_suspect: AtomicU32,
    /// Its length when it was mapped.
    pub bytes: AtomicU64,
}

/// See the module. Zeros are a valid beginning.
#[repr(C, align(64))]
pub struct OutsideFiles {
    /// Counts changes of states.
    changes: AtomicU64,
    /// Counts what the supervisor is asked; a futex word.
    doorbell: AtomicU32,
    files: [OutsideFile; OUTSIDE_FILES_MAX],
    /// Three of each file that a recorded process made.
    made: [AtomicU32; MARKS / 32],
}

impl OutsideFile {
    pub fn identity(&self) -> [u64; 2] {
        [&self.device, &self.inode].map(|word| word.load(Ordering::Relaxed))
    }

    /// True if somebody opened it who is not known to be recorded: who is says so behind the call only.
    pub fn is_opened_by_unknown(&self) -> bool {
        let opened_at = self.opened_at.load(Ordering::Acquire);
        opened_at != 0 && opened_at == self.opens.load(Ordering::Acquire).wrapping_add(1)
    }

    fn is(&self, identity: [u64; 2]) -> bool {
        self.state.load(Ordering::Acquire) > outside_state::CLAIMED && self.identity() == identity
    }
}

impl OutsideFiles {
    /// How often a state has changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub fn doorbell(&self) -> &AtomicU32 {
        &self.doorbell
    }

    /// All places.
    pub fn all(&self) -> &[OutsideFile] {
        &self.files
    }

    fn places(&self, identity: [u64; 2]) -> impl Iterator<Item = &OutsideFile> {
        let first = usize::from(spread_marks(identity)[0]);
        (0..PROBES).map(move |step| &self.files[(first + step) % OUTSIDE_FILES_MAX])
    }

    /// The file, if it is known.
    pub fn find(&self, identity: [u64; 2]) -> Option<&OutsideFile> {
        if self.changes() == 0 {
            return None;
        }
        self.places(identity).find(|file| file.is(identity))
    }

    /// Its state.
    pub fn state_of(&self, identity: [u64; 2]) -> u32 {
        self.find(identity).map_or(outside_state::FREE, |file| file.state.load(Ordering::Acquire))
    }

    /// Sees to it that it has at least this state. `None`: there is no room.
    pub fn raise(&self, identity: [u64; 2], state: u32, pid: i32) -> Option<&OutsideFile> {
        let known = self.find(identity);
        let file = match known {
            Some(file) => file,
            None => self.claim(identity, pid)?,
        };
        if state == outside_state::STORED {
            // Before the state: who answers looks at it when the state is another one.
            file.is_stored.store(1, Ordering::Release);
        }
        if state == outside_state::OUTSIDE {
            file.is_suspect.store(0, Ordering::Release);
        }
        self.raise_state(file, state);
        Some(file)
    }

    fn raise_state(&self, file: &OutsideFile, state: u32) {
        let before = file.state.fetch_max(state, Ordering::AcqRel);
        if before < state {
            self.note_change(state == outside_state::ASKED);
        }
    }

    fn claim(&self, identity: [u64; 2], pid: i32) -> Option<&OutsideFile> {
        let claims = |file: &&OutsideFile| {
            let (free, claimed) = (outside_state::FREE, outside_state::CLAIMED);
            file.state.compare_exchange(free, claimed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let file = self.places(identity).find(claims)?;
        file.device.store(identity[0], Ordering::Relaxed);
        file.inode.store(identity[1], Ordering::Relaxed);
        file.pid.store(pid, Ordering::Relaxed);
        Some(file)
    }

    /// The supervisor knows.
    pub fn answer(&self, file: &OutsideFile, state: u32) {
        let asked = outside_state::ASKED;
        if file.state.compare_exchange(asked, state, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.note_change(false);
            if file.is_stored.load(Ordering::Acquire) != 0 {
                self.raise_state(file, outside_state::STORED);
            }
        }
    }

    /// A recorded process has opened the file.
    pub fn note_open(&self, identity: [u64; 2]) {
        if let Some(file) = self.find(identity) {
            file.opens.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often recorded processes have opened it.
    pub fn opens_of(&self, identity: [u64; 2]) -> u32 {
        self.find(identity).map_or(0, |file| file.opens.load(Ordering::Acquire))
    }

    /// A file to which only recorded processes could write was opened by somebody; `unknown_at`: when recorded
    /// processes had opened it so often, and it was none of those.
    pub fn ask_again(&self, identity: [u64; 2], unknown_at: Option<u32>) {
        if let Some(file) = self.find(identity) {
            if let Some(opens) = unknown_at {
                file.opened_at.store(opens.wrapping_add(1), Ordering::Release);
            }
            self.raise_state(file, outside_state::ASKED);
        }
    }

    fn note_change(&self, asks: bool) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if asks {
            self.doorbell.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A recorded process made the file.
    pub fn note_made(&self, identity: [u64; 2]) {
        for mark in spread_marks(identity) {
            set(&self.made, mark);
        }
    }

    /// True if one did, or made several that have its marks.
    pub fn is_made(&self, identity: [u64; 2]) -> bool {
        spread_marks(identity).iter().all(|&mark| is_set(&self.made, mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: [u64; 2] = [7, 11];

    fn file() -> OutsideFile {
        OutsideFile {
            state: AtomicU32::new(outside_state::FREE),
            pid: AtomicI32::new(0),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            untimely: AtomicU32::new(0),
            is_foreign: AtomicU32::new(0),
            is_stored: AtomicU32::new(0),
            is_opened: AtomicU32::new(0),
            opens: AtomicU32::new(0),
            opened_at: AtomicU32::new(0),
            is_suspect: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn files() -> OutsideFiles {
        OutsideFiles {
            changes: AtomicU64::new(0),
            doorbell: AtomicU32::new(0),
            files: core::array::from_fn(|_| file()),
            made: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    #[test]
    fn an_answer_does_not_take_back_that_somebody_stores() {
        let files = files();
        let asked = files.raise(FILE, outside_state::ASKED, 1).expect("there is room");
        files.raise(FILE, outside_state::STORED, 1);
        assert_eq!(files.state_of(FILE), outside_state::ASKED);
        files.answer(asked, outside_state::INSIDE);
        assert_eq!(files.state_of(FILE), outside_state::STORED);
        files.ask_again(FILE, None);
        assert_eq!(files.state_of(FILE), outside_state::ASKED);
        files.answer(asked, outside_state::OUTSIDE);
        files.raise(FILE, outside_state::STORED, 1);
        assert_eq!(files.state_of(FILE), outside_state::OUTSIDE);
    }

    #[test]
    fn who_opens_a_file_is_unknown_until_a_recorded_process_says_so() {
        let files = files();
        let file = files.raise(FILE, outside_state::INSIDE, 1).expect("there is room");
        files.note_open(FILE);
        files.ask_again(FILE, None);
        assert!(!file.is_opened_by_unknown());
        files.ask_again(FILE, Some(files.opens_of(FILE)));
        assert!(file.is_opened_by_unknown());
        files.note_open(FILE);
        assert!(!file.is_opened_by_unknown());
    }
}
