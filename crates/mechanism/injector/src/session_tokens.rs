//! The tokens and tickets of lanes whose process is gone, or waits.
//!
//! Deliberately absent: how a token is taken and given (`lane_protocol::ExecutionToken`, and the runtime).

use std::sync::atomic::Ordering;

use lane_protocol::{ExecutionToken, TOKENS, lane_state};

use crate::futex::futex_wake;
use crate::lane::{Lane, Segment};
use crate::session_memory::SessionMemory;

impl SessionMemory {
    /// Recording: whether threads are switched between any two instructions, by chaos or where a schedule says.
    pub fn switches_anywhere(&self) -> bool {
        // SAFETY: the session's header is mapped as long as `self`; the word is written before anybody reads it.
        unsafe { (*self.session()).chaos_seed != 0 }
    }

    /// Recording: a lane's process is gone, or has new memory: the token that it
    /// shared, if any, is free for the others.
    pub fn free_token(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(token) = self.token_of(lane) else { return };
        let number = lane.token().load(Ordering::SeqCst) - 1;
        let sleepers = lane.token_sleepers().take(number);
        if token.forget_lane(lane.ids().0, sleepers) {
            futex_wake(&token.wake);
        }
        // Killed on its way to another token: others may join now.
        let joining = self.joining();
        let _ = joining.compare_exchange(lane.ids().0 + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        token.lanes.fetch_sub(1, Ordering::AcqRel);
        lane.token().store(0, Ordering::Release);
    }

    /// Recording: a lane's process is gone. If it held the token, and its log does not tell where it
    /// died, those who hold the token next learn of it.
    pub fn note_death(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(token) = self.token_of(lane) else { return };
        let is_told = lane.state().load(Ordering::Acquire) == lane_state::ENDED
            || lane.told_death_at().load(Ordering::Acquire) == lane.ring().head.load(Ordering::Acquire);
        if !is_told && token.is_with(lane.ids().0) {
            let number = lane.token().load(Ordering::SeqCst) - 1;
            // SAFETY: the header is mapped as long as `self`; deaths are made of atomics.
            unsafe { (*self.session()).unlogged_deaths.add(number) };
        }
    }

    /// Replay: a lane's process is gone: who waits for its ticket goes on.
    pub fn leave_ticket(&self, segment: Segment) {
        let lane = self.lane(segment);
        let Some(token) = self.token_of(lane) else { return };
        if lane.has_ticket().swap(0, Ordering::SeqCst) != 0 {
            // It may not have come to say what it wrote.
            self.imports().written.note_any();
            let ticket = lane.ticket().load(Ordering::SeqCst);
            token.end_ticket(ticket);
            token.call_ticket(ticket + 1).into_iter().for_each(futex_wake);
        }
    }

    /// Replay: true if a process waits for a ticket that is not yet its own: one that is has only
    /// to wake up.
    pub fn waits_for_another(&self, segment: Segment) -> bool {
        let lane = self.lane(segment);
        let Some(ticket) = lane.waits_for_ticket().load(Ordering::SeqCst).checked_sub(1) else {
            return false;
        };
        self.token_of(lane).is_none_or(|token| token.ticket.load(Ordering::SeqCst) < ticket)
    }

    /// The token that a lane shares with others.
    pub fn token_of(&self, lane: Lane<'_>) -> Option<&ExecutionToken> {
        let number = lane.token().load(Ordering::SeqCst).checked_sub(1)?;
        // SAFETY: the header is mapped as long as `self`; tokens are made of atomics.
        unsafe { (*self.session()).tokens.get(number as usize % TOKENS) }
    }
}
