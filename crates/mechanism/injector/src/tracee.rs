//! ptrace, with its states as types.
//!
//! A tracee that runs can only be waited for, one that stands can only be looked
//! at and let go. Its death at any moment is a normal result. All calls for one
//! tracee come from the thread that seized it, as the kernel demands.

use std::io;

/// A tracee that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pid: i32,
}

/// A tracee that stands.
#[derive(Debug)]
pub(crate) struct Stopped {
    pid: i32,
}

/// What a wait ended with.
#[derive(Debug)]
pub(crate) enum Next {
    /// It executed a new image, of which no instruction ran yet.
    Exec(Stopped),
    /// A signal is about to be delivered.
    Signal(Stopped, i32),
    /// Job control stopped it.
    GroupStop(Stopped),
    /// It ended: its id, and its wait status.
    Gone(i32, i32),
}

impl Running {
    /// Begins to trace a thread that goes on running.
    pub fn seize(pid: i32) -> io::Result<Running> {
        ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_TRACEEXEC as u64)?;
        Ok(Running { pid })
    }

    /// Waits until it stands or is gone. A thread that executes a new image goes on
    /// under its process's id (ptrace(2), execve under ptrace): whatever this thread
    /// traces is waited for.
    pub fn wait(self) -> io::Result<Next> {
        let mut status = 0;
        let pid = loop {
            // SAFETY: the status is written within the call only.
            let result = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if result > 0 {
                break result;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        };
        let stopped = Stopped { pid };
        if !libc::WIFSTOPPED(status) {
            return Ok(Next::Gone(pid, status));
        }
        Ok(match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Next::Exec(stopped),
            // The end of a group stop shows as a trap (ptrace(2), PTRACE_LISTEN).
            libc::PTRACE_EVENT_STOP if libc::WSTOPSIG(status) == libc::SIGTRAP => Next::Signal(stopped, 0),
            libc::PTRACE_EVENT_STOP => Next::GroupStop(stopped),
            _ => Next::Signal(stopped, libc::WSTOPSIG(status)),
        })
    }
}

impl Stopped {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: zero is valid for registers; the kernel writes as many bytes as
        // the structure has.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            ptrace(libc::PTRACE_GETREGS, self.pid, 0, (&raw mut registers) as u64)?;
            Ok(registers)
        }
    }

    pub fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.pid, 0, std::ptr::from_ref(registers) as u64)
    }

    /// Reads 8 bytes.
    pub fn peek(&self, address: u64) -> io::Result<u64> {
        let mut word = 0u64;
        // The system call itself writes the word where `data` points to; libc's
        // wrapper puts a place of its own there.
        // SAFETY: the word lives for the whole call, which writes 8 bytes.
        let result = unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.pid, address, &raw mut word)
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(word) }
    }

    /// Writes 8 bytes, also where the program may not write.
    pub fn poke(&self, address: u64, word: u64) -> io::Result<()> {
        ptrace(libc::PTRACE_POKEDATA, self.pid, address, word)
    }

    /// Lets it run on, still traced; `signal` is delivered if it is not 0.
    pub fn resume(self, signal: i32) -> io::Result<Running> {
        ptrace(libc::PTRACE_CONT, self.pid, 0, signal as u64)?;
        Ok(Running { pid: self.pid })
    }

    /// Leaves it stopped by job control, and waits for what comes next.
    pub fn listen(self) -> io::Result<Running> {
        ptrace(libc::PTRACE_LISTEN, self.pid, 0, 0)?;
        Ok(Running { pid: self.pid })
    }

    /// Lets it go for good.
    pub fn detach(self) -> io::Result<()> {
        ptrace(libc::PTRACE_DETACH, self.pid, 0, 0)
    }
}

fn ptrace(request: libc::c_uint, pid: i32, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: requests used here write into this process only what `data` points
    // to, for which `registers` provides the room.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
