//! What the program does with its memory, processes and descriptors besides writing, of which the
//! protection has to know.

use crate::checkpoint::area::{area, has_area};
use crate::checkpoint::kept_memory::Protection;
use crate::checkpoint::take::saved_pages::PAGE_BYTES;
use crate::ground::owned::Held;
use crate::state::block::process;
use crate::state::own_descriptors::close;

fn protection() -> Option<Held<Protection>> {
    has_area()
        .then(|| area().part(|area| &mut area.increments.protection))
        .filter(|protection| protection.is_on())
}

/// Other memory is at these addresses from now on, or its content was dropped.
pub fn lose_memory(start: u64, bytes: u64) {
    if let Some(mut protection) = protection() {
        protection.lose(start & !(PAGE_BYTES - 1), start.saturating_add(bytes).next_multiple_of(PAGE_BYTES));
    }
}

/// A process is about to be made that has copies of pages, or of descriptors.
pub fn settle() {
    if let Some(mut protection) = protection() {
        protection.settle();
    }
}

/// The memory can be written from now on.
pub fn begin_writing(start: u64, bytes: u64) {
    if let Some(mut protection) = protection() {
        protection.begin_writing(start, start.saturating_add(bytes));
    }
}

/// mremap(2) is about to move these addresses.
pub fn release_memory(start: u64, bytes: u64) {
    if let Some(mut protection) = protection() {
        protection.release(start, start.saturating_add(bytes));
    }
}

/// Memory comes under another protection: the next checkpoint is a fork.
pub fn end_increments() {
    if protection().is_some() {
        area().increments.reset();
    }
}

/// True for the number of our descriptor.
#[inline]
pub fn is_descriptor(fd: u64) -> bool {
    protection().is_some_and(|protection| protection.is_descriptor(fd))
}

/// The program is about to take or close numbers of descriptors.
pub fn yield_descriptor(first: u64, last: u64) {
    let taken = first as u32..=last as u32;
    let takes_ours = |mut protection: Held<Protection>| {
        if protection.behind.descriptor().is_some_and(|fd| taken.contains(&fd)) {
            protection.settle();
        }
        taken.contains(&(protection.descriptor() as u32 - 1))
    };
    // A child of vfork has descriptors of its own.
    if process().slot == 0 && protection().is_some_and(takes_ours) {
        end_increments();
    }
}

/// A child of fork has its parent's descriptor, and nothing of what it is for.
pub fn begin_child() {
    if let Some(protection) = protection() {
        close(protection.descriptor() - 1);
    }
}
