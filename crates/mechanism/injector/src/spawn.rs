//! The start of the recorded program.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::birth;
use crate::error::InjectError;
use crate::files::KeepFile;
use crate::lane::Segment;
use crate::limits::FileSizeLimit;
use crate::process::{ExitReport, kill_process};
use crate::program::Program;
use crate::session_memory::SessionMemory;
use crate::signals::{ForwardSignals, SignalState};
use crate::tracee::{Next, Running};

/// A program that has begun to run, with the runtime in it.
#[derive(Debug, Clone, Copy)]
pub struct Spawned {
    pub pid: i32,
}

/// Everything that the child needs, made before the fork: it may not allocate.
struct ChildPlan<'a> {
    path: &'a CStr,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    signals: SignalState,
    file_size_limit: FileSizeLimit,
    memfd: i32,
    control_fd: i32,
    go: i32,
    /// The parent's end, of which the child must not keep a copy.
    go_write: i32,
    errors: i32,
}

/// Starts `program` in the first segment's lane and lets it go once the runtime
/// is in it. This process must have no other thread that holds locks of libc's.
///
/// # Errors
/// [`InjectError::Exec`] if the program cannot be executed, others if the
/// machine lacks something.
pub fn spawn(
    memory: &SessionMemory,
    program: &Program,
    signals: &ForwardSignals,
    keeper: &dyn KeepFile,
) -> Result<Spawned, InjectError> {
    let control_fd = choose_control_fd();
    memory.control_fd().store(control_fd, Ordering::Relaxed);
    let (go_read, go_write) = pipe().map_err(InjectError::Fork)?;
    let (errors_read, errors_write) = pipe().map_err(InjectError::Fork)?;
    let environment: Vec<CString> = environment();
    let plan = ChildPlan {
        path: &program.path,
        argv: pointers(&program.arguments),
        envp: pointers(&environment),
        signals: signals.state_for_child(),
        file_size_limit: memory.file_size_limit(),
        memfd: memory.memfd().as_raw_fd(),
        control_fd,
        go: go_read.as_raw_fd(),
        go_write: go_write.as_raw_fd(),
        errors: errors_write.as_raw_fd(),
    };
    // SAFETY: the child calls async-signal-safe functions only and never returns.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            run_child(&plan);
        }
        pid
    };
    if pid < 0 {
        return Err(InjectError::Fork(io::Error::last_os_error()));
    }
    drop((go_read, errors_write));
    let result = accompany(memory, pid, go_write, &errors_read, program, keeper);
    if result.is_err() {
        kill_process(pid, libc::SIGKILL);
        // SAFETY: reaps the child that was just killed, if nobody did.
        unsafe {
            libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL);
        }
    }
    result.map(|()| Spawned { pid })
}

/// Executes the program in this very process, without a recorder. Returns only why it cannot.
pub fn become_program(program: &Program) -> InjectError {
    let (argv, environment) = (pointers(&program.arguments), environment());
    let envp = pointers(&environment);
    // SAFETY: the mask is read into a set, for which zero is valid; execve gets lists of C strings
    // that end with null pointers.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        SignalState::for_child(mask).apply();
        libc::execve(program.path.as_ptr(), argv.as_ptr(), envp.as_ptr());
    }
    InjectError::Exec { path: program.file.display().to_string(), source: io::Error::last_os_error() }
}

/// The parent's side, from the fork to the end of tracing.
fn accompany(
    memory: &SessionMemory,
    pid: i32,
    go: OwnedFd,
    errors: &OwnedFd,
    program: &Program,
    keeper: &dyn KeepFile,
) -> Result<(), InjectError> {
    memory.lane(Segment::FIRST).pid().store(pid, Ordering::Release);
    let mut running = Running::seize(pid).map_err(|source| InjectError::Attach { pid, source })?;
    File::from(go).write_all(&[1]).map_err(InjectError::prepare(pid, "telling it to begin"))?;
    loop {
        let next = running.wait().map_err(InjectError::prepare(pid, "waiting for its execve"))?;
        running = match next {
            Next::Exec(stopped) => {
                birth::prepare(memory, Segment::FIRST, &stopped, keeper)?;
                return stopped.detach().map_err(InjectError::prepare(pid, "letting it go"));
            }
            Next::Signal(stopped, signal) => {
                stopped.resume(signal).map_err(InjectError::prepare(pid, "passing a signal on"))?
            }
            Next::GroupStop(stopped) => {
                stopped.listen().map_err(InjectError::prepare(pid, "leaving it stopped"))?
            }
            Next::Gone(_, status) => {
                let path = program.file.display().to_string();
                return Err(match read_errno(errors) {
                    Some(errno) => InjectError::Exec { path, source: io::Error::from_raw_os_error(errno) },
                    None => InjectError::Died { pid, how: ExitReport::of(status).to_string() },
                });
            }
        };
    }
}

/// The child's side: nothing here may allocate, lock or panic.
fn run_child(plan: &ChildPlan) -> ! {
    // SAFETY: system calls on descriptors and C strings that the parent made; the
    // process has one thread and memory of its own.
    unsafe {
        plan.signals.apply();
        plan.file_size_limit.restore();
        libc::close(plan.go_write);
        let mut byte = 0u8;
        // The parent writes when it traces this process. An end without that means
        // that it cannot, or died: the program must not run unrecorded.
        if libc::read(plan.go, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(127);
        }
        if libc::dup2(plan.memfd, plan.control_fd) == plan.control_fd {
            libc::execve(plan.path.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
        }
        let errno = *libc::__errno_location();
        libc::write(plan.errors, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}

/// The highest number that no program is likely to use: shells take 10 to 255,
/// and programs close all from 3 on by close_range, which the runtime guards.
fn choose_control_fd() -> i32 {
    // SAFETY: the call fills the limit; zero is valid for it.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    };
    let highest = limit.clamp(4, 1024) as i32;
    let wanted = if highest > 48 { highest - 24 } else { highest - 1 };
    // A number that is free, so that nothing inherited is lost.
    (3..=wanted)
        .rev()
        .find(|fd| {
            // SAFETY: asks for the flags of a number; nothing is changed.
            unsafe { libc::fcntl(*fd, libc::F_GETFD) == -1 }
        })
        .unwrap_or(wanted)
}

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0i32; 2];
    // SAFETY: the array has room for both ends, which are owned at once.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

fn read_errno(errors: &OwnedFd) -> Option<i32> {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer has the length that is passed.
    let read = unsafe { libc::read(errors.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    (read == 4).then(|| i32::from_ne_bytes(bytes))
}

/// The environment as it is, malformed entries included.
fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is a list of C strings that ends with a null pointer; this
    // process changes it nowhere.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}
