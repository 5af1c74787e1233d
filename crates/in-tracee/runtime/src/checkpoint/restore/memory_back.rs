//! The memory of a checkpoint comes back: mappings as they were then, and what was in them.

use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, DATA_BYTES_MAX, DATA_START, THREAD_AREA_BYTES, THREADS_START};
use linux_abi::general as nr;

use crate::checkpoint::group::undertaking;
use crate::checkpoint::resources::isolated;
use crate::checkpoint::resources::mappings::{self, Piece};
use crate::checkpoint::restore::copying::{Differing, How, Pagemaps, Part, copy};
use crate::checkpoint::restore::file_pages;
use crate::checkpoint::restore::snapshot_view::Then;
use crate::checkpoint::restore::ways::Way;
use crate::checkpoint::take::increments::tracking;
use crate::ground::kernel;
use crate::ground::maps::protection;
use crate::state::block::space;
use crate::state::report;

/// Makes the program's memory as it was at the checkpoint.
pub fn restore_mappings(slot: &Checkpoint, way: Way) {
    let pagemaps = Pagemaps::open(slot, Part::Program);
    let id = slot.id.load(Ordering::Relaxed);
    mappings::for_each_piece(&mut |piece| {
        restore_piece(piece, &pagemaps);
        if way == Way::Replay {
            file_pages::show_again(piece, id);
        }
        true
    });
    pagemaps.close();
}

fn restore_piece(piece: &Piece, pagemaps: &Pagemaps) {
    let bytes = piece.end - piece.start;
    let Some(then) = &piece.then else {
        kernel::munmap(piece.start, bytes);
        tracking::lose_memory(piece.start, bytes);
        return;
    };
    let mut all = false;
    let same = piece.is_same();
    if !same {
        all = map_again(piece, then, &pagemaps.from);
    }
    let wanted = protection(then);
    let now = piece.now.as_ref().filter(|_| same).map_or(wanted, protection);
    let how = match (then.private, then.writable, all) {
        // What others write is left alone, and what others put back.
        (false, false, _) => None,
        (false, true, _) if then.is_kept_elsewhere || undertaking::keeps_shared() => None,
        (false, true, _) => Some(How::Compare),
        (true, _, true) => Some(How::Whole),
        (true, _, false) if same => Some(How::Differing),
        (true, _, false) => Some(How::Own),
    };
    // What cannot be written now is opened for the time of writing.
    let differing = match (now & 2 == 0, same) {
        (false, _) => None,
        (true, true) => Some(pagemaps.differ(piece.start, piece.end)),
        (true, false) => Some(Differing::Written(piece.start, piece.end)),
    };
    let how = how.filter(|_| differing != Some(Differing::Nowhere));
    let opened = match differing {
        Some(Differing::Written(start, end)) if how.is_some() => Some((start, end - start)),
        _ => None,
    };
    if let Some((start, bytes)) = opened {
        kernel::mprotect(start, bytes, nr::PROT_READ | nr::PROT_WRITE);
    }
    let replaced = how.is_some_and(|how| copy(piece.start, piece.end, pagemaps, how));
    if replaced || now != wanted {
        kernel::mprotect(piece.start, bytes, wanted);
    } else if let Some((start, bytes)) = opened {
        kernel::mprotect(start, bytes, wanted);
    }
}

/// Maps what was mapped then; true if all of its content has to be copied.
fn map_again(piece: &Piece, then: &crate::ground::maps::Mapping, from: &Then) -> bool {
    let bytes = piece.end - piece.start;
    tracking::lose_memory(piece.start, bytes);
    let fixed = nr::MAP_FIXED | nr::MAP_NORESERVE;
    if then.inode != 0 {
        let mut is_mapped = false;
        let mut map = || {
            let Ok(fd) = mappings::open_file(then, from) else { return };
            let kind = if then.private { nr::MAP_PRIVATE } else { nr::MAP_SHARED };
            let offset = then.offset + (piece.start - then.start);
            let mapped = kernel::mmap(piece.start, bytes, protection(then), kind | fixed, fd, offset);
            mappings::close_file(fd);
            is_mapped = !kernel::failed(mapped);
        };
        if isolated::run(&mut map).is_err() {
            // It could be made a moment ago. Memory comes before locks.
            map();
        }
        if is_mapped {
            return false;
        }
    }
    let grows = if then.is_stack { nr::MAP_GROWSDOWN | nr::MAP_STACK } else { 0 };
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | fixed | grows;
    let mapped = kernel::mmap(piece.start, bytes, protection(then), flags, -1, 0);
    if kernel::failed(mapped) {
        report::die("memory could not be mapped as it was");
    }
    then.inode != 0
}

/// The runtime's own, but for what does not go back.
pub fn restore_runtime(slot: &Checkpoint) {
    let pagemaps = Pagemaps::open(slot, Part::Runtime);
    let data = DATA_START..DATA_START + DATA_BYTES_MAX;
    // What lies between the variables' end and the area's is not mapped.
    let end = crate::state::block::runtime_end().min(data.end);
    copy(data.start, end, &pagemaps, How::Differing);
    // The count of areas is as it was then by now.
    let areas = space().areas as u64;
    copy(THREADS_START, THREADS_START + areas * THREAD_AREA_BYTES, &pagemaps, How::Differing);
    pagemaps.close();
}
