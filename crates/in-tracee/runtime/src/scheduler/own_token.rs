//! The token of the process's lane.

use lane_protocol::{ExecutionToken, TOKENS};

use crate::state::block::{process, session};

/// The token of the process's lane, as it is known here.
pub fn my_token() -> &'static ExecutionToken {
    token_of(process().token)
}

pub fn token_of(number: u32) -> &'static ExecutionToken {
    &session().tokens[number as usize % TOKENS]
}

/// True where the schedule of this process is given.
#[inline]
pub fn is_scheduled() -> bool {
    session().is_scheduled != 0
}
