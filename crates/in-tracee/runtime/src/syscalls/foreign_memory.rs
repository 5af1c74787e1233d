//! process_vm_writev(2) and process_vm_readv(2): memory of one process that another's call writes, or
//! reads.
//!
//! What is written to one's own memory is logged with the call. What is written to another process of
//! the recording is told to it through the list that tells of written files (see `foreign_writes`): it
//! logs what it finds there with the next call or signal by which it can have learned of it.
//!
//! Deliberately absent: a process that looks at its memory in a loop, without any call, until another
//! writes there; and /proc/PID/mem, which is not opened for writing.

use core::cell::Cell;

use syscall_model::Arg;

use crate::address_space::foreign_writes;
use crate::ground::kernel;
use crate::ground::memory::{self, in_region};
use crate::log::call_event::begin_call;
use crate::log::effects;
use crate::signals::killing;
use crate::state::block::process;
use crate::state::call_state::Done;
use crate::state::recorded_processes;
use crate::syscalls::calls;

/// Most vectors of a call (UIO_MAXIOV).
const VECTORS_MAX: u64 = 1024;

/// True if a call would write where the runtime is: there is nothing, as far as a program knows.
pub fn meets_region(args: &[u64; 6]) -> bool {
    let mut is_ours = false;
    each_range(args[3], args[4], u64::MAX, &mut |start, bytes| is_ours |= in_region(start, bytes));
    is_ours
}

/// Recording: process_vm_writev(2).
pub fn write(number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let [pid, _, _, vectors, count, _] = *args;
    let result = calls::make(number, args, args, model, false);
    if result == kernel::ABORTED {
        return Done::Aborted;
    }
    let written = result.max(0) as u64;
    let itself = killing::process_of_thread(pid as i32) == process().pid;
    if !itself {
        tell(pid as i32, vectors, count, written);
    }
    begin_call(number, args, model.len(), result, 0);
    effects::log_sent(model, args, result);
    if itself {
        each_range(vectors, count, written, &mut |start, bytes| process().log.memory(start, bytes));
    }
    foreign_writes::log_new(number, args);
    process().log.end();
    Done::Result(result)
}

/// Says to the process of this id, if it is recorded, what was written to its memory.
fn tell(pid: i32, vectors: u64, count: u64, written: u64) {
    let lane = Cell::new(None);
    let process_id = killing::process_of_thread(pid);
    recorded_processes::each_recorded(&mut |number, recorded, _| {
        if recorded == process_id {
            lane.set(Some(number));
        }
    });
    if let Some(lane) = lane.get() {
        each_range(vectors, count, written, &mut |start, bytes| {
            foreign_writes::tell_memory(lane, start, bytes);
        });
    }
}

/// Calls `each` with the ranges of an array of `struct iovec`, as far as so many bytes reach.
fn each_range(vectors: u64, count: u64, bytes: u64, each: &mut dyn FnMut(u64, u64)) {
    let mut left = bytes;
    for index in 0..count.min(VECTORS_MAX) {
        let Some([start, length]) = memory::read::<[u64; 2]>(vectors.wrapping_add(index * 16)) else {
            return;
        };
        let part = length.min(left);
        if part == 0 && left == 0 {
            return;
        }
        if part != 0 {
            each(start, part);
        }
        left -= part;
    }
}
