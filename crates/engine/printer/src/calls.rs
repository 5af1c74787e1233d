//! Calls: their arguments at the beginning of the function, their results where they
//! return to.
//!
//! A call is known by its frame: the address of its frame is the stack pointer behind
//! its return. Where calls return is learnt by a first passage through the recording.

use std::collections::{BTreeSet, HashMap};

use gimli::constants as dw;
use lane_protocol::bytecode::{op, register};

use crate::code::Code;
use crate::compile::{Compiler, Fail, Operand};
use crate::debug_file::{DebugFile, DieId, Value};
use crate::functions;
use crate::location::{self, Spot};
use crate::plan::{self, Site};
use crate::print::Row;
use crate::shape::{self, Chunk, Shape, Source};
use crate::types::{self, Type};
use crate::value::{self, Part, Parts, Shown};

const NOT_SEEN: &str = "no return was seen";
/// Most bytes of a structure that is returned in memory.
const RETURNED_BYTES_MAX: u64 = 1024;
const TEXT_BYTES_MAX: u16 = 200;

/// Where calls return to, and what is recorded there.
#[derive(Default)]
pub(crate) struct Returns {
    pub addresses: BTreeSet<u64>,
    pub block: Vec<u8>,
    /// What is recorded where calls leave their functions.
    pub exit_block: Vec<u8>,
    /// Of structures that are returned in memory.
    memory_bytes: u64,
    has_vectors: bool,
    has_text: bool,
}

/// Records the frame's address and where the call returns to.
pub(crate) fn frame_shape(spot: &Spot) -> Shape {
    let Ok(frame) = location::frame_address(spot) else { return Shape::gone(NOT_SEEN) };
    let code = frame.clone().then(&[op::RECORD_VALUE]).and(&frame.plus(8u64.wrapping_neg()));
    let Some(code) = code.loaded(8) else { return Shape::gone(NOT_SEEN) };
    let chunk = |offset| Chunk { offset, bytes: 8, source: Source::Part };
    Shape {
        of: Type::Other(16),
        chunks: vec![chunk(0), chunk(8)],
        texts: Vec::new(),
        code: code.then(&[op::RECORD_VALUE]),
        needs_vectors: false,
    }
}

/// Records an argument.
pub(crate) fn parameter_shape(compiler: &Compiler, id: DieId) -> Shape {
    let of = types::type_of(compiler.spot.file, id);
    let operand = Operand { of, place: location::of_variable(&compiler.spot, id), bits: None };
    let shape = compiler.behind_reference(operand).and_then(|operand| shape::of_operand(compiler, &operand));
    match shape {
        Ok(shape) => shape,
        Err(Fail::Gone(why)) => Shape::gone(why),
        Err(Fail::Error(_)) => Shape::gone("its type is not understood"),
    }
}

