//! A program that stands before its input and forks a try for each content of it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::begin::{memory_file, path_of};
use super::observed::{Watcher, follow, ptrace, registers, set_registers, wait};
use super::server_code::{CODE_BYTES, HOLD, PATHS_AT, PIPE, REWIND, STOP_AT_MATCH, TRIES_MAX, code, place};
use super::traced::{AtInput, content_of, kill_all, run_to_input};
use super::{Readiness, StdinKind, TryEnd, TryError, TryInput, TryLimits, TryProgram, server_code};
use super::{resident, while_doing};
use crate::process::{ExitReport, kill_process};

/// Bytes of the shared memory, of which a file takes only what is used.
const SHARED_BYTES: usize = place::ALL_BYTES;
/// Descriptors of ours in the program are at least this.
const DESCRIPTORS_FROM: [u64; 2] = [900, 200];

/// The program.
pub struct TryServer {
    pid: i32,
    root: i32,
    shared: Shared,
    out: File,
    err: File,
    /// Kept open for the program: the end of a pipe that is never written to, say.
    _kept: Vec<File>,
    limits: TryLimits,
    orders: u32,
    flags: u32,
}

/// The memory that is shared with the program.
pub(super) struct Shared {
    base: *mut u8,
}

// SAFETY: the memory is reached by atomics, and by copies while nobody else writes there.
unsafe impl Send for Shared {}

impl Shared {
    fn map(file: &File) -> io::Result<Shared> {
        file.set_len(SHARED_BYTES as u64)?;
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping of a file that has the length.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), SHARED_BYTES, rights, kind, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Shared { base: base.cast() })
        }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= SHARED_BYTES, "a place in the shared memory");
        // SAFETY: aligned and inside of the mapping, which lives as long as `self`; everybody uses
        // atomics, or instructions that are.
        unsafe { &*self.base.add(at).cast::<AtomicU32>() }
    }

    pub(super) fn set(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= SHARED_BYTES && bytes.len() <= SHARED_BYTES - at, "a place in the shared memory");
        // SAFETY: inside of the mapping; the program reads it after the next order only.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
    }

    /// Sleeps while the word has this value, for no longer than the limit.
    fn sleep(&self, at: usize, value: u32, limit: Duration) {
        let limit =
            libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let word = self.word(at).as_ptr();
        // SAFETY: the word and the limit live for the whole call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &raw const limit) };
    }

    fn wake(&self, at: usize) {
        // SAFETY: the word lives for the whole call.
        unsafe { libc::syscall(libc::SYS_futex, self.word(at).as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), SHARED_BYTES) };
    }
}

/// Makes calls in a process that stands behind one that it did not make.
pub(super) struct Caller {
    pub(super) pid: i32,
    at: libc::user_regs_struct,
}

impl Caller {
    fn ask(&self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        let mut registers_now = self.at;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        (registers_now.rdi, registers_now.rsi, registers_now.rdx) = (rdi, rsi, rdx);
        (registers_now.r10, registers_now.r8, registers_now.r9) = (r10, r8, r9);
        registers_now.rax = number as u64;
        registers_now.orig_rax = u64::MAX;
        registers_now.rip = self.at.rip - 2;
        set_registers(self.pid, &registers_now)?;
        loop {
            ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0)?;
            let status = wait(self.pid)?.1;
            if !libc::WIFSTOPPED(status) {
                return Err(io::Error::other("the program was killed"));
            }
            let now = registers(self.pid)?;
            if now.rip != registers_now.rip {
                let result = now.rax as i64;
                return match result {
                    -4095..=-1 => Err(io::Error::from_raw_os_error(-result as i32)),
                    _ => Ok(result as u64),
                };
            }
        }
    }

    /// Opens one of our files there, under a high number.
    fn open(&self, path: &[u8], scratch: u64, flags: i32) -> io::Result<u64> {
        let memory = File::options().write(true).open(format!("/proc/{}/mem", self.pid))?;
        memory.write_all_at(path, scratch)?;
        let open = [libc::AT_FDCWD as u64, scratch, (flags | libc::O_CLOEXEC) as u64, 0, 0, 0];
        let low = self.ask(libc::SYS_openat, open)?;
        let mut high = Err(io::ErrorKind::NotFound.into());
        for from in DESCRIPTORS_FROM {
            high = self.ask(libc::SYS_fcntl, [low, libc::F_DUPFD_CLOEXEC as u64, from, 0, 0, 0]);
            if high.is_ok() {
                break;
            }
        }
        self.ask(libc::SYS_close, [low, 0, 0, 0, 0, 0])?;
        high
    }
}

