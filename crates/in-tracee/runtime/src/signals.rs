//! Signals: the runtime owns every real handler. What the kernel delivers is
//! queued; the program's handler runs at the boundary of a system call, on a
//! frame that the runtime writes. Replay sees no real signal.
//!
//! The real mask follows the program's (without the signals that the runtime
//! needs), so blocked signals stay in the kernel, where sigpending, signalfd,
//! sigtimedwait and execve find them.

pub mod deaths;
pub mod killing;
pub mod robust_futexes;
pub mod stopping;

use core::sync::atomic::Ordering;

use events::{BEFORE_CALL, FATAL, HEADER_BYTES, Header, Kind, STACKED};
use lane_protocol::{ASKING, GOT_FAULT, report_kind};
use linux_abi::general as nr;

use crate::address_space::foreign_writes;
use crate::code::{clocks, sites};
use crate::ground::frame::{self, RealFrame};
use crate::ground::kernel::{self, current_mask};
use crate::ground::registers::{Leave, Registers};
use crate::ground::{assembly, call_places, memory, notices};
use crate::lab::signal_times;
use crate::preemption::preempt;
use crate::scheduler::asking::ask;
use crate::state::block::{SIGNAL_STACK_BYTES, lane, process, session, thread, thread_status};
use crate::state::deliverable::{
    self, SA_RESTART, dies_told, is_delivered, next_deliverable, next_deliverable_with,
};
use crate::state::report;
use crate::state::runtime_log::{LogSubject, say};
use crate::state::signal_numbers::{
    CORES, DEFAULT, ENDINGS, HARMLESS, IGNORE, NEVER_BLOCKED, OURS, REAL_TIME, SIGBUS, SIGILL, SIGKILL,
    SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP, bit,
};
use crate::state::signal_state::{
    Action, Actions, Info, PENDING_MAX, Pending, QUEUE, Signals, WaitingSignal,
};
use crate::state::stacks::signal_stack;

impl Action {
    /// Without ours, which is taken in place of the default: see `is_saved`.
    fn of_program(self) -> Action {
        if self.handler == assembly::rv_entry_signal as *const () as u64 { Action::default() } else { self }
    }

    /// The default action, as the kernel takes it back with our restorer.
    pub fn default_real() -> Action {
        let restorer = assembly::rv_restorer as *const () as u64;
        Action { restorer, flags: SA_RESTORER, ..Action::default() }
    }
}

pub const INFO_BYTES: u64 = size_of::<Info>() as u64;

const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_SIGINFO: u64 = 4;
const SA_NOCLDSTOP: u64 = 1;
const SA_NOCLDWAIT: u64 = 2;

/// The running thread takes the kernel's signals on a stack of the runtime's.
pub fn use_own_stack() {
    let own = [signal_stack(thread().index), 0, SIGNAL_STACK_BYTES as u64];
    kernel::call(nr::__NR_sigaltstack, [own.as_ptr() as u64, 0, 0, 0, 0, 0]);
}

/// A thread ends: signals that any thread may take go back to the process.
pub fn pass_on() {
    const SI_TKILL: i32 = -6;
    let signals = &mut thread().signals;
    for waiting in &signals.queue[..signals.count] {
        if (waiting.info[1] & 0xffff_ffff) as i32 != SI_TKILL {
            let [pid, info] = [process().pid as u64, waiting.info.as_ptr() as u64];
            kernel::call(nr::__NR_rt_sigqueueinfo, [pid, u64::from(waiting.signal), info, 0, 0, 0]);
        }
    }
    signals.count = 0;
}

/// Installs the real handlers that the runtime always needs.
pub fn install() {
    use_own_stack();
    for signal in (1..=64).filter(|&signal| bit(signal) & OURS != 0) {
        install_ours(signal);
    }
    // One that is ignored comes to us for a moment.
    let mask = current_mask();
    block_all();
    for signal in (1..=64).filter(|&signal| is_saved(signal)) {
        let mut actions = process().actions();
        if actions.known & bit(signal) == 0 {
            actions.take_over(signal);
        } else if actions.actions[signal as usize].handler == DEFAULT {
            install_real(signal, 0);
        }
    }
    set_whole_mask(mask);
}

/// True for a signal that comes to us although its action is the default: the past is saved
/// before the process dies of it, or the output logged that is being written.
fn is_saved(signal: u32) -> bool {
    let endings = if dies_told() { ENDINGS } else { 0 };
    (session().saved_signals | endings) & !OURS & bit(signal) != 0
}

fn install_real(signal: u32, flags: u64) -> i64 {
    set_real(signal, &real_action(signal, flags))
}

/// Ours, with those of the program's flags that the kernel is to follow.
fn real_action(signal: u32, flags: u64) -> Action {
    // Under the debugger the handlers themselves read memory that may not be there, or that
    // is watched; in replay, one that ends with an event prepares for the next, which may be
    // to try whether code can be written.
    let faults = process().replays() && matches!(signal, SIGSEGV | SIGBUS);
    let kept = if process().has_agent() || faults { SA_NODEFER } else { 0 };
    // A trap of our own is dealt with before somebody asks for more.
    let asking = if signal == SIGTRAP && !process().has_agent() { bit(ASKING) } else { 0 };
    Action {
        handler: assembly::rv_entry_signal as *const () as u64,
        flags: SA_SIGINFO
            | SA_ONSTACK
            | SA_RESTORER
            | (flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT | kept)),
        restorer: assembly::rv_restorer as *const () as u64,
        mask: !NEVER_BLOCKED | asking,
    }
}

