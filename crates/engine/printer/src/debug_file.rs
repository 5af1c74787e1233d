//! A program or library with its debug information.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::{DwTag, EndianArcSlice, LittleEndian, SectionId, UnitOffset};
use object::{Object, ObjectSection, ObjectSegment};

use crate::error::PrintError;

pub(crate) type Reader = EndianArcSlice<LittleEndian>;
pub(crate) type Entry = gimli::DebuggingInformationEntry<Reader>;
pub(crate) type Value = gimli::AttributeValue<Reader>;

/// Files larger than this are not looked into.
const FILE_BYTES_MAX: u64 = 1 << 31;

/// An entry of a unit, in its tree.
pub(crate) struct Die {
    pub entry: Entry,
    pub parent: usize,
    /// The first index behind it and all that it contains.
    pub end: usize,
}

/// A unit with all its entries.
pub(crate) struct Tree {
    pub dies: Vec<Die>,
    by_offset: HashMap<UnitOffset, usize>,
}

impl Tree {
    pub fn index_of(&self, offset: UnitOffset) -> Option<usize> {
        self.by_offset.get(&offset).copied()
    }

    /// The direct children of an entry.
    pub fn children(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        let mut next = of + 1;
        let end = self.dies[of].end;
        std::iter::from_fn(move || {
            let index = next;
            if index >= end {
                return None;
            }
            next = self.dies[index].end;
            Some(index)
        })
    }
}

/// A unit, whose entries are read when they are asked for.
pub(crate) struct Unit {
    pub unit: gimli::Unit<Reader>,
    tree: OnceCell<Tree>,
}

/// Names an entry of a file: its unit, and its index in the unit's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DieId {
    pub unit: usize,
    pub index: usize,
}

/// A file with debug information.
pub struct DebugFile {
    pub(crate) dwarf: gimli::Dwarf<Reader>,
    pub(crate) units: Vec<Unit>,
    pub(crate) frames: Frames,
    code: Vec<Code>,
    /// Where functions begin whose parameters or result the compiler has changed.
    changed: HashSet<u64>,
    /// Where a program of Go has the descriptions of its types.
    pub(crate) go_types_start: Option<u64>,
    go_types: OnceCell<HashMap<u64, DieId>>,
    /// `None`: it has none, or how it comes to its own is not known.
    pub(crate) thread_local: Option<ThreadLocal>,
}

/// How the file's code comes to its thread-local memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadLocal {
    /// It lies below the thread's pointer.
    Executable { bytes: u64, alignment: u64 },
    /// A place in the file has its module's number.
    Module { slot: u64 },
    /// A place in the file has what is to be added to the thread's pointer for what lies at
    /// this offset in the module's memory.
    Offset { slot: u64, of: u64 },
}

/// An executable segment.
struct Code {
    /// Its place in the file.
    offset: u64,
    address: u64,
    data: Vec<u8>,
}

/// Unwind tables.
pub(crate) struct Frames {
    pub eh_frame: gimli::EhFrame<Reader>,
    pub debug_frame: gimli::DebugFrame<Reader>,
    pub bases: gimli::BaseAddresses,
}

