//! Interpreting a row of the model: which memory the kernel wrote, what text it read.

use events::Header;
use linux_abi::general::{__NR_clock_gettime, __NR_gettimeofday};
use syscall_model::{Act, Arg, Len, Row, Shape, TABLE, Ty, VariantTable, When, row};

use crate::ground::registers::Registers;
use crate::ground::{kernel, memory};
use crate::state::block::{process, session};
use crate::state::call_state::Before;
use crate::state::report;

/// How much of what a program sends is logged, to be shown and compared, in bytes.
pub const SENT_BYTES_MAX: u64 = 48;

/// What of a row's arguments needs work at all.
pub const WRITES: u8 = 1;
pub const READS_TEXT: u8 = 2;
pub const NEEDS_BEFORE: u8 = 4;
pub const SENDS: u8 = 8;
/// It may end or stop a process.
pub const SIGNALS: u8 = 16;

/// The work that each row's arguments need, found at compile time.
pub static WORK: [u8; syscall_model::NR_MAX + 1] = {
    let mut work = [0; syscall_model::NR_MAX + 1];
    let mut nr = 0;
    while nr < work.len() {
        if let Some(row) = &TABLE[nr] {
            work[nr] = work_of(row.args) | if row.signals { SIGNALS } else { 0 };
        }
        nr += 1;
    }
    work
};

/// Arguments of each row whose result is injected and whose arguments need no work: those calls
/// take the shortest way. `LONG_WAY` for all others.
pub static SHORT: [u8; syscall_model::NR_MAX + 1] = {
    let mut short = [LONG_WAY; syscall_model::NR_MAX + 1];
    let mut nr = 0;
    while nr < short.len() {
        if nr == __NR_clock_gettime as usize || nr == __NR_gettimeofday as usize {
            short[nr] = TIME;
        } else if let Some(row) = &TABLE[nr]
            && WORK[nr] == 0
            && matches!(row.act, Act::Inject)
            && !(row.moves_end || row.changes_ids || row.shadowed)
        {
            short[nr] = row.args.len() as u8;
        }
        nr += 1;
    }
    short
};

/// See [`SHORT`].
pub const LONG_WAY: u8 = 0xff;
/// In [`SHORT`]: asks for the time, with a short way of its own.
pub const TIME: u8 = 0xfe;
/// Messages of one sendmmsg(2) whose descriptors are logged.
const PASSING_MESSAGES_MAX: i64 = 16;

/// The work that these arguments need.
pub const fn work_of(args: &[Arg]) -> u8 {
    let mut work = 0;
    let mut at = 0;
    while at < args.len() {
        work |= match args[at].ty {
            Ty::Out(..) | Ty::IovOut(_) | Ty::MmsgIn(_) => WRITES,
            Ty::InOut(..) | Ty::IfConf | Ty::XattrOut => WRITES,
            Ty::OutSockLen(_) | Ty::OptionOut(_) | Ty::MsgOut | Ty::MmsgOut(_) => WRITES | NEEDS_BEFORE,
            Ty::Path | Ty::Text => READS_TEXT,
            Ty::In(_) | Ty::IovIn(_) => SENDS,
            _ => 0,
        };
        at += 1;
    }
    work
}

/// Reads the limits that the call may overwrite.
pub fn before(model: &[Arg], args: &[u64; 6]) -> Before {
    let mut before = Before::default();
    for (index, arg) in model.iter().enumerate() {
        match arg.ty {
            Ty::OutSockLen(length) | Ty::OptionOut(length) => {
                let limit = memory::read::<u32>(args[length as usize]).unwrap_or(0);
                before.limits[index] = u64::from(limit);
            }
            Ty::MsgOut => {
                if let Some(header) = memory::read::<[u64; 7]>(args[index]) {
                    before.name_limit = header[1] & 0xffff_ffff;
                    before.control_limit = header[5];
                }
            }
            _ => {}
        }
    }
    before
}