/// One whose real handler is always ours: it restarts calls as the program wants.
fn install_ours(signal: u32) {
    let action = process().actions().actions[signal as usize];
    let restart = if action.handler > IGNORE { action.flags & SA_RESTART } else { 0 };
    install_real(signal, SA_NODEFER | restart);
}

/// Makes the kernel deliver to us, or act by itself, as the program wants.
fn install_wanted(signal: u32, action: &Action) {
    if bit(signal) & OURS != 0 {
        install_ours(signal);
    } else if action.handler > IGNORE || action.handler == DEFAULT && is_saved(signal) {
        install_real(signal, action.flags);
    } else {
        let real = Action {
            flags: (action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT)) | SA_RESTORER,
            restorer: assembly::rv_restorer as *const () as u64,
            ..*action
        };
        set_real(signal, &real);
    }
}

pub fn set_real(signal: u32, action: &Action) -> i64 {
    kernel::call(nr::__NR_rt_sigaction, [u64::from(signal), action as *const Action as u64, 0, 8, 0, 0])
}

fn exchange_real(signal: u32, action: &Action, before: &mut Action) -> i64 {
    let actions = [&raw const *action as u64, &raw mut *before as u64];
    kernel::call(nr::__NR_rt_sigaction, [u64::from(signal), actions[0], actions[1], 8, 0, 0])
}

/// Real handlers in place of those that the program has already.
pub fn follow_actions() {
    let actions = process().actions();
    for signal in 1..=64u32 {
        let action = actions.actions[signal as usize];
        if bit(signal) & OURS == 0
            && (action.handler > IGNORE || action.handler == DEFAULT && is_saved(signal))
        {
            install_real(signal, action.flags);
        }
    }
}

/// Sets the real mask to what follows from the program's.
pub fn set_real_mask(mask: u64) {
    set_whole_mask(mask & !NEVER_BLOCKED);
}

/// The program's mask, from the real one that the image before left: see
/// [`hold_asking`].
pub fn inherited(mask: u64) -> u64 {
    without_asking(mask)
}

/// Keeps the signal that asks for the token in the kernel, or lets it through again.
pub fn hold_asking(hold: bool) {
    let how = if hold { nr::SIG_BLOCK } else { nr::SIG_UNBLOCK };
    let set = bit(ASKING);
    kernel::call(nr::__NR_rt_sigprocmask, [u64::from(how), &raw const set as u64, 0, 8, 0, 0]);
}

/// Blocks what can be blocked, also what the runtime needs.
pub fn block_all() {
    set_whole_mask(!0);
}

/// Sets the kernel's mask to just this.
pub fn set_whole_mask(mask: u64) {
    kernel::call(nr::__NR_rt_sigprocmask, [u64::from(nr::SIG_SETMASK), &raw const mask as u64, 0, 8, 0, 0]);
}

/// The mask to give to the kernel in place of the program's.
pub fn real_mask(mask: u64) -> u64 {
    mask & !NEVER_BLOCKED
}

/// A set of signals that are taken out of the kernel in place of the program's.
pub fn without_asking(set: u64) -> u64 {
    set & !bit(ASKING)
}

/// A call that replaces the mask begins.
pub fn begin_masked_wait(mask: u64) {
    let signals = &mut thread().signals;
    signals.masked_wait = true;
    signals.wait_mask = mask & !(bit(SIGKILL) | bit(SIGSTOP));
}

/// A call that replaces the mask ended; a signal that interrupted it follows.
pub fn end_masked_wait(interrupted: bool) {
    let signals = &mut thread().signals;
    signals.masked_wait = false;
    signals.wait_interrupted = interrupted;
}

// --- the kernel's deliveries ---

/// Code of the signal that stops a thread before it goes back: see `contention::PREEMPT_HARD`.
pub const STOP_CODE: i32 = -78;

impl Pending {
    pub fn infos(&self) -> &[Info] {
        &self.infos[..self.count.min(PENDING_MAX)]
    }

    pub fn copy(&mut self, other: &Pending) {
        self.thread = other.thread;
        self.count = other.count;
        self.infos[..other.count].copy_from_slice(&other.infos[..other.count]);
    }
}

/// Live: notes what waits in the kernel for the calling thread. Not for the agent: what it
/// would take waits for the program's threads, and would never reach them.
pub fn note_pending(pending: &mut Pending) {
    pending.thread = thread().index;
    pending.count = 0;
    if thread().status == thread_status::AGENT {
        return;
    }
    let mut set = 0u64;
    kernel::call(nr::__NR_rt_sigpending, [&raw mut set as u64, 8, 0, 0, 0, 0]);
    if set & !OURS != 0 {
        pending.count = dequeue(&mut pending.infos);
        queue_again(&pending.infos[..pending.count]);
    }
}

/// Takes all signals that wait in the kernel.
fn dequeue(infos: &mut [Info; PENDING_MAX]) -> usize {
    let (set, zero) = (!OURS, [0u64; 2]);
    let mut count = 0;
    while count < infos.len() {
        let place = infos[count].as_mut_ptr() as u64;
        let arguments = [&raw const set as u64, place, zero.as_ptr() as u64, 8, 0, 0];
        if kernel::call(nr::__NR_rt_sigtimedwait, arguments) <= 0 {
            break;
        }
        count += 1;
    }
    count
}

