//! The session's header and the lanes' headers.

use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

use crate::agent::Agent;
use crate::imports::Imports;
use crate::lab::Lab;
use crate::layout::{RECIPES_BYTES, SEGMENTS};
use crate::live::{CHECKPOINTS_MAX, Change, Checkpoint, Command, Missing, RECOVER_WAYS_MAX};
use crate::output_places::OutputPlaces;
use crate::outside_files::OutsideFiles;
use crate::ring::Ring;
use crate::runtime_log::RuntimeLog;
use crate::together::{SHARED_FILES_MAX, SharedFile, Together};
use crate::token::ExecutionToken;
use crate::token_sleepers::TokenSleepers;
use crate::unlogged_deaths::UnloggedDeaths;
use crate::written_files::WrittenFiles;

/// Value of [`Session::magic`]: "rvlane" and the version of this layout.
pub const SESSION_MAGIC: u64 = 0x7276_6c61_6e65_000a;

/// What the session does. Kept in [`Session::mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    Record = 1,
    Replay = 2,
}

/// How system calls of the program reach the runtime. Kept in [`Session::interception`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Interception {
    /// Syscall user dispatch (Linux 5.11).
    UserDispatch = 1,
    /// A seccomp filter that returns RET_TRAP outside of the runtime.
    Seccomp = 2,
}

/// How the effects of calls that nobody described are found. Kept in
/// [`Session::detection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Detection {
    /// By write protection, or where that is refused by sums.
    #[default]
    Best = 0,
    /// By asynchronous write protection only (Linux 6.7).
    WriteProtection = 1,
    /// By sums of all pages only.
    Sums = 2,
}

/// How many who were killed are known.
pub const KILLED_MAX: usize = 64;
/// Whoever it was: a group of all processes, or one that has another number for the supervisor.
pub const KILLED_ANYONE: i32 = i32::MIN;

/// Holdings of the token in which threads only waited, as for a lock whose holder releases the token with
/// the lock.
#[repr(C)]
pub struct IdleTokens {
    pub in_a_row: AtomicU32,
    /// Releases at a boundary since one was given elsewhere.
    pub at_boundaries: AtomicU32,
    /// Boundaries in a row that came before the token could be given elsewhere.
    pub tries: AtomicU32,
    /// One was given elsewhere, and it is not known yet whether that helped.
    pub is_tried: AtomicU32,
    /// Times in a row that it did not.
    pub strikes: AtomicU32,
}

/// Most switches that one recording can force.
pub const FORCED_MAX: usize = 128;

/// Where a switch to another thread is forced. Kept in [`ForcedSwitch::place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum ForcedPlace {
    /// Before the instruction at an address.
    Instruction = 1,
    /// The same, but one that reads and writes memory has read.
    InInstruction = 2,
    /// Before a call.
    Call = 3,
}

/// A switch to another thread, of the same process or of another, that recording forces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ForcedSwitch {
    /// Which process.
    pub lane: u32,
    /// Which of the process's threads releases the token.
    pub thread: u32,
    /// A [`ForcedPlace`].
    pub place: u32,
    /// Of the instruction.
    pub address: u64,
    /// Which of the thread's executions of it, or of its calls while there are several threads; from 1 on.
    pub ordinal: u64,
}

/// Threads of a recording whose schedule is given, at most; further ones acquire the token as usual.
pub const SCHEDULED_THREADS: usize = 256;

/// A thread of a recording whose schedule is given, as the others see it.
#[repr(C)]
pub struct ScheduledThread {
    /// [`crate::thread_identity`]; 0: nobody.
    pub identity: AtomicU64,
    /// Its id; 0: it has yet to begin.
    pub tid: AtomicI32,
    /// It waits for the token.
    pub wants: AtomicU32,
    /// It released the token where that was forced, when the token had changed so often, plus one; 0: it did not.
    pub away_since: AtomicU32,
    /// How often the token had changed when it last had it.
    pub had_at: AtomicU32,
}

/// Which streams of a replay are real.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RealStreams {
    #[default]
    None = 0,
    /// What is written may be.
    Outputs = 1,
    /// What is read, too: what the program sends then depends on it.
    Inputs = 2,
}

