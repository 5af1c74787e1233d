//! Finds processes outside of the recording that can write to memory which recorded
//! processes share through a file: what they write no log knows.
//!
//! Deliberately absent: writes by write(2), and memory that a stranger maps and
//! unmaps between two looks.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use injector::SessionMemory;
use lane_protocol::REGION_START;

/// How often processes are looked at, while there is such memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who was told of already.
pub(crate) struct Strangers {
    looked: Option<Instant>,
    told: HashSet<(i32, u64)>,
}

impl Strangers {
    pub fn new() -> Strangers {
        Strangers { looked: None, told: HashSet::new() }
    }

    /// What is to be told.
    pub fn look(&mut self, memory: &SessionMemory) -> Vec<String> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Vec::new();
        }
        let files = memory.shared_files();
        if files.is_empty() {
            return Vec::new();
        }
        self.looked = Some(Instant::now());
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut recorded = Vec::new();
        let mut found = Vec::new();
        for pid in pids {
            let Some(maps) = maps_of(pid) else { continue };
            if maps.lines().any(|line| line.starts_with(&format!("{REGION_START:x}-"))) {
                recorded.push(pid);
                continue;
            }
            for (inode, path) in maps.lines().filter_map(|line| writable_file(line, &files)) {
                found.push((pid, inode, path.to_owned()));
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        // A file that is gone leaves its number to another: the recorded ones have it still.
        let maps: Vec<String> = recorded.into_iter().filter_map(maps_of).collect();
        let in_use: HashSet<u64> = maps
            .iter()
            .flat_map(|maps| maps.lines())
            .filter_map(|line| shared_file(line, &files))
            .map(|(inode, _)| inode)
            .collect();
        let mut texts = Vec::new();
        for (pid, inode, path) in found {
            if in_use.contains(&inode) && self.told.insert((pid, inode)) {
                texts.push(format!(
                    "process {pid}, which is not recorded, can write to {path}, which recorded processes share: what it writes there is not in the recording"
                ));
            }
        }
        texts
    }
}

fn maps_of(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()
}

/// Inode and path of a mapping that is shared and writable and of one of the files.
fn writable_file<'line>(line: &'line str, files: &[(u64, u64)]) -> Option<(u64, &'line str)> {
    let rights = line.split_ascii_whitespace().nth(1)?;
    if rights.contains('w') { shared_file(line, files) } else { None }
}

/// Inode and path of a mapping that is shared and of one of the files, given as device and
/// inode (proc_pid_maps(5)).
fn shared_file<'line>(line: &'line str, files: &[(u64, u64)]) -> Option<(u64, &'line str)> {
    let mut fields = line.split_ascii_whitespace();
    let (_, rights, _, device, inode) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    if !rights.ends_with('s') {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    let (major, minor) = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let key = (libc::makedev(major, minor), inode.parse().ok()?);
    files.contains(&key).then(|| (key.1, fields.next().unwrap_or("a file without a name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_and_writable_mappings_of_the_files_count() {
        let files = [(libc::makedev(0xfd, 1), 77)];
        let line = |rights: &str, inode: u64| format!("7f00-7f01 {rights} 00000000 fd:01 {inode}   /tmp/x");
        assert_eq!(writable_file(&line("rw-s", 77), &files), Some((77, "/tmp/x")));
        assert_eq!(writable_file(&line("rw-p", 77), &files), None);
        assert_eq!(writable_file(&line("r--s", 77), &files), None);
        assert_eq!(writable_file(&line("rw-s", 78), &files), None);
        assert_eq!(writable_file("nonsense", &files), None);
    }
}
