//! Tokens that become one: processes that come to share memory.

use core::sync::atomic::Ordering;

use lane_protocol::TOKENS;

use super::{begin_group, move_to, take, yield_now};
use crate::address_space::left_memory;
use crate::ground::{kernel, notices};
use crate::scheduler::own_token::{my_token, token_of};
use crate::state::block::{process, session};

/// Recording: the process shares memory with those who have the other token: theirs
/// is its own from now on.
pub fn join(other: u32) {
    begin_group();
    let own = process().token;
    if last_successor(other) == own {
        return;
    }
    // One lane joins another at a time; nobody waits for that with the token.
    let (joining, lane) = (&session().joining, process().lane + 1);
    while joining.compare_exchange(0, lane, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        yield_now();
        core::hint::spin_loop();
    }
    let other = last_successor(other);
    let own = process().token;
    if other != own {
        let before = my_token();
        process().joins = true;
        notices::lane_shares_memory();
        left_memory::begin();
        move_to(other);
        take();
        before.successor.store(other + 1, Ordering::SeqCst);
        // Those who wait for the old token wait for the new one now.
        before.wake.fetch_add(1, Ordering::SeqCst);
        kernel::futex_wake(&before.wake);
    }
    // The supervisor does it for who is killed on the way.
    let _ = joining.compare_exchange(lane, 0, Ordering::Release, Ordering::Relaxed);
}

/// The token that took a token's place.
pub(super) fn last_successor(mut number: u32) -> u32 {
    for _ in 0..TOKENS {
        match token_of(number).successor.load(Ordering::Acquire) {
            0 => break,
            next => number = next - 1,
        }
    }
    number
}
