//! What a descriptor reads from, whatever its number: copies of a descriptor share their input.

use linux_abi::general as nr;

use super::{ACCEPTED, DATA, ENDED, data_of, pieces, pushback, settle};
use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::{Channel, Descriptor, Pushed, Stood};
use crate::checkpoint::restore::placeholders;
use crate::ground::kernel;

/// What has no inode of its own (eventfd(2)) goes by its number.
const BY_NUMBER: u64 = u64::MAX;
/// A connection that is to be accepted again goes by the number that it had.
const AWAITED: u64 = u64::MAX - 1;

impl Channel {
    /// `mode`: `st_mode` of stat(2).
    pub fn new(fd: u32, mode: u64, device: u64, inode: u64) -> Channel {
        const TYPE: u64 = 0o170000;
        if mode & TYPE == 0 { Channel([BY_NUMBER, u64::from(fd)]) } else { Channel([device, inode]) }
    }

    pub fn of(fd: u64) -> Channel {
        let mut stat = [0u64; 18];
        // What is not open has no mode.
        kernel::call(nr::__NR_fstat, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
        Channel::new(fd as u32, stat[3] & 0xffff_ffff, stat[0], stat[1])
    }

    /// Of a connection that had this number.
    pub fn awaited(number: u64) -> Channel {
        Channel([AWAITED, number])
    }

    fn is_awaited(self) -> bool {
        self.0[0] == AWAITED
    }

    /// It was not found out yet.
    fn is_unknown(self) -> bool {
        self == Channel::default()
    }
}

/// True if a descriptor of a table reads from it; `fd`: probably this one.
fn is_in(table: &crate::checkpoint::kept_resources::Table, channel: Channel, fd: u32) -> bool {
    let is_it = |one: &Descriptor| one.channel() == channel;
    table.find(fd).is_some_and(is_it) || table.all().iter().any(is_it)
}

/// Finds out what the pieces of a way back are of, and drops the input of what was not open then,
/// or is not any more, but for connections that come again.
pub fn keep_known() {
    let pushback = &mut *pushback();
    let tables = &area().tables;
    for index in 0..pushback.count {
        let Pushed { kind, fd, at, mut channel, .. } = pushback.all[index];
        let known = tables.then.find(fd).filter(|then| !then.is_seekable());
        if let (true, Some(then)) = (channel.is_unknown(), known) {
            channel = then.channel();
        }
        if !is_in(&tables.then, channel, fd)
            && let Some(stood) = pushback.stood.iter().find(|stood| stood.by == channel)
        {
            channel = stood.of;
        }
        let is_there = !channel.is_unknown()
            && !channel.is_awaited()
            && is_in(&tables.then, channel, fd)
            && (is_in(&tables.now, channel, fd) || placeholders::comes(tables, channel));
        // Left of one that was accepted again.
        let is_left = tables.now.find(fd).is_some_and(|now| now.channel() == channel);
        let comes_again = || {
            pushback.all[..pushback.count].iter().any(|one| one.kind == ACCEPTED && one.left == u64::from(fd))
        };
        let stays = match kind {
            DATA | ENDED if is_there => true,
            DATA | ENDED if (channel.is_awaited() || is_left) && comes_again() => {
                channel = Channel::awaited(u64::from(fd));
                true
            }
            DATA | ENDED => false,
            ACCEPTED if !is_there => {
                // Nobody listens there any more.
                kernel::call(nr::__NR_close, [at, 0, 0, 0, 0, 0]);
                false
            }
            _ => true,
        };
        let piece = &mut pushback.all[index];
        (piece.kind, piece.channel) = (if stays { kind } else { 0 }, channel);
    }
    settle();
}

/// A descriptor stands for it now. What is left of its input goes there; the next way back must
/// know whose it is.
pub fn goes_to(of: Channel, fd: u64) {
    let by = Channel::of(fd);
    pieces().iter_mut().filter(|one| one.channel == of).for_each(|one| one.channel = by);
    if of != by {
        let stood = &mut pushback().stood;
        stood.rotate_right(1);
        stood[0] = Stood { of, by };
    }
}

/// The program closes descriptors: what nobody reads any more is dropped.
pub fn close_range(first: u32, last: u32) {
    let closed = first..=last;
    let now = &mut area().tables.now;
    now.fill();
    for index in 0..pieces().len() {
        let Pushed { kind, at, channel, .. } = pieces()[index];
        let reads = |one: &&Descriptor| one.channel() == channel;
        let mut readers = now.all().iter().filter(reads).peekable();
        if channel.is_awaited() || readers.peek().is_none() || readers.any(|one| !closed.contains(&one.fd)) {
            continue;
        }
        if kind == ACCEPTED {
            kernel::call(nr::__NR_close, [at, 0, 0, 0, 0, 0]);
        }
        pieces()[index].kind = 0;
    }
    settle();
}

/// One of them.
pub fn close(fd: u64) {
    if data_of(fd).is_some() || super::accepted_of(fd).is_some() {
        close_range(fd as u32, fd as u32);
    }
}