/// Logs the texts that the call read.
pub fn log_texts(model: &[Arg], args: &[u64; 6]) {
    for (index, arg) in model.iter().enumerate() {
        if matches!(arg.ty, Ty::Path | Ty::Text) && args[index] != 0 {
            process().log.text(args[index]);
        }
    }
}

/// Logs the start of what the call read from memory.
pub fn log_sent(model: &[Arg], args: &[u64; 6], result: i64) {
    for (index, arg) in model.iter().enumerate() {
        let (address, bytes) = match arg.ty {
            Ty::In(len) => (args[index], length(len, args, result.max(0))),
            Ty::IovIn(count) => match memory::read::<[u64; 2]>(args[index]) {
                Some([base, len]) if args[count as usize] > 0 => (base, len),
                _ => continue,
            },
            Ty::MsgIn => match passed_descriptors(args[index]) {
                Some(found) => found,
                None => continue,
            },
            Ty::MmsgIn(_) => {
                log_passed(args[index], result);
                continue;
            }
            _ => continue,
        };
        let bytes = bytes.min(SENT_BYTES_MAX);
        if address != 0 && bytes > 0 && !is_overwritten(model, args, result, address, bytes) {
            process().log.sent(address, bytes);
        }
    }
}

/// Logs the descriptors of so many messages that were sent; of many messages those of the first.
fn log_passed(messages: u64, count: i64) {
    for index in 0..count.clamp(0, PASSING_MESSAGES_MAX) as u64 {
        if let Some((address, bytes)) = passed_descriptors(messages.wrapping_add(index * 64)) {
            process().log.sent(address, bytes.min(SENT_BYTES_MAX));
        }
    }
}

/// Where the descriptors of a message that is sent stand, and how many bytes; `None` for one without.
fn passed_descriptors(message: u64) -> Option<(u64, u64)> {
    // struct msghdr: control data and its length behind name and vector.
    let [control, bytes] = memory::read::<[u64; 2]>(message.wrapping_add(32))?;
    // struct cmsghdr: length, level, type. SOL_SOCKET, SCM_RIGHTS.
    if control == 0 || bytes < 20 || memory::read::<[u32; 2]>(control.wrapping_add(8))? != [1, 1] {
        return None;
    }
    Some((control, bytes))
}

/// True if the kernel's answer lies where the input was, as in `nanosleep(&t, &t)`.
fn is_overwritten(model: &[Arg], args: &[u64; 6], result: i64, address: u64, bytes: u64) -> bool {
    model.iter().enumerate().any(|(index, arg)| match arg.ty {
        Ty::Out(len, when) | Ty::InOut(len, when) if args[index] != 0 && written(when, result) => {
            let end = args[index].saturating_add(written_length(len, args[index], args, result));
            args[index] < address + bytes && address < end
        }
        _ => false,
    })
}

/// Logs all memory that the kernel wrote.
pub fn log_written(model: &[Arg], args: &[u64; 6], result: i64, before: &Before) {
    log_written_by(model, args, result, before, &mut |address, bytes| {
        let bytes = readable_bytes(address, bytes, !kernel::failed(result));
        if address != 0 && bytes > 0 {
            process().log.memory(address, bytes);
        }
    });
}

