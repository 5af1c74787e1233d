//! Which variable, constant or type a name means at an instruction.

use gimli::constants as dw;

use crate::debug_file::{DebugFile, DieId, Value};
use crate::functions;
use crate::location::Spot;

/// What a name means.
pub(crate) enum Meaning {
    Variable(DieId),
    /// A name of an enumeration's value.
    Constant {
        of: DieId,
        value: i64,
    },
}

/// An instruction, given its address in the file.
pub(crate) fn spot_at(file: &DebugFile, address: u64, bias: u64) -> Option<Spot<'_>> {
    let unit = file.unit_at(address)?;
    let tree = file.tree(unit);
    let function = (0..tree.dies.len())
        .rev()
        .map(|index| DieId { unit, index })
        .find(|id| file.tag(*id) == dw::DW_TAG_subprogram && file.contains(*id, address));
    Some(Spot { file, unit, address, bias, function, line: None })
}

/// The blocks that contain an instruction, the innermost first, out to the function that
/// it is written in (which may be inlined).
fn blocks(spot: &Spot) -> Vec<DieId> {
    let Some(function) = spot.function else { return Vec::new() };
    let tree = spot.file.tree(spot.unit);
    let mut found = vec![function];
    for index in function.index + 1..tree.dies[function.index].end {
        let id = DieId { unit: spot.unit, index };
        let tag = tree.dies[index].entry.tag();
        let is_block = matches!(
            tag,
            dw::DW_TAG_lexical_block
                | dw::DW_TAG_inlined_subroutine
                | dw::DW_TAG_try_block
                | dw::DW_TAG_catch_block
        );
        if is_block && spot.file.contains(id, spot.address) {
            if tag == dw::DW_TAG_inlined_subroutine {
                if is_called_from_line(spot, id) {
                    break;
                }
                found.clear();
            }
            found.push(id);
        }
    }
    found.reverse();
    found
}

/// True if what was inlined is called from the line that is meant: what is named there is
/// the caller's.
fn is_called_from_line(spot: &Spot, inlined: DieId) -> bool {
    let Some((name, line)) = spot.line else { return false };
    spot.file.number(inlined, gimli::DW_AT_call_line) == Some(line)
        && match spot.file.attribute(inlined, gimli::DW_AT_call_file) {
            Some(Value::FileIndex(index)) => crate::lines::is_file(spot.file, inlined.unit, index, name),
            Some(value) => value
                .udata_value()
                .is_some_and(|index| crate::lines::is_file(spot.file, inlined.unit, index, name)),
            None => false,
        }
}

/// True if the instruction is of a function in Go.
pub(crate) fn is_go(spot: &Spot) -> bool {
    functions::is_go(spot.file, spot.unit)
}

/// The package of a function in Go: `main` of `main.(*List).Push`.
fn package(spot: &Spot) -> Option<String> {
    let name = spot.file.name(spot.function?)?;
    let folder = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = folder + name[folder..].find('.')?;
    Some(name[..end].to_owned())
}

fn variables_of(file: &DebugFile, block: DieId) -> impl Iterator<Item = DieId> + '_ {
    let tree = file.tree(block.unit);
    let children = tree.children(block.index).map(move |index| DieId { unit: block.unit, index });
    children.filter(|id| matches!(file.tag(*id), dw::DW_TAG_variable | dw::DW_TAG_formal_parameter))
}

/// The parameters of a function, with their names. What Go lists among them for its results is
/// none.
pub(crate) fn parameters(file: &DebugFile, function: DieId) -> Vec<(String, DieId)> {
    let is_result = Some(crate::debug_file::Value::Flag(true));
    variables_of(file, function)
        .filter(|id| file.tag(*id) == dw::DW_TAG_formal_parameter)
        .filter(|id| file.attribute(*id, gimli::DW_AT_variable_parameter) != is_result)
        .enumerate()
        .map(|(number, id)| (file.name(id).unwrap_or_else(|| format!("argument {}", number + 1)), id))
        .collect()
}

/// The names of the variables around an instruction.
pub(crate) fn names(spot: &Spot) -> Vec<String> {
    let all = blocks(spot).into_iter().flat_map(|block| variables_of(spot.file, block).collect::<Vec<_>>());
    let mut names: Vec<String> = all.filter_map(|id| spot.file.name(id)).collect();
    names.sort();
    names.dedup();
    names
}

/// What a name means at an instruction.
pub(crate) fn meaning(spot: &Spot, name: &str) -> Option<Meaning> {
    let file = spot.file;
    if !name.contains("::") {
        for block in blocks(spot) {
            // Of several of one name in one block the last declared hides the others.
            let found = variables_of(file, block).filter(|id| file.name(*id).as_deref() == Some(name)).last();
            if let Some(id) = found.filter(|id| !is_declaration(file, *id)) {
                return Some(Meaning::Variable(id));
            }
        }
    }
    let name = name.trim_start_matches("::");
    let others = (0..file.units.len()).filter(|unit| *unit != spot.unit && mentions(file, *unit, name));
    let found = std::iter::once(spot.unit).chain(others).find_map(|unit| global(file, unit, name));
    if found.is_none() && is_go(spot) && !name.contains('.') {
        return meaning(spot, &format!("{}.{name}", package(spot)?));
    }
    found
}

