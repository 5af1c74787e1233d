//! The C interface: `include/retrovane-mirror.h` says what each function does.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::time::Duration;

use crate::barrier;
use crate::checkpoints::Ticket;
use crate::error::Error;
use crate::layout::is_in_window;
use crate::region::{Options, Region};

thread_local! {
    /// Text of this thread's last error.
    static LAST: RefCell<CString> = RefCell::default();
}

/// `struct rv_mirror_options`.
#[repr(C)]
pub struct COptions {
    size: usize,
    rate: u64,
    period_ms: u64,
}

/// The process's region, for those who have no handle: what is in a region has none, as it outlives the process.
static OPENED: AtomicPtr<Region> = AtomicPtr::new(null_mut());

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_opened() -> *mut Region {
    OPENED.load(Acquire)
}

/// Notes an error for `rv_mirror_error`; returns its number.
fn failed(error: &Error) -> c_int {
    LAST.with(|last| *last.borrow_mut() = CString::new(error.to_string()).unwrap_or_default());
    error.code()
}

fn code(result: Result<(), Error>) -> c_int {
    result.map_or_else(|error| failed(&error), |()| 0)
}

fn timeout_of(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// # Safety
/// `path` is a string, `options` null or valid, `region` a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_open(
    path: *const c_char,
    options: *const COptions,
    region: *mut *mut Region,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { open(path, options, region, false) }
}

/// # Safety
/// As for `rv_mirror_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_open_verified(
    path: *const c_char,
    options: *const COptions,
    region: *mut *mut Region,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { open(path, options, region, true) }
}

/// # Safety
/// As for `rv_mirror_open`.
unsafe fn open(
    path: *const c_char,
    options: *const COptions,
    region: *mut *mut Region,
    verify: bool,
) -> c_int {
    // SAFETY: as the caller says.
    let (path, options) = unsafe { (CStr::from_ptr(path), options.as_ref()) };
    let options = options.map_or_else(
        || Options { verify, ..Options::default() },
        |options| Options {
            size: options.size,
            rate: options.rate,
            period: (options.period_ms != 0).then(|| Duration::from_millis(options.period_ms)),
            verify,
        },
    );
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    let (result, opened) = match Region::open(path, &options) {
        Ok(opened) => {
            let opened = Box::into_raw(Box::new(opened));
            OPENED.store(opened, SeqCst);
            (0, opened)
        }
        Err(error) => (failed(&error), null_mut()),
    };
    // SAFETY: as the caller says.
    unsafe { *region = opened };
    result
}

