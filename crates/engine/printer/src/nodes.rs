//! Collections that have each of their elements in a node of its own, in the slots of a table or in
//! blocks: `map`, `set`, `list`, `forward_list`, `deque` and the unordered ones of GNU's C++
//! library, those of Rust's (`rust_nodes.rs`), maps of Go (`go_maps.rs`). And what is one value at
//! an address.

use gimli::constants as dw;
use lane_protocol::bytecode::{op, way};

use crate::code::Code;
use crate::cpp;
use crate::debug_file::{DebugFile, DieId, Value};
use crate::lists;
use crate::types::{self, Member, Type};
use crate::{go_maps, rust_nodes};

/// Most elements of one collection that are recorded, and most of their bytes.
pub(crate) const ELEMENTS_MAX: u64 = 32;
const ELEMENTS_BYTES_MAX: u64 = 2048;

/// Where a collection has its elements. Words are named by their offsets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Way {
    /// Nodes, of which each knows the next ones. `way` is one of [`way`]; without a number of
    /// elements it is a chain to its end.
    Linked { way: u8, first: u64, count: Option<u64>, skipped: u64 },
    /// Slots before the bytes that say which are full.
    Slots { first: u64, count: u64 },
    /// Blocks of so many elements: the places of a `deque`'s first element and of its end.
    Blocks { start: Place, finish: Place, each: u64, bytes: u64 },
    /// It goes on where it begins.
    Ring { memory: u64, room: u64, head: u64, count: u64 },
    /// Nodes with many keys; offsets of the node's parts are told too.
    WideTree { root: u64, height: u64, count: u64, node: [u64; 4] },
    /// A pointer to Go's map.
    Map(go_maps::Map),
    /// One element, so many bytes behind the address.
    One { pointer: u64, skipped: u64 },
}

/// A place in a `deque`: words with the addresses of the element, of its block, of the block's
/// end, and of where the block's address is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub element: u64,
    pub first: u64,
    pub last: u64,
    pub block: u64,
}

/// Where a collection has its elements, and what these are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nodes {
    pub way: Way,
    /// A key and a value are two pieces where they do not lie together.
    pub pieces: Vec<DieId>,
    /// An element is a key and a value.
    pub are_pairs: bool,
}

/// The collection that a structure is, if it is one.
pub(crate) fn of_structure(file: &DebugFile, id: DieId) -> Option<Nodes> {
    let name = file.name(id)?;
    let unit = DieId { unit: id.unit, index: 0 };
    match file.attribute(unit, gimli::DW_AT_language)? {
        Value::Language(dw::DW_LANG_Rust) => rust_nodes::of_structure(file, id, &name),
        Value::Language(dw::DW_LANG_Go) => None,
        _ => of_cpp(file, id, &name),
    }
}

/// The collection that a value is, if it is one.
pub(crate) fn of_value(file: &DebugFile, of: &Type) -> Option<Nodes> {
    match of {
        Type::Struct(id) => of_structure(file, *id),
        Type::Pointer(Some(target)) => go_maps::of_pointer(file, *target),
        _ => None,
    }
}

fn of_cpp(file: &DebugFile, id: DieId, name: &str) -> Option<Nodes> {
    struct Kind {
        /// The member that knows the elements' type as its parameter.
        inner: Option<&'static str>,
        parameter: &'static str,
        way: u8,
        first: &'static str,
        count: Option<&'static str>,
        skipped: u64,
    }
    const TREE: Kind = Kind {
        inner: Some("_M_t"),
        parameter: "_Val",
        way: way::TREE,
        first: "_M_left",
        count: Some("_M_node_count"),
        skipped: 32,
    };
    const TABLE: Kind = Kind {
        inner: Some("_M_h"),
        parameter: "_Value",
        way: way::CHAIN,
        first: "_M_nxt",
        count: Some("_M_element_count"),
        skipped: 8,
    };
    const LIST: Kind = Kind {
        inner: None,
        parameter: "_Tp",
        way: way::CHAIN,
        first: "_M_next",
        count: Some("_M_size"),
        skipped: 16,
    };
    const CHAIN: Kind = Kind { way: way::CHAIN_TO_END, count: None, skipped: 8, ..LIST };
    let (start, _) = name.split_once('<')?;
    let kind = match start {
        "map" | "multimap" | "set" | "multiset" => TREE,
        "unordered_map" | "unordered_multimap" | "unordered_set" | "unordered_multiset" => TABLE,
        "list" => LIST,
        "forward_list" => CHAIN,
        "deque" => return of_deque(file, id),
        _ => return None,
    };
    let owner = match kind.inner.map(|inner| cpp::part(file, id, inner)) {
        Some(Some(Member { of: Type::Struct(inner), .. })) => inner,
        Some(_) => return None,
        None => id,
    };
    let count = match kind.count {
        Some(name) => Some(cpp::part(file, id, name)?.offset),
        None => None,
    };
    let element = lists::parameter(file, owner, kind.parameter)?;
    let first = cpp::part(file, id, kind.first)?.offset;
    let way = Way::Linked { way: kind.way, first, count, skipped: kind.skipped };
    Some(Nodes { way, pieces: vec![element], are_pairs: start.ends_with("map") })
}

