//! Runs code of the test's own process in two ways: instruction by instruction with
//! the trap flag, which is the reference, and by the engine.
#![allow(dead_code)]

pub mod functions;
pub mod programs;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use translator::{ALIGNMENT, Engine, Goal, Host, MEMORY_BYTES, Outcome, State, VECTORS};

pub const TRAP_FLAG: u64 = 0x100;
/// Arithmetic flags and direction.
pub const STATE_FLAGS: u64 = 0x8d5 | 0x400;
const LEGACY_BYTES: usize = 512;
const XMM_AT: usize = 160;
const FEATURES_AT: usize = 512;
const YMM_AT: usize = 576;
const STACK_BYTES: usize = 256 * 1024;
pub const DATA_BYTES: usize = 64 * 1024;

/// One step of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub state: State,
    /// A sum over the vector registers.
    pub vectors: u64,
}

#[derive(Default)]
struct Tracing {
    start: Option<State>,
    end: u64,
    steps: Vec<Step>,
    steps_max: usize,
    saved: Option<([i64; 23], Vec<u8>)>,
    /// Eight bytes whose value each step keeps.
    watched: u64,
    words: Vec<u64>,
    /// The signal that ended it, if it is not that of a step.
    fault: i32,
    /// The engine that runs, if one does.
    engine_base: u64,
}

struct Global(UnsafeCell<Option<Tracing>>);
// SAFETY: used by one thread at a time: whoever has the lock.
unsafe impl Sync for Global {}
static TRACING: Global = Global(UnsafeCell::new(None));
static LOCK: Mutex<()> = Mutex::new(());
static HANDLERS: Once = Once::new();

fn tracing() -> &'static mut Tracing {
    // SAFETY: see `Global`.
    unsafe { (*TRACING.0.get()).get_or_insert_default() }
}

/// One memory for code, data and a stack of a program, and an engine.
pub struct Bench {
    pub code: u64,
    pub data: u64,
    stack: u64,
    pub engine: Engine,
    pub host: Plain,
    engine_base: u64,
    /// What the code's first bytes are at the start, where constants stand.
    pub constants: Vec<u8>,
    /// What the data is at the start.
    pub initial: Vec<u8>,
    _lock: MutexGuard<'static, ()>,
}

/// Reads code where it is.
#[derive(Default)]
pub struct Plain {
    pub is_unstable: bool,
}

impl Host for Plain {
    fn code(&mut self, address: u64, into: &mut [u8]) -> usize {
        // The kernel looks whether it can be read, page by page.
        let mut bytes = 0;
        while bytes < into.len() {
            let at = address + bytes as u64;
            let step = (into.len() - bytes).min((4096 - at % 4096) as usize);
            let local = libc::iovec { iov_base: into[bytes..].as_mut_ptr().cast(), iov_len: step };
            let remote = libc::iovec { iov_base: at as *mut _, iov_len: step };
            let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
            if read < step as isize {
                break;
            }
            bytes += step;
        }
        bytes
    }

    fn is_stable(&mut self, _: u64) -> bool {
        !self.is_unstable
    }
}

