//! The image of a checkpoint, as the beginning of a log: what a trace needs that begins
//! there, because what came before has fallen off.
//!
//! The shadow forks a writer, which takes back in its own memory what the runtime has
//! changed in the program's code, and writes a birth event with all memory and threads
//! into a ring of its own. The shadow stays as it is, for rollbacks.
//!
//! Invariant: what is written is the program's state alone: a replay by another version of
//! the runtime, which rewrites other code or none, goes on from it alike.

use core::sync::atomic::Ordering;

use events::{
    BIRTH_FIXED_BYTES, EVENT_BYTES_MAX, HEADER_BYTES, Kind, MAP_RECORD_BYTES, RESUME_STATE_WORDS, Tag,
    WINDOW, padded, resume_state,
};
use lane_protocol::{Checkpoint, checkpoint_state, image_result};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::List;
use crate::code::{non_executable, own_vdso, sites, trampolines};
use crate::ground::kernel::{self, error};
use crate::ground::maps::{self, Mapping, VDSO, protection};
use crate::ground::proc_files::{self, Path};
use crate::ground::registers::Registers;
use crate::ground::stack_limit;
use crate::ground::vector_state::vector_state;
use crate::log::images::{log_own_pages, words_of};
use crate::log::kept_files::{self, Kept};
use crate::log::lanes;
use crate::state::block::{Thread, known_threads, process, space, thread_at, thread_status};
use crate::state::own_descriptors::open_high;
use crate::state::signal_state::ResumeState;
use crate::state::stacks::signal_stack;

/// In place of a kept file's id.
const NO_FILE: u64 = u32::MAX as u64;
/// Room in the event for what follows the mappings.
const ROOM_BYTES: usize = 1024;
const PATH_BYTES: usize = 4096;

/// Why no trace can begin at a checkpoint of the process, if so.
pub fn obstacle() -> Option<i64> {
    let shares = space().shared_count != 0 || process().in_group || process().in_parents_memory;
    shares.then_some(error(errno::EXDEV))
}

/// In the shadow `own`: writes the image if that is asked.
pub fn serve(slot: &Checkpoint, own: i32) {
    let is_ours = slot.shadow.load(Ordering::Acquire) == own
        && slot.state.load(Ordering::Acquire) == checkpoint_state::TAKEN;
    let asked = slot.image_segment.load(Ordering::Acquire);
    if asked == 0 || !is_ours {
        return;
    }
    const ALL_CHILDREN: u64 = 0x4000_0000;
    let writer = kernel::call(nr::__NR_clone, [0; 6]);
    if writer == 0 {
        write(u64::from(asked) - 1, own);
    }
    let mut status = 0u32;
    let waited = kernel::call(nr::__NR_wait4, [writer as u64, &raw mut status as u64, ALL_CHILDREN, 0, 0, 0]);
    let is_known = waited == writer && !kernel::failed(writer) && status & 0x7f == 0;
    let result = if is_known { status >> 8 & 0xff } else { image_result::FAILED };
    slot.image_segment.store(0, Ordering::Release);
    slot.image_result.store(result.max(image_result::WRITTEN), Ordering::Release);
}

/// The writer, which ends with the result.
fn write(segment: u64, shadow: i32) -> ! {
    kernel::end_with_parent();
    if kernel::call(nr::__NR_getppid, [0; 6]) != i64::from(shadow) {
        kernel::exit_group(image_result::FAILED as i32);
    }
    let process = &mut *process();
    lanes::map_lane(0, segment, process.control_fd);
    process.segment = segment;
    process.pid = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    process.log.attach(0);
    kernel::exit_group(write_image() as i32)
}

