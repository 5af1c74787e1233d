//! The program's mappings, as /proc/thread-self/maps tells them: /proc/self is that of
//! the first thread, which may be gone.

use linux_abi::general as nr;

use crate::block::Owned;
use crate::kernel;
use crate::log::in_region;

const BUFFER_BYTES: usize = 16 * 1024;
static BUFFER: Owned<[u8; BUFFER_BYTES]> = Owned::new([0; BUFFER_BYTES]);

/// One mapping.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub private: bool,
    pub is_stack: bool,
}

/// Calls `each` for every mapping that is not the runtime's; false if the list
/// cannot be read to its end (no /proc here).
pub fn for_each(each: &mut dyn FnMut(&Mapping)) -> bool {
    let path = c"/proc/thread-self/maps";
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
    let fd = kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0, 0, 0, 0]);
    if kernel::failed(fd) {
        return false;
    }
    // SAFETY: one thread runs, and `for_each` is not entered again by `each`.
    let buffer = unsafe { &mut *BUFFER.get() };
    let mut filled = 0;
    let complete = loop {
        let space = (BUFFER_BYTES - filled) as u64;
        let target = buffer[filled..].as_mut_ptr() as u64;
        let read = kernel::call(nr::__NR_read, [fd as u64, target, space, 0, 0, 0]);
        if read <= 0 {
            break read == 0 && filled == 0;
        }
        filled += read as usize;
        let mut done = 0;
        while let Some(len) = buffer[done..filled].iter().position(|&byte| byte == b'\n') {
            if let Some(mapping) = parse(&buffer[done..done + len])
                && !in_region(mapping.start, mapping.end - mapping.start)
            {
                each(&mapping);
            }
            done += len + 1;
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
    };
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    complete
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    let flags = rest.strip_prefix(b" ")?.get(..4)?;
    Some(Mapping {
        start,
        end,
        readable: flags[0] == b'r',
        writable: flags[1] == b'w',
        private: flags[3] == b'p',
        is_stack: line.ends_with(b"[stack]"),
    })
}

fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let mut value = 0u64;
    for &byte in text.get(..digits)? {
        value = value << 4 | u64::from((byte as char).to_digit(16)?);
    }
    (digits > 0).then_some((value, &text[digits..]))
}
