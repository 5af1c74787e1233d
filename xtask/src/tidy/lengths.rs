//! How long files and functions are.

use std::collections::HashMap;

use super::Finding;
use super::source::{code_of, end_of_braces, line_at, places};
use super::tree::Tree;

/// Longest file, in lines.
const FILE_LINES_MAX: usize = 500;
/// Longest function, in lines: around 70.
const FUNCTION_LINES_MAX: usize = 75;
/// Where exceptions stand: `path | reason` or `path function | reason`.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Files and functions are short, or an exception says why.
pub fn are_short_or_excepted(tree: &Tree) -> Vec<Finding> {
    let (exceptions, mut found) = exceptions(tree);
    let mut used = Vec::new();
    let mut report = |subject: String, path: &str, line: usize, what: String| {
        if exceptions.contains_key(subject.as_str()) {
            used.push(subject);
        } else {
            found.push(Finding::new(
                path,
                line,
                format!("{what}; shorten it, or give a reason in {EXCEPTIONS}"),
            ));
        }
    };
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            report(file.path.clone(), &file.path, 0, format!("{lines} lines, more than {FILE_LINES_MAX}"));
        }
        for (name, line, lines) in long_functions(&file.text) {
            let what = format!("fn {name} has {lines} lines, more than {FUNCTION_LINES_MAX}");
            report(format!("{} {name}", file.path), &file.path, line, what);
        }
    }
    let unused = exceptions.iter().filter(|(subject, _)| !used.iter().any(|known| known == *subject));
    found.extend(unused.map(|(subject, line)| {
        Finding::new(EXCEPTIONS, *line, format!("{subject} needs no exception any more"))
    }));
    found
}

/// Subjects of the exceptions with their lines; those without a reason are findings.
fn exceptions(tree: &Tree) -> (HashMap<&str, usize>, Vec<Finding>) {
    let (mut exceptions, mut found) = (HashMap::new(), Vec::new());
    let text = tree.file(EXCEPTIONS).map_or("", |file| file.text.as_str());
    for (index, line) in
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split_once(" | ") {
            Some((subject, reason)) if !reason.trim().is_empty() => {
                exceptions.insert(subject.trim(), index + 1);
            }
            Some(_) | None => {
                found.push(Finding::new(EXCEPTIONS, index + 1, "an exception without a reason"))
            }
        }
    }
    (exceptions, found)
}

/// Name, line and length of each function that is too long.
fn long_functions(text: &str) -> Vec<(String, usize, usize)> {
    let code = code_of(text);
    let mut long = Vec::new();
    for at in places(&code, "fn ") {
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let name: String = code[at + 3..].chars().take_while(|char| is_name(*char)).collect();
        // Otherwise a declaration, or the type of a pointer.
        let Some(brace) = body_of(&code, at) else { continue };
        let Some(end) = end_of_braces(&code, brace).filter(|_| !name.is_empty()) else { continue };
        let (first, last) = (line_at(&code, at), line_at(&code, end));
        if last - first + 1 > FUNCTION_LINES_MAX {
            long.push((name, first, last - first + 1));
        }
    }
    long
}

/// The brace that begins the body of the function at `at`. A semicolon between brackets belongs
/// to the type of an array, one outside of them ends a declaration.
fn body_of(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_arrays_among_their_parameters_are_measured() {
        let lines = "    a();\n".repeat(80);
        let text = format!(
            "trait T {{ fn declared(a: [u64; 6]); }}\nfn long(a: [u64; 6]) -> [u8; 2] {{\n{lines}}}\n\
             static POINTER: fn(u64) = short;\nfn short() {{}}\n"
        );
        assert_eq!(long_functions(&text), [("long".to_owned(), 2, 82)]);
    }

    #[test]
    fn long_files_and_functions_are_found_unless_excepted() {
        let function = format!("fn long() {{\n{}}}\n", "    a();\n".repeat(80));
        let file = "// b\n".repeat(501);
        let exceptions = "# comment\na.rs long | a table\nold.rs | gone\nb.rs |  \n";
        let tree =
            Tree::of(&[("a.rs", &function), ("b.rs", &file), ("c.rs", &function), (EXCEPTIONS, exceptions)]);
        let mut found: Vec<(String, usize)> =
            are_short_or_excepted(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        found.sort();
        let expected = [("b.rs", 0), ("c.rs", 1), (EXCEPTIONS, 3), (EXCEPTIONS, 4)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
