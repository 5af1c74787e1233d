//! Calls that move input elsewhere inside the kernel (splice, tee, sendfile): of what is given
//! back, it is written there.

use linux_abi::{errno, general as nr};

use super::{ENDED, data_of, used};
use crate::address_space::descriptor_classes;
use crate::checkpoint::kept_resources::Pushed;
use crate::checkpoint::resources::files;
use crate::ground::kernel::{self, error};
use crate::ground::memory;

/// What a pipe takes at once that has any room, and a socket that can be written to.
const PART_BYTES: u64 = 4096;

/// Where input goes, as the call says it.
pub struct Passing {
    pub source: u64,
    pub target: u64,
    /// Where the place in the target's file stands; 0: at its descriptor's.
    pub offset_at: u64,
    pub bytes: u64,
    /// SPLICE_F_NONBLOCK.
    pub waits: bool,
    /// It stays where it is, too.
    pub peeks: bool,
}

/// splice(2) and its like; `None`: nothing of it is given back.
pub fn pass(number: u64, passing: &Passing) -> Option<i64> {
    let Pushed { kind, at, left, .. } = *data_of(passing.source)?;
    let target = passing.target;
    if descriptor_classes::class_of(target) != 0 || files::refuses_copy(number, target) {
        // It is refused.
        return None;
    }
    if kind == ENDED || passing.bytes == 0 {
        return Some(0);
    }
    // Whoever is here holds the token, and so does not wait for room.
    const POLLOUT: u64 = 4;
    let mut entry = target & 0xffff_ffff | POLLOUT << 32;
    kernel::call(nr::__NR_poll, [&raw mut entry as u64, 1, 0, 0, 0, 0]);
    if entry >> 48 == 0 {
        return Some(error(if passing.waits { errno::EINTR } else { errno::EAGAIN }));
    }
    let bytes = passing.bytes.min(left).min(PART_BYTES);
    let written = match passing.offset_at {
        0 => kernel::call(nr::__NR_write, [target, at, bytes, 0, 0, 0]),
        place => {
            let Some(offset) = memory::read::<u64>(place) else { return Some(error(errno::EFAULT)) };
            let written = kernel::call(nr::__NR_pwrite64, [target, at, bytes, offset, 0, 0]);
            if written > 0 {
                memory::write(place, &(offset + written as u64));
            }
            written
        }
    };
    if written > 0 && !passing.peeks {
        used(&mut *data_of(passing.source)?, written as u64, true);
    }
    Some(written)
}