/// # Safety
/// The region was opened and not closed; nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_close(region: *mut Region) {
    if !region.is_null() {
        OPENED.store(null_mut(), SeqCst);
        // SAFETY: from `rv_mirror_open`, as the caller says.
        drop(unsafe { Box::from_raw(region) });
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_recovered(region: &Region) -> u64 {
    region.recovered().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_make_present(region: &Region) -> c_int {
    code(region.make_present())
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_alloc(region: &Region, size: usize) -> *mut c_void {
    rv_mirror_aligned_alloc(region, 16, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_aligned_alloc(region: &Region, alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        failed(&Error::OutOfMemory(size));
        return null_mut();
    }
    match region.allocate(size, alignment) {
        Ok(at) => at as *mut c_void,
        Err(error) => {
            failed(&error);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_calloc(region: &Region, count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        failed(&Error::OutOfMemory(usize::MAX));
        return null_mut();
    };
    let block = rv_mirror_alloc(region, bytes);
    if !block.is_null() {
        // SAFETY: the new block has this size.
        unsafe {
            barrier::will_write(block as usize, bytes);
            block.write_bytes(0, bytes);
        }
    }
    block
}

/// # Safety
/// `block` is null or a block of the region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_realloc(region: &Region, block: *mut c_void, size: usize) -> *mut c_void {
    let usable = if block.is_null() { 0 } else { region.usable(block as usize) };
    if usable >= size && !block.is_null() {
        // A little less is not worth a block of its own, which would be asked for again soon.
        if size <= usable / 2 {
            region.shrink(block as usize, size);
        }
        return block;
    }
    let new = rv_mirror_alloc(region, size);
    if !new.is_null() && !block.is_null() {
        // SAFETY: two blocks of the region, the new one at least as large.
        unsafe {
            barrier::will_write(new as usize, usable);
            new.cast::<u8>().copy_from_nonoverlapping(block.cast(), usable);
        }
        region.free(block as usize);
    }
    new
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_free(region: &Region, block: *mut c_void) {
    if !block.is_null() {
        region.free(block as usize);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_usable_size(region: &Region, block: *mut c_void) -> usize {
    if block.is_null() { 0 } else { region.usable(block as usize) }
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_used(region: &Region) -> usize {
    region.used()
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_contains(address: *const c_void) -> c_int {
    c_int::from(is_in_window(address as usize))
}

/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_set_root(
    region: &Region,
    name: *const c_char,
    value: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    code(region.set_root(&name, value as u64))
}

/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_root(region: &Region, name: *const c_char) -> *mut c_void {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    region.root(&name).unwrap_or(0) as *mut c_void
}

/// With 1: only a checkpoint of now.
#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_checkpoint(region: &Region, now: c_int) -> i64 {
    let asked = if now == 0 { region.checkpoint() } else { region.checkpoint_now() };
    asked.map_or_else(|error| i64::from(failed(&error)), |ticket| ticket.0 as i64)
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_is_idle(region: &Region) -> c_int {
    c_int::from(region.is_idle())
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_wait(region: &Region, checkpoint: i64, timeout_ms: c_int) -> c_int {
    code(region.wait(Ticket(checkpoint.max(0) as u64), timeout_of(timeout_ms)))
}

/// 1: durable, 0: not known yet, below 0: failed.
#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_poll(region: &Region, checkpoint: i64) -> c_int {
    match region.poll(Ticket(checkpoint.max(0) as u64)) {
        None => 0,
        Some(Ok(())) => 1,
        Some(Err(error)) => failed(&error),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_wait_verified(region: &Region, timeout_ms: c_int) -> c_int {
    code(region.wait_verified(timeout_of(timeout_ms)))
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_wait_idle(region: &Region) {
    region.wait_idle();
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_set_period(region: &Region, milliseconds: u64) {
    region.set_period((milliseconds != 0).then(|| Duration::from_millis(milliseconds)));
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_set_rate(region: &Region, bytes: u64) {
    region.set_rate(bytes);
}

/// # Safety
/// The bytes are mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_will_write(address: *const c_void, count: usize) {
    // SAFETY: as the caller says.
    unsafe { barrier::will_write(address as usize, count) };
}

#[unsafe(no_mangle)]
pub extern "C" fn rv_mirror_wrote(address: *const c_void, count: usize) {
    barrier::wrote(address as usize, count);
}

/// Where the pass found a store that it cannot mirror, and the address is in the region.
///
/// # Safety
/// `place` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_refuse(place: *const c_char) -> ! {
    // SAFETY: as the caller says.
    let place = unsafe { CStr::from_ptr(place) }.to_string_lossy();
    eprintln!(
        "retrovane-mirror: a store into the region that cannot be mirrored, at {place}: \
         make it another way, or keep what it changes outside of the region"
    );
    std::process::abort()
}

/// Looks for words that differ from the mirror and stay so; returns in how many pages.
///
/// # Safety
/// `addresses` has room for `room` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_differences(region: &Region, addresses: *mut usize, room: usize) -> usize {
    let found = region.differences().unwrap_or_else(|error| {
        failed(&error);
        eprintln!("retrovane-mirror: {error}");
        Vec::new()
    });
    let told = found.len().min(room);
    // SAFETY: as the caller says.
    unsafe { addresses.copy_from_nonoverlapping(found.as_ptr(), told) };
    found.len()
}
