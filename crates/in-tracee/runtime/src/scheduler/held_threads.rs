//! Threads that are traced, and held by their tracer: they get no token. See `tracing`.

use core::sync::atomic::Ordering;

use crate::ground::{frame, kernel};
use crate::scheduler::own_token;
use crate::state::block::{known_threads, process, thread, thread_at};
use crate::state::call_state::Traced;
use crate::state::stacks::signal_stack;

/// True if the calling thread is held, and its tracer is there.
#[inline]
pub fn is_held() -> bool {
    thread().traced.held.load(Ordering::SeqCst) != 0 && stays_held()
}

#[cold]
fn stays_held() -> bool {
    let traced = &thread().traced;
    let tracer = traced.by.load(Ordering::SeqCst) as usize;
    let is_there = tracer != 0 && thread_at(tracer - 1).alive.load(Ordering::SeqCst) != 0;
    if !is_there {
        // It was killed: the kernel lets go of what it traced.
        let_go(traced);
    }
    is_there
}

/// Waits for a while, or until the thread is let go. It is not in the way of others.
#[cold]
pub fn wait_while_held() {
    let token = own_token::my_token();
    if token.take_reservation_back(thread().identity) {
        token.wake.fetch_add(1, Ordering::SeqCst);
        kernel::futex_wake(&token.wake);
    }
    kernel::futex_wait(&thread().traced.held, 1, WAIT_MS);
}

pub fn let_go(traced: &Traced) {
    traced.by.store(0, Ordering::SeqCst);
    traced.held.store(0, Ordering::SeqCst);
    kernel::futex_wake(&traced.held);
}

/// The calling thread ends, and lets go of those that it traces.
pub fn let_all_go() {
    let own = thread().index as u32 + 1;
    for index in 0..known_threads() {
        let traced = &thread_at(index).traced;
        if traced.by.load(Ordering::Relaxed) == own {
            let_go(traced);
        }
    }
}

/// Recording: the calling thread releases the token at a preemption, where its vector registers
/// count.
pub fn note_vectors(stands: bool) {
    if process().in_group {
        if stands {
            frame::save_vectors_at(signal_stack(thread().index));
        }
        thread().traced.has_vectors = stands;
    }
}

const WAIT_MS: u64 = 100;
