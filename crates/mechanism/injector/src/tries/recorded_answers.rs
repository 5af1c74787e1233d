//! The recorded time and the recorded random numbers, for runs that fail with these only.
//!
//! A filter of the kernel's (seccomp) stops the program at calls that ask for them, and the tracer answers in
//! the kernel's place; the vDSO, which would answer by itself, is taken out of the auxiliary vector that each
//! image begins with. The clock goes on from the recorded time. Deliberately absent: clocks that count from the
//! machine's start, instructions (rdtsc, rdrand), and /dev/urandom.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::observed::{registers, set_registers};

/// What is answered in place of today's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedAnswers {
    /// When the program first asked for the time, in nanoseconds since 1970.
    pub time: Option<u64>,
    /// All that it got of getrandom(2), in order. Behind that come numbers that are the same each time.
    pub random: Option<Vec<u8>>,
}

impl RecordedAnswers {
    /// True if nothing is answered.
    pub fn is_empty(&self) -> bool {
        self.time.is_none() && self.random.is_none()
    }
}

/// Calls at which the program is stopped.
const CALLS: [i64; 4] =
    [libc::SYS_clock_gettime, libc::SYS_gettimeofday, libc::SYS_time, libc::SYS_getrandom];
/// Most bytes of one answer.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of arguments and environment that are looked through for the auxiliary vector's place.
const VECTORS_BYTES_MAX: usize = 4 << 20;

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_SYSINFO_EHDR: u64 = 33;

/// Of one program, while it runs.
pub(super) struct Answering {
    answers: RecordedAnswers,
    begun: Instant,
    given: usize,
    more: u64,
}

impl Answering {
    pub fn new(answers: RecordedAnswers) -> Answering {
        Answering { answers, begun: Instant::now(), given: 0, more: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A process that stands at the first instruction of an image.
    pub fn image(&self, pid: i32) -> io::Result<()> {
        if self.answers.time.is_none() {
            return Ok(());
        }
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let stack = registers(pid)?.rsp;
        let mut bytes = vec![0; VECTORS_BYTES_MAX];
        let filled = memory.read_at(&mut bytes, stack)?;
        let words: Vec<u64> = bytes[..filled]
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("of eight bytes")))
            .collect();
        // The number of arguments, they and a zero, the environment and a zero.
        let environment = words.first().map_or(0, |count| *count as usize).saturating_add(2);
        let behind =
            words.iter().skip(environment).position(|word| *word == 0).map(|at| environment + at + 1);
        let Some(vector) = behind else { return Ok(()) };
        let pairs = words.get(vector..).unwrap_or_default().chunks_exact(2);
        for (index, pair) in pairs.take_while(|pair| pair[0] != AT_NULL).enumerate() {
            if pair[0] == AT_SYSINFO_EHDR {
                let at = stack + 8 * (vector + 2 * index) as u64;
                memory.write_all_at(&AT_IGNORE.to_le_bytes(), at)?;
            }
        }
        Ok(())
    }

    /// A process that stands before one of the calls: answers it, or lets it be made.
    pub fn call(&mut self, pid: i32) -> io::Result<()> {
        let mut at = registers(pid)?;
        let (first, second) = (at.rdi, at.rsi);
        let now = self.answers.time.map(|then| then.saturating_add(self.begun.elapsed().as_nanos() as u64));
        let pair = |seconds: u64, rest: u64| [seconds.to_le_bytes(), rest.to_le_bytes()].concat();
        let (place, content, result) = match (at.orig_rax as i64, now) {
            (libc::SYS_clock_gettime, Some(now)) if is_of_the_day(first as i32) => {
                (second, pair(now / 1_000_000_000, now % 1_000_000_000), 0)
            }
            (libc::SYS_gettimeofday, Some(now)) if second == 0 => {
                (first, pair(now / 1_000_000_000, now / 1000 % 1_000_000), 0)
            }
            (libc::SYS_time, Some(now)) => {
                let seconds = now / 1_000_000_000;
                let content = if first == 0 { Vec::new() } else { seconds.to_le_bytes().to_vec() };
                (first, content, seconds)
            }
            (libc::SYS_getrandom, _) if self.answers.random.is_some() && second <= RANDOM_BYTES_MAX => {
                (first, self.random(second as usize), second)
            }
            _ => return Ok(()),
        };
        if !content.is_empty() {
            let memory = File::options().write(true).open(format!("/proc/{pid}/mem"))?;
            // Where nothing can be written the kernel says what it says.
            if memory.write_all_at(&content, place).is_err() {
                return Ok(());
            }
        }
        (at.orig_rax, at.rax) = (u64::MAX, result);
        set_registers(pid, &at)
    }

    fn random(&mut self, count: usize) -> Vec<u8> {
        let recorded = self.answers.random.as_deref().unwrap_or_default();
        let mut bytes: Vec<u8> = recorded.iter().skip(self.given).take(count).copied().collect();
        self.given += bytes.len();
        while bytes.len() < count {
            // xorshift64
            self.more ^= self.more << 13;
            self.more ^= self.more >> 7;
            self.more ^= self.more << 17;
            bytes.push(self.more as u8);
        }
        bytes
    }
}

fn is_of_the_day(clock: i32) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE)
}

/// The filter: stops at these calls, and lets all others be made.
pub(super) fn filter() -> Vec<libc::sock_filter> {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let give = libc::BPF_RET | libc::BPF_K;
    const ARCHITECTURE_AT: u32 = 4;
    const X86_64: u32 = 0xc000_003e;
    let count = CALLS.len() as u8;
    let mut filter = vec![
        statement(load, 0, 0, ARCHITECTURE_AT),
        statement(is, 0, count + 1, X86_64),
        statement(load, 0, 0, 0),
    ];
    for (index, call) in CALLS.iter().enumerate() {
        filter.push(statement(is, count - index as u8, 0, *call as u32));
    }
    filter.push(statement(give, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(statement(give, 0, 0, libc::SECCOMP_RET_TRACE));
    filter
}

/// Puts the filter on the calling process.
///
/// # Errors
/// Of the kernel.
pub(super) fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the filter lives for the whole call, and is only read.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
