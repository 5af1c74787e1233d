//! System calls that the runtime makes for itself, and those it makes for the program.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

use linux_abi::general as nr;

use crate::ground::assembly::rv_call;
use crate::ground::map_changes;

/// Result of a call on the program's behalf that was not begun, or that the
/// kernel wants to begin again, because a signal waits to be delivered first.
/// Outside of the range of errors that a program can see.
pub const ABORTED: i64 = -513;

/// A system call of the runtime's own: never logged.
#[inline]
pub fn call(nr: u32, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the callers pass arguments whose memory effects they own; the
    // kernel clobbers rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") u64::from(nr) => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A system call on the program's behalf; [`ABORTED`] if a signal comes first.
#[inline]
pub fn call_for_program(nr: u64, args: &[u64; 6]) -> i64 {
    // SAFETY: the program asked for this call; the assembler routine keeps the
    // calling convention.
    unsafe { rv_call(nr, args) }
}

/// Ends the process.
pub fn exit_group(code: i32) -> ! {
    loop {
        call(nr::__NR_exit_group, [code as u64, 0, 0, 0, 0, 0]);
    }
}

/// The process is killed where who made it ends (PR_SET_PDEATHSIG, prctl(2)).
pub fn end_with_parent() {
    const PR_SET_PDEATHSIG: u64 = 1;
    const SIGKILL: u64 = 9;
    call(nr::__NR_prctl, [PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0]);
}

/// True if a result is an error number.
#[inline]
pub fn failed(result: i64) -> bool {
    (-4095..0).contains(&result)
}

/// Counts what the runtime maps and protects for itself.
static MAPPINGS_MADE: AtomicU32 = AtomicU32::new(0);

/// How often the runtime changed mappings.
pub fn mappings_made() -> u32 {
    MAPPINGS_MADE.load(Ordering::Relaxed)
}

fn note_mapping(start: u64, bytes: u64) {
    MAPPINGS_MADE.fetch_add(1, Ordering::Relaxed);
    map_changes::note(start, bytes);
}

/// Maps memory; see mmap(2).
pub fn mmap(address: u64, bytes: u64, protection: u32, flags: u32, fd: i32, offset: u64) -> i64 {
    let arguments = [address, bytes, u64::from(protection), u64::from(flags), fd as i64 as u64, offset];
    let mapped = call(nr::__NR_mmap, arguments);
    note_mapping(if failed(mapped) { address } else { mapped as u64 }, bytes);
    mapped
}

/// Unmaps memory; see munmap(2).
pub fn munmap(address: u64, bytes: u64) -> i64 {
    note_mapping(address, bytes);
    call(nr::__NR_munmap, [address, bytes, 0, 0, 0, 0])
}

/// Maps memory for code and what it works with; false if something is there. The kernel keeps it apart from what the
/// program maps beside it with the same protection, as a compiler's memory for code: what is ours is told by where a
/// mapping begins.
pub fn map_code(place: u64, bytes: u64) -> bool {
    // Of all that makes a mapping another one, what nobody asks for of such memory.
    const MADV_RANDOM: u64 = 1;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
    let protection = nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC;
    let result = mmap(place, bytes, protection, flags, -1, 0);
    if !failed(result) && result as u64 != place {
        munmap(result as u64, bytes);
        return false;
    }
    let is_mapped = result as u64 == place;
    if is_mapped {
        call(nr::__NR_madvise, [place, bytes, MADV_RANDOM, 0, 0, 0]);
    }
    is_mapped
}

/// Changes protection; see mprotect(2).
pub fn mprotect(address: u64, bytes: u64, protection: u32) -> i64 {
    note_mapping(address, bytes);
    call(nr::__NR_mprotect, [address, bytes, u64::from(protection), 0, 0, 0])
}

/// Sets the calling thread's base of thread-local memory.
pub fn set_fs_base(base: u64) {
    const ARCH_SET_FS: u64 = 0x1002;
    call(nr::__NR_arch_prctl, [ARCH_SET_FS, base, 0, 0, 0, 0]);
}

/// Sleeps while the word holds `seen`, at most `timeout_ms`. The word may be in
/// memory that processes share.
pub fn futex_wait(word: &AtomicU32, seen: u32, timeout_ms: u64) -> i64 {
    let timeout = [timeout_ms / 1000, timeout_ms % 1000 * 1_000_000];
    call(
        nr::__NR_futex,
        [word as *const _ as u64, u64::from(nr::FUTEX_WAIT), u64::from(seen), timeout.as_ptr() as u64, 0, 0],
    )
}

/// Sleeps while the word holds `seen`, at most `timeout_ns`.
pub fn futex_wait_ns(word: &AtomicU32, seen: u32, timeout_ns: u64) -> i64 {
    futex_wait_until(word, seen, monotonic_ns() + timeout_ns, u32::MAX)
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    const CLOCK_MONOTONIC: u64 = 1;
    clock_ns(CLOCK_MONOTONIC)
}

/// CLOCK_THREAD_CPUTIME_ID: nanoseconds of processor time that the calling thread has had.
pub fn own_cpu_ns() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: u64 = 3;
    clock_ns(CLOCK_THREAD_CPUTIME_ID)
}

