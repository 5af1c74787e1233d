//! ptrace, with its states as types.
//!
//! A tracee that runs can only be waited for, one that stands can only be looked
//! at and let go. Its death at any moment is a normal result. All calls for one
//! tracee come from the thread that seized it, as the kernel demands.

use std::io;
use std::time::{Duration, Instant};

/// The calling thread's only tracee, which runs.
#[derive(Debug)]
pub(crate) struct Running(());

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
        Ok(Running(()))
    }

    /// Of a tracee that stood when something found it gone (ESRCH): it was killed, which ends
    /// every stop. Nobody sees its end before its tracer did (ptrace(2)).
    pub fn was_killed() -> Running {
        Running(())
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
        Ok(Running(()))
    }

    /// Leaves it stopped by job control, and waits for what comes next.
    pub fn listen(self) -> io::Result<Running> {
        ptrace(libc::PTRACE_LISTEN, self.pid, 0, 0)?;
        Ok(Running(()))
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

/// A thread of a process that ran before anybody traced it. It stands.
#[derive(Debug)]
pub(crate) struct Held {
    stopped: Stopped,
    /// As it was found.
    pub found: libc::user_regs_struct,
    pub mask: u64,
}

/// Why a thread was not brought to a stand.
#[derive(Debug)]
pub(crate) enum NotHeld {
    /// It ended meanwhile.
    Gone,
    Refused(io::Error),
    /// It is stopped by job control.
    JobStopped,
    /// It did not come out of the kernel.
    Stuck,
}

/// How long a thread may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

impl Held {
    /// Seizes a thread and stops it, wherever it is. A signal that comes meanwhile is
    /// delivered.
    pub fn stop(tid: i32) -> Result<Held, NotHeld> {
        let gone = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => NotHeld::Gone,
            _ => NotHeld::Refused(error),
        };
        ptrace(libc::PTRACE_SEIZE, tid, 0, 0).map_err(gone)?;
        let stopped = Stopped { pid: tid };
        ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0).map_err(gone)?;
        let deadline = Instant::now() + STOP_PATIENCE;
        loop {
            let Some(status) = wait_until(tid, deadline).map_err(gone)? else { return Err(NotHeld::Stuck) };
            if !libc::WIFSTOPPED(status) {
                return Err(NotHeld::Gone);
            }
            let signal = libc::WSTOPSIG(status);
            if status >> 16 == libc::PTRACE_EVENT_STOP {
                if signal != libc::SIGTRAP {
                    // Best effort: the thread stays as stopped as it was.
                    let _ = ptrace(libc::PTRACE_DETACH, tid, 0, 0);
                    return Err(NotHeld::JobStopped);
                }
                break;
            }
            ptrace(libc::PTRACE_CONT, tid, 0, signal as u64).map_err(gone)?;
        }
        let found = stopped.registers().map_err(gone)?;
        let mut mask = 0u64;
        ptrace(PTRACE_GETSIGMASK, tid, 8, (&raw mut mask) as u64).map_err(gone)?;
        Ok(Held { stopped, found, mask })
    }

    pub fn tid(&self) -> i32 {
        self.stopped.pid
    }

    pub fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        self.stopped.set_registers(registers)
    }

    pub fn set_mask(&self, mask: u64) -> io::Result<()> {
        ptrace(PTRACE_SETSIGMASK, self.tid(), 8, (&raw const mask) as u64)
    }

    /// See [`rseq_of`]; zeros also where the kernel does not tell.
    pub fn rseq(&self) -> [u64; 3] {
        rseq_of(self.tid()).unwrap_or([0; 3])
    }

    /// True if it has its own system calls sent to itself (from Linux 6.4 on the kernel
    /// tells).
    pub fn dispatches_calls(&self) -> bool {
        let mut told = [0u64; 4];
        let place = told.as_mut_ptr() as u64;
        ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, self.tid(), 32, place).is_ok() && told[0] != 0
    }

    /// Head and length of its list of robust futexes.
    pub fn robust_list(&self) -> [u64; 2] {
        let mut list = [0u64; 2];
        // SAFETY: the call writes both words.
        let result = unsafe {
            libc::syscall(libc::SYS_get_robust_list, self.tid(), &raw mut list[0], &raw mut list[1])
        };
        if result == 0 { list } else { [0; 2] }
    }

    /// Executes one instruction and stands again.
    pub fn step(&self) -> io::Result<libc::user_regs_struct> {
        let before = self.stopped.registers()?;
        loop {
            ptrace(libc::PTRACE_SINGLESTEP, self.tid(), 0, 0)?;
            let deadline = Instant::now() + STOP_PATIENCE;
            let status = wait_until(self.tid(), deadline)?.ok_or(io::ErrorKind::TimedOut)?;
            if !libc::WIFSTOPPED(status) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            let now = self.stopped.registers()?;
            // Another stop may come first; the instruction is not executed then.
            if status >> 16 == 0 && libc::WSTOPSIG(status) == libc::SIGTRAP || now.rip != before.rip {
                return Ok(now);
            }
        }
    }

    /// Lets it go with these registers and this mask.
    pub fn release(self, registers: &libc::user_regs_struct, mask: u64) -> io::Result<()> {
        self.stopped.set_registers(registers)?;
        self.set_mask(mask)?;
        self.stopped.detach()
    }
}

const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;

/// The area for restartable sequences of a thread that stands: address, length in bytes, signature; zeros: none.
///
/// # Errors
/// Of the kernel, which does not tell before Linux 5.13.
pub(crate) fn rseq_of(tid: i32) -> io::Result<[u64; 3]> {
    let mut told = RseqConfiguration::default();
    let place = (&raw mut told) as u64;
    ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, size_of::<RseqConfiguration>() as u64, place)?;
    Ok([told.address, u64::from(told.bytes), u64::from(told.signature)])
}

/// The kernel's `struct ptrace_rseq_configuration`.
#[repr(C)]
#[derive(Default)]
struct RseqConfiguration {
    address: u64,
    bytes: u32,
    signature: u32,
    flags: u32,
    _pad: u32,
}

/// Waits for a tracee to stop or to end; `None`: it did neither in time.
fn wait_until(tid: i32, deadline: Instant) -> io::Result<Option<i32>> {
    loop {
        let mut status = 0;
        // SAFETY: the status is written within the call only.
        let result = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match result {
            0 if Instant::now() >= deadline => return Ok(None),
            0 => std::thread::sleep(LOOK_EVERY),
            result if result > 0 => return Ok(Some(status)),
            _ => return Err(io::Error::last_os_error()),
        }
    }
}
