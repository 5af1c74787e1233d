//! The engine: it answers one thread of the lab at a time, and lets time pass when none can go on.
//!
//! Invariant: what happens in a lab with the virtual clock depends on the questions alone, which come
//! one after the other: a thread runs from a grant to its next question, and nobody else meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabric::{Fabric, SocketId};
use injector::{SessionMemory, futex_wait, futex_wake};
use lane_protocol::{LAB_NEVER, LAB_WORDS, Lab, LabSlot, lab_answer, lab_question, lab_state};
use rustix::event::epoll;

use crate::LabError;
use crate::checkpoints::Checkpoints;
use crate::clock_log::ClockLog;
use crate::control::Control;
use crate::files::Files;
use crate::futexes::Futexes;
use crate::idle_turns::IdleTurns;
use crate::log::Log;
use crate::memory_sums::MemorySums;
use crate::nodes::Nodes;
use crate::placeholders::Placeholders;
use crate::places::Places;
use crate::preemption::Preemption;
use crate::processes::Processes;
use crate::processor::Processor;
use crate::questions::{Answer, Outcome, Question, Wait};
use crate::resolver;
use crate::silence::{SILENCE, Silence, SilenceNotice};
use crate::spec::{Cpu, Spec};
use crate::stop::Stopper;
use crate::stopped::Stopped;
use crate::timers::Timers;

/// Other chance than the network's, by the same seed.
pub const CHANCE: u64 = 0x6c61_6200;

/// Sleeps until somebody asks, or for so long.
pub fn sleep_on_doorbell(lab: &Lab, seen: u32, timeout: Duration) {
    // Who asks looks whether somebody sleeps after having rung.
    lab.sleeps.store(1, Ordering::SeqCst);
    if lab.doorbell.load(Ordering::SeqCst) == seen {
        futex_wait(&lab.doorbell, seen, timeout);
    }
    lab.sleeps.store(0, Ordering::Relaxed);
}

/// What an engine keeps of a run, besides its log.
pub struct Kept {
    pub clock_log: ClockLog,
    pub checkpoints: Checkpoints,
    pub places: Places,
    pub memory_sums: MemorySums,
    pub spec_path: std::path::PathBuf,
    pub processor: Processor,
    pub silent: Option<SilenceNotice>,
}

/// A lab that runs.
pub struct Engine {
    pub memory: Arc<SessionMemory>,
    pub spec: Spec,
    pub fabric: Fabric,
    pub processes: Processes,
    pub placeholders: Placeholders,
    pub futexes: Futexes,
    pub timers: Timers,
    pub nodes: Nodes,
    pub log: Log,
    pub random: fabric::Random,
    /// What names are asked of, of each node.
    pub resolvers: Vec<SocketId>,
    /// Threads that can go on, in their order, and what they are told.
    pub ready: VecDeque<(u32, Answer)>,
    /// Threads that wait, in the order in which they began.
    pub waiting: BTreeMap<u64, (u32, Wait)>,
    next_wait: u64,
    /// Of threads that spin: when they did last, and how often then.
    pub spinning: BTreeMap<u32, (u64, u32)>,
    /// The same of nodes whose threads make many calls, and none that waits.
    pub busy: BTreeMap<Option<usize>, (u64, u32)>,
    /// How often threads went on, and at what time that was.
    pub turns: (u64, u32),
    /// Nodes in which something changed since the thread that runs was granted.
    pub stirred: BTreeSet<Option<usize>>,
    /// Nodes in which a process ended, stopped or went on.
    pub stirred_families: BTreeSet<Option<usize>>,
    /// Sockets of which something did.
    pub stirred_sockets: BTreeSet<SocketId>,
    pub current: Option<u32>,
    pub granted_at: Instant,
    pub now_ns: u64,
    pub real_from_ns: u64,
    pub stop: Stopper,
    pub control: Control,
    pub checkpoints: Checkpoints,
    pub clock_log: ClockLog,
    pub places: Places,
    pub memory_sums: MemorySums,
    pub files: Files,
    /// Where the description is kept.
    pub spec_path: std::path::PathBuf,
    pub processor: Processor,
    pub silence: Silence,
    pub preemption: Preemption,
    pub idle_turns: IdleTurns,
    pub stopped: Stopped,
    pub is_over: bool,
}

