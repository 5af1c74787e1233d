//! What a branch gives back to the program: bytes that it read since, connections that
//! it accepted. They come before what the kernel has.

mod channel;
mod loading;
mod messages;
mod passing;
mod signals;

use linux_abi::{errno, general as nr};

use crate::address_space::logged_calls::log_call;
use crate::checkpoint::area::area;
pub use crate::checkpoint::kept_resources::Channel;
use crate::checkpoint::kept_resources::{Descriptor, Interest, Pushback, Pushed};
use crate::ground::kernel::{self, CLOSE_RANGE_CLOEXEC, error};
use crate::ground::memory;
use crate::ground::owned::Held;
use crate::log::effects;
use crate::state::block::process;
use crate::state::call_state::Before;
pub use channel::goes_to;
pub use loading::load;
use passing::Passing;

/// recv(2): what is received stays there.
const MSG_PEEK: u64 = 2;
/// Urgent bytes, or errors (MSG_OOB, MSG_ERRQUEUE).
const MSG_OTHER: u64 = 1 | 0x2000;
/// Where connections wait until they are accepted again.
const HIDDEN_FIRST: u64 = 512;

/// A connection that was left over from an earlier way back goes by where it waits and this,
/// as its number may be another's by now.
const HIDDEN_NUMBERS: u64 = 0x4000_0000;

const DATA: u32 = 1;
const ACCEPTED: u32 = 2;
/// A process that was made since, and killed.
const CHILD: u32 = 3;
/// The end of a connection, behind what is given back of it.
const ENDED: u32 = 4;
/// A record only: data with what came beside it.
const MESSAGE: u32 = 5;
/// A record only: a descriptor that was made since, by a call that may have been under way then.
const MADE: u32 = 6;
/// A record only: a set of epoll, the program's word for what it reported, and what. It comes
/// before all others, as the next.
const REPORTED: u32 = 7;
/// A record only: a set of epoll, and what it was asked to wait for.
const ASKED: u32 = 8;

/// Set in the number that a record has: it is input of a connection that was accepted since.
const OF_ACCEPTED: u32 = 1 << 31;

impl Pushed {
    fn is_input_of(&self, channel: Channel) -> bool {
        matches!(self.kind, DATA | ENDED) && self.channel == channel
    }
}

fn pushback() -> Held<Pushback> {
    area().part(|area| &mut area.pushback)
}

/// True if there is anything to give back.
#[inline]
pub fn is_any() -> bool {
    crate::state::live::is_on()
        && crate::checkpoint::area::lane_takes_part()
        && process().slot == 0
        && pushback().count != 0
}

/// A connection that was accepted since is moved out of sight; true if it is one.
pub fn hide(now: &Descriptor) -> bool {
    let hidden =
        |pushed: &Pushed| pushed.kind == ACCEPTED && pushed.left == HIDDEN_NUMBERS | u64::from(now.fd);
    if pushback().all.iter().any(hidden) {
        return true;
    }
    let mut pushback = pushback();
    let found =
        pushback.all.iter_mut().find(|pushed| pushed.kind == ACCEPTED && pushed.left == u64::from(now.fd));
    let Some(pushed) = found else { return false };
    let hidden = kernel::call(
        nr::__NR_fcntl,
        [u64::from(now.fd), u64::from(nr::F_DUPFD_CLOEXEC), HIDDEN_FIRST, 0, 0, 0],
    );
    if kernel::failed(hidden) {
        pushed.kind = 0;
        return false;
    }
    pushed.at = hidden as u64;
    kernel::call(nr::__NR_close, [u64::from(now.fd), 0, 0, 0, 0, 0]);
    true
}

/// The pieces that may be left.
fn pieces() -> Held<[Pushed]> {
    pushback().part(|pushback| &mut pushback.all[pushback.first..pushback.count])
}

fn data_of(fd: u64) -> Option<Held<Pushed>> {
    let channel = Channel::of(fd & 0xffff_ffff);
    let index = pieces().iter().position(|pushed| pushed.is_input_of(channel))?;
    Some(pieces().part(|pieces| &mut pieces[index]))
}

/// True if something that was read of it comes again.
pub fn has_input_of(fd: u32) -> bool {
    data_of(u64::from(fd)).is_some()
}

