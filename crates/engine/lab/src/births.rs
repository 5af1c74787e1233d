//! Processes and threads begin and end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::{PidFd, Segment};
use lane_protocol::{LAB_WORDS, lab_state};

use crate::LabError;
use crate::engine::{Engine, sleep_on_doorbell};
use crate::memory::Memory;
use crate::places::Place;
use crate::processes::{self, Process, ProcessorTime, Slot};
use crate::questions::{Answer, Outcome};
use crate::stopped::{UNSURE_MAX, is_stopped, patience};

const CLONE_VM: u64 = libc::CLONE_VM as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
/// How long a thread that was made, or that has its memory back, is waited for.
const BIRTH_MAX: Duration = Duration::from_secs(30);

/// What is said of a program with a set-user-ID bit.
const RANDOMISED: &str = "the kernel chooses addresses by chance for a program that changes its user as it is executed \
                          (su, sudo): where these matter two runs differ; setpriv and runuser do the same without";

impl Engine {
    /// The first question of a thread, or of a new image.
    pub fn begin(&mut self, slot: u32, is_image: bool) -> Result<Outcome, LabError> {
        let pid = self.slot(slot).pid.load(Ordering::Relaxed);
        if !is_image {
            return Ok(Outcome::Answer(Answer::result(0)));
        }
        let memory = Memory::open(pid).map_err(|source| LabError::Process { pid, source })?;
        let space = self.processes.new_space();
        match self.processes.processes.get_mut(&pid) {
            Some(process) => {
                (process.memory, process.space) = (memory, space);
                self.timers.signals.forget(pid);
                if let Some(waiter) = process.waited_by.take() {
                    self.await_return(waiter)?;
                }
                // The others of its image are no more.
                for other in self.processes.slots_of(pid).into_iter().filter(|&other| other != slot) {
                    self.end_thread(other);
                }
            }
            None => {
                self.processor.hold(Some(pid));
                self.add_process(slot, pid, memory, space, None)?;
            }
        }
        if processes::is_randomised(pid) {
            self.name_unsupported(slot, RANDOMISED);
        }
        let seed = self.random.word();
        Ok(Outcome::Answer(Answer::result(seed as i64)))
    }

    fn add_process(
        &mut self,
        slot: u32,
        pid: i32,
        memory: Memory,
        space: u64,
        parent: Option<i32>,
    ) -> Result<(), LabError> {
        let gone = || std::io::Error::from_raw_os_error(libc::ESRCH);
        let handle = PidFd::open(pid).ok_or_else(|| LabError::Process { pid, source: gone() })?;
        let node = parent.and_then(|parent| self.processes.processes.get(&parent)?.node);
        let limit = parent.and_then(|parent| Some(self.processes.processes.get(&parent)?.processor.limit));
        let processor = ProcessorTime { limit: limit.unwrap_or_default(), ..ProcessorTime::default() };
        let process = Process {
            node,
            parent,
            inner_pid: processes::inner_pid(pid),
            handle,
            memory,
            space,
            waited_by: None,
            alarm: None,
            processor,
            began_ns: self.now_ns,
            sizes: crate::sizes::Known::default(),
            is_labs_own: false,
            segment: None,
        };
        self.processes.processes.insert(pid, process);
        let known = self.processes.slots.entry(slot).or_default();
        known.pid = Some(pid);
        Ok(())
    }

    /// A slot for one that is about to be made.
    pub fn reserve(&mut self) -> Result<Outcome, LabError> {
        let slot = self.processes.take_slot().ok_or(LabError::TooManyThreads)?;
        self.slot(slot).state.store(lab_state::RESERVED, Ordering::Release);
        Ok(Outcome::Answer(Answer::result(i64::from(slot))))
    }

    /// It was made: it is there when its maker goes on, and runs later.
    pub fn born(&mut self, maker: u32, words: &[u64; LAB_WORDS]) -> Result<Outcome, LabError> {
        let (slot, was_made, flags) = (words[0] as u32, words[1] != 0, words[2]);
        if was_made {
            self.await_slot(slot, lab_state::RESERVED)?;
            self.adopt(maker, slot, flags)?;
            self.count_birth();
            self.make_ready(slot, Answer::result(0));
        } else {
            self.processes.slots.remove(&slot);
            self.slot(slot).state.store(lab_state::FREE, Ordering::Release);
        }
        Ok(Outcome::Answer(Answer::result(0)))
    }

