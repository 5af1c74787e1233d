//! What a program sees of files through mappings that it cannot write, and changes by system
//! calls, as databases do: the pages as they were before, so that a replay in place shows them
//! again. The log has only what became of them.
//!
//! Each page that is about to change is kept once for the last checkpoint. Going back to a
//! checkpoint, a page is what was kept of it first since then. A replay shows that in memory of
//! the process's own: the file is never touched, and its mapping lies aside until the present.
//! A branch leaves the files as they are (or the supervisor has put them back), and the log says
//! what the mappings show from there on.
//!
//! Deliberately absent: mappings that can be written, which shadows copy; files that other
//! processes write to.

use core::sync::atomic::Ordering;

use events::{Kind, Tag};
use lane_protocol::{FILE_PAGES_MAX, FILE_PAGES_START, FILE_PAGES_TABLE_BYTES, FILE_PAGES_TABLE_START};
use linux_abi::{errno, general as nr};

use crate::address_space::mapped_files;
use crate::checkpoint::area::area;
use crate::checkpoint::group::undertaking;
use crate::checkpoint::kept_memory::FilePages;
use crate::checkpoint::resources::mappings::{self, Piece};
use crate::checkpoint::take::{slots, store};
use crate::ground::kernel::{self, error};
use crate::ground::maps::{self, protection};
use crate::ground::memory;
use crate::ground::owned::Held;
use crate::state::block::process;
use crate::state::report;

const PAGE_BYTES: u64 = 4096;
const CHAINS: usize = 0x1_0000;
/// So many pages are shown at most: each may become a mapping, of which a process has 65530.
const SHOWN_MAX: usize = 0x4000;
/// So many are kept before it is looked for those that nobody needs any more.
const SWEPT_FROM: u32 = 256;

/// A page of a file, as it was from the checkpoint on that was the last one when it changed.
#[repr(C)]
#[derive(Clone, Copy)]
struct Kept {
    device: u64,
    inode: u64,
    page: u64,
    /// Of that checkpoint.
    id: u32,
    /// The one kept before of its chain, plus one.
    next: u32,
}

/// In memory of its own. All zero: nothing is kept.
#[repr(C)]
struct Table {
    /// The newest of each, plus one.
    chains: [u32; CHAINS],
    kept: [Kept; FILE_PAGES_MAX],
}

const _: () = assert!(size_of::<Table>() as u64 <= FILE_PAGES_TABLE_BYTES);

fn table() -> Held<Table> {
    // SAFETY: mapped as long as `owner` says so; the token's holder uses it alone.
    unsafe { Held::of(FILE_PAGES_TABLE_START as *mut Table) }
}

fn copy_of(index: usize) -> u64 {
    FILE_PAGES_START + index as u64 * PAGE_BYTES
}

