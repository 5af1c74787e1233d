//! Opening a named pipe waits for who opens its other end (fifo(7)): without sleeping in the kernel.

use lane_protocol::LAB_NEVER;
use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::lab;

const AT_FDCWD: u64 = -100i64 as u64;
const NONBLOCK: u64 = nr::O_NONBLOCK as u64;
const S_IFMT: u32 = 0o170_000;
const S_IFIFO: u32 = 0o010_000;

/// open(2) or openat(2) of a named pipe that may wait; `None`: it is none, or does not wait.
pub fn open(number: u64, real: &[u64; 6]) -> Option<i64> {
    const O_PATH: u64 = nr::O_PATH as u64;
    let (dir, place) = match number as u32 {
        nr::__NR_open => (AT_FDCWD, 0),
        _ => (real[0], 1),
    };
    let flags = real[place + 1];
    let access = flags & u64::from(nr::O_ACCMODE);
    if flags & (NONBLOCK | O_PATH) != 0 || access == u64::from(nr::O_RDWR) || !is_fifo(dir, real[place]) {
        return None;
    }
    let mut attempt = *real;
    attempt[place + 1] |= NONBLOCK;
    let result = match access == u64::from(nr::O_RDONLY) {
        true => open_to_read(number, &attempt),
        false => lab::wait_for(LAB_NEVER, true, 0, &mut || {
            let result = kernel::call_for_program(number, &attempt);
            (result != -i64::from(errno::ENXIO)).then_some(result)
        }),
    };
    if result >= 0 {
        kernel::call(nr::__NR_fcntl, [result as u64, u64::from(nr::F_SETFL), flags, 0, 0, 0]);
    }
    Some(result)
}

/// It is open at once, so that who writes finds it so, and there for the program when somebody does.
fn open_to_read(number: u64, attempt: &[u64; 6]) -> i64 {
    let fd = kernel::call_for_program(number, attempt);
    if kernel::failed(fd) {
        return fd;
    }
    let result = lab::wait_for(LAB_NEVER, true, 0, &mut || has_writer(fd as u64).then_some(fd));
    if result != fd {
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    result
}

/// Whether somebody has it open to write, or had since it was opened here.
fn has_writer(fd: u64) -> bool {
    const POLLIN: u64 = 1;
    // A struct pollfd: descriptor, what is asked, what is.
    let mut poll = [fd & 0xffff_ffff | POLLIN << 32];
    let none = [0u64; 2];
    let words = [poll.as_mut_ptr() as u64, 1, none.as_ptr() as u64, 0, 0, 0];
    if kernel::call(nr::__NR_ppoll, words) > 0 {
        return true;
    }
    core::hint::black_box((&poll, &none));
    // It is empty: without anybody who writes that is its end.
    let mut byte = [0u8];
    let read = kernel::call(nr::__NR_read, [fd, byte.as_mut_ptr() as u64, 1, 0, 0, 0]);
    core::hint::black_box(&byte);
    read != 0
}

fn is_fifo(dir: u64, path: u64) -> bool {
    let mut stat = [0u64; 18];
    let found = kernel::call(nr::__NR_newfstatat, [dir, path, stat.as_mut_ptr() as u64, 0, 0, 0]);
    found == 0 && core::hint::black_box(stat)[3] as u32 & S_IFMT == S_IFIFO
}
