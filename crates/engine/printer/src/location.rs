//! Where a variable is at an instruction: DWARF's locations, as bytecode.
//!
//! Whatever is not understood is said to be not available, never guessed.

use gimli::{CfaRule, Operation, UnwindSection};
use lane_protocol::bytecode::{op, register};

use crate::code::{Code, GENERAL};
use crate::debug_file::{DebugFile, DieId, Reader, ThreadLocal, Value};

/// Where a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// In memory; the code leaves the address.
    Memory(Code),
    /// The code leaves the value.
    Number(Code),
    /// In a general register, by gdb's number.
    Register(u16),
    /// At the beginning of a vector register.
    Vector(u8),
    /// Known when it was compiled.
    Bytes(Vec<u8>),
    /// In several places, each with its bytes.
    Pieces(Vec<(u64, Place)>),
    /// Nowhere, and why.
    Gone(&'static str),
}

pub(crate) const OPTIMISED_OUT: &str = "optimized out";
const NOT_UNDERSTOOD: &str = "its location is not understood";

/// An instruction of the program.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub file: &'a DebugFile,
    pub unit: usize,
    /// In the file.
    pub address: u64,
    /// What is to be added to addresses of the file.
    pub bias: u64,
    /// The function that has the instruction.
    pub function: Option<DieId>,
    /// The line that is meant, if one is: the end of its file's path, and its number.
    pub line: Option<(&'a std::path::Path, u64)>,
}

/// Where a variable is.
pub(crate) fn of_variable(spot: &Spot, variable: DieId) -> Place {
    let file = spot.file;
    if let Some(location) = file.attribute(variable, gimli::DW_AT_location) {
        return match expression_at(spot, variable.unit, location) {
            Some(expression) => translate(spot, variable.unit, expression).unwrap_or_else(Place::Gone),
            None => Place::Gone(OPTIMISED_OUT),
        };
    }
    match file.inherited(variable, gimli::DW_AT_const_value) {
        Some((Value::Block(bytes), _)) => {
            use gimli::Reader as _;
            bytes.to_slice().map_or(Place::Gone(NOT_UNDERSTOOD), |bytes| Place::Bytes(bytes.into_owned()))
        }
        Some((value, _)) => {
            match value.sdata_value().map(|value| value as u64).or_else(|| value.udata_value()) {
                Some(number) => Place::Number(Code::constant(number)),
                None => Place::Gone(NOT_UNDERSTOOD),
            }
        }
        None => Place::Gone(OPTIMISED_OUT),
    }
}

/// The expression of an attribute that holds at the instruction.
fn expression_at(spot: &Spot, unit: usize, value: Value) -> Option<gimli::Expression<Reader>> {
    if let Value::Exprloc(expression) = value {
        return Some(expression);
    }
    let own = &spot.file.units[unit].unit;
    let mut entries = spot.file.dwarf.attr_locations(own, value).ok()??;
    while let Ok(Some(entry)) = entries.next() {
        if (entry.range.begin..entry.range.end).contains(&spot.address) {
            return Some(entry.data);
        }
    }
    None
}

/// The canonical frame address: the stack pointer before the call of the function.
pub(crate) fn frame_address(spot: &Spot) -> Result<Code, &'static str> {
    const NO_TABLE: &str = "there is no unwind table";
    let frames = &spot.file.frames;
    let mut context = gimli::UnwindContext::new();
    let mut rule = None;
    let found = frames.eh_frame.unwind_info_for_address(
        &frames.bases,
        &mut context,
        spot.address,
        gimli::EhFrame::cie_from_offset,
    );
    if let Ok(row) = found {
        rule = Some(row.cfa().clone());
    } else if let Ok(row) = frames.debug_frame.unwind_info_for_address(
        &frames.bases,
        &mut context,
        spot.address,
        gimli::DebugFrame::cie_from_offset,
    ) {
        rule = Some(row.cfa().clone());
    }
    match rule {
        Some(CfaRule::RegisterAndOffset { register, offset }) => {
            let number = GENERAL.get(usize::from(register.0)).ok_or(NO_TABLE)?;
            Ok(Code::register(*number).plus(offset as u64))
        }
        Some(CfaRule::Expression(_)) | None => Err(NO_TABLE),
    }
}

