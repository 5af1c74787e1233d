//! Functions of the C and C++ libraries, with the barrier: what compiled code calls in their place where it cannot save before the
//! call what will be stored to.
//!
//! A call that may wait (read(2)) gets other memory, from which it is copied into the region behind the call: else what comes
//! into the region while it waits would not be saved, though a checkpoint began meanwhile. Others write as much as a string has, which is
//! counted before.
//!
//! Deliberately absent: memory outside of the region, for which the library's own function is called as it is.

use core::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::barrier::will_write;
use crate::layout::is_in_window;

/// Calls a function with memory of its own in place of the region's, and copies what it wrote there. Its results are kept, and errno.
///
/// # Safety
/// The bytes are the caller's to write.
unsafe fn through<T>(
    to: *mut c_void,
    count: usize,
    call: impl FnOnce(*mut c_void) -> T,
    bytes: impl FnOnce(&T) -> usize,
) -> T {
    if !is_in_window(to as usize) || count == 0 {
        return call(to);
    }
    // What a call leaves as it is stays so.
    // SAFETY: as the caller says.
    let mut own = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), count) }.to_vec();
    let result = call(own.as_mut_ptr().cast());
    // SAFETY: as above; the C library's place for the last error.
    unsafe {
        let errno = *libc::__errno_location();
        let written = bytes(&result).min(count);
        will_write(to as usize, written);
        to.cast::<u8>().copy_from_nonoverlapping(own.as_ptr(), written);
        drop(own);
        *libc::__errno_location() = errno;
    }
    result
}

/// The bytes of a result that is below 0 where a call failed.
fn counted(result: &isize) -> usize {
    usize::try_from(*result).unwrap_or(0)
}

/// # Safety
/// As for read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_read(file: c_int, to: *mut c_void, count: usize) -> isize {
    // SAFETY: as the caller says.
    unsafe { through(to, count, |to| libc::read(file, to, count), counted) }
}

/// # Safety
/// As for pread(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_pread(file: c_int, to: *mut c_void, count: usize, offset: i64) -> isize {
    // SAFETY: as the caller says.
    unsafe { through(to, count, |to| libc::pread(file, to, count, offset), counted) }
}

/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_recv(socket: c_int, to: *mut c_void, count: usize, flags: c_int) -> isize {
    // SAFETY: as the caller says.
    unsafe { through(to, count, |to| libc::recv(socket, to, count, flags), counted) }
}

/// # Safety
/// As for recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_recvfrom(
    socket: c_int,
    to: *mut c_void,
    count: usize,
    flags: c_int,
    address: *mut c_void,
    length: *mut libc::socklen_t,
) -> isize {
    // SAFETY: as the caller says; an address has the bytes that its length says.
    unsafe {
        let room = if address.is_null() || length.is_null() { 0 } else { *length as usize };
        let receive = |to: *mut c_void, address: *mut c_void, length: *mut c_void| {
            libc::recvfrom(socket, to, count, flags, address.cast(), length.cast())
        };
        let all = |_: &isize| room;
        let with_address = |to, length| through(address, room, |address| receive(to, address, length), all);
        let bytes = |_: &isize| size_of::<libc::socklen_t>();
        let with_length = |to| {
            through(length.cast(), size_of::<libc::socklen_t>(), |length| with_address(to, length), bytes)
        };
        through(to, count, with_length, counted)
    }
}

/// # Safety
/// As for getrandom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_getrandom(to: *mut c_void, count: usize, flags: u32) -> isize {
    // SAFETY: as the caller says.
    unsafe { through(to, count, |to| libc::getrandom(to, count, flags), counted) }
}

/// # Safety
/// As for readlink(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_readlink(path: *const c_char, to: *mut c_char, count: usize) -> isize {
    // SAFETY: as the caller says.
    unsafe { through(to.cast(), count, |to| libc::readlink(path, to.cast(), count), counted) }
}

/// # Safety
/// As for fread(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_fread(
    to: *mut c_void,
    size: usize,
    count: usize,
    file: *mut libc::FILE,
) -> usize {
    let bytes = size.saturating_mul(count);
    // A part of the last element may be there, too.
    // SAFETY: as the caller says.
    unsafe { through(to, bytes, |to| libc::fread(to, size, count, file), |_| bytes) }
}

