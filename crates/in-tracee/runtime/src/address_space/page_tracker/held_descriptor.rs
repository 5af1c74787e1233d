//! The descriptor by which the kernel tells of written pages: hidden from the program, moved where it asks for its number.

use super::{end, shares_its_memory, tracker};
use crate::ground::notices;

/// True while memory may be protected for preemptions.
pub fn is_open() -> bool {
    tracker().uffd != 0
}

/// True for the number of the tracker's descriptor, or of that of checkpoints.
#[inline]
pub fn is_descriptor(fd: u64) -> bool {
    let own = [tracker().uffd, tracker().pagemap];
    own.iter().any(|&own| own != 0 && fd as u32 as i32 == own - 1) || notices::is_checkpoints_descriptor(fd)
}

/// The program is about to take or close numbers of descriptors.
pub fn yield_descriptor(first: u64, last: u64) {
    notices::descriptors_are_taken(first, last);
    let taken = first as u32..=last as u32;
    let is_taken = |&own: &i32| own != 0 && taken.contains(&(own as u32 - 1));
    if [tracker().uffd, tracker().pagemap].iter().any(is_taken) && !shares_its_memory() {
        end();
    }
}
