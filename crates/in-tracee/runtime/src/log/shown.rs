//! Replay: what private mappings of a shared file show of it without the log.

use crate::ground::memory;
use crate::state::block::space;
use crate::state::outside_memory::Place;

/// True if a private mapping shows what the log has for it: to write it would make the page its own.
#[inline]
pub fn shows_already(address: u64, source: u64, bytes: u64) -> bool {
    space().mapped.has_private_views && is_shown(address, source, bytes)
}

#[cold]
fn is_shown(address: u64, source: u64, bytes: u64) -> bool {
    let is_view = |place: &Place| place.is_private && place.start <= address && address < place.end;
    space().mapped.files.all().iter().any(is_view) && is_equal(address, source, bytes)
}

fn is_equal(address: u64, source: u64, bytes: u64) -> bool {
    const CHUNK: usize = 512;
    let (mut shown, mut logged) = ([0u8; CHUNK], [0u8; CHUNK]);
    (0..bytes).step_by(CHUNK).all(|at| {
        let part = (bytes - at).min(CHUNK as u64);
        memory::copy(shown.as_mut_ptr() as u64, address + at, part)
            && memory::copy(logged.as_mut_ptr() as u64, source + at, part)
            && shown[..part as usize] == logged[..part as usize]
    })
}
