//! Rewriting of sites: where the program's code calls the kernel, or reads time
//! or randomness from the processor.
//!
//! How a site can be rewritten was found outside, by disassembly of its file
//! (the recipes in the session's memory); here a recipe is only applied: when code
//! is mapped, to what reads time, randomness or the processor's features, and to the
//! calls that most processes use; later, to a call that traps for the second time. Memory
//! for trampolines is logged: replay keeps it free. Whether a site is rewritten changes no event.

mod addresses;
mod restored;
mod table;

use core::sync::atomic::{AtomicU8, Ordering};

use lane_protocol::{CodeMap, RECIPES_START, Recipe, site_kind};
use linux_abi::general as nr;

pub use crate::code::patching::{change_code, put_code, write_code};
use crate::code::trampolines::{
    TRAMPOLINE_CODE_MAX, replay_needed_trampolines, trampoline_near, write_trampoline,
};
use crate::code::{clocks, gs, non_executable, own_vdso, seccomp};
use crate::ground::{kernel, memory, notices};
use crate::log;
use crate::state::block::{process, session, space};
use crate::state::patched_code::{MAPS, SLOTS, Site, SiteState};
use crate::state::runtime_log::{LogSubject, say};
pub use addresses::{original, translate};
use restored::cover_again;
pub use restored::{
    cover_again_at, cover_again_stopped, jump_when_dense, lift_jumps, note_jump_taken, restore_at,
    restore_for_good,
};
pub use table::find;
use table::{find_or_add, sites};

/// Traps at a site before it is rewritten.
const HITS_BEFORE_REWRITING: u32 = 2;
/// Value in `Session::site_uses` of a site that is rewritten before it traps; less:
/// processes in which it trapped.
const IS_HOT: u8 = 128;

/// What traps in place of an instruction.
const UD2: [u8; 2] = [0x0f, 0x0b];

impl Site {
    /// The bytes of the replaced instruction.
    pub fn instruction(&self) -> &[u8] {
        &self.own[..self.bytes as usize]
    }

    /// True if a ud2 stands in its place.
    pub fn is_stopped(&self) -> bool {
        match self.state {
            SiteState::Rewritten => !traps_by_itself(self.kind),
            state => state == SiteState::Stopped,
        }
    }

    /// Where the program goes on behind the instruction; of a branch, where it is not taken.
    pub fn behind(&self) -> u64 {
        let goes_on_in_trampoline = self.state == SiteState::Rewritten && self.resume != 0;
        if goes_on_in_trampoline { self.resume } else { self.address + u64::from(self.bytes) }
    }
}

/// True for sites that lead to the runtime also where nothing was replaced.
fn traps_by_itself(kind: u8) -> bool {
    kind == site_kind::SYSCALL
}

/// A system call came through a trap from this site.
#[cold]
pub fn on_trap(address: u64) {
    let Some((mut site, is_new)) = find_or_add(address, site_kind::SYSCALL) else {
        return;
    };
    site.hits += 1;
    if is_new {
        note_trap(address);
    }
    let due = site.hits >= HITS_BEFORE_REWRITING && (site.hits < 8 || site.hits % 16 == 0);
    match site.state {
        SiteState::Trapping if due && session().rewriting_off == 0 => rewrite(&mut site),
        SiteState::Restored if due => cover_again(&mut site),
        _ => {}
    }
}

/// Tells the processes to come that this site is used: what at least every second
/// process uses is rewritten before it traps.
fn note_trap(address: u64) {
    let Some((recipes, index, map)) = known_at(address) else { return };
    let Some(use_of) = use_of(recipes, index) else { return };
    let seen = use_of.load(Ordering::Relaxed);
    if seen >= IS_HOT - 1 {
        return;
    }
    let mapped = session().files[map.file as usize].mapped.load(Ordering::Relaxed);
    let is_hot = seen > 0 && 2 * (u32::from(seen) + 1) >= mapped;
    use_of.store(if is_hot { IS_HOT } else { seen + 1 }, Ordering::Relaxed);
}

/// How often the site of a recipe was used, in [`IS_HOT`]'s terms.
fn use_of(recipes: &[Recipe], index: usize) -> Option<&'static AtomicU8> {
    let first = (recipes.as_ptr() as u64 - RECIPES_START) as usize / size_of::<Recipe>();
    session().site_uses.get(first + index)
}

/// Where the recipe of this address is, if it has one.
fn known_at(address: u64) -> Option<(&'static [Recipe], usize, CodeMap)> {
    let map = map_of(address)?;
    let recipes = recipes_of(map.file)?;
    Some((recipes, index_of(recipes, &map, address)?, map))
}

