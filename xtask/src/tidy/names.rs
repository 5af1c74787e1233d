//! Names say what is there; formatting has one source.

use super::Finding;
use super::source::{code_of, line_at, places};
use super::tree::Tree;

/// Names under which anything could be.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "manager", "managers"];
/// Ends of type names that say as little.
const EMPTY_ENDS: [&str; 4] = ["Manager", "Helper", "Helpers", "Utils"];
/// The formatting that is agreed on.
const RUSTFMT: &str = "use_small_heuristics = \"Max\"\nmax_width = 110\n";

/// Files, folders, modules and types have names that say what they are.
pub fn say_what_is_there(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in &tree.paths {
        let name = path.rsplit('/').next().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let mut words = stem.split(['-', '_']);
        if words.any(|word| EMPTY_NAMES.contains(&word)) {
            found.push(Finding::new(path, 0, format!("{stem} says nothing of what is there")));
        }
        if name == ".rustfmt.toml" || (name == "rustfmt.toml" && path.contains('/')) {
            found.push(Finding::new(path, 0, "formatting is set in the root's rustfmt.toml alone"));
        }
    }
    if tree.file("rustfmt.toml").is_some_and(|file| file.text != RUSTFMT) {
        found.push(Finding::new("rustfmt.toml", 0, "formatting differs from what was agreed on"));
    }
    for file in tree.rust() {
        let code = code_of(&file.text);
        for keyword in ["struct ", "enum ", "trait ", "mod "] {
            for at in places(&code, keyword) {
                let is_name = |char: &char| char.is_ascii_alphanumeric() || *char == '_';
                let name: String = code[at + keyword.len()..].chars().take_while(is_name).collect();
                let is_empty =
                    EMPTY_ENDS.iter().any(|end| name.ends_with(end)) || EMPTY_NAMES.contains(&name.as_str());
                if is_empty {
                    found.push(Finding::new(
                        &file.path,
                        line_at(&code, at),
                        format!("{name} says nothing of what it is"),
                    ));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found() {
        let tree = Tree::of(&[
            ("crates/x/src/string_utils.rs", "struct LaneManager;\nstruct Lane;\nmod common {}\n"),
            ("crates/x/rustfmt.toml", ""),
            ("rustfmt.toml", RUSTFMT),
        ]);
        let mut found: Vec<(String, usize)> =
            say_what_is_there(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        found.sort();
        let file = "crates/x/src/string_utils.rs";
        let expected = [("crates/x/rustfmt.toml", 0), (file, 0), (file, 1), (file, 3)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
