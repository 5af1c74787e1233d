//! Rust's enums with values, and C++'s `variant`: which of them one is.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId};
use crate::types::{self, Member, Type};

/// What a structure may be, one at a time.
pub(crate) struct Variants {
    /// The number that says which; `None`: there is one only.
    pub tag: Option<Member>,
    /// With the number of each; `None`: what has none of the others'.
    pub all: Vec<(Option<u64>, Member)>,
}

impl Variants {
    /// The one of this number.
    pub fn find(&self, tag: u64) -> Option<&Member> {
        let of_number = self.all.iter().find(|(number, _)| *number == Some(tag));
        of_number.or_else(|| self.all.iter().find(|(number, _)| number.is_none())).map(|(_, member)| member)
    }
}

/// The variants of a structure, if it has some.
pub(crate) fn of_structure(file: &DebugFile, id: DieId) -> Option<Variants> {
    let Some(part) = children(file, id).find(|child| file.tag(*child) == dw::DW_TAG_variant_part) else {
        return crate::cpp::variants(file, id);
    };
    let tag = file.reference(part, gimli::DW_AT_discr).map(|at| member_at(file, at));
    let bits = tag.as_ref().map_or(64, |tag| types::bytes_of(file, &tag.of).min(8) * 8);
    let all =
        children(file, part).filter(|child| file.tag(*child) == dw::DW_TAG_variant).filter_map(|variant| {
            let number = file.number(variant, gimli::DW_AT_discr_value);
            let member = children(file, variant).find(|child| file.tag(*child) == dw::DW_TAG_member)?;
            Some((number.map(|number| truncated(number, bits)), member_at(file, member)))
        });
    Some(Variants { tag, all: all.collect() })
}

/// The lower bits of a number.
pub(crate) fn truncated(number: u64, bits: u64) -> u64 {
    if bits >= 64 { number } else { number & ((1 << bits) - 1) }
}

fn children(file: &DebugFile, id: DieId) -> impl Iterator<Item = DieId> + '_ {
    file.tree(id.unit).children(id.index).map(move |index| DieId { unit: id.unit, index })
}

fn member_at(file: &DebugFile, id: DieId) -> Member {
    let offset = file.number(id, gimli::DW_AT_data_member_location).unwrap_or(0);
    Member { name: file.name(id).unwrap_or_default(), offset, bits: None, of: types::type_of(file, id) }
}

/// True for a structure without any value.
pub(crate) fn is_empty(file: &DebugFile, of: &Type) -> bool {
    matches!(of, Type::Struct(id) if types::members(file, *id).is_empty() && of_structure(file, *id).is_none())
}
