//! Which instruction stored last to a word: for stores without a barrier.
//!
//! The pages that `RETROVANE_MIRROR_WATCH` names cannot be written. A store to one of them
//! faults; the handler lets that one instruction write, by a single step, and notes its
//! address at each word that it changed. `Region::differences` then says whose the words are that
//! differ. Regions have a base of their own, so that a page of one run is that of the next.
//!
//! Deliberately absent: stores of other threads during such a step, and those that the kernel
//! makes, whose calls fail with EFAULT on these pages.

use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{PAGE, is_in_window};

/// Comma-separated addresses whose pages are watched.
pub const VARIABLE: &str = "RETROVANE_MIRROR_WATCH";
const WORDS: usize = PAGE / 8;
/// The trap flag: a signal behind the next instruction.
const TRAP_FLAG: i64 = 1 << 8;

struct Watched {
    page: usize,
    /// The words before the store that is under way.
    before: [AtomicUsize; WORDS],
    /// The instruction that changed each last; 0: none did.
    last: [AtomicUsize; WORDS],
}

static WATCHED: OnceLock<Vec<Watched>> = OnceLock::new();
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

thread_local! {
    /// The instruction that this thread makes by a single step; 0: none.
    static STEPPED: Cell<usize> = const { Cell::new(0) };
}

fn all() -> &'static [Watched] {
    WATCHED.get().map_or(&[], Vec::as_slice)
}

fn find(address: usize) -> Option<&'static Watched> {
    all().iter().find(|watched| watched.page == address / PAGE * PAGE)
}

impl Watched {
    fn new(page: usize) -> Watched {
        let zeros = || [const { AtomicUsize::new(0) }; WORDS];
        Watched { page, before: zeros(), last: zeros() }
    }

    fn protect(&self, protection: i32) {
        // SAFETY: a page of the region, whose content stays; stores to it fault into `on_fault`.
        let failed = unsafe { libc::mprotect(self.page as *mut c_void, PAGE, protection) };
        assert_eq!(failed, 0, "the protection of a page that is mapped can be changed");
    }

    fn word(&self, index: usize) -> usize {
        // SAFETY: an aligned word of a mapped page, which threads store to.
        unsafe { (*((self.page + index * 8) as *const AtomicUsize)).load(Relaxed) }
    }
}

/// Begins to watch what the environment names, within a region that was just mapped.
pub fn begin(base: usize, size: usize) {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let address = |text: &str| usize::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
    let is_within = |address: &usize| is_in_window(*address) && (base..base + size).contains(address);
    let addresses: Vec<Option<usize>> = text.split(',').map(|text| address(text).filter(is_within)).collect();
    if addresses.contains(&None) {
        eprintln!(
            "retrovane-mirror: {VARIABLE}={text} is not understood, and ignored: it takes addresses \
             of the region in hexadecimal, with commas between"
        );
        return;
    }
    let mut pages: Vec<usize> =
        addresses.into_iter().flatten().map(|address| address / PAGE * PAGE).collect();
    pages.sort_unstable();
    pages.dedup();
    WATCHED.get_or_init(|| pages.into_iter().map(Watched::new).collect());
    BEFORE.get_or_init(|| [install(libc::SIGSEGV, on_fault), install(libc::SIGTRAP, on_step)]);
    all().iter().for_each(|watched| watched.protect(libc::PROT_READ));
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

fn install(signal: i32, handler: Handler) -> libc::sigaction {
    // SAFETY: empty actions are valid ones; the handlers are async-signal-safe.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(signal, &action, &mut before);
        before
    }
}

/// A signal that has nothing to do with this: what was there before is to handle it.
fn pass_on(signal: i32) {
    let index = usize::from(signal == libc::SIGTRAP);
    if let Some(before) = BEFORE.get() {
        // SAFETY: the action was valid before. The instruction is made again, and faults into it.
        unsafe { libc::sigaction(signal, &before[index], std::ptr::null_mut()) };
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO both.
    let (address, context) =
        unsafe { ((*info).si_addr() as usize, &mut *context.cast::<libc::ucontext_t>()) };
    let Some(watched) = find(address) else { return pass_on(signal) };
    let registers = &mut context.uc_mcontext.gregs;
    STEPPED.set(registers[libc::REG_RIP as usize] as usize);
    for watched in all() {
        for (index, before) in watched.before.iter().enumerate() {
            before.store(watched.word(index), Relaxed);
        }
    }
    watched.last[address % PAGE / 8].store(STEPPED.get(), Relaxed);
    watched.protect(libc::PROT_READ | libc::PROT_WRITE);
    registers[libc::REG_EFL as usize] |= TRAP_FLAG;
}

extern "C" fn on_step(signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let instruction = STEPPED.replace(0);
    if instruction == 0 {
        return pass_on(signal);
    }
    for watched in all() {
        for (index, last) in watched.last.iter().enumerate() {
            if watched.word(index) != watched.before[index].load(Relaxed) {
                last.store(instruction, Relaxed);
            }
        }
        watched.protect(libc::PROT_READ);
    }
    // SAFETY: as in `on_fault`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

/// Says which stores words are from that differ from the mirror.
pub fn tell(addresses: &[usize]) {
    if all().is_empty() {
        return;
    }
    for &address in addresses {
        let instruction = find(address).map_or(0, |watched| watched.last[address % PAGE / 8].load(Relaxed));
        match (find(address), instruction) {
            (None, _) => eprintln!(
                "retrovane-mirror: {address:#x} changed without being saved, and is not watched: \
                 {VARIABLE}={address:#x} shows the store"
            ),
            (Some(_), 0) => eprintln!(
                "retrovane-mirror: {address:#x} changed without being saved, and no store to it was seen: \
                 another thread's, or the kernel's"
            ),
            (Some(_), at) => {
                eprintln!(
                    "retrovane-mirror: {address:#x} changed without being saved: stored to by {}",
                    place(at)
                );
            }
        }
    }
}

/// Function, file and line of an instruction, as far as they are known.
fn place(at: usize) -> String {
    // SAFETY: zeros are valid, and the call fills them in.
    let (found, info) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(at as *const c_void, &mut info) != 0, info)
    };
    if !found || info.dli_fname.is_null() {
        return format!("code at {at:#x}");
    }
    // SAFETY: a string of the loader's, which stays while the object is loaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    let file = Path::new(OsStr::from_bytes(file));
    let offset = at - info.dli_fbase as usize;
    let own = Path::new("/proc/self/exe");
    // The program's own name may be relative to another folder.
    let path = if file.exists() { file } else { own };
    let known = addr2line::Loader::new(path).ok().and_then(|loader| {
        let probe = offset as u64 + loader.relative_address_base();
        let mut frames = loader.find_frames(probe).ok()?;
        let frame = frames.next().ok()??;
        let function = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
        let function = function.or_else(|| loader.find_symbol(probe).map(str::to_owned))?;
        let line =
            frame.location.and_then(|location| Some(format!(" ({}:{})", location.file?, location.line?)));
        Some(function + &line.unwrap_or_default())
    });
    let known = known.unwrap_or_else(|| "code without names".into());
    format!("{known}, {}+{offset:#x}", file.display())
}
