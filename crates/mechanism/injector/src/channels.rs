//! Live: pipes and socket pairs of processes that stand still: who holds their ends, and what
//! is in them.
//!
//! Deliberately absent: what ought to be in them (the recorder's, which has the logs).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What a descriptor is an end of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChannelEnd {
    /// A pipe, by its inode: both ends have the same.
    Pipe(u64),
    /// A socket, by its own inode.
    Socket(u64),
}

/// The open pipes and sockets of a process.
pub fn channel_ends(pid: i32) -> BTreeMap<u32, ChannelEnd> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let end_of = |entry: std::fs::DirEntry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let target = std::fs::read_link(entry.path()).ok()?;
        let inode = |kind: &str| target.to_str()?.strip_prefix(kind)?.strip_suffix(']')?.parse().ok();
        let end = inode("pipe:[").map(ChannelEnd::Pipe).or_else(|| inode("socket:[").map(ChannelEnd::Socket));
        Some((fd, end?))
    };
    entries.filter_map(end_of).collect()
}

/// Those of the ends that processes hold besides the `insiders`. Of a process that may not be
/// looked into it is assumed that it holds none.
pub fn held_outside(ends: &BTreeSet<ChannelEnd>, insiders: &[i32]) -> BTreeSet<ChannelEnd> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = pids.filter(|pid| !insiders.contains(pid));
    others.flat_map(channel_ends).map(|(_, end)| end).filter(|end| ends.contains(end)).collect()
}

/// The descriptor of another process, as one of our own; `None` if that may not be had.
pub fn borrow_descriptor(pid: i32, fd: u32) -> Option<OwnedFd> {
    // SAFETY: both calls make a descriptor, or fail; each that was made is owned from there on.
    unsafe {
        let own = |made: libc::c_long| {
            let made = RawFd::try_from(made).ok().filter(|made| *made >= 0)?;
            Some(OwnedFd::from_raw_fd(made))
        };
        let process = own(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        own(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0))
    }
}

/// Whether the descriptor may be read, and written.
pub fn ends_allowed(end: &OwnedFd) -> (bool, bool) {
    // SAFETY: asks for flags; no memory is involved.
    let flags = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETFL) };
    match flags & libc::O_ACCMODE {
        _ if flags < 0 => (false, false),
        libc::O_RDONLY => (true, false),
        libc::O_WRONLY => (false, true),
        _ => (true, true),
    }
}

/// True for a socket that keeps the bounds of what was sent; `None` for none of the usual.
pub fn keeps_bounds(socket: &OwnedFd) -> Option<bool> {
    match socket_option(socket, libc::SO_TYPE)? {
        libc::SOCK_STREAM => Some(false),
        libc::SOCK_DGRAM | libc::SOCK_SEQPACKET => Some(true),
        _ => None,
    }
}

fn socket_option(socket: &OwnedFd, option: i32) -> Option<i32> {
    let (mut value, mut bytes) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes an int at most, into one.
    let result = unsafe {
        let place = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut bytes)
    };
    (result == 0).then_some(value)
}

/// True if the pipe keeps the bounds of what was written (O_DIRECT).
pub fn is_packet_pipe(pipe: &OwnedFd) -> bool {
    // SAFETY: asks for flags; no memory is involved.
    let flags = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETFL) };
    flags < 0 || flags & libc::O_DIRECT != 0
}

/// Takes all that is in a pipe, or waits at a socket: pieces as they come out. Nobody else
/// reads meanwhile.
pub fn drain(end: &OwnedFd, is_socket: bool) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    loop {
        let mut waiting = 0i32;
        // SAFETY: the kernel writes an int.
        if unsafe { libc::ioctl(end.as_raw_fd(), libc::FIONREAD, &raw mut waiting) } != 0 {
            return None;
        }
        if !is_socket && waiting <= 0 {
            return Some(pieces);
        }
        // Of sockets, FIONREAD tells of the next message only, or of all.
        let mut piece = vec![0u8; usize::try_from(waiting).unwrap_or(0).max(64)];
        let room = piece.as_mut_ptr().cast();
        // SAFETY: the buffer is as long as is said; a pipe with bytes in it does not block.
        let got = unsafe {
            if is_socket {
                libc::recv(end.as_raw_fd(), room, piece.len(), libc::MSG_DONTWAIT)
            } else {
                libc::read(end.as_raw_fd(), room, piece.len())
            }
        };
        let Ok(got) = usize::try_from(got) else { return Some(pieces) };
        // An end, or a message without bytes, which nobody can tell apart.
        if got == 0 {
            return Some(pieces);
        }
        piece.truncate(got);
        pieces.push(piece);
    }
}

