//! The ring's sleep and announce protocol, checked over all interleavings.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p lane-protocol --test loom --release`.
//! A wake-up that can be lost shows as a deadlock, which loom reports. The futex
//! is modelled as a mutex and a condition: the kernel compares the word and goes
//! to sleep in one step, and so does the model.
#![cfg(loom)]

use lane_protocol::Ring;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Futex {
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex { bucket: Mutex::new(()), sleepers: Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, seen: u32) {
        let bucket = self.bucket.lock().expect("no thread panics");
        if word.load(Ordering::Relaxed) == seen {
            drop(self.sleepers.wait(bucket).expect("no thread panics"));
        }
    }

    fn wake(&self) {
        let _bucket = self.bucket.lock().expect("no thread panics");
        self.sleepers.notify_all();
    }
}

/// All interleavings with at most this many switches of threads that need not
/// switch: losing a wake-up takes two.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn shared() -> Arc<(Ring, Futex)> {
    Arc::new((Ring::new(), Futex::new()))
}

/// The hot side sleeps until `is_ready`, as the runtime does.
fn hot_wait(ring: &Ring, futex: &Futex, is_ready: impl Fn(&Ring) -> bool) {
    while !is_ready(ring) {
        let seen = ring.hot_prepare_sleep();
        if !is_ready(ring) {
            futex.wait(&ring.hot_wake, seen);
        }
        ring.hot_end_sleep();
    }
}

fn cold_announce(ring: &Ring, futex: &Futex) {
    if ring.cold_announce() {
        futex.wake();
    }
}

#[test]
fn a_producer_that_waits_for_space_is_woken() {
    check(|| {
        let shared = shared();
        shared.0.head.store(1, Ordering::Relaxed);
        let cold = Arc::clone(&shared);
        let drainer = thread::spawn(move || {
            let (ring, futex) = &*cold;
            ring.tail.store(1, Ordering::Release);
            cold_announce(ring, futex);
        });
        let (ring, futex) = &*shared;
        hot_wait(ring, futex, |ring| ring.tail.load(Ordering::Acquire) == 1);
        drainer.join().expect("it does not panic");
        assert_eq!(ring.filled_bytes(), 0);
    });
}

#[test]
fn a_consumer_sees_all_that_came_before_the_end() {
    check(|| {
        let shared = shared();
        let cold = Arc::clone(&shared);
        let feeder = thread::spawn(move || {
            let (ring, futex) = &*cold;
            ring.head.store(1, Ordering::Release);
            cold_announce(ring, futex);
            ring.closed.store(1, Ordering::Release);
            cold_announce(ring, futex);
        });
        let (ring, futex) = &*shared;
        let mut consumed = 0;
        loop {
            // Closed first: what was produced before is visible then.
            let closed = ring.closed.load(Ordering::Acquire) != 0;
            let head = ring.head.load(Ordering::Acquire);
            if head > consumed {
                consumed = head;
                ring.tail.store(consumed, Ordering::Release);
                continue;
            }
            if closed {
                break;
            }
            let is_ready = |ring: &Ring| {
                ring.closed.load(Ordering::Acquire) != 0 || ring.head.load(Ordering::Acquire) > consumed
            };
            hot_wait(ring, futex, is_ready);
        }
        assert_eq!(consumed, 1);
        feeder.join().expect("it does not panic");
    });
}

// --- the token ---

use lane_protocol::{ExecutionToken, TICKETS_NEAR, Wake, thread_identity};

/// Takes the token as the runtime does, without its timeouts.
fn take(token: &ExecutionToken, futex: &Futex, me: u64) {
    while token.try_take(me).is_none() {
        let seen = token.prepare_sleep();
        if !token.is_open(me) {
            futex.wait(&token.wake, seen);
        }
        token.end_sleep();
    }
}

fn give(token: &ExecutionToken, futex: &Futex, me: u64) {
    // The model's futex wakes all, so a wrong choice of one would not show: see
    // `give_wakes_exactly_one`.
    if token.give(me) != Wake::Nobody {
        futex.wake();
    }
}

#[test]
fn the_token_excludes_and_no_wake_up_is_lost() {
    check(|| {
        let shared = Arc::new((ExecutionToken::new(), Futex::new(), loom::cell::UnsafeCell::new(0u32)));
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (token, futex, counter) = &*shared;
                    let me = thread_identity(1, index);
                    take(token, futex, me);
                    // SAFETY: the token excludes all others; loom checks it.
                    counter.with_mut(|counter| unsafe { *counter += 1 });
                    give(token, futex, me);
                    // The kernel does something; then back.
                    if !token.take_back(me) {
                        take(token, futex, me);
                    }
                    // SAFETY: as above.
                    counter.with_mut(|counter| unsafe { *counter += 1 });
                    give(token, futex, me);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
    });
}

#[test]
fn a_reservation_is_served() {
    check(|| {
        let shared = Arc::new((ExecutionToken::new(), Futex::new()));
        let other = Arc::clone(&shared);
        let (one, two) = (thread_identity(1, 0), thread_identity(1, 1));
        take(&shared.0, &shared.1, one);
        let waiter = thread::spawn(move || {
            let (token, futex) = &*other;
            assert!(token.reserve(two, 0));
            take(token, futex, two);
            give(token, futex, two);
        });
        give(&shared.0, &shared.1, one);
        if !shared.0.take_back(one) {
            take(&shared.0, &shared.1, one);
        }
        give(&shared.0, &shared.1, one);
        waiter.join().expect("no thread panics");
    });
}

#[test]
fn a_reservation_taken_over_leaves_nobody_asleep() {
    check(|| {
        let shared = Arc::new((ExecutionToken::new(), Futex::new()));
        let [one, two, three] = [0, 1, 2].map(|index| thread_identity(1, index));
        take(&shared.0, &shared.1, one);
        let waiters = [(two, 1), (three, 2)].map(|(me, age)| {
            let other = Arc::clone(&shared);
            thread::spawn(move || {
                let (token, futex) = &*other;
                token.reserve(me, age);
                take(token, futex, me);
                give(token, futex, me);
            })
        });
        give(&shared.0, &shared.1, one);
        for waiter in waiters {
            waiter.join().expect("no thread panics");
        }
    });
}

#[test]
fn who_sleeps_for_a_ticket_is_called() {
    check(|| {
        let shared = Arc::new((ExecutionToken::new(), Futex::new()));
        let other = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            let (token, futex) = &*other;
            while token.ticket.load(Ordering::SeqCst) < 2 {
                let seen = token.prepare_ticket_sleep(2);
                if token.ticket.load(Ordering::SeqCst) < 2 {
                    futex.wait(token.ticket_wake(2), seen);
                }
                token.end_ticket_sleep(2);
            }
        });
        let (token, futex) = &*shared;
        for ticket in 0..2 {
            token.end_ticket(ticket);
            // The next, and the next but one, which may go to sleep again.
            for next in [ticket + 1, ticket + TICKETS_NEAR] {
                if token.call_ticket(next).is_some() {
                    futex.wake();
                }
            }
        }
        waiter.join().expect("no thread panics");
    });
}
