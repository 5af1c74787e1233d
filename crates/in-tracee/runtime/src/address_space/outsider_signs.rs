//! Signs that a process outside of the recording can write to a file, or has written to it, which is
//! mapped here: see `outsiders.rs`.
//!
//! * A descriptor goes to a process that is not recorded (SCM_RIGHTS).
//! * A segment of System V is attached by one, or was made by one.
//! * A file of tmpfs (POSIX shared memory), or one to which a recorded process stores, is opened by
//!   somebody, as inotify(7) tells.
//! * A file on a disk has another time or size, and no recorded process wrote to it.
//!
//! Invariant: nothing is looked at where the program has no such file or segment mapped. Deliberately
//! absent: files below /usr, /lib and /etc, which systems replace and do not write to in place.

use core::sync::atomic::Ordering;

use lane_protocol::{outside_state, untimely};
use linux_abi::general as nr;
use runtime_logic::map_lines;

use crate::address_space::{known_shared_files, mapped_files, outsiders, segments};
use crate::ground::owned::Held;
use crate::ground::proc_files::Path;
use crate::ground::{kernel, memory, proc_files};
use crate::log::kept_files::{self, Status};
use crate::state::block::{process, session, space};
use crate::state::outside_memory::{FILES, File, NAMES, Name, SEGMENTS, Segment, Signs};
use crate::state::own_descriptors::{self, move_high};
use crate::state::{live, recorded_processes};

impl Signs {
    #[inline]
    pub fn are_any(&self) -> bool {
        self.any
    }

    fn is_known(&self, watch: i32) -> bool {
        self.names.iter().any(|name| name.watch == watch)
    }

    fn note_any(&mut self) {
        self.any = self.notices != 0 || self.segment_count != 0 || self.files.iter().any(|file| file.fd != 0);
    }
}

fn signs() -> Held<Signs> {
    space().part(|space| &mut space.outsiders.signs)
}

/// Recording, where a call is logged by which the program can have learned of something.
pub fn look() {
    let own = &mut *signs();
    if !own.any {
        return;
    }
    look_at_files(own);
    if own.notices != 0 {
        read_notices(own);
    }
    look_at_segments(own);
}

/// The memory of a file changed where the program could not have learned of it.
///
/// Not where recorded processes write by calls: those change what a mapping shows, too, and a file's
/// number may have been another file's before.
pub fn note_untimely(identity: [u64; 2], is_certain: bool) {
    if session().written_files.is_written(identity) {
        return;
    }
    if let Some(file) = session().outside_files.find(identity) {
        let how = if is_certain { untimely::CERTAIN } else { untimely::POSSIBLE };
        file.untimely.fetch_max(how, Ordering::AcqRel);
    }
}

/// True for a file that belongs to the system.
pub fn is_of_system(fd: u64) -> bool {
    let mut room = [0u8; 64];
    let mut path = Path::new();
    let name = path.text(b"/proc/thread-self/fd/").number(fd).target(&mut room);
    [&b"/usr/"[..], b"/lib", b"/etc/"].iter().any(|start| name.starts_with(start))
}

/// True if the descriptor cannot be used to write, and nobody else has the file open to write: a
/// lease is given for as long as that only (fcntl(2)).
pub fn is_only_read(fd: u64, protection: u64) -> bool {
    const F_SETLEASE: u64 = 1024;
    const F_GETLEASE: u64 = 1025;
    const F_RDLCK: u64 = 0;
    const F_UNLCK: u64 = 2;
    if protection & u64::from(nr::PROT_WRITE) != 0 {
        return false;
    }
    let control = |what: u64, kind: u64| kernel::call(nr::__NR_fcntl, [fd, what, kind, 0, 0, 0]);
    // It may have one of its own.
    if control(F_GETLEASE, 0) != F_UNLCK as i64 || control(F_SETLEASE, F_RDLCK) != 0 {
        return false;
    }
    control(F_SETLEASE, F_UNLCK);
    true
}

