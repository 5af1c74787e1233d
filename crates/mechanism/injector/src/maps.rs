//! /proc/PID/maps.

use std::fs::File;
use std::io::{self, Read};

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
    /// True if a file backs the mapping.
    pub fn has_file(&self) -> bool {
        self.inode != 0
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
    let (start, end) = split_hex(range, b'-')?;
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
    }

    #[test]
    fn own_maps_can_be_read() {
        let maps = read_maps(std::process::id() as i32).expect("of this very process");
        assert!(maps.iter().any(|map| map.name == b"[stack]"));
    }
}
