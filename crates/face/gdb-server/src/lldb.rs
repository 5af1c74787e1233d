//! What lldb asks, and gdb does not: which machine this is, and what is mapped.
//!
//! lldb takes the server for one of Linux only if it is told so; without that it looks for
//! no libraries. Deliberately absent: its packets in JSON, which say nothing else.

use crate::packet::{hex, number};
use crate::server::Server;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// A movement may take long; after so many seconds lldb gives the connection up.
const WAIT_MAX_SECONDS: u32 = 100_000;

/// A mapping, as a line of /proc/PID/maps says it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Region<'a> {
    pub start: u64,
    pub end: u64,
    pub rights: &'a str,
    /// Offset, device and inode.
    pub place: &'a str,
    pub name: &'a str,
}

impl Server<'_> {
    /// `qHostInfo`
    pub(crate) fn host_info(&self) -> Vec<u8> {
        let triple = hex(TRIPLE.as_bytes());
        let patience = format!("default_packet_timeout:{WAIT_MAX_SECONDS};");
        format!("triple:{triple};ostype:linux;endian:little;ptrsize:8;{patience}").into_bytes()
    }

    /// `qProcessInfo`
    pub(crate) fn process_info(&self) -> Vec<u8> {
        let triple = hex(TRIPLE.as_bytes());
        let pid = self.process_id();
        format!("pid:{pid:x};triple:{triple};ostype:linux;endian:little;ptrsize:8;").into_bytes()
    }

    /// `qMemoryRegionInfo:ADDRESS`
    pub(crate) fn memory_region(&self, packet: &str) -> Vec<u8> {
        let Some(address) = packet.strip_prefix("qMemoryRegionInfo:").and_then(number) else {
            return b"E01".to_vec();
        };
        match std::fs::read_to_string(format!("/proc/{}/maps", self.timeline.pid())) {
            Ok(maps) => region_text(address, &maps, &timeline::is_of_runtime).into_bytes(),
            Err(_) => b"E02".to_vec(),
        }
    }
}

pub(crate) fn regions(maps: &str) -> impl Iterator<Item = Region<'_>> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (rights, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let cut = rest.match_indices(' ').nth(2).map_or(rest.len(), |(at, _)| at);
        let (place, name) = rest.split_at(cut);
        let (start, end, name) = (number(start)?, number(end)?, name.trim_start());
        (start <= end).then_some(Region { start, end, rights, place, name })
    })
}

/// The region that has the address, or the gap up to the next one.
fn region_text(address: u64, maps: &str, is_hidden: &dyn Fn(u64) -> bool) -> String {
    let mut next = 0u64;
    for region in regions(maps).filter(|region| !is_hidden(region.start)) {
        if (region.start..region.end).contains(&address) {
            let rights: String = region.rights.chars().filter(|right| "rwx".contains(*right)).collect();
            let (start, bytes) = (region.start, region.end - region.start);
            let name = hex(region.name.as_bytes());
            return format!("start:{start:x};size:{bytes:x};permissions:{rights};name:{name};");
        }
        if region.start > address {
            next = region.start;
            break;
        }
    }
    // Behind the last one it reaches to the end of memory.
    format!("start:{address:x};size:{:x};", next.wrapping_sub(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 r-xp 00000000 08:01 77       /bin/a b\n\
                        5000-6000 rw-p 00000000 00:00 0\n\
                        f000-fffe ---p 00000000 00:00 0 \n";

    #[test]
    fn a_region_is_told_with_its_rights() {
        let told = |address| region_text(address, MAPS, &|_| false);
        assert_eq!(told(0x1fff), "start:1000;size:2000;permissions:rx;name:2f62696e2f612062;");
        assert_eq!(told(0x5000), "start:5000;size:1000;permissions:rw;name:;");
        assert_eq!(told(0xf000), "start:f000;size:ffe;permissions:;name:;");
    }

    #[test]
    fn a_gap_reaches_to_the_next_region() {
        assert_eq!(region_text(0x3000, MAPS, &|_| false), "start:3000;size:2000;");
        assert_eq!(region_text(0x3000, MAPS, &|start| start == 0x5000), "start:3000;size:c000;");
        assert_eq!(region_text(0xfffe, MAPS, &|_| false), "start:fffe;size:ffffffffffff0002;");
    }

    proptest::proptest! {
        #[test]
        fn any_text_of_mappings_is_read(maps in "([0-9a-f]{1,18}-[0-9a-f]{1,18} [rwxp-]{0,4} .{0,30}\n){0,5}", at: u64) {
            let _ = region_text(at, &maps, &|_| false);
        }
    }
}
