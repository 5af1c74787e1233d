//! Making and ending processes: fork, vfork, clone, exec, exit.
//!
//! Every process has a lane of its own. A child of vfork runs in our memory while
//! we wait inside the kernel: it takes the next blocks and its own lane.

use core::sync::atomic::{AtomicU32, Ordering};

use events::{Kind, StopReason, Tag};
use lane_protocol::{
    Interception, LANE_HEADER_BYTES, LANE_SLOTS, RING_BYTES, SEGMENT_BYTES, SEGMENTS, lane_header_address,
    lane_state, request, segment_offset, thread_identity,
};
use linux_abi::{errno, general as nr};

use crate::address_space::{descriptor_classes, page_tracker, shared_ranges};
use crate::debugger::breakpoints;
use crate::ground::assembly::{rv_clone_shared, rv_resume};
use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::ground::registers::Registers;
use crate::lab;
use crate::log::call_event::{self, begin_call, inject, inject_with};
use crate::log::kept_files::request_answer;
use crate::log::lanes::map_lane;
use crate::process::{detach, given_filters, namespaces, threads};
use crate::scheduler::{contention, encounters, forced, held_threads, output_lock, own_token, token};
use crate::signals::{self, deaths, robust_futexes};
use crate::state::block::{
    enter_block, find_free_process, find_free_thread, forget_other_processes, forget_other_threads,
    index_of_process, lane, own_block, populate, prepare_block, process, process_at, session, thread,
    thread_at, thread_status,
};
use crate::state::call_state::{self, Done};
use crate::state::proc_dir;
use crate::state::runtime_log::{LogSubject, say};
use crate::state::unborn::{NO_SEGMENT, sharer_is_there};
use crate::state::{group_replay, report};

const VM: u64 = nr::CLONE_VM as u64;
const FILES: u64 = nr::CLONE_FILES as u64;
const VFORK: u64 = nr::CLONE_VFORK as u64;
const THREAD: u64 = nr::CLONE_THREAD as u64;
const SIGHAND: u64 = nr::CLONE_SIGHAND as u64;
/// Of clone3(2) only: handlers become the default.
const CLEAR_SIGHAND: u64 = 1 << 32;
/// Of clone3(2) only, as clone(2) has a signal there: a clock of its own.
const NEW_TIME: u64 = nr::CLONE_NEWTIME as u64;
/// Of clone3(2) only: the child begins in a control group.
const INTO_CGROUP: u64 = 1 << 33;
const PARENT: u64 = nr::CLONE_PARENT as u64;
pub const PARENT_SETTID: u64 = nr::CLONE_PARENT_SETTID as u64;
pub const CHILD_SETTID: u64 = nr::CLONE_CHILD_SETTID as u64;
pub const CHILD_CLEARTID: u64 = nr::CLONE_CHILD_CLEARTID as u64;
pub const SETTLS: u64 = nr::CLONE_SETTLS as u64;
pub const PIDFD: u64 = nr::CLONE_PIDFD as u64;

/// What clone(2) is asked for, however it was asked.
#[derive(Clone, Copy, Default)]
pub struct CloneRequest {
    /// With the signal at the child's end in the lowest byte; none has the bit of `NEW_TIME`.
    pub flags: u64,
    /// The child's stack pointer; 0: the parent's.
    pub stack: u64,
    pub parent_tid: u64,
    pub child_tid: u64,
    pub tls: u64,
    /// Where the descriptor of the child goes.
    pub pidfd: u64,
    /// Of clone3(2) only: the ids that the child is to have (address, count), and the descriptor of
    /// its control group.
    place: [u64; 3],
}

/// What a child has to know to begin.
#[derive(Clone, Copy)]
struct Beginning {
    flags: u64,
    /// It shares memory with its parent, which does not wait for it.
    shares: bool,
    /// Number of its thread.
    thread: usize,
    stack: u64,
    child_tid: u64,
    tls: u64,
    segment: u64,
    lane: u32,
    parent_lane: u32,
    /// In a lab.
    lab_slot: u32,
}

/// fork, vfork and clone, with clone's arguments.
pub fn fork(registers: &mut Registers, number: u64, args: [u64; 6]) -> Done {
    let [flags, stack, parent_tid, child_tid, tls, _] = args;
    let count = if number == u64::from(nr::__NR_clone) { 5 } else { 0 };
    // No such signals are sent, nor refused.
    let flags = if flags & NEW_TIME != 0 { flags & !0xff } else { flags };
    let request = CloneRequest { flags, stack, parent_tid, child_tid, tls, pidfd: parent_tid, place: [0; 3] };
    clone(registers, number, count, &request)
}

