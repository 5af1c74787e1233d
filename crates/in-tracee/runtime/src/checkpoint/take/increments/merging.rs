//! Discarding: what an increment has saved goes to the one after it.

use core::sync::atomic::Ordering;

use lane_protocol::idle_base;

use super::contains;
use crate::checkpoint::kept_memory::{Increments, KnownIncrement};
use crate::checkpoint::resources::lists;
use crate::checkpoint::take::saved_pages::of;
use crate::checkpoint::take::slots;
use crate::state::block::lane;
use runtime_logic::range_set::tidied;

impl Increments {
    pub(super) fn free(&mut self, index: usize) {
        for one in self.saved(index).iter().filter(|one| one.copy != 0) {
            self.store.give(one.copy);
        }
        self.known[index].is_used = false;
        self.known[index].saved = 0;
        self.known[index].cleared = 0;
        if self.known.iter().all(|one| !one.is_used) {
            self.store.end_use();
        }
    }

    /// True if a checkpoint has the increment.
    pub(super) fn is_visible(&self, index: usize) -> bool {
        self.increment_of.contains(&(index as u16 + 1))
    }

    /// The one that rests on it.
    fn after(&self, index: usize) -> Option<usize> {
        self.known.iter().position(|one| one.is_used && one.before == index as u16 + 1)
    }

    /// Nobody can go back to an increment any more.
    pub(super) fn discard(&mut self, index: usize) {
        if let Some(next) = self.after(index) {
            self.merge(index, next);
        } else if self.newest != index as u16 + 1 {
            self.free(index);
        }
    }

    /// Gives the next one what it needs of an increment, which ends.
    pub(super) fn merge(&mut self, index: usize, next: usize) {
        let (mut from, to) = (self.saved(index), self.saved(next));
        let (mut kept, mut at) = (0, 0);
        for place in 0..from.len() {
            let one = from[place];
            while at < to.len() && to[at].page < one.page {
                at += 1;
            }
            let is_newer = at < to.len() && to[at].page == one.page;
            if is_newer || contains(&self.cleared(next), one.page) {
                self.store.give(one.copy);
            } else {
                from[kept] = one;
                kept += 1;
            }
        }
        // From the end, so that nothing is overwritten that is still to be moved.
        let all = &mut of(next).saved;
        let (mut old, mut new) = (kept, self.known[next].saved);
        for place in (0..kept + new).rev() {
            let takes_old = old > 0 && (new == 0 || from[old - 1].page > all[new - 1].page);
            if takes_old {
                old -= 1;
                all[place] = from[old];
            } else {
                new -= 1;
                all[place] = all[new];
            }
        }
        self.known[next].saved += kept;
        self.merge_cleared(index, next);
        self.known[next].before = self.known[index].before;
        self.known[index].saved = 0;
        self.free(index);
    }

    fn merge_cleared(&mut self, index: usize, next: usize) {
        let all = &mut of(next).cleared;
        let mut count = self.known[next].cleared;
        for range in self.cleared(index).iter() {
            all[count] = *range;
            count += 1;
        }
        self.known[next].cleared = tidied(&mut all[..count]);
    }

    /// Ends the base if nothing needs it.
    pub(super) fn release_base(&mut self, base: usize) {
        let name = base as u16 + 1;
        let rests = |one: &KnownIncrement| one.is_used && usize::from(one.base) == base;
        if self.base == name || self.base_of.contains(&name) || self.known.iter().any(rests) {
            return;
        }
        let pid = core::mem::take(&mut self.bases[base].pid);
        if pid != 0 {
            slots::end_process(pid);
        }
    }

    /// What was written is not known any more: the next checkpoint is a fork.
    pub fn reset(&mut self) {
        if self.protection.is_on() {
            // Keepers look which descriptor is ours.
            lists::wait_for_all();
        }
        self.protection.end();
        self.leave();
    }

    /// The present does not rest on anything any more.
    pub(super) fn leave(&mut self) {
        lane().idle_base.store(idle_base::NONE, Ordering::SeqCst);
        let newest = core::mem::take(&mut self.newest);
        let base = core::mem::take(&mut self.base);
        // Hidden ones that were kept for the next.
        if let Some(index) = usize::from(newest).checked_sub(1)
            && !self.is_visible(index)
        {
            self.free(index);
        }
        if let Some(base) = usize::from(base).checked_sub(1) {
            self.release_base(base);
        }
    }
}
