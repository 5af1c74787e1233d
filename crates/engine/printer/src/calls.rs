//! Calls: their arguments at the beginning of the function, their results where they
//! return to.
//!
//! A call is known by its frame: the address of its frame is the stack pointer behind
//! its return. Where calls return is learnt by a first passage through the recording.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lane_protocol::bytecode::{breakpoint_kind, op, register};

use crate::code::Code;
use crate::compile::{Compiler, Fail, Operand};
use crate::debug_file::{DebugFile, DieId};
use crate::go_results;
use crate::location::{self, Place, Spot};
use crate::parts::{Part, Parts};
use crate::passing::{self, Passing};
use crate::plan::{self, Site};
use crate::print::Row;
use crate::recorded::{self, Image};
use crate::shape::{self, Chunk, Shape, Source};
use crate::shown::Shown;
use crate::types::{self, Type};

/// Registers of results, by gdb's numbers.
const RAX: u16 = 0;
const RDX: u16 = 3;
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
    has_x87: bool,
    has_text: bool,
    /// What is recorded besides, of the first function that needs it.
    more: Option<(Arc<DebugFile>, More)>,
}

/// What is recorded besides the registers and the memory of results.
enum More {
    /// What results of this structure have elsewhere: lists and texts.
    Elsewhere(Shape),
    /// The results of a function of Go.
    Go(DieId, Vec<(String, Shape)>),
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
        lists: Vec::new(),
        nodes: Vec::new(),
        interfaces: Vec::new(),
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

impl Returns {
    /// What has to be recorded for the results of a function.
    pub fn include(&mut self, site: &Site) {
        let Some(function) = &site.function else { return };
        let of = types::type_of(&site.file, function.id);
        match passing::of_result(&site.file, function.id, &of) {
            Passing::Memory => {
                let bytes = types::bytes_of(&site.file, &of).min(RETURNED_BYTES_MAX);
                self.memory_bytes = self.memory_bytes.max(bytes);
            }
            Passing::Registers(parts) => self.has_vectors |= parts.iter().any(|part| part.is_vector),
            Passing::X87 => self.has_x87 = true,
            Passing::Nothing | Passing::Unknown(_) => {}
        }
        if let Type::Pointer(target) = of {
            self.has_text |= shape::is_text(&site.file, target);
        }
        if self.more.is_none() {
            self.more = more(&site.file, function.id, of).map(|more| (Arc::clone(&site.file), more));
        }
    }

