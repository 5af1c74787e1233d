//! The allocator of a region: two-level segregated fit (Masmano and others, ECRTS'04), in
//! constant time, with all of its data in the region.
//!
//! It makes its stores through the barrier, which is why it is not `rlsf`: that one stores
//! by itself. A frozen copy may be of the middle of an operation; the old value of each word
//! is noted in the region before the word is changed, and what was begun is undone when the
//! region is recovered. So in a checkpoint a block is allocated or it is not.
//!
//! Invariant: a block's neighbours in memory are found from it, and no two free ones touch.

use crate::barrier::put;

/// Alignment of blocks, and the unit of their sizes.
pub const ALIGNMENT: usize = 16;
/// Bytes before each block: its neighbour's address, its size with [`FREE`].
const HEAD: usize = 16;
/// Set in the size of a block that is free.
const FREE: u64 = 1;
/// Size classes of a power of two: 16.
const CLASS_BITS: u32 = 4;
const CLASSES: usize = 1 << CLASS_BITS;
/// Sizes below this are in the first group, one class for each.
const SMALL: usize = ALIGNMENT * CLASSES;
/// Groups: one for small sizes, one for each power of two up to 1 TiB.
const GROUPS: usize = 34;
/// Words that one operation changes at most.
const UNDO_WORDS_MAX: usize = 96;

/// The allocator's data at its address in the region.
#[repr(C)]
struct Layout {
    /// Entries of `undo` that are valid: an operation is under way.
    undone: u64,
    /// Addresses and their old values.
    undo: [[u64; 2]; UNDO_WORDS_MAX],
    /// Groups that have a free block.
    groups: u64,
    /// Classes of each group that have one.
    classes: [u64; GROUPS],
    /// First free block of each class.
    heads: [[u64; CLASSES]; GROUPS],
    /// Bytes in blocks that are in use.
    used: u64,
}

/// Bytes that the allocator needs at its beginning.
pub const DATA_BYTES: usize = size_of::<Layout>().next_multiple_of(ALIGNMENT);

/// The allocator of the open region. Who has it is its only user.
pub struct Heap {
    at: usize,
    /// First block.
    first: usize,
    end: usize,
}

/// Group and class of blocks of a size.
fn class_of(size: usize) -> (usize, usize) {
    if size < SMALL {
        return (0, size / ALIGNMENT);
    }
    let log = size.ilog2();
    ((log - SMALL.ilog2() + 1) as usize, (size >> (log - CLASS_BITS)) & (CLASSES - 1))
}

/// The smallest class all of whose blocks have this size.
fn class_for(size: usize) -> (usize, usize) {
    if size < SMALL {
        return class_of(size);
    }
    class_of(size + (1 << (size.ilog2() - CLASS_BITS)) - 1)
}

impl Heap {
    /// The allocator at an address of the region, for the memory up to `end`.
    ///
    /// # Safety
    /// The memory is in the open region, is only used by this allocator, and is zeros or was
    /// an allocator's before.
    pub unsafe fn at(at: usize, end: usize) -> Heap {
        let first = at + DATA_BYTES;
        Heap { at, first, end: end / ALIGNMENT * ALIGNMENT }
    }

    fn word(&self, address: usize) -> u64 {
        debug_assert!(address >= self.at && address < self.end);
        // SAFETY: the allocator's own memory, which `at` was promised, and an aligned word.
        unsafe { (address as *const u64).read_volatile() }
    }

    /// Changes a word, so that it can be undone.
    fn set(&mut self, address: usize, value: u64) {
        let count = self.word(self.field(core::mem::offset_of!(Layout, undone))) as usize;
        assert!(count < UNDO_WORDS_MAX, "an operation changes fewer words");
        let entry = self.field(core::mem::offset_of!(Layout, undo)) + count * 16;
        let old = self.word(address);
        // SAFETY: as in `word`.
        unsafe {
            put(entry, address as u64);
            put(entry + 8, old);
            put(self.at, count as u64 + 1);
            put(address, value);
        }
    }

    /// Ends an operation: it is not undone any more.
    fn commit(&mut self) {
        // SAFETY: as in `word`.
        unsafe { put(self.at, 0) };
    }

    fn field(&self, offset: usize) -> usize {
        self.at + offset
    }

    fn classes_at(&self, group: usize) -> usize {
        self.field(core::mem::offset_of!(Layout, classes)) + group * 8
    }

    fn head_at(&self, (group, class): (usize, usize)) -> usize {
        self.field(core::mem::offset_of!(Layout, heads)) + (group * CLASSES + class) * 8
    }

