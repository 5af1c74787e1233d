//! The few instructions that the engine writes itself. None of them changes the
//! program's flags, but for [`Writer::count_by_subtraction`].

use crate::memory::{
    CONTEXT_COUNTER, CONTEXT_EXIT, CONTEXT_JUMP, RCX, RDX, TARGET_TABLE, WATCH_TABLE, Writer, slot,
};

/// A memory operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub base: Option<u8>,
    /// Register and the logarithm of its scale.
    pub index: Option<(u8, u8)>,
    pub displacement: i32,
}

impl Writer {
    /// `mov [context + field], register`
    pub fn store(&mut self, register: u8, field: u32) {
        self.bytes(&[0x48 | (register >> 3) << 2, 0x89, 0x05 | (register & 7) << 3]);
        self.distance(field, 0);
    }

    /// `mov register, [context + field]`
    pub fn load(&mut self, register: u8, field: u32) {
        self.bytes(&[0x48 | (register >> 3) << 2, 0x8b, 0x05 | (register & 7) << 3]);
        self.distance(field, 0);
    }

    /// Keeps a register's value in its slot.
    pub fn keep(&mut self, register: u8) {
        self.store(register, slot(register));
    }

    pub fn give_back(&mut self, register: u8) {
        self.load(register, slot(register));
    }

    /// `mov register, value`
    pub fn constant(&mut self, register: u8, value: u64) {
        if let Ok(short) = u32::try_from(value) {
            if register >= 8 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xb8 | register & 7]);
            self.bytes(&short.to_le_bytes());
        } else {
            self.bytes(&[0x48 | register >> 3, 0xb8 | register & 7]);
            self.word(value);
        }
    }

    /// `mov qword [context + field], number`
    pub fn note(&mut self, field: u32, number: u32) {
        self.bytes(&[0x48, 0xc7, 0x05]);
        self.distance(field, 4);
        self.bytes(&number.to_le_bytes());
    }

    /// `lea rdx, [rip + ...]; mov [context + field], rdx`
    pub fn note_place(&mut self, field: u32, place: u32) {
        self.bytes(&[0x48, 0x8d, 0x15]);
        self.distance(place, 0);
        self.store(RDX, field);
    }

    /// `jmp`
    pub fn jump(&mut self, to: u32) {
        self.bytes(&[0xe9]);
        self.distance(to, 0);
    }

    /// `jcc`
    pub fn branch(&mut self, condition: u8, to: u32) {
        self.bytes(&[0x0f, 0x80 | condition]);
        self.distance(to, 0);
    }

    /// `mov dword [exit], number`
    pub fn note_exit(&mut self, number: u32) {
        self.bytes(&[0xc7, 0x05]);
        self.distance(CONTEXT_EXIT, 4);
        self.bytes(&number.to_le_bytes());
    }

    /// The same of the exit that tells of an indirect jump.
    pub fn note_jump(&mut self, number: u32) {
        self.bytes(&[0xc7, 0x05]);
        self.distance(CONTEXT_JUMP, 4);
        self.bytes(&number.to_le_bytes());
    }

    /// `push [place]`
    pub fn push_from(&mut self, place: u32) {
        self.bytes(&[0xff, 0x35]);
        self.distance(place, 0);
    }

    /// `lea register, [operand]`
    pub fn address(&mut self, register: u8, operand: &Operand) {
        let index = operand.index.map_or(4, |(index, _)| index);
        let base = operand.base.unwrap_or(5);
        let scale = operand.index.map_or(0, |(_, scale)| scale);
        let rex = 0x48
            | (register >> 3) << 2
            | (index >> 3) << 1
            | if operand.base.is_some() { base >> 3 } else { 0 };
        let mode = if operand.base.is_some() { 0x84 } else { 0x04 };
        self.bytes(&[rex, 0x8d, mode | (register & 7) << 3, scale << 6 | (index & 7) << 3 | base & 7]);
        self.bytes(&operand.displacement.to_le_bytes());
    }

    /// `sub qword [counter], amount; js`, which changes the flags.
    pub fn count_by_subtraction(&mut self, amount: u8, limit: u32) {
        self.bytes(&[0x48, 0x83, 0x2d]);
        self.distance(CONTEXT_COUNTER, 1);
        self.bytes(&[amount]);
        self.branch(8, limit);
    }

    /// The same by `lea` in rcx, which is lost; goes to `limit` with rcx lost.
    pub fn count_by_address(&mut self, amount: u8, limit: u32) {
        self.load(RCX, CONTEXT_COUNTER);
        self.address(RCX, &Operand { base: Some(RCX), index: None, displacement: -i32::from(amount) });
        self.store(RCX, CONTEXT_COUNTER);
        // The highest byte is zero unless the counter is negative.
        self.bytes(&[0x0f, 0xb6, 0x0d]);
        self.distance(CONTEXT_COUNTER + 7, 0);
        self.jump_unless_zero(limit);
    }

    /// Goes to the offset unless rcx is zero.
    pub fn jump_unless_zero(&mut self, to: u32) {
        self.bytes(&[0xe3, 5]);
        self.jump(to);
    }

    /// Jumps to where the table of targets says for the address in rcx; rdx is kept
    /// here, rcx before.
    pub fn jump_by_table(&mut self, base: u64) {
        self.keep(RDX);
        self.constant(RDX, (base + u64::from(TARGET_TABLE)) / 8);
        // mov dx, cx; jmp [rdx * 8]
        self.bytes(&[0x66, 0x89, 0xca, 0xff, 0x24, 0xd5, 0, 0, 0, 0]);
    }

    /// Looks the address in rcx up in the table of what is watched: rcx becomes
    /// zero if it is not. rdx is lost.
    pub fn look_up_watch(&mut self, base: u64) {
        self.constant(RDX, base + u64::from(WATCH_TABLE));
        // mov dx, cx; movzx ecx, byte [rdx]
        self.bytes(&[0x66, 0x89, 0xca, 0x0f, 0xb6, 0x0a]);
    }

    /// `lea rcx, [rcx + rdx]`
    pub fn add_rdx_to_rcx(&mut self) {
        self.bytes(&[0x48, 0x8d, 0x0c, 0x11]);
    }

    /// Where the table of targets leads for an address: goes to `code` if that is the
    /// one in rcx, else to `other`.
    pub fn check_target(&mut self, address: u64, other: u32, code: u32) {
        self.constant(RDX, address.wrapping_neg());
        self.add_rdx_to_rcx();
        self.jump_unless_zero(other);
        self.give_back(RCX);
        self.give_back(RDX);
        self.jump(code);
    }

    /// It was not: makes rcx what it was and goes on to `next`.
    pub fn pass_on(&mut self, address: u64, next: u32) {
        self.constant(RDX, address);
        self.add_rdx_to_rcx();
        self.jump(next);
    }
}
