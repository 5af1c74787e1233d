//! Replay: what a call means for streams that are real.
//!
//! The replayer found out beforehand, from the whole log, which descriptors of the program lead to such
//! streams, and added to each event what is to be done: see [`events::real`]. So nothing is decided here.
//! The descriptors that stand for the program's have numbers that a program rarely uses, and come to the
//! children of a process as its own do.
//!
//! Invariant: without the session's consent nothing is done, whatever a log says. Deliberately absent: real
//! results. A call gives what it gave; what is read must be as long as it was, and may be different.

use core::sync::atomic::Ordering;

use events::real::{self, Note, OP_WORDS, SHOWN_HEAD_WORDS};
use linux_abi::{errno, general as nr};
use syscall_model::row;

use crate::ground::{kernel, memory};
use crate::log::{effects, supervisor_died};
use crate::state::block::{process, session};
use crate::state::call_state::Before;
use crate::state::report;

/// What is read at once.
const STEP_BYTES: u64 = 2048;

/// What is to be done, as the blob has it.
struct Op {
    words: [u64; OP_WORDS],
    /// Address of its text, and the text's length with all ends.
    text: u64,
    text_bytes: u64,
}

/// The call at hand, as the log has it: the program's is the same.
#[derive(Default)]
pub struct Call {
    pub number: u64,
    pub args: [u64; 6],
    pub result: i64,
}

/// Does what a blob says, at the end of the call that the program makes.
pub fn execute(source: u64, blob_bytes: u64, call: &Call) {
    let head = (OP_WORDS * 8) as u64;
    if session().is_real == 0 || blob_bytes < head {
        report::fail("the log asks for a real stream, which nobody permitted");
    }
    let Some(words) = memory::read::<[u64; OP_WORDS]>(source) else { return };
    let op = Op { words, text: source + head, text_bytes: blob_bytes - head };
    let done = match op.words[0] {
        real::OPEN => open(&op),
        real::CONNECT => connect(&op, call),
        real::CALL => again(&op, call),
        real::WRITE => write(&op, call),
        real::SHOW => show(&op, call),
        real::READ => read(&op, call),
        real::COPY => copy(&op, call),
        real::CLOSE => kernel::call(nr::__NR_close, [op.words[2], 0, 0, 0, 0, 0]),
        real::ON_PATHS => on_paths(&op),
        real::DONE => done(op.words[2]),
        real::AWAIT => wait_for(op.words[2]),
        real::SKIP => {
            const SEEK_CUR: u64 = 1;
            kernel::call(nr::__NR_lseek, [op.words[2], call.result as u64, SEEK_CUR, 0, 0, 0])
        }
        _ => report::fail("the log asks for what nobody knows of a real stream"),
    };
    if kernel::failed(done) {
        note(&op, -done as u64, 0);
        report::stand(lane_protocol::report_kind::MISSING, -done as i32, "a stream that is real here");
    }
}

/// Gives a new descriptor the number that stands for the program's.
fn take_number(new: i64, number: u64) -> i64 {
    if kernel::failed(new) || new as u64 == number {
        return new;
    }
    let moved = kernel::call(nr::__NR_dup2, [new as u64, number, 0, 0, 0, 0]);
    kernel::call(nr::__NR_close, [new as u64, 0, 0, 0, 0, 0]);
    moved
}

/// Words: descriptor, flags, mode; text: the path.
fn open(op: &Op) -> i64 {
    let [_, _, fd, flags, mode, ..] = op.words;
    let at = i64::from(nr::AT_FDCWD) as u64;
    take_number(kernel::call(nr::__NR_openat, [at, op.text, flags, mode, 0, 0]), fd)
}

/// Words: descriptor, domain, type, protocol. The address is the text, or else the program's.
fn connect(op: &Op, call: &Call) -> i64 {
    let [_, _, fd, domain, kind, protocol, ..] = op.words;
    let taken = take_number(kernel::call(nr::__NR_socket, [domain, kind, protocol, 0, 0, 0]), fd);
    if kernel::failed(taken) {
        return taken;
    }
    let [address, bytes] = match op.text_bytes {
        0 => [call.args[1], call.args[2]],
        bytes => [op.text, bytes],
    };
    unless_interrupted(|| kernel::call(nr::__NR_connect, [fd, address, bytes, 0, 0, 0]))
}

/// The program's own call on the descriptors of here. Words: descriptor, which arguments it stands for
/// (bits), another one, which it stands for.
fn again(op: &Op, call: &Call) -> i64 {
    let [_, _, fd, mask, other, other_mask, ..] = op.words;
    let mut args = call.args;
    for (index, arg) in args.iter_mut().enumerate() {
        if mask >> index & 1 != 0 {
            *arg = fd;
        } else if other_mask >> index & 1 != 0 {
            *arg = other;
        }
    }
    unless_interrupted(|| kernel::call(call.number as u32, args))
}

