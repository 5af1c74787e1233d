//! Leaving a process alone: recording ends, the program goes on as if we had
//! never been there; under seccomp it goes on through us, unlogged.

use core::sync::atomic::Ordering;

use events::{Kind, StopReason, Tag};
use lane_protocol::Interception;
use linux_abi::general as nr;

use crate::code::{clocks, non_executable, sites};
use crate::ground::registers::{Leave, Registers};
use crate::ground::{kernel, notices};
use crate::process::{given_filters, processes};
use crate::signals;
use crate::state::block::{process, session, space, thread};
use crate::state::report;

/// Ends the recording of this process. The program makes the call at hand by
/// itself.
pub fn detach(registers: &mut Registers, reason: u16, text: &str) -> Leave {
    if !process().passes_through {
        end_recording(reason, text);
    }
    if process().passes_through {
        return notices::call_passes_through(registers);
    }
    registers.rip = registers.rcx.wrapping_sub(2);
    Leave::Exactly
}

/// The recording of this process ended in another thread.
pub fn follow(registers: &mut Registers) -> Leave {
    leave_thread();
    registers.rip = registers.rcx.wrapping_sub(2);
    Leave::Exactly
}

/// Ends the recording of this process behind a call that it made.
pub fn detach_behind(registers: &mut Registers, reason: u16, text: &str, result: i64) -> Leave {
    end_recording(reason, text);
    registers.rax = result as u64;
    if process().passes_through {
        return Leave::Call;
    }
    registers.rip = registers.rcx;
    Leave::Exactly
}

/// The agent lets the process go, whose threads stand: each leaves us at its next call.
pub fn let_go() {
    end_recording(StopReason::RecorderDied as u16, "it was let go");
}

/// Executes a program that is not recorded, in a child of vfork. Its memory is the parent's,
/// which is recorded on: there, nothing is taken back.
pub fn execute(number: u64, args: &[u64; 6], reason: StopReason, text: &str) -> ! {
    end_log(reason as u16, text);
    // Until the thread has left: the program's handlers know nothing of our stacks.
    signals::block_all();
    leave_process();
    if reason == StopReason::Traced {
        const TRACEME: u64 = 0;
        kernel::call(nr::__NR_ptrace, [TRACEME, 0, 0, 0, 0, 0]);
    }
    kernel::call(number as u32, *args);
    report::tell("a program could not be executed, although it was there and could be");
    kernel::exit_group(127)
}

/// Ends the log, and takes back from the process what can be taken back.
fn end_recording(reason: u16, text: &str) {
    end_log(reason, text);
    crate::address_space::outsiders::note_leaving();
    space().shared_count = 0;
    non_executable::give_back();
    crate::scheduler::private_futexes::wake_everybody();
    if session().interception == Interception::Seccomp as u32 {
        begin_passing();
        return;
    }
    // Until the thread has left: the program's handlers know nothing of our stacks.
    signals::block_all();
    crate::address_space::page_tracker::end();
    crate::process::boarding::leave_vdso();
    crate::checkpoint::take::increments::tracking::end_increments();
    crate::preemption::sampled_places::end();
    sites::restore_all();
    crate::address_space::packet_rings::leave();
    if !process().in_parents_memory {
        crate::address_space::outsiders::reset();
    }
    leave_process();
}

fn end_log(reason: u16, text: &str) {
    let log = &mut process().log;
    if log.broken == 0 {
        log.begin(Kind::Stop, 0, reason);
        log.blob(0, text.len() as u64, Tag::Text, text.as_ptr() as u64);
        log.end();
        processes::end_lane();
        kernel::futex_wake(&session().doorbell);
        log.broken = reason;
    } else if reason == StopReason::RecorderDied as u16 {
        report::tell("the recorder died; this process goes on unrecorded");
    }
}

/// The kernel has of the process what the program gave it. Signals are blocked.
fn leave_process() {
    let process = &mut *process();
    process.actions().give_back(process.shares_token);
    process.given_up.store(process.log.broken.into(), Ordering::Release);
    if process.shares_token {
        crate::scheduler::token_end::give_for_good();
    }
    kernel::call(nr::__NR_close, [process.control_fd as u64, 0, 0, 0, 0, 0]);
    leave_thread();
}

/// The calling thread is about to enter the program's code: if recording ended meanwhile,
/// it goes on without us.
pub fn leave_if_over() {
    if process().given_up.load(Ordering::Acquire) != 0 {
        leave_thread();
    }
}

/// The calling thread goes on without us.
fn leave_thread() {
    if core::mem::replace(&mut thread().has_left, true) {
        return;
    }
    crate::preemption::preemption_timer::delete();
    clocks::end_traps();
    kernel::call(nr::__NR_set_tid_address, [thread().clear_tid, 0, 0, 0, 0, 0]);
    let [address, length, signature] = core::mem::take(&mut thread().rseq);
    if address != 0 {
        kernel::call(nr::__NR_rseq, [address, length, 0, signature, 0, 0]);
    }
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    kernel::call(nr::__NR_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]);
    thread().signals.give_back();
    // The last call of ours: they may forbid any.
    given_filters::give_back();
}

/// Leaves the session's memory to those who are still recorded.
fn begin_passing() {
    let process = &mut *process();
    process.passes_through = true;
    processes::map_own_lane(process.slot);
    kernel::call(nr::__NR_close, [process.control_fd as u64, 0, 0, 0, 0, 0]);
    process.control_fd = -1;
    process.log_ends.store(0, Ordering::SeqCst);
}
