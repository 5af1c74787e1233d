//! What is to be given back after a way back: what the supervisor found in the log, and
//! behind it what was left of earlier ways back.

use linux_abi::general as nr;

use super::messages::Head;
use super::{
    ACCEPTED, ASKED, CHILD, Channel, DATA, ENDED, HIDDEN_NUMBERS, MADE, MESSAGE, OF_ACCEPTED, REPORTED,
    channel, is_stream, pushback, signals,
};
use crate::checkpoint::area::{RECORDS_BYTES_MAX, area, records_place};
use crate::checkpoint::kept_resources::{Interest, PUSHED_MAX, Pushed};
use crate::checkpoint::resources::interests;
use crate::ground::{kernel, memory};
use crate::log::borrowed;

/// A way back was gone: takes over what was read and accepted since, of which the supervisor has
/// made a file.
pub fn load(fd: i64) {
    let left_bytes = keep_left();
    let logged_bytes = crate::log::kept_files::size_of(fd as i32);
    let mapped = map_records(fd, logged_bytes, left_bytes);
    borrowed::close(fd);
    let pushback = &mut *pushback();
    if !mapped {
        pushback.count = 0;
        return;
    }
    let left = pushback.count;
    parse(logged_bytes);
    // What was read again since comes before what was not.
    pushback.all[..pushback.count].rotate_left(left);
    channel::keep_known();
    signals::drop_waiting();
}

/// What is left moves to the front, connections under numbers that nothing else has; how
/// many bytes that is.
fn keep_left() -> u64 {
    let pushback = &mut *pushback();
    let (first, end) = (pushback.first.min(pushback.count), pushback.count);
    let left = &mut pushback.all[first..end];
    for index in 0..left.len() {
        let Pushed { kind, at, left: number, .. } = left[index];
        if kind == ACCEPTED {
            let hidden = HIDDEN_NUMBERS | at;
            left.iter_mut()
                .filter(|input| input.is_input_of(Channel::awaited(number)))
                .for_each(|input| (input.fd, input.channel) = (hidden as u32, Channel::awaited(hidden)));
            left[index].left = hidden;
        }
    }
    let (mut kept, mut bytes) = (0, 0);
    for index in first..end {
        let pushed = pushback.all[index];
        if pushed.kind != 0 {
            pushback.all[kept] = pushed;
            kept += 1;
            bytes += pushed.stored_bytes();
        }
    }
    pushback.first = 0;
    pushback.count = kept;
    bytes
}

impl Pushed {
    /// Bytes of the records that it takes.
    fn stored_bytes(&self) -> u64 {
        let head_bytes = Head::at(self.head).stored_bytes();
        if self.kind == DATA { head_bytes + self.left.next_multiple_of(8) } else { 0 }
    }
}

/// Makes new records: what was logged, and what is left of the old ones. They lie among the
/// runtime's own, so that they are no mapping of the program's. False if there is no room.
fn map_records(fd: i64, logged_bytes: u64, left_bytes: u64) -> bool {
    const MAYMOVE_FIXED: u64 = 1 | 2;
    let pushback = &mut *pushback();
    let bytes = (logged_bytes.next_multiple_of(8) + left_bytes).next_multiple_of(4096);
    let old_bytes = core::mem::replace(&mut pushback.bytes, bytes);
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS;
    let mapped = match bytes {
        0 => 0,
        _ => kernel::mmap(0, bytes, nr::PROT_READ | nr::PROT_WRITE, flags, -1, 0),
    };
    let fits = !kernel::failed(mapped) && bytes <= RECORDS_BYTES_MAX;
    let mut filled = 0;
    while fits && filled < logged_bytes {
        let target = mapped as u64 + filled;
        let read = kernel::call(nr::__NR_pread64, [fd as u64, target, logged_bytes - filled, filled, 0, 0]);
        if read <= 0 {
            break;
        }
        filled += read as u64;
    }
    let mut offset = logged_bytes.next_multiple_of(8);
    if fits {
        for pushed in pushback.all[..pushback.count].iter_mut().filter(|pushed| pushed.kind == DATA) {
            let (head_bytes, bytes) = (Head::at(pushed.head).stored_bytes(), pushed.stored_bytes());
            memory::copy(mapped as u64 + offset, pushed.head, head_bytes);
            memory::copy(mapped as u64 + offset + head_bytes, pushed.at, pushed.left);
            pushed.head = if head_bytes == 0 { 0 } else { records_place() + offset };
            pushed.at = records_place() + offset + head_bytes;
            offset += bytes;
        }
    }
    if old_bytes != 0 {
        kernel::munmap(records_place(), old_bytes);
    }
    if bytes == 0 {
        return true;
    }
    let moved = match fits && filled == logged_bytes {
        true => {
            kernel::call(nr::__NR_mremap, [mapped as u64, bytes, bytes, MAYMOVE_FIXED, records_place(), 0])
        }
        false => -1,
    };
    if kernel::failed(moved) {
        if !kernel::failed(mapped) {
            kernel::munmap(mapped as u64, bytes);
        }
        pushback.bytes = 0;
        return false;
    }
    true
}

