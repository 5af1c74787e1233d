//! Random programs: all kinds of instructions, in functions with loops, calls and jumps
//! of every kind, that end.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

/// A generator of numbers that needs nothing.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

// rbx is the data's address, rsp the stack's.
const WIDE: [AsmRegister64; 14] = [rax, rcx, rdx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
const MIDDLE: [AsmRegister32; 14] =
    [eax, ecx, edx, ebp, esi, edi, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d];
const SHORT: [AsmRegister16; 10] = [ax, cx, dx, bp, si, di, r8w, r10w, r13w, r15w];
const BYTE: [AsmRegister8; 10] = [al, cl, dl, ah, ch, dh, sil, r8b, r12b, r15b];
const VECTOR: [AsmRegisterXmm; 8] = [xmm0, xmm1, xmm2, xmm5, xmm7, xmm8, xmm11, xmm15];
const LONG_VECTOR: [AsmRegisterYmm; 6] = [ymm0, ymm1, ymm3, ymm7, ymm9, ymm15];

/// Ahead of the code.
pub const CONSTANT_BYTES: usize = 25 * 16;

const BLOCKS: usize = 8;
const FUNCTIONS: usize = 4;

/// Where loops count their rounds in the data, and where stores may go.
const FUEL: i32 = 0x8000;
const FREE_BYTES: usize = 0x7000;

pub struct Program {
    pub code: Vec<u8>,
    pub entry: u64,
    /// Where it returns to: a `hlt` behind it.
    pub end: u64,
}

struct Generator<'a> {
    asm: CodeAssembler,
    random: &'a mut Random,
    constants: Vec<CodeLabel>,
    functions: Vec<CodeLabel>,
    loops: i32,
    with_avx: bool,
    /// Where most stores go.
    narrow: bool,
}

