//! The stack of a replaying process that stands still.
//!
//! Frames come from the unwind tables of the kept files, names and lines from
//! their symbols and, where there is some, their debug information. Whatever
//! cannot be read shortens the result; it is never an error.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use injector::{Mapping, read_maps};
use object::{Object, ObjectSection, ObjectSegment};

use crate::describe::Frame;

/// Most frames that are shown.
const FRAMES_MAX: usize = 64;
/// Files larger than this are not looked into.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file that the process maps.
struct MappedFile {
    /// Path that it had when it was recorded.
    original: String,
    /// First and last address of its maps.
    range: std::ops::Range<u64>,
    /// Distance from addresses in the file to addresses in memory.
    bias: u64,
    loader: Option<Loader>,
}

/// Registers that unwinding begins with.
pub(crate) struct Start {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
}

/// Stacks of processes that map the same files: these are read once.
#[derive(Default)]
pub struct Stacks {
    /// Recorded paths of kept files, by their hashes in hex.
    originals: HashMap<String, Vec<u8>>,
    files: Vec<(PathBuf, u64, u64)>,
    known: Option<(UnwinderX86_64<Vec<u8>>, Vec<MappedFile>)>,
}

impl Stacks {
    /// For replaying processes, which map kept files: with the recorded paths of these, by their
    /// hashes in hex.
    pub fn with_originals(originals: HashMap<String, Vec<u8>>) -> Stacks {
        Stacks { originals, ..Stacks::default() }
    }

    /// The frames of a process that stands, from its instruction, stack and frame pointers.
    pub fn of(&mut self, pid: i32, rip: u64, rsp: u64, rbp: u64) -> Vec<Frame> {
        let Ok(maps) = read_maps(pid) else { return Vec::new() };
        let code = |map: &&Mapping| map.has_file() && !map.shared;
        let files: Vec<_> =
            maps.iter().filter(code).map(|map| (path_of(map), map.start, map.file_offset)).collect();
        if self.known.is_none() || files != self.files {
            let private: Vec<Mapping> = maps.iter().filter(code).cloned().collect();
            let mut unwinder = UnwinderX86_64::new();
            let mapped = mapped_files(&private, &self.originals, &mut unwinder);
            (self.files, self.known) = (files, Some((unwinder, mapped)));
        }
        let Some((unwinder, mapped)) = &self.known else { return Vec::new() };
        let addresses = unwind(pid, &Start { rip, rsp, rbp }, unwinder);
        addresses.iter().enumerate().map(|(depth, address)| frame(*address, depth > 0, mapped)).collect()
    }
}

/// The frames of a process, innermost first. `originals` gives the recorded
/// paths of kept files by their hash in hex.
pub(crate) fn backtrace(pid: i32, start: &Start, originals: &HashMap<String, Vec<u8>>) -> Vec<Frame> {
    let Ok(maps) = read_maps(pid) else { return Vec::new() };
    let mut unwinder = UnwinderX86_64::new();
    let files = mapped_files(&maps, originals, &mut unwinder);
    let addresses = unwind(pid, start, &unwinder);
    addresses.iter().enumerate().map(|(depth, address)| frame(*address, depth > 0, &files)).collect()
}

fn mapped_files(
    maps: &[Mapping],
    originals: &HashMap<String, Vec<u8>>,
    unwinder: &mut UnwinderX86_64<Vec<u8>>,
) -> Vec<MappedFile> {
    let mut ranges: Vec<(PathBuf, std::ops::Range<u64>, &Mapping)> = Vec::new();
    for map in maps.iter().filter(|map| map.has_file()) {
        let path = path_of(map);
        match ranges.last_mut() {
            Some((last, range, _)) if *last == path => range.end = map.end,
            _ => ranges.push((path, map.start..map.end, map)),
        }
    }
    ranges
        .into_iter()
        .filter_map(|(path, range, first)| load(path, range, first, originals, unwinder))
        .collect()
}

fn path_of(map: &Mapping) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(&map.name))
}

