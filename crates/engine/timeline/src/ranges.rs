//! Forward as long as a thread stays in a range of code, such as a line's.
//!
//! The first instructions are steps. One that stays longer goes round in a loop: it runs on, with
//! breakpoints where the code leads out of the range, and where only the program knows to where
//! it leads.

use std::collections::BTreeSet;
use std::ops::Range;

use lane_protocol::BREAKPOINTS_MAX;

use crate::error::TimelineError;
use crate::position::Stops;
use crate::reason::{Going, Reason};
use crate::timeline::Timeline;
use crate::ways::ways;

const RSP: usize = 7;
const RIP: usize = 16;

/// Steps before a thread that stays in the range runs.
const STEPS_MAX: usize = 64;
/// Longest range that is looked at.
const RANGE_BYTES_MAX: u64 = 0x1_0000;

/// A function that is called from a range, and that the client lets return each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    pub entry: u64,
    /// The stack pointer there. Deeper calls of the same code are none of the client's.
    pub stack: u64,
}

impl Timeline {
    /// One instruction of the thread of this index, and more as long as it is in this range.
    /// `is_for_nobody`: such a stop is passed.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn forward_in(
        &mut self,
        thread: u32,
        range: &Range<u64>,
        passed: Option<Passed>,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
        is_for_nobody: &dyn Fn(&Timeline, Reason) -> bool,
    ) -> Result<Reason, TimelineError> {
        let mut steps = 0;
        loop {
            let reason = self.forward(Going::Step(thread), stops, give_up)?;
            if reason != Reason::Stepped || !self.goes_on_in(thread, range, stops) {
                return Ok(reason);
            }
            if give_up() {
                return Ok(Reason::Interrupted);
            }
            steps += 1;
            if steps < STEPS_MAX && passed.is_none() {
                continue;
            }
            let Some(ways_out) = self.ways_out(range, passed, stops) else { continue };
            let all = stops.with(&ways_out);
            loop {
                let reason = self.forward(Going::On, &all, give_up)?;
                let (stop, registers) = (self.stop(), &self.stop().threads[0].registers);
                let at = registers[RIP];
                let is_way_out = reason == Reason::Breakpoint && ways_out.contains(&at);
                if !is_way_out {
                    if is_for_nobody(self, reason) {
                        continue;
                    }
                    return Ok(reason);
                }
                let is_deeper = passed.is_some_and(|passed| registers[RSP] < passed.stack);
                if stop.thread == thread && !is_deeper {
                    break;
                }
                if stops.breakpoints.contains(&at) {
                    return Ok(reason);
                }
            }
            // Before an instruction in the range that may lead anywhere, or outside.
            if !self.goes_on_in(thread, range, stops) {
                return Ok(Reason::Stepped);
            }
        }
    }

    fn goes_on_in(&self, thread: u32, range: &Range<u64>, stops: &Stops) -> bool {
        let stop = self.stop();
        let at = stop.threads[0].registers[RIP];
        stop.thread == thread && range.contains(&at) && !stops.breakpoints.contains(&at)
    }

    /// Where code in the range leads out of it, and what may lead anywhere. `None`: nobody knows.
    fn ways_out(&self, range: &Range<u64>, passed: Option<Passed>, stops: &Stops) -> Option<BTreeSet<u64>> {
        let bytes = range.end.checked_sub(range.start).filter(|&bytes| bytes <= RANGE_BYTES_MAX)?;
        let mut code = vec![0; bytes as usize];
        if self.read(range.start, &mut code) < code.len() {
            return None;
        }
        let mut found = BTreeSet::new();
        for one in ways(&code, range.start)? {
            if one.is_open() {
                found.insert(one.at);
            }
            let outside = one.next.into_iter().chain(one.target).filter(|to| !range.contains(to));
            found.extend(outside.filter(|&to| passed.is_none_or(|passed| passed.entry != to)));
        }
        (found.len() + stops.breakpoints.len() <= BREAKPOINTS_MAX).then_some(found)
    }
}
