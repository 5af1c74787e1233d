//! The timers that wake a thread while it computes: on its way to a preemption, and for those
//! that it has woken.

use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::block::{Thread, thread};
use crate::state::preemption::{Preemption, Timer};

/// What a thread's timer is for: comes with its signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Pause = 0,
    /// Threads that were woken are to learn of it.
    Wake = 1,
}

impl Timer {
    /// Sets the calling thread's own timer; 0: not any more. False: the kernel has none
    /// for us (RLIMIT_SIGPENDING).
    pub fn set(&mut self, after_ns: u64, purpose: Purpose) -> bool {
        if self.id == 0 {
            // struct sigevent: value, signal, notify, thread. ASKING is always ours.
            const SIGEV_THREAD_ID: u64 = 4;
            let event = [
                purpose as u64,
                u64::from(lane_protocol::ASKING) | SIGEV_THREAD_ID << 32,
                thread().tid as u64,
                0,
                0,
                0,
                0,
                0,
            ];
            let mut id = 0u32;
            let arguments = [1, event.as_ptr() as u64, &raw mut id as u64, 0, 0, 0];
            if kernel::failed(kernel::call(nr::__NR_timer_create, arguments)) {
                return false;
            }
            self.id = id + 1;
        }
        let time = [0u64, 0, 0, after_ns];
        let arguments = [u64::from(self.id - 1), 0, time.as_ptr() as u64, 0, 0, 0];
        // Before: it may be over when the call returns.
        self.armed = after_ns != 0;
        kernel::call(nr::__NR_timer_settime, arguments);
        true
    }

    /// Gives it back to the kernel.
    pub fn delete(&mut self) {
        if self.id != 0 {
            kernel::call(nr::__NR_timer_delete, [u64::from(self.id - 1), 0, 0, 0, 0, 0]);
            *self = Timer::default();
        }
    }
}

impl Preemption {
    /// Lets those learn of it whom the thread has woken, if nothing else has until then.
    /// False: there is no timer.
    pub fn wake_in(&mut self, after_ns: u64) -> bool {
        self.wake_timer.armed || self.wake_timer.set(after_ns, Purpose::Wake)
    }

    /// A call that may sleep begins: it is not to be interrupted for that.
    #[inline]
    pub fn wake_no_more(&mut self) {
        if self.wake_timer.armed {
            self.wake_timer.set(0, Purpose::Wake);
        }
    }
}

/// A new process has no timers yet.
pub fn forget() {
    let preemption = &mut thread().preemption;
    preemption.timer = Timer::default();
    preemption.wake_timer = Timer::default();
    (preemption.stepping, preemption.aside) = (false, 0);
}

/// Live: gives another thread's timers back, which stands.
pub fn delete_of(other: &mut Thread) {
    let mut preemption = core::mem::take(&mut other.preemption);
    preemption.timer.delete();
    preemption.wake_timer.delete();
}

/// Gives the thread's timers back.
pub fn delete() {
    let preemption = &mut thread().preemption;
    preemption.timer.delete();
    preemption.wake_timer.delete();
    preemption.stepping = false;
}

/// The thread's processor time: others may run in between.
pub fn now_ns() -> u64 {
    kernel::own_cpu_ns()
}
