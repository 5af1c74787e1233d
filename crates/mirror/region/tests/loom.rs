//! A model of a checkpoint's moment with two writers and the checkpointer, over all interleavings (up to a
//! bound of preemptions): what the mirror has is what memory was at one moment. Steps and names are those of `log.rs` and
//! `capture.rs`.
//!
//! Each access is one that sees the latest value, as this processor's threads do, apart from a store that waits in a store buffer while the
//! same thread looks whether to save for the next one. That is as if both looks came first, as for stores of one look.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::SeqCst;
use loom::thread;

/// Words of the region, in one block.
const WORDS: usize = 3;
/// Entries that a writer makes at most.
const ENTRIES: usize = 8;
/// The owner of a block that several store to while a checkpoint of a tag is copied.
const SHARED: usize = 100;

#[derive(Default)]
struct Entry {
    /// The tag in tens and the word, plus 1; 0: not written yet.
    head: AtomicUsize,
    old: AtomicUsize,
    number: AtomicUsize,
}

struct Model {
    active: AtomicUsize,
    owner: AtomicUsize,
    numbers: AtomicUsize,
    region: [AtomicUsize; WORDS],
    logs: [[Entry; ENTRIES]; 2],
}

/// The latest value: a load of loom's may be of one that was replaced long ago, an exchange is not.
fn now(value: &AtomicUsize) -> usize {
    value.fetch_add(0, SeqCst)
}

/// A writer, and how many entries it has made.
struct Writer {
    model: Arc<Model>,
    id: usize,
    entries: usize,
}

impl Writer {
    fn new(model: &Arc<Model>, id: usize) -> Writer {
        Writer { model: model.clone(), id, entries: 0 }
    }

    /// The barrier before a store to a word.
    fn save(&mut self, word: usize) {
        let model = &self.model;
        loop {
            let tag = now(&model.active);
            if tag == 0 {
                return;
            }
            let old = now(&model.region[word]);
            let owner = now(&model.owner);
            let number = if owner == self.id {
                0
            } else if owner == SHARED + tag {
                model.numbers.fetch_add(1, SeqCst)
            } else {
                let wanted = if owner == 0 || owner > SHARED { self.id } else { SHARED + tag };
                let _ = model.owner.compare_exchange(owner, wanted, SeqCst, SeqCst);
                continue;
            };
            let entry = &model.logs[self.id - 1][self.entries];
            self.entries += 1;
            entry.old.swap(old, SeqCst);
            entry.number.swap(number, SeqCst);
            entry.head.swap(tag * 10 + word + 1, SeqCst);
            return;
        }
    }

    fn store(&mut self, word: usize, value: usize) {
        self.save(word);
        self.model.region[word].swap(value, SeqCst);
    }

    fn add(&mut self, word: usize, value: usize) -> usize {
        self.save(word);
        self.model.region[word].fetch_add(value, SeqCst)
    }
}

/// The checkpointer.
struct Capture {
    mirror: [usize; WORDS],
    /// By what number a word is undone.
    undone: [Option<usize>; WORDS],
    /// Entries of each log that were read.
    read: [usize; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            active: AtomicUsize::new(0),
            owner: AtomicUsize::new(0),
            numbers: AtomicUsize::new(1),
            region: std::array::from_fn(|_| AtomicUsize::new(0)),
            logs: std::array::from_fn(|_| std::array::from_fn(|_| Entry::default())),
        })
    }

    /// True if there was an entry that was not read before.
    fn undo(&self, capture: &mut Capture, tag: usize) -> bool {
        let mut found = false;
        for (log, read) in self.logs.iter().zip(&mut capture.read) {
            while *read < ENTRIES {
                let head = now(&log[*read].head);
                if head == 0 {
                    break;
                }
                let (old, number) = (now(&log[*read].old), now(&log[*read].number));
                *read += 1;
                found = true;
                let word = head % 10 - 1;
                let is_first = capture.undone[word].is_none_or(|undone| number < undone);
                if head / 10 == tag && is_first {
                    capture.undone[word] = Some(number);
                    capture.mirror[word] = old;
                }
            }
        }
        found
    }

    /// True if a store was found that nobody had saved.
    fn pass(&self, capture: &mut Capture, tag: usize) -> bool {
        let mut found = false;
        for word in 0..WORDS {
            let value = now(&self.region[word]);
            if value == capture.mirror[word] {
                continue;
            }
            self.undo(capture, tag);
            if capture.undone[word].is_none() && value != capture.mirror[word] {
                capture.mirror[word] = value;
                found = true;
            }
        }
        self.undo(capture, tag);
        found
    }

    fn checkpoint(&self, capture: &mut Capture, tag: usize) {
        self.active.swap(tag, SeqCst);
        self.pass(capture, tag);
        while self.pass(capture, tag) {}
        self.active.swap(0, SeqCst);
        // Between one log and the next, an entry may have come in the first one that is before one in the second.
        while self.undo(capture, tag) {}
        capture.undone = [None; WORDS];
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two checkpoints of a program; each of them must be so.
fn captured(program: [fn(&mut Writer); 2], is_of_one_moment: fn([usize; WORDS]) -> bool, checkpoints: usize) {
    check(move || {
        let model = Model::new();
        let threads = [1, 2].map(|id| {
            let mut writer = Writer::new(&model, id);
            thread::spawn(move || program[id - 1](&mut writer))
        });
        let mut capture = Capture { mirror: [0; WORDS], undone: [None; WORDS], read: [0; 2] };
        for tag in 1..=checkpoints {
            model.checkpoint(&mut capture, tag);
            assert!(is_of_one_moment(capture.mirror), "{:?} at {tag}", capture.mirror);
        }
        threads.into_iter().for_each(|thread| thread.join().expect("it ended"));
    });
}

/// A thread's stores are in a checkpoint in their order, and with what another one has learned of them.
#[test]
fn what_happened_before_is_there() {
    let first = |writer: &mut Writer| {
        writer.store(0, 1);
        writer.add(1, 1);
    };
    let second = |writer: &mut Writer| {
        let seen = writer.add(1, 2);
        writer.store(2, seen + 2);
    };
    let is_of_one_moment =
        |[own, sum, seen]: [usize; WORDS]| (sum & 1 == 0 || own == 1) && (seen & sum) == seen;
    captured([first, second], is_of_one_moment, 1);
}

/// Stores of one look, which may be late together.
#[test]
fn stores_of_one_look_are_in_their_order() {
    let first = |writer: &mut Writer| {
        writer.save(0);
        writer.save(1);
        writer.model.region[0].swap(1, SeqCst);
        writer.model.region[1].swap(1, SeqCst);
    };
    let second = |writer: &mut Writer| writer.store(2, 1);
    captured([first, second], |[before, behind, _]| behind <= before, 2);
}

/// Two threads that change one word, and two checkpoints: what was saved for the first one does not count for the second.
#[test]
fn each_checkpoint_is_of_its_own_moment() {
    let first = |writer: &mut Writer| {
        writer.add(0, 1);
        writer.store(1, 1);
    };
    let second = |writer: &mut Writer| {
        let seen = writer.add(0, 2);
        writer.store(2, seen + 2);
    };
    let is_of_one_moment =
        |[sum, own, seen]: [usize; WORDS]| (own == 0 || sum & 1 == 1) && (seen & sum) == seen;
    captured([first, second], is_of_one_moment, 2);
}
