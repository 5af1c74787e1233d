//! What is recorded of an expression, and how its value is read from that.

use lane_protocol::bytecode::op;

use crate::code::Code;
use crate::compile::{Compiler, Fail, Operand};
use crate::debug_file::{DebugFile, DieId};
use crate::error::PrintError;
use crate::location::Place;
use crate::parse::Named;
use crate::types::{self, Type};

/// Most bytes that are recorded of one value.
const VALUE_BYTES_MAX: u64 = 4096;
/// Most bytes of a text.
const TEXT_BYTES_MAX: u16 = 200;
/// Most texts of one value.
const TEXTS_MAX: usize = 24;

/// Some bytes of a value.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub offset: u64,
    pub bytes: u64,
    pub source: Source,
}

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The next part of the record.
    Part,
    Known(Vec<u8>),
    Gone(&'static str),
}

/// What is recorded of an expression, in the order of the parts.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub of: Type,
    pub chunks: Vec<Chunk>,
    /// Offsets of pointers to text; their texts are recorded behind the chunks.
    pub texts: Vec<u64>,
    /// Of a bit-field: its value was calculated.
    pub code: Code,
    pub needs_vectors: bool,
}

impl Shape {
    /// The shape of an expression without a value.
    pub fn gone(why: &'static str) -> Shape {
        let chunk = Chunk { offset: 0, bytes: 0, source: Source::Gone(why) };
        Shape {
            of: Type::Void,
            chunks: vec![chunk],
            texts: Vec::new(),
            code: Code::default(),
            needs_vectors: false,
        }
    }
}

/// Compiles an expression. Of what the program does not have at this place the shape
/// says so.
pub(crate) fn of_expression(compiler: &Compiler, expression: &Named) -> Result<Shape, PrintError> {
    match compiler.operand(&expression.1).and_then(|operand| of_operand(compiler, &operand)) {
        Ok(shape) => Ok(shape),
        Err(Fail::Gone(why)) => Ok(Shape::gone(why)),
        Err(Fail::Error(error)) => Err(error),
    }
}

/// What is recorded of a value.
pub(crate) fn of_operand(compiler: &Compiler, operand: &Operand) -> Result<Shape, Fail> {
    let file = compiler.spot.file;
    let bytes = types::bytes_of(file, &operand.of).min(VALUE_BYTES_MAX);
    let mut shape = Shape {
        of: operand.of.clone(),
        chunks: Vec::new(),
        texts: Vec::new(),
        code: Code::default(),
        needs_vectors: false,
    };
    if operand.bits.is_some() {
        shape.code = compiler.number(operand)?.then(&[op::RECORD_VALUE]);
        shape.chunks.push(Chunk { offset: 0, bytes, source: Source::Part });
        return Ok(shape);
    }
    if matches!(operand.of, Type::Function) {
        shape.of = Type::Pointer(None);
        shape.code = compiler.number(operand)?.then(&[op::RECORD_VALUE]);
        shape.chunks.push(Chunk { offset: 0, bytes: 8, source: Source::Part });
        return Ok(shape);
    }
    if bytes == 0 {
        return Ok(Shape::gone("its size is not known"));
    }
    add_chunks(&mut shape, &operand.place, 0, bytes);
    let mut offsets = Vec::new();
    find_texts(file, &operand.of, 0, bytes, &mut offsets);
    for offset in offsets {
        let pointer = match crate::compile::inside(&operand.place, offset, 8) {
            Place::Memory(address) => address.loaded(8),
            Place::Number(code) => Some(code),
            Place::Register(number) => Some(Code::register(number)),
            _ => None,
        };
        if let Some(pointer) = pointer {
            shape.code = shape.code.and(&pointer.record_text(TEXT_BYTES_MAX));
            shape.texts.push(offset);
        }
    }
    Ok(shape)
}

fn add_chunks(shape: &mut Shape, place: &Place, offset: u64, bytes: u64) {
    let code = std::mem::take(&mut shape.code);
    let mut source = Source::Part;
    shape.code = match place {
        Place::Memory(address) => code.and(&address.clone().record(bytes as u16)),
        Place::Number(value) => code.and(value).then(&[op::RECORD_VALUE]),
        Place::Register(number) => code.and(&Code::register(*number)).then(&[op::RECORD_VALUE]),
        Place::Vector(number) => {
            shape.needs_vectors = true;
            code.then(&[op::RECORD_VECTOR, *number, bytes.min(16) as u8])
        }
        Place::Bytes(data) => {
            source = Source::Known(data.clone());
            code
        }
        Place::Gone(why) => {
            source = Source::Gone(why);
            code
        }
        Place::Pieces(pieces) => {
            shape.code = code;
            let mut start = 0;
            for (length, piece) in pieces.iter().filter(|(length, _)| *length != 0) {
                if start < bytes {
                    add_chunks(shape, piece, offset + start, (*length).min(bytes - start));
                }
                start += length;
            }
            return;
        }
    };
    shape.chunks.push(Chunk { offset, bytes, source });
}

/// Finds the pointers to text in a value.
fn find_texts(file: &DebugFile, of: &Type, offset: u64, end: u64, found: &mut Vec<u64>) {
    if offset + 8 > end || found.len() >= TEXTS_MAX {
        return;
    }
    match of {
        Type::Pointer(target) if is_text(file, *target) => found.push(offset),
        Type::Struct(id) => {
            for member in types::members(file, *id).iter().filter(|member| member.bits.is_none()) {
                find_texts(file, &member.of, offset + member.offset, end, found);
            }
        }
        Type::Array(of, counts) => {
            let element = types::element(file, *of, counts);
            let each = types::bytes_of(file, &element);
            if each != 0 && !types::is_number(&element) || matches!(element, Type::Pointer(_)) {
                for number in 0..counts.first().copied().unwrap_or(0).min(TEXTS_MAX as u64) {
                    find_texts(file, &element, offset + number * each, end, found);
                }
            }
        }
        _ => {}
    }
}

/// True if a pointer to this is a pointer to text.
pub(crate) fn is_text(file: &DebugFile, target: Option<DieId>) -> bool {
    matches!(types::target(file, target), Type::Character { bytes: 1, .. })
}

/// True for a pointer to text.
pub(crate) fn is_pointer_to_text(file: &DebugFile, of: &Type) -> bool {
    matches!(of, Type::Pointer(target) if is_text(file, *target))
}