fn unless_interrupted(mut make: impl FnMut() -> i64) -> i64 {
    loop {
        let result = make();
        if result != -i64::from(errno::EINTR) {
            return result;
        }
    }
}

/// Reads, or writes, as soon as that is possible.
fn when_ready(fd: u64, events: u16, mut make: impl FnMut() -> i64) -> i64 {
    loop {
        let result = unless_interrupted(&mut make);
        if result != -i64::from(errno::EAGAIN) {
            return result;
        }
        let polled = fd | u64::from(events) << 32;
        kernel::call(nr::__NR_poll, [&raw const polled as u64, 1, u64::MAX, 0, 0, 0]);
    }
}

/// Words: descriptor, place or `u64::MAX`. Writes what the program sent.
fn write(op: &Op, call: &Call) -> i64 {
    let [_, _, fd, place, ..] = op.words;
    let (mut index, mut done) = (0, 0);
    while done < call.result.max(0) as u64
        && let Some((address, len)) = sent_piece(call, index)
    {
        let part = len.min(call.result as u64 - done);
        let written = write_piece(fd, address, part, at_place(place, done));
        if kernel::failed(written) {
            return written;
        }
        done += part;
        index += 1;
    }
    0
}

/// Words: descriptor, lane, event. The program goes on when what it sent is shown: until then its memory is what it was.
fn show(op: &Op, call: &Call) -> i64 {
    let [_, _, fd, lane, event, ..] = op.words;
    let head: [u64; SHOWN_HEAD_WORDS] = [lane, event, call.result.max(0) as u64];
    let sent = write_piece(fd, head.as_ptr() as u64, size_of_val(&head) as u64, None);
    if kernel::failed(sent) {
        return sent;
    }
    const ITS_PLACE: u64 = u64::MAX;
    let op = Op { words: [op.words[0], op.words[1], fd, ITS_PLACE, 0, 0, 0, 0], ..*op };
    let sent = write(&op, call);
    if kernel::failed(sent) {
        return sent;
    }
    let mut answer = 0u8;
    read_piece(fd, &raw mut answer as u64, 1, None).min(0)
}

/// The memory that a call sent from.
fn sent_piece(call: &Call, index: usize) -> Option<(u64, u64)> {
    match call.number as u32 {
        nr::__NR_writev | nr::__NR_pwritev | nr::__NR_pwritev2 => {
            memory::vector_piece(call.args[1], call.args[2], index)
        }
        nr::__NR_sendmsg => {
            let header = memory::read::<[u64; 4]>(call.args[1])?;
            memory::vector_piece(header[2], header[3], index)
        }
        _ => (index == 0).then_some((call.args[1], call.args[2])),
    }
}

/// `place`: `None` is where the descriptor is.
fn write_piece(fd: u64, address: u64, bytes: u64, place: Option<u64>) -> i64 {
    const POLLOUT: u16 = 4;
    let mut done = 0;
    while done < bytes {
        let (at, left) = (address + done, bytes - done);
        let written = when_ready(fd, POLLOUT, || match place {
            Some(place) => kernel::call(nr::__NR_pwrite64, [fd, at, left, place + done, 0, 0]),
            None => kernel::call(nr::__NR_write, [fd, at, left, 0, 0, 0]),
        });
        if written <= 0 {
            return if written == 0 { -i64::from(errno::EIO) } else { written };
        }
        done += written as u64;
    }
    0
}

/// A place so far behind another; `None` where the descriptor has its own.
fn at_place(place: u64, done: u64) -> Option<u64> {
    (place != u64::MAX).then(|| place.wrapping_add(done))
}

fn read_piece(fd: u64, address: u64, bytes: u64, place: Option<u64>) -> i64 {
    const POLLIN: u16 = 1;
    when_ready(fd, POLLIN, || match place {
        Some(place) => kernel::call(nr::__NR_pread64, [fd, address, bytes, place, 0, 0]),
        None => kernel::call(nr::__NR_read, [fd, address, bytes, 0, 0, 0]),
    })
}

/// Words: descriptor, place or `u64::MAX`. What the log gave the program is replaced by what there is.
fn read(op: &Op, call: &Call) -> i64 {
    let [_, _, fd, place, ..] = op.words;
    let wanted = call.result.max(0) as u64;
    let mut step = [0u8; STEP_BYTES as usize];
    if wanted == 0 {
        let more = read_piece(fd, step.as_mut_ptr() as u64, 1, at_place(place, 0));
        if more > 0 {
            note(op, real::GOES_ON, 0);
        }
        return more.min(0);
    }
    let Some(row) = row(call.number) else { return 0 };
    let (mut done, mut failure) = (0, 0);
    effects::log_written_by(row.args, &call.args, call.result, &Before::default(), &mut |address, bytes| {
        let (start, bytes) = (done, bytes.min(wanted - done));
        while failure == 0 && done < start + bytes {
            let left = (start + bytes - done).min(STEP_BYTES);
            let got = read_piece(fd, step.as_mut_ptr() as u64, left, at_place(place, done));
            if got <= 0 {
                failure = if got == 0 { -i64::from(errno::ENODATA) } else { got };
                return;
            }
            put(op, address + (done - start), &step[..(got as usize).min(STEP_BYTES as usize)], done);
            done += got as u64;
        }
    });
    failure
}

