//! The one file of the program's machine that a client can read: `/proc/PID/maps`, which
//! `info proc mappings` and `generate-core-file` want.
//!
//! Deliberately absent: all other files. The client finds them where it runs.

use std::fmt::Write;

use crate::lldb::regions;
use crate::packet::{hex, number, unhex};
use crate::server::Server;

/// The descriptor of it, the only one.
const DESCRIPTOR: u64 = 3;
const ENOENT: &str = "F-1,2";
const EBADF: &str = "F-1,9";
const EINVAL: &str = "F-1,16";
/// Most bytes of one answer; a packet has room for their escapes too.
const READ_BYTES_MAX: usize = 0xf000;

impl Server<'_> {
    /// `vFile:OPERATION:ARGUMENTS`
    pub(crate) fn file(&mut self, packet: &str) -> Vec<u8> {
        let (operation, arguments) = packet.split_once(':').unwrap_or((packet, ""));
        let mut arguments = arguments.split(',');
        let first = arguments.next().unwrap_or_default();
        match operation {
            "setfs" => b"F0".to_vec(),
            "open" => {
                let wanted = format!("/proc/{}/maps", self.process_id());
                if unhex(first).as_deref() != Some(wanted.as_bytes()) {
                    return ENOENT.into();
                }
                self.mappings = Some(self.mappings_text().into_bytes());
                format!("F{DESCRIPTOR:x}").into_bytes()
            }
            "close" => {
                if number(first) == Some(DESCRIPTOR) && self.mappings.take().is_some() {
                    b"F0".to_vec()
                } else {
                    EBADF.into()
                }
            }
            "pread" => {
                let mut range = arguments.filter_map(number);
                let (Some(length), Some(offset)) = (range.next(), range.next()) else { return EINVAL.into() };
                let content = self.mappings.as_ref().filter(|_| number(first) == Some(DESCRIPTOR));
                content.map_or(EBADF.into(), |content| part_of(content, offset, length))
            }
            _ => Vec::new(),
        }
    }

    /// What is mapped, without what is the runtime's.
    fn mappings_text(&self) -> String {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.timeline.pid())).unwrap_or_default();
        let mut text = String::new();
        let trace = self.timeline.trace();
        for region in regions(&maps).filter(|region| !timeline::is_of_runtime(region.start)) {
            // A kept file is mapped under another name.
            let last = region.name.rsplit('/').next().unwrap_or_default();
            let kept = trace
                .as_ref()
                .and_then(|trace| trace.files().iter().find(|kept| hex(&kept.file.hash) == last));
            let name = kept.map(|kept| String::from_utf8_lossy(&kept.file.path).into_owned());
            let (start, end, rights, rest) = (region.start, region.end, region.rights, region.place);
            let name = name.unwrap_or_else(|| region.name.to_owned());
            let _ = writeln!(text, "{start:08x}-{end:08x} {rights} {rest} {name}");
        }
        text
    }
}

/// The answer that has a part of the content.
fn part_of(content: &[u8], offset: u64, length: u64) -> Vec<u8> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    let most = usize::try_from(length).unwrap_or(usize::MAX).min(READ_BYTES_MAX);
    let part = &content[start..start.saturating_add(most).min(content.len())];
    let mut answer = format!("F{:x};", part.len()).into_bytes();
    answer.extend_from_slice(part);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut() {
        assert_eq!(part_of(b"abc#de", 1, 3), b"F3;bc#");
        assert_eq!(part_of(b"abc", 2, 9), b"F1;c");
        assert_eq!(part_of(b"abc", 9, 9), b"F0;");
        assert_eq!(part_of(b"abc", u64::MAX, u64::MAX), b"F0;");
    }
}
