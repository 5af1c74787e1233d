//! The turns and tickets of lanes whose process is gone, or waits.
//!
//! Deliberately absent: how a turn is taken and given (`lane_protocol::Turn`, and the runtime).

use std::sync::atomic::Ordering;

use lane_protocol::{TURNS, Turn, lane_state};

use crate::futex::futex_wake;
use crate::lane::{Lane, Segment};
use crate::session_memory::SessionMemory;

impl SessionMemory {
    /// Recording: whether threads are switched between any two instructions, by chaos or where a schedule says.
    pub fn switches_anywhere(&self) -> bool {
        // SAFETY: the session's header is mapped as long as `self`; the word is written before anybody reads it.
        unsafe { (*self.session()).chaos_seed != 0 }
    }

    /// Recording: a lane's process is gone, or has new memory: the turn that it
    /// shared, if any, is free for the others.
    pub fn free_turn(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(turn) = self.turn_of(lane) else { return };
        let number = lane.turn().load(Ordering::SeqCst) - 1;
        let sleepers = lane.turn_sleepers().take(number);
        if turn.forget_lane(lane.ids().0, sleepers) {
            futex_wake(&turn.wake);
        }
        // Killed on its way to another turn: others may join now.
        let joining = self.joining();
        let _ = joining.compare_exchange(lane.ids().0 + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        turn.lanes.fetch_sub(1, Ordering::AcqRel);
        lane.turn().store(0, Ordering::Release);
    }

    /// Recording: a lane's process is gone. If it had the turn, and its log does not tell where it
    /// died, those who have the turn next learn of it.
    pub fn note_death(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(turn) = self.turn_of(lane) else { return };
        let is_told = lane.state().load(Ordering::Acquire) == lane_state::ENDED
            || lane.told_death_at().load(Ordering::Acquire) == lane.ring().head.load(Ordering::Acquire);
        if !is_told && turn.is_with(lane.ids().0) {
            let number = lane.turn().load(Ordering::SeqCst) - 1;
            // SAFETY: the header is mapped as long as `self`; deaths are made of atomics.
            unsafe { (*self.session()).untold_deaths.add(number) };
        }
    }

    /// Replay: a lane's process is gone: who waits for its ticket goes on.
    pub fn leave_ticket(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(turn) = self.turn_of(lane) else { return };
        if lane.has_ticket().swap(0, Ordering::SeqCst) != 0 {
            // It may not have come to say what it wrote.
            self.imports().written.note_any();
            let ticket = lane.ticket().load(Ordering::SeqCst);
            turn.end_ticket(ticket);
            turn.call_ticket(ticket + 1).into_iter().for_each(futex_wake);
        }
    }

    /// Replay: true if a process waits for a ticket that is not yet its own: one that is has only
    /// to wake up.
    pub fn waits_for_another(&self, segment: Segment) -> bool {
        let lane = self.lane(segment);
        let Some(ticket) = lane.waits_for_ticket().load(Ordering::SeqCst).checked_sub(1) else {
            return false;
        };
        self.turn_of(lane).is_none_or(|turn| turn.ticket.load(Ordering::SeqCst) < ticket)
    }

    /// The turn that a lane shares with others.
    pub fn turn_of(&self, lane: Lane<'_>) -> Option<&Turn> {
        let number = lane.turn().load(Ordering::SeqCst).checked_sub(1)?;
        // SAFETY: the header is mapped as long as `self`; turns are made of atomics.
        unsafe { (*self.session()).turns.get(number as usize % TURNS) }
    }
}
