//! The branch at the end of a loop that waits (see the recipes of `sites`): where it leads, and whether it
//! is taken. Only rounds that go on are passes.

use lane_protocol::site_kind;

use crate::state::patched_code::Site;

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

impl Site {
    /// The branch that stands there, if one does.
    pub fn branch(&self) -> Option<Branch> {
        let [opcode, distance] = [self.own[0], self.own[1]];
        let is_branch = matches!(opcode, FIRST_CONDITION..=0x7f | JMP);
        let target = (self.address + 2).wrapping_add_signed(i64::from(distance as i8));
        (self.kind == site_kind::IDLE_LOOP && is_branch).then_some(Branch { opcode, target })
    }

    /// Where the program goes on with these flags; `None`: a branch that stands there is not taken.
    pub fn next_round(&self, flags: u64) -> Option<u64> {
        match self.branch() {
            Some(branch) => branch.is_taken(flags).then_some(branch.target),
            None => Some(self.behind()),
        }
    }
}

impl Branch {
    /// The first byte of one that is taken where this one is not; `None`: it always is.
    pub fn not_taken(self) -> Option<u8> {
        (self.opcode != JMP).then_some(self.opcode ^ 1)
    }

    fn is_taken(self, flags: u64) -> bool {
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
