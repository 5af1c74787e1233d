//! Ways to take a checkpoint of memory, behind one interface.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError, RwLock};

use retrovane_mirror::{Options, Region, barrier};

use crate::output::warn;

/// A way to take checkpoints of some memory.
pub trait Scheme: Sync {
    fn name(&self) -> &'static str;
    /// First address and bytes.
    fn range(&self) -> (usize, usize);
    /// Stores a word, as compiled code would.
    fn store(&self, address: usize, value: u64);
    /// Begins a checkpoint of now.
    fn begin(&self);
    /// Waits until it is on disk, and the next one can begin.
    fn wait(&self);
    /// Before and behind stores, where a scheme stops the program.
    fn enter(&self) {}
    fn leave(&self) {}
}

/// The mirror.
pub struct Mirror {
    region: Region,
    base: usize,
    size: usize,
    asked: Mutex<Option<retrovane_mirror::Ticket>>,
}

impl Mirror {
    pub fn new(folder: &Path, size: usize) -> Result<Mirror, retrovane_mirror::Error> {
        // Beside the data there is the allocator's own.
        let options = Options { size: size + (1 << 20), ..Options::default() };
        let region = Region::open(&folder.join("mirror"), &options)?;
        let base = region.allocate(size, 4096)?;
        // As that of the others.
        region.make_present()?;
        Ok(Mirror { region, base, size, asked: Mutex::default() })
    }

    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl Scheme for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn range(&self) -> (usize, usize) {
        (self.base, self.size)
    }

    #[inline]
    fn store(&self, address: usize, value: u64) {
        // SAFETY: a word of the block, which belongs to the benchmark; two threads store to
        // different words of a page.
        unsafe { barrier::put(address, value) };
    }

    fn begin(&self) {
        self.region.wait_idle();
        let ticket = self.region.checkpoint().ok();
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = ticket;
    }

    fn wait(&self) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = asked.map(|ticket| self.region.wait(ticket, None)) {
            warn(error);
        }
        self.region.wait_idle();
    }
}

/// Ordinary memory, and the file that it is written to.
pub struct Plain {
    pub base: usize,
    pub size: usize,
    pub file: File,
}

impl Plain {
    pub fn new(folder: &Path, size: usize, name: &str) -> io::Result<Plain> {
        let file = File::create(folder.join(name))?;
        Ok(Plain { base: memory(size)?, size, file })
    }

    /// Writes bytes at their place and makes them durable.
    pub fn save(&self, bytes: &[u8]) -> io::Result<()> {
        for (index, piece) in bytes.chunks(1 << 20).enumerate() {
            self.file.write_all_at(piece, (index << 20) as u64)?;
        }
        self.file.sync_data()
    }

    pub fn store(&self, address: usize, value: u64) {
        // SAFETY: a word of the benchmark's own memory: see `Mirror::store`.
        unsafe { (address as *mut u64).write_volatile(value) };
    }

    /// The memory's bytes.
    ///
    /// # Safety
    /// Nobody stores to them meanwhile.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this lives.
        unsafe { std::slice::from_raw_parts(self.base as *const u8, self.size) }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // SAFETY: mapped by `memory`.
        unsafe { libc::munmap(self.base as *mut _, self.size) };
    }
}

/// New memory, all of it present.
pub fn memory(size: usize) -> io::Result<usize> {
    // SAFETY: new memory where the kernel chooses.
    let at = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at as usize) }
}

/// fork(2): the child writes (BGSAVE's way).
pub struct Fork {
    plain: Plain,
    child: Mutex<i32>,
}

impl Fork {
    pub fn new(folder: &Path, size: usize) -> io::Result<Fork> {
        Ok(Fork { plain: Plain::new(folder, size, "fork")?, child: Mutex::new(0) })
    }
}

impl Scheme for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn range(&self) -> (usize, usize) {
        (self.plain.base, self.plain.size)
    }

    fn store(&self, address: usize, value: u64) {
        self.plain.store(address, value);
    }

    fn begin(&self) {
        // SAFETY: the child makes system calls only, and ends without running anything else.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let saved = self.plain.save(self.plain.bytes());
                libc::_exit(i32::from(saved.is_err()));
            }
            child
        };
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
    }

    fn wait(&self) {
        let child = *self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: waits for the child of `begin`.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

/// Everybody stops while the memory is copied.
pub struct Stop {
    plain: Plain,
    copy: usize,
    gate: RwLock<()>,
    begun: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn new(folder: &Path, size: usize) -> io::Result<Stop> {
        let plain = Plain::new(folder, size, "stop")?;
        let copy = memory(size)?;
        let (gate, begun, changed) = (RwLock::default(), Mutex::default(), Condvar::default());
        Ok(Stop { plain, copy, gate, begun, changed })
    }
}

thread_local! {
    static INSIDE: std::cell::Cell<Option<std::sync::RwLockReadGuard<'static, ()>>> =
        const { std::cell::Cell::new(None) };
}

impl Scheme for Stop {
    fn name(&self) -> &'static str {
        "stop"
    }

    fn range(&self) -> (usize, usize) {
        (self.plain.base, self.plain.size)
    }

    fn store(&self, address: usize, value: u64) {
        self.plain.store(address, value);
    }

    fn enter(&self) {
        let guard = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the guard is dropped by `leave` of the same thread, before the scheme is.
        let guard: std::sync::RwLockReadGuard<'static, ()> = unsafe { std::mem::transmute(guard) };
        INSIDE.set(Some(guard));
    }

    fn leave(&self) {
        drop(INSIDE.take());
    }

    fn begin(&self) {
        let _all = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both are of this size, and nobody stores while the gate is closed.
        unsafe {
            (self.copy as *mut u8).copy_from_nonoverlapping(self.plain.base as *const u8, self.plain.size)
        };
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        // SAFETY: written by `begin` only, which this thread calls.
        let copy = unsafe { std::slice::from_raw_parts(self.copy as *const u8, self.plain.size) };
        if let Err(error) = self.plain.save(copy) {
            warn(error);
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // SAFETY: mapped by `memory`.
        unsafe { libc::munmap(self.copy as *mut _, self.plain.size) };
    }
}
