//! Names of the program's variables, by their addresses, from the symbols of its files.

use std::collections::HashMap;

use injector::read_maps;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::walk::recorded_path;

/// Files larger than this are not looked into.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Memory behind a file's own, which is zero at first, is mapped beside it without a name.
const BSS_BYTES_MAX: u64 = 1 << 32;

/// The variable at an address of a process that stands, with the distance from its beginning; or what
/// kind of memory that is.
pub fn name_of(pid: i32, address: u64, originals: &HashMap<String, String>) -> Option<String> {
    let maps = read_maps(pid).ok()?;
    let mut files = maps.iter().filter(|map| map.has_file() && map.start <= address);
    // The last file that begins before it is the one whose memory it may be.
    let last = files.next_back().filter(|map| address - map.start < BSS_BYTES_MAX);
    let symbol = last.and_then(|last| {
        let path = String::from_utf8_lossy(&last.name).into_owned();
        let first = maps.iter().find(|map| map.name == last.name)?;
        let (name, distance) = symbol_in(&path, first.start, first.file_offset, address)?;
        Some(if distance == 0 { name } else { format!("{name}+{distance}") })
    });
    let kind = || {
        let map = maps.iter().find(|map| (map.start..map.end).contains(&address))?;
        match recorded_path(map, originals).as_str() {
            "[heap]" | "" => Some("memory without a name".to_owned()),
            "[stack]" => Some("a stack".to_owned()),
            path => Some(format!("memory of {path}")),
        }
    };
    symbol.or_else(kind)
}

/// The symbol of a mapped file at an address, and the distance from its beginning.
fn symbol_in(path: &str, start: u64, file_offset: u64, address: u64) -> Option<(String, u64)> {
    if std::fs::metadata(path).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let segment = file.segments().find(|segment| {
        let (offset, len_bytes) = segment.file_range();
        (offset & !0xfff..offset.saturating_add(len_bytes)).contains(&file_offset)
    })?;
    let file_address = segment.address().wrapping_sub(segment.file_range().0).wrapping_add(file_offset);
    let wanted = address.wrapping_sub(start.wrapping_sub(file_address));
    let is_it = |symbol: &object::Symbol<'_, '_>| {
        let distance = wanted.checked_sub(symbol.address());
        symbol.kind() == SymbolKind::Data && distance.is_some_and(|distance| distance < symbol.size())
    };
    let symbol = file.symbols().chain(file.dynamic_symbols()).find(is_it)?;
    let name: String = symbol.name().ok()?.chars().filter(|each| !each.is_control()).collect();
    Some((name, wanted - symbol.address()))
}
