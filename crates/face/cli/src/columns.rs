//! Text in columns.

use std::fmt::Write;

/// Which side of a column its text stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Lines of cells, each column as wide as its widest cell; the last is not padded.
pub fn lines(sides: &[Side], rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..sides.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, side), width) in row.iter().zip(sides).zip(&widths) {
            let written = match side {
                Side::Left => write!(line, "{cell:<width$}  "),
                Side::Right => write!(line, "{cell:>width$}  "),
            };
            written.expect("writing to a String does not fail");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows = [["a", "1"], ["bcd", "234"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(lines(&[Side::Left, Side::Right], &rows), "a      1\nbcd  234\n");
        assert_eq!(lines(&[Side::Right, Side::Left], &rows), "  a  1\nbcd  234\n");
    }
}
