//! Boarding: how the runtime gets into a process that runs already.
//!
//! All threads are stopped, the first one makes the system calls that map the runtime,
//! and then every one of them is sent to the runtime's entries, with a table that says
//! where it stood. Until then nothing of the process is changed that is not put back:
//! a process that is refused goes on as it was.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use lane_protocol::{
    ADVISED_MAX, Advised, BOARD_FIRST, BOARD_OTHER, BOARDING_MAPS, BOARDING_START, Boarder, Boarding,
    CodeMap, FILE_TEXT, MemoryRange, SharedMapping, TEXT_START, boarder_address, boarding_bytes,
};

use crate::birth::{self, ImageMap};
use crate::error::{InjectError, Refusal};
use crate::files::KeepFile;
use crate::lane::Segment;
use crate::maps::{Mapping, read_maps};
use crate::process_facts::{Facts, why_not_permitted};
use crate::remote::{ProcessMemory, Remote};
use crate::session_memory::SessionMemory;
use crate::shared_mappings::SharedMemory;
use crate::threads::{interrupted_call, leave_restartable, let_go_as_found, stop_all};
use crate::tracee::Held;
use crate::vdso;

/// Flags as a thread begins in the runtime with.
const FLAGS_AT_START: u64 = 0x202;
const PR_GET_TID_ADDRESS: u64 = 40;

/// Keeps what the process maps now: that takes long, and is done while it runs.
///
/// # Errors
/// As [`board`].
pub fn keep_mapped_files(pid: i32, keeper: &dyn KeepFile) -> Result<(), InjectError> {
    let facts = Facts::of(pid)?;
    let maps =
        read_maps(pid).map_err(|error| InjectError::Boarding { pid, why: why_not_permitted(pid, error) })?;
    keep_files(pid, &maps, &facts, keeper);
    Ok(())
}

/// Puts the runtime into a process that runs, in the first segment's lane.
///
/// # Errors
/// [`InjectError::Boarding`] if the process is refused, which says why; it goes on then as
/// it was.
pub fn board(memory: &SessionMemory, pid: i32, keeper: &dyn KeepFile) -> Result<(), InjectError> {
    let facts = Facts::of(pid)?;
    let threads = stop_all(pid)?;
    let refused = |why| InjectError::Boarding { pid, why };
    let result = match find_vdso_code(pid) {
        Ok(syscall_at) => Remote::new(&threads[0], syscall_at)
            .map_err(InjectError::prepare(pid, "opening its memory"))
            .and_then(|remote| prepare(memory, &facts, &threads, &remote, keeper)),
        Err(why) => Err(refused(why)),
    };
    match result {
        Ok(ready) => ready.let_go(threads),
        Err(error) => {
            let_go_as_found(threads);
            Err(error)
        }
    }
}

/// Everything is in its place; only the threads stand still.
struct Ready {
    pid: i32,
    control_fd: i32,
}

/// Keeps the files of the mappings; what cannot be kept is `None`.
/// So is memory that can be written by others: its content is logged.
fn keep_files(pid: i32, maps: &[Mapping], facts: &Facts, keeper: &dyn KeepFile) -> Vec<ImageMap> {
    let shared = SharedMemory::of(maps);
    let mut known: Vec<((u64, u64), Option<u32>)> = Vec::new();
    let mut image = Vec::with_capacity(maps.len());
    for map in maps {
        let is_vdso = map.name == b"[vdso]";
        if !is_vdso && map.name.starts_with(b"[v") {
            continue;
        }
        let identity = (map.device, map.inode);
        let file = match known.iter().find(|(other, _)| *other == identity) {
            _ if !map.has_file() || shared.is_shown_by(map) => None,
            Some((_, file)) => *file,
            None => {
                let kept = path_of(pid, map, facts).and_then(|path| keeper.keep(&path, &map.name).ok());
                known.push((identity, kept.flatten()));
                kept.flatten()
            }
        };
        image.push(ImageMap { map: map.clone(), file, is_stack: map.name == b"[stack]", is_vdso });
    }
    image
}