/// Adds what was logged, behind what is left.
fn parse(bytes: u64) {
    let pushback = &mut *pushback();
    let place = records_place();
    let mut offset = report_again(place, bytes);
    while offset + 16 <= bytes && pushback.count < PUSHED_MAX {
        let Some([head, number]) = memory::read::<[u64; 2]>(place + offset) else { return };
        let (kind, word) = (head as u32, (head >> 32) as u32);
        let fd = word & !OF_ACCEPTED;
        let channel = if word == fd { Channel::default() } else { Channel::awaited(u64::from(fd)) };
        offset += 16;
        let pushed = match kind {
            DATA => Pushed { kind, fd, channel, at: place + offset, left: number, ..Pushed::default() },
            MESSAGE => {
                let head = place + offset;
                let head_bytes = Head::at(head).stored_bytes().min(number);
                let (at, left) = (head + head_bytes, number - head_bytes);
                Pushed { kind: DATA, fd, channel, at, left, head }
            }
            // Messages go on behind the one that is missing.
            ENDED if !is_stream(u64::from(fd)) => continue,
            ENDED => Pushed { kind, fd, channel, ..Pushed::default() },
            ACCEPTED => {
                let (at, left) = (u64::from(fd), u64::from(fd));
                Pushed { kind, fd: number as u32, at, left, ..Pushed::default() }
            }
            MADE => {
                // That call is made again.
                area().tables.then.keep_only(&mut |one| one.fd != fd);
                continue;
            }
            CHILD => {
                // It was killed; nobody of then knows of it.
                const ANY_CHILD: u64 = 0x4000_0000;
                kernel::call(nr::__NR_wait4, [number, 0, ANY_CHILD, 0, 0, 0]);
                continue;
            }
            _ => return,
        };
        if matches!(kind, DATA | MESSAGE) {
            offset += number.next_multiple_of(8);
        }
        pushback.all[pushback.count] = pushed;
        pushback.count += 1;
    }
}

/// What sets of epoll reported, which is waited for again if a call had it that is made again.
/// Gives where other records begin.
fn report_again(place: u64, bytes: u64) -> u64 {
    const RECORD_BYTES: u64 = 24;
    let record = |at: u64| {
        let [head, number, events] = memory::read::<[u64; 3]>(place + at)?;
        Some((head as u32, (head >> 32) as u32, number, events as u32))
    };
    let then = &mut area().tables.then;
    let interests = &mut then.interests[..then.interest_count];
    let mut offset = 0;
    while offset + RECORD_BYTES <= bytes
        && let Some((kind @ (REPORTED | ASKED), epoll, data, events)) = record(offset)
    {
        let before = (0..offset).step_by(RECORD_BYTES as usize);
        let asked = |fd: u32| before.clone().any(|at| record(at) == Some((ASKED, epoll, u64::from(fd), 0)));
        if kind == REPORTED {
            interests::report_again(interests, &Interest { epoll, fd: 0, events, data }, &asked);
        }
        offset += RECORD_BYTES;
    }
    offset
}