fn queue_again(infos: &[Info]) {
    let [pid, tid] = ids();
    for info in infos {
        let arguments = [pid, tid, info[0] & 0xffff_ffff, info.as_ptr() as u64, 0, 0];
        kernel::call(nr::__NR_rt_tgsigqueueinfo, arguments);
    }
}

/// Live: what waited then waits again; what the program caused itself in a future that
/// is dropped goes with it.
pub fn restore_pending(then: &Pending) {
    let mut infos = [[0u64; 16]; PENDING_MAX];
    let count = dequeue(&mut infos);
    for info in &infos[..count] {
        let code = (info[1] & 0xffff_ffff) as i32;
        let sender = (info[2] & 0xffff_ffff) as i32;
        if code >= 0 && sender != process().pid {
            queue_again(core::slice::from_ref(info));
        }
    }
    if then.thread == thread().index {
        queue_again(then.infos());
    }
}

/// Live: brings a thread out of the kernel, to park.
pub fn ask_to_stop(tid: i32) {
    ask(process().pid, tid, STOP_CODE);
}

/// The call at hand is as about to begin; the thread parks at the next boundary.
pub fn on_asked_to_stop(context: &mut RealFrame, inside: bool) {
    thread().pending = 1;
    if !inside {
        return;
    }
    abort_call(context);
    if context.rax == -i64::from(linux_abi::errno::EINTR) as u64
        && let Some(place) = call_places::behind_call(context.rip)
    {
        context.rip = place.aborted;
    }
}

/// The supervisor wants to know whether what it got came here by itself.
fn note_interrupt(signal: u32, info: &Info) {
    let by_process = info[1] as i32 <= 0;
    if by_process && matches!(signal, nr::SIGINT | nr::SIGQUIT | nr::SIGTSTP) {
        let interrupts = &lane().interrupts;
        let count = (interrupts.load(Ordering::Relaxed) + 1) & 0xffff_ffff;
        interrupts.store((info[2] & 0xffff_ffff) << 32 | count, Ordering::Release);
    }
}

/// An asynchronous signal: queued, and the call that may be about to begin held back.
pub fn arrive(signal: u32, info: &Info, context: &mut RealFrame) {
    say(LogSubject::Signals, "signal arrived", [u64::from(signal), context.rip]);
    let signals = &mut thread().signals;
    let action = process().actions().actions[(signal as usize).min(64)];
    if process().replays() {
        if is_saved(signal) && action.handler == DEFAULT {
            die_of(signal);
        }
        return;
    }
    note_interrupt(signal, info);
    let mask = if signals.masked_wait { signals.wait_mask } else { signals.mask };
    let blocked = mask & bit(signal) != 0;
    if blocked {
        // One of ours, which the kernel cannot hold back: it would interrupt just the call that
        // takes it.
        if clocks::is_ours_at(context.rip) && thread().call_number as u32 != nr::__NR_rt_sigtimedwait {
            hide_interruption(context);
        }
        // A second is lost, as there.
        if signals.is_queued(signal) {
            return;
        }
    } else if action.handler == IGNORE {
        if clocks::is_ours_at(context.rip) {
            hide_interruption(context);
        }
        return;
    } else if action.handler == DEFAULT && !deliverable::waits(signal) {
        // One of ours, or that is to be saved: what the default does is the kernel's.
        let output = &thread().output;
        if output.load(Ordering::SeqCst) == 0 {
            die_of_outside(signal, &mut |signal| die_behind(context, signal));
        } else {
            output.store(signal << 1, Ordering::SeqCst);
            abort_call(context);
        }
        return;
    } else if action.flags & SA_RESETHAND != 0 && signal < REAL_TIME && signals.is_queued(signal) {
        // A second is lost here as well: it would end the program before the handler begins.
        return;
    }
    // From here on it counts as being handled: what its handler would block stays
    // in the kernel. The queue cannot overflow: a full one blocks everything.
    let own = action.mask | if action.flags & SA_NODEFER == 0 { bit(signal) } else { 0 };
    context.block(own & !NEVER_BLOCKED);
    if signals.count + 1 >= QUEUE {
        context.block(!NEVER_BLOCKED);
    }
    if signals.count == QUEUE {
        return;
    }
    let forced = signals.masked_wait && !blocked;
    let info = signal_times::without_times(signal, info);
    signals.queue[signals.count] = WaitingSignal { signal, forced, info };
    signals.count += 1;
    thread().pending = 1;
    if !blocked {
        // In the runtime too: it may be past its last look at what waits.
        if !preempt::signal_waits_at(context) {
            preempt::at_once(context);
        }
    }
    abort_call(context);
}

/// The call that is about to begin is not made.
fn abort_call(context: &mut RealFrame) {
    if let Some(place) = call_places::before_call(context.rip) {
        context.rip = place.aborted;
    }
}

/// Recording: what the program writes now is seen. It does not die of a signal before that is
/// logged.
pub fn begin_output() {
    thread().output.store(1, Ordering::SeqCst);
}

/// The output is logged, or was not written.
pub fn end_output() {
    let signal = thread().output.swap(0, Ordering::SeqCst) >> 1;
    if signal != 0 {
        die_of_outside(signal, &mut die_of);
    }
}

/// The process dies of a signal that somebody sent, by `die`; the past is saved before, where that
/// is asked for.
pub fn die_of_outside(signal: u32, die: &mut dyn FnMut(u32)) {
    if bit(signal) & (session().saved_signals | OURS) != 0 {
        notices::process_dies_of(signal);
    }
    die(signal);
}

