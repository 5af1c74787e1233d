//! A newborn image: what the log says of it, and how the runtime gets into it.
//!
//! At the stop of execve no instruction of the image ran yet. Its files are kept,
//! memory that no file holds is named for the runtime to log, and the entry
//! point is overwritten with two instructions that map the runtime and jump to
//! it. The runtime puts the bytes back.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use events::{
    BIRTH_FIXED_BYTES, BLOB_HEADER_BYTES, EVENT_BYTES_MAX, HEADER_BYTES, Header, Kind, MAP_RECORD_BYTES,
    MORE, MapRecord, StopReason, Tag, padded,
};
use lane_protocol::{BIRTH_RANGES, Birth, CodeMap, FILE_TEXT, MemoryRange, OWN_VDSO_BYTES, TEXT_START};

use crate::error::InjectError;
use crate::files::KeepFile;
use crate::futex::futex_wake;
use crate::lane::{Lane, Segment};
use crate::limits;
use crate::maps::{Mapping, read_maps};
use crate::program::executable_is_32_bit;
use crate::session_memory::SessionMemory;
use crate::tracee::Stopped;

const PAGE_BYTES: u64 = 4096;
/// `mov eax, ebp; syscall; jmp rbx`, in the lower 6 bytes. The number comes from
/// rbp because execve, which has not returned yet, will put its result into rax.
const ENTRY_CODE: u64 = 0xe3ff_050f_e889;
const ENTRY_CODE_MASK: u64 = 0xffff_ffff_ffff;
/// Start of the break in the event: the runtime, which is asked anyway, logs it.
const BREAK_UNKNOWN: u64 = 0;
/// The stack's mapping, in `MapRecord::flags`.
const GROWS_DOWN: u32 = 1;
/// What stands for the vDSO, there.
const IS_VDSO: u32 = 2;
/// Code segment of 32-bit user code.
const CS_32_BIT: u64 = 0x23;

/// A map of the image, with the id of its file.
pub(crate) struct ImageMap {
    pub map: Mapping,
    pub file: Option<u32>,
    pub is_stack: bool,
    pub is_vdso: bool,
}

/// Prepares the image that `process` stands at the start of, so that it runs the
/// runtime first. The process is left standing.
pub(crate) fn prepare(
    memory: &SessionMemory,
    segment: Segment,
    process: &Stopped,
    keeper: &dyn KeepFile,
) -> Result<(), InjectError> {
    let pid = process.pid();
    let mut registers = process.registers().map_err(InjectError::prepare(pid, "reading registers"))?;
    let maps = read_maps(pid).map_err(InjectError::prepare(pid, "reading its mappings"))?;
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"))
        .map_err(InjectError::prepare(pid, "finding its executable"))?;
    if registers.cs == CS_32_BIT || has_32_bit_header(process, &maps, exe.as_os_str().as_encoded_bytes()) {
        return Err(InjectError::NotRecordable { pid, what: "a 32-bit program".into() });
    }
    if let Some(error) = limits::lacks_room(pid, &maps) {
        return Err(error);
    }
    let vdso = place_for_vdso(&maps);
    let mut image = keep_files(pid, maps, exe.as_os_str().as_encoded_bytes(), keeper)?;
    image.extend(vdso.map(own_vdso));
    let entry_word =
        process.peek(registers.rip).map_err(InjectError::prepare(pid, "reading its entry point"))?;
    let mut birth = describe(pid, &registers, &image, entry_word)?;
    birth.vdso = vdso.unwrap_or(0);
    let lane = memory.lane(segment);
    lane.set_birth(&birth);
    let start =
        Start { entry: registers.rip, stack_pointer: registers.rsp, break_start: BREAK_UNKNOWN, code: 0 };
    let event = encode(&start, &image, exe.as_os_str().as_encoded_bytes());
    if event.len() > EVENT_BYTES_MAX {
        return Err(InjectError::TooLarge { pid, what: "it has too many mappings" });
    }
    put_event(memory, lane, &event);

    process
        .poke(registers.rip, (entry_word & !ENTRY_CODE_MASK) | ENTRY_CODE)
        .map_err(InjectError::prepare(pid, "writing to its entry point"))?;
    // A process that wanted the descriptor's number for itself has moved it.
    let control_fd = match lane.request().arguments[1].load(Ordering::Relaxed) {
        0 => memory.control_fd().load(Ordering::Relaxed) as u64,
        moved => moved,
    };
    registers.rbp = libc::SYS_mmap as u64;
    registers.orig_rax = u64::MAX;
    registers.rdi = TEXT_START;
    registers.rsi = memory.text_bytes();
    registers.rdx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    registers.r10 = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
    registers.r8 = control_fd;
    registers.r9 = FILE_TEXT;
    registers.rbx = TEXT_START;
    registers.r12 = segment.index() as u64;
    registers.r13 = control_fd;
    process.set_registers(&registers).map_err(InjectError::prepare(pid, "setting registers"))
}

