//! `cargo xtask tidy`: the rules of the tree that the compiler does not know.
//!
//! Each check takes the tree as text and returns what it found; a test runs them
//! all, so that breaking a rule breaks the build. What may be longer than the
//! rules allow stands in `xtask/tidy-exceptions.txt`, with its reason.

mod cycles;
mod documents;
mod layers;
mod lengths;
mod manifests;
mod names;
mod notices;
mod rooms;
mod runtime_image;
mod source;
mod statics;
mod tree;
mod unsafe_code;

use std::io;
use std::path::Path;

use tree::Tree;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub line: usize,
    pub what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The checks, each for one rule or a few that belong together.
const CHECKS: [fn(&Tree) -> Vec<Finding>; 15] = [
    layers::dependencies_point_downwards,
    rooms::import_what_stands_before,
    cycles::stay_small,
    statics::references_end,
    statics::variables_become_fewer,
    notices::have_observers_of_their_types,
    unsafe_code::is_forbidden_or_explained,
    lengths::are_short_or_excepted,
    manifests::say_what_tests_there_are,
    names::say_what_is_there,
    source::panics_say_why,
    source::nothing_is_left_over,
    documents::name_what_exists,
    documents::list_all_decisions,
    runtime_image::has_no_vector_instructions,
];

/// All findings in a tree.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut all: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    all.sort();
    all
}

/// Checks the workspace and prints what is wrong with it.
pub fn run() -> io::Result<()> {
    let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").as_path())?;
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if let Some((path, files)) = cycles::largest_of_all(&tree) {
        println!("largest import cycle: {files} files, in {path}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(io::Error::other(format!("{count} rules are broken, see above"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).expect("the workspace can be read");
        assert!(tree.files.len() > 50, "the tree was not found");
        let found: Vec<String> = findings(&tree).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{} rules are broken:\n{}", found.len(), found.join("\n"));
    }
}