/// Reads a mapped file and tells the unwinder of it.
fn load(
    path: PathBuf,
    range: std::ops::Range<u64>,
    first: &Mapping,
    originals: &HashMap<String, Vec<u8>>,
    unwinder: &mut UnwinderX86_64<Vec<u8>>,
) -> Option<MappedFile> {
    if std::fs::metadata(&path).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    let object = object::File::parse(&*bytes).ok()?;
    let segment = object.segments().find(|segment| {
        let (offset, len_bytes) = segment.file_range();
        (offset & !0xfff..offset.saturating_add(len_bytes)).contains(&first.file_offset)
    })?;
    // An address in memory minus the bias is an address in the file.
    let file_address = segment.address().wrapping_sub(segment.file_range().0).wrapping_add(first.file_offset);
    let bias = first.start.wrapping_sub(file_address);
    let section = |name: &str| object.section_by_name(name);
    let place =
        |name: &str| section(name).map(|found| found.address()..found.address().saturating_add(found.size()));
    let data = |name: &str| section(name).and_then(|found| found.data().ok().map(<[u8]>::to_vec));
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: place(".text"),
        text: data(".text"),
        got_svma: place(".got"),
        eh_frame_svma: place(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: place(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..Default::default()
    };
    unwinder.add_module(Module::new(String::new(), range.clone(), bias, info));
    let original = original_name(&path, originals);
    let loader = Loader::new(&path).ok();
    Some(MappedFile { original, range, bias, loader })
}

/// The recorded path of a kept file, which is named by its hash.
fn original_name(path: &Path, originals: &HashMap<String, Vec<u8>>) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match originals.get(&*name) {
        Some(original) => String::from_utf8_lossy(original).into_owned(),
        None => path.display().to_string(),
    }
}

fn unwind(pid: i32, start: &Start, unwinder: &UnwinderX86_64<Vec<u8>>) -> Vec<u64> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok();
    let mut read = |address: u64| {
        let mut word = [0u8; 8];
        memory.as_ref().ok_or(())?.read_exact_at(&mut word, address).map_err(|_| ())?;
        Ok(u64::from_le_bytes(word))
    };
    let mut cache = CacheX86_64::new();
    let registers = UnwindRegsX86_64::new(start.rip, start.rsp, start.rbp);
    let mut frames = unwinder.iter_frames(start.rip, registers, &mut cache, &mut read);
    let mut addresses = Vec::new();
    while addresses.len() < FRAMES_MAX
        && let Ok(Some(frame)) = frames.next()
    {
        addresses.push(frame.address());
    }
    addresses
}

fn frame(address: u64, is_return: bool, files: &[MappedFile]) -> Frame {
    let mut frame = Frame { address, function: None, module: None, source: None };
    let Some(file) = files.iter().find(|file| file.range.contains(&address)) else { return frame };
    frame.module = Some(file.original.clone());
    let Some(loader) = &file.loader else { return frame };
    // A return address can be the first of another line or function.
    let probe = address.wrapping_sub(file.bias).wrapping_sub(u64::from(is_return));
    if let Some(symbol) = loader.find_symbol_info(probe) {
        let name = addr2line::demangle_auto(symbol.name().into(), None).into_owned();
        let distance = address.wrapping_sub(file.bias).wrapping_sub(symbol.address());
        frame.function = Some((name, distance));
    }
    if let Ok(Some(location)) = loader.find_location(probe)
        && let (Some(path), Some(line)) = (location.file, location.line)
    {
        frame.source = Some((path.to_owned(), line));
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_process_has_named_frames() {
        let child = std::process::Command::new("/bin/sleep").arg("100").spawn();
        let mut child = child.expect("sleep is there");
        let pid = child.id() as i32;
        // Of a process that sleeps in a call, /proc shows rsp and rip.
        let fields = loop {
            let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            let fields: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
            // clock_nanosleep
            if fields.len() == 9 && fields[0] == "230" {
                break fields;
            }
            std::thread::yield_now();
        };
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hex");
        let start = Start { rip: number(&fields[8]), rsp: number(&fields[7]), rbp: 0 };
        let frames = backtrace(pid, &start, &HashMap::new());
        child.kill().expect("own child");
        child.wait().expect("own child");
        assert!(frames.len() >= 3, "{frames:?}");
        let named = |wanted: &str| {
            frames.iter().any(|frame| frame.function.as_ref().is_some_and(|(name, _)| name.contains(wanted)))
        };
        assert!(named("nanosleep"), "{frames:?}");
        assert!(frames[0].module.as_ref().is_some_and(|module| module.contains("libc")), "{frames:?}");
    }
}
