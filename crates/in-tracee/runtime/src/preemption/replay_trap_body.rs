//! What goes on in a replay trap's stub: copies of the instructions that its jump covers, and of
//! the whole loop around them if it is a small one. A round of it then takes no jump that
//! the program would not take, and pays for the comparison alone.
//!
//! What leaves the loop, or asks the kernel, or calls goes on in the program's own code; a
//! loop with such instructions inside stays there.

use crate::ground::decode::{self, Moved, Run};

/// Instructions that are copied at most, and their bytes.
pub const INSTRUCTIONS_MAX: usize = 48;
const BYTES_MAX: u64 = 250;

#[derive(Clone, Copy)]
pub struct Body {
    /// Of the first instruction.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    instructions: [Moved; INSTRUCTIONS_MAX],
    count: usize,
}

impl Body {
    pub const NONE: Body =
        Body { start: 0, end: 0, instructions: [Run::NONE.instructions[0]; INSTRUCTIONS_MAX], count: 0 };

    /// The instructions that the jump covers.
    pub fn of_run(address: u64, run: &Run) -> Body {
        let mut body = Body::empty(address);
        run.instructions[..run.count].iter().for_each(|moved| body.add(*moved));
        body
    }

    /// The loop around them; `None` if they are in none that could go on from copies.
    pub fn of_loop(address: u64, run: &Run) -> Option<Body> {
        let (start, behind_jump) = loop_around(address)?;
        let end = behind_jump.max(address + run.bytes);
        let mut body = Body::empty(start);
        while body.end < end {
            let offset = body.end - start;
            if body.count == INSTRUCTIONS_MAX || offset >= BYTES_MAX {
                return None;
            }
            body.add(decode::movable(body.end, offset as u8)?);
        }
        // What overlaps is read in another way from another start.
        let covered = &run.instructions[..run.count];
        let all_begin =
            covered.iter().all(|moved| body.index_of(address + u64::from(moved.offset)).is_some());
        (all_begin && body.end == end).then_some(body)
    }

    fn empty(start: u64) -> Body {
        Body { start, end: start, ..Body::NONE }
    }

    fn add(&mut self, moved: Moved) {
        self.end += u64::from(moved.bytes);
        self.instructions[self.count] = moved;
        self.count += 1;
    }

    pub fn instructions(&self) -> &[Moved] {
        &self.instructions[..self.count]
    }

    pub fn address_of(&self, moved: &Moved) -> u64 {
        self.start + u64::from(moved.offset)
    }

    /// Which of the instructions begins there.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions().iter().position(|moved| self.address_of(moved) == address)
    }
}

/// Where the smallest loop around the address begins, and what is behind its jump back.
fn loop_around(address: u64) -> Option<(u64, u64)> {
    let mut at = address;
    for _ in 0..INSTRUCTIONS_MAX {
        let moved = decode::movable(at, 0)?;
        at += u64::from(moved.bytes);
        if let Some((target, _)) = moved.jump
            && target <= address
        {
            return (address - target < BYTES_MAX).then_some((target, at));
        }
    }
    None
}