impl Engine {
    /// A lab that has not begun; the first thread that asks begins it.
    pub fn new(
        memory: Arc<SessionMemory>,
        spec: Spec,
        log: Log,
        stop: Stopper,
        kept: Kept,
    ) -> Result<Engine, LabError> {
        let mut fabric = Fabric::new(spec.seed);
        let hosts: Vec<_> = spec.nodes.iter().map(|node| fabric.add_host(node.addresses.clone())).collect();
        for (one, other, link) in &spec.links {
            fabric.link(hosts[*one], hosts[*other], link);
        }
        let resolvers = hosts.iter().map(|&host| resolver::open(&mut fabric, host)).collect();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(LabError::descriptors)?;
        let nodes = Nodes::new(&spec);
        let random = fabric::Random::new(spec.seed ^ CHANCE);
        Ok(Engine {
            memory,
            fabric,
            processes: Processes::default(),
            placeholders: Placeholders::new(epoll),
            futexes: Futexes::default(),
            timers: Timers::default(),
            nodes,
            log,
            random,
            resolvers,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            next_wait: 0,
            spinning: BTreeMap::new(),
            busy: BTreeMap::new(),
            turns: (0, 0),
            stirred: BTreeSet::new(),
            stirred_families: BTreeSet::new(),
            stirred_sockets: BTreeSet::new(),
            current: Some(0),
            granted_at: Instant::now(),
            now_ns: 0,
            real_from_ns: 0,
            spec,
            stop,
            control: Control::default(),
            checkpoints: kept.checkpoints,
            clock_log: kept.clock_log,
            places: kept.places,
            memory_sums: kept.memory_sums,
            files: Files::default(),
            spec_path: kept.spec_path,
            processor: kept.processor,
            silence: Silence::new(kept.silent),
            preemption: Preemption::default(),
            idle_turns: IdleTurns::default(),
            stopped: Stopped::default(),
            is_over: false,
        })
    }

    /// What is told to processes before any of them runs.
    pub fn prepare(memory: &SessionMemory, spec: &Spec) {
        const BOOTED_BEFORE_NS: u64 = 1_000_000_000_000;
        let lab = memory.lab();
        lab.monotonic_ns.store(BOOTED_BEFORE_NS, Ordering::Relaxed);
        lab.realtime_ns.store(spec.begins_at_ns, Ordering::Relaxed);
        lab.seed.store(spec.seed, Ordering::Relaxed);
        lab.cpu_is_free.store(u32::from(spec.cpu == Cpu::None), Ordering::Relaxed);
        lab.slots[0].state.store(lab_state::RESERVED, Ordering::Relaxed);
        lab.is_on.store(1, Ordering::Release);
    }

    pub fn slot(&self, slot: u32) -> &LabSlot {
        &self.memory.lab().slots[slot as usize]
    }

    /// Runs the lab to its end; its processes are there still, until [`Engine::end`].
    pub fn run(&mut self) -> Result<(), LabError> {
        self.processor.hold(None);
        self.begin_clock();
        while !self.is_over && !self.stop.is_asked() {
            self.hear();
            match self.current {
                Some(slot) => {
                    if let Some(question) = self.await_question(slot)? {
                        self.sweep();
                        let outcome = self.answer(question)?;
                        self.take_outcome(question.slot, outcome);
                    }
                }
                None => self.choose()?,
            }
        }
        if !self.memory_sums.are_off() {
            self.sum_all_memory();
            self.memory_sums.flush();
        }
        self.keep_places();
        self.places.flush();
        self.clock_log.flush();
        self.tell_standing();
        Ok(())
    }

    /// Ends the processes, those that it has not heard of yet, too.
    pub fn end(&self) {
        self.memory.lab().is_over.store(1, Ordering::Release);
        self.processes.kill_all();
    }

    /// Waits until the thread that runs asks; `None`: its process has ended.
    fn await_question(&mut self, slot: u32) -> Result<Option<Question>, LabError> {
        let lab_memory = Arc::clone(&self.memory);
        let lab = lab_memory.lab();
        let shared = &lab.slots[slot as usize];
        let mut silent = Duration::ZERO;
        loop {
            let seen = lab.doorbell.load(Ordering::Acquire);
            let state = shared.state.load(Ordering::Acquire);
            if matches!(state, lab_state::ASKED | lab_state::SAID) {
                break;
            }
            if self.stop.is_asked() {
                return Ok(None);
            }
            let look = self.preemption.look(slot);
            sleep_on_doorbell(lab, seen, look);
            let is_silent = lab.doorbell.load(Ordering::Acquire) == seen;
            if is_silent && (self.notice_end(slot)? || self.notice_stop(slot)) {
                return Ok(None);
            }
            if is_silent {
                self.preempt_if_due(slot);
            }
            let is_told = silent >= SILENCE;
            silent += look;
            if silent >= SILENCE && !is_told {
                let node = self.processes.node_of(slot);
                node.into_iter().for_each(|node| self.silence.tell(node));
            }
        }
        let kind = shared.question.load(Ordering::Relaxed);
        if kind != lab_question::FILE {
            self.pass_cpu_time(slot)?;
        }
        let mut words = [0; LAB_WORDS];
        for (word, shared) in words.iter_mut().zip(&shared.words) {
            *word = shared.load(Ordering::Relaxed);
        }
        Ok(Some(Question { slot, kind, words }))
    }

