//! Functions by name, and what a jump at a function's beginning would cover.
//!
//! Invariant: as for sites, nothing that is known leads to a byte which the jump
//! overwrites, other than the first; what is covered means the same elsewhere, once
//! distances in it are adjusted.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

use crate::chain::CodeMap;
use crate::cover::{JUMP_BYTES, is_kept_in_place};
use crate::image::Image;
use crate::targets::{self, Watch};

type Header = elf::FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Which symbols count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbols {
    /// Those that other files can refer to.
    Exported,
    /// Also the others, of a program that is linked statically.
    AllIfStatic,
}

/// The first instructions of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// Where the jump goes, as linked: behind the mark of a landing place, if there is one.
    pub start: u64,
    /// The same as a place in the file.
    pub offset: u64,
    /// Whole instructions, at least as long as the jump.
    pub covered: Vec<u8>,
}

/// Why a function's beginning cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotMovable;

/// Addresses of functions, as linked, in the order of `names`; `None` for those that the
/// file does not define, or chooses when it is loaded.
pub fn find_functions(file: &[u8], names: &[&str], symbols: Symbols) -> Vec<Option<u64>> {
    let exported = functions_in(file, names, elf::SHT_DYNSYM).unwrap_or_default();
    if exported.iter().any(Option::is_some) || symbols == Symbols::Exported || !is_static(file) {
        return if exported.is_empty() { vec![None; names.len()] } else { exported };
    }
    functions_in(file, names, elf::SHT_SYMTAB).unwrap_or(vec![None; names.len()])
}

/// A program that no loader completes.
fn is_static(file: &[u8]) -> bool {
    let Ok(header) = Header::parse(file) else { return false };
    let programs = header.program_headers(LE, file);
    programs.is_ok_and(|programs| programs.iter().all(|program| program.p_type(LE) != elf::PT_INTERP))
}

fn functions_in(file: &[u8], names: &[&str], kind: u32) -> Option<Vec<Option<u64>>> {
    let header: &Header = Header::parse(file).ok()?;
    if header.e_machine(LE) != elf::EM_X86_64 {
        return None;
    }
    let sections = header.sections(LE, file).ok()?;
    let symbols = sections.symbols(LE, file, kind).ok()?;
    let mut found = vec![None; names.len()];
    for symbol in symbols.iter() {
        let is_ours = symbol.st_shndx(LE) != elf::SHN_UNDEF
            && symbol.st_type() == elf::STT_FUNC
            && symbol.st_bind() != elf::STB_LOCAL;
        if !is_ours {
            continue;
        }
        let Ok(name) = symbol.name(LE, symbols.strings()) else { continue };
        if let Some(index) = names.iter().position(|wanted| wanted.as_bytes() == name) {
            found[index].get_or_insert(symbol.st_value(LE));
        }
    }
    Some(found)
}

/// What jumps at the beginnings of these functions would cover.
pub fn beginnings(file: &[u8], functions: &[u64]) -> Vec<Result<Beginning, NotMovable>> {
    let Some(mut image) = Image::parse(file).filter(|image| !image.is_partial) else {
        return vec![Err(NotMovable); functions.len()];
    };
    image.read_functions();
    let all: Vec<_> = functions.iter().map(|&function| beginning(&image, function)).collect();
    let inside = |start: u64| start + 1..start + JUMP_BYTES;
    let (mut addresses, mut starts) = (Vec::new(), Vec::new());
    for (beginning, inner_starts) in all.iter().flatten() {
        addresses.extend(inside(beginning.start));
        starts.extend(inner_starts);
    }
    let mut watch = Watch::of(addresses, starts);
    let mut map = CodeMap::new(&image);
    targets::mark(&image, &mut map, &mut watch);
    let is_free = |start: u64| !watch.is_hit_between(inside(start).start, inside(start).end);
    all.into_iter()
        .map(|found| found.map(|(beginning, _)| beginning).filter(|at| is_free(at.start)).ok_or(NotMovable))
        .collect()
}

/// The beginning, and where instructions start inside of the jump.
fn beginning(image: &Image<'_>, function: u64) -> Option<(Beginning, Vec<u64>)> {
    let region = image.code_at(function)?;
    let mut decoder = Decoder::with_ip(
        64,
        region.slice(function, function.saturating_add(32)),
        function,
        DecoderOptions::NONE,
    );
    let mut instruction = decoder.decode();
    if instruction.code() == Code::Endbr64 {
        instruction = decoder.decode();
    }
    let start = instruction.ip();
    let mut inner_starts = Vec::new();
    loop {
        let end = instruction.next_ip();
        if !can_move(&instruction, end - start >= JUMP_BYTES) {
            return None;
        }
        if end - start >= JUMP_BYTES {
            let covered = region.slice(start, end).to_vec();
            let offset = region.offset + (start - region.address);
            return Some((Beginning { start, offset, covered }, inner_starts));
        }
        inner_starts.push(end);
        instruction = decoder.decode();
    }
}

/// Branches may move too, as who moves them adjusts them. Behind one that always goes
/// elsewhere something else begins.
fn can_move(instruction: &Instruction, is_last: bool) -> bool {
    if is_kept_in_place(instruction) {
        return false;
    }
    match instruction.flow_control() {
        FlowControl::Next => true,
        FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near(),
        FlowControl::UnconditionalBranch => is_last && instruction.is_jmp_short_or_near(),
        _ => false,
    }
}
