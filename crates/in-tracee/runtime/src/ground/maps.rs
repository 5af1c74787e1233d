//! The program's mappings, as /proc/thread-self/maps tells them: /proc/self is that of
//! the first thread, which may be gone.

use linux_abi::general as nr;

use crate::ground::memory::in_region;
use crate::ground::owned::Owned;
use crate::ground::{kernel, proc_dir};

const BUFFER_BYTES: usize = 16 * 1024;
static BUFFER: Owned<[u8; BUFFER_BYTES]> = Owned::new([0; BUFFER_BYTES]);

/// One mapping.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Place in the file.
    pub offset: u64,
    /// Of the file, as the list writes it: see [`device`].
    pub device: u64,
    /// 0: no file.
    pub inode: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub private: bool,
    pub is_stack: bool,
    /// The vDSO and its like.
    pub is_kernels: bool,
    /// Of a checkpoint's: the one of another process has the content.
    pub is_kept_elsewhere: bool,
}

impl Mapping {
    pub const NONE: Mapping = Mapping {
        start: 0,
        end: 0,
        offset: 0,
        device: 0,
        inode: 0,
        readable: false,
        writable: false,
        executable: false,
        private: false,
        is_stack: false,
        is_kernels: false,
        is_kept_elsewhere: false,
    };

    /// One mapping could show both: they differ in nothing but their place in one object.
    pub fn continues(&self, other: &Mapping) -> bool {
        let place = |mapping: &Mapping| mapping.offset.wrapping_sub(mapping.start);
        let rights = |mapping: &Mapping| {
            [mapping.readable, mapping.writable, mapping.executable, mapping.private, mapping.is_stack]
        };
        rights(self) == rights(other)
            && (self.device, self.inode) == (other.device, other.inode)
            && (self.inode == 0 || place(self) == place(other))
    }
}

/// Calls `each` for every mapping that is not the runtime's; false if the list
/// cannot be read to its end (no /proc here).
pub fn for_each(each: &mut dyn FnMut(&Mapping)) -> bool {
    for_each_of(c"/proc/thread-self/maps", each)
}

/// The same of the list at `path`.
pub fn for_each_of(path: &core::ffi::CStr, each: &mut dyn FnMut(&Mapping)) -> bool {
    for_each_named(path, &mut |mapping, _| each(mapping))
}

/// The same, with the files' names.
pub fn for_each_named(path: &core::ffi::CStr, each: &mut dyn FnMut(&Mapping, &[u8])) -> bool {
    let fd = proc_dir::open(path);
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
            let line = &buffer[done..done + len];
            if let Some((mapping, name)) = parse(line)
                && !in_region(mapping.start, mapping.end - mapping.start)
            {
                each(&mapping, name);
            }
            done += len + 1;
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
    };
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    complete
}

/// A device of stat(2) as lists of mappings have it.
pub fn device(stat_device: u64) -> u64 {
    let major = (stat_device >> 8 & 0xfff) | (stat_device >> 32 & !0xfff);
    let minor = (stat_device & 0xff) | (stat_device >> 12 & !0xff);
    major << 32 | (minor & 0xffff_ffff)
}

/// A device as lists of mappings have it as stat(2) does.
pub fn stat_device(device: u64) -> u64 {
    let (major, minor) = (device >> 32, device & 0xffff_ffff);
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// The addresses that a line begins with, if it does.
pub fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let (start, end, rest) = addresses(line)?;
    (rest.starts_with(b" ") && start <= end).then_some((start, end))
}

fn addresses(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    Some((start, end, rest))
}

fn parse(line: &[u8]) -> Option<(Mapping, &[u8])> {
    let (start, end, rest) = addresses(line)?;
    let rest = rest.strip_prefix(b" ")?;
    let flags = rest.get(..4)?;
    let (offset, rest) = hex(rest.get(4..)?.strip_prefix(b" ")?)?;
    let (major, rest) = hex(rest.strip_prefix(b" ")?)?;
    let (minor, rest) = hex(rest.strip_prefix(b":")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let inode = rest[..digits].iter().fold(0u64, |sum, &digit| sum * 10 + u64::from(digit - b'0'));
    let name = rest[digits..].trim_ascii_start();
    let mapping = Mapping {
        start,
        end,
        offset,
        device: major << 32 | minor,
        inode,
        readable: flags[0] == b'r',
        writable: flags[1] == b'w',
        executable: flags[2] == b'x',
        private: flags[3] == b'p',
        is_stack: name == b"[stack]",
        is_kernels: name.starts_with(b"[v"),
        is_kept_elsewhere: false,
    };
    Some((mapping, name))
}

fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let mut value = 0u64;
    for &byte in text.get(..digits)? {
        value = value << 4 | u64::from((byte as char).to_digit(16)?);
    }
    (digits > 0).then_some((value, &text[digits..]))
}

pub fn protection(mapping: &Mapping) -> u32 {
    u32::from(mapping.readable) | u32::from(mapping.writable) << 1 | u32::from(mapping.executable) << 2
}

pub const VDSO: &[u8] = b"[vdso]";
