//! The image of a process that stands still, read from outside.
//!
//! The payload of a keyframe: how many mappings and objects there are, these, and then runs
//! of content to the end: of which object plus one (0: of memory), from which address on,
//! how many bytes, and the bytes.
//!
//! Deliberately absent: what the memory means. The runtime's own is memory like all other.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use injector::{Mapping, read_maps};
use lane_protocol::{
    IMAGE_FD_BELOW, ImageMapping, LOADER_BYTES, LOADER_START, REGION_BYTES, REGION_START, TRANSLATOR_BYTES,
    TRANSLATOR_START, image_flags, image_source,
};
use trace_store::keyframes::KeyframeWriter;
use trace_store::{TraceReader, hash_hex};

use super::table::words_of;
use crate::error::TimelineError;

const PAGE_BYTES: u64 = 4096;
/// Most bytes of a run.
const RUN_BYTES_MAX: u64 = 1 << 18;
/// Most bytes of memory that mappings share: as much as a copy of a process takes over.
const SHARED_BYTES_MAX: u64 = 64 << 20;
/// How the kernel names memory that is shared with nobody's file.
const SHARED_MEMORY: &[u8] = b"/dev/zero (deleted)";
/// What stands for shared memory in copies of a process.
const TAKEN_OVER: &str = "/memfd:retrovane (deleted)";

/// Memory that mappings share, in a file of the process's.
struct Object {
    fd: u64,
    file: File,
    bytes: u64,
    identity: (u64, u64),
}

/// What is written, and where its content is.
pub struct Image {
    pid: i32,
    mappings: Vec<ImageMapping>,
    objects: Vec<Object>,
}

fn refused(why: &str) -> TimelineError {
    TimelineError::NoKeyframe(why.to_owned())
}

