//! Where the kernel writes while another thread holds the token: a buffer of the
//! runtime's, copied to the program's memory when the token is back. Otherwise the
//! kernel would race with the program, and replay could not follow.

use lane_protocol::{BOUNCE_BYTES, BOUNCE_START};
use linux_abi::general as nr;
use syscall_model::{Arg, Len, Ty};

use crate::ground::{kernel, memory};
use crate::log::effects;
use crate::state::block::thread;

/// Most vectors of a message that are followed.
const VECTORS_MAX: u64 = 1024;

/// Room that a stream leaves for the rest of a call's results, in bytes.
const STREAM_RESERVE_BYTES: u64 = 8192;

/// A call's results on their way.
pub struct Bounce {
    /// The arguments for the kernel.
    pub args: [u64; 6],
    used: u64,
}

/// Translates the arguments that the kernel writes to; `None` if the results may
/// be longer than the buffer.
pub fn begin(model: &[Arg], args: &[u64; 6], real: &[u64; 6]) -> Option<Bounce> {
    let mut bounce = Bounce { args: *real, used: 0 };
    for (index, arg) in model.iter().enumerate() {
        let address = args[index];
        // What is not the program's own pointer any more the caller replaced.
        if address == 0 || real[index] != address {
            continue;
        }
        let place = match arg.ty {
            Ty::Out(Len::RetTimes(size), _) => bounce.records(index, u64::from(size), args)?,
            Ty::Out(len @ (Len::Ret | Len::RetOrArg(_)), _) | Ty::InOut(len @ Len::RetOrArg(_), _) => {
                let count = if let Len::RetOrArg(count) = len { count as usize } else { index + 1 };
                bounce.stream(index, count, args)?
            }
            Ty::Out(len, _) => bounce.take(most(len, index, args)?)?,
            Ty::InOut(len, _) => bounce.copy_in(address, most(len, index, args)?)?,
            Ty::IovOut(count) => bounce.vectors(address, args[count as usize])?.0,
            Ty::OutSockLen(length) => {
                bounce.take(u64::from(memory::read::<u32>(args[length as usize]).unwrap_or(0)))?
            }
            Ty::MsgOut => bounce.message(address)?,
            Ty::MmsgOut(count) => {
                let fitting = messages_that_fit(address, args[count as usize])?;
                bounce.args[count as usize] = fitting;
                bounce.messages(address, fitting)?
            }
            // The kernel notes there what it has sent of each.
            Ty::MmsgIn(count) => {
                let messages = (args[count as usize] & 0xffff_ffff).min(VECTORS_MAX);
                bounce.copy_in(address, messages * 64)?
            }
            _ => continue,
        };
        bounce.args[index] = place;
    }
    Some(bounce)
}

/// How many messages there is room for, each as long as it may be; at least one.
fn messages_that_fit(address: u64, count: u64) -> Option<u64> {
    let mut used = STREAM_RESERVE_BYTES;
    let count = (count & 0xffff_ffff).min(VECTORS_MAX);
    for index in 0..count {
        let [_, name_bytes, vectors, parts, _, control_bytes, _] =
            memory::read::<[u64; 7]>(address + index * 64)?;
        used += 64
            + 56
            + (name_bytes & 0xffff_ffff)
            + control_bytes.min(BOUNCE_BYTES)
            + 16 * parts.min(VECTORS_MAX)
            + 64;
        for part in 0..parts.min(VECTORS_MAX) {
            let [_, bytes] = memory::read::<[u64; 2]>(vectors + part * 16)?;
            used = used.saturating_add(bytes).saturating_add(15);
        }
        if used > BOUNCE_BYTES {
            return Some(index.max(1));
        }
    }
    Some(count)
}

/// Most bytes that the kernel may write behind the argument of this index.
fn most(len: Len, index: usize, args: &[u64; 6]) -> Option<u64> {
    let next = args.get(index + 1).copied().unwrap_or(0);
    Some(match len {
        Len::Ret => next,
        Len::RetTimes(size) => (next & 0xffff_ffff).saturating_mul(u64::from(size)),
        Len::RetPlus(more) => next.saturating_add(u64::from(more)),
        Len::RetOrArg(arg) => args[arg as usize],
        Len::RetOrArgTimes(arg, size) => args[arg as usize].saturating_mul(u64::from(size)),
        Len::SelfSized32 | Len::Counted { .. } | Len::Text | Len::AtArg32(..) | Len::AtArg64(..) => {
            return None;
        }
        other => effects::length(other, args, 0),
    })
}

impl Bounce {
    fn take(&mut self, bytes: u64) -> Option<u64> {
        if self.used.checked_add(bytes)? > BOUNCE_BYTES {
            return None;
        }
        let place = start()? + self.used;
        self.used = (self.used + bytes + 15) & !15;
        Some(place)
    }

    /// Room for a stream's bytes: less than was asked for is as good. `None` where the
    /// kernel would find no memory to write to.
    fn stream(&mut self, index: usize, count: usize, args: &[u64; 6]) -> Option<u64> {
        let first = memory::read::<u8>(args[index]);
        if args[count] != 0 && !first.is_some_and(|byte| memory::write(args[index], &byte)) {
            return None;
        }
        let room = BOUNCE_BYTES - self.used - STREAM_RESERVE_BYTES;
        if index < count && args[count] > room {
            self.args[count] = room;
        }
        self.take(args[count].min(room))
    }

    /// Room for records, as many as the next argument says: fewer are as good.
    fn records(&mut self, index: usize, size: u64, args: &[u64; 6]) -> Option<u64> {
        let count = *args.get(index + 1)? & 0xffff_ffff;
        let room = (BOUNCE_BYTES - self.used - STREAM_RESERVE_BYTES) / size;
        if count > room && count <= i32::MAX as u64 / size {
            self.args[index + 1] = room;
        }
        self.take(count.min(room) * size)
    }

