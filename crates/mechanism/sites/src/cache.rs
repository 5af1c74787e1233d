//! An analysis, from a cache if there is one.

use std::io;

use crate::{Analysis, FORMAT_VERSION, analyse, from_bytes, to_bytes};

/// What an analysis of `content` says. `read` and `write` are given the name
/// under which the cache has analyses of this version, for this content. A cache
/// that cannot be written costs time only, so its errors are its owner's.
///
/// # Errors
/// What `content` fails with.
pub fn analyse_cached(
    read: impl FnOnce(&str) -> Option<Vec<u8>>,
    write: impl FnOnce(&str, &[u8]),
    content: impl FnOnce() -> io::Result<Vec<u8>>,
) -> io::Result<Analysis> {
    let name = format!("sites-{FORMAT_VERSION}");
    if let Some(analysis) = read(&name).and_then(|bytes| from_bytes(&bytes)) {
        return Ok(analysis);
    }
    let analysis = analyse(&content()?);
    write(&name, &to_bytes(&analysis));
    Ok(analysis)
}
