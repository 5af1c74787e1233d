//! Where the functions of the program's own file begin: its sorted table of unwind entries says so
//! (`.eh_frame_hdr`, Linux Standard Base Core 5.0, 10.6.2), or that of the Go linker (`runtime.pclntab`,
//! go/src/internal/abi/symtab.go and go/src/runtime/symtab.go), which are mapped with it.
//!
//! Deliberately absent: files without such a table, those of Go before 1.20, and libraries.

use crate::ground::memory;
use crate::ground::proc_files::Path;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const PT_LOAD: u32 = 1;
const PF_W: u32 = 2;
const PT_PHDR: u32 = 6;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// Version; a pointer relative to itself, a number, and a table relative to the header, of 4 bytes each.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const HEADER_BYTES: u64 = 12;
/// Go: how `runtime.pcHeader` begins: a magic number, two zeros, bytes of the least instruction and of a pointer.
const GO_HEADER: u64 = u64::from_le_bytes([0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
/// Go: where they are in `runtime.moduledata`, which begins with the header's address: the names of functions, what
/// is known of each, the slice of entries, from where to where code is, and what entries count from.
const GO_NAMES: u64 = 8;
const GO_FUNCTIONS: u64 = 104;
const GO_ENTRIES: u64 = 128;
const GO_CODE: u64 = 160;
/// Read-only data of a file is not larger.
const GO_BYTES_MAX: u64 = 1 << 30;
const ENTRY_BYTES: u64 = 8;
/// Go: bytes of a function's name that are looked at, which is `main.Name`, or `host.domain/path.Name` where it
/// comes from elsewhere. Those of the language's own packages have no dot before the first slash, or no slash.
const GO_NAME_BYTES: usize = 48;

/// An entry of the program headers (elf(5)).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    _physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    _align: u64,
}

/// The table.
#[derive(Clone, Copy)]
pub struct Functions {
    header: u64,
    count: u64,
    go: Option<Go>,
}

/// Go: the header is that of the entries.
#[derive(Clone, Copy)]
struct Go {
    /// Where the code is that they count from.
    code: u64,
    functions: u64,
    names: u64,
}

impl Functions {
    pub const NONE: Functions = Functions { header: 0, count: 0, go: None };

    pub fn count(&self) -> u64 {
        self.count
    }

    /// From where the first one begins to where the last one ends.
    pub fn range(&self) -> Option<(u64, u64)> {
        Some((self.at(0)?.0, self.at(self.count.checked_sub(1)?)?.1))
    }

    /// So many bytes are from there to there.
    pub fn bytes(&self) -> u64 {
        self.range().map_or(0, |(start, end)| end.saturating_sub(start))
    }

    /// The function that holds the address.
    pub fn index_of(&self, address: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle)? <= address { low = middle + 1 } else { high = middle }
        }
        let index = low.checked_sub(1)?;
        self.at(index).filter(|(start, end)| (start..end).contains(&&address)).map(|_| index)
    }

    fn start(&self, index: u64) -> Option<u64> {
        if let Some(go) = self.go {
            let offset: u32 = memory::read(self.header + ENTRY_BYTES * index)?;
            return Some(go.code + u64::from(offset));
        }
        let start: i32 = memory::read(self.header + HEADER_BYTES + ENTRY_BYTES * index)?;
        Some(self.header.wrapping_add(start as u64))
    }

    /// True if it is known which are the program's own.
    pub fn know_own(&self) -> bool {
        self.go.is_some()
    }

    /// True of a function that is known to be the program's own, and not one of its language's.
    pub fn is_own(&self, index: u64) -> bool {
        let Some(go) = self.go else { return false };
        let name = || {
            let function: u32 = memory::read(self.header + ENTRY_BYTES * index + 4)?;
            // Behind where it begins: where its name is.
            let name: u32 = memory::read(go.functions + u64::from(function) + 4)?;
            memory::read::<[[u8; GO_NAME_BYTES / 2]; 2]>(go.names + u64::from(name))
        };
        name().is_some_and(|name| is_own_name(name.as_flattened()))
    }

    /// Where a function begins, and where it ends: what fills the space to the next one is no code.
    pub fn at(&self, index: u64) -> Option<(u64, u64)> {
        if self.go.is_some() {
            return Some((self.start(index)?, self.start(index + 1)?));
        }
        let [start, entry]: [i32; 2] = memory::read(self.header + HEADER_BYTES + ENTRY_BYTES * index)?;
        let [start, entry] = [start, entry].map(|offset| self.header.wrapping_add(offset as u64));
        // Length, place of the common part, start relative to itself, bytes of the function.
        let [_, _, relative, bytes]: [u32; 4] = memory::read(entry)?;
        let is_as_usual = (entry + 8).wrapping_add(relative as i32 as u64) == start;
        is_as_usual.then(|| (start, start + u64::from(bytes)))
    }
}

