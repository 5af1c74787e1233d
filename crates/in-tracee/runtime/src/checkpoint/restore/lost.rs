//! The program asks what a rollback would not restore, or did not. The supervisor knows, and
//! leaves it in a file.

use lane_protocol::{command, request};
use linux_abi::{errno, general as nr};

use crate::checkpoint::asked_calls::{CHECK, LOST};
use crate::checkpoint::restore::{agent, ways};
use crate::checkpoint::take::slots;
use crate::ground::kernel::{self, error};
use crate::log::call_event::begin_call;
use crate::log::{borrowed, kept_files};
use crate::state::block::process;

/// One of the two calls, made and logged; its result. Text goes to `args[1]`, which has room for
/// `args[2]` bytes with a zero at their end.
pub fn call(is_before: bool, args: &[u64; 6]) -> i64 {
    let [id, text, room, ..] = *args;
    let looked = match is_before {
        true => agent::ask(command::TRY, id),
        false if slots::find(id).is_none() => error(errno::ENOENT),
        false => 0,
    };
    let asks = || ways::ask_supervisor(request::LOST, [id, u64::from(!is_before), 0, 0]);
    let (result, written) = match if looked < 0 { Err(looked) } else { asks() } {
        Ok(()) => fill(text, room),
        Err(error) => (error, 0),
    };
    begin_call(if is_before { CHECK } else { LOST }, args, 3, result, 0);
    if written != 0 {
        process().log.memory(text, written);
    }
    process().log.end();
    result
}

/// The length of all of the text, or an errno; how many bytes of it, and of what ends it, there
/// was room for.
fn fill(text: u64, room: u64) -> (i64, u64) {
    let fd = borrowed::open(lane_protocol::borrowed::LOST, [0; 2]);
    if kernel::failed(fd) {
        return (error(errno::EIO), 0);
    }
    let bytes = kept_files::size_of(fd as i32);
    // The last one is zero.
    let part = room.min(bytes);
    let read = match part {
        0 => 0,
        _ => kernel::call(nr::__NR_pread64, [fd as u64, text, part - 1, 0, 0, 0]),
    };
    let end = || kernel::call(nr::__NR_pread64, [fd as u64, text.wrapping_add(part - 1), 1, bytes - 1, 0, 0]);
    let is_whole = part == 0 || read == part as i64 - 1 && end() == 1;
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    if is_whole { (bytes as i64 - 1, part) } else { (error(errno::EFAULT), read.max(0) as u64) }
}
