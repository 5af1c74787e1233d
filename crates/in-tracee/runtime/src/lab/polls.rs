//! Calls that wait for descriptors, or for children: made without waiting, until they find something.

use lane_protocol::LAB_NEVER;
use linux_abi::{errno, general as nr};

use crate::ground::{kernel, memory};
use crate::lab::{self, clocks, signal_times};

const MILLION: u64 = 1_000_000;
/// Bytes of a set of descriptors that select(2) takes, at most.
const SET_BYTES_MAX: usize = 8192;

/// When milliseconds are over that the program gave; never for negative ones.
fn after_ms(milliseconds: u64) -> u64 {
    match milliseconds as i32 {
        ..0 => LAB_NEVER,
        ms => clocks::now_ns() + ms as u64 * MILLION,
    }
}

/// True for the calls that [`perform`] makes.
pub fn is_poll(number: u64) -> bool {
    matches!(number as u32, nr::__NR_poll | nr::__NR_ppoll | nr::__NR_select | nr::__NR_pselect6)
        || number == u64::from(nr::__NR_epoll_wait)
        || is_epoll(number)
}

/// poll(2), select(2), epoll_wait(2) and their kin.
pub fn execute(number: u64, real: &[u64; 6]) -> i64 {
    let none = [0u64; 2];
    let zero = none.as_ptr() as u64;
    let mut attempt = *real;
    let until = match number as u32 {
        nr::__NR_poll => {
            attempt[2] = 0;
            Some(after_ms(real[2]))
        }
        nr::__NR_epoll_wait | nr::__NR_epoll_pwait => {
            attempt[3] = 0;
            Some(after_ms(real[3]))
        }
        nr::__NR_ppoll => {
            attempt[2] = zero;
            clocks::after(real[2])
        }
        nr::__NR_epoll_pwait2 => {
            attempt[3] = zero;
            clocks::after(real[3])
        }
        nr::__NR_select => {
            attempt[4] = zero;
            after_timeval(real[4])
        }
        _ => {
            attempt[4] = zero;
            clocks::after(real[4])
        }
    };
    let Some(until) = until else { return -i64::from(errno::EINVAL) };
    let result = match number as u32 {
        nr::__NR_select | nr::__NR_pselect6 => select(number, &attempt, until),
        _ => lab::wait_for(until, false, 0, &mut || {
            let mut result = kernel::call_for_program(number, &attempt);
            // Without waiting, epoll_pwait(2) does not look for signals that its mask lets through; ppoll(2) does.
            if result == 0 && is_epoll(number) && real[4] != 0 {
                let look = [0, 0, zero, real[4], 8, 0];
                result = kernel::call_for_program(u64::from(nr::__NR_ppoll), &look);
            }
            (result != 0 || until <= clocks::now_ns()).then_some(result)
        }),
    };
    core::hint::black_box(&none);
    tell_rest(number, real, until);
    result
}

/// How much of its time is left, in the place where it was given (select(2), notes on Linux).
fn tell_rest(number: u64, real: &[u64; 6], until: u64) {
    let (address, unit) = match number as u32 {
        nr::__NR_select => (real[4], 1000),
        nr::__NR_pselect6 => (real[4], 1),
        nr::__NR_ppoll => (real[2], 1),
        _ => return,
    };
    if address != 0 && until != LAB_NEVER {
        let left = until.saturating_sub(clocks::now_ns());
        memory::write(address, &[left / (1000 * MILLION), left % (1000 * MILLION) / unit]);
    }
}

/// True for calls whose fifth argument is a mask.
fn is_epoll(number: u64) -> bool {
    matches!(number as u32, nr::__NR_epoll_pwait | nr::__NR_epoll_pwait2)
}

