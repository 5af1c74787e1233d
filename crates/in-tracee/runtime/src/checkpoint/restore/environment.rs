//! A process that went back instead of dying goes on in a changed environment: its
//! allocator's functions begin with jumps, as the supervisor has planned it.
//!
//! Deliberately absent: what the code at their targets does (the supervisor's
//! `environment`).

use core::sync::atomic::Ordering;

use events::{Kind, Tag};
use lane_protocol::{
    CHANGE_BYTES, CHANGE_CODE_BYTES_MAX, Checkpoint, CodeChange, ENTRIES_MAX, ENTRY_BYTES_MAX, Entry,
    environment, recover_way, request, unchanged,
};
use linux_abi::general as nr;

use crate::address_space::code_changes::{self, JUMP_BYTES};
use crate::checkpoint::area::area;
use crate::code::sites;
use crate::ground::kernel;
use crate::ground::memory::{self, in_region};
use crate::ground::registers::Registers;
use crate::log::borrowed;
use crate::log::kept_files::request_answer;
use crate::state::block::{Thread, known_threads, process, session, space, thread_at, thread_status};
use crate::state::signal_state::ResumeState;

const HEADER_BYTES: u64 = size_of::<CodeChange>() as u64;
/// How far up a stack frames of signals are looked for.
const STACK_BYTES: u64 = 0x4_0000;

/// True if this way of going on from a checkpoint would change nothing.
pub fn is_so(checkpoint: &Checkpoint, way: u32) -> bool {
    let wanted = way & environment::ALL;
    let has = checkpoint.environment.load(Ordering::Relaxed);
    way & recover_way::ENVIRONMENT != 0 && has & wanted == wanted
}

/// All is as it was at the checkpoint, and no thread runs yet: makes the change, or says why
/// not. Nothing, if none was asked for.
pub fn change() {
    let way = area().recovering[0] as u32;
    if way & recover_way::ENVIRONMENT == 0 {
        return;
    }
    match make() {
        Ok(()) => space().environment |= way & environment::ALL,
        Err(reason) => {
            request_answer(request::UNCHANGED, [u64::from(reason), 0, 0, 0], &session().doorbell);
        }
    }
}

/// Reads what the supervisor wrote, and makes the first of it so for which there is memory;
/// else why not.
fn make() -> Result<(), u32> {
    let fd = borrowed::open(lane_protocol::borrowed::CHANGE, [0; 2]);
    if kernel::failed(fd) {
        return Err(unchanged::NO_MEMORY);
    }
    let (mut made, mut offset) = (Err(unchanged::NO_MEMORY), 0);
    let mut change = CodeChange::default();
    while made == Err(unchanged::NO_MEMORY) && read(fd, &raw mut change as u64, HEADER_BYTES, offset) {
        made = make_as(&change, fd, offset + HEADER_BYTES);
        offset += CHANGE_BYTES;
    }
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    made
}

fn read(fd: i64, target: u64, bytes: u64, offset: u64) -> bool {
    kernel::call(nr::__NR_pread64, [fd as u64, target, bytes, offset, 0, 0]) == bytes as i64
}

/// Makes it so, with the code that the file has there.
fn make_as(change: &CodeChange, fd: i64, code_at: u64) -> Result<(), u32> {
    let CodeChange { place, place_bytes, code_bytes, count, .. } = *change;
    let fits = code_bytes <= CHANGE_CODE_BYTES_MAX.min(place_bytes) && !in_region(place, place_bytes);
    let Some(entries) = change.entries.get(..count as usize).filter(|_| fits) else {
        return Err(unchanged::NO_MEMORY);
    };
    check(entries)?;
    if !kernel::map_code(place, place_bytes) {
        return Err(unchanged::NO_MEMORY);
    }
    if !read(fd, place, code_bytes, code_at) || !write_jumps(entries) {
        kernel::munmap(place, place_bytes);
        return Err(unchanged::NO_MEMORY);
    }
    let log = &mut process().log;
    log.begin(Kind::Change, 0, (area().recovering[0] as u32 & environment::ALL) as u16);
    log.word(place);
    log.word(place_bytes);
    log.blob(place, code_bytes, Tag::Memory, place);
    for entry in entries {
        log.blob(entry.address, JUMP_BYTES, Tag::Memory, entry.jump.as_ptr() as u64);
    }
    log.end();
    Ok(())
}

/// Writes all of them, or none.
fn write_jumps(entries: &[Entry]) -> bool {
    let jump = JUMP_BYTES as usize;
    let written =
        entries.iter().take_while(|entry| sites::write_code(entry.address, &entry.jump[..jump])).count();
    if written < entries.len() {
        entries[..written].iter().for_each(|entry| {
            sites::write_code(entry.address, &entry.was[..jump]);
        });
        return false;
    }
    entries.iter().for_each(|entry| code_changes::note_jump(entry.address));
    true
}

/// The code is what it is taken for, and nobody is in it.
fn check(entries: &[Entry]) -> Result<(), u32> {
    for entry in entries {
        let mut now = [0u8; ENTRY_BYTES_MAX];
        let bytes = entry.bytes.min(ENTRY_BYTES_MAX as u64);
        let is_known = bytes >= JUMP_BYTES
            && memory::copy(now.as_mut_ptr() as u64, entry.address, bytes)
            && now[..bytes as usize] == entry.was[..bytes as usize];
        if !is_known {
            return Err(unchanged::OTHER_CODE);
        }
    }
    let mut starts = [0u64; ENTRIES_MAX];
    for (slot, entry) in starts.iter_mut().zip(entries) {
        *slot = entry.address;
    }
    let starts = &starts[..entries.len()];
    let is_in_use =
        |address: u64| starts.iter().any(|&start| (start + 1..start + JUMP_BYTES).contains(&address));
    let own = &raw const *process() as u64;
    let mut threads = (0..known_threads())
        .map(thread_at)
        .filter(|block| block.process == own && block.status == thread_status::LIVE);
    if threads.any(|block| stands_in(&block, &is_in_use)) { Err(unchanged::IN_USE) } else { Ok(()) }
}

/// True if the thread goes on at such an address, or does so once its handlers have returned.
fn stands_in(block: &Thread, is_in_use: &dyn Fn(u64) -> bool) -> bool {
    let registers = match block.resume_state {
        // SAFETY: as in `resuming::resume`.
        ResumeState::Call | ResumeState::Preemption => unsafe { *(block.registers_at as *const Registers) },
        ResumeState::Beginning | ResumeState::Fault | ResumeState::Boarded => block.fault_registers,
    };
    let stack = registers.rsp & !7;
    let mut words = (0..STACK_BYTES / 8).map_while(|index| memory::read_word(stack + index * 8));
    is_in_use(registers.rip) || words.any(is_in_use)
}
