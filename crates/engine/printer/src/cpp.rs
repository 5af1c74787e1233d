//! Values of GNU's C++ library that stand for another: what owns, may have or guards a value.

use crate::compile::{Operand, inside};
use crate::debug_file::{DebugFile, DieId};
use crate::lists::List;
use crate::types::{self, Member, Type};

/// How deep the library nests its own structures.
const DEPTH_MAX: u32 = 8;

/// What a structure stands for.
pub(crate) enum StandsFor {
    /// This value.
    Same(Member),
    /// This value, if the byte at the offset is not 0.
    Maybe { value: Member, has_value: u64 },
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
    const NAMES: [(&str, &str); 8] = [
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
    let mut members = NAMES.into_iter().filter(|(start, _)| name.starts_with(start));
    members.find_map(|(_, member)| {
        let wanted = |found: &Member| found.name == member;
        // Of a pointer's owner also who deletes it is a member of that name.
        let is_it = |found: &Member| wanted(found) && (member != "_M_head_impl" || is_pointer(&found.of));
        find(file, id, &is_it, 0).map(StandsFor::Same)
    })
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
    };
    let place = inside(&object.place, value.offset, types::bytes_of(file, &value.of));
    Some(Operand::new(value.of, place))
}

fn is_pointer(of: &Type) -> bool {
    matches!(of, Type::Pointer(_))
}
