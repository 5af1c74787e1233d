//! What a checkpoint has: where its memory is, and its lists.

use core::sync::atomic::Ordering;

use lane_protocol::Checkpoint;
use linux_abi::general as nr;

use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::Increment;
use crate::checkpoint::restore::fetching;
use crate::checkpoint::take::saved_pages::Found;
use crate::ground::owned::Held;
use crate::ground::{kernel, memory};
use crate::state::block::process;
use crate::state::signal_state;

const PAGE_BYTES: u64 = 4096;

/// A checkpoint's content.
#[derive(Clone, Copy)]
pub struct Then {
    /// The process that has its descriptors.
    pub keeper: i32,
    /// The process that has its memory, but for what increments have.
    pub base: i32,
    increment: Option<usize>,
}

impl Then {
    pub fn of(slot: &Checkpoint) -> Then {
        let keeper = match slot.shadow.load(Ordering::Acquire) {
            // It is not made yet: see `postponed`.
            0 => process().pid,
            keeper => keeper,
        };
        Then {
            keeper,
            base: slot.base.load(Ordering::Acquire),
            increment: area().increments.increment_of(slot),
        }
    }

    /// Its own increment, if it is not a base by itself.
    pub fn increment(&self) -> Option<Held<Increment>> {
        self.increment.map(crate::checkpoint::take::saved_pages::of)
    }

    /// Where the content of a page is.
    pub fn find(&self, page: u64) -> Found {
        area().increments.find(self.increment, page)
    }

    /// The first page at `start` or behind it that is not only in the base, or `end`.
    pub fn next_saved(&self, start: u64, end: u64) -> u64 {
        area().increments.next_saved(self.increment, start, end)
    }

    /// Copies memory of then; false if it was not there.
    pub fn fetch(&self, to: u64, from: u64, bytes: u64) -> bool {
        if self.increment.is_none() {
            return fetching::fetch(self.base, to, from, bytes);
        }
        let mut done = 0;
        while done < bytes {
            let at = from + done;
            let page = at & !(PAGE_BYTES - 1);
            let part = (page + PAGE_BYTES - at).min(bytes - done);
            let copied = match self.find(page) {
                Found::Saved(copy) => memory::copy(to + done, copy + (at - page), part),
                // Memory of the runtime's that no file has.
                Found::Cleared => {
                    // SAFETY: the caller owns as many bytes.
                    unsafe { core::ptr::write_bytes((to + done) as *mut u8, 0, part as usize) };
                    true
                }
                Found::InBase => fetching::fetch(self.base, to + done, at, part),
            };
            if !copied {
                return false;
            }
            done += part;
        }
        true
    }

    /// Signals that waited in the kernel.
    pub fn fetch_pending(&self) -> bool {
        let pending = &mut area().pending;
        let place = &raw mut *pending as u64;
        let bytes = size_of::<signal_state::Pending>() as u64;
        match self.increment() {
            Some(increment) => memory::copy(place, &raw const increment.pending as u64, bytes),
            None => fetching::fetch(self.base, place, place, bytes),
        }
    }

    /// The mappings of then, into `lists.then`.
    pub fn fetch_list(&self) -> bool {
        let then = &mut area().lists.then;
        match self.increment() {
            Some(increment) => {
                then.copy(&increment.list);
                true
            }
            None => fetching::fetch_list(self.base, &mut then.count, &mut then.all),
        }
    }

    /// The descriptors of then, into `tables.then`.
    pub fn fetch_table(&self) -> bool {
        let then = &mut area().tables.then;
        match self.increment() {
            Some(increment) => {
                then.copy(&increment.table);
                true
            }
            None => {
                fetching::fetch_list(self.base, &mut then.count, &mut then.all)
                    && fetching::fetch_list(self.base, &mut then.interest_count, &mut then.interests)
                    && fetching::fetch_list(self.base, &mut then.timer_count, &mut then.timers)
                    && fetching::fetch_list(self.base, &mut then.lock_count, &mut then.locks)
                    && fetching::fetch_list(self.base, &mut then.terminal_count, &mut then.terminals)
            }
        }
    }

    /// A handle of the process that has the descriptors.
    pub fn open_keeper(&self) -> i64 {
        kernel::call(nr::__NR_pidfd_open, [self.keeper as u64, 0, 0, 0, 0, 0])
    }
}
