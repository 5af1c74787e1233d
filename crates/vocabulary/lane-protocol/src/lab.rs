//! What the processes of a lab and its engine share: the lab's clock, and a slot for each thread by
//! which it asks the engine.
//!
//! One thread of a lab runs at a time: the one whose slot the engine has granted. A thread that asks
//! waits until its slot is granted again, so whatever it asked for is answered, and the order of all
//! that happens in the lab is the order in which the engine grants.

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Threads that a lab can have at a time.
pub const LAB_SLOTS: usize = 2048;
/// Reads of the machine's clock by a thread between two questions; more give the last one again.
pub const LAB_READS: usize = 256;
/// Arguments of a question.
pub const LAB_WORDS: usize = 10;
/// Changes of files between two questions that the engine is told of with the next one.
pub const LAB_CHANGES: usize = 64;
/// Layers of files that a lab can have, by the numbers that the kernel gives them.
pub const LAB_DEVICES: usize = 4096;

/// Files of a process in /proc that are the lab's.
pub const LAB_PROCESS_FILES: [&str; 11] = [
    "stat",
    "statm",
    "status",
    "smaps",
    "smaps_rollup",
    "schedstat",
    "io",
    "maps",
    "mountinfo",
    "sched",
    "oom_score",
];
/// Words of a set of processors: as many as the kernel knows of.
pub const LAB_PROCESSOR_WORDS: usize = 128;

/// Where the device of a layer stands in [`Lab::devices`]; `None`: it is of a disk, or its number is too large.
pub fn layer_index(device: u64) -> Option<usize> {
    // As makedev(3) has it: devices that the kernel numbers by itself have the major number 0.
    const MAJOR_BITS: u64 = 0xffff_f000_000f_ff00;
    let minor = (device & 0xff | device >> 12 & 0xffff_ff00) as usize;
    (device & MAJOR_BITS == 0 && minor < LAB_DEVICES).then_some(minor)
}

/// What changed of a file, bits. Kept in [`LabChange::what`].
pub mod lab_change {
    /// Its content.
    pub const CONTENT: u64 = 1;
    /// It came to be.
    pub const CREATED: u64 = 2;
    /// The time of its content was set to [`LabChange::content_ns`](super::LabChange::content_ns).
    pub const DATED: u64 = 4;
}

/// A change of a file.
#[repr(C)]
pub struct LabChange {
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// See [`lab_change`]; none of them: only what the inode says changed.
    pub what: AtomicU64,
    /// The lab's time.
    pub at_ns: AtomicU64,
    pub content_ns: AtomicU64,
}

/// State of a [`LabSlot`].
pub mod lab_state {
    pub const FREE: u32 = 0;
    /// Given to a thread that is about to be made.
    pub const RESERVED: u32 = 1;
    /// Its thread runs.
    pub const GRANTED: u32 = 2;
    /// Its thread waits for an answer.
    pub const ASKED: u32 = 3;
    /// Its thread said something and goes on by itself: it is ending, or waits in vfork(2).
    pub const SAID: u32 = 4;
}

/// Where the lab's time comes from. Kept in [`Lab::clock`].
pub mod lab_clock {
    /// [`Lab::now_ns`](super::Lab::now_ns).
    pub const VIRTUAL: u32 = 0;
    /// The machine's CLOCK_MONOTONIC, less [`Lab::real_from_ns`](super::Lab::real_from_ns).
    pub const REAL: u32 = 1;
    /// [`Lab::reads`](super::Lab::reads): what was read when the lab ran the first time.
    pub const AGAIN: u32 = 2;
}

