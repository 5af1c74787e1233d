//! Calls on the program's behalf, with the token or without.

use events::{Kind, Tag};
use linux_abi::{errno, general as nr};
use syscall_model::{Arg, TABLE};

use crate::address_space::descriptor_classes;
use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::lab;
use crate::scheduler::short_calls::returns_at_once;
use crate::scheduler::{contention, own_token, private_futexes, token};
use crate::signals::{self, stopping};
use crate::state::block::{process, thread, used_processes};
use crate::state::{call_state, in_lab};
use crate::syscalls::bounce::{self, Bounce};
use crate::syscalls::{tracing, visible_maps};

/// The calls that may sleep, by number.
pub static BLOCKS: [bool; syscall_model::NR_MAX + 1] = {
    let mut blocks = [false; syscall_model::NR_MAX + 1];
    let mut number = 0;
    while number < blocks.len() {
        if let Some(row) = &TABLE[number] {
            blocks[number] = row.blocks;
        }
        number += 1;
    }
    blocks
};

/// Makes a call as the kernel shall see it (`real`), which the program made with
/// `args`. If it may sleep and others could run, they hold the token meanwhile.
#[inline]
pub fn make(number: u64, args: &[u64; 6], real: &[u64; 6], model: &[Arg], blocks: bool) -> i64 {
    if call_state::map_lists_are_open()
        && let Some(result) = visible_maps::execute(number, args)
    {
        return result;
    }
    if in_lab::is_on() {
        if process().shares_token && !thread().keeps_token && stopping::stops_itself(number, args) {
            token::give();
            let result = lab::calls::make(number, real);
            token::take_back();
            return result;
        }
        return make_in_lab(number, args, real, model);
    }
    if number == u64::from(nr::__NR_futex)
        && process().in_parents_memory
        && let Some(result) = private_futexes::execute(number, args)
    {
        return result;
    }
    if !process().shares_token {
        return kernel::call_for_program(number, real);
    }
    let result = make_among_others(number, args, real, model, blocks);
    contention::note_result(number, args, result);
    result
}

/// A call of a lab that waits is made again and again, and writes its results when it finds nothing, too: others are not to see
/// that before it is over.
fn make_in_lab(number: u64, args: &[u64; 6], real: &[u64; 6], model: &[Arg]) -> i64 {
    let writes_in_vain = matches!(number as u32, nr::__NR_poll | nr::__NR_ppoll | nr::__NR_waitid);
    match writes_in_vain.then(|| bounce::begin(model, args, real)).flatten() {
        Some(bounce) => {
            let result = lab::calls::make(number, &bounce.args);
            end_bounce(&bounce, model, args, result)
        }
        None => lab::calls::make(number, real),
    }
}

/// The result of a call that was made with a buffer of ours, behind which the program has its own.
fn end_bounce(bounce: &Bounce, model: &[Arg], args: &[u64; 6], result: i64) -> i64 {
    match result == ABORTED || bounce.end(model, args, result) {
        true => result,
        false => -i64::from(errno::EFAULT),
    }
}

fn make_among_others(number: u64, args: &[u64; 6], real: &[u64; 6], model: &[Arg], blocks: bool) -> i64 {
    if number == u64::from(nr::__NR_sched_yield) {
        return contention::yield_processor();
    }
    if let Some(result) = private_futexes::execute(number, real).or_else(|| tracing::wait(number, args)) {
        return result;
    }
    if !releases_token(number, args, blocks || stopping::stops_itself(number, args)) {
        let result = kernel::call_for_program(number, real);
        note_dead_owner(number, args);
        return result;
    }
    thread().preemption.wake_no_more();
    let Some(bounce) = bounce::begin(model, args, real) else {
        return kernel::call_for_program(number, real);
    };
    private_futexes::note_elsewhere(number, true);
    token::give();
    let result = kernel::call_for_program(number, &bounce.args);
    token::take_back();
    private_futexes::note_elsewhere(number, false);
    let ended = end_bounce(&bounce, model, args, result);
    if result != ABORTED {
        note_dead_owner(number, args);
    }
    ended
}

