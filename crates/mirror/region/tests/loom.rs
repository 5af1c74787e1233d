//! A model of freezing with two writers and the checkpointer, over all interleavings (up to a
//! bound of preemptions). A restartable sequence is one that the fence waits for: the kernel
//! restarts what was not yet done, which is as if it had not begun.
#![cfg(loom)]

use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::atomic::{AtomicUsize, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

const FROZEN: usize = 0;
const MIRROR: usize = 1;
const HOLD: usize = 2;
const KIND: usize = 3;
/// The offset word while stores are mirrored.
const DISTANCE: usize = 7;
/// Threads: two writers, and the checkpointer as the last.
const THREADS: usize = 3;
const NOTHING: usize = usize::MAX;

struct Model {
    state: AtomicUsize,
    offset: AtomicUsize,
    region: [AtomicUsize; 2],
    mirror: [AtomicUsize; 2],
    sequences: [Mutex<()>; THREADS],
    announced: [AtomicUsize; THREADS],
}

impl Model {
    fn new() -> Model {
        Model {
            state: AtomicUsize::new(MIRROR),
            offset: AtomicUsize::new(DISTANCE),
            region: [AtomicUsize::new(0), AtomicUsize::new(0)],
            mirror: [AtomicUsize::new(0), AtomicUsize::new(0)],
            sequences: [Mutex::new(()), Mutex::new(()), Mutex::new(())],
            announced: [AtomicUsize::new(NOTHING), AtomicUsize::new(NOTHING), AtomicUsize::new(NOTHING)],
        }
    }

    fn sequence<T>(&self, thread: usize, body: impl FnOnce() -> T) -> T {
        let _within = self.sequences[thread].lock().expect("no thread panics in one");
        body()
    }

    fn fence(&self) {
        for sequence in &self.sequences {
            drop(sequence.lock().expect("no thread panics in one"));
        }
        fence(SeqCst);
    }

    /// A plain store: to the region, then in a sequence to the mirror.
    fn store(&self, thread: usize, place: usize, value: usize) {
        self.region[place].store(value, SeqCst);
        self.sequence(thread, || {
            if self.offset.load(SeqCst) != 0 {
                self.mirror[place].store(value, SeqCst);
            }
        });
    }

    /// An atomic operation: adds one, returns what was there.
    fn add(&self, thread: usize, place: usize) -> usize {
        self.announced[thread].store(place, SeqCst);
        let old = loop {
            let done = self.sequence(thread, || {
                let holds = self.state.load(SeqCst) & KIND == HOLD;
                (!holds).then(|| self.region[place].fetch_add(1, SeqCst))
            });
            // Operations with a lock prefix are fences; loom takes them for acquire and release.
            fence(SeqCst);
            match done {
                Some(old) => break old,
                None => self.complete_freeze(thread),
            }
        };
        loop {
            let state = self.state.load(SeqCst);
            match state & KIND {
                MIRROR => {
                    self.copy_if(thread, place, state);
                    if self.region[place].load(SeqCst) == self.mirror[place].load(SeqCst) {
                        break;
                    }
                    thread::yield_now();
                }
                HOLD => self.complete_freeze(thread),
                _ => break,
            }
        }
        self.announced[thread].store(NOTHING, SeqCst);
        old
    }

    fn copy_if(&self, thread: usize, place: usize, state: usize) {
        self.sequence(thread, || {
            let value = self.region[place].load(SeqCst);
            if self.state.load(SeqCst) == state {
                self.mirror[place].store(value, SeqCst);
            }
        });
        fence(SeqCst);
    }

    fn complete_freeze(&self, thread: usize) {
        let state = self.state.load(SeqCst);
        if state & KIND != HOLD {
            return;
        }
        self.sequence(thread, || {
            if self.state.load(SeqCst) == state {
                self.offset.store(0, SeqCst);
            }
        });
        self.fence();
        for announced in &self.announced {
            let place = announced.load(SeqCst);
            if place != NOTHING {
                self.copy_if(thread, place, state);
            }
        }
        let _ = self.state.compare_exchange(state, state - HOLD + FROZEN, SeqCst, SeqCst);
    }

    fn freeze(&self) {
        self.state.store(self.state.load(SeqCst) - MIRROR + HOLD, SeqCst);
        self.complete_freeze(THREADS - 1);
    }

    fn thaw_and_resynchronise(&self) {
        self.state.store(self.state.load(SeqCst) + 4 + MIRROR, SeqCst);
        self.fence();
        self.offset.store(DISTANCE, SeqCst);
        self.fence();
        for (region, mirror) in self.region.iter().zip(&self.mirror) {
            loop {
                let (wanted, there) = (region.load(SeqCst), mirror.load(SeqCst));
                if wanted == there {
                    break;
                }
                let exchanged = mirror.compare_exchange(there, wanted, SeqCst, SeqCst).is_ok();
                fence(SeqCst);
                if exchanged && region.load(SeqCst) == wanted {
                    break;
                }
                thread::yield_now();
            }
        }
    }

    fn is_equal(&self) -> bool {
        (0..2).all(|place| self.region[place].load(SeqCst) == self.mirror[place].load(SeqCst))
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Runs two writers beside a checkpoint; returns the model and the frozen copy.
fn beside(
    first: impl FnOnce(&Model) + Send + 'static,
    second: impl FnOnce(&Model) + Send + 'static,
) -> (Arc<Model>, [usize; 2]) {
    let model = Arc::new(Model::new());
    let (one, other) = (model.clone(), model.clone());
    let one = thread::spawn(move || first(&one));
    let other = thread::spawn(move || second(&other));
    model.freeze();
    let frozen = [model.mirror[0].load(SeqCst), model.mirror[1].load(SeqCst)];
    let later = [model.mirror[0].load(SeqCst), model.mirror[1].load(SeqCst)];
    assert_eq!(frozen, later, "the frozen copy changed");
    model.thaw_and_resynchronise();
    one.join().expect("it ends");
    other.join().expect("it ends");
    assert!(model.is_equal(), "the mirror is not up to date");
    (model, frozen)
}

#[test]
fn what_was_seen_before_a_store_is_in_the_copy_with_it() {
    check(2, || {
        // The second writer adds to 1 only if it saw that the first had added to 0.
        let (_, frozen) = beside(
            |model| drop(model.add(0, 0)),
            |model| {
                if model.region[0].load(SeqCst) == 1 {
                    model.add(1, 1);
                }
            },
        );
        assert!(frozen[1] == 0 || frozen[0] == 1, "{frozen:?} was never there");
    });
}

#[test]
fn two_threads_that_change_one_value_leave_its_mirror_right() {
    check(2, || {
        let (model, frozen) = beside(|model| drop(model.add(0, 0)), |model| drop(model.add(1, 0)));
        assert_eq!(model.region[0].load(SeqCst), 2);
        assert!(frozen[0] <= 2);
    });
}

#[test]
fn a_plain_store_is_in_the_copy_with_what_publishes_it() {
    check(2, || {
        let (_, frozen) = beside(
            |model| {
                model.store(0, 0, 5);
                model.add(0, 1);
            },
            |model| {
                // Races with nothing: only who sees the flag reads the value.
                if model.region[1].load(SeqCst) == 1 {
                    assert_eq!(model.region[0].load(SeqCst), 5);
                }
            },
        );
        assert!(frozen[1] == 0 || frozen[0] == 5, "{frozen:?} was never there");
    });
}
