//! The ground: kernel calls, memory, byte-level decoding, /proc, stacks and frames.
//!
//! Invariant: nothing in here knows what a recording is. Deliberately absent: state of threads and processes.

pub mod arena;
pub mod assembly;
pub mod auxiliary_vector;
pub mod call_places;
pub mod decode;
pub mod float_place;
pub mod frame;
pub mod image_functions;
pub mod kernel;
pub mod map_changes;
pub mod maps;
pub mod memory;
pub mod notices;
pub mod open_files;
pub mod owned;
pub mod page_entries;
pub mod proc_files;
pub mod registers;
pub mod stack_limit;
pub mod vector_state;
