//! Types of the program, as far as printing needs them.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId, Value};

/// A member of a structure.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Empty: it is an unnamed structure.
    pub name: String,
    pub offset: u64,
    /// Of a bit-field: bits from the offset on, and how many.
    pub bits: Option<(u64, u64)>,
    pub of: Type,
}

/// A type; what it refers to is looked up when it is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Void,
    Integer {
        bytes: u64,
        signed: bool,
    },
    Boolean {
        bytes: u64,
    },
    Character {
        bytes: u64,
        signed: bool,
    },
    Float {
        bytes: u64,
    },
    /// Two numbers with a floating point.
    Complex {
        bytes: u64,
    },
    /// To a type; `None`: to nothing known.
    Pointer(Option<DieId>),
    /// A C++ reference.
    Reference(Option<DieId>),
    Struct(DieId),
    /// Elements, and how many: of each dimension one.
    Array(Option<DieId>, Vec<u64>),
    Enum(DieId),
    Function,
    /// Something that is not known, and its bytes.
    Other(u64),
}

pub(crate) const INT: Type = Type::Integer { bytes: 4, signed: true };
pub(crate) const LONG: Type = Type::Integer { bytes: 8, signed: true };
pub(crate) const UNSIGNED_LONG: Type = Type::Integer { bytes: 8, signed: false };

/// The type that an entry is of.
pub(crate) fn type_of(file: &DebugFile, id: DieId) -> Type {
    file.inherited(id, gimli::DW_AT_type)
        .and_then(|(value, at)| file.target(at.unit, &value))
        .map_or(Type::Void, |target| resolve(file, target))
}

/// The type that an entry is, without what qualifies it.
pub(crate) fn resolve(file: &DebugFile, id: DieId) -> Type {
    const STEPS_MAX: usize = 64;
    let mut at = id;
    for _ in 0..STEPS_MAX {
        let bytes = file.number(at, gimli::DW_AT_byte_size);
        let target = file.reference(at, gimli::DW_AT_type);
        return match file.tag(at) {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => match target {
                Some(target) => {
                    at = target;
                    continue;
                }
                None => Type::Void,
            },
            dw::DW_TAG_base_type => base(file, at, bytes.unwrap_or(0)),
            dw::DW_TAG_pointer_type => Type::Pointer(target),
            dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => Type::Reference(target),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                Type::Struct(complete(file, at))
            }
            dw::DW_TAG_array_type => Type::Array(target, dimensions(file, at)),
            dw::DW_TAG_enumeration_type => Type::Enum(at),
            dw::DW_TAG_subroutine_type | dw::DW_TAG_subprogram => Type::Function,
            dw::DW_TAG_unspecified_type => Type::Void,
            _ => Type::Other(bytes.unwrap_or(0)),
        };
    }
    Type::Void
}

fn base(file: &DebugFile, id: DieId, bytes: u64) -> Type {
    let encoding = match file.attribute(id, gimli::DW_AT_encoding) {
        Some(Value::Encoding(encoding)) => encoding,
        _ => return Type::Other(bytes),
    };
    match encoding {
        dw::DW_ATE_boolean => Type::Boolean { bytes },
        dw::DW_ATE_float => Type::Float { bytes },
        dw::DW_ATE_complex_float => Type::Complex { bytes },
        dw::DW_ATE_signed => Type::Integer { bytes, signed: true },
        dw::DW_ATE_unsigned => Type::Integer { bytes, signed: false },
        dw::DW_ATE_signed_char => Type::Character { bytes, signed: true },
        dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF => Type::Character { bytes, signed: false },
        _ => Type::Other(bytes),
    }
}

/// The definition of a structure that is only declared where it is used.
fn complete(file: &DebugFile, id: DieId) -> DieId {
    if file.attribute(id, gimli::DW_AT_declaration).is_none() {
        return id;
    }
    let name = file.name(id);
    let tree = file.tree(id.unit);
    let is_it = |index: &usize| {
        let other = DieId { unit: id.unit, index: *index };
        file.tag(other) == file.tag(id)
            && file.attribute(other, gimli::DW_AT_declaration).is_none()
            && file.name(other) == name
    };
    (0..tree.dies.len()).find(is_it).map_or(id, |index| DieId { unit: id.unit, index })
}

/// Lengths of an array's dimensions; 0: not known when it was compiled.
fn dimensions(file: &DebugFile, id: DieId) -> Vec<u64> {
    let tree = file.tree(id.unit);
    let ranges = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    ranges
        .filter(|child| file.tag(*child) == dw::DW_TAG_subrange_type)
        .map(|child| {
            let count = file.number(child, gimli::DW_AT_count);
            let upper = || file.number(child, gimli::DW_AT_upper_bound)?.checked_add(1);
            count.or_else(upper).unwrap_or(0)
        })
        .collect()
}