/// A path that surely names the file of a map.
pub(crate) fn path_of(pid: i32, map: &Mapping, facts: &Facts) -> Option<PathBuf> {
    if map.name == facts.exe {
        return Some(PathBuf::from(format!("/proc/{pid}/exe")));
    }
    let by_range = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end));
    let by_name = birth::below_root(pid, &map.name);
    let is_same = |path: &PathBuf, exactly: bool| {
        std::fs::metadata(path).is_ok_and(|found| {
            // File systems whose maps show another device than stat (overlayfs, btrfs).
            found.ino() == map.inode && (!exactly || found.dev() == map.device)
        })
    };
    if is_same(&by_name, true) {
        return Some(by_name);
    }
    if std::fs::metadata(&by_range).is_ok() {
        return Some(by_range);
    }
    is_same(&by_name, false).then_some(by_name)
}

/// Where the process's vDSO, or else other code of it, has a `syscall` instruction.
fn find_vdso_code(pid: i32) -> Result<u64, Refusal> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let memory = ProcessMemory::open(pid).map_err(Refusal::Memory)?;
    let maps = read_maps(pid).map_err(Refusal::Memory)?;
    let executable = maps.iter().filter(|map| map.protection & libc::PROT_EXEC as u32 != 0);
    let (first, others): (Vec<_>, Vec<_>) = executable.partition(|map| map.name == b"[vdso]");
    for map in first.into_iter().chain(others).filter(|map| map.name != b"[vsyscall]") {
        let mut bytes = vec![0; (map.end - map.start).min(4 << 20) as usize];
        if memory.read(map.start, &mut bytes).is_err() {
            continue;
        }
        if let Some(at) = bytes.windows(2).position(|pair| pair == SYSCALL) {
            return Ok(map.start + at as u64);
        }
    }
    Err(Refusal::NoCode)
}

/// Maps what the runtime needs and writes down where the threads stand.
fn prepare(
    memory: &SessionMemory,
    facts: &Facts,
    threads: &[Held],
    remote: &Remote,
    keeper: &dyn KeepFile,
) -> Result<Ready, InjectError> {
    let pid = facts.pid;
    let refused = |why| InjectError::Boarding { pid, why };
    let maps = read_maps(pid).map_err(InjectError::prepare(pid, "reading its mappings"))?;
    look_at_maps(&maps).map_err(refused)?;
    let shared = SharedMemory::of(&maps);
    shared.look_at(facts, &maps, memory.keeps_shared_memory()).map_err(refused)?;
    let image = keep_files(pid, &maps, facts, keeper);
    let advised = advised_memory(pid).map_err(refused)?;
    let mut table = Table::of(&image, advised, shared.table(facts, &maps), facts).map_err(refused)?;
    let start = birth::Start {
        entry: threads[0].found.rip,
        stack_pointer: facts.stack_start,
        break_start: facts.break_start,
        code: events::BOARDED,
    };
    let event = birth::encode(&start, &image, &facts.exe);
    let lane = memory.lane(Segment::FIRST);
    if event.len() > events::EVENT_BYTES_MAX {
        return Err(refused(Refusal::TooManyMaps));
    }
    let mut places = remote.reserve(table.bytes(threads.len())).map_err(refused)?;
    let result = (|| {
        let clear_tid = remote.ask(libc::SYS_prctl, [PR_GET_TID_ADDRESS, BOARDING_START, 0, 0, 0, 0]);
        clear_tid.map_err(|_| Refusal::NoTidAddress)?;
        let clear_tid = remote.memory().read_word(BOARDING_START).map_err(Refusal::Memory)?;
        let control_fd = places.pass_descriptor(memory.memfd().as_fd(), facts.descriptors_max)?;
        if let Some(dir) = missing_proc(pid).map_err(Refusal::NoDescriptor)? {
            table.proc_dir = places.pass_descriptor(dir.as_fd(), facts.descriptors_max)? as u64 + 1;
        }
        places.map(TEXT_START, memory.text_bytes(), control_fd, FILE_TEXT)?;
        let standing: Vec<libc::user_regs_struct> = stand_of_all(remote, threads, &maps)?;
        table.add_threads(threads, &standing, clear_tid);
        remote.memory().write(BOARDING_START, &table.encoded()).map_err(Refusal::Memory)?;
        vdso::replace(remote.memory(), &maps).map_err(Refusal::Memory)?;
        Ok(control_fd)
    })();
    match result {
        Ok(control_fd) => {
            memory.control_fd().store(control_fd, Ordering::Relaxed);
            lane.pid().store(pid, Ordering::Release);
            birth::put_event(memory, lane, &event);
            Ok(Ready { pid, control_fd })
        }
        Err(why) => {
            places.give_back();
            Err(refused(why))
        }
    }
}

