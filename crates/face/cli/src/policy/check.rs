//! Outputs that are compared: with a file, or with what stands outside where they went.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;

use crate::exit::CommandError;

/// An output that goes into memory, and what it should be.
pub struct Comparison {
    name: &'static str,
    written: File,
    expected: PathBuf,
}

impl Comparison {
    /// Of the output of that name.
    ///
    /// # Errors
    /// [`CommandError::Output`] where there is no memory for it.
    pub fn new(name: &'static str, expected: PathBuf) -> Result<Comparison, CommandError> {
        let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
        let written = memory.map_err(|error| CommandError::Output(error.into()))?.into();
        Ok(Comparison { name, written, expected })
    }

    /// Where the output goes.
    ///
    /// # Errors
    /// [`CommandError::Output`]
    pub fn file(&self) -> Result<File, CommandError> {
        Ok(self.written.try_clone()?)
    }

    /// What differs, if something does.
    ///
    /// # Errors
    /// [`CommandError::Read`]
    pub fn difference(&self) -> Result<Option<String>, CommandError> {
        let mut written = self.file()?;
        written.rewind()?;
        let found = first_difference(&written, &open(&self.expected)?)?;
        Ok(found.map(|at| {
            format!("{} is not what {} has: byte {at} differs", self.name, self.expected.display())
        }))
    }
}

/// A file that the program wrote, which goes elsewhere, and where it went when it was recorded.
pub struct Checked {
    pub written: PathBuf,
    pub outside: PathBuf,
}

impl Checked {
    /// What differs, if something does.
    ///
    /// # Errors
    /// [`CommandError::Read`]
    pub fn difference(&self) -> Result<Option<String>, CommandError> {
        // What was removed again, or has another name by now, left nothing to compare.
        let Ok(written) = File::open(&self.written) else { return Ok(None) };
        let name = self.outside.display();
        let Ok(outside) = File::open(&self.outside) else {
            return Ok(Some(format!("file:{name} is not there, and the program wrote it")));
        };
        let found = first_difference(&written, &outside)?;
        Ok(found.map(|at| format!("file:{name} is not what the program wrote: byte {at} differs")))
    }
}

fn open(path: &Path) -> Result<File, CommandError> {
    File::open(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
}

/// Place of the first byte that differs, or where only one of them goes on.
fn first_difference(one: &File, other: &File) -> Result<Option<u64>, CommandError> {
    let (mut one, mut other) = (BufReader::new(one).bytes(), BufReader::new(other).bytes());
    for place in 0.. {
        match (one.next().transpose()?, other.next().transpose()?) {
            (None, None) => return Ok(None),
            (one, other) if one == other => {}
            _ => return Ok(Some(place)),
        }
    }
    Ok(None)
}
