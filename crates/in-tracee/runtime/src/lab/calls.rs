//! A call on the program's behalf, in a lab: what it waits for, and who performs it.

use core::sync::atomic::Ordering;

use lane_protocol::LAB_NEVER;
use linux_abi::{errno, general as nr};

use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::lab::{self, clocks, files, futexes, netlink, polls, signal_times, sockets};
use crate::state::block::session;

const S_IFSOCK: u32 = 0o140_000;
const S_IFREG: u32 = 0o100_000;
const S_IFBLK: u32 = 0o060_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFDIR: u32 = 0o040_000;
/// Counters, descriptors of signals and others that the kernel keeps without a file (anon_inode).
const OF_NO_TYPE: u32 = 0;
const MSG_DONTWAIT: u64 = 0x40;

/// Makes a call as the kernel shall see it. No call of another thread of the lab is made meanwhile.
pub fn make(number: u64, real: &[u64; 6]) -> i64 {
    if number == u64::from(nr::__NR_sched_yield) {
        clocks::spin(true);
        return 0;
    }
    clocks::note_act();
    let result = make_act(number, real);
    if result == -i64::from(errno::EAGAIN) || result == 0 && may_find_nothing(number) {
        clocks::note_vain_call();
    }
    result
}

/// True for calls that give 0 where they find nothing, or nobody, and do not wait for it.
fn may_find_nothing(number: u64) -> bool {
    polls::is_poll(number) || matches!(number as u32, nr::__NR_wait4 | nr::__NR_waitid | nr::__NR_futex)
}

fn make_act(number: u64, real: &[u64; 6]) -> i64 {
    match number as u32 {
        nr::__NR_read
        | nr::__NR_readv
        | nr::__NR_write
        | nr::__NR_writev
        | nr::__NR_sendto
        | nr::__NR_recvfrom
        | nr::__NR_sendmsg
        | nr::__NR_recvmsg
        | nr::__NR_sendmmsg
        | nr::__NR_recvmmsg
        | nr::__NR_accept
        | nr::__NR_accept4
        | nr::__NR_connect
        | nr::__NR_sendfile => on_descriptor(number, real),
        nr::__NR_splice | nr::__NR_tee | nr::__NR_vmsplice => among_pipes(number, real),
        nr::__NR_bind
        | nr::__NR_listen
        | nr::__NR_getsockname
        | nr::__NR_getpeername
        | nr::__NR_getsockopt
        | nr::__NR_setsockopt
        | nr::__NR_shutdown => on_socket(number, real),
        nr::__NR_ioctl if is_of_sockets(real[1]) => on_socket(number, real),
        nr::__NR_socket => match sockets::open(number, real) {
            Some(result) => result,
            None => kernel::call_for_program(number, real),
        },
        _ if polls::is_poll(number) => polls::execute(number, real),
        nr::__NR_nanosleep | nr::__NR_clock_nanosleep => clocks::sleep(number, real),
        nr::__NR_futex => futexes::execute(real),
        // As on a kernel before 5.16 and 6.7: programs do with futex(2) then.
        nr::__NR_futex_waitv | nr::__NR_futex_wait | nr::__NR_futex_wake | nr::__NR_futex_requeue => {
            -i64::from(errno::ENOSYS)
        }
        // As on a kernel without keys: it draws their numbers, and all nodes would share them.
        nr::__NR_add_key | nr::__NR_request_key | nr::__NR_keyctl => -i64::from(errno::ENOSYS),
        nr::__NR_wait4 | nr::__NR_waitid => polls::wait_for_child(number, real),
        nr::__NR_mq_timedsend | nr::__NR_mq_timedreceive => on_queue(number, real),
        nr::__NR_rt_sigsuspend => polls::wait_for_signal(real[0]),
        nr::__NR_pause => polls::wait_for_signal(0),
        nr::__NR_rt_sigtimedwait => polls::take_signal(real),
        _ => make_other(number, real),
    }
}

