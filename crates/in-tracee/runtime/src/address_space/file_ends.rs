//! Files whose end moves while they are mapped: what was behind a new end is gone, also where the
//! program had written to a private mapping, and to touch it is a bus error (mmap(2)).
//!
//! Recording, what mappings show is logged with the call that moved the end. Replaying, memory
//! stands for the files: where the log says that a bus error comes next, its page is made to fault,
//! whoever it was that had cut the file.

use events::Header;
use linux_abi::{PAGE_BYTES, general as nr};

use crate::address_space::mapped_files::{self, STATUS_BYTES, STATUS_INODE, STATUS_WORDS};
use crate::address_space::{descriptor_classes, shared_writes};
use crate::ground::maps::{self, Mapping};
use crate::ground::owned::Owned;
use crate::ground::{kernel, memory};
use crate::log::effects::moves_end;
use crate::state::block::{process, space};

const AT_FDCWD: u64 = -100i64 as u64;
/// FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE of fallocate(2): all that comes later is elsewhere then.
const MOVES_CONTENT: u64 = 0x08 | 0x20;
const SIGBUS: u64 = 7;
/// `si_code` of an access to what is behind the end.
const BUS_ADRERR: u64 = 2;

/// Logs what mappings show of a file whose end this call has moved, or to which it has copied, as
/// blobs of its event.
pub fn log_moved(nr: u64, args: &[u64; 6], result: i64) {
    let opened = match nr as u32 {
        nr::__NR_open => args[1],
        nr::__NR_openat => args[2],
        nr::__NR_creat => u64::from(nr::O_TRUNC),
        _ => 0,
    };
    if result == 0 && nr as u32 == nr::__NR_truncate {
        let mut status = [0u64; STATUS_WORDS];
        let place = status.as_mut_ptr() as u64;
        if !kernel::failed(kernel::call(nr::__NR_newfstatat, [AT_FDCWD, args[0], place, 0, 0, 0])) {
            let [from, bytes] = behind_end(args[1]);
            mapped_files::log_shown(&status, from, bytes);
        }
    } else if result == 0 && moves_end(nr) {
        if nr as u32 == nr::__NR_ftruncate {
            descriptor_classes::log_length(args[0], args[1]);
        }
        let [from, bytes] = match nr as u32 {
            nr::__NR_fallocate if args[1] & MOVES_CONTENT != 0 => [args[2], i64::MAX as u64],
            nr::__NR_fallocate => [args[2], args[3]],
            _ => behind_end(args[1]),
        };
        log_of_descriptor(args[0], from, bytes);
    } else if result >= 0 && opened & u64::from(nr::O_TRUNC) != 0 {
        descriptor_classes::log_length(result as u64, 0);
        log_of_descriptor(result as u64, 0, 0);
    } else if result > 0 {
        log_copied(nr, args, result as u64);
    }
}

/// The same of what the kernel copied to a file.
fn log_copied(nr: u64, args: &[u64; 6], bytes: u64) {
    let [fd, place] = match nr as u32 {
        nr::__NR_sendfile => [args[0], 0],
        nr::__NR_copy_file_range | nr::__NR_splice => [args[2], args[3]],
        _ => return,
    };
    let _ = descriptor_classes::class_of(fd);
    if descriptor_classes::is_mapped(fd) {
        // Where the place in the file is the caller's, it is behind what was copied now.
        let position = memory::read_word(place).map(|end| end.wrapping_sub(bytes));
        mapped_files::log_written(fd, position, bytes);
    }
}

/// Where a new end changes bytes of the page that it is in, and how many: they are zero
/// (ftruncate(2)).
fn behind_end(end: u64) -> [u64; 2] {
    [end, end.wrapping_neg() % PAGE_BYTES]
}

fn log_of_descriptor(fd: u64, from: u64, bytes: u64) {
    let _ = descriptor_classes::class_of(fd);
    if descriptor_classes::is_mapped(fd) {
        mapped_files::log_written(fd, Some(from), bytes);
    }
}

// --- replaying ---

