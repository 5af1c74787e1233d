//! The process is part of a lab: what may sleep, what tells the time and what goes over the network
//! is asked of the lab's engine, which grants one thread of the lab at a time.
//!
//! Invariant: no thread of a lab sleeps in the kernel for what another one of the lab does, nor for
//! time to pass: a call that may sleep is made without sleeping, and made again when the engine says
//! that something has changed. What the calls gave is logged as ever, so a replay needs no lab.
//!
//! Deliberately absent: what a network does, and who runs next: the engine's (`crates/engine/lab`).

pub mod calls;
pub mod clocks;
pub mod fifos;
pub mod files;
pub mod futexes;
pub mod netlink;
pub mod polls;
pub mod signal_times;
pub mod sockets;

use core::sync::atomic::Ordering;

use lane_protocol::{LAB_CALL, LAB_CALL_LAST, LabSlot, lab_answer, lab_preempted, lab_question, lab_state};
use linux_abi::errno;

use crate::ground::kernel::{self, ABORTED};
use crate::scheduler::token;
use crate::state::block::{lane, process, session, thread};
use crate::state::deliverable;
use crate::state::in_lab::is_on;

/// How long a thread sleeps before it looks whether there is an engine.
const LOOK_MS: u64 = 1000;

/// True for the calls of the lab's own programs.
pub fn is_call(number: u64) -> bool {
    (LAB_CALL..=LAB_CALL_LAST).contains(&number)
}

/// How the engine answered.
pub struct Answer {
    /// A [`lab_answer`].
    pub kind: u32,
    pub result: i64,
    pub until_ns: u64,
}

pub fn slot() -> &'static LabSlot {
    &session().lab.slots[thread().lab_slot as usize % lane_protocol::LAB_SLOTS]
}

/// What the engine asked of the thread last by the signal that preempts threads.
pub fn asked_last() -> Option<i32> {
    Some(slot().asked.load(Ordering::SeqCst)).filter(|&asked| is_on() && asked != 0)
}

/// Asks the engine; the thread goes on when it is granted.
pub fn ask(question: u32, words: &[u64]) -> Answer {
    say(question, words, lab_state::ASKED);
    await_answer()
}

/// True for questions behind which others go on, and time does.
fn lets_time_pass(question: u32) -> bool {
    use lab_question::{FUTEX_WAIT, PREEMPTED, SLEEP, SPINS, WAIT};
    matches!(question, WAIT | SLEEP | FUTEX_WAIT | SPINS | PREEMPTED)
}

/// The same where others of the process may run meanwhile.
pub fn ask_aside(question: u32, words: &[u64]) -> Answer {
    if !process().shares_token {
        return ask(question, words);
    }
    token::give();
    let answer = ask(question, words);
    token::take_back();
    answer
}

fn say(question: u32, words: &[u64], state: u32) {
    let slot = slot();
    thread().preemption.is_preempted = false;
    if lets_time_pass(question) {
        (thread().lab_reads, thread().lab_calls) = (0, 0);
        slot.acted.store(0, Ordering::Relaxed);
    }
    // Those that a question does not have are not those of the one before.
    for (index, to) in slot.words.iter().enumerate() {
        to.store(words.get(index).copied().unwrap_or(0), Ordering::Relaxed);
    }
    slot.pid.store(process().outer_pid, Ordering::Relaxed);
    slot.tid.store(thread().tid, Ordering::Relaxed);
    slot.asked.store(0, Ordering::Relaxed);
    slot.question.store(question, Ordering::Relaxed);
    slot.state.store(state, Ordering::Release);
    let lab = &session().lab;
    lab.doorbell.fetch_add(1, Ordering::SeqCst);
    // The engine says that it sleeps before it looks at the doorbell for the last time.
    if lab.sleeps.load(Ordering::SeqCst) != 0 {
        kernel::futex_wake_one(&lab.doorbell);
    }
}

fn await_answer() -> Answer {
    let slot = slot();
    while slot.state.load(Ordering::Acquire) == lab_state::ASKED {
        slot.sleeps.store(1, Ordering::SeqCst);
        if slot.state.load(Ordering::SeqCst) == lab_state::ASKED {
            kernel::futex_wait(&slot.state, lab_state::ASKED, LOOK_MS);
        }
        slot.sleeps.store(0, Ordering::Relaxed);
        let is_over = session().lab.is_over.load(Ordering::Acquire) != 0;
        if slot.state.load(Ordering::Acquire) == lab_state::ASKED
            && (is_over || crate::log::supervisor_died())
        {
            // Nothing of a lab outlives its engine, which may have ended before it heard of this process.
            kernel::exit_group(255);
        }
    }
    Answer {
        kind: slot.answer.load(Ordering::Relaxed),
        result: slot.result.load(Ordering::Relaxed),
        until_ns: slot.until_ns.load(Ordering::Relaxed),
    }
}

/// The thread, which computes, was preempted and stands at `place`: others go on.
pub fn preempted(place: u64, is_aside: bool) {
    let is_circle = core::mem::take(&mut thread().preemption.circle.is_found);
    let way = match (is_aside, is_circle) {
        (true, _) => lab_preempted::ASIDE,
        (false, true) => lab_preempted::IN_CIRCLE,
        (false, false) => lab_preempted::COMPUTES,
    };
    ask(lab_question::PREEMPTED, &[place, u64::from(clocks::has_acted()), way]);
}

/// A call that sends a signal was made.
pub fn tell_signal(number: u64, args: &[u64; 6]) {
    let [a, b, c, ..] = *args;
    ask(lab_question::SIGNALLED, &[number, a, b, c]);
}