/// The directory of processes, if the process's root is one without it (chroot(2)).
fn missing_proc(pid: i32) -> io::Result<Option<File>> {
    let is_there = std::fs::symlink_metadata(format!("/proc/{pid}/root/proc/thread-self")).is_ok();
    if is_there { Ok(None) } else { File::open("/proc").map(Some) }
}

/// What the process maps that would not be recorded truly.
fn look_at_maps(maps: &[Mapping]) -> Result<(), Refusal> {
    match maps.iter().any(Mapping::is_of_runtime) {
        true => Err(Refusal::RegionTaken),
        false => Ok(()),
    }
}

/// Memory that a child would not get, by madvise(2); neighbours are joined.
fn advised_memory(pid: i32) -> Result<Vec<Advised>, Refusal> {
    let text = std::fs::read(format!("/proc/{pid}/smaps")).map_err(Refusal::Memory)?;
    advised_in(&String::from_utf8_lossy(&text))
}

fn advised_in(smaps: &str) -> Result<Vec<Advised>, Refusal> {
    let mut all: Vec<Advised> = Vec::new();
    let mut range = (0, 0);
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(mapping) = Mapping::of_line(line.as_bytes()) {
            range = (mapping.start, mapping.end);
        }
        if first != "VmFlags:" || line.contains(" io") {
            continue;
        }
        let has = |flag: &str| rest.split_ascii_whitespace().any(|found| found == flag);
        if has("um") || has("uw") || has("ui") {
            return Err(Refusal::Userfaultfd);
        }
        for (flag, advice) in [("dc", libc::MADV_DONTFORK), ("wf", libc::MADV_WIPEONFORK)] {
            let (start, end) = range;
            let advice = advice as u64;
            match all.iter_mut().find(|one| one.end == start && one.advice == advice) {
                _ if !has(flag) => {}
                Some(one) => one.end = end,
                None => all.push(Advised { start, end, advice }),
            }
        }
    }
    Ok(all)
}

/// How each thread goes on in the program's code, once it is out of the vDSO.
fn stand_of_all(
    remote: &Remote,
    threads: &[Held],
    maps: &[Mapping],
) -> Result<Vec<libc::user_regs_struct>, Refusal> {
    let vdso = maps.iter().find(|map| map.name == b"[vdso]").map(|map| map.start..map.end);
    threads
        .iter()
        .map(|thread| {
            let mut registers = interrupted_call(thread);
            leave_restartable(remote.memory(), thread, &mut registers)?;
            match &vdso {
                Some(vdso) if vdso.contains(&registers.rip) => vdso::walk_out(thread, registers, vdso),
                _ => Ok(registers),
            }
        })
        .collect()
}

impl Ready {
    /// Sends all threads into the runtime.
    fn let_go(self, threads: Vec<Held>) -> Result<(), InjectError> {
        // The runtime needs no signal before it has its handlers.
        const ALL: u64 = !0;
        let mut result = Ok(());
        for (index, thread) in threads.into_iter().enumerate() {
            let mut registers = thread.found;
            registers.orig_rax = u64::MAX;
            registers.eflags = FLAGS_AT_START;
            registers.rip = if index == 0 { BOARD_FIRST } else { BOARD_OTHER };
            registers.r12 = if index == 0 { Segment::FIRST.index() as u64 } else { boarder_address(index) };
            registers.r13 = self.control_fd as u64;
            let released = thread.release(&registers, ALL);
            if result.is_ok() {
                result = released.map_err(InjectError::prepare(self.pid, "letting it go"));
            }
        }
        result
    }
}

/// The table in the making.
struct Table {
    break_start: u64,
    proc_dir: u64,
    code: Vec<CodeMap>,
    ranges: Vec<MemoryRange>,
    advised: Vec<Advised>,
    shared: Vec<SharedMapping>,
    threads: Vec<Boarder>,
}