/// Lanes whose order on real streams is kept.
pub const REAL_LANES: usize = 4096;

/// Shared by all processes of a session; zeroed before the supervisor fills it.
#[repr(C, align(4096))]
pub struct Session {
    pub magic: u64,
    /// A [`Mode`].
    pub mode: u32,
    /// An [`Interception`].
    pub interception: u32,
    /// Pid of the supervisor, to notice its death and to permit its ptrace.
    pub supervisor_pid: i32,
    /// Not zero: the memory is a file with a name, of which pages may be touched only where it
    /// has room on the disk.
    pub has_file: u32,
    /// The memfd's, or file's, number in traced processes.
    pub control_fd: AtomicI32,
    /// Recording: not zero once the supervisor has the byte [`crate::LIFE_LOCK`] locked, which tells
    /// its end also while its parent has not waited for it.
    pub life_is_locked: AtomicU32,
    /// Not zero: cpuid can be made to fault here.
    pub cpuid_faulting: u32,
    /// Not zero: programs may read and write the gs base (rdgsbase), as the kernel says.
    pub reads_gs_base: u32,
    /// Not zero: Yama restricts ptrace, so the supervisor has to be permitted.
    pub yama: u32,
    /// Checksum memory every so many events; 0: never.
    pub check_every_events: u32,
    /// Not zero: no site is rewritten (for tests and for finding faults).
    pub rewriting_off: u32,
    /// A [`Detection`].
    pub detection: u32,
    /// Not zero: described calls are treated as if nobody had described them (for
    /// tests of the detection).
    pub detect_all: u32,
    /// Recording: what the choices of chaos are drawn from; 0: no chaos.
    pub chaos_seed: u64,
    /// Recording: not zero where threads are switched only where they wait, and at `forced`.
    pub is_scheduled: u32,
    pub forced_count: u32,
    pub forced: [ForcedSwitch; FORCED_MAX],
    /// With `is_scheduled`: those who share the token.
    pub scheduled: [ScheduledThread; SCHEDULED_THREADS],
    /// Recording: not zero where of some files only a digest is kept.
    pub refers: u32,
    /// Recording: not zero where processes can go back in time.
    pub live: u32,
    /// What the runtime says of itself: [`crate::LogSubject`]s.
    pub runtime_log_mask: u32,
    /// With `live`: what is done where a process would die, a [`crate::crash_policy`].
    pub on_crash: u32,
    /// With `live`: how often a process may go back instead of dying.
    pub recoveries_max: u32,
    /// With `live`: signals from outside, of which a process would die, that come to the runtime
    /// first, so that the past is saved.
    pub saved_signals: u64,
    /// With `live`: how it then goes on, one [`crate::recover_way`] after the other.
    pub recover_ways: [u32; RECOVER_WAYS_MAX],
    /// With `live`: how checkpoints are made, a [`crate::checkpoint_way`].
    pub checkpoint_way: u32,
    /// With `live`: what a rollback does with regular files, a [`crate::files_policy`].
    pub files_policy: u32,
    /// With `live`: what processes do that share memory, a [`crate::sharing_policy`].
    pub sharing_policy: u32,
    /// Not zero: recording stops, a `StopReason`; processes go on unrecorded.
    pub stop: AtomicU32,
    /// Not zero: the seccomp filter is installed already (it survives execve).
    pub filter_installed: AtomicU32,
    /// Counts what the runtime wants the supervisor to look at; a futex word.
    pub doorbell: AtomicU32,
    /// Counts requests to attach for execve; a futex word.
    pub attach_doorbell: AtomicU32,
    /// Counts requests to keep a file; a futex word.
    pub keep_doorbell: AtomicU32,
    /// The next lane's id.
    pub next_lane: AtomicU32,
    /// The number of the next token; its place is that modulo [`TOKENS`].
    pub next_token: AtomicU32,
    /// Recording: the lane that joins another's token, plus one; 0: none does.
    pub joining: AtomicU32,
    /// Recording: tokens in vain; see [`IdleTokens`].
    pub idle_tokens: IdleTokens,
    /// The next output's place in the order of all outputs (recording); the
    /// output whose turn it is (replay).
    pub output_order: AtomicU64,
    /// Counts changes of `output_order` in replay; a futex word.
    pub output_wake: AtomicU32,
    /// Recording: id of the thread that is writing an output, so that the order of
    /// the writes is the order that is logged; 0: none. A futex word.
    pub output_writer: AtomicU32,
    /// Recording: threads that wait to write an output; some may be gone.
    pub output_waiters: AtomicU32,
    /// Not zero in replay: streams may be real, as the replayer adds it to events; 2: inputs, too.
    pub is_real: u32,
    /// Replay: a bit for each lane that did all that it does with real streams, and a word to wait for more.
    pub real_done: [AtomicU64; REAL_LANES / 64],
    pub real_wake: AtomicU32,
    /// Not zero in replay: outputs are shown.
    pub show_output: u32,
    /// Descriptors in replaying processes that outputs go to: for stdout, for stderr.
    pub output_fds: [i32; 2],
    /// Where in a regular file they go, for stdout, for stderr; for both where they are one file.
    pub output_places: [OutputPlaces; 2],
    /// Replay: outputs that belong in a place where they cannot be shown.
    pub outputs_misplaced: AtomicU32,
    /// Standard input, output and error of the recorded program, to tell what
    /// reaches them: device, inode, rdev, mode.
    pub standard_files: [StandardFile; 3],
    /// Replay: length of `files_dir`.
    pub files_dir_bytes: u32,
    /// Replay: a lane that no process is to follow has its bit cleared, for lanes
    /// below the bitmap's size, if `lane_filter` is not zero.
    pub lane_filter: u32,
    /// Replay: the only lane whose outputs are shown, if `lane_filter` is not zero.
    pub shown_lane: u32,
    pub wanted_lanes: [u64; 1024],
    /// Replay: the lane that is debugged, plus one; 0: none.
    pub debugged_lane: u32,
    /// Replay: the folder of kept files, where each is named by its hash in hex.
    pub files_dir: [u8; 4096],
    /// Segments in use, a bit each.
    pub segments: [AtomicU64; SEGMENTS / 64],
    /// With `has_file`: segments that have room on the disk, a bit each.
    pub segments_with_room: [AtomicU64; SEGMENTS / 64],
    /// Recording: counts for each segment how often its process got new memory or
    /// ended; futex words.
    pub gone: [AtomicU32; SEGMENTS],
    /// Recording: who is to have a segment, will share memory, and has no token yet: the
    /// process, or the one that makes it, negated; 0: nobody.
    pub unborn: [AtomicI32; SEGMENTS],
    /// Recording: whom processes of the recording killed by SIGKILL, the latest of them: a process;
    /// a group, negated; [`KILLED_ANYONE`]; 0: nobody.
    pub killed: [AtomicI32; KILLED_MAX],
    /// The next place there, modulo their number.
    pub next_killed: AtomicU32,
    /// The tokens of lanes; a lane's own is at its number modulo this many.
    pub tokens: [ExecutionToken; TOKENS],
    /// Live: what processes that share memory do together.
    pub together: Together,
    /// Replay under the debugger: what the others of a group wrote.
    pub imports: Imports,
    /// Recording: what was written to files that somebody has mapped.
    pub written_files: WrittenFiles,
    /// Recording: whose memory somebody may write that the logs do not follow.
    pub outside_files: OutsideFiles,
    /// Recording: who died with a token, and nobody told.
    pub unlogged_deaths: UnloggedDeaths,
    /// Recording: files of which processes share the memory.
    pub shared_files: [SharedFile; SHARED_FILES_MAX],
    /// Replay: length of `objects_dir`.
    pub objects_dir_bytes: u32,
    /// Replay: the folder of the files that stand for shared memory.
    pub objects_dir: [u8; 256],
    pub lab: Lab,
    /// What cpuid answers.
    pub processor: [CpuidAnswer; PROCESSOR_ANSWERS],
    /// Kept files. A file's id is its index here.
    pub files: [KeptFile; FILES_MAX],
    /// How much the site of each recipe is used; the runtime's own counting.
    pub site_uses: [AtomicU8; RECIPES_MAX],
    pub runtime_log: RuntimeLog,
}

