//! Maps of Go, since its version 1.24: groups of eight slots, one group or those of the tables of a
//! directory.
//!
//! Deliberately absent: the buckets of earlier versions.

use crate::code::Code;
use crate::debug_file::{DebugFile, DieId};
use crate::functions;
use crate::nodes::{Nodes, Way, Word};
use crate::types::{self, Member, Type};

/// Offsets in the map, in a table and in a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Map {
    used: u64,
    directory: u64,
    length: u64,
    groups: u64,
    last_group: u64,
    group_bytes: u64,
    slots: u64,
}

/// What a variable of the type `map` points to.
pub(crate) fn of_pointer(file: &DebugFile, target: DieId) -> Option<Nodes> {
    let Type::Struct(map) = types::resolve(file, target) else { return None };
    if !functions::is_go(file, map.unit) || !file.name(map)?.starts_with("map<") {
        return None;
    }
    let directory = member(file, map, "dirPtr")?;
    let table = pointed_at(file, &types::target(file, pointer(&directory.of)?))?;
    let groups = member(file, table, "groups")?;
    let Type::Struct(reference) = groups.of else { return None };
    let data = member(file, reference, "data")?;
    let group = pointed_at(file, &data.of)?;
    let slots = member(file, group, "slots")?;
    let Type::Array(Some(slot), _) = slots.of else { return None };
    let map = Map {
        used: member(file, map, "used")?.offset,
        directory: directory.offset,
        length: member(file, map, "dirLen")?.offset,
        groups: groups.offset + data.offset,
        last_group: groups.offset + member(file, reference, "lengthMask")?.offset,
        group_bytes: types::bytes_of(file, &Type::Struct(group)),
        slots: slots.offset,
    };
    Some(Nodes { way: Way::Map(map), pieces: vec![slot], are_pairs: true })
}

fn member(file: &DebugFile, id: DieId, name: &str) -> Option<Member> {
    types::members(file, id).into_iter().find(|member| member.name == name)
}

fn pointer(of: &Type) -> Option<Option<DieId>> {
    let Type::Pointer(target) = of else { return None };
    Some(*target)
}

fn pointed_at(file: &DebugFile, of: &Type) -> Option<DieId> {
    let Type::Struct(id) = types::target(file, pointer(of)?) else { return None };
    Some(id)
}

impl Map {
    /// What is on the stack for the way through it. A map that is nil has nothing.
    pub fn stack(&self, word: &Word<'_>) -> Option<Code> {
        let map = word(0)?;
        let field = |offset| {
            let there = map.clone().plus(offset).loaded(8)?;
            Some(map.clone().choose(&there, &Code::constant(0)))
        };
        let directory = field(self.directory)?.and(&field(self.length)?);
        let group = directory.and(&Code::constant(self.group_bytes)).and(&Code::constant(self.slots));
        let table = group.and(&Code::constant(self.groups)).and(&Code::constant(self.last_group));
        Some(table.and(&field(self.used)?))
    }
}