/// Hands all memory that the kernel wrote to `sink`, in the order in which it wrote it.
pub fn log_written_by(
    model: &[Arg],
    args: &[u64; 6],
    result: i64,
    before: &Before,
    sink: &mut dyn FnMut(u64, u64),
) {
    if result == -i64::from(linux_abi::errno::EFAULT) {
        return each_possible(model, args, before, sink);
    }
    for (index, arg) in model.iter().enumerate() {
        let address = args[index];
        if address == 0 {
            continue;
        }
        match arg.ty {
            // An entry that did not fit into the memory that is there was begun.
            Ty::InOut(Len::RetOrArg(room), When::Positive) if arg.shape == Shape::Dirents => {
                let rest = args[room as usize] & 0xffff_ffff;
                let is_there = memory::read::<u8>(address.wrapping_add(rest).wrapping_sub(1)).is_some();
                sink(address, if is_there { result.max(0) as u64 } else { rest });
            }
            Ty::Out(len, when) | Ty::InOut(len, when) if written(when, result) => {
                sink(address, written_length(len, address, args, result));
            }
            Ty::IovOut(count) => scatter(address, args[count as usize], result, sink),
            Ty::OutSockLen(length) if result >= 0 => {
                let now = memory::read::<u32>(args[length as usize]).unwrap_or(0);
                sink(address, u64::from(now).min(before.limits[index]));
            }
            // It may have written nothing, so that the memory need not be there.
            Ty::OptionOut(_) if result >= 0 => {
                sink(address, readable_bytes(address, before.limits[index], false));
            }
            Ty::XattrOut if result > 0 => {
                if let Some([value, size]) = memory::read::<[u64; 2]>(address) {
                    sink(value, (result as u64).min(size & 0xffff_ffff));
                }
            }
            Ty::MsgOut if result >= 0 => {
                message(address, result, before.name_limit, before.control_limit, sink);
            }
            Ty::IfConf if result >= 0 => {
                sink(address, 16);
                if let Some([bytes, buffer]) = memory::read::<[u64; 2]>(address) {
                    sink(buffer, bytes & 0x7fff_ffff);
                }
            }
            Ty::MmsgOut(_) if result > 0 => messages(address, result as u64, sink),
            Ty::MmsgIn(_) if result > 0 => sink(address, result as u64 * 64),
            _ => {}
        }
    }
}

/// A call that failed at an address may have written elsewhere before, or up to there: all that it may
/// write to. What it did not write is logged as it is.
#[cold]
fn each_possible(model: &[Arg], args: &[u64; 6], before: &Before, sink: &mut dyn FnMut(u64, u64)) {
    for (index, arg) in model.iter().enumerate() {
        let address = args[index];
        if address == 0 {
            continue;
        }
        match arg.ty {
            Ty::Out(len, _) | Ty::InOut(len, _) => sink(address, most_written(len, index, model, args)),
            Ty::IovOut(count) => scatter(address, args[count as usize], i64::MAX, sink),
            Ty::OutSockLen(_) | Ty::OptionOut(_) => sink(address, before.limits[index]),
            Ty::XattrOut => {
                if let Some([value, size]) = memory::read::<[u64; 2]>(address) {
                    sink(value, size & 0xffff_ffff);
                }
            }
            Ty::MsgOut => message(address, i64::MAX, before.name_limit, before.control_limit, sink),
            Ty::IfConf => {
                if let Some([bytes, buffer]) = memory::read::<[u64; 2]>(address) {
                    sink(buffer, bytes & 0x7fff_ffff);
                }
            }
            Ty::MmsgOut(count) => {
                for message_at in
                    (0..(args[count as usize] & 0xffff_ffff).min(1024)).map(|n| address + n * 64)
                {
                    message(message_at, i64::MAX, u64::MAX, u64::MAX, sink);
                    sink(message_at + 56, 4);
                }
            }
            Ty::MmsgIn(count) => sink(address, (args[count as usize] & 0xffff_ffff).saturating_mul(64)),
            _ => {}
        }
    }
}

/// The most that a call may write behind a pointer, whatever its result.
fn most_written(len: Len, index: usize, model: &[Arg], args: &[u64; 6]) -> u64 {
    // The length of a buffer is the argument behind it, or before the last.
    let count = args[if index + 1 < model.len() { index + 1 } else { index.saturating_sub(1) }];
    match len {
        Len::Ret => count,
        Len::RetTimes(size) => count.saturating_mul(u64::from(size)),
        Len::RetPlus(more) => count.saturating_add(u64::from(more)),
        Len::RetOrArg(arg) => args[arg as usize],
        Len::RetOrArgTimes(arg, size) => args[arg as usize].saturating_mul(u64::from(size)),
        other => written_length(other, args[index], args, 0),
    }
}

