//! Files of /proc, also where the program's root is a directory without it (chroot(2),
//! pivot_root(2)): what is mapped, and what was written, is read there.
//!
//! The directory is kept open from before, and opened anew by an image that a process with it
//! executes: others may share its root, and change it later. Deliberately absent: programs
//! that are executed below such a root.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};

use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::state::block::process;
use crate::state::own_descriptors::{move_high, with_more_descriptors};

/// Each process's own: one that shares all memory need not share descriptors.
#[derive(Default)]
pub struct ProcDir {
    /// Plus one; 0: it is not kept.
    fd: AtomicI32,
}

fn dir() -> &'static AtomicI32 {
    // SAFETY: an atomic.
    unsafe { &process().shared().proc_dir.fd }
}

/// The root may change from here on.
pub fn keep() {
    if process().replays() || dir().load(Ordering::Relaxed) != 0 {
        return;
    }
    let flags = u64::from(nr::O_PATH | nr::O_DIRECTORY | nr::O_CLOEXEC);
    let fd = kernel::call(nr::__NR_open, [c"/proc".as_ptr() as u64, flags, 0, 0, 0, 0]);
    dir().store(move_high(fd).map_or(0, |fd| fd + 1), Ordering::Relaxed);
}

/// It was given to us: the root has none.
pub fn take(fd: i32) {
    const FD_CLOEXEC: u64 = 1;
    kernel::call(nr::__NR_fcntl, [fd as u64, u64::from(nr::F_SETFD), FD_CLOEXEC, 0, 0, 0]);
    dir().store(fd + 1, Ordering::Relaxed);
}

/// Opens a file whose path begins with `/proc/` for reading.
pub fn open(path: &CStr) -> i64 {
    open_as(path, 0)
}

/// The same with further flags of open(2).
pub fn open_as(path: &CStr, flags: u32) -> i64 {
    let fd = try_open(path, flags);
    if fd != -i64::from(errno::EMFILE) {
        return fd;
    }
    with_more_descriptors(|| try_open(path, flags))
}

fn try_open(path: &CStr, flags: u32) -> i64 {
    const PREFIX: &[u8] = b"/proc/";
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC | flags);
    match descriptor() {
        // A root may fail in ways of its own: sandboxes take the directory of a process that ended.
        Some(dir) if path.to_bytes().starts_with(PREFIX) => {
            let name = path.as_ptr() as u64 + PREFIX.len() as u64;
            kernel::call(nr::__NR_openat, [dir, name, flags, 0, 0, 0])
        }
        _ => kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0, 0, 0, 0]),
    }
}

/// The number of what is kept.
pub fn descriptor() -> Option<u64> {
    let dir = dir().load(Ordering::Relaxed);
    (dir != 0).then(|| dir as u64 - 1)
}

/// Memory went back, and not what is open.
pub fn stay(fd: Option<u64>) {
    // That the variable went back, too, the compiler cannot know: this store is needed.
    core::hint::black_box(dir()).store(fd.map_or(0, |fd| fd as i32 + 1), Ordering::Relaxed);
}

/// True for that number.
pub fn is_descriptor(fd: u64) -> bool {
    descriptor() == Some(fd & 0xffff_ffff)
}

/// The program wants this number.
pub fn yield_number(fd: u64) {
    if is_descriptor(fd) {
        dir().store(move_high(fd as i64).map_or(0, |fd| fd + 1), Ordering::Relaxed);
    }
}
