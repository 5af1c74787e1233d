//! How functions give their results: in which registers, or in memory.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId, Value};
use crate::functions;
use crate::types::{self, Type};

/// A part of a result in a register of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InRegister {
    /// Where the value has it.
    pub offset: u64,
    /// At most 8.
    pub bytes: u64,
    /// In a vector register; else in the next of rax and rdx.
    pub is_vector: bool,
}

/// How a function gives its result to its caller (System V ABI, AMD64, 3.2.3).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Passing {
    Nothing,
    Registers(Vec<InRegister>),
    /// In the first register of the x87.
    X87,
    /// In memory, at the address in rax.
    Memory,
    Unknown(&'static str),
}

/// How the result of a function, which is of this type, is given.
pub(crate) fn of_result(file: &DebugFile, function: DieId, of: &Type) -> Passing {
    let bytes = types::bytes_of(file, of);
    let is_changed = functions::low_address(file, function).is_some_and(|start| file.is_changed(start));
    match of {
        Type::Void => Passing::Nothing,
        _ if is_changed => Passing::Unknown("the compiler changed how it is called"),
        Type::Float { bytes: 4 | 8 } => in_eights(&[true]),
        // Of 16 bytes there are two kinds; the other one, of gcc, has a name of its own.
        Type::Float { bytes: 16 } if is_long_double(file, function) => Passing::X87,
        Type::Integer { bytes: 16, .. } => in_eights(&[false, false]),
        Type::Struct(id) => {
            if is_rust(file, function) {
                return of_rust(file, of, bytes);
            }
            let convention = file.attribute(*id, gimli::DW_AT_calling_convention);
            let is_by_reference = match convention {
                Some(convention) => convention == Value::CallingConvention(dw::DW_CC_pass_by_reference),
                None if is_c(file, function) => false,
                None if is_cpp(file, function) => !is_trivial(file, *id, 0),
                None => return Passing::Unknown("its language passes structures its own way"),
            };
            if bytes > 16 || is_by_reference {
                return Passing::Memory;
            }
            let mut classes = vec![true; bytes.div_ceil(8) as usize];
            if classify(file, of, 0, &mut classes) {
                in_eights(&classes)
            } else {
                Passing::Unknown("how it is passed is not understood")
            }
        }
        _ if types::is_number(of) && bytes <= 8 => in_eights(&[false]),
        _ => Passing::Unknown("its type is not understood"),
    }
}

fn language(file: &DebugFile, function: DieId) -> Option<Value> {
    file.attribute(DieId { unit: function.unit, index: 0 }, gimli::DW_AT_language)
}

/// Of each eight bytes: true if they are in a vector register.
fn in_eights(classes: &[bool]) -> Passing {
    let part = |(index, &is_vector)| InRegister { offset: 8 * index as u64, bytes: 8, is_vector };
    Passing::Registers(classes.iter().enumerate().map(part).collect())
}

/// Rust's own convention (not written down; the compiler's `rustc_ty_utils::abi`): what is one
/// or two numbers has a register for each, what is larger than two registers is in memory,
/// whose address is returned, but pairs of numbers of 128 bits. What lies between is passed in
/// one way by some versions and in another by others.
fn of_rust(file: &DebugFile, of: &Type, bytes: u64) -> Passing {
    if bytes > 16 && !has_wide_number(file, of, 0) {
        return Passing::Memory;
    }
    let mut numbers = Vec::new();
    let is_known = numbers_of(file, of, 0, 0, &mut numbers);
    numbers.sort_by_key(|number| number.offset);
    let behind = |number: &InRegister| number.offset + number.bytes;
    match numbers[..] {
        [] if is_known && bytes == 0 => Passing::Nothing,
        [one] if is_known && bytes == one.bytes => Passing::Registers(numbers),
        [first, second] if is_known && behind(&first) <= second.offset && behind(&second) <= bytes => {
            Passing::Registers(numbers)
        }
        _ => Passing::Unknown("its language passes it in a way of its own"),
    }
}

/// Collects the numbers that a structure consists of; false if it has something else.
fn numbers_of(file: &DebugFile, of: &Type, offset: u64, depth: u32, into: &mut Vec<InRegister>) -> bool {
    const DEPTH_MAX: u32 = 16;
    let bytes = types::bytes_of(file, of);
    match of {
        _ if bytes == 0 => true,
        Type::Struct(id) => {
            depth < DEPTH_MAX
                && !has_variants(file, *id)
                && types::members(file, *id)
                    .iter()
                    .all(|member| numbers_of(file, &member.of, offset + member.offset, depth + 1, into))
        }
        Type::Float { bytes: 4 | 8 } => {
            into.push(InRegister { offset, bytes, is_vector: true });
            true
        }
        _ if types::is_number(of) && bytes <= 8 => {
            into.push(InRegister { offset, bytes, is_vector: false });
            true
        }
        _ => false,
    }
}

/// True for Rust's enums with values, and for unions.
fn has_variants(file: &DebugFile, id: DieId) -> bool {
    let tree = file.tree(id.unit);
    let mut children = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    file.tag(id) == dw::DW_TAG_union_type || children.any(|child| file.tag(child) == dw::DW_TAG_variant_part)
}