impl DebugFile {
    /// Reads a file; `None` if it has no debug information, or cannot be read.
    pub fn open(path: &Path) -> Option<DebugFile> {
        if std::fs::metadata(path).ok()?.len() > FILE_BYTES_MAX {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let separate = if object.section_by_name(".debug_info").is_none() {
            Some(std::fs::read(separate_path(&object)?).ok()?)
        } else {
            None
        };
        let debug = match &separate {
            Some(bytes) => object::File::parse(&**bytes).ok()?,
            None => object::File::parse(&*bytes).ok()?,
        };
        let mut dwarf = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(&debug, id.name()))).ok()?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = dwarf.unit(header) {
                units.push(Unit { unit, tree: OnceCell::new() });
            }
        }
        if units.is_empty() {
            return None;
        }
        let is_code = |flags| matches!(flags, object::SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X));
        let segments = object.segments().filter(|segment| is_code(segment.flags()));
        let code = segments
            .filter_map(|segment| {
                let data = segment.data().ok()?.to_vec();
                Some(Code { offset: segment.file_range().0, address: segment.address(), data })
            })
            .collect();
        let frames = frames_of(&object, &debug);
        let thread_local = thread_local_of(&bytes).or_else(|| thread_local_of_library(&object));
        let changed = changed_functions(&object).chain(changed_functions(&debug)).collect();
        let go_types_start = symbol(&object, "runtime.types");
        let go_types = OnceCell::new();
        Some(DebugFile { changed, dwarf, units, frames, code, thread_local, go_types_start, go_types })
    }

    /// What is to be added to an address in the file, if the file's content from this
    /// place on is mapped as code at the address.
    pub fn bias(&self, mapped_at: u64, file_offset: u64) -> Option<u64> {
        let segment = self.code.iter().find(|segment| {
            let end = segment.offset + segment.data.len() as u64;
            (segment.offset & !0xfff..end).contains(&file_offset)
        })?;
        let address = segment.address.wrapping_sub(segment.offset).wrapping_add(file_offset);
        Some(mapped_at.wrapping_sub(address))
    }

    /// The code at these addresses in the file.
    pub(crate) fn code(&self, range: &std::ops::Range<u64>) -> Option<&[u8]> {
        self.code.iter().find_map(|segment| {
            let start = usize::try_from(range.start.checked_sub(segment.address)?).ok()?;
            let end = usize::try_from(range.end.checked_sub(segment.address)?).ok()?;
            segment.data.get(start..end)
        })
    }

    /// True if the compiler has changed the parameters or the result of the function that
    /// begins there.
    pub(crate) fn is_changed(&self, address: u64) -> bool {
        self.changed.contains(&address)
    }

    pub(crate) fn tree(&self, unit: usize) -> &Tree {
        self.units[unit].tree.get_or_init(|| read_tree(&self.units[unit].unit))
    }

    pub(crate) fn die(&self, id: DieId) -> &Die {
        &self.tree(id.unit).dies[id.index]
    }

    pub(crate) fn tag(&self, id: DieId) -> DwTag {
        self.die(id).entry.tag()
    }

    pub(crate) fn attribute(&self, id: DieId, name: gimli::DwAt) -> Option<Value> {
        self.die(id).entry.attr_value(name)
    }

    /// The attribute of an entry, or of the one that it is an instance of or completes.
    pub(crate) fn inherited(&self, id: DieId, name: gimli::DwAt) -> Option<(Value, DieId)> {
        const STEPS_MAX: usize = 8;
        let mut at = id;
        for _ in 0..STEPS_MAX {
            if let Some(value) = self.attribute(at, name) {
                return Some((value, at));
            }
            at = self
                .reference(at, gimli::DW_AT_abstract_origin)
                .or_else(|| self.reference(at, gimli::DW_AT_specification))?;
        }
        None
    }

    /// The entry that an attribute refers to.
    pub(crate) fn reference(&self, id: DieId, name: gimli::DwAt) -> Option<DieId> {
        self.target(id.unit, &self.attribute(id, name)?)
    }

    pub(crate) fn target(&self, unit: usize, value: &Value) -> Option<DieId> {
        match value {
            Value::UnitRef(offset) => Some(DieId { unit, index: self.tree(unit).index_of(*offset)? }),
            Value::DebugInfoRef(offset) => {
                let unit = self
                    .units
                    .iter()
                    .position(|other| offset.to_unit_offset(&other.unit.header).is_some())?;
                let offset = offset.to_unit_offset(&self.units[unit].unit.header)?;
                Some(DieId { unit, index: self.tree(unit).index_of(offset)? })
            }
            _ => None,
        }
    }

    pub(crate) fn text(&self, unit: usize, value: Value) -> Option<String> {
        use gimli::Reader as _;
        let text = self.dwarf.attr_string(&self.units[unit].unit, value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    }

    /// An entry's own name, or that of what it is an instance of.
    pub(crate) fn name(&self, id: DieId) -> Option<String> {
        let (value, at) = self.inherited(id, gimli::DW_AT_name)?;
        self.text(at.unit, value)
    }

    pub(crate) fn number(&self, id: DieId, name: gimli::DwAt) -> Option<u64> {
        number_of(&self.attribute(id, name)?)
    }

    /// The types of a program of Go by where their descriptions begin, from the first one on.
    pub(crate) fn go_types(&self) -> &HashMap<u64, DieId> {
        const RUNTIME_TYPE: gimli::DwAt = gimli::DwAt(0x2904);
        self.go_types.get_or_init(|| {
            let all = (0..self.units.len())
                .flat_map(|unit| (0..self.tree(unit).dies.len()).map(move |index| DieId { unit, index }));
            let place = |id: DieId| match self.attribute(id, RUNTIME_TYPE)? {
                Value::Addr(0) => None,
                Value::Addr(place) => Some((place, id)),
                other => Some((number_of(&other)?, id)),
            };
            all.filter_map(place).collect()
        })
    }

    /// True if the code of an entry contains the address.
    pub(crate) fn contains(&self, id: DieId, address: u64) -> bool {
        self.ranges(id).iter().any(|range| range.contains(&address))
    }

    /// The addresses of an entry's code.
    pub(crate) fn ranges(&self, id: DieId) -> Vec<std::ops::Range<u64>> {
        let unit = &self.units[id.unit].unit;
        let mut found = Vec::new();
        if let Ok(mut ranges) = self.dwarf.die_ranges(unit, &self.die(id).entry) {
            while let Ok(Some(range)) = ranges.next() {
                found.push(range.begin..range.end);
            }
        }
        found
    }

    /// The unit that has the code at an address.
    pub(crate) fn unit_at(&self, address: u64) -> Option<usize> {
        (0..self.units.len()).find(|&unit| {
            let mut contains = false;
            if let Ok(mut ranges) = self.dwarf.unit_ranges(&self.units[unit].unit) {
                while let Ok(Some(range)) = ranges.next() {
                    contains |= (range.begin..range.end).contains(&address);
                }
            }
            contains
        })
    }
}

