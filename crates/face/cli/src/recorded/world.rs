//! The recorded world: what a program finds when it runs again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use injector::{Placed, SandboxPlan};
use trace_store::{KnownContents, TraceReader};

use super::Recorded;

/// What differs between the recording and the machine of today.
pub struct World {
    pub plan: SandboxPlan,
    /// Files that are put where they were, because they have changed since or are gone.
    pub restored: Vec<PathBuf>,
}

impl World {
    /// Directories of `outside` are written to. What recordings of `home` knew of files is not compared again.
    pub fn of(trace: &TraceReader, recorded: &Recorded, outside: Vec<PathBuf>, home: Option<&Path>) -> World {
        let mut placed: Vec<Placed> = kept_files(trace, &KnownContents::of(home));
        for file in &recorded.readings.files {
            let is_known = placed.iter().any(|other| other.at == file.path);
            if !is_known && !file.is_written && changed_since(&file.path, &file.content, file.is_whole) {
                placed.push(Placed { at: file.path.clone(), content: file.content.clone(), mode: 0o644 });
            }
        }
        let mut layered: Vec<PathBuf> =
            ["/tmp", "/var/tmp"].iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
        layered.push(recorded.program.directory.clone());
        // Where the program wrote, it writes again.
        let written = recorded.readings.files.iter().filter(|file| file.is_written);
        layered.extend(written.filter_map(|file| {
            file.path.ancestors().skip(1).find(|path| path.is_dir()).map(Path::to_path_buf)
        }));
        let restored = placed.iter().map(|file| file.at.clone()).collect();
        let absent = recorded.readings.files.iter().filter(|file| file.is_new).map(|file| file.path.clone());
        let absent = absent.filter(|path| !placed.iter().any(|placed| placed.at == *path)).collect();
        World { plan: SandboxPlan { outside, layered, placed, absent }, restored }
    }
}

/// True if a file of today is not what was read: with `is_whole`, no longer than that either. A
/// file of which nothing was read says nothing.
fn changed_since(path: &Path, content: &[u8], is_whole: bool) -> bool {
    match std::fs::read(path) {
        Ok(now) => !now.starts_with(content) || is_whole && now.len() != content.len(),
        Err(_) => is_whole || !content.is_empty(),
    }
}

/// Files that were mapped or executed, and are others today.
fn kept_files(trace: &TraceReader, known: &KnownContents) -> Vec<Placed> {
    let mut placed = Vec::new();
    for kept in trace.files() {
        let at = PathBuf::from(OsString::from_vec(kept.file.path.clone()));
        if !at.is_absolute() || at.starts_with("/proc") || at.starts_with("/dev") {
            continue;
        }
        if known.have(&at, &kept.file.hash) {
            continue;
        }
        let is_same_size = std::fs::metadata(&at).is_ok_and(|facts| facts.size() == kept.file.size);
        let Ok(content_path) = trace.file_path(&kept.file) else { continue };
        let is_same = is_same_size
            && std::fs::read(&at).is_ok_and(|now| std::fs::read(&content_path).is_ok_and(|then| then == now));
        if !is_same && let Ok(content) = std::fs::read(content_path) {
            placed.push(Placed { at, content, mode: kept.file.mode });
        }
    }
    placed
}
