//! The auxiliary vector that the kernel shows in `/proc/PID/auxv` (proc(5)). The one on the stack
//! names a vDSO of ours, so that calls for the time come to us; programs that bring a C library of
//! their own (ClickHouse) look in the file, and shall find the same there.
//!
//! Deliberately absent: the vectors of other processes, and kernels that let nobody change it
//! (without CONFIG_CHECKPOINT_RESTORE, and without CAP_SYS_RESOURCE).

use linux_abi::{general as nr, prctl};

use crate::ground::kernel;
use crate::ground::proc_files::{self, Path};

const AT_IGNORE: u64 = 1;
pub const AT_SYSINFO_EHDR: u64 = 33;
/// Bytes of the kernel's vector, at most, and of an entry.
const BYTES: usize = 768;
const ENTRY: usize = 16;
/// `struct prctl_mm_map` of prctl(2), from `start_code` on.
const ADDRESSES: usize = 11;
/// Fields of proc_pid_stat(5), in the order of `struct prctl_mm_map`: code, data, begin of the heap,
/// its end (which is not told), stack, arguments, environment.
const FIELDS: [Option<usize>; ADDRESSES] = [
    Some(26),
    Some(27),
    Some(45),
    Some(46),
    Some(47),
    None,
    Some(28),
    Some(48),
    Some(49),
    Some(50),
    Some(51),
];

/// The entry of the vDSO for the program: `own` is where ours is, if it is anywhere.
pub fn vdso_entry(own: Option<(u64, u64)>, kernels: u64) -> [u64; 2] {
    own.map_or([AT_IGNORE, kernels], |(start, _)| [AT_SYSINFO_EHDR, start])
}

/// Has the kernel show this vDSO of the process in place of its own, or none.
#[cold]
pub fn show_vdso(own: Option<(u64, u64)>) {
    let (mut path, mut vector) = (Path::new(), [0u8; BYTES]);
    path.text(b"/proc/thread-self/auxv");
    let read = path.read(&mut vector).map_or(0, <[u8]>::len);
    let entries = vector[..read].as_chunks_mut::<ENTRY>().0;
    let Some(entry) = entries.iter_mut().find(|entry| entry.starts_with(&AT_SYSINFO_EHDR.to_le_bytes()))
    else {
        return;
    };
    let halves = entry.as_chunks_mut::<8>().0;
    let value = halves.get(1).map_or(0, |value| u64::from_le_bytes(*value));
    for (half, word) in halves.iter_mut().zip(vdso_entry(own, value)) {
        *half = word.to_le_bytes();
    }
    let [address, bytes] = [vector.as_ptr() as u64, read as u64];
    let alone = [u64::from(prctl::PR_SET_MM), u64::from(prctl::PR_SET_MM_AUXV), address, bytes, 0, 0];
    if kernel::failed(kernel::call(nr::__NR_prctl, alone)) {
        set_whole_map(address, bytes);
    }
}

/// As everybody may: together with all else that the kernel knows of the image.
fn set_whole_map(vector: u64, bytes: u64) {
    /// No other executable.
    const NO_FILE: u64 = 0xffff_ffff;
    let (mut path, mut text) = (Path::new(), [0u8; 1024]);
    let Some(text) = path.text(b"/proc/thread-self/stat").read(&mut text) else { return };
    let heap_end = || kernel::call(nr::__NR_brk, [0; 6]) as u64;
    let mut map = [0u64; ADDRESSES + 2];
    for (address, field) in map.iter_mut().zip(FIELDS) {
        *address = field.map_or_else(heap_end, |field| proc_files::stat_number(text, field));
    }
    map[ADDRESSES] = vector;
    map[ADDRESSES + 1] = bytes | NO_FILE << 32;
    let [address, bytes] = [map.as_ptr() as u64, size_of_val(&map) as u64];
    let arguments = [u64::from(prctl::PR_SET_MM), u64::from(prctl::PR_SET_MM_MAP), address, bytes, 0, 0];
    kernel::call(nr::__NR_prctl, arguments);
}
