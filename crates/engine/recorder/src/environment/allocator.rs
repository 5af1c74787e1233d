//! Where a process's allocator is: which of its files defines it, and where its functions
//! begin in memory.

use std::fs;
use std::path::{Path, PathBuf};

use lane_protocol::{ENTRY_BYTES_MAX, REGION_BYTES, REGION_START, environment};
use sites::{Beginning, Symbols, beginnings, find_functions};

use super::thunks::place_bytes;

/// The functions in question; the order of [`Function`].
const NAMES: [&str; Function::COUNT] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "malloc_usable_size",
];

/// A function of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Malloc,
    Calloc,
    Realloc,
    Free,
    Memalign,
    AlignedAlloc,
    PosixMemalign,
    UsableSize,
}

impl Function {
    const COUNT: usize = 8;
}

/// The beginning of a function in the memory of the process.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub start: u64,
    pub covered: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Allocator {
    /// Those whose beginnings can be moved; one of several names of the same.
    places: Vec<(Function, Place)>,
    usable_size: Option<u64>,
    /// Memory near it that nobody uses now; at the checkpoint somebody may.
    pub free: Vec<u64>,
}

/// A file that is mapped.
struct Mapped {
    path: PathBuf,
    /// Start, end, and place in the file of each mapping.
    parts: Vec<(u64, u64, u64)>,
}

impl Mapped {
    /// The address of a place in the file.
    fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |part: &&(u64, u64, u64)| (part.2..part.2 + (part.1 - part.0)).contains(&offset);
        self.parts.iter().find(holds).map(|part| part.0 + (offset - part.2))
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The C library's own is used where nobody else defines one.
    fn is_c_library(&self) -> bool {
        let name = self.name();
        ["libc.so", "libc-2.", "ld-musl"].iter().any(|start| name.starts_with(start))
    }

    /// A loader may define one for itself.
    fn is_loader(&self) -> bool {
        self.name().starts_with("ld-") && !self.is_c_library()
    }
}

impl Allocator {
    /// That of the process whose folder in /proc this is, or why it is not known.
    pub fn find(proc: &Path) -> Result<Allocator, String> {
        let text = fs::read_to_string(proc.join("maps"))
            .map_err(|error| format!("its mappings cannot be read: {error}"))?;
        let (files, taken) = parse(&text);
        let program = fs::read_link(proc.join("exe")).unwrap_or_default();
        let (mapped, file, addresses) = choose(&files, &program)?;
        let known: Vec<u64> = addresses[..Function::UsableSize as usize].iter().flatten().copied().collect();
        let mut moved = beginnings(&file, &known).into_iter();
        let mut places: Vec<(Function, Place)> = Vec::new();
        let mut bias = None;
        for (function, _) in ALL.into_iter().zip(&addresses).filter(|(_, address)| address.is_some()) {
            let Some(Ok(Beginning { start, offset, covered })) = moved.next() else { continue };
            let Some(address) = mapped.address_of(offset) else { continue };
            bias = Some(address.wrapping_sub(start));
            let is_new = places.iter().all(|(_, other)| other.start != address);
            if is_new && covered.len() <= ENTRY_BYTES_MAX {
                places.push((function, Place { start: address, covered }));
            }
        }
        let bias = bias.ok_or_else(|| {
            format!("the beginnings of its allocator's functions, in {}, cannot be moved", mapped.name())
        })?;
        let usable_size = addresses[Function::UsableSize as usize].map(|at| at.wrapping_add(bias));
        let near = mapped.parts.iter().map(|part| part.0).min().unwrap_or(0);
        let free = free_near(near, &taken);
        if free.is_empty() {
            return Err("there is no memory near its allocator".to_owned());
        }
        Ok(Allocator { places, usable_size, free })
    }

    pub fn place_of(&self, function: Function) -> Option<&Place> {
        self.places.iter().find(|(other, _)| *other == function).map(|(_, place)| place)
    }

    pub fn usable_size(&self) -> Option<u64> {
        self.usable_size
    }
}

