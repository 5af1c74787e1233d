//! Threads: their beginning, their end, and what the kernel would write behind
//! the program's back at either, which the runtime does itself under the token.

use core::sync::atomic::Ordering;

use events::{Kind, Tag};
use lane_protocol::thread_identity;
use linux_abi::{errno, general as nr};

use crate::checkpoint::restore::{parked_threads, resume_state};
use crate::checkpoint::take::{holding, quiesce};
use crate::code::spin_sites;
use crate::debugger::copies;
use crate::ground::assembly::{rv_clone_shared, rv_resume};
use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::log::call_event::{begin_call, inject, inject_with};
use crate::preemption::{preemption_point, preemption_timer};
use crate::process::processes::{CHILD_CLEARTID, CHILD_SETTID, CloneRequest, PARENT_SETTID, PIDFD, SETTLS};
use crate::scheduler::kernel_threads::{CLONE, make_kernel_thread};
use crate::scheduler::{encounters, forced, held_threads, token};
use crate::signals::robust_futexes::{clear_tid, release_robust_list};
use crate::state::block::{
    Process, Thread, find_free_thread, index_of_process, known_threads, prepare_block, process,
    provide_thread, thread, thread_at, thread_status,
};
use crate::state::call_state::Done;
use crate::state::runtime_log::{LogSubject, say};
use crate::state::{live, preemption, report, signal_state};
use crate::{lab, signals};

/// clone with CLONE_THREAD.
pub fn create(registers: &mut Registers, number: u64, count: usize, request: &CloneRequest) -> Done {
    say(LogSubject::Process, "thread is to be made", [number, 0]);
    if process().replays() {
        return replay_create(registers, request);
    }
    let Some(index) = find_free_thread() else {
        return crate::log::call_event::reject(registers, number, &registers.args(), count, errno::EAGAIN);
    };
    let mut pidfd = 0u32;
    let result = start_thread(registers, index, request, &raw mut pidfd as u64, 0);
    begin_call(number, &registers.args(), count, result, 0);
    let log = &mut process().log;
    if result > 0 {
        let place = index as u64;
        log.blob(0, 8, Tag::Thread, &raw const place as u64);
        let tid = result as u32;
        for (flag, address, value) in
            [(PARENT_SETTID, request.parent_tid, tid), (PIDFD, request.pidfd, pidfd)]
        {
            if request.flags & flag != 0 && memory::write(address, &value) {
                log.blob(address, 4, Tag::Memory, address);
            }
        }
    }
    log.end();
    if result > 0 {
        encounters::note_thread_birth();
    }
    Done::Result(result)
}

fn replay_create(registers: &mut Registers, request: &CloneRequest) -> Done {
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    let mut place = None;
    let result = inject_with(word, registers, &mut |tag, _, bytes, source| {
        if tag == Tag::Thread && bytes == 8 {
            place = memory::read::<u64>(source);
        }
    });
    if let Some(index) = place {
        let index = index as usize;
        if !make_room(index) {
            report::fail("the log makes a thread that there is no room for");
        }
        let mut pidfd = 0u32;
        must_be_made(start_thread(registers, index, request, &raw mut pidfd as u64, result));
    }
    Done::Result(result)
}

/// Replay: sees to it that a thread of this number can be made.
pub fn make_room(index: usize) -> bool {
    if index >= lane_protocol::THREADS_MAX || !provide_thread(index) {
        return false;
    }
    let block = &mut *thread_at(index);
    // Another process's was killed then.
    if block.status == thread_status::LIVE && block.process == thread().process {
        return false;
    }
    // The one before it may be on its last instructions.
    while block.alive.load(Ordering::Acquire) != 0 {
        kernel::futex_wait(&block.alive, 1, 100);
    }
    true
}