/// In a handler: the process dies, of a signal that leaves a core where it is to go on.
fn die_behind(context: &mut RealFrame, signal: u32) {
    if bit(signal) & CORES == 0 || clocks::is_ours_at(context.rip) {
        return die_of(signal);
    }
    set_default(signal);
    send_to_itself(signal);
    context.let_through_only(bit(signal));
}

/// True for a call by which the process sends itself a signal that it dies of.
pub fn kills_itself(number: u64, args: &[u64; 6]) -> bool {
    let (own, signal) = match number as u32 {
        nr::__NR_kill => (args[0] as i32 == process().pid, args[1] as u32),
        nr::__NR_tkill => (args[0] as i32 == thread().tid, args[1] as u32),
        nr::__NR_tgkill => (args[0] as i32 == process().pid, args[2] as u32),
        _ => return false,
    };
    if !own || signal == 0 || signal > 64 || HARMLESS & bit(signal) != 0 {
        return false;
    }
    let blocked = thread().signals.mask & bit(signal) != 0;
    signal == SIGKILL || (!blocked && process().actions().actions[signal as usize].handler == DEFAULT)
}

/// The signal of a crash (signal(7): those that leave a core) that the process is about to
/// send to itself and die of, as abort(3) does.
pub fn crashes_itself(number: u64, args: &[u64; 6]) -> Option<u32> {
    if !kills_itself(number, args) {
        return None;
    }
    let signal = args[if number as u32 == nr::__NR_tgkill { 2 } else { 1 }] as u32;
    (CORES & bit(signal) != 0 || is_saved(signal)).then_some(signal)
}

/// A signal that the call at hand causes: it comes before all others that wait. False if no
/// handler can run, of which the process dies (force_sig_info_to_task of the kernel).
pub fn force(signal: u32, info: &Info) -> bool {
    let signals = &mut thread().signals;
    let handler = process().actions().actions[signal as usize].handler;
    if signals.mask & bit(signal) != 0 || handler <= IGNORE {
        return false;
    }
    // The queue is the handler's too.
    set_real_mask(!0);
    if signals.count == QUEUE {
        let last = &signals.queue[QUEUE - 1];
        let [pid, tid] = ids();
        let arguments = [pid, tid, u64::from(last.signal), last.info.as_ptr() as u64, 0, 0];
        kernel::call(nr::__NR_rt_tgsigqueueinfo, arguments);
        signals.count -= 1;
    }
    signals.queue.copy_within(..signals.count, 1);
    signals.queue[0] = WaitingSignal { signal, forced: false, info: *info };
    signals.count += 1;
    thread().pending = 1;
    set_real_mask(signals.mask);
    true
}

/// Lets the kernel's default action of a signal happen to us. It returns in the first process of
/// a namespace, which no signal kills that is sent (pid_namespaces(7)): ours are needed on.
pub fn die_of(signal: u32) {
    say(LogSubject::Signals, "dies of signal", [u64::from(signal), 0]);
    let own = set_default(signal);
    let mask = bit(signal);
    kernel::call(nr::__NR_rt_sigprocmask, [u64::from(nr::SIG_UNBLOCK), &raw const mask as u64, 0, 8, 0, 0]);
    send_to_itself(signal);
    set_real(signal, &own);
}

/// Gives a signal to the kernel, whose default action it has; what was done before.
fn set_default(signal: u32) -> Action {
    let default = Action::default_real();
    let mut before = Action::default();
    exchange_real(signal, &default, &mut before);
    before
}

fn send_to_itself(signal: u32) {
    let [pid, tid] = ids();
    kernel::call(nr::__NR_tgkill, [pid, tid, u64::from(signal), 0, 0, 0]);
}

/// The process dies of a signal that leaves a core. That (core(5)) shows who dies where it is, so
/// that is in the program: the signal waits, blocked, until the kernel returns from a handler to
/// there. It returns where nothing was done.
#[cold]
pub fn die_at(registers: &Registers, signal: u32) {
    // The way there, or nothing that a mask holds back.
    const ELSEWHERE: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);
    // The first process of a namespace does not die of it.
    if CORES & !ELSEWHERE & bit(signal) == 0 || process().pid == 1 {
        return;
    }
    let thread = &mut *thread();
    thread.fault_registers = *registers;
    thread.fault_signal = signal;
    set_default(signal);
    set_whole_mask(!bit(SIGILL));
    send_to_itself(signal);
    // SAFETY: an instruction that traps, and does not go on.
    unsafe { assembly::rv_end() }
}

/// What was recorded of the fault.
pub fn replay_fault(registers: &Registers, signal: u32, handled: bool) -> Info {
    say(LogSubject::Signals, "fault replayed", [u64::from(signal), registers.rip]);
    crate::address_space::code_changes::follow();
    deaths::apply_stores();
    let Some(word) = process().log.peek() else {
        if crate::state::live::goes_again() {
            notices::program_goes_live();
        }
        report::note_registers(registers);
        report::leave(report_kind::LOG_ENDED, signal as i32, "");
    };
    let log = &mut process().log;
    let expected = word.is(Kind::Fault)
        && word.code() as u32 == signal
        && log.body(0) == registers.rip
        && (word.flags() & FATAL == 0) == handled;
    if !expected {
        report::diverge(registers, word, GOT_FAULT, &[u64::from(signal), registers.rip]);
    }
    memory::copy(&raw mut thread().fault_info as u64, log.address_of(16), INFO_BYTES);
    memory::copy(&raw mut thread().signals.last_fault as u64, log.address_of(144), 24);
    log.consume(word);
    log.events += 1;
    thread().fault_info
}

