//! A checkpoint's moment, and how the mirror becomes what the region was then.
//!
//! The moment is one store: of the checkpoint's tag to the word that all threads look at before they store (`log.rs`). From then on they
//! save what they overwrite. This thread, the only one that changes the mirror, compares the region's pages with it, and
//! copies what differs and was not saved; what was saved goes into the mirror as it was. A thread that looked at the word before
//! the moment may store behind it without saving: that store belongs to the checkpoint, as the last before the moment. So pages are compared again,
//! until there is no such store any more. Then nobody saves any longer, what is still in the logs is read, and the mirror stands still until the next
//! checkpoint.
//!
//! Why that is one moment: docs/adr/0138-stores-are-undone-in-the-mirror.md; `crates/mirror/region/tests/loom.rs` models it.
//!
//! Deliberately absent: waiting for any thread of the program, fences, and signals.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{MutexGuard, PoisonError};

use crate::check;
use crate::layout::PAGE;
use crate::log;
use crate::memory::{ASKED_PAGES, Memory};
use crate::pages::Pages;
use crate::reader::{READER, Reader, Undo};

/// Pages between two looks into the logs.
const PIECE_PAGES: usize = 64;
/// Chunks of logs that are there before threads need them.
pub const CHUNKS_READY: usize = 8;
/// The part of the region's pages whose notes of what is undone are kept in memory.
const NOTES_KEPT: usize = 64;

/// The last checkpoint's tag.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A checkpoint begins: now.
pub fn begin() {
    let tag = log::tag_behind(LAST.load(SeqCst));
    LAST.store(tag, SeqCst);
    log::active().store(tag, SeqCst);
}

/// Threads save what they store to no longer, or for the check only.
pub fn rest() {
    log::active().store(if check::is_on() { log::CHECKED } else { 0 }, SeqCst);
}

/// Threads save nothing any more.
pub fn stop() {
    log::active().store(0, SeqCst);
}

/// What is known while a checkpoint's memory is captured.
pub struct Capture {
    /// Pages of which something is undone.
    touched: Pages,
    /// Numbers of the entries that bytes of a word are undone by, where they have any.
    numbers: HashMap<usize, [u64; 8], BuildHasherDefault<WordHasher>>,
    /// With the check: words that were saved behind a store.
    late: Vec<usize>,
    /// No checkpoint is being captured: what is saved for the check counts.
    is_at_rest: bool,
}

/// Addresses of words are spread by one multiplication.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }
    fn write_usize(&mut self, value: usize) {
        // 2^64 divided by the golden ratio.
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
    }
}

/// What was done for one checkpoint.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    pub compared: u64,
    pub copied: u64,
}

impl Capture {
    pub fn new(memory: &Memory) -> Capture {
        Capture {
            touched: Pages::none(memory.pages()),
            numbers: HashMap::default(),
            late: Vec::new(),
            is_at_rest: true,
        }
    }

    /// Makes the mirror what the region was when the checkpoint began. `changed` gets the pages in which that is something else than
    /// the mirror was.
    pub fn run(&mut self, memory: &Memory, changed: &mut Pages) -> Done {
        let mut reader = lock_reader();
        let mut done = Done::default();
        self.pass(memory, &mut reader, changed, &mut done);
        while self.pass(memory, &mut reader, changed, &mut done) {}
        rest();
        // Between one log and the next, an entry may have come in the first one that is before one in the second: so all
        // are read until there is none.
        while self.undo(memory, &mut reader, changed) {}
        if !check::is_on() {
            self.forget(memory);
        }
        self.is_at_rest = true;
        log::provide(CHUNKS_READY);
        done
    }

    /// Forgets what is undone: another checkpoint begins.
    pub fn forget(&mut self, memory: &Memory) {
        self.touched.iter().for_each(|page| memory.set_touched(page, false));
        if self.touched.count() > memory.pages() / NOTES_KEPT {
            memory.forget_all_undone();
        } else {
            self.touched.iter().for_each(|page| memory.forget_undone(page));
        }
        self.touched.clear();
        self.numbers.clear();
        self.is_at_rest = false;
    }