/// A program for this address.
pub fn generate(
    seed: u64,
    address: u64,
    data: u64,
    with_avx: bool,
    narrow: bool,
) -> Result<Program, IcedError> {
    let mut random = Random(seed);
    let mut asm = CodeAssembler::new(64)?;
    let functions = (0..FUNCTIONS).map(|_| asm.create_label()).collect();
    let mut constants: Vec<CodeLabel> = (0..24).map(|_| asm.create_label()).collect();
    // First of all, so that they are aligned.
    for label in &mut constants {
        asm.set_label(label)?;
        asm.dq(&[random.next(), random.next()])?;
    }
    asm.dq(&[random.next(), random.next()])?;
    let mut generator =
        Generator { asm, random: &mut random, constants, functions, loops: 0, with_avx, narrow };
    for index in 0..FUNCTIONS {
        generator.function(index, data)?;
    }
    generator.asm.nop()?;
    let mut end = generator.asm.create_label();
    generator.asm.set_label(&mut end)?;
    generator.asm.hlt()?;
    let assembled = generator
        .asm
        .assemble_options(address, iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let entry = assembled.label_ip(&generator.functions[0])?;
    let end = assembled.label_ip(&end)?;
    Ok(Program { code: assembled.inner.code_buffer, entry, end })
}

impl Generator<'_> {
    /// Functions call those of higher numbers only, so that programs end.
    fn function(&mut self, index: usize, data: u64) -> Result<(), IcedError> {
        let mut label = self.functions[index];
        self.asm.set_label(&mut label)?;
        self.functions[index] = label;
        // The stack's own use and the red zone.
        self.asm.push(rbp)?;
        self.asm.mov(rbx, data)?;
        let mut blocks: Vec<CodeLabel> = (0..BLOCKS).map(|_| self.asm.create_label()).collect();
        for number in 0..BLOCKS {
            let mut block = blocks[number];
            self.asm.set_label(&mut block)?;
            blocks[number] = block;
            for _ in 0..1 + self.random.below(9) {
                self.instruction()?;
            }
            self.end_block(index, number, &mut blocks)?;
        }
        self.asm.pop(rbp)?;
        if index == 3 {
            self.asm.ret_1(16)?
        } else {
            self.asm.ret()?
        }
        Ok(())
    }

    fn end_block(
        &mut self,
        function: usize,
        number: usize,
        blocks: &mut [CodeLabel],
    ) -> Result<(), IcedError> {
        let forward = blocks.get(number + 1 + self.random.below(3)).copied();
        let backward = blocks[number - self.random.below(number.min(2) + 1)];
        let asm = &mut self.asm;
        match self.random.below(10) {
            0 => {
                if let Some(forward) = forward {
                    asm.jmp(forward)?;
                }
            }
            1 | 2 => {
                if let Some(forward) = forward {
                    match self.random.below(8) {
                        0 => asm.je(forward)?,
                        1 => asm.jl(forward)?,
                        2 => asm.ja(forward)?,
                        3 => asm.jo(forward)?,
                        4 => asm.jp(forward)?,
                        5 => asm.js(forward)?,
                        6 => asm.jnb(forward)?,
                        _ => asm.jle(forward)?,
                    }
                }
            }
            3..=5 => {
                // A loop, of at most so many rounds.
                self.loops += 1;
                let fuel = dword_ptr(rbx + FUEL + self.loops * 4);
                if self.random.below(2) == 0 {
                    asm.dec(fuel)?;
                } else {
                    asm.sub(fuel, 1)?;
                }
                asm.jg(backward)?;
            }
            6 if function + 1 < FUNCTIONS => {
                let callee = function + 1 + self.random.below(FUNCTIONS - function - 1);
                if callee == 3 {
                    asm.push(rax)?;
                    asm.push(rcx)?;
                }
                let label = self.functions[callee];
                match self.random.below(3) {
                    0 => asm.call(label)?,
                    1 => {
                        asm.lea(r11, ptr(label))?;
                        asm.call(r11)?;
                    }
                    _ => {
                        asm.lea(rcx, ptr(label))?;
                        asm.mov(qword_ptr(rbx + 0x7800), rcx)?;
                        asm.call(qword_ptr(rbx + 0x7800))?;
                    }
                }
            }
            7 => {
                if let Some(forward) = forward {
                    asm.lea(rdx, ptr(forward))?;
                    if self.random.below(2) == 0 {
                        asm.jmp(rdx)?;
                    } else {
                        asm.mov(qword_ptr(rsp - 64), rdx)?;
                        asm.jmp(qword_ptr(rsp - 64))?;
                    }
                }
            }
            8 => {
                if let Some(forward) = forward {
                    // Distances of these are short: over a jump.
                    let mut taken = asm.create_label();
                    let mut not_taken = asm.create_label();
                    match self.random.below(4) {
                        0 => asm.jrcxz(taken)?,
                        1 => asm.db(&[0x67, 0xe3, 2])?,
                        2 => asm.loop_(taken)?,
                        _ => asm.loopne(taken)?,
                    }
                    asm.jmp(not_taken)?;
                    asm.set_label(&mut taken)?;
                    asm.jmp(forward)?;
                    asm.set_label(&mut not_taken)?;
                    asm.nop()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn memory(&mut self) -> i32 {
        let bytes = if self.narrow { 256 } else { FREE_BYTES };
        self.random.below(bytes) as i32
    }

    fn constant(&mut self) -> AsmMemoryOperand {
        ptr(self.constants[self.random.below(24)])
    }

    fn instruction(&mut self) -> Result<(), IcedError> {
        let at = self.memory();
        let relative = self.constant();
        let random = &mut *self.random;
        let asm = &mut self.asm;
        let (a, b) = (random.of(&WIDE), random.of(&WIDE));
        let (c, d) = (random.of(&MIDDLE), random.of(&MIDDLE));
        let (x, y, z) = (random.of(&VECTOR), random.of(&VECTOR), random.of(&VECTOR));
        let number = random.next() as i32;
        let with_avx = self.with_avx;
        match random.below(64) {
            0 => asm.add(a, b),
            1 => asm.sub(c, d),
            2 => asm.adc(a, b),
            3 => asm.sbb(c, d),
            4 => asm.and(a, number),
            5 => asm.or(c, number),
            6 => asm.xor(a, b),
            7 => asm.cmp(c, d),
            8 => asm.test(a, b),
            9 => asm.neg(c),
            10 => asm.inc(a),
            11 => asm.dec(c),
            12 => asm.not(a),
            13 => asm.shl(a, (number & 63) as u32),
            14 => asm.sar(c, cl),
            15 => asm.ror(a, (number & 63) as u32),
            16 => asm.imul_2(a, b),
            17 => asm.imul_3(c, d, number),
            18 => asm.mul(a),
            19 => asm.lea(a, ptr(b + r8 * 4 + number)),
            20 => asm.mov(a, qword_ptr(rbx + at)),
            21 => asm.mov(dword_ptr(rbx + at), c),
            22 => asm.add(qword_ptr(rbx + at), a),
            23 => asm.cmp(dword_ptr(rbx + at), number),
            24 => asm.movzx(c, byte_ptr(rbx + at)),
            25 => asm.movsx(a, word_ptr(rbx + at)),
            26 => asm.mov(a, relative),
            27 => asm.add(c, relative),
            28 => asm.movsxd(a, dword_ptr(relative)),
            29 => asm.cmp(relative, a),
            30 => asm.lea(a, relative),
            31 => asm.lea(c, relative),
            32 => asm.imul_3(a, qword_ptr(relative), number),
            33 => asm.cmove(a, b),
            34 => asm.cmovl(c, relative),
            35 => asm.setb(random.of(&BYTE)),
            36 => asm.setle(byte_ptr(rbx + at)),
            37 => asm.bt(a, b),
            38 => asm.btc(c, (number & 31) as u32),
            39 => asm.xchg(a, b),
            40 => asm.xadd(qword_ptr(rbx + at), a),
            41 => asm.bswap(a),
            42 => asm.cqo(),
            43 => asm.mov(word_ptr(rbx + at), random.of(&SHORT)),
            44 => asm.add(random.of(&SHORT), number as i16 as i32),
            45 => {
                // High byte registers cannot go with the upper eight.
                asm.add(ah, random.of(&[al, cl, dl, ch]))
            }
            46 => {
                asm.push(a)?;
                asm.pop(b)
            }
            47 => asm.mov(qword_ptr(rsp - 8 - (at & 0x70)), a),
            48 => asm.lahf(),
            49 => {
                asm.stc()?;
                asm.rcl(a, 1)
            }
            50 => asm.paddd(x, relative),
            51 => asm.pxor(x, y),
            52 => asm.movdqu(x, xmmword_ptr(rbx + at)),
            53 => asm.movups(xmmword_ptr(rbx + at), y),
            54 => asm.pshufb(x, y),
            55 => asm.ucomisd(x, y),
            56 => asm.movq(a, x),
            57 => {
                if with_avx {
                    asm.vpaddd(random.of(&LONG_VECTOR), random.of(&LONG_VECTOR), relative)
                } else {
                    asm.paddw(x, z)
                }
            }
            58 => {
                if with_avx {
                    let (p, q) = (random.of(&LONG_VECTOR), random.of(&LONG_VECTOR));
                    asm.vpxor(p, q, ymmword_ptr(rbx + at))
                } else {
                    asm.paddw(x, z)
                }
            }
            59 => {
                asm.lea(rdi, ptr(rbx + at))?;
                asm.lea(rsi, ptr(rbx + (at / 2)))?;
                asm.mov(ecx, number & 31)?;
                match random.below(3) {
                    0 => asm.rep().movsb(),
                    1 => asm.rep().stosd(),
                    _ => asm.repe().cmpsb(),
                }
            }
            60 => asm.cmpxchg(dword_ptr(rbx + at), c),
            61 => asm.mov(relative, a),
            62 => asm.add(dword_ptr(relative), 3),
            _ => asm.shld(a, b, (number & 63) as u32),
        }
    }
}