fn accepted_of(listener: u64) -> Option<Held<Pushed>> {
    let channel = Channel::of(listener & 0xffff_ffff);
    let is_it = |pushed: &Pushed| pushed.kind == ACCEPTED && pushed.channel == channel;
    let index = pieces().iter().position(is_it)?;
    Some(pieces().part(|pieces| &mut pieces[index]))
}

fn is_ready(fd: u64) -> bool {
    data_of(fd).is_some() || accepted_of(fd).is_some()
}

/// A call that something is given back to; its result, logged.
pub fn serve(number: u64, args: &[u64; 6]) -> Option<i64> {
    // What the call finds there is not what it leaves.
    let meaning = crate::log::effects::meaning(number, args);
    let before = match meaning.work & effects::NEEDS_BEFORE {
        0 => Before::default(),
        _ => effects::before(meaning.args, args),
    };
    let result = match number as u32 {
        nr::__NR_read => take(args[0], &[(args[1], args[2])], false)?,
        nr::__NR_recvfrom if args[3] & MSG_OTHER == 0 => {
            let peeks = args[3] & MSG_PEEK != 0;
            let head = messages::head_of(args[0]);
            let result = take(args[0], &[(args[1], args[2])], peeks)?;
            if args[4] != 0 && args[5] != 0 {
                messages::put_name(&head, args[4], args[5]);
            }
            result
        }
        nr::__NR_readv => take_vectors(args[0], args[1], args[2], false)?,
        // Where the descriptor is.
        nr::__NR_preadv2 if args[3] == u64::MAX => take_vectors(args[0], args[1], args[2], false)?,
        nr::__NR_splice | nr::__NR_tee | nr::__NR_sendfile => {
            passing::pass(number, &passing_of(number, args))?
        }
        nr::__NR_recvmsg if args[2] & MSG_OTHER == 0 => messages::receive(args[0], args[1], args[2])?,
        nr::__NR_recvmmsg if args[3] & MSG_OTHER == 0 => messages::receive_many(args)?,
        nr::__NR_accept | nr::__NR_accept4 => accept(args, number as u32 == nr::__NR_accept4)?,
        nr::__NR_poll | nr::__NR_ppoll => poll(args)?,
        nr::__NR_select | nr::__NR_pselect6 => select(args)?,
        nr::__NR_epoll_wait | nr::__NR_epoll_pwait | nr::__NR_epoll_pwait2 => epoll(args)?,
        nr::__NR_close => {
            channel::close(args[0]);
            return None;
        }
        nr::__NR_close_range if args[2] as u32 & CLOSE_RANGE_CLOEXEC == 0 => {
            channel::close_range(args[0] as u32, args[1] as u32);
            return None;
        }
        nr::__NR_dup2 | nr::__NR_dup3 if args[0] as u32 != args[1] as u32 => {
            channel::close(args[1]);
            return None;
        }
        nr::__NR_ioctl => {
            const FIONREAD: u64 = 0x541b;
            let Pushed { kind, left, .. } = *data_of(args[0])?;
            if args[1] != FIONREAD {
                return None;
            }
            let mut more = 0u32;
            if kind != ENDED {
                kernel::call(nr::__NR_ioctl, [args[0], FIONREAD, &raw mut more as u64, 0, 0, 0]);
            }
            if !memory::write(args[2], &(more + left as u32)) {
                return None;
            }
            0
        }
        _ => return None,
    };
    log_call(number, args, meaning.args, effects::work_of(meaning.args), result, &before, 0);
    Some(result)
}

/// Where a call moves what it reads.
fn passing_of(number: u64, args: &[u64; 6]) -> Passing {
    const SPLICE_F_NONBLOCK: u64 = 2;
    let [source, target, bytes] = match number as u32 {
        nr::__NR_splice => [args[0], args[2], args[4]],
        nr::__NR_tee => args[..3].try_into().expect("three arguments"),
        _ => [args[1], args[0], args[3]],
    };
    let flags = match number as u32 {
        nr::__NR_splice => args[5],
        nr::__NR_tee => args[3],
        _ => 0,
    };
    Passing {
        source,
        target,
        offset_at: if number == u64::from(nr::__NR_splice) { args[3] } else { 0 },
        bytes,
        waits: flags & SPLICE_F_NONBLOCK == 0,
        peeks: number == u64::from(nr::__NR_tee),
    }
}

