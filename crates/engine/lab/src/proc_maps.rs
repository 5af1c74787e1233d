//! Files of /proc that name devices, inodes and mounts, as a node sees them: the devices of what its layers lie on, its
//! own numbers of files, mounts numbered from one. The kernel's are counters of the whole machine.

use std::fmt::Write as _;

use crate::engine::Engine;
use crate::sizes::sizes_of_line;

/// The device of memory that processes share, and of memfd_create(2), by the kernel's count: its inodes are numbered for the
/// whole machine. As makedev(3) has 0:1.
const SHARED_MEMORY: u64 = 1;

/// Which file a mapping is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileNumbers {
    pub device: u64,
    pub inode: u64,
}

/// The first line of a mapping, as in proc_pid_maps(5), with other numbers of the file.
pub fn with_numbers(line: &str, told: &mut impl FnMut(FileNumbers) -> FileNumbers) -> String {
    // Range, rights, offset, device, inode; the rest is a name behind blanks.
    let mut fields: Vec<&str> = line.splitn(5, ' ').collect();
    let Some(last) = fields.pop().filter(|_| fields.len() == 4) else { return line.to_owned() };
    let (inode, name) = last.split_once(' ').unwrap_or((last, ""));
    let device = fields[3].split_once(':').and_then(|(major, minor)| {
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some(rustix::fs::makedev(number(major)?, number(minor)?))
    });
    let (Some(device), Ok(inode)) = (device, inode.parse::<u64>()) else { return line.to_owned() };
    if inode == 0 {
        return line.to_owned();
    }
    let seen = told(FileNumbers { device, inode });
    let (major, minor) = (rustix::fs::major(seen.device), rustix::fs::minor(seen.device));
    let numbers =
        format!("{} {} {} {major:02x}:{minor:02x} {} ", fields[0], fields[1], fields[2], seen.inode);
    // Names stand in the kernel's column.
    const NAME_COLUMN: usize = 73;
    match name.trim_start_matches(' ') {
        "" => numbers,
        name => format!("{numbers:NAME_COLUMN$}{name}"),
    }
}

/// proc_pid_maps(5), of what is the program's.
pub fn maps(text: &str, told: &mut impl FnMut(FileNumbers) -> FileNumbers) -> String {
    let own = text.lines().filter(|line| sizes_of_line(line).is_some());
    own.map(|line| with_numbers(line, told) + "\n").collect()
}

/// proc_pid_mountinfo(5): `below` gives the device that a node is told.
pub fn mounts(text: &str, below: impl Fn(u64) -> u64) -> String {
    let ids: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let number = |id: &str| ids.iter().position(|known| *known == id).map_or(0, |place| place + 1);
    let mut told = String::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        let [id, parent, device, rest] = fields[..] else { continue };
        let device = device.split_once(':').and_then(|(major, minor)| {
            Some(below(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
        });
        let Some(device) = device else { continue };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Writing to a string does not fail.
        let _ = writeln!(told, "{} {} {major}:{minor} {rest}", number(id), number(parent));
    }
    told
}

impl Engine {
    /// What a process of a node is told of a file that is mapped.
    fn told_file(&mut self, node: Option<usize>, file: FileNumbers) -> FileNumbers {
        let device = self.memory.lab().below_layer(file.device);
        let inode = match device {
            SHARED_MEMORY => self.files.number(node, device, file.inode),
            _ => self.files.known(node, device, file.inode).unwrap_or(file.inode),
        };
        FileNumbers { device, inode }
    }

    /// `maps`, `smaps` and `mountinfo` of a process of a node, by what the kernel says there.
    pub fn named_files(&mut self, node: Option<usize>, file: &str, text: &str) -> String {
        match file {
            "mountinfo" => mounts(text, |device| self.memory.lab().below_layer(device)),
            "maps" => maps(text, &mut |file| self.told_file(node, file)),
            _ => crate::proc_files::smaps(text, &mut |file| self.told_file(node, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use lane_protocol::REGION_START;

    use super::*;

    #[test]
    fn mapped_files_have_the_nodes_numbers() {
        let ours = format!("{REGION_START:x}-{:x} rw-p 0 00:01 7 x", REGION_START + 4096);
        let path = |file: &str| format!("{:73}/a b", format!("1000-2000 r--p 00000000 {file} "));
        let text = format!("{}\n{ours}\n2000-3000 rw-p 00000000 00:00 0 \n", path("00:40 77"));
        let told = maps(&text, &mut |file| {
            assert_eq!(file, FileNumbers { device: 0x40, inode: 77 });
            FileNumbers { device: rustix::fs::makedev(254, 0), inode: 8 }
        });
        let expected = format!("{}\n2000-3000 rw-p 00000000 00:00 0 \n", path("fe:00 8"));
        assert_eq!(told, expected);
    }

    #[test]
    fn mounts_are_numbered_from_one() {
        let text = "255 254 254:0 / / rw - ext4 /dev/vda rw\n270 255 0:160 / /tmp rw - overlay overlay rw\n";
        let told = mounts(text, |device| if device == 160 { rustix::fs::makedev(254, 0) } else { device });
        let expected = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 254:0 / /tmp rw - overlay overlay rw\n";
        assert_eq!(told, expected);
    }
}