/// An attribute that is a number.
pub(crate) fn number_of(value: &Value) -> Option<u64> {
    value.udata_value().or_else(|| value.sdata_value().map(|value| value as u64))
}

fn section(object: &object::File<'_>, name: &str) -> Reader {
    let data = object.section_by_name(name).and_then(|section| section.uncompressed_data().ok());
    Reader::new(Arc::from(data.as_deref().unwrap_or_default()), LittleEndian)
}

/// The address of a symbol.
fn symbol(object: &object::File<'_>, name: &str) -> Option<u64> {
    use object::ObjectSymbol;
    object.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address())
}

/// Functions that gcc has split, or whose parameters it has changed, as their names say.
fn changed_functions<'a>(object: &'a object::File<'_>) -> impl Iterator<Item = u64> + 'a {
    use object::ObjectSymbol;
    let is_changed = |name: &str| [".isra.", ".part."].iter().any(|mark| name.contains(mark));
    object.symbols().filter(move |symbol| symbol.name().is_ok_and(is_changed)).map(|symbol| symbol.address())
}

fn frames_of(object: &object::File<'_>, debug: &object::File<'_>) -> Frames {
    let address = |name| object.section_by_name(name).map_or(0, |section| section.address());
    let eh_frame = section(object, SectionId::EhFrame.name());
    let debug_frame = section(debug, SectionId::DebugFrame.name());
    let bases = gimli::BaseAddresses::default().set_eh_frame(address(".eh_frame")).set_text(address(".text"));
    Frames { eh_frame: eh_frame.into(), debug_frame: debug_frame.into(), bases }
}

