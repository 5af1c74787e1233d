//! Where code leads: the ways from instruction to instruction, as far as the code itself says.

use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// One instruction, and where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ways {
    pub at: u64,
    /// The instruction behind it, if it may lead there; that of a call once it has returned.
    pub next: Option<u64>,
    /// Where it jumps to, or what it calls.
    pub target: Option<u64>,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Call,
    /// A call, and only the program knows of what.
    OpenCall,
    /// A jump, and only the program knows to where.
    OpenJump,
    Return,
}

impl Ways {
    /// Where the same function goes on.
    pub fn inside(&self) -> impl Iterator<Item = u64> {
        let target = self.target.filter(|_| self.kind == Kind::Plain);
        self.next.into_iter().chain(target)
    }

    /// True if the code does not say where it leads at once.
    pub fn is_open(&self) -> bool {
        !matches!(self.kind, Kind::Plain | Kind::Call)
    }
}

/// The ways of a straight piece of code that begins at `start`; `None` if it is not code from its
/// beginning to its end.
pub(crate) fn ways(code: &[u8], start: u64) -> Option<Vec<Ways>> {
    const BITS: u32 = 64;
    let mut decoder = Decoder::with_ip(BITS, code, start, DecoderOptions::NONE);
    let mut found = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let behind = Some(instruction.next_ip());
        let target = Some(instruction.near_branch_target());
        let (next, target, kind) = match instruction.flow_control() {
            FlowControl::Next | FlowControl::Interrupt => (behind, None, Kind::Plain),
            FlowControl::UnconditionalBranch => (None, target, Kind::Plain),
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => (behind, target, Kind::Plain),
            FlowControl::Call => (behind, target, Kind::Call),
            FlowControl::IndirectCall => (behind, None, Kind::OpenCall),
            FlowControl::IndirectBranch => (None, None, Kind::OpenJump),
            FlowControl::Return => (None, None, Kind::Return),
            FlowControl::Exception => (None, None, Kind::Plain),
        };
        found.push(Ways { at: instruction.ip(), next, target, kind });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_those_that_the_code_says() {
        // jl +2; nop; nop; call +0; ret
        let code = [0x7c, 2, 0x90, 0x90, 0xe8, 0, 0, 0, 0, 0xc3];
        let found = ways(&code, 0x1000).unwrap_or_default();
        assert_eq!(found[0].inside().collect::<Vec<_>>(), [0x1002, 0x1004]);
        assert_eq!(found[3], Ways { at: 0x1004, next: Some(0x1009), target: Some(0x1009), kind: Kind::Call });
        assert_eq!(found[3].inside().collect::<Vec<_>>(), [0x1009]);
        assert!(found[4].is_open() && found[4].inside().next().is_none());
        // Half an instruction.
        assert_eq!(ways(&code[..6], 0x1000), None);
    }
}