/// The count is 0 once nothing is left.
fn settle() {
    let pushback = &mut *pushback();
    while pushback.first < pushback.count && pushback.all[pushback.first].kind == 0 {
        pushback.first += 1;
    }
    if pushback.first == pushback.count {
        (pushback.first, pushback.count) = (0, 0);
    }
}

fn take(fd: u64, buffers: &[(u64, u64)], peeks: bool) -> Option<i64> {
    let mut pushed = data_of(fd)?;
    if pushed.kind == ENDED {
        return Some(0);
    }
    let (mut at, mut left, mut total) = (pushed.at, pushed.left, 0);
    for &(buffer, bytes) in buffers {
        let part = bytes.min(left);
        if !memory::copy(buffer, at, part) {
            if total == 0 {
                return Some(error(errno::EFAULT));
            }
            break;
        }
        at += part;
        left -= part;
        total += part;
    }
    if !peeks {
        used(&mut pushed, total, is_stream(fd));
    }
    Some(total as i64)
}

/// So much of a piece was given back. Of a message the rest is cut (recv(2)).
fn used(pushed: &mut Pushed, bytes: u64, is_stream: bool) {
    pushed.at += bytes;
    pushed.left -= bytes;
    pushed.head = 0;
    if pushed.left == 0 || !is_stream {
        pushed.kind = 0;
        settle();
    }
}

/// True unless the descriptor keeps the bounds of messages.
fn is_stream(fd: u64) -> bool {
    const SOL_SOCKET_SO_TYPE: [u64; 2] = [1, 3];
    const SOCK_STREAM: u32 = 1;
    let (mut kind, bytes) = (SOCK_STREAM, 4u32);
    let [level, option] = SOL_SOCKET_SO_TYPE;
    let place = &raw mut kind as u64;
    kernel::call(nr::__NR_getsockopt, [fd, level, option, place, &raw const bytes as u64, 0]);
    kind == SOCK_STREAM
}

fn take_vectors(fd: u64, vectors: u64, count: u64, peeks: bool) -> Option<i64> {
    const VECTORS_MAX: usize = 64;
    data_of(fd)?;
    let mut buffers = [(0, 0); VECTORS_MAX];
    let count = (count as usize).min(VECTORS_MAX);
    for (index, buffer) in buffers[..count].iter_mut().enumerate() {
        let [base, bytes] = memory::read::<[u64; 2]>(vectors + index as u64 * 16)?;
        *buffer = (base, bytes);
    }
    take(fd, &buffers[..count], peeks)
}

fn accept(args: &[u64; 6], has_flags: bool) -> Option<i64> {
    let mut pushed = accepted_of(args[0])?;
    let flags = if has_flags { args[3] } else { 0 };
    let (hidden, was) = (pushed.at, pushed.left);
    let new = kernel::call(nr::__NR_fcntl, [hidden, u64::from(nr::F_DUPFD), 0, 0, 0, 0]);
    if kernel::failed(new) {
        return Some(new);
    }
    let set = |what: u32, value: u64| {
        kernel::call(nr::__NR_fcntl, [new as u64, u64::from(what), value, 0, 0, 0]);
    };
    set(nr::F_SETFL, flags & u64::from(nr::O_NONBLOCK));
    set(nr::F_SETFD, u64::from(flags & u64::from(nr::O_CLOEXEC) != 0));
    kernel::call(nr::__NR_close, [hidden, 0, 0, 0, 0, 0]);
    pushed.kind = 0;
    for other in pieces().iter_mut().filter(|other| other.is_input_of(Channel::awaited(was))) {
        (other.fd, other.channel) = (new as u32, Channel::of(new as u64));
    }
    settle();
    crate::address_space::descriptor_classes::forget(new as u64);
    if args[1] != 0 && args[2] != 0 {
        kernel::call(nr::__NR_getpeername, [new as u64, args[1], args[2], 0, 0, 0]);
    }
    Some(new)
}

