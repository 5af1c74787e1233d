//! The ways through collections whose elements are recorded. What a program has in its memory is
//! not trusted to be one: each way is bounded.

use lane_protocol::bytecode::way;

use crate::{Failure, Host, Machine};

/// Most nodes that are looked at between two elements.
const NODES_MAX: u32 = 128;
/// Most slots of a table that are looked at, and most nodes of a chain that are counted.
const SLOTS_MAX: u64 = 4096;
/// Most levels of a tree with many keys in each node.
const LEVELS_MAX: usize = 16;

const PARENT: u64 = 8;
const LEFT: u64 = 16;
const RIGHT: u64 = 24;

fn word(host: &mut impl Host, address: u64) -> Result<u64, Failure> {
    let mut value = [0; 8];
    match host.read(address, &mut value) {
        true => Ok(u64::from_le_bytes(value)),
        false => Err(Failure::Unreadable(address)),
    }
}

/// The node behind this one in a tree.
fn behind(host: &mut impl Host, node: u64) -> Result<u64, Failure> {
    let mut at = word(host, node.wrapping_add(RIGHT))?;
    let goes_down = at != 0;
    let mut from = node;
    if !goes_down {
        at = word(host, node.wrapping_add(PARENT))?;
    }
    for _ in 0..NODES_MAX {
        let next = match goes_down {
            true => word(host, at.wrapping_add(LEFT))?,
            false if word(host, at.wrapping_add(RIGHT))? == from => word(host, at.wrapping_add(PARENT))?,
            false => 0,
        };
        if next == 0 {
            break;
        }
        (from, at) = (at, next);
    }
    Ok(at)
}

/// Nodes of a chain, as far as they can be read.
fn chain_length(host: &mut impl Host, first: u64) -> u64 {
    let (mut count, mut node) = (0, first);
    while node != 0 && count < SLOTS_MAX {
        (count, node) = (count + 1, word(host, node).unwrap_or(0));
    }
    count
}

/// The place of this number in blocks of elements.
fn in_blocks(host: &mut impl Host, [blocks, each]: [u64; 2], at: u64, bytes: u64) -> Result<u64, Failure> {
    let (number, inside) = (at.checked_div(each), at.checked_rem(each));
    let (number, inside) = number.zip(inside).ok_or(Failure::DivisionByZero)?;
    let block = word(host, blocks.wrapping_add(number.wrapping_mul(8)))?;
    Ok(block.wrapping_add(inside.wrapping_mul(bytes)))
}

/// What is recorded of each element.
struct Record {
    /// Where the pieces' programs begin, and how many pieces there are.
    programs: usize,
    pieces: u64,
    count: u64,
    found: u64,
}

impl Record {
    fn is_done(&self) -> bool {
        self.found >= self.count
    }
}

