//! What a client can read of the program's machine: of `/proc/PID` the mappings, the arguments and the
//! program's file, which `info proc` and `generate-core-file` want, and the list of processes.
//!
//! Deliberately absent: all other files. The client finds them where it runs.

use timeline::Mapping;
use trace_store::LaneEnd;

use crate::names::escaped;
use crate::packet::{number, unhex};
use crate::server::Server;

/// The descriptor of the file that is open, the only one.
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
                let content = match self.own_file(first).as_deref() {
                    Some("maps") => self.mappings_text().into_bytes(),
                    Some("cmdline") => self.command_line(),
                    _ => return ENOENT.into(),
                };
                self.opened = Some(content);
                format!("F{DESCRIPTOR:x}").into_bytes()
            }
            "readlink" => {
                let target = match self.own_file(first).as_deref() {
                    Some("exe") => self.executable(),
                    Some("cwd") => self.working_directory(),
                    _ => return ENOENT.into(),
                };
                let mut answer = format!("F{:x};", target.len()).into_bytes();
                answer.extend_from_slice(target.as_bytes());
                answer
            }
            "close" => {
                if number(first) == Some(DESCRIPTOR) && self.opened.take().is_some() {
                    b"F0".to_vec()
                } else {
                    EBADF.into()
                }
            }
            "pread" => {
                let mut range = arguments.filter_map(number);
                let (Some(length), Some(offset)) = (range.next(), range.next()) else { return EINVAL.into() };
                let content = self.opened.as_ref().filter(|_| number(first) == Some(DESCRIPTOR));
                content.map_or(EBADF.into(), |content| part_of(content, offset, length))
            }
            _ => Vec::new(),
        }
    }

    /// The name of a file in the program's own folder of /proc, or in that of its first thread, from
    /// its path in hexadecimal.
    fn own_file(&self, path: &str) -> Option<String> {
        let path = String::from_utf8(unhex(path)?).ok()?;
        let process = self.process_id();
        let name = path.strip_prefix(&format!("/proc/{process}/"))?;
        Some(name.strip_prefix(&format!("task/{process}/")).unwrap_or(name).to_owned())
    }

    /// The arguments as the kernel put them on the stack, each with its end.
    fn command_line(&self) -> Vec<u8> {
        const ARGUMENTS_MAX: u64 = 4096;
        const BYTES_MAX: u64 = 0x1_0000;
        let first = self.timeline.stop().first_stack;
        let count = self.word(first).unwrap_or(0).min(ARGUMENTS_MAX);
        let argument = |number: u64| self.word(first + 8 * (number + 1)).unwrap_or(0);
        // They lie one behind the other, and the environment behind the last one.
        let (start, end) = (argument(0), argument(count + 1));
        let mut bytes = vec![0; end.saturating_sub(start).min(BYTES_MAX) as usize];
        let read = self.timeline.read(start, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    /// That of a live program at its present; where one was in the past is not followed.
    fn working_directory(&self) -> String {
        let live = self.timeline.debuggee().map(|debuggee| format!("/proc/{}/cwd", debuggee.pid()));
        let known = live.and_then(|link| std::fs::read_link(link).ok());
        known.map_or("(not recorded)".to_owned(), |path| path.to_string_lossy().into_owned())
    }

    /// What `info os` lists: the processes of the recording. All else is not recorded.
    pub(crate) fn machine_list(&self, kind: &str) -> String {
        let item = |columns: &[(&str, String)]| {
            let column = |(name, value): &(&str, String)| {
                format!("<column name=\"{}\">{}</column>", escaped(name), escaped(value))
            };
            format!("<item>{}</item>\n", columns.iter().map(column).collect::<String>())
        };
        let items = match kind {
            "" => item(&[
                ("Type", "processes".to_owned()),
                ("Description", "Listing of all processes of the recording".to_owned()),
                ("Title", "Processes".to_owned()),
            ]),
            "processes" => {
                let trace = self.timeline.trace();
                let lanes = trace.as_ref().map(|trace| trace.lanes()).unwrap_or_default();
                let end = |lane: &trace_store::LaneInfo| match lane.end {
                    Some(LaneEnd::Exited(code)) => format!("exited with {code}"),
                    Some(LaneEnd::Killed(signal)) => format!("killed by signal {signal}"),
                    Some(LaneEnd::Stopped(_) | LaneEnd::Unknown) | None => "not known".to_owned(),
                };
                let one = |lane: &trace_store::LaneInfo| {
                    item(&[
                        ("pid", lane.pid.to_string()),
                        ("events", lane.events.to_string()),
                        ("end", end(lane)),
                    ])
                };
                lanes.iter().map(one).collect()
            }
            _ => item(&[(kind, "not recorded".to_owned())]),
        };
        let title = if kind.is_empty() { "types" } else { kind };
        format!("<?xml version=\"1.0\"?>\n<osdata type=\"{}\">\n{items}</osdata>\n", escaped(title))
    }

    /// True for the vDSO that the program sees: a page of code without a name or a file, that is an
    /// ELF object.
    fn is_vdso(&self, mapping: &Mapping) -> bool {
        const BYTES: u64 = 4096;
        let mut magic = [0; 4];
        mapping.name.is_empty()
            && mapping.rights().starts_with("r-x")
            && mapping.end - mapping.start == BYTES
            && self.timeline.read(mapping.start, &mut magic) == magic.len()
            && magic == *b"\x7fELF"
    }

    /// What is mapped, without what is the runtime's.
    fn mappings_text(&self) -> String {
        let maps = self.timeline.mappings().unwrap_or_default();
        let mut text = String::new();
        for mapping in &maps {
            let name = self.kept_path(mapping).unwrap_or_else(|| match self.is_vdso(mapping) {
                true => "[vdso]".to_owned(),
                false => String::from_utf8_lossy(&mapping.name).into_owned(),
            });
            text += &mapping.line(&name);
            text.push('\n');
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
