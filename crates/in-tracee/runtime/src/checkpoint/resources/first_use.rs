//! A shadow reads what its descriptors are set to after the program went on: both have the same open
//! files. So offsets that may change at any time are noted before, and what would change the rest
//! waits for the shadow.

use linux_abi::general as nr;

use crate::address_space::descriptor_classes;
use crate::checkpoint::area::area;
use crate::checkpoint::resources::{lists, postponed, terminals};
use crate::checkpoint::take::slots;
use crate::ground::kernel;
use crate::state::block::process;

const FIONBIO: u32 = 0x5421;

/// Notes the offsets of files that the program uses, before it goes on; others it
/// first waits for, see [`wait`].
pub fn note_offsets() {
    let mut noted = 0;
    let offsets = &mut area().offsets;
    for fd in descriptor_classes::files_in_use() {
        let offset = kernel::call(nr::__NR_lseek, [u64::from(fd), 0, 1, 0, 0, 0]);
        if noted < offsets.len() && !kernel::failed(offset) {
            offsets[noted] = (fd + 1, offset as u64);
            noted += 1;
        } else {
            descriptor_classes::forget_class(fd);
        }
    }
    offsets[noted..].fill((0, 0));
}

/// The program uses a descriptor that no checkpoint noted: the shadow notes it first.
pub fn wait() {
    if !crate::state::live::is_on()
        || process().slot != 0
        || process().replays()
        || !crate::checkpoint::area::lane_takes_part()
    {
        return;
    }
    if let Some(last) = slots::last().filter(|last| !slots::is_postponed(last)) {
        lists::wait_until_ready(last);
    }
}

/// A call is about to be made: if it changes what a shadow is about to read of a descriptor, that
/// comes first. Of files that are in use it was noted already.
#[inline]
pub fn before_change(number: u64, args: &[u64; 6]) {
    postponed::before_call(number, args);
    match number as u32 {
        nr::__NR_close => lists::wait_for_closing(args[0] as u32, args[0] as u32),
        nr::__NR_close_range => lists::wait_for_closing(args[0] as u32, args[1] as u32),
        nr::__NR_dup2 | nr::__NR_dup3 => lists::wait_for_closing(args[1] as u32, args[1] as u32),
        nr::__NR_epoll_ctl | nr::__NR_shutdown | nr::__NR_listen | nr::__NR_timerfd_settime => {
            lists::wait_for_all();
        }
        nr::__NR_ioctl if terminals::is_change(args[1] & 0xffff_ffff) => lists::wait_for_all(),
        nr::__NR_getdents | nr::__NR_getdents64 => lists::wait_for_lists(),
        nr::__NR_fcntl if args[1] as u32 == nr::F_SETFL => lists::wait_for_lists(),
        nr::__NR_ioctl if args[1] as u32 == FIONBIO => lists::wait_for_lists(),
        nr::__NR_lseek if !descriptor_classes::is_regular(args[0]) => lists::wait_for_lists(),
        nr::__NR_read | nr::__NR_readv | nr::__NR_preadv2 => {
            descriptor_classes::class_of(args[0]);
        }
        nr::__NR_sendfile => {
            descriptor_classes::class_of(args[0]);
            descriptor_classes::class_of(args[1]);
        }
        nr::__NR_copy_file_range | nr::__NR_splice => {
            descriptor_classes::class_of(args[0]);
            descriptor_classes::class_of(args[2]);
        }
        _ => {}
    }
}