/// clone3(2): the same in a structure.
pub fn clone3(registers: &mut Registers, args: &[u64; 6]) -> Done {
    const FIRST_VERSION_BYTES: u64 = 64;
    const PAGE_BYTES: u64 = 4096;
    let [address, bytes, ..] = *args;
    let number = u64::from(nr::__NR_clone3);
    if process().replays()
        && let Some(word) = process().log.peek()
        && word.flags() & events::REFUSED != 0
    {
        return call_event::replayed(registers);
    }
    let mut given = [0u64; 11];
    let error = match bytes {
        0..FIRST_VERSION_BYTES => Some(errno::EINVAL),
        bytes if bytes > PAGE_BYTES => Some(errno::E2BIG),
        bytes => read_extensible(&mut given, address, bytes),
    };
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, tls, place @ ..] = given;
    let error = error.or_else(|| {
        let bad_stack = (stack == 0) != (stack_bytes == 0);
        let own_clock = if flags & THREAD == 0 { NEW_TIME } else { 0 };
        let bad = exit_signal > 64 || flags & 0xff & !own_clock != 0 || bad_stack;
        let unsupported = flags & THREAD != 0 && (place[0] != 0 || flags & INTO_CGROUP != 0);
        match (bad, unsupported) {
            (true, _) => Some(errno::EINVAL),
            (_, true) => Some(errno::ENOSYS),
            _ => None,
        }
    });
    if let Some(error) = error {
        return call_event::reject(registers, number, args, 2, error);
    }
    let stack = if stack == 0 { 0 } else { stack + stack_bytes };
    let request =
        CloneRequest { flags: flags | exit_signal, stack, parent_tid, child_tid, tls, pidfd, place };
    clone(registers, number, 2, &request)
}

/// Reads a structure that newer kernels make longer: what is behind the part that is known has to be 0,
/// else its error is E2BIG.
fn read_extensible(known: &mut [u64], address: u64, bytes: u64) -> Option<u32> {
    let known_bytes = size_of_val(known) as u64;
    if !memory::copy(known.as_mut_ptr() as u64, address, bytes.min(known_bytes)) {
        return Some(errno::EFAULT);
    }
    // As the kernel, which finds a byte that is not 0 before memory that is not there.
    for place in known_bytes..bytes {
        match memory::read::<u8>(address + place) {
            Some(0) => (),
            Some(_) => return Some(errno::E2BIG),
            None => return Some(errno::EFAULT),
        }
    }
    None
}

