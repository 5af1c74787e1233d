//! The libraries that the program has loaded, as one list (`qXfer:libraries-svr4:read`).
//!
//! Where a server has none, gdb follows the dynamic linker's own list in memory at each event of the linker, and asks for eight
//! bytes of a name at a time: the way back through the start of a program with 38 libraries was 110,000 requests.
//!
//! The offsets are those of <link.h> on x86-64, which are the same for all of its C libraries.

use std::fmt::Write;

use crate::names::escaped;
use crate::queries::{AT_PHDR, auxiliary_value};
use crate::server::Server;

/// How many headers the program has, in the auxiliary vector.
const AT_PHNUM: u64 = 5;
const HEADER_BYTES: u64 = 56;
const PT_DYNAMIC: u64 = 2;
const PT_PHDR: u64 = 6;
/// The tag behind which the linker writes where its `r_debug` is.
const DT_DEBUG: u64 = 21;
/// More are taken for a damaged list.
const ENTRIES_MAX: usize = 0x1_0000;

/// A `struct link_map`.
struct LinkMap {
    at: u64,
    /// l_addr, l_name, l_ld, l_next, l_prev.
    words: [u64; 5],
}

impl Server<'_> {
    /// Those of all namespaces (dlmopen(3)): gdb 13.1 takes no list of which a library does not say its own (`lmid`).
    pub(crate) fn library_list(&self) -> String {
        let mut libraries = String::new();
        let mut main = String::new();
        let mut debug = self.linker_debug().filter(|debug| *debug != 0);
        let mut is_first = true;
        for _ in 0..ENTRIES_MAX {
            let Some(at) = debug else { break };
            let version = self.word(at).unwrap_or(0) & 0xffff_ffff;
            let first = self.word(at + 8).unwrap_or(0);
            for map in self.link_maps(first) {
                // The program itself is known otherwise.
                if is_first && map.at == first && map.words[4] == 0 {
                    main = format!(" main-lm=\"{first:#x}\"");
                    continue;
                }
                let name = escaped(&self.text(map.words[1]));
                let [address, _, dynamic, ..] = map.words;
                let _ = write!(
                    libraries,
                    "<library name=\"{name}\" lm=\"{:#x}\" l_addr=\"{address:#x}\" l_ld=\"{dynamic:#x}\" lmid=\"{at:#x}\"/>",
                    map.at
                );
            }
            is_first = false;
            debug = if version >= 2 { self.word(at + 40).filter(|next| *next != 0) } else { None };
        }
        format!("<library-list-svr4 version=\"1.0\"{main}>{libraries}</library-list-svr4>")
    }

    /// The linker's `r_debug`; 0 before it has told, and `None` where nothing is linked dynamically.
    fn linker_debug(&self) -> Option<u64> {
        let vector = self.auxiliary_vector();
        let (headers, count) = (auxiliary_value(&vector, AT_PHDR)?, auxiliary_value(&vector, AT_PHNUM)?);
        let address_of = |wanted: u64| {
            let header = (0..count).map(|index| headers + index * HEADER_BYTES).find(|header| {
                self.word(*header).is_some_and(|kind_and_flags| kind_and_flags & 0xffff_ffff == wanted)
            })?;
            self.word(header + 16)
        };
        let moved_by = address_of(PT_PHDR).map_or(0, |linked_at| headers.wrapping_sub(linked_at));
        let dynamic = address_of(PT_DYNAMIC)?.wrapping_add(moved_by);
        let mut tags = (0..ENTRIES_MAX as u64).map_while(|index| {
            let at = dynamic + index * 16;
            self.word(at).filter(|tag| *tag != 0).map(|tag| (tag, at + 8))
        });
        let (_, at) = tags.find(|(tag, _)| *tag == DT_DEBUG)?;
        self.word(at)
    }

    fn link_maps(&self, first: u64) -> Vec<LinkMap> {
        let mut maps = Vec::new();
        let mut at = first;
        while at != 0 && maps.len() < ENTRIES_MAX {
            let mut bytes = [0; 40];
            if self.timeline.read(at, &mut bytes) != bytes.len() {
                break;
            }
            let mut words = [0; 5];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            maps.push(LinkMap { at, words });
            at = words[3];
        }
        maps
    }
}
