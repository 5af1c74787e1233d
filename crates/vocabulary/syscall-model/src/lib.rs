//! The system-call model: data, not code.
//!
//! One [`Row`] for every x86-64 system call of Linux 6.18. A row says what the
//! call's arguments are, what memory the kernel writes and how long that is,
//! whether the call can block, and what replay does with it. The recorder's
//! runtime, the replayer, `retrovane dump` and the generated page
//! `docs/SYSCALLS.md` all read the same rows.
//!
//! Architecture invariant: nothing here calls the kernel or touches memory of a
//! traced program; interpreting a row is the reader's work.
#![no_std]
#![forbid(unsafe_code)]

pub mod flags;
mod notation;
mod row;
mod table;
pub mod variants;

pub use flags::{Flag, FlagSet, Shown};
pub use row::{Act, Arg, Len, Row, Shape, Special, Ty, Variant, VariantTable, When};
pub use table::{ROW_COUNT, TABLE};
pub use variants::{ARCH_PRCTL, FCNTL, IOCTL, PRCTL};

/// Highest system-call number of the pinned ABI (Linux 6.18: `file_setattr`).
pub const NR_MAX: usize = 469;

/// The row of a system call, or `None` for a number outside of the pinned ABI.
#[inline]
pub fn row(nr: u64) -> Option<&'static Row> {
    if nr <= NR_MAX as u64 { TABLE[nr as usize].as_ref() } else { None }
}

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    TABLE.iter().flatten().find(|row| row.name == name)
}
