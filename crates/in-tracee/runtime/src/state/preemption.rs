//! The preemption of a thread, and the replay trap of a process; see `preemption`.

use crate::ground::decode::JUMP_BYTES;
use runtime_logic::accesses::Change;
use runtime_logic::circles::Named;
use runtime_logic::registers::REGISTER_WORDS;

/// State of pausing in a thread.
#[repr(C)]
#[derive(Default)]
pub struct Preemption {
    pub timer: Timer,
    /// See `private_futexes`.
    pub wake_timer: Timer,
    pub watching: Watching,
    /// The thread's processor time when it was last let run on, in nanoseconds.
    pub watched_from_ns: u64,
    /// Where it was then.
    pub watched_at: Stand,
    /// Nanoseconds spent on the preemption at hand so far.
    pub spent_ns: u64,
    pub stepping: bool,
    /// Where the step at hand began, also one of the replay trap's; 0: none is.
    pub stepped_from: u64,
    /// Steps that stand for a timer that there is not, or lead aside.
    pub steps_left: u32,
    /// From the boundary at hand on, the thread is to be preempted so many steps on; 0: it is not.
    pub aside: u32,
    /// With chaos: how often by chance so far.
    pub asides: u32,
    /// How many steps that was, and the thread's processor time when its way to the preemption at hand
    /// began; 0: not looked at.
    pub aside_steps: u32,
    pub way_from_ns: u64,
    pub way_aside: WayAside,
    /// The step at hand leads over an instruction that a breakpoint of chaos was at.
    pub steps_over: bool,
    /// What the thread, which is preempted in the middle of an instruction, does when it goes on.
    pub change: Option<Change>,
    /// In a lab: the engine preempts it.
    pub is_preempted: bool,
    /// It has got there: others are to hold the token, even if they have not asked for it yet.
    pub is_aside: bool,
    /// The search for a place to preemption.
    pub search: Search,
    /// Address of a breakpoint behind a repeated instruction that is let finish;
    /// 0: none.
    pub passing: u64,
    pub passed_byte: u8,
    pub success: Success,
    /// In a lab: whether it computes in a circle.
    pub circle: Circle,
}

/// A look at whether a thread computes in a circle; see `circles`.
#[repr(C)]
#[derive(Default)]
pub struct Circle {
    pub phase: Phase,
    pub steps: u32,
    /// The registers with which the look began.
    pub start: [u64; REGISTER_WORDS],
    pub vectors: u64,
    /// The least sum of a state at which the thread can be preempted, and how often it was seen; 0: none was.
    pub least: u64,
    pub least_times: u32,
    /// From one time at which the registers were those of the start to the next: what memory was named, with what in it.
    pub sum: u64,
    /// The same of the times before.
    pub rounds: Rounds,
    /// What the step at hand names.
    pub named: Named,
    pub fs_base: u64,
    /// The thread is preempted, in a circle.
    pub is_found: bool,
}

/// How often the registers may come back to what they were until memory does: an inner loop may count in memory.
pub const ROUNDS_MAX: usize = 128;

#[repr(C)]
pub struct Rounds {
    pub count: usize,
    pub sums: [u64; ROUNDS_MAX],
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { count: 0, sums: [0; ROUNDS_MAX] }
    }
}

#[repr(u8)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    None,
    Rounds,
    /// On the way to the least state.
    ToLeast,
}

/// A thread's POSIX timer, made when it is set first.
#[repr(C)]
#[derive(Default)]
pub struct Timer {
    /// Its id, plus one; 0: there is none.
    pub id: u32,
    pub armed: bool,
}

/// What the program is watched for before it is preempted.
#[repr(u8)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Watching {
    #[default]
    Nothing,
    /// Words of the pages that are known to change.
    Known,
    Pages,
    Words,
    /// Whether it gets anywhere.
    Spin,
    /// The same, as soon as who gave it the token waits.
    SpinSoon,
}

/// Where a program was seen: the instruction pointer, and a sum of the registers that
/// such a loop leaves alone.
#[repr(C)]
#[derive(Default)]
pub struct Stand {
    pub place: u64,
    pub registers: u64,
}

/// How far a thread is on its way from a boundary to a place some steps on.
#[repr(u8)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum WayAside {
    #[default]
    None,
    /// Still in the runtime, which leaves.
    Leaves,
    Steps,
}

/// A search step by step.
#[repr(C)]
#[derive(Default)]
pub struct Search {
    pub steps: u32,
    /// Where to preemption, if a step comes there; 0: not chosen yet.
    pub goal: u64,
    /// Steps towards a goal that was known before; 0: it is not, or was not met.
    pub known_left: u32,
    /// Any place will do.
    pub is_over: bool,
    /// Steps before any place is looked at.
    pub wandering: u32,
}

/// What looking at a thread was good for so far.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Success {
    /// How often all looks were in vain, one time after the other.
    pub futile: u32,
    /// Asks that pass, and how many did the last time.
    pub passing: u32,
    pub passed: u32,
}

/// A planted replay trap.
#[repr(C)]
pub struct ReplayTrap {
    /// Where; 0: none is planted.
    pub address: u64,
    pub stub: u64,
    /// Nobody looks at the flags that the program comes with: they are neither kept by the
    /// stub nor compared.
    pub flags_are_dead: bool,
    /// The stub has memory of its own.
    pub stub_mapped: bool,
    pub original: [u8; JUMP_BYTES],
    pub conditions: [Condition; CONDITIONS],
    /// What these are compared with.
    pub wanted: [u64; CONDITIONS],
    pub next_condition: usize,
    /// The range of memory that differed last.
    pub last_range: u64,
    /// The program can write to its code here.
    pub writable: bool,
    pub stepping_over: bool,
    /// No jump is wanted.
    pub wants_breakpoint: bool,
    pub guard: Guard,
    /// By a step, the program's write to what the guard protects is let through, or what was led to
    /// by a step over the breakpoint changed code: then something is planted again.
    pub steps_to_put_down: bool,
    /// Under the debugger: nothing is planted at the moment.
    pub lifted: bool,
}

#[derive(Clone, Copy)]
pub enum Condition {
    Free,
    Register(u8),
    Word(u64),
    /// The lower half of a vector register, and the upper one of its first 16 bytes.
    Vector(u8),
    VectorHigh(u8),
    /// A significand of the floating-point stack, counted from its top.
    Float(u8),
}

/// Words that a stub compares in line.
pub const CONDITIONS: usize = 16;

#[derive(Clone, Copy, Default)]
pub struct Guard {
    /// What the replay trap covers.
    pub covered: u64,
    pub covered_end: u64,
    /// Writes beside what is covered since the replay trap was made.
    pub passes: u32,
    /// The code's memory is shared: others may see it.
    pub is_shared: bool,
    pub views: [View; VIEWS_MAX],
    pub views_count: usize,
}

/// Where the program can write to the code: there itself, or where the same memory is mapped.
#[derive(Clone, Copy, Default)]
pub struct View {
    /// Addresses that show code.
    pub start: u64,
    pub end: u64,
    /// By how much they are behind those of the code, modulo 2^64.
    pub distance: u64,
    pub executable: bool,
    /// The protected pages; empty: none is.
    pub closed: u64,
    pub closed_end: u64,
}

/// Most views of the code through which the program can write to it.
pub const VIEWS_MAX: usize = 5;
