//! Sets of descriptors that are waited for.

use super::super::names::bits;
use super::super::quote::put;
use super::{Fields, list};

const POLL: [(u64, &str); 11] = [
    (0x1, "POLLIN"),
    (0x2, "POLLPRI"),
    (0x4, "POLLOUT"),
    (0x8, "POLLERR"),
    (0x10, "POLLHUP"),
    (0x20, "POLLNVAL"),
    (0x40, "POLLRDNORM"),
    (0x80, "POLLRDBAND"),
    (0x100, "POLLWRNORM"),
    (0x200, "POLLWRBAND"),
    (0x2000, "POLLRDHUP"),
];
const EPOLL: [(u64, &str); 13] = [
    (0x1, "EPOLLIN"),
    (0x2, "EPOLLPRI"),
    (0x4, "EPOLLOUT"),
    (0x8, "EPOLLERR"),
    (0x10, "EPOLLHUP"),
    (0x40, "EPOLLRDNORM"),
    (0x80, "EPOLLRDBAND"),
    (0x100, "EPOLLWRNORM"),
    (0x2000, "EPOLLRDHUP"),
    (0x1000_0000, "EPOLLEXCLUSIVE"),
    (0x2000_0000, "EPOLLWAKEUP"),
    (0x4000_0000, "EPOLLONESHOT"),
    (0x8000_0000, "EPOLLET"),
];
/// Bytes of `struct pollfd`.
const POLL_BYTES: usize = 8;
/// Bytes of `struct epoll_event`, which is packed.
const EPOLL_BYTES: usize = 12;

/// An array of `struct pollfd`.
pub fn poll(out: &mut String, fields: Fields<'_>, total_bytes: u64) {
    let one = |each: Fields<'_>| {
        let (fd, asked, got) = (each.i32(0)?, each.u16(4)?, each.u16(6)?);
        let got = if got == 0 { String::new() } else { format!(", revents={}", bits(&POLL, u64::from(got))) };
        Some(format!("{{fd={fd}, events={}{got}}}", bits(&POLL, u64::from(asked))))
    };
    list(out, fields.each(POLL_BYTES).filter_map(one), total_bytes / POLL_BYTES as u64);
}

/// An array of `struct epoll_event`.
pub fn epoll(out: &mut String, fields: Fields<'_>, total_bytes: u64) {
    let one = |each: Fields<'_>| {
        let (events, data) = (each.u32(0)?, each.u64(4)?);
        Some(format!("{{events={}, data={data:#x}}}", bits(&EPOLL, u64::from(events))))
    };
    list(out, fields.each(EPOLL_BYTES).filter_map(one), total_bytes / EPOLL_BYTES as u64);
}

/// An `fd_set`.
pub fn descriptors(out: &mut String, fields: Fields<'_>) {
    let is_set = |number: &usize| fields.data[number / 8] & 1 << (number % 8) != 0;
    let set: Vec<String> =
        (0..fields.data.len() * 8).filter(is_set).map(|number| number.to_string()).collect();
    put(out, format_args!("[{}]", set.join(" ")));
}