/// Calls that are not of descriptors.
fn make_other(number: u64, real: &[u64; 6]) -> i64 {
    match number as u32 {
        nr::__NR_kill
        | nr::__NR_tkill
        | nr::__NR_tgkill
        | nr::__NR_rt_sigqueueinfo
        | nr::__NR_rt_tgsigqueueinfo
        | nr::__NR_pidfd_send_signal => {
            let result = kernel::call_for_program(number, real);
            if result == 0 {
                lab::tell_signal(number, real);
            }
            result
        }
        nr::__NR_stat | nr::__NR_fstat | nr::__NR_lstat | nr::__NR_newfstatat | nr::__NR_statx => {
            files::stat(number, real)
        }
        nr::__NR_close if session().lab.lingers.load(Ordering::Relaxed) != 0 => {
            sockets::close_lingering(number, real)
        }
        nr::__NR_statfs | nr::__NR_fstatfs => files::file_system(number, real),
        nr::__NR_sched_getaffinity => tell_processors(number, real),
        nr::__NR_sched_setaffinity => set_processors(real),
        nr::__NR_getdents64 => files::list(number, real),
        nr::__NR_open | nr::__NR_openat | nr::__NR_openat2 | nr::__NR_creat => {
            files::of_opening(number, real, || files::open(number, real))
        }
        nr::__NR_fcntl
        | nr::__NR_flock
        | nr::__NR_semop
        | nr::__NR_semtimedop
        | nr::__NR_msgrcv
        | nr::__NR_msgsnd => without_waiting(number, real),
        nr::__NR_timerfd_create => {
            // What is read of a timer is read of a counter.
            let words = [0, real[1], 0, 0, 0, 0];
            match kernel::call(nr::__NR_eventfd2, words) {
                fd if kernel::failed(fd) => fd,
                fd => sockets::ask_engine(number, real, fd as u64),
            }
        }
        // GRND_RANDOM and GRND_INSECURE exclude each other.
        nr::__NR_getrandom if real[2] & !7 != 0 || real[2] & 6 == 6 => -i64::from(errno::EINVAL),
        nr::__NR_clock_settime | nr::__NR_settimeofday => clocks::set(number, real),
        nr::__NR_timer_create if (real[0] as i32) >= 0 && !clocks::is_clock(real[0]) => {
            -i64::from(errno::EINVAL)
        }
        nr::__NR_setrlimit | nr::__NR_getrlimit if real[0] as u32 == nr::RLIMIT_CPU => {
            sockets::ask_engine(number, real, 0)
        }
        nr::__NR_prlimit64 if real[1] as u32 == nr::RLIMIT_CPU => sockets::ask_engine(number, real, 0),
        nr::__NR_getrandom
        | nr::__NR_times
        | nr::__NR_getrusage
        | nr::__NR_sysinfo
        | nr::__NR_timerfd_settime
        | nr::__NR_timerfd_gettime
        | nr::__NR_setitimer
        | nr::__NR_getitimer
        | nr::__NR_alarm
        | nr::__NR_timer_create
        | nr::__NR_timer_settime
        | nr::__NR_timer_gettime
        | nr::__NR_timer_getoverrun
        | nr::__NR_timer_delete
        | nr::__NR_adjtimex
        | nr::__NR_clock_adjtime => sockets::ask_engine(number, real, 0),
        _ => files::make(number, real),
    }
}

/// True for requests of ioctl(2) that are asked of sockets: what is queued, and interfaces.
fn is_of_sockets(request: u64) -> bool {
    const FIONREAD: u64 = 0x541b;
    request == FIONREAD || (0x8900..0x8a00).contains(&request)
}

/// A call that cannot sleep, on what may be the engine's.
fn on_socket(number: u64, real: &[u64; 6]) -> i64 {
    let (kind, file) = sockets::file_of(real[0]);
    let performed = if kind == S_IFSOCK { sockets::execute(number, real, file) } else { None };
    let is_bound = kind == S_IFSOCK && number as u32 == nr::__NR_bind;
    let performed = performed.or_else(|| if is_bound { netlink::bind(real) } else { None });
    performed.unwrap_or_else(|| kernel::call_for_program(number, real))
}