impl Machine<'_> {
    /// Where the collection is none, a part that cannot be read stands in place of the next piece,
    /// and is the last one.
    pub(crate) fn record_nodes(&mut self, host: &mut impl Host) -> Result<(), Failure> {
        let (kind, most, pieces) = (self.operand(1)? as u8, self.operand(1)?, self.operand(1)?);
        let programs = self.at;
        let mut first_bytes = 0;
        for piece in 0..pieces {
            let bytes = self.operand(2)?;
            first_bytes = if piece == 0 { bytes } else { first_bytes };
            self.at += self.operand(2)? as usize;
        }
        let behind = self.at;
        let mut count = self.pop()?;
        if kind == way::CHAIN_TO_END {
            count = chain_length(host, self.stack[self.pick(1)?]);
        }
        host.record_value(count);
        let mut record = Record { programs, pieces, count: count.min(most), found: 0 };
        match self.go_through(host, &mut record, kind, first_bytes) {
            Err(Failure::Unreadable(address)) => host.record(address, 1),
            Err(Failure::DivisionByZero) => host.record(0, 1),
            other => other?,
        }
        self.at = behind;
        Ok(())
    }

    fn go_through(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        kind: u8,
        bytes: u64,
    ) -> Result<(), Failure> {
        match kind {
            way::CHAIN | way::CHAIN_TO_END | way::TREE => {
                let (skipped, first) = (self.pop()?, self.pop()?);
                self.follow(host, record, kind, first, skipped)
            }
            way::SLOTS => {
                let table = self.pop()?;
                self.record_slots(host, record, table, bytes)
            }
            way::BLOCKS => {
                let (passed, each, blocks) = (self.pop()?, self.pop()?, self.pop()?);
                while !record.is_done() {
                    let at = passed.wrapping_add(record.found);
                    let place = in_blocks(host, [blocks, each], at, bytes)?;
                    self.record_one(host, record, &[place])?;
                }
                Ok(())
            }
            way::RING => {
                let (head, room, memory) = (self.pop()?, self.pop()?, self.pop()?);
                while !record.is_done() {
                    let at = head.wrapping_add(record.found);
                    let at = if at >= room { at - room } else { at };
                    self.record_one(host, record, &[memory.wrapping_add(at.wrapping_mul(bytes))])?;
                }
                Ok(())
            }
            way::WIDE_TREE => self.record_wide_tree(host, record),
            way::GROUPS => self.record_directory(host, record, bytes),
            way::ONE => {
                let place = self.pop()?;
                if record.is_done() { Ok(()) } else { self.record_one(host, record, &[place]) }
            }
            _ => Err(Failure::BadProgram),
        }
    }

    /// Records the pieces of an element, and by their programs what these have elsewhere.
    fn record_one(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        places: &[u64],
    ) -> Result<(), Failure> {
        self.at = record.programs;
        for piece in 0..record.pieces {
            let place = *places.get(piece as usize).ok_or(Failure::BadProgram)?;
            let (bytes, length) = (self.operand(2)?, self.operand(2)?);
            for end in [place, place.wrapping_add(bytes.max(1) - 1)] {
                if !host.read(end, &mut [0]) {
                    return Err(Failure::Unreadable(end));
                }
            }
            host.record(place, bytes as u16);
            let end = self.at + length as usize;
            self.piece = Some(place);
            let outcome = self.run_until(end, host);
            self.piece = None;
            outcome?;
        }
        record.found += 1;
        Ok(())
    }

    /// Runs a program of a piece: it goes forward only.
    fn run_until(&mut self, end: usize, host: &mut impl Host) -> Result<(), Failure> {
        while self.at < end {
            let at = self.at;
            let instruction = *self.code.get(at).ok_or(Failure::BadProgram)?;
            self.at += 1;
            self.execute(instruction, host)?;
            if self.at <= at {
                return Err(Failure::BadProgram);
            }
        }
        Ok(())
    }

    fn follow(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        kind: u8,
        first: u64,
        skipped: u64,
    ) -> Result<(), Failure> {
        let mut node = first;
        while !record.is_done() {
            self.record_one(host, record, &[node.wrapping_add(skipped)])?;
            if !record.is_done() {
                node = if kind == way::TREE { behind(host, node)? } else { word(host, node)? };
            }
        }
        Ok(())
    }

    fn record_slots(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        table: u64,
        bytes: u64,
    ) -> Result<(), Failure> {
        for slot in 0..SLOTS_MAX {
            if record.is_done() {
                break;
            }
            if is_full(host, table.wrapping_add(slot))? {
                self.record_one(host, record, &[table.wrapping_sub((slot + 1).wrapping_mul(bytes))])?;
            }
        }
        Ok(())
    }

    /// The keys of the nodes below come before those that stand behind them. The way down is kept:
    /// each node, and the number of its next key.
    fn record_wide_tree(&mut self, host: &mut impl Host, record: &mut Record) -> Result<(), Failure> {
        let (below, number, values) = (self.pop()?, self.pop()?, self.pop()?);
        let (keys, height, root) = (self.pop()?, self.pop()?, self.pop()?);
        if record.is_done() {
            return Ok(());
        }
        let bytes = self.bytes_of_pieces(record)?;
        let mut way_down = [(0, 0); LEVELS_MAX];
        let mut level = 0;
        way_down[0] = (root, 0);
        let leaf =
            usize::try_from(height).ok().filter(|leaf| *leaf < LEVELS_MAX).ok_or(Failure::BadProgram)?;
        let mut is_new = true;
        for _ in 0..SLOTS_MAX {
            let (node, key) = way_down[level];
            if is_new && level < leaf {
                let next = word(host, node.wrapping_add(below).wrapping_add(key * 8))?;
                level += 1;
                way_down[level] = (next, 0);
                continue;
            }
            let keys_here = word(host, node.wrapping_add(number))? & 0xffff;
            if key < keys_here {
                let place = |offset: u64, bytes| node.wrapping_add(offset).wrapping_add(key * bytes);
                self.record_one(host, record, &[place(keys, bytes[0]), place(values, bytes[1])])?;
                way_down[level].1 += 1;
                is_new = true;
            } else if level > 0 {
                level -= 1;
                is_new = false;
            } else {
                break;
            }
            if record.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// Bytes of the first two pieces.
    fn bytes_of_pieces(&mut self, record: &Record) -> Result<[u64; 2], Failure> {
        let mut found = [0; 2];
        self.at = record.programs;
        for place in found.iter_mut().take(record.pieces as usize) {
            *place = self.operand(2)?;
            self.at += self.operand(2)? as usize;
        }
        Ok(found)
    }

    /// The tables of a directory: one that has several entries stands there several times in a row.
    fn record_directory(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        slot: u64,
    ) -> Result<(), Failure> {
        let (last, groups, slots) = (self.pop()?, self.pop()?, self.pop()?);
        let (bytes, length, directory) = (self.pop()?, self.pop()?, self.pop()?);
        if length == 0 && !record.is_done() {
            return self.record_group(host, record, directory, [slots, slot]);
        }
        let (mut before, mut looked_at) = (0, 0);
        for number in 0..length.min(SLOTS_MAX) {
            if record.is_done() {
                break;
            }
            let table = word(host, directory.wrapping_add(number * 8))?;
            if core::mem::replace(&mut before, table) == table {
                continue;
            }
            let first = word(host, table.wrapping_add(groups))?;
            for group in 0..=word(host, table.wrapping_add(last))? {
                looked_at += 1;
                if record.is_done() || looked_at > SLOTS_MAX {
                    break;
                }
                let group = first.wrapping_add(group.wrapping_mul(bytes));
                self.record_group(host, record, group, [slots, slot])?;
            }
        }
        Ok(())
    }

    fn record_group(
        &mut self,
        host: &mut impl Host,
        record: &mut Record,
        group: u64,
        [slots, slot]: [u64; 2],
    ) -> Result<(), Failure> {
        for number in 0..8 {
            if !record.is_done() && is_full(host, group.wrapping_add(number))? {
                let place = group.wrapping_add(slots).wrapping_add(number * slot);
                self.record_one(host, record, &[place])?;
            }
        }
        Ok(())
    }
}

/// True if the byte says that its slot has an element.
fn is_full(host: &mut impl Host, address: u64) -> Result<bool, Failure> {
    const IS_EMPTY: u8 = 0x80;
    let mut mark = [0];
    match host.read(address, &mut mark) {
        true => Ok(mark[0] & IS_EMPTY == 0),
        false => Err(Failure::Unreadable(address)),
    }
}
