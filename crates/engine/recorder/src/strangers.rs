//! Finds processes outside of the recording that can write to memory which recorded processes have
//! mapped, where the runtime asks for it, and names such memory where it cannot be followed.
//!
//! Who has a file open to write, or mapped so, counts; and so does whoever may not be looked at (another
//! user's processes), of a file without a name that nobody of the recording made, and of a short one
//! that somebody has opened. A long one is named then, since to compare it costs too much for what may be
//! nothing. Deliberately absent: who opens a file and closes it again between two looks. The runtime asks
//! again when a file is opened.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use injector::{Mapping, SessionMemory, futex_wait, futex_wake, read_maps};
use lane_protocol::{OutsideFile, REGION_START, outside_state, untimely};

use crate::waiting::Status;

/// How long nothing is looked at if nobody asks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A look is followed by so many times its own time without one.
const REST: u32 = 3;
/// A file up to this size that somebody has opened is followed if there are processes that may not be
/// looked at: to compare it behind a call takes some 50 us.
const SUSPECT_BYTES_MAX: u64 = 1 << 20;

/// How long it may take a recorded process to say that it has opened a file. Meanwhile the file is followed.
const DOUBT: Duration = Duration::from_millis(50);

/// Device and inode of a file.
type Identity = [u64; 2];

/// The thread that looks for them. Dropping ends it.
pub(crate) struct StrangersThread {
    memory: Arc<SessionMemory>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StrangersThread {
    pub fn start(memory: Arc<SessionMemory>, status: Arc<Status>) -> StrangersThread {
        let ended = Arc::new(AtomicBool::new(false));
        let (own_memory, own_ended) = (Arc::clone(&memory), Arc::clone(&ended));
        let thread = injector::start_thread("strangers", move || {
            let files = own_memory.outside_files();
            let (mut told, mut told_hidden) = (HashSet::new(), HashSet::new());
            let mut doubts = HashMap::new();
            loop {
                // Before looking: what comes after the look changes the value.
                let seen = files.doorbell().load(Ordering::SeqCst);
                if own_ended.load(Ordering::SeqCst) {
                    return;
                }
                let began = Instant::now();
                let mut suspects = Vec::new();
                let any = answer_all(&own_memory, &own_ended, &mut doubts, &mut suspects);
                let texts = told_suspects(&suspects, &mut told_hidden);
                for text in texts.into_iter().chain(told_untimely(&own_memory, &mut told)) {
                    diagnostics::tell!("retrovane: {text}");
                    status.add_note(text);
                }
                match any {
                    true => std::thread::park_timeout(began.elapsed() * REST),
                    false => futex_wait(files.doorbell(), seen, LOOK_EVERY),
                }
            }
        });
        StrangersThread { memory, ended, thread: Some(thread) }
    }
}

impl Drop for StrangersThread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let doorbell = self.memory.outside_files().doorbell();
        doorbell.fetch_add(1, Ordering::SeqCst);
        futex_wake(doorbell);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}

fn in_state(memory: &SessionMemory, state: u32) -> Vec<&OutsideFile> {
    let files = memory.outside_files();
    if files.changes() == 0 {
        return Vec::new();
    }
    files.all().iter().filter(|file| file.state.load(Ordering::Acquire) == state).collect()
}

/// Answers what the runtime asks; false if it asks nothing. Files that somebody may write to who cannot be
/// looked at, and that are not followed, go to `suspects`, with who has them mapped.
/// Since when it is in doubt who opened a file is in `doubts`.
fn answer_all(
    memory: &SessionMemory,
    ended: &AtomicBool,
    doubts: &mut HashMap<Identity, Instant>,
    suspects: &mut Vec<(Identity, i32)>,
) -> bool {
    let asked = in_state(memory, outside_state::ASKED);
    if asked.is_empty() {
        return false;
    }
    let found = Found::look(&asked.iter().map(|file| file.identity()).collect(), ended);
    for file in asked {
        let is_foreign = file.is_foreign.load(Ordering::Acquire) != 0;
        let is_unknown = file.is_opened_by_unknown();
        let is_opened = file.is_opened.load(Ordering::Acquire) != 0 || is_unknown;
        let is_short = file.bytes.load(Ordering::Acquire) <= SUSPECT_BYTES_MAX;
        let is_hidden = found.are_hidden && (is_foreign || is_opened && is_short);
        let is_known = found.files.contains(&file.identity());
        if is_unknown && found.are_hidden && !is_known {
            // A recorded process that is about to say that it was it has so much time for that.
            if doubts.entry(file.identity()).or_insert_with(Instant::now).elapsed() < DOUBT {
                continue;
            }
        }
        doubts.remove(&file.identity());
        let is_outside = is_hidden || is_known;
        file.is_suspect.store(u32::from(is_hidden && !is_known), Ordering::Release);
        if found.are_hidden && is_opened && !is_outside {
            suspects.push((file.identity(), file.pid.load(Ordering::Relaxed)));
        }
        let state = if is_outside { outside_state::OUTSIDE } else { outside_state::INSIDE };
        memory.outside_files().answer(file, state);
        if !is_opened && file.is_opened_by_unknown() {
            // Somebody did while it was looked at.
            memory.outside_files().ask_again(file.identity(), None);
        }
    }
    true
}

