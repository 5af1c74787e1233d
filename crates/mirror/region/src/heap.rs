//! The allocator of a region: two-level segregated fit (Masmano and others, ECRTS'04), in
//! constant time, with all of its data in the region.
//!
//! It makes its stores through the barrier, which is why it is not `rlsf`: that one stores
//! by itself. A checkpoint may be of the middle of an operation; the old value of each word
//! is noted in the region before the word is changed, and what was begun is undone when the
//! region is recovered. So in a checkpoint a block is allocated or it is not.
//!
//! A block is its head, one word, and what is allocated behind it. The block before is found from it only where that is free, whose last
//! word then has its address; so a block costs 8 bytes, as with the C library. What is no block is told by a sum over its address in the head.
//!
//! Invariant: no two free blocks touch, and no head stays in memory that is in no block's beginning any more.

use crate::barrier::put;

/// Alignment of what is allocated, and the unit of blocks' sizes.
pub const ALIGNMENT: usize = 16;
/// Bytes behind a block that the allocator may store to: the head and the links of a free one.
pub const BEHIND_BYTES: usize = 64;
/// Bytes of a block's head: its size with the head, a sum over its address, [`FREE`] and [`BEHIND_FREE`].
const HEAD: usize = 8;
/// Set in the head of a block that is free.
const FREE: u64 = 1;
/// Set in the head of a block that a free one is before.
const BEHIND_FREE: u64 = 2;
/// The bits of a head that have the size.
const SIZE: u64 = (1 << SUM_SHIFT) - ALIGNMENT as u64;
/// Where the sum begins: above sizes up to 1 TiB.
const SUM_SHIFT: u32 = 41;
/// The smallest block: a free one's head, neighbours in its list, and its address.
const BLOCK_BYTES_MIN: usize = 32;
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

/// The size of a block of which so many bytes can be used.
fn block_bytes(usable: usize) -> Option<usize> {
    Some(usable.checked_add(HEAD)?.checked_next_multiple_of(ALIGNMENT)?.max(BLOCK_BYTES_MIN))
}

