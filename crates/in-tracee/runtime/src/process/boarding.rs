//! A process that ran already when the session came to it: all of its threads begin
//! here, where the injector sent them, and go on where they stood.
//!
//! The first thread writes the log's beginning once all others are here: the memory
//! that no kept file holds, the signal actions, and each thread. Replay builds the
//! process from that and lets its threads go on alike.
//!
//! Invariant: what a thread was doing when it was stopped is a place in the program's
//! code; a call that was under way is made again from there.

use core::sync::atomic::Ordering;

use events::{BOARDED_THREAD_WORDS, Kind, RESUME_STATE_WORDS, SHARED_MAP_WORDS, Tag, resume_state};
use lane_protocol::{
    BOARD_CALL, BOARDING_START, Boarder, Boarding, CodeMap, SharedMapping, boarder_address, boarding_state,
};
use linux_abi::general as nr;

use crate::address_space::{mapped_files, segments, unforked};
use crate::checkpoint::observed_calls;
use crate::checkpoint::restore::rollback;
use crate::code::{clocks, own_vdso, sites};
use crate::debugger::copies;
use crate::ground::maps::{self, Mapping, VDSO};
use crate::ground::owned::Held;
use crate::ground::registers::Registers;
use crate::ground::vector_state::vector_state;
use crate::ground::{frame, kernel, memory, notices, stack_limit};
use crate::log::images::{log_own_pages, words_of};
use crate::process::{boarded_sharing, threads};
use crate::scheduler::token;
use crate::signals;
use crate::state::block::{
    Thread, enter_block, known_threads, own_block, prepare_block, process, provide_thread, space, thread,
    thread_at, thread_status,
};
use crate::state::own_descriptors::{close, open_high};
use crate::state::proc_dir;
use crate::state::report;
use crate::state::signal_state::ResumeState;
use crate::state::stacks::{signal_stack, stack_top};

fn table() -> &'static Boarding {
    // SAFETY: the injector mapped and filled it before it sent the threads here.
    unsafe { &*(BOARDING_START as *const Boarding) }
}

fn boarder(index: usize) -> Held<Boarder> {
    // SAFETY: as above; an entry belongs to its thread, and before that to the first.
    unsafe { Held::of(boarder_address(index) as *mut Boarder) }
}

fn code_maps() -> &'static [CodeMap] {
    &table().code[..table().code_count as usize]
}

fn shared_mappings() -> &'static [SharedMapping] {
    &table().shared[..table().shared_count as usize]
}

fn set_state(state: u32) {
    table().state.store(state, Ordering::Release);
    kernel::futex_wake(&table().state);
}

// --- recording ---

/// The process's first thread, which has its block: brings the others in, begins the
/// log, and goes on as the program.
pub fn begin() -> ! {
    let count = table().count as usize;
    if table().proc_dir != 0 {
        proc_dir::take(table().proc_dir as i32 - 1);
    }
    for index in 0..count {
        if !provide_thread(index) {
            report::die("memory for the threads could not be mapped");
        }
        let block = &mut *prepare_block(index, 0);
        boarder(index).block = block.own_address;
        boarder(index).stack_top = stack_top(index);
    }
    process().threads = count as u32;
    space().boarded = true;
    set_state(boarding_state::PREPARED);
    arrive(0);
    loop {
        let seen = table().arrived.load(Ordering::Acquire);
        if seen as usize == count {
            break;
        }
        kernel::futex_wait(&table().arrived, seen, 1000);
    }
    space().break_start = table().break_start;
    space().break_now = kernel::call(nr::__NR_brk, [0; 6]) as u64;
    let mut acts = process().actions();
    acts.learn_all();
    log_image();
    clocks::find_vdso(0);
    signals::install();
    signals::follow_actions();
    for map in code_maps() {
        sites::code_mapped(*map);
    }
    if has_unknown_code() {
        clocks::trap_time();
    }
    for known in &table().advised[..table().advised_count as usize] {
        unforked::note(known.start, known.end - known.start, known.advice as u32);
    }
    observed_calls::begin();
    if count > 1 {
        token::begin_sharing();
        crate::code::spin_sites::begin_counting();
    }
    boarded_sharing::begin(shared_mappings());
    set_state(boarding_state::OPEN);
    go_on()
}

