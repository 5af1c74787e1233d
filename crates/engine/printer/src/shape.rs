//! What is recorded of an expression, and how its value is read from that.

use std::mem::take;

use lane_protocol::bytecode::op;

use crate::code::Code;
use crate::compile::{Compiler, Fail, Operand};
use crate::debug_file::{DebugFile, DieId};
use crate::dynamic::{self, Interface};
use crate::error::PrintError;
use crate::lists::{self, Count, List};
use crate::location::Place;
use crate::nodes::{self, Nodes};
use crate::parse::Named;
use crate::types::{self, Type};
use crate::variants;

/// Most bytes that are recorded of one value.
const VALUE_BYTES_MAX: u64 = 4096;
/// Most bytes of a text.
const TEXT_BYTES_MAX: u16 = 200;
/// Most texts of one value.
const TEXTS_MAX: usize = 24;
/// Most lists of one value, and most bytes of the elements of one.
const LISTS_MAX: usize = 16;
const ELEMENTS_BYTES_MAX: u16 = 2048;
/// Most collections of nodes, and most interfaces, of one value.
const NODES_MAX: usize = 8;
/// Most texts and most lists of a piece of an element in a node.
const PIECE_PARTS_MAX: usize = 4;
/// Elements of which texts and lists are recorded, and most of these in one value.
const DEEP_ELEMENTS: u64 = 8;
const DEEP_MAX: usize = 64;

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
    /// Structures that are lists; their elements are recorded behind the texts.
    pub lists: Vec<Elements>,
    /// Values that have elements in nodes; these are recorded last, behind their number.
    pub nodes: Vec<(u64, Nodes)>,
    /// Interfaces of Go; what they have is recorded behind the nodes.
    pub interfaces: Vec<u64>,
    /// Of a bit-field: its value was calculated.
    pub code: Code,
    pub needs_vectors: bool,
}

/// What is recorded of a list's elements.
#[derive(Debug, Clone)]
pub(crate) struct Elements {
    /// Offset of the structure.
    pub offset: u64,
    /// Offsets of pointers to text in the first elements; recorded behind the elements.
    pub texts: Vec<u64>,
    /// Offsets of lists in the first elements; recorded behind these.
    pub lists: Vec<u64>,
}

