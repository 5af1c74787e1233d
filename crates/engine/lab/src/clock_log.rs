//! What the machine's clock told a lab: by this a lab whose clock is not only virtual runs again as it ran.
//!
//! Between two questions to the engine one thread runs. What it reads of the clock meanwhile and when it asks is an
//! entry; so is each time to which the engine slept. When the lab runs again, all of that is given from the log,
//! and nobody sleeps.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::LabError;

/// The name of the file in a run's folder.
pub const CLOCK: &str = "clock";

const ASKED: u64 = 0;
const ENDED: u64 = 1;
const SLEPT: u64 = 2;

/// What was read of the clock, in the order in which it was.
pub struct ClockLog {
    file: BufWriter<File>,
    written: Numbers,
    again: Option<Again>,
}

/// The log that a lab runs by again.
struct Again {
    bytes: Vec<u8>,
    at: usize,
    numbers: Numbers,
}

/// Numbers that differ little from those before, in few bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    last: u64,
}

fn push(bytes: &mut Vec<u8>, mut word: u64) {
    while word >= 0x80 {
        bytes.push(word as u8 | 0x80);
        word >>= 7;
    }
    bytes.push(word as u8);
}

fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut word = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        word |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(word);
        }
    }
    None
}

impl Numbers {
    fn push(&mut self, bytes: &mut Vec<u8>, number: u64) {
        let difference = number.wrapping_sub(self.last) as i64;
        push(bytes, (difference << 1 ^ difference >> 63) as u64);
        self.last = number;
    }

    fn take(&mut self, bytes: &[u8], at: &mut usize) -> Option<u64> {
        let word = take(bytes, at)?;
        self.last = self.last.wrapping_add(word >> 1 ^ (word & 1).wrapping_neg());
        Some(self.last)
    }
}

impl Again {
    /// The next entry: its kind, what was read, and the time.
    fn next(&mut self) -> Option<(u64, Vec<u64>, u64)> {
        let head = take(&self.bytes, &mut self.at)?;
        let (kind, count) = (head & 3, head >> 2);
        let reads = (0..count).map(|_| self.numbers.take(&self.bytes, &mut self.at));
        let reads = reads.collect::<Option<Vec<_>>>()?;
        let now_ns = self.numbers.take(&self.bytes, &mut self.at)?;
        Some((kind, reads, now_ns))
    }

    /// What the thread that runs next reads.
    fn upcoming(&mut self) -> Vec<u64> {
        let before = (self.at, self.numbers);
        let mut found = Vec::new();
        while let Some((kind, reads, _)) = self.next() {
            if kind != SLEPT {
                found = reads;
                break;
            }
        }
        (self.at, self.numbers) = before;
        found
    }
}

/// What a lab did that runs again, and what it had done.
fn parted(at_ns: u64, known: Option<&(u64, Vec<u64>, u64)>, kind: u64, reads: usize) -> LabError {
    let name = |kind: u64| match kind {
        ASKED => "a thread asked",
        ENDED => "a process ended",
        _ => "all waited",
    };
    let had = known.map_or_else(
        || "the first run came only there".to_owned(),
        |(kind, reads, _)| {
            format!("{} after {} reads of the clock in the first run", name(*kind), reads.len())
        },
    );
    let what = format!("{} after {reads} reads of the clock; {had}", name(kind));
    LabError::Parted { at_ns, what }
}

/// The log of another run, as far as it has come.
pub fn reread(path: &Path) -> Result<Vec<u8>, LabError> {
    std::fs::read(path).map_err(|source| LabError::File { path: path.to_owned(), source })
}

impl ClockLog {
    /// Keeps it in a file; `again`: the log of the run that this one is to be the same as.
    pub fn new(file: File, again: Option<&Path>) -> Result<ClockLog, LabError> {
        let again = again.map(reread).transpose()?;
        let again = again.map(|bytes| Again { bytes, at: 0, numbers: Numbers::default() });
        Ok(ClockLog { file: BufWriter::new(file), written: Numbers::default(), again })
    }