fn recipe_of(address: u64) -> Option<&'static Recipe> {
    known_at(address).map(|(recipes, index, _)| &recipes[index])
}

fn index_of(recipes: &[Recipe], map: &CodeMap, address: u64) -> Option<usize> {
    let offset = (address - map.start + map.file_offset) as u32;
    recipes.binary_search_by(|recipe| recipe.site_offset.cmp(&offset)).ok()
}

/// The code that is mapped at the address.
pub fn map_of(address: u64) -> Option<CodeMap> {
    let sites = &mut *sites();
    sites.maps[..sites.map_count].iter().find(|map| (map.start..map.end).contains(&address)).copied()
}

/// True of code of a file that the program cannot write to, and of our own.
pub fn is_constant_code(address: u64) -> bool {
    map_of(address).is_some_and(|map| map.protection & nr::PROT_WRITE == 0) || own_vdso::is_constant(address)
}

/// The recipes of a file; `None` while they are not known.
fn recipes_of(file: u32) -> Option<&'static [Recipe]> {
    let kept = session().files.get(file as usize)?;
    if kept.recipes_ready.load(Ordering::Acquire) == 0 {
        return None;
    }
    let first = kept.recipe_first.load(Ordering::Relaxed) as usize;
    let count = kept.recipe_count.load(Ordering::Relaxed) as usize;
    let most = lane_protocol::RECIPES_BYTES as usize / size_of::<Recipe>();
    if first.checked_add(count)? > most {
        return None;
    }
    // SAFETY: inside the mapped area of recipes, written before `recipes_ready`.
    Some(unsafe { core::slice::from_raw_parts((RECIPES_START as *const Recipe).add(first), count) })
}

fn rewrite(site: &mut Site) {
    say(LogSubject::Code, "site is to be rewritten", [site.address, u64::from(site.kind)]);
    notices::code_changed();
    match recipe_of(site.address) {
        Some(recipe) if recipe.kind == site_kind::SYSCALL => {
            cover(site, recipe, &write_code);
        }
        // Still to come.
        None if map_of(site.address).is_some_and(|map| recipes_of(map.file).is_none()) => {}
        // Generated code, or code of a file that could not be kept.
        _ => site.state = SiteState::Hopeless,
    }
}

/// Five bytes and no more: what is covered behind them may be jumped to.
fn jump_from(start: u64, trampoline: u64) -> [u8; 5] {
    let mut jump = [0xe9, 0, 0, 0, 0];
    let displacement = trampoline.wrapping_sub(start + 5) as u32;
    jump[1..5].copy_from_slice(&displacement.to_le_bytes());
    jump
}

/// Puts the jump of a recipe in place, by `write`. True if it stands.
fn cover(site: &mut Site, recipe: &Recipe, write: &dyn Fn(u64, &[u8]) -> bool) -> bool {
    let covered = recipe.before + recipe.site_bytes + recipe.after;
    let start = site.address - u64::from(recipe.before);
    let mut now = [0u8; 64];
    // The file may have been changed in memory (relocations, another patcher).
    let tail = (recipe.before + recipe.site_bytes) as usize;
    let as_analysed = recipe.before + recipe.after != 0
        && recipe.before + recipe.after <= 36
        && memory::copy(now.as_mut_ptr() as u64, start, u64::from(covered))
        && now[..recipe.before as usize] == recipe.code[..recipe.before as usize]
        && now[tail..covered as usize] == recipe.code[recipe.before as usize..][..recipe.after as usize];
    if !as_analysed {
        site.state = SiteState::Hopeless;
        return false;
    }
    let Some(trampoline) = trampoline_near(site.address) else { return false };
    let resume = write_trampoline(trampoline, site.address, recipe, site.branch());
    site.before = recipe.before;
    site.trampoline = trampoline;
    site.covered.copy_from_slice(&now[..5]);
    if write(start, &jump_from(start, trampoline)) {
        let is_call = recipe.kind == site_kind::SYSCALL;
        site.resume = if recipe.after > 0 || !is_call { resume } else { 0 };
        site.state = SiteState::Rewritten;
    } else {
        site.state = SiteState::Hopeless;
    }
    site.state == SiteState::Rewritten
}