impl TryServer {
    /// Runs the program up to its input, and makes it a server.
    ///
    /// # Errors
    /// [`TryError::NeverRead`] and [`TryError::Threads`] where this cannot be; others if the machine lacks
    /// something.
    pub fn start(
        program: &TryProgram,
        input: &TryInput,
        readiness: Readiness,
        limits: &TryLimits,
    ) -> Result<TryServer, TryError> {
        let stands = run_to_input(program, input, readiness, limits)?;
        let root = stands.root;
        let made = TryServer::convert(program, input, stands, limits);
        if made.is_err() {
            kill_all(root);
        }
        made
    }

    fn convert(
        program: &TryProgram,
        input: &TryInput,
        stands: AtInput,
        limits: &TryLimits,
    ) -> Result<TryServer, TryError> {
        let pid = stands.entering.pid;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(while_doing("count threads"))?;
        if tasks.count() != 1 {
            return Err(TryError::Threads);
        }
        let inject = while_doing("put the tries' code into the program");
        let file = memory_file(c"tries").map_err(while_doing("make shared memory"))?;
        let mut shared = Shared::map(&file).map_err(while_doing("map shared memory"))?;
        let flags = match (input, program.stdin_kind) {
            (TryInput::Stdin, StdinKind::Pipe) => PIPE,
            (TryInput::Stdin, _) => REWIND,
            (TryInput::File(_), _) => 0,
        };
        let entered = (|| {
            let caller = skip_call(pid)?;
            let input_path = match input {
                TryInput::File(path) => {
                    use std::os::unix::ffi::OsStrExt;
                    [path.canonicalize()?.as_os_str().as_bytes(), &[0]].concat()
                }
                TryInput::Stdin => {
                    path_of(stands.streams.stdin_writer.as_ref().unwrap_or(&stands.streams.out))
                }
            };
            let is_pipe = flags & PIPE != 0;
            let files = [
                Some(path_of(&file)),
                (!is_pipe).then_some(input_path),
                Some(path_of(&stands.streams.out)),
                Some(path_of(&stands.streams.err)),
            ];
            inject_code(&caller, &mut shared, files, stands.id_place)
        })();
        entered.map_err(inject)?;
        shared.set(place::STDIN_FD, stands.entering.arguments[0] as u32);
        if stands.entering.number == libc::SYS_mmap {
            shared.set(place::STDIN_FD, stands.entering.arguments[4] as u32);
        }
        let streams = stands.streams;
        let kept = [streams.stdin, streams.stdin_writer].into_iter().flatten().collect();
        Ok(TryServer {
            pid,
            root: stands.root,
            shared,
            out: streams.out,
            err: streams.err,
            _kept: kept,
            limits: *limits,
            orders: 0,
            flags,
        })
    }

    /// True if the tries are copies of the program's first process.
    pub fn is_first(&self) -> bool {
        self.pid == self.root
    }

    /// Tries inputs one after the other, and stops behind the first that ends as expected. Gives
    /// the ends of those that ran.
    ///
    /// # Errors
    /// If the program is gone.
    pub fn run(&mut self, inputs: &[&[u8]], expected: Option<ExitReport>) -> Result<Vec<TryEnd>, TryError> {
        let mut ends = Vec::new();
        let mut left = inputs;
        while !left.is_empty() {
            let mut bytes = place::INPUTS;
            let fit = left.iter().take(TRIES_MAX).take_while(|input| {
                bytes += input.len();
                bytes <= place::INPUTS_END
            });
            let count = fit.count();
            if count == 0 {
                return Err(while_doing("hold the input in memory")(io::ErrorKind::OutOfMemory.into()));
            }
            let (now, later) = left.split_at(count);
            let flags = if expected.is_some() { STOP_AT_MATCH } else { 0 };
            self.order(now, expected, flags);
            ends.extend(self.wait_for_order(count)?);
            if ends.len() < inputs.len() - later.len() {
                break;
            }
            left = later;
        }
        Ok(ends)
    }

