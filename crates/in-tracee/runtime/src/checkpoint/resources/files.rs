//! Regular files that the program changes, where a rollback is to restore them: before
//! each change the supervisor keeps what is about to go.
//!
//! Invariant: a change is told with the token, and the token is kept until it is done, so
//! that no checkpoint comes in between.
//!
//! Deliberately absent: what is kept, and how it is put back (the supervisor's, see
//! `file_journal.rs` of the recorder); files that other processes change.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lane_protocol::{CHANGE_PATH_BYTES, ChangePath, change_kind, files_policy, request};
use linux_abi::general as nr;

use crate::address_space::descriptor_classes;
use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::{FILES_MAX, Files, KnownFile};
use crate::checkpoint::restore::file_pages;
use crate::checkpoint::take::slots;
use crate::ground::{kernel, memory};
use crate::log::kept_files::request_answer;
use crate::state::block::{lane, session, thread};

const TYPE: u64 = 0o170000;
const REGULAR: u64 = 0o100000;
const VECTORS_MAX: u64 = 1024;
/// To the end of a file, wherever that is.
const TO_END: u64 = u64::MAX;
const AT_FDCWD: u64 = -100i64 as u64;

impl Files {
    /// The process went back, and so did the files.
    pub fn forget(&mut self) {
        for known in &mut self.known {
            known.fd = 0;
        }
    }
}

/// `struct stat` as far as it is looked at.
struct Stat([u64; 18]);

impl Stat {
    fn is_regular(&self) -> bool {
        self.0[3] & TYPE == REGULAR
    }

    fn size(&self) -> u64 {
        self.0[6]
    }
}

/// True if rollbacks restore files.
#[inline]
pub fn is_on() -> bool {
    session().files_policy == files_policy::SNAPSHOT
}

/// True if the kernel would move data into a file, maybe after a long time, without the
/// token: the program has to do that itself.
pub fn refuses_copy(number: u64, target: u64) -> bool {
    number as u32 == nr::__NR_splice && is_on() && regular(target).is_some()
}

/// A call is about to be made; true if [`after`] wants to know how it ended.
pub fn before(number: u64, args: &[u64; 6]) -> bool {
    thread().keeps_token = false;
    if changes_content(number as u32, args) || !is_on() {
        return false;
    }
    match number as u32 {
        nr::__NR_ioctl => {
            const FICLONE: u32 = 0x4004_9409;
            const FICLONERANGE: u32 = 0x4020_940d;
            if matches!(args[1] as u32, FICLONE | FICLONERANGE) {
                before_range(args[0], 0, TO_END);
            }
        }
        nr::__NR_mmap => {
            const SHARED: u64 = 1;
            const ANONYMOUS: u64 = nr::MAP_ANONYMOUS as u64;
            // Stores are not seen: it is kept as it is when it is mapped.
            if args[3] & (SHARED | ANONYMOUS) == SHARED && is_writable(args[4]) {
                before_range(args[4], args[5], args[1]);
            }
        }
        nr::__NR_truncate => {
            tell_path(change_kind::CUT, (AT_FDCWD, args[0]), None, args[1], 0);
        }
        nr::__NR_unlink | nr::__NR_rmdir => {
            tell_path(change_kind::UNLINK, (AT_FDCWD, args[0]), None, 0, 0);
        }
        nr::__NR_unlinkat => {
            tell_path(change_kind::UNLINK, (args[0], args[1]), None, 0, 0);
        }
        nr::__NR_rename => {
            tell_path(change_kind::RENAME, (AT_FDCWD, args[0]), Some((AT_FDCWD, args[1])), 0, 0);
        }
        nr::__NR_renameat | nr::__NR_renameat2 => {
            let flags = if number as u32 == nr::__NR_renameat2 { args[4] } else { 0 };
            tell_path(change_kind::RENAME, (args[0], args[1]), Some((args[2], args[3])), 0, flags);
        }
        nr::__NR_open | nr::__NR_openat | nr::__NR_openat2 | nr::__NR_creat => {
            return before_open(number as u32, args);
        }
        _ => return made_name(number, args).is_some(),
    }
    false
}

/// True for a call that changes what an opened file holds.
fn changes_content(number: u32, args: &[u64; 6]) -> bool {
    let fd = match number {
        nr::__NR_write
        | nr::__NR_pwrite64
        | nr::__NR_writev
        | nr::__NR_pwritev
        | nr::__NR_pwritev2
        | nr::__NR_sendfile
        | nr::__NR_ftruncate
        | nr::__NR_fallocate => args[0],
        nr::__NR_copy_file_range => args[2],
        _ => return false,
    };
    if !is_on() && !reaches_mapped(fd) {
        return true;
    }
    match number {
        nr::__NR_ftruncate => before_range(fd, args[1], TO_END),
        nr::__NR_fallocate => before_allocation(args),
        _ => before_write(number, args),
    }
    true
}

