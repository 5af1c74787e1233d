//! The client's breakpoints and watched places.

use std::collections::{BTreeMap, BTreeSet};

use lane_protocol::bytecode::{PROGRAMS_END, breakpoint_kind};
use timeline::{Stops, Watch, watch_kind};

use crate::packet::{number, unhex};

/// What the client has inserted.
#[derive(Default)]
pub struct Inserted {
    /// Each with its block of programs, if it has conditions.
    breakpoints: BTreeMap<u64, Option<Vec<u8>>>,
    /// Kind, address, length.
    watched: BTreeSet<(u8, u64, u64)>,
    calls: [u64; timeline::CALL_WORDS],
    /// As [`Stops`] has them.
    pub signals: u64,
    /// They are not stopped at meanwhile.
    pub ignores_signals: bool,
}

/// Most bytes of one watched place.
const WATCHED_BYTES_MAX: u64 = 256;

impl Inserted {
    /// Inserts, or removes, what a packet names; false if there is no such kind.
    /// `conditions` is what follows the place in the packet.
    pub fn change(&mut self, insert: bool, kind: u8, address: u64, bytes: u64, conditions: &str) -> bool {
        match kind {
            b'0' | b'1' => {
                if insert {
                    self.breakpoints.insert(address, block(conditions));
                } else {
                    self.breakpoints.remove(&address);
                }
                true
            }
            b'2'..=b'4' if (1..=WATCHED_BYTES_MAX).contains(&bytes) => {
                let place = (kind, address, bytes);
                if insert {
                    self.watched.insert(place);
                } else {
                    self.watched.remove(&place);
                }
                true
            }
            _ => false,
        }
    }

    /// `QCatchSyscalls:` 0, or 1 and the numbers of system calls; none: all. False if it
    /// is not that.
    pub fn catch_calls(&mut self, text: &str) -> bool {
        let mut calls = [0; timeline::CALL_WORDS];
        let mut parts = text.split(';');
        match parts.next() {
            Some("0") => {}
            Some("1") if text == "1" => calls = [u64::MAX; timeline::CALL_WORDS],
            Some("1") => {
                for part in parts {
                    let Some(number) = crate::packet::number(part) else { return false };
                    let Some(word) = calls.get_mut((number / 64) as usize) else { return false };
                    *word |= 1 << (number % 64);
                }
            }
            _ => return false,
        }
        self.calls = calls;
        true
    }

    /// What the timeline stops at.
    pub fn stops(&self) -> Stops {
        let watches = self.watched.iter().flat_map(|&(kind, address, bytes)| pieces(kind, address, bytes));
        let conditions = self.breakpoints.iter();
        let programs = conditions.filter_map(|(address, block)| Some((*address, block.clone()?)));
        Stops {
            breakpoints: self.breakpoints.keys().copied().collect(),
            programs: programs.collect(),
            watches: watches.collect(),
            calls: self.calls,
            signals: if self.ignores_signals { 0 } else { self.signals },
        }
    }

    /// How a stop reply names the watched place of this index.
    pub fn watched(&self, index: usize) -> Option<(&'static str, u64)> {
        let piece = *self.stops().watches.get(index)?;
        let inside = |&&(kind, address, bytes): &&(u8, u64, u64)| {
            watch_kind_of(kind) == piece.kind && (address..address + bytes).contains(&piece.address)
        };
        let &(kind, address, _) = self.watched.iter().find(inside)?;
        Some((
            if kind == b'2' {
                "watch"
            } else if kind == b'3' {
                "rwatch"
            } else {
                "awatch"
            },
            address,
        ))
    }
}

/// The block of programs of conditions in a packet, `;X` with a length, a comma and as
/// many bytes, one behind the other. `None`: there are none, or something else, or too
/// much: then the client decides.
fn block(conditions: &str) -> Option<Vec<u8>> {
    const BLOCK_BYTES_MAX: usize = 4096;
    let mut block = vec![breakpoint_kind::STOPS_IF];
    let mut rest = conditions.strip_prefix(';')?;
    while let Some(behind) = rest.strip_prefix('X') {
        let (length, behind) = behind.split_once(',')?;
        let length = usize::try_from(number(length)?).ok().filter(|length| *length < BLOCK_BYTES_MAX)?;
        let code = unhex(behind.get(..2 * length)?)?;
        block.extend_from_slice(&(code.len() as u16).to_be_bytes());
        block.extend_from_slice(&code);
        rest = behind.get(2 * length..)?.trim_start_matches(';');
    }
    block.extend_from_slice(&PROGRAMS_END.to_be_bytes());
    (rest.is_empty() && (4..=BLOCK_BYTES_MAX).contains(&block.len())).then_some(block)
}

fn watch_kind_of(kind: u8) -> u32 {
    match kind {
        b'2' => watch_kind::WRITE,
        b'3' => watch_kind::READ,
        _ => watch_kind::ACCESS,
    }
}

/// A place as parts that the processor can watch: aligned, of 1, 2, 4 or 8 bytes.
fn pieces(kind: u8, address: u64, bytes: u64) -> Vec<Watch> {
    let mut found = Vec::new();
    let (mut at, end) = (address, address.saturating_add(bytes));
    while at < end {
        let size =
            [8, 4, 2, 1].into_iter().find(|&size| at.is_multiple_of(size) && at + size <= end).unwrap_or(1);
        found.push(Watch { address: at, bytes: size as u32, kind: watch_kind_of(kind) });
        at += size;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_caught_by_their_numbers() {
        let mut inserted = Inserted::default();
        assert!(inserted.catch_calls("1;1;e7"));
        assert_eq!(inserted.stops().calls[..4], [2, 0, 0, 1 << (0xe7 - 192)]);
        assert!(inserted.stops().catches(2) && !inserted.stops().catches(1) && !inserted.stops().catches(0));
        assert!(!inserted.catch_calls("1;200") && !inserted.catch_calls("2") && !inserted.catch_calls("1;x"));
        assert!(inserted.catch_calls("1") && inserted.stops().catches(100));
        assert!(inserted.catch_calls("0") && inserted.stops().is_empty());
    }

    #[test]
    fn conditions_become_programs() {
        assert_eq!(block(";X2,2201"), Some(vec![0, 0, 2, 0x22, 1, 0xff, 0xff]));
        assert_eq!(block(";X1,27;X1,27"), Some(vec![0, 0, 1, 0x27, 0, 1, 0x27, 0xff, 0xff]));
        for bad in ["", ";", ";X", ";X9,22", ";X1,zz", ";Xffffffffffffffff,00", ";X1,27;cmds:0,X1,27"] {
            assert_eq!(block(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_place_is_cut_at_its_alignment() {
        let sizes =
            |address, bytes| pieces(b'2', address, bytes).iter().map(|piece| piece.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(0x1000, 8), [8]);
        assert_eq!(sizes(0x1003, 8), [1, 4, 2, 1]);
        assert_eq!(sizes(0x1004, 12), [4, 8]);
    }
}
