//! Evaluates agent expressions: conditions of breakpoints and what is printed at them. And,
//! in [`classic`], the filters of seccomp(2).
//!
//! The code comes from a debugger's client and is not trusted: it is bounded in
//! instructions and stack, and reads memory only through its host. Deliberately
//! absent: memory of its own, writes.
#![no_std]
#![forbid(unsafe_code)]

pub mod classic;
mod collections;

use lane_protocol::bytecode::{PROGRAMS_END, float, op};

/// Most values on the stack.
const STACK_MAX: usize = 64;
/// Most instructions of one evaluation.
const INSTRUCTIONS_MAX: u32 = 20_000;

/// What an expression can see and do.
pub trait Host {
    /// A register by gdb's number.
    fn register(&mut self, number: u16) -> Option<u64>;
    /// Fills the buffer from the program's memory; false if it cannot be read.
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool;
    /// The lower 8 bytes of a vector register.
    fn vector(&mut self, _number: u8) -> Option<u64> {
        None
    }
    fn record(&mut self, _address: u64, _bytes: u16) {}
    fn record_text(&mut self, _address: u64, _bytes_max: u16) {}
    fn record_value(&mut self, _value: u64) {}
    fn record_vector(&mut self, _number: u8, _bytes: u8) {}
}

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Unreadable(u64),
    DivisionByZero,
    NoRegister,
    /// It is no expression, or runs too long.
    BadProgram,
}

/// Evaluates; gives the value on top of the stack, 0 if there is none.
///
/// # Errors
/// [`Failure`]
pub fn evaluate(code: &[u8], host: &mut impl Host) -> Result<u64, Failure> {
    let mut machine = Machine { code, at: 0, stack: [0; STACK_MAX], count: 0, piece: None };
    for _ in 0..INSTRUCTIONS_MAX {
        let Some(&instruction) = code.get(machine.at) else {
            return if machine.at == code.len() { Ok(machine.top()) } else { Err(Failure::BadProgram) };
        };
        machine.at += 1;
        if instruction == op::END {
            return Ok(machine.top());
        }
        machine.execute(instruction, host)?;
    }
    Err(Failure::BadProgram)
}

/// The programs of a breakpoint's block, behind its kind.
pub fn programs_of(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = rest;
    core::iter::from_fn(move || {
        let [high, low, behind @ ..] = rest else { return None };
        let length = u16::from_be_bytes([*high, *low]);
        let code = behind.get(..length as usize).filter(|_| length != PROGRAMS_END)?;
        rest = &behind[length as usize..];
        Some(code)
    })
}

/// True if one of these conditions holds. One without a value does: whoever set it is to
/// see that.
pub fn any_holds(rest: &[u8], host: &mut impl Host) -> bool {
    programs_of(rest).any(|code| evaluate(code, host) != Ok(0))
}

struct Machine<'a> {
    code: &'a [u8],
    at: usize,
    stack: [u64; STACK_MAX],
    count: usize,
    /// Where the piece of an element lies whose program runs.
    piece: Option<u64>,
}