/// Lengths come from the program and are not to be trusted, and a call may write less than it can:
/// as much of the range as can be read. What lies in one page is not trapped where the call
/// succeeded, as it wrote there.
pub fn readable_bytes(address: u64, bytes: u64, succeeded: bool) -> u64 {
    const TRUSTED_BYTES: u64 = 1 << 30;
    if bytes == 0 || succeeded && address % 4096 + bytes <= 4096 {
        return bytes;
    }
    if bytes < TRUSTED_BYTES && memory::read::<u8>(address.wrapping_add(bytes - 1)).is_some() {
        return bytes;
    }
    let mut there = 0;
    while there < bytes && memory::read::<u8>(address.wrapping_add(there)).is_some() {
        there += 4096 - (address + there) % 4096;
    }
    there.min(bytes)
}

pub fn written(when: When, result: i64) -> bool {
    match when {
        When::Success => !kernel::failed(result),
        When::Positive => result > 0,
        When::Interrupted => result == -i64::from(linux_abi::errno::EINTR),
        When::Always => result != -i64::from(linux_abi::errno::EFAULT),
    }
}

/// Bytes behind a pointer that the kernel wrote.
fn written_length(len: Len, address: u64, args: &[u64; 6], result: i64) -> u64 {
    match len {
        Len::SelfSized32 => u64::from(memory::read::<u32>(address).unwrap_or(0)),
        Len::Counted { header, at, each } => {
            let count = memory::read::<u32>(address + u64::from(at)).unwrap_or(0);
            u64::from(header) + u64::from(count) * u64::from(each)
        }
        Len::Text => {
            let mut text = [0u8; 256];
            memory::read_text(address, &mut text).map_or(0, |bytes| (bytes as u64 + 1).min(256))
        }
        other => length(other, args, result),
    }
}

pub fn length(len: Len, args: &[u64; 6], result: i64) -> u64 {
    let result = result.max(0) as u64;
    match len {
        Len::Fixed(bytes) => u64::from(bytes),
        Len::Arg(arg) => args[arg as usize],
        Len::ArgTimes(arg, size) => (args[arg as usize] & 0xffff_ffff).saturating_mul(u64::from(size)),
        Len::Ret => result,
        Len::RetTimes(size) => result.saturating_mul(u64::from(size)),
        Len::RetOrArg(arg) => result.min(args[arg as usize]),
        Len::RetOrArgTimes(arg, size) => result.min(args[arg as usize]).saturating_mul(u64::from(size)),
        Len::BitsOfArg(arg) => (args[arg as usize] & 0x7fff_ffff).div_ceil(64) * 8,
        Len::AtArg32(arg, size) => {
            u64::from(memory::read::<u32>(args[arg as usize]).unwrap_or(0)).saturating_mul(u64::from(size))
        }
        Len::AtArg64(arg, size) => {
            memory::read::<u64>(args[arg as usize]).unwrap_or(0).saturating_mul(u64::from(size))
        }
        Len::ArgPlus(arg, more) => args[arg as usize].saturating_add(u64::from(more)),
        Len::RetPlus(more) => result + u64::from(more),
        Len::NodeMask(arg) => args[arg as usize].saturating_sub(1).min(1 << 20).div_ceil(64) * 8,
        Len::PagesOfArg(arg) => args[arg as usize].div_ceil(4096),
        Len::SelfSized32 | Len::Counted { .. } | Len::Text => 0,
    }
}

/// Distributes `result` bytes over an array of `struct iovec`.
fn scatter(vectors: u64, count: u64, result: i64, sink: &mut dyn FnMut(u64, u64)) {
    let mut left = result.max(0) as u64;
    let mut index = 0;
    while left > 0
        && index < count
        && let Some([base, len]) = memory::read::<[u64; 2]>(vectors + index * 16)
    {
        let part = len.min(left);
        sink(base, part);
        left -= part;
        index += 1;
    }
}