/// Another thread, which has its block: waits until the log has begun.
pub unsafe extern "C" fn board(own: *const Boarder) -> ! {
    arrive((own as u64 - boarder_address(0)) as usize / size_of::<Boarder>());
    while table().state.load(Ordering::Acquire) != boarding_state::OPEN {
        kernel::futex_wait(&table().state, boarding_state::PREPARED, 1000);
    }
    go_on()
}

/// The calling thread keeps what it has of the program's, and takes what it needs.
fn arrive(index: usize) {
    const RSEQ_FLAG_UNREGISTER: u64 = 1;
    const PR_GET_TID_ADDRESS: u64 = 40;
    let (told, own) = (&mut *boarder(index), &mut *thread());
    if index != 0 {
        let place = &raw mut told.clear_tid as u64;
        kernel::call(nr::__NR_prctl, [PR_GET_TID_ADDRESS, place, 0, 0, 0, 0]);
        own_block();
    }
    let mut stack = [0u64; 3];
    kernel::call(nr::__NR_sigaltstack, [0, stack.as_mut_ptr() as u64, 0, 0, 0, 0]);
    let [address, length, signature] = told.rseq;
    if address != 0 {
        kernel::call(nr::__NR_rseq, [address, length, RSEQ_FLAG_UNREGISTER, signature, 0, 0]);
    }
    own.signals.begin_thread(told.mask);
    own.signals.stack.take_over(stack);
    own.clear_tid = told.clear_tid;
    own.robust_list = told.robust_list;
    own.rseq = told.rseq;
    own.fs_base = crate::ground::registers::fs_base();
    own.fault_registers = Registers::from_words(told.registers);
    own.resume_state = ResumeState::Boarded;
    clocks::begin_untrapped();
    frame::save_vectors_at(signal_stack(index));
    table().arrived.fetch_add(1, Ordering::AcqRel);
    kernel::futex_wake(&table().arrived);
}

/// What follows the birth event that the injector put into the log.
fn log_image() {
    let log = &mut process().log;
    log.begin(Kind::Data, 0, 0);
    // As at every birth, and where the break is.
    let break_now = space().break_now;
    for word in [space().break_start, thread().signals.mask, stack_limit::stack_limit(), break_now] {
        log.blob(word, 0, Tag::Memory, 0);
    }
    for range in &table().ranges[..table().range_count as usize] {
        log.blob(range.start, range.end - range.start, Tag::Memory, range.start);
    }
    boarded_sharing::log(shared_mappings());
    log_memory();
    note_files();
    let (place, bytes) = process().actions().as_memory();
    log.whole_blob(0, bytes, Tag::Actions, place);
    for index in 0..table().count as usize {
        let words = words_of(&thread_at(index));
        log.whole_blob(index as u64, size_of_val(&words) as u64, Tag::ThreadState, words.as_ptr() as u64);
        log.whole_blob(index as u64, u64::from(vector_state().bytes), Tag::Vectors, signal_stack(index));
    }
    log.end();
}

/// Logs all memory that is the process's own.
fn log_memory() {
    // One that changed its user may not open it as it is, and loses what it has of files else.
    let opened = open_high(c"/proc/thread-self/pagemap");
    let pagemap = opened.map_or(-1, i64::from);
    maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
        let bytes = map.end - map.start;
        if name == VDSO {
            process().log.blob(map.start, bytes, Tag::Memory, map.start);
        } else if map.private && !map.is_kernels {
            let is_closed = !map.readable;
            if is_closed {
                kernel::mprotect(map.start, bytes, maps::protection(map) | nr::PROT_READ);
            }
            log_own_pages(map, pagemap);
            if is_closed {
                kernel::mprotect(map.start, bytes, maps::protection(map));
            }
        }
    });
    if let Some(opened) = opened {
        close(opened);
    }
}