/// # Safety
/// As for fgets(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_fgets(to: *mut c_char, size: c_int, file: *mut libc::FILE) -> *mut c_char {
    let bytes = usize::try_from(size).unwrap_or(0);
    // SAFETY: as the caller says.
    let got = unsafe { through(to.cast(), bytes, |to| libc::fgets(to.cast(), size, file), |_| bytes) };
    if got.is_null() { got } else { to }
}

/// Bytes of a string with the 0 behind it.
///
/// # Safety
/// It is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_string_bytes(text: *const c_char) -> usize {
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.count_bytes() + 1
}

/// # Safety
/// As for strcpy(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: as the caller says.
    unsafe {
        will_write(to as usize, rv_mirror_string_bytes(from));
        libc::strcpy(to, from)
    }
}

/// # Safety
/// As for stpcpy(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: as the caller says.
    unsafe { rv_mirror_strcpy(to, from).add(rv_mirror_string_bytes(from) - 1) }
}

/// # Safety
/// As for strcat(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_strcat(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: as the caller says.
    unsafe {
        let before = rv_mirror_string_bytes(to) - 1;
        rv_mirror_strcpy(to.add(before), from);
    }
    to
}

/// # Safety
/// As for strncat(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_strncat(to: *mut c_char, from: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: as the caller says.
    unsafe {
        let before = rv_mirror_string_bytes(to) - 1;
        will_write(to as usize + before, libc::strnlen(from, most) + 1);
        libc::strncat(to, from, most)
    }
}

/// The arguments of a variadic function (System V ABI for AMD64, 3.5.7), which two calls need.
type Arguments = [u64; 3];

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, size: usize, format: *const c_char, arguments: *mut Arguments) -> c_int;
    fn vsprintf(to: *mut c_char, format: *const c_char, arguments: *mut Arguments) -> c_int;
}

/// # Safety
/// As for vsprintf(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_vsprintf(
    to: *mut c_char,
    format: *const c_char,
    arguments: *mut Arguments,
) -> c_int {
    // SAFETY: as the caller says; arguments are read from a copy first.
    unsafe {
        if is_in_window(to as usize) {
            let mut copy = *arguments;
            let bytes = vsnprintf(std::ptr::null_mut(), 0, format, &mut copy);
            will_write(to as usize, usize::try_from(bytes).unwrap_or(0) + 1);
        }
        vsprintf(to, format, arguments)
    }
}

/// sprintf(3): makes a list of its arguments, and calls [`rv_mirror_vsprintf`].
///
/// # Safety
/// As for sprintf(3).
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn rv_mirror_sprintf() {
    naked_asm!(
        "
        sub rsp, 216
        mov [rsp + 48], rdx
        mov [rsp + 56], rcx
        mov [rsp + 64], r8
        mov [rsp + 72], r9
        test al, al
        jz 21f
        movaps [rsp + 80], xmm0
        movaps [rsp + 96], xmm1
        movaps [rsp + 112], xmm2
        movaps [rsp + 128], xmm3
        movaps [rsp + 144], xmm4
        movaps [rsp + 160], xmm5
        movaps [rsp + 176], xmm6
        movaps [rsp + 192], xmm7
        // gp_offset: the first two arguments have names; fp_offset; the caller's stack; the registers.
    21: mov dword ptr [rsp], 16
        mov dword ptr [rsp + 4], 48
        lea rax, [rsp + 224]
        mov [rsp + 8], rax
        lea rax, [rsp + 32]
        mov [rsp + 16], rax
        mov rdx, rsp
        call {list}
        add rsp, 216
        ret
        ",
        list = sym rv_mirror_vsprintf,
    )
}

/// The address of `std::istream::read(char *, std::streamsize)`, in a program that has it.
#[unsafe(naked)]
extern "C" fn istream_read_address() -> *const c_void {
    naked_asm!(".weak _ZNSi4readEPcl", "mov rax, [rip + _ZNSi4readEPcl@GOTPCREL]", "ret")
}

/// # Safety
/// As for `std::istream::read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_istream_read(
    stream: *mut c_void,
    to: *mut c_char,
    count: isize,
) -> *mut c_void {
    type Read = unsafe extern "C" fn(*mut c_void, *mut c_char, isize) -> *mut c_void;
    let bytes = usize::try_from(count).unwrap_or(0);
    // SAFETY: who calls this was compiled with the call of that function, which is there then.
    unsafe {
        let read: Read = std::mem::transmute(istream_read_address());
        through(to.cast(), bytes, |to| read(stream, to.cast(), count), |_| bytes)
    }
}
