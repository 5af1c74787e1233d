//! Words that were changing shortly before a pause: they let the replay trap tell rounds
//! of a loop apart without summing memory.
//!
//! First the pages are found that change while the program runs on for a moment;
//! a copy of a few of them, compared a moment later, gives the words. In a large
//! memory, where each look at what was written takes a while, the pages that changed
//! before the preemption before are tried first.

use linux_abi::PAGE_BYTES;

use crate::address_space::checksum::{self, PAGE_WORDS};
use crate::address_space::page_tracker;
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::Registers;
use crate::ground::{decode, memory};
use crate::scheduler::chaos;

const PAGES_MAX: usize = 16;
/// Words of one page.
const WORDS_MAX: usize = 16;
/// Words of the stack's page: a counter of a loop may be behind what the functions that
/// it calls write.
const STACK_WORDS_MAX: usize = 64;
/// Words that are kept: those that changed since the last copy and since the one before, and
/// those nearby.
const KEPT_MAX: usize = 3 * (PAGES_MAX * WORDS_MAX + STACK_WORDS_MAX);
/// Pages that are summed where writing cannot be seen otherwise.
const SUMMED_MAX: usize = 2048;

/// Looks in vain, one behind the other, after which the next preemptions of one that only waits go without,
/// and how many of them.
const FUTILE_MAX: u32 = 2;
const PASSED_MAX: u32 = 16;

/// Protected pages from which on a look at them takes more than 0.2 ms.
const MANY_PAGES: u64 = 32768;

#[repr(C)]
struct Watch {
    by_sums: bool,
    summed: usize,
    sums: [(u64, u64); SUMMED_MAX],
    count: usize,
    /// Pages that are worth another try.
    known: usize,
    pages: [u64; PAGES_MAX],
    copies: [[u64; PAGE_WORDS]; PAGES_MAX],
    /// With chaos: those of the look before, of the pages that both have; not of others.
    older: [[u64; PAGE_WORDS]; PAGES_MAX],
    has_older: [bool; PAGES_MAX],
    /// Of some there is none.
    is_new: bool,
    words: [[u64; 2]; KEPT_MAX],
    stack_pointer: u64,
    /// Looks in a row after which no word had changed, and preemptions since without a look.
    futile: u32,
    passed: u32,
}

static WATCH: Owned<Watch> = Owned::new(Watch {
    by_sums: false,
    summed: 0,
    sums: [(0, 0); SUMMED_MAX],
    count: 0,
    known: 0,
    pages: [0; PAGES_MAX],
    copies: [[0; PAGE_WORDS]; PAGES_MAX],
    older: [[0; PAGE_WORDS]; PAGES_MAX],
    has_older: [false; PAGES_MAX],
    is_new: false,
    words: [[0; 2]; KEPT_MAX],
    stack_pointer: 0,
    futile: 0,
    passed: 0,
});

