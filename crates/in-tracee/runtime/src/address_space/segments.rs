//! How a segment of System V shared memory is named.

/// A segment's, by its id.
pub fn identity_of(id: u64) -> [u64; 2] {
    [SEGMENT, id & 0xffff_ffff]
}

/// In place of the device of a file, in identities.
pub const SEGMENT: u64 = u64::from_be_bytes(*b"\0SysVshm");