/// Tokens that a session has.
pub const TOKENS: usize = 1 << 15;

/// State of a [`CpuidAnswer`].
pub mod cpuid_state {
    pub const FREE: u32 = 0;
    /// Somebody fills it in.
    pub const CLAIMED: u32 = 1;
    pub const READY: u32 = 2;
}

/// Answers of cpuid that a session keeps.
pub const PROCESSOR_ANSWERS: usize = 128;

/// What cpuid answers to a leaf and subleaf, on any processor.
#[repr(C)]
pub struct CpuidAnswer {
    /// See [`cpuid_state`].
    pub state: AtomicU32,
    pub leaf: AtomicU32,
    pub subleaf: AtomicU32,
    /// eax, ebx, ecx, edx.
    pub words: [AtomicU32; 4],
}

/// Recipes that there is room for.
pub const RECIPES_MAX: usize = RECIPES_BYTES as usize / size_of::<Recipe>();

/// Files that a session can keep.
pub const FILES_MAX: usize = 16384;

/// Identity of a standard file.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandardFile {
    pub device: u64,
    pub inode: u64,
    pub raw_device: u64,
    /// 0 where the descriptor was closed.
    pub mode: u64,
}

/// State of a [`KeptFile`].
pub mod file_state {
    /// The slot is free.
    pub const FREE: u32 = 0;
    /// Someone claimed the slot and is filling in the key.
    pub const CLAIMED: u32 = 1;
    /// The key is there; the supervisor is asked to keep the content.
    pub const ASKED: u32 = 2;
    /// The content is kept.
    pub const KEPT: u32 = 3;
    /// The content could not be kept: log it instead.
    pub const FAILED: u32 = 4;
}

