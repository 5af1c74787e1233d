//! The calls by which a program asks for checkpoints: see include/retrovane.h.

use lane_protocol::{checkpoint_origin, command};
use linux_abi::errno;

use crate::checkpoint::area::area;
use crate::checkpoint::restore::{agent, lost};
use crate::checkpoint::take::{checkpoint, slots};
use crate::ground::kernel::error;
use crate::ground::registers::Registers;
use crate::log::call_event::begin_call;
use crate::state::block::{process, thread};

/// The first of the calls by which a program asks: see include/retrovane.h.
pub const CALLS: u64 = 0x52_5600;

pub const CHECKPOINT: u64 = CALLS;

pub const DISCARD: u64 = CALLS + 1;

pub const ROLLBACK: u64 = CALLS + 2;

pub const REPLAY: u64 = CALLS + 3;

pub const ROLLBACKS: u64 = CALLS + 4;

pub const REPLAYING: u64 = CALLS + 5;

pub const CHECK: u64 = CALLS + 6;

pub const LOST: u64 = CALLS + 7;

/// True for the calls by which a program asks for checkpoints.
#[inline]
pub fn is_call(number: u64) -> bool {
    (CHECKPOINT..=LOST).contains(&number)
}

/// Whether the program is being replayed; never logged.
pub fn answer_whether_replayed(registers: &mut Registers) {
    registers.rax = u64::from(process().replays());
}

/// One of the calls, in the present: its result.
pub fn call(registers: &Registers) -> i64 {
    let number = u64::from(registers.rax as u32);
    let id = registers.rdi;
    if matches!(number, CHECK | LOST) {
        return lost::call(number == CHECK, &registers.args());
    }
    let result = match number {
        CHECKPOINT => match core::mem::take(&mut area().returns_again) {
            0 => checkpoint::take(checkpoint_origin::PROGRAM),
            again => again as i64 - 1,
        },
        DISCARD if slots::is_window(id) => error(errno::EBUSY),
        DISCARD => checkpoint::discard(id),
        ROLLBACKS => slots::rollbacks(id),
        REPLAY if area().replays_for == thread().index as u64 + 1 => {
            area().replays_for = 0;
            0
        }
        ROLLBACK => agent::ask(command::ROLLBACK, id),
        _ => agent::ask(command::REPLAY, id),
    };
    let count = usize::from(number != CHECKPOINT);
    begin_call(number, &registers.args(), count, result, 0);
    process().log.end();
    result
}
