//! Getting back a file that a shadow, or a keeper, has kept open, or that is open under another
//! number.

use linux_abi::general as nr;

use super::{COPIES_MAX, NUMBERS_MAX};
use crate::checkpoint::kept_resources::{Descriptor, Tables};
use crate::checkpoint::resources::locks;
use crate::ground::kernel;
use crate::log::borrowed;
use crate::state::own_descriptors::move_high;

/// Gets a file back that the shadow has kept open.
pub fn take_from(keeper: i32, handle: i64, then: &Descriptor) {
    let mut below = [0u64; NUMBERS_MAX / 64];
    if locks::is_any() {
        fill_below(handle, then.fd, &mut below);
    }
    take_lowest(keeper, handle, then);
    for (index, word) in below.iter().enumerate() {
        for bit in (0..64).filter(|bit| word >> bit & 1 != 0) {
            kernel::call(nr::__NR_close, [index as u64 * 64 + bit, 0, 0, 0, 0, 0]);
        }
    }
}

/// Takes all numbers below one that are free, so that it is the next one: a copy of a file under
/// another number, closed again, would cost the process its locks on it.
fn fill_below(handle: i64, fd: u32, below: &mut [u64; NUMBERS_MAX / 64]) {
    loop {
        let free = kernel::call(nr::__NR_fcntl, [handle as u64, u64::from(nr::F_DUPFD_CLOEXEC), 0, 0, 0, 0]);
        if kernel::failed(free) {
            return;
        }
        match below.get_mut(free as usize / 64) {
            Some(word) if (free as u32) < fd => *word |= 1 << (free % 64),
            _ => {
                kernel::call(nr::__NR_close, [free as u64, 0, 0, 0, 0, 0]);
                return;
            }
        }
    }
}

/// The same, by way of the lowest number that is free.
fn take_lowest(keeper: i32, handle: i64, then: &Descriptor) {
    let mut copy = kernel::call(nr::__NR_pidfd_getfd, [handle as u64, u64::from(then.fd), 0, 0, 0, 0]);
    if kernel::failed(copy) {
        copy = borrowed::open(lane_protocol::borrowed::DESCRIPTOR, [keeper as u64, u64::from(then.fd)]);
    }
    if kernel::failed(copy) {
        return;
    }
    if copy as u32 == then.fd {
        let what = u64::from(nr::F_SETFD);
        kernel::call(nr::__NR_fcntl, [u64::from(then.fd), what, u64::from(then.flags), 0, 0, 0]);
    } else {
        let flags = if then.flags != 0 { u64::from(nr::O_CLOEXEC) } else { 0 };
        kernel::call(nr::__NR_dup3, [copy as u64, u64::from(then.fd), flags, 0, 0, 0]);
        kernel::call(nr::__NR_close, [copy as u64, 0, 0, 0, 0, 0]);
    }
}

/// What was closed since may be open under another number: copies of that, which are out of the
/// way, by the number that they are for.
pub fn copy_others(tables: &Tables, copies: &mut [(u32, u64); COPIES_MAX]) {
    let is_closed = |then: &&Descriptor| !tables.now.find(then.fd).is_some_and(|now| then.is_same(now));
    let closed = tables.then.all().iter().filter(is_closed);
    let found =
        closed.filter_map(|then| tables.now.all().iter().find(|now| then.is_copy(now)).zip(Some(then)));
    for ((other, then), place) in found.zip(copies) {
        let copy =
            kernel::call(nr::__NR_fcntl, [u64::from(other.fd), u64::from(nr::F_DUPFD_CLOEXEC), 0, 0, 0, 0]);
        if let Some(copy) = move_high(copy) {
            *place = (then.fd, copy as u64);
        }
    }
}
