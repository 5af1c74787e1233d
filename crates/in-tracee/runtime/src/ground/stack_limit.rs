//! How far the stack may grow.

use linux_abi::general as nr;

use crate::ground::kernel;

/// How far the stack may grow, in bytes: the soft limit.
pub fn stack_limit() -> u64 {
    stack_limits()[0]
}

pub fn stack_limits() -> [u64; 2] {
    let mut limits = [0u64; 2];
    let arguments = [0, u64::from(nr::RLIMIT_STACK), 0, limits.as_mut_ptr() as u64, 0, 0];
    kernel::call(nr::__NR_prlimit64, arguments);
    limits
}

/// Replay: lets the stack grow as far as it could when recording, if we may.
pub fn set_stack_limit(soft: u64) {
    let hard = stack_limits()[1];
    let limits = [soft.min(hard), hard];
    kernel::call(nr::__NR_prlimit64, [0, u64::from(nr::RLIMIT_STACK), limits.as_ptr() as u64, 0, 0, 0]);
}
