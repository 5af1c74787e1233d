//! Lists and texts of languages in which a value holds the address of the elements and their
//! number: Rust's slices, `Vec` and `String`, Go's slices and strings, and those of GNU's C++
//! library (`string`, `string_view`, `vector`, `span`, `initializer_list`).
//!
//! Deliberately absent: what has its elements in nodes or in blocks (`map`, `list`, `deque`, see `nodes.rs`).

use gimli::constants as dw;

use crate::cpp;
use crate::debug_file::{DebugFile, DieId, Value};
use crate::types::{self, Member, Type};

/// What says how many elements there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Count {
    /// Offset of their number, of 8 bytes.
    Number(u64),
    /// Offset of the address behind the last one.
    Behind(u64),
    /// Each is a bit: offsets of the address of the last one's word, and of how many of that word's.
    Bits(u64, u64),
}

/// Where a structure has its list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct List {
    /// Offset of the elements' address, and bytes that they lie behind it.
    pub pointer: u64,
    pub skipped: u64,
    pub count: Count,
    pub element: DieId,
    /// They are bytes in UTF-8.
    pub is_text: bool,
}

/// The list that a structure is, if it is one.
pub(crate) fn of_structure(file: &DebugFile, id: DieId) -> Option<List> {
    let unit = DieId { unit: id.unit, index: 0 };
    match file.attribute(unit, gimli::DW_AT_language)? {
        Value::Language(dw::DW_LANG_Rust) => of_rust(file, id),
        Value::Language(dw::DW_LANG_Go) => of_go(file, id),
        _ => of_cpp(file, id),
    }
}

/// Elements that begin at the address.
fn list(pointer: u64, element: DieId, is_text: bool) -> List {
    List { pointer, skipped: 0, count: Count::Number(0), element, is_text }
}

/// A list or a text that is shared: behind the address come the numbers of who shares it.
fn of_shared(file: &DebugFile, id: DieId, name: &str) -> Option<List> {
    let start = cpp::part(file, id, "data_ptr")?;
    let (pointer, inner) = pointer(&start)?;
    let Type::Struct(inner) = types::resolve(file, inner) else { return None };
    let children = file.tree(inner.unit).children(inner.index);
    let is_value = |id: &DieId| file.name(*id).is_some_and(|name| matches!(&*name, "value" | "data"));
    let value = children.map(|index| DieId { unit: inner.unit, index }).find(is_value)?;
    let skipped = file.number(value, gimli::DW_AT_data_member_location)?;
    let element = file.reference(value, gimli::DW_AT_type)?;
    let count = Count::Number(cpp::part(file, id, "length")?.offset);
    Some(List { skipped, count, ..list(pointer, element, name.contains("<str") && is_byte(file, element)) })
}

fn of_rust(file: &DebugFile, id: DieId) -> Option<List> {
    let name = file.name(id)?;
    if name.starts_with("Rc<") || name.starts_with("Arc<") {
        return of_shared(file, id, &name);
    }
    let members = types::members(file, id);
    if let Some((pointer, element)) = member(&members, "data_ptr").and_then(pointer) {
        let is_text = is_byte(file, element) && (name.ends_with("str") || name.contains("<str"));
        return Some(List {
            count: Count::Number(number(&members, "length")?),
            ..list(pointer, element, is_text)
        });
    }
    if name == "String" {
        let vec = member(&members, "vec")?;
        let Type::Struct(inner) = vec.of else { return None };
        return Some(List { is_text: true, ..of_rust(file, inner)?.moved(vec.offset) });
    }
    if !name.starts_with("Vec<") {
        return None;
    }
    let buffer = member(&members, "buf")?;
    let pointer = buffer.offset + first_pointer(file, &buffer.of, 0)?;
    let element = parameter(file, id, "T")?;
    Some(List { count: Count::Number(number(&members, "len")?), ..list(pointer, element, false) })
}

