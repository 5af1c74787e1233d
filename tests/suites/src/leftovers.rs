//! Processes that a failed case left: servers that hang, and children of theirs
//! that made sessions of their own.
//!
//! A process belongs to a case if it works in the case's directory; servers
//! that write their titles over their environment still have that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long killed processes may take to be gone.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Kills all processes that work in a directory or below when it is dropped.
pub struct Leftovers {
    directory: PathBuf,
}

impl Leftovers {
    pub fn of(directory: &Path) -> Leftovers {
        Leftovers { directory: directory.to_path_buf() }
    }

    /// Those that there are.
    pub fn pids(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|pid| {
                // Other users' processes cannot be looked at; they are none of ours.
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&self.directory))
            })
            .collect()
    }
}

impl Leftovers {
    /// Nothing is left, or will be when what was killed has ended.
    pub fn are_none(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let pids = self.pids();
            if pids.is_empty() {
                return Ok(());
            }
            if start.elapsed() > KILL_TIME_MAX {
                return Err(format!("processes were left behind: {}", pids.join(", ")));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let start = Instant::now();
        loop {
            let pids = self.pids();
            if pids.is_empty() || start.elapsed() > KILL_TIME_MAX {
                return;
            }
            // Some may have gone by themselves.
            let _ = Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status();
            thread::sleep(LOOK_INTERVAL);
        }
    }
}
