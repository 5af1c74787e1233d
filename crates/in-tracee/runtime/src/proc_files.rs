//! Files of proc(5) that say how other threads and processes are.

use linux_abi::general as nr;

use crate::kernel;

/// The state of a thread in the text of its `stat` (proc_pid_stat(5)).
pub fn state(text: &[u8]) -> Option<u8> {
    // "tid (name) state": a name may hold anything.
    let behind_name = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    text.get(behind_name + 2).copied()
}

/// A path of /proc.
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

    pub fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }

    /// Reads the start of the file.
    pub fn read<'text>(&self, text: &'text mut [u8]) -> Option<&'text [u8]> {
        let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
        let fd = kernel::call(nr::__NR_open, [self.address(), flags, 0, 0, 0, 0]);
        if kernel::failed(fd) {
            return None;
        }
        let arguments = [fd as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0];
        let bytes = kernel::call(nr::__NR_read, arguments);
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        text.get(..usize::try_from(bytes).ok()?)
    }
}
