//! Requests of the calls whose meaning an argument selects.
//!
//! A request that no table knows is what the table's fallback says, with the
//! arguments of the call's row.

mod arch_prctl;
mod fcntl;
mod futex;
mod ioctl;
mod ioctl_sockets;
mod ioctl_tty;
mod ipc;
mod keyctl;
mod prctl;
mod quotactl;
mod sockopt;
mod sysfs;

pub use arch_prctl::ARCH_PRCTL;
pub use fcntl::FCNTL;
pub use futex::FUTEX;
pub use ioctl::IOCTL;
pub use ipc::{MSGCTL, SEMCTL, SHMCTL};
pub use keyctl::KEYCTL;
pub use prctl::PRCTL;
pub use quotactl::{QUOTACTL, QUOTACTL_FD};
pub use sockopt::{GETSOCKOPT, SETSOCKOPT};
pub use sysfs::SYSFS;

use crate::row::VariantTable;

/// Every table, those of calls that the runtime executes (prctl, arch_prctl) included.
pub static ALL: &[&VariantTable] = &[
    &ARCH_PRCTL,
    &FCNTL,
    &FUTEX,
    &GETSOCKOPT,
    &IOCTL,
    &KEYCTL,
    &MSGCTL,
    &PRCTL,
    &QUOTACTL,
    &QUOTACTL_FD,
    &SEMCTL,
    &SETSOCKOPT,
    &SHMCTL,
    &SYSFS,
];
