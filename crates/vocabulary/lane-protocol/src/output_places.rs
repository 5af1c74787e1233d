//! Where in a regular file the outputs of a session go: a program may go back in it (lseek(2)) or
//! name a place (pwrite(2)).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is before the place 0 is none.
const PLACE_MAX: u64 = i64::MAX as u64;

/// Of one output. Places count from where the file's offset is when the session begins. Only who
/// writes the output looks, and only one does at a time.
#[repr(C)]
pub struct OutputPlaces {
    /// Where in the file the place 0 is, modulo 2^64.
    pub base: AtomicU64,
    /// Recording: behind the output before.
    at: AtomicU64,
    /// Recording: behind all of them.
    end: AtomicU64,
    /// Recording: not zero once the program went to a place, or moved the file's end: it knows where
    /// its outputs go.
    pub is_sought: AtomicU32,
}

impl OutputPlaces {
    /// Recording: `bytes` went to this place in the file, of which the program `names` it or not.
    /// Returns the output's place unless it is behind the output before. What goes behind all
    /// outputs by itself continues them: in between others may have written.
    pub fn note(&self, start: u64, bytes: u64, names: bool) -> Option<u64> {
        let [at, end] = [&self.at, &self.end].map(|word| word.load(Ordering::Relaxed));
        let mut place = start.wrapping_sub(self.base.load(Ordering::Relaxed));
        let is_meant = names || self.is_sought.load(Ordering::Relaxed) != 0;
        if place > end && place != at && !(is_meant && place <= PLACE_MAX) {
            place = end;
            self.base.store(start.wrapping_sub(end), Ordering::Relaxed);
        }
        let behind = place.saturating_add(bytes);
        self.at.store(behind, Ordering::Relaxed);
        self.end.store(end.max(behind), Ordering::Relaxed);
        (place != at).then_some(place)
    }

    /// Recording: the file has this length now. Returns the place of its end, where that is one.
    pub fn note_length(&self, length: u64) -> Option<u64> {
        let place = length.wrapping_sub(self.base.load(Ordering::Relaxed));
        self.end.store(place.min(PLACE_MAX), Ordering::Relaxed);
        self.is_sought.store(1, Ordering::Relaxed);
        (place <= PLACE_MAX).then_some(place)
    }

    /// Replay: where the place is in the file.
    pub fn offset_of(&self, place: u64) -> u64 {
        self.base.load(Ordering::Relaxed).wrapping_add(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(base: u64) -> OutputPlaces {
        let word = || AtomicU64::new(0);
        let places = OutputPlaces { base: word(), at: word(), end: word(), is_sought: AtomicU32::new(0) };
        places.base.store(base, Ordering::Relaxed);
        places
    }

    #[test]
    fn only_what_goes_elsewhere_has_a_place() {
        let places = places(100);
        assert_eq!(places.note(100, 4, false), None);
        assert_eq!(places.note(104, 4, false), None);
        assert_eq!(places.note(100, 2, false), Some(0));
        assert_eq!(places.note(102, 1, false), None, "it goes on from there");
        assert_eq!(places.note(108, 5, false), Some(8), "back to the end");
        assert_eq!(places.note(113, 5, false), None);
        assert_eq!(places.note(130, 5, true), Some(30), "behind a hole");
        places.is_sought.store(1, Ordering::Relaxed);
        assert_eq!(places.note(140, 5, false), Some(40), "behind another one");
        assert_eq!(places.offset_of(7), 107);
        assert_eq!(places.note_length(120), Some(20));
        assert_eq!(places.note(145, 5, false), None, "it goes on where it was");
        assert_eq!(places.note_length(99), None, "no place of ours");
    }

    #[test]
    fn what_others_wrote_in_between_is_left_out() {
        let places = places(0);
        assert_eq!(places.note(0, 4, false), None);
        assert_eq!(places.note(50, 4, false), None);
        assert_eq!(places.note(50, 1, false), Some(4));
        assert_eq!(places.note(2, 1, true), Some(8), "before the part that is known: behind all");
    }
}
