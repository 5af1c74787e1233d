//! Reading memory of another process, which keeps a checkpoint.

use linux_abi::general as nr;

use crate::ground::kernel;
use crate::ground::proc_files::Path;
use crate::log::borrowed;

/// Copies memory of the shadow's.
pub fn fetch(shadow: i32, to: u64, from: u64, bytes: u64) -> bool {
    let (local, remote) = ([to, bytes], [from, bytes]);
    let arguments = [shadow as u64, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
    bytes == 0
        || kernel::call(nr::__NR_process_vm_readv, arguments) as u64 == bytes
        || fetch_closed(shadow, to, from, bytes)
}

/// Reads a list that the shadow has made at the same place.
pub fn fetch_list<T>(shadow: i32, count: &mut usize, all: &mut [T]) -> bool {
    let (place, first) = (count as *mut usize as u64, all.as_mut_ptr() as u64);
    fetch(shadow, place, place, size_of::<usize>() as u64)
        && *count <= all.len()
        && fetch(shadow, first, first, (*count * size_of::<T>()) as u64)
}

/// The same of memory that may not be read: /proc/PID/mem does not ask. A shadow that may not be
/// looked into is the supervisor's to open.
fn fetch_closed(shadow: i32, to: u64, from: u64, bytes: u64) -> bool {
    let mut fd = path_of(shadow, b"/mem").open();
    if kernel::failed(fd) {
        fd = borrowed::open(lane_protocol::borrowed::MEMORY, [shadow as u64, 0]);
    }
    if kernel::failed(fd) {
        return false;
    }
    let mut done = 0;
    while done < bytes {
        let arguments = [fd as u64, to + done, bytes - done, from + done, 0, 0];
        let read = kernel::call(nr::__NR_pread64, arguments);
        if read <= 0 {
            break;
        }
        done += read as u64;
    }
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    done == bytes
}

/// What /proc tells of a shadow.
pub fn path_of(shadow: i32, file: &[u8]) -> Path {
    *Path::new().text(b"/proc/").number(shadow as u64).text(file)
}
