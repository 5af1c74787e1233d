//! What a node is told of files: numbers and times of those that come to be or change while the lab runs are
//! the lab's (`crates/engine/lab/src/files.rs`), and some files of /proc are.
//!
//! Of each change by a call the engine is told when it was, by the lab's clock, with the thread's next question. The kernel's
//! times are the machine's, and are coarser than what happens in a lab meanwhile. Deliberately absent: what is
//! stored to memory that is a file's. Such a change has the time at which the file was looked at next.

use core::sync::atomic::Ordering;

use lane_protocol::lab_change::{CONTENT, CREATED, DATED};
use lane_protocol::{LAB_CHANGES, LAB_PROCESS_FILES, lab_answer, lab_clock, lab_question};
use linux_abi::general as nr;
use runtime_logic::map_lines;

use crate::ground::proc_files::is_in_proc;
use crate::ground::{kernel, memory};
use crate::lab::{self, fifos, sockets};
use crate::state::block::session;
use crate::state::in_lab;

const S_IFMT: u32 = 0o170_000;
const S_IFSOCK: u32 = 0o140_000;
const S_IFREG: u32 = 0o100_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Seconds and nanoseconds as one number.
fn time_ns(seconds: u64, nanos: u64) -> u64 {
    seconds.wrapping_mul(SECOND_NS).wrapping_add(nanos)
}

/// See [`lane_protocol::Lab::below_layer`].
fn below_layer(device: u64) -> u64 {
    session().lab.below_layer(device)
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
        let device = if is_socket { 0 } else { below_layer(self.device) };
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
    // What is not asked for may not be told, and the times say whether there is anything to tell.
    const STATX_BASIC_STATS: u64 = 0x7ff;
    let mut real = *real;
    if number == u64::from(nr::__NR_statx) {
        real[3] |= STATX_BASIC_STATS;
    }
    let result = kernel::call_for_program(number, &real);
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
    let device = stat[0];
    if let Some(seen) = File::of(&stat).seen() {
        stat[1] = seen.inode;
        stat[8] = seen.blocks.unwrap_or(stat[8]);
        (stat[11], stat[12]) = (seen.content_ns / SECOND_NS, seen.content_ns % SECOND_NS);
        (stat[13], stat[14]) = (seen.change_ns / SECOND_NS, seen.change_ns % SECOND_NS);
    }
    // When something was read last depends on who read it on the machine.
    (stat[9], stat[10]) = (stat[11], stat[12]);
    stat[0] = below_layer(device);
    memory::write(at, &stat);
}

/// statfs(2) and fstatfs(2): half of a file system is free, as what others on the machine leave changes by the second.
pub fn file_system(number: u64, real: &[u64; 6]) -> i64 {
    const BLOCKS: usize = 2;
    const FREE: [usize; 2] = [3, 4];
    const FILES: usize = 5;
    const FREE_FILES: usize = 6;
    const ID: usize = 7;
    let result = kernel::call_for_program(number, real);
    // A `struct statfs`, in words: see <asm-generic/statfs.h>.
    if let Some(mut told) = memory::read::<[u64; 15]>(real[1]).filter(|_| result == 0) {
        for free in FREE {
            told[free] = told[BLOCKS] / 2;
        }
        told[FREE_FILES] = told[FILES] / 2;
        told[ID] = 0;
        memory::write(real[1], &told);
    }
    result
}

/// getdents64(2): numbers of files that came to be or changed while the lab runs. The directory above the lowest
/// of a layer is one of the machine's, of each run another: it has the number that stat(2) tells.
pub fn list(number: u64, real: &[u64; 6]) -> i64 {
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
        if known == 0 {
            let is_above = memory::read::<[u8; 3]>(at + NAME_AT) == Some(*b"..\0");
            let seen = file.seen().map(|seen| seen.inode);
            if let Some(inode) = seen.or(is_above.then_some(file.inode)) {
                memory::write(at, &inode);
            }
        }
        at += u64::from(length);
    }
    result
}

/// As makedev(3) has it, of the major and the minor number in a word.
fn device_of_statx(word: u64) -> u64 {
    map_lines::stat_device(word.rotate_left(32))
}

