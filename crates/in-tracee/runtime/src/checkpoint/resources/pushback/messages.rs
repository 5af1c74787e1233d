//! What came beside bytes that are given back: the address of who sent them, control data but
//! for descriptors, flags. In the records it stands before them: two lengths and the flags, then
//! address and control data, each padded to eight bytes.

use super::{MSG_PEEK, data_of, is_stream, take_vectors};
use crate::ground::memory;

const MSG_CTRUNC: u32 = 8;
const MSG_TRUNC: u32 = 0x20;
const FIXED_BYTES: u64 = 16;
/// struct mmsghdr of recvmmsg(2).
const MESSAGE_BYTES: u64 = 64;

#[derive(Clone, Copy, Default)]
pub struct Head {
    place: u64,
    name_bytes: u32,
    control_bytes: u32,
    flags: u32,
}

impl Head {
    /// What stands at a place of the records; 0: nothing.
    pub fn at(place: u64) -> Head {
        if place == 0 {
            return Head::default();
        }
        let [name_bytes, control_bytes, flags, _] = memory::read::<[u32; 4]>(place).unwrap_or_default();
        Head { place, name_bytes, control_bytes, flags }
    }

    pub fn stored_bytes(&self) -> u64 {
        match self.place {
            0 => 0,
            _ => self.control() - self.place + u64::from(self.control_bytes).next_multiple_of(8),
        }
    }

    fn name(&self) -> u64 {
        self.place + FIXED_BYTES
    }

    fn control(&self) -> u64 {
        self.name() + u64::from(self.name_bytes).next_multiple_of(8)
    }
}

pub fn head_of(fd: u64) -> Head {
    data_of(fd).map_or(Head::default(), |pushed| Head::at(pushed.head))
}

/// As much of the address as there is room for, and how long it is (recvfrom(2)).
pub fn put_name(head: &Head, to: u64, length_at: u64) {
    let room = memory::read::<u32>(length_at).unwrap_or(0);
    memory::copy(to, head.name(), u64::from(head.name_bytes.min(room)));
    memory::write(length_at, &head.name_bytes);
}

/// recvmsg(2) of what is given back.
pub fn receive(fd: u64, header: u64, flags: u64) -> Option<i64> {
    let [name, _, vectors, count, control, control_room, _] = memory::read::<[u64; 7]>(header)?;
    let pushed = data_of(fd)?;
    let (head, length) = (Head::at(pushed.head), pushed.left as i64);
    let result = take_vectors(fd, vectors, count, flags & MSG_PEEK != 0)?;
    if result < 0 {
        return Some(result);
    }
    // One that was cut then has lost the rest.
    let mut said = head.flags & !MSG_CTRUNC;
    if result < length && !is_stream(fd) {
        said |= MSG_TRUNC;
    }
    if name != 0 && head.name_bytes != 0 {
        put_name(&head, name, header + 8);
    } else {
        memory::write(header + 8, &0u32);
    }
    let room = if control == 0 { 0 } else { control_room };
    let mut given = u64::from(head.control_bytes);
    if given > room {
        // None of them is cut.
        (given, said) = (0, said | MSG_CTRUNC);
    }
    memory::copy(control, head.control(), given);
    memory::write(header + 40, &given);
    memory::write(header + 48, &said);
    Some(result)
}

/// recvmmsg(2): as many as there are.
pub fn receive_many(args: &[u64; 6]) -> Option<i64> {
    let [fd, messages, most, flags, ..] = *args;
    let mut count = 0;
    while count < (most & 0xffff_ffff).min(1024) {
        let place = messages + count * MESSAGE_BYTES;
        match receive(fd, place, flags) {
            Some(bytes) if bytes >= 0 => {
                memory::write(place + 56, &(bytes as u32));
                count += 1;
            }
            Some(error) if count == 0 => return Some(error),
            _ => break,
        }
        if flags & MSG_PEEK != 0 {
            break;
        }
    }
    (count != 0).then_some(count as i64)
}
