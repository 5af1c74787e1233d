//! Standard input of the tries of a hunt: each reads the same.
//!
//! Deliberately absent: input that comes while tries run. A pipe that says nothing when the hunt begins is nothing: it may
//! be one that nobody will ever write to or close.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a pipe has for its first byte, or its end.
const FIRST_BYTE_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// What a pipe holds whoever reads it. More is a file for the tries.
const PIPE_BYTES_MAX: usize = 1 << 16;

/// What each try reads.
pub enum Input {
    /// The hunt's own file, from where that stands.
    File(u64),
    /// What came through a pipe.
    Pipe(Vec<u8>),
    /// The same, where a pipe does not hold it.
    Long(File),
    Nothing,
}

impl Input {
    /// Looks at the hunt's own; a pipe that begins is read to its end.
    ///
    /// # Errors
    /// Of read(2), and of a temporary file.
    pub fn of_hunt(quiet: bool) -> io::Result<Input> {
        let Ok(ours) = io::stdin().as_fd().try_clone_to_owned() else { return Ok(Input::Nothing) };
        let mut ours = File::from(ours);
        let kind = ours.metadata()?.file_type();
        if kind.is_file() {
            return Ok(Input::File(ours.stream_position()?));
        }
        if !std::os::unix::fs::FileTypeExt::is_fifo(&kind) {
            return Ok(Input::Nothing);
        }
        let mut entry = [PollFd::new(&ours, PollFlags::IN)];
        if poll(&mut entry, Some(&FIRST_BYTE_MAX))? == 0 {
            if !quiet {
                diagnostics::tell!("retrovane: standard input is a pipe that says nothing: so do the tries'");
            }
            return Ok(Input::Nothing);
        }
        let mut content = Vec::new();
        ours.read_to_end(&mut content)?;
        if content.len() <= PIPE_BYTES_MAX {
            return Ok(Input::Pipe(content));
        }
        let mut file = super::attempt::unnamed_file()?;
        file.write_all(&content)?;
        Ok(Input::Long(file))
    }

    /// A new one for a try.
    ///
    /// # Errors
    /// Of pipe(2) and open(2).
    pub fn for_try(&self) -> io::Result<File> {
        match self {
            Input::File(position) => {
                let mut own = File::open("/proc/self/fd/0")?;
                own.seek(SeekFrom::Start(*position))?;
                Ok(own)
            }
            Input::Pipe(content) => {
                let (reader, mut writer) = io::pipe()?;
                writer.write_all(content)?;
                Ok(File::from(OwnedFd::from(reader)))
            }
            Input::Long(file) => File::open(format!("/proc/self/fd/{}", file.as_raw_fd())),
            Input::Nothing => File::open("/dev/null"),
        }
    }
}