fn is_declaration(file: &DebugFile, id: DieId) -> bool {
    file.attribute(id, gimli::DW_AT_declaration).is_some()
}

fn last_of(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// True if a unit has a variable or an enumeration's value of this name, without reading
/// its tree.
fn mentions(file: &DebugFile, unit: usize, name: &str) -> bool {
    let wanted = last_of(name);
    let mut cursor = file.units[unit].unit.entries();
    while let Ok(Some(entry)) = cursor.next_dfs() {
        if matches!(entry.tag(), dw::DW_TAG_variable | dw::DW_TAG_enumerator | dw::DW_TAG_member)
            && entry
                .attr_value(gimli::DW_AT_name)
                .and_then(|value| file.text(unit, value))
                .is_some_and(|found| found == wanted)
        {
            return true;
        }
    }
    false
}

/// A variable outside of functions, or an enumeration's value, of a unit.
fn global(file: &DebugFile, unit: usize, name: &str) -> Option<Meaning> {
    let tree = file.tree(unit);
    let wanted = last_of(name);
    for index in 0..tree.dies.len() {
        let id = DieId { unit, index };
        let tag = tree.dies[index].entry.tag();
        if !matches!(tag, dw::DW_TAG_variable | dw::DW_TAG_enumerator)
            || file.name(id).as_deref() != Some(wanted)
        {
            continue;
        }
        if tag == dw::DW_TAG_enumerator {
            let value = file.attribute(id, gimli::DW_AT_const_value)?;
            let value = value.sdata_value().or_else(|| value.udata_value().map(|value| value as i64))?;
            return Some(Meaning::Constant { of: DieId { unit, index: tree.dies[index].parent }, value });
        }
        let has_place = file.attribute(id, gimli::DW_AT_location).is_some()
            || file.attribute(id, gimli::DW_AT_const_value).is_some();
        if has_place
            && !is_in_function(file, id)
            && format!("::{}", path_of(file, id)).ends_with(&format!("::{name}"))
        {
            return Some(Meaning::Variable(id));
        }
    }
    None
}

fn is_in_function(file: &DebugFile, id: DieId) -> bool {
    let tree = file.tree(id.unit);
    let mut at = tree.dies[id.index].parent;
    while at != 0 {
        if tree.dies[at].entry.tag() == dw::DW_TAG_subprogram {
            return true;
        }
        at = tree.dies[at].parent;
    }
    false
}

/// A variable's name with its namespaces.
fn path_of(file: &DebugFile, id: DieId) -> String {
    let declared = file.reference(id, gimli::DW_AT_specification).unwrap_or(id);
    let tree = file.tree(declared.unit);
    let mut path = file.name(id).unwrap_or_default();
    let mut at = tree.dies[declared.index].parent;
    while at != 0 {
        if let Some(name) = file.name(DieId { unit: declared.unit, index: at }) {
            path = format!("{name}::{path}");
        }
        at = tree.dies[at].parent;
    }
    path
}

/// A type by its name, in the unit of the instruction.
pub(crate) fn type_named(spot: &Spot, name: &str) -> Option<DieId> {
    let mut words: Vec<&str> = name.split(' ').collect();
    words.retain(|word| !matches!(*word, "struct" | "union" | "enum" | "const" | "volatile"));
    let spelled = canonical(&words);
    let tree = spot.file.tree(spot.unit);
    let ids = (0..tree.dies.len()).map(|index| DieId { unit: spot.unit, index });
    ids.filter(|id| {
        matches!(
            spot.file.tag(*id),
            dw::DW_TAG_base_type
                | dw::DW_TAG_typedef
                | dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type
        ) && !is_declaration(spot.file, *id)
    })
    .find(|id| {
        spot.file.name(*id).is_some_and(|found| canonical(&found.split(' ').collect::<Vec<_>>()) == spelled)
    })
}

/// A type's words in one order: `long unsigned int` and `unsigned long` are the same.
pub(crate) fn canonical(words: &[&str]) -> String {
    let has = |word: &str| words.contains(&word);
    let is_number =
        words.iter().all(|word| matches!(*word, "unsigned" | "signed" | "int" | "long" | "short" | "char"));
    if !is_number || words.is_empty() {
        return words.join(" ");
    }
    let size = match (has("char"), has("short"), has("long")) {
        (true, ..) => "char",
        (_, true, _) => "short",
        (.., true) => "long",
        _ => "int",
    };
    let sign = match (has("unsigned"), has("signed") && size == "char") {
        (true, _) => "unsigned ",
        (_, true) => "signed ",
        _ => "",
    };
    format!("{sign}{size}")
}
