//! The mappings of now and of then, and making the ones like the others.

mod refresh;

use core::sync::atomic::Ordering;

use lane_protocol::{Checkpoint, MemoryRange};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::group::{objects, undertaking};
use crate::checkpoint::kept_resources::{List, MAPPINGS_MAX, Names, PATH_BYTES};
use crate::checkpoint::resources::isolated;
use crate::checkpoint::restore::fetching::path_of;
use crate::checkpoint::restore::snapshot_view::Then;
use crate::ground::kernel::{self, error};
use crate::ground::maps::{self, Mapping, protection};
use crate::ground::proc_files::Path;
use crate::ground::{map_changes, memory};
use crate::state::block::space;

const PAGE_BYTES: u64 = 4096;

impl List {
    pub fn copy(&mut self, other: &List) {
        self.count = other.count;
        self.all[..other.count].copy_from_slice(&other.all[..other.count]);
    }
}

impl Names {
    fn copy(&mut self, other: &Names) {
        self.filled = other.filled;
        self.text[..other.filled].copy_from_slice(&other.text[..other.filled]);
    }

    /// Notes the name of the file that is mapped; false if it does not fit. Mappings come
    /// in their order, so that one file's follow each other.
    fn note(&mut self, mapping: &Mapping, name: &[u8], last: &mut (u64, u64)) -> bool {
        let file = (mapping.device, mapping.inode);
        if mapping.is_kernels || mapping.inode == 0 || file == *last {
            return true;
        }
        *last = file;
        self.add(file, name)
    }

