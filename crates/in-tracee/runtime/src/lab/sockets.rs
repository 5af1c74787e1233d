//! Sockets of the inet families. In the kernel each is one end of a pair of Unix sockets, whose other
//! end the engine has: what a stream carries goes through the pair, and all polling is the kernel's. See
//! docs/adr/0058-what-a-socket-of-a-lab-is.md.

use core::sync::atomic::Ordering;

use lane_protocol::{lab_answer, lab_question};
use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::lab::{self, calls};
use crate::state::block::{process, session};

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_PACKET: u64 = 17;
const SOCK_STREAM: u64 = 1;
/// What stands for a socket of datagrams: among pairs of these who closes is noticed, and messages stay apart.
const SOCK_SEQPACKET: u64 = 5;
const SOCK_TYPE_MASK: u64 = 0xf;
const SOCK_FLAGS: u64 = 0o2_004_000;
const SOL_SOCKET: u64 = 1;
const SO_TYPE: u64 = 3;
const MSG_OOB: u64 = 1;
const MSG_PEEK: u64 = 2;
const MSG_DONTWAIT: u64 = 0x40;

/// What a descriptor is: the kind of file, as in st_mode, and its number.
pub fn file_of(fd: u64) -> (u32, u64) {
    const S_IFMT: u32 = 0o170_000;
    let mut stat = [0u64; 18];
    if kernel::failed(kernel::call(nr::__NR_fstat, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0])) {
        return (0, 0);
    }
    (stat[3] as u32 & S_IFMT, stat[1])
}

