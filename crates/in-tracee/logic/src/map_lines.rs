//! Lines of /proc/PID/maps (proc_pid_maps(5)).

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

    /// The mapping that a line tells of, without what ends the line, and the name of what is mapped.
    pub fn of_line(line: &[u8]) -> Option<(Mapping, &[u8])> {
        let (start, end, rest) = addresses(line)?;
        let rest = rest.strip_prefix(b" ")?;
        let flags = rest.get(..4)?;
        let (offset, rest) = hex(rest.get(4..)?.strip_prefix(b" ")?)?;
        let (major, rest) = hex(rest.strip_prefix(b" ")?)?;
        let (minor, rest) = hex(rest.strip_prefix(b":")?)?;
        let rest = rest.strip_prefix(b" ")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let inode = rest[..digits]
            .iter()
            .fold(0u64, |sum, &digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
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
