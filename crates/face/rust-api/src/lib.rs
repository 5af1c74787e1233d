//! Checkpoint, rollback and replay of the calling program.
//!
//! A program that runs under `retrovane live` goes back to a checkpoint that it took
//! itself: the whole process, with all its threads, its memory and its registers.
//! Outside of a live session every function fails with [`Error::NoSession`], for the
//! price of one system call.
//!
//! ```
//! use retrovane::Checkpoint;
//!
//! # fn handle_request(_tracing: bool) -> bool { true }
//! let checkpoint = Checkpoint::take();
//! let failed_before = checkpoint.and_then(Checkpoint::rollbacks).is_ok_and(|count| count > 0);
//! let ok = handle_request(failed_before);
//! if let Ok(checkpoint) = checkpoint {
//!     if !ok && !failed_before {
//!         let error = checkpoint.rollback(); // returns only if it cannot go back
//!         eprintln!("no second look: {error}");
//!     }
//!     checkpoint.discard()?;
//! }
//! # Ok::<(), retrovane::Error>(())
//! ```
//!
//! Invariant: each function is one system call, whose number no kernel has, and
//! nothing else. Deliberately absent: state, allocation, and giving checkpoints up
//! when they are dropped: what is dropped on the way to a rollback must still be there
//! to go back to.
#![no_std]

use core::fmt;

/// Number of the first call; the others follow it.
const CALL_BASE: i64 = 0x0052_5600;

/// What is asked for, by its distance from the first call.
#[derive(Clone, Copy)]
enum Operation {
    Checkpoint = 0,
    Discard = 1,
    Rollback = 2,
    Replay = 3,
    Rollbacks = 4,
    Replaying = 5,
    Check = 6,
    Lost = 7,
}

/// A state of this program that it can go back to.
///
/// It is a number, like a descriptor, and is freed by [`Checkpoint::discard`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    id: i32,
}

impl Checkpoint {
    /// Takes a checkpoint. Returns when it was taken, and again after each rollback
    /// to it: [`Checkpoint::rollbacks`] tells these returns apart.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`], [`Error::NoMemory`], [`Error::TooManyProcesses`],
    /// [`Error::SharedMemory`], [`Error::ThreadNotStopped`]. The program is as it was.
    pub fn take() -> Result<Checkpoint, Error> {
        Ok(Checkpoint { id: ask(Operation::Checkpoint, 0)? })
    }

    /// The checkpoint with this number, from [`Checkpoint::id`] or from elsewhere.
    /// There may be none: then everything that is done with it fails.
    #[must_use]
    pub const fn from_id(id: i32) -> Checkpoint {
        Checkpoint { id }
    }

    /// Its number, 0 or more, as C programs and `retrovane ctl` know it.
    #[must_use]
    pub const fn id(self) -> i32 {
        self.id
    }

    /// Forgets it and frees its memory.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`]; [`Error::Unknown`] if it was discarded before.
    pub fn discard(self) -> Result<(), Error> {
        ask(Operation::Discard, self.id).map(drop)
    }

    /// Goes back to it and on from there, live. Returns only if that fails, with the
    /// reason, and the program is where it was.
    #[must_use = "a rollback that returns has failed"]
    pub fn rollback(self) -> Error {
        match ask(Operation::Rollback, self.id) {
            Err(error) => error,
            // What came back from where nothing comes back was no session.
            Ok(_) => Error::NoSession,
        }
    }

    /// Goes back to it, does the same again up to this very call, and returns in the
    /// present. Nothing goes out on the way.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::rollback`]. The program is where it was.
    pub fn replay(self) -> Result<(), Error> {
        ask(Operation::Replay, self.id).map(drop)
    }

    /// How often the program was rolled back to it; a replay counts as none.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`], [`Error::Unknown`].
    pub fn rollbacks(self) -> Result<u32, Error> {
        ask(Operation::Rollbacks, self.id).map(i32::unsigned_abs)
    }

    /// What a rollback to it would not restore if it were done now: a line of text for each
    /// thing. Nothing is changed. Gives the length of all of it in bytes, 0 if there is nothing;
    /// as much as fits is written to `text`, and ends with a zero.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::rollback`].
    pub fn check(self, text: &mut [u8]) -> Result<usize, Error> {
        ask_text(Operation::Check, self.id, text)
    }

