//! Classic BPF as seccomp(2) takes it: what the kernel accepts, and what it makes of it
//! (kernel/seccomp.c, net/core/filter.c).
//!
//! A program that [`is_valid`] ends: it only jumps forwards, and its last instruction
//! returns. Deliberately absent: loads from packets, and whatever seccomp refuses.

/// `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub operand: u32,
}

/// Most instructions of a program (BPF_MAXINSNS).
pub const INSTRUCTIONS_MAX: usize = 4096;
/// `struct seccomp_data` in words: number, architecture, address behind the call (lower half
/// first), six arguments.
pub type Data = [u32; 16];
/// Bytes of it.
const DATA_BYTES: u32 = 64;
/// Words that a program can store (BPF_MEMWORDS).
const CELLS: usize = 16;

/// Codes of instructions (linux/bpf_common.h). Loads are of words; K: the operand, X: the
/// index register.
pub mod op {
    pub const LOAD_OPERAND: u16 = 0x00;
    pub const LOAD_X_OPERAND: u16 = 0x01;
    pub const STORE: u16 = 0x02;
    pub const STORE_X: u16 = 0x03;
    pub const LOAD: u16 = 0x20;
    pub const LOAD_CELL: u16 = 0x60;
    pub const LOAD_X_CELL: u16 = 0x61;
    pub const LOAD_LENGTH: u16 = 0x80;
    pub const LOAD_X_LENGTH: u16 = 0x81;
    pub const ADD: u16 = 0x04;
    pub const SUBTRACT: u16 = 0x14;
    pub const MULTIPLY: u16 = 0x24;
    pub const DIVIDE: u16 = 0x34;
    pub const OR: u16 = 0x44;
    pub const AND: u16 = 0x54;
    pub const SHIFT_LEFT: u16 = 0x64;
    pub const SHIFT_RIGHT: u16 = 0x74;
    pub const NEGATE: u16 = 0x84;
    pub const XOR: u16 = 0xa4;
    pub const JUMP: u16 = 0x05;
    pub const IF_EQUAL: u16 = 0x15;
    pub const IF_GREATER: u16 = 0x25;
    pub const IF_GREATER_EQUAL: u16 = 0x35;
    pub const IF_ANY_BIT: u16 = 0x45;
    pub const RETURN: u16 = 0x06;
    pub const RETURN_A: u16 = 0x16;
    pub const A_TO_X: u16 = 0x07;
    pub const X_TO_A: u16 = 0x87;
    /// Of arithmetic and jumps: with the index register instead of the operand.
    pub const WITH_X: u16 = 0x08;
}

/// True for what the kernel accepts as a filter.
pub fn is_valid(program: &[Instruction]) -> bool {
    let Some(last) = program.last() else { return false };
    program.len() <= INSTRUCTIONS_MAX
        && (0..program.len()).all(|at| is_possible(program, at))
        && matches!(last.code, op::RETURN | op::RETURN_A)
        && reads_what_it_stored(program)
}

/// True if the instruction exists, with an operand that it can have.
fn is_possible(program: &[Instruction], at: usize) -> bool {
    let Instruction { code, if_true, if_false, operand } = program[at];
    let behind = program.len() - at - 1;
    match code {
        op::LOAD => operand < DATA_BYTES && operand.is_multiple_of(4),
        op::STORE | op::STORE_X | op::LOAD_CELL | op::LOAD_X_CELL => operand < CELLS as u32,
        op::DIVIDE => operand != 0,
        op::SHIFT_LEFT | op::SHIFT_RIGHT => operand < 32,
        op::JUMP => (operand as usize) < behind,
        _ if is_conditional(code) => usize::from(if_true.max(if_false)) < behind,
        op::LOAD_OPERAND | op::LOAD_X_OPERAND | op::LOAD_LENGTH | op::LOAD_X_LENGTH => true,
        op::NEGATE | op::RETURN | op::RETURN_A | op::A_TO_X | op::X_TO_A => true,
        _ => matches!(
            code & !op::WITH_X,
            op::ADD
                | op::SUBTRACT
                | op::MULTIPLY
                | op::DIVIDE
                | op::OR
                | op::AND
                | op::SHIFT_LEFT
                | op::SHIFT_RIGHT
                | op::XOR
        ),
    }
}

