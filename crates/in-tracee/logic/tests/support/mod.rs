//! Memory for tests: one stretch of bytes, with nothing around it.

use std::cell::RefCell;

use runtime_logic::Memory;

pub struct Stretch {
    pub start: u64,
    pub bytes: RefCell<Vec<u8>>,
}

impl Stretch {
    pub fn of(start: u64, bytes: impl Into<Vec<u8>>) -> Stretch {
        Stretch { start, bytes: RefCell::new(bytes.into()) }
    }

    fn place(&self, address: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.bytes.borrow().len()).then_some(from..to)
    }
}

impl Memory for Stretch {
    fn read_into(&self, address: u64, into: &mut [u8]) -> bool {
        let place = self.place(address, into.len());
        if let Some(place) = place.clone() {
            into.copy_from_slice(&self.bytes.borrow()[place]);
        }
        place.is_some()
    }

    fn write_from(&self, address: u64, from: &[u8]) -> bool {
        let place = self.place(address, from.len());
        if let Some(place) = place.clone() {
            self.bytes.borrow_mut()[place].copy_from_slice(from);
        }
        place.is_some()
    }
}