/// True unless a function returns a `__float128`, which is in a vector register.
fn is_long_double(file: &DebugFile, function: DieId) -> bool {
    let of = file.inherited(function, gimli::DW_AT_type);
    let id = of.and_then(|(value, at)| file.target(at.unit, &value));
    id.and_then(|id| file.name(id)).as_deref() == Some("long double")
}

fn is_rust(file: &DebugFile, function: DieId) -> bool {
    language(file, function) == Some(Value::Language(dw::DW_LANG_Rust))
}

fn has_wide_number(file: &DebugFile, of: &Type, depth: u32) -> bool {
    const DEPTH_MAX: u32 = 16;
    match of {
        Type::Struct(id) => {
            depth > DEPTH_MAX
                || types::members(file, *id).iter().any(|member| has_wide_number(file, &member.of, depth + 1))
        }
        Type::Integer { bytes, .. } | Type::Other(bytes) => *bytes >= 16,
        _ => false,
    }
}

fn is_c(file: &DebugFile, function: DieId) -> bool {
    matches!(
        language(file, function),
        Some(Value::Language(
            dw::DW_LANG_C89 | dw::DW_LANG_C | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17
        ))
    )
}

fn is_cpp(file: &DebugFile, function: DieId) -> bool {
    matches!(
        language(file, function),
        Some(Value::Language(
            dw::DW_LANG_C_plus_plus
                | dw::DW_LANG_C_plus_plus_03
                | dw::DW_LANG_C_plus_plus_11
                | dw::DW_LANG_C_plus_plus_14
                | dw::DW_LANG_C_plus_plus_17
                | dw::DW_LANG_C_plus_plus_20
        ))
    )
}

/// True for a class that C++ passes as C does a structure: it has, and what it consists of has,
/// no destructor and no copying or moving constructor of its own, and nothing virtual (Itanium
/// C++ ABI, 3.1.2.3). Where the compiler says how it is passed this is not asked.
fn is_trivial(file: &DebugFile, id: DieId, depth: u32) -> bool {
    const DEPTH_MAX: u32 = 16;
    let tree = file.tree(id.unit);
    let name = file.name(id).unwrap_or_default();
    let own_name = name.split('<').next().unwrap_or_default();
    let mut children = tree.children(id.index).map(|index| DieId { unit: id.unit, index });
    let is_plain = |child: DieId| match file.tag(child) {
        dw::DW_TAG_subprogram => {
            let is_virtual = file.number(child, gimli::DW_AT_virtuality).is_some_and(|kind| kind != 0);
            let called = file.name(child).unwrap_or_default();
            let is_ours = file.attribute(child, gimli::DW_AT_artificial).is_none()
                && file.attribute(child, gimli::DW_AT_defaulted).is_none();
            let ends = called.starts_with('~');
            let copies = called == own_name && takes_its_like(file, child, id);
            !is_virtual && !(is_ours && (ends || copies))
        }
        dw::DW_TAG_inheritance if file.attribute(child, gimli::DW_AT_virtuality).is_some() => false,
        // Static members have no place in it.
        dw::DW_TAG_member if file.attribute(child, gimli::DW_AT_external).is_some() => true,
        dw::DW_TAG_member | dw::DW_TAG_inheritance => match types::type_of(file, child) {
            Type::Struct(inner) => depth < DEPTH_MAX && is_trivial(file, inner, depth + 1),
            Type::Array(element, _) => match types::target(file, element) {
                Type::Struct(inner) => depth < DEPTH_MAX && is_trivial(file, inner, depth + 1),
                _ => true,
            },
            _ => true,
        },
        _ => true,
    };
    children.all(is_plain)
}

/// True for a constructor whose one argument is a reference to a value of the class.
fn takes_its_like(file: &DebugFile, constructor: DieId, class: DieId) -> bool {
    let tree = file.tree(constructor.unit);
    let children = tree.children(constructor.index).map(|index| DieId { unit: constructor.unit, index });
    let given = children
        .filter(|child| file.tag(*child) == dw::DW_TAG_formal_parameter)
        .filter(|child| file.attribute(*child, gimli::DW_AT_artificial).is_none());
    let types: Vec<Type> = given.map(|parameter| types::type_of(file, parameter)).collect();
    matches!(types[..], [Type::Reference(Some(target))] if types::resolve(file, target) == Type::Struct(class))
}

/// Finds the eight bytes that hold something else than floating-point numbers; false if
/// something is not understood.
fn classify(file: &DebugFile, of: &Type, offset: u64, classes: &mut [bool]) -> bool {
    match of {
        Type::Float { bytes: 4 | 8 } => true,
        Type::Struct(id) => types::members(file, *id)
            .iter()
            .all(|member| classify(file, &member.of, offset + member.offset, classes)),
        Type::Array(element, counts) => {
            let element = types::element(file, *element, counts);
            let each = types::bytes_of(file, &element);
            (0..counts.first().copied().unwrap_or(0).min(16))
                .all(|number| classify(file, &element, offset + number * each, classes))
        }
        _ if types::is_number(of) => {
            if let Some(class) = classes.get_mut((offset / 8) as usize) {
                *class = false;
            }
            true
        }
        _ => false,
    }
}
