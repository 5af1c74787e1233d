//! Which instructions a jump at a site may cover, and the recipe for it.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use lane_protocol::{Recipe, site_kind};

use crate::chain::{Chain, INSTRUCTION_BYTES_MAX};
use crate::image::{Exceptions, Image};
use crate::landing_pads;
use crate::targets::Watch;

/// Length of `jmp rel32`.
pub(crate) const JUMP_BYTES: u64 = 5;
/// Longest run of instructions ahead of a site, in bytes.
const BEFORE_BYTES_MAX: u64 = 32;
/// No fixup.
const NO_FIXUP: u8 = 0xff;

/// A real instruction that has to be intercepted.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub address: u64,
    pub len: u64,
    pub kind: u8,
    chain: Chain,
    /// Where exceptions enter the functions around it; `None` where that is not known.
    landing_pads: Option<Vec<u64>>,
}

/// One way to place the jump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    /// Where the jump goes.
    pub start: u64,
    /// End of the covered instructions.
    pub end: u64,
    /// Nothing may jump between `start` and here: the end of what the jump
    /// overwrites, or of the covered instructions if they reach behind the site.
    pub closed_end: u64,
    /// Where instructions start behind `start` and ahead of `closed_end`.
    pub inner_starts: Vec<u64>,
}

/// The place of bytes that may be an instruction that reads time, or may be data.
pub(crate) fn unsure(image: &Image<'_>, address: u64) -> Option<Recipe> {
    uncovered(image, address, site_kind::UNSURE, 2)
}

/// The place of bytes that may be an instruction that sets the gs base.
pub(crate) fn sets_gs(image: &Image<'_>, address: u64) -> Option<Recipe> {
    uncovered(image, address, site_kind::SETS_GS, 2)
}

/// That the file names the vsyscall page, at the beginning of its code.
pub(crate) fn names_vsyscalls(image: &Image<'_>) -> Option<Recipe> {
    let first = image.code.first()?;
    uncovered(image, first.address, site_kind::VSYSCALL, 2)
}

/// The recipe of a place that nothing covers.
fn uncovered(image: &Image<'_>, address: u64, kind: u8, site_bytes: u8) -> Option<Recipe> {
    let region = image.code_at(address)?;
    Some(Recipe {
        site_offset: u32::try_from(region.offset + (address - region.address)).ok()?,
        kind,
        site_bytes,
        before: 0,
        after: 0,
        fixup_before: NO_FIXUP,
        fixup_before_end: 0,
        fixup_after: NO_FIXUP,
        fixup_after_end: 0,
        code: [0; 36],
    })
}

impl Site {
    /// The site that is the chain's last instruction, if it is one.
    pub fn from_chain(image: &Image<'_>, chain: Chain) -> Option<Site> {
        let address = *chain.starts.last()?;
        let instruction = decode(image, address, chain.end)?;
        let kind = kind(instruction.code())?;
        Some(Site::new(image, address, instruction.len() as u64, kind, chain))
    }

    pub fn new(image: &Image<'_>, address: u64, len: u64, kind: u8, chain: Chain) -> Site {
        let mut landing_pads = Some(Vec::new());
        for function in image.functions_around(address) {
            let pads = match function.exceptions {
                Exceptions::None => continue,
                Exceptions::Table(table) => landing_pads::of_function(image, function.start, table),
                Exceptions::Unknown => None,
            };
            landing_pads = landing_pads.zip(pads).map(|(known, pads)| [known, pads].concat());
        }
        Site { address, len, kind, chain, landing_pads }
    }

    pub fn end(&self) -> u64 {
        self.address + self.len
    }

    /// Whether exceptions may enter between these addresses.
    fn may_land_between(&self, from: u64, to: u64) -> bool {
        let is_between = |pads: &Vec<u64>| pads.iter().any(|pad| (from..to).contains(pad));
        self.landing_pads.as_ref().is_none_or(is_between)
    }

    /// Where instructions start behind this address, up to the site.
    pub fn starts_behind(&self, address: u64) -> impl Iterator<Item = u64> {
        let until = self.address;
        self.chain.starts.iter().copied().filter(move |&start| address < start && start <= until)
    }
}

/// Every way to rewrite `site`, the best first: instructions ahead, which leave
/// the site whole; then instructions behind; then both. The last overwrites the
/// site's own start, where a system call may have to be started again.
pub(crate) fn options(image: &Image<'_>, site: &Site) -> Vec<Cover> {
    // A prefix would make the return address ambiguous for the runtime.
    let is_odd = site.kind == site_kind::SYSCALL && site.len != 2;
    if is_odd || is_signal_return(image, site) {
        return Vec::new();
    }
    let behind = behind(image, site, site.address);
    let across = if site.kind == site_kind::SYSCALL { None } else { across(image, site) };
    ahead(image, site).into_iter().chain(behind).chain(across).collect()
}

