//! Output of confined processes: they write to pipes, and threads of ours pass it on, so that
//! none of them has a descriptor of a terminal, a file or a socket of the outside.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread::JoinHandle;

use crate::spawn::pipe;

/// Pipes for standard output and error. What goes to one place goes through one pipe: its
/// order stays.
pub struct Outlet {
    ends: Vec<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when everything has been written.
    wakers: Vec<OwnedFd>,
}

impl Outlet {
    pub fn new() -> io::Result<Outlet> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let errors = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let place = |file: &File| file.metadata().map(|about| (about.dev(), about.ino()));
        let is_one = matches!((place(&out), place(&errors)), (Ok(one), Ok(other)) if one == other);
        let mut outlet = Outlet { ends: Vec::new(), threads: Vec::new(), wakers: Vec::new() };
        outlet.add(out)?;
        if !is_one {
            outlet.add(errors)?;
        }
        Ok(outlet)
    }

    fn add(&mut self, to: File) -> io::Result<()> {
        let (from, end) = pipe()?;
        let (woken, waker) = pipe()?;
        self.threads.push(
            std::thread::Builder::new()
                .name("outlet".to_owned())
                .spawn(move || pass_on(from.into(), to, &woken))?,
        );
        self.ends.push(end);
        self.wakers.push(waker);
        Ok(())
    }

    /// The ends for standard output and error.
    pub fn ends(&self) -> [i32; 2] {
        let at = |index: usize| self.ends[index.min(self.ends.len() - 1)].as_raw_fd();
        [at(0), at(1)]
    }

    /// Returns when all that was written is passed on. Who holds an end still, though its replay is
    /// over, is not waited for.
    pub fn finish(&mut self) {
        self.wakers.clear();
        for thread in self.threads.drain(..) {
            // It has only passed bytes on.
            let _ = thread.join();
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Passes on what comes, until the other end of `woken` is closed and nothing is left.
fn pass_on(mut from: File, mut to: File, woken: &OwnedFd) {
    let mut buffer = [0; 1 << 16];
    let mut is_heard = true;
    loop {
        let wanted = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut waited = [wanted(from.as_raw_fd()), wanted(woken.as_raw_fd())];
        // SAFETY: the list lives for the call, which is told its length.
        if unsafe { libc::poll(waited.as_mut_ptr(), 2, -1) } < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return;
        }
        if waited[0].revents & libc::POLLIN == 0 {
            return;
        }
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => is_heard = is_heard && to.write_all(&buffer[..bytes]).is_ok(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_passed_on_though_somebody_holds_the_end() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut outlet = Outlet { ends: Vec::new(), threads: Vec::new(), wakers: Vec::new() };
        outlet.add(File::from(OwnedFd::from(writer))).expect("a pipe and a thread");
        let mut held = File::from(outlet.ends[0].try_clone().expect("a copy"));
        held.write_all(b"all of it").expect("a pipe has room");
        outlet.finish();
        let mut passed = String::new();
        reader.read_to_string(&mut passed).expect("text");
        assert_eq!(passed, "all of it");
    }
}
