//! What a program recorded, part by part.

use lane_protocol::bytecode::{failure, part};

/// The parts of one program of a record.
pub(crate) struct Parts<'a> {
    data: &'a [u8],
}

/// A part of a record.
pub(crate) enum Part<'a> {
    Data(&'a [u8]),
    Missing(String),
    End,
}

impl<'a> Parts<'a> {
    pub fn new(data: &'a [u8]) -> Parts<'a> {
        Parts { data }
    }

    pub fn next(&mut self) -> Part<'a> {
        let Some((word, rest)) = self.data.split_first_chunk::<4>() else { return Part::End };
        let word = u32::from_le_bytes(*word);
        let bytes = (word & part::BYTES_MASK) as usize;
        let Some((data, behind)) = rest.split_at_checked(bytes) else { return Part::End };
        self.data = behind;
        let number = || data.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match word >> part::KIND_SHIFT {
            part::DATA => Part::Data(data),
            part::UNREADABLE => Part::Missing(format!("cannot read memory at {:#x}", number())),
            part::FAILED => Part::Missing(
                match number() {
                    failure::DIVISION_BY_ZERO => "division by zero",
                    failure::NO_REGISTER => "its register was not recorded",
                    _ => "cannot be evaluated",
                }
                .to_owned(),
            ),
            _ => Part::End,
        }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.data
    }

    /// Skips what is left of a program.
    pub fn finish(&mut self) {
        while !matches!(self.next(), Part::End) && !self.data.is_empty() {}
    }
}