/// The chosen recipes: for each site the first way that nothing forbids.
pub(crate) fn choose(image: &Image<'_>, sites: &[Site], covers: &[Vec<Cover>], watch: &Watch) -> Vec<Recipe> {
    let mut taken_end = 0;
    let mut recipes = Vec::with_capacity(sites.len());
    for (index, site) in sites.iter().enumerate() {
        let next = sites.get(index + 1).map_or(u64::MAX, |next| next.address);
        let mut fitting: Vec<(&Cover, Recipe)> = covers[index]
            .iter()
            .filter(|cover| cover.start >= taken_end && cover.end <= next)
            .filter(|cover| !watch.is_hit_between(cover.start + 1, cover.closed_end))
            .filter_map(|cover| Some((cover, recipe(image, site, Some(cover))?)))
            .collect();
        // Whoever jumps to the site, or to what leads to it, should find the jump, not trap.
        fitting.sort_by_key(|(cover, _)| watch.is_hit_between(cover.start + 1, site.address + 1));
        match fitting.into_iter().next() {
            Some((cover, chosen)) => {
                taken_end = cover.end;
                recipes.push(chosen);
            }
            None => {
                taken_end = taken_end.max(site.end());
                recipes.extend(recipe(image, site, None));
            }
        }
    }
    recipes
}

/// Runs of instructions directly ahead that are long enough: the shortest, and
/// longer ones that begin with an instruction which the jump alone replaces.
fn ahead(image: &Image<'_>, site: &Site) -> Vec<Cover> {
    let mut covers: Vec<Cover> = Vec::new();
    let starts = movable_ahead(image, site);
    for (index, start) in starts.iter().copied().enumerate() {
        let before = site.address - start;
        let closed_end = start + JUMP_BYTES;
        if !(JUMP_BYTES..=BEFORE_BYTES_MAX).contains(&before) {
            continue;
        }
        let inner_starts: Vec<u64> =
            starts[..index].iter().copied().filter(|inner| *inner < closed_end).collect();
        let is_one = inner_starts.is_empty();
        if is_one || (covers.is_empty() && !site.may_land_between(start + 1, closed_end)) {
            covers.push(Cover { start, end: site.end(), closed_end, inner_starts });
        }
    }
    covers
}

/// The jump at `start`, which is the site or ahead of it, with the shortest run
/// of instructions behind the site that is long enough.
fn behind(image: &Image<'_>, site: &Site, start: u64) -> Option<Cover> {
    let mut end = site.end();
    let mut inner_starts = Vec::new();
    while end - start < JUMP_BYTES {
        let instruction = decode(image, end, site.chain.end)?;
        let is_first = end == site.end();
        let is_expected = site.chain.is_known || !is_first || continues(&instruction, site.kind);
        if !is_expected || !is_relocatable(&instruction) {
            return None;
        }
        inner_starts.push(end);
        end = instruction.next_ip();
    }
    let is_closed = !site.may_land_between(start + 1, end);
    is_closed.then_some(Cover { start, end, closed_end: end, inner_starts })
}

/// The site with as few instructions ahead of it as will do, and some behind.
fn across(image: &Image<'_>, site: &Site) -> Option<Cover> {
    let mut inner_starts = vec![site.address];
    for start in movable_ahead(image, site) {
        if let Some(mut cover) = behind(image, site, start) {
            cover.inner_starts.extend(inner_starts);
            return Some(cover);
        }
        inner_starts.push(start);
    }
    None
}

/// Starts of the instructions directly ahead, the nearest first, up to the first
/// that has to stay where it is.
fn movable_ahead(image: &Image<'_>, site: &Site) -> Vec<u64> {
    let mut end = site.address;
    let mut movable = Vec::new();
    for start in site.chain.starts.iter().rev().skip(1) {
        match decode(image, *start, end) {
            Some(ahead) if ahead.next_ip() == end && is_relocatable(&ahead) => {
                movable.push(*start);
            }
            _ => break,
        }
        end = *start;
    }
    movable
}

/// Where no function is known, data may follow a call that does not return
/// (exit): only an instruction that looks at the result is sure to be one.
fn continues(instruction: &Instruction, kind: u8) -> bool {
    if kind != site_kind::SYSCALL {
        return true;
    }
    let looks = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Mov);
    let operands = [instruction.op0_register(), instruction.op1_register()];
    looks && operands.contains(&Register::RAX)
}