    /// What the last rollback to it did not restore, as [`Checkpoint::check`] gives it; nothing
    /// before the first one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`], [`Error::Unknown`].
    pub fn lost(self, text: &mut [u8]) -> Result<usize, Error> {
        ask_text(Operation::Lost, self.id, text)
    }
}

/// True while a replay is going on. The one answer that differs in a replay: what is
/// done upon it may write to memory, but may not make other system calls than before.
/// False outside of a live session.
#[must_use]
pub fn is_replaying() -> bool {
    ask(Operation::Replaying, 0) == Ok(1)
}

/// True in a live session, in which checkpoints can be taken.
#[must_use]
pub fn in_session() -> bool {
    ask(Operation::Replaying, 0).is_ok()
}

/// Why nothing happened. The program is where it was, in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// ENOSYS: the program does not run under `retrovane live`.
    NoSession,
    /// ENOENT: there is no such checkpoint, or none any more.
    Unknown,
    /// ENOMEM: memory, or the session's limit of it.
    NoMemory,
    /// EAGAIN: the limit on processes.
    TooManyProcesses,
    /// EBUSY: another process shares memory with this one and did not take the checkpoint, or
    /// cannot take part; or it is a child of vfork.
    SharedMemory,
    /// ETIMEDOUT: a thread could not be stopped.
    ThreadNotStopped,
    /// An errno that newer versions of Retrovane may give.
    Other(i32),
}

impl Error {
    const fn of_errno(errno: i32) -> Error {
        match errno {
            38 => Error::NoSession,
            2 => Error::Unknown,
            12 => Error::NoMemory,
            11 => Error::TooManyProcesses,
            16 => Error::SharedMemory,
            110 => Error::ThreadNotStopped,
            errno => Error::Other(errno),
        }
    }

    /// The errno that the call gave.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Error::NoSession => 38,
            Error::Unknown => 2,
            Error::NoMemory => 12,
            Error::TooManyProcesses => 11,
            Error::SharedMemory => 16,
            Error::ThreadNotStopped => 110,
            Error::Other(errno) => errno,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSession => f.write_str("the program does not run under `retrovane live`"),
            Error::Unknown => f.write_str("there is no such checkpoint"),
            Error::NoMemory => f.write_str("not enough memory for a checkpoint"),
            Error::TooManyProcesses => f.write_str("the limit on processes is reached"),
            Error::SharedMemory => {
                f.write_str("another process shares memory with this one, and cannot take part")
            }
            Error::ThreadNotStopped => f.write_str("a thread could not be stopped"),
            Error::Other(errno) => write!(f, "errno {errno}"),
        }
    }
}

impl core::error::Error for Error {}

fn ask_text(operation: Operation, id: i32, text: &mut [u8]) -> Result<usize, Error> {
    finish(call(operation, id, text)).map(|length| length.unsigned_abs() as usize)
}

fn ask(operation: Operation, id: i32) -> Result<i32, Error> {
    finish(call(operation, id, &mut []))
}

fn finish(result: i64) -> Result<i32, Error> {
    match i32::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        // A sandbox may refuse what it does not know with an errno of its own. In a
        // live session the question whether it is replayed never fails.
        Ok(_) | Err(_) if call(Operation::Replaying, 0, &mut []) < 0 => Err(Error::NoSession),
        Ok(negated) => Err(Error::of_errno(negated.wrapping_neg())),
        Err(_) => Err(Error::NoSession),
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64"))]
fn call(operation: Operation, id: i32, text: &mut [u8]) -> i64 {
    let result: i64;
    // SAFETY: outside of a live session the kernel does nothing but say that it does
    // not know the call. In one, the call keeps the registers that the ABI of system
    // calls keeps; after a rollback memory and registers of all threads are what they
    // were at the checkpoint, so that what was true of them is true again, and the
    // compiler assumes nothing of memory over this call. What is written otherwise is in `text`.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") CALL_BASE + operation as i64 => result,
            in("rdi") i64::from(id),
            in("rsi") text.as_mut_ptr(),
            in("rdx") text.len(),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Retrovane runs programs of x86-64 Linux.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")))]
fn call(operation: Operation, id: i32, text: &mut [u8]) -> i64 {
    let _ = (CALL_BASE, operation, id, text);
    -i64::from(Error::NoSession.errno())
}
