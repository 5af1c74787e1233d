//! The futex commands with priority inheritance, which change the futex's word in
//! the kernel while its owner runs: done here, under the turn. One thread of a
//! lane runs at a time, so there is no priority to inherit.
//!
//! The word is as futex(2) says: the owner's thread id, FUTEX_WAITERS,
//! FUTEX_OWNER_DIED; 0: free. Waiters sleep in the kernel on the word itself, and as those
//! of shared futexes do: so the end of a thread wakes them.

use events::{Kind, Tag};
use linux_abi::{errno, general as nr};
use syscall_model::Arg;

use crate::block::{process, thread};
use crate::dispatch::{Done, begin_call};
use crate::entry::Registers;
use crate::kernel::ABORTED;
use crate::{calls, memory, specials, threads};

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;
const COMMAND_MASK: u32 = !0x180;
const REALTIME: u32 = 0x100;

/// Performs one of the commands.
pub fn perform(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replaying {
        return specials::replayed(registers);
    }
    let [word, operation, ..] = *args;
    let result = match operation as u32 & COMMAND_MASK {
        nr::FUTEX_LOCK_PI | nr::FUTEX_LOCK_PI2 => lock(word, args, true),
        nr::FUTEX_TRYLOCK_PI => try_lock(word).unwrap_or(-i64::from(errno::EAGAIN)),
        nr::FUTEX_UNLOCK_PI => unlock(word),
        // Condition variables of glibc do not use these.
        _ => return specials::refuse(registers, number, args, model.len(), errno::ENOSYS),
    };
    if result == ABORTED {
        return Done::Aborted;
    }
    begin_call(number, args, model.len(), result, 0);
    process().log.blob(word, 4, Tag::Memory, word);
    process().log.end();
    Done::Result(result)
}

/// Takes the futex if it is free; an error if it is the caller's or not there.
fn try_lock(word: u64) -> Option<i64> {
    let own = thread().tid as u32;
    let Some(value) = memory::read::<u32>(word) else { return Some(-i64::from(errno::EFAULT)) };
    if value & TID_MASK == own {
        return Some(-i64::from(errno::EDEADLK));
    }
    if value & TID_MASK == 0 {
        memory::write(word, &(own | value & (WAITERS | OWNER_DIED)));
        return Some(0);
    }
    None
}

fn lock(word: u64, args: &[u64; 6], mut first: bool) -> i64 {
    let [_, operation, _, timeout, ..] = *args;
    let command = operation as u32 & COMMAND_MASK;
    loop {
        if let Some(result) = try_lock(word) {
            // Others may wait still: whoever unlocks asks the kernel.
            if result == 0 && !first {
                let value = memory::read::<u32>(word).unwrap_or(0);
                memory::write(word, &(value | WAITERS));
            }
            return result;
        }
        first = false;
        let value = memory::read::<u32>(word).unwrap_or(0) | WAITERS;
        memory::write(word, &value);
        log_word(word);
        // LOCK_PI's time is of CLOCK_REALTIME, LOCK_PI2's as the flag says; both absolute.
        let clock = if command == nr::FUTEX_LOCK_PI { REALTIME } else { operation as u32 & REALTIME };
        let wait = nr::FUTEX_WAIT_BITSET | if timeout != 0 { clock } else { 0 };
        let real = [word, u64::from(wait), u64::from(value), timeout, 0, u64::from(u32::MAX)];
        let result = calls::make(u64::from(nr::__NR_futex), &real, &real, &[], true);
        if result == ABORTED || (result < 0 && result != -i64::from(errno::EAGAIN)) {
            return result;
        }
    }
}

/// The owner that runs meanwhile sees the word as it is now.
fn log_word(word: u64) {
    let log = &mut process().log;
    log.begin(Kind::Store, 0, 0);
    log.blob(word, 4, Tag::Memory, word);
    log.end();
}

fn unlock(word: u64) -> i64 {
    let Some(value) = memory::read::<u32>(word) else { return -i64::from(errno::EFAULT) };
    if value & TID_MASK != thread().tid as u32 {
        return -i64::from(errno::EPERM);
    }
    memory::write(word, &0u32);
    if value & WAITERS != 0 {
        threads::wake_futex(word);
    }
    0
}
