//! Files of proc(5): what they say of other threads and processes, and those that the
//! program opens and that show, or change, what the runtime has to do with.

use core::ffi::CStr;

use linux_abi::general as nr;

use crate::ground::{kernel, notices};

/// True for a file of procfs.
pub fn is_in_proc(fd: u64) -> bool {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    let mut statfs = [0u64; 15];
    let result = kernel::call(nr::__NR_fstatfs, [fd, statfs.as_mut_ptr() as u64, 0, 0, 0, 0]);
    result == 0 && statfs[0] == PROC_SUPER_MAGIC
}

/// The state of a thread in the text of its `stat` (proc_pid_stat(5)).
pub fn state(text: &[u8]) -> Option<u8> {
    // "tid (name) state": a name may hold anything.
    let behind_name = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    text.get(behind_name + 2).copied()
}

/// A number in the text of a `stat` (proc_pid_stat(5)), by its field there, from 4 on; 0 if it is not
/// told.
pub fn stat_number(text: &[u8], field: usize) -> u64 {
    let Some(name_end) = text.iter().rposition(|&byte| byte == b')') else { return 0 };
    // The name is the second field; a space follows it.
    let mut fields = text[name_end + 1..].split(|&byte| byte == b' ').skip(1);
    let digits = fields.nth(field - 3).unwrap_or_default().iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0u64, |sum, &digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// Each line of what the kernel tells of a descriptor (its fdinfo).
pub fn each_line(of: u32, act: &mut dyn FnMut(&[u8])) {
    let mut path = Path::new();
    let fd = path.text(b"/proc/thread-self/fdinfo/").number(u64::from(of)).open();
    if kernel::failed(fd) {
        return;
    }
    let mut text = [0u8; 4096];
    let mut filled = 0;
    loop {
        let room = (text.len() - filled) as u64;
        let target = text[filled..].as_mut_ptr() as u64;
        let read = kernel::call(nr::__NR_read, [fd as u64, target, room, 0, 0, 0]);
        if read <= 0 {
            break;
        }
        filled += read as usize;
        let mut done = 0;
        while let Some(length) = text[done..filled].iter().position(|&byte| byte == b'\n') {
            act(&text[done..done + length]);
            done += length + 1;
        }
        text.copy_within(done..filled, 0);
        filled -= done;
    }
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
}

pub fn number(name: &[u8]) -> Option<u32> {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| name[..digits].iter().fold(0, |sum, &digit| sum * 10 + u32::from(digit - b'0')))
}

/// The process that a pidfd is of, as its fdinfo tells; `None` if that has ended, or it is none.
pub fn process_of(pidfd: u64) -> Option<i32> {
    let mut found = None;
    each_line(pidfd as u32, &mut |line| {
        if let Some(value) = line.strip_prefix(b"Pid:\t") {
            found = number(value);
        }
    });
    found.and_then(|pid| i32::try_from(pid).ok())
}

/// A path of /proc.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; 64],
    length: usize,
}

impl Path {
    pub fn new() -> Path {
        Path { bytes: [0; 64], length: 0 }
    }

    /// Appends as much as fits, with a zero behind it.
    pub fn text(&mut self, text: &[u8]) -> &mut Path {
        for &byte in text {
            if self.length + 1 < self.bytes.len() {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        self
    }

    pub fn number(&mut self, number: u64) -> &mut Path {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8])
    }

    /// What the link names, as far as it fits; nothing if it is none.
    pub fn target<'a>(&self, room: &'a mut [u8; 64]) -> &'a [u8] {
        let place = [self.address(), room.as_mut_ptr() as u64, room.len() as u64, 0, 0, 0];
        let bytes = kernel::call(nr::__NR_readlink, place);
        room.get(..bytes.max(0) as usize).unwrap_or_default()
    }

    pub fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }

    pub fn as_text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Opens the file, for reading.
    pub fn open(&self) -> i64 {
        notices::open_of_proc(self.as_text(), 0)
    }

    /// Reads the start of the file.
    pub fn read<'text>(&self, text: &'text mut [u8]) -> Option<&'text [u8]> {
        let fd = self.open();
        if kernel::failed(fd) {
            return None;
        }
        let arguments = [fd as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0];
        let bytes = kernel::call(nr::__NR_read, arguments);
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        text.get(..usize::try_from(bytes).ok()?)
    }
}
