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
    /// Each place is a page of its own.
    marks: [AtomicUsize; 2],
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
            marks: [AtomicUsize::new(0), AtomicUsize::new(0)],
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

    /// An exchange, since a load of loom's may be of a value that was replaced long ago.
    fn mark(&self, place: usize) {
        self.marks[place].swap(1, SeqCst);
    }

    fn take_marks(&self, into: &mut [bool; 2]) {
        for (mark, changed) in self.marks.iter().zip(into) {
            *changed |= mark.swap(0, SeqCst) != 0;
        }
    }

    /// The offset as it is: a load of loom's may be of a value that was replaced before the fence. All that change it are
    /// exchanges, of which loom knows one order.
    fn look(&self) -> usize {
        self.offset.fetch_add(0, SeqCst)
    }

    /// A plain store: to the region, then to the mirror, and last of all the mark. A thread that is not scheduled
    /// between its look at the offset and its second store makes that one late.
    ///
    /// This processor lets a load go before a store that was before it, but not both across a fence: they
    /// are in that order here, and the fence waits for the pair.
    fn store_in_place(&self, thread: usize, place: usize, value: usize) {
        let mut offset = self.sequence(thread, || {
            let offset = self.look();
            self.region[place].store(value, SeqCst);
            offset
        });
        if offset == 0 {
            offset = self.sequence(thread, || {
                let offset = self.look();
                self.mark(place);
                offset
            });
            if offset == 0 {
                return;
            }
        }
        // The look at the mark goes before the second store, too.
        let is_marked = self.sequence(thread, || {
            let is_marked = self.marks[place].fetch_add(0, SeqCst) != 0;
            // An exchange: loom knows no order of a store and another thread's compare-exchange before it.
            self.mirror[place].swap(value, SeqCst);
            is_marked
        });
        if !is_marked {
            self.mark(place);
        }
    }

    /// A store that signal handlers make too: to the region, then in a sequence to the mirror.
    fn store(&self, thread: usize, place: usize, value: usize) {
        self.region[place].store(value, SeqCst);
        self.sequence(thread, || {
            self.mark(place);
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
                self.mark(place);
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
            self.mark(place);
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
                self.offset.swap(0, SeqCst);
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

    fn thaw_and_resynchronise(&self, changed: &mut [bool; 2]) {
        self.state.store(self.state.load(SeqCst) + 4 + MIRROR, SeqCst);
        self.fence();
        self.offset.swap(DISTANCE, SeqCst);
        self.fence();
        let before = std::mem::take(changed);
        self.take_marks(changed);
        let looked_at = [before[0] || changed[0], before[1] || changed[1]];
        for (place, (region, mirror)) in self.region.iter().zip(&self.mirror).enumerate() {
            while looked_at[place] {
                let (wanted, there) = (region.load(SeqCst), mirror.load(SeqCst));
                if wanted == there {
                    break;
                }
                changed[place] = true;
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
    model.thaw_and_resynchronise(&mut [true; 2]);
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
            |model| _ = model.add(0, 0),
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
        let (model, frozen) = beside(|model| _ = model.add(0, 0), |model| _ = model.add(1, 0));
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

/// Only pages that may have changed are written: what is on disk is the frozen copy all the same.
fn checkpoints_beside(writer: impl FnOnce(&Model) + Send + 'static) {
    let model = Arc::new(Model::new());
    let other = model.clone();
    let other = thread::spawn(move || writer(&other));
    let (mut changed, mut written) = ([false; 2], [0; 2]);
    for _ in 0..2 {
        model.freeze();
        model.take_marks(&mut changed);
        model.fence();
        for place in 0..2 {
            let frozen = model.mirror[place].load(SeqCst);
            if changed[place] {
                written[place] = frozen;
            }
            assert_eq!(written[place], frozen, "the change of {place} is not written");
        }
        model.thaw_and_resynchronise(&mut changed);
    }
    other.join().expect("it ends");
}

/// What is written of pages that are marked is of one moment, whenever the second stores come, and at last all is.
fn written_beside(
    preemptions: usize,
    writer: impl Fn(&Model) + Send + Sync + Copy + 'static,
    is_right: impl Fn([usize; 2]) -> bool + Send + Sync + Copy + 'static,
) {
    check(preemptions, move || {
        let model = Arc::new(Model::new());
        // Something else of the page was stored before.
        model.mark(0);
        let other = model.clone();
        let other = thread::spawn(move || writer(&other));
        let (mut changed, mut written) = ([false; 2], [0; 2]);
        let mut checkpoint = |model: &Model| {
            model.freeze();
            model.take_marks(&mut changed);
            model.fence();
            for place in (0..2).filter(|place| changed[*place]) {
                written[place] = model.mirror[place].load(SeqCst);
            }
            assert!(is_right(written), "{written:?} was never there");
            model.thaw_and_resynchronise(&mut changed);
            written
        };
        checkpoint(&model);
        checkpoint(&model);
        other.join().expect("it ends");
        let last = checkpoint(&model);
        assert!(model.is_equal(), "the mirror is not up to date");
        assert_eq!(last, [0, 1].map(|place| model.region[place].load(SeqCst)), "a store is not written");
    });
}

#[test]
fn a_store_in_place_is_written_with_what_publishes_it() {
    written_beside(
        3,
        |model| {
            model.store_in_place(0, 0, 5);
            model.add(0, 1);
        },
        |written| written[1] == 0 || written[0] == 5,
    );
}

#[test]
fn a_store_in_place_to_a_marked_page_is_written() {
    written_beside(4, |model| model.store_in_place(0, 0, 5), |_| true);
}

#[test]
fn stores_in_place_are_written_in_their_order() {
    written_beside(
        3,
        |model| {
            model.store_in_place(0, 0, 5);
            model.store_in_place(0, 1, 6);
            model.store_in_place(0, 0, 7);
        },
        |written| written[1] == 0 && written[0] <= 5 || written[1] == 6 && written[0] >= 5,
    );
}

#[test]
fn a_page_that_changes_while_the_mirror_is_brought_up_to_date_is_written() {
    check(3, || {
        checkpoints_beside(|model| {
            model.store(0, 0, 5);
            model.store(0, 0, 6);
        });
    });
}

#[test]
fn a_page_of_an_atomic_operation_is_written() {
    check(3, || checkpoints_beside(|model| _ = model.add(0, 0)));
}
