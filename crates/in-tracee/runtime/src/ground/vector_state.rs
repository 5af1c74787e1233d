//! How long the vector state of this processor is, and where its parts are.

use crate::ground::owned::Owned;

/// Found when an image begins.
pub struct VectorState {
    /// Bytes and features of the vector state, and its bytes in signal frames: not fewer.
    pub bytes: u32,
    pub frame_bytes: u32,
    pub features: u64,
    /// Offset and length of each feature's part.
    pub parts: [(u32, u32); 8],
}

static VECTOR_STATE: Owned<VectorState> =
    Owned::new(VectorState { bytes: 0, frame_bytes: 0, features: 0, parts: [(0, 0); 8] });

/// That of this processor.
#[inline]
pub fn vector_state() -> &'static VectorState {
    // SAFETY: it is written where an image begins, before anybody asks for it.
    unsafe { &*VECTOR_STATE.get() }
}

/// An image begins, and has found it out.
pub fn set(state: VectorState) {
    // SAFETY: an image begins with one thread.
    unsafe { *VECTOR_STATE.get() = state };
}

impl VectorState {
    /// The parts of a whole area in use: those that hold anything, and those that begin otherwise
    /// than with zeroes.
    ///
    /// # Safety
    /// The area is as long as the vector state.
    pub unsafe fn parts_in_use(&self, area: *const u8) -> u64 {
        let is_empty = |part: &u64| {
            let (offset, length) = self.parts[*part as usize];
            // SAFETY: inside the area, the caller says.
            let words = (0..length as usize / 8)
                .map(|word| unsafe { area.add(offset as usize).cast::<u64>().add(word).read() });
            words.fold(0, |all, word| all | word) == 0
        };
        (2..8).filter(is_empty).fold(self.features, |named, part| named & !(1 << part))
    }
}
