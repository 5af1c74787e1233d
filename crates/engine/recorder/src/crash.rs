//! A process goes back instead of dying: what is different the next time.
//!
//! Deliberately absent: how allocations are changed (see `environment`), and which way is
//! tried when (the runtime's `live/crash.rs`).

use std::fs;
use std::path::Path;

use lane_protocol::recover_way;

use crate::environment;
use crate::undo::{Source, Undo};

/// A crash that becomes a rollback.
#[derive(Clone, Copy)]
pub(crate) struct Crash {
    /// A [`recover_way`].
    pub way: u32,
    pub signal: u64,
    pub checkpoint: u64,
}

impl Crash {
    /// Writes how the process's code is to be changed, if it is. Otherwise says why it cannot
    /// be, and gives the errno for that.
    pub fn plan(self, pid: i32, path: &Path) -> Result<(), i32> {
        let Some(flags) = environment::flags_of(self.way) else { return Ok(()) };
        match environment::plan(pid, flags) {
            Ok(plan) => fs::write(path, plan).map_err(|_| libc::ENOSPC),
            Err(why) => {
                diagnostics::tell!("retrovane: the allocations of process {pid} cannot be changed: {why}");
                Err(libc::EOPNOTSUPP)
            }
        }
    }

    /// Changes what is given back to the process; says what was done.
    pub fn change(self, undo: &mut Undo, pid: i32) -> Vec<String> {
        let source = |fd: u32| source_of(pid, fd);
        let (how, dropped) = match self.way {
            recover_way::DROP => ("without what it read last".to_owned(), undo.drop_input(false, &source)),
            recover_way::DROP_ALL => {
                ("without what it read since".to_owned(), undo.drop_input(true, &source))
            }
            way => match environment::flags_of(way) {
                Some(flags) => (format!("so that {}", environment::described(flags).join(", ")), Vec::new()),
                None => ("as before".to_owned(), Vec::new()),
            },
        };
        let mut said = vec![format!(
            "process {pid} would die of signal {}: it goes back to checkpoint {}, and on {how}",
            self.signal, self.checkpoint
        )];
        if dropped.is_empty() && matches!(self.way, recover_way::DROP | recover_way::DROP_ALL) {
            said.push("nothing that it read since can be dropped".to_owned());
        }
        for (fd, bytes, ends) in dropped {
            let then = if ends { "; the connection ends there" } else { "" };
            said.push(format!("descriptor {fd}: {bytes} bytes of input are dropped{then}"));
        }
        said
    }
}

/// What a process reads from.
pub(crate) fn source_of(pid: i32, fd: u32) -> Source {
    let path = Path::new("/proc").join(pid.to_string()).join("fd").join(fd.to_string());
    let is_socket = fs::read_link(&path)
        .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
    if is_socket {
        return Source::Socket;
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => Source::File,
        _ => Source::Other,
    }
}
