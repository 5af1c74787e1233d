//! Going back over a call as if it were one instruction.
//!
//! A client that steps back comes to the end of what was called. It would let that go back to its
//! beginning, by a breakpoint there, and then to the call: round by round where the function calls
//! itself, and astray where the end does not belong to that beginning, as with jumps from the end of
//! one function to another, and with handlers of exceptions. But the call is known: that before the
//! place where it was, with the same stack.

use lane_protocol::bytecode::{PROGRAMS_END, breakpoint_kind, op};

use crate::error::TimelineError;
use crate::position::Stops;
use crate::reason::Reason;
use crate::repeats::{FUNCTION_BYTES_MAX, RIP, RSP};
use crate::timeline::Timeline;
use crate::ways::{Kind, Ways, ways};

/// A place in the code, and the stack pointer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub place: u64,
    pub stack: u64,
}

/// Which calls are gone over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    All,
    /// Those that did not end by returning.
    Left,
}

impl Timeline {
    /// Where the thread stands that runs.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let registers = &self.stop().threads[0].registers;
        Standing { place: registers[RIP], stack: registers[RSP] }
    }

    /// True if the program stands before an instruction that returns.
    #[must_use]
    pub fn is_at_return(&self) -> bool {
        const PREFIXES: [u8; 2] = [0xf2, 0xf3];
        const RETURNS: [u8; 2] = [0xc2, 0xc3];
        let mut code = [0; 2];
        self.read(self.standing().place, &mut code);
        RETURNS.contains(&code[0]) || PREFIXES.contains(&code[0]) && RETURNS.contains(&code[1])
    }

    /// A step back has led here from `before`, in one of the functions: if that is out of something
    /// that was called there, goes back to the call, or to a stop since. `None`: it is not, or nobody
    /// knows of which; nothing has changed then.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn back_over_call(
        &mut self,
        before: Standing,
        functions: &[(u64, u64)],
        wanted: Calls,
        stops: &Stops,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Option<Reason>, TimelineError> {
        let of = |place| functions.iter().find(|&&(start, end)| (start..end).contains(&place));
        let (end, returns) = (self.standing(), self.is_at_return());
        let Some(&(start, stop)) = of(before.place) else { return Ok(None) };
        let stays = !returns && (start..stop).contains(&end.place);
        if before.place == start || stays {
            return Ok(None);
        }
        let Some(calls) = self.calls_in(start, stop) else { return Ok(None) };
        let returned = calls.iter().find(|call| returns && call.next == Some(before.place));
        let (calls, stack) = match returned {
            Some(_) if wanted == Calls::Left => return Ok(None),
            Some(call) => (vec![call.at], end.stack.wrapping_add(8)),
            // A handler begins with the stack that the call had.
            None => (calls.iter().map(|call| call.at).collect(), before.stack),
        };
        let mut all = stops.clone();
        let mut add = |place, program| {
            if !all.breakpoints.contains(&place) {
                all.breakpoints.push(place);
                all.programs.insert(place, program);
            }
        };
        calls.iter().for_each(|&call| add(call, if_stack_is_at(stack)));
        add(start, if_stack_is_above(before.stack));
        let here = self.position(give_up)?;
        let reason = self.back_to_hit(&all, give_up)?;
        let found = self.standing();
        match reason {
            Reason::Breakpoint if calls.contains(&found.place) && found.stack == stack => {
                return Ok(Some(Reason::Stepped));
            }
            Reason::Breakpoint if stops.breakpoints.contains(&found.place) => {}
            // The function was entered since.
            Reason::Breakpoint | Reason::Begin => {
                self.seek(here, give_up)?;
                return Ok(None);
            }
            _ => {}
        }
        Ok(Some(reason))
    }

    fn calls_in(&self, start: u64, end: u64) -> Option<Vec<Ways>> {
        let bytes = end.checked_sub(start).filter(|&bytes| bytes <= FUNCTION_BYTES_MAX)?;
        let mut code = vec![0; bytes as usize];
        if self.read(start, &mut code) < code.len() {
            return None;
        }
        let mut found = ways(&code, start)?;
        found.retain(|one| matches!(one.kind, Kind::Call | Kind::OpenCall));
        Some(found)
    }
}

/// The program of a breakpoint that stops where the stack pointer has this value.
#[must_use]
pub fn if_stack_is_at(value: u64) -> Vec<u8> {
    block(value, op::EQUAL)
}

fn if_stack_is_above(value: u64) -> Vec<u8> {
    block(value, op::LESS_UNSIGNED)
}

fn block(value: u64, compare: u8) -> Vec<u8> {
    let mut code = vec![op::CONST64];
    code.extend_from_slice(&value.to_be_bytes());
    code.extend_from_slice(&[op::REG, 0, RSP as u8, compare, op::END]);
    let mut block = vec![breakpoint_kind::STOPS_IF];
    block.extend_from_slice(&(code.len() as u16).to_be_bytes());
    block.extend_from_slice(&code);
    block.extend_from_slice(&PROGRAMS_END.to_be_bytes());
    block
}
