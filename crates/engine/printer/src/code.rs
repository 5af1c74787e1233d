//! Writes bytecode.

use lane_protocol::bytecode::op;

/// The numbers that gdb gives to general registers, by DWARF's.
pub(crate) const GENERAL: [u16; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// A program in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Code {
    pub bytes: Vec<u8>,
    /// It reads vector registers, which only a trap saves.
    pub needs_vectors: bool,
}

impl Code {
    pub fn constant(value: u64) -> Code {
        let bytes = value.to_be_bytes();
        let mut code = match value {
            0..=0xff => vec![op::CONST8],
            0x100..=0xffff => vec![op::CONST16],
            0x1_0000..=0xffff_ffff => vec![op::CONST32],
            _ => vec![op::CONST64],
        };
        let length = 1usize << (code[0] - op::CONST8);
        code.extend_from_slice(&bytes[8 - length..]);
        Code { bytes: code, needs_vectors: false }
    }

    pub fn register(number: u16) -> Code {
        let [high, low] = number.to_be_bytes();
        Code { bytes: vec![op::REG, high, low], needs_vectors: false }
    }

    /// The lower 8 bytes of a vector register.
    pub fn vector(number: u8) -> Code {
        Code { bytes: vec![op::VECTOR, number], needs_vectors: true }
    }

    pub fn then(mut self, more: &[u8]) -> Code {
        self.bytes.extend_from_slice(more);
        self
    }

    pub fn and(mut self, other: &Code) -> Code {
        self.needs_vectors |= other.needs_vectors;
        self.then(&other.bytes)
    }

    /// The same plus a number.
    pub fn plus(self, value: u64) -> Code {
        if value == 0 { self } else { self.and(&Code::constant(value)).then(&[op::ADD]) }
    }

    /// What lies at the address, so many bytes.
    pub fn loaded(self, bytes: u64) -> Option<Code> {
        let load = match bytes {
            1 => op::REF8,
            2 => op::REF16,
            4 => op::REF32,
            8 => op::REF64,
            _ => return None,
        };
        Some(self.then(&[load]))
    }

    /// The lower bits, as a number with or without a sign.
    pub fn extended(self, bits: u64, signed: bool) -> Code {
        if bits >= 64 || bits == 0 {
            return self;
        }
        self.then(&[if signed { op::EXT } else { op::ZERO_EXT }, bits as u8])
    }

    pub fn record(self, bytes: u16) -> Code {
        let [high, low] = bytes.to_be_bytes();
        self.then(&[op::RECORD, high, low])
    }

    pub fn record_text(self, bytes: u16) -> Code {
        let [high, low] = bytes.to_be_bytes();
        self.then(&[op::RECORD_TEXT, high, low])
    }

    /// Records so many bytes, at most a number of them; `self` is their address.
    pub fn record_some(self, bytes: &Code, bytes_max: u16) -> Code {
        let [high, low] = bytes_max.to_be_bytes();
        self.and(bytes).then(&[op::RECORD_SOME, high, low])
    }

    /// Where the piece of an element lies, in its program.
    pub fn piece() -> Code {
        Code { bytes: vec![op::PIECE], needs_vectors: false }
    }

    /// Records a collection's elements, of which there are `most` at most: of each the pieces with
    /// these bytes, and what their programs record. On the stack is what the way needs.
    pub fn record_nodes(self, way: u8, most: u8, pieces: &[(u16, Code)]) -> Code {
        let mut code = self.then(&[op::RECORD_NODES, way, most, pieces.len() as u8]);
        for (bytes, program) in pieces {
            let length = program.bytes.len() as u16;
            code = code.then(&bytes.to_be_bytes()).then(&length.to_be_bytes()).and(program);
        }
        code
    }

    /// `self` times a number.
    pub fn times(self, value: u64) -> Code {
        if value == 1 { self } else { self.and(&Code::constant(value)).then(&[op::MUL]) }
    }

    /// `self`, a number with a sign, divided by another.
    pub fn divided_by(self, value: u64) -> Code {
        if value == 1 { self } else { self.and(&Code::constant(value)).then(&[op::DIV_SIGNED]) }
    }

    /// `self`, and if it is not 0 `yes`, else `no`.
    pub fn choose(self, yes: &Code, no: &Code) -> Code {
        let [high, low] = (yes.bytes.len() as u16 + 3).to_be_bytes();
        let [behind_high, behind_low] = (no.bytes.len() as u16).to_be_bytes();
        self.then(&[op::SKIP_UNLESS, high, low]).and(yes).then(&[op::SKIP, behind_high, behind_low]).and(no)
    }
}