/// Makes the kernel's thread; the child waits for the token.
/// Live: while the process does again what it did, the kernel's thread is the one
/// with the id `wanted`, if it is there.
fn start_thread(registers: &Registers, index: usize, request: &CloneRequest, pidfd: u64, wanted: i64) -> i64 {
    token::begin_sharing();
    spin_sites::begin_counting();
    let process = &mut *process();
    let mask = thread().signals.mask;
    let block = &mut *prepare_block(index, index_of_process(process));
    block.start = begin as *const () as u64;
    block.born_at = process.log.position();
    block.signals.begin_thread(mask);
    block.preemption = preemption::Preemption::default();
    block.waiter = Default::default();
    block.pending = 0;
    block.trapped = 0;
    block.swallow_step = 0;
    block.output.store(0, Ordering::Relaxed);
    block.is_asked = false;
    block.time_traps = thread().time_traps;
    block.time_forbidden = thread().time_forbidden;
    block.filters = thread().filters;
    block.robust_list = [0; 2];
    block.user_registers = 0;
    block.programs_gs = thread().programs_gs;
    block.fs_base = if request.flags & SETTLS != 0 { request.tls } else { thread().fs_base };
    block.clear_tid = if request.flags & CHILD_CLEARTID != 0 { request.child_tid } else { 0 };
    block.fault_registers = *registers;
    block.fault_registers.rax = 0;
    block.fault_registers.r11 = registers.flags;
    if request.stack != 0 {
        block.fault_registers.rsp = request.stack;
    }
    let settid = if request.flags & CHILD_SETTID != 0 { request.child_tid } else { 0 };
    block.fault_info[..3].copy_from_slice(&[request.flags, request.tls, settid]);
    block.alive.store(1, Ordering::Release);
    process.threads += 1;
    if !process.replays() {
        // A signal must not find the child before it can take it.
        signals::set_real_mask(!0);
    }
    let ours = CHILD_SETTID | SETTLS | PARENT_SETTID | PIDFD;
    let real = request.flags & !ours | CHILD_CLEARTID;
    let real = if process.replays() { real } else { real | request.flags & PIDFD };
    let alive = block.alive.as_ptr() as u64;
    block.resume_state = signal_state::ResumeState::Beginning;
    if live::is_on() {
        resume_state::prepare_new(block, request.flags & SETTLS != 0, request.tls);
    }
    let lab_slot = lab::reserve();
    block.lab_slot = lab_slot.unwrap_or_default();
    let identity = thread_identity(process.lane, index as u32);
    if !process.replays() {
        forced::expect(identity);
    }
    let result = match live::goes_again().then(|| parked_threads::adopt(wanted as i32, block)) {
        Some(true) => wanted,
        // SAFETY: the block is the child's alone, and its stack is unused.
        _ => unsafe {
            rv_clone_shared(&[real, 0, pidfd, alive, 0, CLONE], core::ptr::from_mut(block).cast())
        },
    };
    if result > 0 {
        // It may be looked for before it runs.
        block.tid = result as i32;
    }
    lab::born(lab_slot, result, request.flags);
    if !process.replays() {
        signals::set_real_mask(mask);
    }
    if kernel::failed(result) {
        forced::forget(identity);
        block.alive.store(0, Ordering::Relaxed);
        block.status = thread_status::FREE;
        process.threads -= 1;
    }
    result
}

/// The same for replay, which cannot do without it.
pub fn remake_kernel_thread(block: &mut Thread) {
    must_be_made(make_kernel_thread(block));
}

fn must_be_made(made: i64) {
    if kernel::failed(made) {
        report::stand(lane_protocol::report_kind::MISSING, made as i32, "a thread could not be made");
    }
}

/// A new thread arrives here, on its own stack.
unsafe extern "C" fn begin(block: *mut Thread) -> ! {
    // SAFETY: the parent prepared the block for us alone.
    let index = unsafe { (*block).index };
    crate::state::block::enter_block(index);
    token::begin_thread();
    signals::use_own_stack();
    crate::code::interception::intercept();
    resume_state::begin_thread();
    let [flags, tls, ..] = thread().fault_info;
    if flags & SETTLS != 0 {
        kernel::set_fs_base(tls);
    }
    lab::start(thread().lab_slot);
    begin_here()
}