impl Shape {
    /// The shape of an expression without a value.
    pub fn gone(why: &'static str) -> Shape {
        let chunk = Chunk { offset: 0, bytes: 0, source: Source::Gone(why) };
        Shape {
            of: Type::Void,
            chunks: vec![chunk],
            texts: Vec::new(),
            lists: Vec::new(),
            nodes: Vec::new(),
            interfaces: Vec::new(),
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
    let mut shape = Shape { of: operand.of.clone(), chunks: Vec::new(), ..Shape::gone("") };
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
    Ok(of_place(file, shape.of, &operand.place))
}

/// What is recorded of a value that is there.
pub(crate) fn of_place(file: &DebugFile, of: Type, place: &Place) -> Shape {
    let bytes = types::bytes_of(file, &of).min(VALUE_BYTES_MAX);
    if bytes == 0 {
        return Shape::gone("its size is not known");
    }
    let mut shape = Shape { of, chunks: Vec::new(), ..Shape::gone("") };
    add_chunks(&mut shape, place, 0, bytes);
    add_elsewhere(file, &mut shape, place);
    shape
}

/// What the value has elsewhere is recorded behind it: texts and lists.
pub(crate) fn add_elsewhere(file: &DebugFile, shape: &mut Shape, place: &Place) {
    let mut found = Elsewhere::default();
    found.look(file, &shape.of, 0, types::bytes_of(file, &shape.of).min(VALUE_BYTES_MAX));
    let word = |offset| match crate::compile::inside(place, offset, 8) {
        Place::Memory(address) => address.loaded(8),
        Place::Number(code) => Some(code),
        Place::Register(number) => Some(Code::register(number)),
        _ => None,
    };
    for offset in found.texts {
        if let Some(pointer) = word(offset) {
            shape.code = take(&mut shape.code).and(&pointer.record_text(TEXT_BYTES_MAX));
            shape.texts.push(offset);
        }
    }
    let mut deep = 0;
    for (offset, list) in found.lists {
        let Some([pointer, bytes]) = place_and_bytes(file, &list, &|at| word(offset + at)) else { continue };
        shape.code = take(&mut shape.code).and(&pointer.clone().record_some(&bytes, most_bytes(&list)));
        let mut elements = Elements { offset, texts: Vec::new(), lists: Vec::new() };
        deep_parts(file, &list, &mut elements, deep, |at, inner| {
            shape.code = take(&mut shape.code).and(&deep_code(file, [&pointer, &bytes], at, inner));
        });
        deep += elements.texts.len() + elements.lists.len();
        shape.lists.push(elements);
    }
    for (offset, nodes) in found.nodes {
        if let Some(record) = nodes.record(file, &|at| word(offset + at), &|piece| piece_code(file, piece)) {
            shape.code = take(&mut shape.code).and(&record);
            shape.nodes.push((offset, nodes));
        }
    }
    for (offset, interface) in found.interfaces {
        if let Some(record) = interface.record(&|at| word(offset + at)) {
            shape.code = take(&mut shape.code).and(&record);
            shape.interfaces.push(offset);
        }
    }
}

/// Offsets of pointers to text, and of lists, in a piece of an element.
pub(crate) fn parts_of_piece(file: &DebugFile, piece: DieId) -> (Vec<u64>, Vec<(u64, List)>) {
    let of = types::resolve(file, piece);
    let mut found = Elsewhere::default();
    found.look(file, &of, 0, types::bytes_of(file, &of));
    found.texts.truncate(PIECE_PARTS_MAX);
    found.lists.truncate(PIECE_PARTS_MAX);
    (found.texts, found.lists)
}

/// Records what a piece of an element has elsewhere.
fn piece_code(file: &DebugFile, piece: DieId) -> Code {
    let (texts, lists) = parts_of_piece(file, piece);
    let word = |offset: u64| Code::piece().plus(offset).loaded(8);
    let texts = texts.into_iter().filter_map(|at| Some(word(at)?.record_text(TEXT_BYTES_MAX)));
    let nothing = Code::constant(0).then(&[op::RECORD_VALUE]);
    let lists = lists.iter().map(|(offset, list)| {
        let parts = place_and_bytes(file, list, &|at| word(offset + at));
        let most = most_bytes(list).min(TEXT_BYTES_MAX);
        parts.map_or(nothing.clone(), |[pointer, bytes]| pointer.record_some(&bytes, most))
    });
    texts.chain(lists).fold(Code::default(), |code, part| code.and(&part))
}

fn most_bytes(list: &List) -> u16 {
    if list.is_text { TEXT_BYTES_MAX } else { ELEMENTS_BYTES_MAX }
}

/// Where a list has its elements, and how many bytes these are; `word` reads a word of it.
fn place_and_bytes(file: &DebugFile, list: &List, word: &dyn Fn(u64) -> Option<Code>) -> Option<[Code; 2]> {
    let pointer = word(list.pointer)?.plus(list.skipped);
    let bytes = match list.count {
        Count::Bits(last, bit) => {
            let rest = word(bit)?.extended(32, false).choose(&Code::constant(8), &Code::constant(0));
            word(last)?.and(&pointer).then(&[op::SUB]).and(&rest).then(&[op::ADD])
        }
        Count::Number(at) => word(at)?.times(types::bytes_of(file, &types::resolve(file, list.element))),
        Count::Behind(at) => word(at)?.and(&pointer).then(&[op::SUB]),
    };
    Some([pointer, bytes])
}

/// Finds the texts, and then the lists, in the first elements of a list.
fn deep_parts(
    file: &DebugFile,
    list: &List,
    elements: &mut Elements,
    deep: usize,
    mut act: impl FnMut(u64, Option<&List>),
) {
    let element = types::resolve(file, list.element);
    let each = types::bytes_of(file, &element);
    let mut found = Elsewhere::default();
    if !list.is_text && each != 0 {
        found.look(file, &element, 0, each);
    }
    let count = (found.texts.len() + found.lists.len()).max(1) as u64;
    let first = DEEP_ELEMENTS.min((DEEP_MAX.saturating_sub(deep)) as u64 / count);
    for (number, text) in (0..first).flat_map(|number| found.texts.iter().map(move |text| (number, text))) {
        elements.texts.push(number * each + text);
        act(number * each + text, None);
    }
    for (number, (at, inner)) in (0..first).flat_map(|number| found.lists.iter().map(move |at| (number, at)))
    {
        elements.lists.push(number * each + at);
        act(number * each + at, Some(inner));
    }
}

/// Records what an element has elsewhere, if there is such an element.
fn deep_code(file: &DebugFile, [pointer, bytes]: [&Code; 2], at: u64, inner: Option<&List>) -> Code {
    let word = |offset: u64| pointer.clone().plus(at + offset).loaded(8);
    let record = match inner {
        None => word(0).map(|text| text.record_text(TEXT_BYTES_MAX)),
        Some(list) => place_and_bytes(file, list, &word)
            .map(|[pointer, bytes]| pointer.record_some(&bytes, most_bytes(list).min(TEXT_BYTES_MAX))),
    };
    let nothing = Code::constant(0).then(&[op::RECORD_VALUE]);
    let is_there = Code::constant(at).and(bytes).then(&[op::LESS_UNSIGNED]);
    is_there.choose(record.as_ref().unwrap_or(&nothing), &nothing)
}

fn add_chunks(shape: &mut Shape, place: &Place, offset: u64, bytes: u64) {
    let code = take(&mut shape.code);
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

/// What a value has elsewhere.
#[derive(Default)]
struct Elsewhere {
    /// Offsets of pointers to text.
    texts: Vec<u64>,
    /// Lists and their offsets.
    lists: Vec<(u64, List)>,
    /// Collections in nodes and their offsets.
    nodes: Vec<(u64, Nodes)>,
    interfaces: Vec<(u64, Interface)>,
}

impl Elsewhere {
    /// Looks for it in a part of the value.
    fn look(&mut self, file: &DebugFile, of: &Type, offset: u64, end: u64) {
        if offset + 8 > end || self.texts.len() >= TEXTS_MAX || self.lists.len() >= LISTS_MAX {
            return;
        }
        if let Some(nodes) = nodes::of_value(file, of) {
            if self.nodes.len() < NODES_MAX {
                self.nodes.push((offset, nodes));
            }
            return;
        }
        match of {
            Type::Pointer(target) if is_text(file, *target) => self.texts.push(offset),
            Type::Struct(id) => {
                if let Some(list) = lists::of_structure(file, *id) {
                    self.lists.push((offset, list));
                    return;
                }
                if let Some(interface) = dynamic::interface(file, *id) {
                    if self.interfaces.len() < NODES_MAX {
                        self.interfaces.push((offset, interface));
                    }
                    return;
                }
                let variants = variants::of_structure(file, *id).into_iter();
                let variants = variants.flat_map(|variants| variants.all).map(|(_, member)| member);
                for member in types::members(file, *id).into_iter().chain(variants) {
                    if member.bits.is_none() {
                        self.look(file, &member.of, offset + member.offset, end);
                    }
                }
            }
            Type::Array(of, counts) => {
                let element = types::element(file, *of, counts);
                let each = types::bytes_of(file, &element);
                if each != 0 && !types::is_number(&element) || matches!(element, Type::Pointer(_)) {
                    for number in 0..counts.first().copied().unwrap_or(0).min(TEXTS_MAX as u64) {
                        self.look(file, &element, offset + number * each, end);
                    }
                }
            }
            _ => {}
        }
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
