//! Files of procfs that the program opens and that do not show what they show natively: some are
//! followed, and memory is not given to be written.

use linux_abi::{errno, general as nr};

use crate::code::own_vdso;
use crate::ground::proc_files::is_in_proc;
use crate::ground::{auxiliary_vector, kernel, memory};
use crate::lab::files;
use crate::syscalls::visible_maps;

/// A call that reads a path ended with this result, which is no error: the result for the
/// program.
#[inline]
pub fn opened(number: u64, args: &[u64; 6], result: i64) -> i64 {
    match number as u32 {
        nr::__NR_open => opened_path(number, args, args[0], result),
        nr::__NR_openat | nr::__NR_openat2 => opened_path(number, args, args[1], result),
        _ => result,
    }
}

fn opened_path(number: u64, args: &[u64; 6], path: u64, fd: i64) -> i64 {
    let mut text = [0u8; 256];
    let text = memory::read_text(path, &mut text).map_or(&[][..], |bytes| &text[..bytes]);
    let name = text.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if !matches!(name, b"maps" | b"smaps" | b"mem" | b"auxv") {
        return fd;
    }
    if !is_in_proc(fd as u64) {
        if matches!(name, b"maps" | b"smaps") && files::is_list_of_maps(number, args, text) {
            visible_maps::note(fd as u64);
        }
        return fd;
    }
    match name {
        b"auxv" => auxiliary_vector::show_vdso(own_vdso::place()),
        b"mem" if is_memory_to_write(fd as u64) => {
            kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
            return -i64::from(errno::EACCES);
        }
        b"mem" => {}
        _ => visible_maps::note(fd as u64),
    }
    fd
}

/// True for a process's memory that could be changed: what is written there the log cannot
/// tell, since the runtime does not look at every store to a file.
fn is_memory_to_write(fd: u64) -> bool {
    const F_GETFL: u64 = 3;
    let flags = kernel::call(nr::__NR_fcntl, [fd, F_GETFL, 0, 0, 0, 0]);
    flags & i64::from(nr::O_ACCMODE) != i64::from(nr::O_RDONLY)
}
