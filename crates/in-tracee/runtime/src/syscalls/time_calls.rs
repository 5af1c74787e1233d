//! Calls that ask for the time. Programs make many of them: the common ones have an event
//! of their own form (`events::IN_PLACE`), and the shortest way to it.

use events::Tag;
use linux_abi::{errno, general as nr};

use crate::address_space::foreign_writes;
use crate::code::clocks;
use crate::ground::memory;
use crate::ground::registers::{Leave, Registers};
use crate::lab;
use crate::log::call_event::{begin_call, replayed};
use crate::log::effects;
use crate::scheduler::{chaos, contention, token};
use crate::state::block::{process, thread};
use crate::state::call_state::Done;
use crate::state::in_lab;

/// Records a call that asks for the time and has it written to one place, if no signal,
/// other thread or shortage of space stands in the way. `None`: not begun.
#[inline]
pub fn record_short(registers: &mut Registers) -> Option<Leave> {
    let (number, args, process) = (registers.rax as u32, registers.args(), &mut *process());
    if thread().pending != 0
        || foreign_writes::are_new()
        || process.shares_token && (token::is_wanted() || chaos::is_on())
    {
        return None;
    }
    // The last argument is where the answer goes.
    let args = match number {
        nr::__NR_clock_gettime => &args[..2],
        _ if args[1] == 0 => &args[..1],
        _ => return None,
    };
    if process.shares_token {
        contention::before_time_read();
    }
    let mut answer = [0u64; 4];
    let failed = clocks::ask(u64::from(number), args[0], &mut answer) != 0;
    let answer = [answer[0], answer[1]];
    // A short way that does not end leaves only memory that the long way writes again.
    if failed
        || thread().pending != 0
        || !memory::write(args[args.len() - 1], &answer)
        || !process.log.in_place(number as u16, args, answer)
    {
        return None;
    }
    registers.rax = 0;
    Some(Leave::Call)
}

/// A time call: `parts` says which words of the answer go where and how many bytes.
pub fn execute(
    registers: &Registers,
    number: u64,
    args: &[u64; 6],
    first: u64,
    parts: &[(u64, usize, u64)],
) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    if process().shares_token {
        contention::before_time_read();
    }
    let mut answer = [0u64; 4];
    let mut result = ask(number, first, &mut answer);
    // clock_gettime alone has to be told where; the others leave out what is not asked.
    let is_needed = number as u32 == nr::__NR_clock_gettime;
    for &(address, index, bytes) in parts {
        let source = &raw const answer[index] as u64;
        if result == 0 && (address != 0 || is_needed) && !memory::copy(address, source, bytes) {
            result = -i64::from(errno::EFAULT);
        }
    }
    begin_call(number, args, 2, result, 0);
    let log = &mut process().log;
    for &(address, index, bytes) in parts {
        if result == 0 && address != 0 {
            log.blob(address, bytes, Tag::Memory, &raw const answer[index] as u64);
        } else if result == -i64::from(errno::EFAULT) && address != 0 {
            // One part may be there, or a part of one.
            log.blob(address, effects::readable_bytes(address, bytes, false), Tag::Memory, address);
        }
    }
    foreign_writes::log_new(number, args);
    log.end();
    Done::Result(result)
}

/// time(2): the answer is the result, too.
pub fn execute_time(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    let mut answer = [0u64; 4];
    let mut result = ask(number, 0, &mut answer);
    if args[0] != 0 && !memory::write(args[0], &result) {
        result = -i64::from(errno::EFAULT);
    }
    begin_call(number, args, 1, result, 0);
    if args[0] != 0 && result >= 0 {
        process().log.blob(args[0], 8, Tag::Memory, args[0]);
    }
    foreign_writes::log_new(number, args);
    process().log.end();
    Done::Result(result)
}

/// By the clock that the process knows.
fn ask(number: u64, first: u64, answer: &mut [u64; 4]) -> i64 {
    if in_lab::is_on() { lab::clocks::ask(number, first, answer) } else { clocks::ask(number, first, answer) }
}