/// A kept file was mapped executable: replaces what does not trap by itself, or often does.
pub fn code_mapped(map: CodeMap) {
    notices::code_changed();
    notices::code_mapped();
    replay_needed_trampolines();
    let state = &mut *sites();
    if state.map_count == MAPS || space().translates_code {
        // Jumps in it would lead whoever translates it to where there is none of its memory.
        if wait_for_recipes(map.file).is_some_and(names_vsyscalls) {
            seccomp::trap_vsyscalls();
        }
        clocks::trap_time();
        gs::share();
        return;
    }
    state.maps[state.map_count] = map;
    state.map_count += 1;
    let Some(recipes) = wait_for_recipes(map.file) else {
        clocks::trap_time();
        gs::share();
        return;
    };
    session().files[map.file as usize].mapped.fetch_add(1, Ordering::Relaxed);
    let end = map.file_offset + (map.end - map.start);
    let from = recipes.partition_point(|recipe| u64::from(recipe.site_offset) < map.file_offset);
    let to = recipes.partition_point(|recipe| u64::from(recipe.site_offset) < end);
    let mut writable = false;
    for (index, recipe) in recipes.iter().enumerate().take(to).skip(from) {
        let is_due = match recipe.kind {
            site_kind::SYSCALL => {
                let seen = use_of(recipes, index).map_or(0, |seen| seen.load(Ordering::Relaxed));
                seen == IS_HOT && may_jump(recipe)
            }
            site_kind::UNSURE => false,
            site_kind::SETS_GS => {
                gs::share();
                false
            }
            site_kind::VSYSCALL => {
                seccomp::trap_vsyscalls();
                false
            }
            site_kind::SPIN | site_kind::IDLE_LOOP => state.replaces_spins,
            _ => true,
        };
        if !is_due {
            continue;
        }
        if !writable {
            let read_write = nr::PROT_READ | nr::PROT_WRITE;
            if kernel::failed(kernel::mprotect(map.start, map.end - map.start, read_write)) {
                clocks::trap_time();
                return;
            }
            writable = true;
        }
        replace(map.start + u64::from(recipe.site_offset) - map.file_offset, recipe);
    }
    if writable {
        notices::memory_lost(map.start, map.end - map.start);
        kernel::mprotect(map.start, map.end - map.start, map.protection);
    }
    non_executable::code_mapped(&map, &recipes[from..to]);
}

/// Said at the beginning of the file's code.
fn names_vsyscalls(recipes: &[Recipe]) -> bool {
    recipes.first().is_some_and(|recipe| recipe.kind == site_kind::VSYSCALL)
}

fn may_jump(recipe: &Recipe) -> bool {
    // xsavec may fault: the site itself traps then, for which the jump has to leave it whole.
    let fits = match recipe.kind {
        site_kind::XSAVEC => recipe.before >= 5,
        _ => recipe.before + recipe.after != 0,
    };
    fits && session().rewriting_off == 0
}

/// From now on the places where threads wait are replaced, too.
pub fn replace_spins() {
    let state = &mut *sites();
    if core::mem::replace(&mut state.replaces_spins, true) {
        return;
    }
    replay_needed_trampolines();
    notices::code_changed();
    for map in &state.maps[..state.map_count] {
        let recipes = recipes_of(map.file).unwrap_or_default();
        let end = map.file_offset + (map.end - map.start);
        let is_due = |recipe: &&Recipe| {
            let offset = u64::from(recipe.site_offset);
            site_kind::is_spin(recipe.kind) && (map.file_offset..end).contains(&offset)
        };
        let mut due = recipes.iter().filter(is_due).peekable();
        if due.peek().is_none() {
            continue;
        }
        let read_write = nr::PROT_READ | nr::PROT_WRITE;
        if !kernel::failed(kernel::mprotect(map.start, map.end - map.start, read_write)) {
            due.for_each(|recipe| {
                replace(map.start + u64::from(recipe.site_offset) - map.file_offset, recipe);
            });
            notices::memory_lost(map.start, map.end - map.start);
            kernel::mprotect(map.start, map.end - map.start, map.protection);
        }
    }
}

/// Replaces the instruction at a site in memory that is writable now.
fn replace(address: u64, recipe: &Recipe) {
    let Some((mut site, _)) = find_or_add(address, recipe.kind) else {
        if recipe.kind != site_kind::SYSCALL && !site_kind::is_spin(recipe.kind) {
            clocks::trap_time();
        }
        return;
    };
    site.kind = recipe.kind;
    site.bytes = recipe.site_bytes.clamp(2, 15);
    site.state = SiteState::Trapping;
    (site.resume, site.trampoline) = (0, 0);
    site.hits = 0;
    site.comes_back = false;
    site.traps_always = recipe.kind == site_kind::SPIN && recipe.before + recipe.after == 0;
    if !memory::copy(site.own.as_mut_ptr() as u64, address, u64::from(site.bytes)) {
        return;
    }
    let write = |start: u64, patch: &[u8]| memory::copy(start, patch.as_ptr() as u64, patch.len() as u64);
    let jumps = may_jump(recipe) && cover(&mut site, recipe, &write);
    // Some way to it may not lead over the jump. One that traps by itself may stay.
    let whole = !jumps || recipe.before >= 5;
    if whole && !traps_by_itself(recipe.kind) && write(address, &UD2) && !jumps {
        site.state = SiteState::Stopped;
    }
    if site_kind::is_spin(recipe.kind) {
        say(LogSubject::Code, if jumps { "loop jumps here" } else { "loop traps here" }, [address, 0]);
    }
}

