//! A thread that computes without a call keeps all others from running. Where one of its node could go on meanwhile, or
//! something of its node is due, it is preempted (docs/adr/0116); from there on the run is not the same again, and says so.

use std::sync::atomic::Ordering;

use lane_protocol::{ASKING, LAB_LOOKS, LAB_NEVER, LAB_PREEMPTS, LAB_WORDS, LabSlot, lab_preempted};

use crate::LabError;
use crate::engine::Engine;
use crate::idle_turns::AWAITED_MAX_NS;
use crate::log::Record;
use crate::preemption::{AGAIN_NS, Watched};
use crate::processes::thread_of;
use crate::questions::{Answer, Outcome, Wait};
use crate::spec::Cpu;

/// How often a thread is preempted while others can go on, until time goes on all the same: they may compute, too.
const TURNS_WITHOUT_TIME: u32 = 3;

/// How long a thread has run (proc(5), schedstat).
fn processor_ns(pid: i32, tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The file and the place in it that is mapped at an address.
fn place_text(pid: i32, address: u64) -> String {
    let maps = injector::read_maps(pid).unwrap_or_default();
    match maps.iter().find(|mapping| mapping.contains(address) && mapping.name.starts_with(b"/")) {
        Some(mapping) => {
            let offset = address - mapping.start + mapping.file_offset;
            format!("{}+{offset:#x}", String::from_utf8_lossy(&mapping.name))
        }
        None => format!("{address:#x}"),
    }
}

impl Watched {
    /// Asks the thread to let others go on.
    fn send(&self, code: i32, slot: &LabSlot) {
        slot.asked.store(code, Ordering::SeqCst);
        let mut info = [0; 128];
        info[..4].copy_from_slice(&(ASKING as i32).to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        injector::queue_signal(self.pid, Some(self.tid), ASKING as i32, &info);
    }
}

impl Engine {
    /// The thread that runs is silent: it is preempted where it has computed for long enough, and another one may have to
    /// go on before it does anything else.
    pub fn preempt_if_due(&mut self, slot: u32) {
        let Some(after_ns) = self.spec.preempts_after_ns else { return };
        let (others, to_limit_ns) = (self.others_could_go_on(slot), self.left_of_limit(slot));
        if !others && to_limit_ns.is_none() {
            return;
        }
        let Some(pid) = self.processes.pid_of(slot) else { return };
        let was_preempted = self.preemption.before.contains(&slot);
        let limit_ns = if was_preempted { after_ns.min(AGAIN_NS) } else { after_ns };
        // Nobody has to go on but time, to where the processor's is used up.
        let limit_ns = if others { limit_ns } else { limit_ns.max(to_limit_ns.unwrap_or(0)) };
        let circle_ns = self.preemption.circle_ns(slot);
        let finds_circles = self.spec.cpu == Cpu::None && !was_preempted && others;
        match &mut self.preemption.watched {
            Some(watched) if watched.slot == slot => {
                let ran_ns = processor_ns(watched.pid, watched.tid).unwrap_or(0);
                let computes_ns = ran_ns.saturating_sub(watched.from_ns);
                if computes_ns >= limit_ns {
                    (watched.from_ns, watched.looked_ns) = (ran_ns, 0);
                    watched.uses_up = to_limit_ns.filter(|&left_ns| computes_ns >= left_ns);
                    watched.send(LAB_PREEMPTS, &self.memory.lab().slots[slot as usize]);
                } else if finds_circles && computes_ns >= watched.looked_ns + circle_ns {
                    watched.looked_ns = computes_ns;
                    watched.send(LAB_LOOKS, &self.memory.lab().slots[slot as usize]);
                    *self.preemption.futile.entry(slot).or_default() += 1;
                }
            }
            watched => {
                let inner = self.memory.lab().slots[slot as usize].tid.load(Ordering::Relaxed);
                let Some(tid) = thread_of(pid, inner) else { return };
                let Some(from_ns) = processor_ns(pid, tid) else { return };
                *watched = Some(Watched { slot, pid, tid, from_ns, looked_ns: 0, uses_up: None });
            }
        }
    }

    /// Whether another thread of the node can go on, or something will happen that one waits for which may share memory
    /// with this one: who computes may wait for that.
    fn others_could_go_on(&self, slot: u32) -> bool {
        let node = self.processes.node_of(slot);
        if self.ready.iter().any(|(ready, _)| self.processes.node_of(*ready) == node) {
            return true;
        }
        let pids = node.map(|node| self.processes.of_node(node)).unwrap_or_default();
        let has_alarm = |pid: &i32| self.processes.processes.get(pid).is_some_and(|one| one.alarm.is_some());
        if self.left_of_processor(slot).is_some() || self.timers.are_any(&pids) || pids.iter().any(has_alarm)
        {
            return true;
        }
        let waits = self.waiting.values().filter(|(waiting, _)| self.processes.node_of(*waiting) == node);
        let mut waits = waits.filter(|(_, wait)| !matches!(wait, Wait::Children | Wait::Orders)).peekable();
        let has_acted = self.slot(slot).acted.load(Ordering::Relaxed) != 0;
        let will_happen = has_acted || self.has_ready() || self.next_time().is_some();
        let has_time = |wait: &Wait| wait.until_ns() != LAB_NEVER;
        waits.peek().is_some() && (will_happen || waits.any(|(_, wait)| has_time(wait)))
    }

    /// True while the lab's own programs have something to do, which is little and ends.
    fn starts_nodes(&self) -> bool {
        let of = |slot: u32| self.processes.of_slot(slot);
        self.ready.iter().any(|(slot, _)| of(*slot).is_some_and(|process| process.is_labs_own))
    }

    /// The thread was preempted at `place`: others go on, and time where nobody can.
    ///
    /// In a circle, each round of which is as any other, it stands where it does each time.
    pub fn preempted(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Result<Outcome, LabError> {
        let [place, has_acted, way, ..] = *words;
        if way == lab_preempted::ASIDE {
            return Ok(self.is_aside(slot, has_acted != 0));
        }
        let (has_acted, is_circle) = (has_acted != 0, way == lab_preempted::IN_CIRCLE);
        if !self.has_ready() {
            // A node that is to start now does not wait for a later time.
            self.give_orders()?;
        }
        let is_alone = !self.has_ready();
        if has_acted {
            self.touch_own(slot);
        }
        if is_circle {
            self.preemption.note_circle(slot);
        } else if self.preemption.before.insert(slot) {
            self.preemption.first_ns.get_or_insert(self.now_ns);
            let (at_ns, node) = (self.now_ns, self.processes.node_of(slot));
            let tid = self.slot(slot).tid.load(Ordering::Relaxed);
            let pid = self.processes.pid_of(slot);
            let place = pid.map_or(String::new(), |pid| place_text(pid, place));
            self.log.record(Record::Preempted { at_ns, node, thread: tid, place });
        }
        let is_stuck = self.spins_again(slot) > TURNS_WITHOUT_TIME && !self.starts_nodes();
        let from_ns = self.now_ns;
        let uses_up = self.preemption.watched.as_ref().and_then(|watched| watched.uses_up);
        let left_ns = self.left_of_processor(slot).into_iter().chain(uses_up).min();
        let by_processor_ns = left_ns.map(|left_ns| from_ns.saturating_add(left_ns));
        if (is_alone || is_stuck)
            && let Some(at_ns) = self.next_time().into_iter().chain(by_processor_ns).min()
        {
            let leap_ns = self.preemption.leap_ns(is_alone);
            self.sleep_until(at_ns.min(from_ns.saturating_add(leap_ns)))?;
            self.charge(slot, from_ns);
        }
        Ok(self.go_behind(slot, Answer::result(0)))
    }
}

impl Engine {
    /// What a thread that spins is told when it goes on: see `lab_question::SPINS`.
    pub fn steps_aside(&mut self, slot: u32) -> Answer {
        let (node, now_ns) = (self.processes.node_of(slot), self.now_ns);
        Answer::result(self.idle_turns.steps(node, now_ns) as i64)
    }

    /// The thread has gone so many steps on. Those of its node that only sleep for a while may come before it.
    pub fn is_aside(&mut self, slot: u32, has_acted: bool) -> Outcome {
        if has_acted {
            self.touch_own(slot);
        }
        let node = self.processes.node_of(slot);
        let of_node = self.waiting.values().filter(|(other, _)| self.processes.node_of(*other) == node);
        let until_ns = of_node.map(|(_, wait)| wait.until_ns()).min().unwrap_or(0);
        let latest_ns = self.now_ns + AWAITED_MAX_NS;
        match until_ns > self.now_ns && until_ns <= latest_ns {
            true => Outcome::Wait(Wait::Sleep { until_ns }),
            false => self.go_behind(slot, Answer::result(0)),
        }
    }
}
