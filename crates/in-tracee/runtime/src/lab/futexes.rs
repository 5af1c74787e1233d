//! Futexes: who waits for which word is known to the engine, so that threads are woken in one order.

use lane_protocol::{LAB_NEVER, lab_answer, lab_question};
use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};
use crate::lab::{self, clocks};

const PRIVATE: u64 = nr::FUTEX_PRIVATE_FLAG as u64;
const REALTIME: u64 = nr::FUTEX_CLOCK_REALTIME as u64;
const ANY: u64 = u32::MAX as u64;

/// futex(2).
pub fn execute(args: &[u64; 6]) -> i64 {
    let shared = u64::from(args[1] & PRIVATE == 0);
    let command = (args[1] & !(PRIVATE | REALTIME)) as u32;
    let takes_clock =
        matches!(command, nr::FUTEX_WAIT_BITSET | nr::FUTEX_WAIT_REQUEUE_PI | nr::FUTEX_LOCK_PI2);
    if args[1] & REALTIME != 0 && !takes_clock {
        return -i64::from(errno::ENOSYS);
    }
    if let Some(error) = misplaced(args[0], shared != 0) {
        return error;
    }
    match command {
        nr::FUTEX_LOCK_PI => lock(args, clocks::at(args[3], 0)),
        nr::FUTEX_LOCK_PI2 => lock(args, clocks::at(args[3], u64::from(args[1] & REALTIME == 0))),
        // As on a kernel without priority inheritance: its waiters would sleep there.
        nr::FUTEX_WAIT_REQUEUE_PI | nr::FUTEX_CMP_REQUEUE_PI => -i64::from(errno::ENOSYS),
        nr::FUTEX_WAIT => wait(args, clocks::after(args[3]), ANY, shared),
        nr::FUTEX_WAIT_BITSET => {
            let clock = u64::from(args[1] & REALTIME == 0);
            wait(args, clocks::at(args[3], clock), args[5] & ANY, shared)
        }
        nr::FUTEX_WAKE => wake_in_turn(args[0], ANY, args[2], shared),
        nr::FUTEX_WAKE_BITSET => wake_in_turn(args[0], args[5] & ANY, args[2], shared),
        nr::FUTEX_REQUEUE | nr::FUTEX_CMP_REQUEUE => requeue(args, command, shared),
        nr::FUTEX_WAKE_OP => wake_after_change(args, shared),
        _ => kernel::call_for_program(u64::from(nr::__NR_futex), args),
    }
}

/// What the kernel says of a word that cannot be one: it knows those of processes by their pages, and others by their
/// addresses alone.
fn misplaced(address: u64, is_shared: bool) -> Option<i64> {
    const USERS_END: u64 = 0x7fff_ffff_f000;
    if !address.is_multiple_of(4) {
        return Some(-i64::from(errno::EINVAL));
    }
    let is_there = address < USERS_END && (!is_shared || memory::read::<u32>(address).is_some());
    (!is_there).then(|| -i64::from(errno::EFAULT))
}

/// A futex with priority inheritance is tried until it is free: whose priority it has is of no effect in a lab.
fn lock(args: &[u64; 6], until: Option<u64>) -> i64 {
    let Some(until) = until else { return -i64::from(errno::EINVAL) };
    let again = -i64::from(errno::EAGAIN);
    let mut attempt = *args;
    attempt[1] = u64::from(nr::FUTEX_TRYLOCK_PI) | args[1] & PRIVATE;
    lab::wait_for(until, true, -i64::from(errno::ETIMEDOUT), &mut || {
        let result = kernel::call_for_program(u64::from(nr::__NR_futex), &attempt);
        (result != again).then_some(result)
    })
}

fn wait(args: &[u64; 6], until: Option<u64>, bits: u64, shared: u64) -> i64 {
    let Some(until) = until.filter(|_| bits != 0) else { return -i64::from(errno::EINVAL) };
    match memory::read::<u32>(args[0]) {
        None => return -i64::from(errno::EFAULT),
        Some(value) if value != args[2] as u32 => return -i64::from(errno::EAGAIN),
        Some(_) => {}
    }
    loop {
        let answer = lab::ask_aside(lab_question::FUTEX_WAIT, &[args[0], bits, until, shared]);
        match answer.kind {
            lab_answer::TIMEOUT => return -i64::from(errno::ETIMEDOUT),
            lab_answer::RESULT => return 0,
            // The kernel changed it: it clears words where threads end, and marks their locks.
            _ if memory::read::<u32>(args[0]) != Some(args[2] as u32) => return 0,
            _ => {}
        }
        if let Some(result) = lab::interrupted(until == LAB_NEVER) {
            return result;
        }
    }
}

/// The same for the program: now and then those who were woken go on before the calling thread does, which may take again
/// what they wait for.
fn wake_in_turn(address: u64, bits: u64, count: u64, shared: u64) -> i64 {
    let words = [address, bits, u64::from(count as u32), shared, 1];
    lab::ask_aside(lab_question::FUTEX_WAKE, &words).result
}

/// Wakes at most so many who wait for the word.
pub fn wake(address: u64, bits: u64, count: u64, shared: u64) -> i64 {
    lab::ask(lab_question::FUTEX_WAKE, &[address, bits, u64::from(count as u32), shared]).result
}

fn requeue(args: &[u64; 6], command: u32, shared: u64) -> i64 {
    if (args[2] as i32) < 0 || (args[3] as i32) < 0 {
        return -i64::from(errno::EINVAL);
    }
    if command == nr::FUTEX_CMP_REQUEUE {
        match memory::read::<u32>(args[0]) {
            None => return -i64::from(errno::EFAULT),
            Some(value) if value != args[5] as u32 => return -i64::from(errno::EAGAIN),
            Some(_) => {}
        }
    }
    let counts = [args[2], args[3]].map(|count| u64::from(count as u32));
    lab::ask(lab_question::FUTEX_REQUEUE, &[args[0], args[4], counts[0], counts[1], shared]).result
}

/// FUTEX_WAKE_OP: another word is changed, and those are woken, too, if it had a certain value.
fn wake_after_change(args: &[u64; 6], shared: u64) -> i64 {
    let word = args[5] as u32;
    let (change, comparison) = (word >> 28 & 7, word >> 24 & 15);
    let sign_extended = |value: u32| (value << 20) as i32 >> 20;
    let (by, than) = (sign_extended(word >> 12 & 0xfff), sign_extended(word & 0xfff));
    let by = if word >> 31 != 0 { 1 << (by & 31) } else { by };
    let Some(before) = memory::read::<i32>(args[4]) else { return -i64::from(errno::EFAULT) };
    let after = match change {
        0 => by,
        1 => before.wrapping_add(by),
        2 => before | by,
        3 => before & !by,
        4 => before ^ by,
        _ => return -i64::from(errno::ENOSYS),
    };
    if !memory::write(args[4], &after) {
        return -i64::from(errno::EFAULT);
    }
    let holds = match comparison {
        0 => before == than,
        1 => before != than,
        2 => before < than,
        3 => before <= than,
        4 => before > than,
        5 => before >= than,
        _ => return -i64::from(errno::ENOSYS),
    };
    let woken = wake(args[0], ANY, args[2], shared);
    if holds { woken + wake(args[4], ANY, args[3], shared) } else { woken }
}