/// Waits for the analysis of a file: the first time ever it takes some milliseconds, or seconds
/// where the file is large and the machine busy; afterwards it is known. Recording waits as long
/// as somebody is there to analyse: an instruction that does not trap would give what nobody
/// records, and replay, which has all recipes before it begins, knows its site.
fn wait_for_recipes(file: u32) -> Option<&'static [Recipe]> {
    const WAIT_MS: u64 = 100;
    let kept = session().files.get(file as usize)?;
    loop {
        match kept.recipes_ready.load(Ordering::Acquire) {
            0 if process().replays() || session().stop.load(Ordering::Acquire) != 0 => return None,
            0 => kernel::futex_wait(&kept.recipes_ready, 0, WAIT_MS),
            1 => return recipes_of(file),
            // Analysed, but something in it may read time unseen.
            _ => return None,
        };
        if kept.recipes_ready.load(Ordering::Acquire) == 0 && log::supervisor_died() {
            return None;
        }
    }
}

/// Memory of the program went away or was replaced: so did what we know of it.
pub fn unmapped(start: u64, bytes: u64) {
    notices::code_changed();
    notices::code_mapped();
    let end = start.saturating_add(bytes);
    non_executable::unmapped(start, end);
    own_vdso::unmapped(start, end);
    notices::code_unmapped(start, end);
    let state = &mut *sites();
    let mut touched = false;
    let mut index = 0;
    while index < state.map_count {
        let map = state.maps[index];
        if map.start < end && start < map.end {
            touched = true;
            state.map_count -= 1;
            state.maps[index] = state.maps[state.map_count];
        } else {
            index += 1;
        }
    }
    if touched {
        for site in &mut state.table[..state.site_count] {
            if (start..end).contains(&site.address) {
                // The slot stays, so that others behind it are still found.
                site.state = SiteState::Trapping;
                (site.resume, site.trampoline) = (0, 0);
                site.hits = 0;
            }
        }
    }
}

/// A new image: nothing is known of it.
pub fn reset() {
    notices::code_changed();
    non_executable::reset();
    let state = &mut *sites();
    state.map_count = 0;
    state.replaces_spins = false;
    state.trampolines.forget();
    if state.site_count != 0 {
        state.places = [0; SLOTS];
        state.site_count = 0;
    }
}

/// True if code near that place is, or may be, replaced by a jump.
pub fn is_near(address: u64) -> bool {
    const COVERED_MAX: u64 = 64;
    let state = &mut *sites();
    state.table[..state.site_count].iter().any(|site| site.address.abs_diff(address) < COVERED_MAX)
}

/// Puts the original code back everywhere.
pub fn restore_all() {
    let state = &mut *sites();
    for site in &mut state.table[..state.site_count] {
        restore(site);
    }
}

/// Threads come to a place where they wait by a trap: where that leads to nothing again and
/// again, they do so no more.
pub fn note_spin(site: &mut Site, gave: bool) {
    const HITS_MAX: u32 = 20_000;
    site.hits = if gave { 0 } else { site.hits + 1 };
    if site.traps_always && site.hits >= HITS_MAX {
        restore(site);
    }
}

/// Puts the original code of a site back. Millions of rounds may follow until a preemption that is waited
/// for beside it.
fn restore(site: &mut Site) {
    say(LogSubject::Code, "site restored", [site.address, 0]);
    notices::code_changed();
    notices::while_replay_trap_is_lifted(&mut || {
        if site.is_stopped() {
            write_code(site.address, &site.own[..site.bytes as usize]);
        }
        if site.state == SiteState::Rewritten {
            write_code(site.address - u64::from(site.before), &site.covered);
        }
    });
    site.state = SiteState::Hopeless;
}

/// The instruction at which the program traps shall do what it does by itself: fault.
pub fn give_back(address: u64) {
    if let Some(mut site) = find(address) {
        restore(&mut site);
    }
}