/// A file whose content the session keeps. Recording finds it by key (open
/// addressing from a hash of device and inode); replay by id.
#[repr(C)]
pub struct KeptFile {
    /// See [`file_state`]; a futex word.
    pub state: AtomicU32,
    /// Recipes of the file's sites: how many; valid once `recipes_ready`.
    pub recipe_count: AtomicU32,
    /// Index of the first in the area of recipes.
    pub recipe_first: AtomicU32,
    /// Not zero once the recipes may be used.
    pub recipes_ready: AtomicU32,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    pub size_bytes: AtomicU64,
    pub mtime_ns: AtomicU64,
    pub ctime_ns: AtomicU64,
    /// How often its code was mapped.
    pub mapped: AtomicU32,
    pub _reserved: u32,
    /// BLAKE3 of the content.
    pub hash: [u8; 32],
}

/// What a recipe rewrites.
pub mod site_kind {
    /// `syscall` (or `sysenter`/`int 0x80`, which are never rewritten).
    pub const SYSCALL: u8 = 1;
    pub const RDTSC: u8 = 2;
    pub const RDTSCP: u8 = 3;
    pub const RDRAND: u8 = 4;
    pub const RDSEED: u8 = 5;
    pub const CPUID: u8 = 6;
    /// Bytes that look like one of these, or are data: the first of such in a page.
    pub const UNSURE: u8 = 7;
    pub const XSAVEC: u8 = 8;
    /// `wrgsbase`, or bytes that look like it: the first of such in a part of the file.
    pub const SETS_GS: u8 = 9;
    /// `pause`, or what stands for it: nops in a loop that only looks at memory.
    pub const SPIN: u8 = 10;
    pub const RDPID: u8 = 11;
    /// The file names the vsyscall page; where is not said.
    pub const VSYSCALL: u8 = 12;
    /// The branch, of two bytes, at the end of a loop that does nothing but look at memory.
    pub const IDLE_LOOP: u8 = 13;
    /// The same of a loop that ends itself, by counting up to a number in memory. Only replay of traces of the formats
    /// 12 and 13 counts their rounds, as IDLE_LOOP.
    pub const COUNTING_LOOP: u8 = 14;

