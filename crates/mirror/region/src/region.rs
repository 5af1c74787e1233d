//! A region: opening, recovering, allocating, checkpoints, closing.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkpoints::{Checkpoints, Counts, Ticket};
use crate::error::Error;
use crate::files::DiskFile;
use crate::heap::{self, Heap};
use crate::layout::{PAGE, REGION_BYTES_MAX, WINDOW, whole_pages};
use crate::memory::Memory;
use crate::roots::{self, Roots};
use crate::slots::{Slots, data_offset};
use crate::{capture, live, save, watch};

/// Smallest region, in bytes.
pub const REGION_BYTES_MIN: usize = 64 * 1024;
/// Pages that the library itself looks at when it recovers a region: roots and the allocator's data.
const PAGES_FIRST: usize = (HEAP_OFFSET + heap::DATA_BYTES).div_ceil(PAGE);
/// Where the allocator begins.
const HEAP_OFFSET: usize = roots::BYTES.next_multiple_of(heap::ALIGNMENT);

/// How a region is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bytes; 0: as the files say.
    pub size: usize,
    /// Bytes that are written in a second at most; 0: no limit.
    pub rate: u64,
    /// A checkpoint is begun each time this is over, at whatever the threads do then.
    pub period: Option<Duration>,
    /// All pages of a checkpoint are compared with their checksums before it is taken, and where one is damaged
    /// the checkpoint before is. Else they are while the program runs: [`Region::wait_verified`].
    pub verify: bool,
}

/// True while the process has a region.
static OPEN: AtomicBool = AtomicBool::new(false);

/// The open region of this process.
pub struct Region {
    path: PathBuf,
    memory: Arc<Memory>,
    checkpoints: Arc<Checkpoints>,
    parts: Mutex<Parts>,
    thread: Option<JoinHandle<()>>,
    recovered: Option<u64>,
    /// The process that opened it: its children have no checkpoints.
    process: u32,
}

/// What is in the region and belongs to the library.
struct Parts {
    roots: Roots,
    heap: Heap,
}

/// Gives the process's place for a region back, where opening one fails.
struct Place;

impl Place {
    fn take() -> Result<Place, Error> {
        if OPEN.swap(true, SeqCst) { Err(Error::AlreadyOpen) } else { Ok(Place) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.store(false, SeqCst);
    }
}

impl Region {
    /// Opens the region of a pair of files: as its last whole checkpoint, or new.
    pub fn open(path: &Path, options: &Options) -> Result<Region, Error> {
        let size = whole_pages(options.size);
        if options.size != 0 && !(REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&size) {
            return Err(Error::BadSize(options.size));
        }
        let place = Place::take()?;
        save::prepare_process();
        let pages_first = if options.verify { usize::MAX } else { PAGES_FIRST };
        let (slots, found) = Slots::open(DiskFile::open_pair(path)?, size, WINDOW, pages_first)?;
        let (base, size) = (slots.base(), slots.size());
        let is_ours = base == WINDOW && (REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&size);
        if !is_ours {
            return Err(Error::WrongFile { path: path.to_owned() });
        }
        let memory = Arc::new(match &found {
            None => Memory::new(base, size)?,
            Some(found) => {
                Memory::of_file(base, size, slots.files[found.slot].as_raw_fd(), data_offset(size))?
            }
        });
        // Pages of a file that is written behind a checkpoint of the process are others when it goes back to that.
        if found.is_some() && live::is_live() {
            memory.warm_all()?;
        }
        watch::begin(base, size);
        // What is stored from here on is known to be saved.
        capture::rest();
        memory.use_up_to((PAGES_FIRST * PAGE).max(slots.written_bytes()) + heap::BEHIND_BYTES);
        let recovered = found.map(|found| found.generation);
        let parts = match parts_of(base, size, recovered.is_some(), path) {
            Ok(parts) => Mutex::new(parts),
            Err(error) => {
                capture::stop();
                return Err(error);
            }
        };
        no_checkpoints_in_children();
        let checkpoints = Arc::new(Checkpoints::new(&memory));
        checkpoints.set_period(options.period);
        checkpoints.set_rate(options.rate);
        let thread = match begin_thread(&checkpoints, &memory, slots, recovered.is_some()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                capture::stop();
                return Err(error);
            }
        };
        // From here on the place is the region's.
        std::mem::forget(place);
        Ok(Region {
            path: path.to_owned(),
            memory,
            checkpoints,
            parts,
            thread,
            recovered,
            process: std::process::id(),
        })
    }