/// The program has mapped the file that this descriptor is of, at `start`, and had not mapped it before.
pub fn watch(fd: u64, start: u64, identity: [u64; 2]) {
    const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");
    let Some(status) = Status::of(fd as i32) else { return };
    // Libraries are never written to in place: who has them mapped would crash.
    let is_code = || status.may_be_executed() || memory::read(start) == Some(ELF_MAGIC);
    if live::is_on() || status.links() == 0 || is_code() || is_of_system(fd) {
        return;
    }
    let own = &mut *signs();
    if known_shared_files::is_known(identity) || status.is_memory(fd as i32) {
        watch_name(own, fd, identity);
    } else {
        watch_file(own, fd, &status);
    }
    own.note_any();
}

// --- files on disks ---

fn watch_file(own: &mut Signs, fd: u64, status: &Status) {
    if own.files.iter().any(|file| file.fd != 0 && file.key[..2] == status.identity()) {
        return;
    }
    const O_PATH: u64 = 0o10_000_000;
    let flags = O_PATH | u64::from(nr::O_CLOEXEC);
    let mut path = Path::new();
    let place = path.text(b"/proc/thread-self/fd/").number(fd).address();
    // Its end lets no lock of the program's go.
    let found = kernel::call(nr::__NR_open, [place, flags, 0, 0, 0, 0]);
    if let Some(found) = move_high(found) {
        let index = own.next_file % FILES;
        own.next_file += 1;
        let before = core::mem::replace(&mut own.files[index], File { fd: found + 1, key: status.key() });
        close(before.fd);
    }
}

fn close(fd_plus_one: i32) {
    if fd_plus_one != 0 {
        own_descriptors::close(fd_plus_one - 1);
    }
}

fn look_at_files(own: &mut Signs) {
    for file in own.files.iter_mut().filter(|file| file.fd != 0) {
        let key = Status::of(file.fd - 1).map_or([0; 5], |status| status.key());
        if key == file.key {
            continue;
        }
        let identity = [file.key[0], file.key[1]];
        if key[..2] != identity || !mapped_files::is_mapped(identity) {
            close(core::mem::take(&mut file.fd));
            continue;
        }
        file.key = key;
        // What recorded processes write by calls is followed otherwise; stores of theirs change the time, too.
        if !session().written_files.is_written(identity) && !known_shared_files::is_known(identity) {
            outsiders::note_outside(identity);
        }
    }
    own.note_any();
}

// --- files that somebody opens ---

/// Of inotify(7): a file was opened; notices were lost.
const IN_OPEN: u32 = 0x20;
const IN_Q_OVERFLOW: u32 = 0x4000;

fn watch_name(own: &mut Signs, fd: u64, identity: [u64; 2]) {
    if own.notices != 0 && own.names.iter().any(|name| name.watch != 0 && name.identity == identity) {
        return;
    }
    if own.notices == 0 {
        let flags = u64::from(nr::O_NONBLOCK | nr::O_CLOEXEC);
        let made = kernel::call(nr::__NR_inotify_init1, [flags, 0, 0, 0, 0, 0]);
        let Some(made) = move_high(made) else { return };
        own.notices = made + 1;
        own.names.iter_mut().for_each(|name| name.watch = 0);
    }
    let mut path = Path::new();
    let place = path.text(b"/proc/thread-self/fd/").number(fd).address();
    let arguments = [own.notices as u64 - 1, place, u64::from(IN_OPEN), 0, 0, 0];
    let watch = kernel::call(nr::__NR_inotify_add_watch, arguments);
    if !kernel::failed(watch)
        && let Some(name) = own.names.iter_mut().find(|name| name.watch == 0)
    {
        *name = Name { watch: watch as i32, opens: session().outside_files.opens_of(identity), identity };
    }
}

