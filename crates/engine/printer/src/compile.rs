//! Expressions as bytecode, at one instruction of the program.

use lane_protocol::bytecode::{op, register};

use crate::code::Code;
use crate::conversions;
use crate::cpp;
use crate::debug_file::DieId;
use crate::error::PrintError;
use crate::floats;
use crate::location::{self, Place, Spot};
use crate::parse::{Binary, Expression, Named, Unary};
use crate::scope::{self, Meaning};
use crate::types::{self, INT, LONG, Type, UNSIGNED_LONG};

/// Why an expression has no value.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The program has none at this instruction.
    Gone(&'static str),
    Error(PrintError),
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    pub of: Type,
    pub place: Place,
    /// Of a bit-field in memory.
    pub bits: Option<(u64, u64)>,
}

impl Operand {
    pub(crate) fn new(of: Type, place: Place) -> Operand {
        Operand { of, place, bits: None }
    }
}

/// Compiles expressions at one instruction.
pub(crate) struct Compiler<'a> {
    pub spot: Spot<'a>,
    /// The expression as it was written, for errors.
    pub written: &'a str,
    /// Where it is to be evaluated, for errors.
    pub place_name: &'a str,
}

impl Compiler<'_> {
    pub(crate) fn error<T>(&self, what: &str) -> Result<T, Fail> {
        Err(Fail::Error(PrintError::Expression(self.written.to_owned(), what.to_owned())))
    }

    /// The code of a condition: not 0 where it holds.
    pub fn condition(&self, condition: &Named) -> Result<Code, Fail> {
        let operand = self.operand(&condition.1)?;
        Ok(self.truth(&operand)?.then(&[op::END]))
    }

    /// The code of what is not 0 if the operand is true.
    fn truth(&self, operand: &Operand) -> Result<Code, Fail> {
        if floats::is_float(&operand.of) { self.float_truth(operand) } else { self.number(operand) }
    }

    pub fn operand(&self, expression: &Expression) -> Result<Operand, Fail> {
        let found = match expression {
            Expression::Number(value) => {
                let is_int = i32::try_from(*value).is_ok();
                let of = if is_int {
                    INT
                } else if i64::try_from(*value).is_ok() {
                    LONG
                } else {
                    UNSIGNED_LONG
                };
                Operand::new(of, Place::Number(Code::constant(*value)))
            }
            Expression::Float(bits, bytes) => floats::constant(*bits, *bytes),
            Expression::Character(byte) => Operand::new(INT, Place::Number(Code::constant(u64::from(*byte)))),
            Expression::Name(name) => self.name(name)?,
            Expression::Register(name) => self.register(name)?,
            Expression::Unary(operator, inner) => self.unary(*operator, inner)?,
            Expression::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Expression::Member(inner, name) => match self.dotted(expression) {
                Some(global) => global,
                None => self.member(&self.operand(inner)?, name)?,
            },
            Expression::Index(array, index) => self.index(array, index)?,
            Expression::Cast(name, stars, inner) => self.cast(name, *stars, inner)?,
        };
        self.behind_reference(found)
    }

    /// A reference stands for what it refers to.
    pub fn behind_reference(&self, operand: Operand) -> Result<Operand, Fail> {
        let Type::Reference(target) = operand.of else { return Ok(operand) };
        let address = self.number(&operand)?;
        Ok(Operand::new(types::target(self.spot.file, target), Place::Memory(address)))
    }

    fn name(&self, name: &str) -> Result<Operand, Fail> {
        match scope::meaning(&self.spot, name) {
            Some(Meaning::Variable(id)) => Ok(self.variable(id)),
            Some(Meaning::Constant { of, value }) => Ok(Operand::new(
                types::resolve(self.spot.file, of),
                Place::Number(Code::constant(value as u64)),
            )),
            None => {
                if let Some(number) = ["false", "true"].iter().position(|word| *word == name) {
                    return Ok(Operand::new(INT, Place::Number(Code::constant(number as u64))));
                }
                if name == "NULL" || name == "nullptr" {
                    return Ok(Operand::new(Type::Pointer(None), Place::Number(Code::constant(0))));
                }
                self.implicit_member(name)
            }
        }
    }

    fn variable(&self, id: DieId) -> Operand {
        let of = types::type_of(self.spot.file, id);
        Operand::new(of, location::of_variable(&self.spot, id))
    }

    /// `package.name`, as Go's variables outside of functions are named.
    fn dotted(&self, expression: &Expression) -> Option<Operand> {
        let Expression::Member(package, name) = expression else { return None };
        let Expression::Name(package) = &**package else { return None };
        if !scope::is_go(&self.spot) || scope::meaning(&self.spot, package).is_some() {
            return None;
        }
        match scope::meaning(&self.spot, &format!("{package}.{name}"))? {
            Meaning::Variable(id) => Some(self.variable(id)),
            Meaning::Constant { .. } => None,
        }
    }

    /// In a method, a name may be a member of `this`.
    fn implicit_member(&self, name: &str) -> Result<Operand, Fail> {
        if let Some(Meaning::Variable(this)) = scope::meaning(&self.spot, "this")
            && let Ok(member) = self.member(&self.variable(this), name)
        {
            return Ok(member);
        }
        let names = scope::names(&self.spot);
        const SHOWN_MAX: usize = 12;
        let hint = match names.len() {
            0 => String::new(),
            1..=SHOWN_MAX => format!("; there are {}", names.join(", ")),
            _ => format!("; there are {}, ...", names[..SHOWN_MAX].join(", ")),
        };
        Err(Fail::Error(PrintError::NoSuchVariable {
            name: name.to_owned(),
            place: self.place_name.to_owned(),
            hint,
        }))
    }

    fn register(&self, name: &str) -> Result<Operand, Fail> {
        const NAMES: [&str; 17] = [
            "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
            "r14", "r15", "rip",
        ];
        let number = match name {
            "pc" => Some(register::RIP),
            "sp" => Some(register::RSP),
            "fs_base" => Some(register::FS_BASE),
            _ => NAMES.iter().position(|known| *known == name).map(|number| number as u16),
        };
        match number {
            Some(number) => Ok(Operand::new(LONG, Place::Register(number))),
            None => self.error(&format!("there is no register ${name}")),
        }
    }

    /// The code of a number.
    pub fn number(&self, operand: &Operand) -> Result<Code, Fail> {
        let file = self.spot.file;
        if matches!(operand.of, Type::Array(..) | Type::Function) {
            return match &operand.place {
                Place::Memory(address) => Ok(address.clone()),
                Place::Gone(why) => Err(Fail::Gone(why)),
                _ => Err(Fail::Gone("it is not in memory")),
            };
        }
        if !types::is_number(&operand.of) {
            return self.error(match operand.of {
                Type::Float { .. } => "a floating-point number cannot stand there",
                Type::Struct(_) => "a structure is no number",
                _ => "its type is no number",
            });
        }
        let bytes = types::bytes_of(file, &operand.of);
        let signed = types::is_signed(file, &operand.of);
        if let Some((first, count)) = operand.bits {
            return self.bit_field(&operand.place, first, count, signed);
        }
        let code = self.raw_number(&operand.place, bytes)?;
        Ok(code.extended(bytes * 8, signed))
    }

    /// A number's lower bytes; what is above them does not count.
    pub(crate) fn raw_number(&self, place: &Place, bytes: u64) -> Result<Code, Fail> {
        match place {
            Place::Memory(address) => match address.clone().loaded(bytes) {
                Some(code) => Ok(code),
                None => self.error("its size is that of no number"),
            },
            Place::Number(code) => Ok(code.clone()),
            Place::Register(number) => Ok(Code::register(*number)),
            Place::Vector(number) => Ok(Code::vector(*number)),
            Place::Bytes(data) => {
                let lower = data.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                Ok(Code::constant(lower))
            }
            Place::Pieces(pieces) => {
                let mut shift = 0;
                let mut code = Code::constant(0);
                for (bytes, piece) in pieces {
                    let part = self.raw_number(piece, *bytes)?.extended(bytes * 8, false);
                    code = code.and(&part).and(&Code::constant(shift)).then(&[op::LSH, op::BIT_OR]);
                    shift += bytes * 8;
                }
                Ok(code)
            }
            Place::Gone(why) => Err(Fail::Gone(why)),
        }
    }

    fn bit_field(&self, place: &Place, first: u64, count: u64, signed: bool) -> Result<Code, Fail> {
        let bytes = (first + count).div_ceil(8);
        let whole = match place {
            // No more is read than the bits are in.
            Place::Memory(address) => (0..bytes).try_fold(Code::constant(0), |code, byte| {
                let part =
                    address.clone().plus(byte).loaded(1)?.and(&Code::constant(byte * 8)).then(&[op::LSH]);
                Some(code.and(&part).then(&[op::BIT_OR]))
            }),
            other => Some(self.raw_number(other, 8)?),
        };
        match whole {
            Some(whole) if bytes <= 8 => {
                Ok(whole.and(&Code::constant(first)).then(&[op::RSH_UNSIGNED]).extended(count, signed))
            }
            _ => self.error("a bit-field of more than 8 bytes"),
        }
    }

    fn unary(&self, operator: Unary, inner: &Expression) -> Result<Operand, Fail> {
        let operand = self.operand(inner)?;
        let file = self.spot.file;
        if floats::is_float(&operand.of) && matches!(operator, Unary::Not | Unary::Negate) {
            return self.float_unary(operator, &operand);
        }
        Ok(match operator {
            Unary::Dereference => {
                let owned = cpp::owned(file, &operand);
                let is_owned = owned.is_some();
                let at = owned.unwrap_or(operand);
                let of = match &at.of {
                    Type::Pointer(Some(target)) => types::resolve(file, *target),
                    Type::Array(of, counts) => types::element(file, *of, counts),
                    Type::Pointer(None) => return self.error("a pointer to void has to be cast first"),
                    _ if is_owned => return Ok(at),
                    _ => return self.error("only pointers can be dereferenced"),
                };
                Operand::new(of, Place::Memory(self.number(&at)?))
            }
            Unary::AddressOf => match operand.place {
                Place::Memory(address) => Operand::new(Type::Pointer(None), Place::Number(address)),
                Place::Gone(why) => return Err(Fail::Gone(why)),
                _ => return Err(Fail::Gone("it is not in memory")),
            },
            Unary::Not => Operand::new(INT, Place::Number(self.number(&operand)?.then(&[op::LOG_NOT]))),
            Unary::Negate | Unary::Invert => {
                let of = conversions::promoted(&operand.of, file);
                let code = self.number(&operand)?.then(&[op::BIT_NOT]);
                let code = if operator == Unary::Negate { code.plus(1) } else { code };
                Operand::new(of, Place::Number(code))
            }
        })
    }

    fn index(&self, array: &Expression, index: &Expression) -> Result<Operand, Fail> {
        let file = self.spot.file;
        let array = self.operand(array)?;
        let mut array = cpp::owned(file, &array).unwrap_or(array);
        if let Type::Struct(id) = array.of
            && let Some(list) = crate::lists::of_structure(file, id)
        {
            array = Operand::new(Type::Pointer(Some(list.element)), inside(&array.place, list.pointer, 8));
        }
        let of = match &array.of {
            Type::Array(of, counts) => types::element(file, *of, counts),
            Type::Pointer(Some(target)) => types::resolve(file, *target),
            _ => return self.error("only arrays, lists and pointers have elements"),
        };
        let bytes = types::bytes_of(file, &of);
        if bytes == 0 {
            return self.error("the size of its elements is not known");
        }
        let index = self.number(&self.operand(index)?)?;
        let offset = index.and(&Code::constant(bytes)).then(&[op::MUL]);
        let address = self.number(&array)?.and(&offset).then(&[op::ADD]);
        Ok(Operand::new(of, Place::Memory(address)))
    }

    fn member(&self, operand: &Operand, name: &str) -> Result<Operand, Fail> {
        let file = self.spot.file;
        let (id, place) = match &operand.of {
            Type::Struct(id) => (*id, operand.place.clone()),
            Type::Pointer(Some(target)) => match types::resolve(file, *target) {
                Type::Struct(id) => (id, Place::Memory(self.number(operand)?)),
                _ => {
                    return self.error(&format!("it points to no structure that could have a member {name}"));
                }
            },
            _ => return self.error(&format!("it is no structure that could have a member {name}")),
        };
        let Some(member) = conversions::find_member(file, id, name, 0) else {
            if let Some(pointer) = cpp::owned(file, operand) {
                return self.member(&pointer, name);
            }
            return self.error(&format!("there is no member {name}"));
        };
        let bytes = types::bytes_of(file, &member.of);
        let found = Operand { place: inside(&place, member.offset, bytes), of: member.of, bits: member.bits };
        self.behind_reference(found)
    }

    fn cast(&self, name: &str, stars: u32, inner: &Expression) -> Result<Operand, Fail> {
        let file = self.spot.file;
        let named = scope::type_named(&self.spot, name);
        let of = match (named, stars) {
            (Some(id), 0) => types::resolve(file, id),
            (Some(id), 1) => Type::Pointer(Some(id)),
            (None, 0) => match conversions::builtin(name) {
                Some(of) => of,
                None => return self.error(&format!("there is no type {name} here")),
            },
            (None, 1) if name != "void" => return self.error(&format!("there is no type {name} here")),
            _ => Type::Pointer(None),
        };
        let operand = self.operand(inner)?;
        if floats::is_float(&of) || floats::is_float(&operand.of) {
            return self.float_cast(of, &operand);
        }
        if !types::is_number(&of) {
            return self.error("casts can be to numbers and pointers");
        }
        Ok(Operand::new(of, Place::Number(self.number(&operand)?)))
    }

    fn binary(&self, operator: Binary, left: &Expression, right: &Expression) -> Result<Operand, Fail> {
        let file = self.spot.file;
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let one_or_zero = |code: Code| Ok(Operand::new(INT, Place::Number(code)));
        if matches!(operator, Binary::LogicalAnd | Binary::LogicalOr) {
            let first = self.truth(&left)?;
            let second = self.truth(&right)?.then(&[op::LOG_NOT, op::LOG_NOT]);
            return one_or_zero(match operator {
                Binary::LogicalAnd => first.choose(&second, &Code::constant(0)),
                _ => first.choose(&Code::constant(1), &second),
            });
        }
        if floats::is_float(&left.of) || floats::is_float(&right.of) {
            return self.float_binary(operator, &left, &right);
        }
        let (first, second) = (self.number(&left)?, self.number(&right)?);
        if let Some(result) = self.on_pointers(operator, &left, &right, &first, &second)? {
            return Ok(result);
        }
        let of = conversions::common(
            &conversions::promoted(&left.of, file),
            &conversions::promoted(&right.of, file),
        );
        let signed = types::is_signed(file, &of);
        let bits = types::bytes_of(file, &of) * 8;
        // Both are of one type before they meet.
        let both = first.clone().extended(bits, signed).and(&second.clone().extended(bits, signed));
        let less = if signed { op::LESS_SIGNED } else { op::LESS_UNSIGNED };
        let comparison: Option<&[u8]> = match operator {
            Binary::Equal => Some(&[op::EQUAL]),
            Binary::NotEqual => Some(&[op::EQUAL, op::LOG_NOT]),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return one_or_zero(both.then(comparison));
        }
        match operator {
            Binary::Less => return one_or_zero(both.then(&[less])),
            Binary::GreaterEqual => return one_or_zero(both.then(&[less, op::LOG_NOT])),
            Binary::Greater => return one_or_zero(both.then(&[op::SWAP, less])),
            Binary::LessEqual => return one_or_zero(both.then(&[op::SWAP, less, op::LOG_NOT])),
            _ => {}
        }
        let (of, both, signed) = match operator {
            // A shift has the type of what is shifted.
            Binary::Shl | Binary::Shr => {
                let of = conversions::promoted(&left.of, file);
                let signed = types::is_signed(file, &of);
                (of, first.and(&second), signed)
            }
            _ => (of, both, signed),
        };
        let instruction = match operator {
            Binary::Add => op::ADD,
            Binary::Sub => op::SUB,
            Binary::Mul => op::MUL,
            Binary::Div if signed => op::DIV_SIGNED,
            Binary::Div => op::DIV_UNSIGNED,
            Binary::Rem if signed => op::REM_SIGNED,
            Binary::Rem => op::REM_UNSIGNED,
            Binary::Shl => op::LSH,
            Binary::Shr if signed => op::RSH_SIGNED,
            Binary::Shr => op::RSH_UNSIGNED,
            Binary::And => op::BIT_AND,
            Binary::Xor => op::BIT_XOR,
            _ => op::BIT_OR,
        };
        Ok(Operand::new(of, Place::Number(both.then(&[instruction]))))
    }

    /// What is special with pointers: steps of the size of what they point to.
    fn on_pointers(
        &self,
        operator: Binary,
        left: &Operand,
        right: &Operand,
        first: &Code,
        second: &Code,
    ) -> Result<Option<Operand>, Fail> {
        let file = self.spot.file;
        let step = |of: &Type| match of {
            Type::Pointer(target) => Some(types::bytes_of(file, &types::target(file, *target)).max(1)),
            Type::Array(of, counts) => Some(types::bytes_of(file, &types::element(file, *of, counts)).max(1)),
            _ => None,
        };
        let decayed = |of: &Type| match of {
            Type::Array(of, counts) if counts.len() == 1 => Type::Pointer(*of),
            Type::Array(..) => Type::Pointer(None),
            other => other.clone(),
        };
        let scaled = |code: &Code, by: u64| code.clone().and(&Code::constant(by)).then(&[op::MUL]);
        let (of, code) = match (operator, step(&left.of), step(&right.of)) {
            (Binary::Add | Binary::Sub, Some(by), None) => {
                let instruction = if operator == Binary::Add { op::ADD } else { op::SUB };
                (decayed(&left.of), first.clone().and(&scaled(second, by)).then(&[instruction]))
            }
            (Binary::Add, None, Some(by)) => {
                (decayed(&right.of), second.clone().and(&scaled(first, by)).then(&[op::ADD]))
            }
            (Binary::Sub, Some(by), Some(_)) => {
                let distance = first.clone().and(second).then(&[op::SUB]);
                (LONG, distance.and(&Code::constant(by)).then(&[op::DIV_SIGNED]))
            }
            _ => return Ok(None),
        };
        Ok(Some(Operand::new(of, Place::Number(code))))
    }
}

