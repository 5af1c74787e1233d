//! The image of a replaying process, in the file from which a new process takes it up.
//!
//! The head is at the file's start; the tables are where it says, one behind the other:
//! mappings, objects, runs.

use crate::layout::{CANDIDATES_BYTES, CANDIDATES_START};

/// "RVIMAGE" and a version.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"RVIMAGE\x01");
/// Where a process has the tables, and its stack, while it takes an image up: what only
/// live sessions use otherwise.
pub const LOADER_START: u64 = CANDIDATES_START;
/// Bytes of that place.
pub const LOADER_BYTES: u64 = CANDIDATES_BYTES;
/// Bytes of the stack at its end.
pub const LOADER_STACK_BYTES: u64 = 0x1_0000;
/// Most bytes of the tables.
pub const IMAGE_TABLES_BYTES_MAX: u64 = LOADER_BYTES - 2 * LOADER_STACK_BYTES;
/// How far below the control descriptor the image's is.
pub const IMAGE_FD_BELOW: i32 = 1;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageHead {
    pub magic: u64,
    /// Where the tables are in the file, a multiple of a page.
    pub tables: u64,
    pub tables_bytes: u64,
    pub mappings: u64,
    pub objects: u64,
    pub runs: u64,
    /// Block of the thread that runs, and where its stack ends.
    pub block: u64,
    pub stack: u64,
}

/// Where a mapping's first content is from.
pub mod image_source {
    /// It is zeros.
    pub const ZEROS: u32 = 0;
    /// The kept file of this number.
    pub const FILE: u32 = 1;
    /// The object of this index.
    pub const OBJECT: u32 = 2;
}

/// Flags of a mapping.
pub mod image_flags {
    pub const GROWS_DOWN: u32 = 1;
    pub const SHARED: u32 = 2;
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageMapping {
    pub start: u64,
    pub end: u64,
    /// PROT_*.
    pub protection: u32,
    /// See [`image_flags`].
    pub flags: u32,
    /// See [`image_source`].
    pub source: u32,
    /// Number of the kept file, or index of the object.
    pub number: u32,
    /// Place in that.
    pub offset: u64,
}

/// A file in memory that stands for memory which mappings share.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageObject {
    /// Its descriptor in the process.
    pub fd: u64,
    pub bytes: u64,
}

/// Content of memory, or of an object.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageRun {
    /// Index of the object plus one; 0: memory.
    pub object: u64,
    /// Address, or place in the object.
    pub address: u64,
    pub bytes: u64,
    /// Where it is in the image's file.
    pub place: u64,
}

const _: () = assert!(size_of::<ImageMapping>() == 40);
