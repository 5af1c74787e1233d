//! The code that stands ahead of an allocator's functions.
//!
//! A function's beginning jumps here. Arguments are changed, then the beginning's own
//! instructions are executed, and the function goes on behind them; or it is called, where
//! something is to be done afterwards. A sum that does not fit becomes the largest number,
//! of which no allocator makes anything.

use iced_x86::code_asm::*;
use iced_x86::{BlockEncoderOptions, Decoder, DecoderOptions, FlowControl, IcedError};
use lane_protocol::environment;

use super::allocator::{Allocator, Function, Place};

/// Where words of the kept blocks are, behind the code.
const COUNTER_AT: u64 = 0x1000;
const KEPT_AT: u64 = 0x2000;
/// Blocks that are kept: a power of two,
const KEPT: u64 = 1024;
/// and their length at most; longer ones are freed at once.
const KEPT_BYTES_MAX: i32 = 0x1_0000;
/// Where nothing else makes allocations longer: zeros are written by words of eight bytes.
const WORD_BYTES: u64 = 8;

/// A function's beginning and where it is to jump.
pub(super) struct Jump {
    pub from: u64,
    pub to: u64,
    pub covered: Vec<u8>,
}

pub(super) struct Thunks {
    pub code: Vec<u8>,
    pub jumps: Vec<Jump>,
}

/// Bytes of the memory for all of it.
pub(super) fn place_bytes(flags: u32) -> u64 {
    if flags & environment::KEPT != 0 { KEPT_AT + KEPT * WORD_BYTES } else { COUNTER_AT }
}

struct Builder<'a> {
    a: CodeAssembler,
    allocator: &'a Allocator,
    /// Where the code will be.
    at: u64,
    /// What an allocation is longer.
    more: i32,
    zeroes: bool,
    /// Writes zeros.
    fill: CodeLabel,
    /// Thunks that were made, and where they begin.
    made: Vec<(&'a Place, CodeLabel)>,
}

/// Makes the code for this place.
pub(super) fn assemble(
    allocator: &Allocator,
    at: u64,
    flags: u32,
    padding_bytes: u64,
) -> Result<Thunks, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let pads = flags & environment::PADDED != 0;
    let zeroes = flags & environment::ZEROED != 0;
    let more = if pads { padding_bytes } else { WORD_BYTES } as i32;
    let fill = a.create_label();
    let mut builder = Builder { a, allocator, at, more, zeroes, fill, made: Vec::new() };
    if zeroes {
        builder.write_zeros()?;
    }
    if pads || zeroes {
        builder.malloc()?;
        builder.realloc()?;
        builder.memalign(Function::Memalign)?;
        builder.memalign(Function::AlignedAlloc)?;
        builder.posix_memalign()?;
    }
    if pads {
        builder.calloc()?;
    }
    if flags & environment::KEPT != 0 {
        builder.free()?;
    }
    let Builder { mut a, made, .. } = builder;
    if made.is_empty() {
        return Ok(Thunks { code: Vec::new(), jumps: Vec::new() });
    }
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let assembled = a.assemble_options(at, options)?;
    let mut jumps = Vec::new();
    for (place, label) in made {
        let to = assembled.label_ip(&label)?;
        jumps.push(Jump { from: place.start, to, covered: place.covered.clone() });
    }
    Ok(Thunks { code: assembled.inner.code_buffer, jumps })
}

