//! Whether anything can jump to a covered byte.
//!
//! Every covered byte is watched, not only those where instructions start. All
//! readings of the file that could yield an address are tried against them; a
//! false hit costs a recipe, a missed one would break a program.

use crate::chain::{CodeMap, Flow};
use crate::cover::{Cover, Site};
use crate::image::{Image, Region};

/// How far a short branch reaches, with its own length.
const SHORT_REACH_BYTES: u64 = 130;
/// Granularity of the coarse filter.
const BLOCK_BYTES: u64 = 64;
/// A jump table is followed at least this far even if another seems to begin.
const TABLE_ENTRIES_MIN: usize = 512;
const TABLE_ENTRIES_MAX: usize = 65536;

/// Addresses in question, and which of them something leads to.
pub(crate) struct Watch {
    /// Ascending.
    addresses: Vec<u64>,
    hit: Vec<bool>,
    /// A bit for each block from the first address on that holds any.
    blocks: Vec<u64>,
}

impl Watch {
    /// Watches the sites and what their covers close.
    pub fn new(sites: &[Site], covers: &[Vec<Cover>]) -> Watch {
        let mut addresses = Vec::new();
        for (site, covers) in sites.iter().zip(covers) {
            for cover in covers {
                addresses.extend(cover.start + 1..cover.closed_end);
            }
            if !covers.is_empty() {
                addresses.push(site.address);
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        let first = addresses.first().copied().unwrap_or(0);
        let mut watch =
            Watch { hit: vec![false; addresses.len()], blocks: Vec::new(), addresses };
        for address in &watch.addresses {
            let block = (address / BLOCK_BYTES - first / BLOCK_BYTES) as usize;
            if watch.blocks.len() <= block / 64 {
                watch.blocks.resize(block / 64 + 1, 0);
            }
            watch.blocks[block / 64] |= 1 << (block % 64);
        }
        watch
    }

    /// Whether something leads to `from..to`.
    pub fn is_hit_between(&self, from: u64, to: u64) -> bool {
        let first = self.addresses.partition_point(|address| *address < from);
        let last = self.addresses.partition_point(|address| *address < to);
        self.hit.get(first..last).is_some_and(|hits| hits.contains(&true))
    }

    fn mark(&mut self, address: u64) {
        if let Some(index) = self.index_of(address) {
            self.hit[index] = true;
        }
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        let first = self.addresses.first()? / BLOCK_BYTES;
        let block = (address / BLOCK_BYTES).wrapping_sub(first);
        let word = self.blocks.get(usize::try_from(block / 64).ok()?)?;
        if word & (1 << (block % 64)) == 0 {
            return None;
        }
        self.addresses.binary_search(&address).ok()
    }
}

/// Marks every watched address that something leads to.
pub(crate) fn mark(image: &Image<'_>, map: &mut CodeMap<'_, '_>, watch: &mut Watch) {
    if watch.addresses.is_empty() {
        return;
    }
    for address in &image.named {
        watch.mark(*address);
    }
    mark_near(map, watch);
    let flows = map.flows();
    for flow in &flows {
        for target in &flow.targets {
            watch.mark(*target);
        }
    }
    let mut tables = Vec::new();
    for region in &image.code {
        scan_code(image, region, &flows, watch, &mut tables);
    }
    tables.sort_unstable();
    tables.dedup();
    follow_tables(image, &tables, watch);
    for region in &image.loaded {
        scan_words(region, watch);
    }
}

/// Branches from the surroundings of each watched address.
fn mark_near(map: &mut CodeMap<'_, '_>, watch: &mut Watch) {
    let mut windows: Vec<(u64, u64)> = Vec::new();
    for address in &watch.addresses {
        let from = address.saturating_sub(SHORT_REACH_BYTES);
        let to = address + SHORT_REACH_BYTES;
        match windows.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => windows.push((from, to)),
        }
    }
    for (from, to) in windows {
        map.each_target(from, to, &mut |target| watch.mark(target));
    }
}

/// Takes the four bytes at every offset for a displacement that ends an
/// instruction, unless disassembly has already said what they are. That finds
/// calls, jumps and addresses taken, also in code that nothing describes. Bases
/// of possible jump tables are added to `tables`.
fn scan_code(
    image: &Image<'_>,
    region: &Region<'_>,
    flows: &[&Flow],
    watch: &mut Watch,
    tables: &mut Vec<u64>,
) {
    let mut hits = Vec::new();
    for (at, four) in region.bytes.windows(4).enumerate() {
        let value = i32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let place = region.address + at as u64;
        let target = (place + 4).wrapping_add_signed(i64::from(value));
        if watch.index_of(target).is_some() {
            hits.push((place, target));
        }
        if image.is_fixed && watch.index_of(u64::from(value as u32)).is_some() {
            watch.mark(u64::from(value as u32));
        }
        if at >= 3 && is_lea(&region.bytes[at - 3..at]) && starts_table(image, target) {
            tables.push(target);
        }
    }
    for (place, target) in hits {
        let after = flows.partition_point(|flow| flow.start <= place);
        let is_explained = flows[..after].last().is_some_and(|flow| place + 4 <= flow.end);
        if !is_explained {
            watch.mark(target);
        }
    }
}

/// `lea r64, [rip + disp32]` up to the displacement.
fn is_lea(bytes: &[u8]) -> bool {
    bytes[1] == 0x8d && bytes[0] & 0xf8 == 0x48 && bytes[2] & 0xc7 == 0x05
}

/// Whether a table of offsets into code, relative to itself, may begin here.
fn starts_table(image: &Image<'_>, base: u64) -> bool {
    base.is_multiple_of(4)
        && image.code_at(base).is_none()
        && image
            .loaded_at(base)
            .and_then(|region| entry(region, base, 0))
            .is_some_and(|target| image.code_at(target).is_some())
}

fn entry(region: &Region<'_>, base: u64, index: usize) -> Option<u64> {
    let at = (base - region.address) as usize + index * 4;
    let bytes = region.bytes.get(at..at + 4)?;
    Some(base.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))))
}

/// Marks the targets of jump tables, each read until an entry leaves the code.
fn follow_tables(image: &Image<'_>, tables: &[u64], watch: &mut Watch) {
    for (index, base) in tables.iter().enumerate() {
        let Some(region) = image.loaded_at(*base) else { continue };
        let next = tables.get(index + 1).map_or(u64::MAX, |next| *next);
        let own = usize::try_from((next - base) / 4).unwrap_or(usize::MAX);
        for index in 0..own.clamp(TABLE_ENTRIES_MIN, TABLE_ENTRIES_MAX) {
            match entry(region, *base, index) {
                Some(target) if image.code_at(target).is_some() => watch.mark(target),
                _ => break,
            }
        }
    }
}

/// Takes eight bytes at every fourth offset for an address: pointers in data,
/// addends of relocations, tables of absolute addresses, values of symbols.
fn scan_words(region: &Region<'_>, watch: &mut Watch) {
    for bytes in region.bytes.windows(8).step_by(4) {
        if let Ok(bytes) = bytes.try_into() {
            watch.mark(u64::from_le_bytes(bytes));
        }
    }
}
