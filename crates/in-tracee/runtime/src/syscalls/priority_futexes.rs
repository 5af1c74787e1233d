//! The futex commands with priority inheritance, which change the futex's word in
//! the kernel while its owner runs: done here, under the token. One thread of a
//! lane runs at a time, so there is no priority to inherit.
//!
//! The word is as futex(2) says: the owner's thread id, FUTEX_WAITERS,
//! FUTEX_OWNER_DIED; 0: free. Waiters sleep in the kernel on the word itself, and as those
//! of shared futexes do: so the end of a thread wakes them.

use events::{Kind, Tag};
use linux_abi::{errno, general as nr};
use syscall_model::Arg;

use crate::ground::kernel::ABORTED;
use crate::ground::memory;
use crate::ground::registers::Registers;
use crate::log::call_event::{self, begin_call};
use crate::signals::robust_futexes;
use crate::state::block::{process, thread};
use crate::state::call_state::Done;
use crate::syscalls::calls;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;
const COMMAND_MASK: u32 = !0x180;
const PRIVATE: u32 = 0x80;
const REALTIME: u32 = 0x100;

/// Performs one of the commands.
pub fn execute(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return call_event::replayed(registers);
    }
    let [word, operation, ..] = *args;
    let command = operation as u32 & COMMAND_MASK;
    // Only these know two clocks; the kernel refuses the flag for all others.
    let has_clock = matches!(command, nr::FUTEX_LOCK_PI2 | nr::FUTEX_WAIT_REQUEUE_PI);
    if operation as u32 & REALTIME != 0 && !has_clock {
        return call_event::reject(registers, number, args, model.len(), errno::ENOSYS);
    }
    let mut changed = word;
    let result = match command {
        nr::FUTEX_LOCK_PI | nr::FUTEX_LOCK_PI2 => {
            // LOCK_PI's time is of CLOCK_REALTIME, LOCK_PI2's as the flag says; both absolute.
            let clock = if command == nr::FUTEX_LOCK_PI { REALTIME } else { operation as u32 & REALTIME };
            lock(word, clock, args[3], true)
        }
        nr::FUTEX_TRYLOCK_PI => try_lock(word).unwrap_or(-i64::from(errno::EAGAIN)),
        nr::FUTEX_UNLOCK_PI => unlock(word),
        nr::FUTEX_WAIT_REQUEUE_PI | nr::FUTEX_CMP_REQUEUE_PI => {
            changed = args[4];
            if word == changed {
                return call_event::reject(registers, number, args, model.len(), errno::EINVAL);
            }
            if command == nr::FUTEX_WAIT_REQUEUE_PI { wait_to_lock(args) } else { wake_to_lock(args) }
        }
        _ => return call_event::reject(registers, number, args, model.len(), errno::ENOSYS),
    };
    if result == ABORTED {
        return Done::Aborted;
    }
    begin_call(number, args, model.len(), result, 0);
    if memory::read::<u32>(changed).is_some() {
        process().log.blob(changed, 4, Tag::Memory, changed);
    }
    process().log.end();
    Done::Result(result)
}

/// FUTEX_WAIT_REQUEUE_PI: waits for one word, then takes the futex at another. Who is woken
/// goes from one to the other by itself.
fn wait_to_lock(args: &[u64; 6]) -> i64 {
    let [word, operation, value, timeout, target, _] = *args;
    let clock = operation as u32 & REALTIME;
    let wait = nr::FUTEX_WAIT_BITSET | operation as u32 & PRIVATE | if timeout != 0 { clock } else { 0 };
    let real = [word, u64::from(wait), value, timeout, 0, u64::from(u32::MAX)];
    let again = -i64::from(errno::EAGAIN);
    let result = calls::make(u64::from(nr::__NR_futex), &real, &real, &[], true);
    let result = if result == 0 { lock(target, clock, timeout, true) } else { result };
    // What a signal interrupts the program does again (futex(2)).
    let interrupted = result == -i64::from(errno::EINTR) || result == ABORTED;
    if interrupted { again } else { result }
}

/// FUTEX_CMP_REQUEUE_PI: those that would be moved to the other word are woken, and go there.
fn wake_to_lock(args: &[u64; 6]) -> i64 {
    let [word, operation, wakes, moves, _, expected] = *args;
    let Some(value) = memory::read::<u32>(word) else { return -i64::from(errno::EFAULT) };
    if wakes as u32 != 1 || (moves as u32 as i32) < 0 {
        return -i64::from(errno::EINVAL);
    }
    if value != expected as u32 {
        return -i64::from(errno::EAGAIN);
    }
    let count = (moves as u32).saturating_add(1).min(i32::MAX as u32);
    let wake = nr::FUTEX_WAKE | operation as u32 & PRIVATE;
    let real = [word, u64::from(wake), u64::from(count), 0, 0, 0];
    calls::make(u64::from(nr::__NR_futex), &real, &real, &[], false)
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

fn lock(word: u64, clock: u32, timeout: u64, mut first: bool) -> i64 {
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
        robust_futexes::wake_futex(word);
    }
    0
}