/// Recording: a recorded process has just opened a file; whoever opens it from here on is told apart from that.
pub fn take_notices() {
    let own = &mut *signs();
    if own.notices != 0 {
        read_notices(own);
    }
}

/// Somebody opened one of the files: who that is the supervisor finds out.
fn read_notices(own: &mut Signs) {
    // struct inotify_event: watch, mask, cookie, length of a name, which a file has not.
    const EVENT_WORDS: usize = 4;
    let mut events = [[0u32; EVENT_WORDS]; 32];
    let fd = own.notices as u64 - 1;
    // Of these a recorded process has said that it opened them; the kernel joins notices.
    let mut opened = 0u64;
    loop {
        // Before the notices are read: those of what was said are among them.
        opened |= new_opens(own);
        let arguments = [fd, events.as_mut_ptr() as u64, size_of_val(&events) as u64, 0, 0, 0];
        let bytes = kernel::call(nr::__NR_read, arguments);
        if bytes <= 0 {
            return;
        }
        for &[watch, what, ..] in &events[..bytes as usize / (4 * EVENT_WORDS)] {
            if what & (IN_OPEN | IN_Q_OVERFLOW) == 0 {
                // The file is gone, and its watch with it.
                let is_it = |name: &&mut Name| name.watch == watch as i32;
                own.names.iter_mut().filter(is_it).for_each(|name| name.watch = 0);
                continue;
            }
            let watch = (what & IN_OPEN != 0).then_some(watch as i32);
            if let Some(watch) = watch.filter(|&watch| !own.is_known(watch)) {
                opened |= learn(own, watch);
            }
            for (index, name) in own.names.iter().enumerate() {
                if name.watch != 0 && watch.is_none_or(|watch| watch == name.watch) {
                    ask_again(name, opened & 1 << index != 0);
                }
            }
        }
    }
}

/// A process with which this one shares its notices since a fork has the file mapped. As bits: whether recorded
/// processes have opened it.
#[cold]
fn learn(own: &mut Signs, watch: i32) -> u64 {
    let mut found = None;
    proc_files::each_line(own.notices as u32 - 1, &mut |line| {
        found = found.or(watched(line, watch));
    });
    let (Some(identity), Some(index)) = (found, own.names.iter().position(|name| name.watch == 0)) else {
        return 0;
    };
    let opens = session().outside_files.opens_of(identity);
    own.names[index] = Name { watch, opens, identity };
    u64::from(opens != 0) << index
}

