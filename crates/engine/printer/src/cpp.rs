//! Values of GNU's C++ library that stand for others: what owns, may have, guards or joins values.

use crate::compile::{Operand, inside};
use crate::debug_file::{DebugFile, DieId};
use crate::lists::{self, List};
use crate::types::{self, Member, Type};
use crate::variants::Variants;

/// How deep the library nests its own structures.
const DEPTH_MAX: u32 = 8;
/// Most values of a tuple, and most of those that a variant may be.
const TUPLE_MAX: u32 = 32;
const VARIANTS_MAX: usize = 32;

/// What a structure stands for.
pub(crate) enum StandsFor {
    /// This value.
    Same(Member),
    /// This value, if the byte at the offset is not 0.
    Maybe { value: Member, has_value: u64 },
    /// Several values, without names.
    All(Vec<Member>),
}

/// The member of this name in a structure or in one of its parts.
pub(crate) fn part(file: &DebugFile, id: DieId, name: &str) -> Option<Member> {
    find(file, id, &|member| member.name == name, 0)
}

pub(crate) fn find(
    file: &DebugFile,
    id: DieId,
    is_it: &dyn Fn(&Member) -> bool,
    depth: u32,
) -> Option<Member> {
    let members = types::members(file, id);
    if let Some(found) = members.iter().find(|member| is_it(member)) {
        return Some(found.clone());
    }
    let parts = members.into_iter().filter(|_| depth < DEPTH_MAX);
    parts.into_iter().find_map(|part| {
        let Type::Struct(inner) = part.of else { return None };
        let found = find(file, inner, is_it, depth + 1)?;
        Some(Member { offset: part.offset + found.offset, ..found })
    })
}

/// What a structure stands for, if it is one of them.
pub(crate) fn stands_for(file: &DebugFile, id: DieId) -> Option<StandsFor> {
    const NAMES: [(&str, &str); 9] = [
        ("complex<", "_M_value"),
        ("unique_ptr<", "_M_head_impl"),
        ("shared_ptr<", "_M_ptr"),
        ("weak_ptr<", "_M_ptr"),
        ("array<", "_M_elems"),
        ("atomic<", "_M_i"),
        ("atomic<", "_M_p"),
        ("reference_wrapper<", "_M_data"),
        ("__normal_iterator<", "_M_current"),
    ];
    let name = file.name(id)?;
    if name.starts_with("optional<") {
        let value = part(file, id, "_M_value")?;
        let has_value = part(file, id, "_M_engaged")?.offset;
        return Some(StandsFor::Maybe { value, has_value });
    }
    if name.starts_with("tuple<") {
        let mut found = Vec::new();
        tuple_parts(file, id, 0, 0, &mut found);
        found.sort_by_key(|(index, _)| *index);
        return Some(StandsFor::All(found.into_iter().map(|(_, member)| member).collect()));
    }
    if ["queue<", "stack<", "priority_queue<"].iter().any(|start| name.starts_with(start)) {
        return adapted(file, id).map(StandsFor::Same);
    }
    let mut members = NAMES.into_iter().filter(|(start, _)| name.starts_with(start));
    members.find_map(|(_, member)| {
        let wanted = |found: &Member| found.name == member;
        // Of a pointer's owner also who deletes it is a member of that name.
        let is_it = |found: &Member| wanted(found) && (member != "_M_head_impl" || is_pointer(&found.of));
        find(file, id, &is_it, 0).map(StandsFor::Same)
    })
}

/// The values of a tuple with their numbers. It has each in a base of its own, the first one last.
fn tuple_parts(file: &DebugFile, id: DieId, offset: u64, depth: u32, found: &mut Vec<(u64, Member)>) {
    for part in types::members(file, id) {
        let Type::Struct(inner) = part.of else { continue };
        let name = file.name(inner).unwrap_or_default();
        if let Some(rest) = name.strip_prefix("_Head_base<") {
            let index = rest.split(',').next().and_then(|index| index.trim_end_matches("UL").parse().ok());
            // A value without bytes may be the base itself.
            let value = types::members(file, inner).into_iter().find(|member| member.name == "_M_head_impl");
            let value = value.unwrap_or(Member { offset: 0, ..part.clone() });
            let offset = offset + part.offset + value.offset;
            found.push((index.unwrap_or(0), Member { name: String::new(), offset, ..value }));
        } else if name.starts_with("_Tuple_impl<") && depth < TUPLE_MAX {
            tuple_parts(file, inner, offset + part.offset, depth + 1, found);
        }
    }
}

/// What a queue or a stack is made of.
fn adapted(file: &DebugFile, id: DieId) -> Option<Member> {
    let members = types::members(file, id);
    let is_of_library = members.iter().all(|member| matches!(&member.name[..], "c" | "comp"));
    members.into_iter().find(|member| member.name == "c").filter(|_| is_of_library)
}

/// The values that a `variant` may be, and the number that says which: each lies where its union
/// begins, and has its type from what wraps it there.
pub(crate) fn variants(file: &DebugFile, id: DieId) -> Option<Variants> {
    if !file.name(id)?.starts_with("variant<") {
        return None;
    }
    let tag = part(file, id, "_M_index")?;
    let union = part(file, id, "_M_u")?;
    let (offset, mut rest) = (union.offset, union.of);
    let mut all = Vec::new();
    while let Type::Struct(here) = rest
        && all.len() < VARIANTS_MAX
    {
        let members = types::members(file, here);
        let member =
            |name: &str| members.iter().find(|member| member.name == name).map(|member| member.of.clone());
        let Some(Type::Struct(wrapper)) = member("_M_first") else { break };
        let of = types::resolve(file, lists::parameter(file, wrapper, "_Type")?);
        all.push((Some(all.len() as u64), Member { name: String::new(), offset, bits: None, of }));
        rest = member("_M_rest").unwrap_or(Type::Void);
    }
    (!all.is_empty()).then_some(Variants { tag: Some(tag), all })
}

/// Where a string has a text that is short enough, and for how many bytes there is room.
pub(crate) fn short_text(file: &DebugFile, id: DieId, list: &List) -> Option<(u64, u64)> {
    let local = part(file, id, "_M_local_buf").filter(|_| list.is_text)?;
    Some((local.offset, types::bytes_of(file, &local.of).saturating_sub(1)))
}

/// The pointer, or the value, that an object stands for, if it does.
pub(crate) fn owned(file: &DebugFile, object: &Operand) -> Option<Operand> {
    let Type::Struct(id) = object.of else { return None };
    let value = match stands_for(file, id)? {
        StandsFor::Same(value) | StandsFor::Maybe { value, .. } => value,
        StandsFor::All(_) => return None,
    };
    let place = inside(&object.place, value.offset, types::bytes_of(file, &value.of));
    Some(Operand::new(value.of, place))
}

fn is_pointer(of: &Type) -> bool {
    matches!(of, Type::Pointer(_))
}