impl<'a> Builder<'a> {
    /// Begins the thunk of a function, if its beginning can be moved.
    fn begin(&mut self, function: Function) -> Result<Option<&'a Place>, IcedError> {
        let Some(place) = self.allocator.place_of(function) else { return Ok(None) };
        let mut label = self.a.create_label();
        self.a.set_label(&mut label)?;
        self.made.push((place, label));
        Ok(Some(place))
    }

    /// The function's own beginning, and on behind it.
    fn original(&mut self, place: &Place) -> Result<(), IcedError> {
        let mut decoder = Decoder::with_ip(64, &place.covered, place.start, DecoderOptions::NONE);
        let mut goes_on = true;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            goes_on = instruction.flow_control() != FlowControl::UnconditionalBranch;
            self.a.add_instruction(instruction)?;
        }
        if goes_on {
            self.a.jmp(place.start + place.covered.len() as u64)?;
        }
        Ok(())
    }

    /// Adds to the number of bytes; of what is to be filled whole words.
    fn lengthen(&mut self, bytes: AsmRegister64) -> Result<(), IcedError> {
        let round_up = if self.zeroes { WORD_BYTES as i32 - 1 } else { 0 };
        self.a.add(bytes, self.more + round_up)?;
        self.or_largest(bytes)?;
        if self.zeroes { self.a.and(bytes, -(WORD_BYTES as i32)) } else { Ok(()) }
    }

    /// Behind an addition.
    fn or_largest(&mut self, bytes: AsmRegister64) -> Result<(), IcedError> {
        self.a.sbb(rax, rax)?;
        self.a.or(bytes, rax)
    }

    /// Four registers that functions leave alone, and a frame that debuggers can follow.
    fn enter(&mut self) -> Result<(), IcedError> {
        self.a.push(rbp)?;
        self.a.mov(rbp, rsp)?;
        [rbx, r12, r13, r14].into_iter().try_for_each(|register| self.a.push(register))
    }

    fn leave(&mut self) -> Result<(), IcedError> {
        [r14, r13, r12, rbx, rbp].into_iter().try_for_each(|register| self.a.pop(register))
    }

    /// rdi: where; rcx: how many bytes, of which whole words are written. Pages that are
    /// only read take no memory where nobody wrote to them. Leaves rax as it is.
    fn write_zeros(&mut self) -> Result<(), IcedError> {
        let a = &mut self.a;
        let (mut next, mut skip, mut done) = (a.create_label(), a.create_label(), a.create_label());
        a.set_label(&mut self.fill)?;
        a.shr(rcx, 3)?;
        a.je(done)?;
        a.set_label(&mut next)?;
        a.cmp(qword_ptr(rdi), 0)?;
        a.je(skip)?;
        a.mov(qword_ptr(rdi), 0)?;
        a.set_label(&mut skip)?;
        a.add(rdi, 8)?;
        a.dec(rcx)?;
        a.jne(next)?;
        a.set_label(&mut done)?;
        a.ret()
    }

    /// Calls the function's own code, which stands behind, and fills the block of rbx bytes
    /// that it makes.
    fn call_and_fill(&mut self, place: &Place) -> Result<(), IcedError> {
        let (mut own, mut failed) = (self.a.create_label(), self.a.create_label());
        self.a.call(own)?;
        self.a.test(rax, rax)?;
        self.a.je(failed)?;
        self.a.mov(r12, rax)?;
        self.room()?;
        self.a.mov(rdi, r12)?;
        self.a.mov(rcx, rbx)?;
        self.a.call(self.fill)?;
        self.a.mov(rax, r12)?;
        self.a.set_label(&mut failed)?;
        self.leave()?;
        self.a.ret()?;
        self.a.set_label(&mut own)?;
        self.original(place)
    }

    /// The bytes of rbx are all that the block at r12 has room for, if that is known: so that
    /// what it grows by later is what lies behind them.
    fn room(&mut self) -> Result<(), IcedError> {
        let Some(usable_size) = self.allocator.usable_size() else { return Ok(()) };
        self.a.mov(rdi, r12)?;
        self.a.call(usable_size)?;
        self.a.mov(rbx, rax)
    }

    /// `malloc(rdi)`.
    fn malloc(&mut self) -> Result<(), IcedError> {
        let Some(place) = self.begin(Function::Malloc)? else { return Ok(()) };
        self.lengthen(rdi)?;
        if !self.zeroes {
            return self.original(place);
        }
        self.enter()?;
        self.a.mov(rbx, rdi)?;
        self.call_and_fill(place)
    }

    /// `calloc(rdi, rsi)`, which fills by itself.
    fn calloc(&mut self) -> Result<(), IcedError> {
        let Some(place) = self.begin(Function::Calloc)? else { return Ok(()) };
        let mut own = self.a.create_label();
        self.a.mov(rax, rdi)?;
        self.a.mul(rsi)?;
        self.a.jo(own)?;
        self.a.add(rax, self.more)?;
        self.a.jb(own)?;
        self.a.mov(rdi, rax)?;
        self.a.mov(esi, 1)?;
        self.a.set_label(&mut own)?;
        self.original(place)
    }

    /// `realloc(rdi, rsi)`; without bytes it may free, and stays as it is. What is filled
    /// is behind all that the old block had room for.
    fn realloc(&mut self) -> Result<(), IcedError> {
        let Some(place) = self.begin(Function::Realloc)? else { return Ok(()) };
        let mut own = self.a.create_label();
        self.a.test(rsi, rsi)?;
        self.a.je(own)?;
        self.lengthen(rsi)?;
        if let (true, Some(usable_size)) = (self.zeroes, self.allocator.usable_size()) {
            let (mut is_new, mut done) = (self.a.create_label(), self.a.create_label());
            self.enter()?;
            self.a.mov(rbx, rsi)?;
            self.a.mov(r12, rdi)?;
            self.a.xor(r13d, r13d)?;
            self.a.test(rdi, rdi)?;
            self.a.je(is_new)?;
            self.a.call(usable_size)?;
            self.a.lea(r13, qword_ptr(rax + 7))?;
            self.a.and(r13, -8)?;
            self.a.set_label(&mut is_new)?;
            self.a.mov(rdi, r12)?;
            self.a.mov(rsi, rbx)?;
            self.a.call(own)?;
            self.a.mov(r12, rax)?;
            self.a.test(rax, rax)?;
            self.a.je(done)?;
            self.room()?;
            self.a.sub(rbx, r13)?;
            self.a.jbe(done)?;
            self.a.lea(rdi, qword_ptr(r12 + r13))?;
            self.a.mov(rcx, rbx)?;
            self.a.call(self.fill)?;
            self.a.set_label(&mut done)?;
            self.a.mov(rax, r12)?;
            self.leave()?;
            self.a.ret()?;
        }
        self.a.set_label(&mut own)?;
        self.original(place)
    }

    /// `memalign(rdi, rsi)`, and `aligned_alloc`, for which the bytes may have to be a
    /// multiple of the alignment, and stay one.
    fn memalign(&mut self, function: Function) -> Result<(), IcedError> {
        let Some(place) = self.begin(function)? else { return Ok(()) };
        self.a.mov(eax, self.more)?;
        self.a.cmp(rdi, rax)?;
        self.a.cmova(rax, rdi)?;
        self.a.add(rsi, rax)?;
        self.or_largest(rsi)?;
        if !self.zeroes {
            return self.original(place);
        }
        self.enter()?;
        self.a.mov(rbx, rsi)?;
        self.call_and_fill(place)
    }

    /// `posix_memalign(rdi, rsi, rdx)`, whose result is an error's number.
    fn posix_memalign(&mut self) -> Result<(), IcedError> {
        let Some(place) = self.begin(Function::PosixMemalign)? else { return Ok(()) };
        self.lengthen(rdx)?;
        if !self.zeroes {
            return self.original(place);
        }
        let (mut own, mut done) = (self.a.create_label(), self.a.create_label());
        self.enter()?;
        self.a.mov(rbx, rdx)?;
        self.a.mov(r13, rdi)?;
        self.a.call(own)?;
        self.a.test(eax, eax)?;
        self.a.jne(done)?;
        self.a.mov(r12, qword_ptr(r13))?;
        self.a.test(r12, r12)?;
        self.a.je(done)?;
        self.room()?;
        self.a.mov(rdi, r12)?;
        self.a.mov(rcx, rbx)?;
        self.a.call(self.fill)?;
        self.a.xor(eax, eax)?;
        self.a.set_label(&mut done)?;
        self.leave()?;
        self.a.ret()?;
        self.a.set_label(&mut own)?;
        self.original(place)
    }

    /// `free(rdi)`: the block takes the place of the one that was freed so many blocks
    /// before, which is freed now. One that is kept already is freed twice: once is enough.
    fn free(&mut self) -> Result<(), IcedError> {
        let Some(usable_size) = self.allocator.usable_size() else { return Ok(()) };
        let Some(place) = self.begin(Function::Free)? else { return Ok(()) };
        let (counter, kept) = (self.at + COUNTER_AT, self.at + KEPT_AT);
        let (mut own, mut now) = (self.a.create_label(), self.a.create_label());
        let mut done = self.a.create_label();
        self.a.test(rdi, rdi)?;
        self.a.je(own)?;
        self.enter()?;
        self.a.mov(rbx, rdi)?;
        self.a.mov(rdi, kept)?;
        self.a.mov(ecx, KEPT as i32)?;
        self.a.mov(rax, rbx)?;
        self.a.repne().scasq()?;
        self.a.je(done)?;
        self.a.mov(rdi, rbx)?;
        self.a.call(usable_size)?;
        self.a.cmp(rax, KEPT_BYTES_MAX)?;
        self.a.ja(now)?;
        self.a.mov(eax, 1)?;
        self.a.mov(rdx, counter)?;
        self.a.lock().xadd(qword_ptr(rdx), rax)?;
        self.a.and(eax, KEPT as i32 - 1)?;
        self.a.mov(rdx, kept)?;
        self.a.xchg(qword_ptr(rdx + rax * 8), rbx)?;
        self.a.test(rbx, rbx)?;
        self.a.je(done)?;
        self.a.set_label(&mut now)?;
        self.a.mov(rdi, rbx)?;
        self.leave()?;
        self.a.set_label(&mut own)?;
        self.original(place)?;
        self.a.set_label(&mut done)?;
        self.leave()?;
        self.a.ret()
    }
}
