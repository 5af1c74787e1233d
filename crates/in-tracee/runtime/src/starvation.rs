//! Who wakes for a lock again and again, and finds it taken, is let in.
//!
//! A thread that unlocks, locks again and makes calls only while it has the lock gives the turn with
//! the lock only, and would keep all others out for ever. Those whose futexes the runtime keeps are
//! let in there (`private_futexes`); this is for the kernel's.

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::block::thread;
use crate::private_futexes::{self, IN_VAIN_MAX, PRIVATE};
use crate::{calls, kernel, turn};

/// How long who was woken has for coming.
const LET_IN_NS: u64 = 5_000_000;
/// How long a look for it is.
const LOOK_NS: u64 = 50_000;

/// How often a thread woke in a row for the same lock, whatever it did between.
#[repr(C)]
pub struct Wakes {
    word: u64,
    in_vain: u32,
}

/// True for calls after which others may be let in.
pub fn lets_in(number: u64) -> bool {
    number == u64::from(nr::__NR_futex)
}

impl Wakes {
    /// Recording: a call of the thread ended so.
    #[inline]
    pub fn note(&mut self, number: u64, args: &[u64; 6], result: i64) {
        if lets_in(number) {
            self.note_futex(args, result);
        }
    }

    fn note_futex(&mut self, args: &[u64; 6], result: i64) {
        if args[1] as u32 & PRIVATE != 0 && private_futexes::are_ours() {
            return;
        }
        let turn = turn::my_turn();
        if calls::wakes_others(args) {
            self.in_vain = 0;
            if result > 0 && turn.starving.load(Ordering::Relaxed) != 0 && !thread().keeps_turn {
                turn.starving.store(0, Ordering::Relaxed);
                let_in();
            }
            return;
        }
        if result != 0 {
            return;
        }
        let is_again = self.word == args[0];
        self.word = args[0];
        self.in_vain = if is_again { self.in_vain + 1 } else { 0 };
        if self.in_vain >= IN_VAIN_MAX {
            self.in_vain = 0;
            turn.starving.store(1, Ordering::Relaxed);
        }
    }
}

/// Somebody else has the turn before the lock can be taken again.
#[cold]
fn let_in() {
    let turn = turn::my_turn();
    let seen = turn.changes.load(Ordering::Relaxed);
    let until_ns = kernel::monotonic_ns() + LET_IN_NS;
    turn::give();
    while turn.changes.load(Ordering::Relaxed) == seen && kernel::monotonic_ns() < until_ns {
        kernel::sleep_ns(LOOK_NS);
    }
    turn::take();
}
