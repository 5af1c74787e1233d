//! Locks of bytes of the session's file: of processes that the supervisor is to know, and its own.

use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::block::process;

/// `struct flock`.
#[repr(C)]
pub struct Lock {
    kind: u16,
    whence: u16,
    start: u64,
    bytes: u64,
    pid: i32,
}

pub fn lock(command: u64, kind: u16, byte: u64) -> Option<u16> {
    let mut lock = Lock { kind, whence: 0, start: byte, bytes: 1, pid: 0 };
    let fd = process().control_fd as u64;
    let result = kernel::call(nr::__NR_fcntl, [fd, command, &raw mut lock as u64, 0, 0, 0]);
    (!kernel::failed(result)).then_some(lock.kind)
}

/// True if the supervisor, which cannot be seen, is gone: it has a byte locked while it lives.
pub fn life_is_over() -> bool {
    lock(F_OFD_GETLK, F_RDLCK, lane_protocol::LIFE_LOCK) == Some(F_UNLCK)
}

pub const F_SETLK: u64 = 6;

pub const F_OFD_GETLK: u64 = 36;

pub const F_RDLCK: u16 = 0;

pub const F_WRLCK: u16 = 1;

pub const F_UNLCK: u16 = 2;