    fn copy_in(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let place = self.take(bytes)?;
        memory::copy(place, address, bytes).then_some(place)
    }

    /// An array of `struct iovec` with buffers of ours; as many bytes as there is
    /// room for. Also the bytes.
    fn vectors(&mut self, vectors: u64, count: u64) -> Option<(u64, u64)> {
        if count > VECTORS_MAX {
            return None;
        }
        let array = self.take(count * 16)?;
        let mut total = 0u64;
        for index in 0..count {
            let [_, bytes] = memory::read::<[u64; 2]>(vectors + index * 16)?;
            let part = bytes.min(BOUNCE_BYTES.saturating_sub(self.used + STREAM_RESERVE_BYTES));
            let place = self.take(part)?;
            memory::write(array + index * 16, &[place, part]);
            total += part;
        }
        Some((array, total))
    }

    fn message(&mut self, header: u64) -> Option<u64> {
        let [name, name_bytes, vectors, count, control, control_bytes, flags] =
            memory::read::<[u64; 7]>(header)?;
        let place = self.take(56)?;
        let own_name = if name != 0 { self.take(name_bytes & 0xffff_ffff)? } else { 0 };
        let own_control = if control != 0 { self.take(control_bytes)? } else { 0 };
        let (own_vectors, _) = self.vectors(vectors, count)?;
        memory::write(place, &[own_name, name_bytes, own_vectors, count, own_control, control_bytes, flags]);
        Some(place)
    }

    /// An array of `struct mmsghdr`.
    fn messages(&mut self, address: u64, count: u64) -> Option<u64> {
        let array = self.take(count * 64)?;
        for index in 0..count {
            let place = self.message(address + index * 64)?;
            memory::copy(array + index * 64, place, 56);
            memory::copy(array + index * 64 + 56, address + index * 64 + 56, 8);
        }
        Some(array)
    }

    /// Copies what the kernel wrote to where the program wants it. False where the kernel
    /// would have found no memory.
    #[must_use]
    pub fn end(&self, model: &[Arg], args: &[u64; 6], result: i64) -> bool {
        let mut is_there = true;
        for (index, arg) in model.iter().enumerate() {
            let (address, place) = (args[index], self.args[index]);
            if address == 0 || place == address || !is_ours(place) {
                continue;
            }
            match arg.ty {
                Ty::Out(len, when) | Ty::InOut(len, when) if effects::written(when, result) => {
                    is_there &= memory::copy(address, place, effects::length(len, args, result));
                }
                Ty::IovOut(count) => copy_vectors(address, args[count as usize], place, result),
                Ty::OutSockLen(length) if result >= 0 => {
                    let limit = memory::read::<u32>(args[length as usize]).unwrap_or(0);
                    let now = memory::read::<u32>(self.args[length as usize]).unwrap_or(0);
                    memory::copy(address, place, u64::from(now.min(limit)));
                }
                Ty::MsgOut if result >= 0 => copy_message(address, place, result),
                Ty::MmsgOut(_) if result > 0 => {
                    for index in 0..result as u64 {
                        let (to, from) = (address + index * 64, place + index * 64);
                        let received = memory::read::<u32>(from + 56).unwrap_or(0);
                        copy_message(to, from, i64::from(received));
                        memory::write(to + 56, &received);
                    }
                }
                Ty::MmsgIn(_) if result > 0 => {
                    for sent in (0..result as u64).map(|index| index * 64 + 56) {
                        memory::copy(address + sent, place + sent, 4);
                    }
                }
                _ => {}
            }
        }
        is_there
    }
}

fn copy_vectors(vectors: u64, count: u64, own: u64, result: i64) {
    let mut left = result.max(0) as u64;
    for index in 0..count {
        let theirs = memory::read::<[u64; 2]>(vectors + index * 16);
        let ours = memory::read::<[u64; 2]>(own + index * 16);
        let (Some([to, bytes]), Some([from, _])) = (theirs, ours) else { return };
        let part = bytes.min(left);
        memory::copy(to, from, part);
        left -= part;
        if left == 0 {
            return;
        }
    }
}

fn copy_message(header: u64, own: u64, result: i64) {
    let (Some(theirs), Some(ours)) = (memory::read::<[u64; 7]>(header), memory::read::<[u64; 7]>(own)) else {
        return;
    };
    let [name, name_limit, vectors, count, control, control_limit, _] = theirs;
    let [own_name, name_bytes, own_vectors, _, own_control, control_bytes, flags] = ours;
    memory::copy(name, own_name, (name_bytes & 0xffff_ffff).min(name_limit & 0xffff_ffff));
    memory::copy(control, own_control, control_bytes.min(control_limit));
    copy_vectors(vectors, count, own_vectors, result);
    memory::write(header + 8, &(name_bytes as u32));
    memory::write(header + 40, &control_bytes);
    memory::write(header + 48, &(flags as u32));
}

/// The calling thread's buffer; `None` if memory is short.
fn start() -> Option<u64> {
    let thread = &mut *thread();
    let start = BOUNCE_START + thread.index as u64 * BOUNCE_BYTES;
    if thread.bounce_mapped == 0 {
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        if kernel::failed(kernel::mmap(start, BOUNCE_BYTES, 3, flags, -1, 0)) {
            return None;
        }
        thread.bounce_mapped = 1;
    }
    Some(start)
}

fn is_ours(place: u64) -> bool {
    let start = BOUNCE_START + thread().index as u64 * BOUNCE_BYTES;
    (start..start + BOUNCE_BYTES).contains(&place)
}
