//! Timers that send signals, and those behind descriptors: at a checkpoint what they are set to,
//! and behind a way back the same again.
//!
//! The time of the world goes on: a timer fires when it would have then, or at once where that
//! is over. One of processor time has as much left as then.
//!
//! Deliberately absent: limits of processor time (RLIMIT_CPU), and what a descriptor's timer has
//! counted: the read that took it is given back.

use linux_abi::general as nr;

use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::{DescriptorTimer, Setting};
use crate::ground::kernel;
use crate::ground::owned::Owned;
use crate::ground::proc_files::Path;
use crate::state::block::space;

/// Timers made by timer_create(2) that are known; others stay as they are.
const TIMERS_MAX: usize = 64;
const TEXT_BYTES: usize = 6144;
/// What is as close as this is the same.
const SAME_NS: u64 = 20_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, those that wake the machine, CLOCK_TAI.
const CLOCKS_OF_WORLD: [i32; 6] = [0, 1, 7, 8, 9, 11];

/// A timer made by timer_create(2), as /proc/self/timers tells.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Timer {
    id: u32,
    clock: i32,
    signal: u64,
    value: u64,
    /// The value of sigev_notify.
    notify: u64,
    /// The thread that is told.
    thread: u64,
    setting: Setting,
}

/// All of a process.
#[repr(C)]
struct Timers {
    taken_ns: u64,
    /// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
    interval_timers: [Setting; 3],
    count: usize,
    all: [Timer; TIMERS_MAX],
}

/// Those of the last checkpoint; goes back with the runtime's memory.
static THEN: Owned<Timers> = Owned::new(Timers::NONE);

impl Setting {
    /// Of a time of the world, so much later.
    fn later(self, elapsed_ns: u64) -> Setting {
        let left = match self.left {
            0 => 0,
            left if left > elapsed_ns => left - elapsed_ns,
            // It is over.
            left if self.interval != 0 => self.interval - (elapsed_ns - left) % self.interval,
            _ => 1,
        };
        Setting { left, ..self }
    }

    /// It has fired by then, and does not again.
    fn is_over(self, elapsed_ns: u64) -> bool {
        self.is_set() && self.interval == 0 && self.left <= elapsed_ns
    }

    fn from_words(words: [u64; 4], unit_ns: u64) -> Setting {
        let ns = |at: usize| words[at].wrapping_mul(SECOND_NS).wrapping_add(words[at + 1] * unit_ns);
        Setting { interval: ns(0), left: ns(2) }
    }

    fn words(self, unit_ns: u64) -> [u64; 4] {
        // Less than a unit would not set it at all.
        let left = if self.left == 0 { 0 } else { self.left.max(unit_ns) };
        let split = |ns: u64| [ns / SECOND_NS, ns % SECOND_NS / unit_ns];
        let ([a, b], [c, d]) = (split(self.interval), split(left));
        [a, b, c, d]
    }

    fn is_set(self) -> bool {
        self.left != 0
    }

    /// True if nobody would tell them apart.
    fn is_about(self, other: Setting) -> bool {
        self.interval == other.interval
            && self.is_set() == other.is_set()
            && self.left.abs_diff(other.left) < SAME_NS
    }

    /// What it is to be behind a way back, if that is not what it is.
    fn again(self, elapsed_ns: u64, now: Setting, is_of_world: bool) -> Option<Setting> {
        let wanted = if is_of_world { self.later(elapsed_ns) } else { self };
        // One of processor time is somewhere in its interval.
        let goes_on =
            !is_of_world && now.is_set() && self.interval != 0 && now.left.max(self.left) <= self.interval;
        let is_same = now.is_about(wanted) || goes_on && now.interval == self.interval;
        (!is_same).then_some(wanted)
    }
}

impl Timers {
    const NONE: Timers = Timers {
        taken_ns: 0,
        interval_timers: [Setting { interval: 0, left: 0 }; 3],
        count: 0,
        all: [Timer {
            id: 0,
            clock: 0,
            signal: 0,
            value: 0,
            notify: 0,
            thread: 0,
            setting: Setting { interval: 0, left: 0 },
        }; TIMERS_MAX],
    };