fn reaches_mapped(fd: u64) -> bool {
    let _ = descriptor_classes::class_of(fd);
    descriptor_classes::is_mapped(fd)
}

/// A call of which [`before`] said so has ended.
pub fn after(number: u64, args: &[u64; 6], result: i64) {
    if kernel::failed(result) || slots::last().is_none() {
        return;
    }
    match made_name(number, args) {
        Some(place) => tell_path(change_kind::MADE, place, None, 0, 0),
        None => {
            lane().change.fd.store(result as i32, Ordering::Relaxed);
            tell(change_kind::MADE_OPEN, 0, 0);
        }
    }
}

/// The name that a call makes, which is no opened file.
fn made_name(number: u64, args: &[u64; 6]) -> Option<(u64, u64)> {
    match number as u32 {
        nr::__NR_mkdir | nr::__NR_mknod => Some((AT_FDCWD, args[0])),
        nr::__NR_link | nr::__NR_symlink => Some((AT_FDCWD, args[1])),
        nr::__NR_mkdirat | nr::__NR_mknodat => Some((args[0], args[1])),
        nr::__NR_symlinkat => Some((args[1], args[2])),
        nr::__NR_linkat => Some((args[2], args[3])),
        _ => None,
    }
}

fn before_write(number: u32, args: &[u64; 6]) {
    let at = |pointer: u64| if pointer == 0 { None } else { memory::read::<u64>(pointer) };
    let (fd, bytes, place) = match number {
        nr::__NR_write => (args[0], args[2], None),
        nr::__NR_pwrite64 => (args[0], args[2], Some(args[3])),
        nr::__NR_writev => (args[0], 0, None),
        nr::__NR_pwritev => (args[0], 0, Some(args[3])),
        // -1: where the descriptor is.
        nr::__NR_pwritev2 => (args[0], 0, Some(args[3]).filter(|&place| place != u64::MAX)),
        nr::__NR_sendfile => (args[0], args[3], None),
        _ => (args[2], args[4], at(args[3])),
    };
    let Some(stat) = regular(fd) else { return };
    let bytes = match number {
        nr::__NR_writev | nr::__NR_pwritev | nr::__NR_pwritev2 => vector_bytes(args[1], args[2]),
        _ => bytes,
    };
    let place = place.unwrap_or_else(|| next_place(fd, &stat));
    change(fd, &stat, place, bytes);
}

fn vector_bytes(vectors: u64, count: u64) -> u64 {
    (0..count.min(VECTORS_MAX))
        .map_while(|index| memory::read::<[u64; 2]>(vectors + index * 16))
        .fold(0, |sum: u64, [_, bytes]| sum.saturating_add(bytes))
}

/// Where the next write to a descriptor goes.
fn next_place(fd: u64, stat: &Stat) -> u64 {
    const SEEK_CUR: u64 = 1;
    let place = kernel::call(nr::__NR_lseek, [fd, 0, SEEK_CUR, 0, 0, 0]).max(0) as u64;
    if place >= stat.size() || flags_of(fd) & u64::from(nr::O_APPEND) == 0 { place } else { stat.size() }
}

fn flags_of(fd: u64) -> u64 {
    kernel::call(nr::__NR_fcntl, [fd, u64::from(nr::F_GETFL), 0, 0, 0, 0]).max(0) as u64
}

fn is_writable(fd: u64) -> bool {
    flags_of(fd) & u64::from(nr::O_ACCMODE) == u64::from(nr::O_RDWR)
}

fn before_allocation(args: &[u64; 6]) {
    const PUNCH_HOLE: u64 = 2;
    const COLLAPSE_RANGE: u64 = 8;
    const ZERO_RANGE: u64 = 0x10;
    const INSERT_RANGE: u64 = 0x20;
    let [fd, mode, offset, bytes, ..] = *args;
    if mode & (COLLAPSE_RANGE | INSERT_RANGE) != 0 {
        before_range(fd, offset, TO_END);
    } else if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
        before_range(fd, offset, bytes);
    } else {
        before_range(fd, TO_END, 0);
    }
}

fn before_range(fd: u64, offset: u64, bytes: u64) {
    if let Some(stat) = regular(fd) {
        change(fd, &stat, offset, bytes);
    }
}

