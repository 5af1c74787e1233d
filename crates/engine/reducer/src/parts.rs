//! What an input consists of: lines, tokens, characters, groups.

use std::ops::Range;

/// How finely an input is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Between empty lines.
    Paragraphs,
    /// Lines that are indented by no more than this, each with the deeper ones behind it and with what closes it.
    Blocks(usize),
    Lines,
    /// Between commas, semicolons and braces.
    Clauses,
    /// Names and numbers, runs of blanks, and single other characters.
    Tokens,
    /// In UTF-8, where the input is that; else bytes.
    Characters,
}

/// Cuts an input. The parts together are the input.
pub(crate) fn cut(input: &[u8], grain: Grain) -> Vec<Vec<u8>> {
    match grain {
        Grain::Paragraphs => joined(lines(input), |last, line| !is_blank(last) || is_blank(line)),
        Grain::Blocks(depth) => {
            joined(lines(input), |_, line| is_blank(line) || indentation(line) > depth || closes(line))
        }
        Grain::Lines => lines(input).map(<[u8]>::to_vec).collect(),
        Grain::Clauses => input
            .split_inclusive(|byte| matches!(byte, b',' | b';' | b'{' | b'}' | b'\n'))
            .map(<[u8]>::to_vec)
            .collect(),
        Grain::Tokens => runs(input, |byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | 0x80.. => 1,
            b' ' | b'\t' => 2,
            _ => 0,
        }),
        Grain::Characters if std::str::from_utf8(input).is_ok() => {
            runs(input, |byte| if byte >= 0x80 { 3 } else { 0 })
        }
        Grain::Characters => input.iter().map(|byte| vec![*byte]).collect(),
    }
}

fn lines(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split_inclusive(|byte| *byte == b'\n')
}

/// Puts together what belongs to the line before it.
fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>, belongs: impl Fn(&[u8], &[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut last: &[u8] = b"";
    for line in lines {
        match parts.last_mut() {
            Some(part) if belongs(last, line) => part.extend_from_slice(line),
            _ => parts.push(line.to_vec()),
        }
        last = line;
    }
    parts
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Blanks and tabs at a line's beginning.
pub(crate) fn indentation(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// All depths to which lines are indented, the least first.
pub(crate) fn depths(input: &[u8]) -> Vec<usize> {
    let mut depths: Vec<usize> = lines(input).filter(|line| !is_blank(line)).map(indentation).collect();
    depths.sort_unstable();
    depths.dedup();
    depths
}

/// True for a line that goes on with a block, or ends it, in the languages that are most common. A wrong guess costs tests only.
fn closes(line: &[u8]) -> bool {
    const WORDS: [&[u8]; 14] = [
        b"begin", b"catch", b"do", b"done", b"elif", b"else", b"elsif", b"end", b"esac", b"except", b"fi",
        b"finally", b"rescue", b"then",
    ];
    let text = line.trim_ascii();
    let word = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    matches!(text.first(), Some(b')' | b']' | b'}')) || WORDS.contains(&&text[..word])
}

/// Cuts where the kind changes; bytes of kind 0 stand alone, and of kind 3 each that begins a character
/// of UTF-8.
fn runs(input: &[u8], kind: impl Fn(u8) -> u8) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut last = 0;
    for byte in input {
        let now = kind(*byte);
        let begins = now == 0 || now != last || now == 3 && *byte & 0xc0 == 0xc0;
        match parts.last_mut() {
            Some(part) if !begins => part.push(*byte),
            _ => parts.push(vec![*byte]),
        }
        last = now;
    }
    parts
}

/// Pairs of brackets and of quotation marks, outermost first: the whole, and what is inside.
pub(crate) fn groups(input: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut open: Vec<(u8, usize)> = Vec::new();
    let mut found = Vec::new();
    for (at, byte) in input.iter().enumerate() {
        let opener = match byte {
            b'(' | b'[' | b'{' => {
                open.push((*byte, at));
                continue;
            }
            b')' => b'(',
            b']' => b'[',
            b'}' => b'{',
            _ => continue,
        };
        if let Some(place) = open.iter().rposition(|(byte, _)| *byte == opener) {
            let start = open[place].1;
            open.truncate(place);
            found.push((start..at + 1, start + 1..at));
        }
    }
    found.sort_by_key(|(whole, _)| std::cmp::Reverse(whole.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole_input() {
        let input = "int a_1 =\t\"ü\";\n  f(2);\nend".as_bytes();
        for (grain, count) in [(Grain::Lines, 3), (Grain::Tokens, 19), (Grain::Characters, 26)] {
            let parts = cut(input, grain);
            assert_eq!(parts.concat(), input);
            assert_eq!(parts.len(), count, "{grain:?}: {parts:?}");
        }
    }

    #[test]
    fn blocks_have_what_closes_them() {
        let input = b"a {\n  b\n}\n\nif c; then\n  d\n  e\nelse\n  f\nfi\ng\n";
        let texts = |grain| cut(input, grain).iter().map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(texts(Grain::Paragraphs), [11, 33]);
        assert_eq!(texts(Grain::Blocks(0)), [11, 31, 2]);
        assert_eq!(texts(Grain::Blocks(2)), [4, 7, 11, 4, 9, 7, 2]);
        assert_eq!(depths(input), [0, 2]);
    }

    #[test]
    fn groups_are_found_outermost_first() {
        let found: Vec<_> = groups(b"a(b[c]d)e)").into_iter().map(|(whole, _)| whole).collect();
        assert_eq!(found, [1..8, 3..6]);
    }
}