/// The same of another thread of the process; 0 if there is none.
pub fn thread_cpu_ns(tid: i32) -> u64 {
    /// CPUCLOCK_PERTHREAD_MASK with CPUCLOCK_SCHED (include/linux/posix-timers.h).
    const OF_THREAD: u64 = 6;
    clock_ns(u64::from(!(tid as u32)) << 3 | OF_THREAD)
}

/// Processor time of another process; 0 if there is none.
pub fn process_cpu_ns(pid: i32) -> u64 {
    /// CPUCLOCK_SCHED.
    const OF_PROCESS: u64 = 2;
    clock_ns(u64::from(!(pid as u32)) << 3 | OF_PROCESS)
}

/// gettid(2).
pub fn gettid() -> i32 {
    call(nr::__NR_gettid, [0; 6]) as i32
}

fn clock_ns(clock: u64) -> u64 {
    let mut time = [0u64; 2];
    call(nr::__NR_clock_gettime, [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0]);
    time[0] * 1_000_000_000 + time[1]
}

/// An option of a socket that is a number; 0 where it has none (getsockopt(2)).
pub fn socket_option(fd: u64, level: u64, name: u64) -> u32 {
    let (mut value, mut length) = (0u32, 4u32);
    let into = [&raw mut value as u64, &raw mut length as u64];
    call(nr::__NR_getsockopt, [fd, level, name, into[0], into[1], 0]);
    value
}

/// Lets others have the processor, if any want it.
pub fn sched_yield() -> i64 {
    call(nr::__NR_sched_yield, [0; 6])
}

/// Sleeps for less than a second, or until a signal comes.
pub fn sleep_ns(time_ns: u64) {
    let time = [0, time_ns];
    call(nr::__NR_nanosleep, [time.as_ptr() as u64, 0, 0, 0, 0, 0]);
}

/// Sleeps while the word holds `seen`, at most until that time, as one of those with
/// these bits.
pub fn futex_wait_until(word: &AtomicU32, seen: u32, until_ns: u64, bits: u32) -> i64 {
    let until = [until_ns / 1_000_000_000, until_ns % 1_000_000_000];
    let how = u64::from(nr::FUTEX_WAIT_BITSET);
    call(
        nr::__NR_futex,
        [word as *const _ as u64, how, u64::from(seen), until.as_ptr() as u64, 0, u64::from(bits)],
    )
}

/// Wakes all sleepers of the word that have one of the bits.
pub fn futex_wake_bits(word: &AtomicU32, bits: u32) {
    let how = u64::from(nr::FUTEX_WAKE_BITSET);
    call(nr::__NR_futex, [word as *const _ as u64, how, i32::MAX as u64, 0, 0, u64::from(bits)]);
}

/// Wakes all sleepers of the word.
pub fn futex_wake(word: &AtomicU32) {
    call(nr::__NR_futex, [word as *const _ as u64, u64::from(nr::FUTEX_WAKE), i32::MAX as u64, 0, 0, 0]);
}

/// Wakes one sleeper of the word.
pub fn futex_wake_one(word: &AtomicU32) {
    call(nr::__NR_futex, [word as *const _ as u64, u64::from(nr::FUTEX_WAKE), 1, 0, 0, 0]);
}

/// Writes all bytes, as far as the descriptor takes them.
pub fn write_all(fd: i32, mut address: u64, mut bytes: u64) {
    while bytes > 0 {
        let written = call(nr::__NR_write, [fd as u64, address, bytes, 0, 0, 0]);
        if written == -i64::from(linux_abi::errno::EINTR) || written == -i64::from(linux_abi::errno::EAGAIN) {
            continue;
        }
        if written <= 0 {
            return;
        }
        address += written as u64;
        bytes -= written as u64;
    }
}

/// Other sockets can be mapped, too (TCP, to receive without copying): nothing comes there by itself.
pub fn is_packet_socket(fd: u64) -> bool {
    // `asm-generic/socket.h`, `linux/socket.h`.
    const SOL_SOCKET: u64 = 1;
    const SO_DOMAIN: u64 = 39;
    const AF_PACKET: u32 = 17;
    socket_option(fd, SOL_SOCKET, SO_DOMAIN) == AF_PACKET
}

pub fn error(number: u32) -> i64 {
    -i64::from(number)
}

/// The kernel's mask of the calling thread.
pub fn current_mask() -> u64 {
    let mut mask = 0u64;
    call(nr::__NR_rt_sigprocmask, [0, 0, &raw mut mask as u64, 8, 0, 0]);
    mask
}

/// close_range(2): nothing is closed yet.
pub const CLOSE_RANGE_CLOEXEC: u32 = 4;