/// A call that may wait for its first descriptor.
fn on_descriptor(number: u64, real: &[u64; 6]) -> i64 {
    if let Some(result) = sockets::move_bytes(number, real, false) {
        return result;
    }
    let (kind, file) = sockets::file_of(real[0]);
    let mut through_kernel = false;
    if kind == S_IFSOCK {
        if let Some(result) = sockets::move_bytes(number, real, true) {
            return result;
        }
        through_kernel = !matches!(number as u32, nr::__NR_accept | nr::__NR_accept4 | nr::__NR_connect)
            && sockets::is_stream(real[0]);
        if !through_kernel && let Some(result) = sockets::execute(number, real, file) {
            return result;
        }
    } else if matches!(kind, S_IFREG | S_IFBLK | S_IFDIR) {
        let writes = matches!(number as u32, nr::__NR_write | nr::__NR_writev | nr::__NR_sendfile);
        return match writes {
            true => files::of_descriptor(number, real, real[0], lane_protocol::lab_change::CONTENT),
            false => kernel::call_for_program(number, real),
        };
    }
    if kind == S_IFCHR && sockets::is_chance(real[0]) {
        return read_chance(number, real);
    }
    if kind == S_IFSOCK
        && !through_kernel
        && let Some(refused) = netlink::before_call(number, real)
    {
        return refused;
    }
    if through_kernel && matches!(number as u32, nr::__NR_writev | nr::__NR_sendfile) {
        sockets::tell_more(number, real, 0);
    }
    let until = if kind == S_IFSOCK { sockets::until(number, real[0]) } else { LAB_NEVER };
    let result = without_sleeping(number, real, real[0], until);
    if kind == OF_NO_TYPE && result > 0 {
        signal_times::hide_in_read(number, real, result as u64);
    }
    if kind == S_IFSOCK && result > 0 && !through_kernel {
        netlink::hide_uptime(number, real, result as u64);
    }
    result
}

/// mq_send(3) and mq_receive(3), whose time is of CLOCK_REALTIME.
fn on_queue(number: u64, real: &[u64; 6]) -> i64 {
    const CLOCK_REALTIME: u64 = 0;
    let Some(until) = clocks::at(real[4], CLOCK_REALTIME) else { return -i64::from(errno::EINVAL) };
    let mut untimed = *real;
    untimed[4] = 0;
    unless_late(number, &untimed, real[0], until, -i64::from(errno::ETIMEDOUT))
}

/// Reads of /dev/random and /dev/urandom: each goes on in the lab's chance. Other calls are the kernel's.
fn read_chance(number: u64, real: &[u64; 6]) -> i64 {
    let (at, bytes) = match number as u32 {
        nr::__NR_read => (real[1], real[2]),
        // The first part that is not empty, as a short read has it.
        nr::__NR_readv => {
            let parts = (0..real[2]).map(|part| memory::read::<[u64; 2]>(real[1] + 16 * part));
            match parts.take_while(Option::is_some).flatten().find(|part| part[1] != 0) {
                Some([at, bytes]) => (at, bytes),
                None => return kernel::call_for_program(number, real),
            }
        }
        _ => return kernel::call_for_program(number, real),
    };
    // Whether it may be read.
    let may = kernel::call(nr::__NR_read, [real[0], at, 0, 0, 0, 0]);
    if kernel::failed(may) || bytes == 0 {
        return may;
    }
    sockets::ask_engine(u64::from(nr::__NR_getrandom), &[at, bytes, 0, 0, 0, 0], 0)
}

/// Makes a call on a descriptor that may sleep there, without sleeping, until it gets something.
pub fn without_sleeping(number: u64, real: &[u64; 6], fd: u64, until_ns: u64) -> i64 {
    unless_late(number, real, fd, until_ns, -i64::from(errno::EAGAIN))
}