/// What the program writes from here on to files that it has mapped, its mappings show.
fn note_files() {
    maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
        if map.inode == 0 || map.is_kernels {
            return;
        }
        let only_shows = !map.private && !map.writable;
        mapped_files::note(mapped_files::Place {
            start: map.start,
            end: map.end,
            identity: identity_of(map, name),
            offset: map.offset,
            only_shows,
            is_private: map.private,
        });
    });
}

/// Files are known by what stat(2) says of them; one without a name any more by its device
/// as the list has it.
pub fn identity_of(map: &Mapping, name: &[u8]) -> [u64; 2] {
    const NAME_BYTES: usize = 4096;
    const SEGMENT_NAME: &[u8] = b"/SYSV";
    if name.starts_with(SEGMENT_NAME) {
        return segments::identity_of(map.inode);
    }
    let mut path = [0u8; NAME_BYTES];
    let mut status = [0u64; mapped_files::STATUS_WORDS];
    let place = [path.as_ptr() as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0];
    let is_found = name.len() < NAME_BYTES && {
        path[..name.len()].copy_from_slice(name);
        !kernel::failed(kernel::call(nr::__NR_stat, place))
    };
    let has_name = is_found && status[mapped_files::STATUS_INODE] == map.inode;
    [if has_name { status[0] } else { maps::stat_device(map.device) }, map.inode]
}

/// Code of which nobody knows whether it reads time unseen.
fn has_unknown_code() -> bool {
    let mut found = false;
    maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
        let is_known = || code_maps().iter().any(|known| known.start <= map.start && map.end <= known.end);
        let written_by_us = crate::code::trampolines::in_trampoline(map.start);
        found |= map.executable && !map.is_kernels && name != VDSO && !written_by_us && !is_known();
    });
    found
}

/// The process goes on without us: what stands for the vDSO makes its calls by itself.
pub fn leave_vdso() {
    /// Of the address in each body, to its start; and to what jumps over it there.
    const ADDRESS_AT: u64 = 21;
    const JUMP_AT: u64 = 5;
    /// `jmp` to the call's instruction.
    const JUMP: [u8; 2] = [0xeb, 22];
    let mut vdso = own_vdso::place().map_or(0..0, |(start, end)| start..end);
    if space().boarded {
        maps::for_each_named(c"/proc/thread-self/maps", &mut |map, name| {
            if name == VDSO {
                vdso = map.start..map.end;
            }
        });
    }
    let bytes = vdso.end - vdso.start;
    let read_write = nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC;
    let mut at = vdso.start + ADDRESS_AT;
    let mut opened = false;
    while at + 8 <= vdso.end {
        if memory::read_word(at) == Some(BOARD_CALL) {
            if !opened && kernel::failed(kernel::mprotect(vdso.start, bytes, read_write)) {
                return;
            }
            opened = true;
            memory::write(at - ADDRESS_AT + JUMP_AT, &JUMP);
        }
        at += 1;
    }
    if opened {
        kernel::mprotect(vdso.start, bytes, nr::PROT_READ | nr::PROT_EXEC);
    }
}

// --- replaying ---