// --- giving signals to the program's handlers ---

fn take(index: usize) -> WaitingSignal {
    let signals = &mut thread().signals;
    let waiting = signals.queue[index];
    signals.queue.copy_within(index + 1..signals.count, index);
    signals.count -= 1;
    waiting
}

/// Recomputes whether something waits, after the queue or the mask changed.
pub fn refresh_pending() {
    thread().pending = 0;
    if next_deliverable().is_some() {
        thread().pending = 1;
    }
}

/// Delivers what waits before the call that the registers are about to make:
/// the handler runs first, then the program makes the call (again).
pub fn deliver_before(registers: &mut Registers) -> bool {
    let Some(index) = next_deliverable() else {
        refresh_pending();
        return false;
    };
    point_at_call(registers);
    deliver_all(registers, index, BEFORE_CALL);
    true
}

/// Delivers what waits when a handler has returned, where the program goes on.
pub fn deliver_at_return(registers: &mut Registers) {
    if let Some(index) = next_deliverable() {
        deliver_all(registers, index, 0);
    }
}

/// Replay: the return's event said that a signal follows.
pub fn replay_at_return(registers: &mut Registers) {
    match process().log.peek() {
        Some(word) if word.is(Kind::Signal) => replay_signals(registers, word),
        Some(word) => report::diverge(registers, word, u64::MAX, &[]),
        None => report::log_ended(),
    }
}

/// Delivers all that waits and is not blocked: like the kernel, each on top of the
/// one before, so that the last runs first.
fn deliver_all(registers: &mut Registers, first: usize, flags: u8) {
    // From here on the masks say what may come, whatever let it in.
    for waiting in &mut thread().signals.queue {
        waiting.forced = false;
    }
    let mut next = Some(first);
    while let Some(index) = next {
        // The queue is the handler's too: keep it out while an entry is taken.
        set_real_mask(!0);
        let waiting = take(index);
        next = next_on_top(waiting.signal);
        let stacked = if next.is_some() { STACKED } else { 0 };
        deliver_logged(registers, &waiting, flags | stacked);
    }
    refresh_pending();
    preempt::nothing_waits();
}

/// The one whose handler is to run before that of this signal.
fn next_on_top(signal: u32) -> Option<usize> {
    let own = deliver_mask(signal) & !(bit(SIGKILL) | bit(SIGSTOP));
    let mask = thread().signals.mask;
    if !thread().signals.wait_interrupted {
        return next_deliverable_with(own);
    }
    // The handler begins with the mask that the call waited with. The kernel went back to the
    // program's already: what waits in it comes now.
    thread().signals.mask = thread().signals.wait_mask | own;
    set_real_mask(thread().signals.mask);
    set_real_mask(!0);
    let next = next_deliverable();
    thread().signals.mask = mask;
    next
}

/// The signals that a handler's own run blocks.
fn deliver_mask(signal: u32) -> u64 {
    let action = &process().actions().actions[signal as usize];
    action.mask | if action.flags & SA_NODEFER == 0 { bit(signal) } else { 0 }
}

/// The registers as they are before the call's instruction; r11 as the kernel leaves it,
/// and not where a trampoline would go on, which is not the program's state.
pub fn point_at_call(registers: &mut Registers) {
    registers.rip = registers.rcx.wrapping_sub(2);
    registers.r11 = registers.flags;
}

/// Delivers the signal that waits behind the call just made, of which the event
/// said so.
pub fn deliver_after(registers: &mut Registers) -> bool {
    // Whether one follows was decided when the call was logged; one that came
    // since then waits for the next boundary.
    if !process().log.follows {
        return false;
    }
    let Some(index) = next_deliverable() else {
        return false;
    };
    registers.rip = registers.rcx;
    registers.r11 = registers.flags;
    deliver_all(registers, index, 0);
    true
}

fn deliver_logged(registers: &mut Registers, waiting: &WaitingSignal, flags: u8) {
    let log = &mut process().log;
    log.begin(Kind::Signal, flags, waiting.signal as u16);
    log.raw(waiting.info.as_ptr() as u64, INFO_BYTES);
    foreign_writes::log_all_new();
    log.end();
    if process().actions().actions[waiting.signal as usize].handler == DEFAULT {
        deaths::die(registers, waiting);
    }
    if !deliver(registers, waiting.signal, &waiting.info) {
        die_of(SIGSEGV);
    }
}

/// Replay: the event at hand is a signal before the call.
pub fn replay_before(registers: &mut Registers, word: Header) {
    point_at_call(registers);
    replay_signals(registers, word);
}

/// Replay: the call's event said that a signal follows.
pub fn replay_following(registers: &mut Registers) -> bool {
    let Some(word) = process().log.peek() else {
        report::note_registers(registers);
        report::log_ended();
    };
    if !word.is(Kind::Signal) {
        report::diverge(registers, word, u64::MAX, &[]);
    }
    registers.rip = registers.rcx;
    registers.r11 = registers.flags;
    replay_signals(registers, word);
    true
}