impl Machine<'_> {
    fn top(&self) -> u64 {
        self.count.checked_sub(1).map_or(0, |index| self.stack[index])
    }

    fn push(&mut self, value: u64) -> Result<(), Failure> {
        *self.stack.get_mut(self.count).ok_or(Failure::BadProgram)? = value;
        self.count += 1;
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, Failure> {
        self.count = self.count.checked_sub(1).ok_or(Failure::BadProgram)?;
        Ok(self.stack[self.count])
    }

    /// An operand of so many bytes.
    fn operand(&mut self, bytes: usize) -> Result<u64, Failure> {
        let field = self.code.get(self.at..self.at + bytes).ok_or(Failure::BadProgram)?;
        self.at += bytes;
        Ok(field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn binary(&mut self, of: impl Fn(u64, u64) -> Option<u64>) -> Result<(), Failure> {
        let (right, left) = (self.pop()?, self.pop()?);
        self.push(of(left, right).ok_or(Failure::DivisionByZero)?)
    }

    fn load(&mut self, bytes: usize, host: &mut impl Host) -> Result<(), Failure> {
        let address = self.pop()?;
        let mut value = [0; 8];
        if !host.read(address, &mut value[..bytes]) {
            return Err(Failure::Unreadable(address));
        }
        self.push(u64::from_le_bytes(value))
    }

    fn pick(&mut self, depth: usize) -> Result<usize, Failure> {
        self.count.checked_sub(depth + 1).ok_or(Failure::BadProgram)
    }

    fn execute(&mut self, instruction: u8, host: &mut impl Host) -> Result<(), Failure> {
        match instruction {
            op::REF8 => self.load(1, host)?,
            op::REF16 => self.load(2, host)?,
            op::REF32 => self.load(4, host)?,
            op::REF64 => self.load(8, host)?,
            op::CONST8 => self.constant(1)?,
            op::CONST16 => self.constant(2)?,
            op::CONST32 => self.constant(4)?,
            op::CONST64 => self.constant(8)?,
            op::REG => {
                let number = self.operand(2)? as u16;
                self.push(host.register(number).ok_or(Failure::NoRegister)?)?;
            }
            op::VECTOR => {
                let number = self.operand(1)? as u8;
                self.push(host.vector(number).ok_or(Failure::NoRegister)?)?;
            }
            op::FLOAT => {
                let kind = self.operand(1)? as u8;
                self.float(kind)?;
            }
            op::RECORD => {
                let bytes = self.operand(2)? as u16;
                host.record(self.pop()?, bytes);
            }
            op::RECORD_TEXT => {
                let bytes = self.operand(2)? as u16;
                host.record_text(self.pop()?, bytes);
            }
            op::RECORD_SOME => {
                let most = self.operand(2)?;
                let bytes = self.pop()?.min(most) as u16;
                host.record(self.pop()?, bytes);
            }
            // What an element has elsewhere is not gone through itself.
            op::RECORD_NODES if self.piece.is_none() => self.record_nodes(host)?,
            op::PIECE => self.push(self.piece.ok_or(Failure::BadProgram)?)?,
            op::RECORD_VALUE => host.record_value(self.pop()?),
            op::RECORD_VECTOR => {
                let (number, bytes) = (self.operand(1)?, self.operand(1)?);
                host.record_vector(number as u8, bytes as u8);
            }
            op::IF_GOTO | op::GOTO => {
                let target = self.operand(2)? as usize;
                if instruction == op::GOTO || self.pop()? != 0 {
                    self.at = target;
                }
            }
            op::SKIP_UNLESS | op::SKIP => {
                let bytes = self.operand(2)? as usize;
                if instruction == op::SKIP || self.pop()? == 0 {
                    self.at += bytes;
                }
            }
            op::DUP | op::POP | op::SWAP | op::PICK | op::ROT => self.arrange(instruction)?,
            op::EXT | op::ZERO_EXT | op::LOG_NOT | op::BIT_NOT => self.unary(instruction)?,
            _ => self.arithmetic(instruction)?,
        }
        Ok(())
    }

    fn constant(&mut self, bytes: usize) -> Result<(), Failure> {
        let value = self.operand(bytes)?;
        self.push(value)
    }

    fn arrange(&mut self, instruction: u8) -> Result<(), Failure> {
        match instruction {
            op::DUP => {
                let index = self.pick(0)?;
                self.push(self.stack[index])
            }
            op::POP => self.pop().map(drop),
            op::SWAP => {
                let (first, second) = (self.pick(0)?, self.pick(1)?);
                self.stack.swap(first, second);
                Ok(())
            }
            op::ROT => {
                let (first, third) = (self.pick(0)?, self.pick(2)?);
                self.stack[third..=first].rotate_right(1);
                Ok(())
            }
            _ => {
                let depth = self.operand(1)? as usize;
                let index = self.pick(depth)?;
                self.push(self.stack[index])
            }
        }
    }

    fn unary(&mut self, instruction: u8) -> Result<(), Failure> {
        let value = match instruction {
            op::EXT => {
                let bits = self.operand(1)?;
                let value = self.pop()?;
                let unused = 64u32.saturating_sub(bits as u32);
                if bits == 0 { 0 } else { ((value << unused) as i64 >> unused) as u64 }
            }
            op::ZERO_EXT => {
                let bits = self.operand(1)?;
                let value = self.pop()?;
                if bits >= 64 { value } else { value & ((1 << bits) - 1) }
            }
            op::LOG_NOT => u64::from(self.pop()? == 0),
            _ => !self.pop()?,
        };
        self.push(value)
    }

    /// In the runtime this is done without the processor's vector registers, as all of it.
    fn float(&mut self, kind: u8) -> Result<(), Failure> {
        let number = f64::from_bits;
        let pair = |of: fn(f64, f64) -> f64| move |a, b| Some(of(number(a), number(b)).to_bits());
        let test = |of: fn(f64, f64) -> bool| move |a, b| Some(u64::from(of(number(a), number(b))));
        match kind {
            float::ADD => self.binary(pair(|a, b| a + b)),
            float::SUB => self.binary(pair(|a, b| a - b)),
            float::MUL => self.binary(pair(|a, b| a * b)),
            float::DIV => self.binary(pair(|a, b| a / b)),
            float::EQUAL => self.binary(test(|a, b| a == b)),
            float::LESS => self.binary(test(|a, b| a < b)),
            float::LESS_OR_EQUAL => self.binary(test(|a, b| a <= b)),
            _ => {
                let value = self.pop()?;
                self.push(match kind {
                    float::FROM_SIGNED => (value as i64 as f64).to_bits(),
                    float::FROM_UNSIGNED => (value as f64).to_bits(),
                    float::FROM_SINGLE => f64::from(f32::from_bits(value as u32)).to_bits(),
                    float::TO_SIGNED => number(value) as i64 as u64,
                    float::TO_UNSIGNED => number(value) as u64,
                    float::TO_SINGLE => u64::from((number(value) as f32).to_bits()),
                    _ => return Err(Failure::BadProgram),
                })
            }
        }
    }

    fn arithmetic(&mut self, instruction: u8) -> Result<(), Failure> {
        let shift = |by: u64| u32::try_from(by).unwrap_or(u32::MAX);
        match instruction {
            op::ADD => self.binary(|a, b| Some(a.wrapping_add(b))),
            op::SUB => self.binary(|a, b| Some(a.wrapping_sub(b))),
            op::MUL => self.binary(|a, b| Some(a.wrapping_mul(b))),
            op::DIV_SIGNED => self.binary(|a, b| (b != 0).then(|| (a as i64).wrapping_div(b as i64) as u64)),
            op::REM_SIGNED => self.binary(|a, b| (b != 0).then(|| (a as i64).wrapping_rem(b as i64) as u64)),
            op::DIV_UNSIGNED => self.binary(u64::checked_div),
            op::REM_UNSIGNED => self.binary(u64::checked_rem),
            op::LSH => self.binary(|a, b| Some(a.checked_shl(shift(b)).unwrap_or(0))),
            op::RSH_UNSIGNED => self.binary(|a, b| Some(a.checked_shr(shift(b)).unwrap_or(0))),
            op::RSH_SIGNED => self.binary(|a, b| Some((a as i64 >> b.min(63)) as u64)),
            op::BIT_AND => self.binary(|a, b| Some(a & b)),
            op::BIT_OR => self.binary(|a, b| Some(a | b)),
            op::BIT_XOR => self.binary(|a, b| Some(a ^ b)),
            op::EQUAL => self.binary(|a, b| Some(u64::from(a == b))),
            op::LESS_SIGNED => self.binary(|a, b| Some(u64::from((a as i64) < b as i64))),
            op::LESS_UNSIGNED => self.binary(|a, b| Some(u64::from(a < b))),
            _ => Err(Failure::BadProgram),
        }
    }
}
