//! Later checkpoints: instead of forking, the pages that were written since the state
//! before are saved. An *increment* is what such a checkpoint adds to the one before it;
//! the first of them rests on a *base*, which is a shadow made by fork.
//!
//! The memory of a checkpoint is what its increment has saved, else what the one before
//! has, and so on, else what the base has. An increment says of the ranges that it
//! cleared that nothing before it counts there.
//!
//! Discarding moves what an increment has saved into the next one, which needs it. The
//! newest is kept, hidden, until there is a next one, and a base until nothing rests on
//! it: so a program that takes and discards one checkpoint after the other forks once.
//!
//! Invariant: only the token's holder is in here. All of it lies in memory that does not
//! go back.

mod merging;
mod saving;
pub mod tracking;

use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, INCREMENT_BYTES, checkpoint_way};
use linux_abi::general as nr;

use self::saving::{little_is_shared, own_pages};
use crate::address_space::page_tracker;
use crate::checkpoint::area::area;
use crate::checkpoint::kept_memory::{Base, Increment, Increments, KEEPER_STACK_BYTES, Often, Saved};
use crate::checkpoint::resources::{mappings, postponed};
use crate::checkpoint::take::saved_pages::{Found, PAGE_BYTES, of};
use crate::checkpoint::take::slots;
use crate::ground::kernel;
use crate::ground::owned::Held;
use crate::state::block::{lane, session};
use runtime_logic::range_set::Range;

/// Shared pages that are saved each time.
const SHARED_MAX: u64 = 256;
/// So many may be saved whatever the size of the process.
const SAVED_LEAST: u64 = 256;
/// A process with fewer pages of its own is forked in the time that looking at it takes.
const BASE_LEAST: u64 = 2048;
/// After so many forks of one that is as small, it may take checkpoints often: what each
/// fork leaves to do, for the shadow and for its end, is more than looking.
const FORKS_FEW: u32 = 3;
/// If fewer than so many increments came to rest on its base, it was not worth it, and it is
/// forked so many times more often before it is tried again.
const RESTED_LEAST: u32 = 4;
const FORKS_MORE: u32 = 8;
const FORKS_MAX: u32 = 4096;
/// The part of a process that saving may copy: about what a fork costs.
const SAVED_PART: u64 = 16;

const _: () = assert!(size_of::<Increment>() as u64 <= INCREMENT_BYTES);

impl Often {
    /// A fork is about to be made: true if it is to be a base.
    fn tries(&mut self) -> bool {
        let wanted = self.forks_wanted.max(FORKS_FEW);
        if core::mem::take(&mut self.is_tried) && self.rested < RESTED_LEAST {
            self.forks = 0;
            self.forks_wanted = (wanted * FORKS_MORE).min(FORKS_MAX);
            return false;
        }
        self.forks += 1;
        self.is_tried = self.forks > wanted;
        self.rested = 0;
        self.is_tried
    }
}

/// Which of the lane's checkpoints this is.
fn number(slot: &Checkpoint) -> usize {
    let first = lane().checkpoints.as_ptr() as usize;
    (slot as *const Checkpoint as usize - first) / size_of::<Checkpoint>()
}

impl Increments {
    fn saved(&self, index: usize) -> Held<[Saved]> {
        of(index).part(|increment| &mut increment.saved[..self.known[index].saved])
    }

    fn cleared(&self, index: usize) -> Held<[Range]> {
        of(index).part(|increment| &mut increment.cleared[..self.known[index].cleared])
    }

    /// The increment of a checkpoint.
    pub fn increment_of(&self, slot: &Checkpoint) -> Option<usize> {
        usize::from(self.increment_of[number(slot)]).checked_sub(1)
    }

    /// True if no base was made after that of the checkpoint.
    pub fn is_newest_base(&self, slot: &Checkpoint) -> bool {
        let Some(base) = usize::from(self.base_of[number(slot)]).checked_sub(1) else { return false };
        let serial = self.bases[base].serial;
        !self.bases.iter().any(|other| other.pid != 0 && other.serial > serial)
    }

