//! How many files the process may have open, raised for a while.

use linux_abi::general as nr;

use crate::ground::kernel;

/// Lets us open files whatever the program set as its limit; gives what it was.
pub fn raise_open_files() -> [u64; 2] {
    let mut before = [0u64; 2];
    limit_open_files(0, &raw mut before as u64);
    let raised = [before[1], before[1]];
    limit_open_files(&raw const raised as u64, 0);
    before
}

/// Sets the limit as it was.
pub fn lower_open_files(before: &[u64; 2]) {
    limit_open_files(before.as_ptr() as u64, 0);
}

fn limit_open_files(new: u64, old: u64) {
    let what = u64::from(nr::RLIMIT_NOFILE);
    kernel::call(nr::__NR_prlimit64, [0, what, new, old, 0, 0]);
}