/// What a thread asks for. Kept in [`LabSlot::question`].
pub mod lab_question {
    /// A thread or a process has begun.
    pub const START: u32 = 1;
    /// A new image has begun, by execve.
    pub const IMAGE: u32 = 2;
    /// A system call: number, six arguments, then what stands for the descriptor, and its flags.
    pub const CALL: u32 = 3;
    /// Until something changes in the node, or a time: when, how often it has looked in vain, the socket that it
    /// waits for, if it is for one alone, and not zero if it waits for children alone.
    pub const WAIT: u32 = 4;
    /// Until a time: when.
    pub const SLEEP: u32 = 5;
    /// Address, bits, when, not zero for a futex of processes.
    pub const FUTEX_WAIT: u32 = 6;
    /// Address, bits, how many, not zero for a futex of processes, and not zero if others may go on first.
    pub const FUTEX_WAKE: u32 = 7;
    /// Address, other address, how many to wake, how many to move, not zero for those of processes.
    pub const FUTEX_REQUEUE: u32 = 8;
    /// A slot for a thread that is about to be made.
    pub const RESERVE: u32 = 9;
    /// It was made, or not: slot, its id or 0, clone(2)'s flags.
    pub const BORN: u32 = 10;
    /// It is about to be made, by vfork(2): slot, clone(2)'s flags. The parent goes on by itself.
    pub const VFORK: u32 = 11;
    /// The parent of such a child has its memory back.
    pub const VFORKED: u32 = 12;
    /// The thread ends.
    pub const THREAD_EXIT: u32 = 13;
    /// The process ends.
    pub const EXIT: u32 = 14;
    /// Something was read of a stream, or written to it: what stands for it.
    pub const MOVED: u32 = 15;
    /// A signal was sent by this call: number, arguments.
    pub const SIGNALLED: u32 = 16;
    /// The time was read often, with no question in between: not zero if nobody else may run now, if the thread has
    /// made other calls since it asked last, if it only has no room for more reads of the machine's clock, if it has read
    /// no time, but made many calls, and if it can ask once more some steps on: how many, says the result.
    pub const SPINS: u32 = 17;
    /// A call of the lab's own programs: number, arguments.
    pub const OWN: u32 = 18;
    /// A file was looked at that is or has changed since the lab began: device, inode, when its content changed and
    /// when anything did, by the machine's clock. Answered by its number; `until_ns` and the first word: these times.
    pub const FILE: u32 = 19;
    /// There is no room for more changes of files.
    pub const CHANGES: u32 = 20;
    /// The thread, which computes, was preempted: where it is, not zero if it has made calls since it asked last, and
    /// a [`lab_preempted`](super::lab_preempted).
    pub const PREEMPTED: u32 = 21;
}

/// Why a thread was preempted where it is.
pub mod lab_preempted {
    /// By [`LAB_PREEMPTS`](super::LAB_PREEMPTS).
    pub const COMPUTES: u64 = 0;
    /// By [`LAB_LOOKS`](super::LAB_LOOKS): all rounds are the same one.
    pub const IN_CIRCLE: u64 = 1;
    /// So many steps on as [`lab_question::SPINS`](super::lab_question::SPINS) was answered.
    pub const ASIDE: u64 = 2;
}

/// How a question was answered. Kept in [`LabSlot::answer`].
pub mod lab_answer {
    /// By the result.
    pub const RESULT: u32 = 0;
    /// The kernel is to make the call.
    pub const KERNEL: u32 = 1;
    /// The kernel is to make the call, of a stream, and the engine to be told.
    pub const STREAM: u32 = 2;
    /// It has to wait, until the time in [`LabSlot::until_ns`](super::LabSlot::until_ns) at most.
    pub const WAIT: u32 = 3;
    /// The result, and a byte is to be taken off the descriptor.
    pub const TAKE: u32 = 4;
    /// A connection is there: a descriptor is to be made for it, and a byte taken off.
    pub const ACCEPT: u32 = 5;
    /// The time is over that was waited for.
    pub const TIMEOUT: u32 = 6;
    /// A signal may have come.
    pub const LOOK: u32 = 7;
}

/// Calls by which the lab's own programs ask the engine: numbers that no kernel has.
pub const LAB_CALL: u64 = 0xe700;
/// Of [`LAB_CALL`]: what the lab's first program does next.
pub const LAB_NEXT: u64 = LAB_CALL;
/// Of [`LAB_CALL`]: the process, and all that it makes, is of this node.
pub const LAB_ENTER: u64 = LAB_CALL + 1;
/// Of [`LAB_CALL`]: what an agent of a node does next.
pub const LAB_NODE_NEXT: u64 = LAB_CALL + 2;
/// Of [`LAB_CALL`]: a program of the node has ended: which, how.
pub const LAB_ENDED: u64 = LAB_CALL + 3;
/// Of [`LAB_CALL`]: a layer of files is there: its device, and that of what it lies on; or 0, and the error
/// with which it was refused.
pub const LAB_LAYER: u64 = LAB_CALL + 4;
/// Of [`LAB_CALL`]: the command of an event began (1) or ended (0), which has this id in its node; and, in the word's upper
/// half, the event's number or the exit status (128 and a signal's number).
pub const LAB_COMMAND: u64 = LAB_CALL + 5;
/// The last of [`LAB_CALL`].
pub const LAB_CALL_LAST: u64 = LAB_CALL + 15;