    /// True of the places where a thread waits for another one.
    pub const fn is_spin(kind: u8) -> bool {
        matches!(kind, SPIN | IDLE_LOOP | COUNTING_LOOP)
    }
}

/// How one site of a file is rewritten: found outside, by disassembly, once for
/// each content. Sorted by `site_offset` within a file.
///
/// At run time the trampoline is: `before` bytes of `code` (instructions that the
/// jump covers ahead of the site), the call of the runtime, `after` bytes of
/// `code` (instructions that the jump covers behind the site), a jump back.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Offset in the file of the instruction itself.
    pub site_offset: u32,
    /// A [`site_kind`].
    pub kind: u8,
    /// Length of the site's instruction in bytes.
    pub site_bytes: u8,
    /// The 5-byte jump starts this many bytes ahead of the site; equals `before`.
    pub before: u8,
    /// Bytes of covered instructions behind the site. 0 with `before` 0: the site
    /// cannot be rewritten safely and goes on trapping.
    pub after: u8,
    /// Place in `code` of a 32-bit displacement relative to the instruction
    /// pointer, to be moved by the distance between origin and copy; 0xff: none.
    /// One at most ahead of the site and one behind it.
    pub fixup_before: u8,
    /// End of that instruction in `code` (the displacement counts from there).
    pub fixup_before_end: u8,
    pub fixup_after: u8,
    pub fixup_after_end: u8,
    /// The covered instructions: `before` bytes, then `after` bytes.
    pub code: [u8; 36],
}

const _: () = assert!(size_of::<Recipe>() == 48);

/// State of a lane.
pub mod lane_state {
    /// The segment is free, or a parent took it for a child that has not begun.
    pub const UNBORN: u32 = 0;
    /// A process writes or reads the log.
    pub const LIVE: u32 = 2;
    /// The log is complete.
    pub const ENDED: u32 = 3;
    /// Replay: the process stands still and a report is in the header.
    pub const REPORTED: u32 = 4;
}

/// What a runtime asks of the supervisor.
pub mod request {
    /// No request, or answered.
    pub const NONE: u32 = 0;
    /// Attach, because an execve follows.
    pub const ATTACH: u32 = 1;
    /// The execve failed: let go. The process stops itself by a signal.
    pub const RELEASE: u32 = 2;
    /// Keep the file open at `arguments[0]` under the id `arguments[1]`.
    pub const KEEP: u32 = 3;
    /// The supervisor has answered; `answer` holds 0 or an errno.
    pub const ANSWERED: u32 = 4;
    /// Live: feed the log again from the position `arguments[0]` on.
    pub const REWIND: u32 = 5;
    /// Live: forget the log from the position `arguments[0]` on, and send what is to be given back
    /// over the socket `arguments[1] >> 32`. `arguments[3]` is the checkpoint; if this comes in place
    /// of a crash, the lower half of `arguments[1]` is a [`recover_way`](crate::recover_way), and
    /// `arguments[2]` the signal.
    pub const BRANCH: u32 = 6;
    /// Live: the log was fed to its end; what comes now is new.
    pub const PRESENT: u32 = 7;
    /// Live: the process would die of signal `arguments[0]` now.
    pub const CRASH: u32 = 8;
    /// Live: the program changes a file, as the lane's `change` says.
    pub const CHANGE: u32 = 9;
    /// Live: the process's code was not changed, for the reason `arguments[0]`.
    pub const UNCHANGED: u32 = 10;
    /// Live: all processes of the lane shall do what [`crate::Together`] says; 0 once they
    /// have their commands, EAGAIN if one has another command, EBUSY or ESRCH if they are not
    /// those of the checkpoint.
    pub const TOGETHER: u32 = 11;
    /// Live: whether the log reaches back to the position `arguments[0]`.
    pub const REACHES: u32 = 12;
    /// Live: what a rollback to the checkpoint `arguments[0]` would not restore, or if
    /// `arguments[1]` is not zero what the last one did not: as text in a file of the lane's.
    pub const LOST: u32 = 13;
    /// Which process it is that has locked the byte of the session's file that its segment's
    /// number names (fcntl(2), F_SETLK): the answer is its id as the supervisor sees it.
    pub const IDENTIFY: u32 = 14;
    /// Live: opens what `arguments[0]`, one of [`crate::lent`], and the two behind it name, and sends
    /// it over the process's socket `arguments[3]`. For processes whose user or root may not open
    /// it.
    pub const LEND: u32 = 15;
    /// Live: ends the process's shadow `arguments[0]`, which it may not.
    pub const END_SHADOW: u32 = 16;
    /// Keep the content of the file open at `arguments[0]` of the process `arguments[2]`, of which
    /// it read `arguments[1]` bytes: 0 if it is kept now, EAGAIN if it is not (yet).
    pub const REFER: u32 = 17;
}