    /// Where the content of a page of an increment's state is.
    pub fn find(&self, increment: Option<usize>, page: u64) -> Found {
        let mut at = increment;
        while let Some(index) = at {
            let saved = self.saved(index);
            if let Ok(place) = saved.binary_search_by_key(&page, |one| one.page) {
                return Found::Saved(saved[place].copy);
            }
            if contains(&self.cleared(index), page) {
                return Found::Cleared;
            }
            at = usize::from(self.known[index].before).checked_sub(1);
        }
        Found::InBase
    }

    /// The first page at `start` or behind it that an increment of the state saved, or `end`.
    pub fn next_saved(&self, increment: Option<usize>, start: u64, end: u64) -> u64 {
        let (mut at, mut next) = (increment, end);
        while let Some(index) = at {
            let saved = self.saved(index);
            let place = saved.partition_point(|one| one.page < start);
            next = saved.get(place).map_or(next, |one| one.page.min(next));
            at = usize::from(self.known[index].before).checked_sub(1);
        }
        next
    }

    /// Calls `each` with the ranges that may differ between now and a checkpoint; false
    /// if that is not known. `runtimes`: those of the runtime's memory, else of the program's.
    pub fn changed_since(
        &mut self,
        slot: &Checkpoint,
        runtimes: bool,
        each: &mut dyn FnMut(u64, u64),
    ) -> bool {
        let base = self.base_of[number(slot)];
        if base == 0 || base != self.base || !self.protection.is_on() {
            return false;
        }
        let known = self.protection.scan(runtimes, &mut |start, end| {
            each(start, end);
            true
        });
        if !known {
            return false;
        }
        for range in self.protection.lost() {
            each(range.start, range.end);
        }
        let stop = self.increment_of[number(slot)];
        let mut at = self.newest;
        while at != stop {
            let Some(index) = usize::from(at).checked_sub(1) else { return false };
            for one in self.saved(index).iter_mut() {
                each(one.page, one.page + PAGE_BYTES);
            }
            for range in self.cleared(index).iter() {
                each(range.start, range.end);
            }
            at = self.known[index].before;
        }
        true
    }
}

fn contains(ranges: &[Range], page: u64) -> bool {
    let next = ranges.partition_point(|range| range.end <= page);
    ranges.get(next).is_some_and(|range| range.start <= page)
}

// --- for checkpoints ---

/// An increment that belongs to no checkpoint yet.
pub struct Taken {
    pub increment: Held<Increment>,
    index: usize,
}

impl Increment {
    /// Both ends of the stack on which what keeps its descriptors runs.
    pub fn stack(&self) -> (u64, u64) {
        let start = self.stack.as_ptr() as u64;
        (start, start + KEEPER_STACK_BYTES as u64)
    }
}

/// Saves what was written since the state before; `None` if a fork is to be made.
pub fn take() -> Option<Taken> {
    let index = area().increments.save();
    let Some(index) = index else {
        area().increments.leave();
        return None;
    };
    Some(Taken { increment: of(index), index })
}

/// Saves nothing: a fork is to be made.
pub fn leave() -> Option<Taken> {
    area().increments.leave();
    None
}

impl Taken {
    /// It is the checkpoint's.
    pub fn keep(self, slot: &Checkpoint) {
        let all = &mut area().increments;
        all.often.rested += 1;
        let before = usize::from(all.newest).checked_sub(1);
        all.newest = self.index as u16 + 1;
        all.base_of[number(slot)] = all.base;
        all.increment_of[number(slot)] = self.index as u16 + 1;
        let base = all.bases[usize::from(all.base) - 1].pid;
        slot.base.store(base, Ordering::Relaxed);
        if let Some(before) = before.filter(|&before| !all.is_visible(before)) {
            all.merge(before, self.index);
        }
        slot.saved_bytes.store(all.known[self.index].saved as u64 * PAGE_BYTES, Ordering::Relaxed);
    }

