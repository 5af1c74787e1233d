//! Memory that a process which is to be boarded shares, or could share: what of it the log
//! begins with, and who else can write there.
//!
//! Deliberately absent: processes that may not be looked at, and those that hold such a file
//! open without mapping it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use lane_protocol::SharedMapping;

use crate::boarding::path_of;
use crate::error::Refusal;
use crate::maps::{Mapping, read_maps};
use crate::process_facts::Facts;

/// How the kernel names memory that is shared, and that no file holds (mmap(2), MAP_ANONYMOUS).
const WITHOUT_FILE: [&[u8]; 2] = [b"/dev/zero (deleted)", b"/anon_hugepage (deleted)"];

/// Device and inode, as lists of mappings name them.
type Identity = (u64, u64);

fn identity(map: &Mapping) -> Identity {
    (map.device, map.inode)
}

fn is_shared_and_written(map: &Mapping) -> bool {
    map.shared && map.protection & libc::PROT_WRITE as u32 != 0
}

/// What a process has mapped for writing, and shares.
pub(crate) struct SharedMemory {
    written: HashSet<Identity>,
}

impl SharedMemory {
    pub fn of(maps: &[Mapping]) -> SharedMemory {
        let written = maps.iter().filter(|map| is_shared_and_written(map)).map(identity).collect();
        SharedMemory { written }
    }

    /// True of the mapping if it shows such memory, in whatever way.
    pub fn is_shown_by(&self, map: &Mapping) -> bool {
        self.written.contains(&identity(map))
    }

    /// Why it cannot be recorded, if so. `stays`: rollbacks leave it as it is.
    pub fn look_at(&self, facts: &Facts, maps: &[Mapping], stays: bool) -> Result<(), Refusal> {
        for map in maps.iter().filter(|map| is_shared_and_written(map)) {
            if !is_memory(facts, map) {
                return Err(Refusal::DeviceMemory(text_of(map)));
            }
        }
        match self.others(facts.pid).first() {
            Some((pid, map)) if !stays => Err(Refusal::SharedMemory { name: text_of(map), pid: *pid }),
            _ => Ok(()),
        }
    }

    /// What the runtime has to know of it.
    pub fn table(&self, facts: &Facts, maps: &[Mapping]) -> Vec<SharedMapping> {
        let others: HashSet<Identity> = match self.written.is_empty() {
            true => HashSet::new(),
            false => self.others(facts.pid).iter().map(|(_, map)| identity(map)).collect(),
        };
        let shown = maps.iter().filter(|map| self.is_shown_by(map));
        shown
            .map(|map| {
                let bytes = map.end - map.start;
                let file_bytes = path_of(facts.pid, map, facts)
                    .and_then(|path| fs::metadata(path).ok())
                    .filter(fs::Metadata::is_file)
                    .map_or(u64::MAX, |found| found.len());
                let has_name = !WITHOUT_FILE.contains(&map.name.as_slice());
                SharedMapping {
                    start: map.start,
                    end: map.end,
                    there: file_bytes.saturating_sub(map.file_offset).min(bytes),
                    can_be_found: u64::from(has_name || others.contains(&identity(map))),
                }
            })
            .collect()
    }

    /// Other processes that can write there through mappings of theirs.
    fn others(&self, pid: i32) -> Vec<(i32, Mapping)> {
        if self.written.is_empty() {
            return Vec::new();
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|other| *other != pid)
            .filter_map(|other| {
                let maps = read_maps(other).ok()?;
                let found = maps.into_iter().find(|map| is_shared_and_written(map) && self.is_shown_by(map));
                found.map(|map| (other, map))
            })
            .collect()
    }
}

fn text_of(map: &Mapping) -> String {
    String::from_utf8_lossy(&map.name).into_owned()
}

/// True of memory and files; not of what a device or the kernel writes by itself.
fn is_memory(facts: &Facts, map: &Mapping) -> bool {
    if map.name.ends_with(b" (deleted)") {
        return true;
    }
    let is_path = map.name.first() == Some(&b'/');
    let is_device = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| found.file_type().is_char_device() || found.file_type().is_block_device())
    };
    is_path && !path_of(facts.pid, map, facts).is_some_and(|path| is_device(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rights: u32, shared: bool, inode: u64) -> Mapping {
        Mapping {
            start: 0x1000,
            end: 0x3000,
            protection: rights,
            shared,
            file_offset: 0,
            device: 7,
            inode,
            name: b"/dev/zero (deleted)".to_vec(),
        }
    }

    #[test]
    fn what_shows_shared_memory_is_found_also_where_it_is_only_read() {
        let (read, write) = (libc::PROT_READ as u32, libc::PROT_WRITE as u32);
        let maps = [
            map(read | write, true, 1),
            map(read, true, 1),
            map(read | write, false, 1),
            map(read, true, 2),
            map(read | write, false, 3),
        ];
        let shared = SharedMemory::of(&maps);
        let shown: Vec<bool> = maps.iter().map(|map| shared.is_shown_by(map)).collect();
        assert_eq!(shown, [true, true, true, false, false]);
        assert!(!SharedMemory::of(&maps[3..]).is_shown_by(&maps[3]));
    }
}
