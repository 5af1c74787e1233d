//! The rooms of the runtime: each imports those before it in a fixed order.
//!
//! The order, and how many files still look the other way, stand in
//! `xtask/runtime-rooms.txt`. A number there may only become smaller.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::{code_of, places};
use super::tree::{TextFile, Tree};

const SOURCES: &str = "crates/in-tracee/runtime/src/";
/// The rooms in their order, then `from -> to: files` for each pair that points the other way.
const ORDER: &str = "xtask/runtime-rooms.txt";

/// Which files of one room import a room behind it.
type Upward = BTreeMap<(String, String), BTreeSet<String>>;

/// Rooms import those before them; no pair of rooms gets more files that do not.
pub fn import_what_stands_before(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(ORDER) else { return Vec::new() };
    let (rooms, allowed, mut found) = read_order(&file.text);
    let (upward, unknown) = upward_imports(tree, &rooms);
    found.extend(unknown);
    for ((from, to), files) in &upward {
        let (line, most) = allowed.get(&(from.clone(), to.clone())).copied().unwrap_or((0, 0));
        let now = files.len();
        if now > most {
            let names: Vec<&str> = files.iter().map(String::as_str).collect();
            let what = format!(
                "{now} files of {from} import {to}, which stands behind it ({most} may): {}",
                names.join(" ")
            );
            found.push(Finding::new(ORDER, line, what));
        } else if now < most {
            found.push(Finding::new(ORDER, line, format!("{from} -> {to}: {now} files are left, say so")));
        }
    }
    let gone = allowed.iter().filter(|(pair, _)| !upward.contains_key(*pair));
    found.extend(gone.map(|((from, to), (line, _))| {
        Finding::new(ORDER, *line, format!("{from} imports {to} no more: remove the line"))
    }));
    found
}

/// Lines and numbers of the pairs that may point the other way.
type Allowed = BTreeMap<(String, String), (usize, usize)>;

fn read_order(text: &str) -> (Vec<String>, Allowed, Vec<Finding>) {
    let (mut rooms, mut allowed, mut found) = (Vec::new(), Allowed::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((pair, count)) = line.split_once(':') else {
            rooms.push(line.to_owned());
            continue;
        };
        match (pair.split_once(" -> "), count.trim().parse()) {
            (Some((from, to)), Ok(count)) => {
                allowed.insert((from.to_owned(), to.to_owned()), (index + 1, count));
            }
            (None, _) | (_, Err(_)) => {
                found.push(Finding::new(ORDER, index + 1, "neither a room nor `from -> to: files`"));
            }
        }
    }
    (rooms, allowed, found)
}

fn upward_imports(tree: &Tree, rooms: &[String]) -> (Upward, Vec<Finding>) {
    let (mut upward, mut unknown) = (Upward::new(), Vec::new());
    let place = |room: &str| rooms.iter().position(|known| known == room);
    for file in tree.rust() {
        let Some((room, path)) = room_of(file) else { continue };
        let Some(own) = place(room) else {
            unknown.push(Finding::new(&file.path, 0, format!("{room} is no room of {ORDER}")));
            continue;
        };
        for other in imported_rooms(&file.text) {
            if place(&other).is_some_and(|other| other > own) {
                upward.entry((room.to_owned(), other)).or_default().insert(path.to_owned());
            }
        }
    }
    (upward, unknown)
}

/// The room of a file of the runtime, and its path there.
fn room_of(file: &TextFile) -> Option<(&str, &str)> {
    let path = file.path.strip_prefix(SOURCES)?;
    let room = path.split('/').next()?.trim_end_matches(".rs");
    (room != "main").then_some((room, path))
}

/// The first names behind `crate::`, those in braces too.
fn imported_rooms(text: &str) -> BTreeSet<String> {
    let code = code_of(text);
    let mut rooms = BTreeSet::new();
    for at in places(&code, "crate") {
        let Some(rest) = code[at..].strip_prefix("crate::") else { continue };
        match rest.strip_prefix('{') {
            Some(list) => rooms.extend(names_in_braces(list)),
            None => rooms.extend(first_name(rest)),
        }
    }
    rooms
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The first name of each part of a list that ends with the brace which closes it.
fn names_in_braces(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut start) = (0u32, Vec::new(), 0);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                names.extend(first_name(&list[start..at]));
                return names;
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                names.extend(first_name(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_against_the_order_are_counted() {
        let order = "# rooms\nground\nlog\nsignals\nground -> log: 1\nlog -> signals: 3\nground -> x: 1\n";
        let tree = Tree::of(&[
            ("crates/in-tracee/runtime/src/ground/maps.rs", "use crate::{log::write, signals::{a, b}};\n"),
            ("crates/in-tracee/runtime/src/log.rs", "use crate::ground::maps;\n// crate::signals\n"),
            ("crates/in-tracee/runtime/src/log/cache.rs", "fn f() { crate::signals::x(); }\n"),
            ("crates/in-tracee/runtime/src/attic.rs", ""),
            (ORDER, order),
        ]);
        let found: Vec<String> =
            import_what_stands_before(&tree).iter().map(|finding| finding.what.clone()).collect();
        let expected = [
            "attic is no room of xtask/runtime-rooms.txt",
            "1 files of ground import signals, which stands behind it (0 may): ground/maps.rs",
            "log -> signals: 1 files are left, say so",
            "ground imports x no more: remove the line",
        ];
        assert_eq!(found, expected);
    }
}