/// Processes were sent what is no signal of a program's: they look for it, and go on before the calling thread does.
pub fn let_signalled_run() {
    ask(lab_question::SIGNALLED, &[u64::from(linux_abi::general::__NR_kill), 0, 0, 0]);
    clocks::spin(true);
}

/// A signal came while a call waited: its result, if it ends by that.
fn interrupted(restarts: bool) -> Option<i64> {
    deliverable::comes().map(|may_restart| match restarts && may_restart {
        true => ABORTED,
        false => -i64::from(errno::EINTR),
    })
}

/// Makes an attempt, which does not sleep, again and again until it has a result, the time comes, or
/// a signal does.
pub fn wait_for(
    until_ns: u64,
    restarts: bool,
    at_timeout: i64,
    attempt: &mut dyn FnMut() -> Option<i64>,
) -> i64 {
    wait_for_what([0; 2], until_ns, restarts, at_timeout, attempt)
}

/// The same where nothing but an end, a stop or a start of a child can help.
pub fn wait_for_children(attempt: &mut dyn FnMut() -> Option<i64>) -> i64 {
    wait_for_what([0, 1], lane_protocol::LAB_NEVER, true, 0, attempt)
}

/// The same where nothing but a change of one socket can help: `file` is its number, or 0.
pub fn wait_for_socket(
    file: u64,
    until_ns: u64,
    restarts: bool,
    at_timeout: i64,
    attempt: &mut dyn FnMut() -> Option<i64>,
) -> i64 {
    wait_for_what([file, 0], until_ns, restarts, at_timeout, attempt)
}

/// `what`: a socket's number or 0, and not zero for children.
fn wait_for_what(
    what: [u64; 2],
    until_ns: u64,
    restarts: bool,
    at_timeout: i64,
    attempt: &mut dyn FnMut() -> Option<i64>,
) -> i64 {
    let mut attempts = 0u64;
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        let answer = ask_aside(lab_question::WAIT, &[until_ns, attempts, what[0], what[1]]);
        attempts += 1;
        if let Some(result) = interrupted(restarts) {
            return result;
        }
        if answer.kind == lab_answer::TIMEOUT {
            return attempt().unwrap_or(at_timeout);
        }
    }
}

/// A call of the lab's own programs.
pub fn own_call(number: u64, args: &[u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = *args;
    ask_aside(lab_question::OWN, &[number, a, b, c, d, e, f]).result
}

/// A random word, by the lab's seed.
pub fn random() -> u64 {
    let mut word = 0u64;
    let words = [&raw mut word as u64, 8, 0, 0, 0, 0];
    sockets::ask_engine(u64::from(linux_abi::general::__NR_getrandom), &words, 0);
    // The engine wrote it.
    core::hint::black_box(word)
}

// --- births and ends ---

/// A slot for a thread or process that is about to be made. `None` where there is no lab.
pub fn reserve() -> Option<u32> {
    is_on().then(|| {
        clocks::note_vain_call();
        ask(lab_question::RESERVE, &[]).result as u32
    })
}

/// It was made, or could not be (`result`).
pub fn born(slot: Option<u32>, result: i64, flags: u64) {
    if let Some(slot) = slot {
        ask(lab_question::BORN, &[u64::from(slot), result.max(0) as u64, flags]);
    }
}

/// It is about to be made, and the calling thread then waits in the kernel.
pub fn vfork(slot: Option<u32>, flags: u64) {
    if let Some(slot) = slot {
        say(lab_question::VFORK, &[u64::from(slot), flags], lab_state::SAID);
    }
}

/// The thread that said [`vfork`] goes on; `result` of the call. The caller has not got the token.
pub fn vforked(slot: Option<u32>, result: i64) {
    if slot.is_some() {
        ask(lab_question::VFORKED, &[result.max(0) as u64]);
    }
}

/// The same with the token, which others may have meanwhile.
pub fn vforked_aside(slot: Option<u32>, result: i64) {
    if slot.is_some() {
        ask_aside(lab_question::VFORKED, &[result.max(0) as u64]);
    }
}

/// The calling thread has just been made; it has no token yet.
pub fn start(slot: u32) {
    if is_on() {
        thread().lab_slot = slot;
        ask(lab_question::START, &[]);
    }
}

/// The calling thread is about to execute a program.
pub fn before_exec() {
    lane().lab_slot.store(thread().lab_slot, Ordering::Relaxed);
}

/// The calling thread is the first of a new image, whose 16 random bytes (AT_RANDOM) are at `random`.
pub fn begin_image(random: Option<u64>) {
    if !is_on() {
        return;
    }
    thread().lab_slot = lane().lab_slot.load(Ordering::Relaxed);
    let seed = ask(lab_question::IMAGE, &[]).result as u64;
    if let Some(random) = random {
        crate::ground::memory::write(random, &[seed, seed.rotate_left(29) ^ 0x9e37_79b9_7f4a_7c15]);
    }
}

/// The calling thread ends, and asks nothing any more.
pub fn end_thread() {
    if is_on() {
        say(lab_question::THREAD_EXIT, &[], lab_state::SAID);
    }
}

/// The process does.
pub fn end_process() {
    if is_on() && session().lab.sums_memory.load(Ordering::Relaxed) != 0 {
        ask(lab_question::EXIT, &[]);
    } else if is_on() {
        say(lab_question::EXIT, &[], lab_state::SAID);
    }
}
