//! The parts of a file that hold something, and copies of files that have holes where it has.

use lane_protocol::report_kind;
use linux_abi::general as nr;

use crate::ground::kernel;
use crate::state::report;

/// Where the first part from a place on begins that is no hole; -ENXIO: there is none (lseek(2)).
pub fn next_data(file: i32, place: u64) -> i64 {
    const SEEK_DATA: u64 = 3;
    kernel::call(nr::__NR_lseek, [file as u64, place, SEEK_DATA, 0, 0, 0])
}

/// Calls `each` with the parts of a file that are no holes.
pub fn for_each_extent(file: i32, bytes: u64, each: &mut dyn FnMut(u64, u64)) {
    for_each_extent_from(file, 0, bytes, each);
}

/// The same between two places.
pub fn for_each_extent_from(file: i32, from: u64, bytes: u64, each: &mut dyn FnMut(u64, u64)) {
    const SEEK_HOLE: u64 = 4;
    let mut place = from;
    while place < bytes {
        let data = next_data(file, place);
        if data < 0 {
            return;
        }
        let hole = kernel::call(nr::__NR_lseek, [file as u64, data as u64, SEEK_HOLE, 0, 0, 0]);
        place = (hole as u64).min(bytes);
        each(data as u64, place);
    }
}

/// Makes a part of a file a hole; its length stays. The kernel's result.
pub fn punch(file: i32, from: u64, bytes: u64) -> i64 {
    const KEEP_SIZE: u64 = 1;
    const PUNCH_HOLE: u64 = 2;
    kernel::call(nr::__NR_fallocate, [file as u64, KEEP_SIZE | PUNCH_HOLE, from, bytes, 0, 0])
}

/// Copies a file to an empty one, leaving holes where holes are.
pub fn copy_data(source: u64, target: u64) {
    const SEEK_SET: u64 = 0;
    const SEEK_END: u64 = 2;
    let seek = |fd: u64, place: u64, whence: u64| kernel::call(nr::__NR_lseek, [fd, place, whence, 0, 0, 0]);
    let size = seek(source, 0, SEEK_END) as u64;
    kernel::call(nr::__NR_ftruncate, [target, size, 0, 0, 0, 0]);
    for_each_extent(source as i32, size, &mut |start, end| {
        let mut at = start;
        seek(source, start, SEEK_SET);
        seek(target, start, SEEK_SET);
        while at < end {
            let moved = kernel::call(nr::__NR_sendfile, [target, source, 0, end - at, 0, 0]);
            if moved <= 0 {
                report::stand(
                    report_kind::MISSING,
                    moved as i32,
                    "a kept file could not be copied for its mappings",
                );
            }
            at += moved as u64;
        }
    });
}
