//! Where each process's log stood at which time of the lab: by this a debugger finds the place.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The name of the file in a run's folder.
pub const PLACES: &str = "places";
const RECORD_BYTES: usize = 32;

/// At the end of an instant in which a process ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub at_ns: u64,
    pub node: u64,
    /// The process's lane in the trace.
    pub lane: u64,
    /// Bytes of the lane's log.
    pub bytes: u64,
}

/// Writes them.
pub struct Places {
    file: BufWriter<File>,
    /// Processes that ran since the clock moved last.
    ran: BTreeSet<i32>,
}

impl Places {
    pub fn new(file: File) -> Places {
        Places { file: BufWriter::new(file), ran: BTreeSet::new() }
    }

    pub fn note(&mut self, pid: i32) {
        self.ran.insert(pid);
    }

    pub fn take_ran(&mut self) -> BTreeSet<i32> {
        std::mem::take(&mut self.ran)
    }

    /// A process's log stands there.
    pub fn keep(&mut self, place: Place) {
        for word in [place.at_ns, place.node, place.lane, place.bytes] {
            // A run whose places are not there can be looked at by `retrovane replay`.
            let _ = self.file.write_all(&word.to_le_bytes());
        }
    }

    pub fn flush(&mut self) {
        // As above.
        let _ = self.file.flush();
    }
}

/// What is kept of a run.
///
/// # Errors
/// The file cannot be read.
pub fn read_places(dir: &Path) -> std::io::Result<Vec<Place>> {
    let bytes = std::fs::read(dir.join(PLACES))?;
    let records = bytes.as_chunks::<RECORD_BYTES>().0;
    Ok(records
        .iter()
        .map(|record| {
            let words = record.as_chunks::<8>().0;
            let [at_ns, node, lane, bytes] = [0, 1, 2, 3].map(|word| u64::from_le_bytes(words[word]));
            Place { at_ns, node, lane, bytes }
        })
        .collect())
}
