//! One try of a hunt: a program recorded by a process of its own, because a recorder takes signals over
//! and has threads. It is a fork of the hunt, which has one thread: an execve and another look at the
//! command line would take a good part of a short try.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use recorder::PreparedMemory;
use trace_store::{LaneEnd, TraceReader};

use super::HuntArguments;
use super::input::Input;
use super::watch::{Limited, Watch};
use crate::exit::CommandError;
use crate::record;

/// A try that runs, or has run.
pub struct Try {
    /// Counted from 1.
    pub number: u64,
    pub seed: u64,
    pub recorder: Limited,
    /// Where the trace is, absolute.
    pub dir: PathBuf,
    /// What the program writes to standard output and error, unless it is shown.
    captured: Option<[File; 2]>,
    /// Where the session's memory is.
    pub prepared: Option<Arc<PreparedMemory>>,
}

/// How a try ended.
pub enum TryEnd {
    /// The trace is whole. The notes say what is missing in it.
    Recorded { end: LaneEnd, notes: Vec<String>, has_left_nobody: bool },
    /// There is no trace: the recorder has said why, and ended with this code.
    Refused(u8),
    /// The recorder ended before the trace was whole.
    Broken,
}

impl Try {
    /// Starts one. The directory is empty or absent; paths are absolute.
    pub fn start(
        arguments: &HuntArguments,
        watch: &Watch,
        input: &Input,
        (number, seed): (u64, u64),
        home: &Path,
        dir: &Path,
        prepared: Option<Arc<PreparedMemory>>,
    ) -> Result<Try, CommandError> {
        let failed = |doing| move |source| CommandError::Try { doing, source };
        let input = input.for_try().map_err(failed("open standard input anew"))?;
        let mut captured = None;
        if !arguments.show {
            let output = || unnamed_file().map_err(failed("make a temporary file for the program's output"));
            captured = Some([output()?, output()?]);
        }
        let [output, errors] = match &captured {
            Some(files) => files.each_ref().map(|file| Some(file.as_fd())),
            None => [None; 2],
        };
        let record = || record::run_try(&arguments.command, seed, (home, dir), prepared.clone());
        let pid =
            watch.fork([Some(input.as_fd()), output, errors], record).map_err(failed("start a recorder"))?;
        let recorder = Limited { pid, left: arguments.timeout };
        Ok(Try { number, seed, recorder, dir: dir.to_owned(), captured, prepared })
    }

    /// What came of it, after the recorder has ended like this.
    pub fn end(&self, status: ExitStatus) -> TryEnd {
        // A recorder that is refused leaves nothing, or the directory as it was.
        if !self.dir.join("trace.json").exists() {
            return TryEnd::Refused(status.code().map_or(crate::exit::FAILED, |code| code as u8));
        }
        let Ok(trace) = TraceReader::open(&self.dir) else { return TryEnd::Broken };
        let Some(summary) = trace.summary().cloned() else { return TryEnd::Broken };
        let has_ended = |end| matches!(end, Some(LaneEnd::Exited(_) | LaneEnd::Killed(_)));
        let has_left_nobody = trace.lanes().iter().all(|lane| has_ended(lane.end));
        TryEnd::Recorded { end: summary.exit, notes: summary.notes, has_left_nobody }
    }

    /// Shows what the program wrote, if it was not shown at once; all of it on standard error where the other is ours.
    pub fn show_output(&mut self, as_errors: bool) -> io::Result<()> {
        let Some([output, errors]) = &mut self.captured else { return Ok(()) };
        output.rewind()?;
        if as_errors {
            io::copy(output, &mut io::stderr())?;
        } else {
            io::copy(output, &mut io::stdout())?;
            io::stdout().flush()?;
        }
        errors.rewind()?;
        io::copy(errors, &mut io::stderr())?;
        Ok(())
    }
}

/// A temporary file that goes away with its last descriptor.
pub fn unnamed_file() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let mut number = 0;
    loop {
        let path = folder.join(format!(".retrovane-{}-{number}", std::process::id()));
        // Written at its end by all who have it, wherever each of them stands.
        let opened = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path);
        match opened {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            // What another process of this number left, or put there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}
