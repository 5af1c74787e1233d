//! Threads that wait: how they begin to, and who looks again when something changes.

use fabric::SocketId;
use lane_protocol::{LAB_ACTING, LAB_WORDS, lab_answer};

use crate::engine::Engine;
use crate::processes::Processes;
use crate::questions::{Answer, Outcome, Wait};
use crate::spec::Cpu;

/// By how much time goes on where a thread only reads it.
const SPIN_NS: u64 = 10_000;

/// How often a thread does so while others can go on, until time goes on all the same: they may wait for time themselves to get
/// what this one takes again and again (a lock of an interpreter).
const SPINS_WITHOUT_TIME: u32 = 1024;
/// The same where it makes other calls between.
const SPINS_WITH_CALLS: u32 = 4;

/// How often threads of a node have made many calls without waiting before time goes on.
const ROUNDS_OF_CALLS: u32 = 4;

/// How often threads go on at one time, and by how much time goes on then: processes that make and await one another
/// without end would otherwise do so at one time, whoever else waits for a later one.
const TURNS_AT_ONE_TIME: u32 = 4096;
/// To make a thread or process counts as so many: it takes a kernel that much longer.
const TURNS_OF_BIRTH: u32 = 256;
const TURNS_NS: u64 = 1_000_000;

/// Counts what happens at one time: when it did last, and how often then.
fn count_at((at_ns, times): &mut (u64, u32), now_ns: u64) -> u32 {
    *times = if *at_ns == now_ns { *times + 1 } else { 1 };
    *at_ns = now_ns;
    *times
}

impl Engine {
    /// Something changed in a node: whoever waits there for that looks.
    pub fn touch(&mut self, node: Option<usize>) {
        self.touch_parents(node);
        self.look_all(node, None);
    }

    /// A process of a node may have ended, stopped or gone on: whoever waits for children looks.
    pub fn touch_parents(&mut self, node: Option<usize>) {
        self.stirred_families.insert(node);
        self.look_where(node, |wait| *wait == Wait::Children);
    }

    /// Something changed of a socket of a node: whoever waits for that, or for anything, looks.
    pub fn touch_socket(&mut self, node: Option<usize>, id: SocketId) {
        self.stirred_sockets.insert(id);
        self.look_all(node, Some(id));
    }

    fn look_all(&mut self, node: Option<usize>, id: Option<SocketId>) {
        self.stirred.insert(node);
        let is_for = |of: Option<SocketId>| of.is_none() || of == id;
        self.look_where(node, |wait| matches!(wait, Wait::Change { of, .. } if is_for(*of)));
    }

    fn look_where(&mut self, node: Option<usize>, is_for: impl Fn(&Wait) -> bool) {
        self.look_if(|processes, slot, wait| is_for(wait) && processes.node_of(slot) == node);
    }

    /// Of those that wait these look.
    fn look_if(&mut self, is_for: impl Fn(&Processes, u32, &Wait) -> bool) {
        let is_meant = |(slot, wait): &&(u32, Wait)| is_for(&self.processes, *slot, wait);
        let looks: Vec<u32> = self.waiting.values().filter(is_meant).map(|(slot, _)| *slot).collect();
        for slot in looks {
            self.make_ready(slot, Answer::kind(lab_answer::LOOK));
        }
    }

    /// Those of a node that wait for a word of memory look at it.
    pub fn look_at_words(&mut self, node: Option<usize>) {
        self.look_where(node, |wait| matches!(wait, Wait::Futex { .. }));
    }

    /// A signal may have come to a process: its threads look.
    pub fn signal(&mut self, pid: i32) {
        self.look_if(|processes, slot, wait| processes.pid_of(slot) == Some(pid) && *wait != Wait::Orders);
    }

    /// A thread waits: until when, how often it has looked in vain, for which socket, whether for children.
    pub fn begin_wait(&mut self, slot: u32, words: [u64; LAB_WORDS]) -> Outcome {
        let [until_ns, attempts, file, children, ..] = words;
        let of = if file == 0 { None } else { self.placeholders.find(file) };
        let has_changed = match of {
            Some(id) => self.stirred_sockets.contains(&id),
            None if children != 0 => self.stirred_families.contains(&self.processes.node_of(slot)),
            None => self.stirred.contains(&self.processes.node_of(slot)),
        };
        if has_changed {
            // It looked before what the kernel knew was known here: it looks again.
            self.ready.push_back((slot, Answer::kind(lab_answer::LOOK)));
            return Outcome::Said;
        }
        if attempts == 0 {
            self.touch_own(slot);
        }
        self.note_late(slot, until_ns);
        Outcome::Wait(if children != 0 { Wait::Children } else { Wait::Change { until_ns, of } })
    }