/// What processes outside of the recording have.
struct Found {
    files: HashSet<Identity>,
    /// Some may not be looked at.
    are_hidden: bool,
}

impl Found {
    /// Looks for these files in all processes.
    fn look(asked: &HashSet<Identity>, ended: &AtomicBool) -> Found {
        // The first process is there where /proc shows those of others (proc(5), hidepid).
        let are_hidden = !Path::new("/proc/1").exists();
        let mut found = Found { files: HashSet::new(), are_hidden };
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for pid in pids.filter(|&pid| pid != std::process::id() as i32) {
            if ended.load(Ordering::SeqCst) {
                break;
            }
            match read_maps(pid) {
                // One that is about to end has no memory any more, but still its descriptors; a thread of the
                // kernel's has neither.
                Ok(maps) if maps.is_empty() || is_recorded(&maps) => {}
                Ok(maps) => {
                    let mut files: HashSet<Identity> = maps.iter().filter_map(writable_file).collect();
                    files.retain(|file| asked.contains(file));
                    files.extend(open_files(pid, asked));
                    // One of the recording that has just executed a program got the region, and opened a file, meanwhile.
                    let is_new = || read_maps(pid).is_ok_and(|maps| is_recorded(&maps));
                    if !files.is_empty() && !is_new() {
                        found.files.extend(files);
                    }
                }
                // Who ended has none any more.
                Err(error) => found.are_hidden |= error.kind() == ErrorKind::PermissionDenied,
            }
        }
        found
    }
}

/// Which of these files a process has open so that it can write to them.
fn open_files(pid: i32, asked: &HashSet<Identity>) -> Vec<Identity> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let open = std::fs::metadata(entry.path()).ok()?;
        let identity = [open.dev(), open.ino()];
        // The link's own mode says how it is open.
        let writes = || entry.metadata().is_ok_and(|link| link.mode() & 0o200 != 0);
        (asked.contains(&identity) && writes()).then_some(identity)
    });
    files.collect()
}

/// The runtime's region is mapped in recorded processes.
fn is_recorded(maps: &[Mapping]) -> bool {
    maps.iter().any(|mapping| mapping.start == REGION_START)
}

fn identity_of(mapping: &Mapping) -> Identity {
    [mapping.device, mapping.inode]
}

/// The file of a mapping through which it can be written to.
fn writable_file(mapping: &Mapping) -> Option<Identity> {
    (mapping.shared && mapping.is_writable()).then(|| identity_of(mapping))
}

/// The name of a file that a process has mapped.
fn name_in(maps: &[Mapping], identity: Identity) -> Cow<'_, str> {
    match maps.iter().find(|mapping| mapping.inode == identity[1]) {
        Some(mapping) if mapping.name.is_empty() => "a file without a name".into(),
        Some(mapping) => String::from_utf8_lossy(&mapping.name),
        None => "memory that is shared".into(),
    }
}

/// Names files that processes may write to which cannot be looked at, once each.
fn told_suspects(suspects: &[(Identity, i32)], told: &mut HashSet<Identity>) -> Vec<String> {
    let new = suspects.iter().filter(|(identity, _)| told.insert(*identity));
    let remedy = if crate::is_root() { "with CAP_SYS_PTRACE" } else { "as root" };
    let text = |&(identity, pid): &(Identity, i32)| {
        let maps = read_maps(pid).unwrap_or_default();
        let name = name_in(&maps, identity);
        format!(
            "{name}, which process {pid} has mapped, was opened by somebody, and processes of other users cannot be looked at: what one of them writes there is not recorded (record {remedy} to have it)"
        )
    };
    new.map(text).collect()
}

/// Names memory that changes where the program cannot have learned of it, once each.
fn told_untimely(memory: &SessionMemory, told: &mut HashSet<Identity>) -> Vec<String> {
    let outside = in_state(memory, outside_state::OUTSIDE);
    let mut maps: HashMap<i32, Vec<Mapping>> = HashMap::new();
    let mut texts = Vec::new();
    for file in outside {
        let (pid, identity) = (file.pid.load(Ordering::Relaxed), file.identity());
        let is_suspect = file.is_suspect.load(Ordering::Acquire) != 0;
        let how = match file.untimely.load(Ordering::Acquire) {
            0 => continue,
            // It was one of the recording, nearly always.
            untimely::POSSIBLE if is_suspect => continue,
            untimely::POSSIBLE => "is written between its calls, maybe by those",
            _ => "is written by those between its calls",
        };
        if !told.insert(identity) {
            continue;
        }
        let maps = maps.entry(pid).or_insert_with(|| read_maps(pid).unwrap_or_default());
        let name = name_in(maps, identity);
        texts.push(format!(
            "{name}, which process {pid} shares with processes that are not recorded, {how}: what it reads there before its next call may differ in replay"
        ));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_and_writable_mappings_count() {
        let file = |rights: &str| {
            let line = format!("7f00-7f01 {rights} 00000000 fd:01 77   /tmp/x");
            writable_file(&Mapping::of_line(line.as_bytes()).expect("well formed"))
        };
        assert_eq!(file("rw-s"), Some([libc::makedev(0xfd, 1), 77]));
        assert_eq!(file("rw-p"), None);
        assert_eq!(file("r--s"), None);
    }
}
