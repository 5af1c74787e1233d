//! Objects of the kernel's behind descriptors that a shadow can keep open, as nobody waits for
//! their end: a program that closed them since gets them back.

use linux_abi::general as nr;

use crate::checkpoint::kept_resources::Object;
use crate::ground::kernel;
use crate::ground::proc_files::Path;

impl Object {
    /// What the descriptor is, as /proc names it.
    pub fn of(fd: u32) -> Object {
        let mut path = Path::new();
        path.text(b"/proc/thread-self/fd/").number(u64::from(fd));
        match path.target(&mut [0; 64]) {
            b"anon_inode:[eventpoll]" => Object::Epoll,
            b"anon_inode:[eventfd]" | b"anon_inode:[timerfd]" => Object::Other,
            b"anon_inode:[signalfd]" | b"anon_inode:inotify" => Object::Other,
            _ => Object::None,
        }
    }
}

/// Makes an empty set of epoll(7) with this number.
pub fn make_epoll(fd: u32) {
    let made = kernel::call(nr::__NR_epoll_create1, [0; 6]);
    if !kernel::failed(made) && made as u32 != fd {
        kernel::call(nr::__NR_dup2, [made as u64, u64::from(fd), 0, 0, 0, 0]);
        kernel::call(nr::__NR_close, [made as u64, 0, 0, 0, 0, 0]);
    }
}
