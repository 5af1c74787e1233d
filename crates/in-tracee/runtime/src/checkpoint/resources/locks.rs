//! Locks of files. A shadow has the program's files open, and so would keep what is locked by
//! flock(2), or by an open file, locked when the program has closed it: it is unlocked first. A
//! branch makes locks what they were.
//!
//! Invariant: the list of descriptors may name too many. What the kernel tells of each is true.
//!
//! Deliberately absent: locks behind descriptors that a program has from the one it executed or
//! was forked from, until it uses them; and processes that share an open file, whose lock is left
//! alone where it is closed.

use core::sync::atomic::Ordering;

use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::{KNOWN_MAX, LOCKS_MAX, Lock, Owner, Table};
use crate::checkpoint::take::slots;
use crate::ground::kernel;
use crate::ground::proc_files::each_line;
use crate::state::block::{lane, process, space};

const LOCK_SH: u64 = 1;
const LOCK_EX: u64 = 2;
const LOCK_NB: u64 = 4;
const LOCK_UN: u64 = 8;
const F_RDLCK: u64 = 0;
const F_WRLCK: u64 = 1;
const F_UNLCK: u64 = 2;
const F_SETLK: u64 = 6;
const F_OFD_SETLK: u64 = 37;

fn known() -> impl Iterator<Item = u32> {
    let area = area();
    (0..area.locks.all.len()).map(move |index| area.locks.all[index]).filter(|&fd| fd != 0).map(|fd| fd - 1)
}

/// True if files may be locked.
pub fn is_any() -> bool {
    known().next().is_some()
}

fn remember(fd: u32) {
    let locks = &mut area().locks;
    if !locks.all.contains(&(fd + 1)) {
        let free = locks.all.iter().position(|&one| one == 0);
        locks.all[free.unwrap_or(locks.next)] = fd + 1;
        locks.next = (locks.next + 1) % KNOWN_MAX;
    }
}

/// A call of the program's that may lock a file, or close one.
pub fn before_call(number: u64, args: &[u64; 6]) {
    const OF_LOCKS: [u32; 4] = [nr::F_SETLK, nr::F_SETLKW, 37, 38];
    match number as u32 {
        nr::__NR_flock => remember(args[0] as u32),
        nr::__NR_fcntl if OF_LOCKS.contains(&(args[1] as u32)) => remember(args[0] as u32),
        nr::__NR_close => release_all(args[0] as u32, args[0] as u32),
        nr::__NR_close_range if args[2] as u32 & crate::ground::kernel::CLOSE_RANGE_CLOEXEC == 0 => {
            release_all(args[0] as u32, args[1] as u32);
        }
        nr::__NR_dup2 | nr::__NR_dup3 if args[0] as u32 != args[1] as u32 => {
            release_all(args[1] as u32, args[1] as u32);
        }
        _ => {}
    }
}

fn release_all(first: u32, last: u32) {
    for fd in known().filter(|fd| (first..=last).contains(fd)) {
        release(fd);
    }
}

/// A descriptor is closed: what its open file has locked is unlocked where nobody but shadows has
/// that besides.
fn release(fd: u32) {
    if slots::last().is_some() && owned(fd) != [false; 2] && !is_open_besides(fd) {
        unlock(fd);
    }
    area().locks.all.iter_mut().filter(|one| **one == fd + 1).for_each(|one| *one = 0);
}

/// A descriptor that was made since a checkpoint goes.
pub fn drop_since(fd: u32) {
    if known().any(|one| one == fd) {
        // If it is one of then besides, that has its locks again at the end.
        unlock(fd);
    }
}

/// Unlocks what the open file has locked, if no process was made that may have it too.
fn unlock(fd: u32) {
    let [by_flock, by_range] = owned(fd);
    if area().forks != 0 {
        return;
    }
    if by_flock {
        kernel::call(nr::__NR_flock, [u64::from(fd), LOCK_UN, 0, 0, 0, 0]);
    }
    if by_range {
        set_range(fd, F_OFD_SETLK, F_UNLCK, 0, u64::MAX);
    }
}

/// Whether the open file has locks, by flock(2) and by fcntl(2).
fn owned(fd: u32) -> [bool; 2] {
    let mut has = [false; 2];
    each_lock(fd, &mut |lock| match lock.owner {
        Owner::Flock => has[0] = true,
        Owner::OpenFile => has[1] = true,
        Owner::Process => {}
    });
    has
}