fn kind(code: Code) -> Option<u8> {
    Some(match code {
        Code::Syscall => site_kind::SYSCALL,
        Code::Rdtsc => site_kind::RDTSC,
        Code::Rdtscp => site_kind::RDTSCP,
        Code::Rdrand_r16 | Code::Rdrand_r32 | Code::Rdrand_r64 => site_kind::RDRAND,
        Code::Rdseed_r16 | Code::Rdseed_r32 | Code::Rdseed_r64 => site_kind::RDSEED,
        Code::Rdpid_r32 | Code::Rdpid_r64 => site_kind::RDPID,
        Code::Cpuid => site_kind::CPUID,
        Code::Xsavec_mem | Code::Xsavec64_mem => site_kind::XSAVEC,
        _ => return None,
    })
}

/// Whether an instruction means the same at another address, apart from one
/// displacement relative to the instruction pointer.
fn is_relocatable(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Next && !is_kept_in_place(instruction)
}

/// True for what has to stay where it is, branches aside.
pub(crate) fn is_kept_in_place(instruction: &Instruction) -> bool {
    let code = instruction.code();
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let is_short_relative =
        instruction.is_ip_rel_memory_operand() && instruction.memory_base() != Register::RIP;
    instruction.is_invalid()
        || instruction.is_privileged()
        || kind(code).is_some()
        || matches!(code, Code::Endbr64 | Code::Endbr32)
        || (is_repeated && instruction.is_string_instruction())
        || is_short_relative
}

/// `mov eax, 15; syscall`: unwinders know a signal's frame by these very bytes, unless an unwind entry
/// says so.
fn is_signal_return(image: &Image<'_>, site: &Site) -> bool {
    if site.kind != site_kind::SYSCALL {
        return false;
    }
    let Some(region) = image.code_at(site.address) else {
        return false;
    };
    let ahead = region.slice(site.address.saturating_sub(7), site.address);
    let returns = ahead.ends_with(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0]) || ahead.ends_with(&[0xb8, 15, 0, 0, 0]);
    returns && !image.has_signal_entry(site.address)
}

/// The recipe for a cover, or for none. `None`: the covered code does not fit.
pub(crate) fn recipe(image: &Image<'_>, site: &Site, cover: Option<&Cover>) -> Option<Recipe> {
    let region = image.code_at(site.address)?;
    let mut recipe = uncovered(image, site.address, site.kind, u8::try_from(site.len).ok()?)?;
    let Some(cover) = cover else {
        return Some(recipe);
    };
    let ahead = region.slice(cover.start, site.address);
    let behind = region.slice(site.end(), cover.end);
    recipe.before = u8::try_from(ahead.len()).ok()?;
    recipe.after = u8::try_from(behind.len()).ok()?;
    recipe.code.get_mut(..ahead.len())?.copy_from_slice(ahead);
    recipe.code.get_mut(ahead.len()..ahead.len() + behind.len())?.copy_from_slice(behind);
    if let Some(fixup) = fixup(ahead, cover.start)? {
        (recipe.fixup_before, recipe.fixup_before_end) = fixup;
    }
    if let Some((at, end)) = fixup(behind, site.end())? {
        recipe.fixup_after = recipe.before + at;
        recipe.fixup_after_end = recipe.before + end;
    }
    Some(recipe)
}

/// Place and end of the one displacement relative to the instruction pointer.
/// Outer `None`: there are several, or one that is not of 32 bits.
fn fixup(code: &[u8], address: u64) -> Option<Option<(u8, u8)>> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut found = None;
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        if !instruction.is_ip_rel_memory_operand() {
            continue;
        }
        let offsets = decoder.get_constant_offsets(&instruction);
        if found.is_some() || offsets.displacement_size() != 4 {
            return None;
        }
        let place = u8::try_from(at + offsets.displacement_offset()).ok()?;
        found = Some((place, u8::try_from(decoder.position()).ok()?));
    }
    Some(found)
}

/// The instruction at `address`, if it ends at `limit` or before.
pub(crate) fn decode(image: &Image<'_>, address: u64, limit: u64) -> Option<Instruction> {
    let region = image.code_at(address)?;
    let bytes = region.slice(address, limit.min(address + INSTRUCTION_BYTES_MAX));
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.can_decode().then(|| decoder.decode())?;
    (!instruction.is_invalid()).then_some(instruction)
}
