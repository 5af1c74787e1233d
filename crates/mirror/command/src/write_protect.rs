//! Copy-on-write in user space: by mprotect(2) and a handler of SIGSEGV, and by userfaultfd(2)
//! in its write-protect mode with a thread that answers (QEMU's background snapshots).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8};
use std::thread::JoinHandle;

use crate::output::warn;
use crate::rivals::{Plain, Scheme, memory};

const PAGE: usize = 4096;
/// A page's states: it is as it was; somebody copies it; it was copied.
const AS_IT_WAS: u8 = 0;
const BEING_COPIED: u8 = 1;
const COPIED: u8 = 2;

/// What both ways have in common.
struct Pages {
    base: usize,
    size: usize,
    copy: usize,
    states: Vec<AtomicU8>,
    /// The descriptor of userfaultfd, or below 0.
    descriptor: i32,
}

impl Pages {
    fn new(plain: &Plain, descriptor: i32) -> io::Result<Pages> {
        let states = (0..plain.size / PAGE).map(|_| AtomicU8::new(COPIED)).collect();
        Ok(Pages { base: plain.base, size: plain.size, copy: memory(plain.size)?, states, descriptor })
    }

    fn protect(&self) {
        self.states.iter().for_each(|state| state.store(AS_IT_WAS, SeqCst));
        self.set(self.base, self.size, true);
    }

    fn set(&self, start: usize, bytes: usize, protects: bool) {
        // SAFETY: the range is of the benchmark's own memory, whose content stays.
        unsafe {
            if self.descriptor < 0 {
                let protection = if protects { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
                libc::mprotect(start as *mut _, bytes, protection);
            } else {
                let range = [start as u64, bytes as u64, u64::from(protects)];
                libc::ioctl(self.descriptor, UFFDIO_WRITEPROTECT, &range);
            }
        }
    }

    /// Saves a page that was not yet, and lets it be written. True if it is now.
    fn save(&self, page: usize) -> bool {
        let state = &self.states[page];
        if state.compare_exchange(AS_IT_WAS, BEING_COPIED, SeqCst, SeqCst).is_err() {
            return state.load(SeqCst) == COPIED;
        }
        let at = page * PAGE;
        // SAFETY: both have the page; it is not written while it is protected.
        unsafe {
            ((self.copy + at) as *mut u8).copy_from_nonoverlapping((self.base + at) as *const u8, PAGE)
        };
        self.set(self.base + at, PAGE, false);
        state.store(COPIED, SeqCst);
        true
    }

    fn save_rest(&self, plain: &Plain) {
        for page in 0..self.states.len() {
            while !self.save(page) {
                std::hint::spin_loop();
            }
        }
        // SAFETY: written by `save` only, which is over for all pages.
        let copy = unsafe { std::slice::from_raw_parts(self.copy as *const u8, self.size) };
        if let Err(error) = plain.save(copy) {
            warn(error);
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `memory`.
        unsafe { libc::munmap(self.copy as *mut _, self.size) };
    }
}

/// What the handler of SIGSEGV looks at.
static HANDLED: AtomicPtr<Pages> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives the handler its information; the pages live until the handler is
    // taken away.
    let (address, pages) = unsafe { ((*info).si_addr() as usize, HANDLED.load(SeqCst).as_ref()) };
    match pages.filter(|pages| address.wrapping_sub(pages.base) < pages.size) {
        Some(pages) => while !pages.save((address - pages.base) / PAGE) {},
        // SAFETY: the default action, which the fault of somebody else meets next.
        None => unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        },
    }
}

/// How threads learn of stores to protected pages.
pub trait Way: Sync {
    const NAME: &'static str;
}

/// Copy-on-write: what both ways do alike.
pub struct CopyOnWrite<W> {
    /// Ends before what it looks at goes away.
    _way: W,
    pages: Arc<Pages>,
    plain: Plain,
}

impl<W: Way> Scheme for CopyOnWrite<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn range(&self) -> (usize, usize) {
        (self.plain.base, self.plain.size)
    }

    fn store(&self, address: usize, value: u64) {
        self.plain.store(address, value);
    }

    fn begin(&self) {
        self.pages.protect();
    }

    fn wait(&self) {
        self.pages.save_rest(&self.plain);
    }
}

/// By a handler of SIGSEGV.
pub struct Signals;

impl Way for Signals {
    const NAME: &'static str = "mprotect";
}

/// Copy-on-write by mprotect.
pub type Mprotect = CopyOnWrite<Signals>;

impl Mprotect {
    pub fn new(folder: &Path, size: usize) -> io::Result<Mprotect> {
        let plain = Plain::new(folder, size, "mprotect")?;
        let pages = Arc::new(Pages::new(&plain, -1)?);
        HANDLED.store(Arc::as_ptr(&pages).cast_mut(), SeqCst);
        // SAFETY: an empty action is a valid one; the handler makes one call and copies a page.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
        Ok(CopyOnWrite { _way: Signals, pages, plain })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        HANDLED.store(std::ptr::null_mut(), SeqCst);
    }
}

const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const REGISTER_MODE_WP: u64 = 2;
/// UFFD_USER_MODE_ONLY: what unprivileged users may ask for.
const USER_MODE_ONLY: i32 = 1;
/// UFFD_EVENT_PAGEFAULT.
const PAGEFAULT: u8 = 0x12;

/// By a thread that reads of them from a descriptor.
pub struct Answers {
    descriptor: i32,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Way for Answers {
    const NAME: &'static str = "uffd";
}

/// Copy-on-write by userfaultfd.
pub type Userfault = CopyOnWrite<Answers>;

impl Userfault {
    pub fn new(folder: &Path, size: usize) -> io::Result<Userfault> {
        let plain = Plain::new(folder, size, "uffd")?;
        // SAFETY: the call makes a descriptor.
        let descriptor = unsafe {
            libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY)
        } as i32;
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut api = [0xaa_u64, 0, 0];
        let mut register = [plain.base as u64, size as u64, REGISTER_MODE_WP, 0];
        // SAFETY: both structures have the sizes that the requests say.
        let failed = unsafe {
            libc::ioctl(descriptor, UFFDIO_API, &mut api) != 0
                || libc::ioctl(descriptor, UFFDIO_REGISTER, &mut register) != 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
        let pages = Arc::new(Pages::new(&plain, descriptor)?);
        let ends = Arc::new(AtomicBool::new(false));
        let (own, until) = (pages.clone(), ends.clone());
        let thread = std::thread::spawn(move || answer(&own, &until));
        Ok(CopyOnWrite { _way: Answers { descriptor, ends, thread: Some(thread) }, pages, plain })
    }
}

/// Saves the pages that threads wait for.
fn answer(pages: &Pages, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        let mut message = [0u8; 32];
        let mut ready = libc::pollfd { fd: pages.descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: the kernel writes one message of 32 bytes at most.
        let count = unsafe {
            if libc::poll(&mut ready, 1, 20) < 1 {
                continue;
            }
            libc::read(pages.descriptor, message.as_mut_ptr().cast(), message.len())
        };
        if count == 32 && message[0] == PAGEFAULT {
            let address = u64::from_ne_bytes(std::array::from_fn(|index| message[16 + index])) as usize;
            let page = (address - pages.base) / PAGE;
            while !pages.save(page) {}
            // Who waits for a page that was saved meanwhile is woken too.
            pages.set(pages.base + page * PAGE, PAGE, false);
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // It has no way to panic that would not have been seen.
            let _ = thread.join();
        }
        // SAFETY: the descriptor is ours, and nobody uses it any more.
        unsafe { libc::close(self.descriptor) };
    }
}