/// True if another descriptor is of the same open file, or if that cannot be known.
fn is_open_besides(fd: u32) -> bool {
    const KCMP_FILE: u64 = 0;
    let pid = process().pid as u64;
    let table = &mut area().tables.now;
    table.fill();
    let other = table.all().iter().filter(|other| other.fd != fd).find_map(|other| {
        let arguments = [pid, pid, KCMP_FILE, u64::from(fd), u64::from(other.fd), 0];
        let result = kernel::call(nr::__NR_kcmp, arguments);
        let differs = result > 0 || result == crate::ground::kernel::error(errno::EBADF);
        (!differs).then_some((other.fd, result))
    });
    if let Some((other, 0)) = other {
        // Its lock lives on behind that one.
        remember(other);
    }
    other.is_some()
}

/// Each lock that the process holds by a descriptor.
fn each_lock(fd: u32, act: &mut dyn FnMut(Lock)) {
    each_line(fd, &mut |line| {
        if let Some(lock) = parse(fd, line) {
            act(lock);
        }
    });
}

/// `lock: N: FLOCK|POSIX|OFDLCK ADVISORY READ|WRITE PID DEVICE:INODE START LAST|EOF`.
fn parse(fd: u32, line: &[u8]) -> Option<Lock> {
    let mut words =
        line.strip_prefix(b"lock:")?.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let owner = match words.nth(1)? {
        b"FLOCK" => Owner::Flock,
        b"POSIX" => Owner::Process,
        b"OFDLCK" => Owner::OpenFile,
        _ => return None,
    };
    let writes = words.nth(1)? == b"WRITE";
    let number = |word: &[u8]| core::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let start = number(words.nth(2)?)?;
    let last = number(words.next()?).unwrap_or(u64::MAX);
    Some(Lock { fd, owner, writes, start, last })
}

/// Lists the locks of now for the checkpoint that is being taken.
pub fn note() {
    let table = &mut area().tables.then;
    table.lock_count = 0;
    if space().boarded && core::mem::replace(&mut area().locks.looked, 1) == 0 {
        let now = &mut area().tables.now;
        now.fill();
        now.all().iter().filter(|one| one.is_seekable()).for_each(|one| {
            each_lock(one.fd, &mut |lock| remember(lock.fd));
        });
    }
    for fd in known() {
        each_lock(fd, &mut |lock| {
            if table.lock_count < LOCKS_MAX {
                table.locks[table.lock_count] = lock;
                table.lock_count += 1;
            }
        });
    }
}

/// Branch: the descriptors are as then, and so are their locks now.
pub fn restore(then: &Table) {
    let missing = &lane().missing;
    // It was looked at a moment ago.
    missing.locks_of.store(missing.checkpoint.load(Ordering::Relaxed), Ordering::Relaxed);
    let lost = &missing.locks;
    lost.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    then.locks().iter().for_each(|lock| remember(lock.fd));
    let is_of_then = |fd: u32| then.find(fd).is_some_and(|one| one.is_seekable());
    for fd in known().filter(|&fd| is_of_then(fd)) {
        let mut left = LOCKS_MAX;
        while let Some(lock) = first_but(fd, then.locks()).filter(|_| left != 0) {
            lock.set(false);
            left -= 1;
        }
    }
    for lock in then.locks().iter().filter(|lock| is_of_then(lock.fd)) {
        if !lock.set(true)
            && let Some(word) = lost.get(lock.fd as usize / 64)
        {
            word.fetch_or(1 << (lock.fd % 64), Ordering::Relaxed);
        }
    }
}

/// A lock that is held by a descriptor, and is none of these.
fn first_but(fd: u32, wanted: &[Lock]) -> Option<Lock> {
    let mut found = None;
    each_lock(fd, &mut |lock| {
        if !wanted.contains(&lock) {
            found = found.or(Some(lock));
        }
    });
    found
}

impl Lock {
    /// Takes it, or lets it go; false if somebody else has it.
    fn set(&self, is_held: bool) -> bool {
        let kind = match (is_held, self.writes) {
            (false, _) => F_UNLCK,
            (true, true) => F_WRLCK,
            (true, false) => F_RDLCK,
        };
        match self.owner {
            Owner::Flock => {
                let operation = [LOCK_SH, LOCK_EX, LOCK_UN][kind as usize] | LOCK_NB;
                !kernel::failed(kernel::call(nr::__NR_flock, [u64::from(self.fd), operation, 0, 0, 0, 0]))
            }
            Owner::OpenFile => set_range(self.fd, F_OFD_SETLK, kind, self.start, self.last),
            Owner::Process => set_range(self.fd, F_SETLK, kind, self.start, self.last),
        }
    }
}

/// struct flock of fcntl(2).
fn set_range(fd: u32, command: u64, kind: u64, start: u64, last: u64) -> bool {
    let bytes = if last == u64::MAX { 0 } else { last - start + 1 };
    let flock = [kind, start, bytes, 0];
    !kernel::failed(kernel::call(nr::__NR_fcntl, [u64::from(fd), command, flock.as_ptr() as u64, 0, 0, 0]))
}