/// True for /dev/random and /dev/urandom.
pub fn is_chance(fd: u64) -> bool {
    const DEVICES: [u64; 2] = [1 << 8 | 8, 1 << 8 | 9];
    let mut stat = [0u64; 18];
    let known = kernel::call(nr::__NR_fstat, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
    known == 0 && DEVICES.contains(&core::hint::black_box(stat)[5])
}

/// True for a stream: its bytes go through the kernel.
pub fn is_stream(fd: u64) -> bool {
    u64::from(kernel::socket_option(fd, SOL_SOCKET, SO_TYPE)) == SOCK_STREAM
}

/// When a call on a socket gives up (SO_RCVTIMEO, SO_SNDTIMEO).
pub fn until(number: u64, fd: u64) -> u64 {
    const SO_RCVTIMEO: u64 = 20;
    const SO_SNDTIMEO: u64 = 21;
    let sends = matches!(
        number as u32,
        nr::__NR_write | nr::__NR_writev | nr::__NR_sendto | nr::__NR_sendmsg | nr::__NR_sendfile
    );
    let name = if sends { SO_SNDTIMEO } else { SO_RCVTIMEO };
    let (mut time, mut length) = ([0u64; 2], 16u32);
    let into = [time.as_mut_ptr() as u64, &raw mut length as u64];
    kernel::call(nr::__NR_getsockopt, [fd, SOL_SOCKET, name, into[0], into[1], 0]);
    match core::hint::black_box(time) {
        [0, 0] => lane_protocol::LAB_NEVER,
        [seconds, micros] => lab::clocks::now_ns() + seconds * 1_000_000_000 + micros * 1000,
    }
}

/// A pair of descriptors: the program's, and the one that the engine takes.
fn make_pair(kind: u64, flags: u64) -> Result<[u32; 2], i64> {
    let mut pair = [0u32; 2];
    let words = [AF_UNIX, kind | flags & SOCK_FLAGS, 0, pair.as_mut_ptr() as u64, 0, 0];
    match kernel::call(nr::__NR_socketpair, words) {
        0 => Ok(pair),
        error => Err(error),
    }
}

fn close(fd: u64) {
    kernel::call(nr::__NR_close, [fd, 0, 0, 0, 0, 0]);
}

/// socket(2). `None`: the kernel makes it.
pub fn open(number: u64, real: &[u64; 6]) -> Option<i64> {
    if !matches!(real[0], AF_INET | AF_INET6 | AF_PACKET) {
        return None;
    }
    let answer = ask(number, real, 0, 0, 0);
    match answer.kind {
        lab_answer::ACCEPT => {}
        lab_answer::KERNEL => return None,
        _ => return Some(answer.result),
    }
    let kind = if real[1] & SOCK_TYPE_MASK == SOCK_STREAM { SOCK_STREAM } else { SOCK_SEQPACKET };
    Some(hand_over(number, real, 0, make_pair(kind, real[1])))
}

/// The engine takes its end of a pair, and says which descriptor the program's is.
fn hand_over(number: u64, real: &[u64; 6], file: u64, pair: Result<[u32; 2], i64>) -> i64 {
    let [own, other] = match pair {
        Ok(pair) => pair,
        Err(error) => return error,
    };
    let result = ask(number, real, file, 0, u64::from(own) | u64::from(other) << 32).result;
    close(u64::from(other));
    if kernel::failed(result) {
        close(u64::from(own));
    }
    result
}

/// Asks the engine to perform a call; `pair`: descriptors that were made for it.
pub fn ask(number: u64, real: &[u64; 6], file: u64, flags: u64, pair: u64) -> lab::Answer {
    let [a, b, c, d, e, f] = *real;
    lab::ask(lab_question::CALL, &[number, a, b, c, d, e, f, file, flags, pair])
}

/// Asks the engine to perform a call that has nothing to do with sockets.
pub fn ask_engine(number: u64, real: &[u64; 6], made: u64) -> i64 {
    let answer = ask(number, real, 0, 0, made);
    match answer.kind {
        lab_answer::KERNEL => kernel::call_for_program(number, real),
        _ => answer.result,
    }
}

/// A call on a socket. `None`: it is none of the engine's.
pub fn execute(number: u64, real: &[u64; 6], file: u64) -> Option<i64> {
    let fd = real[0];
    let flags = kernel::call(nr::__NR_fcntl, [fd, u64::from(nr::F_GETFL), 0, 0, 0, 0]);
    let mut waits = flags & i64::from(nr::O_NONBLOCK) == 0;
    waits &= match number as u32 {
        nr::__NR_recvfrom | nr::__NR_sendto | nr::__NR_recvmmsg | nr::__NR_sendmmsg => {
            real[3] & MSG_DONTWAIT == 0
        }
        nr::__NR_recvmsg | nr::__NR_sendmsg => real[2] & MSG_DONTWAIT == 0,
        _ => true,
    };
    let mut attempts = 0u64;
    loop {
        let answer = ask(number, real, file, u64::from(waits), 0);
        match answer.kind {
            lab_answer::KERNEL => return None,
            lab_answer::STREAM => return Some(calls::without_sleeping(number, real, fd, answer.until_ns)),
            lab_answer::TAKE => {
                take_mark(fd);
                return Some(answer.result);
            }
            lab_answer::ACCEPT => {
                take_mark(fd);
                let flags = if number == u64::from(nr::__NR_accept4) { real[3] } else { 0 };
                return Some(hand_over(number, real, file, make_pair(SOCK_STREAM, flags)));
            }
            lab_answer::WAIT => {}
            _ => return Some(answer.result),
        }
        let until = answer.until_ns;
        let waited = lab::ask_aside(lab_question::WAIT, &[until, attempts, file, 0]);
        attempts += 1;
        if let Some(result) = lab::interrupted(until == lane_protocol::LAB_NEVER) {
            return Some(result);
        }
        if waited.kind == lab_answer::TIMEOUT {
            return Some(-i64::from(errno::EAGAIN));
        }
    }
}

/// A call that only sockets know, or one that moves bytes of any file.
fn flags_place(number: u64) -> Option<usize> {
    match number as u32 {
        nr::__NR_recvfrom | nr::__NR_sendto => Some(3),
        nr::__NR_recvmsg | nr::__NR_sendmsg => Some(2),
        _ => None,
    }
}

/// Reads of a stream, or writes to it: `None` if the call is none of these, or is not of a stream. The first attempt is all
/// that most calls need.
pub fn move_bytes(number: u64, real: &[u64; 6], is_surely_socket: bool) -> Option<i64> {
    const MSG_WAITALL: u64 = 0x100;
    let flags = flags_place(number).map_or(0, |place| real[place]);
    let (call, flags_at) = match number as u32 {
        // Of nothing read(2) and write(2) have more to say.
        nr::__NR_read if is_surely_socket && real[2] != 0 => (u64::from(nr::__NR_recvfrom), 3),
        nr::__NR_write if is_surely_socket && real[2] != 0 => (u64::from(nr::__NR_sendto), 3),
        _ => (number, flags_place(number)?),
    };
    if !is_stream(real[0]) {
        return None;
    }
    if flags & MSG_OOB != 0 {
        return Some(urgent(number, real));
    }
    if matches!(call as u32, nr::__NR_sendto | nr::__NR_sendmsg) {
        tell_more(number, real, flags);
    }
    let mut at = *real;
    if number != call {
        at[4] = 0;
        at[5] = 0;
    }
    at[flags_at] = flags | MSG_DONTWAIT;
    let is_plain = flags_at == 3;
    let sends = call == u64::from(nr::__NR_sendto);
    let takes_all = is_plain && (sends || flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0);
    let again = -i64::from(errno::EAGAIN);
    let mut moving = calls::Moving::new(at, takes_all);
    let mut attempt = || moving.attempt(&mut |at| kernel::call_for_program(call, at));
    let mut result = attempt();
    if result.is_none() && !may_wait(real[0], flags) {
        result = Some(again);
    }
    let result = result.unwrap_or_else(|| {
        let (until, file) = (until(number, real[0]), file_of(real[0]).1);
        lab::wait_for_socket(file, until, true, again, &mut attempt)
    });
    if result > 0 && !sends && process().reads.urgent != 0 {
        forget_mark(real[0]);
    }
    Some(moving.result(result))
}

fn may_wait(fd: u64, flags: u64) -> bool {
    let own = kernel::call(nr::__NR_fcntl, [fd, u64::from(nr::F_GETFL), 0, 0, 0, 0]);
    flags & MSG_DONTWAIT == 0 && own & i64::from(nr::O_NONBLOCK) == 0
}

/// Before something is sent over a stream: whether that is held for more (MSG_MORE), where anything is.
pub fn tell_more(number: u64, real: &[u64; 6], flags: u64) {
    const MSG_MORE: u64 = 0x8000;
    if flags & MSG_MORE != 0 || session().lab.held.load(Ordering::Relaxed) != 0 {
        ask(number, real, file_of(real[0]).1, 0, 0);
    }
}

/// close(2) where streams are to wait for what they have sent (SO_LINGER).
pub fn close_lingering(number: u64, real: &[u64; 6]) -> i64 {
    const S_IFSOCK: u32 = 0o140_000;
    let (kind, file) = file_of(real[0]);
    let result = kernel::call_for_program(number, real);
    if kind != S_IFSOCK || result != 0 {
        return result;
    }
    let mut attempts = 0u64;
    loop {
        let answer = ask(number, real, file, 0, 0);
        if answer.kind != lab_answer::WAIT {
            return 0;
        }
        let waited = lab::ask_aside(lab_question::WAIT, &[answer.until_ns, attempts, 0, 0]);
        attempts += 1;
        if waited.kind == lab_answer::TIMEOUT || lab::interrupted(false).is_some() {
            // It is closed already.
            return 0;
        }
    }
}

/// Urgent data: sent by the engine, received from the kernel.
fn urgent(number: u64, real: &[u64; 6]) -> i64 {
    let answer = ask(number, real, file_of(real[0]).1, 0, 0);
    let result = match answer.kind {
        lab_answer::RESULT => return answer.result,
        _ => calls::without_sleeping(number, real, real[0], until(number, real[0])),
    };
    if result > 0 && matches!(number as u32, nr::__NR_recvfrom | nr::__NR_recvmsg) {
        process().reads.urgent = 1;
        forget_mark(real[0]);
    }
    result
}

/// The kernel keeps the place of an urgent byte that was read until something behind it is read: until then a Unix socket
/// polls as readable (Linux 6.18). Where all before it was read, too, the place is taken off: by a read of nothing.
fn forget_mark(fd: u64) {
    const SIOCATMARK: u64 = 0x8905;
    const SO_OOBINLINE: u64 = 10;
    let (mut is_at_mark, mut byte) = (0u32, 0u64);
    kernel::call(nr::__NR_ioctl, [fd, SIOCATMARK, &raw mut is_at_mark as u64, 0, 0, 0]);
    if core::hint::black_box(is_at_mark) == 0 || kernel::socket_option(fd, SOL_SOCKET, SO_OOBINLINE) == 1 {
        return;
    }
    let into = &raw mut byte as u64;
    let peeked = kernel::call(nr::__NR_recvfrom, [fd, into, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT, 0, 0]);
    if kernel::failed(peeked) {
        kernel::call(nr::__NR_recvfrom, [fd, into, 0, MSG_DONTWAIT, 0, 0]);
    }
    core::hint::black_box(byte);
}

/// Takes the byte off that says that something is there.
fn take_mark(fd: u64) {
    let mut mark = [0u8; 8];
    let words = [fd, mark.as_mut_ptr() as u64, 1, MSG_DONTWAIT, 0, 0];
    kernel::call(nr::__NR_recvfrom, words);
}