/// The size that a mapped file had last (device, inode, bytes), and how many mappings had been
/// added to the table then.
static LAST_SIZE: Owned<([u64; 3], u64)> = Owned::new(([0; 3], 0));

/// A mapped file has this size (device, inode, bytes), and so has the copy that its mappings show.
pub fn replay_moved(size: [u64; 3]) {
    let [device, inode, bytes] = size;
    let identity = [device, inode];
    let copy = mapped_files::copy_of(identity)
        .map(|fd| (fd as u64, mapped_files::status_of(fd).unwrap_or_default()));
    let has_size = copy.is_some_and(|(_, status)| status[STATUS_BYTES] == bytes);
    let added = space().mapped.files.added();
    // SAFETY: whoever holds the token owns it.
    let last = unsafe { LAST_SIZE.get().replace((size, added)) };
    if has_size && last == (size, added) {
        // Each write to the file says it.
        return;
    }
    shared_writes::disturb_all();
    if let Some((fd, _)) = copy.filter(|_| !has_size) {
        kernel::call(nr::__NR_ftruncate, [fd, bytes, 0, 0, 0, 0]);
    }
    if !mapped_files::is_mapped_privately(identity) {
        return;
    }
    let copy = copy.map(|(_, status)| status[STATUS_INODE]);
    maps::for_each(&mut |shown| {
        if !shown.private || Some(shown.inode) == copy {
            return;
        }
        // A mapping's parts may have protections of their own. What changes is in what was shown.
        mapped_files::for_each_mapping(identity, &mut |start, end, offset| {
            let stop = start.saturating_add(bytes.next_multiple_of(PAGE_BYTES).saturating_sub(offset));
            let (from, to) = (start.max(shown.start), end.min(shown.end));
            if from < to {
                replay_moved_in(shown, from, to, stop.clamp(from, to));
            }
        });
    });
}

/// A private mapping of the kept file, which has the size that the file had then, shows zeros
/// behind where the file stops: what it has grown by, and what is gone, should the file grow again.
fn replay_moved_in(shown: &Mapping, from: u64, to: u64, stop: u64) {
    let mut first = stop;
    while shown.readable && first > from && memory::read::<u8>(first - PAGE_BYTES).is_none() {
        first -= PAGE_BYTES;
    }
    if first < to {
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED;
        kernel::mmap(first, to - first, maps::protection(shown), flags, -1, 0);
    }
}

fn mapping_at(address: u64) -> Option<Mapping> {
    let mut found = None;
    maps::for_each(&mut |mapping| {
        if (mapping.start..mapping.end).contains(&address) {
            found = Some(*mapping);
        }
    });
    found
}

/// The page that faults next, and what the program may do there; 0: none.
static AWAITED: Owned<(u64, u32)> = Owned::new((0, 0));

/// A fault comes next: if it is the error of a page whose file has ended, that page is made to fault.
#[cold]
pub fn await_fault(header: Header) {
    let log = &process().log;
    // Signal number, code and address of the fault's information: see sigaction(2).
    let (code, address) = (log.body(2) & 0xffff_ffff, log.body(3));
    let page = address & !(PAGE_BYTES - 1);
    if u64::from(header.code()) != SIGBUS || code != BUS_ADRERR || memory::read::<u8>(page).is_none() {
        return;
    }
    let Some(mapping) = mapping_at(page) else { return };
    // SAFETY: whoever holds the token owns it.
    let awaited = unsafe { &mut *AWAITED.get() };
    *awaited = (page, maps::protection(&mapping));
    kernel::mprotect(page, PAGE_BYTES, nr::PROT_NONE);
}

/// True if this fault of the program's is the one that the log speaks of.
pub fn is_awaited(address: u64) -> bool {
    // SAFETY: as above.
    let awaited = unsafe { &mut *AWAITED.get() };
    let (page, protection) = *awaited;
    if page == 0 || address & !(PAGE_BYTES - 1) != page {
        return false;
    }
    *awaited = (0, 0);
    kernel::mprotect(page, PAGE_BYTES, protection);
    true
}
