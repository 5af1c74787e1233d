//! What a node is told of files: numbers and times of those that come to be or change while the lab runs are
//! the lab's (`crates/engine/lab/src/files.rs`), and some files of /proc/net are.

use core::sync::atomic::Ordering;

use lane_protocol::{lab_answer, lab_question};
use linux_abi::general as nr;

use crate::ground::{kernel, memory};
use crate::lab::{self, sockets};
use crate::state::block::session;

const S_IFMT: u32 = 0o170_000;
const S_IFSOCK: u32 = 0o140_000;
const S_IFREG: u32 = 0o100_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Seconds and nanoseconds as one number.
fn time_ns(seconds: u64, nanos: u64) -> u64 {
    seconds.wrapping_mul(SECOND_NS).wrapping_add(nanos)
}

/// What is known of a file.
struct File {
    device: u64,
    inode: u64,
    mode: u32,
    bytes: u64,
    content_ns: u64,
    change_ns: u64,
}

/// What a node sees of it.
struct Seen {
    inode: u64,
    content_ns: u64,
    change_ns: u64,
    blocks: Option<u64>,
}

impl File {
    /// What a `struct stat` says, in words.
    fn of(stat: &[u64; 18]) -> File {
        File {
            device: stat[0],
            inode: stat[1],
            mode: stat[3] as u32,
            bytes: stat[6],
            content_ns: time_ns(stat[11], stat[12]),
            change_ns: time_ns(stat[13], stat[14]),
        }
    }

    /// `None`: it is as it was before the lab.
    fn seen(&self) -> Option<Seen> {
        let began_ns = session().lab.machine_began_ns.load(Ordering::Relaxed);
        let is_socket = self.mode & S_IFMT == S_IFSOCK;
        if !is_socket && self.change_ns < began_ns {
            return None;
        }
        let device = if is_socket { 0 } else { self.device };
        let words = [device, self.inode, self.content_ns, self.change_ns];
        let answer = lab::ask(lab_question::FILE, &words);
        let change_ns = lab::slot().words[0].load(Ordering::Relaxed);
        let is_old = self.content_ns < began_ns;
        // Blocks are given to a file some time after it was written.
        let blocks = (self.mode & S_IFMT == S_IFREG).then(|| self.bytes.div_ceil(4096) * 8);
        let content_ns = if is_old { self.content_ns } else { answer.until_ns };
        Some(Seen { inode: answer.result as u64, content_ns, change_ns, blocks })
    }
}

/// stat(2) and its kin.
pub fn stat(number: u64, real: &[u64; 6]) -> i64 {
    let result = kernel::call_for_program(number, real);
    if result != 0 {
        return result;
    }
    match number as u32 {
        nr::__NR_newfstatat => tell_stat(real[2]),
        nr::__NR_statx => tell_statx(real[4]),
        _ => tell_stat(real[1]),
    }
    result
}

/// A `struct stat`, in words: see <asm/stat.h>.
fn tell_stat(at: u64) {
    let Some(mut stat) = memory::read::<[u64; 18]>(at) else { return };
    if let Some(seen) = File::of(&stat).seen() {
        stat[1] = seen.inode;
        stat[8] = seen.blocks.unwrap_or(stat[8]);
        (stat[11], stat[12]) = (seen.content_ns / SECOND_NS, seen.content_ns % SECOND_NS);
        (stat[13], stat[14]) = (seen.change_ns / SECOND_NS, seen.change_ns % SECOND_NS);
    }
    // When something was read last depends on who read it on the machine.
    (stat[9], stat[10]) = (stat[11], stat[12]);
    memory::write(at, &stat);
}

/// getdents64(2): numbers of files that came to be or changed while the lab runs.
pub fn list(number: u64, real: &[u64; 6]) -> i64 {
    const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
    /// Number, place of the next one; length and type; then the name.
    const NAME_AT: u64 = 19;
    let result = kernel::call_for_program(number, real);
    let mut at = real[1];
    while result > 0 && at + NAME_AT < real[1] + result as u64 {
        let Some(length) = memory::read::<u16>(at + 16).filter(|&length| length > 0) else { break };
        let stat = [0u64; 18];
        let words = [real[0], at + NAME_AT, stat.as_ptr() as u64, AT_SYMLINK_NOFOLLOW, 0, 0];
        let known = kernel::call(nr::__NR_newfstatat, words);
        let file = File::of(&core::hint::black_box(stat));
        if known == 0
            && let Some(seen) = file.seen()
        {
            memory::write(at, &seen.inode);
        }
        at += u64::from(length);
    }
    result
}

/// A `struct statx`, in words: see <linux/stat.h>.
fn tell_statx(at: u64) {
    const ATIME: usize = 8;
    const BTIME: usize = 10;
    const CTIME: usize = 12;
    const MTIME: usize = 14;
    let Some(mut statx) = memory::read::<[u64; 32]>(at) else { return };
    let time = |statx: &[u64; 32], place: usize| time_ns(statx[place], statx[place + 1] & 0xffff_ffff);
    let file = File {
        // As makedev(3) has it, for small numbers.
        device: (statx[17] & 0xffff_ffff) << 8 | statx[17] >> 32,
        inode: statx[4],
        mode: (statx[3] >> 32) as u32 & 0xffff,
        bytes: statx[5],
        content_ns: time(&statx, MTIME),
        change_ns: time(&statx, CTIME),
    };
    let mut put = |place: usize, at_ns: u64| {
        (statx[place], statx[place + 1]) = (at_ns / SECOND_NS, at_ns % SECOND_NS);
    };
    let (mut atime_ns, mut own) = (file.content_ns, None);
    if let Some(seen) = file.seen() {
        put(MTIME, seen.content_ns);
        put(CTIME, seen.change_ns);
        // The earliest that is known.
        put(BTIME, seen.content_ns.min(seen.change_ns));
        atime_ns = seen.content_ns;
        own = Some((seen.inode, seen.blocks));
    }
    put(ATIME, atime_ns);
    if let Some((inode, blocks)) = own {
        statx[4] = inode;
        statx[6] = blocks.unwrap_or(statx[6]);
    }
    memory::write(at, &statx);
}

/// open(2) and openat(2): tables of sockets are the lab's.
pub fn open(number: u64, real: &[u64; 6]) -> i64 {
    const MFD_CLOEXEC: u64 = 1;
    const O_CLOEXEC: u64 = nr::O_CLOEXEC as u64;
    let (at, flags) =
        if number == u64::from(nr::__NR_open) { (real[0], real[1]) } else { (real[1], real[2]) };
    let mut path = [0u8; 64];
    let bytes = memory::read_text(at, &mut path).unwrap_or(0).min(path.len());
    let path = &path[..bytes];
    if !path.starts_with(b"/proc/") || !path.windows(5).any(|part| part == b"/net/") {
        return kernel::call_for_program(number, real);
    }
    let close_on_exec = if flags & O_CLOEXEC != 0 { MFD_CLOEXEC } else { 0 };
    let name = c"socket table".as_ptr() as u64;
    let fd = kernel::call(nr::__NR_memfd_create, [name, close_on_exec, 0, 0, 0, 0]);
    if kernel::failed(fd) {
        return fd;
    }
    let answer = sockets::ask(number, real, 0, 0, fd as u64 | u64::from(u32::MAX) << 32);
    if answer.kind == lab_answer::KERNEL {
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        return kernel::call_for_program(number, real);
    }
    answer.result
}
