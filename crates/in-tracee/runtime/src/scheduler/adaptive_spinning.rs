//! A thread looks for a while whether what it waits for has come, before it sleeps: to be
//! woken on another processor takes longer than most hand-overs do.
//!
//! Who looks computes: two threads of an address space at most do, or as many as like where they
//! let others run between two looks; and one that looked in vain looks less often.
//!
//! Deliberately absent: what is waited for, and the sleep.

use core::sync::atomic::Ordering;

use crate::ground::kernel;
use crate::state::scheduling::{Spinners, Spinning};

/// How often it looks: about 50 microseconds, as long as it takes a thread that sleeps to
/// be there.
const SPINS: u32 = 2000;
/// So many look at a time: one, and one that has just seen what it waited for.
const SPINNERS_MAX: u32 = 2;
/// How often one looks at once: about a microsecond.
const SPINS_AT_ONCE: u32 = 40;
/// How often one that waits for its token lets others have its processor, and looks again: some 200
/// microseconds where nobody else wants to run. On a virtual machine to wake it takes the other
/// one some 30, and many holdings last longer than that.
const YIELDS: u32 = 400;
/// Where others want to run, each time may take as long as a slice of theirs: it looks for so long at
/// most, and after so many times whether that is over. Who sleeps for the token can ask for it.
const YIELDING_NS: u64 = 20_000_000;
const YIELDS_PER_CLOCK: u32 = 4;
/// How often one looks whether another is there at all.
const YIELDS_FOR_ANY: u32 = 100;
/// So many waits at most sleep at once after one that was looked at in vain.
const RESTS_MAX: u32 = 64;

impl Spinning {
    /// True if it came before the thread got tired of looking.
    pub fn see(&mut self, spinners: &Spinners, came: impl Fn() -> bool) -> bool {
        if self.rests != 0 {
            self.rests -= 1;
            return false;
        }
        let may_look = spinners.0.fetch_add(1, Ordering::Relaxed) < SPINNERS_MAX;
        let came = may_look
            && (0..SPINS).any(|_| {
                core::hint::spin_loop();
                came()
            });
        spinners.0.fetch_sub(1, Ordering::Relaxed);
        if !may_look {
            return false;
        }
        self.back_off(came);
        came
    }

    /// The same for what comes in an order that others keep: who looks lets those run that
    /// have something to do, so that as many as wait may look.
    pub fn see_soon(&mut self, came: impl Fn() -> bool) -> bool {
        if spin_briefly(&came) {
            return true;
        }
        if self.rests != 0 {
            self.rests -= 1;
            return false;
        }
        let came = spin_and_yield(&came, YIELDS);
        self.back_off(came);
        came
    }

    /// One that looked in vain looks less often.
    fn back_off(&mut self, came: bool) {
        self.rests_last = if came { 0 } else { (2 * self.rests_last).clamp(1, RESTS_MAX) };
        self.rests = self.rests_last;
    }
}

/// Looks whether it came, and lets those run that have something to do; some 50 microseconds where
/// nobody has.
pub fn look(came: &dyn Fn() -> bool) -> bool {
    spin_briefly(came) || spin_and_yield(came, YIELDS_FOR_ANY)
}

fn spin_briefly(came: &dyn Fn() -> bool) -> bool {
    (0..SPINS_AT_ONCE).any(|_| {
        let came = came();
        core::hint::spin_loop();
        came
    })
}

fn spin_and_yield(came: &dyn Fn() -> bool, yields: u32) -> bool {
    let until_ns = kernel::monotonic_ns() + YIELDING_NS;
    for number in 1..=yields {
        kernel::sched_yield();
        if came() {
            return true;
        }
        if number % YIELDS_PER_CLOCK == 0 && kernel::monotonic_ns() > until_ns {
            return false;
        }
    }
    false
}
