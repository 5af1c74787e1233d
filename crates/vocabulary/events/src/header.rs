//! The first word of an event, in the one place that knows where its parts are.

use crate::{ARG_COUNT_MASK, Kind};

/// The first word of an event: kind (8 bits), flags (8), code (16), length in bytes (32). One that was read is as
/// good as where it came from: it may be of no kind, and its length may be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Header(pub u64);

impl Header {
    /// That of no event.
    pub const NONE: Header = Header(0);

    #[inline]
    pub const fn new(kind: Kind, flags: u8, code: u16, len_bytes: u32) -> Header {
        Header(kind as u64 | (flags as u64) << 8 | (code as u64) << 16 | (len_bytes as u64) << 32)
    }

    /// The one that bytes begin with, if they are enough.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        bytes.first_chunk().map(|bytes| Header(u64::from_le_bytes(*bytes)))
    }

    pub const fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    #[inline]
    pub const fn kind(self) -> Option<Kind> {
        Kind::from_byte(self.0 as u8)
    }

    #[inline]
    pub const fn is(self, kind: Kind) -> bool {
        self.0 as u8 == kind as u8
    }

    #[inline]
    pub const fn flags(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The same with more flags.
    pub const fn with(self, flags: u8) -> Header {
        Header(self.0 | (flags as u64) << 8)
    }

    #[inline]
    pub const fn code(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Length of the event, its header included.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0 >> 32
    }

    /// How many arguments are logged of a call.
    #[inline]
    pub const fn arguments(self) -> u64 {
        (self.flags() & ARG_COUNT_MASK) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Header;
    use crate::{IN_PLACE, Kind};

    #[test]
    fn parts_come_back_and_lie_where_the_format_says() {
        let header = Header::new(Kind::Preemption, IN_PLACE | 5, 0xbeef, 0x1234_5678);
        assert_eq!(header.to_le_bytes(), [11, 0x85, 0xef, 0xbe, 0x78, 0x56, 0x34, 0x12]);
        assert_eq!(Header::read(&[header.to_le_bytes().as_slice(), &[1]].concat()), Some(header));
        assert_eq!((header.kind(), header.flags(), header.code()), (Some(Kind::Preemption), 0x85, 0xbeef));
        assert_eq!((header.bytes(), header.arguments()), (0x1234_5678, 5));
        assert!(header.is(Kind::Preemption) && !header.is(Kind::Stop));
        assert_eq!(Header::new(Kind::Data, 0, 7, 8).with(IN_PLACE), Header::new(Kind::Data, IN_PLACE, 7, 8));
        assert_eq!(Header::NONE.kind(), None);
        assert_eq!(Header::read(&[0; 7]), None);
    }
}
