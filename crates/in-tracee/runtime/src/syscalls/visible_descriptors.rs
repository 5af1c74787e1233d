//! The lists of descriptors that proc(5) has (`fd`, `fdinfo`), without those of the runtime's:
//! sandboxes look there for what they forgot to close, and refuse to run over a directory.
//!
//! Lists of other processes are shown without them too, where they have them at the same
//! numbers. Deliberately absent: the size of such a directory, which counts all since
//! Linux 6.2; and getdents(2), which the C libraries do not make.

use linux_abi::general as nr;
use syscall_model::Arg;

use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::ground::proc_files::Path;
use crate::ground::registers::Registers;
use crate::log::call_event::{begin_call, replayed};
use crate::log::effects;
use crate::state::block::process;
use crate::state::call_state::{Before, Done};
use crate::syscalls::calls;
use crate::syscalls::descriptors::is_ours;

/// getdents64.
pub fn list(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    // What the kernel wrote, of which less may be shown.
    let mut written = 0;
    let result = loop {
        // Once begun it is not held back for a signal: the program's memory has changed.
        let result = match written {
            0 => calls::make(number, args, args, model, false),
            _ => kernel::call(number as u32, *args),
        };
        if result == ABORTED {
            return Done::Aborted;
        }
        written = written.max(result);
        // None that are left are not the end of the list.
        match result > 0 {
            true => match shown(args[0], args[1], result as u64) {
                0 => continue,
                bytes => break bytes as i64,
            },
            false => break result,
        }
    };
    begin_call(number, args, model.len(), result, 0);
    effects::log_written(model, args, result, &Before::default());
    let rest = result.max(0);
    if written > rest {
        process().log.memory(args[1] + rest as u64, (written - rest) as u64);
    }
    process().log.end();
    Done::Result(result)
}

/// Takes the entries of our descriptors away; the bytes that are left.
fn shown(dir: u64, start: u64, bytes: u64) -> u64 {
    let (mut at, mut end) = (start, start + bytes);
    while at < end {
        let Some(length) = memory::read::<u16>(at + LENGTH).map(u64::from).filter(|&length| length > NAME)
        else {
            break;
        };
        if descriptor(at).is_some_and(|fd| is_ours(fd) && is_same(dir, fd)) {
            // Downwards, as `copy` goes.
            memory::copy(at, at + length, end - (at + length));
            end -= length;
        } else {
            at += length;
        }
    }
    end - start
}

// struct linux_dirent64, see getdents(2).
const LENGTH: u64 = 16;
const TYPE: u64 = 18;
const NAME: u64 = 19;

/// The number that an entry names, which is no directory as those of threads are.
fn descriptor(entry: u64) -> Option<u64> {
    const DT_DIR: u8 = 4;
    let digit = |address| {
        let byte = memory::read::<u8>(address)?;
        byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
    };
    let mut number = digit(entry + NAME)?;
    if memory::read::<u8>(entry + TYPE)? == DT_DIR {
        return None;
    }
    const DIGITS_MAX: u64 = 10;
    for at in 1..=DIGITS_MAX {
        match digit(entry + NAME + at) {
            Some(digit) => number = number * 10 + digit,
            None => break,
        }
    }
    Some(number)
}

/// True if the directory belongs to a process that has, at this number, what we have there.
fn is_same(dir: u64, fd: u64) -> bool {
    let mut path = Path::new();
    path.text(b"../fd/").number(fd);
    // struct stat: device and inode come first.
    let (mut listed, mut own) = ([0u64; 18], [0u64; 18]);
    let arguments = [dir, path.address(), listed.as_mut_ptr() as u64, 0, 0, 0];
    let result = kernel::call(nr::__NR_newfstatat, arguments);
    result == 0
        && kernel::call(nr::__NR_fstat, [fd, own.as_mut_ptr() as u64, 0, 0, 0, 0]) == 0
        && listed[..2] == own[..2]
}
