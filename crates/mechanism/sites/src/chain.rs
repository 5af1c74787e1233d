//! Which bytes are instructions: disassembly from the starts of functions, and
//! agreement of many starting points where no function is known.

use std::collections::{HashMap, HashSet};

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use crate::image::{Image, Region};

/// Longest instruction of the architecture, in bytes.
pub(crate) const INSTRUCTION_BYTES_MAX: u64 = 15;
/// So many starting points vote.
const VOTERS: u64 = 64;
/// They begin so far ahead of the place in question; the next distance is tried
/// where they do not agree.
const VOTERS_AHEAD_BYTES: [u64; 3] = [112, 256, 1024];
/// Starting points ahead of a window of code without a known function.
const LEAD_BYTES: u64 = 64;
/// Instructions of a chain that are kept: those that a jump may cover.
const CHAIN_INSTRUCTIONS_MAX: usize = 8;

/// A stretch of code without a known function start inside.
#[derive(Debug, Clone, Copy)]
struct Unit {
    start: u64,
    end: u64,
    /// A symbol or unwind entry describes it, so `start` is an instruction.
    is_known: bool,
}

/// A unit's disassembly.
pub(crate) struct Flow {
    pub start: u64,
    /// Where the first bytes stand that are no instruction; the unit's end if none.
    pub end: u64,
    /// Instruction starts relative to `start`, ascending.
    starts: Vec<u32>,
    /// Targets of direct branches and addresses taken, in no order.
    pub targets: Vec<u64>,
}

/// The instructions around a place.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// Starts, ascending and adjoining; the last instruction holds the place.
    pub starts: Vec<u64>,
    /// End of what may be taken for instructions behind the place.
    pub end: u64,
    /// It was decoded from a known function's start.
    pub is_known: bool,
}

/// What a place in the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A displacement or an immediate value of an instruction starts there.
    Field,
    /// Another part of an instruction, or no code.
    Elsewhere,
    /// Code that no known function explains.
    Unknown,
}

/// The file's code, disassembled where somebody asks.
pub(crate) struct CodeMap<'i, 'f> {
    pub image: &'i Image<'f>,
    /// Disjoint and ascending.
    units: Vec<Unit>,
    flows: HashMap<usize, Flow>,
}

impl<'i, 'f> CodeMap<'i, 'f> {
    pub fn new(image: &'i Image<'f>) -> CodeMap<'i, 'f> {
        CodeMap { image, units: units(image), flows: HashMap::new() }
    }

    /// The instructions up to the one that holds `address`, none in a symbol's
    /// data; `None` where it cannot be told which that is.
    pub fn chain_at(&mut self, address: u64) -> Option<Chain> {
        if self.image.is_object(address) {
            return Some(Chain { starts: Vec::new(), end: address, is_known: true });
        }
        let index = self.unit_index(address)?;
        let unit = self.units[index];
        let mut gap_start = unit.start;
        if unit.is_known {
            let flow = self.flow(index);
            if address < flow.end {
                return Some(flow.chain(address));
            }
            gap_start = flow.end;
        }
        let region = self.image.code_at(address)?;
        VOTERS_AHEAD_BYTES.iter().find_map(|ahead| vote(region, gap_start, unit.end, address, *ahead))
    }

    /// Disassembles `from..to`. Calls `mark` with the targets of all that no known
    /// function explains; the others are left to `each_known_target`.
    pub fn each_target(&mut self, from: u64, to: u64, mark: &mut dyn FnMut(u64)) {
        let first = self.units.partition_point(|unit| unit.end <= from);
        for index in first..self.units.len() {
            let unit = self.units[index];
            if unit.start >= to {
                break;
            }
            let mut gap_start = unit.start;
            if unit.is_known {
                // Its targets are marked once for all, by `each_known_target`.
                gap_start = self.flow(index).end;
            }
            let Some(region) = self.image.code_at(unit.start) else {
                continue;
            };
            let (low, high) = (gap_start.max(from), unit.end.min(to));
            if low < high {
                sweep(region, gap_start, low, high, mark);
            }
        }
    }

    /// Calls `mark` with the targets in all that was disassembled so far.
    pub fn each_known_target(&self, mark: &mut dyn FnMut(u64)) {
        for target in self.flows.values().flat_map(|flow| &flow.targets) {
            mark(*target);
        }
    }

    /// What the disassembly of the function around `address` says of it.
    pub fn place_in_code(&mut self, address: u64) -> Place {
        let image = self.image;
        let Some(index) = self.unit_index(address).filter(|index| self.units[*index].is_known) else {
            return if image.code_at(address).is_some() { Place::Unknown } else { Place::Elsewhere };
        };
        let flow = self.flow(index);
        if address >= flow.end {
            return Place::Unknown;
        }
        let chain = flow.chain(address);
        let is_field = chain.starts.last().is_some_and(|start| {
            image.code_at(*start).is_some_and(|region| has_field(region, *start, address))
        });
        if is_field { Place::Field } else { Place::Elsewhere }
    }

    fn unit_index(&self, address: u64) -> Option<usize> {
        let index = self.units.partition_point(|unit| unit.end <= address);
        self.units.get(index).filter(|unit| unit.start <= address).map(|_| index)
    }

