//! /proc/PID/maps.

use std::fs::File;
use std::io::{self, Read};

use lane_protocol::{REGION_BYTES, REGION_START};

/// One line of maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC bits.
    pub protection: u32,
    pub shared: bool,
    pub file_offset: u64,
    /// As `st_dev` has it.
    pub device: u64,
    /// 0 where no file is mapped.
    pub inode: u64,
    /// Path, or a name in brackets, or empty.
    pub name: Vec<u8>,
}

impl Mapping {
    /// The mapping that a line of maps, or a header of smaps, tells of.
    pub fn of_line(line: &[u8]) -> Option<Mapping> {
        parse_line(line)
    }

    /// True if a file backs the mapping.
    pub fn has_file(&self) -> bool {
        self.inode != 0
    }

    pub fn is_readable(&self) -> bool {
        self.protection & libc::PROT_READ as u32 != 0
    }

    pub fn is_writable(&self) -> bool {
        self.protection & libc::PROT_WRITE as u32 != 0
    }

    pub fn is_executable(&self) -> bool {
        self.protection & libc::PROT_EXEC as u32 != 0
    }

    /// As the list writes them, for example `rw-p`.
    pub fn rights(&self) -> String {
        let right = |has: bool, letter| if has { letter } else { '-' };
        let [read, write] = [right(self.is_readable(), 'r'), right(self.is_writable(), 'w')];
        let shared = if self.shared { 's' } else { 'p' };
        [read, write, right(self.is_executable(), 'x'), shared].iter().collect()
    }

    /// As a line of the list, with another name.
    pub fn line(&self, name: &str) -> String {
        let (major, minor) = (libc::major(self.device), libc::minor(self.device));
        format!(
            "{:08x}-{:08x} {} {:08x} {major:02x}:{minor:02x} {} {name}",
            self.start,
            self.end,
            self.rights(),
            self.file_offset,
            self.inode
        )
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// True for the runtime's, which is in each traced process.
    pub fn is_of_runtime(&self) -> bool {
        self.start < REGION_START + REGION_BYTES && self.end > REGION_START
    }
}

/// The mappings of a process, in the order of their addresses.
///
/// # Errors
/// What reading the file fails with.
pub fn read_maps(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = read_text(&format!("/proc/{pid}/maps"))?;
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_line(line)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a line of maps is malformed"))
        })
        .collect()
}

/// Reads a file of /proc with few calls: it does not tell its length beforehand.
fn read_text(path: &str) -> io::Result<Vec<u8>> {
    const STEP_BYTES: usize = 16 * 1024;
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    loop {
        let filled = text.len();
        text.resize(filled + STEP_BYTES, 0);
        let read = file.read(&mut text[filled..])?;
        text.truncate(filled + read);
        if read == 0 {
            return Ok(text);
        }
    }
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[start..].iter().position(|byte| *byte == b' ').map_or(rest.len(), |at| start + at);
        let word = &rest[start..end];
        rest = &rest[end..];
        Some(word)
    };
    let (range, rights, offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
    let name_start = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
    let name = unescape(&rest[name_start..]);
    let (start, end) = split_hex(range, b'-').filter(|(start, end)| start <= end)?;
    let (major, minor) = split_hex(device, b':')?;
    let protection = (u32::from(rights.first() == Some(&b'r')) * libc::PROT_READ as u32)
        | (u32::from(rights.get(1) == Some(&b'w')) * libc::PROT_WRITE as u32)
        | (u32::from(rights.get(2) == Some(&b'x')) * libc::PROT_EXEC as u32);
    Some(Mapping {
        start,
        end,
        protection,
        shared: rights.get(3) == Some(&b's'),
        file_offset: hex(offset)?,
        device: libc::makedev(major as u32, minor as u32),
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        name,
    })
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn split_hex(word: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|byte| *byte == separator)?;
    Some((hex(&word[..at])?, hex(&word[at + 1..])?))
}

/// A newline in a path is shown as `\012` (proc(5)).
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_names() {
        let line = b"7f00-8000 r-xp 00001000 fe:01 1234                       /a b\\012c";
        let map = parse_line(line).expect("well formed");
        assert_eq!((map.start, map.end, map.file_offset, map.inode), (0x7f00, 0x8000, 0x1000, 1234));
        assert_eq!(map.protection, (libc::PROT_READ | libc::PROT_EXEC) as u32);
        assert_eq!(map.device, libc::makedev(0xfe, 1));
        assert_eq!(map.name, b"/a b\nc");
        let anonymous = parse_line(b"1000-2000 rw-p 00000000 00:00 0 ").expect("well formed");
        assert!(!anonymous.has_file() && anonymous.name.is_empty());
        assert!(parse_line(b"nonsense").is_none());
        let line = "00001000-00002000 rw-s 00003000 fe:01 7 /a";
        assert_eq!(parse_line(line.as_bytes()).map(|map| map.line("/a")).as_deref(), Some(line));
    }

    #[test]
    fn what_reaches_into_the_region_is_the_runtimes() {
        let is_of_runtime = |start: u64, end: u64| {
            let line = format!("{start:x}-{end:x} rw-p 00000000 00:00 0 ");
            parse_line(line.as_bytes()).expect("well formed").is_of_runtime()
        };
        let region_end = REGION_START + REGION_BYTES;
        assert!(is_of_runtime(REGION_START, REGION_START + 4096) && is_of_runtime(0, region_end + 4096));
        assert!(!is_of_runtime(0, REGION_START) && !is_of_runtime(region_end, region_end + 4096));
    }

    #[test]
    fn own_maps_can_be_read() {
        let maps = read_maps(std::process::id() as i32).expect("of this very process");
        assert!(maps.iter().any(|map| map.name == b"[stack]"));
    }
}
