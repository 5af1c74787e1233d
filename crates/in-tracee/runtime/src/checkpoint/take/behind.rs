//! Memory comes under protection behind a fork: a large process goes on at once, and the agent
//! protects its pages meanwhile, which takes as long as half of the fork. What is written before its
//! page is protected is found by what the fork did: the page is copied then, so that the process
//! shares it with nobody, and it counts as written.
//!
//! Invariant: until [`Protection::settle`] returns the protected ranges stay as they are: what is lost
//! meanwhile is taken out of them then. A process that shares pages is made after that, as none of
//! them would be the process's alone any more.

use core::sync::atomic::Ordering;

use lane_protocol::command;

use crate::address_space::written_pages as kernel_view;
use crate::address_space::written_pages::Uffd;
use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::{Behind, Protection};
use crate::ground::{kernel, page_entries};
use crate::state::block::lane;
use crate::state::own_descriptors::{close, open_high};

const PAGE_BYTES: u64 = 4096;
/// Entries of pagemap that are read at once.
const PART_ENTRIES: usize = 512;
/// Who works takes so much at a time, in bytes.
const CHUNK_BYTES: u64 = 2 << 20;

mod state {
    pub const NONE: u32 = 0;
    pub const FAILED: u32 = 1;
    /// The last one who worked on it is ending it.
    pub const ENDING: u32 = 2;
    /// It is to be done; and so many above it work on it.
    pub const WANTED: u32 = 3;
}

impl Behind {
    /// The descriptor that the work needs.
    pub fn descriptor(&self) -> Option<u32> {
        (self.pagemap.load(Ordering::Acquire) as u32).checked_sub(1)
    }

    pub fn expect(&mut self, is_expected: bool) {
        self.is_expected = is_expected;
    }

    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::NONE
    }

    /// Some of what is protected is lost; true if it may be taken out at once.
    pub fn loses(&mut self) -> bool {
        self.has_lost |= !self.is_done();
        !self.has_lost
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The calling thread works on it no more; the last one ends it.
    // With the second condition in the guard, one that lost the race would try the next arm.
    #[allow(clippy::collapsible_match)]
    fn leave(&self) {
        loop {
            match self.state.load(Ordering::Acquire) {
                now if now > state::WANTED + 1 => {
                    if self.change(now, now - 1) {
                        return;
                    }
                }
                now if self.change(now, state::ENDING) => return self.end(),
                _ => {}
            }
        }
    }

    fn end(&self) {
        if let Some(pagemap) = self.descriptor() {
            close(pagemap as i32);
        }
        self.pagemap.store(0, Ordering::Release);
        let failed = self.failed.load(Ordering::Acquire);
        self.state.store(if failed { state::FAILED } else { state::NONE }, Ordering::Release);
        kernel::futex_wake(&self.state);
    }
}

impl Protection {
    /// The fork was made: what is registered is to be protected, if it is not yet. The calling thread
    /// holds the token.
    pub fn go_on_behind(&mut self) {
        if !core::mem::take(&mut self.behind.is_expected) {
            return;
        }
        let pagemap = open_high(kernel_view::PAGEMAP);
        let behind = &self.behind;
        behind.pagemap.store(pagemap.map_or(0, |fd| fd + 1), Ordering::Release);
        behind.taken.store(0, Ordering::Release);
        behind.all_taken.store(false, Ordering::Release);
        behind.failed.store(pagemap.is_none(), Ordering::Release);
        behind.state.store(state::WANTED, Ordering::Release);
        // An agent that does something else looks when that is done.
        let command = &lane().command.kind;
        let called =
            command.compare_exchange(command::NONE, command::PROTECT, Ordering::AcqRel, Ordering::Relaxed);
        if called.is_ok() {
            kernel::futex_wake(command);
        }
    }

    /// Helps to do what is still to be done, and waits until it is. False if it failed: then nothing
    /// is known of what was written.
    pub fn settle(&mut self) -> bool {
        self.wait_for_behind();
        if core::mem::take(&mut self.behind.has_lost) {
            self.release_lost();
        }
        self.behind.is_done()
    }

