//! Where `unsafe` may be, and what stands before it.

use super::Finding;
use super::source::{code_of, line_at, places};
use super::tree::{TextFile, Tree};

/// Crates whose work is unsafe. Everywhere else the compiler forbids it.
const PERMITTED: [&str; 7] = [
    "crates/mirror/",
    "crates/in-tracee/runtime/",
    "crates/in-tracee/translator/",
    "crates/mechanism/injector/",
    "crates/face/c-api/",
    "crates/face/rust-api/",
    "crates/vocabulary/linux-abi/",
];
/// Lines above an unsafe block in which its statement may begin.
const STATEMENT_LINES_MAX: usize = 6;

/// Crates forbid unsafe code; those that may have it explain each block.
pub fn is_forbidden_or_explained(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let is_permitted = PERMITTED.iter().any(|start| file.path.starts_with(start));
        if is_crate_root(&file.path) && !is_permitted && !file.text.contains("#![forbid(unsafe_code)]") {
            found.push(Finding::new(&file.path, 1, "the crate does not say #![forbid(unsafe_code)]"));
        }
        if file.path.starts_with("crates/") && !file.is_test() {
            found.extend(unexplained(file));
        }
    }
    found
}

fn is_crate_root(path: &str) -> bool {
    (path.starts_with("crates/") || path.starts_with("xtask/"))
        && (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"))
}

fn unexplained(file: &TextFile) -> Vec<Finding> {
    let code = code_of(&file.text);
    let lines: Vec<&str> = file.text.lines().collect();
    let code_lines: Vec<&str> = code.lines().collect();
    let opens = |at: usize| {
        let rest = code[at + "unsafe".len()..].trim_start();
        rest.starts_with('{') || rest.starts_with("impl")
    };
    let blocks: Vec<usize> = places(&code, "unsafe").filter(|&at| opens(at)).collect();
    let is_bare = |line: &usize| !has_reason(&lines, &code_lines, *line - 1);
    let bare = blocks.into_iter().map(|at| line_at(&code, at)).filter(is_bare);
    bare.map(|line| Finding::new(&file.path, line, "an unsafe block without SAFETY: before it")).collect()
}

/// True if a comment with the reason stands on the line, or above the statement
/// that the line belongs to.
fn has_reason(lines: &[&str], code: &[&str], line: usize) -> bool {
    let mut statement_lines = 0;
    for at in (0..=line).rev() {
        if lines[at].contains("SAFETY:") {
            return true;
        }
        let is_code = !code[at].trim().is_empty();
        let is_attribute = code[at].trim_start().starts_with("#[");
        if at != line && is_code && !is_attribute {
            statement_lines += 1;
            // One reason may stand above several such lines in a row.
            let is_alike = places(code[at], "unsafe").next().is_some();
            let ends = code[at].trim_end().ends_with([';', '}']) && !is_alike;
            if ends || statement_lines > STATEMENT_LINES_MAX {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_a_reason_are_found() {
        let text = "\
fn a() {
    // SAFETY: it is fine.
    let x =
        unsafe { b() };
    let y = unsafe { b() };
    d();
    unsafe { c() }
    d(\"unsafe {\");
}
unsafe fn e() {}
";
        let tree = Tree::of(&[
            ("crates/mechanism/injector/src/a.rs", text),
            ("crates/engine/x/src/lib.rs", "//! Doc.\n"),
            ("crates/engine/y/src/lib.rs", "#![forbid(unsafe_code)]\n"),
        ]);
        let found: Vec<usize> = is_forbidden_or_explained(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(found, [7, 1]);
    }
}