fn map(hint: u64, bytes: usize, protection: i32) -> u64 {
    let fixed = if hint != 0 { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let found = unsafe { libc::mmap(hint as *mut _, bytes, protection, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED);
    found as u64
}

impl Bench {
    pub fn new() -> Self {
        let lock = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        HANDLERS.call_once(install);
        alternate_stack();
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let engine_base = map(0, (MEMORY_BYTES + ALIGNMENT) as usize, all).next_multiple_of(ALIGNMENT);
        let code = map(0, 1 << 20, all);
        let data = map(0, DATA_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        let stack = map(0, STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        let mut engine = unsafe { Engine::new(engine_base, true) };
        engine.take_vectors();
        let initial = (0..DATA_BYTES).map(|index| (index * 7 + index / 256) as u8).collect();
        Bench {
            code,
            data,
            stack,
            engine,
            host: Plain::default(),
            engine_base,
            constants: Vec::new(),
            initial,
            _lock: lock,
        }
    }

    /// The state at the start of a program that ends at the address.
    pub fn start(&mut self, entry: u64, end: u64) -> State {
        unsafe {
            core::ptr::copy_nonoverlapping(self.initial.as_ptr(), self.data as *mut u8, DATA_BYTES);
            core::ptr::copy_nonoverlapping(
                self.constants.as_ptr(),
                self.code as *mut u8,
                self.constants.len(),
            );
            core::ptr::write_bytes(self.stack as *mut u8, 0, STACK_BYTES);
        }
        let mut state = State { rip: entry, flags: 0x202, ..State::default() };
        for (index, register) in state.general.iter_mut().enumerate() {
            *register = 0x1234_5678_9abc_def0u64.wrapping_mul(index as u64 * 2 + 1);
        }
        let top = self.stack + STACK_BYTES as u64 - 4096 - 8;
        unsafe { (top as *mut u64).write(end) };
        state.general[4] = top;
        state.general[3] = self.data;
        let vectors = self.vectors();
        fill_vectors(vectors);
        state
    }

    fn vectors(&mut self) -> &'static mut [u8] {
        let at = self.engine_base + u64::from(VECTORS);
        unsafe { core::slice::from_raw_parts_mut(at as *mut u8, 4096) }
    }

    /// Runs with the trap flag from the state to the address, and returns all states,
    /// the first and the last included.
    pub fn reference(&mut self, state: State, end: u64, steps_max: usize) -> Vec<Step> {
        let tracing = tracing();
        // The program may hold the lock of the memory that this would come from.
        let steps = Vec::with_capacity(steps_max + 2);
        let words = Vec::with_capacity(steps_max + 2);
        let watched = tracing.watched;
        *tracing =
            Tracing { start: Some(state), end, steps, steps_max, words, watched, ..Tracing::default() };
        unsafe { core::arch::asm!("int3") };
        core::mem::take(&mut tracing.steps)
    }

    /// The same, with the value that eight bytes of memory have at each step.
    pub fn reference_with_word(
        &mut self,
        state: State,
        end: u64,
        most: usize,
        address: u64,
    ) -> (Vec<Step>, Vec<u64>) {
        tracing().watched = address;
        let steps = self.reference(state, end, most);
        tracing().watched = 0;
        (steps, core::mem::take(&mut tracing().words))
    }

    /// The signal that the last reference ended with; 0: none.
    pub fn fault(&self) -> i32 {
        tracing().fault
    }

    /// Runs by the engine.
    pub fn run(&mut self, state: &mut State, limit: u64) -> Outcome {
        self.run_to(
            state,
            &Goal {
                limit,
                passes_breakpoint: false,
                passes_store: false,
                notes_stores: false,
                fs_base: fs_base(),
            },
        )
    }

    pub fn run_to(&mut self, state: &mut State, goal: &Goal) -> Outcome {
        tracing().engine_base = self.engine_base;
        let outcome = unsafe { self.engine.run(&mut self.host, state, goal) };
        tracing().engine_base = 0;
        INTERRUPTED.store(true, Ordering::Relaxed);
        outcome
    }

    /// What the engine's program has now.
    pub fn step_of(&mut self, state: &State) -> Step {
        let sum = vector_sum(self.vectors());
        Step { state: State { flags: state.flags & STATE_FLAGS, ..*state }, vectors: sum }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        unsafe {
            libc::munmap(self.engine_base as *mut _, MEMORY_BYTES as usize);
            libc::munmap(self.code as *mut _, 1 << 20);
            libc::munmap(self.data as *mut _, DATA_BYTES);
            libc::munmap(self.stack as *mut _, STACK_BYTES);
        }
    }
}

/// Sends the calling thread a signal, again and again until its engine has been
/// interrupted: one may come where it is lost.
pub fn interrupt_after_a_moment(bench: &Bench) -> std::thread::JoinHandle<()> {
    let thread = unsafe { libc::pthread_self() } as usize;
    INTERRUPTED.store(false, Ordering::Relaxed);
    tracing().engine_base = bench.engine_base;
    std::thread::spawn(move || {
        while !INTERRUPTED.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
        }
    })
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub fn fs_base() -> u64 {
    let base: u64;
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) base) };
    base
}

/// The same values in all vector registers, in either way of running.
fn fill_vectors(area: &mut [u8]) {
    for (index, byte) in area[XMM_AT..XMM_AT + 256].iter_mut().enumerate() {
        *byte = (index * 13) as u8;
    }
    area[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    area[FEATURES_AT] |= 3;
    if has_avx() {
        for (index, byte) in area[YMM_AT..YMM_AT + 256].iter_mut().enumerate() {
            *byte = (index * 29) as u8;
        }
        area[FEATURES_AT] |= 4;
    }
}

pub fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx2")
}