fn clone(registers: &mut Registers, number: u64, count: usize, request: &CloneRequest) -> Done {
    say(LogSubject::Process, "clone", [number, 0]);
    let CloneRequest { flags, stack, parent_tid, child_tid, tls, pidfd, place } = *request;
    let impossible =
        (flags & THREAD != 0 && flags & SIGHAND == 0) || (flags & SIGHAND != 0 && flags & VM == 0);
    if impossible {
        // The kernel refuses, and makes nothing.
        return call_event::reject(registers, number, &registers.args(), count, errno::EINVAL);
    }
    let (is_thread, shares_files) = (flags & THREAD != 0, flags & FILES != 0);
    if !is_thread || !shares_files {
        call_state::note_descriptors_given(is_thread || shares_files);
    }
    if is_thread {
        return threads::create(registers, number, count, request);
    }
    if process().replays() {
        return replay_fork(registers, request);
    }
    if flags & u64::from(nr::CLONE_FS) != 0 {
        // The child's root is ours.
        proc_dir::keep();
    }
    let unlogged = process().passes_through;
    let shares = if flags & VM != 0 {
        flags & VFORK == 0
    } else {
        shared_ranges::has_shared() || own_token::is_scheduled()
    };
    if shares {
        token::begin_group();
    }
    let segment = if unlogged { Some(NO_SEGMENT) } else { take_segment() };
    let Some(segment) = segment else {
        let text = "too many processes run at once, or the disk has no room for the log of one more";
        return stop(registers, StopReason::TooManyProcesses, text);
    };
    let mask = thread().signals.mask;
    let thread = if flags & VM != 0 { find_free_thread() } else { Some(thread().index) };
    let Some(thread) = thread else {
        return call_event::reject(registers, number, &registers.args(), count, errno::EAGAIN);
    };
    let lab_slot = lab::reserve();
    let beginning = Beginning {
        lab_slot: lab_slot.unwrap_or_default(),
        flags,
        shares,
        thread,
        stack,
        child_tid,
        tls,
        segment,
        lane: session().next_lane.fetch_add(1, Ordering::AcqRel),
        parent_lane: process().lane,
    };
    // The parent of a child with memory of its own, and with memory of the lane's,
    // waits without the token: the child needs it.
    let waits = shares && flags & VFORK != 0 && !unlogged;
    let seen = if waits { gone_word(segment).load(Ordering::Acquire) } else { 0 };
    let waiting = if waits { VFORK } else { 0 };
    let ours = waiting | CHILD_SETTID | CHILD_CLEARTID | SETTLS | PARENT_SETTID | CLEAR_SIGHAND;
    let mut own_pidfd = 0u32;
    let has_place = place[0] != 0 || place[1] != 0 || flags & INTO_CGROUP != 0;
    let place_at = if has_place { &raw const place as u64 } else { 0 };
    let real = [flags & !ours, 0, &raw mut own_pidfd as u64, 0, place_at, 0];
    crate::checkpoint::observed_calls::note_fork(flags & VM != 0);
    if flags & FILES != 0 && flags & VM == 0 {
        page_tracker::give_up();
    }
    let child = thread_identity(beginning.lane, thread as u32);
    if shares {
        forced::expect(child);
        expect_sharer(segment);
        contention::before_birth();
    }
    // With no signal in between: nobody would make the child again of a parent that died of one
    // before this is logged.
    signals::set_real_mask(!0);
    // The child runs before this goes on.
    let is_vfork = flags & VFORK != 0;
    if is_vfork {
        lab::vfork(lab_slot, flags);
    }
    let result = make_child(registers, &beginning, real);
    if !is_vfork {
        lab::born(lab_slot, result, flags);
    } else if kernel::failed(result) {
        lab::vforked_aside(lab_slot, result);
    }
    if kernel::failed(result) {
        forced::forget(child);
        sharer_is_there(segment);
        if !unlogged {
            give_segment_back(segment);
        }
    } else if shares {
        name_sharer(segment, result as i32);
        if !waits && segment != NO_SEGMENT {
            encounters::note_birth(segment);
        }
    } else {
        encounters::note_lone_birth();
    }
    // In a lab others run before the call returns, and the child has left our memory by then.
    let lets_others_run = is_vfork && lab_slot.is_some() && !waits && result > 0 && process().shares_token;
    let logged = registers.args();
    begin_call(number, &logged, count, result, 0);
    let log = &mut process().log;
    if result > 0 {
        let child = u64::from(beginning.lane);
        log.blob(0, 8, Tag::Child, &raw const child as u64);
        let place = [beginning.thread as u64, u64::from(shares) | u64::from(lets_others_run) << 1];
        log.blob(0, 16, Tag::Thread, place.as_ptr() as u64);
        for (flag, address, value) in [(PARENT_SETTID, parent_tid, result as u32), (PIDFD, pidfd, own_pidfd)]
        {
            if flags & flag != 0 && memory::write(address, &value) {
                log.blob(address, 4, Tag::Memory, address);
            }
        }
    }
    log.end();
    signals::set_real_mask(mask);
    // A signal that follows comes next in the log: then nobody waits.
    if (waits || lets_others_run) && result > 0 && !log.follows {
        token::yield_while(&mut || {
            if waits {
                kernel::futex_wait(gone_word(segment), seen, 100);
                if gone_word(segment).load(Ordering::Acquire) == seen {
                    return true;
                }
            }
            lab::vforked(lab_slot, result);
            false
        });
    } else if is_vfork && result > 0 {
        lab::vforked_aside(lab_slot, result);
    }
    Done::Result(result)
}

/// Counts what left the memory that it had in this segment: by execve, or for good.
fn gone_word(segment: u64) -> &'static AtomicU32 {
    &session().gone[segment as usize]
}

/// The process is about to make one that shares memory: nothing can be done together before
/// that one takes part.
fn expect_sharer(segment: u64) {
    if segment != NO_SEGMENT {
        session().unborn[segment as usize].store(-process().outer_pid, Ordering::SeqCst);
    }
}