/// The time of select(2), which is in microseconds.
fn after_timeval(address: u64) -> Option<u64> {
    if address == 0 {
        return Some(LAB_NEVER);
    }
    let [seconds, microseconds] = memory::read::<[u64; 2]>(address)?;
    Some(clocks::now_ns() + seconds.saturating_mul(1000 * MILLION) + microseconds * 1000)
}

/// The sets are questions and answers at once: each attempt asks anew.
fn select(number: u64, attempt: &[u64; 6], until: u64) -> i64 {
    let bytes = (attempt[0] as u32).div_ceil(64) as usize * 8;
    let mut asked = [[0u8; SET_BYTES_MAX / 64]; 3];
    if bytes > asked[0].len() {
        // More than FD_SETSIZE descriptors.
        return -i64::from(errno::EINVAL);
    }
    for (set, &address) in asked.iter_mut().zip(&attempt[1..4]) {
        if address != 0 && !memory::copy(set.as_mut_ptr() as u64, address, bytes as u64) {
            return -i64::from(errno::EFAULT);
        }
    }
    lab::wait_for(until, false, 0, &mut || {
        let result = kernel::call_for_program(number, attempt);
        if result != 0 || until <= clocks::now_ns() {
            return Some(result);
        }
        for (set, &address) in asked.iter().zip(&attempt[1..4]) {
            if address != 0 {
                memory::copy(address, set.as_ptr() as u64, bytes as u64);
            }
        }
        None
    })
}

/// wait4(2) and waitid(2).
pub fn wait_for_child(number: u64, real: &[u64; 6]) -> i64 {
    const WNOHANG: u64 = 1;
    let is_id = number == u64::from(nr::__NR_waitid);
    let options = if is_id { 3 } else { 2 };
    let usage = real[options + 1];
    if real[options] & WNOHANG != 0 {
        return without_usage(usage, kernel::call_for_program(number, real));
    }
    let mut attempt = *real;
    attempt[options] |= WNOHANG;
    let mut info = [0u64; 16];
    if is_id && real[2] == 0 {
        attempt[2] = info.as_mut_ptr() as u64;
    }
    let result = lab::wait_for_children(&mut || {
        let result = kernel::call_for_program(number, &attempt);
        let found = match is_id {
            // si_signo is zero where no child has changed.
            true => result != 0 || memory::read::<u32>(attempt[2]).is_none_or(|signal| signal != 0),
            false => result != 0,
        };
        found.then_some(result)
    });
    core::hint::black_box(&info);
    without_usage(usage, result)
}

/// The result, behind which the program finds nothing used.
fn without_usage(usage: u64, result: i64) -> i64 {
    if !kernel::failed(result) {
        signal_times::hide_usage(usage);
    }
    result
}

/// rt_sigsuspend(2) and pause(2): `mask` is the address of the set that the kernel is to have
/// meanwhile; 0: as it is.
pub fn wait_for_signal(mask: u64) -> i64 {
    let none = [0u64; 2];
    let words = [0, 0, none.as_ptr() as u64, mask, 8, 0];
    let result = lab::wait_for(LAB_NEVER, false, -i64::from(errno::EINTR), &mut || {
        let result = kernel::call_for_program(u64::from(nr::__NR_ppoll), &words);
        (result != 0).then_some(result)
    });
    core::hint::black_box(&none);
    result
}

/// rt_sigtimedwait(2).
pub fn take_signal(real: &[u64; 6]) -> i64 {
    let none = [0u64; 2];
    let again = -i64::from(errno::EAGAIN);
    let Some(until) = clocks::after(real[2]) else { return -i64::from(errno::EINVAL) };
    let mut attempt = *real;
    attempt[2] = none.as_ptr() as u64;
    let result = lab::wait_for(until, false, again, &mut || {
        let result = kernel::call_for_program(u64::from(nr::__NR_rt_sigtimedwait), &attempt);
        (result != again).then_some(result)
    });
    core::hint::black_box(&none);
    if result > 0 && real[1] != 0 {
        signal_times::hide_in_info(real[1]);
    }
    result
}