fn vector_sum(area: &[u8]) -> u64 {
    let features = area[FEATURES_AT];
    let mut sum = 0u64;
    let mut add = |bytes: &[u8], valid: bool| {
        for byte in bytes {
            let byte = if valid { *byte } else { 0 };
            sum = sum.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(byte) + 1);
        }
    };
    add(&area[XMM_AT..XMM_AT + 256], features & 2 != 0);
    if has_avx() {
        add(&area[YMM_AT..YMM_AT + 256], features & 4 != 0);
    }
    sum
}

// --- signals ---

fn alternate_stack() {
    const BYTES: usize = 256 * 1024;
    let stack = libc::stack_t {
        ss_sp: map(0, BYTES, libc::PROT_READ | libc::PROT_WRITE) as *mut _,
        ss_flags: 0,
        ss_size: BYTES,
    };
    unsafe { libc::sigaltstack(&stack, core::ptr::null_mut()) };
}

fn install() {
    for signal in [libc::SIGTRAP, libc::SIGSEGV, libc::SIGFPE, libc::SIGUSR1] {
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &action, core::ptr::null_mut());
        }
    }
}

/// Where each register is in a frame, in the processor's order.
const FRAME_ORDER: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

extern "C" fn on_signal(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let context = unsafe { &mut *context };
    let registers = &mut context.uc_mcontext.gregs;
    let area = unsafe { core::slice::from_raw_parts_mut(context.uc_mcontext.fpregs.cast::<u8>(), 832) };
    let tracing = tracing();
    if signal == libc::SIGUSR1 {
        if tracing.engine_base != 0 {
            unsafe { translator::interrupt(tracing.engine_base) };
        }
        return;
    }
    if let Some(start) = tracing.start.take() {
        tracing.saved = Some((*registers, area.to_vec()));
        set_state(registers, &start, TRAP_FLAG);
        fill_vectors(area);
        tracing.steps.push(step_of(registers, area));
        tracing.words.push(word(tracing.watched));
        return;
    }
    if tracing.engine_base != 0 {
        let mut general = FRAME_ORDER.map(|index| registers[index as usize] as u64);
        let rip = registers[libc::REG_RIP as usize] as u64;
        let Some(next) = (unsafe { translator::on_fault(tracing.engine_base, rip, &mut general) }) else {
            die(signal, rip);
        };
        for (index, value) in FRAME_ORDER.iter().zip(general) {
            registers[*index as usize] = value as i64;
        }
        registers[libc::REG_RIP as usize] = next as i64;
        return;
    }
    if tracing.saved.is_none() {
        die(signal, registers[libc::REG_RIP as usize] as u64);
    }
    let step = step_of(registers, area);
    let is_round = tracing
        .steps
        .last()
        .is_some_and(|last| last.state.rip == step.state.rip && is_repeated(step.state.rip));
    let ends =
        signal != libc::SIGTRAP || step.state.rip == tracing.end || tracing.steps.len() >= tracing.steps_max;
    if signal == libc::SIGTRAP && !is_round {
        tracing.steps.push(step);
        tracing.words.push(word(tracing.watched));
    }
    if signal != libc::SIGTRAP {
        tracing.fault = signal;
    }
    if ends && let Some((saved, vectors)) = tracing.saved.take() {
        *registers = saved;
        area.copy_from_slice(&vectors);
    }
}

fn word(address: u64) -> u64 {
    if address == 0 { 0 } else { unsafe { (address as *const u64).read_unaligned() } }
}

fn die(signal: i32, rip: u64) -> ! {
    eprintln!("signal {signal} at {rip:#x}");
    std::process::abort();
}

fn is_repeated(rip: u64) -> bool {
    let code = unsafe { core::slice::from_raw_parts(rip as *const u8, 3) };
    matches!(code[0], 0xf2 | 0xf3) && matches!(code[1], 0xa4..=0xa7 | 0xaa..=0xaf | 0x48)
}

fn set_state(registers: &mut [i64; 23], state: &State, flags: u64) {
    for (index, value) in FRAME_ORDER.iter().zip(state.general) {
        registers[*index as usize] = value as i64;
    }
    registers[libc::REG_RIP as usize] = state.rip as i64;
    registers[libc::REG_EFL as usize] = (state.flags | flags) as i64;
}

fn step_of(registers: &[i64; 23], area: &[u8]) -> Step {
    let general = FRAME_ORDER.map(|index| registers[index as usize] as u64);
    let flags = registers[libc::REG_EFL as usize] as u64 & STATE_FLAGS;
    let rip = registers[libc::REG_RIP as usize] as u64;
    Step { state: State { general, rip, flags }, vectors: vector_sum(area) }
}
