//! Values whose type only the program knows: what an interface of Go has, and what a `function` of
//! GNU's C++ library calls.
//!
//! Deliberately absent: what a value in an interface has elsewhere, but for a text at its beginning.

use lane_protocol::bytecode::op;

use crate::code::Code;
use crate::cpp;
use crate::debug_file::{DebugFile, DieId};
use crate::functions;
use crate::lists;
use crate::nodes::Word;
use crate::types::{self, Type};

/// Most bytes of a value in an interface, and of its text.
const VALUE_BYTES_MAX: u16 = 256;
const TEXT_BYTES_MAX: u16 = 200;

/// Go's kinds of types, and where `abi.Type` has them.
const KIND_AT: u64 = 23;
const KIND_MASK: u64 = 31;
const POINTER: u64 = 22;
const STRING: u64 = 24;
const STRUCT: u64 = 25;
/// Of a pointer's type what it points to; of a structure's where its fields are, and of each its type.
const ELEMENT_AT: u64 = 48;
const FIELDS_AT: u64 = 56;
const FIELD_TYPE_AT: u64 = 8;
/// Which says that a value lies in the interface itself: among the flags, in earlier versions of Go
/// with the kind.
const IS_DIRECT: u64 = 32;
const FLAGS_AT: u64 = 20;

/// An interface of Go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interface {
    /// Its type stands behind 8 bytes of a table.
    has_methods: bool,
}

/// Parts that are recorded of an interface: the type's address, the value, and its text.
pub(crate) const INTERFACE_PARTS: usize = 3;

/// The interface that a structure is, if it is one.
pub(crate) fn interface(file: &DebugFile, id: DieId) -> Option<Interface> {
    let has_methods = match file.name(id)?.as_str() {
        "runtime.eface" => false,
        "runtime.iface" => true,
        _ => return None,
    };
    functions::is_go(file, id.unit).then_some(Interface { has_methods })
}

impl Interface {
    /// Records what it has.
    pub fn record(self, word: &Word<'_>) -> Option<Code> {
        let nothing = Code::constant(0);
        let (of, value) = (word(0)?, word(8)?);
        let of = match self.has_methods {
            true => of.clone().choose(&of.plus(8).loaded(8)?, &nothing),
            false => of,
        };
        let kind_is = |of: &Code, kind: u64| {
            let found = of.clone().plus(KIND_AT).loaded(1)?.and(&Code::constant(KIND_MASK));
            Some(found.then(&[op::BIT_AND]).and(&Code::constant(kind)).then(&[op::EQUAL]))
        };
        let flag = |at: u64| {
            Some(of.clone().plus(at).loaded(1)?.and(&Code::constant(IS_DIRECT)).then(&[op::BIT_AND]))
        };
        let element = of.clone().plus(ELEMENT_AT).loaded(8)?;
        let is_direct = flag(FLAGS_AT)?.and(&flag(KIND_AT)?).then(&[op::BIT_OR]);
        let own_bytes = is_direct.choose(&nothing, &of.clone().loaded(8)?);
        let bytes = kind_is(&of, POINTER)?.choose(&element.clone().loaded(8)?, &own_bytes);
        let bytes = of.clone().choose(&bytes, &nothing);
        // The value's text, or that of its first field.
        let text = value.clone().loaded(8)?.record_some(&value.clone().plus(8).loaded(8)?, TEXT_BYTES_MAX);
        let no_text = nothing.clone().record_some(&nothing, TEXT_BYTES_MAX);
        let fields = |of: &Code| of.clone().plus(FIELDS_AT);
        let begins_with_text = |of: &Code| {
            let first = fields(of).loaded(8)?.plus(FIELD_TYPE_AT).loaded(8)?;
            let of_field = fields(of).plus(8).loaded(8)?.choose(&kind_is(&first, STRING)?, &nothing);
            let of_structure = kind_is(of, STRUCT)?.choose(&of_field, &nothing);
            Some(kind_is(of, STRING)?.choose(&Code::constant(1), &of_structure))
        };
        let has_text = kind_is(&of, POINTER)?.choose(&begins_with_text(&element)?, &begins_with_text(&of)?);
        let has_text = of.clone().choose(&value.clone().choose(&has_text, &nothing), &nothing);
        let kind = of.then(&[op::RECORD_VALUE]);
        Some(kind.and(&value.record_some(&bytes, VALUE_BYTES_MAX)).and(&has_text.choose(&text, &no_text)))
    }
}

/// The type whose description the program has at this address of the file.
pub(crate) fn type_at(file: &DebugFile, address: u64) -> Option<DieId> {
    let known = file.go_types();
    known.get(&address.wrapping_sub(file.go_types_start?)).copied()
}

/// What a value in an interface is called, and its type; of a pointer what it points to.
pub(crate) fn named(file: &DebugFile, id: DieId) -> (String, Type) {
    let name = file.name(id).unwrap_or_else(|| "?".to_owned());
    match types::resolve(file, id) {
        Type::Pointer(Some(target)) if name.starts_with('*') => (name, types::resolve(file, target)),
        other => (name, other),
    }
}

/// Where a `function` has its invoker and what it calls, if a structure is one.
pub(crate) fn callable(file: &DebugFile, id: DieId) -> Option<[u64; 2]> {
    file.name(id)?.starts_with("function<").then_some(())?;
    Some([cpp::part(file, id, "_M_invoker")?.offset, cpp::part(file, id, "_M_functor")?.offset])
}

/// What a `function` calls: the name of a function, or of an object's type. The invoker was made
/// for it. Addresses are those in the file.
pub(crate) fn called(file: &DebugFile, invoker: u64, functor: u64) -> Option<String> {
    let unit = file.unit_at(invoker)?;
    let made = DieId { unit, index: functions::starting_at(file, unit, invoker)? };
    let declared = file.reference(made, gimli::DW_AT_specification).unwrap_or(made);
    let handler = DieId { unit: declared.unit, index: file.die(declared).parent };
    let target = lists::parameter(file, handler, "_Functor")?;
    match types::resolve(file, target) {
        Type::Pointer(_) => {
            let unit = file.unit_at(functor)?;
            let index = functions::starting_at(file, unit, functor)?;
            let name = functions::full_name(file, DieId { unit, index });
            Some(name.split('(').next().unwrap_or(&name).to_owned())
        }
        // A lambda has no name of its own.
        Type::Struct(id) => file.name(id).or_else(|| {
            let name = file.name(handler)?;
            let (_, target) = name.split_once("), ")?;
            Some(target.strip_suffix('>')?.trim_end().to_owned())
        }),
        _ => None,
    }
}
