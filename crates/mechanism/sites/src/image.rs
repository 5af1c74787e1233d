//! What of an ELF file matters here: its code, its data, where functions start.
//!
//! The file is untrusted: every offset is bounded, overlapping segments count
//! once, and what cannot be read is left out.

use memchr::memmem;
use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};

use crate::unwind;

type Header = elf::FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Bytes of the file with the address that they are linked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region<'f> {
    pub address: u64,
    /// Place in the file.
    pub offset: u64,
    pub bytes: &'f [u8],
}

impl<'f> Region<'f> {
    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }

    /// The bytes from `from` up to `to`, both inside of the region.
    pub fn slice(&self, from: u64, to: u64) -> &'f [u8] {
        let from = from.clamp(self.address, self.end());
        let to = to.clamp(from, self.end());
        &self.bytes[(from - self.address) as usize..(to - self.address) as usize]
    }
}

/// Part of the code that one symbol or one unwind entry describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub start: u64,
    pub end: u64,
    pub exceptions: Exceptions,
    /// Handlers of signals return to it, as its unwind entry says.
    pub is_signal_return: bool,
}

/// How exceptions enter a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exceptions {
    None,
    /// Where the table is loaded that says where.
    Table(u64),
    Unknown,
}

/// An ELF file for x86-64.
pub(crate) struct Image<'f> {
    file: &'f [u8],
    /// Executable code by ascending address, disjoint.
    pub code: Vec<Region<'f>>,
    /// All loaded bytes of the file by ascending address.
    pub loaded: Vec<Region<'f>>,
    /// Linked for fixed addresses, so that 32-bit values may be addresses.
    pub is_fixed: bool,
    /// Some loaded bytes could not be looked at: they overlap others, lie beyond
    /// 4 GiB or behind the file's end.
    pub is_partial: bool,
    /// Sorted by start.
    pub functions: Vec<Function>,
    /// Data that symbols name, within code; sorted.
    objects: Vec<(u64, u64)>,
    /// Addresses that symbols, unwind entries and the header name; sorted.
    pub named: Vec<u64>,
}

impl<'f> Image<'f> {
    /// Reads the segments. `None`: not an ELF file for x86-64.
    pub fn parse(file: &'f [u8]) -> Option<Image<'f>> {
        let header = Header::parse(file).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return None;
        }
        let programs = header.program_headers(LE, file).ok()?;
        let mut loads: Vec<(Region<'f>, bool)> = Vec::new();
        let mut loaded_bytes = 0u64;
        for program in programs.iter().filter(|program| program.p_type(LE) == elf::PT_LOAD) {
            let is_code = program.p_flags(LE) & elf::PF_X != 0;
            let (address, size) = (program.p_vaddr(LE), program.p_filesz(LE));
            loaded_bytes = loaded_bytes.saturating_add(size);
            let region = region(file, address, program.p_offset(LE), size);
            loads.extend(region.map(|region| (region, is_code)));
        }
        drop_overlaps(&mut loads);
        let executable: Vec<Region<'f>> =
            loads.iter().filter(|(_, is_code)| *is_code).map(|(region, _)| *region).collect();
        let readable: u64 = loads.iter().map(|(region, _)| region.bytes.len() as u64).sum();
        Some(Image {
            file,
            is_partial: readable < loaded_bytes,
            code: code_regions(header, file, &executable),
            loaded: loads.iter().map(|(region, _)| *region).collect(),
            is_fixed: header.e_type(LE) == elf::ET_EXEC,
            functions: Vec::new(),
            objects: Vec::new(),
            named: vec![header.e_entry(LE)],
        })
    }

    /// The address of code that stands there in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |region: &&Region<'_>| {
            (region.offset..region.offset + region.bytes.len() as u64).contains(&offset)
        };
        self.code.iter().find(holds).map(|region| region.address + (offset - region.offset))
    }

    /// Reads symbols and unwind entries: only files with candidates need them.
    pub fn read_functions(&mut self) {
        let Ok(header) = Header::parse(self.file) else {
            return;
        };
        if let Ok(sections) = header.sections(LE, self.file) {
            self.read_symbols(&sections, elf::SHT_SYMTAB);
            self.read_symbols(&sections, elf::SHT_DYNSYM);
        }
        if let Some(frames) = self.eh_frame(header) {
            self.functions.extend(unwind::functions(&frames));
        }
        let code = &self.code;
        self.functions
            .retain(|function| function.start < function.end && code_at(code, function.start).is_some());
        self.functions.sort_unstable();
        self.objects.sort_unstable();
        self.named.extend(self.functions.iter().map(|function| function.start));
        self.named.sort_unstable();
        self.named.dedup();
    }

    /// Whether code and tables alternate, which no symbol tells from each other: GHC puts
    /// one ahead of each function and of each place where a call returns to.
    pub fn has_tables_in_code(&self) -> bool {
        const MARKS: [&[u8]; 2] = [b"libHS", b"(GHC version "];
        let holds = |mark| self.loaded.iter().any(|region| memmem::find(region.bytes, mark).is_some());
        MARKS.into_iter().any(holds)
    }

    /// Whether a symbol says that `address` holds data.
    pub fn is_object(&self, address: u64) -> bool {
        let after = self.objects.partition_point(|object| object.0 <= address);
        self.objects[..after].last().is_some_and(|object| address < object.1)
    }

    /// Whether an unwind entry says that handlers of signals return to where `address` is.
    pub fn has_signal_entry(&self, address: u64) -> bool {
        self.functions_around(address).any(|function| function.is_signal_return)
    }

    /// The parts of the code that hold `address`. A symbol and an unwind entry may describe the same
    /// function; those that start earliest among the nearest are enough, for entries do not nest.
    pub fn functions_around(&self, address: u64) -> impl Iterator<Item = &Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        self.functions[..after].iter().rev().take(16).filter(move |function| address < function.end)
    }

    /// The code region that holds `address`.
    pub fn code_at(&self, address: u64) -> Option<&Region<'f>> {
        code_at(&self.code, address)
    }

    /// The loaded region that holds `address`.
    pub fn loaded_at(&self, address: u64) -> Option<&Region<'f>> {
        code_at(&self.loaded, address)
    }

    fn read_symbols(&mut self, sections: &SectionTable<'f, Header>, kind: u32) {
        let Ok(symbols) = sections.symbols(LE, self.file, kind) else {
            return;
        };
        for symbol in symbols.iter() {
            let start = symbol.st_value(LE);
            let type_ = symbol.st_type();
            let (size, section) = (symbol.st_size(LE), symbol.st_shndx(LE));
            let is_object = type_ == elf::STT_OBJECT && size > 0 && section != elf::SHN_UNDEF;
            if is_object && code_at(&self.code, start).is_some() {
                self.objects.push((start, start.saturating_add(size)));
            }
            let is_code = matches!(type_, elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE);
            if !is_code || section == elf::SHN_UNDEF {
                continue;
            }
            self.named.push(start);
            if type_ != elf::STT_NOTYPE && size > 0 {
                let end = start.saturating_add(size);
                self.functions.push(Function {
                    start,
                    end,
                    exceptions: Exceptions::None,
                    is_signal_return: false,
                });
            }
        }
    }

    /// The unwind entries, found by section or else by program header.
    fn eh_frame(&self, header: &Header) -> Option<Region<'f>> {
        if let Ok(sections) = header.sections(LE, self.file)
            && let Some((_, section)) = sections.section_by_name(LE, b".eh_frame")
        {
            return region(self.file, section.sh_addr(LE), section.sh_offset(LE), section.sh_size(LE));
        }
        let programs = header.program_headers(LE, self.file).ok()?;
        let index = programs.iter().find(|program| program.p_type(LE) == elf::PT_GNU_EH_FRAME)?.p_vaddr(LE);
        let bytes = self.loaded_at(index)?.slice(index, index.checked_add(8)?);
        // Version 1, and the pointer to the entries as a 32-bit distance (the
        // only form that linkers write).
        if bytes.len() < 8 || bytes[0] != 1 || bytes[1] != 0x1b {
            return None;
        }
        let distance = i32::from_le_bytes(bytes[4..8].try_into().ok()?);
        let address = (index + 4).checked_add_signed(i64::from(distance))?;
        let holder = self.loaded_at(address)?;
        let bytes = holder.slice(address, holder.end());
        Some(Region { address, offset: holder.offset + (address - holder.address), bytes })
    }
}

