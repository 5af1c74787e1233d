//! Signals that were read from a signalfd(2) since, and waited at the checkpoint: they wait again in
//! the kernel, and would come twice if they were given back, too.

use super::{DATA, pushback};
use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::Pushed;
use crate::ground::memory;
use crate::ground::proc_files::each_line;

/// struct `signalfd_siginfo`.
const SIGINFO_BYTES: u64 = 128;

pub fn drop_waiting() {
    for info in area().pending.infos() {
        let pushback = &mut *pushback();
        let first = pushback.first.min(pushback.count);
        for pushed in &mut pushback.all[first..pushback.count] {
            if pushed.kind == DATA && is_signalfd(pushed.fd) && take(pushed, info) {
                break;
            }
        }
    }
}

fn is_signalfd(fd: u32) -> bool {
    let mut is_it = false;
    each_line(fd, &mut |line| is_it |= line.starts_with(b"sigmask:"));
    is_it
}

/// Takes the signal out of what is given back; false if it is not in there.
fn take(pushed: &mut Pushed, info: &[u64; 16]) -> bool {
    // siginfo_t: si_signo, si_errno, si_code, and what depends on that; signalfd_siginfo has the
    // same three at its beginning.
    let wanted = [info[0] as u32, info[1] as u32];
    let is_it =
        |at: u64| memory::read::<[u32; 3]>(at).is_some_and(|[signal, _, code]| [signal, code] == wanted);
    let count = pushed.left / SIGINFO_BYTES;
    let Some(index) = (0..count).find(|index| is_it(pushed.at + index * SIGINFO_BYTES)) else {
        return false;
    };
    for one in (0..index).rev() {
        let from = pushed.at + one * SIGINFO_BYTES;
        memory::copy(from + SIGINFO_BYTES, from, SIGINFO_BYTES);
    }
    pushed.at += SIGINFO_BYTES;
    pushed.left -= SIGINFO_BYTES;
    if pushed.left == 0 {
        pushed.kind = 0;
    }
    true
}
