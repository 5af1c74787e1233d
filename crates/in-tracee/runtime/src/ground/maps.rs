//! The program's mappings, as /proc/self/maps tells them, which is the first thread's. Where that is gone
//! it is /proc/thread-self/maps: not always, since what a thread looks up there the kernel takes away at
//! its end, and who reaps the process meanwhile spins until it has (proc_invalidate_siblings_dcache in
//! fs/proc/inode.c).

use linux_abi::general as nr;

use crate::ground::memory::in_region;
use crate::ground::owned::Owned;
use crate::ground::{kernel, notices};
pub use runtime_logic::map_lines::{Mapping, device, protection, range_of, stat_device};

const BUFFER_BYTES: usize = 16 * 1024;
static BUFFER: Owned<[u8; BUFFER_BYTES]> = Owned::new([0; BUFFER_BYTES]);
pub const VDSO: &[u8] = b"[vdso]";

/// Calls `each` for every mapping that is not the runtime's; false if the list
/// cannot be read to its end (no /proc here).
pub fn for_each(each: &mut dyn FnMut(&Mapping)) -> bool {
    let mut has_any = false;
    let complete = for_each_of(c"/proc/self/maps", &mut |mapping| {
        has_any = true;
        each(mapping);
    });
    if has_any { complete } else { for_each_of(c"/proc/thread-self/maps", each) }
}

/// The same of the list at `path`.
pub fn for_each_of(path: &core::ffi::CStr, each: &mut dyn FnMut(&Mapping)) -> bool {
    for_each_named(path, &mut |mapping, _| each(mapping))
}

/// The same, with the files' names.
pub fn for_each_named(path: &core::ffi::CStr, each: &mut dyn FnMut(&Mapping, &[u8])) -> bool {
    let fd = notices::open_of_proc(path, 0);
    if kernel::failed(fd) {
        return false;
    }
    // SAFETY: one thread runs, and `for_each` is not entered again by `each`.
    let buffer = unsafe { &mut *BUFFER.get() };
    let mut filled = 0;
    let complete = loop {
        let space = (BUFFER_BYTES - filled) as u64;
        let target = buffer[filled..].as_mut_ptr() as u64;
        let read = kernel::call(nr::__NR_read, [fd as u64, target, space, 0, 0, 0]);
        if read <= 0 {
            break read == 0 && filled == 0;
        }
        filled += read as usize;
        let mut done = 0;
        while let Some(len) = buffer[done..filled].iter().position(|&byte| byte == b'\n') {
            let line = &buffer[done..done + len];
            if let Some((mapping, name)) = Mapping::of_line(line)
                && !in_region(mapping.start, mapping.end - mapping.start)
            {
                each(&mapping, name);
            }
            done += len + 1;
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
    };
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    complete
}
