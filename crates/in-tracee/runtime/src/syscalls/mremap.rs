//! mremap(2). Where a process went back, or is replayed, the kernel may have several mappings of
//! what was one: it joins two only if they came about alike, which no list of mappings tells. It
//! refuses to resize those (EFAULT), which are then resized piece by piece.

use linux_abi::{PAGE_BYTES, errno, general as nr};

use crate::address_space::partial_effects::{self, Moving};
use crate::address_space::shared_ranges::{forget_shared, note_shared};
use crate::address_space::{mapped_files, page_tracker, shared_writes, unforked};
use crate::checkpoint::{area, observed_calls};
use crate::code::{non_executable, own_vdso, sites};
use crate::debugger::displaced;
use crate::ground::maps::{self, Mapping};
use crate::ground::memory::{self, in_region, pages};
use crate::ground::registers::Registers;
use crate::ground::{kernel, map_changes};
use crate::log::call_event::{begin_call, consume, recorded_result};
use crate::state::block::process;
use crate::state::call_state::Done;
use crate::syscalls::memory_calls::{self, is_shared, same, unmapped};

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
/// What was there stays mapped.
const DONTUNMAP: u64 = 4;

fn error(number: u32) -> i64 {
    -i64::from(number)
}

pub fn mremap(registers: &Registers, args: &[u64; 6]) -> Done {
    let [old, old_bytes, new_bytes, flags, target, _] = *args;
    let bad = in_region(old, old_bytes) || (flags & FIXED != 0 && in_region(target, new_bytes));
    non_executable::give_back_if_met(old, old_bytes);
    if !process().replays() {
        page_tracker::release(old, pages(old_bytes));
        map_changes::note(old, old_bytes);
        let is_put = flags & FIXED != 0 && !bad;
        if is_put {
            // It may fail behind having unmapped what was there.
            map_changes::note(target, new_bytes);
        }
        let moving = is_put.then(|| Moving::of(old, old_bytes, target));
        let result = if bad { error(errno::EFAULT) } else { resize(args, area::went_back()) };
        if !kernel::failed(result) {
            moved(old, old_bytes, result as u64, new_bytes, flags);
        }
        begin_call(u64::from(nr::__NR_mremap), args, 5, result, 0);
        match moving {
            _ if !kernel::failed(result) => log_grown(result as u64, pages(old_bytes), pages(new_bytes)),
            Some(moving) if (old | target) % PAGE_BYTES == 0 => log_parts(args, &moving),
            _ => {}
        }
        process().log.end();
        return Done::Result(result);
    }
    let recorded = recorded_result(registers);
    if kernel::failed(recorded) {
        return Done::Result(memory_calls::replay_parts(registers, &mut |start, bytes, moved_to| {
            if moved_to == 0 {
                displaced::make_room(start, bytes);
                partial_effects::unmap(start, bytes);
                unmapped(start, bytes);
            } else {
                displaced::make_room(moved_to, bytes);
                shared_writes::disturb(start, bytes);
                partial_effects::follow_move(start, bytes, moved_to);
                moved(start, bytes, moved_to, bytes, FIXED | MAYMOVE);
            }
        }));
    }
    {
        let mut real = *args;
        displaced::make_room(recorded as u64, new_bytes);
        shared_writes::disturb(old, pages(old_bytes));
        if recorded as u64 != old {
            real[3] = flags | MAYMOVE | FIXED;
            real[4] = recorded as u64;
        } else {
            real[3] = flags & !(MAYMOVE | FIXED);
        }
        same(registers, recorded, resize(&real, true));
        moved(old, old_bytes, recorded as u64, new_bytes, flags);
        if new_bytes > old_bytes {
            mapped_files::grow_to(recorded as u64 + pages(new_bytes));
        }
    }
    Done::Result(consume(registers))
}

/// Recording: it failed behind having moved some, and unmapped what was there or is not wanted any more.
fn log_parts(args: &[u64; 6], moving: &Moving) {
    let [old, old_bytes, new_bytes, _, target, _] = *args;
    let kept = pages(old_bytes).min(pages(new_bytes));
    moving.log_moved(&mut |start, bytes, target| moved(start, bytes, target, bytes, FIXED | MAYMOVE));
    partial_effects::log_holes(target, new_bytes, &mut unmapped);
    partial_effects::log_holes(old + kept, pages(old_bytes) - kept, &mut unmapped);
}

/// What a mapping of a file shows where it has grown: the file may have changed there since it was
/// kept, and what no mapping shows is not logged when it is written.
fn log_grown(start: u64, old_bytes: u64, new_bytes: u64) {
    if old_bytes >= new_bytes || !mapped_files::is_file(start + new_bytes - 1) {
        return;
    }
    for page in (start + old_bytes..start + new_bytes).step_by(PAGE_BYTES as usize) {
        // Behind the file's end there is nothing.
        if memory::read::<u8>(page).is_none() {
            return;
        }
        process().log.memory(page, PAGE_BYTES);
    }
}

