//! A process goes back instead of dying: what is different the next time.
//!
//! Deliberately absent: padded and zero-filled allocations. Programs allocate in their own
//! code, and an allocator that is put in its place would have to be asked for beforehand.

use std::fs;
use std::path::Path;

use lane_protocol::recover_way;

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
    /// Changes what is given back to the process; says what was done.
    pub fn change(self, undo: &mut Undo, pid: i32) -> Vec<String> {
        let source = |fd: u32| source_of(pid, fd);
        let (how, dropped) = match self.way {
            recover_way::DROP => ("without what it read last", undo.drop_input(false, &source)),
            recover_way::DROP_ALL => ("without what it read since", undo.drop_input(true, &source)),
            _ => ("as before", Vec::new()),
        };
        let mut said = vec![format!(
            "process {pid} would die of signal {}: it goes back to checkpoint {}, and on {how}",
            self.signal, self.checkpoint
        )];
        if dropped.is_empty() && self.way != recover_way::SAME {
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
fn source_of(pid: i32, fd: u32) -> Source {
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
