//! Which build this is: what one computes of a trace and keeps, another one may compute otherwise.

use std::os::unix::fs::MetadataExt;

/// Version, and length and time of the executable file.
pub fn identity() -> String {
    let own = std::env::current_exe().and_then(std::fs::metadata);
    let build = own.map_or((0, 0), |own| (own.len(), own.mtime_nsec()));
    format!("{} {build:?}", env!("CARGO_PKG_VERSION"))
}