    fn groups_at(&self) -> usize {
        self.field(core::mem::offset_of!(Layout, groups))
    }

    fn used_at(&self) -> usize {
        self.field(core::mem::offset_of!(Layout, used))
    }

    fn size(&self, block: usize) -> usize {
        (self.word(block + 8) & !FREE) as usize
    }

    fn is_free(&self, block: usize) -> bool {
        self.word(block + 8) & FREE != 0
    }

    fn following(&self, block: usize) -> usize {
        block + HEAD + self.size(block)
    }

    /// Makes one free block of all memory.
    pub fn begin(&mut self) {
        let last = self.end - HEAD;
        self.set(self.first, 0);
        self.set(self.first + 8, (last - self.first - HEAD) as u64);
        self.set(last, self.first as u64);
        self.set(last + 8, 0);
        self.insert(self.first);
        self.commit();
    }

    /// Undoes what was under way when the copy was frozen that this was recovered from.
    /// Returns false if the data are none of an allocator's.
    pub fn recover(&mut self) -> bool {
        let count = self.word(self.at) as usize;
        if count > UNDO_WORDS_MAX {
            return false;
        }
        for index in (0..count).rev() {
            let entry = self.field(core::mem::offset_of!(Layout, undo)) + index * 16;
            let (address, old) = (self.word(entry) as usize, self.word(entry + 8));
            if address < self.at || address + 8 > self.end || !address.is_multiple_of(8) {
                return false;
            }
            // SAFETY: within the allocator's memory, as just compared.
            unsafe { put(address, old) };
        }
        self.commit();
        true
    }

    /// Puts a block into the list of its class.
    fn insert(&mut self, block: usize) {
        let class = class_of(self.size(block));
        let head = self.head_at(class);
        let next = self.word(head);
        self.set(block + 8, self.size(block) as u64 | FREE);
        self.set(block + HEAD, next);
        self.set(block + HEAD + 8, 0);
        if next != 0 {
            self.set(next as usize + HEAD + 8, block as u64);
        }
        self.set(head, block as u64);
        let classes = self.classes_at(class.0);
        self.set(classes, self.word(classes) | 1 << class.1);
        self.set(self.groups_at(), self.word(self.groups_at()) | 1 << class.0);
    }

    /// Takes a block out of the list of its class.
    fn remove(&mut self, block: usize) {
        let class = class_of(self.size(block));
        let (next, previous) = (self.word(block + HEAD), self.word(block + HEAD + 8));
        if next != 0 {
            self.set(next as usize + HEAD + 8, previous);
        }
        if previous != 0 {
            self.set(previous as usize + HEAD, next);
        } else {
            self.set(self.head_at(class), next);
            if next == 0 {
                let classes = self.classes_at(class.0);
                let left = self.word(classes) & !(1 << class.1);
                self.set(classes, left);
                if left == 0 {
                    self.set(self.groups_at(), self.word(self.groups_at()) & !(1 << class.0));
                }
            }
        }
        self.set(block + 8, self.size(block) as u64);
    }

    fn find(&self, size: usize) -> Option<usize> {
        let (group, class) = class_for(size);
        if group >= GROUPS {
            return None;
        }
        // The first block of the class below may be large enough too: almost all memory in one
        // block can be had so.
        let below = class_of(size);
        let first = self.word(self.head_at(below)) as usize;
        if first != 0 && self.size(first) >= size {
            return Some(first);
        }
        let here = self.word(self.classes_at(group)) & (u64::MAX << class);
        let found = if here != 0 {
            (group, here.trailing_zeros() as usize)
        } else {
            let groups = self.word(self.groups_at()) & (u64::MAX << (group + 1));
            if groups == 0 {
                return None;
            }
            let group = groups.trailing_zeros() as usize;
            (group, self.word(self.classes_at(group)).trailing_zeros() as usize)
        };
        Some(self.word(self.head_at(found)) as usize)
    }

    /// Cuts a block that is in no list; the rest behind is freed.
    fn cut(&mut self, block: usize, size: usize) {
        let rest = self.size(block) - size;
        if rest < HEAD + ALIGNMENT {
            return;
        }
        let behind = block + HEAD + size;
        let following = self.following(block);
        self.set(block + 8, size as u64);
        self.set(behind, block as u64);
        self.set(behind + 8, (rest - HEAD) as u64);
        self.set(following, behind as u64);
        self.join_following(behind);
        self.insert(behind);
    }

