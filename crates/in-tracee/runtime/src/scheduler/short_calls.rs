//! Calls that may sleep by their rows, and will not.

use linux_abi::general as nr;

use crate::address_space::descriptor_classes;

/// True if a call of a row that may sleep will not: others would only get in the
/// way for its time.
pub fn returns_at_once(number: u64, args: &[u64; 6]) -> bool {
    const MSG_DONTWAIT: u64 = 0x40;
    match number as u32 {
        // Reading and writing a file on a disk does not wait for anybody.
        nr::__NR_read | nr::__NR_readv | nr::__NR_write | nr::__NR_writev => {
            descriptor_classes::never_sleeps(args[0]) || descriptor_classes::is_regular(args[0])
        }
        nr::__NR_pread64
        | nr::__NR_preadv
        | nr::__NR_preadv2
        | nr::__NR_pwrite64
        | nr::__NR_pwritev
        | nr::__NR_pwritev2 => descriptor_classes::is_regular(args[0]),
        nr::__NR_recvfrom | nr::__NR_sendto | nr::__NR_recvmmsg | nr::__NR_sendmmsg => {
            args[3] & MSG_DONTWAIT != 0 || descriptor_classes::never_sleeps(args[0])
        }
        nr::__NR_recvmsg | nr::__NR_sendmsg => {
            args[2] & MSG_DONTWAIT != 0 || descriptor_classes::never_sleeps(args[0])
        }
        nr::__NR_accept | nr::__NR_accept4 | nr::__NR_connect | nr::__NR_sendfile => {
            descriptor_classes::never_sleeps(args[0])
        }
        nr::__NR_epoll_wait | nr::__NR_epoll_pwait => args[3] as u32 == 0,
        nr::__NR_poll => args[2] as u32 == 0,
        nr::__NR_futex => wakes_others(args),
        nr::__NR_close => true,
        _ => false,
    }
}

/// True for futex(2) where it wakes those who wait.
pub fn wakes_others(args: &[u64; 6]) -> bool {
    let operation = args[1] as u32 & !(nr::FUTEX_PRIVATE_FLAG | nr::FUTEX_CLOCK_REALTIME);
    matches!(operation, nr::FUTEX_WAKE | nr::FUTEX_WAKE_BITSET | nr::FUTEX_WAKE_OP)
}