fn page_of(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// The page of the stack's last word: what the pointer of an empty stack points to may be
/// somebody else's, the kernel's clock for instance.
fn stack_page(stack_pointer: u64) -> u64 {
    page_of(stack_pointer.wrapping_sub(1))
}

/// False for pages that others write, or the kernel: replay may not have what they hold.
fn is_own(page: u64, stack_pointer: u64) -> bool {
    page == stack_page(stack_pointer) || page_tracker::is_written(page)
}

fn watch() -> Held<Watch> {
    WATCH.hold()
}

/// Begins to look which words of the pages known from the last preemption change; false if
/// a new look at the pages costs little.
pub fn watch_known(stack_pointer: u64) -> bool {
    let watch = &mut *watch();
    if page_tracker::protected_pages() < MANY_PAGES || watch.known == 0 {
        return false;
    }
    watch.count = watch.known;
    watch.pages[0] = stack_page(stack_pointer);
    watch.stack_pointer = stack_pointer;
    watch.copy();
    true
}

/// True if one of them did.
pub fn has_changed() -> bool {
    let watch = &mut *watch();
    let changed = watch.pages.iter().zip(&watch.copies).take(watch.count).skip(1).any(|(&page, copy)| {
        page != 0
            && (0..PAGE_WORDS)
                .any(|index| memory::read_word(page + 8 * index as u64).is_some_and(|now| now != copy[index]))
    });
    if !changed {
        watch.known = 0;
    }
    changed
}

/// Begins to look which pages change.
pub fn watch_pages() {
    let watch = &mut *watch();
    page_tracker::look(&mut |_, _| {});
    watch.by_sums = !page_tracker::protects();
    watch.summed = 0;
    if watch.by_sums {
        page_tracker::each_written_page(&mut |page| {
            if watch.summed < SUMMED_MAX && memory::read::<u8>(page).is_some() {
                watch.sums[watch.summed] = (page, checksum::page_sum(page));
                watch.summed += 1;
            }
        });
    }
}

/// True if pages are to be watched while the program may yet come to a boundary: nothing changed before
/// the last preemptions, and it costs little.
pub fn looks_early() -> bool {
    let is_cheap = page_tracker::protects() && page_tracker::protected_pages() < MANY_PAGES;
    let watch = &mut *watch();
    let looks = !chaos::is_on() && watch.futile >= FUTILE_MAX && is_cheap;
    if looks {
        // One that comes to a boundary after all has looked for nothing.
        watch.futile = FUTILE_MAX - 1;
    }
    looks
}

/// Words are looked at next, of all pages that were written to since the preemption before; false if
/// nobody knows which these are.
pub fn skips_pages() -> bool {
    watch().summed = 0;
    page_tracker::protects()
}

/// Begins to look which of their words change. False if no page was written to.
pub fn watch_words(stack_pointer: u64) -> bool {
    let watch = &mut *watch();
    let (known, pages_before) = (watch.known, watch.pages);
    watch.count = 0;
    watch.add(stack_page(stack_pointer));
    watch.stack_pointer = stack_pointer;
    let mut seen = 0u64;
    page_tracker::look(&mut |start, end| {
        for page in (start..end).step_by(PAGE_BYTES as usize) {
            seen += 1;
            watch.sample(page, seen);
        }
    });
    for index in 0..watch.summed {
        let (page, sum) = watch.sums[index];
        if memory::read::<u8>(page).is_some() && checksum::page_sum(page) != sum {
            seen += 1;
            watch.sample(page, seen);
        }
    }
    if chaos::is_on() {
        // Who has hardly run since writes what it wrote before.
        for &page in &pages_before[..known] {
            if watch.count < PAGES_MAX && page != 0 && !watch.pages[..watch.count].contains(&page) {
                watch.add(page);
            }
        }
        watch.keep_older(&pages_before[..known]);
        watch.is_new = watch.has_older[1..watch.count].contains(&false);
    }
    watch.known = watch.count;
    watch.copy();
    seen != 0
}

/// With chaos: true, once, if some of these pages were not looked at before.
pub fn looks_on() -> bool {
    core::mem::take(&mut watch().is_new)
}

/// The words that changed since then: address and value each.
pub fn changed_words() -> Held<[[u64; 2]]> {
    let watch = &mut *watch();
    let looked_at = core::mem::take(&mut watch.count);
    let count = watch.keep_differing(looked_at, false, 0);
    if looked_at != 0 {
        watch.futile = if count == 0 { watch.futile + 1 } else { 0 };
    }
    self::watch().part(|watch| &mut watch.words[..count])
}

/// True where looking is not worth it for one that only waits: nothing changed the last times.
pub fn are_none() -> bool {
    let watch = &mut *watch();
    if watch.futile < FUTILE_MAX {
        return false;
    }
    watch.passed += 1;
    if watch.passed >= PASSED_MAX {
        (watch.futile, watch.passed) = (FUTILE_MAX - 1, 0);
        return false;
    }
    true
}

/// The same with those that changed since the look before, and those of [`words_near`]: a look may
/// be too short for what counts the rounds.
pub fn changed_words_and_more(registers: &Registers) -> Held<[[u64; 2]]> {
    let watch = &mut *watch();
    let looked_at = core::mem::take(&mut watch.count);
    let changed = watch.keep_differing(looked_at, false, 0);
    let changed = watch.keep_differing(looked_at, true, changed);
    let count = keep_near(registers, changed);
    self::watch().part(|watch| &mut watch.words[..count])
}

/// Words of the stack around its pointer, those that other registers point to, and those
/// that the instructions ahead name, where nobody has looked what changes: the variables of
/// the innermost functions are among them, and what a small loop counts.
pub fn words_near(registers: &Registers) -> Held<[[u64; 2]]> {
    let count = keep_near(registers, 0);
    watch().part(|watch| &mut watch.words[..count])
}

/// Keeps them behind so many others; gives how many there are then.
fn keep_near(registers: &Registers, mut count: usize) -> usize {
    /// The red zone's words.
    const BELOW: u64 = 16;
    /// Words of what a register points to, and how many of them come before that place.
    const POINTED_WORDS: u64 = 8;
    const BEFORE: u64 = 2;
    let watch = &mut *watch();
    let r = registers;
    let pointers = [
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
    ];
    let stack = (r.rsp & !7).wrapping_sub(8 * BELOW);
    let pointed = pointers
        .iter()
        // What was not written since the preemption before has not changed since.
        .filter(|&&pointer| page_tracker::is_written(pointer))
        .map(|pointer| ((pointer & !7).wrapping_sub(8 * BEFORE), POINTED_WORDS));
    let kept = &mut watch.words;
    decode::each_operand_ahead(registers, &mut |address| {
        let address = address & !7;
        if let Some(value) = page_tracker::is_written(address).then(|| memory::read_word(address)).flatten() {
            kept[count] = [address, value];
            count += 1;
        }
    });
    // What follows the stack may be the kernel's.
    let (mut page, mut holds_own) = (stack_page(r.rsp), true);
    for (first, words) in core::iter::once((stack, BELOW + STACK_WORDS_MAX as u64)).chain(pointed) {
        for address in (0..words).map(|index| first.wrapping_add(index * 8)) {
            if page_of(address) != page {
                page = page_of(address);
                holds_own = is_own(page, r.rsp);
            }
            if let Some(value) = holds_own.then(|| memory::read_word(address)).flatten() {
                watch.words[count] = [address, value];
                count += 1;
            }
        }
    }
    count
}

impl Watch {
    /// Keeps the copies of these pages that are to be copied again.
    fn keep_older(&mut self, pages_before: &[u64]) {
        for (index, page) in self.pages[..self.count].iter().enumerate() {
            let before = pages_before.iter().position(|before| before == page && *page != 0);
            self.has_older[index] = before.is_some();
            if let Some(before) = before {
                self.older[index] = self.copies[before];
            }
        }
    }

    /// Keeps the words of the pages that were looked at that differ from their copies, or from the
    /// older ones, behind so many others; gives how many there are then.
    fn keep_differing(&mut self, looked_at: usize, older: bool, mut count: usize) -> usize {
        for place in (0..looked_at).filter(|&place| !older || self.has_older[place]) {
            let copy = if older { &self.older[place] } else { &self.copies[place] };
            let page = self.pages[place];
            if page == 0 || chaos::is_on() && !is_own(page, self.stack_pointer) {
                continue;
            }
            let mut of_page = 0;
            let (first, words_max) = match self.stack_pointer.wrapping_sub(page) {
                // With what is in use: below is what functions left that have returned.
                offset @ 0..PAGE_BYTES => ((offset / 8) as usize, STACK_WORDS_MAX),
                _ => (0, WORDS_MAX),
            };
            for index in (first..copy.len()).chain(0..first) {
                let (address, before) = (page + index as u64 * 8, copy[index]);
                if of_page == words_max {
                    break;
                }
                match memory::read_word(address) {
                    Some(now) if now != before => {
                        self.words[count] = [address, now];
                        count += 1;
                        of_page += 1;
                    }
                    _ => {}
                }
            }
        }
        count
    }

    fn copy(&mut self) {
        for index in 0..self.count {
            let copy = self.copies[index].as_mut_ptr() as u64;
            if !memory::copy(copy, self.pages[index], PAGE_BYTES) {
                self.pages[index] = 0;
            }
        }
    }

    fn add(&mut self, page: u64) {
        self.pages[self.count] = page;
        self.count += 1;
    }

    /// Takes the first pages, and later ones in place of earlier ones ever more rarely.
    fn sample(&mut self, page: u64, seen: u64) {
        if self.pages[..self.count].contains(&page) {
            return;
        }
        if self.count < PAGES_MAX {
            self.add(page);
        } else {
            let place = seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) % seen;
            if (1..PAGES_MAX as u64).contains(&place) {
                self.pages[place as usize] = page;
            }
        }
    }
}