    /// Its memory, while no checkpoint is under way.
    #[cfg(test)]
    pub(crate) fn while_idle<T>(&self, action: impl FnOnce(&Memory) -> T) -> T {
        self.checkpoints.while_idle(|| action(&self.memory))
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Generation of the checkpoint that it began with; `None`: it is new.
    pub fn recovered(&self) -> Option<u64> {
        self.recovered
    }

    /// First address and bytes.
    pub fn range(&self) -> (usize, usize) {
        (self.memory.base, self.memory.size)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A block of the region, in constant time. Its bytes are not cleared.
    pub fn allocate(&self, size: usize, alignment: usize) -> Result<usize, Error> {
        assert!(alignment.is_power_of_two(), "an alignment is a power of two");
        let at = self.parts().heap.allocate(size, alignment).ok_or(Error::OutOfMemory(size))?;
        let end = at + size - self.memory.base;
        self.memory.use_up_to(end + heap::BEHIND_BYTES);
        // A child has no thread that does it.
        if self.checkpoints.is_ahead(end) && self.not_in_a_child().is_ok() {
            self.checkpoints.warm(end);
        }
        Ok(at)
    }

    /// Makes all of the region and of its mirror present: no later store waits for a new page of the kernel's. Else pages
    /// come when they are first used, or some time before.
    pub fn make_present(&self) -> Result<(), Error> {
        self.memory.warm_all()
    }

    /// Frees a block.
    ///
    /// # Panics
    /// If it is none of the region's, or was freed before.
    pub fn free(&self, address: usize) {
        self.parts().heap.free(address);
    }

    /// Frees what is behind the first `size` bytes of a block.
    ///
    /// # Panics
    /// As [`Region::free`].
    pub fn shrink(&self, address: usize, size: usize) {
        self.parts().heap.shrink(address, size);
    }

    /// Bytes of a block.
    pub fn usable(&self, address: usize) -> usize {
        self.parts().heap.usable(address)
    }

    /// Bytes of the block at an address, if one is there.
    pub(crate) fn usable_checked(&self, address: usize) -> Option<usize> {
        let parts = self.parts();
        parts.heap.is_block(address).then(|| parts.heap.usable(address))
    }

    /// Bytes in blocks that are in use.
    pub fn used(&self) -> usize {
        self.parts().heap.used()
    }

    /// Looks at every block of the allocator; says what is wrong.
    pub fn check_heap(&self) -> Result<usize, String> {
        self.parts().heap.check()
    }

    /// Names an address, so that the program finds it in a recovered region.
    pub fn set_root(&self, name: &str, value: u64) -> Result<(), Error> {
        self.parts().roots.set(name, value)
    }

    /// What a name stands for.
    pub fn root(&self, name: &str) -> Option<u64> {
        self.parts().roots.get(name)
    }

    /// Begins a checkpoint of now, and returns some microseconds later. Where one is under way,
    /// this one is of the moment when that is over.
    pub fn checkpoint(&self) -> Result<Ticket, Error> {
        self.not_in_a_child()?;
        self.checkpoints.ask(&self.memory, true)
    }

    /// Begins a checkpoint of now, or fails with [`Error::Busy`].
    pub fn checkpoint_now(&self) -> Result<Ticket, Error> {
        self.not_in_a_child()?;
        self.checkpoints.ask(&self.memory, false)
    }

    fn not_in_a_child(&self) -> Result<(), Error> {
        if self.process == std::process::id() { Ok(()) } else { Err(Error::Child) }
    }

    /// True if a checkpoint would be of now.
    pub fn is_idle(&self) -> bool {
        self.checkpoints.is_idle()
    }

    /// Whether a checkpoint is durable: `None` while it is not known.
    pub fn poll(&self, ticket: Ticket) -> Option<Result<(), Error>> {
        self.checkpoints.poll(ticket)
    }

    /// Waits until a checkpoint is durable, or it is known why not.
    pub fn wait(&self, ticket: Ticket, timeout: Option<Duration>) -> Result<(), Error> {
        self.not_in_a_child()?;
        self.checkpoints.wait(ticket, timeout)
    }

    /// Waits until all pages of the recovered checkpoint were compared with their checksums. Until then, what is
    /// read may be of a page that the disk has damaged; no checkpoint becomes durable before, and none if one is.
    pub fn wait_verified(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.not_in_a_child()?;
        self.checkpoints.wait_verified(timeout)
    }

    /// Waits until no checkpoint is under way: the next one would be of the moment when it is asked for.
    pub fn wait_idle(&self) {
        // In a child nobody takes any.
        if self.not_in_a_child().is_ok() {
            self.checkpoints.wait_idle();
        }
    }

    /// Begins a checkpoint each time this is over.
    pub fn set_period(&self, period: Option<Duration>) {
        self.checkpoints.set_period(period);
    }

    /// Bytes that are written in a second at most; 0: no limit.
    pub fn set_rate(&self, bytes: u64) {
        self.checkpoints.set_rate(bytes);
    }

    /// Addresses of words that were stored to without a barrier since the region was opened, one for each page. They are known where
    /// `RETROVANE_MIRROR_CHECK` was in the environment then, else this is an error. No checkpoint is begun meanwhile. With
    /// `RETROVANE_MIRROR_WATCH`, which names such addresses of a run before, it says whose stores they were.
    pub fn differences(&self) -> Result<Vec<usize>, Error> {
        if self.not_in_a_child().is_err() {
            return Ok(Vec::new());
        }
        let found = self.checkpoints.while_idle(|| self.checkpoints.missed(&self.memory))?;
        watch::tell(&found);
        Ok(found)
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.checkpoints.counts()
    }
}

impl Drop for Region {
    /// Ends when the checkpoint under way is over; takes none.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The thread is the parent's.
            std::mem::forget(self.thread.take());
        } else {
            self.checkpoints.close();
        }
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported by itself.
            let _ = thread.join();
        }
        capture::stop();
        drop(Place);
    }
}