/// The signal at hand and those stacked on top of it.
fn replay_signals(registers: &mut Registers, first: Header) {
    let mut word = first;
    loop {
        replay_signal(registers, word);
        if word.flags() & STACKED == 0 {
            return;
        }
        word = match process().log.peek() {
            Some(next) if next.is(Kind::Signal) => next,
            Some(other) => report::diverge(registers, other, u64::MAX, &[]),
            None => report::log_ended(),
        };
    }
}

fn replay_signal(registers: &mut Registers, word: Header) {
    let signal = word.code() as u32;
    let mut info: Info = [0; 16];
    let log = &mut process().log;
    memory::copy(info.as_mut_ptr() as u64, log.address_of(8), INFO_BYTES);
    log.apply(word, HEADER_BYTES as u64 + INFO_BYTES, &mut |_, _, _, _| {});
    if signal == 0 || signal > 64 {
        report::fail("a signal of an impossible number");
    }
    if process().actions().actions[signal as usize].handler == DEFAULT {
        deaths::replay(registers, signal, &info);
    }
    if !deliver(registers, signal, &info) {
        report::leave(report_kind::FAULTED, SIGSEGV as i32, "");
    }
}

/// Builds the frame and points the registers at the handler. Where the stack cannot hold it,
/// SIGSEGV comes instead, as from the kernel, whose handler may want another stack (sigaltstack(2)).
/// False if none can be built. Both modes decide the same: memory and actions say it.
pub fn deliver(registers: &mut Registers, signal: u32, info: &Info) -> bool {
    say(LogSubject::Signals, "signal delivered", [u64::from(signal), registers.rip]);
    const SI_KERNEL: u64 = 0x80;
    let signals = &mut thread().signals;
    let saved_mask = signals.mask;
    if signals.wait_interrupted {
        signals.wait_interrupted = false;
        signals.mask = signals.wait_mask;
    }
    if hand_over(registers, signal, info, saved_mask) {
        return true;
    }
    let is_caught = process().actions().actions[SIGSEGV as usize].handler > IGNORE;
    if signal == SIGSEGV || !is_caught || signals.mask & bit(SIGSEGV) != 0 {
        return false;
    }
    let mut forced: Info = [0; 16];
    forced[0] = u64::from(SIGSEGV);
    forced[1] = SI_KERNEL;
    hand_over(registers, SIGSEGV, &forced, saved_mask)
}

fn hand_over(registers: &mut Registers, signal: u32, info: &Info, saved_mask: u64) -> bool {
    let signals = &mut thread().signals;
    notices::signal_is_delivered(signal, info);
    let action = process().actions().actions[signal as usize];
    let on_stack = action.flags & SA_ONSTACK != 0;
    if action.flags & SA_RESETHAND != 0 {
        process().actions().actions[signal as usize].handler = DEFAULT;
        if !process().replays() {
            install_wanted(signal, &Action { handler: DEFAULT, ..action });
        }
    }
    let fault = signals.last_fault;
    let place = registers.rip;
    // Where its copy is depends on what else was replaced before, here and in other processes.
    registers.rip = sites::original(place);
    if !frame::build(
        registers,
        signal,
        info,
        action.handler,
        action.restorer,
        on_stack,
        saved_mask,
        fault,
        &mut signals.stack,
    ) {
        registers.rip = place;
        return false;
    }
    signals.mask |= action.mask;
    if action.flags & SA_NODEFER == 0 {
        signals.mask |= bit(signal);
    }
    signals.mask &= !(bit(SIGKILL) | bit(SIGSTOP));
    if !process().replays() {
        set_real_mask(signals.mask);
    }
    true
}

// --- calls ---

/// rt_sigreturn: back to where the frame says.
pub fn sigreturn(registers: &mut Registers) -> Leave {
    let signals = &mut thread().signals;
    match frame::restore(registers, &mut signals.stack) {
        Some(mask) => signals.mask = mask & !(bit(SIGKILL) | bit(SIGSTOP)),
        None => {
            if process().replays() {
                report::note_registers(registers);
                report::leave(report_kind::FAULTED, SIGSEGV as i32, "");
            }
            die_of(SIGSEGV);
        }
    }
    registers.rip = sites::translate(registers.rip);
    const TRAP_FLAG: u64 = 0x100;
    thread().swallow_step = u32::from(registers.flags & TRAP_FLAG != 0);
    if !process().replays() {
        set_real_mask(signals.mask);
        settle();
        refresh_pending();
        if thread().pending != 0 {
            preempt::signal_waits();
        }
    }
    Leave::Exactly
}

/// rt_sigaction, in both modes; returns the call's result.
pub fn sigaction(args: &[u64; 6]) -> i64 {
    let [signal, new, old, size, ..] = *args;
    let signal = signal as u32;
    if size != 8 || signal == 0 || signal > 64 || (new != 0 && matches!(signal, SIGKILL | SIGSTOP)) {
        return -i64::from(linux_abi::errno::EINVAL);
    }
    let signals = &mut thread().signals;
    if process().actions().known & bit(signal) == 0 {
        process().actions().learn(signal);
    }
    let previous = process().actions().actions[signal as usize];
    if new != 0 {
        let Some([handler, flags, restorer, mask]) = memory::read::<[u64; 4]>(new) else {
            return -i64::from(linux_abi::errno::EFAULT);
        };
        let action = Action { handler, flags, restorer, mask: mask & !(bit(SIGKILL) | bit(SIGSTOP)) };
        process().actions().actions[signal as usize] = action;
        if !process().replays() {
            signals.apply(signal, &action);
        }
    }
    if old != 0 && !memory::write(old, &previous) {
        return -i64::from(linux_abi::errno::EFAULT);
    }
    0
}