/// One outstanding request of a lane.
#[repr(C)]
pub struct Request {
    /// See [`request`]; a futex word.
    pub state: AtomicU32,
    pub answer: AtomicI32,
    pub arguments: [AtomicU64; 4],
}

/// Most ranges of initial memory and of executable maps that a birth names.
pub const BIRTH_RANGES: usize = 24;

/// What the injector tells a newborn image. Written while the process stands.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Birth {
    pub entry: u64,
    pub stack_pointer: u64,
    /// The 8 bytes at the entry point that the injector overwrote.
    pub entry_word: u64,
    /// Protection of the page that holds the entry point (PROT_*).
    pub entry_protection: u32,
    /// Slot of `ranges` in use: memory to log, because files do not hold it.
    pub range_count: u32,
    pub ranges: [MemoryRange; BIRTH_RANGES],
    pub code_count: u32,
    /// Not zero: there is code of a file that could not be kept, of which no recipe knows.
    pub unknown_code: u32,
    pub code: [CodeMap; BIRTH_RANGES],
    /// Where [`OWN_VDSO_BYTES`] of the runtime's vDSO go; 0: nowhere.
    pub vdso: u64,
}

/// Bytes of the vDSO that the program sees, which is the runtime's.
pub const OWN_VDSO_BYTES: u64 = 4096;

/// A range of memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryRange {
    pub start: u64,
    pub end: u64,
}

/// Executable memory that a kept file backs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeMap {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub file: u32,
    /// PROT_* bits.
    pub protection: u32,
}

/// Why a replaying process stands still. Kept in [`Report::kind`].
pub mod report_kind {
    pub const NONE: u32 = 0;
    /// The program did something else than the log says.
    pub const DIVERGENCE: u32 = 1;
    /// The log ended before the process did.
    pub const LOG_ENDED: u32 = 2;
    /// The process ended as recorded (exit).
    pub const EXITED: u32 = 3;
    /// The process died of a fault as recorded.
    pub const FAULTED: u32 = 4;
    /// The runtime itself failed: our bug.
    pub const FAILED: u32 = 5;
    /// Something that replay needs is missing (a kept file, memory).
    pub const MISSING: u32 = 6;
    /// Recording stopped here.
    pub const STOPPED: u32 = 7;
    /// Under the debugger: a copy goes without the others of its group, and cannot any more.
    pub const ALONE: u32 = 8;
}

/// In [`Report::got_number`]: a fault, of which `got` says the signal and where.
pub const GOT_FAULT: u64 = u64::MAX - 1;

/// What a replaying process reports when it stands still.
#[repr(C)]
pub struct Report {
    /// See [`report_kind`].
    pub kind: AtomicU32,
    /// Signal of a fault, exit code of an exit, errno of something missing.
    pub code: i32,
    /// Events that the lane has consumed.
    pub event: u64,
    /// Header and body start of the expected event.
    pub expected_header: u64,
    pub expected: [u64; 8],
    /// Number ([`GOT_FAULT`] or `u64::MAX` where it is no call) and arguments that came.
    pub got_number: u64,
    pub got: [u64; 8],
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15, rip, flags.
    pub registers: [u64; 18],
    pub text_bytes: u32,
    pub _reserved: u32,
    pub text: [u8; 512],
}

