//! Where in memory which part of which file is mapped: exactly that, also where a part of a
//! mapping went away, was mapped over or moved.

use crate::state::outside_memory::{PLACES, Place, Places};

impl Place {
    /// The part of it between these addresses.
    fn between(&self, start: u64, end: u64) -> Option<Place> {
        let (start, end) = (self.start.max(start), self.end.min(end));
        let offset = self.offset.wrapping_add(start.wrapping_sub(self.start));
        (start < end).then_some(Place { start, end, offset, ..*self })
    }

    /// True if the other one begins where this one ends, in memory and in the file.
    fn goes_on_as(&self, next: &Place) -> bool {
        self.identity == next.identity
            && self.only_shows == next.only_shows
            && self.is_private == next.is_private
            && self.end == next.start
            && self.offset.wrapping_add(self.end - self.start) == next.offset
    }
}

impl Places {
    pub fn all(&self) -> &[Place] {
        &self.places[..self.count]
    }

    /// How many entries were added so far: as long as it is the same, no mapping is new, or longer.
    pub fn added(&self) -> u64 {
        self.added
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a mapping, instead of what was there; false if there are too many.
    pub fn add(&mut self, mut new: Place) -> bool {
        self.remove(new.start, new.end);
        // One part of a mapping counts as one, however it came about: loaders map a library
        // whole, and then its segments over that.
        let mut index = 0;
        while index < self.count {
            let place = self.places[index];
            if place.goes_on_as(&new) {
                new = Place { end: new.end, ..place };
            } else if new.goes_on_as(&place) {
                new.end = place.end;
            } else {
                index += 1;
                continue;
            }
            self.drop_at(index);
        }
        self.push(new)
    }

    /// What lies between these addresses went away.
    pub fn remove(&mut self, start: u64, end: u64) {
        let mut index = 0;
        while index < self.count {
            let place = self.places[index];
            if place.between(start, end).is_none() {
                index += 1;
                continue;
            }
            match [place.between(0, start), place.between(end, u64::MAX)] {
                [None, None] => {
                    self.drop_at(index);
                    continue;
                }
                [Some(before), Some(behind)] => {
                    // One too many: it stays as it is.
                    if self.push(behind) {
                        self.places[index] = before;
                    }
                }
                [Some(rest), None] | [None, Some(rest)] => self.places[index] = rest,
            }
            index += 1;
        }
    }

    /// Memory moved, grew or shrank; or it is there twice, if it `stays` or had no length.
    /// False if there are too many.
    pub fn move_to(&mut self, [old, old_bytes]: [u64; 2], [new, new_bytes]: [u64; 2], stays: bool) -> bool {
        let old_end = old + old_bytes;
        if old == new {
            self.remove(old + new_bytes, old_end);
            let last = self.places[..self.count].iter_mut().find(|place| place.end == old_end);
            if let Some(last) = last.filter(|_| new_bytes > old_bytes) {
                last.end = old + new_bytes;
                self.added += 1;
            }
            return true;
        }
        self.remove(new, new + new_bytes);
        let mut fits = true;
        for index in 0..self.count {
            let Some(part) = self.places[index].between(old, old_end.max(old + 1)) else { continue };
            let start = new + (part.start - old);
            let is_last = part.end >= old_end;
            let end = if is_last { new + new_bytes } else { new + (part.end - old) };
            let end = end.min(new + new_bytes);
            fits &= start >= end || self.push(Place { start, end, ..part });
        }
        if !stays {
            self.remove(old, old_end);
        }
        fits
    }

    fn push(&mut self, place: Place) -> bool {
        let has_room = self.count < PLACES;
        if has_room {
            self.places[self.count] = place;
            self.count += 1;
            self.added += 1;
        }
        has_room
    }

    fn drop_at(&mut self, index: usize) {
        self.count -= 1;
        self.places[index] = self.places[self.count];
    }
}
