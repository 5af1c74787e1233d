//! Instructions whose copies have other bytes, because they are somewhere else.

use iced_x86::Register;

use crate::engine::Engine;
use crate::instruction::Decoded;
use crate::memory::RCX;

impl Engine {
    /// Pushes a constant.
    pub(crate) fn push(&mut self, value: u64) {
        match i32::try_from(value) {
            Ok(short) => {
                self.hot.bytes(&[0x68]);
                self.hot.bytes(&short.to_le_bytes());
            }
            Err(_) => {
                let place = self.cold.at;
                self.cold.word(value);
                self.hot.push_from(place);
            }
        }
    }

    /// Writes `mov rcx, TARGET` for the operand of an indirect jump or call; rcx is
    /// kept, and its value still there.
    pub(crate) fn load_target(&mut self, decoded: &Decoded, executed: i32) {
        let instruction = &decoded.instruction;
        if instruction.is_ip_rel_memory_operand() {
            self.hot.constant(RCX, instruction.ip_rel_memory_address());
            self.place(decoded.rip(), executed, 1 << RCX);
            // mov rcx, [rcx]
            let prefix: &[u8] = if instruction.segment_prefix() == Register::FS { &[0x64] } else { &[] };
            self.hot.bytes(prefix);
            self.hot.bytes(&[0x48, 0x8b, 0x09]);
            return;
        }
        let mut rex = 0x48;
        let mut at = 0;
        let code = decoded.bytes();
        loop {
            match code[at] {
                // Prefixes that say what the address is.
                prefix @ (0x64 | 0x65 | 0x67) => self.hot.bytes(&[prefix]),
                byte @ 0x40..=0x4f => rex |= byte & 3,
                0xff => break,
                _ => {}
            }
            at += 1;
        }
        self.hot.bytes(&[rex, 0x8b, code[at + 1] & 0xc7 | RCX << 3]);
        self.hot.bytes(&code[at + 2..]);
    }
}

/// The instruction with a register as the base of its relative operand: the code and
/// its length.
pub fn with_base(decoded: &Decoded, register: u8) -> ([u8; 16], usize) {
    let mut code = [0u8; 16];
    let source = decoded.bytes();
    let displacement = usize::from(decoded.displacement_at);
    let mode = displacement - 1;
    code[..mode].copy_from_slice(&source[..mode]);
    let is_prefix = |byte: &u8| {
        matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0xf0 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65)
    };
    let first = source.iter().take_while(|byte| is_prefix(byte)).count();
    // The bit that would make the base one of the upper eight registers.
    match source[first] {
        0x40..=0x4f => code[first] &= !1,
        0xc4 | 0x62 => code[first + 1] |= 0x20,
        0x8f if mode > first + 1 => code[first + 1] |= 0x20,
        _ => {}
    }
    code[mode] = source[mode] & 0x38 | register;
    let rest = &source[displacement + 4..];
    code[displacement..displacement + rest.len()].copy_from_slice(rest);
    (code, displacement + rest.len())
}
