//! Bytes as a quoted string, escaped as strace does it.

use std::fmt::Write;

/// Appends at most `shown_max` bytes in quotes, followed by an ellipsis if there
/// are more; `total_bytes` is how many there really are.
pub fn bytes(out: &mut String, data: &[u8], total_bytes: u64, shown_max: usize) {
    let shown = &data[..data.len().min(shown_max)];
    quoted(out, shown);
    if (shown.len() as u64) < total_bytes {
        out.push_str("...");
    }
}

/// Appends all the bytes in quotes.
pub fn quoted(out: &mut String, data: &[u8]) {
    out.push('"');
    for (index, &byte) in data.iter().enumerate() {
        let next_is_digit = data.get(index + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x0b => out.push_str("\\v"),
            0x0c => out.push_str("\\f"),
            0x20..=0x7e => out.push(char::from(byte)),
            // A digit that follows would be taken for a part of a short number.
            _ if next_is_digit => put(out, format_args!("\\{byte:03o}")),
            _ => put(out, format_args!("\\{byte:o}")),
        }
    }
    out.push('"');
}

/// Appends formatted text.
pub fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data: &[u8], total_bytes: u64, shown_max: usize) -> String {
        let mut out = String::new();
        bytes(&mut out, data, total_bytes, shown_max);
        out
    }

    #[test]
    fn strings_are_escaped_and_cut() {
        assert_eq!(shown(b"a\"b\\\n\t\x00\x001\xff", 11, 32), r#""a\"b\\\n\t\0\0001\377"..."#);
        assert_eq!(shown(b"hello", 5, 5), r#""hello""#);
        assert_eq!(shown(b"hello", 5, 4), r#""hell"..."#);
        assert_eq!(shown(b"", 0, 4), r#""""#);
    }
}
