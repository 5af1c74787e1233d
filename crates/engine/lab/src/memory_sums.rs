//! Hashes of what nodes have in memory, by which two runs are compared.
//!
//! Deliberately absent: code that is made while a program runs, and the runtime's own memory, in which numbers of the
//! machine are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE_BYTES: u64 = 4096;
/// Pages that are looked at together.
const PAGES_AT_ONCE: u64 = 256;

/// The file in a run's folder that says what each page was: node, process, address, hash, and what is mapped there.
pub const MEMORY: &str = "memory";

/// A hash for each node.
#[derive(Debug, Default)]
pub struct MemorySums {
    nodes: Vec<blake3::Hasher>,
    pages: Option<BufWriter<File>>,
}

impl MemorySums {
    /// For so many nodes; pages are named in a file.
    pub fn new(nodes: usize, pages: File) -> MemorySums {
        MemorySums { nodes: vec![blake3::Hasher::new(); nodes], pages: Some(BufWriter::new(pages)) }
    }

    /// Nobody asked for them.
    pub fn are_off(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds what is in the memory of a node's process, which has this number in the node.
    pub fn add(&mut self, node: usize, number: i32, pid: i32) -> io::Result<()> {
        let Some(hash) = self.nodes.get_mut(node) else { return Ok(()) };
        hash.update(&number.to_le_bytes());
        let pages = &mut self.pages;
        each_page(pid, &mut |address, bytes, name| {
            hash.update(&address.to_le_bytes());
            hash.update(bytes);
            if let Some(pages) = pages {
                let sum = blake3::hash(bytes).to_hex();
                // Only who asks what was different misses it.
                let _ = writeln!(pages, "{node} {number} {address:x} {} {name}", &sum[..16]);
            }
        })
    }

    /// All is in the file.
    pub fn flush(&mut self) {
        if let Some(pages) = &mut self.pages {
            // As above.
            let _ = pages.flush();
        }
    }

    /// In hex.
    pub fn texts(&self) -> Vec<String> {
        self.nodes.iter().map(|hash| hash.finalize().to_hex().to_string()).collect()
    }
}

/// What pages of a node's processes differ between two runs, in words.
pub fn memory_difference(one: &Path, other: &Path, node: usize) -> Option<String> {
    let [one, other] = [one, other].map(|dir| pages_of(&dir.join(MEMORY), node));
    let differs =
        |key: &&(String, u64)| one.get(*key).map(|page| &page.0) != other.get(*key).map(|page| &page.0);
    let mut found: Vec<&(String, u64)> = one.keys().chain(other.keys()).filter(differs).collect();
    found.sort();
    found.dedup();
    let (process, address) = found.first()?;
    let (_, name) = one.get(*found.first()?).or_else(|| other.get(*found.first()?))?;
    let name = if name.is_empty() { "memory without a name" } else { name };
    let pages = if found.len() == 1 { "page" } else { "pages" };
    Some(format!("{} {pages}, the first at {address:x} of process {process}, {name}", found.len()))
}

type Pages = BTreeMap<(String, u64), (String, String)>;

/// By process and address: the hash, and the name.
fn pages_of(path: &Path, node: usize) -> Pages {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pages = text.lines().filter_map(|line| {
        let mut words = line.splitn(5, ' ');
        (words.next()? == node.to_string()).then_some(())?;
        let (process, address) = (words.next()?.to_owned(), u64::from_str_radix(words.next()?, 16).ok()?);
        Some(((process, address), (words.next()?.to_owned(), words.next()?.to_owned())))
    });
    pages.collect()
}

/// Calls `each` with pages that are not empty: the address, what is there, the name of what is mapped.
fn each_page(pid: i32, each: &mut dyn FnMut(u64, &[u8], &str)) -> io::Result<()> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let pages = File::open(format!("/proc/{pid}/pagemap"))?;
    let maps = injector::read_maps(pid)?;
    for mapping in
        maps.iter().filter(|mapping| mapping.rights().starts_with("rw-") && !mapping.is_of_runtime())
    {
        let name = String::from_utf8_lossy(&mapping.name);
        let mut at = mapping.start;
        while at < mapping.end {
            let count = ((mapping.end - at) / PAGE_BYTES).min(PAGES_AT_ONCE);
            let mut entries = vec![0; 8 * count as usize];
            pages.read_exact_at(&mut entries, at / PAGE_BYTES * 8)?;
            // In memory, or swapped out: see pagemap in proc(5).
            let is_there = |entry: &[u8; 8]| u64::from_le_bytes(*entry) >> 62 != 0;
            for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
                let address = at + page as u64 * PAGE_BYTES;
                let mut bytes = [0; PAGE_BYTES as usize];
                if is_there(entry) && memory.read_exact_at(&mut bytes, address).is_ok() && bytes != [0; 4096]
                {
                    each(address, &bytes, &name);
                }
            }
            at += count * PAGE_BYTES;
        }
    }
    Ok(())
}
