//! Keeping the files that processes map.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use injector::{
    AttachEvents, ExitReport, FileKey, FileSlot, InjectError, KeepFile, LifeLock, PidFd, Segment,
    SessionMemory, futex_wait, futex_wake,
};
use lane_protocol::{file_state, request};
use trace_store::{FileEntry, FileStore, StoreError};

use crate::Referred;
use crate::analysis::Job;
use crate::file_journals::FileJournals;
use crate::lending;
use crate::read_files::Copier;
use crate::sink::Sink;
use crate::waiting::Status;

/// Times that a file is tried which is another one each time.
const KEEP_TRIES: u32 = 8;

/// Keeps files for births and for requests.
pub(crate) struct Keeper {
    memory: Arc<SessionMemory>,
    store: FileStore,
    sink: Arc<Sink>,
    trace_dir: PathBuf,
    files_dir: PathBuf,
    status: Arc<Status>,
    jobs: Mutex<Sender<Job>>,
    /// Of which files only a digest is kept.
    referred: Option<Referred>,
    /// Bytes of files that were copied, of which the user is told once.
    copied_bytes: AtomicU64,
    tells: bool,
}

/// What the user wants of a [`Keeper`].
pub(crate) struct KeeperWishes {
    pub trace_dir: PathBuf,
    pub referred: Option<Referred>,
    /// Say on stderr that copying takes a while.
    pub tells: bool,
}

/// The user is told that files are copied once they have so many bytes.
const TOLD_FROM_BYTES: u64 = 32 << 20;

impl Keeper {
    pub fn new(
        memory: Arc<SessionMemory>,
        store: FileStore,
        sink: Arc<Sink>,
        jobs: Sender<Job>,
        status: Arc<Status>,
        wishes: KeeperWishes,
    ) -> Keeper {
        let KeeperWishes { trace_dir, referred, tells } = wishes;
        let files_dir = trace_dir.join("files");
        let (jobs, copied_bytes) = (Mutex::new(jobs), AtomicU64::new(0));
        Keeper { memory, store, sink, trace_dir, files_dir, status, jobs, referred, copied_bytes, tells }
    }

    /// Says that files are copied, before the first that takes long.
    fn tell_of_copying(&self, bytes: u64) {
        let before = self.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.tells && before < TOLD_FROM_BYTES && before + bytes >= TOLD_FROM_BYTES {
            diagnostics::tell!(
                "retrovane: the program's files are copied, once for all recordings: it begins in a moment"
            );
        }
    }

    pub fn trace_dir(&self) -> &Path {
        &self.trace_dir
    }

    pub fn store(&self) -> &FileStore {
        &self.store
    }

    /// Keeps the content of a file in its slot, unless that was done, and has its
    /// sites found. False if it cannot be kept.
    fn keep_in_slot(
        &self,
        slot: u32,
        key: &FileKey,
        open: impl FnOnce() -> io::Result<File>,
        original: &[u8],
    ) -> bool {
        let Some(place) = self.memory.file(slot as usize) else { return false };
        // Held while a file is kept, so that none is kept twice at the same time.
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if place.state() == file_state::ASKED {
            let kept = open().map_err(Unkept::from).and_then(|file| {
                let hash = self.keep_content(slot, key, &file, original)?;
                Ok((hash, is_elf(&file)))
            });
            match kept {
                // A program's first map is rarely executable, so all are analysed.
                // The analyst ends after the last sender.
                Ok((hash, true)) => {
                    place.set_kept(&hash, key.size_bytes);
                    if jobs.send(Job { slot, hash }).is_err() {
                        // Nobody analyses any more.
                        self.memory.announce_recipes(slot, &[], false);
                    }
                }
                Ok((hash, false)) => {
                    place.set_kept(&hash, key.size_bytes);
                    self.memory.announce_recipes(slot, &[], true);
                }
                Err(Unkept) => place.set_failed(),
            }
        }
        place.state() == file_state::KEPT
    }

    fn keep_content(
        &self,
        slot: u32,
        key: &FileKey,
        file: &File,
        original: &[u8],
    ) -> Result<[u8; 32], Unkept> {
        let metadata = file.metadata()?;
        if FileKey::of(&metadata) != *key {
            return Err(Unkept);
        }
        let key = store_key(key);
        let hash = if self.only_refers(&key, original) {
            let hash = self.store.digest(file, key)?;
            FileStore::refer_into(&hash, Path::new(OsStr::from_bytes(original)), &self.files_dir)?;
            hash
        } else {
            if !self.store.knows(&key)? {
                self.tell_of_copying(key.size);
            }
            let hash = self.store.keep(file, key)?.hash;
            self.store.link_into(&hash, &self.files_dir)?;
            hash
        };
        let entry =
            FileEntry { hash, path: original.to_vec(), size: key.size, mode: metadata.permissions().mode() };
        if self.sink.add_file(slot, &entry) { Ok(hash) } else { Err(Unkept) }
    }

