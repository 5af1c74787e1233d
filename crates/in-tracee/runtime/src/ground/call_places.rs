//! Where calls of the program are made, for handlers of signals that come there.

use crate::ground::assembly::{
    rv_call_aborted, rv_call_instruction, rv_call_window, rv_direct_aborted, rv_direct_instruction,
    rv_direct_window,
};

/// Bytes of the instruction `syscall`.
const SYSCALL_BYTES: u64 = 2;

/// A place where the calls of the program are made.
pub struct CallPlace {
    /// From here on it is not begun if a signal is pending.
    pub window: u64,
    instruction: u64,
    /// Where it goes on if it was not begun.
    pub aborted: u64,
}

type Code = unsafe extern "C" fn();

fn place(window: Code, instruction: Code, aborted: Code) -> CallPlace {
    let [window, instruction, aborted] = [window, instruction, aborted].map(|code| code as *const () as u64);
    CallPlace { window, instruction, aborted }
}

fn call_places() -> [CallPlace; 2] {
    [
        place(rv_call_window, rv_call_instruction, rv_call_aborted),
        place(rv_direct_window, rv_direct_instruction, rv_direct_aborted),
    ]
}

/// The place where a call is about to begin.
pub fn before_call(rip: u64) -> Option<CallPlace> {
    call_places().into_iter().find(|place| (place.window..=place.instruction).contains(&rip))
}

/// The place behind whose call this is.
pub fn behind_call(rip: u64) -> Option<CallPlace> {
    call_places().into_iter().find(|place| place.instruction + SYSCALL_BYTES == rip)
}
