//! Calculation with floating-point numbers, as C does it.
//!
//! In the bytecode all are of 64 bits while something is done with them. That is no loss for
//! those of 32: sums, differences, products and quotients of two such, rounded to 64 bits and
//! then to 32, are those that are rounded once.

use lane_protocol::bytecode::{float, op};

use crate::code::Code;
use crate::compile::{Compiler, Fail, Operand};
use crate::location::Place;
use crate::parse::{Binary, Unary};
use crate::types::{self, INT, Type};

const DOUBLE_BYTES: u64 = 8;
const SINGLE_BYTES: u64 = 4;

pub(crate) fn is_float(of: &Type) -> bool {
    matches!(of, Type::Float { .. })
}

/// A constant of so many bytes; the bits are those of 64.
pub(crate) fn constant(bits: u64, bytes: u64) -> Operand {
    let code = narrowed(Code::constant(bits), bytes);
    Operand::new(Type::Float { bytes }, Place::Number(code))
}

/// From 64 bits to what a number of so many bytes has.
fn narrowed(code: Code, bytes: u64) -> Code {
    if bytes == SINGLE_BYTES { code.then(&[op::FLOAT, float::TO_SINGLE]) } else { code }
}

impl Compiler<'_> {
    /// The code of any number as a floating-point number of 64 bits.
    fn float(&self, operand: &Operand) -> Result<Code, Fail> {
        match operand.of {
            Type::Float { bytes: DOUBLE_BYTES } => self.raw_number(&operand.place, DOUBLE_BYTES),
            Type::Float { bytes: SINGLE_BYTES } => {
                let single = self.raw_number(&operand.place, SINGLE_BYTES)?;
                Ok(single.then(&[op::FLOAT, float::FROM_SINGLE]))
            }
            Type::Float { .. } => {
                self.error("numbers of more than 64 bits can be printed, not calculated with")
            }
            Type::Pointer(_) | Type::Array(..) | Type::Function => {
                self.error("an address and a floating-point number have nothing in common")
            }
            _ => {
                let is_signed = types::is_signed(self.spot.file, &operand.of);
                let kind = if is_signed { float::FROM_SIGNED } else { float::FROM_UNSIGNED };
                Ok(self.number(operand)?.then(&[op::FLOAT, kind]))
            }
        }
    }

    /// The code of what is not 0 if the number is not.
    pub(crate) fn float_truth(&self, operand: &Operand) -> Result<Code, Fail> {
        let code = self.float(operand)?.and(&Code::constant(0));
        Ok(code.then(&[op::FLOAT, float::EQUAL, op::LOG_NOT]))
    }

    pub(crate) fn float_unary(&self, operator: Unary, operand: &Operand) -> Result<Operand, Fail> {
        const SIGN: u64 = 1 << 63;
        if operator == Unary::Not {
            let code = self.float_truth(operand)?.then(&[op::LOG_NOT]);
            return Ok(Operand::new(INT, Place::Number(code)));
        }
        let code = self.float(operand)?.and(&Code::constant(SIGN)).then(&[op::BIT_XOR]);
        let bytes = types::bytes_of(self.spot.file, &operand.of);
        Ok(Operand::new(operand.of.clone(), Place::Number(narrowed(code, bytes))))
    }

    /// A cast to or from a floating-point number.
    pub(crate) fn float_cast(&self, of: Type, operand: &Operand) -> Result<Operand, Fail> {
        let code = self.float(operand)?;
        let code = match of {
            Type::Float { bytes: bytes @ (SINGLE_BYTES | DOUBLE_BYTES) } => narrowed(code, bytes),
            Type::Float { .. } => return self.error("casts cannot be to numbers of more than 64 bits"),
            Type::Boolean { .. } => self.float_truth(operand)?.then(&[op::LOG_NOT, op::LOG_NOT]),
            Type::Integer { bytes: 8, signed: false } => code.then(&[op::FLOAT, float::TO_UNSIGNED]),
            Type::Integer { .. } | Type::Character { .. } | Type::Enum(_) => {
                code.then(&[op::FLOAT, float::TO_SIGNED])
            }
            _ => return self.error("a floating-point number can be cast to numbers only"),
        };
        Ok(Operand::new(of, Place::Number(code)))
    }

    /// An operator of two operands, of which at least one is a floating-point number.
    pub(crate) fn float_binary(
        &self,
        operator: Binary,
        left: &Operand,
        right: &Operand,
    ) -> Result<Operand, Fail> {
        let both = self.float(left)?.and(&self.float(right)?);
        let test = |code: &[u8]| Ok(Operand::new(INT, Place::Number(both.clone().then(code))));
        let kind = match operator {
            Binary::Add => float::ADD,
            Binary::Sub => float::SUB,
            Binary::Mul => float::MUL,
            Binary::Div => float::DIV,
            Binary::Equal => return test(&[op::FLOAT, float::EQUAL]),
            Binary::NotEqual => return test(&[op::FLOAT, float::EQUAL, op::LOG_NOT]),
            Binary::Less => return test(&[op::FLOAT, float::LESS]),
            Binary::LessEqual => return test(&[op::FLOAT, float::LESS_OR_EQUAL]),
            Binary::Greater => return test(&[op::SWAP, op::FLOAT, float::LESS]),
            Binary::GreaterEqual => return test(&[op::SWAP, op::FLOAT, float::LESS_OR_EQUAL]),
            Binary::Rem
            | Binary::Shl
            | Binary::Shr
            | Binary::And
            | Binary::Xor
            | Binary::Or
            | Binary::LogicalAnd
            | Binary::LogicalOr => return self.error("this operator is not for floating-point numbers"),
        };
        let is_double = [left, right].iter().any(|operand| operand.of == Type::Float { bytes: DOUBLE_BYTES });
        let bytes = if is_double { DOUBLE_BYTES } else { SINGLE_BYTES };
        let code = narrowed(both.then(&[op::FLOAT, kind]), bytes);
        Ok(Operand::new(Type::Float { bytes }, Place::Number(code)))
    }
}