    /// One try that is traced.
    ///
    /// # Errors
    /// If the program is gone, or cannot be traced.
    pub fn observe(&mut self, input: &[u8], watcher: &mut Watcher<'_>) -> Result<TryEnd, TryError> {
        self.shared.set(place::ARRIVED, 0);
        self.shared.set(place::HELD, 1);
        self.order(&[input], None, HOLD);
        let deadline = Instant::now() + self.limits.time;
        while self.shared.word(place::ARRIVED).load(Ordering::Acquire) == 0 {
            self.check_alive()?;
            if Instant::now() >= deadline {
                return Err(while_doing("begin a try")(io::ErrorKind::TimedOut.into()));
            }
            self.shared.sleep(place::ARRIVED, 0, Duration::from_millis(100));
        }
        let pid = self.shared.word(place::PID).load(Ordering::Relaxed) as i32;
        let shared = &self.shared;
        let limit = self.limits.time;
        let has_expired = std::thread::scope(|scope| {
            let (done, over) = std::sync::mpsc::channel::<()>();
            let timer = scope.spawn(move || {
                let expires = over.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
                if expires {
                    kill_process(pid, libc::SIGKILL);
                }
                expires
            });
            let followed = follow(pid, watcher, || {
                shared.set(place::HELD, 0);
                shared.wake(place::HELD);
            });
            drop(done);
            followed.map(|_| timer.join().is_ok_and(|expires| expires))
        })
        .map_err(while_doing("follow a try"))?;
        let ends = self.wait_for_order(1)?;
        if has_expired {
            return Ok(TryEnd::Expired);
        }
        ends.first().copied().ok_or_else(|| while_doing("make a try")(io::ErrorKind::NotFound.into()))
    }

    /// True if a copy stays for many tries, as long as none needs more than it can do.
    pub fn has_copy_that_stays(&self) -> bool {
        self.shared.word(place::MAY_STAY).load(Ordering::Relaxed) != 0
    }

    /// The number of the call for which it left, if it was one.
    pub fn left_for_call(&self) -> Option<u32> {
        let call = self.shared.word(place::WHY).load(Ordering::Relaxed);
        (!self.has_copy_that_stays() && call != server_code::NO_CALL).then_some(call)
    }

    /// What the last try wrote to standard output and error.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn outputs(&self) -> Result<(Vec<u8>, Vec<u8>), TryError> {
        let read = |file| content_of(file).map_err(while_doing("read what a try wrote"));
        Ok((read(&self.out)?, read(&self.err)?))
    }

    fn order(&mut self, inputs: &[&[u8]], expected: Option<ExitReport>, flags: u32) {
        let mut at = place::INPUTS;
        for (index, input) in inputs.iter().enumerate() {
            self.shared.write(at, input);
            let row = place::TRIES + 16 * index;
            self.shared.set(row, at as u32);
            self.shared.set(row + 4, input.len() as u32);
            self.shared.set(row + 8, 0);
            at += input.len();
        }
        self.shared.set(place::COUNT, inputs.len() as u32);
        self.shared.set(place::RAN, 0);
        self.shared.set(place::PID, 0);
        self.shared.set(place::EXPECTED, expected.map_or(u32::MAX, status_of));
        self.shared.set(place::FLAGS, self.flags | flags);
        self.orders = self.orders.wrapping_add(1);
        self.shared.word(place::GO).store(self.orders, Ordering::Release);
        self.shared.wake(place::GO);
    }

    fn wait_for_order(&mut self, count: usize) -> Result<Vec<TryEnd>, TryError> {
        let mut expired = std::collections::HashSet::new();
        let mut looked = (0, Instant::now());
        loop {
            let done = self.shared.word(place::DONE).load(Ordering::Acquire);
            if done == self.orders {
                break;
            }
            self.shared.sleep(place::DONE, done, Duration::from_millis(20).min(self.limits.time));
            let ran = self.shared.word(place::RAN).load(Ordering::Relaxed);
            if ran != looked.0 {
                looked = (ran, Instant::now());
            } else if looked.1.elapsed() > self.limits.time {
                expired.insert(ran as usize);
                let pid = self.shared.word(place::PID).load(Ordering::Relaxed) as i32;
                if pid > 0 {
                    kill_process(pid, libc::SIGKILL);
                }
            }
            self.check_alive()?;
        }
        let ran = (self.shared.word(place::RAN).load(Ordering::Relaxed) as usize).min(count);
        let end = |index: usize| {
            let status = self.shared.word(place::TRIES + 16 * index + 8).load(Ordering::Relaxed);
            match expired.contains(&index) {
                true => TryEnd::Expired,
                false => TryEnd::Ended(ExitReport::of(status as i32)),
            }
        };
        Ok((0..ran).map(end).collect())
    }

    fn check_alive(&self) -> Result<(), TryError> {
        if crate::process_facts::has_ended(self.pid) {
            return Err(while_doing("reach the program that makes the tries")(
                io::ErrorKind::NotFound.into(),
            ));
        }
        Ok(())
    }
}