/// Where the vDSO that the program sees can lie: as near below the kernel's as there is room. Not
/// below the stack, which grows. `None` where the kernel has none either, or there is no room.
fn place_for_vdso(maps: &[Mapping]) -> Option<u64> {
    let kernels = maps.iter().position(|map| map.name == b"[vdso]")?;
    (1..=kernels).rev().find_map(|index| {
        let (below, above) = (&maps[index - 1], &maps[index]);
        let has_room = above.start - below.end >= OWN_VDSO_BYTES && above.name != b"[stack]";
        has_room.then(|| above.start - OWN_VDSO_BYTES)
    })
}

fn own_vdso(start: u64) -> ImageMap {
    let map = Mapping {
        start,
        end: start + OWN_VDSO_BYTES,
        protection: (libc::PROT_READ | libc::PROT_EXEC) as u32,
        shared: false,
        file_offset: 0,
        device: 0,
        inode: 0,
        name: b"[vdso]".to_vec(),
    };
    ImageMap { map, file: None, is_stack: false, is_vdso: true }
}

/// Keeps the files that the image maps, each once.
fn keep_files(
    pid: i32,
    maps: Vec<Mapping>,
    exe: &[u8],
    keeper: &dyn KeepFile,
) -> Result<Vec<ImageMap>, InjectError> {
    const KERNELS_OWN: [&[u8]; 4] = [b"[vdso]", b"[vvar]", b"[vvar_vclock]", b"[vsyscall]"];
    let mut known: Vec<((u64, u64), Option<u32>)> = Vec::new();
    let mut image = Vec::with_capacity(maps.len());
    for map in maps {
        if KERNELS_OWN.contains(&map.name.as_slice()) {
            continue;
        }
        let mut file = None;
        if map.has_file() {
            let identity = (map.device, map.inode);
            file = match known.iter().find(|(other, _)| *other == identity) {
                Some((_, file)) => *file,
                None => {
                    let path = path_of(pid, &map, exe);
                    let kept = keeper
                        .keep(&path, &map.name)
                        .map_err(InjectError::prepare(pid, "keeping a file that it maps"))?;
                    known.push((identity, kept));
                    kept
                }
            };
        }
        let is_stack = map.name == b"[stack]";
        image.push(ImageMap { map, file, is_stack, is_vdso: false });
    }
    Ok(image)
}

/// A path under which this process finds the file of a map.
fn path_of(pid: i32, map: &Mapping, exe: &[u8]) -> PathBuf {
    if map.name == exe {
        return PathBuf::from(format!("/proc/{pid}/exe"));
    }
    let same = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (map.device, map.inode))
    };
    // Whatever the process's root is: the same numbers are the same file.
    let here = PathBuf::from(OsString::from_vec(map.name.clone()));
    if same(&here) {
        return here;
    }
    let by_name = below_root(pid, &map.name);
    if same(&by_name) {
        return by_name;
    }
    // Needs a capability, but is exact even if the file was deleted. Where it is
    // refused, file systems whose maps show other numbers than stat (overlayfs,
    // btrfs) leave the name as the best there is.
    let by_range = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end));
    if std::fs::metadata(&by_range).is_ok() { by_range } else { by_name }
}

