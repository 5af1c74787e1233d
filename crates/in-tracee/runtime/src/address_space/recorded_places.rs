//! Memory at the places where it was when recording.

use linux_abi::general as nr;

use crate::ground::{kernel, notices};
use crate::log::kept_files;
use crate::state::report;

/// Maps memory at its recorded place, or stands still.
pub fn map_at(start: u64, bytes: u64, protection: u64, flags: u64, fd: i32, offset: u64) {
    notices::room_is_needed(start, bytes);
    let result = kernel::mmap(start, bytes, protection as u32, flags as u32, fd, offset);
    if result as u64 != start {
        report::stand(
            lane_protocol::report_kind::MISSING,
            result as i32,
            "memory could not be mapped where it was when recording",
        );
    }
}

/// Maps memory at its recorded place, with a kept file's content or empty.
pub fn map_kept(start: u64, bytes: u64, protection: u64, flags: u64, file: Option<(u32, u64)>) {
    match file {
        Some((file, offset)) => {
            let fd = kept_files::open(file);
            map_at(start, bytes, protection, flags, fd, offset);
            kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        None => map_at(start, bytes, protection, flags | u64::from(nr::MAP_ANONYMOUS), -1, 0),
    }
}