/// The members of a structure, of what it derives from too.
pub(crate) fn members(file: &DebugFile, id: DieId) -> Vec<Member> {
    let tree = file.tree(id.unit);
    let mut found = Vec::new();
    for index in tree.children(id.index) {
        let child = DieId { unit: id.unit, index };
        let tag = file.tag(child);
        // Static members have no place in it.
        let is_static = file.attribute(child, gimli::DW_AT_external).is_some();
        if is_static || !matches!(tag, dw::DW_TAG_member | dw::DW_TAG_inheritance) {
            continue;
        }
        let place = file.attribute(child, gimli::DW_AT_data_member_location);
        let place = place.as_ref().map_or(Some(0), crate::debug_file::number_of);
        // A virtual base's place is known to the program only.
        let Some(offset) = place else { continue };
        let of = type_of(file, child);
        let bits = file.number(child, gimli::DW_AT_bit_size).map(|bits| {
            let first = match file.number(child, gimli::DW_AT_data_bit_offset) {
                Some(offset) => offset,
                None => big_endian_bits(file, child, &of, bits),
            };
            (first, bits)
        });
        let name = file.name(child).unwrap_or_default();
        let (offset, bits) = match bits {
            Some((first, count)) => (offset + first / 8, Some((first % 8, count))),
            None => (offset, None),
        };
        found.push(Member { name, offset, bits, of });
    }
    found
}

/// Older producers count a bit-field's bits from the other end of its storage.
fn big_endian_bits(file: &DebugFile, member: DieId, of: &Type, bits: u64) -> u64 {
    let storage = file.number(member, gimli::DW_AT_byte_size).unwrap_or_else(|| bytes_of(file, of)) * 8;
    let from_end = file.number(member, gimli::DW_AT_bit_offset).unwrap_or(0);
    storage.saturating_sub(from_end).saturating_sub(bits)
}

/// Bytes of a value of a type; 0: not known.
pub(crate) fn bytes_of(file: &DebugFile, of: &Type) -> u64 {
    match of {
        Type::Void | Type::Function => 0,
        Type::Integer { bytes, .. }
        | Type::Boolean { bytes }
        | Type::Character { bytes, .. }
        | Type::Float { bytes }
        | Type::Complex { bytes }
        | Type::Other(bytes) => *bytes,
        Type::Pointer(_) | Type::Reference(_) => 8,
        Type::Struct(id) | Type::Enum(id) => enum_or_struct_bytes(file, *id),
        Type::Array(element, counts) => {
            let each = bytes_of(file, &target(file, *element));
            counts.iter().fold(each, |bytes, count| bytes.saturating_mul(*count))
        }
    }
}

fn enum_or_struct_bytes(file: &DebugFile, id: DieId) -> u64 {
    file.number(id, gimli::DW_AT_byte_size).unwrap_or_else(|| match file.reference(id, gimli::DW_AT_type) {
        Some(under) if file.tag(id) == dw::DW_TAG_enumeration_type => bytes_of(file, &resolve(file, under)),
        _ => 0,
    })
}

/// What a pointer points to, or an array consists of.
pub(crate) fn target(file: &DebugFile, of: Option<DieId>) -> Type {
    of.map_or(Type::Void, |id| resolve(file, id))
}

/// The element of an array.
pub(crate) fn element(file: &DebugFile, of: Option<DieId>, counts: &[u64]) -> Type {
    match counts {
        [_, rest @ ..] if !rest.is_empty() => Type::Array(of, rest.to_vec()),
        _ => target(file, of),
    }
}

/// True if the values of an enumeration can be negative.
pub(crate) fn is_enum_signed(file: &DebugFile, id: DieId) -> bool {
    if let Some(under) = file.reference(id, gimli::DW_AT_type) {
        return matches!(
            resolve(file, under),
            Type::Integer { signed: true, .. } | Type::Character { signed: true, .. }
        );
    }
    enumerators(file, id).iter().any(|(_, value)| *value < 0)
}

/// Names and values of an enumeration.
pub(crate) fn enumerators(file: &DebugFile, id: DieId) -> Vec<(String, i64)> {
    let tree = file.tree(id.unit);
    let children = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    children
        .filter(|child| file.tag(*child) == dw::DW_TAG_enumerator)
        .filter_map(|child| {
            let value = file.attribute(child, gimli::DW_AT_const_value)?;
            let value = value.sdata_value().or_else(|| value.udata_value().map(|value| value as i64))?;
            Some((file.name(child)?, value))
        })
        .collect()
}

/// True for a type whose values are one number.
pub(crate) fn is_number(of: &Type) -> bool {
    matches!(
        of,
        Type::Integer { .. }
            | Type::Boolean { .. }
            | Type::Character { .. }
            | Type::Pointer(_)
            | Type::Reference(_)
            | Type::Enum(_)
    )
}

/// True if a number of this type is negative where its highest bit is set.
pub(crate) fn is_signed(file: &DebugFile, of: &Type) -> bool {
    match of {
        Type::Integer { signed, .. } | Type::Character { signed, .. } => *signed,
        Type::Enum(id) => is_enum_signed(file, *id),
        _ => false,
    }
}
