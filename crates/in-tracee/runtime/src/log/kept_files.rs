//! Files that the program maps: their content is kept by the supervisor, once for
//! each content, before the mapping is used.

use core::sync::atomic::Ordering;

use lane_protocol::{FILE_PROBES, KeptFile, borrowed, file_slot, file_state, request};
use linux_abi::{errno, general as nr};

use crate::ground::kernel;
use crate::ground::proc_files::Path;
use crate::log::borrowed::open as open_borrowed;
use crate::log::file_extents;
use crate::state::block::{lane, process, session};
use crate::state::{live, report};

/// Looks for an answer before this process sleeps: some 20 us.
const SPINS: u32 = 400;

/// Waits for another process to say which file it has claimed a slot for, a millisecond each.
const CLAIM_WAITS: u32 = 100;
/// The same for the answer that it waits for, 100 milliseconds each: it may be killed before it asks.
const ANSWER_WAITS: u32 = 300;

/// Kind of a regular file (inode(7)).
const REGULAR: u64 = 0o100000;

/// What became of a file that is about to be mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Kept under this id.
    File(u32),
    /// Could not be kept, or need not be; its size in bytes. Its content is logged.
    Content(u64),
    /// Nothing was written to it yet; its size in bytes.
    Empty(u64),
    /// Mapping it gives memory without a file (/dev/zero).
    Anonymous,
    /// Not a file that can be mapped: the kernel will say so.
    Nothing,
    /// A device's own memory.
    Device,
    /// Memory that the kernel writes whenever it likes, if it can be mapped at all: a ring of
    /// packets behind a socket, a virtual processor.
    Kernels,
}

/// What fstat(2) tells of an open file.
pub struct Status([u64; 18]);

