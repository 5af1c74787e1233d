//! Branches of two bytes: where they lead, and whether they are taken.

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// A branch of two bytes.
#[derive(Clone, Copy)]
pub struct Branch {
    opcode: u8,
    /// Where it leads.
    pub target: u64,
}

const JMP: u8 = 0xeb;
const FIRST_CONDITION: u8 = 0x70;

impl Branch {
    /// The one that begins with these bytes at the address, if one does.
    pub fn of(address: u64, [opcode, distance]: [u8; 2]) -> Option<Branch> {
        let target = address.wrapping_add(2).wrapping_add_signed(i64::from(distance as i8));
        matches!(opcode, FIRST_CONDITION..=0x7f | JMP).then_some(Branch { opcode, target })
    }

    /// The first byte of one that is taken where this one is not; `None`: it always is.
    pub fn not_taken(self) -> Option<u8> {
        (self.opcode != JMP).then_some(self.opcode ^ 1)
    }

    /// True with these flags.
    pub fn is_taken(self, flags: u64) -> bool {
        let is_set = |bits: u64| flags & bits != 0;
        let is_less = is_set(SIGN) != is_set(OVERFLOW);
        if self.opcode == JMP {
            return true;
        }
        let holds = match (self.opcode - FIRST_CONDITION) >> 1 {
            0 => is_set(OVERFLOW),
            1 => is_set(CARRY),
            2 => is_set(ZERO),
            3 => is_set(CARRY | ZERO),
            4 => is_set(SIGN),
            5 => is_set(PARITY),
            6 => is_less,
            _ => is_set(ZERO) || is_less,
        };
        // The odd ones are the others' opposites.
        holds != (self.opcode & 1 != 0)
    }
}
