//! The code that a replay trap's jump leads to: it compares a few words of the program's state
//! in line, traps where all are equal, and goes on with the program's own instructions.
//!
//! Where nobody looks at the flags that the program comes with, its way through the stub is
//! one comparison, and what it computes with waits for nothing: what was learned last comes
//! first, since all else was equal when it differed. Elsewhere the flags are kept in rax,
//! and rax in memory, at some nanoseconds.

use core::ops::Range;

use crate::ground::decode::{JUMP_BYTES, LOOPNE, Moved};
use crate::ground::vector_state::vector_state;
use crate::ground::{frame, memory};
use crate::preemption::replay_trap_body::{Body, INSTRUCTIONS_MAX};
use crate::state::preemption::{CONDITIONS, Condition};

const STUB_BYTES: usize = 1920;
/// What the stub reads and writes, this far behind its start: rax and the flags meanwhile,
/// then the words to compare with. By gs it could not be reached where the program uses that;
/// nearer the processor would take what is written there for a change of the code.
const DATA: u64 = 2048;
const KEPT_RAX: u64 = DATA;
const KEPT_FLAGS: u64 = DATA + 8;
const WANTED: u64 = DATA + 16;
/// For each condition, bits that a vector register has to have, or not to have.
const BITS: u64 = WANTED + 8 * CONDITIONS as u64;
/// Where the floating-point unit is saved, from the next multiple of 16 on.
const FLOATS: u64 = 2560;
const RAX: u8 = 0;
const STORE: u8 = 0x89;
const LOAD: u8 = 0x8b;
const COMPARE: u8 = 0x3b;
/// The vector feature with which vptest comes.
const AVX: u64 = 4;

/// Where is what in a stub.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Copies of the body's instructions.
    pub copies: [u64; INSTRUCTIONS_MAX],
    /// Here it begins to compare.
    pub entry: u64,
    /// The program's instructions. Up to here a word of its memory may be compared.
    pub goes_on: u64,
    /// From here to the trap they are, too.
    pub compares: u64,
    /// From here on rax is kept.
    pub kept: u64,
    pub trap: u64,
    /// Here it goes on if the state is another after all.
    pub miss: u64,
    /// The way back to the program, behind the copies.
    pub back: u64,
    pub end: u64,
}

impl Layout {
    /// Of a stub that is about to be written.
    pub const fn at(stub: u64) -> Layout {
        Layout {
            copies: [0; INSTRUCTIONS_MAX],
            entry: stub,
            goes_on: stub,
            compares: stub,
            kept: stub,
            trap: 0,
            miss: 0,
            back: 0,
            end: 0,
        }
    }
}

/// rax and the flags, as a stub that compared more than registers has kept them.
pub fn kept(stub: u64) -> [u64; 2] {
    [KEPT_RAX, KEPT_FLAGS].map(|place| memory::read_word(stub + place).unwrap_or(0))
}

/// A comparison with the flags alone: the code up to the jump, and the jump's opcode where
/// the state may be the wanted one.
struct Quick {
    code: [u8; 10],
    bytes: usize,
    may_be: [u8; 2],
}

/// Writes a stub.
pub struct Writer<'a> {
    stub: u64,
    /// Of the replay trap.
    address: u64,
    conditions: &'a [Condition; CONDITIONS],
    wanted: &'a [u64; CONDITIONS],
    /// The condition that was learned last.
    newest: usize,
    code: [u8; STUB_BYTES],
    at: usize,
    layout: Layout,
    inner: Inner,
}

/// Places of four bytes that are to say how far it is from behind them to somewhere.
#[derive(Default)]
struct Jumps {
    places: [usize; CONDITIONS],
    count: usize,
}

/// Jumps from one of the body's instructions to another.
struct Inner {
    places: [usize; INSTRUCTIONS_MAX],
    /// Which ones they lead to.
    targets: [usize; INSTRUCTIONS_MAX],
    count: usize,
}

