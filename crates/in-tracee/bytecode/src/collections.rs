//! The ways through collections whose elements are recorded. What a program has in its memory is
//! not trusted to be one: each way is bounded.

use lane_protocol::bytecode::way;

use crate::{Failure, Host, Machine};

/// Most nodes that are looked at between two elements.
const NODES_MAX: u32 = 128;
/// Most slots of a table that are looked at.
const SLOTS_MAX: u64 = 4096;

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

impl Machine<'_> {
    pub(crate) fn record_nodes(&mut self, host: &mut impl Host) -> Result<(), Failure> {
        let (kind, skipped) = (self.operand(1)? as u8, self.operand(1)?);
        let (bytes, most) = (self.operand(2)?, self.operand(1)?);
        let (count, first) = (self.pop()?.min(most), self.pop()?);
        match kind {
            way::CHAIN | way::TREE => {
                let mut node = first;
                for number in 0..count {
                    host.record(node.wrapping_add(skipped), bytes as u16);
                    if number + 1 < count {
                        node = if kind == way::TREE { behind(host, node)? } else { word(host, node)? };
                    }
                }
                Ok(())
            }
            way::SLOTS => record_slots(host, first, bytes, count),
            _ => Err(Failure::BadProgram),
        }
    }
}

fn record_slots(host: &mut impl Host, table: u64, bytes: u64, count: u64) -> Result<(), Failure> {
    const IS_EMPTY: u8 = 0x80;
    let mut found = 0;
    for slot in 0..SLOTS_MAX {
        if found == count {
            return Ok(());
        }
        let (mut mark, address) = ([0], table.wrapping_add(slot));
        if !host.read(address, &mut mark) {
            return Err(Failure::Unreadable(address));
        }
        if mark[0] & IS_EMPTY == 0 {
            host.record(table.wrapping_sub((slot + 1).wrapping_mul(bytes)), bytes as u16);
            found += 1;
        }
    }
    Ok(())
}
