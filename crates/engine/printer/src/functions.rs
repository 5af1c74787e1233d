//! Functions: by name, by address.

use gimli::constants as dw;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

use crate::debug_file::{DebugFile, DieId, Value};
use crate::lines;

/// A function of a file.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub id: DieId,
    /// Where its parameters can be read, in the file.
    pub entry: u64,
}

/// What was found of a name.
#[derive(Default)]
pub(crate) struct Named {
    pub functions: Vec<Function>,
    pub inlined: usize,
    /// Other names that contain it.
    pub similar: Vec<String>,
}

/// The entry of the function whose code begins at the address.
pub(crate) fn starting_at(file: &DebugFile, unit: usize, address: u64) -> Option<usize> {
    let tree = file.tree(unit);
    (0..tree.dies.len()).find(|&index| {
        tree.dies[index].entry.tag() == dw::DW_TAG_subprogram
            && low_address(file, DieId { unit, index }) == Some(address)
    })
}

pub(crate) fn low_address(file: &DebugFile, id: DieId) -> Option<u64> {
    match file.attribute(id, gimli::DW_AT_low_pc) {
        Some(value) => file.dwarf.attr_address(&file.units[id.unit].unit, value).ok().flatten(),
        None => file.ranges(id).first().map(|range| range.start),
    }
}

/// True if a unit is written in Go.
pub(crate) fn is_go(file: &DebugFile, unit: usize) -> bool {
    let language = file.attribute(DieId { unit, index: 0 }, gimli::DW_AT_language);
    language == Some(Value::Language(dw::DW_LANG_Go))
}

/// True if the compiler optimised: then variables are where their locations say from the
/// first instruction on.
pub(crate) fn is_optimised(file: &DebugFile, function: DieId) -> bool {
    let root = DieId { unit: function.unit, index: 0 };
    let producer = file
        .attribute(root, gimli::DW_AT_producer)
        .and_then(|value| file.text(function.unit, value))
        .unwrap_or_default();
    if let Some(level) = producer.split(" -O").nth(1) {
        return !level.starts_with('0');
    }
    let tree = file.tree(function.unit);
    tree.children(function.index).any(|index| {
        let location = tree.dies[index].entry.attr_value(gimli::DW_AT_location);
        matches!(
            location,
            Some(Value::LocationListsRef(_) | Value::DebugLocListsIndex(_) | Value::SecOffset(_))
        )
    })
}

/// The instructions that leave a function: returns, and jumps to somewhere else.
pub(crate) fn exits(file: &DebugFile, id: DieId) -> Vec<u64> {
    let ranges = file.ranges(id);
    let mut found = Vec::new();
    for range in &ranges {
        let Some(code) = file.code(range) else { continue };
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let leaves = match instruction.flow_control() {
                FlowControl::Return | FlowControl::IndirectBranch => true,
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    !ranges.iter().any(|range| range.contains(&instruction.near_branch_target()))
                }
                _ => false,
            };
            if leaves {
                found.push(instruction.ip());
            }
        }
    }
    found
}

/// Functions of this name: plain, qualified, or as the linker has it.
pub(crate) fn named(file: &DebugFile, name: &str) -> Named {
    let mut found = Named::default();
    let last = name.rsplit("::").next().unwrap_or(name);
    let last = last.split('(').next().unwrap_or(last);
    for unit in 0..file.units.len() {
        if !has_name(file, unit, last) {
            continue;
        }
        let tree = file.tree(unit);
        for index in 0..tree.dies.len() {
            let tag = tree.dies[index].entry.tag();
            let id = DieId { unit, index };
            let is_code = tag == dw::DW_TAG_subprogram || tag == dw::DW_TAG_inlined_subroutine;
            if !is_code || file.name(id).is_none_or(|own| without_arguments(&own) != without_arguments(last))
            {
                continue;
            }
            let full = full_name(file, id);
            if !is_meant(&full, name) && linkage_name(file, id).is_none_or(|linked| linked != name) {
                found.similar.push(full);
                continue;
            }
            if tag == dw::DW_TAG_inlined_subroutine {
                found.inlined += 1;
            } else if let Some(start) = low_address(file, id).filter(|&start| start != 0) {
                let end = file.ranges(id).iter().map(|range| range.end).max().unwrap_or(start);
                let entry = if is_optimised(file, id) {
                    start
                } else {
                    lines::behind_prologue(file, unit, start, end)
                };
                found.functions.push(Function { id, entry });
            }
        }
    }
    found
}