/// What a frame's offsets are from.
fn frame_base(spot: &Spot) -> Result<Code, &'static str> {
    let function = spot.function.ok_or(NOT_UNDERSTOOD)?;
    let value = spot.file.attribute(function, gimli::DW_AT_frame_base).ok_or(NOT_UNDERSTOOD)?;
    let expression = expression_at(spot, function.unit, value).ok_or(OPTIMISED_OUT)?;
    match translate(spot, function.unit, expression)? {
        Place::Memory(code) | Place::Number(code) => Ok(code),
        Place::Register(number) => Ok(Code::register(number)),
        Place::Vector(_) | Place::Bytes(_) | Place::Pieces(_) => Err(NOT_UNDERSTOOD),
        Place::Gone(why) => Err(why),
    }
}

/// An expression that is being translated.
#[derive(Default)]
struct Translation {
    code: Code,
    /// Something else than an address in `code`.
    place: Option<Place>,
    pieces: Vec<(u64, Place)>,
}

impl Translation {
    fn finish(&mut self) -> Place {
        let code = std::mem::take(&mut self.code);
        match self.place.take() {
            Some(Place::Number(_)) => Place::Number(code),
            Some(place) => place,
            None if code.bytes.is_empty() => Place::Gone(OPTIMISED_OUT),
            None => Place::Memory(code),
        }
    }
}

fn translate(spot: &Spot, unit: usize, expression: gimli::Expression<Reader>) -> Result<Place, &'static str> {
    let encoding = spot.file.units[unit].unit.encoding();
    let mut operations = expression.operations(encoding);
    let mut state = Translation::default();
    while let Some(operation) = operations.next().map_err(|_| NOT_UNDERSTOOD)? {
        if state.place.is_some() && !matches!(operation, Operation::Piece { .. } | Operation::Nop) {
            return Err(NOT_UNDERSTOOD);
        }
        match operation {
            Operation::Piece { size_in_bits, bit_offset: None | Some(0) }
                if size_in_bits.is_multiple_of(8) =>
            {
                let place = state.finish();
                state.pieces.push((size_in_bits / 8, place));
            }
            other => step(spot, unit, &mut state, &other)?,
        }
    }
    if state.pieces.is_empty() { Ok(state.finish()) } else { Ok(Place::Pieces(state.pieces)) }
}

fn step(
    spot: &Spot,
    unit: usize,
    state: &mut Translation,
    operation: &Operation<Reader>,
) -> Result<(), &'static str> {
    let code = std::mem::take(&mut state.code);
    state.code = match operation {
        Operation::Register { register } => {
            state.place = Some(place_of_register(register.0)?);
            code
        }
        Operation::StackValue => {
            state.place = Some(Place::Number(Code::default()));
            code
        }
        Operation::ImplicitValue { data } => {
            use gimli::Reader as _;
            let bytes = data.to_slice().map_err(|_| NOT_UNDERSTOOD)?.into_owned();
            state.place = Some(Place::Bytes(bytes));
            code
        }
        Operation::RegisterOffset { register, offset, base_type } if base_type.0 == 0 => {
            let number = GENERAL.get(usize::from(register.0)).ok_or(NOT_UNDERSTOOD)?;
            code.and(&Code::register(*number).plus(*offset as u64))
        }
        Operation::FrameOffset { offset } => code.and(&frame_base(spot)?.plus(*offset as u64)),
        Operation::CallFrameCFA => code.and(&frame_address(spot)?),
        Operation::Address { address } => code.and(&Code::constant(address.wrapping_add(spot.bias))),
        Operation::AddressIndex { index } => {
            let own = &spot.file.units[unit].unit;
            let address = spot.file.dwarf.address(own, *index).map_err(|_| NOT_UNDERSTOOD)?;
            code.and(&Code::constant(address.wrapping_add(spot.bias)))
        }
        Operation::UnsignedConstant { value } => code.and(&Code::constant(*value)),
        Operation::SignedConstant { value } => code.and(&Code::constant(*value as u64)),
        Operation::PlusConstant { value } => code.plus(*value),
        Operation::Deref { size, space: false, base_type } if base_type.0 == 0 => {
            code.loaded(u64::from(*size)).ok_or(NOT_UNDERSTOOD)?
        }
        Operation::TLS => thread_local(spot, code)?,
        Operation::EntryValue { .. } | Operation::ImplicitPointer { .. } => return Err(OPTIMISED_OUT),
        other => code.then(arithmetic(other).ok_or(NOT_UNDERSTOOD)?),
    };
    Ok(())
}