impl Writer<'_> {
    pub fn new<'a>(
        stub: u64,
        address: u64,
        conditions: &'a [Condition; CONDITIONS],
        wanted: &'a [u64; CONDITIONS],
        newest: usize,
    ) -> Writer<'a> {
        let layout = Layout::at(stub);
        let inner = Inner { places: [0; INSTRUCTIONS_MAX], targets: [0; INSTRUCTIONS_MAX], count: 0 };
        Writer { stub, address, conditions, wanted, newest, code: [0; STUB_BYTES], at: 0, layout, inner }
    }

    /// Writes all of it.
    pub fn write(mut self, body: &Body, flags_are_dead: bool) -> Layout {
        let first = body.index_of(self.address).unwrap_or(0);
        if first != 0 {
            // The comparison stands in the loop where the replay trap stands in the program's.
            let mut enter = Jumps::default();
            self.put_jump(&[0xe9], &mut enter);
            self.put_instructions(body, 0..first);
            self.land(&enter);
        }
        let entry = self.here();
        (self.layout.entry, self.layout.goes_on) = (entry, entry);
        (self.layout.compares, self.layout.kept) = (entry, entry);
        let rest = first..body.instructions().len();
        if flags_are_dead {
            self.put_without_flags(body, rest);
        } else {
            self.put_with_flags(body, rest);
        }
        self.land_inner(body);
        self.layout.end = self.here();
        memory::copy(self.stub, self.code.as_ptr() as u64, self.at as u64);
        memory::write(self.stub + WANTED, self.wanted);
        let mut bits = [[0; 2]; CONDITIONS];
        for ((bits, condition), &wanted) in bits.iter_mut().zip(self.conditions).zip(self.wanted) {
            let half = usize::from(matches!(condition, Condition::VectorHigh(_)));
            bits[half] = if wanted == 0 { u64::MAX } else { wanted };
        }
        memory::write(self.stub + BITS, &bits);
        self.layout
    }

    fn put_with_flags(&mut self, body: &Body, rest: Range<usize>) {
        // mov [kept rax], rax; lahf; seto al; mov [kept flags], rax
        self.put_on_data(STORE, RAX, KEPT_RAX);
        self.put(&[0x9f, 0x0f, 0x90, 0xc0]);
        self.put_on_data(STORE, RAX, KEPT_FLAGS);
        let mut misses = Jumps::default();
        for (index, &condition) in self.conditions.iter().enumerate() {
            if matches!(condition, Condition::Register(RAX)) {
                self.put_on_data(LOAD, RAX, KEPT_RAX);
            }
            self.put_comparison(index, condition, &mut misses);
        }
        self.put_trap();
        self.land(&misses);
        // mov rax, [kept flags]; add al, 0x7f; sahf; mov rax, [kept rax]
        self.put_on_data(LOAD, RAX, KEPT_FLAGS);
        self.put(&[0x04, 0x7f, 0x9e]);
        self.put_on_data(LOAD, RAX, KEPT_RAX);
        self.put_rest(body, rest);
    }

    /// One comparison, the program's instructions; and elsewhere, what is left to compare.
    fn put_without_flags(&mut self, body: &Body, rest: Range<usize>) {
        let mut order = [0; CONDITIONS];
        for (place, index) in order.iter_mut().enumerate() {
            *index = (self.newest + CONDITIONS - place) % CONDITIONS;
        }
        let first = order.iter().position(|&index| self.quick(index).is_some());
        let mut equal = Jumps::default();
        match first.and_then(|place| self.quick(order[place])) {
            Some(quick) => {
                self.put(&quick.code[..quick.bytes]);
                self.put_jump(&quick.may_be, &mut equal);
            }
            None => self.put_jump(&[0xe9], &mut equal),
        }
        self.layout.goes_on = self.here();
        self.put_rest(body, rest);
        self.land(&equal);
        self.layout.compares = self.here();
        let mut misses = Jumps::default();
        for &index in &order[first.map_or(CONDITIONS, |place| place + 1)..] {
            if let Some(quick) = self.quick(index) {
                self.put(&quick.code[..quick.bytes]);
                self.put_jump(&[quick.may_be[0], quick.may_be[1] ^ 1], &mut misses);
            }
        }
        let mut clobbered = Jumps::default();
        self.put_on_data(STORE, RAX, KEPT_RAX);
        self.layout.kept = self.here();
        for (index, &condition) in self.conditions.iter().enumerate() {
            if !matches!(condition, Condition::Register(_)) {
                self.put_comparison(index, condition, &mut clobbered);
            }
        }
        self.put_trap();
        self.land(&clobbered);
        self.put_on_data(LOAD, RAX, KEPT_RAX);
        self.land(&misses);
        let (goes_on, from) = (self.layout.goes_on, self.here());
        self.put(&jump_to(goes_on, from));
    }

    /// How to compare it, here, without a register; a vector or a word in part.
    fn quick(&self, index: usize) -> Option<Quick> {
        let mut quick = Quick { code: [0; 10], bytes: 0, may_be: [0x0f, 0x84] };
        match self.conditions[index] {
            Condition::Free | Condition::Float(_) => return None,
            Condition::Register(number) => {
                quick.bytes = 7;
                quick.code[..7].copy_from_slice(&self.on_data(COMPARE, number, WANTED + index as u64 * 8));
            }
            Condition::Vector(number) | Condition::VectorHigh(number) => {
                if vector_state().features & AVX == 0 {
                    return None;
                }
                // vptest xmm, [bits]: carry, all are there; zero, none is.
                quick.bytes = 9;
                let [a, b, c, d] = self.distance(quick.bytes, self.stub + BITS + index as u64 * 16)?;
                let high = if number < 8 { 0xe2 } else { 0x62 };
                quick.code[..9].copy_from_slice(&[0xc4, high, 0x79, 0x17, (number & 7) << 3 | 5, a, b, c, d]);
                quick.may_be[1] = if self.wanted[index] == 0 { 0x84 } else { 0x82 };
            }
            Condition::Word(address) => {
                // cmp dword [address], imm32: its lower half.
                quick.bytes = 10;
                let [a, b, c, d] = self.distance(quick.bytes, address)?;
                let [e, f, g, h, ..] = self.wanted[index].to_le_bytes();
                quick.code = [0x81, 0x3d, a, b, c, d, e, f, g, h];
            }
        }
        Some(quick)
    }

    /// From behind an instruction of so many bytes, here, to there.
    fn distance(&self, bytes: usize, place: u64) -> Option<[u8; 4]> {
        let distance = place.wrapping_sub(self.here() + bytes as u64) as i64;
        i32::try_from(distance).ok().map(i32::to_le_bytes)
    }

    /// Compares a word; where it differs, jumps.
    fn put_comparison(&mut self, index: usize, condition: Condition, misses: &mut Jumps) {
        let register = match condition {
            Condition::Free => return,
            Condition::Register(number) => number,
            Condition::Word(address) => {
                // mov rax, imm64; mov rax, [rax]
                self.put(&[0x48, 0xb8]);
                self.put(&address.to_le_bytes());
                self.put(&[0x48, 0x8b, 0x00]);
                RAX
            }
            Condition::Vector(number) => {
                // movq rax, xmm
                self.put(&[0x66, 0x48 | (number >> 3) << 2, 0x0f, 0x7e, 0xc0 | (number & 7) << 3]);
                RAX
            }
            Condition::VectorHigh(number) => {
                // pextrq rax, xmm, 1
                let prefix = 0x48 | (number >> 3) << 2;
                self.put(&[0x66, prefix, 0x0f, 0x3a, 0x16, 0xc0 | (number & 7) << 3, 1]);
                RAX
            }
            Condition::Float(number) => {
                let floats = (self.stub + FLOATS).next_multiple_of(16) - self.stub;
                // fxsave64 [rip + d]
                let [a, b, c, d] = ((floats - (self.at as u64 + 8)) as u32).to_le_bytes();
                self.put(&[0x48, 0x0f, 0xae, 0x05, a, b, c, d]);
                self.put_on_data(LOAD, RAX, floats + frame::significand(u64::from(number)));
                RAX
            }
        };
        self.put_on_data(COMPARE, register, WANTED + index as u64 * 8);
        // jne
        self.put_jump(&[0x0f, 0x85], misses);
    }

    /// An instruction on a 64-bit register and a word of the stub's data.
    fn put_on_data(&mut self, opcode: u8, register: u8, place: u64) {
        self.put(&self.on_data(opcode, register, place));
    }

    fn on_data(&self, opcode: u8, register: u8, place: u64) -> [u8; 7] {
        let behind = self.at as u64 + 7;
        let [a, b, c, d] = ((place - behind) as u32).to_le_bytes();
        [0x48 | (register >> 3) << 2, opcode, (register & 7) << 3 | 5, a, b, c, d]
    }

    fn put_trap(&mut self) {
        self.layout.trap = self.here();
        self.put(&[0xcc]);
        self.layout.miss = self.here();
    }

    /// Puts copies of the instructions from the replay trap on, and the way back to the program.
    fn put_rest(&mut self, body: &Body, rest: Range<usize>) {
        self.put_instructions(body, rest);
        let from = self.here();
        self.layout.back = from;
        self.put(&jump_to(body.end, from));
    }

    fn put_instructions(&mut self, body: &Body, which: Range<usize>) {
        for index in which {
            let moved = &body.instructions()[index];
            let copy = self.here();
            self.layout.copies[index] = copy;
            if let Some((target, condition)) = moved.jump
                && let Some(target) = body.index_of(target)
            {
                let (opcode, bytes) = far_jump(condition);
                self.put(&opcode[..bytes]);
                self.inner.places[self.inner.count] = self.at;
                self.inner.targets[self.inner.count] = target;
                self.inner.count += 1;
                self.put(&[0; 4]);
                continue;
            }
            let old = body.address_of(moved);
            put_copy(
                &mut |bytes| {
                    self.put(bytes);
                    self.at
                },
                moved,
                old,
                copy,
            );
        }
    }

    /// Jumps within the body lead to copies; those to where the replay trap is, to the comparison.
    fn land_inner(&mut self, body: &Body) {
        let Inner { places, targets, count } = self.inner;
        for (&place, &target) in places[..count].iter().zip(&targets) {
            let is_replay_trap = body.address_of(&body.instructions()[target]) == self.address;
            let copy = if is_replay_trap { self.layout.entry } else { self.layout.copies[target] };
            let distance = copy.wrapping_sub(self.stub + place as u64 + 4) as u32;
            self.code[place..place + 4].copy_from_slice(&distance.to_le_bytes());
        }
    }

    fn put_jump(&mut self, opcode: &[u8], jumps: &mut Jumps) {
        self.put(opcode);
        jumps.places[jumps.count] = self.at;
        jumps.count += 1;
        self.put(&[0; 4]);
    }

    /// The jumps lead here.
    fn land(&mut self, jumps: &Jumps) {
        for &place in &jumps.places[..jumps.count] {
            let distance = (self.at - place - 4) as u32;
            self.code[place..place + 4].copy_from_slice(&distance.to_le_bytes());
        }
    }

    fn here(&self) -> u64 {
        self.stub + self.at as u64
    }

    fn put(&mut self, bytes: &[u8]) {
        self.code[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

pub fn jump_to(target: u64, from: u64) -> [u8; JUMP_BYTES] {
    let mut jump = [0xe9, 0, 0, 0, 0];
    jump[1..].copy_from_slice(&(target.wrapping_sub(from + JUMP_BYTES as u64) as u32).to_le_bytes());
    jump
}

/// A jump up to its four bytes of distance, and how many these are. What looks at rcx reaches
/// no further than a jump beside it.
const fn far_jump(condition: Option<u8>) -> ([u8; 5], usize) {
    match condition {
        None => ([0xe9, 0, 0, 0, 0], 1),
        Some(condition @ ..LOOPNE) => ([0x0f, 0x80 | condition, 0, 0, 0], 2),
        Some(condition) => ([0xe0 | condition & 3, 2, 0xeb, 5, 0xe9], 5),
    }
}

/// Puts the copy of an instruction at its new address; gives where it ends.
pub fn put_copy(put: &mut dyn FnMut(&[u8]) -> usize, moved: &Moved, old: u64, new: u64) -> usize {
    match moved.jump {
        Some((target, None)) if moved.is_call => {
            // push imm32, sign-extended; mov dword [rsp + 4], imm32: where it returns to.
            let behind = (old + u64::from(moved.bytes)).to_le_bytes();
            let [a, b, c, d, e, f, g, h] = behind;
            put(&[0x68, a, b, c, d, 0xc7, 0x44, 0x24, 0x04, e, f, g, h]);
            put(&jump_to(target, new + 13))
        }
        Some((target, condition)) => {
            let (opcode, bytes) = far_jump(condition);
            put(&opcode[..bytes]);
            put(&(target.wrapping_sub(new + bytes as u64 + 4) as u32).to_le_bytes())
        }
        None => {
            let mut code = moved.code;
            if let Some(place) = moved.displacement
                && let Some(field) = code.get_mut(place as usize..place as usize + 4)
            {
                let mut displacement = [0; 4];
                displacement.copy_from_slice(field);
                let fixed = u32::from_le_bytes(displacement).wrapping_add(old.wrapping_sub(new) as u32);
                field.copy_from_slice(&fixed.to_le_bytes());
            }
            put(&code[..moved.bytes as usize])
        }
    }
}
