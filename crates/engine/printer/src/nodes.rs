//! Collections that have each of their elements in a node of its own, or in the slots of a table:
//! `map`, `set`, `list` and the unordered ones of GNU's C++ library, `HashMap` and `HashSet` of Rust.
//!
//! Deliberately absent: what the elements have elsewhere, Rust's B-trees.

use gimli::constants as dw;
use lane_protocol::bytecode::way;

use crate::code::Code;
use crate::cpp;
use crate::debug_file::{DebugFile, DieId, Value};
use crate::lists;
use crate::types::{self, Member, Type};

/// Most elements of one collection that are recorded, and most of their bytes.
pub(crate) const ELEMENTS_MAX: u64 = 32;
const ELEMENTS_BYTES_MAX: u64 = 2048;

/// Where a collection has its elements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nodes {
    /// One of [`way`].
    pub way: u8,
    /// Offset of the first node's address, or of the table's.
    pub first: u64,
    /// Offset of the number of elements, of 8 bytes.
    pub count: u64,
    /// Bytes in a node before its element.
    pub skipped: u8,
    pub element: DieId,
    /// An element is a key and a value.
    pub are_pairs: bool,
}

/// The collection that a structure is, if it is one.
pub(crate) fn of_structure(file: &DebugFile, id: DieId) -> Option<Nodes> {
    let name = file.name(id)?;
    let unit = DieId { unit: id.unit, index: 0 };
    match file.attribute(unit, gimli::DW_AT_language)? {
        Value::Language(dw::DW_LANG_Rust) => of_rust(file, id, &name),
        Value::Language(dw::DW_LANG_Go) => None,
        _ => of_cpp(file, id, &name),
    }
}

fn of_cpp(file: &DebugFile, id: DieId, name: &str) -> Option<Nodes> {
    struct Kind {
        /// The member that knows the elements' type as its parameter.
        inner: Option<&'static str>,
        parameter: &'static str,
        way: u8,
        first: &'static str,
        count: &'static str,
        skipped: u8,
    }
    const TREE: Kind = Kind {
        inner: Some("_M_t"),
        parameter: "_Val",
        way: way::TREE,
        first: "_M_left",
        count: "_M_node_count",
        skipped: 32,
    };
    const TABLE: Kind = Kind {
        inner: Some("_M_h"),
        parameter: "_Value",
        way: way::CHAIN,
        first: "_M_nxt",
        count: "_M_element_count",
        skipped: 8,
    };
    const LIST: Kind = Kind {
        inner: None,
        parameter: "_Tp",
        way: way::CHAIN,
        first: "_M_next",
        count: "_M_size",
        skipped: 16,
    };
    let (start, _) = name.split_once('<')?;
    let kind = match start {
        "map" | "multimap" | "set" | "multiset" => TREE,
        "unordered_map" | "unordered_multimap" | "unordered_set" | "unordered_multiset" => TABLE,
        "list" => LIST,
        _ => return None,
    };
    let owner = match kind.inner.map(|inner| cpp::part(file, id, inner)) {
        Some(Some(Member { of: Type::Struct(inner), .. })) => inner,
        Some(_) => return None,
        None => id,
    };
    Some(Nodes {
        way: kind.way,
        first: cpp::part(file, id, kind.first)?.offset,
        count: cpp::part(file, id, kind.count)?.offset,
        skipped: kind.skipped,
        element: lists::parameter(file, owner, kind.parameter)?,
        are_pairs: start.ends_with("map"),
    })
}

fn of_rust(file: &DebugFile, id: DieId, name: &str) -> Option<Nodes> {
    let are_pairs = name.starts_with("HashMap<");
    if !are_pairs && !name.starts_with("HashSet<") {
        return None;
    }
    // Of hashbrown, which the standard library is built with.
    let is_table = |member: &Member| match member.of {
        Type::Struct(of) => file.name(of).is_some_and(|name| name.starts_with("RawTable<")),
        _ => false,
    };
    let table = cpp::find(file, id, &is_table, 0)?;
    let Type::Struct(of) = table.of else { return None };
    Some(Nodes {
        way: way::SLOTS,
        first: table.offset + cpp::part(file, of, "ctrl")?.offset,
        count: table.offset + cpp::part(file, of, "items")?.offset,
        skipped: 0,
        // Of a set it is a pair of the element and nothing.
        element: lists::parameter(file, if are_pairs { of } else { id }, "T")?,
        are_pairs,
    })
}

impl Nodes {
    /// Bytes of an element.
    pub fn each(&self, file: &DebugFile) -> u64 {
        types::bytes_of(file, &types::resolve(file, self.element))
    }

    /// Most elements that are recorded.
    pub fn most(&self, file: &DebugFile) -> u64 {
        ELEMENTS_BYTES_MAX.checked_div(self.each(file)).unwrap_or(0).min(ELEMENTS_MAX)
    }

    /// Records the elements, each as a part. `word` reads a word of the collection.
    pub fn record(&self, file: &DebugFile, word: &dyn Fn(u64) -> Option<Code>) -> Option<Code> {
        let most = self.most(file);
        let each = u16::try_from(self.each(file)).ok().filter(|_| most != 0)?;
        Some(word(self.first)?.and(&word(self.count)?).record_nodes(self.way, self.skipped, each, most as u8))
    }
}
