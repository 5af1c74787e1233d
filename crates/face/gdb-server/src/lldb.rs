//! What lldb asks, and gdb does not: which machine this is, and what is mapped.
//!
//! lldb takes the server for one of Linux only if it is told so; without that it looks for
//! no libraries. Deliberately absent: its packets in JSON, which say nothing else.

use timeline::Mapping;

use crate::packet::{hex, number};
use crate::server::Server;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// A movement may take long; after so many seconds lldb gives the connection up.
const WAIT_MAX_SECONDS: u32 = 100_000;

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
        match self.timeline.mappings() {
            Ok(maps) => region_text(address, &maps).into_bytes(),
            Err(_) => b"E02".to_vec(),
        }
    }
}

/// The mapping that has the address, or the gap up to the next one.
fn region_text(address: u64, maps: &[Mapping]) -> String {
    let next = maps.iter().find(|mapping| mapping.end > address);
    match next {
        Some(mapping) if mapping.contains(address) => {
            let rights: String = mapping.rights().chars().filter(|right| "rwx".contains(*right)).collect();
            let (start, bytes) = (mapping.start, mapping.end - mapping.start);
            format!("start:{start:x};size:{bytes:x};permissions:{rights};name:{};", hex(&mapping.name))
        }
        // Behind the last one it reaches to the end of memory.
        _ => {
            let end = next.map_or(0, |mapping| mapping.start);
            format!("start:{address:x};size:{:x};", end.wrapping_sub(address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> Vec<Mapping> {
        let lines = [
            "1000-3000 r-xp 00000000 08:01 77       /bin/a b",
            "5000-6000 rw-p 00000000 00:00 0",
            "f000-fffe ---p 00000000 00:00 0 ",
        ];
        lines.iter().filter_map(|line| Mapping::of_line(line.as_bytes())).collect()
    }

    #[test]
    fn a_region_is_told_with_its_rights() {
        let told = |address| region_text(address, &maps());
        assert_eq!(told(0x1fff), "start:1000;size:2000;permissions:rx;name:2f62696e2f612062;");
        assert_eq!(told(0x5000), "start:5000;size:1000;permissions:rw;name:;");
        assert_eq!(told(0xf000), "start:f000;size:ffe;permissions:;name:;");
    }

    #[test]
    fn a_gap_reaches_to_the_next_region() {
        assert_eq!(region_text(0x3000, &maps()), "start:3000;size:2000;");
        let mut without_the_runtimes = maps();
        without_the_runtimes.retain(|mapping| mapping.start != 0x5000);
        assert_eq!(region_text(0x3000, &without_the_runtimes), "start:3000;size:c000;");
        assert_eq!(region_text(0xfffe, &maps()), "start:fffe;size:ffffffffffff0002;");
    }

    proptest::proptest! {
        #[test]
        fn any_text_of_mappings_is_read(maps in "([0-9a-f]{1,18}-[0-9a-f]{1,18} [rwxp-]{0,4} .{0,30}\n){0,5}", at: u64) {
            let maps: Vec<Mapping> = maps.lines().filter_map(|line| Mapping::of_line(line.as_bytes())).collect();
            let _ = region_text(at, &maps);
        }
    }
}