impl Table {
    fn of(
        image: &[ImageMap],
        advised: Vec<Advised>,
        shared: Vec<SharedMapping>,
        facts: &Facts,
    ) -> Result<Table, Refusal> {
        let shared_starts: HashSet<u64> = shared.iter().map(|shown| shown.start).collect();
        let is_shared = |map: &Mapping| shared_starts.contains(&map.start);
        let mut table = Table {
            break_start: facts.break_start,
            proc_dir: 0,
            code: Vec::new(),
            ranges: Vec::new(),
            advised,
            shared,
            threads: Vec::new(),
        };
        for part in image {
            let map = &part.map;
            let (start, end) = (map.start, map.end);
            match part.file {
                Some(file) if map.protection & libc::PROT_EXEC as u32 != 0 => {
                    let (file_offset, protection) = (map.file_offset, map.protection);
                    table.code.push(CodeMap { start, end, file_offset, file, protection });
                }
                None if map.has_file() && map.protection != 0 && !is_shared(map) => {
                    table.ranges.push(MemoryRange { start, end })
                }
                _ => {}
            }
        }
        let lengths = [table.code.len(), table.ranges.len(), table.shared.len()];
        if lengths.into_iter().any(|length| length > BOARDING_MAPS) || table.advised.len() > ADVISED_MAX {
            return Err(Refusal::TooManyMaps);
        }
        Ok(table)
    }

    fn bytes(&self, threads: usize) -> u64 {
        boarding_bytes(threads).next_multiple_of(4096)
    }

    fn add_threads(&mut self, threads: &[Held], standing: &[libc::user_regs_struct], clear_tid: u64) {
        for (thread, r) in threads.iter().zip(standing) {
            let registers = [
                r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r9, r.r8, r.r10, r.rdx, r.rsi, r.rdi,
                r.rcx, r.rax, r.rip, r.eflags, r.rsp,
            ];
            self.threads.push(Boarder {
                block: 0,
                stack_top: 0,
                registers,
                mask: thread.mask,
                robust_list: thread.robust_list(),
                rseq: thread.rseq(),
                clear_tid: if self.threads.is_empty() { clear_tid } else { 0 },
            });
        }
    }

    /// As it lies in the process's memory.
    fn encoded(&self) -> Vec<u8> {
        let mut head = Boarding {
            state: 0.into(),
            arrived: 0.into(),
            count: self.threads.len() as u32,
            code_count: self.code.len() as u32,
            range_count: self.ranges.len() as u32,
            advised_count: self.advised.len() as u32,
            shared_count: self.shared.len() as u32,
            _reserved: 0,
            break_start: self.break_start,
            proc_dir: self.proc_dir,
            code: [CodeMap::default(); BOARDING_MAPS],
            ranges: [MemoryRange::default(); BOARDING_MAPS],
            advised: [Advised::default(); ADVISED_MAX],
            shared: [SharedMapping::default(); BOARDING_MAPS],
        };
        head.code[..self.code.len()].copy_from_slice(&self.code);
        head.ranges[..self.ranges.len()].copy_from_slice(&self.ranges);
        head.advised[..self.advised.len()].copy_from_slice(&self.advised);
        head.shared[..self.shared.len()].copy_from_slice(&self.shared);
        let mut bytes = bytes_of(std::slice::from_ref(&head)).to_vec();
        bytes.extend_from_slice(bytes_of(&self.threads));
        bytes
    }
}

fn bytes_of<T>(values: &[T]) -> &[u8] {
    // SAFETY: used for structures of the table, which are words and pairs of halves
    // without gaps.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// For errors.
pub(crate) fn other(text: &'static str) -> io::Error {
    io::Error::other(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-2000 rw-p 00000000 00:00 0 
Rss: 4 kB
VmFlags: rd wr mr mw me dc ac 
2000-3000 rw-p 00000000 00:00 0  [heap]
VmFlags: rd wr mr mw me dc wf 
3000-4000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me ac 
8000-9000 rw-p 00000000 00:00 0 
VmFlags: rd wr dc 
";

    #[test]
    fn what_children_do_not_get_is_found_and_joined() {
        let of = |start, end, advice: i32| Advised { start, end, advice: advice as u64 };
        let found = advised_in(SMAPS).expect("nothing stands in the way");
        let (kept, wiped) = (libc::MADV_DONTFORK, libc::MADV_WIPEONFORK);
        assert_eq!(found, [of(0x1000, 0x3000, kept), of(0x2000, 0x3000, wiped), of(0x8000, 0x9000, kept)]);
        assert!(advised_in(&SMAPS.replace("ac", "um")).is_err());
    }
}