    /// True while times come from an earlier run.
    pub fn is_again(&self) -> bool {
        self.again.is_some()
    }

    /// The other run has gone further since: its whole log.
    pub fn go_on_with(&mut self, bytes: Vec<u8>) {
        if let Some(again) = &mut self.again {
            again.bytes = bytes;
        }
    }

    /// From here on times are the machine's.
    pub fn go_live(&mut self) {
        self.again = None;
    }

    /// What the thread that runs next reads, where times come from an earlier run.
    pub fn upcoming(&mut self) -> Vec<u64> {
        self.again.as_mut().map_or_else(Vec::new, Again::upcoming)
    }

    /// A thread asks that has read these times; gives the time.
    pub fn ask(&mut self, reads: &[u64], machine: impl FnOnce() -> u64) -> Result<u64, LabError> {
        self.pass(ASKED, reads, machine)
    }

    /// A process ended that had read these times.
    pub fn end(&mut self, reads: &[u64], now_ns: u64) -> Result<(), LabError> {
        self.pass(ENDED, reads, || now_ns).map(|_| ())
    }

    /// The engine has slept; gives the time.
    pub fn sleep(&mut self, machine: impl FnOnce() -> u64) -> Result<u64, LabError> {
        self.pass(SLEPT, &[], machine)
    }

    fn pass(&mut self, kind: u64, reads: &[u64], machine: impl FnOnce() -> u64) -> Result<u64, LabError> {
        let now_ns = match &mut self.again {
            Some(again) => {
                let at_ns = again.numbers.last;
                let known = again.next();
                let is_same = |(known, known_reads, _): &&(u64, Vec<u64>, u64)| {
                    *known == kind && known_reads.len() == reads.len()
                };
                match known.as_ref().filter(is_same) {
                    Some(&(_, _, now_ns)) => now_ns,
                    None => return Err(parted(at_ns, known.as_ref(), kind, reads.len())),
                }
            }
            None => machine(),
        };
        let mut bytes = Vec::with_capacity(16);
        push(&mut bytes, kind | (reads.len() as u64) << 2);
        for &read in reads {
            self.written.push(&mut bytes, read);
        }
        self.written.push(&mut bytes, now_ns);
        // A run whose log cannot be written is not gone back to: who reads it sees that it ends too early.
        let _ = self.file.write_all(&bytes);
        if kind == SLEPT {
            self.flush();
        }
        Ok(now_ns)
    }

    /// What was read until now is in the file.
    pub fn flush(&mut self) {
        // As above.
        let _ = self.file.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_read_again() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let mut log = ClockLog::new(File::create(&one)?, None)?;
        assert_eq!(log.ask(&[5, 7], || 9)?, 9);
        assert_eq!(log.sleep(|| u64::MAX)?, u64::MAX);
        log.end(&[3], 1)?;
        log.flush();
        let mut again = ClockLog::new(File::create(&other)?, Some(&one))?;
        assert_eq!(again.upcoming(), [5, 7]);
        assert_eq!(again.ask(&[0, 0], || 1)?, 9);
        // What comes behind the sleep.
        assert_eq!(again.upcoming(), [3]);
        assert_eq!(again.sleep(|| 1)?, u64::MAX);
        again.end(&[0], 0)?;
        assert!(again.sleep(|| 1).is_err(), "the log is over");
        again.go_live();
        assert_eq!(again.sleep(|| 77)?, 77);
        Ok(())
    }

    #[test]
    fn another_way_is_noticed() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let mut log = ClockLog::new(File::create(&one)?, None)?;
        log.ask(&[5, 7], || 9)?;
        log.flush();
        for reads in [&[][..], &[5], &[5, 7, 8]] {
            let mut again = ClockLog::new(File::create(&other)?, Some(&one))?;
            assert!(again.ask(reads, || 1).is_err(), "{} reads were two", reads.len());
        }
        let mut again = ClockLog::new(File::create(&other)?, Some(&one))?;
        assert!(again.sleep(|| 1).is_err(), "it asked, and did not sleep");
        Ok(())
    }
}
