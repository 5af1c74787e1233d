//! What the runtime's rooms in front tell those behind: the linker joins names without comparing
//! the types of their functions, so this does.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{code_of, line_at, places};
use super::tree::Tree;

const NAMES: &str = "crates/in-tracee/runtime/src/ground/notices.rs";
const OBSERVERS: &str = "crates/in-tracee/runtime/src/entry/observers.rs";

/// Each notice has a function of its type, and each such function has a notice.
pub fn have_observers_of_their_types(tree: &Tree) -> Vec<Finding> {
    let mut heard = signatures(tree, OBSERVERS);
    let mut found = Vec::new();
    for (name, (line, told)) in signatures(tree, NAMES) {
        match heard.remove(&format!("rv_{name}")) {
            None => found.push(Finding::new(NAMES, line, format!("{OBSERVERS} has no rv_{name}"))),
            Some((_, heard)) if heard == told => {}
            Some((line, heard)) => {
                let what = format!("rv_{name}{heard} does not have the type of its notice, {told}");
                found.push(Finding::new(OBSERVERS, line, what));
            }
        }
    }
    found.extend(heard.into_iter().map(|(name, (line, _))| {
        Finding::new(OBSERVERS, line, format!("{name} is told by nobody: there is no such notice"))
    }));
    found
}

/// Line and type of each function of a file, by name; spaces and the last comma are nothing.
fn signatures(tree: &Tree, path: &str) -> BTreeMap<String, (usize, String)> {
    let Some(file) = tree.file(path) else { return BTreeMap::new() };
    let code = code_of(&file.text);
    let functions = places(&code, "fn ").filter_map(|at| {
        let rest = &code[at + "fn ".len()..];
        let name = rest.split('(').next().filter(|name| !name.is_empty())?;
        // Not at what ends the length of an array.
        let signature = rest[name.len()..].split('{').next()?.split(";\n").next()?;
        let words: String = signature.split_whitespace().collect();
        Some((name.to_owned(), (line_at(&code, at), words.replace(",)", ")"))))
    });
    functions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_differ_are_found() {
        let tree = Tree::of(&[
            (
                NAMES,
                "unsafe extern \"Rust\" {\n safe fn a(x: [u64; 3]);\n safe fn b() -> !;\n safe fn c();\n}\n",
            ),
            (OBSERVERS, "fn rv_a(\n    x: [u64; 3],\n) {}\nfn rv_b() -> bool { true }\nfn rv_d() {}\n"),
        ]);
        let found: Vec<String> =
            have_observers_of_their_types(&tree).iter().map(|finding| finding.what.clone()).collect();
        let expected = [
            "rv_b()->bool does not have the type of its notice, ()->!".to_owned(),
            format!("{OBSERVERS} has no rv_c"),
            "rv_d is told by nobody: there is no such notice".to_owned(),
        ];
        assert_eq!(found, expected);
    }
}