impl Actions {
    /// True if a handler of the program is run for the signal.
    pub fn are_handled(&self, signal: u32) -> bool {
        self.actions[signal as usize].handler > IGNORE
    }

    /// What execve left: ignored or default.
    fn learn(&mut self, signal: u32) {
        self.known |= bit(signal);
        if process().replays() || bit(signal) & OURS != 0 {
            return;
        }
        let mut action = Action::default();
        kernel::call(nr::__NR_rt_sigaction, [u64::from(signal), 0, &raw mut action as u64, 8, 0, 0]);
        self.actions[signal as usize] = action.of_program();
    }

    /// Makes one come to us whose default action that is, and learns what execve left.
    fn take_over(&mut self, signal: u32) {
        self.known |= bit(signal);
        let mut before = Action::default();
        exchange_real(signal, &real_action(signal, 0), &mut before);
        before = before.of_program();
        if before.handler != DEFAULT {
            set_real(signal, &before);
        }
        self.actions[signal as usize] = before;
    }

    /// All of them, of a process that ran already.
    pub fn learn_all(&mut self) {
        for signal in 1..=64u32 {
            let place = &raw mut self.actions[signal as usize] as u64;
            kernel::call(nr::__NR_rt_sigaction, [u64::from(signal), 0, place, 8, 0, 0]);
        }
        self.know_all();
    }

    /// What there is, is what the program set.
    pub fn know_all(&mut self) {
        self.known = !0;
    }

    /// Where the actions of signals 1 to 64 are, and their bytes.
    pub fn as_memory(&mut self) -> (u64, u64) {
        let actions = &mut self.actions[1..];
        (actions.as_mut_ptr() as u64, size_of_val(actions) as u64)
    }

    /// Gives all handlers back to the kernel, as the program set them. With `others`,
    /// threads that have not left us yet, whose calls and stops still come to us.
    pub fn give_back(&self, others: bool) {
        for signal in 1..=64u32 {
            let is_needed = others && matches!(signal, SIGSYS | SIGTRAP | ASKING);
            if is_needed {
                continue;
            }
            if self.known & bit(signal) != 0 || bit(signal) & OURS != 0 {
                set_real(signal, &self.actions[signal as usize]);
            }
        }
    }

    /// A new image: handlers are gone.
    pub fn reset_for_image(&mut self) {
        self.known = 0;
        for action in &mut self.actions {
            *action = Action::default();
        }
    }
}

impl Signals {
    /// The program has set this action.
    fn apply(&mut self, signal: u32, action: &Action) {
        install_wanted(signal, action);
        // The default of ours is to die: one that waits goes on waiting.
        let goes_on = if bit(signal) & OURS != 0 { action.handler != IGNORE } else { is_delivered(signal) };
        if !goes_on {
            self.drop_waiting(signal);
        }
    }

    /// What waits for a handler that is no more is gone.
    fn drop_waiting(&mut self, signal: u32) {
        if self.count == 0 {
            return;
        }
        set_real_mask(!0);
        let count = self.count;
        let mut kept = 0;
        for index in 0..count {
            if self.queue[index].signal != signal {
                self.queue[kept] = self.queue[index];
                kept += 1;
            }
        }
        self.count = kept;
        set_real_mask(self.mask);
        refresh_pending();
    }

    fn is_queued(&self, signal: u32) -> bool {
        self.queue[..self.count].iter().any(|waiting| waiting.signal == signal)
    }

    /// Gives the thread's mask and stack back to the kernel, as the program set them.
    pub fn give_back(&mut self) {
        self.send_again();
        let stack = [self.stack.address, u64::from(self.stack.flags), self.stack.bytes];
        let off = [0u64, 2, 0];
        let real = if self.stack.bytes == 0 { &off } else { &stack };
        kernel::call(nr::__NR_sigaltstack, [real.as_ptr() as u64, 0, 0, 0, 0, 0]);
        kernel::call(
            nr::__NR_rt_sigprocmask,
            [u64::from(nr::SIG_SETMASK), &raw const self.mask as u64, 0, 8, 0, 0],
        );
    }

    /// Gives what waits back to the kernel.
    fn send_again(&mut self) {
        block_all();
        self.send_again_to(process().pid, thread().tid);
    }

    /// The same for another thread, which stands with everything blocked.
    pub fn send_again_to(&mut self, pid: i32, tid: i32) {
        for waiting in &self.queue[..self.count] {
            let info = waiting.info.as_ptr() as u64;
            let arguments = [pid as u64, tid as u64, u64::from(waiting.signal), info, 0, 0];
            kernel::call(nr::__NR_rt_tgsigqueueinfo, arguments);
        }
        self.count = 0;
    }

    /// Live: the thread is about to begin its call again; `forget`: what waited then
    /// was delivered since, and the log has it.
    pub fn stand_again(&mut self, forget: bool) {
        self.masked_wait = false;
        self.wait_interrupted = false;
        if forget {
            self.count = 0;
        }
    }

    /// A new process or thread: what waited was its parent's.
    pub fn forget_waiting(&mut self) {
        self.count = 0;
        self.masked_wait = false;
        self.wait_interrupted = false;
    }

    /// A new thread: its parent's mask, and no alternate stack (clone(2), CLONE_VM).
    pub fn begin_thread(&mut self, mask: u64) {
        self.forget_waiting();
        self.mask = mask;
        self.stack = frame::SignalStack::default();
        self.last_fault = [0; 3];
    }

