//! What descriptors reach, as far as calls on them depend on it: the standard output or error that the
//! recording was started with, files, those that are mapped, and streams; and whether they may sleep.

use core::sync::atomic::Ordering;

use lane_protocol::StandardFile;
use linux_abi::general as nr;

use crate::ground::{kernel, notices};
use crate::log::output_order::{Output, is_in_file, places_of, take_order};
use crate::state::block::{process, session};
use crate::state::call_state;

const UNKNOWN: u8 = 0;
const SLEEPS: u8 = 1;
const NEVER_SLEEPS: u8 = 2;
const OTHER: u8 = 3;
/// A file that the program has mapped.
const MAPPED: u8 = 4;
/// A regular file.
const REGULAR: u8 = 5;
/// A socket or a pipe, which nobody can map.
const STREAM: u8 = 6;

/// Class of a descriptor: `events::OUTPUT_STDOUT`, `OUTPUT_STDERR`, or 0.
/// Remembered until the descriptor is closed.
#[inline]
pub fn class_of(fd: u64) -> u32 {
    let classes = &mut process().fd_classes;
    let index = fd as u32 as usize;
    let known = classes.get(index).copied().unwrap_or(UNKNOWN);
    let class = if known != UNKNOWN {
        known
    } else {
        let class = find_class(index as i32);
        if let Some(slot) = classes.get_mut(index) {
            *slot = class;
        }
        class
    };
    if class >= OTHER { 0 } else { u32::from(class) }
}

/// True if the descriptor, of which the class was asked for, reaches a file that
/// somebody has mapped: the program, or, as far as marks tell, another one.
#[inline]
pub fn is_mapped(fd: u64) -> bool {
    let (process, index) = (process(), fd as u32 as usize);
    match process.fd_classes.get(index) {
        Some(&MAPPED) => true,
        Some(&REGULAR) => session().written_files.is_marked(process.fd_marks[index]),
        _ => false,
    }
}

/// True if the descriptor reaches a regular file.
pub fn is_regular(fd: u64) -> bool {
    let _ = class_of(fd);
    process().fd_classes.get(fd as u32 as usize).is_some_and(|&class| class == MAPPED || class == REGULAR)
}

/// True for the file that standard error was when the session began: who records writes
/// there as well.
pub fn is_standard_error(device: u64, inode: u64) -> bool {
    let file = &session().standard_files[2];
    file.mode != 0 && (file.device, file.inode) == (device, inode)
}

/// True if calls on the descriptor never sleep (O_NONBLOCK). Remembered until the
/// descriptor is closed or its flags are set.
pub fn never_sleeps(fd: u64) -> bool {
    const F_GETFL: u64 = 3;
    let process = &mut *process();
    let Some(known) = process.fd_sleeps.get_mut(fd as u32 as usize) else { return false };
    if *known == UNKNOWN {
        let flags = kernel::call(nr::__NR_fcntl, [fd, F_GETFL, 0, 0, 0, 0]);
        if kernel::failed(flags) {
            return false;
        }
        *known = if flags & i64::from(nr::O_NONBLOCK) != 0 { NEVER_SLEEPS } else { SLEEPS };
    }
    *known == NEVER_SLEEPS
}

/// The descriptor's flags may have changed.
#[inline]
pub fn forget_flags(fd: u64) {
    if let Some(known) = process().fd_sleeps.get_mut(fd as u32 as usize) {
        *known = UNKNOWN;
    }
}

/// The descriptor was closed or now means something else.
pub fn forget(fd: u64) {
    forget_flags(fd);
    call_state::forget_map_list(fd);
    call_state::forget_read_file(fd);
    if let Some(slot) = process().fd_classes.get_mut(fd as u32 as usize) {
        *slot = UNKNOWN;
    }
}

/// Forgets all descriptors of a range.
pub fn forget_range(first: u64, last: u64) {
    let process = &mut *process();
    let end = (last as usize).min(process.fd_classes.len() - 1) + 1;
    let start = (first as usize).min(end);
    if call_state::map_lists_are_open() {
        (start..end).for_each(|fd| call_state::forget_map_list(fd as u64));
    }
    (start..end).for_each(|fd| call_state::forget_read_file(fd as u64));
    process.fd_classes[start..end].fill(UNKNOWN);
    process.fd_sleeps[start..end].fill(UNKNOWN);
}