fn poll(args: &[u64; 6]) -> Option<i64> {
    const POLLIN: u64 = 0x41;
    let (set, count) = (args[0], args[1].min(65536));
    let entry = |index: u64| memory::read::<u64>(set + index * 8);
    let wanted =
        |entry: u64| (entry >> 32) & POLLIN != 0 && (entry as i32) >= 0 && is_ready(entry & 0xffff_ffff);
    if !(0..count).any(|index| entry(index).is_some_and(wanted)) {
        return None;
    }
    let result = kernel::call(nr::__NR_poll, [set, count, 0, 0, 0, 0]);
    if kernel::failed(result) {
        return Some(result);
    }
    let mut ready = result;
    for index in 0..count {
        let Some(now) = entry(index) else { continue };
        if wanted(now) {
            ready += i64::from(now >> 48 == 0);
            memory::write(set + index * 8, &(now | ((now >> 32) & POLLIN) << 48));
        }
    }
    Some(ready)
}

fn select(args: &[u64; 6]) -> Option<i64> {
    let (count, read_set) = (args[0].min(1024), args[1]);
    if read_set == 0 {
        return None;
    }
    let words = count.div_ceil(64);
    let mut before = [0u64; 16];
    for (index, word) in before.iter_mut().enumerate().take(words as usize) {
        *word = memory::read::<u64>(read_set + index as u64 * 8)?;
    }
    let has = |set: &[u64; 16], fd: u64| set[fd as usize / 64] & 1 << (fd % 64) != 0;
    let ready = |fd: &u64| has(&before, *fd) && is_ready(*fd);
    if !(0..count).any(|fd| ready(&fd)) {
        return None;
    }
    let zero = [0u64; 2];
    let result = kernel::call(nr::__NR_select, [args[0], args[1], args[2], args[3], zero.as_ptr() as u64, 0]);
    if kernel::failed(result) {
        return Some(result);
    }
    let mut total = result;
    for fd in (0..count).filter(ready) {
        let place = read_set + fd / 64 * 8;
        let word = memory::read::<u64>(place)?;
        total += i64::from(word & 1 << (fd % 64) == 0);
        memory::write(place, &(word | 1 << (fd % 64)));
    }
    Some(total)
}

fn epoll(args: &[u64; 6]) -> Option<i64> {
    const EPOLLIN: u32 = 1;
    let (epoll, events, most) = (args[0], args[1], args[2] & 0xffff_ffff);
    let wanted = |one: &&Interest| {
        u64::from(one.epoll) == epoll as u32 as u64
            && one.events & EPOLLIN != 0
            && is_ready(u64::from(one.fd))
    };
    let mut list = Interests::of(epoll);
    list.retain(|one| wanted(&one));
    if list.count == 0 || most == 0 {
        return None;
    }
    let result = kernel::call(nr::__NR_epoll_wait, [epoll, events, most, 0, 0, 0]);
    if kernel::failed(result) {
        return Some(result);
    }
    let mut filled = result as u64;
    for one in &list.all[..list.count] {
        let reported = (0..filled).find(|index| {
            let place = events + index * 12;
            memory::read::<[u32; 2]>(place + 4)
                .is_some_and(|halves| u64::from(halves[0]) | u64::from(halves[1]) << 32 == one.data)
        });
        let place = match reported {
            Some(index) => events + index * 12,
            None if filled < most => {
                filled += 1;
                let place = events + (filled - 1) * 12;
                memory::write(place, &[0u32, one.data as u32, (one.data >> 32) as u32]);
                place
            }
            None => continue,
        };
        let before = memory::read::<u32>(place).unwrap_or(0);
        memory::write(place, &(before | EPOLLIN));
    }
    Some(filled as i64)
}

/// What a set waits for, now.
struct Interests {
    count: usize,
    all: [Interest; 256],
}

impl Interests {
    fn of(epoll: u64) -> Interests {
        let table = &mut area().tables.now;
        table.interest_count = 0;
        table.timer_count = 0;
        table.note_details(epoll as u32);
        let mut list = Interests { count: 0, all: [Interest::default(); 256] };
        for one in table.interests().iter().take(list.all.len()) {
            list.all[list.count] = *one;
            list.count += 1;
        }
        list
    }

    fn retain(&mut self, keep: impl Fn(&Interest) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            if keep(&self.all[index]) {
                self.all[kept] = self.all[index];
                kept += 1;
            }
        }
        self.count = kept;
    }
}
