//! From where on the program's calls come to us.

use lane_protocol::{Interception, TEXT_BYTES_MAX, TEXT_START};
use linux_abi::general as nr;

use crate::code::seccomp;
use crate::ground::kernel;
use crate::state::block::session;
use crate::state::report;

/// From now on the program's calls come to us.
pub fn intercept() {
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    if session().interception == Interception::Seccomp as u32 {
        seccomp::install_once();
        return;
    }
    let result =
        kernel::call(nr::__NR_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 1, TEXT_START, TEXT_BYTES_MAX, 0, 0]);
    if kernel::failed(result) {
        report::die("syscall user dispatch is refused here; use --seccomp");
    }
}
