//! Calls that are recorded and have not returned yet.
//!
//! Where functions are left and where calls return to matters only while there are any. A
//! breakpoint there is often a trap, which costs a thousand times what a condition does that
//! does not hold: so these are planted by the first call whose condition holds, and taken away
//! at the next one whose condition does not hold while none is open.
//!
//! Invariant: a call that was recorded is open until its return is recorded.

use crate::ground::owned::{Held, Owned};

/// Beyond so many it is not looked any more which calls are open: all is recorded.
const CALLS_MAX: usize = 256;

#[derive(Clone, Copy)]
struct Call {
    thread: u32,
    /// It came to an instruction that leaves the function: only then a passage at the place
    /// that it returns to is its return.
    leaves: bool,
    /// The stack pointer behind its return.
    frame: u64,
    returns_to: u64,
}

struct Calls {
    count: usize,
    list: [Call; CALLS_MAX],
    are_too_many: bool,
    are_followed: bool,
}

static CALLS: Owned<Calls> = Owned::new(Calls {
    count: 0,
    list: [Call { thread: 0, leaves: false, frame: 0, returns_to: 0 }; CALLS_MAX],
    are_too_many: false,
    are_followed: false,
});

fn calls() -> Held<Calls> {
    CALLS.hold()
}

/// True if breakpoints where calls end are wanted.
pub fn are_followed() -> bool {
    calls().are_followed
}

/// A call was recorded.
pub fn begin(thread: u32, frame: u64, returns_to: u64, leaves: bool) {
    let own = &mut *calls();
    own.are_followed = true;
    let call = Call { thread, leaves, frame, returns_to };
    // An earlier call with this frame has left without returning to its caller.
    let same = own.list[..own.count].iter().position(|call| call.thread == thread && call.frame == frame);
    match same {
        Some(index) => own.list[index] = call,
        None if own.count == CALLS_MAX => own.are_too_many = true,
        None => {
            own.list[own.count] = call;
            own.count += 1;
        }
    }
}

/// A call was not recorded.
pub fn pass() {
    let own = &mut *calls();
    if own.count == 0 && !own.are_too_many {
        own.are_followed = false;
    }
}

/// An instruction that leaves the function of this frame: true if it is to be recorded.
pub fn leave(thread: u32, frame: u64) -> bool {
    let own = &mut *calls();
    let found = own.list[..own.count].iter_mut().find(|call| call.thread == thread && call.frame == frame);
    match found {
        Some(call) => {
            call.leaves = true;
            true
        }
        None => own.are_too_many,
    }
}

/// A passage at a place where calls return to: true if it is to be recorded.
pub fn end(thread: u32, frame: u64, address: u64) -> bool {
    let own = &mut *calls();
    let ends = |call: &Call| {
        call.thread == thread && call.frame == frame && call.returns_to == address && call.leaves
    };
    let Some(index) = own.list[..own.count].iter().position(ends) else { return own.are_too_many };
    own.count -= 1;
    own.list.swap(index, own.count);
    true
}
