//! Hashes of what nodes have in memory, by which two runs are compared.
//!
//! Deliberately absent: code that is made while a program runs, and the runtime's own memory, in which numbers of the
//! machine are.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;

use lane_protocol::{REGION_BYTES, REGION_START};

const PAGE_BYTES: u64 = 4096;
/// Pages that are looked at together.
const PAGES_AT_ONCE: u64 = 256;

/// A hash for each node.
#[derive(Debug, Default)]
pub struct MemorySums {
    nodes: Vec<blake3::Hasher>,
}

impl MemorySums {
    /// For so many nodes.
    pub fn new(nodes: usize) -> MemorySums {
        MemorySums { nodes: vec![blake3::Hasher::new(); nodes] }
    }

    /// Nobody asked for them.
    pub fn are_off(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds what is in the memory of a node's process, which has this number in the node.
    pub fn add(&mut self, node: usize, number: i32, pid: i32) -> io::Result<()> {
        let Some(hash) = self.nodes.get_mut(node) else { return Ok(()) };
        hash.update(&number.to_le_bytes());
        add(hash, pid)
    }

    /// In hex.
    pub fn texts(&self) -> Vec<String> {
        self.nodes.iter().map(|hash| hash.finalize().to_hex().to_string()).collect()
    }
}

/// Where a process has memory that it writes to: from, to.
fn written_ranges(pid: i32) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(format!("/proc/{pid}/maps"))?).lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((Some(from), Some(to))) = range.split_once('-').map(|(a, b)| (number(a), number(b))) else {
            continue;
        };
        let is_ours = from < REGION_START + REGION_BYTES && to > REGION_START;
        if rights.starts_with("rw-") && !is_ours {
            found.push((from, to));
        }
    }
    Ok(found)
}

/// Adds pages that are not empty, each with its address.
fn add(hash: &mut blake3::Hasher, pid: i32) -> io::Result<()> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let pages = File::open(format!("/proc/{pid}/pagemap"))?;
    for (from, to) in written_ranges(pid)? {
        let mut at = from;
        while at < to {
            let count = ((to - at) / PAGE_BYTES).min(PAGES_AT_ONCE);
            let mut entries = vec![0; 8 * count as usize];
            pages.read_exact_at(&mut entries, at / PAGE_BYTES * 8)?;
            // In memory, or swapped out: see pagemap in proc(5).
            let is_there = |entry: &[u8; 8]| u64::from_le_bytes(*entry) >> 62 != 0;
            for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
                let address = at + page as u64 * PAGE_BYTES;
                let mut bytes = [0; PAGE_BYTES as usize];
                if is_there(entry) && memory.read_exact_at(&mut bytes, address).is_ok() && bytes != [0; 4096]
                {
                    hash.update(&address.to_le_bytes());
                    hash.update(&bytes);
                }
            }
            at += count * PAGE_BYTES;
        }
    }
    Ok(())
}