    /// It is about to be made, and runs at once: its maker sleeps in the kernel.
    pub fn vfork(&mut self, maker: u32, words: &[u64; LAB_WORDS]) -> Result<Outcome, LabError> {
        let (slot, flags) = (words[0] as u32, words[1]);
        if !self.await_child_or_return(slot, maker)? {
            // There is no child: the maker goes on.
            self.processes.slots.remove(&slot);
            return Ok(Outcome::Run(maker));
        }
        self.adopt(maker, slot, flags)?;
        if let Some(process) = self.processes.of_slot_mut(slot) {
            process.waited_by = Some(maker);
        }
        Ok(Outcome::Run(slot))
    }

    fn adopt(&mut self, maker: u32, slot: u32, flags: u64) -> Result<(), LabError> {
        let pid = self.slot(slot).pid.load(Ordering::Relaxed);
        let parent = self.processes.pid_of(maker);
        if flags & CLONE_THREAD != 0 {
            self.processes.slots.insert(slot, Slot { pid: parent });
            return Ok(());
        }
        let memory = Memory::open(pid).map_err(|source| LabError::Process { pid, source })?;
        let parents = self.processes.of_slot(maker).map(|process| process.space);
        let space = match parents {
            Some(space) if flags & CLONE_VM != 0 => space,
            _ => self.processes.new_space(),
        };
        self.add_process(slot, pid, memory, space, parent)
    }

    /// Waits until a slot's thread has asked something.
    fn await_slot(&self, slot: u32, from: u32) -> Result<(), LabError> {
        self.await_any(&[slot], from).map(|_| ())
    }

    fn await_child_or_return(&self, child: u32, maker: u32) -> Result<bool, LabError> {
        let asked = self.await_any(&[child, maker], lab_state::RESERVED)?;
        Ok(asked == child)
    }

    /// The first of the slots whose thread asks something.
    fn await_any(&self, slots: &[u32], _from: u32) -> Result<u32, LabError> {
        let memory = Arc::clone(&self.memory);
        let lab = memory.lab();
        let began = Instant::now();
        loop {
            let seen = lab.doorbell.load(Ordering::Acquire);
            let asked = slots
                .iter()
                .copied()
                .find(|&slot| self.slot(slot).state.load(Ordering::Acquire) == lab_state::ASKED);
            if let Some(slot) = asked {
                return Ok(slot);
            }
            if began.elapsed() > BIRTH_MAX || self.stop.is_asked() {
                return Err(LabError::Unborn);
            }
            sleep_on_doorbell(lab, seen, Duration::from_millis(20));
        }
    }

    /// A thread that waits in vfork(2) has its memory back.
    fn await_return(&mut self, waiter: u32) -> Result<(), LabError> {
        if self.processes.slots.contains_key(&waiter) {
            self.await_slot(waiter, lab_state::SAID)?;
            self.make_ready(waiter, Answer::result(0));
        }
        Ok(())
    }

    /// A thread has ended, or is about to.
    pub fn end_thread(&mut self, slot: u32) {
        self.forget_slot(slot);
        self.processes.slots.remove(&slot);
    }

    /// A process has ended.
    pub fn end_process(&mut self, pid: i32) -> Result<(), LabError> {
        for slot in self.processes.slots_of(pid) {
            self.end_thread(slot);
        }
        self.keep_place(pid);
        self.forget_stop(pid);
        self.timers.signals.forget(pid);
        let Some(process) = self.processes.processes.remove(&pid) else { return Ok(()) };
        if let Some(waiter) = process.waited_by {
            self.await_return(waiter)?;
        }
        if let Some(parent) = process.parent {
            // SIGCHLD.
            self.signal(parent);
        }
        self.touch(process.node);
        // The kernel has cleared a word in memory that it shared, or marked its locks.
        self.look_at_words(process.node);
        self.end_killed(process.node)?;
        self.nodes.note_end(process.node);
        if process.parent.is_none() {
            self.is_over = true;
        }
        Ok(())
    }

    /// Processes of a node that were killed with the one that ended, as those of a namespace or of a group are.
    fn end_killed(&mut self, node: Option<usize>) -> Result<(), LabError> {
        for pid in node.map(|node| self.processes.of_node(node)).unwrap_or_default() {
            let [own, of_all] = injector::pending_signals(pid);
            if (own | of_all) >> (libc::SIGKILL - 1) & 1 != 0 {
                self.processes.await_end(pid);
            }
            if self.processes.processes.contains_key(&pid) && self.processes.has_ended(pid) {
                self.sweep();
                self.end_process(pid)?;
            }
        }
        Ok(())
    }