    /// The thread that runs is silent: true if its process has ended.
    fn notice_end(&mut self, slot: u32) -> Result<bool, LabError> {
        let Some(pid) = self.processes.pid_of(slot) else { return Ok(false) };
        if !self.processes.has_ended(pid) {
            return Ok(false);
        }
        if self.spec.keeps_clock() {
            let reads = self.take_reads();
            self.clock_log.end(&reads, self.now_ns)?;
        }
        self.sweep();
        self.end_process(pid)?;
        Ok(true)
    }

    fn take_outcome(&mut self, slot: u32, outcome: Outcome) {
        match outcome {
            Outcome::Answer(answer) => self.grant(slot, answer),
            Outcome::Wait(wait) => {
                self.current = None;
                self.wait(slot, wait);
            }
            Outcome::Run(next) => {
                self.current = Some(next);
                self.tell_reads();
                self.tell_processor_time(next);
            }
            Outcome::Runs => {}
            Outcome::Said => {
                if self.current == Some(slot) {
                    self.current = None;
                }
            }
        }
    }

    /// A thread begins to wait.
    pub fn wait(&mut self, slot: u32, wait: Wait) {
        self.waiting.insert(self.next_wait, (slot, wait));
        self.next_wait += 1;
    }

    /// The thread goes on.
    fn grant(&mut self, slot: u32, answer: Answer) {
        self.tell_reads();
        self.tell_processor_time(slot);
        self.hand_over(slot, answer);
        self.note_granted(slot);
    }

    fn note_granted(&mut self, slot: u32) {
        self.current = Some(slot);
        self.stirred.clear();
        self.stirred_families.clear();
        self.stirred_sockets.clear();
        self.granted_at = Instant::now();
        self.preemption.begin_slice();
    }

    /// The thread gets its answer.
    fn hand_over(&self, slot: u32, answer: Answer) {
        let shared = self.slot(slot);
        shared.answer.store(answer.kind, Ordering::Relaxed);
        shared.result.store(answer.result, Ordering::Relaxed);
        shared.until_ns.store(answer.until_ns, Ordering::Relaxed);
        shared.state.store(lab_state::GRANTED, Ordering::SeqCst);
        if shared.sleeps.load(Ordering::SeqCst) != 0 {
            futex_wake(&shared.state);
        }
    }

    /// The thread goes on when it is its time.
    pub fn make_ready(&mut self, slot: u32, answer: Answer) {
        self.waiting.retain(|_, (waiting, _)| *waiting != slot);
        match self.ready.iter_mut().find(|(ready, _)| *ready == slot) {
            Some(ready) => ready.1 = answer,
            None => self.ready.push_back((slot, answer)),
        }
    }

    /// The thread is gone.
    pub fn forget_slot(&mut self, slot: u32) {
        self.waiting.retain(|_, (waiting, _)| *waiting != slot);
        self.ready.retain(|(ready, _)| *ready != slot);
        self.futexes.forget(slot);
        self.spinning.remove(&slot);
        self.preemption.forget(slot);
        self.slot(slot).state.store(lab_state::FREE, Ordering::Release);
        if self.current == Some(slot) {
            self.current = None;
        }
    }

    /// Those of the lab's own programs that have something to do.
    pub fn orders(&self) -> Vec<u32> {
        let is_order = |wait: &Wait| *wait == Wait::Orders;
        self.waiting.values().filter(|(_, wait)| is_order(wait)).map(|(slot, _)| *slot).collect()
    }

    /// Nobody runs: the next thread does, or time passes.
    fn choose(&mut self) -> Result<(), LabError> {
        if let Some(slot) = self.next_continued() {
            // It runs already.
            self.note_granted(slot);
            return Ok(());
        }
        if let Some((slot, answer)) = self.next_ready() {
            self.grant(slot, answer);
            self.count_turn();
            return Ok(());
        }
        self.give_orders()?;
        if self.has_ready() || self.is_over {
            return Ok(());
        }
        let checkpoint_ns = self.checkpoints.schedule.map_or(u64::MAX, |schedule| schedule.next_ns);
        match self.next_time() {
            Some(at_ns) => self.sleep_until(at_ns.min(checkpoint_ns))?,
            None => return self.await_kernel(),
        }
        Ok(())
    }

