//! The other processes of a session: those that lead to the one that is debugged, and those
//! that share memory with it and share the token with it.
//!
//! Deliberately absent: what becomes of them where nobody waits for them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::{Segment, cpu_time, futex_wake, kill_process};
use lane_protocol::{agent_stop, agent_verb, imports_end, lane_state, report_kind};
use replayer::time_behind_log;
use trace_store::{LaneEnd, LaneInfo};

use crate::command::command_of;
use crate::limits::Limits;
use crate::position::Stops;
use crate::session::{Shared, lock};

/// A ticket that everybody has waited for so long counts as missing.
const TICKET_WAIT_MAX: Duration = Duration::from_secs(1);

/// The process that is debugged waits for another one's token.
#[derive(Default)]
pub(crate) struct Stall {
    /// Since when all others wait as well.
    since: Option<Instant>,
}

impl Shared {
    /// True if one of the others has ended, and its segment is free. What it held goes on to
    /// the next.
    pub fn is_over(&self, segment: Segment) -> bool {
        let lane = self.memory.lane(segment);
        let pid = lane.pid().load(Ordering::Acquire);
        let is_gone = lock(&self.ends).remove(&pid).is_some();
        let mut stands = false;
        if lane.state().load(Ordering::Acquire) == lane_state::REPORTED {
            let report = lane.report();
            match report.kind {
                // They end by themselves.
                report_kind::EXITED | report_kind::LOG_ENDED => {}
                report_kind::FAULTED | report_kind::STOPPED => stands = true,
                _ => {
                    stands = true;
                    lock(&self.others_failure).get_or_insert_with(|| replayer::in_words(&report));
                }
            }
        }
        if stands && !is_gone {
            kill_process(pid, libc::SIGKILL);
        }
        if is_gone {
            self.memory.leave_ticket(segment);
            self.memory.free_segment(segment);
        }
        is_gone
    }

    /// Ends all others: the process that they shared the token with is gone.
    pub fn end_others(&self) {
        for (segment, _) in lock(&self.feeds).iter().filter(|(_, feed)| feed.lane != self.lane) {
            kill_process(self.memory.lane(*segment).pid().load(Ordering::Acquire), libc::SIGKILL);
        }
    }

    /// Where a trace is cut, or a process was killed, a ticket may be missing that the process
    /// that is debugged waits for: its log ends there.
    pub fn look_at_tickets(&self, stall: &mut Stall) {
        if !self.is_stalled() {
            stall.since = None;
            return;
        }
        let since = *stall.since.get_or_insert_with(Instant::now);
        if since.elapsed() < TICKET_WAIT_MAX {
            return;
        }
        let told = |lane: &LaneInfo| matches!(lane.end, Some(LaneEnd::Exited(_)));
        let trace = self.trace();
        let is_complete = trace.cut().is_none() && trace.lanes().iter().all(told);
        let failure = lock(&self.others_failure).clone();
        if failure.is_none() && !is_complete {
            self.memory.stop().store(1, Ordering::Release);
            return;
        }
        let why = failure.unwrap_or_else(|| "the log gives its token to nobody".to_owned());
        let text = format!("a process that shares memory with this one does not go on: {why}");
        lock(&self.failure).get_or_insert(text);
    }

    /// Lets the lead replica go on where a copy wants to know what others wrote, and notes where its log
    /// is over.
    pub fn look_at_lead(&self) {
        let Some(segment) = *lock(&self.lead) else { return };
        let (lane, imports) = (self.memory.lane(segment), self.memory.imports());
        let has_died = lock(&self.ends).contains_key(&lane.pid().load(Ordering::Acquire));
        let is_wanted = imports.wanted.load(Ordering::Acquire) > imports.said.load(Ordering::Acquire);
        if !(has_died || is_wanted && lane.stands_still()) {
            return;
        }
        let stop = lane.agent_stop();
        if !has_died && stop.kind != agent_stop::END {
            if let Ok((command, programs)) = command_of(agent_verb::RUN, &Stops::default(), Limits::ALL_HITS)
            {
                lane.give_command(&command, &programs);
            }
            return;
        }
        let is_lost = has_died
            || matches!(stop.report, report_kind::DIVERGENCE | report_kind::FAILED | report_kind::MISSING);
        let how = if is_lost { imports_end::LOST } else { imports_end::LOG_ENDED };
        imports.over.store(how, Ordering::Release);
        futex_wake(&imports.said);
    }

    /// True if the process that is debugged waits for a ticket that no other one will end.
    fn is_stalled(&self) -> bool {
        let (feeds, lead) = (lock(&self.feeds), *lock(&self.lead));
        let mut waits = false;
        for segment in self.memory.segments_in_use() {
            let lane = self.memory.lane(segment);
            let is_waiting = self.memory.waits_for_another(segment);
            let is_own = lane.ids().0 == self.lane;
            if is_own && lead.is_some_and(|lead| lead != segment) {
                // It goes without the others.
                continue;
            }
            match lane.state().load(Ordering::Acquire) {
                lane_state::ENDED | lane_state::REPORTED => {}
                _ if is_own && lane.stands_still() => {}
                _ if is_waiting => waits |= is_own,
                _ => {
                    let feed = feeds.get(&segment);
                    let is_fed = feed.is_some_and(|feed| feed.closed) && lane.ring().filled_bytes() == 0;
                    if is_own || !is_fed || !self.has_run_on(segment) {
                        return false;
                    }
                    // What it held goes on to the next when it is gone.
                    kill_process(lane.pid().load(Ordering::Acquire), libc::SIGKILL);
                    return false;
                }
            }
        }
        waits
    }

    /// True if a process, whose log is over, has run on for long after an end that it does not
    /// tell.
    fn has_run_on(&self, segment: Segment) -> bool {
        let lane = self.memory.lane(segment);
        let trace = self.trace();
        let Some(time_max) = time_behind_log(&trace, trace.lane_info(lane.ids().0)) else { return false };
        cpu_time(lane.pid().load(Ordering::Acquire)).is_some_and(|time| time > time_max)
    }
}
