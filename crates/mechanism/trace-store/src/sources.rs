//! Sources that came with a trace in its pack, by the paths that debug information names.
//!
//! The list and the contents are a stranger's: a path is only ever compared, or made anew inside of a private folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{FileHash, disk, hash_hex};

/// The list: in a pack, and beside a trace that came in one.
pub(crate) const LIST_NAME: &str = "sources.json";
/// The folder of their contents.
pub(crate) const SOURCES_NAME: &str = "sources";
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Longest source, and most of them.
pub(crate) const SOURCE_BYTES_MAX: u64 = 16 << 20;
pub(crate) const SOURCES_MAX: usize = 1 << 16;

/// A source, and where its content is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// As the debug information names it; it may hold `..`.
    pub named: String,
    pub content: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub path: String,
    pub hash: String,
}

/// The sources beside a trace; none where there is no list, or it makes no sense.
pub(crate) fn beside(trace_dir: &Path) -> Vec<SourceFile> {
    let bytes = disk::read_bounded(&trace_dir.join(LIST_NAME), LIST_BYTES_MAX).ok().flatten();
    let listed: Option<Vec<Listed>> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut found = Vec::new();
    for one in listed.unwrap_or_default().into_iter().take(SOURCES_MAX) {
        // Its own digits again: no other name leads anywhere.
        if let Ok(hash) = blake3::Hash::from_hex(&one.hash) {
            let content = trace_dir.join(SOURCES_NAME).join(hash_hex(hash.as_bytes()));
            found.push(SourceFile { named: one.path, content });
        }
    }
    found
}

/// A source that is to be packed, read whole: it may be edited meanwhile.
pub(crate) fn read(source: &SourceFile) -> Option<(FileHash, Vec<u8>)> {
    let bytes = disk::read_bounded(&source.content, SOURCE_BYTES_MAX).ok().flatten()?;
    Some((*blake3::hash(&bytes).as_bytes(), bytes))
}