fn write_image() -> u32 {
    if obstacle().is_some() {
        return image_result::SHARES_MEMORY;
    }
    show_own_code();
    let parts = &mut area().lists.now;
    if !list_parts(parts) {
        return image_result::UNKNOWN_MAPS;
    }
    let mut path = [0u8; PATH_BYTES];
    let target = [c"/proc/self/exe".as_ptr() as u64, path.as_mut_ptr() as u64, PATH_BYTES as u64, 0, 0, 0];
    let path_bytes = kernel::call(nr::__NR_readlink, target).max(0) as usize;
    let fixed = BIRTH_FIXED_BYTES + parts.count * MAP_RECORD_BYTES + padded(path_bytes);
    if HEADER_BYTES + fixed + ROOM_BYTES > EVENT_BYTES_MAX {
        return image_result::TOO_MANY_MAPS;
    }
    let parts = &parts.all[..parts.count];
    let log = &mut process().log;
    log.begin(Kind::Birth, 0, WINDOW);
    log.word(first_address());
    log.word(stack_start());
    log.word(space().break_start);
    log.word(parts.len() as u64 | (path_bytes as u64) << 32);
    for part in parts {
        log_part(part);
    }
    log.raw(path.as_ptr() as u64, path_bytes as u64);
    // As at every birth, and where the break is.
    let (start, now) = (space().break_start, space().break_now);
    for word in [start, thread_at(0).signals.mask, stack_limit::stack_limit(), now] {
        log.blob(word, 0, Tag::Memory, 0);
    }
    log_memory(parts);
    let (place, bytes) = process().actions().as_memory();
    log.whole_blob(0, bytes, Tag::Actions, place);
    for index in threads() {
        log_thread(&thread_at(index));
    }
    log.end();
    trampolines::log_all();
    image_result::WRITTEN
}

/// The program's threads.
fn threads() -> impl Iterator<Item = usize> {
    let own = &raw const *process() as u64;
    (0..known_threads()).filter(move |&index| {
        let block = &mut *thread_at(index);
        block.process == own && block.status == thread_status::LIVE
    })
}

/// Takes back what the runtime has changed for the program's sight: its code, where its
/// threads stand in that, and what it may read and execute.
fn show_own_code() {
    for index in threads() {
        let block = &mut *thread_at(index);
        block.fault_registers = registers_of(block);
    }
    let then = &area().lists.then;
    for mapping in then.all[..then.count].iter().filter(|mapping| mapping.private && !mapping.readable) {
        kernel::mprotect(mapping.start, mapping.end - mapping.start, protection(mapping));
    }
    non_executable::give_back();
    sites::restore_all();
}

/// The registers with which a thread goes on in the program's own code: one that is in a
/// call is about to make it.
fn registers_of(block: &Thread) -> Registers {
    let mut registers = match block.resume_state {
        // SAFETY: as in `resuming::resume`.
        ResumeState::Call | ResumeState::Preemption => unsafe { *(block.registers_at as *const Registers) },
        ResumeState::Beginning | ResumeState::Fault | ResumeState::Boarded => block.fault_registers,
    };
    registers.rip = match block.resume_state {
        ResumeState::Call => registers.rcx.wrapping_sub(2),
        _ => sites::original(registers.rip),
    };
    registers
}

// --- mappings ---

/// The mappings that replay makes: those of the program, without the trampolines. In place of
/// the device stands the id of the kept file. False if there are too many.
fn list_parts(parts: &mut List) -> bool {
    parts.count = 0;
    let mut last = (u64::MAX, u64::MAX, NO_FILE);
    let mut fits = true;
    let complete = maps::for_each_named(c"/proc/thread-self/maps", &mut |mapping, name| {
        let is_vdso = name == VDSO && space().boarded;
        if mapping.is_kernels && !is_vdso {
            return;
        }
        if mapping.inode != 0 && (last.0, last.1) != (mapping.device, mapping.inode) {
            last = (mapping.device, mapping.inode, kept_file(mapping, name));
        }
        let file = if mapping.inode == 0 { NO_FILE } else { last.2 };
        fits &= add_parts(parts, &Mapping { device: file, ..*mapping });
    });
    complete && fits
}

