//! The table itself.

mod files;
mod io;
mod ipc;
mod memory;
mod polling;
mod process;
mod security;
mod signals;
mod sockets;
mod system;
mod time;

use crate::NR_MAX;
use crate::row::Row;

/// Rows that the pinned ABI has: 0..=334 and 424..=469.
pub const ROW_COUNT: usize = 335 + 46;

const FAMILIES: &[&[Row]] = &[
    files::ROWS,
    io::ROWS,
    ipc::ROWS,
    memory::ROWS,
    polling::ROWS,
    process::ROWS,
    security::ROWS,
    signals::ROWS,
    sockets::ROWS,
    system::ROWS,
    time::ROWS,
];

/// Rows by number.
pub static TABLE: [Option<Row>; NR_MAX + 1] = index_rows();

const fn index_rows() -> [Option<Row>; NR_MAX + 1] {
    let mut table = [const { None }; NR_MAX + 1];
    let mut count = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        let rows = FAMILIES[family];
        let mut at = 0;
        while at < rows.len() {
            let row = &rows[at];
            assert!(table[row.nr as usize].is_none(), "two rows with one number");
            assert!(at == 0 || rows[at - 1].nr < row.nr, "a family is not sorted by number");
            table[row.nr as usize] = Some(*row);
            count += 1;
            at += 1;
        }
        family += 1;
    }
    assert!(count == ROW_COUNT, "a call of the pinned ABI has no row, or one outside of it has");
    let mut nr = 0;
    while nr <= NR_MAX {
        assert!(
            table[nr].is_some() == (nr <= 334 || nr >= 424),
            "a row is missing or outside of the pinned ABI"
        );
        nr += 1;
    }
    table
}
