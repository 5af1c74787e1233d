//! The on-disk trace, the store of kept files, and packs.
//!
//! A trace is a directory that only its owner may read: `trace.json` says what
//! was recorded, `events.rvt` holds the lanes' logs, `files/` the content of the
//! files that replay maps. [`TraceWriter`] appends to it, [`TraceReader`] reads
//! it, [`FileStore`] keeps each file's content once for all traces, [`traces`]
//! names traces and [`pack`] makes one file of a trace. The bytes are described
//! in `docs/TRACE_FORMAT.md`.
//!
//! Architecture invariant: what is read from a disk is untrusted. No length is
//! believed before it is bounded, nothing panics, and data whose checksum is
//! wrong are never handed out.
//!
//! Deliberately absent: what an event means (the events crate), and any thread:
//! who calls decides what runs beside what.
#![forbid(unsafe_code)]

mod changed_copy;
mod compress;
pub mod computed;
mod content_copy;
mod contents;
mod disk;
mod error;
mod file_store;
mod home;
mod index;
mod key_index;
pub mod keyframes;
mod meta;
pub mod pack;
mod reader;
mod record;
mod scan;
mod sources;
pub mod traces;
mod verified;
mod writer;

pub use changed_copy::{Changes, copy_changed};
pub use compress::{ChunkCompressor, ChunkDecompressor, Pressure};
pub use contents::{FileEntry, LaneEnd, LaneInfo, NO_PARENT, TraceFile};
pub use error::StoreError;
pub use file_store::{FileKey, FileStore, Kept};
pub use home::{claim_home, default_home};
pub use meta::{Meta, Summary, Totals};
pub use reader::{Cut, CutWhy, LaneReader, TraceReader};
pub use record::{CHUNK_BYTES_MAX, FORMAT_VERSION};
pub use sources::SourceFile;
pub use verified::KnownContents;
pub use writer::{RINGS_NAME, Resumed, TraceWriter};

/// BLAKE3 of a file's content.
pub type FileHash = [u8; 32];

/// The name of a kept file: its hash in lower-case hex.
pub fn hash_hex(hash: &FileHash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}
