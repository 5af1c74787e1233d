//! Which calls reach the standard output and error that the recording was
//! started with, so that replay can show them in their order.

use core::sync::atomic::Ordering;

use events::Tag;
use lane_protocol::{OutputPlaces, StandardFile};
use linux_abi::general as nr;

use crate::debugger::imports;
use crate::ground::{kernel, memory};
use crate::state::block::{process, session};
use crate::syscalls::{file_reads, visible_maps};

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
    let Some(known) = process().fd_sleeps.get_mut(fd as u32 as usize) else { return false };
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
    visible_maps::forget(fd);
    file_reads::forget(fd);
    if let Some(slot) = process().fd_classes.get_mut(fd as u32 as usize) {
        *slot = UNKNOWN;
    }
}

/// Forgets all descriptors of a range.
pub fn forget_range(first: u64, last: u64) {
    let process = process();
    let end = (last as usize).min(process.fd_classes.len() - 1) + 1;
    let start = (first as usize).min(end);
    if visible_maps::are_open() {
        (start..end).for_each(|fd| visible_maps::forget(fd as u64));
    }
    (start..end).for_each(|fd| file_reads::forget(fd as u64));
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
    let (process, mark) = (process(), lane_protocol::mark_of(identity));
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
    let classes = &process().fd_classes;
    (0..classes.len() as u32).filter(|&fd| !matches!(classes[fd as usize], UNKNOWN | OTHER | STREAM))
}

#[cold]
fn find_class(fd: i32) -> u8 {
    crate::checkpoint::wait_before_first_use();
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

/// Recording: the next place in the order of all outputs.
pub fn take_order() -> u64 {
    session().output_order.fetch_add(1, Ordering::AcqRel)
}

/// The places of a class's outputs: stdout and stderr may be one file.
fn places_of(class: u32) -> &'static OutputPlaces {
    let session = session();
    let are_one = session.standard_files[1] == session.standard_files[2];
    &session.output_places[usize::from(class == events::OUTPUT_STDERR && !are_one)]
}

