//! Live: what the supervisor opens for processes, and hands over. The session's folder is its
//! user's alone, so that a process that has another user or another root by now cannot open what
//! lies there, nor its own shadow.
//!
//! Invariant: a process gets what the session holds for its own log, or what all processes of the
//! session have logged; and of other processes only shadows of its own that have its user.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use injector::{Lane, PidFd, SessionMemory, kill_process, send_descriptor, unnamed_file};
use lane_protocol::borrowed;
use trace_store::hash_hex;

/// Opens what is asked for, and sends it; 0, or an errno.
pub(crate) fn lend(memory: &SessionMemory, lane: Lane, dir: &Path) -> i32 {
    let [what, first, second, socket] =
        [0, 1, 2, 3].map(|index| lane.request().arguments[index].load(Ordering::Relaxed));
    let sent = socket_of(lane, socket as i32).and_then(|socket| {
        let file = open(memory, lane, dir, what, [first, second])?;
        send_descriptor(socket.as_fd(), file.as_fd())
    });
    errno_of(sent)
}

/// The socket over which the lane's process waits for a descriptor.
pub(crate) fn socket_of(lane: Lane, socket: i32) -> io::Result<OwnedFd> {
    let process = PidFd::open(lane.pid().load(Ordering::Acquire));
    let process = process.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    process.descriptor(socket).map(OwnedFd::from)
}

/// Sends bytes, as a file that has no name.
pub(crate) fn send_bytes(socket: &OwnedFd, bytes: &[u8]) -> i32 {
    let sent = unnamed_file(c"undo").and_then(|mut file| {
        file.write_all(bytes)?;
        send_descriptor(socket.as_fd(), file.as_fd())
    });
    errno_of(sent)
}

pub(crate) fn errno_of(result: io::Result<()>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn open(memory: &SessionMemory, lane: Lane, dir: &Path, what: u64, which: [u64; 2]) -> io::Result<File> {
    let of_lane = |name: &str| {
        let path = dir.join(format!("{name}-{}", lane.ids().0));
        let file = File::open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    };
    match what {
        borrowed::NOTHING => File::open("/dev/null"),
        borrowed::LOST => of_lane("lost"),
        borrowed::CHANGE => of_lane("change"),
        borrowed::KEPT => {
            let hash = memory.file(which[0] as usize).and_then(|slot| slot.kept_hash());
            let hash = hash.ok_or(io::ErrorKind::NotFound)?;
            File::open(dir.join("files").join(hash_hex(&hash)))
        }
        borrowed::OBJECT => open_object(&object_path(dir, which)),
        borrowed::NEW_OBJECT => {
            let path = object_path(dir, which);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => open_object(&path),
            }
        }
        borrowed::MEMORY => File::open(of_shadow(lane, which[0])?.join("mem")),
        borrowed::PAGEMAP => File::open(of_shadow(lane, which[0])?.join("pagemap")),
        borrowed::DESCRIPTOR => {
            of_shadow(lane, which[0])?;
            let shadow = PidFd::open(which[0] as i32).ok_or(io::ErrorKind::NotFound)?;
            shadow.descriptor(which[1] as i32)
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// What stands for the memory of a file.
fn object_path(dir: &Path, identity: [u64; 2]) -> PathBuf {
    dir.join(format!("object-{:016x}{:016x}", identity[0], identity[1]))
}

fn open_object(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Where /proc tells of a shadow of the lane's process, if it has the same user.
fn of_shadow(lane: Lane, shadow: u64) -> io::Result<PathBuf> {
    let process = lane.pid().load(Ordering::Acquire);
    let own = facts_of(process).ok_or(io::ErrorKind::NotFound)?;
    let its = facts_of(shadow as i32).ok_or(io::ErrorKind::NotFound)?;
    if its.parent != process || its.ids != own.ids {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(PathBuf::from(format!("/proc/{shadow}")))
}

/// Ends a shadow of the lane's process; 0, or an errno.
pub(crate) fn end_shadow(lane: Lane) -> i32 {
    let shadow = lane.request().arguments[0].load(Ordering::Relaxed) as i32;
    match facts_of(shadow) {
        Some(facts) if facts.parent == lane.pid().load(Ordering::Acquire) && facts.is_shadow => {
            kill_process(shadow, libc::SIGKILL);
            0
        }
        _ => libc::ESRCH,
    }
}

/// What proc(5) says of a process (`status`).
struct Facts {
    is_shadow: bool,
    parent: i32,
    /// Of user and groups.
    ids: Vec<String>,
}

fn facts_of(pid: i32) -> Option<Facts> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(Facts {
        is_shadow: field("Name:")? == "rv-shadow",
        parent: field("PPid:")?.parse().ok()?,
        ids: ["Uid:", "Gid:", "Groups:"].iter().filter_map(|name| field(name)).map(str::to_owned).collect(),
    })
}