    /// A thread waits until a time that has come. Where it does so again at the same time, it finds that too early: machines
    /// wake those who wait for a time behind it.
    pub fn note_late(&mut self, slot: u32, until_ns: u64) {
        if until_ns <= self.now_ns && self.spins_again(slot) > 1 {
            self.pass_time_to(self.now_ns + SPIN_NS);
        }
    }

    /// The thread did something before it waits: others of its node look whether it was for them.
    pub fn touch_own(&mut self, slot: u32) {
        self.nodes.note_act();
        let node = self.processes.node_of(slot);
        self.look_all(node, None);
    }

    /// Those that wait for anything of the kernel's, or for children, look.
    pub fn look_at_kernel(&mut self) {
        self.look_if(|_, _, wait| matches!(wait, Wait::Change { .. } | Wait::Children));
    }

    /// How often the thread has spun since the clock moved last.
    pub fn spins_again(&mut self, slot: u32) -> u32 {
        count_at(self.spinning.entry(slot).or_default(), self.now_ns)
    }

    /// A thread sleeps; where that is for no time, others go on all the same, and a little time where nobody can.
    pub fn sleep(&mut self, slot: u32, until_ns: u64) -> Outcome {
        let is_alone = !self.has_ready();
        self.touch_own(slot);
        if until_ns > self.now_ns {
            return Outcome::Wait(Wait::Sleep { until_ns });
        }
        if self.spins_again(slot) > SPINS_WITHOUT_TIME || is_alone {
            self.pass_time_to(self.now_ns + SPIN_NS);
        }
        self.go_behind(slot, Answer::kind(lab_answer::TIMEOUT))
    }

    /// A thread or process was made.
    pub fn count_birth(&mut self) {
        count_at(&mut self.turns, self.now_ns);
        self.turns.1 += TURNS_OF_BIRTH;
    }

    /// A thread goes on. Where many have at this time, time goes on, if somebody waits for that.
    pub fn count_turn(&mut self) {
        if count_at(&mut self.turns, self.now_ns) < TURNS_AT_ONE_TIME || self.spec.cpu != Cpu::None {
            return;
        }
        self.turns.1 = 0;
        if let Some(next_ns) = self.next_time() {
            self.pass_time_to(next_ns.min(self.now_ns + TURNS_NS));
        }
    }

    /// The thread goes on when those have that can.
    pub fn go_behind(&mut self, slot: u32, answer: Answer) -> Outcome {
        self.current = None;
        self.ready.push_back((slot, answer));
        Outcome::Said
    }

    /// Time passes for a thread that computes.
    fn compute(&mut self, slot: u32, for_ns: u64) {
        let from_ns = self.now_ns;
        self.pass_time_to(from_ns + for_ns);
        self.charge(slot, from_ns);
    }

    /// A thread makes many calls, and none that waits: others go on, and time where it has done so for long and nobody
    /// can.
    pub fn makes_calls(&mut self, slot: u32) -> Outcome {
        let is_alone = !self.has_ready();
        self.touch_own(slot);
        // Each may have been made by the one before, which is gone.
        let node = self.processes.node_of(slot);
        let rounds = count_at(self.busy.entry(node).or_default(), self.now_ns);
        if rounds > ROUNDS_OF_CALLS && is_alone || rounds > 4 * ROUNDS_OF_CALLS {
            self.compute(slot, SPIN_NS * LAB_ACTING);
        }
        let answer = self.steps_aside(slot);
        self.go_behind(slot, answer)
    }

    /// A thread reads the time in a loop, or lets others run: they do, and time goes on where nobody can.
    pub fn spins(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Outcome {
        let [goes_on, has_acted, no_more_reads, _, may_go_aside, ..] = words.map(|word| word != 0);
        let is_alone = !self.has_ready();
        let is_stuck = self.spins_again(slot) > if has_acted { SPINS_WITH_CALLS } else { SPINS_WITHOUT_TIME };
        if has_acted {
            self.touch_own(slot);
        }
        if (goes_on || is_alone || is_stuck) && !no_more_reads {
            self.compute(slot, if has_acted { SPIN_NS * LAB_ACTING } else { SPIN_NS });
        }
        if goes_on {
            return Outcome::Answer(Answer::result(0));
        }
        let answer = if may_go_aside { self.steps_aside(slot) } else { Answer::result(0) };
        self.go_behind(slot, answer)
    }
}