    fn wait_for_behind(&self) {
        loop {
            self.help_behind();
            match self.behind.state.load(Ordering::Acquire) {
                state::NONE | state::FAILED => return,
                now => {
                    if now == state::ENDING || self.behind.all_taken.load(Ordering::Acquire) {
                        kernel::futex_wait(&self.behind.state, now, 100);
                    }
                }
            }
        }
    }

    /// All protection is about to end: nobody works on it afterwards.
    pub fn end_behind(&mut self) {
        self.behind.all_taken.store(true, Ordering::Release);
        if self.behind.change(state::WANTED, state::ENDING) {
            self.behind.end();
        }
        self.wait_for_behind();
        self.behind.has_lost = false;
        self.behind.state.store(state::NONE, Ordering::Release);
    }

    /// Works on it, if there is something to do, until all of it is taken.
    fn help_behind(&self) {
        let behind = &self.behind;
        let now = behind.state.load(Ordering::Acquire);
        let is_wanted = now >= state::WANTED && !behind.all_taken.load(Ordering::Acquire);
        if !is_wanted || !behind.change(now, now + 1) {
            return;
        }
        let uffd = Uffd { fd: self.descriptor() - 1 };
        let done = behind.descriptor().is_some_and(|pagemap| {
            let take = || behind.taken.fetch_add(1, Ordering::AcqRel);
            let (mut at, mut mine) = (0, take());
            self.protected().iter().all(|range| {
                kernel_view::for_each_part(pagemap as i32, range.start, range.end, &mut |start, end| {
                    (start..end).step_by(CHUNK_BYTES as usize).all(|from| {
                        let is_mine = at == mine;
                        at += 1;
                        if !is_mine {
                            return true;
                        }
                        mine = take();
                        protect_behind(pagemap as i32, &uffd, from, end.min(from + CHUNK_BYTES))
                    })
                })
            })
        });
        if !done {
            behind.failed.store(true, Ordering::Release);
        }
        behind.all_taken.store(true, Ordering::Release);
        behind.leave();
    }
}

/// Memory that was registered and is other memory now is left out.
fn protect_behind(pagemap: i32, uffd: &Uffd, start: u64, end: u64) -> bool {
    let mut count_as_written = |start, end| uffd.count_as_written(start, end);
    kernel_view::protect_registered(pagemap, start, end)
        && scan_unshared(pagemap, start, end, &mut count_as_written)
}

/// The agent was called, or has done something else.
pub fn go_on() {
    let command = &lane().command.kind;
    let called =
        command.compare_exchange(command::PROTECT, command::NONE, Ordering::AcqRel, Ordering::Relaxed);
    if called.is_ok() {
        kernel::futex_wake(command);
    }
    area().increments.protection.help_behind();
}

/// Calls `each` with the pages that no other process has, and those of which that is not known: all
/// that were written since a fork whose child is there, or the program has made others from since.
/// It says whether it wants more; false where it does not, or the kernel does not tell.
fn scan_unshared(pagemap: i32, start: u64, end: u64, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
    let mut entries = [0u64; PART_ENTRIES];
    let is_unshared = |entry: u64| {
        let own = entry & (page_entries::PRESENT | page_entries::OF_FILE | page_entries::EXCLUSIVE)
            == page_entries::PRESENT | page_entries::EXCLUSIVE;
        own || entry & page_entries::SWAPPED != 0
    };
    kernel_view::for_each_part(pagemap, start, end, &mut |mut at, end| {
        while at < end {
            let pages = ((end - at) / PAGE_BYTES).min(PART_ENTRIES as u64);
            if page_entries::read_entries(pagemap, at / PAGE_BYTES, &mut entries[..pages as usize])
                != pages as usize
            {
                return false;
            }
            let mut index = 0;
            for run in entries[..pages as usize].chunk_by(|a, b| is_unshared(*a) == is_unshared(*b)) {
                let from = at + index * PAGE_BYTES;
                index += run.len() as u64;
                if is_unshared(run[0]) && !each(from, at + index * PAGE_BYTES) {
                    return false;
                }
            }
            at += pages * PAGE_BYTES;
        }
        true
    })
}
