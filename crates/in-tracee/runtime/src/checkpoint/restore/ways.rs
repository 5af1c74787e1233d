//! Which way a process goes back, and whether the supervisor goes along.

use linux_abi::errno;

use crate::ground::kernel::error;
use crate::log::kept_files::request_answer;
use crate::state::block::session;

/// What follows once the state is back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The same again, to the present.
    Replay,
    /// Something else, from there on.
    Branch,
}

/// Asks for something that has to do with the log.
pub fn ask_supervisor(what: u32, arguments: [u64; 4]) -> Result<(), i64> {
    match request_answer(what, arguments, &session().doorbell) {
        Some(0) => Ok(()),
        Some(number) => Err(-i64::from(number)),
        None => Err(error(errno::EPIPE)),
    }
}