/// The header of a lane's segment.
#[repr(C, align(4096))]
pub struct LaneHeader {
    /// See [`lane_state`].
    pub state: AtomicU32,
    pub lane: AtomicU32,
    pub parent_lane: AtomicU32,
    /// Recording: as the supervisor sees it.
    pub pid: AtomicI32,
    /// Recording: as the process that made it sees it.
    pub waited_pid: AtomicI32,
    /// Recording: its namespace of process ids, named by a process in it; 0: the supervisor's.
    pub pid_space: AtomicU32,
    /// Recording in a lab: the slot of the thread that executes the next image.
    pub lab_slot: AtomicU32,
    /// Recording: not zero where its children may be in another one (unshare(2), setns(2)).
    pub children_apart: AtomicU32,
    /// Recording: not zero for a new image whose root somebody else may change.
    pub shares_root: AtomicU32,
    /// Replay: order of the output that the process waits to show, plus one; 0: none.
    pub waits_for_output: AtomicU64,
    /// The token that the process shares with others, plus one; 0: it is alone.
    pub token: AtomicU32,
    /// Threads of the process that its token counts among its sleepers.
    pub token_sleepers: TokenSleepers,
    /// Replay: the process has a ticket of that token.
    pub has_ticket: AtomicU32,
    /// Replay: the ticket.
    pub ticket: AtomicU64,
    /// Replay: ticket of the token that the process waits for; 0: none.
    pub waits_for_ticket: AtomicU64,
    /// Replay: events consumed, stored now and then, for progress.
    pub events_done: AtomicU64,
    /// Replay: how often breakpoints, watchpoints and steps of the debugger have held the program up.
    pub held_up: AtomicU64,
    /// What execve keeps of signals that only the runtime can hold back: the sets
    /// that are blocked, that wait, that are ignored.
    pub carried_signals: [u64; 3],
    /// Not zero: the program wants a fault where it reads the time stamp counter.
    pub carried_time: u32,
    /// Events of the log before the image at hand.
    pub carried_events: u64,
    /// Instructions and heads of the program's seccomp filters, which lie behind the ring while
    /// it executes another program, in bytes.
    pub carried_filters: u32,
    /// Not zero: the program asked for PR_SET_NO_NEW_PRIVS itself.
    pub carried_privileges: u32,
    /// Live: the id of the next checkpoint.
    pub next_checkpoint: AtomicU32,
    /// Live: counts images, so that shadows of earlier ones end.
    pub image: AtomicU32,
    /// Live: not zero while the log is fed to the process again.
    pub goes_again: AtomicU32,
    /// Live: how often the process went back instead of dying.
    pub recoveries: AtomicU32,
    /// Live: the signal that the process is about to die of, which somebody sent, while it
    /// waits for its past to be saved; a futex word.
    pub dying: AtomicU32,
    /// Recording: the log's end where it tells that the process is about to die: see
    /// `Ring::head`.
    pub told_death_at: AtomicU64,
    /// Recording: of the signals that a terminal sends and a process sent, who sent the last one
    /// that came (upper half), and how many came.
    pub interrupts: AtomicU64,
    /// Live: not zero while the process takes part (it has an agent).
    pub takes_part: AtomicU32,
    pub command: Command,
    pub checkpoints: [Checkpoint; CHECKPOINTS_MAX],
    /// A base that no checkpoint needs, and that may end: its process, or an [`crate::idle_base`].
    pub idle_base: AtomicI32,
    pub ring: Ring,
    pub request: Request,
    pub birth: Birth,
    pub report: Report,
    /// Replay under the debugger.
    pub agent: Agent,
    /// Live: how the program changes a file.
    pub change: Change,
    /// Live: descriptors that the last look at a way back found to be closed for good.
    pub missing: Missing,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LaneHeader>() as u64 <= crate::layout::LANE_HEADER_BYTES);
#[cfg(not(loom))]
const _: () = assert!(size_of::<Session>() as u64 <= crate::layout::SESSION_BYTES);
