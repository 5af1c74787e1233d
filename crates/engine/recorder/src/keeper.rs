//! Keeping the files that processes map.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use injector::{
    AttachEvents, ExitReport, FileKey, FileSlot, InjectError, KeepFile, PidFd, Segment, SessionMemory, futex_wait,
    futex_wake,
};
use lane_protocol::{file_state, request};
use trace_store::{FileEntry, FileStore, StoreError};

use crate::analysis::Job;
use crate::sink::Sink;
use crate::waiting::Status;

/// Keeps files for births and for requests.
pub(crate) struct Keeper {
    memory: Arc<SessionMemory>,
    store: FileStore,
    sink: Arc<Sink>,
    files_dir: PathBuf,
    status: Arc<Status>,
    /// Slots whose analysis was asked for. Its lock is held while a file is kept,
    /// so that no content is kept twice at the same time.
    asked: Mutex<Asked>,
}

struct Asked {
    slots: HashSet<u32>,
    jobs: Sender<Job>,
    hashes: std::collections::HashMap<u32, [u8; 32]>,
}

impl Keeper {
    pub fn new(
        memory: Arc<SessionMemory>,
        store: FileStore,
        sink: Arc<Sink>,
        trace_dir: PathBuf,
        jobs: Sender<Job>,
        status: Arc<Status>,
    ) -> Keeper {
        let asked = Asked { slots: HashSet::new(), jobs, hashes: std::collections::HashMap::new() };
        Keeper { memory, store, sink, files_dir: trace_dir.join("files"), status, asked: Mutex::new(asked) }
    }

    pub fn store(&self) -> &FileStore {
        &self.store
    }

    /// Keeps the content of `file` in its slot, unless that was done, and has its
    /// sites found if it is executable. False if it cannot be kept.
    fn keep_in_slot(
        &self,
        slot: u32,
        key: &FileKey,
        open: impl FnOnce() -> io::Result<File>,
        original: &[u8],
        executable: bool,
    ) -> bool {
        let Some(place) = self.memory.file(slot as usize) else { return false };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if place.state() == file_state::ASKED {
            let kept = open().map_err(Unkept::from).and_then(|file| self.keep_content(slot, key, &file, original));
            match kept {
                Ok(hash) => {
                    asked.hashes.insert(slot, hash);
                    place.set_kept(&hash, key.size_bytes);
                }
                Err(_) => place.set_failed(),
            }
        }
        if place.state() != file_state::KEPT {
            return false;
        }
        if executable
            && asked.slots.insert(slot)
            && let Some(hash) = asked.hashes.get(&slot).copied()
        {
            // The analyst ends after the last sender.
            let _ = asked.jobs.send(Job { slot, hash });
        }
        true
    }

    fn keep_content(&self, slot: u32, key: &FileKey, file: &File, original: &[u8]) -> Result<[u8; 32], Unkept> {
        let metadata = file.metadata()?;
        if FileKey::of(&metadata) != *key {
            return Err(Unkept);
        }
        let key = trace_store::FileKey {
            device: key.device,
            inode: key.inode,
            size: key.size_bytes,
            mtime_ns: key.mtime_ns,
            ctime_ns: key.ctime_ns,
        };
        let hash = self.store.keep(file, key)?.hash;
        self.store.link_into(&hash, &self.files_dir)?;
        let entry =
            FileEntry { hash, path: original.to_vec(), size: key.size, mode: metadata.permissions().mode() };
        if self.sink.add_file(slot, &entry) { Ok(hash) } else { Err(Unkept) }
    }

    /// Serves one request of a process.
    fn serve(&self, segment: Segment) {
        let lane = self.memory.lane(segment);
        let argument = |index: usize| lane.request().arguments[index].load(Ordering::Relaxed);
        let (fd, slot, pid, executable) = (argument(0) as i32, argument(1), argument(2) as i32, argument(3) != 0);
        let kept = match self.memory.file(slot as usize).map(|place: FileSlot| place.key()) {
            Some(key) => {
                let path = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
                let original = std::fs::read_link(&path).unwrap_or_default();
                let original = original.as_os_str().as_bytes();
                self.keep_in_slot(slot as u32, &key, || open_of(pid, fd, &path), original, executable)
            }
            None => false,
        };
        lane.answer(if kept { 0 } else { libc::EIO });
    }
}

/// The content cannot be kept; whoever asked logs it instead.
struct Unkept;

impl From<io::Error> for Unkept {
    fn from(_: io::Error) -> Unkept {
        Unkept
    }
}

impl From<StoreError> for Unkept {
    fn from(_: StoreError) -> Unkept {
        Unkept
    }
}

/// A file that another process has open: by its name in /proc, or, where that is
/// refused, a copy of the descriptor.
fn open_of(pid: i32, fd: i32, path: &Path) -> io::Result<File> {
    File::open(path).or_else(|error| match PidFd::open(pid) {
        Some(process) => process.descriptor(fd),
        None => Err(error),
    })
}

impl KeepFile for Keeper {
    fn keep(&self, path: &Path, original: &[u8], executable: bool) -> io::Result<Option<u32>> {
        let key = FileKey::of(&std::fs::metadata(path)?);
        let Some(slot) = self.memory.find_or_claim_file(&key) else { return Ok(None) };
        let kept = self.keep_in_slot(slot, &key, || File::open(path), original, executable);
        Ok(kept.then_some(slot))
    }
}

impl AttachEvents for Keeper {
    fn main_ended(&self, how: ExitReport) {
        self.status.set_main(how);
    }

    fn not_recorded(&self, pid: i32, error: &InjectError) {
        // The lane's log tells; this adds what only the injector knows.
        self.status.add_note(format!("process {pid}: {error}"));
    }
}

/// The thread that serves requests to keep files. Dropping ends it.
pub(crate) struct KeepThread {
    memory: Arc<SessionMemory>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeepThread {
    pub fn start(memory: Arc<SessionMemory>, keeper: Arc<Keeper>) -> KeepThread {
        let ended = Arc::new(AtomicBool::new(false));
        let (own_memory, own_ended) = (Arc::clone(&memory), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let doorbell = own_memory.keep_doorbell();
            while !own_ended.load(Ordering::Acquire) {
                let seen = doorbell.load(Ordering::Acquire);
                if !serve_all(&own_memory, &keeper) {
                    futex_wait(doorbell, seen, Duration::from_millis(500));
                }
            }
        });
        KeepThread { memory, ended, thread: Some(thread) }
    }
}

/// Serves the requests that there are; false if there was none.
fn serve_all(memory: &SessionMemory, keeper: &Keeper) -> bool {
    let mut any = false;
    for segment in memory.segments_in_use() {
        if memory.lane(segment).request().state.load(Ordering::Acquire) == request::KEEP {
            keeper.serve(segment);
            any = true;
        }
    }
    any
}

impl Drop for KeepThread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.memory.keep_doorbell().fetch_add(1, Ordering::Release);
        futex_wake(self.memory.keep_doorbell());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}
