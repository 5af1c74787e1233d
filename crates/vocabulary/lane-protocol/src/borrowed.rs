//! Live: what the supervisor opens for a process, see [`crate::request`].

/// Something that is always there.
pub const NOTHING: u64 = 0;
/// What a rollback did not restore, as text; what is to be changed in the program's code: files
/// of the lane's, which are gone then.
pub const LOST: u64 = 2;
pub const CHANGE: u64 = 3;
/// A kept file, by its id.
pub const KEPT: u64 = 4;
/// The file that stands for the memory of a file with this device and inode; an empty one.
pub const OBJECT: u64 = 5;
pub const NEW_OBJECT: u64 = 6;
/// Memory and page table of the process's shadow with this id.
pub const MEMORY: u64 = 7;
pub const PAGEMAP: u64 = 8;
/// Of that shadow the descriptor with this number.
pub const DESCRIPTOR: u64 = 9;