    /// Its keeper could not be made.
    pub fn drop(self) {
        let all = &mut area().increments;
        all.free(self.index);
        // What was written since the state before is not known any more.
        all.reset();
    }
}

impl Increments {
    /// True if saving pages may cost less than forking again. What it maps counts as the
    /// program's: under a limit that would be noticed.
    fn is_wanted(&mut self) -> bool {
        if self.protection.is_refused() || is_limited() {
            return false;
        }
        match session().checkpoint_way {
            checkpoint_way::FORK => false,
            checkpoint_way::PAGES => true,
            _ => own_pages() >= BASE_LEAST || self.often.tries(),
        }
    }
}

/// True if the program may map so much only.
fn is_limited() -> bool {
    let mut limit = [u64::MAX; 2];
    let what = u64::from(nr::RLIMIT_AS);
    kernel::call(nr::__NR_prlimit64, [0, what, 0, limit.as_mut_ptr() as u64, 0, 0]);
    limit[0] != u64::MAX
}

/// A fork is about to be made, on which others may rest.
pub fn prepare() {
    let all = &mut area().increments;
    let looked = core::mem::replace(&mut all.looks, page_tracker::looks()) != page_tracker::looks();
    if !all.is_wanted() {
        all.reset();
        return;
    }
    if page_tracker::is_open() && !looked {
        // No preemption since the checkpoint before: they are rare.
        page_tracker::end();
    }
    let possible = !page_tracker::is_open() && little_is_shared() && mappings::list_now();
    if !possible {
        all.reset();
    } else if all.protection.begin_again() {
        all.protection.forget_lost();
    }
}

/// The checkpoint was made by that fork.
pub fn begin(slot: &Checkpoint) {
    let all = &mut area().increments;
    let pid = slot.shadow.load(Ordering::Relaxed);
    slot.base.store(pid, Ordering::Relaxed);
    slot.saved_bytes.store(0, Ordering::Relaxed);
    all.increment_of[number(slot)] = 0;
    // As many as there are checkpoints, and one that is hidden.
    let Some(base) = all.bases.iter().position(|base| base.pid == 0) else {
        all.reset();
        return;
    };
    all.serial += 1;
    all.bases[base] = Base { pid, serial: all.serial };
    postponed::begin_base();
    all.base_of[number(slot)] = base as u16 + 1;
    if all.protection.is_on() {
        all.base = base as u16 + 1;
        all.base_pages = own_pages();
        all.protection.go_on_behind();
    }
}

/// It could not be made.
pub fn give_up() {
    area().increments.reset();
}

/// The checkpoint is discarded. `keeper`: whether its shadow ends with it.
pub fn discard(slot: &Checkpoint) {
    let all = &mut area().increments;
    let base = usize::from(core::mem::take(&mut all.base_of[number(slot)])).checked_sub(1);
    let increment = usize::from(core::mem::take(&mut all.increment_of[number(slot)])).checked_sub(1);
    match increment {
        Some(index) => {
            slots::end_process(slot.shadow.load(Ordering::Relaxed));
            all.discard(index);
        }
        None if base.is_none() => slots::end_process(slot.shadow.load(Ordering::Relaxed)),
        None => {}
    }
    if let Some(base) = base {
        all.release_base(base);
    }
    if slots::count() == 0
        && let Some(base) = usize::from(all.base).checked_sub(1)
    {
        lane().idle_base.store(all.bases[base].pid, Ordering::SeqCst);
    }
}

/// The program went back to a checkpoint, and what came after it was discarded: it is
/// the newest.
pub fn dropped_future(slot: &Checkpoint) {
    let all = &mut area().increments;
    let base = all.base_of[number(slot)];
    if base == 0 || all.base != base {
        all.reset();
        return;
    }
    let stop = all.increment_of[number(slot)];
    while all.newest != stop {
        let Some(index) = usize::from(all.newest).checked_sub(1) else { break };
        all.newest = all.known[index].before;
        all.free(index);
    }
}