/// What a descriptor reaches, if that is a regular file.
fn regular(fd: u64) -> Option<Stat> {
    // Standard output has a class of its own.
    if descriptor_classes::class_of(fd) == 0 && !descriptor_classes::is_regular(fd) {
        return None;
    }
    let mut stat = Stat([0; 18]);
    let result = kernel::call(nr::__NR_fstat, [fd, stat.0.as_mut_ptr() as u64, 0, 0, 0, 0]);
    let is_restored = stat.is_regular() && !descriptor_classes::is_standard_error(stat.0[0], stat.0[1]);
    (!kernel::failed(result) && is_restored).then_some(stat)
}

/// Bytes of a regular file are about to change.
fn change(fd: u64, stat: &Stat, offset: u64, bytes: u64) {
    thread().keeps_token = true;
    let Some(last) = slots::last() else { return };
    let id = last.id.load(Ordering::Relaxed);
    if descriptor_classes::is_mapped(fd) {
        file_pages::keep([stat.0[0], stat.0[1]], stat.size(), (offset, bytes), id);
    }
    if !is_on() {
        return;
    }
    let files = &mut area().files;
    let own = fd as u32 + 1;
    let is_it = |known: &&mut KnownFile| {
        (known.fd, known.id, known.device, known.inode) == (own, id, stat.0[0], stat.0[1])
    };
    match files.known.iter_mut().find(is_it) {
        Some(known) if bytes == 0 || offset >= known.size => return,
        Some(_) => {}
        None => {
            let next = files.next % FILES_MAX;
            files.known[next] =
                KnownFile { fd: own, id, device: stat.0[0], inode: stat.0[1], size: stat.size() };
            files.next = next + 1;
        }
    }
    lane().change.fd.store(fd as i32, Ordering::Relaxed);
    tell(change_kind::RANGE, offset, bytes);
}

/// True if the call makes a file if it succeeds.
fn before_open(number: u32, args: &[u64; 6]) -> bool {
    let (dir, path, flags) = match number {
        nr::__NR_open => (AT_FDCWD, args[0], args[1]),
        nr::__NR_creat => (AT_FDCWD, args[0], u64::from(nr::O_CREAT | nr::O_TRUNC)),
        nr::__NR_openat => (args[0], args[1], args[2]),
        _ => (args[0], args[1], memory::read::<u64>(args[2]).unwrap_or(0)),
    };
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if has(nr::O_PATH) || !(has(nr::O_CREAT) || has(nr::O_TRUNC)) || slots::last().is_none() {
        return false;
    }
    const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
    let follow = if has(nr::O_NOFOLLOW) { AT_SYMLINK_NOFOLLOW } else { 0 };
    let mut stat = Stat([0; 18]);
    let place = stat.0.as_mut_ptr() as u64;
    let found = kernel::call(nr::__NR_newfstatat, [dir, path, place, follow, 0, 0]);
    if found == -i64::from(linux_abi::errno::ENOENT) {
        return has(nr::O_CREAT);
    }
    let is_cut = has(nr::O_TRUNC) && !(has(nr::O_CREAT) && has(nr::O_EXCL));
    if !kernel::failed(found) && is_cut && stat.is_regular() {
        thread().keeps_token = true;
        tell_path(change_kind::CUT, (dir, path), None, 0, 0);
    }
    false
}

/// Tells of a change of what a path names.
fn tell_path(kind: u32, path: (u64, u64), other: Option<(u64, u64)>, offset: u64, bytes: u64) {
    thread().keeps_token = true;
    if slots::last().is_none() {
        return;
    }
    let change = &lane().change;
    if put_path(&change.path, path) && other.is_none_or(|other| put_path(&change.other_path, other)) {
        tell(kind, offset, bytes);
    }
}

/// False if the kernel will not take the path either.
fn put_path(to: &ChangePath, (dir, path): (u64, u64)) -> bool {
    let mut text = [0u8; CHANGE_PATH_BYTES];
    let Some(length) = memory::read_text(path, &mut text) else { return false };
    if length == text.len() {
        return false;
    }
    for (word, bytes) in to.words.iter().zip(text[..length.next_multiple_of(8)].chunks(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
    }
    to.bytes.store(length as u32, Ordering::Relaxed);
    to.dir.store(dir as i32, Ordering::Relaxed);
    true
}

/// Waits until the supervisor has kept what is about to change. What it could not keep
/// it lists.
fn tell(kind: u32, offset: u64, bytes: u64) {
    let change = &lane().change;
    let put = |to: &AtomicU64, value: u64| to.store(value, Ordering::Relaxed);
    put(&change.offset, offset);
    put(&change.bytes, bytes);
    let kinds: &AtomicU32 = &change.kind;
    kinds.store(kind, Ordering::Relaxed);
    request_answer(request::CHANGE, [0; 4], &session().keep_doorbell);
}
