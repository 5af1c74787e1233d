//! What stands for a connection or a pipe that was closed since a checkpoint. Without it the
//! number would go to whoever comes next, whom the program would take for the other.
//!
//! A pipe of which the program has another end is opened again. Otherwise whoever reads finds what
//! comes again and then the end, and whoever writes EPIPE, as where the other side went away (by TCP
//! after the first write, as ever). Of a socket that is no stream nothing comes.

use linux_abi::general as nr;

use crate::checkpoint::kept_resources::{Descriptor, Tables};
use crate::checkpoint::resources::pushback::{self, Channel};
use crate::ground::kernel;
use crate::ground::proc_files::Path;
use crate::state::own_descriptors::{close, move_high};
use crate::state::proc_dir;

const ACCESS: u64 = nr::O_ACCMODE as u64;

/// Where one of then is closed now, of a kind that something can stand for.
fn is_needed(tables: &Tables, then: &Descriptor) -> bool {
    then.is_channel() && !is_open(tables, then)
}

/// True if something will stand for what this is, or it is open again itself.
pub fn comes(tables: &Tables, channel: Channel) -> bool {
    let comes = |one: &Descriptor| one.is_channel() || one.is_object();
    tables.then.all().iter().any(|one| comes(one) && one.channel() == channel)
}

/// True if a pipe of then has another end now, under a number of then.
pub fn has_other_end(tables: &Tables, then: &Descriptor) -> bool {
    then.is_pipe() && tables.then.all().iter().any(|one| one.is_same(then) && is_open(tables, one))
}

fn is_open(tables: &Tables, then: &Descriptor) -> bool {
    tables.now.find(then.fd).is_some_and(|now| then.is_same(now))
}

/// Opens them. `is_done`: those that are open again by now.
pub fn make(tables: &Tables, is_done: &dyn Fn(u32) -> bool) {
    let closed = |one: &&Descriptor| is_needed(tables, one) && !is_done(one.fd);
    for (index, then) in tables.then.all().iter().enumerate().filter(|(_, one)| closed(one)) {
        let of_it = |other: &&Descriptor| other.is_same(then);
        let earlier = tables.then.all()[..index].iter().find(of_it).filter(|other| closed(other));
        let other = tables.then.all().iter().filter(|other| !closed(other)).find(of_it).or(earlier);
        let opened = match other {
            Some(other) => again(then, other),
            None => alone(then),
        };
        let Some(opened) = opened else { continue };
        let flags = if then.is_cloexec() { u64::from(nr::O_CLOEXEC) } else { 0 };
        kernel::call(nr::__NR_dup3, [opened as u64, u64::from(then.fd), flags, 0, 0, 0]);
        close(opened);
        kernel::call(nr::__NR_fcntl, [u64::from(then.fd), u64::from(nr::F_SETFL), then.settable(), 0, 0, 0]);
        pushback::goes_to(then.channel(), u64::from(then.fd));
    }
}

/// Another descriptor of what is open.
fn again(then: &Descriptor, other: &Descriptor) -> Option<i32> {
    let opened = match then.is_pipe() && then.status & ACCESS != other.status & ACCESS {
        true => reopened(other.fd, then.status & ACCESS),
        false => {
            kernel::call(nr::__NR_fcntl, [u64::from(other.fd), u64::from(nr::F_DUPFD_CLOEXEC), 0, 0, 0, 0])
        }
    };
    // One that is somebody else's by now may be refused.
    move_high(opened).or_else(|| alone(then))
}

/// An end of a pipe by way of another. Waits for nobody (fifo(7)).
fn reopened(fd: u32, access: u64) -> i64 {
    let mut path = Path::new();
    path.text(b"/proc/thread-self/fd/").number(u64::from(fd));
    proc_dir::open_as(path.as_text(), access as u32 | nr::O_NONBLOCK)
}

fn pipe() -> Option<[i32; 2]> {
    let mut ends = [-1i32; 2];
    let made = kernel::call(nr::__NR_pipe2, [ends.as_mut_ptr() as u64, 0, 0, 0, 0, 0]);
    (!kernel::failed(made)).then_some(ends)
}

/// One of which the other side has gone away.
fn alone(then: &Descriptor) -> Option<i32> {
    const AF_UNIX: u64 = 1;
    const SOCK_DGRAM: u64 = 2;
    if !then.is_pipe() && !then.connection.is_any() {
        return move_high(kernel::call(nr::__NR_socket, [AF_UNIX, SOCK_DGRAM, 0, 0, 0, 0]));
    }
    let ends = if then.is_pipe() { pipe() } else { then.connection.make() }?;
    let both = u64::from(nr::O_RDWR);
    let [own, other] = match then.status & ACCESS {
        access if then.is_pipe() && access == both => {
            let own = reopened(ends[0] as u32, both) as i32;
            close(ends[1]);
            [own, ends[0]]
        }
        access if access == u64::from(nr::O_WRONLY) => [ends[1], ends[0]],
        _ => ends,
    };
    let own = move_high(i64::from(own));
    close(other);
    own
}