    fn fill(&mut self) {
        self.taken_ns = kernel::monotonic_ns();
        for (which, setting) in self.interval_timers.iter_mut().enumerate() {
            let mut words = [0u64; 4];
            kernel::call(nr::__NR_getitimer, [which as u64, words.as_mut_ptr() as u64, 0, 0, 0, 0]);
            *setting = Setting::from_words(words, 1000);
        }
        self.count = 0;
        if !space().boarded && !area().has_timers {
            return;
        }
        let mut text = [0u8; TEXT_BYTES];
        let text = Path::new().text(b"/proc/self/timers").read(&mut text).unwrap_or_default();
        for timer in listed(text) {
            if self.count < TIMERS_MAX && !timer.is_ours() {
                self.all[self.count] = Timer { setting: timer.now(), ..timer };
                self.count += 1;
            }
        }
    }

    fn all(&self) -> &[Timer] {
        &self.all[..self.count]
    }

    fn find(&self, id: u32) -> Option<&Timer> {
        self.all().iter().find(|timer| timer.id == id)
    }
}

impl Timer {
    const SIGEV_NONE: u64 = 1;
    const SIGEV_THREAD_ID: u64 = 4;

    /// Of a thread of the program, but not set by it: see `preemption_timer`.
    fn is_ours(&self) -> bool {
        self.signal == u64::from(lane_protocol::ASKING) && self.notify == Timer::SIGEV_THREAD_ID
    }

    fn now(&self) -> Setting {
        let mut words = [0u64; 4];
        kernel::call(nr::__NR_timer_gettime, [u64::from(self.id), words.as_mut_ptr() as u64, 0, 0, 0, 0]);
        Setting::from_words(words, 1)
    }

    fn set(&self, setting: Setting) {
        let words = setting.words(1);
        let arguments = [u64::from(self.id), 0, words.as_ptr() as u64, 0, 0, 0];
        kernel::call(nr::__NR_timer_settime, arguments);
    }

    /// One that was deleted since, under its number, where the kernel lets us choose
    /// (from Linux 6.15).
    fn make_again(&self) {
        const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
        let choose = |on: u64| kernel::call(nr::__NR_prctl, [PR_TIMER_CREATE_RESTORE_IDS, on, 0, 0, 0, 0]);
        if kernel::failed(choose(1)) {
            return;
        }
        let event = [self.value, self.signal | self.notify << 32, self.thread, 0, 0, 0, 0, 0];
        let mut id = self.id;
        let arguments = [self.clock as u64, event.as_ptr() as u64, &raw mut id as u64, 0, 0, 0];
        let made = kernel::call(nr::__NR_timer_create, arguments);
        choose(0);
        if !kernel::failed(made) && self.setting.is_set() {
            // What it was set to, from now on, is looked at as for the others.
            self.set(self.setting);
        }
    }
}

/// The timers in the text of /proc/self/timers (proc_pid_timers(5)).
fn listed(text: &[u8]) -> impl Iterator<Item = Timer> + '_ {
    let mut lines = text.split(|&byte| byte == b'\n');
    core::iter::from_fn(move || {
        let id = lines.by_ref().find_map(|line| line.strip_prefix(b"ID:"))?;
        let mut next = |name: &[u8]| lines.next()?.strip_prefix(name);
        // "signal: 10/000000000000004d", "notify: signal/pid.2634", "ClockID: 0".
        let (signal, notify, clock) = (next(b"signal:")?, next(b"notify:")?, next(b"ClockID:")?);
        let slash = signal.iter().position(|&byte| byte == b'/')?;
        let value = signal[slash + 1..].iter().map_while(|&byte| (byte as char).to_digit(16));
        let dot = notify.iter().rposition(|&byte| byte == b'.')?;
        let is_thread = notify[..dot].ends_with(b"tid");
        let tells = !notify.trim_ascii_start().starts_with(b"none");
        let how = if is_thread { Timer::SIGEV_THREAD_ID } else { 0 };
        let is_negative = clock.trim_ascii().starts_with(b"-");
        let clock = decimal(clock) as i32;
        Some(Timer {
            id: decimal(id) as u32,
            clock: if is_negative { -clock } else { clock },
            signal: decimal(signal),
            value: value.fold(0, |sum, digit| sum << 4 | u64::from(digit)),
            notify: if tells { how } else { how | Timer::SIGEV_NONE },
            thread: if is_thread { decimal(&notify[dot + 1..]) } else { 0 },
            setting: Setting::default(),
        })
    })
}

