//! The runtime's image in a memfd, for one session after the other.
//!
//! To write it takes a good part of a short recording: the kernel allocates and copies 400 pages.
//! Recordings that follow each other, as those of a hunt, have one memfd, which is emptied between
//! them of all but the image and what cpuid said, each leaf of which takes an exit of a virtual machine.
//!
//! Invariant: the image in it is never written to again; processes map it privately.
//!
//! Deliberately absent: whether a process of an earlier session is left, which the caller knows.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use lane_protocol::{
    CpuidAnswer, FILE_BYTES, FILE_DATA, FILE_SESSION, FILE_TEXT, PROCESSOR_ANSWERS, Session, cpuid_state,
};

use crate::error::InjectError;
use crate::image::{RuntimeImage, runtime_image};
use crate::limits::FileSizeLimit;
use crate::process::unnamed_file;

/// A memfd in which the image is, and nothing of a session but what cpuid said.
#[derive(Debug)]
pub struct PreparedMemory {
    memfd: File,
}

impl PreparedMemory {
    /// # Errors
    /// [`InjectError::Memory`] when memory is short, [`InjectError::RuntimeImage`]
    /// when this executable was built wrongly.
    pub fn new() -> Result<PreparedMemory, InjectError> {
        let image = runtime_image()?;
        let memfd = unnamed_file(c"retrovane").map_err(InjectError::Memory)?;
        let limit = FileSizeLimit::raise();
        let loaded = load(&memfd, &image);
        limit.restore();
        loaded.map_err(InjectError::Memory)?;
        Ok(PreparedMemory { memfd })
    }

    /// For one session.
    pub(crate) fn memfd(&self) -> io::Result<OwnedFd> {
        self.memfd.try_clone().map(OwnedFd::from)
    }

    /// Removes what a session has left, of which no process is left.
    ///
    /// # Errors
    /// Those of fallocate(2), pread(2) and pwrite(2): it is of no use any more.
    pub fn empty(&self) -> io::Result<()> {
        const ANSWERS: u64 = FILE_SESSION + offset_of!(Session, processor) as u64;
        let mut answers = [0; size_of::<CpuidAnswer>() * PROCESSOR_ANSWERS];
        self.memfd.read_exact_at(&mut answers, ANSWERS)?;
        // SAFETY: only the content of the file changes, which nobody has mapped but privately.
        let emptied = unsafe {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let bytes = (FILE_BYTES - FILE_SESSION) as libc::off_t;
            libc::fallocate(self.memfd.as_raw_fd(), mode, FILE_SESSION as libc::off_t, bytes)
        };
        if emptied != 0 {
            return Err(io::Error::last_os_error());
        }
        // Who ended in the middle of an answer has left one that nobody finishes.
        let is_ready = |answer: &&[u8]| answer.starts_with(&cpuid_state::READY.to_ne_bytes());
        let ready = answers.chunks(size_of::<CpuidAnswer>()).take_while(is_ready).count();
        self.memfd.write_all_at(&answers[..ready * size_of::<CpuidAnswer>()], ANSWERS)
    }
}

/// Writes the image to the file of a session: whole pages at once, where stores would fault at each.
pub(crate) fn load(file: &File, image: &RuntimeImage) -> io::Result<()> {
    let parts = |start: u64, parts: &[(u64, &'static [u8])]| {
        parts.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, start + offset))
    };
    parts(FILE_TEXT, &image.text)?;
    parts(FILE_DATA, &image.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_left_is_gone_but_for_what_cpuid_said() {
        const PLACE: u64 = FILE_SESSION + offset_of!(Session, processor) as u64;
        let prepared = PreparedMemory::new().expect("memory can be had");
        prepared.memfd.set_len(FILE_BYTES).expect("it can be long");
        let mut image = [0; 4096];
        prepared.memfd.read_exact_at(&mut image, FILE_TEXT).expect("it holds the image");
        let answer = |state: u32| [state.to_ne_bytes(), [7; 4], [8; 4]].concat();
        let answers = [answer(cpuid_state::READY), vec![9; 16], answer(cpuid_state::CLAIMED)].concat();
        prepared.memfd.write_all_at(&answers, PLACE).expect("it can be written");
        let others = [FILE_SESSION, PLACE - 8, FILE_BYTES - 4096];
        for place in others {
            prepared.memfd.write_all_at(&[1; 8], place).expect("it can be written");
        }
        prepared.empty().expect("it is emptied");
        let read = |place: u64| {
            let mut bytes = [0; 8];
            prepared.memfd.read_exact_at(&mut bytes, place).map(|()| bytes).expect("it can be read")
        };
        assert_eq!(others.map(read), [[0; 8]; 3], "what a session wrote");
        assert_eq!(read(PLACE)[..], answers[..8], "a whole answer");
        assert_eq!(read(PLACE + size_of::<CpuidAnswer>() as u64), [0; 8], "one that was begun");
        let mut after = [0; 4096];
        prepared.memfd.read_exact_at(&mut after, FILE_TEXT).expect("it holds the image");
        assert!(after == image, "the image is as it was");
    }
}
