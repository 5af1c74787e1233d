//! The memory of a process of the lab, while it waits for an answer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// What the engine reads of a process at a time, at most.
const BYTES_MAX: usize = 64 << 20;

/// A process's memory.
#[derive(Debug)]
pub struct Memory {
    file: File,
}

impl Memory {
    /// That of the image that the process has now.
    pub fn open(pid: i32) -> io::Result<Memory> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Memory { file })
    }

    /// Bytes at an address. `None`: they are not there.
    pub fn read(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        if bytes > BYTES_MAX {
            return None;
        }
        let mut buffer = vec![0; bytes];
        self.file.read_exact_at(&mut buffer, address).ok()?;
        Some(buffer)
    }

    /// Words at an address.
    pub fn words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let bytes = self.read(address, 8 * N)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(words)
    }

    /// A number of 32 bits.
    pub fn half_word(&self, address: u64) -> Option<u32> {
        let bytes = self.read(address, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Writes; false where that is not possible.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.file.write_all_at(bytes, address).is_ok()
    }

    /// The parts of a `struct iovec` array.
    pub fn parts(&self, address: u64, count: u64) -> Option<Vec<(u64, usize)>> {
        const PARTS_MAX: u64 = 1024;
        (0..count.min(PARTS_MAX))
            .map(|index| {
                let [base, bytes] = self.words::<2>(address + 16 * index)?;
                Some((base, usize::try_from(bytes).ok()?))
            })
            .collect()
    }

    /// What parts hold, one behind the other.
    pub fn gather(&self, parts: &[(u64, usize)]) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for &(address, bytes) in parts {
            all.extend(self.read(address, bytes)?);
        }
        Some(all)
    }

    /// Fills parts; gives how many bytes there was room for.
    pub fn scatter(&self, parts: &[(u64, usize)], bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        for &(address, room) in parts {
            let (now, later) = rest.split_at(rest.len().min(room));
            if !now.is_empty() && !self.write(address, now) {
                return None;
            }
            rest = later;
        }
        Some(bytes.len() - rest.len())
    }
}