impl Drop for TryServer {
    fn drop(&mut self) {
        kill_all(self.root);
        kill_process(self.pid, libc::SIGKILL);
        let mut status = 0;
        // SAFETY: takes the end of a child that was just killed, if it is ours.
        unsafe { libc::waitpid(self.root, &raw mut status, libc::__WALL) };
    }
}

/// The wait status of an end, without the bit of a core file.
fn status_of(end: ExitReport) -> u32 {
    match end {
        ExitReport::Exited(code) => (code as u32 & 0xff) << 8,
        ExitReport::Killed(signal) => signal as u32 & 0x7f,
    }
}

/// Lets a process that is about to make a call stand behind it, without making it.
fn skip_call(pid: i32) -> io::Result<Caller> {
    let at = registers(pid)?;
    let mut skipped = at;
    skipped.orig_rax = u64::MAX;
    set_registers(pid, &skipped)?;
    ptrace(libc::PTRACE_SYSCALL, pid, 0, 0)?;
    if !libc::WIFSTOPPED(wait(pid)?.1) {
        return Err(io::Error::other("the program was killed"));
    }
    Ok(Caller { pid, at })
}

/// Maps code and shared memory in the program, and lets it go there. The files: shared memory, input,
/// both outputs.
fn inject_code(
    caller: &Caller,
    shared: &mut Shared,
    files: [Option<Vec<u8>>; 4],
    id_place: u64,
) -> io::Result<()> {
    let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let code_at = caller.ask(libc::SYS_mmap, [0, CODE_BYTES, rights, kind, u64::MAX, 0])?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", caller.pid))?;
    memory.write_all_at(code(), code_at)?;
    let mut numbers = [u64::MAX; 4];
    for (number, path) in numbers.iter_mut().zip(&files) {
        if let Some(path) = path {
            *number = caller.open(path, code_at + PATHS_AT, libc::O_RDWR)?;
        }
    }
    let [ours, input, out, err] = numbers;
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    let whole = [0, SHARED_BYTES as u64, rights as u64, kind as u64, ours, 0];
    let base = caller.ask(libc::SYS_mmap, whole)?;
    caller.ask(libc::SYS_close, [ours, 0, 0, 0, 0, 0])?;
    shared.set(place::INPUT_FD, input as u32);
    shared.set(place::OUT_FD, out as u32);
    shared.set(place::ERR_FD, err as u32);
    let mut id = [0; 4];
    let has_id = id_place != 0
        && memory.read_exact_at(&mut id, id_place).is_ok()
        && i32::from_le_bytes(id) == caller.pid;
    shared.write(place::THREAD_ID, &if has_id { id_place } else { 0 }.to_le_bytes());
    let may_stay = resident::prepare(caller, shared, code_at, base)?;
    shared.set(place::MAY_STAY, u32::from(may_stay));
    let saved = server_code::registers(&caller.at, caller.at.orig_rax);
    for (index, word) in saved.iter().enumerate() {
        shared.write(place::REGISTERS + 8 * index, &word.to_le_bytes());
    }
    let mut server = caller.at;
    (server.rip, server.r15, server.orig_rax) = (code_at, base, u64::MAX);
    set_registers(caller.pid, &server)?;
    ptrace(libc::PTRACE_DETACH, caller.pid, 0, 0)
}
