//! The processes that are recorded, as the headers of their lanes say.

use core::mem::offset_of;
use core::sync::atomic::Ordering;

use lane_protocol::{LaneHeader, SEGMENTS, lane_state, segment_offset};
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::block::{process, session};

/// Calls `each` with the lanes of processes that are recorded, in this one's namespace, their ids
/// in it, and those that the supervisor sees. The first of another namespace than the supervisor's
/// cannot be killed from within.
pub fn each_recorded(each: &mut dyn FnMut(u32, i32, i32)) {
    let own_space = process().pid_space;
    each_of_all(&mut |lane| {
        // A namespace is named by its first process.
        let (pid, is_first) = match lane.space {
            0 => (lane.outer_pid, false),
            space => (lane.waited_pid, lane.outer_pid as u32 == space),
        };
        if lane.space == own_space && !is_first {
            each(lane.number, pid, lane.outer_pid);
        }
    });
}

/// Calls `each` for every process that is recorded.
fn each_of_all(each: &mut dyn FnMut(&Recorded)) {
    each_lane(&mut |state, recorded| {
        if state == lane_state::LIVE && recorded.outer_pid > 0 {
            each(recorded);
        }
    });
}

/// Whether the supervisor sees a recorded process under this id; `None` while another one has been made, or is about to be, that
/// has not said yet who it is.
pub fn is_recorded(outer_pid: i32) -> Option<bool> {
    let (mut is_recorded, mut is_one_unborn) = (false, false);
    each_lane(&mut |state, lane| {
        is_recorded |= state == lane_state::LIVE && lane.outer_pid == outer_pid;
        is_one_unborn |= state == lane_state::UNBORN;
    });
    (is_recorded || !is_one_unborn).then_some(is_recorded)
}

/// Calls `each` with the state of every lane, and who it is of.
fn each_lane(each: &mut dyn FnMut(u32, &Recorded)) {
    for (index, word) in session().segments.iter().enumerate().take(SEGMENTS / 64) {
        let mut bits = word.load(Ordering::Acquire);
        while bits != 0 {
            let segment = index as u64 * 64 + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            let mut head = [0u8; HEAD_BYTES];
            let fd = process().control_fd as u64;
            let arguments = [fd, head.as_mut_ptr() as u64, HEAD_BYTES as u64, segment_offset(segment), 0, 0];
            if kernel::call(nr::__NR_pread64, arguments) != HEAD_BYTES as i64 {
                return;
            }
            let field = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            let number = |at: usize| u32::from_le_bytes(field(at).unwrap_or_default());
            let recorded = Recorded {
                number: number(offset_of!(LaneHeader, lane)),
                outer_pid: number(offset_of!(LaneHeader, pid)) as i32,
                waited_pid: number(offset_of!(LaneHeader, waited_pid)) as i32,
                space: number(offset_of!(LaneHeader, pid_space)),
            };
            each(number(offset_of!(LaneHeader, state)), &recorded);
        }
    }
}

/// Who a lane is of.
pub struct Recorded {
    pub number: u32,
    pub outer_pid: i32,
    pub waited_pid: i32,
    pub space: u32,
}

/// Of a lane's header, as much as says who it is of.
pub const HEAD_BYTES: usize = offset_of!(LaneHeader, pid_space) + 4;
