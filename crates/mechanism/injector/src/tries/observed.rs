//! Tracing of programs that are tried: all their processes, for the calling thread.

use std::collections::HashMap;
use std::io;

use super::recorded_answers::Answering;

/// A process that stands because a signal is about to reach it that may be its end.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    pub pid: i32,
    pub signal: i32,
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
}

/// Who looks at processes that stand so.
pub type Watcher<'a> = dyn FnMut(&Stopping) + 'a;

/// Signals that tell of a failure.
const FAILURES: [i32; 7] =
    [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// What is traced, beside signals.
const OPTIONS: i32 = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;

/// A request to ptrace that gives nothing back but through `data`.
pub(super) fn ptrace(request: libc::c_uint, pid: i32, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: requests used here write into this process only what `data` points to, and callers
    // point to structures of the size that the request has.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn registers(pid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: zero is valid for registers, and the kernel writes as many bytes as they have.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, pid, 0, (&raw mut registers) as u64)?;
    Ok(registers)
}

pub(super) fn set_registers(pid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, pid, 0, std::ptr::from_ref(registers) as u64)
}

/// Who was killed meanwhile needs nothing any more: its end is told next.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}

/// A call that a process is about to make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entering {
    pub pid: i32,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// What happened among the processes.
#[derive(Debug)]
pub(super) enum Seen {
    Ended {
        pid: i32,
        status: i32,
    },
    Entering(Entering),
    /// Something that needs no attention; the process goes on.
    Passed,
}

/// The processes of one program.
pub(super) struct Tracer<'a> {
    /// Stops at calls, or goes through them.
    pub at_calls: bool,
    /// Of each thread, where libc has its id.
    known: HashMap<i32, u64>,
    /// Threads whose making has been told, and which have not stopped yet, with their makers' words.
    announced: HashMap<i32, u64>,
    watcher: &'a mut Watcher<'a>,
    answering: Answering,
}

/// `struct ptrace_syscall_info`, of a stop before a call.
#[repr(C)]
#[derive(Default)]
struct CallInfo {
    kind: u8,
    _pad: [u8; 3],
    _arch: u32,
    _instruction: u64,
    _stack: u64,
    number: u64,
    arguments: [u64; 6],
}

const PTRACE_GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const INFO_ENTRY: u8 = 1;

impl<'a> Tracer<'a> {
    /// Begins with a process that stands at its first instruction.
    pub fn begin(
        pid: i32,
        at_calls: bool,
        watcher: &'a mut Watcher<'a>,
        answering: Answering,
    ) -> io::Result<Tracer<'a>> {
        let status = wait(pid)?.1;
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::other("it ended before its first instruction"));
        }
        ptrace(libc::PTRACE_SETOPTIONS, pid, 0, OPTIONS as u64)?;
        answering.image(pid)?;
        let tracer = Tracer {
            at_calls,
            known: HashMap::from([(pid, 0)]),
            announced: HashMap::new(),
            watcher,
            answering,
        };
        tracer.go_on(pid, 0)?;
        Ok(tracer)
    }

    /// Where libc keeps the id of a thread, as far as calls have told.
    pub fn id_place(&self, pid: i32) -> u64 {
        self.known.get(&pid).copied().unwrap_or(0)
    }

    pub fn go_on(&self, pid: i32, signal: i32) -> io::Result<()> {
        let request = if self.at_calls { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
        unless_gone(ptrace(request, pid, 0, signal as u64))
    }

    /// Waits for the next thing that happens. Who is about to make a call stands then.
    pub fn next(&mut self) -> io::Result<Seen> {
        let (pid, status) = wait(-1)?;
        if !libc::WIFSTOPPED(status) {
            self.known.remove(&pid);
            return Ok(Seen::Ended { pid, status });
        }
        let signal = libc::WSTOPSIG(status);
        if signal == libc::SIGTRAP | 0x80 {
            return self.call(pid);
        }
        match status >> 16 {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let mut child = 0u64;
                ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut child) as u64)?;
                let place = self.id_place(pid);
                match self.known.get_mut(&(child as i32)) {
                    Some(known) => *known = place,
                    None => drop(self.announced.insert(child as i32, place)),
                }
                self.go_on(pid, 0)?;
            }
            libc::PTRACE_EVENT_SECCOMP => {
                unless_gone(self.answering.call(pid))?;
                self.go_on(pid, 0)?;
            }
            libc::PTRACE_EVENT_EXEC => {
                unless_gone(self.answering.image(pid))?;
                self.go_on(pid, 0)?;
            }
            0 if !self.known.contains_key(&pid) => {
                let place = self.announced.remove(&pid).unwrap_or(0);
                self.known.insert(pid, place);
                self.go_on(pid, 0)?;
            }
            0 => self.signal(pid, signal)?,
            _ => self.go_on(pid, 0)?,
        }
        Ok(Seen::Passed)
    }

    fn signal(&mut self, pid: i32, signal: i32) -> io::Result<()> {
        if FAILURES.contains(&signal)
            && let Ok(registers) = registers(pid)
        {
            (self.watcher)(&Stopping {
                pid,
                signal,
                instruction: registers.rip,
                stack: registers.rsp,
                frame: registers.rbp,
            });
        }
        self.go_on(pid, signal)
    }

    fn call(&mut self, pid: i32) -> io::Result<Seen> {
        let mut info = CallInfo::default();
        let place = (&raw mut info) as u64;
        if ptrace(PTRACE_GET_SYSCALL_INFO, pid, size_of::<CallInfo>() as u64, place).is_err() {
            return Ok(Seen::Passed);
        }
        if info.kind != INFO_ENTRY {
            self.go_on(pid, 0)?;
            return Ok(Seen::Passed);
        }
        let number = info.number as i64;
        match number {
            libc::SYS_set_tid_address => drop(self.known.insert(pid, info.arguments[0])),
            libc::SYS_execve | libc::SYS_execveat => drop(self.known.insert(pid, 0)),
            _ => {}
        }
        Ok(Seen::Entering(Entering { pid, number, arguments: info.arguments }))
    }
}

/// Waits for a tracee of the calling thread.
pub(super) fn wait(pid: i32) -> io::Result<(i32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: the status is written within the call only.
        let result = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if result > 0 {
            return Ok((result, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Follows a try that runs by itself to its end.
pub(super) fn follow(pid: i32, watcher: &mut Watcher<'_>, let_go: impl FnOnce()) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_EXITKILL as u64)?;
    let_go();
    loop {
        let status = wait(pid)?.1;
        if !libc::WIFSTOPPED(status) {
            return Ok(());
        }
        let mut signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
        if FAILURES.contains(&signal)
            && let Ok(registers) = registers(pid)
        {
            let (instruction, stack, frame) = (registers.rip, registers.rsp, registers.rbp);
            watcher(&Stopping { pid, signal, instruction, stack, frame });
        }
        // Job control has nothing to say here.
        if signal == libc::SIGSTOP || signal == libc::SIGTSTP {
            signal = 0;
        }
        match ptrace(libc::PTRACE_CONT, pid, 0, signal as u64) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
            _ => {}
        }
    }
}
