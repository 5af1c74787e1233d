//! State of the runtime: who hands out references to it, and how many variables there are.
//!
//! `xtask/runtime-statics.txt` has the number of each room; it may only become smaller.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{code_of, line_at, places};
use super::tree::Tree;

const SOURCES: &str = "crates/in-tracee/runtime/src/";
/// `room: variables` for each room that has some.
const KNOWN: &str = "xtask/runtime-statics.txt";
const REFERENCE: &str = "&'static mut";

/// No safe function gives a reference that may be changed through and does not end: nobody could tell
/// how many of them there are.
pub fn references_end(tree: &Tree) -> Vec<Finding> {
    let files = tree.rust().filter(|file| file.path.starts_with("crates/") && !file.is_test());
    files
        .flat_map(|file| {
            let code = code_of(&file.text);
            let given: Vec<usize> =
                code.match_indices(REFERENCE).map(|(at, _)| at).filter(|at| is_given(&code, *at)).collect();
            let what = format!("a safe function gives {REFERENCE}: give a Held, or be unsafe");
            given.into_iter().map(move |at| Finding::new(&file.path, line_at(&code, at), what.clone()))
        })
        .collect()
}

/// True behind the arrow of a safe function.
fn is_given(code: &str, at: usize) -> bool {
    let Some(head) = code[..at].rfind("fn ") else { return false };
    let line = code[..head].rfind('\n').map_or(0, |end| end + 1);
    let signature = &code[head..at];
    signature.contains("->") && !signature.contains(['{', ';']) && !code[line..head].contains("unsafe")
}

/// No room gets more variables.
pub fn variables_become_fewer(tree: &Tree) -> Vec<Finding> {
    let Some(known) = tree.file(KNOWN) else { return Vec::new() };
    let mut now: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.rust() {
        let Some(path) = file.path.strip_prefix(SOURCES) else { continue };
        let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        *now.entry(room).or_default() += variables(&code_of(&file.text));
    }
    now.retain(|_, count| *count != 0);
    let mut found = Vec::new();
    for (index, line) in known.text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.split_once(": ").and_then(|(room, count)| Some((room, count.parse().ok()?)));
        let Some((room, before)) = parts else {
            found.push(Finding::new(KNOWN, index + 1, "not `room: variables`"));
            continue;
        };
        let count = now.remove(room).unwrap_or(0);
        if count > before {
            let what =
                format!("{room} has {count} variables, it had {before}: put it into state that is there");
            found.push(Finding::new(KNOWN, index + 1, what));
        } else if count < before {
            found.push(Finding::new(KNOWN, index + 1, format!("{room}: {count} variables are left, say so")));
        }
    }
    let new = |(room, count)| Finding::new(KNOWN, 0, format!("{room} had no variables, and has {count}"));
    found.extend(now.into_iter().map(new));
    found
}

/// How many statics can change.
fn variables(code: &str) -> usize {
    let can_change = |at: &usize| {
        let end = code[*at..].find('=').map_or(code.len(), |end| at + end);
        let kind = code[*at..end].split_once(':').map_or("", |(_, kind)| kind);
        kind.contains("Owned<") || kind.contains("Atomic") || kind.contains("Cell<")
    };
    places(code, "static").filter(|at| !code[..*at].ends_with('\'')).filter(can_change).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_without_an_end_are_found() {
        let text = "\
fn a() -> &'static mut u8 {}
unsafe fn b() -> &'static mut u8 {}
fn c(x: &'static mut u8) -> u8 {}
pub fn d(
    x: u8,
) -> Option<&'static mut u8> {
    let y: &'static mut u8 = x;
}
fn e() -> &'static u8 { \"-> &'static mut\" }
";
        let tree = Tree::of(&[("crates/in-tracee/x/src/a.rs", text), ("xtask/src/a.rs", text)]);
        let lines: Vec<usize> = references_end(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 6]);
    }

    #[test]
    fn new_variables_are_found() {
        let tree = Tree::of(&[
            (KNOWN, "# rooms\nlog: 1\ncode: 2\nsignals: 1\n"),
            ("crates/in-tracee/runtime/src/log/a.rs", "static A: Owned<u8> = Owned::new(0);\n"),
            (
                "crates/in-tracee/runtime/src/code.rs",
                "static A: Owned<u8> = X;\nfn f() { static B: [AtomicU8; 2] = X; }\nstatic C: AtomicU8 = X;\n",
            ),
            ("crates/in-tracee/runtime/src/lab.rs", "pub static A: AtomicU8 = X;\nstatic T: [u8; 2] = X;\n"),
        ]);
        let found: Vec<String> =
            variables_become_fewer(&tree).iter().map(|finding| finding.what.clone()).collect();
        let expected = [
            "code has 3 variables, it had 2: put it into state that is there",
            "signals: 0 variables are left, say so",
            "lab had no variables, and has 1",
        ];
        assert_eq!(found, expected);
    }
}