/// A `struct statx`, in words: see <linux/stat.h>.
fn tell_statx(at: u64) {
    const ATIME: usize = 8;
    const BTIME: usize = 10;
    const CTIME: usize = 12;
    const MTIME: usize = 14;
    let Some(mut statx) = memory::read::<[u64; 32]>(at) else { return };
    let device = statx[17];
    let time = |statx: &[u64; 32], place: usize| time_ns(statx[place], statx[place + 1] & 0xffff_ffff);
    let file = File {
        device: device_of_statx(device),
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
    let below = below_layer(device_of_statx(device));
    // As gnu_dev_major(3) and gnu_dev_minor(3) have it.
    let (major, minor) =
        (below >> 8 & 0xfff | below >> 32 & 0xffff_f000, below & 0xff | below >> 12 & 0xffff_ff00);
    statx[17] = major | minor << 32;
    memory::write(at, &statx);
}

/// Files that the engine may have others for (`crates/engine/lab/src/proc_files.rs` and `net_tables.rs` there).
fn may_be_labs(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let is_told = LAB_PROCESS_FILES.iter().any(|told| told.as_bytes() == name)
        || matches!(name, b"vmstat" | b"meminfo" | b"loadavg" | b"uptime");
    let has = |part: &[u8]| path.windows(part.len()).any(|found| found == part);
    match path {
        path if path.starts_with(b"/proc/") => {
            has(b"/net/") || has(b"/pressure/") || has(b"/kernel/random/") || is_told
        }
        path if path.starts_with(b"/sys/fs/cgroup/") => {
            matches!(name, b"memory.current" | b"memory.peak") || name.ends_with(b".stat")
        }
        _ => false,
    }
}

/// A file of a process by a directory of /proc that is open, as programs do that look at many.
fn is_below_proc(number: u64, args: &[u64; 6], path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    number as u32 == nr::__NR_openat
        && !path.starts_with(b"/")
        && args[0] != AT_FDCWD
        && LAB_PROCESS_FILES.iter().any(|told| told.as_bytes() == name)
        && is_in_proc(args[0])
}

/// True for a list of mappings that the lab has in place of the kernel's.
pub fn is_list_of_maps(number: u64, args: &[u64; 6], path: &[u8]) -> bool {
    in_lab::is_on() && (path.starts_with(b"/proc/") || is_below_proc(number, args, path))
}

/// open(2) and openat(2): tables of sockets, and what tells of memory and load, are the lab's.
pub fn open(number: u64, real: &[u64; 6]) -> i64 {
    const MFD_CLOEXEC: u64 = 1;
    const O_CLOEXEC: u64 = nr::O_CLOEXEC as u64;
    let (at, flags) = match number as u32 {
        nr::__NR_open | nr::__NR_creat => (real[0], real[1]),
        _ => (real[1], real[2]),
    };
    let mut path = [0u8; 128];
    let bytes = memory::read_text(at, &mut path).unwrap_or(0).min(path.len());
    let path = &path[..bytes];
    let is_plain = matches!(number as u32, nr::__NR_open | nr::__NR_openat);
    if !is_plain || !may_be_labs(path) && !is_below_proc(number, real, path) {
        let waited = is_plain.then(|| fifos::open(number, real)).flatten();
        return waited.unwrap_or_else(|| kernel::call_for_program(number, real));
    }
    let close_on_exec = if flags & O_CLOEXEC != 0 { MFD_CLOEXEC } else { 0 };
    let name = c"lab".as_ptr() as u64;
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

// --- changes ---

const AT_FDCWD: u64 = -100i64 as u64;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;
const PATH_BYTES: usize = 4096;
/// Only what the inode says.
const INODE: u64 = 0;

/// The time of what a thread does now: when it read the clock last, so that a file is not older than that.
fn now_ns() -> u64 {
    let lab = &session().lab;
    let last = match lab.clock.load(Ordering::Relaxed) {
        lab_clock::VIRTUAL => None,
        _ => (lab.reads_count.load(Ordering::Relaxed) as usize).checked_sub(1),
    };
    let read = last.and_then(|last| lab.reads.get(last));
    read.unwrap_or(&lab.now_ns).load(Ordering::Relaxed)
}

/// A file, by device and inode, and the seconds and nanoseconds at which its content changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known([u64; 4]);

fn known(dir: u64, path: u64, flags: u64) -> Option<Known> {
    let stat = [0u64; 18];
    let words = [dir, path, stat.as_ptr() as u64, flags, 0, 0];
    let result = kernel::call(nr::__NR_newfstatat, words);
    let stat = core::hint::black_box(stat);
    (result == 0).then_some(Known([stat[0], stat[1], stat[11], stat[12]]))
}

fn known_by(fd: u64) -> Option<Known> {
    known(fd, c"".as_ptr() as u64, AT_EMPTY_PATH)
}

/// Notes a change for the engine.
fn note(file: Option<Known>, what: u64) {
    let Some(Known([device, inode, seconds, nanos])) = file else { return };
    let device = below_layer(device);
    let lab = &session().lab;
    // One thread of the lab runs at a time.
    if lab.changes_count.load(Ordering::Relaxed) as usize >= LAB_CHANGES {
        lab::ask(lab_question::CHANGES, &[]);
    }
    let at_ns = now_ns();
    let count = lab.changes_count.load(Ordering::Relaxed) as usize;
    let last = count.checked_sub(1).and_then(|last| lab.changes.get(last));
    let is_same = last.is_some_and(|last| {
        let words = [&last.device, &last.inode, &last.what, &last.at_ns];
        words.map(|word| word.load(Ordering::Relaxed)) == [device, inode, what, at_ns]
    });
    let Some(change) = lab.changes.get(count).filter(|_| !is_same) else { return };
    change.device.store(device, Ordering::Relaxed);
    change.inode.store(inode, Ordering::Relaxed);
    change.what.store(what, Ordering::Relaxed);
    change.at_ns.store(at_ns, Ordering::Relaxed);
    let content_ns = seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos);
    change.content_ns.store(content_ns, Ordering::Relaxed);
    lab.changes_count.store(count as u32 + 1, Ordering::Release);
}

/// The directory in which a path names something.
fn parent_of(dir: u64, path: u64) -> Option<Known> {
    let mut text = [0u8; PATH_BYTES];
    let bytes = memory::read_text(path, &mut text).filter(|&bytes| bytes < PATH_BYTES)?;
    let named = text[..bytes].iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let parent = text[..named].iter().rposition(|&byte| byte == b'/');
    match parent {
        // In the root.
        Some(0) => text[1] = 0,
        Some(slash) => text[slash] = 0,
        None => text[..2].copy_from_slice(b".\0"),
    }
    known(dir, text.as_ptr() as u64, 0)
}

/// Makes a call that changes what a descriptor means.
pub fn of_descriptor(number: u64, real: &[u64; 6], fd: u64, what: u64) -> i64 {
    let result = kernel::call_for_program(number, real);
    // Writing nothing changes nothing.
    let has_changed = match number as u32 {
        nr::__NR_ftruncate | nr::__NR_fallocate => result == 0,
        _ => result > 0 || result == 0 && what == INODE,
    };
    if has_changed {
        note(known_by(fd), what);
    }
    result
}

/// Opens a file, which may come to be or become empty by that.
pub fn of_opening(number: u64, real: &[u64; 6], open: impl FnOnce() -> i64) -> i64 {
    const CREATES: u64 = nr::O_CREAT as u64;
    const EMPTIES: u64 = nr::O_TRUNC as u64;
    let (dir, path, flags) = match number as u32 {
        nr::__NR_open => (AT_FDCWD, real[0], real[1]),
        nr::__NR_creat => (AT_FDCWD, real[0], CREATES | EMPTIES),
        nr::__NR_openat2 => (real[0], real[1], memory::read::<u64>(real[2]).unwrap_or(0)),
        _ => (real[0], real[1], real[2]),
    };
    if flags & (CREATES | EMPTIES) == 0 {
        return open();
    }
    let was_there = known(dir, path, 0).is_some();
    let fd = open();
    if kernel::failed(fd) {
        return fd;
    }
    if !was_there {
        note(known_by(fd as u64), CREATED | CONTENT);
        note(parent_of(dir, path), CONTENT);
    } else if flags & EMPTIES != 0 {
        note(known_by(fd as u64), CONTENT);
    }
    fd
}

/// Makes a call that may change files, and tells of it if it does.
pub fn make(number: u64, real: &[u64; 6]) -> i64 {
    let [a, b, c, d, ..] = *real;
    match number as u32 {
        nr::__NR_pwrite64
        | nr::__NR_pwritev
        | nr::__NR_pwritev2
        | nr::__NR_ftruncate
        | nr::__NR_fallocate => of_descriptor(number, real, a, CONTENT),
        nr::__NR_copy_file_range => of_descriptor(number, real, c, CONTENT),
        nr::__NR_fchmod | nr::__NR_fchown | nr::__NR_fsetxattr | nr::__NR_fremovexattr => {
            of_descriptor(number, real, a, INODE)
        }
        nr::__NR_truncate => of_path(number, real, [AT_FDCWD, a, 0], CONTENT),
        nr::__NR_chmod | nr::__NR_chown | nr::__NR_setxattr | nr::__NR_removexattr => {
            of_path(number, real, [AT_FDCWD, a, 0], INODE)
        }
        nr::__NR_lchown | nr::__NR_lsetxattr | nr::__NR_lremovexattr => {
            of_path(number, real, [AT_FDCWD, a, AT_SYMLINK_NOFOLLOW], INODE)
        }
        nr::__NR_fchmodat => of_path(number, real, [a, b, 0], INODE),
        nr::__NR_fchownat => of_path(number, real, [a, b, real[4]], INODE),
        nr::__NR_mkdir | nr::__NR_mknod => of_new_name(number, real, [AT_FDCWD, a], CREATED | CONTENT),
        nr::__NR_mkdirat | nr::__NR_mknodat => of_new_name(number, real, [a, b], CREATED | CONTENT),
        nr::__NR_symlink => of_new_name(number, real, [AT_FDCWD, b], CREATED | CONTENT),
        nr::__NR_symlinkat => of_new_name(number, real, [b, c], CREATED | CONTENT),
        nr::__NR_link => of_new_name(number, real, [AT_FDCWD, b], INODE),
        nr::__NR_linkat => of_new_name(number, real, [c, d], INODE),
        nr::__NR_unlink | nr::__NR_rmdir => of_lost_name(number, real, [AT_FDCWD, a]),
        nr::__NR_unlinkat => of_lost_name(number, real, [a, b]),
        nr::__NR_rename => of_renaming(number, real, [AT_FDCWD, a], [AT_FDCWD, b]),
        nr::__NR_renameat | nr::__NR_renameat2 => of_renaming(number, real, [a, b], [c, d]),
        nr::__NR_utimensat | nr::__NR_utime | nr::__NR_utimes | nr::__NR_futimesat => of_dating(number, real),
        _ => kernel::call_for_program(number, real),
    }
}

fn of_path(number: u64, real: &[u64; 6], [dir, path, flags]: [u64; 3], what: u64) -> i64 {
    let result = kernel::call_for_program(number, real);
    if result == 0 {
        note(known(dir, path, flags), what);
    }
    result
}

fn of_new_name(number: u64, real: &[u64; 6], [dir, path]: [u64; 2], what: u64) -> i64 {
    let result = kernel::call_for_program(number, real);
    if result == 0 {
        note(known(dir, path, AT_SYMLINK_NOFOLLOW), what);
        note(parent_of(dir, path), CONTENT);
    }
    result
}

fn of_lost_name(number: u64, real: &[u64; 6], [dir, path]: [u64; 2]) -> i64 {
    let parent = parent_of(dir, path);
    let result = kernel::call_for_program(number, real);
    if result == 0 {
        note(parent, CONTENT);
    }
    result
}

fn of_renaming(number: u64, real: &[u64; 6], from: [u64; 2], to: [u64; 2]) -> i64 {
    let result = kernel::call_for_program(number, real);
    if result == 0 {
        note(known(to[0], to[1], AT_SYMLINK_NOFOLLOW), INODE);
        note(parent_of(from[0], from[1]), CONTENT);
        note(parent_of(to[0], to[1]), CONTENT);
    }
    result
}

/// The program says itself what a file's times are; or that they are those of now, which are the lab's.
fn of_dating(number: u64, real: &[u64; 6]) -> i64 {
    const UTIME_NOW: u64 = 0x3fff_ffff;
    const UTIME_OMIT: u64 = 0x3fff_fffe;
    let result = kernel::call_for_program(number, real);
    if result != 0 {
        return result;
    }
    let (dir, path, times, flags) = match number as u32 {
        nr::__NR_utimensat => (real[0], real[1], real[2], real[3]),
        nr::__NR_futimesat => (real[0], real[1], real[2], 0),
        _ => (AT_FDCWD, real[0], real[1], 0),
    };
    let nanos = match number as u32 {
        nr::__NR_utimensat if times != 0 => memory::read::<[u64; 4]>(times).map_or(0, |words| words[3]),
        _ => 0,
    };
    let what = match nanos {
        _ if times == 0 => CONTENT,
        UTIME_NOW => CONTENT,
        UTIME_OMIT => INODE,
        _ => DATED,
    };
    // Without a path the descriptor is what is meant.
    note(if path == 0 { known_by(dir) } else { known(dir, path, flags) }, what);
    result
}