/// A path of the process's own, as this one finds it.
pub(crate) fn below_root(pid: i32, name: &[u8]) -> PathBuf {
    let mut path = format!("/proc/{pid}/root").into_bytes();
    path.extend_from_slice(name);
    PathBuf::from(OsString::from_vec(path))
}

/// True for a program whose ELF header says 32 bits, be its code 64-bit or not.
fn has_32_bit_header(process: &Stopped, maps: &[Mapping], exe: &[u8]) -> bool {
    const ELF_32: u64 = 0x01_464c_457f;
    const MAGIC_AND_CLASS: u64 = 0xff_ffff_ffff;
    let header = maps.iter().find(|map| map.file_offset == 0 && map.has_file() && map.name == exe);
    match header.and_then(|map| process.peek(map.start).ok()) {
        Some(word) => word & MAGIC_AND_CLASS == ELF_32,
        None => executable_is_32_bit(process.pid()).unwrap_or(false),
    }
}

/// What the runtime has to know.
fn describe(
    pid: i32,
    registers: &libc::user_regs_struct,
    image: &[ImageMap],
    entry_word: u64,
) -> Result<Birth, InjectError> {
    let entry = registers.rip;
    let at_entry = image.iter().find(|part| (part.map.start..part.map.end).contains(&entry));
    let at_entry = at_entry.ok_or_else(|| InjectError::Prepare {
        pid,
        step: "finding its entry point",
        source: io::ErrorKind::NotFound.into(),
    })?;
    let mut birth = Birth {
        entry,
        stack_pointer: registers.rsp,
        entry_word,
        entry_protection: at_entry.map.protection,
        range_count: 0,
        ranges: [MemoryRange::default(); BIRTH_RANGES],
        code_count: 0,
        unknown_code: 0,
        code: [CodeMap::default(); BIRTH_RANGES],
        vdso: 0,
    };
    for part in image {
        let map = &part.map;
        if let Some(range) = logged_range(part, registers.rsp) {
            let slot = birth
                .ranges
                .get_mut(birth.range_count as usize)
                .ok_or(InjectError::TooLarge { pid, what: "it has too many segments" })?;
            *slot = range;
            birth.range_count += 1;
        }
        if map.protection & libc::PROT_EXEC as u32 == 0 {
            continue;
        }
        if part.file.is_none() && map.has_file() {
            birth.unknown_code = 1;
        }
        if let Some(file) = part.file {
            let slot = birth
                .code
                .get_mut(birth.code_count as usize)
                .ok_or(InjectError::TooLarge { pid, what: "it has too many code segments" })?;
            *slot = CodeMap {
                start: map.start,
                end: map.end,
                file_offset: map.file_offset,
                file,
                protection: map.protection,
            };
            birth.code_count += 1;
        }
    }
    Ok(birth)
}

/// The part of a map that neither a file nor zeroes explain.
fn logged_range(part: &ImageMap, stack_pointer: u64) -> Option<MemoryRange> {
    let map = &part.map;
    if part.is_stack {
        return Some(MemoryRange { start: stack_pointer & !15, end: map.end });
    }
    if !map.has_file() {
        return None;
    }
    if part.file.is_none() {
        return Some(MemoryRange { start: map.start, end: map.end });
    }
    // The kernel zeroes what follows a segment's data in its last page.
    (map.protection & libc::PROT_WRITE as u32 != 0)
        .then(|| MemoryRange { start: map.end - PAGE_BYTES, end: map.end })
}

/// How an image begins.
pub(crate) struct Start {
    pub entry: u64,
    pub stack_pointer: u64,
    pub break_start: u64,
    /// Of the event: [`events::BOARDED`], or 0.
    pub code: u16,
}

