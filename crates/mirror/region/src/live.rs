//! Whether the program may go back: what it has written to files stays there then, and it knows nothing of it.

/// The call of `include/retrovane.h` that asks how often a checkpoint of the process was gone back to.
const ROLLBACKS: i64 = 0x52_5604;
/// No session has so many checkpoints.
const NO_CHECKPOINT: i64 = i32::MAX as i64;

/// True in a session of `retrovane live`: there it is known that there is no such checkpoint, elsewhere the call is not. The
/// answer is logged, so that it is the same in a replay.
pub fn is_live() -> bool {
    // SAFETY: a number that no kernel has, and no argument is an address.
    let answer = unsafe { libc::syscall(ROLLBACKS, NO_CHECKPOINT, 0, 0) };
    answer >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}