    /// When something happens by itself.
    pub fn next_time(&self) -> Option<u64> {
        let waits = self.waiting.values().map(|(_, wait)| wait.until_ns()).filter(|&at| at != LAB_NEVER);
        waits
            .chain(self.fabric.next_event_ns())
            .chain(self.timers.next_ns())
            .chain(self.nodes.next_event_ns(&self.spec))
            .min()
    }

    /// Time goes on, and what is due happens.
    pub fn pass_time_to(&mut self, to_ns: u64) {
        let to_ns = to_ns.max(self.now_ns);
        if to_ns > self.now_ns {
            self.keep_places();
        }
        self.now_ns = to_ns;
        self.tell_standing();
        self.memory.lab().now_ns.store(to_ns, Ordering::Release);
        self.fabric.advance(to_ns);
        self.follow_fabric();
        self.fire_timers();
        self.do_events();
        let due: Vec<u32> = self
            .waiting
            .values()
            .filter(|(_, wait)| wait.until_ns() <= to_ns)
            .map(|(slot, _)| *slot)
            .collect();
        for slot in due {
            self.futexes.forget(slot);
            self.make_ready(slot, Answer::kind(lab_answer::TIMEOUT));
        }
    }

    fn answer(&mut self, question: Question) -> Result<Outcome, LabError> {
        let Question { slot, kind, words } = question;
        self.take_changes(slot);
        if let Some(pid) = self.processes.pid_of(slot) {
            self.places.note(pid);
        }
        self.idle_turns.note(self.processes.node_of(slot), slot, kind);
        if kind != lab_question::FUTEX_WAIT {
            self.futexes.forget(slot);
        }
        match kind {
            lab_question::START | lab_question::IMAGE => self.begin(slot, kind == lab_question::IMAGE),
            lab_question::CALL => Ok(self.perform(slot, &words)),
            lab_question::WAIT => Ok(self.begin_wait(slot, words)),
            lab_question::SLEEP => Ok(self.sleep(slot, words[0])),
            lab_question::FUTEX_WAIT => {
                self.touch_own(slot);
                Ok(self.futex_wait(slot, &words))
            }
            lab_question::FUTEX_WAKE => Ok(self.futex_wake(slot, &words)),
            lab_question::FUTEX_REQUEUE => Ok(self.futex_requeue(slot, &words)),
            lab_question::RESERVE => self.reserve(),
            lab_question::BORN => self.born(slot, &words),
            lab_question::VFORK => self.vfork(slot, &words),
            lab_question::VFORKED => Ok(Outcome::Answer(Answer::result(0))),
            lab_question::THREAD_EXIT => {
                self.touch_own(slot);
                self.end_thread(slot);
                Ok(Outcome::Said)
            }
            lab_question::EXIT => {
                if let Some(pid) = self.processes.pid_of(slot) {
                    if !self.memory_sums.are_off() {
                        // It waits until its memory was looked at.
                        self.sum_memory(pid);
                        self.grant(slot, Answer::result(0));
                    }
                    self.processes.await_end(pid);
                    self.sweep();
                    self.end_process(pid)?;
                }
                Ok(Outcome::Said)
            }
            lab_question::SIGNALLED => self.signalled(slot, &words),
            lab_question::SPINS if words[3] != 0 => Ok(self.makes_calls(slot)),
            lab_question::SPINS => Ok(self.spins(slot, &words)),
            lab_question::PREEMPTED => self.preempted(slot, &words),
            lab_question::FILE => {
                // Files of the machine change when they do: whether a thread asks is not of the run, and takes no time.
                let answer = self.look_at_file(slot, &words);
                self.hand_over(slot, answer);
                Ok(Outcome::Runs)
            }
            lab_question::CHANGES => Ok(Outcome::Answer(Answer::result(0))),
            lab_question::OWN => self.own_call(slot, &words),
            _ => Err(LabError::Protocol { what: "a question", number: u64::from(kind) }),
        }
    }

    /// What the kernel knows by now: what was written, read and closed, what nodes said.
    pub fn sweep(&mut self) {
        let events = self.placeholders.events();
        for (token, flags) in events {
            self.follow_placeholder(token, flags);
        }
        self.follow_fabric();
        self.collect_outputs();
    }

    /// A descriptor that the engine looks at.
    pub fn watch(&self, descriptor: impl AsFd, token: u64, flags: epoll::EventFlags) -> Result<(), LabError> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(self.placeholders.epoll(), descriptor, data, flags).map_err(LabError::descriptors)
    }
}