    /// True for a file of which the trace has a digest only, and which its name leads to: a file that is
    /// removed already, or that another root directory shows, could not be found again.
    fn only_refers(&self, key: &trace_store::FileKey, original: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(original));
        self.referred.as_ref().is_some_and(|referred| (referred.fits)(path))
            && path.is_absolute()
            && std::fs::metadata(path).is_ok_and(|found| store_key(&FileKey::of(&found)) == *key)
    }

    /// Keeps a file that a process reads, if that takes no time; 0 or an errno. Else it is copied meanwhile.
    fn refer(&self, segment: Segment, copier: &Copier) -> i32 {
        let lane = self.memory.lane(segment);
        let argument = |index: usize| lane.request().arguments[index].load(Ordering::Relaxed);
        let (fd, read_bytes, pid) = (argument(0) as i32, argument(1), argument(2) as i32);
        let path = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        let Ok(file) = self.open_of(pid, fd, &path) else { return libc::EIO };
        let Ok(metadata) = file.metadata() else { return libc::EIO };
        let key = FileKey::of(&metadata);
        let original = std::fs::read_link(&path).unwrap_or_default();
        let original = original.as_os_str().as_bytes();
        let is_referred =
            Copier::is_safe(&file, &store_key(&key)) && self.only_refers(&store_key(&key), original);
        match self.store.knows(&store_key(&key)) {
            Ok(true) => {}
            Ok(false) if is_referred => {}
            Ok(false) => {
                copier.offer(file, store_key(&key), read_bytes);
                return libc::EAGAIN;
            }
            Err(_) => return libc::EIO,
        }
        let Some(slot) = self.memory.find_or_claim_file(&key) else { return libc::EIO };
        let kept = self.keep_in_slot(slot, &key, || Ok(file), original);
        if kept { 0 } else { libc::EIO }
    }

    /// A file that another process has open: by its name in /proc, or, where that is
    /// refused, a copy of the descriptor.
    fn open_of(&self, pid: i32, fd: i32, path: &Path) -> io::Result<File> {
        let file = File::open(path).or_else(|error| match PidFd::open(pid) {
            Some(process) => process.descriptor(fd),
            None => Err(error),
        })?;
        // Who has it mapped is told by the kernel that somebody opened it.
        let metadata = file.metadata()?;
        self.memory.outside_files().note_open([metadata.dev(), metadata.ino()]);
        Ok(file)
    }

    /// Serves one request of a process.
    fn serve(&self, segment: Segment) {
        let lane = self.memory.lane(segment);
        let argument = |index: usize| lane.request().arguments[index].load(Ordering::Relaxed);
        let (fd, slot, pid) = (argument(0) as i32, argument(1), argument(2) as i32);
        let kept = match self.memory.file(slot as usize).map(|place: FileSlot| place.key()) {
            Some(key) => {
                let path = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
                let original = std::fs::read_link(&path).unwrap_or_default();
                let original = original.as_os_str().as_bytes();
                self.keep_in_slot(slot as u32, &key, || self.open_of(pid, fd, &path), original)
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

fn store_key(key: &FileKey) -> trace_store::FileKey {
    trace_store::FileKey {
        device: key.device,
        inode: key.inode,
        size: key.size_bytes,
        mtime_ns: key.mtime_ns,
        ctime_ns: key.ctime_ns,
    }
}

fn is_elf(file: &File) -> bool {
    let mut head = [0u8; 4];
    file.read_exact_at(&mut head, 0).is_ok() && head == *b"\x7fELF"
}

impl KeepFile for Keeper {
    fn keep(&self, path: &Path, original: &[u8]) -> io::Result<Option<u32>> {
        let mut key = FileKey::of(&std::fs::metadata(path)?);
        for _ in 0..KEEP_TRIES {
            let Some(slot) = self.memory.find_or_claim_file(&key) else { break };
            if self.keep_in_slot(slot, &key, || File::open(path), original) {
                return Ok(Some(slot));
            }
            // Somebody links to it, say, which changes the time of its last change.
            let now = FileKey::of(&std::fs::metadata(path)?);
            if core::mem::replace(&mut key, now) == now {
                break;
            }
        }
        Ok(None)
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
    /// Without it, processes that cannot see us take a long wait for our end.
    _life: Option<LifeLock>,
    thread: Option<JoinHandle<()>>,
}

impl KeepThread {
    /// `journals`: of a session that restores files.
    pub fn start(
        memory: Arc<SessionMemory>,
        keeper: Arc<Keeper>,
        journals: Option<Arc<FileJournals>>,
    ) -> KeepThread {
        let ended = Arc::new(AtomicBool::new(false));
        let (own_memory, own_ended) = (Arc::clone(&memory), Arc::clone(&ended));
        let thread = injector::start_thread("keeper", move || {
            let copier = Copier::start(Arc::clone(&keeper));
            let doorbell = own_memory.keep_doorbell();
            loop {
                // Before looking: what comes after the look changes the value.
                let seen = doorbell.load(Ordering::SeqCst);
                if own_ended.load(Ordering::SeqCst) {
                    return;
                }
                if !serve_all(&own_memory, &keeper, journals.as_deref(), &copier) {
                    futex_wait(doorbell, seen, Duration::from_millis(500));
                }
            }
        });
        let _life = memory.lock_life().ok();
        KeepThread { memory, ended, _life, thread: Some(thread) }
    }
}

/// Serves the requests that there are; false if there was none.
fn serve_all(
    memory: &SessionMemory,
    keeper: &Keeper,
    journals: Option<&FileJournals>,
    copier: &Copier,
) -> bool {
    let mut any = false;
    for segment in memory.segments_in_use() {
        let lane = memory.lane(segment);
        match (lane.request().state.load(Ordering::Acquire), journals) {
            (request::KEEP, _) => keeper.serve(segment),
            (request::REFER, _) => lane.answer(keeper.refer(segment, copier)),
            (request::IDENTIFY, _) => {
                let segment = lane.request().arguments[0].load(Ordering::Relaxed);
                lane.answer(memory.owner_of_lock(segment).unwrap_or(0));
            }
            (request::CHANGE, Some(journals)) => journals.serve(lane),
            (request::LEND, _) => lane.answer(lending::lend(memory, lane, keeper.trace_dir())),
            (request::END_SHADOW, _) => lane.answer(lending::end_shadow(lane)),
            _ => continue,
        }
        any = true;
    }
    any
}

impl Drop for KeepThread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.memory.keep_doorbell().fetch_add(1, Ordering::SeqCst);
        futex_wake(self.memory.keep_doorbell());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}