impl Image {
    /// What a process has that stands still.
    ///
    /// # Errors
    /// [`TimelineError::NoKeyframe`] if it has what cannot be taken up again.
    pub fn of(
        pid: i32,
        control_fd: i32,
        objects_dir: &Path,
        trace: &TraceReader,
    ) -> Result<Image, TimelineError> {
        let objects = objects_of(pid, control_fd, objects_dir)?;
        let ids: HashMap<Vec<u8>, u32> =
            trace.files().iter().map(|kept| (hash_hex(&kept.file.hash).into_bytes(), kept.id)).collect();
        let growing = growing_mappings(pid)?;
        let mut mappings = Vec::new();
        let mut shared = HashSet::new();
        let mut shared_bytes: u64 = objects.iter().map(|object| object.bytes).sum();
        for map in read_maps(pid)?.iter().filter(|map| !is_elsewhere(map)) {
            let (source, number) = source_of(map, &objects, &ids)?;
            if map.shared && source == image_source::ZEROS {
                shared_bytes += map.end - map.start;
                if !shared.insert(map.inode) {
                    return Err(refused("it has shared memory mapped twice"));
                }
            }
            let grows = if growing.contains(&map.start) { image_flags::GROWS_DOWN } else { 0 };
            mappings.push(ImageMapping {
                start: map.start,
                end: map.end,
                protection: map.protection,
                flags: grows | if map.shared { image_flags::SHARED } else { 0 },
                source,
                number,
                offset: if source == image_source::ZEROS { 0 } else { map.file_offset },
            });
        }
        if shared_bytes > SHARED_BYTES_MAX {
            return Err(refused("it has more than 64 MB of shared memory"));
        }
        Ok(Image { pid, mappings, objects })
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn write(&self, writer: &mut KeyframeWriter) -> Result<(), TimelineError> {
        let mut head = vec![self.mappings.len() as u64, self.objects.len() as u64];
        head.extend(self.mappings.iter().flat_map(words_of));
        head.extend(self.objects.iter().flat_map(|object| [object.fd, object.bytes]));
        add_words(writer, &head)?;
        for (index, object) in self.objects.iter().enumerate() {
            let pages = 0..object.bytes.next_multiple_of(PAGE_BYTES);
            let mut runs = Runs { writer, file: &object.file, object: index as u64 + 1, end: object.bytes };
            runs.add(pages, true)?;
        }
        let mem = File::open(format!("/proc/{}/mem", self.pid))?;
        let pagemap = File::open(format!("/proc/{}/pagemap", self.pid))?;
        for mapping in &self.mappings {
            let mut runs = Runs { writer, file: &mem, object: 0, end: mapping.end };
            let is_shared = mapping.flags & image_flags::SHARED != 0;
            match (mapping.source, is_shared) {
                // It is the object's.
                (image_source::OBJECT, true) => {}
                // Pages that this process has not touched are not in its tables.
                (_, true) => runs.add(mapping.start..mapping.end, true)?,
                (source, false) => {
                    for range in own_pages(&pagemap, mapping)? {
                        runs.add(range, source == image_source::ZEROS)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// True for what a new process has by itself, or does without.
fn is_elsewhere(map: &Mapping) -> bool {
    let in_range = |start: u64, bytes: u64| start <= map.start && map.end <= start + bytes;
    let is_kernels = map.name.starts_with(b"[v");
    let is_sessions = in_range(REGION_START, REGION_BYTES)
        && map.name.starts_with(b"/memfd:retrovane")
        && (map.shared || map.protection & libc::PROT_WRITE as u32 == 0);
    is_kernels
        || is_sessions
        || in_range(TRANSLATOR_START, TRANSLATOR_BYTES)
        || in_range(LOADER_START, LOADER_BYTES)
}

fn source_of(
    map: &Mapping,
    objects: &[Object],
    ids: &HashMap<Vec<u8>, u32>,
) -> Result<(u32, u32), TimelineError> {
    let is_runtimes = REGION_START <= map.start && map.start < REGION_START + REGION_BYTES;
    if map.inode == 0 || is_runtimes && !map.shared {
        return Ok((image_source::ZEROS, 0));
    }
    let same = |object: &Object| object.identity == (map.device, map.inode);
    if let Some(index) = objects.iter().position(same) {
        return Ok((image_source::OBJECT, index as u32));
    }
    if map.shared {
        let is_memory = map.name == SHARED_MEMORY && !is_runtimes;
        return is_memory
            .then_some((image_source::ZEROS, 0))
            .ok_or_else(|| refused("it shares memory that is not known"));
    }
    let name = map.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let id = ids.get(name).ok_or_else(|| refused("it has a file mapped that the trace does not have"))?;
    Ok((image_source::FILE, *id))
}

/// The descriptors of a process, all of which stand for shared memory.
fn objects_of(pid: i32, control_fd: i32, objects_dir: &Path) -> Result<Vec<Object>, TimelineError> {
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<i32>().ok());
        let Some(fd) = name.filter(|fd| !(0..3).contains(fd) && *fd != control_fd) else { continue };
        let about = std::fs::metadata(&path)?;
        let target = std::fs::read_link(&path)?;
        let is_object = target.starts_with(objects_dir) || target.starts_with(TAKEN_OVER);
        if !about.is_file() || !is_object || fd == control_fd - IMAGE_FD_BELOW {
            return Err(refused("it has a descriptor that is not known"));
        }
        let file = File::open(&path)?;
        let identity = (about.dev(), about.ino());
        objects.push(Object { fd: fd as u64, file, bytes: about.len(), identity });
    }
    Ok(objects)
}

/// Where mappings begin that grow down.
fn growing_mappings(pid: i32) -> Result<HashSet<u64>, TimelineError> {
    let text = std::fs::read(format!("/proc/{pid}/smaps"))?;
    let text = String::from_utf8_lossy(&text);
    let mut growing = HashSet::new();
    let mut start = 0;
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
            if has("ht") {
                return Err(refused("it has huge pages of its own (MAP_HUGETLB)"));
            }
            if has("gd") {
                growing.insert(start);
            }
        } else if let Some(mapping) = Mapping::of_line(line.as_bytes()) {
            start = mapping.start;
        }
    }
    Ok(growing)
}

/// Pages of a private mapping that are not its file's (proc_pid_pagemap(5)).
fn own_pages(pagemap: &File, mapping: &ImageMapping) -> Result<Vec<std::ops::Range<u64>>, TimelineError> {
    const ENTRIES: u64 = 1 << 16;
    let mut found: Vec<std::ops::Range<u64>> = Vec::new();
    let mut at = mapping.start;
    let mut entries = vec![0u8; (ENTRIES * 8) as usize];
    while at < mapping.end {
        let count = ((mapping.end - at) / PAGE_BYTES).min(ENTRIES);
        let room = &mut entries[..(count * 8) as usize];
        pagemap.read_exact_at(room, at / PAGE_BYTES * 8)?;
        for entry in room.chunks_exact(8) {
            let entry = entry.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            let (there, of_file, guard) = (entry >> 62 != 0, entry >> 61 & 1 != 0, entry >> 58 & 1 != 0);
            if guard {
                return Err(refused("it has pages that are guards (MADV_GUARD_INSTALL)"));
            }
            if there && !of_file {
                match found.last_mut() {
                    Some(last) if last.end == at => last.end = at + PAGE_BYTES,
                    _ => found.push(at..at + PAGE_BYTES),
                }
            }
            at += PAGE_BYTES;
        }
    }
    Ok(found)
}

/// What is written of one mapping or object.
struct Runs<'a> {
    writer: &'a mut KeyframeWriter,
    file: &'a File,
    object: u64,
    /// Behind it there is nothing.
    end: u64,
}

impl Runs<'_> {
    /// Adds a range, whole pages; without pages of zeros if these are there already.
    fn add(&mut self, range: std::ops::Range<u64>, zeros_are_there: bool) -> Result<(), TimelineError> {
        let mut at = range.start;
        let mut content = vec![0u8; RUN_BYTES_MAX as usize];
        while at < range.end.min(self.end) {
            let bytes = (range.end.min(self.end) - at).min(RUN_BYTES_MAX);
            let content = &mut content[..bytes as usize];
            self.file.read_exact_at(content, at)?;
            let mut first = 0;
            while first < content.len() {
                let rest = &content[first..];
                let is_zero = |page: &&[u8]| zeros_are_there && page.iter().all(|byte| *byte == 0);
                let zeros: usize =
                    rest.chunks(PAGE_BYTES as usize).take_while(is_zero).map(<[u8]>::len).sum();
                let rest = &rest[zeros..];
                let own: usize =
                    rest.chunks(PAGE_BYTES as usize).take_while(|page| !is_zero(page)).map(<[u8]>::len).sum();
                if own > 0 {
                    let place = at + (first + zeros) as u64;
                    add_words(self.writer, &[self.object, place, own as u64])?;
                    self.writer.add(&rest[..own]).map_err(TimelineError::Store)?;
                }
                first += zeros + own;
            }
            at += bytes;
        }
        Ok(())
    }
}

fn add_words(writer: &mut KeyframeWriter, words: &[u64]) -> Result<(), TimelineError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    writer.add(&bytes).map_err(TimelineError::Store)
}
