//! What functions of Go give back: several values, each in as many registers as it has numbers
//! (Go's internal ABI, `ABIInternal`, since Go 1.17 on this processor).
//!
//! Deliberately absent: what does not fit in the registers, and what earlier versions do: it is
//! on the stack.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId, Value};
use crate::location::Place;
use crate::shape::{self, Shape};
use crate::types::{self, Type};

/// rax, rbx, rcx, rdi, rsi, r8 to r11, by gdb's numbers.
const GENERAL: [u16; 9] = [0, 1, 2, 5, 4, 8, 9, 10, 11];
const VECTORS: u8 = 15;
const ON_THE_STACK: &str = "it is given back on the stack";

/// How many registers are in use.
#[derive(Clone, Copy, Default)]
struct Used {
    general: usize,
    vectors: u8,
}

/// The results of a function of Go, as they are recorded where it returns to; of other
/// languages there are none.
pub(crate) fn of_function(file: &DebugFile, function: DieId) -> Vec<(String, Shape)> {
    let unit = DieId { unit: function.unit, index: 0 };
    if file.attribute(unit, gimli::DW_AT_language) != Some(Value::Language(dw::DW_LANG_Go)) {
        return Vec::new();
    }
    let producer = file.attribute(unit, gimli::DW_AT_producer);
    let producer = producer.and_then(|value| file.text(function.unit, value)).unwrap_or_default();
    let mut used = Used::default();
    let results = children(file, function).filter(|id| {
        file.tag(*id) == dw::DW_TAG_formal_parameter
            && file.attribute(*id, gimli::DW_AT_variable_parameter) == Some(Value::Flag(true))
    });
    let shape_of = |id: DieId| {
        let of = types::type_of(file, id);
        let mut pieces = Pieces::default();
        let before = used;
        let shape = match producer.contains("regabi") && pieces.add(file, &of, 0, &mut used) {
            true => shape::of_place(file, of, &Place::Pieces(pieces.all)),
            false => {
                used = before;
                Shape::gone(ON_THE_STACK)
            }
        };
        // Those without a name are called ~r0 and so on.
        let name = file.name(id).filter(|name| !name.starts_with('~')).unwrap_or_default();
        (name, shape)
    };
    results.map(shape_of).collect()
}

fn children(file: &DebugFile, id: DieId) -> impl Iterator<Item = DieId> + '_ {
    file.tree(id.unit).children(id.index).map(move |index| DieId { unit: id.unit, index })
}

/// The registers of a value, one behind the other.
#[derive(Default)]
struct Pieces {
    all: Vec<(u64, Place)>,
    end: u64,
}

impl Pieces {
    /// Adds a value at this offset; false if there are not enough registers.
    fn add(&mut self, file: &DebugFile, of: &Type, offset: u64, used: &mut Used) -> bool {
        let bytes = types::bytes_of(file, of);
        match of {
            Type::Struct(id) => types::members(file, *id)
                .iter()
                .all(|member| self.add(file, &member.of, offset + member.offset, used)),
            Type::Array(element, counts) => match counts[..] {
                [0] => true,
                [1] => self.add(file, &types::element(file, *element, counts), offset, used),
                _ => false,
            },
            Type::Float { bytes: 4 | 8 } => {
                used.vectors += 1;
                used.vectors <= VECTORS && self.put(offset, bytes, Place::Vector(used.vectors - 1))
            }
            _ if types::is_number(of) && bytes <= 8 => match GENERAL.get(used.general) {
                Some(&register) => {
                    used.general += 1;
                    self.put(offset, bytes, Place::Register(register))
                }
                None => false,
            },
            _ => false,
        }
    }

    fn put(&mut self, offset: u64, bytes: u64, place: Place) -> bool {
        if offset > self.end {
            self.all.push((offset - self.end, Place::Bytes(Vec::new())));
        }
        self.all.push((bytes, place));
        self.end = offset + bytes;
        true
    }
}