/// Code of the signal ([`crate::ASKING`]) by which the engine preempts a thread that computes.
pub const LAB_PREEMPTS: i32 = -82;
/// The same where the thread is preempted only if it computes in a circle.
pub const LAB_LOOKS: i32 = -83;
/// Calls that a thread makes without a question at which others go on, after which they do; one that found nothing
/// to do counts for [`LAB_VAIN_CALL`].
pub const LAB_CALLS: u32 = 512;
pub const LAB_VAIN_CALL: u32 = 32;

/// How many times as often a thread reads the time that makes other calls in between, before it is taken to wait.
pub const LAB_ACTING: u64 = 16;
/// No time.
pub const LAB_NEVER: u64 = u64::MAX;

/// The lab's part of a session's header.
#[repr(C)]
pub struct Lab {
    /// Not zero: the session is a lab.
    pub is_on: AtomicU32,
    /// Not zero: nobody answers any more, and who asks ends.
    pub is_over: AtomicU32,
    /// Not zero: computing takes no time, so the clock stands while threads run.
    pub cpu_is_free: AtomicU32,
    /// Not zero: a process that ends waits until its memory was looked at.
    pub sums_memory: AtomicU32,
    /// The lab's clock, since the lab began.
    pub now_ns: AtomicU64,
    /// Processor time of the process whose thread runs.
    pub processor_ns: AtomicU64,
    /// See [`lab_clock`].
    pub clock: AtomicU32,
    /// How often the thread that runs has read the machine's clock.
    pub reads_count: AtomicU32,
    /// What it read, or where the lab runs again is to read.
    pub reads: [AtomicU64; LAB_READS],
    /// Of a real clock: CLOCK_MONOTONIC at the lab's time zero, less the time that the lab stood.
    pub real_from_ns: AtomicU64,
    /// CLOCK_MONOTONIC when the lab began.
    pub monotonic_ns: AtomicU64,
    /// The machine's CLOCK_REALTIME before the lab's first file was made.
    pub machine_began_ns: AtomicU64,
    /// CLOCK_REALTIME when the lab began.
    pub realtime_ns: AtomicU64,
    pub seed: AtomicU64,
    /// How many of `changes` there are.
    pub changes_count: AtomicU32,
    pub changes: [LabChange; LAB_CHANGES],
    /// Devices of layers of files, by their number: the device of what they lie on.
    pub devices: [AtomicU64; LAB_DEVICES],
    /// The processors that nodes are told of, a bit each. The lab itself runs on one of them.
    pub processors: [AtomicU64; LAB_PROCESSOR_WORDS],
    /// Streams whose program sent last what is held for more (MSG_MORE): before anything is sent the engine is told.
    pub held: AtomicU32,
    /// Not zero: a stream is to wait when it is closed (SO_LINGER).
    pub lingers: AtomicU32,
    /// Counts questions; a futex word.
    pub doorbell: AtomicU32,
    /// Not zero: the engine sleeps on the doorbell, or is about to.
    pub sleeps: AtomicU32,
    pub slots: [LabSlot; LAB_SLOTS],
}

impl Lab {
    /// The device that a node is told of: that of what a layer lies on in place of the layer's own.
    pub fn below_layer(&self, device: u64) -> u64 {
        let below = layer_index(device).map_or(0, |index| self.devices[index].load(Ordering::Relaxed));
        if below == 0 { device } else { below }
    }
}

/// A thread's questions and answers.
#[repr(C, align(64))]
pub struct LabSlot {
    /// See [`lab_state`]; a futex word.
    pub state: AtomicU32,
    /// Not zero: its thread sleeps on the state, or is about to.
    pub sleeps: AtomicU32,
    /// See [`lab_question`].
    pub question: AtomicU32,
    /// See [`lab_answer`].
    pub answer: AtomicU32,
    /// The process, as the supervisor sees it.
    pub pid: AtomicI32,
    pub tid: AtomicI32,
    /// Not zero: it has made calls since its last question.
    pub acted: AtomicU32,
    /// What the engine asked by the signal that is on its way: [`LAB_PREEMPTS`], [`LAB_LOOKS`]. The kernel loses that of a
    /// user whose queue of signals is full (RLIMIT_SIGPENDING).
    pub asked: AtomicI32,
    pub result: AtomicI64,
    pub until_ns: AtomicU64,
    pub words: [AtomicU64; LAB_WORDS],
}
