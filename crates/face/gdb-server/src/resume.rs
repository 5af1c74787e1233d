//! Movements: what the client asks for, and where it leads.

use timeline::{Going, Reason, Timeline, TimelineError};

use crate::children::is_for_nobody;
use crate::packet::pair;
use crate::server::{Server, parse_thread};

/// A movement on the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Movement {
    On,
    Step(u32),
    /// One instruction, and more while they are in this range.
    Range(u32, u64, u64),
    Back,
    StepBack(u32),
}

/// Parses `c`, `s`, `vCont`, `bc`, `bs`.
pub(crate) fn parse(packet: &str, chosen: Option<u32>, running: u32) -> Option<Movement> {
    let chosen = chosen.unwrap_or(running);
    match packet.as_bytes().first()? {
        b'c' | b'C' => Some(Movement::On),
        b's' | b'S' => Some(Movement::Step(chosen)),
        b'b' if packet == "bc" => Some(Movement::Back),
        b'b' if packet == "bs" => Some(Movement::StepBack(chosen)),
        b'v' => packet.strip_prefix("vCont;").and_then(|actions| parse_actions(actions, running)),
        _ => None,
    }
}

fn parse_actions(actions: &str, running: u32) -> Option<Movement> {
    let mut movement = None;
    for action in actions.split(';') {
        let (what, id) = action.split_once(':').map_or((action, None), |(what, id)| (what, Some(id)));
        let thread = id.and_then(parse_thread).unwrap_or(running);
        let found = match what.as_bytes().first()? {
            b's' | b'S' => Movement::Step(thread),
            b'r' => {
                let (start, end) = pair(&what[1..])?;
                Movement::Range(thread, start, end)
            }
            b'c' | b'C' | b't' => Movement::On,
            _ => return None,
        };
        // One thread may step while the others go on.
        if movement.is_none() || found != Movement::On {
            movement = Some(found);
        }
    }
    movement
}

impl Server<'_> {
    pub(crate) fn go(&mut self, movement: Movement, kills: bool) -> Result<Reason, TimelineError> {
        if let Some(number) = self.rolls_back_to.take() {
            self.leave_branch();
            self.timeline.roll_back(number)?;
            let lost = self.timeline.debuggee().map(|debuggee| debuggee.notes_on_rollback(number));
            for line in lost.unwrap_or_default().lines() {
                self.tell(&format!("[The rollback did not restore: {line}]\n"));
            }
            return Ok(Reason::Stepped);
        }
        if core::mem::take(&mut self.apart.leaves) {
            self.leave_branch();
            return Ok(Reason::Stepped);
        }
        if self.pending.is_none() && self.moves_branch() {
            if !matches!(movement, Movement::Back | Movement::StepBack(_)) {
                return self.go_apart(movement, kills);
            }
            self.tell("[The branch is thrown away: this is the recording again]\n");
        }
        self.leave_branch();
        let reason = self.go_in_history(movement)?;
        self.note_round(movement, reason);
        Ok(reason)
    }

    fn go_in_history(&mut self, movement: Movement) -> Result<Reason, TimelineError> {
        let connection = self.connection;
        let give_up = || connection.wants_stop();
        let stops = match movement {
            Movement::Back | Movement::StepBack(_) => self.stops_back(),
            _ => self.wanted_stops(),
        };
        if let Some(target) = self.pending.take() {
            if target.event == u64::MAX || Some(target) == self.end {
                return self.timeline.seek_end(&give_up);
            }
            self.timeline.seek(target, &give_up)?;
            return Ok(if target == self.timeline.beginning() { Reason::Begin } else { Reason::Stepped });
        }
        match movement {
            Movement::On => loop {
                match self.timeline.forward(Going::On, &stops, &give_up)? {
                    reason if self.is_for_nobody(reason) => {}
                    Reason::WentBack => self.tell("[The program went back to a checkpoint of its own]\n"),
                    reason => return Ok(reason),
                }
            },
            Movement::Step(thread) => self.timeline.forward(Going::Step(thread), &stops, &give_up),
            Movement::Back => loop {
                let reason = self.timeline.back_to_hit(&stops, &give_up)?;
                if !self.is_for_nobody(reason) {
                    self.note_seen();
                    return Ok(reason);
                }
            },
            Movement::StepBack(thread) => self.step_back(thread, &give_up),
            Movement::Range(thread, start, end) => {
                let passed = self.passed_by(movement);
                let mine = self.inserted.stops();
                let is_for_nobody = |timeline: &Timeline, reason| is_for_nobody(timeline, &mine, reason);
                self.timeline.forward_in(thread, &(start..end), passed, &stops, &give_up, &is_for_nobody)
            }
        }
    }

    /// One instruction back; a change of what is watched is told, as it is forwards.
    fn step_back(&mut self, thread: u32, give_up: &dyn Fn() -> bool) -> Result<Reason, TimelineError> {
        if self.goes_back_over(thread)? {
            self.note_seen();
            return Ok(Reason::Stepped);
        }
        let before = self.watched_bytes();
        let stood = (thread == self.timeline.stop().thread).then(|| self.timeline.standing());
        let mut reason = self.timeline.step_back(thread, give_up)?;
        if let (Reason::Stepped, Some(stood)) = (reason, stood) {
            reason = self.goes_over_call(stood)?.unwrap_or(reason);
        }
        self.note_seen();
        let now = self.watched_bytes();
        let changed = before.iter().find(|(index, bytes)| now.get(index) != Some(bytes));
        Ok(match (reason, changed) {
            (Reason::Stepped, Some((index, _))) => Reason::Watch(*index),
            _ => reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_a_movement_or_none(
            start in "(vCont;|c|s|b|v|C|S)?",
            rest in "[csCSrt;:,0-9a-f]{0,40}|.{0,20}",
        ) {
            let _ = parse(&format!("{start}{rest}"), None, 0);
        }
    }

    #[test]
    fn movements_are_parsed() {
        assert_eq!(parse("vCont;s:2;c", None, 0), Some(Movement::Step(1)));
        assert_eq!(parse("vCont;c:1;s:3", None, 0), Some(Movement::Step(2)));
        assert_eq!(parse("vCont;c", None, 0), Some(Movement::On));
        assert_eq!(parse("vCont;r1000,1010:1;c", None, 0), Some(Movement::Range(0, 0x1000, 0x1010)));
        assert_eq!(parse("bs", Some(4), 0), Some(Movement::StepBack(4)));
        assert_eq!(parse("vCont;r10:1", None, 0), None);
        assert_eq!(parse("vCont;x", None, 0), None);
        assert_eq!(parse("bx", None, 0), None);
    }
}