fn of_go(file: &DebugFile, id: DieId) -> Option<List> {
    let name = file.name(id)?;
    let members = types::members(file, id);
    let is_text = name == "string";
    if !is_text && !name.starts_with("[]") {
        return None;
    }
    let (pointer, element) = pointer(member(&members, if is_text { "str" } else { "array" })?)?;
    Some(List { count: Count::Number(number(&members, "len")?), ..list(pointer, element, is_text) })
}

fn of_cpp(file: &DebugFile, id: DieId) -> Option<List> {
    // The names of the members are reserved for the library.
    const NAMES: [(&str, &str, &str); 5] = [
        ("basic_string<", "_M_p", "_M_string_length"),
        ("basic_string_view<", "_M_str", "_M_len"),
        ("span<", "_M_ptr", "_M_extent_value"),
        ("initializer_list<", "_M_array", "_M_len"),
        ("vector<", "_M_start", "_M_finish"),
    ];
    let name = file.name(id)?;
    if name.starts_with("vector<bool") {
        let iterator = cpp::part(file, id, "_M_finish")?;
        let Type::Struct(inner) = iterator.of else { return None };
        let [word, bit] = ["_M_p", "_M_offset"].map(|name| cpp::part(file, inner, name));
        let (pointer, element) = pointer(&cpp::part(file, id, "_M_p")?)?;
        let count = Count::Bits(iterator.offset + word?.offset, iterator.offset + bit?.offset);
        return Some(List { count, ..list(pointer, element, false) });
    }
    let (start, first, last) = NAMES.into_iter().find(|(start, ..)| name.starts_with(start))?;
    let (pointer, element) = pointer(&cpp::part(file, id, first)?)?;
    let last = cpp::part(file, id, last)?;
    let count = match last.of {
        Type::Pointer(_) => Count::Behind(last.offset),
        Type::Integer { bytes: 8, .. } => Count::Number(last.offset),
        _ => return None,
    };
    let is_text = start.starts_with("basic_string") && is_byte(file, element);
    Some(List { count, ..list(pointer, element, is_text) })
}

impl List {
    /// The same, as a member at this offset.
    fn moved(self, offset: u64) -> List {
        let count = match self.count {
            Count::Number(at) => Count::Number(at + offset),
            Count::Behind(at) => Count::Behind(at + offset),
            Count::Bits(word, bit) => Count::Bits(word + offset, bit + offset),
        };
        List { pointer: self.pointer + offset, count, ..self }
    }
}

fn member<'a>(members: &'a [Member], name: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.name == name)
}

/// Offset of a member that is a number of 8 bytes.
fn number(members: &[Member], name: &str) -> Option<u64> {
    member(members, name)
        .filter(|member| matches!(member.of, Type::Integer { bytes: 8, .. }))
        .map(|at| at.offset)
}

/// Offset of a member that is a pointer, and what it points to.
fn pointer(member: &Member) -> Option<(u64, DieId)> {
    let Type::Pointer(Some(element)) = member.of else { return None };
    Some((member.offset, element))
}

fn is_byte(file: &DebugFile, id: DieId) -> bool {
    types::bytes_of(file, &types::resolve(file, id)) == 1
}

/// Offset of the first pointer in a value.
fn first_pointer(file: &DebugFile, of: &Type, depth: u32) -> Option<u64> {
    const DEPTH_MAX: u32 = 8;
    match of {
        Type::Pointer(_) => Some(0),
        Type::Struct(id) if depth < DEPTH_MAX => types::members(file, *id)
            .iter()
            .find_map(|member| Some(member.offset + first_pointer(file, &member.of, depth + 1)?)),
        _ => None,
    }
}

/// What a type was made for: its parameter of this name.
pub(crate) fn parameter(file: &DebugFile, id: DieId, name: &str) -> Option<DieId> {
    let tree = file.tree(id.unit);
    let mut children = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    let is_it = |child: &DieId| {
        file.tag(*child) == dw::DW_TAG_template_type_parameter && file.name(*child).as_deref() == Some(name)
    };
    file.reference(children.find(is_it)?, gimli::DW_AT_type)
}
