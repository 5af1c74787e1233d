//! Flags of epoll and futexes.

use super::flag_sets;

flag_sets! {
    /// epoll_ctl(2).
    EPOLL_CTL one_of { EPOLL_CTL_ADD 1, EPOLL_CTL_DEL 2, EPOLL_CTL_MOD 3 }
    /// The operation of futex(2): a command with two bits.
    FUTEX bits {
        FUTEX_LOCK_PI2 13, FUTEX_CMP_REQUEUE_PI 12, FUTEX_WAIT_REQUEUE_PI 11, FUTEX_WAKE_BITSET 10,
        FUTEX_WAIT_BITSET 9, FUTEX_TRYLOCK_PI 8, FUTEX_UNLOCK_PI 7, FUTEX_LOCK_PI 6, FUTEX_WAKE_OP 5,
        FUTEX_CMP_REQUEUE 4, FUTEX_REQUEUE 3, FUTEX_FD 2, FUTEX_WAKE 1, FUTEX_WAIT 0, FUTEX_PRIVATE_FLAG 0x80,
        FUTEX_CLOCK_REALTIME 0x100,
    }
    /// futex_wait(2), futex_wake(2) and their kin.
    FUTEX2 bits {
        FUTEX2_SIZE_U64 3, FUTEX2_SIZE_U32 2, FUTEX2_SIZE_U16 1, FUTEX2_SIZE_U8 0, FUTEX2_NUMA 4,
        FUTEX2_PRIVATE 0x80,
    }
}
