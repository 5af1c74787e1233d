//! What epoll sets wait for, then and now.

use linux_abi::general as nr;

use crate::checkpoint::kept_resources::{Interest, Tables};
use crate::ground::kernel;
use crate::ground::proc_files::number;

pub const EPOLLONESHOT: u32 = 1 << 30;
const EPOLLET: u32 = 1 << 31;
/// What is the set's own business: with EPOLLEXCLUSIVE, EPOLLWAKEUP.
const ABOUT_REPORTS: u32 = 0xf << 28;
/// These are reported unasked (EPOLLERR, EPOLLHUP).
const UNASKED: u32 = 8 | 0x10;

pub fn of_line(epoll: u32, line: &[u8]) -> Option<Interest> {
    let fd = number(line.strip_prefix(b"tfd:")?.trim_ascii_start())?;
    let hex = |name: &[u8]| {
        let at = line.windows(name.len()).position(|part| part == name)? + name.len();
        let text = line[at..].trim_ascii_start();
        let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit());
        Some(digits.fold(0u64, |sum, &digit| sum << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0))))
    };
    Some(Interest { epoll, fd, events: hex(b"events:")? as u32, data: hex(b"data:")? })
}

fn control_interest(what: u64, interest: &Interest) {
    let event = [interest.events, interest.data as u32, (interest.data >> 32) as u32];
    kernel::call(
        nr::__NR_epoll_ctl,
        [u64::from(interest.epoll), what, u64::from(interest.fd), event.as_ptr() as u64, 0, 0],
    );
}

impl Interest {
    /// It is reported once only, and asked for anew (EPOLLONESHOT).
    pub fn is_of_once(&self) -> bool {
        // All but the kernel's own bits is gone where it was reported.
        self.events & EPOLLONESHOT != 0
    }
}

const EPOLL_CTL_ADD: u64 = 1;
const EPOLL_CTL_DEL: u64 = 2;
const EPOLL_CTL_MOD: u64 = 3;

/// A thread that waited at the checkpoint had this report of the kernel, or has had it since: it
/// waits again. What the set was asked since, before the report, says that it was another one.
pub fn report_again(interests: &mut [Interest], report: &Interest, asked: &dyn Fn(u32) -> bool) {
    let is_it = |one: &&mut Interest| {
        one.epoll == report.epoll
            && one.data == report.data
            && one.is_of_once()
            && one.events & !(ABOUT_REPORTS | UNASKED) == 0
            && !asked(one.fd)
    };
    if let Some(one) = interests.iter_mut().find(is_it) {
        one.events |= report.events;
    }
}

/// A number may be another's by now, which is waited for in the same way.
fn is_same_now(tables: &Tables, fd: u32) -> bool {
    tables.then.find(fd).zip(tables.now.find(fd)).is_some_and(|(then, now)| then.is_same(now))
}

/// Before anything is closed: what is waited for now, and was not then.
pub fn forget(tables: &Tables) {
    for now in tables.now.interests() {
        if !tables.then.interests().contains(now) || !is_same_now(tables, now.fd) {
            control_interest(EPOLL_CTL_DEL, now);
        }
    }
}

/// What is waited for as then. Of changes (EPOLLET) one may have been reported that the program
/// knows nothing of now: what is there counts as one.
pub fn set(tables: &Tables) {
    // A set that was closed since is a new one; what was closed since is not in any.
    let stays = |fd: u32| tables.now.find(fd).is_some_and(|now| now.stays);
    for then in tables.then.interests() {
        let is_known = tables.now.interests().contains(then);
        if !is_known || !stays(then.epoll) || !stays(then.fd) {
            control_interest(EPOLL_CTL_ADD, then);
        } else if then.events & EPOLLET != 0 {
            control_interest(EPOLL_CTL_MOD, then);
        }
    }
}