/// The first number of a text.
fn decimal(text: &[u8]) -> u64 {
    let digits = text.iter().skip_while(|byte| !byte.is_ascii_digit());
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, &digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// What the program's timers are set to, before a checkpoint is made.
pub fn note() {
    // SAFETY: who takes a checkpoint holds the token, and keeps it meanwhile.
    unsafe { &mut *THEN.get() }.fill();
}

/// Branch, with the runtime's memory of then: the timers are as then.
pub fn restore() {
    // SAFETY: nobody else runs on the way back.
    let then = unsafe { &*THEN.get() };
    let mut now = Timers::NONE;
    now.fill();
    for timer in now.all().iter().filter(|timer| then.find(timer.id).is_none()) {
        kernel::call(nr::__NR_timer_delete, [u64::from(timer.id), 0, 0, 0, 0, 0]);
    }
    let elapsed_ns = now.taken_ns.saturating_sub(then.taken_ns);
    for timer in then.all() {
        if now.find(timer.id).is_none() {
            timer.make_again();
        }
        if let Some(setting) =
            timer.setting.again(elapsed_ns, timer.now(), CLOCKS_OF_WORLD.contains(&timer.clock))
        {
            timer.set(setting);
        }
    }
    for (which, (then, now)) in then.interval_timers.iter().zip(&now.interval_timers).enumerate() {
        if let Some(setting) = then.again(elapsed_ns, *now, which == 0) {
            let words = setting.words(1000);
            kernel::call(nr::__NR_setitimer, [which as u64, words.as_ptr() as u64, 0, 0, 0, 0]);
        }
    }
}

// --- descriptors ---

impl DescriptorTimer {
    pub fn fd(&self) -> u32 {
        self.fd
    }

    pub fn new(fd: u32) -> DescriptorTimer {
        DescriptorTimer { fd, noted_ns: kernel::monotonic_ns(), ..DescriptorTimer::default() }
    }

    /// The number is that of something else now.
    pub fn forget(&mut self, fd: u32) {
        if self.fd == fd {
            self.fd = u32::MAX;
        }
    }

    /// Takes a line of its fdinfo; true where that is the last one of a timer
    /// (proc_pid_fdinfo(5)).
    pub fn note(&mut self, line: &[u8]) -> bool {
        let time = |text: &[u8]| {
            let comma = text.iter().position(|&byte| byte == b',').unwrap_or(0);
            decimal(text).wrapping_mul(SECOND_NS).wrapping_add(decimal(&text[comma..]))
        };
        if let Some(text) = line.strip_prefix(b"ticks:") {
            self.ticks = decimal(text) as u32;
        } else if let Some(text) = line.strip_prefix(b"it_value:") {
            self.setting.left = time(text);
        } else if let Some(text) = line.strip_prefix(b"it_interval:") {
            self.setting.interval = time(text);
            // It does not go on before somebody reads what it has counted.
            if self.setting.interval != 0 && self.ticks != 0 {
                self.setting.left = self.setting.left.max(1);
            }
            return true;
        }
        false
    }
}

/// Branch: timers behind descriptors are as then. `gives_back`: what has been read of one
/// comes again.
pub fn restore_descriptors(
    then: &[DescriptorTimer],
    now: &[DescriptorTimer],
    gives_back: &dyn Fn(u32) -> bool,
) {
    for timer in then {
        let Some(current) = now.iter().find(|current| current.fd == timer.fd) else { continue };
        let elapsed_ns = current.noted_ns.saturating_sub(timer.noted_ns);
        let stays = match (timer.ticks != 0, current.ticks != 0) {
            // It had not fired then.
            (false, true) if !timer.setting.is_set() => false,
            (true, true) if timer.setting.interval == current.setting.interval => true,
            // It has fired since, and is not read yet, or is read again.
            _ if timer.setting.is_over(elapsed_ns) && !current.setting.is_set() => {
                current.ticks != 0 || gives_back(timer.fd)
            }
            _ => timer.setting.again(elapsed_ns, current.setting, true).is_none(),
        };
        if stays {
            continue;
        }
        let setting = timer.setting.later(elapsed_ns);
        let words = setting.words(1);
        let arguments = [u64::from(timer.fd), 0, words.as_ptr() as u64, 0, 0, 0];
        kernel::call(nr::__NR_timerfd_settime, arguments);
    }
}