/// Device and inode, where the line is of this watch (proc_pid_fdinfo(5)): `inotify wd:1 ino:2f sdev:1b ...`.
fn watched(line: &[u8], watch: i32) -> Option<[u64; 2]> {
    let mut fields = line.strip_prefix(b"inotify ")?.split(|&byte| byte == b' ');
    let mut field = |name: &[u8]| -> Option<u64> {
        let digits = core::str::from_utf8(fields.next()?.strip_prefix(name)?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let (its, inode, device) = (field(b"wd:")?, field(b"ino:")?, field(b"sdev:")?);
    // As the kernel has it, and as stat(2) tells it.
    let device = map_lines::stat_device((device >> 20) << 32 | device & 0xf_ffff);
    (its == watch as u64).then_some([device, inode])
}

/// The files, as bits, that recorded processes have opened since this was asked last.
fn new_opens(own: &mut Signs) -> u64 {
    const { assert!(NAMES <= 64) };
    let mut new = 0;
    for (index, name) in own.names.iter_mut().enumerate().filter(|(_, name)| name.watch != 0) {
        let opens = session().outside_files.opens_of(name.identity);
        if core::mem::replace(&mut name.opens, opens) != opens {
            new |= 1 << index;
        }
    }
    new
}

fn ask_again(name: &Name, is_by_recorded: bool) {
    let files = &session().outside_files;
    files.ask_again(name.identity, (!is_by_recorded).then_some(name.opens));
    kernel::futex_wake_one(files.doorbell());
}

/// The program takes these numbers of descriptors.
pub fn yield_descriptors(first: u64, last: u64) {
    let own = &mut *signs();
    if !own.any {
        return;
    }
    let is_one = |fd: &mut i32| {
        if *fd != 0 && (first..=last).contains(&(*fd as u64 - 1)) {
            close(core::mem::take(fd));
        }
    };
    own.files.iter_mut().for_each(|file| is_one(&mut file.fd));
    let before = own.notices;
    is_one(&mut own.notices);
    if before != own.notices {
        // Who opens them from here on is not seen.
        own.names.iter().filter(|name| name.watch != 0).for_each(|name| ask_again(name, false));
    }
    own.note_any();
}

/// True for a descriptor that is used here.
pub fn is_descriptor(fd: u64) -> bool {
    let own = &mut *signs();
    let is_it = |known: i32| known != 0 && known as u64 - 1 == fd;
    own.any && (is_it(own.notices) || own.files.iter().any(|file| is_it(file.fd)))
}

// --- segments of System V ---

/// What shmctl(2) tells of a segment.
struct Attached {
    maker: i32,
    /// Who attached or detached it last.
    last: i32,
    count: u64,
}

fn attached(id: u64) -> Option<Attached> {
    // struct shmid64_ds: 48 bytes of permissions, size, three times, two pids, attachments.
    let mut state = [0u64; 32];
    const IPC_STAT: u64 = 2;
    let result = kernel::call(nr::__NR_shmctl, [id, IPC_STAT, state.as_mut_ptr() as u64, 0, 0, 0]);
    let [maker, last] = [state[10] as i32, (state[10] >> 32) as i32];
    (result == 0).then_some(Attached { maker, last, count: state[11] })
}

/// The program is about to attach a segment.
pub fn note_segment(id: u64) {
    let own = &mut *signs();
    if live::is_on() {
        return;
    }
    let Some(state) = attached(id) else { return };
    if !is_recorded(state.maker) || state.count != 0 && !is_recorded(state.last) {
        outsiders::note_outside(segments::identity_of(id));
    }
    if own.segment_count < SEGMENTS && !own.segments[..own.segment_count].iter().any(|known| known.id == id) {
        own.segments[own.segment_count] = Segment { id, known_pid: process().pid };
        own.segment_count += 1;
    }
    own.note_any();
}

fn look_at_segments(own: &mut Signs) {
    let mut index = 0;
    while index < own.segment_count {
        let segment = &mut own.segments[index];
        let identity = segments::identity_of(segment.id);
        let state = attached(segment.id).filter(|_| mapped_files::is_mapped(identity));
        let is_done = match state {
            Some(state) if state.last == segment.known_pid => false,
            Some(state) if is_recorded(state.last) => {
                segment.known_pid = state.last;
                false
            }
            Some(_) => {
                outsiders::note_outside(identity);
                true
            }
            None => true,
        };
        if is_done {
            own.segment_count -= 1;
            own.segments[index] = own.segments[own.segment_count];
        } else {
            index += 1;
        }
    }
    own.note_any();
}

/// True for a process of the recording, and for one that is gone.
fn is_recorded(pid: i32) -> bool {
    if pid == process().pid {
        return true;
    }
    let mut found = false;
    recorded_processes::each_recorded(&mut |_, known, _| found |= known == pid);
    // One that nobody has waited for has no memory any more, either, which process_vm_readv(2) says first.
    let is_gone = || {
        let gone = -i64::from(linux_abi::errno::ESRCH);
        let mut byte = 0u8;
        let [into, from] = [[&raw mut byte as u64, 1], [0u64, 1]];
        let parts = [into.as_ptr() as u64, 1, from.as_ptr() as u64, 1];
        let read = [pid as u64, parts[0], parts[1], parts[2], parts[3], 0];
        pid > 0
            && (kernel::call(nr::__NR_kill, [pid as u64, 0, 0, 0, 0, 0]) == gone
                || kernel::call(nr::__NR_process_vm_readv, read) == gone)
    };
    found || is_gone()
}

// --- descriptors that are sent, files that are made ---

/// Recording: a call was made that may send descriptors, or make a file.
#[inline]
pub fn note_call(number: u64, args: &[u64; 6], result: i64) {
    if result < 0 {
        return;
    }
    match number as u32 {
        nr::__NR_sendmsg => note_sent(args[0], args[1]),
        nr::__NR_sendmmsg => {
            // struct mmsghdr: a message, and how much of it was sent.
            (0..result as u64).for_each(|index| note_sent(args[0], args[1] + index * 64));
        }
        nr::__NR_memfd_create => note_made(result),
        nr::__NR_open if makes(args[1]) => note_made(result),
        nr::__NR_openat if makes(args[2]) => note_made(result),
        nr::__NR_open | nr::__NR_openat | nr::__NR_openat2 | nr::__NR_creat => {
            kept_files::note_opened(result);
        }
        _ => {}
    }
}

/// True if open(2) with these flags makes a file whenever it succeeds.
fn makes(flags: u64) -> bool {
    const O_TMPFILE: u64 = 0o20_200_000;
    flags & u64::from(nr::O_EXCL) != 0 || flags & O_TMPFILE == O_TMPFILE
}

#[cold]
fn note_made(fd: i64) {
    if let Some(status) = Status::of(fd as i32) {
        session().outside_files.note_made(status.identity());
    }
}

/// A message was sent by this socket: to whom, if there are descriptors in it?
fn note_sent(socket: u64, message: u64) {
    // struct msghdr: control data and its length behind name and vector.
    let [Some(control), Some(bytes)] = [32, 40].map(|at| memory::read_word(message + at)) else { return };
    if control == 0 || bytes < 20 || is_recorded_peer(socket) {
        return;
    }
    // struct cmsghdr: length, level, type.
    const HEADER_BYTES: u64 = 16;
    let mut at = 0;
    while at + HEADER_BYTES <= bytes {
        let Some(length) = memory::read_word(control + at) else { return };
        let Some(kind) = memory::read::<[u32; 2]>(control + at + 8) else { return };
        if length < HEADER_BYTES || length > bytes - at {
            return;
        }
        // SOL_SOCKET, SCM_RIGHTS.
        if kind == [1, 1] {
            for place in (HEADER_BYTES..length).step_by(4) {
                note_descriptor(memory::read::<i32>(control + at + place).unwrap_or(-1));
            }
        }
        at += length.next_multiple_of(8);
    }
}

fn note_descriptor(fd: i32) {
    if let Some(status) = Status::of(fd)
        && status.is_regular()
        && session().outside_files.state_of(status.identity()) < outside_state::OUTSIDE
    {
        outsiders::note_outside(status.identity());
    }
}

/// True if the other end of the socket belongs to a recorded process, as far as that is known.
fn is_recorded_peer(socket: u64) -> bool {
    const SOL_SOCKET: u64 = 1;
    const SO_PEERCRED: u64 = 17;
    // struct ucred: process, user, group.
    let (mut peer, mut length) = ([0i32; 3], 12u32);
    let into = [peer.as_mut_ptr() as u64, &raw mut length as u64];
    let result = kernel::call(nr::__NR_getsockopt, [socket, SOL_SOCKET, SO_PEERCRED, into[0], into[1], 0]);
    result == 0 && peer[0] > 0 && is_recorded(peer[0])
}

/// A new image has none of it; its descriptors are gone with exec.
pub fn reset() {
    let own = &mut *signs();
    own.files.iter_mut().for_each(|file| close(core::mem::take(&mut file.fd)));
    close(core::mem::take(&mut own.notices));
    own.segment_count = 0;
    own.any = false;
}
