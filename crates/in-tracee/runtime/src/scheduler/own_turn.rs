//! The turn of the process's lane.

use lane_protocol::{TURNS, Turn};

use crate::state::block::{process, session};

/// The turn of the process's lane, as it is known here.
pub fn my_turn() -> &'static Turn {
    turn_of(process().turn)
}

pub fn turn_of(number: u32) -> &'static Turn {
    &session().turns[number as usize % TURNS]
}

/// True where the schedule of this process is given.
#[inline]
pub fn is_scheduled() -> bool {
    session().is_scheduled != 0
}
