//! What C does with types before it calculates, and how members are found.

use crate::debug_file::{DebugFile, DieId};
use crate::scope;
use crate::types::{self, INT, Member, Type, UNSIGNED_LONG};

/// A member of a structure, or of an unnamed one in it, or of what it derives from.
pub(crate) fn find_member(file: &DebugFile, id: DieId, name: &str, depth: u32) -> Option<Member> {
    const DEPTH_MAX: u32 = 16;
    let members = types::members(file, id);
    if let Some(found) = members.iter().find(|member| member.name == name) {
        return Some(found.clone());
    }
    members.into_iter().filter(|_| depth < DEPTH_MAX).find_map(|outer| {
        let Type::Struct(inner) = outer.of else { return None };
        let is_open = outer.name.is_empty();
        let found = is_open.then(|| find_member(file, inner, name, depth + 1)).flatten()?;
        Some(Member { offset: found.offset + outer.offset, ..found })
    })
}

/// What C makes of a number's type before it calculates.
pub(crate) fn promoted(of: &Type, file: &DebugFile) -> Type {
    let bytes = types::bytes_of(file, of);
    match of {
        Type::Pointer(_) | Type::Reference(_) | Type::Array(..) | Type::Function => UNSIGNED_LONG,
        _ if bytes < 4 => INT,
        _ => Type::Integer { bytes, signed: types::is_signed(file, of) },
    }
}

pub(crate) fn common(left: &Type, right: &Type) -> Type {
    match (left, right) {
        (
            Type::Integer { bytes: first, signed: first_signed },
            Type::Integer { bytes: second, signed: second_signed },
        ) => {
            let signed = match first.cmp(second) {
                std::cmp::Ordering::Less => *second_signed,
                std::cmp::Ordering::Equal => *first_signed && *second_signed,
                std::cmp::Ordering::Greater => *first_signed,
            };
            Type::Integer { bytes: *first.max(second), signed }
        }
        _ => UNSIGNED_LONG,
    }
}

/// C's own types, which a unit has only if it uses them.
pub(crate) fn builtin(name: &str) -> Option<Type> {
    match name {
        "double" => return Some(Type::Float { bytes: 8 }),
        "float" => return Some(Type::Float { bytes: 4 }),
        _ => {}
    }
    let words: Vec<&str> = name.split(' ').collect();
    let spelled = scope::canonical(&words);
    let (signed, size) = match spelled.strip_prefix("unsigned ") {
        Some(rest) => (false, rest),
        None => (true, spelled.strip_prefix("signed ").unwrap_or(&spelled)),
    };
    Some(match size {
        "char" => Type::Character { bytes: 1, signed },
        "short" => Type::Integer { bytes: 2, signed },
        "int" => Type::Integer { bytes: 4, signed },
        "long" => Type::Integer { bytes: 8, signed },
        _ => return None,
    })
}
