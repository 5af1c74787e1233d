//! What a session's standard input, output and error reach when it begins.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use lane_protocol::StandardFile;

/// What a standard descriptor of ours, or of the process, reaches.
pub fn standard_file(process: Option<i32>, fd: i32) -> StandardFile {
    if let Some(pid) = process {
        let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        return found.map_or_else(
            |_| StandardFile::default(),
            |found| StandardFile {
                device: found.dev(),
                inode: found.ino(),
                raw_device: found.rdev(),
                mode: u64::from(found.mode()),
            },
        );
    }
    // SAFETY: zero is a valid `stat`; fstat fills it or fails.
    let (result, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat), stat)
    };
    if result != 0 {
        return StandardFile::default();
    }
    StandardFile {
        device: stat.st_dev,
        inode: stat.st_ino,
        raw_device: stat.st_rdev,
        mode: u64::from(stat.st_mode),
    }
}

/// The offset of a standard descriptor of ours, or of the process; 0 where there is none.
pub fn offset_of(process: Option<i32>, fd: i32) -> u64 {
    let Some(pid) = process else {
        // SAFETY: asks for an offset; no memory is involved.
        return unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }.max(0) as u64;
    };
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    info.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok()).unwrap_or(0)
}

/// If the descriptor is of a regular file, all who have it write at its end from now on, wherever
/// its offset is: those who have it after us, too.
pub fn append_from_now_on(file: BorrowedFd) {
    const KIND: u64 = libc::S_IFMT as u64;
    let fd = file.as_raw_fd();
    if standard_file(None, fd).mode & KIND != u64::from(libc::S_IFREG) {
        return;
    }
    // SAFETY: asks for flags and sets them; no memory is involved.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags >= 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_APPEND);
        }
    }
}
