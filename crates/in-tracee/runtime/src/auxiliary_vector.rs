//! The auxiliary vector that the kernel shows in `/proc/PID/auxv` (proc(5)). The one on the stack
//! does not name the vDSO, so that calls for the time come to us; programs that bring a C library of
//! their own (ClickHouse) look in the file, and shall not find it there either.
//!
//! Deliberately absent: the vectors of other processes, and kernels that let nobody change it
//! (without CONFIG_CHECKPOINT_RESTORE, and without CAP_SYS_RESOURCE).

use linux_abi::{general as nr, prctl};

use crate::{kernel, proc_dir};

pub const AT_IGNORE: u64 = 1;
pub const AT_SYSINFO_EHDR: u64 = 33;
/// Words of the kernel's vector, at most.
const WORDS: usize = 96;
/// `struct prctl_mm_map` of prctl(2), from `start_code` on.
const ADDRESSES: usize = 11;
/// Fields of proc(5)'s `stat` behind the name, from 0 on, in the order of `struct prctl_mm_map`:
/// code, data, begin of the heap, its end (which is not told), stack, arguments, environment.
const FIELDS: [usize; ADDRESSES] = [23, 24, 42, 43, 44, NOT_TOLD, 25, 45, 46, 47, 48];
const NOT_TOLD: usize = usize::MAX;
const HEAP_END: usize = 5;

/// Takes the vDSO out of what the kernel shows of this process.
#[cold]
pub fn hide_vdso() {
    let mut vector = [0u64; WORDS];
    let read = read_file(c"/proc/thread-self/auxv", vector.as_mut_ptr() as u64, size_of_val(&vector));
    let words = &mut vector[..read / 8];
    let Some(entry) = words.iter().step_by(2).position(|&key| key == AT_SYSINFO_EHDR) else { return };
    words[entry * 2] = AT_IGNORE;
    let [address, bytes] = [words.as_ptr() as u64, size_of_val(words) as u64];
    let alone = [u64::from(prctl::PR_SET_MM), u64::from(prctl::PR_SET_MM_AUXV), address, bytes, 0, 0];
    if kernel::failed(kernel::call(nr::__NR_prctl, alone)) {
        set_whole_map(address, bytes);
    }
}

/// As everybody may: together with all else that the kernel knows of the image.
fn set_whole_map(vector: u64, bytes: u64) {
    /// No other executable.
    const NO_FILE: u64 = 0xffff_ffff;
    let mut text = [0u8; 1024];
    let read = read_file(c"/proc/thread-self/stat", text.as_mut_ptr() as u64, text.len());
    let text = &text[..read];
    let Some(behind_name) = text.iter().rposition(|&byte| byte == b')') else { return };
    let mut map = [0u64; ADDRESSES + 2];
    let fields = text[behind_name + 1..].split(|&byte| byte == b' ').skip(1);
    for (index, field) in fields.enumerate() {
        if let Some(place) = FIELDS.iter().position(|&wanted| wanted == index) {
            let digits = field.iter().filter(|byte| byte.is_ascii_digit());
            map[place] = digits.fold(0, |sum, &digit| sum * 10 + u64::from(digit - b'0'));
        }
    }
    map[HEAP_END] = kernel::call(nr::__NR_brk, [0; 6]) as u64;
    map[ADDRESSES] = vector;
    map[ADDRESSES + 1] = bytes | NO_FILE << 32;
    let [address, bytes] = [map.as_ptr() as u64, size_of_val(&map) as u64];
    let arguments = [u64::from(prctl::PR_SET_MM), u64::from(prctl::PR_SET_MM_MAP), address, bytes, 0, 0];
    kernel::call(nr::__NR_prctl, arguments);
}

/// Reads the beginning of a file; gives its bytes.
fn read_file(path: &core::ffi::CStr, buffer: u64, bytes: usize) -> usize {
    let fd = proc_dir::open(path);
    if kernel::failed(fd) {
        return 0;
    }
    let read = kernel::call(nr::__NR_read, [fd as u64, buffer, bytes as u64, 0, 0, 0]);
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    usize::try_from(read).unwrap_or(0)
}