/// What the descriptor reaches is asked for again when it is used.
pub fn forget_class(fd: u32) {
    if let Some(class) = process().fd_classes.get_mut(fd as usize) {
        *class = UNKNOWN;
    }
}

/// Nothing is known of what the descriptors reach.
pub fn forget_classes() {
    process().fd_classes.fill(UNKNOWN);
    process().fd_sleeps.fill(UNKNOWN);
}

/// Another file is mapped: descriptors may reach it.
pub fn forget_file(identity: [u64; 2]) {
    const AT_ONCE: usize = 16;
    let (process, mark) = (&mut *process(), lane_protocol::mark_of(identity));
    let marks = process.fd_marks.chunks_exact(AT_ONCE);
    for (classes, marks) in process.fd_classes.as_chunks_mut::<AT_ONCE>().0.iter_mut().zip(marks) {
        if *classes == [UNKNOWN; AT_ONCE] {
            continue;
        }
        for (class, &known) in classes.iter_mut().zip(marks) {
            if *class != STREAM && (*class != REGULAR || known == mark) {
                *class = UNKNOWN;
            }
        }
    }
}

/// Descriptors that reach regular files, or may, of those that were used.
pub fn files_in_use() -> impl Iterator<Item = u32> {
    let process = process();
    (0..process.fd_classes.len() as u32)
        .filter(move |&fd| !matches!(process.fd_classes[fd as usize], UNKNOWN | OTHER | STREAM))
}

#[cold]
fn find_class(fd: i32) -> u8 {
    notices::descriptor_is_used_first();
    let mut stat = [0u64; 18];
    let result = kernel::call(nr::__NR_fstat, [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if kernel::failed(result) {
        // Not remembered as other: the number may come to mean something.
        return UNKNOWN;
    }
    // struct stat: st_dev, st_ino, st_nlink, st_mode+st_uid, st_gid+pad, st_rdev.
    let file =
        StandardFile { device: stat[0], inode: stat[1], raw_device: stat[5], mode: stat[3] & 0xffff_ffff };
    // What goes to /dev/null is not shown: nobody saw it.
    let null_device = file.mode & 0o170000 == 0o020000 && file.raw_device == 0x103;
    if null_device {
        return OTHER;
    }
    let standard = &session().standard_files;
    let is_out = standard[1].mode != 0 && standard[1] == file;
    let is_err = standard[2].mode != 0 && standard[2] == file;
    match (is_out, is_err) {
        (true, true) => (if fd == 2 { events::OUTPUT_STDERR } else { events::OUTPUT_STDOUT }) as u8,
        (true, false) => events::OUTPUT_STDOUT as u8,
        (false, true) => events::OUTPUT_STDERR as u8,
        (false, false) if crate::address_space::mapped_files::is_mapped([stat[0], stat[1]]) => MAPPED,
        (false, false) => match file.mode & 0o170000 {
            0o100000 => {
                if let Some(mark) = process().fd_marks.get_mut(fd as usize) {
                    *mark = lane_protocol::mark_of([stat[0], stat[1]]);
                }
                REGULAR
            }
            0o140000 | 0o010000 => STREAM,
            _ => OTHER,
        },
    }
}

/// Recording: lseek(2) is about to be called.
#[inline]
pub fn note_seek(args: &[u64; 6]) {
    const SEEK_CUR: u32 = 1;
    let only_asks = args[1] == 0 && args[2] as u32 == SEEK_CUR;
    let are_in_files = is_in_file(events::OUTPUT_STDOUT) || is_in_file(events::OUTPUT_STDERR);
    if !only_asks && are_in_files && class_of(args[0]) != 0 {
        places_of(class_of(args[0])).is_sought.store(1, Ordering::Relaxed);
    }
}

/// Recording, in the event of the call at hand: the file of a descriptor has this length now.
pub fn log_length(fd: u64, length: u64) {
    let class = class_of(fd);
    if class != 0
        && is_in_file(class)
        && let Some(place) = places_of(class).note_length(length)
    {
        Output { class, order: take_order(), bytes: 0, place: Some(place), ends_file: true }.log();
    }
}
