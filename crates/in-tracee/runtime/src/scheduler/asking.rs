//! Asking a thread of ours for the token, by a signal.

use lane_protocol::ASKING;
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::signal_state::Info;

/// Asks a thread of ours for something, by the signal that never reaches a program.
pub fn ask(pid: i32, tid: i32, code: i32) {
    let mut info: Info = [0; 16];
    info[0] = u64::from(ASKING);
    info[1] = u64::from(code as u32);
    let arguments = [pid as u64, tid as u64, u64::from(ASKING), info.as_ptr() as u64, 0, 0];
    kernel::call(nr::__NR_rt_tgsigqueueinfo, arguments);
}