    /// Compares all pages once; true if a store was found that nobody had saved.
    fn pass(&mut self, memory: &Memory, reader: &mut Reader, changed: &mut Pages, done: &mut Done) -> bool {
        let mut found = false;
        let pieces = memory.used_pages().into_iter().flat_map(|pages| {
            pages.clone().step_by(ASKED_PAGES).map(move |first| first..(first + ASKED_PAGES).min(pages.end))
        });
        for piece in pieces {
            let asked = memory.stored_to(piece.start, piece.len());
            for page in piece.clone().filter(|page| asked[page - piece.start]) {
                if page % PIECE_PAGES == 0 {
                    self.undo(memory, reader, changed);
                }
                done.compared += 1;
                if !memory.is_equal(page) && self.copy(memory, reader, page, changed) {
                    done.copied += 1;
                    found = true;
                }
            }
        }
        self.undo(memory, reader, changed);
        found
    }

    /// Copies what differs in a page and nobody has saved; true if there was something.
    fn copy(&mut self, memory: &Memory, reader: &mut Reader, page: usize, changed: &mut Pages) -> bool {
        let differing: Vec<(usize, u64)> = memory.differing(page).collect();
        // Who has stored one of these values behind the moment has saved the one before: it is in the logs now.
        self.undo(memory, reader, changed);
        let mut found = false;
        for (at, now) in differing {
            let before = memory.mirrored(at).load(Relaxed);
            let wanted = blend(now, before, memory.undone(at).load(Relaxed));
            if wanted != before {
                memory.mirrored(at).store(wanted, Relaxed);
                changed.insert(page);
                found = true;
            }
        }
        found
    }

    /// Puts what was saved into the mirror; true if there was something.
    fn undo(&mut self, memory: &Memory, reader: &mut Reader, changed: &mut Pages) -> bool {
        let (tag, is_at_rest) = (LAST.load(SeqCst), self.is_at_rest);
        let mut found = false;
        reader.read(|undo| {
            if undo.tag == tag || (undo.tag == log::CHECKED && is_at_rest) {
                found |= undo.tag == tag;
                self.apply(memory, &undo, changed);
            }
        });
        found
    }

    fn apply(&mut self, memory: &Memory, undo: &Undo, changed: &mut Pages) {
        if !(memory.base..memory.base + memory.size).contains(&undo.address) {
            return;
        }
        let undone = memory.undone(undo.address).load(Relaxed);
        // Of each byte the first entry counts: of one log that is the first one given.
        let bytes = (undo.bytes & !undone) | self.later(undo, undo.bytes & undone);
        if bytes == 0 {
            return;
        }
        let page = self.note(memory, undo.address, bytes);
        if undo.tag == log::CHECKED {
            // The mirror stands still. What is saved for the first time is as it was, unless it was stored to before.
            let before = memory.mirrored(undo.address).load(Relaxed);
            if undo.number == 0 && blend(before, undo.old, bytes) != before {
                self.late.push(undo.address);
            }
            return;
        }
        if undo.number != 0 || self.numbers.contains_key(&undo.address) {
            let numbers = self.numbers.entry(undo.address).or_default();
            (0..8).filter(|byte| bytes >> byte & 1 == 1).for_each(|byte| numbers[byte] = undo.number);
        }
        let before = memory.mirrored(undo.address).load(Relaxed);
        let wanted = blend(before, undo.old, bytes);
        if wanted != before {
            memory.mirrored(undo.address).store(wanted, Relaxed);
            changed.insert(page);
        }
    }

    /// Those of some bytes that are undone by an entry behind this one.
    fn later(&self, undo: &Undo, undone: u8) -> u8 {
        if undone == 0 || self.numbers.is_empty() {
            return 0;
        }
        let Some(numbers) = self.numbers.get(&undo.address) else { return 0 };
        (0..8)
            .filter(|byte| undone >> byte & 1 == 1 && numbers[*byte] > undo.number)
            .fold(0, |bits, byte| bits | 1 << byte)
    }