/// Gives the program what was read, and notes where that is something else than it was.
fn put(op: &Op, address: u64, read: &[u8], offset: u64) {
    let mut recorded = [0u8; STEP_BYTES as usize];
    let recorded = &mut recorded[..read.len()];
    memory::copy(recorded.as_mut_ptr() as u64, address, read.len() as u64);
    if let Some(index) = read.iter().zip(recorded.iter()).position(|(now, then)| now != then) {
        note(op, real::DIFFERS, offset + index as u64);
        memory::copy(address, read.as_ptr() as u64, read.len() as u64);
    }
}

/// What the kernel moved from one descriptor to another. Words: to, place; from, place (or `u64::MAX`).
fn copy(op: &Op, call: &Call) -> i64 {
    let [_, _, to, to_place, from, from_place, ..] = op.words;
    let mut step = [0u8; STEP_BYTES as usize];
    let (wanted, mut done) = (call.result.max(0) as u64, 0);
    while done < wanted {
        let left = (wanted - done).min(STEP_BYTES);
        let got = read_piece(from, step.as_mut_ptr() as u64, left, at_place(from_place, done));
        if got <= 0 {
            return if got == 0 { -i64::from(errno::ENODATA) } else { got };
        }
        let written = write_piece(to, step.as_ptr() as u64, got as u64, at_place(to_place, done));
        if kernel::failed(written) {
            return written;
        }
        done += got as u64;
    }
    0
}

/// A call on names. Words: its number, five arguments, of which [`real::FIRST_PATH`] and
/// [`real::SECOND_PATH`] stand for the texts.
fn on_paths(op: &Op) -> i64 {
    let [_, _, number, args @ ..] = op.words;
    let first_bytes = (0..op.text_bytes)
        .find(|&at| memory::read::<u8>(op.text + at) == Some(0))
        .map_or(op.text_bytes, |end| end + 1);
    let args = args.map(|arg| match arg {
        real::FIRST_PATH => op.text,
        real::SECOND_PATH => op.text + first_bytes,
        other => other,
    });
    kernel::call(number as u32, [args[0], args[1], args[2], args[3], args[4], 0])
}

/// This lane has done all.
fn done(lane: u64) -> i64 {
    let session = session();
    if let Some(word) = session.real_done.get(lane as usize / 64) {
        word.fetch_or(1 << (lane % 64), Ordering::AcqRel);
        session.real_wake.fetch_add(1, Ordering::AcqRel);
        kernel::futex_wake(&session.real_wake);
    }
    0
}

/// What the program does behind its wait for a process follows what that one did.
fn wait_for(lane: u64) -> i64 {
    let session = session();
    let Some(word) = session.real_done.get(lane as usize / 64) else { return 0 };
    loop {
        let seen = session.real_wake.load(Ordering::Acquire);
        if word.load(Ordering::Acquire) >> (lane % 64) & 1 != 0 {
            return 0;
        }
        kernel::futex_wait(&session.real_wake, seen, 100);
        if supervisor_died() {
            kernel::exit_group(255);
        }
    }
}

/// Tells the replayer, in a file of the session's private folder.
#[cold]
fn note(op: &Op, what: u64, offset: u64) {
    const NAME: &[u8] = b"/real\0";
    let session = session();
    let mut path = [0u8; 1024];
    let dir = (session.objects_dir_bytes as usize).min(path.len() - NAME.len());
    path[..dir].copy_from_slice(&session.objects_dir[..dir]);
    path[dir..dir + NAME.len()].copy_from_slice(NAME);
    let (at, flags) =
        (i64::from(nr::AT_FDCWD) as u64, nr::O_WRONLY | nr::O_CREAT | nr::O_APPEND | nr::O_CLOEXEC);
    let fd = kernel::call(nr::__NR_openat, [at, path.as_ptr() as u64, u64::from(flags), 0o600, 0, 0]);
    if kernel::failed(fd) {
        return;
    }
    let words = Note {
        stream: op.words[1],
        what,
        offset,
        lane: u64::from(process().lane),
        event: process().log.events,
    }
    .to_words();
    kernel::write_all(fd as i32, words.as_ptr() as u64, size_of_val(&words) as u64);
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
}
