//! futex(2): the command, without the bits for private and for the clock.
//!
//! The fourth argument is a timeout for the commands that wait and a number for
//! those that requeue; the second address counts only for some. Those with priority
//! inheritance the runtime executes, see `Special::FutexPi`.

use crate::flags::polling;
use crate::notation::*;
use crate::row::{Arg, Len::Fixed, Shape::U32, Special::FutexPi, VariantTable, When::Always};

const OP: Arg = of(&polling::FUTEX);
/// A futex word that the kernel only compares: its content at the time of the
/// call is not part of the result.
const WORD: Arg = ADDRESS;
/// A futex word that the kernel changes.
const OWNER: Arg = updates(Always, U32, Fixed(4));

/// futex(2).
pub static FUTEX: VariantTable = VariantTable {
    name: "futex",
    selector: 1,
    mask: !0x180,
    variants: requests! {
        0 FUTEX_WAIT(uaddr: WORD, op: OP, val: UINT, timeout: TIMESPEC), blocks;
        1 FUTEX_WAKE(uaddr: WORD, op: OP, val: UINT);
        2 FUTEX_FD(uaddr: WORD, op: OP, val: UINT);
        3 FUTEX_REQUEUE(uaddr: WORD, op: OP, val: UINT, val2: UINT, uaddr2: WORD);
        4 FUTEX_CMP_REQUEUE(uaddr: WORD, op: OP, val: UINT, val2: UINT, uaddr2: WORD, val3: UINT);
        5 FUTEX_WAKE_OP(uaddr: WORD, op: OP, val: UINT, val2: UINT, uaddr2: OWNER, val3: HEX);
        6 FUTEX_LOCK_PI(uaddr: OWNER, op: OP, val: UINT, timeout: TIMESPEC) => execute(FutexPi), blocks;
        7 FUTEX_UNLOCK_PI(uaddr: OWNER, op: OP) => execute(FutexPi);
        8 FUTEX_TRYLOCK_PI(uaddr: OWNER, op: OP) => execute(FutexPi);
        9 FUTEX_WAIT_BITSET(uaddr: WORD, op: OP, val: UINT, timeout: TIMESPEC, uaddr2: ADDRESS, val3: HEX),
            blocks;
        10 FUTEX_WAKE_BITSET(uaddr: WORD, op: OP, val: UINT, timeout: ADDRESS, uaddr2: ADDRESS, val3: HEX);
        11 FUTEX_WAIT_REQUEUE_PI(uaddr: WORD, op: OP, val: UINT, timeout: TIMESPEC, uaddr2: OWNER, val3: HEX)
            => execute(FutexPi), blocks;
        12 FUTEX_CMP_REQUEUE_PI(uaddr: WORD, op: OP, val: UINT, val2: UINT, uaddr2: OWNER, val3: UINT)
            => execute(FutexPi);
        13 FUTEX_LOCK_PI2(uaddr: OWNER, op: OP, val: UINT, timeout: TIMESPEC) => execute(FutexPi), blocks;
    },
    fallback: DETECT,
};
