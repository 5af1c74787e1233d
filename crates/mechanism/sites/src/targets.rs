//! Whether anything can jump to a covered byte.
//!
//! Branches that disassembly shows are checked against every covered byte, for
//! some jump behind a prefix. All other readings of the file that could yield an
//! address are checked against the starts of covered instructions; a false hit
//! costs a recipe, a missed one would break a program.

use crate::chain::{CodeMap, Place};
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
    /// Whether an instruction starts there.
    is_start: Vec<bool>,
    hit: Vec<bool>,
    /// A bit for each block from the first address on that holds any.
    blocks: Vec<u64>,
}

impl Watch {
    /// Watches the sites, what leads to them and what their covers close.
    pub fn new<'s>(sites: impl Iterator<Item = (&'s Site, &'s Vec<Cover>)>) -> Watch {
        let mut addresses = Vec::new();
        let mut starts = Vec::new();
        for (site, covers) in sites {
            for cover in covers {
                addresses.extend(cover.start + 1..cover.closed_end);
                starts.extend(&cover.inner_starts);
                starts.extend(site.starts_behind(cover.start));
            }
        }
        Watch::of(addresses, starts)
    }

    /// Watches these addresses; instructions begin at `starts`.
    pub fn of(mut addresses: Vec<u64>, mut starts: Vec<u64>) -> Watch {
        starts.sort_unstable();
        addresses.extend(&starts);
        addresses.sort_unstable();
        addresses.dedup();
        let is_start = addresses.iter().map(|address| starts.binary_search(address).is_ok()).collect();
        let first = addresses.first().copied().unwrap_or(0);
        let mut watch = Watch { hit: vec![false; addresses.len()], blocks: Vec::new(), is_start, addresses };
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

    fn mark_start(&mut self, address: u64) {
        if let Some(index) = self.index_of(address) {
            self.hit[index] |= self.is_start[index];
        }
    }

    fn has_start(&self, address: u64) -> bool {
        self.index_of(address).is_some_and(|index| self.is_start[index])
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

/// How bytes were read as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A displacement of four bytes that ends an instruction.
    Relative,
    /// Four or eight bytes that are the address.
    Absolute,
}

/// Bytes that read as a watched address.
#[derive(Debug, Clone, Copy)]
struct Hit {
    place: u64,
    target: u64,
    form: Form,
}

/// Marks every watched address that something leads to.
pub(crate) fn mark(image: &Image<'_>, map: &mut CodeMap<'_, '_>, watch: &mut Watch) {
    if watch.addresses.is_empty() {
        return;
    }
    for address in &image.named {
        watch.mark_start(*address);
    }
    mark_near(map, watch);
    let (mut hits, mut tables) = (Vec::new(), Vec::new());
    for region in &image.code {
        scan_code(image, region, watch, &mut hits, &mut tables);
    }
    for region in &image.loaded {
        scan_data(image, region, watch, &mut hits);
    }
    for hit in hits {
        if is_genuine(image, map, &hit) {
            watch.mark_start(hit.target);
        }
    }
    map.each_known_target(&mut |target| watch.mark(target));
    tables.sort_unstable();
    tables.dedup();
    follow_tables(image, &tables, watch);
}

/// Whether the bytes are what they were read as. Displacements in code that can
/// be disassembled are left to the disassembly, which this causes.
fn is_genuine(image: &Image<'_>, map: &mut CodeMap<'_, '_>, hit: &Hit) -> bool {
    let is_code = image.code_at(hit.place).is_some();
    match (hit.form, map.place_in_code(hit.place)) {
        (Form::Relative, Place::Unknown) => is_behind_opcode(image, hit.place),
        (Form::Relative, Place::Field | Place::Elsewhere) => false,
        (Form::Absolute, Place::Elsewhere) => !is_code,
        (Form::Absolute, Place::Unknown | Place::Field) => true,
    }
}

/// Whether the bytes ahead may be those of an instruction that a displacement
/// ends: a call, a jump, the start of a transaction, or an address taken.
fn is_behind_opcode(image: &Image<'_>, place: u64) -> bool {
    let Some(region) = image.code_at(place) else {
        return false;
    };
    match region.slice(place.saturating_sub(2), place) {
        [0x0f, 0x80..=0x8f] | [0xc7, 0xf8] => true,
        [0x8d, modrm] => modrm & 0xc7 == 0x05,
        [.., last] => matches!(last, 0xe8 | 0xe9),
        [] => false,
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

/// Takes the four bytes at every offset for a displacement, and for an address
/// where the file has fixed ones. That finds calls, jumps and addresses taken,
/// also in code that nothing describes. Bases of possible jump tables are added
/// to `tables`.
fn scan_code(
    image: &Image<'_>,
    region: &Region<'_>,
    watch: &Watch,
    hits: &mut Vec<Hit>,
    tables: &mut Vec<u64>,
) {
    for (at, four) in region.bytes.windows(4).enumerate() {
        let value = i32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let place = region.address + at as u64;
        let target = (place + 4).wrapping_add_signed(i64::from(value));
        if watch.has_start(target) {
            hits.push(Hit { place, target, form: Form::Relative });
        }
        let address = u64::from(value as u32);
        if image.is_fixed && watch.has_start(address) {
            hits.push(Hit { place, target: address, form: Form::Absolute });
        }
        if at >= 3 && is_lea(&region.bytes[at - 3..at]) && starts_table(image, target) {
            tables.push(target);
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
        let Some(region) = image.loaded_at(*base) else {
            continue;
        };
        let next = tables.get(index + 1).map_or(u64::MAX, |next| *next);
        let own = usize::try_from((next - base) / 4).unwrap_or(usize::MAX);
        for index in 0..own.clamp(TABLE_ENTRIES_MIN, TABLE_ENTRIES_MAX) {
            match entry(region, *base, index) {
                Some(target) if image.code_at(target).is_some() => watch.mark_start(target),
                _ => break,
            }
        }
    }
}

/// Takes aligned words of eight bytes for addresses, and of four where the file
/// has fixed ones: pointers, addends of relocations, values of symbols, tables.
fn scan_data(image: &Image<'_>, region: &Region<'_>, watch: &Watch, hits: &mut Vec<Hit>) {
    let skip = (region.address.wrapping_neg() % 8) as usize;
    let bytes = region.bytes.get(skip..).unwrap_or_default();
    let start = region.address + skip as u64;
    let mut check = |at: usize, target: u64| {
        if watch.has_start(target) {
            hits.push(Hit { place: start + at as u64, target, form: Form::Absolute });
        }
    };
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        check(index * 8, word);
        if image.is_fixed {
            check(index * 8, word & u64::from(u32::MAX));
            check(index * 8 + 4, word >> 32);
        }
    }
}
