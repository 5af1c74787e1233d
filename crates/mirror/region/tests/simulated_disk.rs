//! A disk that is cut at every point: writes between two flushes reach it in any order, in
//! part, or not at all. Recovery finds a whole checkpoint each time, and none that is older
//! than the last one that was reported as durable.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use retrovane_mirror::{Error, Pages, SlotFile, Slots, data_offset};

const PAGE: usize = 4096;
const PAGES: usize = 16;
const SIZE: usize = PAGES * PAGE;
const BASE: usize = 0x2000_0000_0000;
const CHECKPOINTS: usize = 200;
/// Parts of a write that reach the disk by themselves.
const SECTOR: usize = 512;

#[derive(Clone)]
enum Step {
    Write(usize, u64, Vec<u8>),
    Reset(usize, u64),
    Flush(usize),
    /// A checkpoint was reported as durable.
    Durable(u64),
}

/// One file of the simulated disk: what a running program reads from it, and what it does.
struct Simulated {
    slot: usize,
    content: Vec<u8>,
    steps: Rc<RefCell<Vec<Step>>>,
}

fn put(content: &mut [u8], offset: u64, bytes: &[u8]) {
    content[offset as usize..][..bytes.len()].copy_from_slice(bytes);
}

impl SlotFile for Simulated {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        put(&mut self.content, offset, bytes);
        self.steps.borrow_mut().push(Step::Write(self.slot, offset, bytes.to_vec()));
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = self.content.get(offset as usize..).unwrap_or_default();
        let from = from.get(..bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.steps.borrow_mut().push(Step::Flush(self.slot));
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.content.len() as u64)
    }

    fn reset(&mut self, bytes: u64) -> io::Result<()> {
        self.content = vec![0; bytes as usize];
        self.steps.borrow_mut().push(Step::Reset(self.slot, bytes));
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("simulated")
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

fn disk(contents: [Vec<u8>; 2], steps: &Rc<RefCell<Vec<Step>>>) -> [Simulated; 2] {
    let mut slot = 0;
    contents.map(|content| {
        slot += 1;
        Simulated { slot: slot - 1, content, steps: steps.clone() }
    })
}

/// The steps of many checkpoints, each with its memory; it is opened anew now and then.
fn recorded(random: &mut Random) -> (Vec<Step>, Vec<Vec<u8>>) {
    let steps = Rc::new(RefCell::new(Vec::new()));
    let (mut slots, found) = Slots::open(disk([vec![], vec![]], &steps), SIZE, BASE, 1).expect("new");
    assert!(found.is_none());
    let mut memory = vec![0u8; SIZE];
    let mut history = vec![memory.clone()];
    for generation in 1..=CHECKPOINTS {
        let mut changed = Pages::none(PAGES);
        for _ in 0..random.below(5) {
            let page = random.below(PAGES);
            memory[page * PAGE + random.below(PAGE)] = random.below(256) as u8;
            memory[page * PAGE..][..8].copy_from_slice(&(generation as u64).to_le_bytes());
            changed.insert(page);
        }
        slots.write(&changed, copy_of(&memory), |_| {}).expect("the simulated disk has room");
        steps.borrow_mut().push(Step::Durable(generation as u64));
        history.push(memory.clone());
        if generation % 37 == 0 {
            let contents = [0, 1].map(|slot| slots.files[slot].content.clone());
            let (mut again, found) = Slots::open(disk(contents, &steps), 0, BASE, 1).expect("whole");
            verify(&mut again);
            assert_eq!(found.map(|found| found.generation), Some(generation as u64));
            slots = again;
        }
    }
    (steps.take(), history)
}

/// The pages of a checkpoint, as those who write them ask for them.
fn copy_of(memory: &[u8]) -> impl FnMut(usize, &mut [u8]) {
    |offset, into| into.copy_from_slice(&memory[offset..offset + into.len()])
}

fn verify(slots: &mut Slots<Simulated>) {
    while slots.verification().is_none() {
        slots.verify_piece().expect("the simulated disk can be read");
    }
}

/// A disk that says that it has flushed what it has not, or changes what it has.
#[test]
fn a_damaged_page_is_found_before_the_older_checkpoint_is_overwritten() {
    let mut random = Random(11);
    let (steps, history) = recorded(&mut random);
    let mut contents = [vec![], vec![]];
    (0..2).for_each(|slot| apply(&steps, slot, &mut contents[slot]));
    let newest = usize::from(is_slot_of(&contents[1], CHECKPOINTS));
    for page in 0..PAGES {
        let mut damaged = contents.clone();
        damaged[newest][data_offset(SIZE) as usize + page * PAGE + random.below(PAGE)] ^= 1;
        let writes = Rc::new(RefCell::new(Vec::new()));
        let (mut slots, found) =
            Slots::open(disk(damaged.clone(), &writes), SIZE, BASE, 1).expect("one is whole");
        if page == 0 {
            // The library looks at the first pages at once, and so they are compared at once.
            assert_eq!(found.map(|found| found.generation), Some(CHECKPOINTS as u64 - 1));
            continue;
        }
        assert_eq!(found.map(|found| found.generation), Some(CHECKPOINTS as u64));
        assert!(slots.verification().is_none());
        verify(&mut slots);
        let Some(Err(Error::Damaged { address, .. })) = slots.verification() else {
            panic!("page {page} is damaged")
        };
        assert_eq!(address, BASE + page * PAGE);
        assert!(slots.write(&Pages::none(PAGES), copy_of(&history[CHECKPOINTS]), |_| {}).is_err());
        assert!(writes.borrow().is_empty(), "the older checkpoint is written to");
        let (slots, found) =
            Slots::open(disk(damaged, &writes), SIZE, BASE, usize::MAX).expect("the older one is whole");
        let found = found.expect("a checkpoint");
        assert_eq!(found.generation, CHECKPOINTS as u64 - 1);
        let mut memory = vec![0; SIZE];
        slots.files[found.slot].read_at(data_offset(SIZE), &mut memory).expect("it is long enough");
        assert!(memory == history[CHECKPOINTS - 1]);
    }
}

/// What is written has the checksum of what is written, though the memory that it is copied from changes meanwhile.
#[test]
fn a_store_that_comes_late_leaves_checksums_of_what_is_written() {
    let steps = Rc::new(RefCell::new(Vec::new()));
    let (mut slots, _) = Slots::open(disk([vec![], vec![]], &steps), SIZE, BASE, 1).expect("new");
    let mut memory = vec![0u8; SIZE];
    let page = |number: usize| {
        let mut pages = Pages::none(PAGES);
        pages.insert(number);
        pages
    };
    for (generation, changed) in [5, 7, 7, 5, 9, 9].into_iter().enumerate() {
        // The page of the last but one checkpoint, which the other file gets only now.
        memory[5 * PAGE + 3 + generation] = generation as u8 + 1;
        slots.write(&page(changed), copy_of(&memory), |_| {}).expect("the simulated disk has room");
        let contents = [0, 1].map(|slot| slots.files[slot].content.clone());
        let (mut again, found) = Slots::open(disk(contents, &steps), 0, BASE, 1).expect("whole");
        assert_eq!(found.map(|found| found.generation), Some(generation as u64 + 1));
        verify(&mut again);
        assert!(matches!(again.verification(), Some(Ok(()))), "{:?}", again.verification());
    }
}

/// True for the file of a generation: the number stands behind the magic and the version.
fn is_slot_of(content: &[u8], generation: usize) -> bool {
    content[16..24] == (generation as u64).to_le_bytes()
}

/// What is on the disk for certain: a file as of its last flush, and the steps behind it.
#[derive(Default)]
struct Flushed {
    content: Vec<u8>,
    steps: usize,
}

/// A file as it may be when the power fails behind some steps.
fn after_a_cut(flushed: &Flushed, slot: usize, steps: &[Step], random: &mut Random) -> Vec<u8> {
    let mut content = flushed.content.clone();
    // Behind the last flush each sector of each write got there or did not, in any order.
    let mut loose: Vec<(u64, &[u8])> = Vec::new();
    for step in &steps[flushed.steps..] {
        match step {
            // Its length is changed at once or not yet; what came before is gone then.
            Step::Reset(of, bytes) if *of == slot && random.below(2) == 0 => {
                content = vec![0; *bytes as usize];
                loose.clear();
            }
            Step::Write(of, offset, bytes) if *of == slot => {
                let sectors = bytes.chunks(SECTOR).enumerate();
                loose.extend(sectors.map(|(index, part)| (offset + (index * SECTOR) as u64, part)));
            }
            _ => {}
        }
    }
    while !loose.is_empty() {
        let (offset, bytes) = loose.swap_remove(random.below(loose.len()));
        if content.len() >= offset as usize + bytes.len() && random.below(3) > 0 {
            put(&mut content, offset, bytes);
        }
    }
    content
}

fn apply(steps: &[Step], slot: usize, content: &mut Vec<u8>) {
    for step in steps {
        match step {
            Step::Write(of, offset, bytes) if *of == slot => put(content, *offset, bytes),
            Step::Reset(of, bytes) if *of == slot => *content = vec![0; *bytes as usize],
            _ => {}
        }
    }
}

#[test]
fn every_cut_leaves_a_whole_checkpoint() {
    let mut random = Random(7);
    let (steps, history) = recorded(&mut random);
    let nothing = Rc::new(RefCell::new(Vec::new()));
    let (mut durable, mut cuts) = (0, 0);
    let mut flushed = [Flushed::default(), Flushed::default()];
    for end in 0..=steps.len() {
        if let Some(Step::Flush(slot)) = end.checked_sub(1).map(|last| &steps[last]) {
            let file = &mut flushed[*slot];
            apply(&steps[file.steps..end], *slot, &mut file.content);
            file.steps = end;
        }
        if let Some(Step::Durable(generation)) = end.checked_sub(1).map(|last| &steps[last]) {
            durable = *generation;
        }
        for _ in 0..6 {
            cuts += 1;
            let contents = [0, 1].map(|slot| after_a_cut(&flushed[slot], slot, &steps[..end], &mut random));
            let (mut slots, found) = Slots::open(disk(contents, &nothing), SIZE, BASE, 1)
                .unwrap_or_else(|error| panic!("cut {end}, {durable} was durable: {error}"));
            let generation = found.map_or(0, |found| found.generation);
            assert!(generation >= durable, "cut {end}: {generation}, but {durable} was durable");
            verify(&mut slots);
            assert!(matches!(slots.verification(), Some(Ok(()))), "cut {end}: whole, but told to be damaged");
            let Some(found) = found else { continue };
            let mut memory = vec![0; SIZE];
            slots.files[found.slot].read_at(data_offset(SIZE), &mut memory).expect("it is long enough");
            assert!(memory == history[generation as usize], "cut {end}: checkpoint {generation} is torn");
        }
    }
    assert!(cuts > 5000, "{CHECKPOINTS} checkpoints have more steps than {cuts}");
}