    /// A process sent a signal.
    pub fn signalled(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Result<Outcome, LabError> {
        let node = self.processes.node_of(slot);
        let own = self.processes.pid_of(slot);
        let signal = match words[0] as i64 {
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => words[3],
            _ => words[2],
        };
        let mates: Vec<i32> = match node {
            Some(node) => self.processes.of_node(node),
            None => Vec::new(),
        };
        let targets = self.processes.targets(own, &mates, words);
        self.follow_stops(signal, &mates, &targets);
        for pid in mates {
            if signal == libc::SIGKILL as u64 && targets.contains(&pid) {
                self.processes.await_end(pid);
            }
            if self.processes.has_ended(pid) && Some(pid) != own {
                self.sweep();
                self.end_process(pid)?;
            } else {
                self.signal(pid);
            }
        }
        // Who is stopped, or goes on, says nothing itself.
        self.touch_parents(node);
        Ok(Outcome::Answer(Answer::result(0)))
    }

    // --- stops ---

    /// A signal was sent to processes of a node; `targets` are those that it was surely meant for.
    pub fn follow_stops(&mut self, signal: u64, mates: &[i32], targets: &[i32]) {
        let Some(limit) = patience(signal) else { return };
        let begun = Instant::now();
        if targets.is_empty() {
            // A group, a descriptor of a process, or itself.
            while !mates.iter().any(|&pid| is_stopped(pid)) && begun.elapsed() < limit.min(UNSURE_MAX) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        for &pid in targets {
            while !is_stopped(pid) && !self.processes.has_ended(pid) && begun.elapsed() < limit {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        for &pid in mates {
            match (is_stopped(pid), self.stopped.processes.contains_key(&pid)) {
                (true, false) => drop(self.stopped.processes.insert(pid, None)),
                (false, true) => {
                    let granted = self.stopped.processes.remove(&pid).flatten();
                    self.stopped.continued.extend(granted);
                }
                _ => {}
            }
        }
    }

    /// The thread that runs is silent: true if its process has stopped itself. Others run then.
    pub fn notice_stop(&mut self, slot: u32) -> bool {
        let Some(pid) = self.processes.pid_of(slot).filter(|&pid| is_stopped(pid)) else { return false };
        self.stopped.processes.insert(pid, Some(slot));
        self.current = None;
        let node = self.processes.node_of(slot);
        for mate in node.map(|node| self.processes.of_node(node)).unwrap_or_default() {
            self.signal(mate);
        }
        self.touch_parents(node);
        true
    }

    /// The next thread that can go on and is not stopped.
    pub fn next_ready(&mut self) -> Option<(u32, Answer)> {
        let place = self.ready.iter().position(|(slot, _)| self.may_run(*slot))?;
        self.ready.remove(place)
    }

    /// Whether there is one.
    pub fn has_ready(&self) -> bool {
        self.ready.iter().any(|(slot, _)| self.may_run(*slot))
    }

    /// A thread that stopped itself and was continued: it asks now.
    pub fn next_continued(&mut self) -> Option<u32> {
        self.stopped.continued.pop_front()
    }

    fn may_run(&self, slot: u32) -> bool {
        let stopped = &self.stopped.processes;
        stopped.is_empty() || self.processes.pid_of(slot).is_none_or(|pid| !stopped.contains_key(&pid))
    }

    /// A process has ended: it is stopped no more.
    pub fn forget_stop(&mut self, pid: i32) {
        self.stopped.processes.remove(&pid);
    }

    // --- where logs stand ---

    /// The clock is about to move.
    pub fn keep_places(&mut self) {
        for pid in self.places.take_ran() {
            self.keep_place(pid);
        }
    }

    /// Notes where a process's log stands.
    fn keep_place(&mut self, pid: i32) {
        let Some(process) = self.processes.processes.get_mut(&pid) else { return };
        let Some(node) = process.node else { return };
        let memory = &self.memory;
        let is_its = |segment: &Segment| memory.lane(*segment).pid().load(Ordering::Relaxed) == pid;
        let known = process.segment.filter(is_its);
        process.segment = known.or_else(|| memory.segments_in_use().into_iter().find(is_its));
        let Some(lane) = process.segment.map(|segment| memory.lane(segment)) else { return };
        let (lane, bytes) = (u64::from(lane.ids().0), lane.produced_bytes());
        self.places.keep(Place { at_ns: self.now_ns, node: node as u64, lane, bytes });
    }
}