impl Status {
    pub fn of(fd: i32) -> Option<Status> {
        let mut stat = [0u64; 18];
        let result = kernel::call(nr::__NR_fstat, [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
        (!kernel::failed(result)).then_some(Status(stat))
    }

    /// Device and inode.
    pub fn identity(&self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.0[6]
    }

    /// What tells a content from others: device, inode, size, and the times of the last change to the
    /// content and to the inode.
    pub fn key(&self) -> [u64; 5] {
        let Status(stat) = self;
        let ns = |at: usize| stat[at].wrapping_mul(1_000_000_000).wrapping_add(stat[at + 1]);
        // st_mtim and st_ctim.
        [stat[0], stat[1], self.size(), ns(11), ns(13)]
    }

    fn kind(&self) -> u64 {
        self.0[3] & 0o170000
    }

    pub fn is_regular(&self) -> bool {
        self.kind() == REGULAR
    }

    /// How many names it has.
    pub fn links(&self) -> u64 {
        self.0[2]
    }

    /// True if somebody may execute it.
    pub fn may_be_executed(&self) -> bool {
        self.0[3] & 0o111 != 0
    }

    /// True for a file that is nowhere but in memory (memfd_create(2), tmpfs): what is stored there
    /// changes none of its times.
    pub fn is_memory(&self, fd: i32) -> bool {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        // struct statfs: its type comes first.
        let mut status = [0u64; 15];
        self.is_regular() && {
            let result = kernel::call(nr::__NR_fstatfs, [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]);
            !kernel::failed(result) && status[0] == TMPFS_MAGIC
        }
    }

    /// True for memory of which nothing is used yet. Others may count the
    /// blocks in use in ways of their own.
    pub fn has_no_data(&self, fd: i32) -> bool {
        // What fallocate(2) got for it is not used.
        self.0[8] == 0 || has_no_data(fd)
    }
}

/// True if all of the file is a hole (lseek(2)). The program's own place in it stays.
fn has_no_data(fd: i32) -> bool {
    let Some(again) = open_again(fd) else { return false };
    let first = file_extents::next_data(again, 0);
    kernel::call(nr::__NR_close, [again as u64, 0, 0, 0, 0, 0]);
    first == -i64::from(errno::ENXIO)
}

/// A descriptor of the file with a place of its own in it. When it is closed the program loses its
/// locks on the file, if it has some (fcntl(2)).
fn open_again(fd: i32) -> Option<i32> {
    let again = Path::new().text(b"/proc/thread-self/fd/").number(fd as u64).open();
    if kernel::failed(again) {
        return None;
    }
    note_opened(again);
    Some(again as i32)
}

/// Recording: who has the file mapped is told by the kernel that somebody opened it, and by this who that was.
pub fn note_opened(fd: i64) {
    let files = &session().outside_files;
    if files.changes() != 0
        && let Some(status) = Status::of(fd as i32)
    {
        files.note_open(status.identity());
    }
}

/// Less is logged with its holes: to find them could cost the program its locks on the file.
const HOLES_SOUGHT_BYTES_MIN: u64 = 64 << 20;

/// Whether of so many bytes of a file only what is no hole is logged.
pub fn has_holes_left_out(bytes: u64) -> bool {
    bytes >= HOLES_SOUGHT_BYTES_MIN
}

/// Calls `each` with the parts of a file that are no holes, as far as that is known.
pub fn each_part(fd: i32, from: u64, to: u64, each: &mut dyn FnMut(u64, u64)) {
    let is_large = has_holes_left_out(to.saturating_sub(from));
    let Some(again) = is_large.then(|| open_again(fd)).flatten() else { return each(from, to) };
    file_extents::for_each_extent_from(again, from, to, each);
    kernel::call(nr::__NR_close, [again as u64, 0, 0, 0, 0, 0]);
}

/// Sees to it that the file's content is kept.
/// Also gives device and inode.
pub fn keep(fd: i32, executable: bool) -> (Kept, [u64; 2]) {
    match Status::of(fd) {
        Some(status) => (keep_file(fd, &status, executable), status.identity()),
        None => (Kept::Nothing, [0, 0]),
    }
}

/// Size of an open file in bytes.
pub fn size_of(fd: i32) -> u64 {
    Status::of(fd).map_or(0, |status| status.size())
}

pub fn keep_file(fd: i32, status: &Status, executable: bool) -> Kept {
    const CHARACTER: u64 = 0o020000;
    const SOCKET: u64 = 0o140000;
    // What has no type is no file at all (anonymous inodes).
    const NO_FILE: u64 = 0;
    const DEV_NULL: u64 = 0x103;
    const DEV_ZERO: u64 = 0x105;
    let Status(stat) = status;
    match status.kind() {
        REGULAR => {}
        CHARACTER if stat[5] == DEV_ZERO => return Kept::Anonymous,
        CHARACTER if stat[5] == DEV_NULL => return Kept::Nothing,
        CHARACTER => return Kept::Device,
        SOCKET if crate::ground::kernel::is_packet_socket(fd as u64) => return Kept::Kernels,
        NO_FILE => return Kept::Kernels,
        _ => return Kept::Nothing,
    }
    match find_or_ask(fd, status.key(), executable) {
        Some(file) => Kept::File(file),
        None => Kept::Content(status.size()),
    }
}

/// The id of a regular file's content that is kept already and found where it is looked for first.
pub fn kept_before(status: &Status) -> Option<u32> {
    let key = status.key();
    let index = file_slot(key[0], key[1], 0);
    let kept = &session().files[index];
    let is_it =
        status.is_regular() && kept.state.load(Ordering::Acquire) == file_state::KEPT && is_of(kept, key);
    is_it.then_some(index as u32)
}

/// The id of a content that is kept.
pub fn find(key: [u64; 5]) -> Option<u32> {
    let slots = (0..FILE_PROBES).map(|step| file_slot(key[0], key[1], step) as u32);
    let is_free =
        |&slot: &u32| session().files[slot as usize].state.load(Ordering::Acquire) == file_state::FREE;
    slots.take_while(|slot| !is_free(slot)).find(|&slot| is_kept(slot, key))
}

/// True if this content is kept under that id.
#[inline]
pub fn is_kept(file: u32, key: [u64; 5]) -> bool {
    let kept = session().files.get(file as usize);
    kept.is_some_and(|kept| kept.state.load(Ordering::Acquire) == file_state::KEPT && is_of(kept, key))
}

/// Replay: reads a part of a kept file into the program's memory, by way of `put` where the kernel may
/// not write there.
pub fn read_part(address: u64, [file, offset, bytes]: [u64; 3], put: fn(u64, u64, u64)) {
    const STEP_BYTES: usize = 4096;
    let fd = open(file as u32) as u64;
    let mut done = 0;
    while done < bytes {
        let (at, left, from) = (address.wrapping_add(done), bytes - done, offset.wrapping_add(done));
        let mut read = kernel::call(nr::__NR_pread64, [fd, at, left, from, 0, 0]);
        if read == -i64::from(errno::EFAULT) {
            let mut step = [0u8; STEP_BYTES];
            let wanted = left.min(STEP_BYTES as u64);
            read = kernel::call(nr::__NR_pread64, [fd, step.as_mut_ptr() as u64, wanted, from, 0, 0]);
            if read > 0 {
                put(at, step.as_ptr() as u64, read as u64);
            }
        }
        if read <= 0 {
            report::stand(lane_protocol::report_kind::MISSING, -read as i32, "a kept file is too short");
        }
        done += read as u64;
    }
    kernel::call(nr::__NR_close, [fd, 0, 0, 0, 0, 0]);
}

/// True if what is kept there, or asked for, is this content.
fn is_of(kept: &KeptFile, key: [u64; 5]) -> bool {
    let words = [&kept.device, &kept.inode, &kept.size_bytes, &kept.mtime_ns, &kept.ctime_ns];
    words.map(|word| word.load(Ordering::Relaxed)) == key
}

fn find_or_ask(fd: i32, key: [u64; 5], executable: bool) -> Option<u32> {
    let files = &session().files;
    for step in 0..FILE_PROBES {
        let index = file_slot(key[0], key[1], step);
        let kept = &files[index];
        let mut waits = 0;
        loop {
            waits += 1;
            match kept.state.load(Ordering::Acquire) {
                file_state::FREE => {
                    let claimed = kept.state.compare_exchange(
                        file_state::FREE,
                        file_state::CLAIMED,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    if claimed.is_ok() {
                        return ask(fd, index, key, executable);
                    }
                }
                // Who claimed it and was killed before it said what for never comes back.
                file_state::CLAIMED if waits > CLAIM_WAITS => break,
                file_state::CLAIMED => {
                    kernel::futex_wait(&kept.state, file_state::CLAIMED, 1);
                }
                state => {
                    if !is_of(kept, key) {
                        break;
                    }
                    match state {
                        file_state::KEPT => return Some(index as u32),
                        file_state::ASKED => {
                            kernel::futex_wait(&kept.state, file_state::ASKED, 100);
                            let is_asked = kept.state.load(Ordering::Acquire) == file_state::ASKED;
                            let is_over = session().stop.load(Ordering::Relaxed) != 0 || waits > ANSWER_WAITS;
                            if is_over || is_asked && crate::log::supervisor_died() {
                                return None;
                            }
                        }
                        _ => return None,
                    }
                }
            }
        }
    }
    None
}

/// Fills in the claimed slot and waits for the supervisor.
fn ask(fd: i32, index: usize, key: [u64; 5], executable: bool) -> Option<u32> {
    let session = session();
    let kept = &session.files[index];
    kept.device.store(key[0], Ordering::Relaxed);
    kept.inode.store(key[1], Ordering::Relaxed);
    kept.size_bytes.store(key[2], Ordering::Relaxed);
    kept.mtime_ns.store(key[3], Ordering::Relaxed);
    kept.ctime_ns.store(key[4], Ordering::Relaxed);
    kept.state.store(file_state::ASKED, Ordering::Release);
    let arguments = [fd as u64, index as u64, process().outer_pid as u64, u64::from(executable)];
    let answer = request_answer(request::KEEP, arguments, &session.keep_doorbell);
    (answer == Some(0) && kept.state.load(Ordering::Acquire) == file_state::KEPT).then_some(index as u32)
}

/// Asks the supervisor for something and waits for the answer; `None` if it is gone.
pub fn request_answer(
    what: u32,
    arguments: [u64; 4],
    doorbell: &core::sync::atomic::AtomicU32,
) -> Option<i32> {
    let request = &lane().request;
    for (slot, value) in request.arguments.iter().zip(arguments) {
        slot.store(value, Ordering::Relaxed);
    }
    request.state.store(what, Ordering::Release);
    doorbell.fetch_add(1, Ordering::Release);
    // One server is enough: each looks until nothing is left.
    kernel::futex_wake_one(doorbell);
    // The answer takes about as long as falling asleep and being woken.
    for _ in 0..SPINS {
        if request.state.load(Ordering::Acquire) != what {
            break;
        }
        core::hint::spin_loop();
    }
    loop {
        let state = request.state.load(Ordering::Acquire);
        if state == request::ANSWERED {
            break;
        }
        if state == request::NONE {
            return Some(0);
        }
        kernel::futex_wait(&request.state, state, 100);
        if crate::log::supervisor_died() {
            return None;
        }
    }
    let answer = request.answer.load(Ordering::Acquire);
    request.state.store(request::NONE, Ordering::Release);
    Some(answer)
}

/// Replay: opens the kept content of a file; stands still if it is missing.
pub fn open(file: u32) -> i32 {
    let fd = match live::is_on() {
        true => open_borrowed(borrowed::KEPT, [u64::from(file), 0]),
        false => open_in_trace(file),
    };
    if kernel::failed(fd) {
        report::stand(lane_protocol::report_kind::MISSING, fd as i32, "a kept file is missing");
    }
    fd as i32
}

#[inline(never)]
fn open_in_trace(file: u32) -> i64 {
    let session = session();
    let mut path = [0u8; 4096 + 80];
    let Some(kept) = session.files.get(file as usize) else {
        report::fail("the log names a file that the trace does not have");
    };
    let dir = session.files_dir_bytes.min(4096) as usize;
    path[..dir].copy_from_slice(&session.files_dir[..dir]);
    path[dir] = b'/';
    for (index, byte) in kept.hash.iter().enumerate() {
        path[dir + 1 + index * 2] = b"0123456789abcdef"[(byte >> 4) as usize];
        path[dir + 2 + index * 2] = b"0123456789abcdef"[(byte & 15) as usize];
    }
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
    kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0, 0, 0, 0])
}