    fn flow(&mut self, index: usize) -> &Flow {
        let (image, unit) = (self.image, self.units[index]);
        self.flows.entry(index).or_insert_with(|| {
            let bytes =
                image.code_at(unit.start).map_or(&[][..], |region| region.slice(unit.start, unit.end));
            Flow::decode(bytes, unit.start)
        })
    }
}

impl Flow {
    fn decode(bytes: &[u8], start: u64) -> Flow {
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut flow =
            Flow { start, end: start, starts: Vec::with_capacity(bytes.len() / 4), targets: vec![] };
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return flow;
            }
            flow.starts.push((instruction.ip() - start) as u32);
            flow.end = instruction.next_ip();
            flow.targets.extend(target(&instruction));
        }
        flow
    }

    /// `address` lies inside.
    fn chain(&self, address: u64) -> Chain {
        let behind = self.starts.partition_point(|start| self.start + u64::from(*start) <= address);
        let from = behind.saturating_sub(CHAIN_INSTRUCTIONS_MAX);
        let starts = self.starts[from..behind].iter().map(|start| self.start + u64::from(*start)).collect();
        Chain { starts, end: self.end, is_known: true }
    }
}

/// Where a direct branch goes, or the code address that an instruction takes.
fn target(instruction: &Instruction) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(instruction.near_branch64()),
        _ => None,
    }
}

/// Whether a displacement or an immediate of the instruction at `start` begins
/// at `place`.
fn has_field(region: &Region<'_>, start: u64, place: u64) -> bool {
    let bytes = region.slice(start, start + INSTRUCTION_BYTES_MAX);
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let offsets = decoder.get_constant_offsets(&instruction);
    let at = (place - start) as usize;
    (offsets.has_displacement() && offsets.displacement_offset() == at)
        || (offsets.has_immediate() && offsets.immediate_offset() == at)
}

/// Cuts the code at every function's start and at the end of what functions cover.
fn units(image: &Image<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut functions = image.functions.iter().peekable();
    for region in &image.code {
        let mut at = region.address;
        // How far the functions that started already reach.
        let mut covered = at;
        let mut close = |at: u64, covered: u64, next: u64| {
            let known = covered.clamp(at, next);
            if known > at {
                units.push(Unit { start: at, end: known, is_known: true });
            }
            if next > known {
                units.push(Unit { start: known, end: next, is_known: false });
            }
        };
        while let Some(function) = functions.next_if(|function| function.start < region.end()) {
            if function.start > at {
                close(at, covered, function.start);
                at = function.start;
            }
            covered = covered.max(function.end);
        }
        close(at, covered, region.end());
    }
    units
}

/// Decodes from many places ahead of `address`: real code falls into step within
/// a few instructions, so they agree; where they do not, nothing is known.
fn vote(region: &Region<'_>, gap_start: u64, gap_end: u64, address: u64, ahead: u64) -> Option<Chain> {
    let from = address.saturating_sub(ahead);
    // Only the beginning of a stretch that is too short is known to be a start.
    let voters = match (from <= gap_start, ahead == VOTERS_AHEAD_BYTES[0]) {
        (false, _) => from..from + VOTERS,
        (true, true) => gap_start..gap_start + 1,
        (true, false) => return None,
    };
    let wanted = ((voters.end - voters.start) / 4).max(1);
    let trails: Vec<Vec<u64>> = voters.filter_map(|start| trail(region, start, gap_end, address)).collect();
    let first = trails.first().filter(|_| trails.len() as u64 >= wanted)?;
    let agreed = trails
        .iter()
        .map(|other| first.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count())
        .min()?
        .min(CHAIN_INSTRUCTIONS_MAX);
    if agreed == 0 {
        return None;
    }
    let starts = first[first.len() - agreed..].to_vec();
    Some(Chain { starts, end: gap_end, is_known: false })
}

/// Instruction starts from `start` to the instruction that holds `address`.
fn trail(region: &Region<'_>, start: u64, end: u64, address: u64) -> Option<Vec<u64>> {
    let bytes = region.slice(start, end.min(address + INSTRUCTION_BYTES_MAX));
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut starts = Vec::new();
    while decoder.can_decode() && decoder.ip() <= address {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        starts.push(instruction.ip());
    }
    (decoder.ip() > address).then_some(starts)
}

/// Targets of every instruction of `low..high` that decoding reaches from any of
/// many starting points ahead.
fn sweep(region: &Region<'_>, gap_start: u64, low: u64, high: u64, mark: &mut dyn FnMut(u64)) {
    let from = low.saturating_sub(LEAD_BYTES).max(gap_start);
    let mut seen = HashSet::new();
    let mut instruction = Instruction::default();
    for start in from..(low + 1).max(from + INSTRUCTION_BYTES_MAX).min(high) {
        let bytes = region.slice(start, high + INSTRUCTION_BYTES_MAX);
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        while decoder.can_decode() && decoder.ip() < high && seen.insert(decoder.ip()) {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                break;
            }
            if let Some(target) = target(&instruction) {
                mark(target);
            }
        }
    }
}