/// A part of a value: so many bytes from the offset on.
pub(crate) fn inside(place: &Place, offset: u64, bytes: u64) -> Place {
    match place {
        Place::Memory(address) => Place::Memory(address.clone().plus(offset)),
        Place::Number(code) => shifted(code.clone(), offset),
        Place::Register(number) => shifted(Code::register(*number), offset),
        Place::Vector(number) if offset == 0 => Place::Vector(*number),
        Place::Vector(_) => Place::Gone("it is inside of a vector register"),
        Place::Bytes(data) => {
            let part = data.get(offset as usize..(offset + bytes) as usize);
            part.map_or(Place::Gone(location::OPTIMISED_OUT), |part| Place::Bytes(part.to_vec()))
        }
        Place::Pieces(pieces) => {
            let mut start = 0;
            let mut found = Vec::new();
            for (length, piece) in pieces {
                let (from, to) = (offset.max(start), (offset + bytes).min(start + length));
                if from < to {
                    found.push((to - from, inside(piece, from - start, to - from)));
                }
                start += length;
            }
            match found.len() {
                0 => Place::Gone(location::OPTIMISED_OUT),
                1 if found[0].0 == bytes => found.remove(0).1,
                _ => Place::Pieces(found),
            }
        }
        Place::Gone(why) => Place::Gone(why),
    }
}

fn shifted(code: Code, offset: u64) -> Place {
    if offset == 0 {
        return Place::Number(code);
    }
    Place::Number(code.and(&Code::constant(offset * 8)).then(&[op::RSH_UNSIGNED]))
}