/// The same with this result where the time is over.
fn unless_late(number: u64, real: &[u64; 6], fd: u64, until_ns: u64, at_timeout: i64) -> i64 {
    const NONBLOCK: u64 = nr::O_NONBLOCK as u64;
    let set_flags = |flags: u64| {
        kernel::call(nr::__NR_fcntl, [fd, u64::from(nr::F_SETFL), flags, 0, 0, 0]);
    };
    let flags = kernel::call(nr::__NR_fcntl, [fd, u64::from(nr::F_GETFL), 0, 0, 0, 0]);
    let does_not_wait = match number as u32 {
        nr::__NR_recvfrom | nr::__NR_sendto | nr::__NR_recvmmsg | nr::__NR_sendmmsg => {
            real[3] & MSG_DONTWAIT != 0
        }
        nr::__NR_recvmsg | nr::__NR_sendmsg => real[2] & MSG_DONTWAIT != 0,
        _ => false,
    };
    if does_not_wait || kernel::failed(flags) || flags as u64 & NONBLOCK != 0 {
        return kernel::call_for_program(number, real);
    }
    // write(2) and send(2) wait until everything is taken.
    let takes_all = matches!(number as u32, nr::__NR_write | nr::__NR_sendto);
    let mut moving = Moving::new(*real, takes_all);
    let result = lab::wait_for(until_ns, true, at_timeout, &mut || {
        moving.attempt(&mut |at| {
            set_flags(flags as u64 | NONBLOCK);
            let result = kernel::call_for_program(number, at);
            set_flags(flags as u64);
            result
        })
    });
    moving.result(result)
}

/// A call that moves bytes between a descriptor and memory, and how far it is: the second argument says where they
/// are, the third how many.
pub struct Moving {
    at: [u64; 6],
    takes_all: bool,
    done: u64,
}

impl Moving {
    /// `takes_all`: it is made until all are moved.
    pub fn new(arguments: [u64; 6], takes_all: bool) -> Moving {
        Moving { at: arguments, takes_all, done: 0 }
    }

    /// Makes the call by `make`, which does not sleep: `None` if it has to wait for more.
    pub fn attempt(&mut self, make: &mut dyn FnMut(&[u64; 6]) -> i64) -> Option<i64> {
        loop {
            let result = make(&self.at);
            if result == -i64::from(errno::EAGAIN) {
                return None;
            }
            if !self.takes_all || result <= 0 || result as u64 >= self.at[2] {
                return Some(result);
            }
            self.done += result as u64;
            self.at[1] += result as u64;
            self.at[2] -= result as u64;
        }
    }

    /// What the program is told, where the last attempt or the wait for it ended so.
    pub fn result(&self, last: i64) -> i64 {
        match last {
            last if self.done == 0 => last,
            last if last == ABORTED || last < 0 => self.done as i64,
            last => self.done as i64 + last,
        }
    }
}

/// Calls that a bit of an argument makes fail where they would wait.
fn without_waiting(number: u64, real: &[u64; 6]) -> i64 {
    const F_SETLK: u64 = 6;
    const F_SETLKW: u64 = 7;
    const F_OFD_SETLK: u64 = 37;
    const F_OFD_SETLKW: u64 = 38;
    const LOCK_NB: u64 = 4;
    const IPC_NOWAIT: u64 = 0o4000;
    let mut attempt = *real;
    let mut would_wait = [-i64::from(errno::EAGAIN); 2];
    match number as u32 {
        nr::__NR_fcntl if real[1] == F_SETLKW => attempt[1] = F_SETLK,
        nr::__NR_fcntl if real[1] == F_OFD_SETLKW => attempt[1] = F_OFD_SETLK,
        nr::__NR_flock if real[1] & LOCK_NB == 0 => attempt[1] |= LOCK_NB,
        nr::__NR_msgrcv if real[4] & IPC_NOWAIT == 0 => {
            attempt[4] |= IPC_NOWAIT;
            would_wait[1] = -i64::from(errno::ENOMSG);
        }
        nr::__NR_msgsnd if real[3] & IPC_NOWAIT == 0 => attempt[3] |= IPC_NOWAIT,
        // An operation of semaphores says it for each of them: semtimedop(2) with no time says it at once.
        nr::__NR_semop | nr::__NR_semtimedop => return on_semaphores(number, real),
        _ => return kernel::call_for_program(number, real),
    }
    if number == u64::from(nr::__NR_fcntl) {
        would_wait[1] = -i64::from(errno::EACCES);
    }
    lab::wait_for(LAB_NEVER, true, would_wait[0], &mut || {
        let result = kernel::call_for_program(number, &attempt);
        (!would_wait.contains(&result)).then_some(result)
    })
}