/// True if the class's outputs go to a regular file.
fn is_in_file(class: u32) -> bool {
    const KIND: u64 = 0o170000;
    const REGULAR_KIND: u64 = 0o100000;
    session().standard_files[class as usize].mode & KIND == REGULAR_KIND
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

/// Recording, with the lock of outputs: the place of an output, unless it is behind the one before.
/// `position` is the one that the call named.
pub fn place_of(class: u32, fd: u64, position: Option<u64>, bytes: u64) -> Option<u64> {
    const SEEK_CUR: u64 = 1;
    if !is_in_file(class) {
        return None;
    }
    let start = match position {
        Some(position) => position,
        None => {
            let behind = kernel::call(nr::__NR_lseek, [fd, 0, SEEK_CUR, 0, 0, 0]);
            (behind as u64).wrapping_sub(bytes)
        }
    };
    places_of(class).note(start, bytes, position.is_some())
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

/// Last word of an output that is none: its place is where the file ends.
const ENDS_FILE: u64 = 1;

/// An output as the log has it.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub class: u32,
    pub order: u64,
    pub bytes: u64,
    /// Where it goes; `None`: behind the one before.
    pub place: Option<u64>,
    /// The file ends there, and nothing is written.
    pub ends_file: bool,
}

impl Output {
    /// Its words, in the event at hand. What it writes is logged by itself.
    pub fn log(&self) {
        let words = [u64::from(self.class), self.order, self.place.unwrap_or(0), ENDS_FILE];
        let count = match self.place {
            None => 2,
            Some(_) if self.ends_file => 4,
            Some(_) => 3,
        };
        process().log.blob(0, count * 8, Tag::Output, words.as_ptr() as u64);
    }

    /// From the words of its blob.
    pub fn read(source: u64, blob_bytes: u64) -> Option<Output> {
        let [class, order] = memory::read(source)?;
        let further =
            |index: u64| if blob_bytes > index * 8 { memory::read_word(source + index * 8) } else { None };
        let (place, ends_file) = (further(2), further(3) == Some(ENDS_FILE));
        Some(Output { class: class as u32, order, bytes: 0, place, ends_file })
    }
}

/// Replay: the file of an output has another length.
pub fn replay_length(source: u64, blob_bytes: u64) {
    if let Some(output) = Output::read(source, blob_bytes) {
        show(&output, &mut |_| None);
    }
}

/// Replay: shows bytes of the program's memory, given as pieces, when all
/// earlier outputs of the trace have been shown.
pub fn show(output: &Output, pieces: &mut dyn FnMut(usize) -> Option<(u64, u64)>) {
    let order = output.order;
    let session = session();
    let lane = crate::state::block::lane();
    if session.lane_filter != 0 {
        // One process of the tree: nobody else's output is waited for or shown.
        // Under the debugger the same is done many times, and shown once; what goes ahead of all
        // that the debugger shows does not show it.
        let is_new = !imports::is_scout()
            && (!process().debugged || session.output_order.fetch_max(order + 1, Ordering::AcqRel) <= order);
        if process().lane == session.shown_lane && is_new {
            write_pieces(output, pieces);
        }
        return;
    }
    loop {
        let turn = session.output_order.load(Ordering::Acquire);
        if turn >= order {
            break;
        }
        let seen = session.output_wake.load(Ordering::Acquire);
        lane.waits_for_output.store(order + 1, Ordering::SeqCst);
        if session.output_order.load(Ordering::SeqCst) == turn {
            session.doorbell.fetch_add(1, Ordering::Release);
            kernel::futex_wake(&session.doorbell);
            kernel::futex_wait(&session.output_wake, seen, 100);
        }
    }
    lane.waits_for_output.store(0, Ordering::Release);
    write_pieces(output, pieces);
    session.output_order.fetch_max(order + 1, Ordering::AcqRel);
    session.output_wake.fetch_add(1, Ordering::Release);
    kernel::futex_wake(&session.output_wake);
}

fn write_pieces(output: &Output, pieces: &mut dyn FnMut(usize) -> Option<(u64, u64)>) {
    let session = session();
    if session.show_output == 0 {
        return;
    }
    let fd = session.output_fds[(output.class == events::OUTPUT_STDERR) as usize];
    go_to_place(fd, output);
    let (mut index, mut bytes) = (0, output.bytes);
    while bytes > 0
        && let Some((address, len)) = pieces(index)
    {
        let part = len.min(bytes);
        kernel::write_all(fd, address, part);
        bytes -= part;
        index += 1;
    }
}

/// Replay: what is written next to the descriptor goes to the output's place, if that is in a file.
/// Or it ends there.
fn go_to_place(fd: i32, output: &Output) {
    const SEEK_SET: u64 = 0;
    let Some(place) = output.place else { return };
    let goal = places_of(output.class).offset_of(place);
    let call = if output.ends_file { nr::__NR_ftruncate } else { nr::__NR_lseek };
    let result = kernel::call(call, [fd as u64, goal, SEEK_SET, 0, 0, 0]);
    if kernel::failed(result) || appends(fd) {
        session().outputs_misplaced.fetch_add(1, Ordering::Relaxed);
    }
}

/// True for a descriptor to which all is written at the file's end.
fn appends(fd: i32) -> bool {
    const F_GETFL: u64 = 3;
    kernel::call(nr::__NR_fcntl, [fd as u64, F_GETFL, 0, 0, 0, 0]) & i64::from(nr::O_APPEND) != 0
}

/// The pieces of an array of `struct iovec`.
pub fn vector_piece(vectors: u64, count: u64, index: usize) -> Option<(u64, u64)> {
    if index as u64 >= count {
        return None;
    }
    let [base, len] = memory::read::<[u64; 2]>(vectors + index as u64 * 16)?;
    Some((base, len))
}
