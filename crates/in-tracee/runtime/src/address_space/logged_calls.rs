//! The event of a call that its row describes.

use syscall_model::Arg;

use crate::address_space::{file_ends, file_reads, foreign_writes, outsider_signs, packet_rings};
use crate::log::call_event::begin_call;
use crate::log::effects;
use crate::state::block::process;
use crate::state::call_state::Before;

/// Logs a call with everything that its row names.
pub fn log_call(nr: u64, args: &[u64; 6], model: &[Arg], work: u8, result: i64, before: &Before, flags: u8) {
    begin_call(nr, args, model.len(), result, flags);
    if work != 0 {
        if work & effects::READS_TEXT != 0 {
            effects::log_texts(model, args);
            file_reads::note_opened(nr, result);
        }
        if work & effects::SENDS != 0 {
            effects::log_sent(model, args, result);
        }
        if work & effects::WRITES != 0 {
            match file_reads::find(nr, args, result) {
                Some(mut part) => {
                    effects::log_written_by(model, args, result, before, &mut |at, bytes| {
                        part.log(at, bytes)
                    });
                }
                None => effects::log_written(model, args, result, before),
            }
        }
    }
    packet_rings::log_arrived(nr, args, result);
    file_ends::log_moved(nr, args, result);
    outsider_signs::note_call(nr, args, result);
    foreign_writes::log_new(nr, args);
    process().log.end();
}
