//! Locks on the session's file (fcntl(2)), by which processes are known across namespaces of
//! process ids: who meets a lock is told the owner's id as it sees it itself.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use lane_protocol::LIFE_LOCK;

use crate::session_memory::SessionMemory;

/// A byte of the session's file is locked for as long as this is there, or the process.
pub struct LifeLock {
    _file: File,
}

impl SessionMemory {
    /// The process that has this byte locked; `None` if none has.
    pub fn owner_of_lock(&self, byte: u64) -> Option<i32> {
        let found = lock(self.memfd(), libc::F_GETLK, byte).ok()?;
        (found.l_type != libc::F_UNLCK as libc::c_short && found.l_pid > 0).then_some(found.l_pid)
    }

    /// Says that the supervisor lives, to those that cannot see it.
    ///
    /// # Errors
    /// When the file cannot be opened anew, or not be locked.
    pub fn lock_life(&self) -> io::Result<LifeLock> {
        // Another open file than the processes have inherited: its lock is not theirs.
        let path = format!("/proc/self/fd/{}", self.memfd().as_raw_fd());
        let file = File::options().read(true).write(true).open(path)?;
        lock(&file, libc::F_OFD_SETLK, LIFE_LOCK)?;
        self.life_is_locked().store(1, Ordering::Release);
        Ok(LifeLock { _file: file })
    }
}

fn lock(file: &impl AsRawFd, command: libc::c_int, byte: u64) -> io::Result<libc::flock> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the structure is as the call wants it, and outlives it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(lock) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_lock_is_met_by_others_and_ends_with_its_holder() {
        let file = crate::unnamed_file(c"locks").expect("memory is there");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = File::options().read(true).write(true).open(&path).expect("it is open");
        lock(&other, libc::F_OFD_SETLK, LIFE_LOCK).expect("nobody has it");
        let met = lock(&file, libc::F_OFD_GETLK, LIFE_LOCK).expect("it may be asked for");
        assert_ne!(met.l_type, libc::F_UNLCK as libc::c_short);
        drop(other);
        let met = lock(&file, libc::F_OFD_GETLK, LIFE_LOCK).expect("it may be asked for");
        assert_eq!(met.l_type, libc::F_UNLCK as libc::c_short);
    }
}