fn code_at<'r, 'f>(regions: &'r [Region<'f>], address: u64) -> Option<&'r Region<'f>> {
    let after = regions.partition_point(|region| region.address <= address);
    regions[..after].last().filter(|region| region.contains(address))
}

/// The part of `offset..offset + len` that the file holds, below 4 GiB.
fn region(file: &[u8], address: u64, offset: u64, len: u64) -> Option<Region<'_>> {
    let limit = (file.len() as u64).min(u64::from(u32::MAX));
    let end = offset.checked_add(len)?.min(limit);
    if offset >= end {
        return None;
    }
    let bytes = &file[offset as usize..end as usize];
    // Room for a window around any address, so that sums cannot overflow.
    address.checked_add(bytes.len() as u64)?.checked_add(1 << 32)?;
    Some(Region { address, offset, bytes })
}

/// Sorts by address; a segment that overlaps an earlier one, in memory or in the
/// file, is dropped, which bounds the work by the file's size. Segments share
/// the page of the file where one ends and the next begins, but no bytes.
fn drop_overlaps(loads: &mut Vec<(Region<'_>, bool)>) {
    loads.sort_by_key(|(region, _)| region.address);
    let mut kept: Vec<(u64, u64)> = Vec::new();
    let mut address_end = 0;
    loads.retain(|(region, _)| {
        let span = (region.offset, region.offset + region.bytes.len() as u64);
        let is_apart = kept.len() < 256
            && region.address >= address_end
            && kept.iter().all(|other| span.1 <= other.0 || other.1 <= span.0);
        if is_apart {
            kept.push(span);
            address_end = region.end();
        }
        is_apart
    });
}

/// The executable sections inside of executable segments; the whole segments
/// where the file names no sections.
fn code_regions<'f>(header: &Header, file: &'f [u8], executable: &[Region<'f>]) -> Vec<Region<'f>> {
    let wanted = u64::from(elf::SHF_ALLOC | elf::SHF_EXECINSTR);
    let mut code: Vec<Region<'f>> = Vec::new();
    if let Ok(sections) = header.sections(LE, file) {
        for section in sections.iter().filter(|section| section.sh_flags(LE) & wanted == wanted) {
            let (start, size) = (section.sh_addr(LE), section.sh_size(LE));
            let Some(holder) = code_at(executable, start) else {
                continue;
            };
            let bytes = holder.slice(start, start.saturating_add(size));
            let offset = holder.offset + (start - holder.address);
            code.push(Region { address: start, offset, bytes });
        }
    }
    if code.is_empty() {
        return executable.to_vec();
    }
    code.sort_by_key(|region| region.address);
    let mut end = 0;
    code.retain(|region| {
        let is_apart = region.address >= end && !region.bytes.is_empty();
        if is_apart {
            end = region.end();
        }
        is_apart
    });
    code
}
