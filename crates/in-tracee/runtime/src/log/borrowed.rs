//! What the supervisor opens for the process. The session's folder is its user's alone: a process
//! that has another user or another root by now cannot open what lies there, and one that gave up
//! its rights cannot read its own shadow.
//!
//! The descriptor comes over a pair of sockets, made for each: nothing is kept open meanwhile, and
//! no name has to be reached from the process's root or namespaces.

use lane_protocol::{borrowed, request};
use linux_abi::{errno, general as nr};

use crate::ground::kernel::{self, error};
use crate::ground::open_files;
use crate::log::kept_files::request_answer;
use crate::state::block::session;
use crate::state::own_descriptors::while_dumpable;

/// socketpair(2).
const AF_UNIX: u64 = 1;
const SOCK_SEQPACKET: u64 = 5;

/// Opens something, see [`lent`]; an errno if it is not to be had.
pub fn open(what: u64, which: [u64; 2]) -> i64 {
    let limit = open_files::raise_open_files();
    let fd = along(&mut |socket| {
        request_answer(request::LEND, [what, which[0], which[1], socket], &session().keep_doorbell)
    });
    open_files::lower_open_files(&limit);
    fd
}

/// What is about to be needed can be had; an errno if not.
pub fn could_open() -> Result<(), i64> {
    let fd = open(borrowed::NOTHING, [0; 2]);
    if kernel::failed(fd) {
        return Err(error(errno::EACCES));
    }
    close(fd);
    Ok(())
}

/// Asks for something with which a descriptor comes, over the socket that `ask` tells of.
pub fn along(ask: &mut dyn FnMut(u64) -> Option<i32>) -> i64 {
    let mut fd = receive(ask);
    if fd == error(errno::EPERM) {
        // A supervisor that is not root may not look into the process either (proc(5)).
        while_dumpable(&mut || fd = receive(ask));
    }
    fd
}

fn receive(ask: &mut dyn FnMut(u64) -> Option<i32>) -> i64 {
    let mut ends = [0i32; 2];
    let kind = SOCK_SEQPACKET | u64::from(nr::O_CLOEXEC);
    let made = kernel::call(nr::__NR_socketpair, [AF_UNIX, kind, 0, ends.as_mut_ptr() as u64, 0, 0]);
    if kernel::failed(made) {
        return made;
    }
    let answer = ask(ends[1] as u64);
    // There is room for one more then.
    close(i64::from(ends[1]));
    let fd = match answer {
        Some(0) => take_sent(ends[0]),
        Some(number) => -i64::from(number),
        None => error(errno::EPIPE),
    };
    close(i64::from(ends[0]));
    fd
}

/// The descriptor that was sent.
fn take_sent(socket: i32) -> i64 {
    const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
    const MSG_DONTWAIT: u64 = 0x40;
    /// struct cmsghdr with one descriptor: its length; SOL_SOCKET and SCM_RIGHTS.
    const RIGHTS: [u64; 2] = [20, 1 | 1 << 32];
    let mut byte = 0u8;
    let part = [&raw mut byte as u64, 1];
    let mut control = [0u64; 3];
    // struct msghdr: no name, one part, room for control data.
    let message =
        [0, 0, part.as_ptr() as u64, 1, control.as_mut_ptr() as u64, size_of_val(&control) as u64, 0];
    let flags = MSG_CMSG_CLOEXEC | MSG_DONTWAIT;
    let got = kernel::call(nr::__NR_recvmsg, [socket as u64, message.as_ptr() as u64, flags, 0, 0, 0]);
    match control {
        _ if kernel::failed(got) => got,
        [length, kind, fd] if [length, kind] == RIGHTS => i64::from(fd as i32),
        _ => error(errno::EMFILE),
    }
}

pub fn close(fd: i64) {
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
}