const ALL: [Function; Function::UsableSize as usize] = [
    Function::Malloc,
    Function::Calloc,
    Function::Realloc,
    Function::Free,
    Function::Memalign,
    Function::AlignedAlloc,
    Function::PosixMemalign,
];

/// The files that are mapped, in the order of their addresses, and all memory in use.
fn parse(maps: &str) -> (Vec<Mapped>, Vec<(u64, u64)>) {
    let (mut files, mut taken): (Vec<Mapped>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let mut next = || fields.next().unwrap_or_default();
        let (range, _, offset, _, _, path) = (next(), next(), next(), next(), next(), next().trim_start());
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.split_once('-') else { continue };
        let (Some(start), Some(end), Some(offset)) = (number(start), number(end), number(offset)) else {
            continue;
        };
        taken.push((start, end));
        if !path.starts_with('/') || path.starts_with("/memfd:") || path.starts_with("/dev/") {
            continue;
        }
        let part = (start, end, offset);
        match files.iter_mut().find(|file| file.path == Path::new(path)) {
            Some(file) => file.parts.push(part),
            None => files.push(Mapped { path: PathBuf::from(path), parts: vec![part] }),
        }
    }
    (files, taken)
}

type Chosen<'a> = (&'a Mapped, Vec<u8>, Vec<Option<u64>>);

/// The file whose functions the process uses: the program's own come first, then those of
/// a library that stands in front of the C library, then the C library's.
fn choose<'a>(files: &'a [Mapped], program: &Path) -> Result<Chosen<'a>, String> {
    let definition = |mapped: &'a Mapped| -> Option<Chosen<'a>> {
        let file = fs::read(&mapped.path).ok()?;
        let symbols = if mapped.path == program { Symbols::AllIfStatic } else { Symbols::Exported };
        let addresses = find_functions(&file, &NAMES, symbols);
        addresses[Function::Malloc as usize].map(|_| (mapped, file, addresses))
    };
    if let Some(own) = files.iter().find(|mapped| mapped.path == program).and_then(definition) {
        return Ok(own);
    }
    let is_other = |mapped: &&Mapped| mapped.path != program && !mapped.is_c_library() && !mapped.is_loader();
    let mut others = files.iter().filter(is_other).filter_map(definition);
    match (others.next(), others.next()) {
        (Some(only), None) => return Ok(only),
        (Some(one), Some(other)) => {
            let names = [one.0.name(), other.0.name()];
            return Err(format!(
                "both {} and {} define an allocator, and which is used is not known",
                names[0], names[1]
            ));
        }
        (None, _) => {}
    }
    let of_c = files.iter().filter(|mapped| mapped.is_c_library()).find_map(definition);
    of_c.ok_or_else(|| "no malloc is found in its files (is it stripped, or not in C?)".to_owned())
}

/// Some memory near the address: nearest below and above, and far from what is mapped and
/// unmapped all the time.
fn free_near(near: u64, taken: &[(u64, u64)]) -> Vec<u64> {
    const STEP_BYTES: u64 = 1 << 20;
    const FAR_STEPS: [u64; 2] = [512, 1024];
    const STEPS: u64 = 400;
    const LOWEST: u64 = 0x2_0000;
    const HIGHEST: u64 = 0x7fff_0000_0000;
    let room = place_bytes(environment::ALL);
    let own = (REGION_START, REGION_START + REGION_BYTES);
    let is_free = |place: &u64| {
        // With as much around it, that it is in nobody's way.
        let is_apart = |(start, end): &(u64, u64)| place + 2 * room <= *start || *end <= place - room;
        (LOWEST..HIGHEST).contains(place) && taken.iter().chain([&own]).all(is_apart)
    };
    let start = near & !(STEP_BYTES - 1);
    let below = |from: u64| {
        (from..from + STEPS).filter_map(|step| start.checked_sub(step * STEP_BYTES)).find(is_free)
    };
    let above = (1..STEPS).filter_map(|step| start.checked_add(step * STEP_BYTES)).find(is_free);
    let far = FAR_STEPS.map(below);
    let mut all: Vec<u64> = [below(1), above].into_iter().chain(far).flatten().collect();
    all.dedup();
    all
}