/// Waits for the token, and enters the program behind the call that made the thread.
pub fn begin_here() -> ! {
    let settid = thread().fault_info[2];
    let mut registers = thread().fault_registers;
    if process().replays() {
        thread().user_registers = &raw const thread().fault_registers as u64;
        token::wait_to_run();
        token::follow();
        let Some(word) = process().log.peek() else { report::log_ended() };
        if !word.is(Kind::Syscall) || process().log.body(0) != 0 {
            report::diverge(&registers, word, u64::from(nr::__NR_clone), &[]);
        }
        inject(word, &registers);
        preemption_point::arm_if_next();
    } else {
        holding::take();
        quiesce::park_if_wanted();
        if settid != 0 {
            memory::write(settid, &thread().tid);
        }
        crate::process::detach::leave_if_over();
        if !thread().has_left {
            let log = &mut process().log;
            log.begin(Kind::Syscall, 0, nr::__NR_clone as u16);
            log.word(0);
            if settid != 0 {
                log.blob(settid, 4, Tag::Memory, settid);
            }
            log.end();
            signals::set_real_mask(thread().signals.mask);
        }
    }
    registers.rip = crate::code::sites::translate(registers.rip);
    crate::debugger::agent::leaving(&mut registers);
    // SAFETY: the registers are the parent's at its call.
    unsafe { rv_resume(&registers) }
}

/// exit(2) of a thread that is not the last.
pub fn exit(registers: &Registers, args: &[u64; 6]) -> ! {
    end(registers, args[0], &|| begin_call(u64::from(nr::__NR_exit), args, 1, 0, 0))
}

/// The end of a thread that is not the last, by a call whose event `begin` begins.
pub fn end(registers: &Registers, code: u64, begin: &dyn Fn()) -> ! {
    say(LogSubject::Process, "thread ends", [code, 0]);
    let own = &mut *thread();
    let process = &mut *process();
    let replaying = process.replays();
    if replaying {
        crate::log::call_event::consume(registers);
    } else {
        signals::set_real_mask(!0);
        begin();
        release_robust_list(own);
        clear_tid(own);
        process.log.end();
    }
    own.status = thread_status::ENDED;
    process.threads -= 1;
    let ended_at = process.log.position();
    held_threads::let_all_go();
    if replaying {
        token::follow_at_end();
    } else {
        signals::pass_on();
        preemption_timer::delete();
        // The list is done with; its memory may be gone before the kernel looks.
        kernel::call(nr::__NR_set_robust_list, [0, 24, 0, 0, 0, 0]);
        lab::end_thread();
        forced::forget(own.identity);
        token::give();
    }
    leave(code, ended_at)
}

/// Replay: a thread of an image that is over.
pub fn end_in_replay() -> ! {
    thread().status = thread_status::ENDED;
    leave(0, process().log.position())
}

/// `ended_at`: bytes of the log so far.
fn leave(code: u64, ended_at: u64) -> ! {
    parked_threads::sit_down_at_end(ended_at);
    copies::stay_if_first();
    loop {
        kernel::call(nr::__NR_exit, [code, 0, 0, 0, 0, 0]);
    }
}

/// Replay of execve: all other threads end before the image does.
pub fn end_others() {
    let process = &mut *process();
    let own = thread().index;
    process.ending_others.store(1, Ordering::SeqCst);
    for index in (0..known_threads()).filter(|&index| index != own) {
        let other = &mut *thread_at(index);
        if other.process != process as *mut Process as u64 || other.status == thread_status::FREE {
            continue;
        }
        if other.status == thread_status::LIVE {
            other.token_wake.fetch_add(1, Ordering::SeqCst);
            kernel::futex_wake(&other.token_wake);
        }
        // One that ended by itself may be on its last instructions.
        while other.alive.load(Ordering::Acquire) != 0 {
            kernel::futex_wait(&other.alive, 1, 100);
        }
    }
    process.ending_others.store(0, Ordering::SeqCst);
}

/// set_tid_address(2): the kernel has another word of the thread's.
pub fn set_tid_address(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    thread().clear_tid = args[0];
    if process().replays() {
        return crate::log::call_event::replayed(registers);
    }
    let tid = i64::from(thread().tid);
    begin_call(number, args, 1, tid, 0);
    process().log.end();
    Done::Result(tid)
}
