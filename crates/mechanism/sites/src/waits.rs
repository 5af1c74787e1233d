//! Loops in which a thread waits for another one: with `pause`, with nops in its place, or with neither.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind};
use lane_protocol::{Recipe, site_kind};

use crate::candidates::{Candidate, Pattern};
use crate::chain::CodeMap;
use crate::cover::{self, Cover, Site, decode};
use crate::idle_loops::End;
use crate::image::Image;
use crate::targets::Watch;

/// Instructions behind the nops among which the end of their loop is looked for.
const INSTRUCTIONS: usize = 16;
/// Two of the nops of a run stand for a `pause`.
const NOPS_BYTES: u64 = 2;
/// How near behind a `pause` another site is for the two to be in one loop.
const NEAR_BYTES: u64 = 32;

/// A place where a thread waits, and the ways to cover it.
pub(crate) struct Wait {
    site: Site,
    covers: Vec<Cover>,
    /// A trap leads to the runtime where no jump fits.
    may_trap: bool,
}

impl Wait {
    pub fn parts(&self) -> (&Site, &Vec<Cover>) {
        (&self.site, &self.covers)
    }
}

/// The places among these candidates.
pub(crate) fn find(map: &mut CodeMap<'_, '_>, candidates: &[Candidate]) -> Vec<Wait> {
    if map.image.has_tables_in_code() {
        return Vec::new();
    }
    let waiting = candidates.iter().filter(|candidate| candidate.pattern.is_waiting());
    waiting
        .filter_map(|candidate| {
            let chain = map.chain_at(candidate.address)?;
            let image = map.image;
            let address = *chain.starts.last()?;
            let instruction = decode(image, address, chain.end)?;
            let is_pause = instruction.code() == Code::Pause;
            let len = match candidate.pattern {
                Pattern::Nops => looks_at_memory(image, address, chain.end).then_some(NOPS_BYTES)?,
                Pattern::IdleLoop(_) => (address == candidate.address).then_some(instruction.len() as u64)?,
                _ => is_pause.then_some(instruction.len() as u64)?,
            };
            let kind = match candidate.pattern {
                Pattern::IdleLoop(End::Others) => site_kind::IDLE_LOOP,
                Pattern::IdleLoop(End::Counting) => site_kind::COUNTING_LOOP,
                _ => site_kind::SPIN,
            };
            let site = Site::new(image, address, len, kind, chain);
            let covers = cover::options(image, &site);
            Some(Wait { site, covers, may_trap: is_pause })
        })
        .collect()
}

/// For each place the first way that nothing forbids and that all rounds take, beside the recipes
/// of others; else a trap, if it may be one.
pub(crate) fn choose(image: &Image<'_>, waits: &[Wait], recipes: &[Recipe], watch: &Watch) -> Vec<Recipe> {
    let mut taken: Vec<(u64, u64)> = recipes.iter().filter_map(|recipe| range_of(image, recipe)).collect();
    let mut chosen = Vec::new();
    for Wait { site, covers, may_trap } in waits {
        let is_free = |from: u64, to: u64| taken.iter().all(|(start, end)| to <= *start || *end <= from);
        if !is_free(site.address, site.end()) {
            continue;
        }
        let fits = |cover: &&Cover| {
            let closed_end = cover.closed_end.max(site.address + 1);
            is_free(cover.start, cover.end) && !watch.is_hit_between(cover.start + 1, closed_end)
        };
        let covered = covers.iter().filter(fits).find_map(|cover| cover::recipe(image, site, Some(cover)));
        // In a loop with a call that is what is seen of it.
        let is_alone = is_free(site.end(), site.end() + NEAR_BYTES);
        let trapping = || (*may_trap && is_alone).then(|| cover::recipe(image, site, None)).flatten();
        if let Some(recipe) = covered.or_else(trapping) {
            taken.extend(range_of(image, &recipe));
            chosen.push(recipe);
        }
    }
    chosen
}

/// What a recipe covers, and the site itself.
fn range_of(image: &Image<'_>, recipe: &Recipe) -> Option<(u64, u64)> {
    let address = image.address_of(u64::from(recipe.site_offset))?;
    let end = address + u64::from(recipe.site_bytes) + u64::from(recipe.after);
    Some((address - u64::from(recipe.before), end))
}

/// Whether what follows `address` goes back there, and does nothing on the way but load and
/// compare.
fn looks_at_memory(image: &Image<'_>, address: u64, limit: u64) -> bool {
    let mut at = address;
    for _ in 0..INSTRUCTIONS {
        let Some(instruction) = decode(image, at, limit) else { return false };
        match instruction.flow_control() {
            FlowControl::ConditionalBranch if instruction.near_branch64() <= address => return true,
            FlowControl::ConditionalBranch => {}
            FlowControl::Next if is_look(&instruction) => {}
            _ => return false,
        }
        at = instruction.next_ip();
    }
    false
}

/// True of an instruction that changes no memory.
fn is_look(instruction: &Instruction) -> bool {
    let changes_register = instruction.op0_kind() == OpKind::Register;
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Pause | Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Rdtsc => true,
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd | Mnemonic::Lea => changes_register,
        Mnemonic::Shl | Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Or => changes_register,
        Mnemonic::Inc | Mnemonic::Dec => changes_register,
        _ => false,
    }
}