/// Adds what no trampoline covers of a mapping.
fn add_parts(parts: &mut List, mapping: &Mapping) -> bool {
    let mut at = mapping.start;
    while at < mapping.end {
        let ahead = trampolines::all()
            .filter(|trampoline| trampoline.end > at)
            .min_by_key(|trampoline| trampoline.start);
        let (end, next) = match ahead {
            Some(trampoline) if trampoline.start < mapping.end => (trampoline.start.max(at), trampoline.end),
            _ => (mapping.end, mapping.end),
        };
        if end > at {
            let Some(place) = parts.all.get_mut(parts.count) else { return false };
            *place = Mapping { start: at, end, offset: mapping.offset + (at - mapping.start), ..*mapping };
            parts.count += 1;
        }
        at = next;
    }
    true
}

/// The id under which the content of a mapped file is kept.
fn kept_file(mapping: &Mapping, name: &[u8]) -> u64 {
    let mut path = [0u8; PATH_BYTES];
    let Some(room) = path.get_mut(..name.len() + 1) else { return NO_FILE };
    room[..name.len()].copy_from_slice(name);
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC | nr::O_NONBLOCK);
    let fd = kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0, 0, 0, 0]);
    if kernel::failed(fd) {
        return NO_FILE;
    }
    let (kept, identity) = kept_files::keep(fd as i32, mapping.executable);
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    match kept {
        // File systems whose maps show another device than stat (overlayfs, btrfs).
        Kept::File(file) if identity[1] == mapping.inode => u64::from(file),
        _ => NO_FILE,
    }
}

fn log_part(part: &Mapping) {
    const GROWS_DOWN: u64 = 1;
    const IS_VDSO: u64 = 2;
    let is_vdso = part.is_kernels || own_vdso::is_at(part.start);
    let flags = if part.is_stack { GROWS_DOWN } else { 0 } | if is_vdso { IS_VDSO } else { 0 };
    let log = &mut process().log;
    log.word(part.start);
    log.word(part.end);
    log.word(u64::from(protection(part)) | flags << 32);
    log.word(part.device);
    log.word(part.offset);
}

/// Logs all memory that no kept file holds.
fn log_memory(parts: &[Mapping]) {
    let pagemap = open_high(c"/proc/thread-self/pagemap").map_or(-1, i64::from);
    for part in parts {
        let bytes = part.end - part.start;
        if !part.readable {
            kernel::mprotect(part.start, bytes, protection(part) | nr::PROT_READ);
        }
        let is_kept = part.device != NO_FILE;
        if part.is_kernels || part.inode != 0 && !is_kept {
            process().log.blob(part.start, bytes, Tag::Memory, part.start);
        } else {
            log_own_pages(&Mapping { inode: u64::from(is_kept), ..*part }, pagemap);
        }
    }
}

// --- threads ---

/// How the thread goes on whose event was the last.
fn first_address() -> u64 {
    let first = process().logged_thread as usize;
    let index = threads().find(|&index| index == first).or_else(|| threads().next());
    index.map_or(0, |index| thread_at(index).fault_registers.rip)
}

fn log_thread(block: &Thread) {
    let (log, index) = (&mut process().log, block.index as u64);
    let words = words_of(block);
    log.whole_blob(index, size_of_val(&words) as u64, Tag::ThreadState, words.as_ptr() as u64);
    log.whole_blob(index, u64::from(vector_state().bytes), Tag::Vectors, signal_stack(block.index));
    let stands = match block.resume_state {
        ResumeState::Beginning => resume_state::BEGINS,
        ResumeState::Preemption => resume_state::PREEMPTED,
        ResumeState::Call | ResumeState::Fault | ResumeState::Boarded => resume_state::RUNS,
    };
    let was_last = u64::from(process().logged_thread == index as u32);
    let fault = block.signals.last_fault;
    let words: [u64; RESUME_STATE_WORDS] = [stands, was_last, fault[0], fault[1], fault[2]];
    log.whole_blob(index, size_of_val(&words) as u64, Tag::ResumeState, words.as_ptr() as u64);
}

/// Where the program's stack began (proc_pid_stat(5), field 28); 0 if that is not told.
fn stack_start() -> u64 {
    const FIELD: usize = 28;
    let (mut path, mut text) = (Path::new(), [0u8; 1024]);
    path.text(b"/proc/self/stat").read(&mut text).map_or(0, |text| proc_files::stat_number(text, FIELD))
}