    fn add(&mut self, (device, inode): (u64, u64), name: &[u8]) -> bool {
        let end = self.filled + 24 + name.len();
        let Some(place) = self.text.get_mut(self.filled..end) else { return false };
        for (field, value) in place.chunks_mut(8).zip([device, inode, name.len() as u64]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        place[24..].copy_from_slice(name);
        self.filled = end;
        true
    }

    fn find(&self, wanted: (u64, u64)) -> Option<&[u8]> {
        let mut at = 0;
        while at < self.filled {
            let word = |index: usize| {
                let bytes = self.text[at + index * 8..][..8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            };
            let length = word(2) as usize;
            if (word(0), word(1)) == wanted {
                return Some(&self.text[at + 24..at + 24 + length]);
            }
            at += 24 + length;
        }
        None
    }
}

/// A piece of the address space in which neither list changes.
pub struct Piece {
    pub start: u64,
    pub end: u64,
    pub then: Option<Mapping>,
    pub now: Option<Mapping>,
}

const OWN: &core::ffi::CStr = c"/proc/thread-self/maps";

/// Lists what is mapped, and calls `named` with each mapping and its file's name; false if
/// that cannot be known, or `named` says so.
fn list(list: &mut List, named: &mut dyn FnMut(&Mapping, &[u8]) -> bool) -> bool {
    list.count = 0;
    let mut fits = true;
    let complete = maps::for_each_named(OWN, &mut |mapping, name| {
        if mapping.is_kernels {
            return;
        }
        if list.count == MAPPINGS_MAX {
            fits = false;
            return;
        }
        list.all[list.count] = *mapping;
        list.count += 1;
        fits &= named(mapping, name);
    });
    complete && fits
}

/// The shadow lists what is mapped; false if that cannot be known.
pub fn list_then() -> bool {
    list(&mut area().lists.then, &mut |_, _| true)
}

/// The shadow's memory is to be read, also where the program may not read it now.
pub fn open_then() {
    let then = &area().lists.then;
    for mapping in then.all[..then.count].iter().filter(|mapping| mapping.private && !mapping.readable) {
        let bytes = mapping.end - mapping.start;
        kernel::mprotect(mapping.start, bytes, protection(mapping) | nr::PROT_READ);
    }
}

/// The process lists what is mapped now: all of it, or what has changed since it did.
pub fn list_now() -> bool {
    let changes = map_changes::take();
    let lists = &mut area().lists;
    if core::mem::take(&mut lists.is_known)
        && let Some(parts) = changes.parts()
        && !a_stack_has_grown(&lists.now)
        && refresh::list(&mut lists.now, &mut lists.names, parts)
    {
        lists.is_known = true;
        return true;
    }
    let names = &mut lists.names;
    names.filled = 0;
    let (mut last, mut fit) = ((0, 0), true);
    let complete = list(&mut lists.now, &mut |mapping, name| {
        fit = fit && names.note(mapping, name, &mut last);
        true
    });
    lists.names_fit = fit;
    lists.is_known = complete && fit;
    complete
}

/// The same, with the names of all files that are mapped.
pub fn list_now_with(names: &mut Names) -> bool {
    let listed = list_now();
    let lists = &area().lists;
    names.copy(&lists.names);
    listed && lists.names_fit
}

/// What was listed may be another by now, unnoticed.
pub fn forget_now() {
    area().lists.is_known = false;
}

/// A stack grows downwards, and nobody is told.
fn a_stack_has_grown(list: &List) -> bool {
    let is_mapped = |page: u64| {
        let mut resident = 0u8;
        let arguments = [page, PAGE_BYTES, &raw mut resident as u64, 0, 0, 0];
        !kernel::failed(kernel::call(nr::__NR_mincore, arguments))
    };
    let stacks = list.all[..list.count].iter().filter(|mapping| mapping.is_stack);
    stacks.map(|mapping| mapping.start - PAGE_BYTES).any(is_mapped)
}

/// The shadow makes copies of what it shares with the process, at the same places, but for
/// what the shadow of another process has that took its checkpoint together with this one.
pub fn keep_shared(slot: &Checkpoint) -> bool {
    if undertaking::keeps_shared() {
        return true;
    }
    let is_of_several = slot.together.load(Ordering::Relaxed) != 0;
    let space = &mut *space();
    let shared = &space.shared[..space.shared_count];
    let list = &mut area().lists.then;
    for mapping in &mut list.all[..list.count] {
        let is_shared = |range: &MemoryRange| range.start < mapping.end && mapping.start < range.end;
        if mapping.private || !mapping.writable || !shared.iter().any(is_shared) {
            continue;
        }
        if is_of_several && objects::is_kept_elsewhere(mapping) {
            mapping.is_kept_elsewhere = true;
            continue;
        }
        if !keep(mapping.start, mapping.end - mapping.start) {
            return false;
        }
        if is_of_several && undertaking::leads() {
            objects::note_kept(mapping);
        }
    }
    true
}

/// Memory that is shared becomes the shadow's own.
fn keep(start: u64, bytes: u64) -> bool {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE;
    let copy = kernel::mmap(0, bytes, 3, flags, -1, 0);
    if kernel::failed(copy) {
        return false;
    }
    // A part may lie behind the file's end: those pages stay empty.
    let mut done = 0;
    while done < bytes {
        memory::copy(copy as u64 + done, start + done, 4096);
        done += 4096;
    }
    const MAYMOVE_FIXED: u64 = 1 | 2;
    let moved = kernel::call(nr::__NR_mremap, [copy as u64, bytes, bytes, MAYMOVE_FIXED, start, 0]);
    !kernel::failed(moved)
}

/// Walks along both lists.
pub fn for_each_piece(each: &mut dyn FnMut(&Piece) -> bool) -> bool {
    let lists = &area().lists;
    let (then, now) = (&lists.then.all[..lists.then.count], &lists.now.all[..lists.now.count]);
    let (mut a, mut b, mut at) = (0, 0, 0u64);
    loop {
        while a < then.len() && then[a].end <= at {
            a += 1;
        }
        while b < now.len() && now[b].end <= at {
            b += 1;
        }
        let one = then.get(a);
        let other = now.get(b);
        if one.is_none() && other.is_none() {
            return true;
        }
        let inside_one = one.is_some_and(|mapping| mapping.start <= at);
        let inside_other = other.is_some_and(|mapping| mapping.start <= at);
        let edge = |mapping: Option<&Mapping>, inside: bool| {
            mapping.map_or(u64::MAX, |mapping| if inside { mapping.end } else { mapping.start })
        };
        let end = edge(one, inside_one).min(edge(other, inside_other));
        if inside_one || inside_other {
            let piece = Piece {
                start: at,
                end,
                then: one.filter(|_| inside_one).copied(),
                now: other.filter(|_| inside_other).copied(),
            };
            if !each(&piece) {
                return false;
            }
        }
        at = end;
    }
}

impl Piece {
    /// The same object is mapped, maybe with another protection.
    pub fn is_same(&self) -> bool {
        let (Some(then), Some(now)) = (&self.then, &self.now) else { return false };
        let place = |mapping: &Mapping| mapping.offset.wrapping_add(self.start - mapping.start);
        then.private == now.private
            && then.is_stack == now.is_stack
            && (then.device, then.inode) == (now.device, now.inode)
            && (then.inode == 0 || place(then) == place(now))
    }
}

/// Sees to it that the files are there that are to be mapped again.
pub fn find_files(from: &Then) -> Result<(), i64> {
    let is_needed = |piece: &Piece| match &piece.then {
        Some(then) => !piece.is_same() && then.inode != 0 && (!then.private || from.increment().is_some()),
        None => false,
    };
    if for_each_piece(&mut |piece| !is_needed(piece)) {
        return Ok(());
    }
    let mut result = Ok(());
    isolated::run(&mut || {
        for_each_piece(&mut |piece| {
            if let Some(then) = piece.then.as_ref().filter(|_| is_needed(piece)) {
                // Whoever opens it here is gone in a moment, and the descriptor with it.
                result = open_file(then, from).map(close_file);
            }
            result.is_ok()
        });
    })?;
    result
}

/// Opens the file that a mapping of then shows, for mapping it again; an errno if
/// that is not there any more. It is to be closed again, and so not to be opened in the program's
/// own process: see `apart`.
pub fn open_file(mapping: &Mapping, then: &Then) -> Result<i32, i64> {
    let path = &mut area().lists.path;
    let wanted = (mapping.device, mapping.inode);
    let increment = then.increment();
    let found = match increment.as_ref().and_then(|increment| increment.names.find(wanted)) {
        Some(name) if name.len() < PATH_BYTES => {
            path[..name.len()].copy_from_slice(name);
            path[name.len()] = 0;
            true
        }
        _ => find_name(wanted, then.base, path),
    };
    let write = !mapping.private && mapping.writable;
    let access = if write { nr::O_RDWR } else { nr::O_RDONLY };
    if found {
        let flags = u64::from(access | nr::O_CLOEXEC);
        let fd = kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0, 0, 0, 0]);
        if !kernel::failed(fd) {
            if identity(fd as i32) == Some(wanted) {
                return Ok(fd as i32);
            }
            kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
    }
    // One without a name any more: maybe the program still has it open.
    for fd in 0..1024 {
        if identity(fd) == Some(wanted) {
            let copy = kernel::call(nr::__NR_fcntl, [fd as u64, u64::from(nr::F_DUPFD), 0, 0, 0, 0]);
            if !kernel::failed(copy) {
                return Ok(copy as i32);
            }
        }
    }
    Err(error(errno::ENODEV))
}

pub fn close_file(fd: i32) {
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
}

/// Finds the path of a mapped file in a shadow's list, or in ours: shared ones are the
/// shadow's own copies there.
fn find_name(wanted: (u64, u64), shadow: i32, path: &mut [u8; PATH_BYTES]) -> bool {
    let mut found = false;
    for list in [path_of(shadow, b"/maps"), *Path::new().text(OWN.to_bytes())] {
        maps::for_each_named(list.as_text(), &mut |other: &Mapping, text: &[u8]| {
            if !found && (other.device, other.inode) == wanted && text.len() < PATH_BYTES {
                path[..text.len()].copy_from_slice(text);
                path[text.len()] = 0;
                found = true;
            }
        });
        if found {
            break;
        }
    }
    found
}

/// Device and inode of an open file, as a list of mappings names them.
fn identity(fd: i32) -> Option<(u64, u64)> {
    let mut stat = [0u64; 18];
    let result = kernel::call(nr::__NR_fstat, [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
    (!kernel::failed(result)).then_some((maps::device(stat[0]), stat[1]))
}
