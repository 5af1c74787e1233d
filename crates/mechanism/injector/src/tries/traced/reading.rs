//! Which call is the first that depends on the input.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::tries::observed::Entering;
use crate::tries::{Readiness, TryInput};

/// What identifies the input among what a process has open, or names.
pub(super) struct Reading {
    of: Identity,
    readiness: Readiness,
}

enum Identity {
    /// Device and inode of standard input.
    Stdin(u64, u64),
    /// A path without links.
    File(PathBuf),
}

/// Calls that name a path: number, argument of the directory's descriptor, argument of the path.
const OPENS: [(i64, Option<usize>, usize); 3] =
    [(libc::SYS_open, None, 0), (libc::SYS_openat, Some(0), 1), (libc::SYS_openat2, Some(0), 1)];
const ASKS: [(i64, Option<usize>, usize); 10] = [
    (libc::SYS_stat, None, 0),
    (libc::SYS_lstat, None, 0),
    (libc::SYS_access, None, 0),
    (libc::SYS_readlink, None, 0),
    (libc::SYS_execve, None, 0),
    (libc::SYS_newfstatat, Some(0), 1),
    (libc::SYS_statx, Some(0), 1),
    (libc::SYS_faccessat, Some(0), 1),
    (libc::SYS_faccessat2, Some(0), 1),
    (libc::SYS_readlinkat, Some(0), 1),
];
/// Calls that read from a descriptor, with the argument that has it.
const READS: [(i64, usize); 11] = [
    (libc::SYS_read, 0),
    (libc::SYS_readv, 0),
    (libc::SYS_pread64, 0),
    (libc::SYS_preadv, 0),
    (libc::SYS_preadv2, 0),
    (libc::SYS_sendfile, 1),
    (libc::SYS_splice, 0),
    (libc::SYS_tee, 0),
    (libc::SYS_copy_file_range, 0),
    (libc::SYS_mmap, 4),
    (libc::SYS_epoll_ctl, 2),
];
/// Calls that only ask about a descriptor.
const LOOKS: [(i64, usize); 5] = [
    (libc::SYS_fstat, 0),
    (libc::SYS_newfstatat, 0),
    (libc::SYS_statx, 0),
    (libc::SYS_lseek, 0),
    (libc::SYS_ioctl, 0),
];
/// Most entries of a poll(2) that are looked at.
const POLLED_MAX: usize = 1024;

impl Reading {
    pub fn new(input: &TryInput, readiness: Readiness, stdin: Option<&File>) -> io::Result<Reading> {
        let of = match (input, stdin) {
            (TryInput::File(path), _) => Identity::File(path.canonicalize()?),
            (TryInput::Stdin, Some(file)) => {
                let facts = file.metadata()?;
                Identity::Stdin(facts.dev(), facts.ino())
            }
            (TryInput::Stdin, None) => return Err(io::Error::other("there is no standard input")),
        };
        Ok(Reading { of, readiness })
    }

    /// True if the call depends on the input's content.
    pub fn begins_with(&self, call: &Entering) -> bool {
        match &self.of {
            Identity::File(path) => self.names(call, path),
            Identity::Stdin(device, inode) => self.reads(call, (*device, *inode)),
        }
    }

    fn names(&self, call: &Entering, wanted: &Path) -> bool {
        let asks: &[_] = if self.readiness == Readiness::BeforeAsking { &ASKS } else { &[] };
        let known = OPENS.iter().chain(asks).find(|(number, ..)| *number == call.number);
        let Some(&(_, directory, path)) = known else { return false };
        let Some(text) = text_at(call.pid, call.arguments[path]) else { return false };
        if text.file_name() != wanted.file_name() {
            return false;
        }
        let base = match directory.map(|index| call.arguments[index] as i32) {
            None | Some(libc::AT_FDCWD) => format!("/proc/{}/cwd", call.pid),
            Some(fd) => format!("/proc/{}/fd/{fd}", call.pid),
        };
        let base = std::fs::read_link(base).unwrap_or_default();
        base.join(text).canonicalize().is_ok_and(|real| real == wanted)
    }

    fn reads(&self, call: &Entering, wanted: (u64, u64)) -> bool {
        let is_stdin = |fd: i32| {
            std::fs::metadata(format!("/proc/{}/fd/{fd}", call.pid))
                .is_ok_and(|facts| (facts.dev(), facts.ino()) == wanted)
        };
        let looks: &[_] = if self.readiness == Readiness::BeforeAsking { &LOOKS } else { &[] };
        let known = READS.iter().chain(looks).find(|(number, _)| *number == call.number);
        if let Some(&(_, index)) = known {
            return is_stdin(call.arguments[index] as i32);
        }
        let [first, second, third, ..] = call.arguments;
        match call.number {
            libc::SYS_lseek => third as i32 == libc::SEEK_END && is_stdin(first as i32),
            libc::SYS_ioctl => second == libc::FIONREAD && is_stdin(first as i32),
            libc::SYS_poll | libc::SYS_ppoll => (0..(second as usize).min(POLLED_MAX)).any(|index| {
                word_at(call.pid, first.wrapping_add(8 * index as u64))
                    .is_some_and(|word| is_stdin(word as u32 as i32))
            }),
            libc::SYS_select | libc::SYS_pselect6 if first > 0 && second != 0 => {
                let bits = word_at(call.pid, second).unwrap_or(0);
                (0..first.min(64) as i32).any(|fd| bits >> fd & 1 == 1 && is_stdin(fd))
            }
            _ => false,
        }
    }
}

fn word_at(pid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// A path in the memory of a process that stands.
fn text_at(pid: i32, address: u64) -> Option<PathBuf> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut text = Vec::new();
    while text.len() < libc::PATH_MAX as usize {
        let at = address + text.len() as u64;
        // No further than the page: the next one may not be there.
        let mut piece = vec![0; 4096 - (at % 4096) as usize];
        memory.read_exact_at(&mut piece, at).ok()?;
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&piece[..end]);
                return Some(std::ffi::OsString::from_vec(text).into());
            }
            None => text.extend_from_slice(&piece),
        }
    }
    None
}
