//! Sockets of live sessions, also where the way to them is longer than an address may be
//! (unix(7): 108 bytes): then by a descriptor of their folder.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes of an address, with the zero at its end.
const ADDRESS_BYTES_MAX: usize = 108;

/// A way to the socket that is short, for as long as the folder is open.
fn short_way(path: &Path) -> std::io::Result<(Option<File>, PathBuf)> {
    if path.as_os_str().len() < ADDRESS_BYTES_MAX {
        return Ok((None, path.to_owned()));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    let way = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((Some(folder), way))
}

/// A socket at the path, which listens.
///
/// # Errors
/// Those of the kernel; a name of more than 80 bytes in a long path is too long.
pub fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let (_folder, way) = short_way(path)?;
    UnixListener::bind(way)
}

/// A connection to the socket at the path.
///
/// # Errors
/// As of [`bind`].
pub fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let (_folder, way) = short_way(path)?;
    UnixStream::connect(way)
}
