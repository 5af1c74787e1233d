//! The memory of lanes.

use lane_protocol::{
    LANE_HEADER_BYTES, LaneHeader, RING_BYTES, lane_header_address, ring_address, segment_offset,
};
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::block::session;
use crate::state::report;

/// Maps a lane's segment at a slot: header, ring, and the ring once more.
pub fn map_lane(slot: u64, segment: u64, control_fd: i32) {
    let shared = nr::MAP_SHARED | nr::MAP_FIXED;
    let offset = segment_offset(segment);
    let first = LANE_HEADER_BYTES + RING_BYTES;
    let one = kernel::mmap(lane_header_address(slot), first, 3, shared, control_fd, offset);
    let again = ring_address(slot) + RING_BYTES;
    let two = kernel::mmap(again, RING_BYTES, 3, shared, control_fd, offset + LANE_HEADER_BYTES);
    if kernel::failed(one) || kernel::failed(two) {
        report::die("the lane's memory could not be mapped");
    }
    without_readahead(lane_header_address(slot), first + RING_BYTES);
    const _: () = assert!(size_of::<LaneHeader>() as u64 <= LANE_HEADER_BYTES);
}

/// Where the session's memory is a file: what is touched is read alone, and not some 30 pages
/// around it, which hold nothing.
pub fn without_readahead(start: u64, bytes: u64) {
    const MADV_RANDOM: u64 = 1;
    if session().has_file != 0 {
        kernel::call(nr::__NR_madvise, [start, bytes, MADV_RANDOM, 0, 0, 0]);
    }
}
