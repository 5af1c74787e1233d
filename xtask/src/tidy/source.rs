//! Rust as text: what is code, what is a comment, what belongs to tests; and the
//! rules that need no more than that.

use super::Finding;
use super::tree::{TextFile, Tree};

/// The code of a file with the same lines: comments, strings and characters are
/// blanked, so that words in them are not taken for code.
pub fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => until(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => end_of_block(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'r' | b'b' | b'c' if !is_word(bytes, at) => end_of_prefixed(bytes, at).unwrap_or(at + 1),
            b'\'' => end_of_char(bytes, at).unwrap_or(at + 1),
            _ => at + 1,
        };
        let is_code = end == at + 1;
        if !is_code {
            code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// True if a name goes on here that began before.
fn is_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn until(bytes: &[u8], at: usize, end: &[u8]) -> usize {
    bytes[at..].windows(end.len()).position(|window| window == end).map_or(bytes.len(), |found| at + found)
}

fn end_of_block(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut here) = (0, at);
    while here < bytes.len() {
        if bytes[here..].starts_with(b"/*") {
            depth += 1;
            here += 2;
        } else if bytes[here..].starts_with(b"*/") {
            depth -= 1;
            here += 2;
            if depth == 0 {
                return here;
            }
        } else {
            here += 1;
        }
    }
    here
}

fn end_of_string(bytes: &[u8], quote: usize) -> usize {
    let mut here = quote + 1;
    while here < bytes.len() {
        match bytes[here] {
            b'\\' => here += 2,
            b'"' => return here + 1,
            _ => here += 1,
        }
    }
    bytes.len()
}

/// Strings with a prefix: `b"…"`, `c"…"`, `r"…"`, `br#"…"#`; `b'x'` too.
fn end_of_prefixed(bytes: &[u8], at: usize) -> Option<usize> {
    let letters = bytes[at..].iter().take(2).take_while(|byte| b"rbc".contains(byte)).count();
    let is_raw = bytes[at..at + letters].contains(&b'r');
    let hashes = bytes[at + letters..].iter().take_while(|byte| **byte == b'#').count();
    let quote = at + letters + hashes;
    match bytes.get(quote)? {
        b'"' if is_raw => {
            let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
            Some((until(bytes, quote + 1, &end) + end.len()).min(bytes.len()))
        }
        b'"' if hashes == 0 => Some(end_of_string(bytes, quote)),
        b'\'' if hashes == 0 => end_of_char(bytes, quote),
        _ => None,
    }
}

/// The end of a character; `None` for a lifetime.
fn end_of_char(bytes: &[u8], quote: usize) -> Option<usize> {
    match bytes.get(quote + 1)? {
        b'\\' => Some(until(bytes, quote + 3, b"'") + 1),
        first => {
            let width = match first {
                ..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
            };
            (bytes.get(quote + 1 + width) == Some(&b'\'')).then_some(quote + width + 2)
        }
    }
}

/// The place after the brace that closes the first one after `at`.
pub fn end_of_braces(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code.as_bytes().iter().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(offset + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The code without the modules and functions that only tests compile.
pub fn without_tests(code: &str) -> String {
    let mut code = code.to_owned();
    while let Some(at) = code.find("#[cfg(test)]") {
        let braces = code[at..].find('{').map(|found| at + found);
        let semicolon = code[at..].find(';').map(|found| at + found + 1);
        let end = match (braces, semicolon) {
            (Some(brace), Some(semicolon)) if semicolon < brace => semicolon,
            (Some(brace), _) => end_of_braces(&code, brace).unwrap_or(code.len()),
            (None, semicolon) => semicolon.unwrap_or(code.len()),
        };
        let blank: String = code[at..end].chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(at..end, &blank);
    }
    code
}

/// Number of the line at a place, counted from 1.
pub fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Places of a word in code.
pub fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let bytes = code.as_bytes();
        let first_is_name = word.as_bytes().first().is_some_and(is_name);
        let last_is_name = word.as_bytes().last().is_some_and(is_name);
        (!first_is_name || at == 0 || !is_name(&bytes[at - 1]))
            && (!last_is_name || !bytes.get(at + word.len()).is_some_and(is_name))
    })
}

/// What panics says why that cannot happen: no bare unwrap outside of tests.
pub fn panics_say_why(tree: &Tree) -> Vec<Finding> {
    let check = |file: &TextFile| -> Vec<Finding> {
        let code = without_tests(&code_of(&file.text));
        let unwraps: Vec<usize> = places(&code, ".unwrap()").collect();
        let message = "unwrap() does not say why it holds: expect(\"why\"), or handle it";
        unwraps.into_iter().map(|at| Finding::new(&file.path, line_at(&code, at), message)).collect()
    };
    tree.rust().filter(|file| !file.is_test()).flat_map(check).collect()
}

/// No notes of what is still to do, and no path that exists on one machine only.
pub fn nothing_is_left_over(tree: &Tree) -> Vec<Finding> {
    // In pieces, so that this file does not find itself.
    let words =
        [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|[start, end]| format!("{start}{end}"));
    let places_of_people = ["home", "root", "work", "Users"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with("Cargo.lock")) {
        for (index, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| places(line, word).next().is_some()) {
                found.push(Finding::new(&file.path, index + 1, format!("{word}: do it, or leave it")));
            }
            for place in places_of_people.iter().filter(|place| is_absolute(line, place)) {
                found.push(Finding::new(
                    &file.path,
                    index + 1,
                    format!("a path of one machine ({place}...)"),
                ));
            }
        }
    }
    found
}

/// True if the line holds the folder at the start of a path.
fn is_absolute(line: &str, folder: &str) -> bool {
    let before_path = |byte: u8| !(byte.is_ascii_alphanumeric() || b"._-~}$*".contains(&byte));
    line.match_indices(folder).any(|(at, _)| at == 0 || before_path(line.as_bytes()[at - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let text = "let a = \"{ // }\"; // { comment\nlet b = '{'; let c = br#\"\"}\"#; /* { /* } */ */ fn f<'a>() {}\nb'\\'' r";
        let code = code_of(text);
        assert_eq!(code.matches(['{', '}']).collect::<String>(), "{}");
        assert_eq!(code.lines().count(), 3);
        assert!(code.contains("fn f<'a>()") && code.contains("let c"));
        assert_eq!(end_of_braces("a { b { } } c", 0), Some(11));
    }

    #[test]
    fn unwraps_are_found_outside_of_tests() {
        let text = "fn a() {\n    b.unwrap();\n}\n#[cfg(test)]\nmod tests {\n    fn c() { d.unwrap() }\n}\n// e.unwrap()\n";
        let tree = Tree::of(&[("crates/x/src/lib.rs", text), ("crates/x/tests/a.rs", "f.unwrap()")]);
        let found = panics_say_why(&tree);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn leftovers_are_found() {
        let text = format!("// {}DO: later\nlet path = \"/{}/somebody/x\";\n~/home/x todo\n", "TO", "home");
        let found = nothing_is_left_over(&Tree::of(&[("a.rs", &text)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2]);
    }
}