    /// Makes the programs.
    pub fn compile(&mut self) {
        let mut code = Code::default();
        for number in [register::RSP, RAX, RDX] {
            code = code.and(&Code::register(number)).then(&[op::RECORD_VALUE]);
        }
        if self.has_vectors {
            code = code.then(&[op::RECORD_VECTOR, 0, 16, op::RECORD_VECTOR, 1, 16]);
        }
        if self.has_x87 {
            code = code.then(&[op::RECORD_VECTOR, register::ST0_AS_VECTOR, 16]);
        }
        if self.memory_bytes != 0 {
            code = code.and(&Code::register(RAX).record(self.memory_bytes as u16));
        }
        if self.has_text {
            code = code.and(&Code::register(RAX).record_text(TEXT_BYTES_MAX));
        }
        // Last, as it ends where there is no such result.
        let mut needs_vectors = self.has_vectors || self.has_x87;
        let results = match &self.more {
            Some((_, More::Go(_, results))) => &results[..],
            _ => &[],
        };
        let elsewhere = match &self.more {
            Some((_, More::Elsewhere(shape))) => Some(shape),
            _ => None,
        };
        for shape in results.iter().map(|(_, shape)| shape).chain(elsewhere) {
            code = code.and(&shape.code);
            needs_vectors |= shape.needs_vectors;
        }
        let shape = Shape { code, needs_vectors, ..Shape::gone("") };
        let stack = Code::register(register::RSP).then(&[op::RECORD_VALUE]);
        let exit = Shape { code: stack, ..Shape::gone("") };
        self.exit_block = plan::block(breakpoint_kind::LEAVES, &Code::default(), std::iter::once(&exit));
        self.block = plan::block(breakpoint_kind::RETURNS, &Code::default(), std::iter::once(&shape));
    }
}

/// What is recorded besides of a function's results, which are of this type.
fn more(file: &DebugFile, function: DieId, of: Type) -> Option<More> {
    let results = go_results::of_function(file, function);
    if !results.is_empty() {
        return Some(More::Go(function, results));
    }
    let Type::Struct(_) = of else { return None };
    let place = place_of(&passing::of_result(file, function, &of))?;
    let mut shape = Shape { of, chunks: Vec::new(), ..Shape::gone("") };
    shape::add_elsewhere(file, &mut shape, &place);
    (!shape.code.bytes.is_empty()).then_some(More::Elsewhere(shape))
}

/// Where a result is that has no vector registers.
fn place_of(passing: &Passing) -> Option<Place> {
    match passing {
        Passing::Memory => Some(Place::Memory(Code::register(RAX))),
        Passing::Registers(parts) if parts.iter().all(|part| !part.is_vector) => {
            let registers = [RAX, RDX].map(|number| (8, Place::Register(number)));
            let in_order = parts.iter().zip(0..).all(|(part, number)| part.offset == number * 8);
            in_order.then(|| Place::Pieces(registers[..parts.len().min(2)].to_vec()))
        }
        _ => None,
    }
}

/// What was recorded where a call returned.
struct Returned {
    stack: u64,
    rax: [u8; 8],
    rdx: [u8; 8],
    vectors: [Option<Vec<u8>>; 2],
    x87: Option<Vec<u8>>,
    memory: Option<Vec<u8>>,
    text: Option<String>,
    /// Of what results have elsewhere.
    rest: Vec<u8>,
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
    let x87 = if returns.has_x87 { next() } else { None };
    let memory = if returns.memory_bytes != 0 { next() } else { None };
    let text = if returns.has_text { next() } else { None };
    let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
    let rest = parts.rest().to_vec();
    Some(Returned { stack, rax, rdx, vectors, x87, memory, text, rest })
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
            row.result = Some(result(&row.site, returns, &returned));
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

/// One result, or several, which may have names.
fn of_go(file: Image<'_>, results: &[(String, Shape)], rest: &[u8]) -> Shown {
    let (mut parts, mut is_over) = (Parts::new(rest), false);
    let mut shown = results
        .iter()
        .map(|(name, shape)| (name.clone(), recorded::read_from(file, shape, &mut parts, &mut is_over)));
    if results.len() == 1 {
        return shown.next().map_or(Shown::Nothing, |(_, shown)| shown);
    }
    match results.iter().all(|(name, _)| name.is_empty()) {
        true => Shown::List(shown.map(|(_, shown)| shown).collect()),
        false => Shown::Members(shown.collect()),
    }
}

fn result(site: &Site, returns: &Returns, returned: &Returned) -> Shown {
    let Some(function) = &site.function else { return Shown::Nothing };
    let file = &site.file;
    let more = returns.more.as_ref().filter(|(of_file, _)| Arc::ptr_eq(of_file, file)).map(|(_, more)| more);
    match more {
        Some(More::Go(of, results)) if *of == function.id => {
            return of_go(site.image(), results, &returned.rest);
        }
        _ if !go_results::of_function(file, function.id).is_empty() => {
            let why = "of several functions only the first one's results are recorded";
            return Shown::Missing(why.to_owned());
        }
        _ => {}
    }
    let of = types::type_of(file, function.id);
    let bytes = types::bytes_of(file, &of);
    let data = match passing::of_result(file, function.id, &of) {
        Passing::Nothing => return Shown::Nothing,
        Passing::Unknown(why) => return Shown::Missing(why.to_owned()),
        Passing::Memory => returned.memory.clone(),
        Passing::X87 => returned.x87.clone(),
        Passing::Registers(parts) => {
            let mut general = [returned.rax, returned.rdx].into_iter();
            let mut vectors = returned.vectors.iter();
            let mut data = vec![0; bytes as usize];
            let is_whole = parts.iter().all(|part| {
                let word = if part.is_vector {
                    vectors.next().and_then(|vector| vector.as_ref()?.first_chunk::<8>().copied())
                } else {
                    general.next()
                };
                // The last eight bytes of a structure may be fewer.
                let place = part.offset as usize..((part.offset + part.bytes).min(bytes)) as usize;
                match (data.get_mut(place), word) {
                    (Some(place), Some(word)) => {
                        place.copy_from_slice(&word[..place.len()]);
                        true
                    }
                    _ => false,
                }
            });
            is_whole.then_some(data)
        }
    };
    let Some(mut data) = data else { return Shown::Missing("it was not recorded".to_owned()) };
    data.truncate(bytes as usize);
    let bytes = data.len() as u64;
    let chunk = Chunk { offset: 0, bytes, source: Source::Known(data) };
    let mut shape = Shape { of: of.clone(), chunks: vec![chunk], ..Shape::gone("") };
    if let Some(More::Elsewhere(known)) = more
        && known.of == of
    {
        (shape.texts, shape.lists) = (known.texts.clone(), known.lists.clone());
        (shape.nodes, shape.interfaces) = (known.nodes.clone(), known.interfaces.clone());
    }
    match (recorded::read(site.image(), &shape, &mut Parts::new(&returned.rest)), &returned.text) {
        (Shown::Pointer(address, None), Some(text)) if shape::is_pointer_to_text(file, &of) => {
            Shown::Pointer(address, Some(text.clone()))
        }
        (shown, _) => shown,
    }
}