/// A blob of the birth event that is about the process's threads.
pub fn replay_blob(tag: Tag, address: u64, bytes: u64, source: u64) {
    let index = address as usize;
    match tag {
        Tag::Actions => {
            let (place, room) = process().actions().as_memory();
            memory::copy(place, source, bytes.min(room));
            process().actions().know_all();
        }
        Tag::ThreadState if bytes == 8 * BOARDED_THREAD_WORDS as u64 && provide(index) => {
            // SAFETY: the log holds as many words.
            let words = unsafe { &*(source as *const [u64; BOARDED_THREAD_WORDS]) };
            let block = &mut *prepare_block(index, 0);
            block.fs_base = words[0];
            block.signals.begin_thread(words[1]);
            block.signals.stack.take_over([words[2], words[3], words[4]]);
            block.clear_tid = words[5];
            block.robust_list = [words[6], words[7]];
            let mut registers = [0; 18];
            registers.copy_from_slice(&words[8..]);
            block.fault_registers = Registers::from_words(registers);
            block.resume_state = ResumeState::Boarded;
        }
        Tag::ResumeState if bytes == 8 * RESUME_STATE_WORDS as u64 && provide(index) => {
            // SAFETY: the log holds as many words.
            let words = unsafe { &*(source as *const [u64; RESUME_STATE_WORDS]) };
            let block = &mut *thread_at(index);
            block.resume_state = match words[0] {
                resume_state::PREEMPTED => ResumeState::Preemption,
                resume_state::BEGINS => ResumeState::Beginning,
                _ => ResumeState::Boarded,
            };
            block.registers_at = &raw const block.fault_registers as u64;
            block.signals.last_fault.copy_from_slice(&words[2..]);
            if words[1] != 0 {
                process().logged_thread = index as u32;
            }
        }
        Tag::SharedMap if bytes == 8 * SHARED_MAP_WORDS as u64 => {
            // SAFETY: the log holds as many words.
            boarded_sharing::replay(address, unsafe { &*(source as *const [u64; SHARED_MAP_WORDS]) });
        }
        Tag::Vectors if provide(index) => frame::keep_vectors(signal_stack(index), source, bytes),
        _ => {}
    }
}

fn provide(index: usize) -> bool {
    if index >= lane_protocol::THREADS_MAX || !provide_thread(index) {
        report::fail("the log has a thread that there is no room for");
    }
    true
}

/// The memory is there, and the threads' blocks are filled: makes them, and goes on.
/// `first`: whether the process's first thread is among them.
pub fn replay(code: &[CodeMap], has_unknown_code: bool, first: bool) -> ! {
    for map in code {
        sites::code_mapped(*map);
    }
    if has_unknown_code {
        clocks::trap_time();
    }
    let process = &mut *process();
    let own = thread().index;
    thread().status = if first { thread_status::LIVE } else { thread_status::ENDED };
    let is_live = |index: usize| index < known_threads() && thread_at(index).status == thread_status::LIVE;
    let others = || (0..known_threads()).filter(|&index| index != own && is_live(index));
    process.threads = u32::from(first) + others().count() as u32;
    if process.threads > 1 {
        crate::code::spin_sites::begin_counting();
    }
    process.running_thread.store(process.logged_thread, Ordering::SeqCst);
    if !is_live(process.logged_thread as usize) {
        rollback::pass_on();
    }
    if !is_live(process.running_thread.load(Ordering::SeqCst) as usize) {
        report::log_ended();
    }
    for index in others() {
        let block = &mut *thread_at(index);
        block.start = begin_replaying as *const () as u64;
        threads::remake_kernel_thread(block);
    }
    if !first {
        // It had ended before the log begins.
        copies::stay_if_first();
        loop {
            kernel::call(nr::__NR_exit, [0; 6]);
        }
    }
    go_on()
}

unsafe extern "C" fn begin_replaying(block: *mut Thread) -> ! {
    // SAFETY: the maker prepared the block for us alone.
    enter_block(unsafe { (*block).index });
    go_on()
}

// --- both ---

/// The calling thread goes on where it stood.
fn go_on() -> ! {
    let own = &mut *thread();
    token::begin_thread();
    signals::use_own_stack();
    crate::code::interception::intercept();
    if process().replays() {
        clocks::follow_traps();
        kernel::set_fs_base(own.fs_base);
        frame::load_vectors_from(signal_stack(own.index));
        own.user_registers = &raw const own.fault_registers as u64;
    }
    notices::thread_goes_on()
}
