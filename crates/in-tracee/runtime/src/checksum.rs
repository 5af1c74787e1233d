//! Checksums of the program's writable memory, on request.

use crate::block::process;
use crate::entry::Registers;
use crate::report;

/// Replay: compares memory with the checksum at hand.
pub fn verify(registers: &Registers, word: u64) {
    let log = &mut process().log;
    let _ = registers;
    if word >> 32 != 24 {
        report::fail("a checksum of an impossible length");
    }
    log.consume(word);
    log.events += 1;
}