fn is_conditional(code: u16) -> bool {
    let plain = code & !op::WITH_X;
    matches!(plain, op::IF_EQUAL | op::IF_GREATER | op::IF_GREATER_EQUAL | op::IF_ANY_BIT)
}

/// True if no way through the program reads a cell that it has not stored before. All jumps
/// are possible.
fn reads_what_it_stored(program: &[Instruction]) -> bool {
    let mut at_entry = [!0u16; INSTRUCTIONS_MAX];
    let mut stored = 0u16;
    for (at, instruction) in program.iter().enumerate() {
        stored &= at_entry[at];
        let Instruction { code, if_true, if_false, operand } = *instruction;
        match code {
            op::STORE | op::STORE_X => stored |= 1 << operand,
            op::LOAD_CELL | op::LOAD_X_CELL if stored & 1 << operand == 0 => return false,
            op::JUMP => {
                at_entry[at + 1 + operand as usize] &= stored;
                stored = !0;
            }
            _ if is_conditional(code) => {
                at_entry[at + 1 + usize::from(if_true)] &= stored;
                at_entry[at + 1 + usize::from(if_false)] &= stored;
                stored = !0;
            }
            _ => {}
        }
    }
    true
}

/// What a valid program returns. A division by zero returns 0.
pub fn run(program: &[Instruction], data: &Data) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut cells = [0u32; CELLS];
    let mut at = 0;
    while let Some(&Instruction { code, if_true, if_false, operand }) = program.get(at) {
        at += 1;
        let cell = operand as usize % CELLS;
        match code {
            op::LOAD => a = data[(operand / 4) as usize % data.len()],
            op::RETURN => return operand,
            op::RETURN_A => return a,
            op::JUMP => at += operand as usize,
            op::LOAD_OPERAND => a = operand,
            op::LOAD_X_OPERAND => x = operand,
            op::LOAD_LENGTH => a = DATA_BYTES,
            op::LOAD_X_LENGTH => x = DATA_BYTES,
            op::LOAD_CELL => a = cells[cell],
            op::LOAD_X_CELL => x = cells[cell],
            op::STORE => cells[cell] = a,
            op::STORE_X => cells[cell] = x,
            op::A_TO_X => x = a,
            op::X_TO_A => a = x,
            op::NEGATE => a = a.wrapping_neg(),
            _ => {
                let other = if code & op::WITH_X != 0 { x } else { operand };
                if is_conditional(code) {
                    at += usize::from(if holds(code, a, other) { if_true } else { if_false });
                } else {
                    let Some(result) = calculate(code, a, other) else { return 0 };
                    a = result;
                }
            }
        }
    }
    0
}

fn holds(code: u16, a: u32, other: u32) -> bool {
    match code & !op::WITH_X {
        op::IF_EQUAL => a == other,
        op::IF_GREATER => a > other,
        op::IF_GREATER_EQUAL => a >= other,
        _ => a & other != 0,
    }
}

fn calculate(code: u16, a: u32, other: u32) -> Option<u32> {
    Some(match code & !op::WITH_X {
        op::ADD => a.wrapping_add(other),
        op::SUBTRACT => a.wrapping_sub(other),
        op::MULTIPLY => a.wrapping_mul(other),
        op::DIVIDE => return a.checked_div(other),
        op::OR => a | other,
        op::AND => a & other,
        op::XOR => a ^ other,
        // The kernel's machine looks at five bits.
        op::SHIFT_LEFT => a << (other & 31),
        op::SHIFT_RIGHT => a >> (other & 31),
        _ => return None,
    })
}

/// What a valid program returns for a call of this number, if that depends on nothing but
/// the number and the architecture.
pub fn run_for_number(program: &[Instruction], number: u32, architecture: u32) -> Option<u32> {
    let mut a = 0u32;
    let mut at = 0;
    while let Some(&Instruction { code, if_true, if_false, operand }) = program.get(at) {
        at += 1;
        match code {
            op::LOAD if operand == 0 => a = number,
            op::LOAD if operand == 4 => a = architecture,
            op::RETURN => return Some(operand),
            op::JUMP => at += operand as usize,
            op::AND => a &= operand,
            _ if is_conditional(code) && code & op::WITH_X == 0 => {
                at += usize::from(if holds(code, a, operand) { if_true } else { if_false });
            }
            _ => return None,
        }
    }
    None
}