    /// Reads what threads have saved, and no more.
    pub fn read_logs(&mut self, memory: &Memory) {
        let mut changed = Pages::none(memory.pages());
        self.undo(memory, &mut lock_reader(), &mut changed);
    }

    /// Notes that bytes of a word are undone; its page.
    fn note(&mut self, memory: &Memory, at: usize, bytes: u8) -> usize {
        let (page, place) = ((at - memory.base) / PAGE, memory.undone(at));
        self.touched.insert(page);
        place.store(place.load(Relaxed) | bytes, Relaxed);
        memory.set_touched(page, true);
        page
    }

    /// What the program has said that it stored to without a barrier counts as saved.
    fn count_as_saved(&mut self, memory: &Memory, told: &[Range<usize>]) {
        let is_told = |word: &usize| told.iter().any(|bytes| bytes.start < word + 8 && *word < bytes.end);
        self.late.retain(|word| !is_told(word));
        for bytes in told {
            let within = bytes.start.max(memory.base)..bytes.end.min(memory.base + memory.size);
            within.for_each(|at| {
                self.note(memory, at, 1 << (at % 8));
            });
        }
    }

    /// Words that differ from the mirror in bytes that nobody has saved, one for each page: while all that is stored to is saved.
    pub fn missed(&mut self, memory: &Memory) -> Vec<usize> {
        let mut reader = lock_reader();
        let mut changed = Pages::none(memory.pages());
        self.undo(memory, &mut reader, &mut changed);
        let differing = (0..memory.pages()).flat_map(|page| memory.differing(page)).collect::<Vec<_>>();
        self.undo(memory, &mut reader, &mut changed);
        self.count_as_saved(memory, &check::told());
        let is_missed = |(at, now): &(usize, u64)| {
            let before = memory.mirrored(*at).load(Relaxed);
            blend(*now, before, memory.undone(*at).load(Relaxed)) != before
        };
        let mut found: Vec<usize> =
            differing.iter().filter(|word| is_missed(word)).map(|(at, _)| *at).collect();
        found.append(&mut self.late);
        found.sort_unstable();
        found.dedup_by_key(|at| *at / PAGE);
        found
    }
}

/// For each set of a word's bytes, the bits of those.
const BITS: [u64; 256] = {
    let mut table = [0; 256];
    let mut set = 0;
    while set < 256 {
        let mut byte = 0;
        while byte < 8 {
            if set >> byte & 1 == 1 {
                table[set] |= 0xff << (byte * 8);
            }
            byte += 1;
        }
        set += 1;
    }
    table
};

/// A word with some bytes of another one.
fn blend(word: u64, other: u64, bytes: u8) -> u64 {
    let mask = BITS[usize::from(bytes)];
    word & !mask | other & mask
}