/// What recvmsg wrote: name, data, control data, and the header itself.
fn message(
    header_address: u64,
    result: i64,
    name_limit: u64,
    control_limit: u64,
    sink: &mut dyn FnMut(u64, u64),
) {
    let Some(header) = memory::read::<[u64; 7]>(header_address) else {
        return;
    };
    let [name, name_bytes, vectors, count, control, control_bytes, _] = header;
    sink(name, (name_bytes & 0xffff_ffff).min(name_limit));
    scatter(vectors, count, result, sink);
    sink(control, control_bytes.min(control_limit));
    sink(header_address, 56);
}

/// What recvmmsg wrote: `count` times a message and its length.
fn messages(address: u64, count: u64, sink: &mut dyn FnMut(u64, u64)) {
    for index in 0..count {
        let at = address + index * 64;
        let received = memory::read::<u32>(at + 56).unwrap_or(0);
        message(at, i64::from(received), u64::MAX, u64::MAX, sink);
        sink(at + 56, 4);
    }
}

/// Compares what the program sends with what it sent.
pub fn check_sent(registers: &Registers, word: Header, address: u64, bytes: u64, source: u64) {
    let mut recorded = [0u8; SENT_BYTES_MAX as usize];
    let mut now = [0u8; SENT_BYTES_MAX as usize];
    let bytes = bytes.min(SENT_BYTES_MAX) as usize;
    memory::copy(recorded.as_mut_ptr() as u64, source, bytes as u64);
    memory::copy(now.as_mut_ptr() as u64, address, bytes as u64);
    // What comes from real inputs goes into what is sent.
    if recorded[..bytes] != now[..bytes] && session().is_real < 2 {
        let mut text = [0u8; 160];
        let mut len = 0;
        for part in [&b"it sent \""[..], &recorded[..bytes], b"\" then, and \"", &now[..bytes], b"\" now"] {
            for &byte in part {
                text[len] = if (0x20..0x7f).contains(&byte) { byte } else { b'.' };
                len += 1;
            }
        }
        let text = core::str::from_utf8(&text[..len]).unwrap_or("it sent something else");
        let nr = registers.rax;
        report::diverge_saying(registers, word, nr, &registers.args(), text);
    }
}

/// Calls that always change the size of a file, which the program may have mapped.
pub fn moves_end(nr: u64) -> bool {
    row(nr).is_some_and(|row| row.moves_end)
}

/// The model of a call, with variants looked up.
pub struct Meaning {
    pub args: &'static [Arg],
    pub work: u8,
    pub act: Act,
    /// It may sleep.
    pub blocks: bool,
}

/// Looks the call up.
#[inline]
pub fn meaning(nr: u64, args: &[u64; 6]) -> Meaning {
    match row(nr) {
        Some(row) => match row.act {
            Act::Variant(table) => variant(row, table, args),
            act => Meaning { args: row.args, work: WORK[nr as usize], act, blocks: row.blocks },
        },
        // Numbers that the kernel does not know answer ENOSYS and write nothing;
        // what a newer kernel added is refused alike.
        None => Meaning { act: Act::Reject("not part of the pinned ABI"), ..UNKNOWN_CALL },
    }
}

const UNKNOWN_CALL: Meaning = Meaning { args: &[], work: 0, act: Act::Inject, blocks: false };

/// The meaning of a call whose request selects it.
fn variant(row: &'static Row, table: &'static VariantTable, args: &[u64; 6]) -> Meaning {
    match table.find(args[table.selector as usize]) {
        Some(variant) => {
            let act = variant.act.resolved(table.selector, args);
            let (args, blocks) = (variant.args, variant.blocks);
            Meaning { args, work: work_of(args), act, blocks }
        }
        None => {
            let (args, act, blocks) = (row.args, table.fallback, row.blocks);
            Meaning { args, work: work_of(args), act, blocks }
        }
    }
}