    /// Joins a block with the free one behind it.
    fn join_following(&mut self, block: usize) {
        let following = self.following(block);
        if !self.is_free(following) {
            return;
        }
        self.remove(following);
        let size = self.size(block) + HEAD + self.size(following);
        self.set(block + 8, size as u64);
        self.set(self.following(block), block as u64);
    }

    /// A block of `size` bytes whose address is a multiple of `alignment`, a power of two.
    pub fn allocate(&mut self, size: usize, alignment: usize) -> Option<usize> {
        let size = size.max(ALIGNMENT).checked_next_multiple_of(ALIGNMENT)?;
        // Enough for a free block before the aligned one.
        let slack = if alignment > ALIGNMENT { alignment.checked_add(HEAD + ALIGNMENT)? } else { 0 };
        let mut block = self.find(size.checked_add(slack)?)?;
        self.remove(block);
        if slack != 0 {
            block = self.cut_front(block, alignment);
        }
        self.cut(block, size);
        self.set(self.used_at(), self.word(self.used_at()) + self.size(block) as u64);
        self.commit();
        Some(block + HEAD)
    }

    /// Gives back what is behind the first bytes of a block, if that is enough for another one.
    ///
    /// # Panics
    /// If it is no block, or one that was freed before.
    pub fn shrink(&mut self, address: usize, size: usize) {
        assert!(self.is_block(address), "{address:#x} is no block of the region, or was freed before");
        let block = address - HEAD;
        let (before, size) = (self.size(block), size.max(ALIGNMENT).next_multiple_of(ALIGNMENT));
        if size >= before {
            return;
        }
        self.cut(block, size);
        self.set(self.used_at(), self.word(self.used_at()) - (before - self.size(block)) as u64);
        self.commit();
    }

    /// Frees what is before the first aligned place of a block.
    fn cut_front(&mut self, block: usize, alignment: usize) -> usize {
        if (block + HEAD).is_multiple_of(alignment) {
            return block;
        }
        let aligned = (block + HEAD + HEAD + ALIGNMENT).next_multiple_of(alignment) - HEAD;
        let following = self.following(block);
        self.set(aligned, block as u64);
        self.set(aligned + 8, (following - aligned - HEAD) as u64);
        self.set(following, aligned as u64);
        self.set(block + 8, (aligned - block - HEAD) as u64);
        self.insert(block);
        aligned
    }

    /// True if this is the address of a block in use, as far as can be told.
    pub fn is_block(&self, address: usize) -> bool {
        let in_heap = address >= self.first + HEAD && address < self.end - HEAD;
        let block = address.wrapping_sub(HEAD);
        in_heap
            && address.is_multiple_of(ALIGNMENT)
            && !self.is_free(block)
            && self.following(block) < self.end
            && self.word(self.following(block)) == block as u64
    }

    /// Frees a block.
    ///
    /// # Panics
    /// If it is none, or was freed before.
    pub fn free(&mut self, address: usize) {
        assert!(self.is_block(address), "{address:#x} is no block of the region, or was freed before");
        let mut block = address - HEAD;
        self.set(self.used_at(), self.word(self.used_at()) - self.size(block) as u64);
        self.join_following(block);
        let previous = self.word(block) as usize;
        if previous != 0 && self.is_free(previous) {
            self.remove(previous);
            let size = self.size(previous) + HEAD + self.size(block);
            self.set(previous + 8, size as u64);
            block = previous;
            self.set(self.following(block), block as u64);
        }
        self.insert(block);
        self.commit();
    }

    /// Bytes of a block, at least those that were asked for.
    pub fn usable(&self, address: usize) -> usize {
        self.size(address - HEAD)
    }

    /// Bytes in blocks that are in use.
    pub fn used(&self) -> usize {
        self.word(self.used_at()) as usize
    }

    /// Looks at every block; says what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        let (mut block, mut before, mut used, mut was_free) = (self.first, 0, 0, false);
        while block != self.end - HEAD {
            if self.word(block) != before as u64 || block >= self.end {
                return Err(format!("the block at {block:#x} has another neighbour than {before:#x}"));
            }
            if self.is_free(block) && was_free {
                return Err(format!("two free blocks touch at {block:#x}"));
            }
            was_free = self.is_free(block);
            used += if was_free { 0 } else { self.size(block) };
            before = block;
            block = self.following(block);
        }
        if used == self.used() {
            Ok(used)
        } else {
            Err(format!("{used} bytes are in use, not {}", self.used()))
        }
    }
}