fn lock_reader() -> MutexGuard<'static, Reader> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionOfTest;
    use crate::barrier::{put, will_write};
    use crate::layout::MIRROR_DISTANCE;

    const ROOM: usize = 16 * PAGE;

    /// Begins a checkpoint, does something, and gives the mirror of a block as the checkpoint has it.
    fn captured(region: &RegionOfTest, action: impl FnOnce()) -> &'static [u8] {
        region.region.while_idle(|memory| {
            begin();
            action();
            Capture::new(memory).run(memory, &mut Pages::none(memory.pages()));
        });
        // SAFETY: the mirror of the block, which nobody changes while no checkpoint is taken.
        unsafe { std::slice::from_raw_parts((region.block + MIRROR_DISTANCE) as *const u8, ROOM) }
    }

    /// Every length from every place in a word, and across pages: what was saved is in the checkpoint as it was, and what was
    /// not saved, beside it, as it is.
    #[test]
    fn what_is_saved_is_as_it_was() {
        let region = RegionOfTest::with_block(ROOM);
        let block = region.block;
        // SAFETY: the block, which nobody else uses.
        let own = unsafe { std::slice::from_raw_parts_mut(block as *mut u8, ROOM) };
        let lengths = (1..40).chain([63, 64, 65, 4095, 4096, 9000]);
        for (length, start) in
            lengths.flat_map(|length| (PAGE - 9..PAGE + 9).map(move |start| (length, start)))
        {
            own.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index % 251) as u8);
            let mirror = captured(&region, || {
                // SAFETY: within the block.
                unsafe { will_write(block + start, length) };
                own.fill(0xee);
                // A second time it is not as it was any more.
                // SAFETY: as above.
                unsafe { will_write(block + start, length) };
                own.fill(0xdd);
            });
            let is_saved = |at: usize| (start..start + length).contains(&at);
            let wrong =
                (0..ROOM).find(|at| mirror[*at] != if is_saved(*at) { (*at % 251) as u8 } else { 0xdd });
            assert_eq!(wrong, None, "{length} bytes from {start} on");
        }
    }

    /// More than a chunk of entries, of a thread alone and of several in one block: the first of each word counts.
    #[test]
    fn of_all_that_is_saved_the_first_counts() {
        const THREADS: usize = 4;
        let region = RegionOfTest::with_block(ROOM);
        let block = region.block;
        let word = |index: usize| block + index * 8;
        // SAFETY: words of the block, each of which one thread uses.
        unsafe { (0..ROOM / 8).for_each(|index| put(word(index), index as u64)) };
        let mirror = captured(&region, || {
            for round in 0..40 {
                // SAFETY: as above.
                unsafe { (0..ROOM / 16).for_each(|index| put(word(index), round)) };
            }
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    scope.spawn(move || {
                        for round in 0..40 {
                            for index in (ROOM / 16 + thread..ROOM / 8).step_by(THREADS) {
                                // SAFETY: as above.
                                unsafe { put(word(index), round) };
                            }
                        }
                    });
                }
            });
        });
        let found =
            mirror.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        assert!(found.eq(0..(ROOM / 8) as u64), "the words as they were");
    }

    /// The barrier changes no register but those that it may.
    #[test]
    fn saving_leaves_registers_alone() {
        let region = RegionOfTest::with_block(ROOM);
        let block = region.block;
        captured(&region, || {
            for round in 0..30_000u64 {
                let (mut general, mut wide): ([u64; 8], [u128; 4]) = (
                    std::array::from_fn(|index| round << 8 | index as u64),
                    std::array::from_fn(|index| u128::from(round) << 80 | index as u128),
                );
                let before = (general, wide);
                // SAFETY: it saves a word of the block; what it may change is told.
                unsafe {
                    std::arch::asm!(
                        "mov rax, [r12]", "mov rcx, [r12 + 8]", "mov rdx, [r12 + 16]", "mov rsi, [r12 + 24]",
                        "mov rdi, [r12 + 32]", "mov r8, [r12 + 40]", "mov r9, [r12 + 48]", "mov r14, [r12 + 56]",
                        "movups xmm0, [r13]", "movups xmm1, [r13 + 16]", "movups xmm7, [r13 + 32]", "movups xmm15, [r13 + 48]",
                        "call {save}",
                        "mov [r12], rax", "mov [r12 + 8], rcx", "mov [r12 + 16], rdx", "mov [r12 + 24], rsi",
                        "mov [r12 + 32], rdi", "mov [r12 + 40], r8", "mov [r12 + 48], r9", "mov [r12 + 56], r14",
                        "movups [r13], xmm0", "movups [r13 + 16], xmm1", "movups [r13 + 32], xmm7", "movups [r13 + 48], xmm15",
                        save = sym crate::save::rv_mirror_save,
                        in("r12") general.as_mut_ptr(), in("r13") wide.as_mut_ptr(),
                        inout("r10") block + round as usize % ROOM => _, inout("r11") 3usize => _,
                        out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
                        out("r14") _, out("xmm0") _, out("xmm1") _, out("xmm7") _, out("xmm15") _,
                    );
                }
                assert_eq!((general, wide), before);
            }
        });
    }
}
