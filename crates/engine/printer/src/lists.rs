//! Lists and texts of languages in which a value holds the address of the elements and their
//! number: Rust's slices, `Vec` and `String`, Go's slices and strings.
//!
//! Deliberately absent: lists in elements of lists, whose elements are not recorded.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId, Value};
use crate::types::{self, Member, Type};

/// Where a structure has its list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct List {
    /// Offset of the elements' address.
    pub pointer: u64,
    /// Offset of their number, of 8 bytes.
    pub count: u64,
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
        _ => None,
    }
}

fn of_rust(file: &DebugFile, id: DieId) -> Option<List> {
    let name = file.name(id)?;
    let members = types::members(file, id);
    if let Some((pointer, element)) = member(&members, "data_ptr").and_then(pointer) {
        let is_text = is_byte(file, element) && (name.ends_with("str") || name.contains("<str"));
        return Some(List { pointer, count: number(&members, "length")?, element, is_text });
    }
    if name == "String" {
        let vec = member(&members, "vec")?;
        let Type::Struct(inner) = vec.of else { return None };
        let List { pointer, count, element, .. } = of_rust(file, inner)?;
        return Some(List {
            pointer: vec.offset + pointer,
            count: vec.offset + count,
            element,
            is_text: true,
        });
    }
    if !name.starts_with("Vec<") {
        return None;
    }
    let buffer = member(&members, "buf")?;
    let pointer = buffer.offset + first_pointer(file, &buffer.of, 0)?;
    let element = parameter(file, id, "T")?;
    Some(List { pointer, count: number(&members, "len")?, element, is_text: false })
}

fn of_go(file: &DebugFile, id: DieId) -> Option<List> {
    let name = file.name(id)?;
    let members = types::members(file, id);
    let is_text = name == "string";
    if !is_text && !name.starts_with("[]") {
        return None;
    }
    let (pointer, element) = pointer(member(&members, if is_text { "str" } else { "array" })?)?;
    Some(List { pointer, count: number(&members, "len")?, element, is_text })
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
fn parameter(file: &DebugFile, id: DieId, name: &str) -> Option<DieId> {
    let tree = file.tree(id.unit);
    let mut children = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    let is_it = |child: &DieId| {
        file.tag(*child) == dw::DW_TAG_template_type_parameter && file.name(*child).as_deref() == Some(name)
    };
    file.reference(children.find(is_it)?, gimli::DW_AT_type)
}