fn is_own_name(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let package = name.iter().position(|byte| *byte == b'/').map_or(&[][..], |slash| &name[..slash]);
    name.starts_with(b"main.") || package.contains(&b'.') && !package.contains(&b':')
}

/// The functions of the program that is executed.
pub fn of_program() -> Functions {
    table().unwrap_or(Functions::NONE)
}

fn table() -> Option<Functions> {
    let (mut path, mut vector) = (Path::new(), [0u64; 96]);
    path.text(b"/proc/thread-self/auxv");
    // SAFETY: words are bytes.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(vector.as_mut_ptr().cast::<u8>(), size_of_val(&vector)) };
    let words = path.read(bytes)?.len() / 8;
    let entry = |kind: u64| vector[..words].as_chunks::<2>().0.iter().find(|entry| entry[0] == kind);
    let (headers, count) = (entry(AT_PHDR)?[1], entry(AT_PHNUM)?[1]);
    let segment_at = |index: u64| memory::read::<Segment>(headers + index * size_of::<Segment>() as u64);
    let segments = || (0..count).filter_map(segment_at);
    let segment_of = |kind: u32| segments().find(|segment| segment.kind == kind);
    // Without one the file is not moved.
    let moved = segment_of(PT_PHDR).map_or(0, |segment| headers.wrapping_sub(segment.address));
    let Some(unwinding) = segment_of(PT_GNU_EH_FRAME) else {
        let is_written = |segment: &Segment| segment.kind == PT_LOAD && segment.flags & PF_W != 0;
        return go_table(moved, segments().find(is_written)?);
    };
    let header = moved.wrapping_add(unwinding.address);
    if memory::read::<[u8; 4]>(header)? != HEADER {
        return None;
    }
    let count: u32 = memory::read(header + 8)?;
    Some(Functions { header, count: u64::from(count), go: None })
}

/// The table of a file that Go's linker made: its data, which can be written to, has the module's.
fn go_table(moved: u64, data: Segment) -> Option<Functions> {
    let start = moved.wrapping_add(data.address);
    // The header is in the segment before: of what points elsewhere many words are no addresses.
    let is_before = |word: &u64| start.wrapping_sub(*word) < GO_BYTES_MAX;
    let is_module = |address: &u64| {
        let word = memory::read_word(*address).filter(is_before);
        word.and_then(memory::read_word) == Some(GO_HEADER)
    };
    let module = (start..start.wrapping_add(data.file_bytes)).step_by(8).find(is_module)?;
    let [names, functions] = [GO_NAMES, GO_FUNCTIONS].map(|place| memory::read_word(module + place));
    let [entries, count]: [u64; 2] = memory::read(module + GO_ENTRIES)?;
    let [least, most, code]: [u64; 3] = memory::read(module + GO_CODE)?;
    // One entry more says where the last function ends.
    let go = Some(Go { code, functions: functions?, names: names? });
    let functions = Functions { header: entries, count: count.checked_sub(1)?, go };
    let (from, to) = functions.range()?;
    (from == least && to <= most.checked_add(1)?).then_some(functions)
}