/// The event of a birth. Data events with the logged ranges follow it.
pub(crate) fn encode(begin: &Start, image: &[ImageMap], path: &[u8]) -> Vec<u8> {
    let body_bytes = BIRTH_FIXED_BYTES + image.len() * MAP_RECORD_BYTES + padded(path.len());
    let len_bytes = HEADER_BYTES + body_bytes;
    let mut event = Vec::with_capacity(len_bytes);
    event.extend_from_slice(&Header::new(Kind::Birth, MORE, begin.code, len_bytes as u32).to_le_bytes());
    for word in [begin.entry, begin.stack_pointer, begin.break_start] {
        event.extend_from_slice(&word.to_le_bytes());
    }
    event.extend_from_slice(&(image.len() as u32).to_le_bytes());
    event.extend_from_slice(&(path.len() as u32).to_le_bytes());
    for part in image {
        let record = MapRecord {
            start: part.map.start,
            end: part.map.end,
            protection: part.map.protection,
            flags: if part.is_stack { GROWS_DOWN } else { 0 } | if part.is_vdso { IS_VDSO } else { 0 },
            file: part.file.unwrap_or(u32::MAX),
            file_offset: part.map.file_offset,
        };
        event.extend_from_slice(&record.start.to_le_bytes());
        event.extend_from_slice(&record.end.to_le_bytes());
        for half in [record.protection, record.flags, record.file, 0] {
            event.extend_from_slice(&half.to_le_bytes());
        }
        event.extend_from_slice(&record.file_offset.to_le_bytes());
    }
    event.extend_from_slice(path);
    event.resize(len_bytes, 0);
    event
}

/// Tells the log that recording of its process stops, for one that stands still.
pub(crate) fn put_stop(memory: &SessionMemory, lane: Lane, text: &str) {
    let text_bytes = text.len().min(4096);
    let len_bytes = HEADER_BYTES + BLOB_HEADER_BYTES + padded(text_bytes);
    let head = Header::new(Kind::Stop, 0, StopReason::Unsupported as u16, len_bytes as u32);
    let mut event = head.to_le_bytes().to_vec();
    event.extend_from_slice(&0u64.to_le_bytes());
    event.extend_from_slice(&(text_bytes as u32).to_le_bytes());
    event.extend_from_slice(&(Tag::Text as u32).to_le_bytes());
    event.extend_from_slice(&text.as_bytes()[..text_bytes]);
    event.resize(len_bytes, 0);
    put_event(memory, lane, &event);
}

/// Puts the event into the lane's log, waiting for space while somebody makes it.
pub(crate) fn put_event(memory: &SessionMemory, lane: Lane, event: &[u8]) {
    while !lane.put_for_stopped(event) {
        memory.doorbell().fetch_add(1, Ordering::Release);
        futex_wake(memory.doorbell());
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::Event;

    #[test]
    fn an_encoded_birth_decodes() {
        let map = Mapping {
            start: 0x1000,
            end: 0x3000,
            protection: 5,
            shared: false,
            file_offset: 0x2000,
            device: 1,
            inode: 2,
            name: b"/bin/x".to_vec(),
        };
        let stack = Mapping {
            start: 0x7ffe_0000,
            end: 0x8000_0000,
            inode: 0,
            name: b"[stack]".to_vec(),
            ..map.clone()
        };
        let image = [
            ImageMap { map, file: Some(7), is_stack: false, is_vdso: false },
            ImageMap { map: stack, file: None, is_stack: true, is_vdso: false },
        ];
        let begin = Start { entry: 0x1234, stack_pointer: 0x7fff_0010, break_start: 0x5000, code: 0 };
        let bytes = encode(&begin, &image, b"/bin/x");
        let (event, len_bytes) = Event::parse(&bytes).expect("well formed");
        assert_eq!(len_bytes, bytes.len());
        assert!(event.has_more());
        let birth = event.birth().expect("it is one");
        assert_eq!((birth.entry, birth.stack_pointer, birth.break_start), (0x1234, 0x7fff_0010, 0x5000));
        assert_eq!(birth.path, b"/bin/x");
        let maps: Vec<_> = birth.maps().collect();
        assert_eq!(maps.len(), 2);
        assert_eq!((maps[0].file, maps[0].file_offset, maps[0].flags), (7, 0x2000, 0));
        assert_eq!((maps[1].file, maps[1].flags), (u32::MAX, 1));
        assert_eq!(logged_range(&image[1], 0x7fff_0010).expect("the stack is").start, 0x7fff_0010);
    }
}
