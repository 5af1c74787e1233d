//! An analysis as bytes, for a cache that is keyed by content.
//!
//! Little-endian: magic (8 bytes, the last two the version), flags (4), count
//! (4), then 48 bytes a recipe in the order of its fields.

use lane_protocol::Recipe;
use lane_protocol::site_kind::{COUNTING_LOOP, SYSCALL};

use crate::Analysis;

/// Version of the bytes and of the rules behind them: a cache must not outlive
/// either.
pub const FORMAT_VERSION: u16 = 13;

const MAGIC: [u8; 6] = *b"rvsite";
const HEADER_BYTES: usize = 16;
const FIXED_BYTES: usize = 12;
const CODE_BYTES: usize = 36;
const RECIPE_BYTES: usize = FIXED_BYTES + CODE_BYTES;
const FLAG_UNRESOLVED: u32 = 1;

/// The analysis as bytes.
pub fn to_bytes(analysis: &Analysis) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + analysis.recipes.len() * RECIPE_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    let flags = if analysis.unresolved_time_sites { FLAG_UNRESOLVED } else { 0 };
    bytes.extend(flags.to_le_bytes());
    let count =
        u32::try_from(analysis.recipes.len()).expect("offsets of 32 bits are distinct, so their count fits");
    bytes.extend(count.to_le_bytes());
    for recipe in &analysis.recipes {
        bytes.extend(recipe.site_offset.to_le_bytes());
        bytes.extend([recipe.kind, recipe.site_bytes, recipe.before, recipe.after]);
        bytes.extend([recipe.fixup_before, recipe.fixup_before_end]);
        bytes.extend([recipe.fixup_after, recipe.fixup_after_end]);
        bytes.extend(recipe.code);
    }
    bytes
}

/// The analysis in `bytes`; `None` if they are of another version, damaged in
/// their lengths, or hold a recipe that no analysis makes.
pub fn from_bytes(bytes: &[u8]) -> Option<Analysis> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let version = u16::from_le_bytes(header[6..8].try_into().ok()?);
    if header[..6] != MAGIC || version != FORMAT_VERSION {
        return None;
    }
    let flags = u32::from_le_bytes(header[8..12].try_into().ok()?);
    let count = u32::from_le_bytes(header[12..16].try_into().ok()?);
    let expected = usize::try_from(count).ok()?.checked_mul(RECIPE_BYTES)?;
    if body.len() != expected || flags & !FLAG_UNRESOLVED != 0 {
        return None;
    }
    let recipes: Vec<Recipe> = body.chunks_exact(RECIPE_BYTES).map(read_recipe).collect::<Option<_>>()?;
    let is_sorted = recipes.is_sorted_by(|a, b| a.site_offset < b.site_offset);
    let unresolved_time_sites = flags & FLAG_UNRESOLVED != 0;
    is_sorted.then_some(Analysis { recipes, unresolved_time_sites })
}

fn read_recipe(bytes: &[u8]) -> Option<Recipe> {
    let recipe = Recipe {
        site_offset: u32::from_le_bytes(bytes[..4].try_into().ok()?),
        kind: bytes[4],
        site_bytes: bytes[5],
        before: bytes[6],
        after: bytes[7],
        fixup_before: bytes[8],
        fixup_before_end: bytes[9],
        fixup_after: bytes[10],
        fixup_after_end: bytes[11],
        code: bytes[FIXED_BYTES..RECIPE_BYTES].try_into().ok()?,
    };
    is_plausible(&recipe).then_some(recipe)
}

fn is_plausible(recipe: &Recipe) -> bool {
    let (before, after) = (u16::from(recipe.before), u16::from(recipe.after));
    let covered = before + after;
    let is_rewritten = covered > 0;
    let is_long_enough = before >= 5 || before + u16::from(recipe.site_bytes) + after >= 5;
    (SYSCALL..=COUNTING_LOOP).contains(&recipe.kind)
        && (2..=15).contains(&recipe.site_bytes)
        && usize::from(covered) <= CODE_BYTES
        && (!is_rewritten || is_long_enough)
        && is_fixup_inside(recipe.fixup_before, recipe.fixup_before_end, 0, before)
        && is_fixup_inside(recipe.fixup_after, recipe.fixup_after_end, before, covered)
}

/// A displacement of four bytes and the end of its instruction, in `from..to`.
fn is_fixup_inside(at: u8, end: u8, from: u16, to: u16) -> bool {
    let (at, end) = (u16::from(at), u16::from(end));
    at == 0xff || (from <= at && at + 4 <= end && end <= to)
}
