//! The start of a program that is tried.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::{StdinKind, TryError, TryInput, TryProgram, recorded_answers, while_doing};
use crate::signals::SignalState;

/// The files that a tried program has as its standard ones.
pub(super) struct Streams {
    pub stdin: Option<File>,
    /// The other end, where standard input is a pipe.
    pub stdin_writer: Option<File>,
    pub out: File,
    pub err: File,
}

/// An unnamed file in memory.
pub(super) fn memory_file(name: &'static std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name is a constant; the descriptor is owned at once.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
    }
}

/// The same file, opened anew, where all writes go to its end.
fn appending(file: &File) -> io::Result<File> {
    File::options().append(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl Streams {
    /// `input`: what changes; standard input is then empty.
    pub fn new(program: &TryProgram, input: Option<&TryInput>) -> io::Result<Streams> {
        let content: &[u8] = if input == Some(&TryInput::Stdin) { &[] } else { &program.stdin };
        let (mut stdin, mut stdin_writer) = (None, None);
        match program.stdin_kind {
            StdinKind::Nothing => {}
            StdinKind::File => {
                let file = memory_file(c"stdin")?;
                (&file).write_all(content)?;
                // Opened anew: at its beginning, and for reading only.
                stdin = Some(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?);
                stdin_writer = Some(file);
            }
            StdinKind::Pipe => {
                let (reader, writer) = crate::spawn::pipe()?;
                let writer = File::from(writer);
                if content.len() > PIPE_BYTES {
                    // SAFETY: sets the size of a pipe of ours.
                    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES_MAX) };
                }
                stdin = Some(File::from(reader));
                stdin_writer = Some(writer);
            }
        }
        Ok(Streams { stdin, stdin_writer, out: memory_file(c"stdout")?, err: memory_file(c"stderr")? })
    }

    /// Gives a pipe its content, from a thread of its own if it holds less.
    pub fn fill_pipe(&mut self, program: &TryProgram, input: Option<&TryInput>) {
        if program.stdin_kind != StdinKind::Pipe || input == Some(&TryInput::Stdin) {
            return;
        }
        let Some(mut writer) = self.stdin_writer.take() else { return };
        if program.stdin.len() <= PIPE_BYTES {
            // Whoever does not read it loses nothing.
            let _ = writer.write_all(&program.stdin);
            return;
        }
        let content = program.stdin.clone();
        crate::limits::start_thread("input", move || drop(writer.write_all(&content)));
    }
}

/// What a pipe holds by itself, and what it can be made to hold by everybody.
const PIPE_BYTES: usize = 1 << 16;
const PIPE_BYTES_MAX: i32 = 1 << 20;

/// Starts a program that is traced by the calling thread and stands at its first instruction.
pub(super) fn start_traced(program: &TryProgram, streams: &Streams) -> Result<i32, TryError> {
    let mut words = program.command.iter();
    let name = words.next().cloned().unwrap_or_default();
    let mut command = Command::new(&name);
    command.args(words).current_dir(&program.directory).env_clear();
    for entry in &program.environment {
        let bytes = entry.as_bytes();
        if let Some(at) = bytes.iter().skip(1).position(|byte| *byte == b'=').map(|at| at + 1) {
            command.env(
                std::ffi::OsStr::from_bytes(&bytes[..at]),
                std::ffi::OsStr::from_bytes(&bytes[at + 1..]),
            );
        }
    }
    command.stdin(match &streams.stdin {
        Some(file) => Stdio::from(file.try_clone().map_err(while_doing("open standard input again"))?),
        None => Stdio::null(),
    });
    let output = |file: &File| appending(file).map(Stdio::from).map_err(while_doing("open an output"));
    command.stdout(output(&streams.out)?).stderr(output(&streams.err)?);
    // SAFETY: zero is a valid set; the call writes it.
    let mask = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        mask
    };
    let signals = SignalState::for_child(mask);
    let filter = (!program.answers.is_empty()).then(recorded_answers::filter);
    let prepare = move || {
        signals.apply();
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: system calls that concern the child alone, before its execve.
        unsafe {
            libc::setpgid(0, 0);
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        filter.as_deref().map_or(Ok(()), recorded_answers::install)
    };
    // SAFETY: what runs between fork and execve makes system calls only.
    unsafe { command.pre_exec(prepare) };
    let failed = |source| TryError::Start { program: name.to_string_lossy().into_owned(), source };
    let child = command.spawn().map_err(failed)?;
    Ok(child.id() as i32)
}

/// A pidfd or any other descriptor, by a path that another process of the same user can open.
pub(super) fn path_of(file: &File) -> Vec<u8> {
    format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd()).into_bytes()
}