/// splice(2), tee(2) and vmsplice(2): a flag keeps them from sleeping for their pipes, and one of the descriptors for a
/// socket.
fn among_pipes(number: u64, real: &[u64; 6]) -> i64 {
    const NONBLOCK: u64 = 2;
    let is_splice = number == u64::from(nr::__NR_splice);
    let flags_at = if is_splice { 5 } else { 3 };
    if real[flags_at] & NONBLOCK != 0 {
        return kernel::call_for_program(number, real);
    }
    let mut attempt = *real;
    attempt[flags_at] |= NONBLOCK;
    let other = if is_splice { real[2] } else { real[0] };
    let is_socket = |fd: u64| sockets::file_of(fd).0 == S_IFSOCK;
    match [real[0], other].into_iter().find(|&fd| is_socket(fd)) {
        Some(fd) => without_sleeping(number, &attempt, fd, LAB_NEVER),
        None => lab::wait_for(LAB_NEVER, true, 0, &mut || {
            let result = kernel::call_for_program(number, &attempt);
            (result != -i64::from(errno::EAGAIN)).then_some(result)
        }),
    }
}

/// Whether an operation on semaphores says that it does not wait.
fn one_does_not_wait(operations: u64, count: u64) -> bool {
    const IPC_NOWAIT: u16 = 0o4000;
    const OPERATIONS_MAX: u64 = 500;
    let flags = |number: u64| memory::read::<[u16; 3]>(operations + 6 * number).map_or(0, |words| words[2]);
    (0..count.min(OPERATIONS_MAX)).any(|number| flags(number) & IPC_NOWAIT != 0)
}

fn on_semaphores(number: u64, real: &[u64; 6]) -> i64 {
    let none = [0u64; 2];
    let again = -i64::from(errno::EAGAIN);
    let has_time = number == u64::from(nr::__NR_semtimedop);
    let until = if has_time { clocks::after(real[3]) } else { Some(LAB_NEVER) };
    let Some(until) = until else { return -i64::from(errno::EINVAL) };
    if one_does_not_wait(real[1], real[2]) {
        return kernel::call_for_program(number, real);
    }
    let attempt = [real[0], real[1], real[2], none.as_ptr() as u64, 0, 0];
    let result = lab::wait_for(until, false, again, &mut || {
        let result = kernel::call_for_program(u64::from(nr::__NR_semtimedop), &attempt);
        (result != again).then_some(result)
    });
    core::hint::black_box(&none);
    result
}

// --- processors: a node is told of those that the lab may use, though it runs on one of them ---

const PROCESSOR_WORDS: usize = lane_protocol::LAB_PROCESSOR_WORDS;

fn processors(place: usize) -> u64 {
    session().lab.processors.get(place).map_or(0, |set| set.load(Ordering::Relaxed))
}

/// sched_getaffinity(2).
fn tell_processors(number: u64, real: &[u64; 6]) -> i64 {
    let result = kernel::call_for_program(number, real);
    for place in 0..result.max(0) as usize / 8 {
        memory::write(real[2] + 8 * place as u64, &processors(place));
    }
    result
}

/// sched_setaffinity(2): it is as if done, as a lab runs on one processor.
fn set_processors(real: &[u64; 6]) -> i64 {
    // Whether there is such a thread is asked with room of its own.
    let room = [0u64; PROCESSOR_WORDS];
    let bytes = size_of_val(&room) as u64;
    let known = kernel::call(nr::__NR_sched_getaffinity, [real[0], bytes, room.as_ptr() as u64, 0, 0, 0]);
    core::hint::black_box(&room);
    if kernel::failed(known) {
        return known;
    }
    let mut wanted = [0u64; PROCESSOR_WORDS];
    let given = real[1].min(bytes);
    if !memory::copy(wanted.as_mut_ptr() as u64, real[2], given) {
        return -i64::from(errno::EFAULT);
    }
    let is_possible = wanted.iter().enumerate().any(|(place, wanted)| wanted & processors(place) != 0);
    if is_possible { 0 } else { -i64::from(errno::EINVAL) }
}