/// True if something in the unit has this name, without reading its tree.
fn has_name(file: &DebugFile, unit: usize, name: &str) -> bool {
    let mut cursor = file.units[unit].unit.entries();
    while let Ok(Some(entry)) = cursor.next_dfs() {
        if !matches!(entry.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine) {
            continue;
        }
        let named = |attribute| {
            let value = entry.attr_value(attribute)?;
            let text = file.text(unit, value)?;
            Some(text == name || without_arguments(&text) == without_arguments(name))
        };
        // An instance has its name from elsewhere, perhaps from another unit.
        let refers_outside = matches!(
            entry
                .attr_value(gimli::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(gimli::DW_AT_specification)),
            Some(Value::DebugInfoRef(_))
        );
        if refers_outside
            || named(gimli::DW_AT_name) == Some(true)
            || named(dw::DW_AT_linkage_name) == Some(true)
        {
            return true;
        }
    }
    false
}

fn linkage_name(file: &DebugFile, id: DieId) -> Option<String> {
    let (value, at) = file.inherited(id, dw::DW_AT_linkage_name)?;
    file.text(at.unit, value)
}

/// A function's name as its language writes it.
pub(crate) fn full_name(file: &DebugFile, id: DieId) -> String {
    let plain = file.name(id).unwrap_or_else(|| "?".to_owned());
    let Some(linked) = linkage_name(file, id) else { return plain };
    if let Ok(name) = rustc_demangle::try_demangle(&linked) {
        return format!("{name:#}");
    }
    cpp_demangle::Symbol::new(linked.as_bytes())
        .ok()
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or(plain)
}

/// True if the user's name means the full one: the whole, without its arguments, or
/// without the names of what it is in. Of a template without arguments all instances are meant.
fn is_meant(full: &str, name: &str) -> bool {
    if full == name {
        return true;
    }
    let with_templates = name.contains('<') && !name.contains('(');
    let full = shortened(full, with_templates);
    let name = if name.contains('(') { name } else { &shortened(name, with_templates) };
    // What is made from a template is told with its result.
    let is_part = |before: &str| before.ends_with("::") || before.ends_with(' ');
    full == name || full.strip_suffix(name).is_some_and(is_part)
}

/// A name without its arguments, and without those of its templates.
fn without_arguments(name: &str) -> String {
    shortened(name, false)
}

/// A name without its arguments and the marks of its ABI (`[abi:cxx11]`).
fn shortened(name: &str, with_templates: bool) -> String {
    const MARK: &str = "[abi:";
    let (mut depth, mut plain) = (0u32, String::new());
    if let Some((before, mark)) = name.split_once(MARK)
        && let Some((_, behind)) = mark.split_once(']')
    {
        return shortened(&format!("{before}{behind}"), with_templates);
    }
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ => {}
        }
        let is_template = depth != 0 || character == '>';
        if with_templates || !is_template {
            plain.push(character);
        }
    }
    // `operator<` and its like have nothing else.
    if plain.is_empty() { name.to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_meant_by_their_ends() {
        assert!(is_meant("list::List<int>::push(int)", "push"));
        assert!(is_meant("list::List<int>::push(int)", "List::push"));
        assert!(is_meant("my_crate::run", "run"));
        assert!(is_meant("main", "main"));
        assert!(is_meant("lib::Box::name[abi:cxx11](int) const", "Box::name"));
        assert!(
            is_meant("label[abi:cxx11](int)", "label")
                && is_meant("label[abi:cxx11](int)", "label[abi:cxx11]")
        );
        assert!(is_meant("int lib::twice<int>(int)", "lib::twice"));
        assert!(
            is_meant("Box::operator[](int)", "operator[]") && !is_meant("Box::operator()(int)", "operator[]")
        );
        assert!(is_meant("int lib::twice<int>(int)", "lib::twice<int>"));
        assert!(!is_meant("int lib::twice<int>(int)", "lib::twice<double>"));
        assert!(!is_meant("list::List<int>::push(int)", "ush"));
        assert!(!is_meant("remain", "main"));
    }
}
