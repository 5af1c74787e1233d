//! The order of the writes to the standard output and error that the recording was started with, and
//! showing them in it.

use core::sync::atomic::Ordering;

use events::Tag;
use lane_protocol::OutputPlaces;
use linux_abi::general as nr;

use crate::ground::{kernel, memory};
use crate::state::block::{process, session};
use crate::state::group_replay;

/// Recording: the next place in the order of all outputs.
pub fn take_order() -> u64 {
    session().output_order.fetch_add(1, Ordering::AcqRel)
}

/// The places of a class's outputs: stdout and stderr may be one file.
pub fn places_of(class: u32) -> &'static OutputPlaces {
    let session = session();
    let are_one = session.standard_files[1] == session.standard_files[2];
    &session.output_places[usize::from(class == events::OUTPUT_STDERR && !are_one)]
}

/// True if the class's outputs go to a regular file.
pub fn is_in_file(class: u32) -> bool {
    const KIND: u64 = 0o170000;
    const REGULAR_KIND: u64 = 0o100000;
    session().standard_files[class as usize].mode & KIND == REGULAR_KIND
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

/// Last word of an output that is none: its place is where the file ends.
pub const ENDS_FILE: u64 = 1;

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
    let lane = &mut *crate::state::block::lane();
    if session.lane_filter != 0 {
        // One process of the tree: nobody else's output is waited for or shown.
        // Under the debugger the same is done many times, and shown once; what goes ahead of all
        // that the debugger shows does not show it.
        let is_new = !group_replay::is_lead()
            && (!process().has_agent()
                || session.output_order.fetch_max(order + 1, Ordering::AcqRel) <= order);
        if process().lane == session.shown_lane && is_new {
            write_pieces(output, pieces);
        }
        return;
    }
    loop {
        let token = session.output_order.load(Ordering::Acquire);
        if token >= order {
            break;
        }
        let seen = session.output_wake.load(Ordering::Acquire);
        lane.waits_for_output.store(order + 1, Ordering::SeqCst);
        if session.output_order.load(Ordering::SeqCst) == token {
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

pub fn write_pieces(output: &Output, pieces: &mut dyn FnMut(usize) -> Option<(u64, u64)>) {
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
pub fn go_to_place(fd: i32, output: &Output) {
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
pub fn appends(fd: i32) -> bool {
    const F_GETFL: u64 = 3;
    kernel::call(nr::__NR_fcntl, [fd as u64, F_GETFL, 0, 0, 0, 0]) & i64::from(nr::O_APPEND) != 0
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
