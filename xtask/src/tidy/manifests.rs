//! What a crate's manifest says of its tests: a library is built once more for its unit tests, and gone through for
//! examples in its documentation, so it says that it has none.

use super::Finding;
use super::tree::Tree;

/// Crates that `cargo test` does not run, with their folders.
const OUTSIDE: [&str; 3] = ["fuzz/", "tests/sources/", "crates/in-tracee/runtime/"];

/// Libraries say `test = false` and `doctest = false` where they have no such tests, and nowhere else.
pub fn say_what_tests_there_are(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for manifest in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let source = format!("{folder}src/");
        if OUTSIDE.contains(&folder) || tree.file(&format!("{source}lib.rs")).is_none() {
            continue;
        }
        let holds = |words: &[&str]| {
            let mut files = tree.rust().filter(|file| file.path.starts_with(&source));
            files.any(|file| words.iter().any(|word| file.text.contains(word)))
        };
        let has_tests = holds(&["#[test]", "proptest!"]);
        let has_examples = holds(&["/// ```", "//! ```"]);
        let says = |line: &str| manifest.text.lines().any(|other| other == line);
        for (line, has) in [("test = false", has_tests), ("doctest = false", has_examples)] {
            if has && says(line) {
                found.push(Finding::new(&manifest.path, 0, format!("`{line}`, though there are such tests")));
            } else if !has && !says(line) {
                found.push(Finding::new(&manifest.path, 0, format!("[lib] needs `{line}`: there are none")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_would_not_run_are_found() {
        let tree = Tree::of(&[
            ("crates/one/Cargo.toml", "[lib]\ntest = false\n"),
            ("crates/one/src/lib.rs", "//! One.\n"),
            ("crates/one/src/other.rs", "#[test]\nfn works() {}\n"),
            ("crates/two/Cargo.toml", "[lib]\ntest = false\ndoctest = false\n"),
            ("crates/two/src/lib.rs", "//! Two.\n"),
        ]);
        let found: Vec<String> = say_what_tests_there_are(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/one/Cargo.toml:0: `test = false`, though there are such tests",
                "crates/one/Cargo.toml:0: [lib] needs `doctest = false`: there are none",
            ]
        );
    }
}
