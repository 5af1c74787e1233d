//! The table itself.

use crate::NR_MAX;
use crate::row::{Act, Arg, Len, Row, Shape, Special, Ty, When};

/// Rows that the pinned ABI has: 0..=334 and 424..=462.
pub const ROW_COUNT: usize = 335 + 39;

const ROWS: &[Row] = &[
    Row {
        nr: 0,
        name: "read",
        args: &[
            Arg::new("fd", Ty::Fd),
            Arg::shown("buf", Ty::Out(Len::Ret, When::Positive), Shape::Bytes),
            Arg::new("count", Ty::Size),
        ],
        act: Act::Feed,
        blocks: true,
    },
    Row {
        nr: 1,
        name: "write",
        args: &[
            Arg::new("fd", Ty::Fd),
            Arg::shown("buf", Ty::In(Len::Arg(2)), Shape::Bytes),
            Arg::new("count", Ty::Size),
        ],
        act: Act::Perform(Special::Output),
        blocks: true,
    },
];

/// Rows by number.
pub static TABLE: [Option<Row>; NR_MAX + 1] = index_rows();

const fn index_rows() -> [Option<Row>; NR_MAX + 1] {
    let mut table = [const { None }; NR_MAX + 1];
    let mut at = 0;
    while at < ROWS.len() {
        let row = &ROWS[at];
        assert!(table[row.nr as usize].is_none(), "two rows with one number");
        table[row.nr as usize] =
            Some(Row { nr: row.nr, name: row.name, args: row.args, act: row.act, blocks: row.blocks });
        at += 1;
    }
    table
}