/// How a function gives its result to its caller (System V ABI, AMD64, 3.2.3).
#[derive(Debug, Clone, PartialEq)]
enum Passing {
    Nothing,
    /// For each eight bytes: true if in a vector register.
    Registers(Vec<bool>),
    /// In memory, at the address in rax.
    Memory,
    Unknown(&'static str),
}

fn passing(file: &DebugFile, function: DieId, of: &Type) -> Passing {
    let bytes = types::bytes_of(file, of);
    let is_changed = functions::low_address(file, function).is_some_and(|start| file.is_changed(start));
    match of {
        Type::Void => Passing::Nothing,
        _ if is_changed => Passing::Unknown("the compiler changed how it is called"),
        Type::Float { bytes: 4 | 8 } => Passing::Registers(vec![true]),
        Type::Float { .. } => Passing::Unknown("in a register of the x87, which is not recorded"),
        Type::Integer { bytes: 16, .. } => Passing::Registers(vec![false, false]),
        Type::Struct(id) => {
            if is_rust(file, function) && bytes > 16 && !has_wide_number(file, of, 0) {
                return Passing::Memory;
            }
            if !is_c(file, function) && file.attribute(*id, gimli::DW_AT_calling_convention).is_none() {
                return Passing::Unknown("its language passes structures its own way");
            }
            let by_reference = Value::CallingConvention(dw::DW_CC_pass_by_reference);
            let is_by_reference = file.attribute(*id, gimli::DW_AT_calling_convention) == Some(by_reference);
            if bytes > 16 || is_by_reference {
                return Passing::Memory;
            }
            let mut classes = vec![true; bytes.div_ceil(8) as usize];
            if classify(file, of, 0, &mut classes) {
                Passing::Registers(classes)
            } else {
                Passing::Unknown("how it is passed is not understood")
            }
        }
        _ if types::is_number(of) && bytes <= 8 => Passing::Registers(vec![false]),
        _ => Passing::Unknown("its type is not understood"),
    }
}

fn language(file: &DebugFile, function: DieId) -> Option<Value> {
    file.attribute(DieId { unit: function.unit, index: 0 }, gimli::DW_AT_language)
}

/// Rust's own convention has results that are larger than two registers in memory, whose
/// address is returned; but pairs of numbers of 128 bits.
fn is_rust(file: &DebugFile, function: DieId) -> bool {
    language(file, function) == Some(Value::Language(dw::DW_LANG_Rust))
}

fn has_wide_number(file: &DebugFile, of: &Type, depth: u32) -> bool {
    const DEPTH_MAX: u32 = 16;
    match of {
        Type::Struct(id) => {
            depth > DEPTH_MAX
                || types::members(file, *id).iter().any(|member| has_wide_number(file, &member.of, depth + 1))
        }
        Type::Integer { bytes, .. } | Type::Other(bytes) => *bytes >= 16,
        _ => false,
    }
}

fn is_c(file: &DebugFile, function: DieId) -> bool {
    matches!(
        language(file, function),
        Some(Value::Language(
            dw::DW_LANG_C89 | dw::DW_LANG_C | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17
        ))
    )
}

/// Finds the eight bytes that hold something else than floating-point numbers; false if
/// something is not understood.
fn classify(file: &DebugFile, of: &Type, offset: u64, classes: &mut [bool]) -> bool {
    match of {
        Type::Float { bytes: 4 | 8 } => true,
        Type::Struct(id) => types::members(file, *id)
            .iter()
            .all(|member| classify(file, &member.of, offset + member.offset, classes)),
        Type::Array(element, counts) => {
            let element = types::element(file, *element, counts);
            let each = types::bytes_of(file, &element);
            (0..counts.first().copied().unwrap_or(0).min(16))
                .all(|number| classify(file, &element, offset + number * each, classes))
        }
        _ if types::is_number(of) => {
            if let Some(class) = classes.get_mut((offset / 8) as usize) {
                *class = false;
            }
            true
        }
        _ => false,
    }
}

impl Returns {
    /// What has to be recorded for the results of a function.
    pub fn include(&mut self, site: &Site) {
        let Some(function) = &site.function else { return };
        let of = types::type_of(&site.file, function.id);
        match passing(&site.file, function.id, &of) {
            Passing::Memory => {
                let bytes = types::bytes_of(&site.file, &of).min(RETURNED_BYTES_MAX);
                self.memory_bytes = self.memory_bytes.max(bytes);
            }
            Passing::Registers(classes) => self.has_vectors |= classes.contains(&true),
            Passing::Nothing | Passing::Unknown(_) => {}
        }
        if let Type::Pointer(target) = of {
            self.has_text |= shape::is_text(&site.file, target);
        }
    }

    /// Makes the programs.
    pub fn compile(&mut self) {
        const RAX: u16 = 0;
        const RDX: u16 = 3;
        let mut code = Code::default();
        for number in [register::RSP, RAX, RDX] {
            code = code.and(&Code::register(number)).then(&[op::RECORD_VALUE]);
        }
        if self.has_vectors {
            code = code.then(&[op::RECORD_VECTOR, 0, 16, op::RECORD_VECTOR, 1, 16]);
        }
        if self.memory_bytes != 0 {
            code = code.and(&Code::register(RAX).record(self.memory_bytes as u16));
        }
        if self.has_text {
            code = code.and(&Code::register(RAX).record_text(TEXT_BYTES_MAX));
        }
        let shape = Shape { code, needs_vectors: self.has_vectors, ..Shape::gone("") };
        let stack = Code::register(register::RSP).then(&[op::RECORD_VALUE]);
        let exit = Shape { code: stack, ..Shape::gone("") };
        self.exit_block = plan::block(&Code::default(), std::iter::once(&exit));
        self.block = plan::block(&Code::default(), std::iter::once(&shape));
    }
}

/// What was recorded where a call returned.
struct Returned {
    stack: u64,
    rax: [u8; 8],
    rdx: [u8; 8],
    vectors: [Option<Vec<u8>>; 2],
    memory: Option<Vec<u8>>,
    text: Option<String>,
}

fn returned(returns: &Returns, parts: &mut Parts) -> Option<Returned> {
    let mut next = || match parts.next() {
        Part::Data(data) => Some(data.to_vec()),
        Part::Missing(_) | Part::End => None,
    };
    let word = |data: Option<Vec<u8>>| data.and_then(|data| data.first_chunk::<8>().copied());
    let stack = u64::from_le_bytes(word(next())?);
    let (rax, rdx) = (word(next())?, word(next())?);
    let vectors = if returns.has_vectors { [next(), next()] } else { [None, None] };
    let memory = if returns.memory_bytes != 0 { next() } else { None };
    let text = if returns.has_text { next() } else { None };
    let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
    Some(Returned { stack, rax, rdx, vectors, memory, text })
}

/// A call that has not returned yet.
struct Open {
    row: usize,
    returns_to: u64,
    /// It came to an instruction that leaves the function: only then a passage at the
    /// place that it returns to is its return.
    leaves: bool,
}

/// Calls that have not returned yet, by thread and frame.
#[derive(Default)]
pub(crate) struct Pending {
    open: HashMap<(u32, u64), Open>,
}

impl Pending {
    /// A call begins: the row of this index. Gives where it will return to.
    pub fn begin(&mut self, thread: u32, frame: &Shown, row: usize, leaves: bool) -> Option<u64> {
        // The frame's shape is two words that `frame_of` has read.
        let Shown::List(words) = frame else { return None };
        let [Shown::Number(frame), Shown::Number(address)] = words[..] else { return None };
        // An earlier call with this frame has left without returning to its caller.
        let call = Open { row, returns_to: address as u64, leaves };
        self.open.insert((thread, frame as u64), call);
        Some(address as u64)
    }