fn moved(old: u64, old_bytes: u64, new: u64, new_bytes: u64, flags: u64) {
    let advices = unforked::of_memory_at(old);
    page_tracker::forget(new, pages(new_bytes));
    unforked::moved(old, pages(old_bytes), new, pages(new_bytes), advices);
    let (before, after) = ([old, pages(old_bytes)], [new, pages(new_bytes)]);
    mapped_files::moved(before, after, flags & DONTUNMAP != 0);
    if new != old {
        observed_calls::note_moved(new, pages(new_bytes));
        let is_vdso = own_vdso::is_at(old) && flags & DONTUNMAP == 0;
        sites::unmapped(old, pages(old_bytes));
        sites::unmapped(new, pages(new_bytes));
        if is_vdso {
            own_vdso::begin(new, new + pages(new_bytes));
            own_vdso::may_change(new, new + pages(new_bytes));
        }
    }
    if is_shared(old, old_bytes) {
        forget_shared(old, pages(old_bytes));
        note_shared(new, pages(new_bytes));
    }
}

fn call(args: [u64; 5]) -> i64 {
    let [old, old_bytes, new_bytes, flags, target] = args;
    kernel::call(nr::__NR_mremap, [old, old_bytes, new_bytes, flags, target, 0])
}

/// Makes the call; `may_be_divided` where one mapping of the program may be several by now.
fn resize(args: &[u64; 6], may_be_divided: bool) -> i64 {
    let result = kernel::call(nr::__NR_mremap, *args);
    if result != error(errno::EFAULT) || !may_be_divided {
        return result;
    }
    let [old, old_bytes, new_bytes, flags, target, _] = *args;
    let (old_bytes, new_bytes) = (pages(old_bytes), pages(new_bytes));
    let apart = target + new_bytes <= old || old + old_bytes <= target;
    if !is_one_to_the_program(old, old_bytes) || (flags & FIXED != 0 && !apart) {
        return result;
    }
    if flags & FIXED != 0 {
        return shift(old, old_bytes, new_bytes, flags, target);
    }
    if new_bytes <= old_bytes {
        let cut = old_bytes - new_bytes;
        let cut = if cut == 0 { 0 } else { kernel::munmap(old + new_bytes, cut) };
        return if cut == 0 { old as i64 } else { cut };
    }
    let Some(last) = piece_at(old + old_bytes - 1) else { return result };
    let kept = old + old_bytes - last.start.max(old);
    let start = old + old_bytes - kept;
    let grown = call([start, kept, kept + new_bytes - old_bytes, flags & !MAYMOVE, 0]);
    if !kernel::failed(grown) {
        return old as i64;
    }
    if flags & MAYMOVE == 0 {
        return grown;
    }
    let none = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE;
    let place = kernel::mmap(0, new_bytes, nr::PROT_NONE, none, -1, 0);
    if kernel::failed(place) {
        return place;
    }
    let result = shift(old, old_bytes, new_bytes, flags | FIXED, place as u64);
    if kernel::failed(result) {
        kernel::munmap(place as u64, new_bytes);
    }
    result
}

/// Moves one piece after the other, so that the first comes to `target`. If one cannot be
/// moved, those before it go back to their places.
fn shift(old: u64, old_bytes: u64, new_bytes: u64, flags: u64, target: u64) -> i64 {
    let kept = old_bytes.min(new_bytes);
    let mut done = 0;
    while done < kept {
        let Some(piece) = piece_at(old + done) else { return error(errno::EFAULT) };
        let bytes = piece.end.min(old + kept) - (old + done);
        let becomes = if done + bytes == kept { new_bytes - done } else { bytes };
        let result = call([old + done, bytes, becomes, flags, target + done]);
        if kernel::failed(result) {
            give_back(target, done, old);
            return result;
        }
        done += bytes;
    }
    if old_bytes > kept {
        kernel::munmap(old + kept, old_bytes - kept);
    }
    target as i64
}

fn give_back(from: u64, bytes: u64, to: u64) {
    let mut done = 0;
    while done < bytes {
        let Some(piece) = piece_at(from + done) else { return };
        let part = piece.end.min(from + bytes) - (from + done);
        call([from + done, part, part, MAYMOVE | FIXED, to + done]);
        done += part;
    }
}

fn piece_at(address: u64) -> Option<Mapping> {
    let mut found = None;
    maps::for_each(&mut |mapping| {
        if mapping.start <= address && address < mapping.end {
            found = Some(*mapping);
        }
    });
    found
}

/// True if all of it is mapped, as one mapping would be.
fn is_one_to_the_program(start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes).filter(|&end| end > start) else { return false };
    let Some(first) = piece_at(start) else { return false };
    let mut reached = start;
    let mut alike = true;
    maps::for_each(&mut |mapping| {
        if mapping.end > start && mapping.start < end {
            alike &= mapping.start <= reached && mapping.continues(&first);
            reached = mapping.end;
        }
    });
    alike && reached >= end
}
