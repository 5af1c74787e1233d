//! The sites of kept files, found beside the recording.
//!
//! One thread analyses contents, or finds that another session did, and
//! announces the recipes. Who maps a content as code waits for that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use injector::SessionMemory;
use lane_protocol::Recipe;
use sites::Loops;
use trace_store::{FileHash, FileStore, hash_hex};

use crate::keeper::Keeper;

/// A content whose sites are wanted.
pub(crate) struct Job {
    pub slot: u32,
    pub hash: FileHash,
}

/// Analyses contents, one after the other.
pub(crate) struct Analyst {
    memory: Arc<SessionMemory>,
    files_dir: PathBuf,
    jobs: Receiver<Job>,
}

/// The thread of an [`Analyst`]; it ends when nobody can send jobs any more.
/// Dropping waits for what it does at that moment.
pub(crate) struct AnalystThread(Option<JoinHandle<()>>);

impl Analyst {
    pub fn new(memory: Arc<SessionMemory>, trace_dir: PathBuf) -> (Analyst, Sender<Job>) {
        let (sender, jobs) = channel();
        (Analyst { memory, files_dir: trace_dir.join("files"), jobs }, sender)
    }

    pub fn start(self, keeper: Arc<Keeper>) -> AnalystThread {
        let keeper = Arc::downgrade(&keeper);
        AnalystThread(Some(injector::start_thread("analyst", move || {
            while let Ok(job) = self.jobs.recv() {
                let Some(keeper) = keeper.upgrade() else { return };
                self.work(&job, keeper.store());
            }
        })))
    }

    /// Analyses what is wanted already, in the calling thread.
    pub fn work_off(&self, store: &FileStore) {
        while let Ok(job) = self.jobs.try_recv() {
            self.work(&job, store);
        }
    }

    fn work(&self, job: &Job, store: &FileStore) {
        let path = self.files_dir.join(hash_hex(&job.hash));
        let waited_for = WaitedFor { memory: &self.memory, slot: job.slot };
        let analysis = sites::analyse_cached(
            |name| store.side_read(&job.hash, name),
            // A cache that cannot be written costs time only.
            |name, bytes| drop(store.side_write(&job.hash, name, bytes)),
            || std::fs::read(&path),
        );
        // Without recipes, sites go on trapping.
        if let Ok(mut found) = analysis {
            // Chaos switches between any two instructions of such a loop, and a jump would cover some.
            let switches_anywhere = self.memory.switches_anywhere();
            found.keep_loops(if switches_anywhere { Loops::None } else { Loops::Waiting });
            waited_for.announce(&found.recipes, !found.unresolved_time_sites);
        }
    }
}

/// Recipes that processes wait for: announced in any case, lest they wait for ever.
struct WaitedFor<'a> {
    memory: &'a SessionMemory,
    slot: u32,
}

impl WaitedFor<'_> {
    fn announce(self, recipes: &[Recipe], complete: bool) {
        self.memory.announce_recipes(self.slot, recipes, complete);
        std::mem::forget(self);
    }
}

impl Drop for WaitedFor<'_> {
    fn drop(&mut self) {
        self.memory.announce_recipes(self.slot, &[], false);
    }
}

impl Drop for AnalystThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}