    /// A passage at an instruction that leaves a function.
    pub fn leave(&mut self, thread: u32, parts: &mut Parts) {
        if let Part::Data(word) = parts.next()
            && let Some(word) = word.first_chunk::<8>()
            && let Some(call) = self.open.get_mut(&(thread, u64::from_le_bytes(*word).wrapping_add(8)))
        {
            call.leaves = true;
        }
    }

    /// A passage at a place where calls return to.
    pub fn end(&mut self, thread: u32, address: u64, returns: &Returns, parts: &mut Parts, rows: &mut [Row]) {
        let Some(returned) = returned(returns, parts) else { return };
        let key = (thread, returned.stack);
        if self.open.get(&key).is_none_or(|call| call.returns_to != address || !call.leaves) {
            return;
        }
        if let Some(call) = self.open.remove(&key)
            && let Some(row) = rows.get_mut(call.row)
        {
            row.result = Some(result(&row.site, &returned));
        }
    }
}

/// The frame of a call and where it returns to, as a list of two numbers.
pub(crate) fn frame_of(parts: &mut Parts) -> Shown {
    let mut words = Vec::new();
    loop {
        match parts.next() {
            Part::Data(data) => {
                let word = data.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
                words.push(Shown::Number(word.into()));
            }
            Part::Missing(_) => {}
            Part::End => return Shown::List(words),
        }
    }
}

/// What is shown of a call whose return was not seen.
pub(crate) fn unseen() -> Shown {
    Shown::Missing(NOT_SEEN.to_owned())
}

fn result(site: &Site, returned: &Returned) -> Shown {
    let Some(function) = &site.function else { return Shown::Nothing };
    let file = &site.file;
    let of = types::type_of(file, function.id);
    let bytes = types::bytes_of(file, &of);
    let data = match passing(file, function.id, &of) {
        Passing::Nothing => return Shown::Nothing,
        Passing::Unknown(why) => return Shown::Missing(why.to_owned()),
        Passing::Memory => returned.memory.clone(),
        Passing::Registers(classes) => {
            let mut general = [returned.rax, returned.rdx].into_iter();
            let mut vectors = returned.vectors.iter();
            let mut data = Some(Vec::new());
            for is_vector in classes {
                let part = if is_vector {
                    vectors.next().and_then(|vector| vector.as_ref()?.get(..8).map(<[u8]>::to_vec))
                } else {
                    general.next().map(|word| word.to_vec())
                };
                data = data.zip(part).map(|(mut data, part)| {
                    data.extend(part);
                    data
                });
            }
            data
        }
    };
    let Some(mut data) = data else { return Shown::Missing("it was not recorded".to_owned()) };
    data.truncate(bytes as usize);
    let bytes = data.len() as u64;
    let chunk = Chunk { offset: 0, bytes, source: Source::Known(data) };
    let shape = Shape { of: of.clone(), chunks: vec![chunk], ..Shape::gone("") };
    match (value::read(file, &shape, &mut Parts::new(&[])), &returned.text) {
        (Shown::Pointer(address, None), Some(text)) if shape::is_pointer_to_text(file, &of) => {
            Shown::Pointer(address, Some(text.clone()))
        }
        (shown, _) => shown,
    }
}