/// The sum over an address, at its place in a head.
fn sum_of(block: usize) -> u64 {
    (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SUM_SHIFT << SUM_SHIFT
}

impl Heap {
    /// The allocator at an address of the region, for the memory up to `end`.
    ///
    /// # Safety
    /// The memory is in the open region, is only used by this allocator, and is zeros or was
    /// an allocator's before.
    pub unsafe fn at(at: usize, end: usize) -> Heap {
        let first = at + DATA_BYTES + ALIGNMENT - HEAD;
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
        (self.word(block) & SIZE) as usize
    }

    fn is_free(&self, block: usize) -> bool {
        self.word(block) & FREE != 0
    }

    fn is_behind_free(&self, block: usize) -> bool {
        self.word(block) & BEHIND_FREE != 0
    }

    /// True if there is a head, as far as can be told.
    fn has_head(&self, block: usize) -> bool {
        self.word(block) >> SUM_SHIFT << SUM_SHIFT == sum_of(block)
    }

    /// A new head, of a block in use.
    fn set_head(&mut self, block: usize, size: usize) {
        self.set(block, size as u64 | sum_of(block));
    }

    /// Another size of a block in use.
    fn resize(&mut self, block: usize, size: usize) {
        self.set(block, self.word(block) & !SIZE | size as u64);
    }

    fn following(&self, block: usize) -> usize {
        block + self.size(block)
    }

    /// Where the heap ends: a head without a block.
    fn last(&self) -> usize {
        self.end - HEAD
    }

    /// Makes one free block of all memory.
    pub fn begin(&mut self) {
        self.set_head(self.first, self.last() - self.first);
        self.set_head(self.last(), 0);
        self.insert(self.first);
        self.commit();
    }

    /// Undoes what was under way at the moment of the checkpoint that this was recovered from.
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
        self.set(block, self.word(block) | FREE);
        self.set(block + HEAD, next);
        self.set(block + HEAD + 8, 0);
        if next != 0 {
            self.set(next as usize + HEAD + 8, block as u64);
        }
        self.set(head, block as u64);
        let classes = self.classes_at(class.0);
        self.set(classes, self.word(classes) | 1 << class.1);
        self.set(self.groups_at(), self.word(self.groups_at()) | 1 << class.0);
        let following = self.following(block);
        self.set(following - 8, block as u64);
        self.set(following, self.word(following) | BEHIND_FREE);
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
        self.set(block, self.word(block) & !FREE);
        let following = self.following(block);
        self.set(following, self.word(following) & !BEHIND_FREE);
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
        if rest < BLOCK_BYTES_MIN {
            return;
        }
        self.resize(block, size);
        self.set_head(block + size, rest);
        self.join_following(block + size);
        self.insert(block + size);
    }

    /// Joins a block in use with the free one behind it.
    fn join_following(&mut self, block: usize) {
        let following = self.following(block);
        if self.is_free(following) {
            self.remove(following);
            self.join(block, following);
        }
    }

    /// Makes one of two blocks in use.
    fn join(&mut self, block: usize, following: usize) {
        self.resize(block, self.size(block) + self.size(following));
        self.set(following, 0);
    }

    /// A block of `size` bytes whose address is a multiple of `alignment`, a power of two.
    pub fn allocate(&mut self, size: usize, alignment: usize) -> Option<usize> {
        let size = block_bytes(size)?;
        // Enough for a free block before the aligned one.
        let slack = if alignment > ALIGNMENT { alignment.checked_add(BLOCK_BYTES_MIN)? } else { 0 };
        let mut block = self.find(size.checked_add(slack)?)?;
        self.remove(block);
        if slack != 0 {
            block = self.cut_front(block, alignment);
        }
        self.cut(block, size);
        self.set(self.used_at(), self.word(self.used_at()) + (self.size(block) - HEAD) as u64);
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
        let before = self.size(block);
        let Some(size) = block_bytes(size).filter(|size| *size < before) else { return };
        self.cut(block, size);
        self.set(self.used_at(), self.word(self.used_at()) - (before - self.size(block)) as u64);
        self.commit();
    }

    /// Frees what is before the first aligned place of a block that was free.
    fn cut_front(&mut self, block: usize, alignment: usize) -> usize {
        if (block + HEAD).is_multiple_of(alignment) {
            return block;
        }
        let aligned = (block + HEAD + BLOCK_BYTES_MIN).next_multiple_of(alignment) - HEAD;
        self.set_head(aligned, self.following(block) - aligned);
        self.resize(block, aligned - block);
        self.insert(block);
        aligned
    }

    /// True if this is the address of a block in use, as far as can be told.
    pub fn is_block(&self, address: usize) -> bool {
        let block = address.wrapping_sub(HEAD);
        address.is_multiple_of(ALIGNMENT)
            && (self.first..self.last()).contains(&block)
            && self.has_head(block)
            && !self.is_free(block)
            && (block + BLOCK_BYTES_MIN..=self.last()).contains(&self.following(block))
            && self.has_head(self.following(block))
            && !self.is_behind_free(self.following(block))
    }

    /// Frees a block.
    ///
    /// # Panics
    /// If it is none, or was freed before.
    pub fn free(&mut self, address: usize) {
        assert!(self.is_block(address), "{address:#x} is no block of the region, or was freed before");
        let mut block = address - HEAD;
        self.set(self.used_at(), self.word(self.used_at()) - (self.size(block) - HEAD) as u64);
        self.join_following(block);
        if self.is_behind_free(block) {
            let previous = self.word(block - 8) as usize;
            self.remove(previous);
            self.join(previous, block);
            block = previous;
        }
        self.insert(block);
        self.commit();
    }

    /// Bytes of a block, at least those that were asked for.
    pub fn usable(&self, address: usize) -> usize {
        self.size(address - HEAD) - HEAD
    }

    /// Bytes in blocks that are in use.
    pub fn used(&self) -> usize {
        self.word(self.used_at()) as usize
    }

    /// Looks at every block; says what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        let (mut block, mut before, mut used, mut was_free) = (self.first, 0, 0, false);
        while block <= self.last() {
            let knows =
                self.is_behind_free(block) == was_free && (!was_free || self.word(block - 8) == before);
            if !self.has_head(block) || !knows {
                return Err(format!("the block at {block:#x} is none behind the one at {before:#x}"));
            }
            if block == self.last() {
                break;
            }
            if self.is_free(block) && was_free {
                return Err(format!("two free blocks touch at {block:#x}"));
            }
            if self.size(block) < BLOCK_BYTES_MIN {
                return Err(format!("the block at {block:#x} has {} bytes", self.size(block)));
            }
            was_free = self.is_free(block);
            used += if was_free { 0 } else { self.size(block) - HEAD };
            before = block as u64;
            block = self.following(block);
        }
        if used == self.used() {
            Ok(used)
        } else {
            Err(format!("{used} bytes are in use, not {}", self.used()))
        }
    }
}