/// Puts a piece into a pipe that has room for it, or sends it; false if that cannot be done at
/// once.
pub fn put(end: &OwnedFd, is_socket: bool, piece: &[u8]) -> bool {
    let bytes = piece.as_ptr().cast();
    if is_socket {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: reads the piece.
        let sent = unsafe { libc::send(end.as_raw_fd(), bytes, piece.len(), flags) };
        return usize::try_from(sent) == Ok(piece.len());
    }
    // SAFETY: asks for a number; no memory is involved.
    let room = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETPIPE_SZ) };
    if usize::try_from(room).is_ok_and(|room| room >= piece.len()) {
        // SAFETY: reads the piece.
        let written = unsafe { libc::write(end.as_raw_fd(), bytes, piece.len()) };
        return usize::try_from(written) == Ok(piece.len());
    }
    false
}

/// The inode of the socket that a Unix socket is connected to: sock_diag(7), as fdinfo does
/// not tell it.
pub fn peer_of(inode: u64) -> Option<u64> {
    const UDIAG_SHOW_PEER: u32 = 4;
    const UNIX_DIAG_PEER: u16 = 2;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const REQUEST_BYTES: u32 = 40;
    /// Headers of the answer: nlmsghdr and unix_diag_msg.
    const HEADERS_BYTES: usize = 16 + 16;
    let inode = u32::try_from(inode).ok()?;
    let mut request = Vec::new();
    request.extend(REQUEST_BYTES.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    // All states; this inode, whatever its cookie.
    for word in [u32::MAX, inode, UDIAG_SHOW_PEER, u32::MAX, u32::MAX] {
        request.extend(word.to_ne_bytes());
    }
    let mut answer = [0u8; 1024];
    // SAFETY: the socket is owned; both buffers are as long as is said.
    let got = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG);
        if socket < 0 {
            return None;
        }
        let socket = OwnedFd::from_raw_fd(socket);
        if libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) < 0 {
            return None;
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    let mut rest = answer.get(HEADERS_BYTES..usize::try_from(got).ok()?)?;
    if u16::from_ne_bytes([answer[4], answer[5]]) != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    while let [a, b, c, d, ..] = *rest {
        let (bytes, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        if kind == UNIX_DIAG_PEER {
            return Some(u64::from(u32::from_ne_bytes(rest.get(4..8)?.try_into().ok()?)));
        }
        rest = rest.get(bytes.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn what_is_in_a_channel_is_taken_and_put_back() {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"in the pipe").expect("there is room");
        let (reads, writes) = (
            OwnedFd::from(reader.try_clone().expect("a copy")),
            OwnedFd::from(writer.try_clone().expect("a copy")),
        );
        assert_eq!(drain(&reads, false), Some(vec![b"in the pipe".to_vec()]));
        assert_eq!(drain(&reads, false), Some(Vec::new()));
        assert!(put(&writes, false, b"again") && !is_packet_pipe(&writes));
        let mut bytes = [0; 5];
        reader.read_exact(&mut bytes).expect("it is there");
        assert_eq!(&bytes, b"again");
        let (one, other) = UnixDatagram::pair().expect("a pair");
        one.send(b"first").and(one.send(b"second")).expect("there is room");
        let other = OwnedFd::from(other);
        assert_eq!(keeps_bounds(&other), Some(true));
        assert_eq!(drain(&other, true), Some(vec![b"first".to_vec(), b"second".to_vec()]));
    }

    #[test]
    fn the_ends_of_a_pair_find_each_other() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let ends = channel_ends(std::process::id() as i32);
        let inode = |socket: &UnixStream| match ends[&(socket.as_raw_fd() as u32)] {
            ChannelEnd::Socket(inode) => inode,
            ChannelEnd::Pipe(_) => panic!("it is a socket"),
        };
        assert_eq!((peer_of(inode(&one)), peer_of(inode(&other))), (Some(inode(&other)), Some(inode(&one))));
        let all = BTreeSet::from([ChannelEnd::Socket(inode(&one))]);
        assert!(held_outside(&all, &[std::process::id() as i32]).is_empty());
        assert_eq!(held_outside(&all, &[]), all);
    }
}