fn place_of_register(number: u16) -> Result<Place, &'static str> {
    const FIRST_VECTOR: u16 = 17;
    match GENERAL.get(usize::from(number)) {
        Some(general) => Ok(Place::Register(*general)),
        None if (FIRST_VECTOR..FIRST_VECTOR + 16).contains(&number) => {
            Ok(Place::Vector((number - FIRST_VECTOR) as u8))
        }
        None => Err("it is in a register that is not recorded"),
    }
}

/// The address of a thread-local variable from its place.
fn thread_local(spot: &Spot, place: Code) -> Result<Code, &'static str> {
    let base = Code::register(register::FS_BASE);
    let slot = |address: u64| {
        Code::constant(address.wrapping_add(spot.bias)).loaded(8).ok_or("its address is not understood")
    };
    let block = match spot.file.thread_local.as_ref().ok_or("where it lies in a thread is not known")? {
        ThreadLocal::Executable { bytes, alignment } => {
            base.and(&Code::constant(bytes.next_multiple_of(*alignment))).then(&[op::SUB])
        }
        ThreadLocal::Offset { slot: address, of } => {
            base.and(&slot(*address)?).then(&[op::ADD]).and(&Code::constant(*of)).then(&[op::SUB])
        }
        ThreadLocal::Module { slot: address } => {
            block_of_module(&slot(*address)?).ok_or("it is not understood")?
        }
    };
    Ok(place.and(&block).then(&[op::ADD]))
}

/// Where the running thread has the thread-local memory of a module (ELF Handling For
/// Thread-Local Storage, x86-64): in its vector, if that reaches so far; else 0.
fn block_of_module(module: &Code) -> Option<Code> {
    const VECTOR_AT: u64 = 8;
    const ENTRY_BYTES: u64 = 16;
    let vector = Code::register(register::FS_BASE).plus(VECTOR_AT).loaded(8)?;
    // The entry before the first holds their count.
    let count = vector.clone().plus(ENTRY_BYTES.wrapping_neg()).loaded(8)?;
    let is_there = module.clone().plus(u64::MAX).and(&count).then(&[op::LESS_UNSIGNED]);
    let entry =
        module.clone().and(&Code::constant(ENTRY_BYTES)).then(&[op::MUL]).and(&vector).then(&[op::ADD]);
    Some(is_there.choose(&entry.loaded(8)?, &Code::constant(0)))
}

/// Operations that look the same in bytecode. Comparisons are signed.
fn arithmetic(operation: &Operation<Reader>) -> Option<&'static [u8]> {
    Some(match operation {
        Operation::Nop => &[],
        Operation::Drop => &[op::POP],
        Operation::Pick { index: 0 } => &[op::DUP],
        Operation::Pick { index: 1 } => &[op::PICK, 1],
        Operation::Swap => &[op::SWAP],
        Operation::Rot => &[op::ROT],
        Operation::And => &[op::BIT_AND],
        Operation::Or => &[op::BIT_OR],
        Operation::Xor => &[op::BIT_XOR],
        Operation::Not => &[op::BIT_NOT],
        Operation::Plus => &[op::ADD],
        Operation::Minus => &[op::SUB],
        Operation::Mul => &[op::MUL],
        Operation::Div => &[op::DIV_SIGNED],
        Operation::Mod => &[op::REM_UNSIGNED],
        Operation::Neg => &[op::BIT_NOT, op::CONST8, 1, op::ADD],
        Operation::Shl => &[op::LSH],
        Operation::Shr => &[op::RSH_UNSIGNED],
        Operation::Shra => &[op::RSH_SIGNED],
        Operation::Eq => &[op::EQUAL],
        Operation::Ne => &[op::EQUAL, op::LOG_NOT],
        Operation::Lt => &[op::LESS_SIGNED],
        Operation::Ge => &[op::LESS_SIGNED, op::LOG_NOT],
        Operation::Gt => &[op::SWAP, op::LESS_SIGNED],
        Operation::Le => &[op::SWAP, op::LESS_SIGNED, op::LOG_NOT],
        _ => return None,
    })
}