fn parts_of(base: usize, size: usize, is_recovered: bool, path: &Path) -> Result<Parts, Error> {
    let heap_at = base + HEAP_OFFSET;
    // SAFETY: the beginning of the region that was just mapped, of which nobody else knows.
    let (mut roots, mut heap) = unsafe { (Roots::at(base), Heap::at(heap_at, base + size)) };
    if !is_recovered {
        heap.begin();
        roots.begin();
    } else if !roots.is_begun() || !heap.recover() {
        return Err(Error::WrongFile { path: path.to_owned() });
    }
    Ok(Parts { roots, heap })
}

fn begin_thread(
    checkpoints: &Arc<Checkpoints>,
    memory: &Arc<Memory>,
    mut slots: Slots<DiskFile>,
    is_recovered: bool,
) -> Result<JoinHandle<()>, Error> {
    let (checkpoints, memory) = (checkpoints.clone(), memory.clone());
    // It is as important as the program's threads: while it captures a checkpoint, they save what they store to.
    let begin = move || checkpoints.run(&memory, &mut slots, is_recovered);
    std::thread::Builder::new()
        .name("mirror".into())
        .spawn(begin)
        .map_err(|_| Error::last_os("the thread that writes checkpoints cannot be started"))
}

/// A child of fork(2) has a copy of the region, and no checkpoints: it saves nothing.
fn no_checkpoints_in_children() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn in_child() {
        capture::stop();
    }
    ONCE.call_once(|| {
        // SAFETY: the handler stores to two atomics.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

// A page is what all of this counts in.
const _: () = assert!(REGION_BYTES_MIN.is_multiple_of(PAGE));