    /// A new image: the mask stays.
    pub fn reset_for_image(&mut self) {
        self.count = 0;
        self.stack = frame::SignalStack::default();
        self.last_fault = [0; 3];
    }
}

/// Process and thread id of the running thread.
fn ids() -> [u64; 2] {
    [process().pid as u64, thread().tid as u64]
}

/// A new process without its parent's handlers.
pub fn clear_handlers() {
    for signal in 1..=64u32 {
        let action = &mut process().actions().actions[signal as usize];
        if action.handler > IGNORE {
            *action = Action::default();
            if !process().replays() {
                install_wanted(signal, &Action::default());
            }
        }
    }
}

/// rt_sigprocmask, in both modes.
pub fn sigprocmask(args: &[u64; 6]) -> i64 {
    let [how, new, old, size, ..] = *args;
    if size != 8 {
        return -i64::from(linux_abi::errno::EINVAL);
    }
    let signals = &mut thread().signals;
    let previous = signals.mask;
    if new != 0 {
        let Some(set) = memory::read::<u64>(new) else {
            return -i64::from(linux_abi::errno::EFAULT);
        };
        let mask = match how as u32 {
            nr::SIG_BLOCK => previous | set,
            nr::SIG_UNBLOCK => previous & !set,
            nr::SIG_SETMASK => set,
            _ => return -i64::from(linux_abi::errno::EINVAL),
        } & !(bit(SIGKILL) | bit(SIGSTOP));
        signals.mask = mask;
        if !process().replays() && mask != previous {
            set_real_mask(mask);
            settle();
            refresh_pending();
        }
    }
    if old != 0 && !memory::write(old, &previous) {
        return -i64::from(linux_abi::errno::EFAULT);
    }
    0
}

/// What execve keeps of the signals that the kernel never sees blocked or ignored:
/// blocked, waiting, ignored.
pub fn carried() -> [u64; 3] {
    let signals = &thread().signals;
    let mut ignored = 0;
    for signal in 1..=31 {
        if process().actions().actions[signal as usize].handler == IGNORE {
            ignored |= bit(signal);
        }
    }
    [signals.mask & OURS, waiting_set() & OURS, ignored & OURS]
}

/// A new image takes over what the one before carried. After `install`.
pub fn take_carried(carried: [u64; 3]) {
    let [blocked, waiting, ignored] = carried.map(|set| set & OURS);
    let signals = &mut thread().signals;
    signals.mask |= blocked;
    let [pid, tid] = ids();
    for signal in 1..=31u32 {
        if ignored & bit(signal) != 0 {
            process().actions().actions[signal as usize].handler = IGNORE;
        }
        if waiting & bit(signal) != 0 {
            kernel::call(nr::__NR_tgkill, [pid, tid, u64::from(signal), 0, 0, 0]);
        }
    }
}

/// What the kernel would do with signals that waited here, blocked, and are not
/// blocked any more: only those with a handler go on waiting.
fn settle() {
    let signals = &mut thread().signals;
    let mut index = 0;
    while index < signals.count {
        let signal = signals.queue[index].signal;
        let handler = process().actions().actions[signal as usize].handler;
        if signals.mask & bit(signal) != 0 || is_delivered(signal) {
            index += 1;
            continue;
        }
        set_real_mask(!0);
        take(index);
        set_real_mask(signals.mask);
        if handler == DEFAULT {
            die_of(signal);
        }
    }
}

/// The signals that wait here rather than in the kernel, being blocked.
pub fn waiting_set() -> u64 {
    let signals = &thread().signals;
    let waiting = &signals.queue[..signals.count];
    waiting.iter().fold(0, |set, waiting| set | bit(waiting.signal)) & signals.mask
}

/// Takes one that waits here, out of a set: its number and information.
pub fn take_waiting(set: u64) -> Option<(u32, Info)> {
    let signals = &mut thread().signals;
    let index = signals.queue[..signals.count].iter().position(|waiting| set & bit(waiting.signal) != 0)?;
    set_real_mask(!0);
    let waiting = take(index);
    set_real_mask(signals.mask);
    Some((waiting.signal, waiting.info))
}

/// sigaltstack, in both modes.
pub fn sigaltstack(args: &[u64; 6], user_stack: u64) -> i64 {
    let [new, old, ..] = *args;
    let stack = &mut thread().signals.stack;
    let previous = stack.as_seen_from(user_stack);
    if new != 0 {
        let Some([address, flags, bytes]) = memory::read::<[u64; 3]>(new) else {
            return -i64::from(linux_abi::errno::EFAULT);
        };
        if let Err(error) = stack.set(address, flags as u32, bytes, user_stack) {
            return -i64::from(error);
        }
    }
    if old != 0 && !memory::write(old, &previous) {
        return -i64::from(linux_abi::errno::EFAULT);
    }
    0
}

/// A signal of our own came: if we are in a call, the program shall not see that it
/// was interrupted.
pub fn hide_interruption(context: &mut RealFrame) {
    let interrupted = context.rax == -i64::from(linux_abi::errno::EINTR) as u64;
    // One of the program's, that came too, was meant to interrupt it.
    if interrupted
        && thread().pending == 0
        && let Some(place) = call_places::behind_call(context.rip)
    {
        context.rax = thread().call_number;
        context.rip = place.window;
    }
}