/// Size and alignment of an executable's thread-local memory.
fn thread_local_of(bytes: &[u8]) -> Option<ThreadLocal> {
    use object::read::elf::{FileHeader, ProgramHeader};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    // A library has none.
    segments
        .iter()
        .find(|segment| segment.p_type(endian) == object::elf::PT_INTERP)
        .or_else(|| (header.e_type(endian) == object::elf::ET_EXEC).then_some(segments.first()).flatten())?;
    let segment = segments.iter().find(|segment| segment.p_type(endian) == object::elf::PT_TLS)?;
    Some(ThreadLocal::Executable {
        bytes: segment.p_memsz(endian),
        alignment: segment.p_align(endian).max(1),
    })
}

/// What the loader was asked for by a library's code: a relocation names each place that it
/// fills in.
fn thread_local_of_library(object: &object::File<'_>) -> Option<ThreadLocal> {
    use object::{ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};
    let symbols = object.dynamic_symbol_table()?;
    object.dynamic_relocations()?.find_map(|(slot, relocation)| {
        // Of a symbol of another library it would be that one's.
        let value = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.symbol_by_index(index).ok()?;
                (!symbol.is_undefined()).then(|| symbol.address())?
            }
            _ => 0,
        };
        match relocation.flags() {
            RelocationFlags::Elf { r_type: object::elf::R_X86_64_DTPMOD64 } => {
                Some(ThreadLocal::Module { slot })
            }
            RelocationFlags::Elf { r_type: object::elf::R_X86_64_TPOFF64 } => {
                Some(ThreadLocal::Offset { slot, of: value.wrapping_add(relocation.addend() as u64) })
            }
            _ => None,
        }
    })
}

/// Where distributions put a file's debug information.
fn separate_path(object: &object::File<'_>) -> Option<PathBuf> {
    let id = object.build_id().ok()??;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{}/{}.debug", hex.get(..2)?, hex.get(2..)?));
    path.exists().then_some(path)
}

fn read_tree(unit: &gimli::Unit<Reader>) -> Tree {
    let mut tree = Tree { dies: Vec::new(), by_offset: HashMap::new() };
    let mut open: Vec<usize> = Vec::new();
    let mut cursor = unit.entries();
    while let Ok(Some(entry)) = cursor.next_dfs() {
        let depth = entry.depth().max(0) as usize;
        let index = tree.dies.len();
        while open.len() > depth {
            if let Some(closed) = open.pop() {
                tree.dies[closed].end = index;
            }
        }
        tree.by_offset.insert(entry.offset(), index);
        let parent = open.last().copied().unwrap_or(0);
        tree.dies.push(Die { entry: entry.clone(), parent, end: index + 1 });
        open.push(index);
    }
    let end = tree.dies.len();
    for closed in open {
        tree.dies[closed].end = end;
    }
    tree
}

/// Files by the content that the trace keeps.
#[derive(Default)]
pub struct DebugFiles {
    files: HashMap<PathBuf, Option<Arc<DebugFile>>>,
}

impl DebugFiles {
    /// The file, if it has debug information.
    pub fn get(&mut self, path: &Path) -> Option<Arc<DebugFile>> {
        let entry = self.files.entry(path.to_owned());
        entry.or_insert_with(|| DebugFile::open(path).map(Arc::new)).clone()
    }

    /// All that were asked for and have debug information.
    pub fn all(&self) -> impl Iterator<Item = &Arc<DebugFile>> {
        self.files.values().flatten()
    }

    /// The error if none has.
    ///
    /// # Errors
    /// [`PrintError::NoDebugInformation`]
    pub fn check(&self) -> Result<(), PrintError> {
        if self.all().next().is_some() { Ok(()) } else { Err(PrintError::NoDebugInformation) }
    }
}