fn chain_of(device: u64, inode: u64, page: u64) -> usize {
    let mixed = (inode ^ device.rotate_left(32)).wrapping_mul(31).wrapping_add(page);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

/// Others may write to what is shown, and show what this process writes.
fn is_alone() -> bool {
    !process().in_group || undertaking::sharers() <= 1
}

/// These bytes of a file of this size are about to change: keeps the pages that mappings show.
pub fn keep(identity: [u64; 2], size: u64, (offset, bytes): (u64, u64), id: u32) {
    if !is_alone() {
        return;
    }
    let end = if bytes == u64::MAX { size } else { offset.saturating_add(bytes) };
    mapped_files::for_each_showing(identity, &mut |start, stop, place| {
        let first = offset.max(place) & !(PAGE_BYTES - 1);
        let last = end.min(place + (stop - start));
        let mut at = first;
        while at < last {
            let key = (maps::device(identity[0]), identity[1], at / PAGE_BYTES);
            keep_page(key, start + (at - place), id);
            at += PAGE_BYTES;
        }
    });
}

fn keep_page((device, inode, page): (u64, u64, u64), address: u64, id: u32) {
    if !is_ready() {
        area().file_pages.lost = id + 1;
        return;
    }
    let chain = chain_of(device, inode, page);
    let is_it = |kept: &Kept| (kept.device, kept.inode, kept.page) == (device, inode, page);
    if newest(chain, &is_it).is_some_and(|index| table().kept[index].id == id) {
        return;
    }
    let Some(index) = take() else {
        area().file_pages.lost = id + 1;
        return;
    };
    // Behind the file's end there was nothing: what comes there is written by the log.
    if !memory::copy(copy_of(index), address, PAGE_BYTES) {
        kernel::call(nr::__NR_madvise, [copy_of(index), PAGE_BYTES, 4, 0, 0, 0]);
    }
    let table = &mut *table();
    table.kept[index] = Kept { device, inode, page, id, next: table.chains[chain] };
    table.chains[chain] = index as u32 + 1;
}

fn is_ready() -> bool {
    let pages = &mut area().file_pages;
    if pages.owner == process().pid {
        return true;
    }
    let bytes = FILE_PAGES_MAX as u64 * PAGE_BYTES;
    let is_mapped = store::map_unforked(FILE_PAGES_TABLE_START, FILE_PAGES_TABLE_BYTES)
        && store::map_unforked(FILE_PAGES_START, bytes);
    let owner = if is_mapped { process().pid } else { 0 };
    *pages = FilePages { owner, count: 0, free: 0, in_use: 0, sweep_at: SWEPT_FROM, lost: pages.lost };
    is_mapped
}

fn has_any() -> bool {
    area().file_pages.owner == process().pid && area().file_pages.in_use != 0
}

fn newest(chain: usize, is_it: &dyn Fn(&Kept) -> bool) -> Option<usize> {
    let mut next = table().chains[chain];
    while next != 0 {
        let index = next as usize - 1;
        if is_it(&table().kept[index]) {
            return Some(index);
        }
        next = table().kept[index].next;
    }
    None
}

/// A place for one more.
fn take() -> Option<usize> {
    if area().file_pages.in_use >= area().file_pages.sweep_at {
        sweep();
    }
    let pages = &mut area().file_pages;
    let index = match pages.free {
        0 if pages.count as usize == FILE_PAGES_MAX => return None,
        0 => {
            pages.count += 1;
            pages.count as usize - 1
        }
        free => {
            pages.free = table().kept[free as usize - 1].next;
            free as usize - 1
        }
    };
    pages.in_use += 1;
    Some(index)
}

/// Gives those back that no checkpoint needs any more: of a page, each is for the checkpoints
/// behind the one that was kept before.
fn sweep() {
    for chain in 0..CHAINS {
        let mut before: Option<usize> = None;
        let mut next = table().chains[chain];
        while next != 0 {
            let index = next as usize - 1;
            let kept = table().kept[index];
            next = kept.next;
            if is_needed(&kept) {
                before = Some(index);
                continue;
            }
            match before {
                Some(before) => table().kept[before].next = kept.next,
                None => table().chains[chain] = kept.next,
            }
            give(index);
        }
    }
    let pages = &mut area().file_pages;
    pages.sweep_at = (pages.in_use * 2).max(SWEPT_FROM);
}

fn is_needed(kept: &Kept) -> bool {
    let older = older(kept).map_or(0, |older| table().kept[older].id + 1);
    slots::newest_of(&|slot| (older..=kept.id).contains(&slot.id.load(Ordering::Relaxed))).is_some()
}

/// The one of the same page that was kept before.
fn older(kept: &Kept) -> Option<usize> {
    let mut next = kept.next;
    while next != 0 {
        let index = next as usize - 1;
        let other = &table().kept[index];
        if (other.device, other.inode, other.page) == (kept.device, kept.inode, kept.page) {
            return Some(index);
        }
        next = other.next;
    }
    None
}

fn give(index: usize) {
    const MADV_DONTNEED: u64 = 4;
    kernel::call(nr::__NR_madvise, [copy_of(index), PAGE_BYTES, MADV_DONTNEED, 0, 0, 0]);
    let pages = &mut area().file_pages;
    table().kept[index].next = pages.free;
    // It is none of any chain.
    table().kept[index].inode = 0;
    pages.free = index as u32 + 1;
    pages.in_use -= 1;
}

/// Calls `each` with the pages that were other ones at a checkpoint, and their content of then.
fn for_each_since(id: u32, each: &mut dyn FnMut(&Kept, u64)) {
    if !has_any() {
        return;
    }
    for index in 0..area().file_pages.count as usize {
        let kept = table().kept[index];
        let is_first = || older(&kept).is_none_or(|older| table().kept[older].id < id);
        if kept.inode != 0 && kept.id >= id && is_first() {
            each(&kept, copy_of(index));
        }
    }
}

/// Whether a replay from a checkpoint could show what files held then.
pub fn could_show(id: u32) -> Result<(), i64> {
    let mut count = 0;
    for_each_since(id, &mut |_, _| count += 1);
    let is_lost = area().file_pages.lost > id;
    if is_lost || count > SHOWN_MAX { Err(error(errno::ENOMEM)) } else { Ok(()) }
}

/// Replay, all is mapped as it was then: a piece shows what its file held.
pub fn show_again(piece: &Piece, id: u32) {
    let Some(then) = piece.then.as_ref().filter(|then| !then.private && !then.writable && then.inode != 0)
    else {
        return;
    };
    for_each_since(id, &mut |kept, copy| {
        let address = then.start.wrapping_add(kept.page * PAGE_BYTES).wrapping_sub(then.offset);
        let is_there = (kept.device, kept.inode) == (then.device, then.inode);
        if is_there && (piece.start..piece.end).contains(&address) {
            show(address, copy, protection(then));
        }
    });
}

fn show(address: u64, copy: u64, wanted: u32) {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
    let mapped = kernel::mmap(address, PAGE_BYTES, nr::PROT_READ | nr::PROT_WRITE, flags, -1, 0);
    if kernel::failed(mapped) || !memory::copy(address, copy, PAGE_BYTES) {
        report::die("a page of a file could not be shown as it was");
    }
    kernel::mprotect(address, PAGE_BYTES, wanted);
}

/// The process lives on from a checkpoint, and the files are as they are now: logs what its
/// mappings show of those that were other ones then. What was kept stays true of then.
pub fn keep_present(id: u32) {
    let mut has_begun = false;
    if mappings::list_now() {
        for_each_since(id, &mut |kept, _| log_shown(kept, &mut has_begun));
    }
    if has_begun {
        process().log.end();
    }
    if has_any() {
        let count = area().file_pages.count as usize;
        table().kept[..count].iter_mut().for_each(|kept| kept.id = kept.id.min(id));
    }
    let lost = &mut area().file_pages.lost;
    *lost = (*lost).min(id + 1);
}

fn log_shown(kept: &Kept, has_begun: &mut bool) {
    let list = &area().lists.now;
    let shows = |map: &&maps::Mapping| {
        !map.private && !map.writable && (map.device, map.inode) == (kept.device, kept.inode)
    };
    for map in list.all[..list.count].iter().filter(shows) {
        let address = map.start.wrapping_add(kept.page * PAGE_BYTES).wrapping_sub(map.offset);
        if !(map.start..map.end).contains(&address) || memory::read::<u8>(address).is_none() {
            continue;
        }
        let log = &mut process().log;
        if !core::mem::replace(has_begun, true) {
            log.begin(Kind::Change, 0, 0);
            log.word(0);
            log.word(0);
        }
        log.blob(address, PAGE_BYTES, Tag::Memory, address);
    }
}