/// It was made: if it is killed before it has a token, the supervisor finds that out.
fn name_sharer(segment: u64, pid: i32) {
    if segment != NO_SEGMENT && process().pid_space == 0 {
        let (unborn, maker) = (&session().unborn[segment as usize], -process().outer_pid);
        let _ = unborn.compare_exchange(maker, pid, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// The process in this segment has left its memory.
pub fn leave_memory(segment: u64) {
    if segment != NO_SEGMENT {
        gone_word(segment).fetch_add(1, Ordering::AcqRel);
        kernel::futex_wake(gone_word(segment));
    }
}

fn stop(registers: &mut Registers, reason: StopReason, text: &str) -> Done {
    Done::Elsewhere(detach::detach(registers, reason as u16, text))
}

/// Makes the child; returns in the parent only.
fn make_child(registers: &Registers, beginning: &Beginning, args: [u64; 6]) -> i64 {
    if beginning.flags & VM != 0 {
        make_sharing_child(registers, beginning, args)
    } else {
        let mut structure = [0; 11];
        let [args @ .., number] = real_call(&args, &mut structure);
        let [a, b, c, d, e] = args;
        let result = kernel::call(number as u32, [a, b, c, d, e, 0]);
        if result == 0 {
            populate(false);
            begin_child(*registers, beginning);
        }
        populate(false);
        result
    }
}

/// The call that makes a child by clone(2)'s arguments and the address of a `CloneRequest::place`,
/// with its number at the end: by clone3(2), with its structure, where only that one has a bit for
/// what is asked.
fn real_call(args: &[u64; 6], structure: &mut [u64; 11]) -> [u64; 6] {
    let [flags, _, pidfd, child_tid, place, _] = *args;
    if flags & NEW_TIME == 0 && place == 0 {
        return [flags, 0, pidfd, child_tid, 0, u64::from(nr::__NR_clone)];
    }
    if place != 0 {
        // SAFETY: the address of what the caller has.
        structure[8..].copy_from_slice(unsafe { &*(place as *const [u64; 3]) });
    }
    structure[..5].copy_from_slice(&[flags & !0x7f, pidfd, child_tid, 0, flags & 0x7f]);
    let bytes = size_of_val(structure) as u64;
    [structure.as_ptr() as u64, bytes, 0, 0, 0, u64::from(nr::__NR_clone3)]
}

fn make_sharing_child(registers: &Registers, beginning: &Beginning, args: [u64; 6]) -> i64 {
    let index = beginning.thread;
    let Some(own) = find_free_process().or_else(deaths::free_killed) else {
        return -i64::from(errno::EAGAIN);
    };
    let child = &mut *prepare_block(index, own);
    child.start = vfork_child as *const () as u64;
    child.signals.begin_thread(thread().signals.mask);
    child.signals.stack = thread().signals.stack;
    child.preemption = crate::state::preemption::Preemption::default();
    child.waiter = Default::default();
    child.fs_base = thread().fs_base;
    child.programs_gs = thread().programs_gs;
    child.time_traps = thread().time_traps;
    child.time_forbidden = thread().time_forbidden;
    child.filters = thread().filters;
    child.alive.store(1, Ordering::Release);
    let mut args = args;
    if beginning.shares {
        args[0] |= CHILD_CLEARTID;
        args[3] = child.alive.as_ptr() as u64;
    }
    let mut structure = [0; 11];
    let args = real_call(&args, &mut structure);
    // SAFETY: both blocks are unused, and the child's alone from here on.
    let result = unsafe {
        core::ptr::copy_nonoverlapping(&raw const *process(), &raw mut *process_at(own), 1);
        let block = &mut *process_at(own);
        block.slot = own as u64;
        if beginning.flags & SIGHAND == 0 {
            block.take_actions_over();
        }
        block.in_parents_memory = true;
        block.threads = 1;
        BEGINNINGS.get().cast::<(Registers, Beginning)>().add(own).write((*registers, *beginning));
        rv_clone_shared(&args, core::ptr::from_mut(child).cast())
    };
    if !beginning.shares || kernel::failed(result) {
        // The child has gone: it ended, or has memory of its own.
        let child = &mut *thread_at(index);
        child.status = thread_status::FREE;
        child.alive.store(0, Ordering::Relaxed);
        process_at(own).threads = 0;
    }
    result
}

static BEGINNINGS: crate::ground::owned::Owned<core::mem::MaybeUninit<[(Registers, Beginning); LANE_SLOTS]>> =
    crate::ground::owned::Owned::new(core::mem::MaybeUninit::uninit());

/// A child of vfork arrives here, on its own stack.
pub unsafe extern "C" fn vfork_child(child: *mut crate::state::block::Thread) -> ! {
    // SAFETY: the parent set the block and the beginning up before it made us.
    unsafe {
        enter_block((*child).index);
        let own = index_of_process(&process());
        let (registers, beginning) = BEGINNINGS.get().cast::<(Registers, Beginning)>().add(own).read();
        begin_child(registers, &beginning)
    }
}

/// A child begins: its own lane, its own interception, then back to the program.
fn begin_child(mut registers: Registers, beginning: &Beginning) -> ! {
    let own = &mut *process();
    own.segment = beginning.segment;
    own.lane = beginning.lane;
    own.taking.store(0, Ordering::Relaxed);
    own.is_to_be_traced = false;
    own.near_group |= own.in_group;
    own.pid = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    own_block();
    if beginning.flags & VM == 0 {
        own.in_parents_memory = false;
        own.met_others = false;
        own.take_actions_over();
        forget_other_threads();
        forget_other_processes();
    } else {
        own.logged_thread = thread().index as u32;
    }
    thread().signals.forget_waiting();
    thread().clear_tid = if beginning.flags & CHILD_CLEARTID != 0 { beginning.child_tid } else { 0 };
    thread().robust_list = [0; 2];
    crate::preemption::preemption_timer::forget();
    if beginning.flags & VM == 0 {
        crate::address_space::page_tracker::begin_child();
        crate::address_space::shared_writes::begin_child();
    }
    thread().pending = 0;
    let broken = own.log.broken;
    if own.segment == NO_SEGMENT {
        map_own_lane(own.slot);
    } else {
        map_lane(own.slot, own.segment, own.control_fd);
    }
    let apart = beginning.flags & u64::from(nr::CLONE_NEWPID) != 0;
    let is_known = own.segment == NO_SEGMENT || namespaces::begin_child(apart);
    let header = &mut *lane();
    header.lane.store(own.lane, Ordering::Relaxed);
    header.parent_lane.store(beginning.parent_lane, Ordering::Relaxed);
    header.pid.store(own.outer_pid, Ordering::Relaxed);
    header.state.store(lane_state::LIVE, Ordering::Release);
    own.log.attach(own.slot);
    own.log.broken = broken;
    own.log.events = 0;
    crate::debugger::agent::begin_process();
    if own.replays() && own.has_agent() && !beginning.shares {
        // It is stopped, and copied: not in memory that is the parent's.
        leave_parents_memory();
    }
    signals::install();
    if beginning.flags & CLEAR_SIGHAND != 0 {
        signals::clear_handlers();
    }
    crate::code::interception::intercept();
    if beginning.flags & SETTLS != 0 {
        kernel::set_fs_base(beginning.tls);
        thread().fs_base = beginning.tls;
    }
    lab::start(beginning.lab_slot);
    if beginning.shares {
        token::begin_process_in_group();
    } else {
        token::begin_process();
    }
    if own.replays() {
        // Else it would go on for ever, if it computes, where replay is killed.
        kernel::end_with_parent();
        let Some(word) = own.log.peek() else { report::log_ended() };
        if !word.is(Kind::Syscall) || own.log.body(0) != 0 {
            report::diverge(&registers, word, u64::from(nr::__NR_clone), &[]);
        }
        inject(word, &registers);
        crate::preemption::preemption_point::arm_if_next();
    } else {
        crate::checkpoint::observed_calls::begin();
        log_beginning(beginning);
        signals::set_real_mask(thread().signals.mask);
    }
    registers.rax = 0;
    if !is_known || own.pid_space != 0 && crate::state::live::is_on() {
        // What goes back is found by its ids in the supervisor's namespace.
        detach::detach(
            &mut registers,
            StopReason::Unsupported as u16,
            "it has ids that are not known outside",
        );
        registers.rip = registers.rcx;
    }
    registers.r11 = registers.flags;
    if beginning.stack != 0 {
        registers.rsp = beginning.stack;
    }
    crate::debugger::agent::leaving(&mut registers);
    // SAFETY: the registers are the parent's at its call.
    unsafe { rv_resume(&registers) }
}

/// The child's first event: its own return from the call that made it.
fn log_beginning(beginning: &Beginning) {
    let own = &mut *process();
    let pid = own.pid as u64;
    own.log.begin(Kind::Syscall, 0, nr::__NR_clone as u16);
    own.log.word(0);
    if beginning.flags & CHILD_SETTID != 0 {
        memory::write(beginning.child_tid, &own.pid);
        own.log.blob(beginning.child_tid, 4, Tag::Memory, &raw const pid as u64);
    }
    own.log.end();
}

fn replay_fork(registers: &mut Registers, request: &CloneRequest) -> Done {
    let CloneRequest { flags, stack, child_tid, tls, .. } = *request;
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    let (mut child_lane, mut place) = (None, [0; 2]);
    // A copy of the memory does not have what the call gives the parent.
    let given = [(PARENT_SETTID, request.parent_tid), (PIDFD, request.pidfd)];
    let places = given.map(|(flag, address)| if flags & flag != 0 && flags & VM == 0 { address } else { 0 });
    let contents = || places.map(memory::read::<u32>);
    let before = contents();
    let result = inject_with(word, registers, &mut |tag, _, bytes, source| {
        if tag == Tag::Child && bytes == 8 {
            child_lane = memory::read::<u32>(source);
        } else if tag == Tag::Thread && bytes == 16 {
            place = memory::read::<[u64; 2]>(source).unwrap_or_default();
        }
    });
    let goes_alone = group_replay::is_without_others() && (flags & VM == 0 || place[1] != 0);
    if goes_alone && flags & VM != 0 && result > 0 {
        report::stand(lane_protocol::report_kind::ALONE, 0, "it makes a process in its own memory");
    }
    if let Some(lane) = child_lane
        && result > 0
        // It is the lead replica's.
        && !goes_alone
        // Who shares memory with one that is wanted takes its tokens, or may do so later; a
        // child of vfork writes to its parent's memory.
        && (is_wanted(lane) || place[1] != 0 || flags & VM != 0 || may_join())
        // What a live process made is there, and goes its own way.
        && !crate::state::live::is_on()
    {
        let Some(segment) = take_segment() else {
            report::fail("more processes at once than replay can hold");
        };
        let parent_lane = process().lane;
        let (thread, shares) = (place[0] as usize, place[1] & 1 != 0);
        if flags & VM != 0 && !threads::make_room(thread) {
            report::fail("the log makes a process that there is no room for");
        }
        let beginning = Beginning {
            flags,
            shares,
            thread,
            stack,
            child_tid,
            tls,
            segment,
            lane,
            parent_lane,
            lab_slot: 0,
        };
        let real = PARENT | (flags & (VM | VFORK | SIGHAND));
        // vfork without shared memory only makes the parent wait: not needed here.
        let real = if flags & VM == 0 { PARENT } else { real };
        let make = || make_child(registers, &beginning, [real, 0, 0, 0, 0, 0]);
        process().made_others = true;
        process().met_others |= shares || flags & VM == 0 && may_join();
        let after = contents();
        put(&places, &before);
        // Nobody looks at breakpoints that the child comes to.
        let made = if flags & VM == 0 { make() } else { breakpoints::without(make) };
        put(&places, &after);
        if kernel::failed(made) {
            report::stand(lane_protocol::report_kind::MISSING, made as i32, "a process could not be made");
        }
    }
    let yields = place[1] & 1 != 0 && flags & VFORK != 0 || place[1] & 2 != 0;
    if yields && result > 0 && word.flags() & events::SIGNAL_FOLLOWS == 0 {
        token::follow_yield();
    }
    Done::Result(result)
}

/// Writes what could be read there.
fn put(places: &[u64], contents: &[Option<u32>]) {
    for (&address, content) in places.iter().zip(contents) {
        if let Some(content) = content {
            memory::write(address, content);
        }
    }
}

/// True if the process may come to share memory with others, as by a descriptor of theirs.
fn may_join() -> bool {
    process().in_group || process().near_group
}

fn is_wanted(lane: u32) -> bool {
    let session = session();
    if session.lane_filter == 0 {
        return true;
    }
    match session.wanted_lanes.get(lane as usize / 64) {
        Some(word) => word & 1 << (lane % 64) != 0,
        None => false,
    }
}

/// Takes a free segment of the session's memory.
fn take_segment() -> Option<u64> {
    let session = session();
    for (index, word) in session.segments.iter().enumerate().take(SEGMENTS / 64) {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let free = (!bits).trailing_zeros();
            match word.compare_exchange_weak(bits, bits | 1 << free, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let segment = index as u64 * 64 + u64::from(free);
                    if has_room(segment) {
                        return Some(segment);
                    }
                    give_segment_back(segment);
                    return None;
                }
                Err(now) => bits = now,
            }
        }
    }
    None
}

/// Makes room on the disk for a segment where the session's memory is a file; false if there is
/// none: a store there would end the process.
fn has_room(segment: u64) -> bool {
    let session = session();
    if session.has_file == 0 {
        return true;
    }
    let (word, bit) = (&session.segments_with_room[segment as usize / 64], 1 << (segment % 64));
    if word.load(Ordering::Relaxed) & bit != 0 {
        return true;
    }
    let arguments = [process().control_fd as u64, 0, segment_offset(segment), SEGMENT_BYTES, 0, 0];
    if kernel::failed(kernel::call(nr::__NR_fallocate, arguments)) {
        return false;
    }
    word.fetch_or(bit, Ordering::Relaxed);
    true
}

fn give_segment_back(segment: u64) {
    let word = &session().segments[segment as usize / 64];
    word.fetch_and(!(1 << (segment % 64)), Ordering::AcqRel);
}

/// Maps memory of the process's own in place of a lane's segment.
pub fn map_own_lane(slot: u64) {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED;
    let bytes = LANE_HEADER_BYTES + 2 * RING_BYTES;
    if kernel::failed(kernel::mmap(lane_header_address(slot), bytes, 3, flags, -1, 0)) {
        report::die("memory for an unrecorded process could not be mapped");
    }
}

// --- exec ---

/// execve and execveat.
pub fn exec(registers: &mut Registers, number: u64, args: &[u64; 6]) -> Done {
    say(LogSubject::Process, "execve", [number, 0]);
    let at = number == u64::from(nr::__NR_execveat);
    let count = if at { 5 } else { 3 };
    if process().replays() {
        // A successful exec is a birth, seen before we come here.
        return crate::log::call_event::replayed(registers);
    }
    let (dir, path, flags) = if at { (args[0], args[1], args[4]) } else { (nr::AT_FDCWD as u64, args[0], 0) };
    // A new image without the runtime would die of the filter that it inherits.
    let filtered = session().interception == Interception::Seccomp as u32;
    if let Some(error) = cannot_execute(dir, path, flags) {
        return log_exec(number, args, count, path, -error);
    }
    if process().is_to_be_traced {
        detach::execute(number, args, StopReason::Traced, "");
    }
    if let Some(text) = cannot_record(dir, path, flags) {
        if filtered {
            report::tell(text);
            report::tell("under --seccomp it could not run: its execution is refused");
            return log_exec(number, args, count, path, -i64::from(errno::EPERM));
        }
        return execute_unrecorded(registers, number, args, text);
    }
    if !given_filters::carry() {
        return log_exec(number, args, count, path, -i64::from(errno::ENOMEM));
    }
    permit_supervisor_to_attach();
    let tid = thread().tid as u64;
    match request_answer(
        request::ATTACH,
        [process().outer_pid as u64, process().control_fd as u64, tid, u64::from(process().pid_space)],
        &session().attach_doorbell,
    ) {
        Some(0) => {}
        Some(_) if filtered => {
            report::tell(
                "it executes a program that ptrace may not attach to, which --seccomp does not permit",
            );
            return log_exec(number, args, count, path, -i64::from(errno::EPERM));
        }
        Some(_) => {
            let text = "it executes a program that ptrace may not attach to";
            return execute_unrecorded(registers, number, args, text);
        }
        None => {
            process().log.broken = StopReason::RecorderDied as u16;
            return Done::Elsewhere(detach::detach(registers, StopReason::RecorderDied as u16, ""));
        }
    }
    lab::before_exec();
    let undo = deaths::begin_exec();
    lane().carried_signals = signals::carried();
    lane().carried_time = u32::from(thread().time_forbidden);
    // A replay counts them through all images.
    lane().carried_events = process().log.events;
    lane().shares_root.store(u32::from(proc_dir::descriptor().is_some()), Ordering::Relaxed);
    // Who waits for the token may ask for it by a signal that the new image would die of.
    signals::hold_asking(true);
    // A signal that came until now would be lost with this image.
    let result = kernel::call_for_program(number, args);
    signals::hold_asking(false);
    stand_until_released();
    lane().carried_signals = [0; 3];
    lane().carried_events = 0;
    if let Some(undo) = undo {
        deaths::take_back(&undo);
    }
    if result == ABORTED {
        return Done::Aborted;
    }
    log_exec(number, args, count, path, result)
}

fn permit_supervisor_to_attach() {
    const PR_SET_PTRACER: u64 = 0x5961_6d61;
    if session().yama != 0 {
        // Where that has no id here, whoever may for other reasons is permitted.
        let supervisor = if process().pid_space == 0 { session().supervisor_pid as u64 } else { u64::MAX };
        kernel::call(nr::__NR_prctl, [PR_SET_PTRACER, supervisor, 0, 0, 0, 0]);
    }
}

/// Still here: execve(2) failed, or a signal comes first. The supervisor lets go of us while we stand.
fn stand_until_released() {
    const SIGSTOP: u64 = 19;
    let request = &lane().request;
    request.state.store(request::RELEASE, Ordering::Release);
    kernel::call(nr::__NR_tgkill, [process().pid as u64, thread().tid as u64, SIGSTOP, 0, 0, 0]);
    while request.state.load(Ordering::Acquire) == request::RELEASE {
        kernel::futex_wait(&request.state, request::RELEASE, 100);
    }
}

fn execute_unrecorded(registers: &mut Registers, number: u64, args: &[u64; 6], text: &str) -> Done {
    if process().in_parents_memory {
        detach::execute(number, args, StopReason::Unsupported, text);
    }
    stop(registers, StopReason::Unsupported, text)
}

fn log_exec(number: u64, args: &[u64; 6], count: usize, path: u64, result: i64) -> Done {
    begin_call(number, args, count, result, 0);
    process().log.text(path);
    process().log.end();
    Done::Result(result)
}

/// The error that exec is sure to give, so that searches along PATH are cheap.
fn cannot_execute(dir: u64, path: u64, flags: u64) -> Option<i64> {
    let access_flags =
        u64::from(nr::AT_EACCESS) | (flags & u64::from(nr::AT_EMPTY_PATH | nr::AT_SYMLINK_NOFOLLOW));
    let result = kernel::call(nr::__NR_faccessat2, [dir, path, u64::from(nr::X_OK), access_flags, 0, 0]);
    (kernel::failed(result) && result != -i64::from(errno::ENOSYS)).then_some(-result)
}

/// Why the program at the path cannot be recorded, if so.
fn cannot_record(dir: u64, path: u64, flags: u64) -> Option<&'static str> {
    let empty = flags & u64::from(nr::AT_EMPTY_PATH) != 0;
    let mut stat = [0u64; 18];
    kernel::call(nr::__NR_newfstatat, [dir, path, stat.as_mut_ptr() as u64, flags, 0, 0]);
    let mode = stat[3] as u32;
    // The kernel executes regular files only. Opening another may have effects: that of a FIFO
    // waits for who writes (fifo(7)).
    if mode & 0o170_000 != 0o100_000 {
        return None;
    }
    let mut own = false;
    let fd = if empty && memory::read::<u8>(path) == Some(0) {
        dir as i64
    } else {
        own = true;
        kernel::call(nr::__NR_openat, [dir, path, u64::from(nr::O_RDONLY | nr::O_CLOEXEC), 0, 0, 0])
    };
    if kernel::failed(fd) {
        return None;
    }
    let mut head = [0u8; 64];
    let read = kernel::call(nr::__NR_pread64, [fd as u64, head.as_mut_ptr() as u64, 64, 0, 0, 0]);
    let is_elf = read >= 64 && head[..4] == *b"\x7fELF";
    let meets_region = is_elf && meets_region(fd as u64, &head);
    if own {
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    let ordinary = kernel::call(nr::__NR_geteuid, [0; 6]) != 0;
    if is_elf && (head[4] != 2 || head[18] != 62) {
        return Some("it executes a program that is not for x86-64");
    }
    if meets_region {
        return Some(
            "it executes a program that is linked at addresses of its recorder's (from 0x6a0000000000 on)",
        );
    }
    let gains = mode & 0o4000 != 0 || mode & 0o2010 == 0o2010;
    if !(ordinary && is_elf && gains) {
        return None;
    }
    const PR_GET_NO_NEW_PRIVS: u64 = 39;
    if kernel::call(nr::__NR_prctl, [PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0]) == 1 {
        if session().interception == Interception::Seccomp as u32 {
            report::tell("a setuid or setgid program gains no rights under --seccomp");
        }
        return None;
    }
    Some("it executes a setuid or setgid program")
}

/// True for a program whose file says that it is to be mapped where the runtime is.
fn meets_region(fd: u64, head: &[u8; 64]) -> bool {
    const EXECUTABLE: u8 = 2;
    const LOADED: u32 = 1;
    const PLACES_MAX: usize = 64;
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let [place, sizes] = [word(32), word(54)];
    let (bytes, count) = (sizes & 0xffff, (sizes >> 16 & 0xffff) as usize);
    if head[16] != EXECUTABLE || bytes != size_of::<[u64; 7]>() as u64 {
        return false;
    }
    (0..count.min(PLACES_MAX) as u64).any(|index| {
        // struct Elf64_Phdr: type and flags, offset, address, physical, bytes in the file, in memory, alignment.
        let mut part = [0u64; 7];
        kernel::call(nr::__NR_pread64, [fd, part.as_mut_ptr() as u64, bytes, place + index * bytes, 0, 0]);
        part[0] as u32 == LOADED && crate::ground::memory::in_region(part[2], part[5].max(1))
    })
}

// --- exit ---

/// exit and exit_group.
pub fn exit(code: i32) -> Done {
    say(LogSubject::Process, "exits", [code as u64, 0]);
    // What another thread has written just now is logged before it ends with us.
    let has_others = process().threads > 1;
    if has_others {
        output_lock::take();
    }
    let log = &mut process().log;
    log.begin(Kind::Exit, 0, 0);
    log.word(code as i64 as u64);
    robust_futexes::let_go_of_memory();
    process().log.end();
    crate::checkpoint::take::checkpoint::end_all();
    end_lane();
    forced::end_process();
    leave_shared_memory();
    if has_others {
        output_lock::give();
    }
    lab::end_process();
    kernel::exit_group(code)
}

/// A process that runs in memory that others use as well lets go of it.
pub fn leave_shared_memory() {
    if process().in_group {
        signals::set_real_mask(!0);
        held_threads::let_all_go();
        if process().slot != 0 {
            thread().status = thread_status::ENDED;
            process().threads = 0;
        }
        crate::scheduler::token_end::leave_group();
    }
}

/// exit(2): ends the thread, and with the last one the process.
pub fn exit_thread(registers: &Registers, args: &[u64; 6]) -> Done {
    if process().threads > 1 {
        threads::exit(registers, args);
    }
    exit(args[0] as i32)
}

/// Says that the lane's log is complete. From here on the supervisor may release the token
/// and the segment to others.
pub fn end_lane() {
    crate::scheduler::token_end::end_log();
    lane().state.store(lane_state::ENDED, Ordering::Release);
    session().doorbell.fetch_add(1, Ordering::Release);
    leave_memory(process().segment);
    descriptor_classes::forget(0);
}

/// Replay of exec in a child of vfork, or of any that is debugged: it needs memory of its
/// own, so a copy of us goes on, and we end to let the parent go on.
pub fn leave_parents_memory() {
    if !process().in_parents_memory {
        return;
    }
    process().in_parents_memory = false;
    let is_copys = process().copied && group_replay::are_wanted();
    if is_copys || !is_wanted(process().lane) && !may_join() {
        // It was made for what it wrote to its parent's memory.
        report::leave(lane_protocol::report_kind::EXITED, 0, "");
    }
    let result = kernel::call(nr::__NR_clone, [PARENT, 0, 0, 0, 0, 0]);
    if result > 0 {
        // Before our end is seen, whenever the copy first runs; but not if it is over already,
        // and the lane somebody else's.
        let (own, heir) = (process().pid, result as i32);
        deaths::leave_blocks();
        let _ = lane().pid.compare_exchange(own, heir, Ordering::AcqRel, Ordering::Relaxed);
        kernel::exit_group(0);
    }
    if kernel::failed(result) {
        report::stand(lane_protocol::report_kind::MISSING, result as i32, "a process could not be made");
    }
    process().pid = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    process().outer_pid = process().pid;
    kernel::end_with_parent();
    lane().pid.store(process().pid, Ordering::Release);
    crate::code::interception::intercept();
}