/// True if others hold the token while the call is made, which may sleep or not.
fn releases_token(number: u64, args: &[u64; 6], blocks: bool) -> bool {
    let gives = blocks && !returns_at_once(number, args) || takes_a_while(number, args) && is_worth_giving();
    gives && !thread().keeps_token
}

/// True if nothing happens at a call but that it is made, and [`note_made`] behind it. It sends no
/// signal.
#[inline]
pub fn is_only_made(number: u64, args: &[u64; 6], blocks: bool) -> bool {
    let is_special = matches!(number as u32, nr::__NR_futex | nr::__NR_sched_yield | nr::__NR_wait4)
        || call_state::map_lists_are_open();
    !(is_special || process().shares_token && releases_token(number, args, blocks))
}

/// A call was made of which [`is_only_made`] said so.
#[inline]
pub fn note_made(number: u64, args: &[u64; 6], result: i64) {
    if process().shares_token {
        contention::note_result(number, args, result);
    }
}

/// Most bytes that are read of a file while others hold the token.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// True for a call that does so much in the kernel that another process may run meanwhile.
/// What it writes to a file keeps its place among what others see of that by mappings.
fn takes_a_while(number: u64, args: &[u64; 6]) -> bool {
    match number as u32 {
        nr::__NR_write | nr::__NR_writev | nr::__NR_sendto | nr::__NR_sendmsg | nr::__NR_sendfile => {
            !descriptor_classes::is_regular(args[0])
        }
        // Of a file no less may be read than was asked for.
        nr::__NR_read | nr::__NR_pread64 => {
            args[2] <= FILE_BYTES_MAX || !descriptor_classes::is_regular(args[0])
        }
        nr::__NR_recvfrom
        | nr::__NR_recvmsg
        | nr::__NR_accept
        | nr::__NR_accept4
        | nr::__NR_stat
        | nr::__NR_lstat
        | nr::__NR_newfstatat
        | nr::__NR_statx
        | nr::__NR_epoll_wait
        | nr::__NR_poll => true,
        nr::__NR_close => is_only_thread(),
        _ => false,
    }
}

/// True if nobody else has the process's memory, or its descriptors.
fn is_only_thread() -> bool {
    process().threads == 1 && used_processes() == 1
}

/// Makes a call on what is the process's own; others hold the token meanwhile if they want it.
pub fn make_aside(call: impl FnOnce() -> i64) -> i64 {
    if process().replays() || !is_only_thread() || !is_worth_giving() {
        return call();
    }
    token::give();
    let result = call();
    token::take_back();
    result
}

/// True if processes that share memory want to run at the same time. Where calls of live
/// sessions are under way, they may have to be made again.
#[inline]
fn is_worth_giving() -> bool {
    process().in_group && own_token::my_token().is_much_wanted() && !crate::state::live::is_on()
}

/// Where a process that owned a robust futex was killed, the kernel said so in the
/// futex's word, and so does the log.
#[inline]
fn note_dead_owner(number: u64, args: &[u64; 6]) {
    if number != u64::from(nr::__NR_futex) || !process().in_group {
        return;
    }
    let word = args[0];
    if memory::read::<u32>(word).is_some_and(|value| value & crate::signals::robust_futexes::OWNER_DIED != 0)
    {
        let log = &mut process().log;
        log.begin(Kind::Store, 0, 0);
        log.blob(word, 4, Tag::Memory, word);
        log.end();
    }
}

/// A call of a process with a token is about to be made.
#[inline]
pub fn announce(number: u64, args: &[u64; 6]) {
    note_flags(number, args);
    if process().in_group && signals::kills_itself(number, args) {
        crate::signals::robust_futexes::log_dead_owner();
    }
}

/// The flags of a descriptor may change: by fcntl(2) or ioctl(2).
#[inline]
pub fn note_flags(number: u64, args: &[u64; 6]) {
    if matches!(number as u32, nr::__NR_fcntl | nr::__NR_ioctl) {
        descriptor_classes::forget_flags(args[0]);
    }
}