fn of_deque(file: &DebugFile, id: DieId) -> Option<Nodes> {
    const BLOCK_BYTES: u64 = 512;
    let element = lists::parameter(file, id, "_Tp")?;
    let place = |name: &str| {
        let start = cpp::part(file, id, name)?;
        let Type::Struct(inner) = start.of else { return None };
        let word = |name: &str| Some(start.offset + cpp::part(file, inner, name)?.offset);
        let [element, first] = [word("_M_cur")?, word("_M_first")?];
        Some(Place { element, first, last: word("_M_last")?, block: word("_M_node")? })
    };
    let bytes = types::bytes_of(file, &types::resolve(file, element));
    let each = BLOCK_BYTES.checked_div(bytes)?.max(1);
    let way = Way::Blocks { start: place("_M_start")?, finish: place("_M_finish")?, each, bytes };
    Some(Nodes { way, pieces: vec![element], are_pairs: false })
}

/// Reads a word of the value.
pub(crate) type Word<'a> = dyn Fn(u64) -> Option<Code> + 'a;

impl Way {
    /// What is on the stack for the way, the number of elements last; and which way it is.
    fn stack(&self, word: &Word<'_>) -> Option<(Code, u8)> {
        let number = Code::constant;
        Some(match self {
            Way::Linked { way, first, count, skipped } => {
                let count = match count {
                    Some(count) => word(*count)?,
                    None => number(0),
                };
                (word(*first)?.and(&number(*skipped)).and(&count), *way)
            }
            Way::Slots { first, count } => (word(*first)?.and(&word(*count)?), way::SLOTS),
            Way::Blocks { start, finish, each, bytes } => {
                let part = |to: u64, from: u64| {
                    Some(word(to)?.and(&word(from)?).then(&[op::SUB]).divided_by(*bytes))
                };
                let between = word(finish.block)?.and(&word(start.block)?).then(&[op::SUB]).divided_by(8);
                let count = between.times(*each).and(&part(finish.element, finish.first)?).then(&[op::ADD]);
                // From the first place to the last one's block there is its own block too much.
                let count = count.and(&part(start.element, start.first)?).then(&[op::SUB]);
                let passed = part(start.element, start.first)?;
                (word(start.block)?.and(&number(*each)).and(&passed).and(&count), way::BLOCKS)
            }
            Way::Ring { memory, room, head, count } => {
                let place = word(*memory)?.and(&word(*room)?).and(&word(*head)?);
                (place.and(&word(*count)?), way::RING)
            }
            Way::WideTree { root, height, count, node: [keys, values, number_of_keys, below] } => {
                let place = word(*root)?.and(&word(*height)?).and(&number(*keys)).and(&number(*values));
                let place = place.and(&number(*number_of_keys)).and(&number(*below));
                (place.and(&word(*count)?), way::WIDE_TREE)
            }
            Way::Map(map) => (map.stack(word)?, way::GROUPS),
            Way::One { pointer, skipped } => {
                let is_there = word(*pointer)?.choose(&number(1), &number(0));
                (word(*pointer)?.plus(*skipped).and(&is_there), way::ONE)
            }
        })
    }

    /// Offset of the number of elements, if it is there.
    pub fn count(&self) -> Option<u64> {
        match self {
            Way::Linked { count, .. } => *count,
            Way::Slots { count, .. } | Way::Ring { count, .. } | Way::WideTree { count, .. } => Some(*count),
            Way::Blocks { .. } | Way::Map(_) | Way::One { .. } => None,
        }
    }
}

impl Nodes {
    /// Bytes of the pieces of an element.
    fn bytes(&self, file: &DebugFile) -> Vec<u64> {
        self.pieces.iter().map(|piece| types::bytes_of(file, &types::resolve(file, *piece))).collect()
    }

    /// Most elements that are recorded.
    pub fn most(&self, file: &DebugFile) -> u64 {
        let each = self.bytes(file).into_iter().sum();
        if matches!(self.way, Way::One { .. }) {
            return u64::from((1..=ELEMENTS_BYTES_MAX).contains(&each));
        }
        ELEMENTS_BYTES_MAX.checked_div(each).unwrap_or(0).min(ELEMENTS_MAX)
    }

    /// Records the elements: their number, and of each the pieces, behind which stands what the
    /// program records that `inside` makes of the piece's type. `word` reads a word of the collection.
    pub fn record(&self, file: &DebugFile, word: &Word<'_>, inside: &dyn Fn(DieId) -> Code) -> Option<Code> {
        let most = self.most(file);
        if most == 0 {
            return None;
        }
        let pieces = self.pieces.iter().zip(self.bytes(file));
        let pieces: Option<Vec<(u16, Code)>> =
            pieces.map(|(piece, bytes)| Some((u16::try_from(bytes).ok()?, inside(*piece)))).collect();
        let (stack, way) = self.way.stack(word)?;
        Some(stack.record_nodes(way, most as u8, &pieces?))
    }
}
