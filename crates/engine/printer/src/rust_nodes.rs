//! Collections of Rust's standard library whose elements are not in a row (`HashMap`, `BTreeMap`,
//! `VecDeque` and their like), and values that are shared (`Rc`, `Arc`).

use crate::cpp;
use crate::debug_file::{DebugFile, DieId};
use crate::lists;
use crate::nodes::{Nodes, Way};
use crate::types::{self, Member, Type};
use crate::variants;

/// The collection that a structure of this name is, if it is one.
pub(crate) fn of_structure(file: &DebugFile, id: DieId, name: &str) -> Option<Nodes> {
    match name.split_once('<')?.0 {
        "HashMap" => of_table(file, id, true),
        "HashSet" => of_table(file, id, false),
        "BTreeMap" => of_tree(file, id),
        "BTreeSet" => {
            let map = types::members(file, id).into_iter().find(|member| member.name == "map")?;
            let Type::Struct(inner) = map.of else { return None };
            let found = of_tree(file, inner)?;
            Some(Nodes { are_pairs: false, pieces: vec![found.pieces[0]], ..found.moved(map.offset) })
        }
        "VecDeque" => {
            let memory = cpp::find(file, id, &|member| matches!(member.of, Type::Pointer(_)), 0)?.offset;
            let [room, head, count] = ["cap", "head", "len"].map(|name| cpp::part(file, id, name));
            let way = Way::Ring { memory, room: room?.offset, head: head?.offset, count: count?.offset };
            Some(Nodes { way, pieces: vec![lists::parameter(file, id, "T")?], are_pairs: false })
        }
        "Rc" | "Arc" => of_shared(file, id),
        _ => None,
    }
}

/// Of hashbrown, which the standard library is built with.
fn of_table(file: &DebugFile, id: DieId, are_pairs: bool) -> Option<Nodes> {
    let is_table = |member: &Member| match member.of {
        Type::Struct(of) => file.name(of).is_some_and(|name| name.starts_with("RawTable<")),
        _ => false,
    };
    let table = cpp::find(file, id, &is_table, 0)?;
    let Type::Struct(of) = table.of else { return None };
    let first = table.offset + cpp::part(file, of, "ctrl")?.offset;
    let count = table.offset + cpp::part(file, of, "items")?.offset;
    // Of a set it is a pair of the element and nothing.
    let element = lists::parameter(file, if are_pairs { of } else { id }, "T")?;
    Some(Nodes { way: Way::Slots { first, count }, pieces: vec![element], are_pairs })
}

/// The root is an `Option` of a node and how many levels lie below it.
fn of_tree(file: &DebugFile, id: DieId) -> Option<Nodes> {
    let members = types::members(file, id);
    let member = |name: &str| members.iter().find(|member| member.name == name);
    let (root, count) = (member("root")?, member("length")?.offset);
    let Type::Struct(option) = root.of else { return None };
    let some = variants::of_structure(file, option)?.all.into_iter().map(|(_, member)| member);
    let some = some.into_iter().find(|member| member.name == "Some")?;
    let Type::Struct(some_of) = some.of else { return None };
    let base = root.offset + some.offset;
    let height = base + cpp::part(file, some_of, "height")?.offset;
    let is_leaf = |member: &Member| pointed_at(file, member, "LeafNode<").is_some();
    let node = cpp::find(file, some_of, &is_leaf, 0)?;
    let leaf = pointed_at(file, &node, "LeafNode<")?;
    let parts = types::members(file, leaf);
    let offset = |name: &str| Some(parts.iter().find(|member| member.name == name)?.offset);
    // A node that has others below it begins as a leaf, and their addresses stand behind that.
    let below = types::bytes_of(file, &Type::Struct(leaf)).next_multiple_of(8);
    let node_parts = [offset("keys")?, offset("vals")?, offset("len")?, below];
    let way = Way::WideTree { root: base + node.offset, height, count, node: node_parts };
    let pieces = vec![lists::parameter(file, id, "K")?, lists::parameter(file, id, "V")?];
    Some(Nodes { way, pieces, are_pairs: true })
}

fn of_shared(file: &DebugFile, id: DieId) -> Option<Nodes> {
    let inner = |member: &Member| {
        ["RcInner<", "RcBox<", "ArcInner<"].into_iter().find_map(|name| pointed_at(file, member, name))
    };
    // Of texts and lists the pointer has a length beside it, and the member another name.
    let is_pointer = |member: &Member| member.name == "pointer" && inner(member).is_some();
    let pointer = cpp::find(file, id, &is_pointer, 0)?;
    let parts = types::members(file, inner(&pointer)?);
    let value = parts.iter().find(|member| matches!(&*member.name, "value" | "data"))?;
    let way = Way::One { pointer: pointer.offset, skipped: value.offset };
    Some(Nodes { way, pieces: vec![lists::parameter(file, id, "T")?], are_pairs: false })
}

/// The structure that a member points to, if its name begins so.
fn pointed_at(file: &DebugFile, member: &Member, start: &str) -> Option<DieId> {
    let Type::Pointer(target) = member.of else { return None };
    let Type::Struct(id) = types::target(file, target) else { return None };
    file.name(id).is_some_and(|name| name.starts_with(start)).then_some(id)
}

impl Nodes {
    /// The same tree, as a member at this offset.
    fn moved(self, offset: u64) -> Nodes {
        let way = match self.way {
            Way::WideTree { root, height, count, node } => {
                Way::WideTree { root: root + offset, height: height + offset, count: count + offset, node }
            }
            other => other,
        };
        Nodes { way, ..self }
    }
}
