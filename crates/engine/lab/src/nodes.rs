//! The nodes: how they are started, how they end, and what is done to them by the lab's time.
//!
//! The lab's first program starts a *holder* for each node, which makes the node's namespaces and an
//! *agent*, the first process in them; the agent starts the node's programs, as it is told.

mod ends;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use fabric::HostId;
use lane_protocol::{
    LAB_COMMAND, LAB_ENDED, LAB_ENTER, LAB_LAYER, LAB_NEXT, LAB_NODE_NEXT, LAB_WORDS, lab_state,
};

use crate::LabError;
use crate::calls::Call;
use crate::checkpoints::Schedule;
use crate::engine::Engine;
use crate::log::{Record, Stream};
use crate::placeholders::OUTPUT_TOKENS;
use crate::questions::{Answer, Outcome, Wait};
use crate::spec::{Action, Event, NodeSpec, Spec};
use crate::stop::StopReason;

/// How often the kernel is given time, twice as much each time, where nobody can go on: a quarter of a second in all.
const KERNEL_WAITS: u32 = 8;
const KERNEL_WAIT: Duration = Duration::from_millis(1);

/// Orders to the lab's own programs: what, and of which node or command.
pub mod order {
    /// A first program: start the holder of a node.
    pub const START: u64 = 1;
    /// Nothing more comes.
    pub const END: u64 = 2;
    /// An agent: start the node's command.
    pub const MAIN: u64 = 3;
    /// An agent: start the command of an event.
    pub const RUN: u64 = 4;
    /// An agent: processes of the node have ended.
    pub const LOOK: u64 = 5;
}

fn order_word(what: u64, which: usize) -> Answer {
    Answer::result((what << 32 | which as u64) as i64)
}

/// A pipe that has as much may be full: the kernel gives one page where its user has many pipes (pipe(7)), and puts
/// what would not fit into a page behind it into the next.
const FULL_BYTES: usize = 2048;

/// How a node's command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeEnd {
    /// As waitpid(2) says.
    Ended(i32),
    /// By an event of the lab.
    Killed,
    /// It served others, all of which had ended.
    Stopped,
}

impl NodeEnd {
    /// Nothing failed.
    pub fn is_good(self) -> bool {
        matches!(self, NodeEnd::Ended(0) | NodeEnd::Killed | NodeEnd::Stopped)
    }
}

/// A node.
#[derive(Debug, Default)]
struct Node {
    end: Option<NodeEnd>,
    /// It was killed while it served.
    was_serving: bool,
    orders: VecDeque<Answer>,
    /// How many commands of events are to begin.
    due_commands: usize,
    /// The events of those that have not ended, by their ids in the node.
    commands: BTreeMap<i32, usize>,
    looks: bool,
    outputs: Vec<File>,
}

/// All nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: Vec<Node>,
    orders: VecDeque<Answer>,
    /// When nodes get power, in the order of the times.
    starts: VecDeque<(u64, usize)>,
    next_event: usize,
    /// When to look again whether all that have not ended only serve.
    looks_again_ns: Option<u64>,
    /// How many datagrams had come to those that serve when that was decided.
    served: u64,
    /// What was said to be not there, to whom: once each, however often a program tries it again.
    named: BTreeSet<(Option<usize>, String)>,
    due_outputs: BTreeSet<u64>,
    /// How often the kernel was given time since a thread did something.
    kernel_waits: u32,
}

impl Nodes {
    pub fn new(spec: &Spec) -> Nodes {
        let nodes = spec.nodes.iter().map(|_| Node::default()).collect();
        let mut starts: Vec<_> =
            spec.nodes.iter().enumerate().map(|(node, spec)| (spec.starts_at_ns, node)).collect();
        starts.sort_unstable();
        Nodes { nodes, starts: starts.into(), ..Nodes::default() }
    }

    pub fn host(&self, node: usize) -> HostId {
        HostId(node)
    }

    /// When the lab's next event is.
    pub fn next_event_ns(&self, spec: &Spec) -> Option<u64> {
        let event = spec.events.get(self.next_event).map(|event| event.at_ns);
        let start = self.starts.front().map(|(at_ns, _)| *at_ns);
        event.into_iter().chain(start).chain(self.looks_again_ns).min()
    }

    /// A thread did something.
    pub fn note_act(&mut self) {
        self.kernel_waits = 0;
    }

    /// A process of a node has ended.
    pub fn note_end(&mut self, node: Option<usize>) {
        if let Some(node) = node {
            self.nodes[node].looks = true;
        }
    }

    /// How many of the lab's events have been.
    pub fn events_done(&self) -> usize {
        self.next_event
    }

    /// How each node ended.
    pub fn ends(&self) -> Vec<Option<NodeEnd>> {
        self.nodes.iter().map(|node| node.end).collect()
    }
}

impl Engine {
    /// The descriptors from which a node's outputs are read: of stdout and stderr.
    pub fn add_outputs(&mut self, node: usize, outputs: Vec<File>) -> Result<(), LabError> {
        let flags = rustix::event::epoll::EventFlags::IN | rustix::event::epoll::EventFlags::ET;
        for (stream, output) in outputs.iter().enumerate() {
            self.watch(output, OUTPUT_TOKENS + 2 * node as u64 + stream as u64, flags)?;
        }
        self.nodes.nodes[node].outputs = outputs;
        Ok(())
    }

    /// What nodes have written since the last time.
    pub fn collect_outputs(&mut self) {
        let now_ns = self.now_ns;
        for token in std::mem::take(&mut self.nodes.due_outputs) {
            let (node, stream) = (((token - OUTPUT_TOKENS) / 2) as usize, (token - OUTPUT_TOKENS) % 2);
            let stream = if stream == 0 { Stream::Stdout } else { Stream::Stderr };
            let mut buffer = [0u8; 64 << 10];
            let mut read = 0;
            let Some(output) = self.nodes.nodes[node].outputs.get_mut(stream as usize) else { continue };
            while let Ok(bytes @ 1..) = output.read(&mut buffer) {
                self.log.output(now_ns, node, stream, &buffer[..bytes]);
                read += bytes;
            }
            if read >= FULL_BYTES {
                // Who waits to write more has room.
                self.touch(Some(node));
            }
        }
    }

    /// An output has something to read.
    pub fn note_output(&mut self, token: u64) {
        self.nodes.due_outputs.insert(token);
    }

    /// A call of the lab's own programs.
    pub fn own_call(&mut self, slot: u32, words: &[u64; LAB_WORDS]) -> Result<Outcome, LabError> {
        if let Some(process) = self.processes.of_slot_mut(slot) {
            process.is_labs_own = true;
        }
        match words[0] {
            LAB_NEXT | LAB_NODE_NEXT => {
                self.touch_node_of(slot);
                Ok(Outcome::Wait(Wait::Orders))
            }
            LAB_ENTER => {
                let node = words[1] as usize;
                if node >= self.nodes.nodes.len() {
                    return Err(LabError::Protocol { what: "a node", number: words[1] });
                }
                if let Some(process) = self.processes.of_slot_mut(slot) {
                    process.node = Some(node);
                }
                // Before what events have for it already.
                self.nodes.nodes[node].orders.push_front(order_word(order::MAIN, node));
                Ok(Outcome::Answer(Answer::result(0)))
            }
            LAB_ENDED => {
                let node = self.processes.node_of(slot);
                if let Some(node) = node.filter(|_| words[1] == 0) {
                    self.end_node(node, NodeEnd::Ended(words[2] as i32));
                }
                Ok(Outcome::Answer(Answer::result(0)))
            }
            LAB_COMMAND => {
                let (inner_pid, more) = (words[2] as i32, (words[2] >> 32) as i32);
                match words[1] {
                    0 => self.end_command(slot, inner_pid, more),
                    _ => self.begin_command(slot, inner_pid, more as usize),
                }
                Ok(Outcome::Answer(Answer::result(0)))
            }
            LAB_LAYER => Ok(self.note_layer(slot, words[1], words[2])),
            number => Err(LabError::Protocol { what: "a call of the lab's", number }),
        }
    }

    /// A node has a layer of files on a device; or (0) none, for the reason of an error's number.
    fn note_layer(&mut self, slot: u32, layer: u64, below: u64) -> Outcome {
        if layer == 0 {
            let reason = std::io::Error::from_raw_os_error(below as i32);
            self.name_unsupported(slot, &format!("layers of files are refused here ({reason}): the node shares the machine's files, but for /mnt"));
        } else if let Some(index) = lane_protocol::layer_index(layer) {
            self.memory.lab().devices[index].store(below, std::sync::atomic::Ordering::Relaxed);
        }
        Outcome::Answer(Answer::result(0))
    }

    fn touch_node_of(&mut self, slot: u32) {
        let node = self.processes.node_of(slot);
        self.touch(node);
    }

    /// The lab's own programs are told what to do, where they wait for that.
    pub fn give_orders(&mut self) -> Result<(), LabError> {
        for slot in self.orders() {
            let order = match self.processes.node_of(slot) {
                None => self.nodes.orders.pop_front(),
                Some(node) => {
                    let node = &mut self.nodes.nodes[node];
                    let looks = std::mem::take(&mut node.looks);
                    node.orders.pop_front().or(looks.then(|| order_word(order::LOOK, 0)))
                }
            };
            if let Some(order) = order {
                self.make_ready(slot, order);
            }
        }
        Ok(())
    }

    /// No thread can go on, and no time is awaited. The kernel may have something under way still: it hands what was written
    /// to a terminal to the other side, and the signals of its keys, later (`flush_to_ldisc` on a work queue; Linux 6.12).
    pub fn await_kernel(&mut self) -> Result<(), LabError> {
        if self.nodes.kernel_waits == KERNEL_WAITS {
            return self.end_without_future();
        }
        std::thread::sleep(KERNEL_WAIT * (1 << self.nodes.kernel_waits));
        self.nodes.kernel_waits += 1;
        self.sweep();
        self.look_at_kernel();
        Ok(())
    }

    fn end_without_future(&mut self) -> Result<(), LabError> {
        let is_open = |node: &&Node| node.end.is_none();
        if self.nodes.nodes.iter().filter(is_open).count() == 0 && self.nodes.orders.is_empty() {
            // Its first program was to end it.
            return Err(LabError::Protocol { what: "an end", number: 0 });
        }
        if self.nodes.orders.is_empty() && self.standing().served.is_some() {
            self.finish(NodeEnd::Stopped);
            return Ok(());
        }
        let names = self.spec.nodes.iter().zip(&self.nodes.nodes);
        let stuck: Vec<String> =
            names.filter(|(_, node)| node.end.is_none()).map(|(spec, _)| spec.name.clone()).collect();
        Err(LabError::Stuck { at_ns: self.now_ns, nodes: stuck.join(", ") })
    }

    // --- events ---

    /// What is wished from outside becomes events.
    pub fn hear(&mut self) {
        let at_ns = self.now_ns + 1;
        let wishes = self.control.take_wishes(at_ns);
        if wishes.is_empty() {
            return;
        }
        for action in wishes {
            let later = self.spec.events.partition_point(|event| event.at_ns <= at_ns);
            let event = Event { at_ns, action, is_wish: true };
            self.spec.events.insert(later.max(self.nodes.next_event), event);
        }
        self.keep_spec();
    }

    /// The description is kept as it is now.
    pub fn keep_spec(&self) {
        if let Ok(text) = serde_json::to_string(&self.spec) {
            // Who reads it sees one or the other. That it could not be written is seen by who needs it.
            let early = self.spec_path.with_extension("new");
            let _ = std::fs::write(&early, text).and_then(|()| std::fs::rename(&early, &self.spec_path));
        }
    }

    /// Says how far the lab is.
    pub fn tell_standing(&self) {
        self.control.stand(self.now_ns, self.nodes.ends());
    }

    /// The events whose time has come.
    pub fn do_events(&mut self) {
        while let Some(&(_, node)) = self.nodes.starts.front().filter(|(at_ns, _)| *at_ns <= self.now_ns) {
            self.nodes.starts.pop_front();
            self.nodes.orders.push_back(order_word(order::START, node));
        }
        if self.nodes.looks_again_ns.take_if(|at_ns| *at_ns <= self.now_ns).is_some() {
            self.end_if_over(Some(self.nodes.served));
        }
        loop {
            let next = self.spec.events.get(self.nodes.next_event).cloned();
            let next = next.filter(|event| event.at_ns <= self.now_ns);
            if let Some(schedule) = &mut self.checkpoints.schedule
                && schedule.next_ns <= self.now_ns
                && next.as_ref().is_none_or(|event| schedule.is_before(event.at_ns))
            {
                schedule.pass();
                self.take_checkpoint(true);
                continue;
            }
            let Some(event) = next else { return };
            self.nodes.next_event += 1;
            self.log.record(Record::Event { at_ns: self.now_ns, action: event.action.clone() });
            let takes_checkpoint = event.action == Action::Checkpoint;
            match event.action {
                Action::Kill { node } => self.kill_node(node),
                Action::Restart { node } => {
                    self.kill_node(node);
                    self.fabric.set_power(HostId(node), true);
                    self.resolvers[node] = crate::resolver::open(&mut self.fabric, HostId(node));
                    self.nodes.nodes[node].end = None;
                    self.nodes.nodes[node].was_serving = false;
                    self.nodes.orders.push_back(order_word(order::START, node));
                }
                Action::Partition { parts } => self.fabric.partition(|host| parts[host.0]),
                Action::Heal => self.fabric.heal(),
                Action::Link { between: (one, other), spec } => {
                    self.fabric.link(HostId(one), HostId(other), &spec);
                }
                // Without power nothing runs.
                Action::Run { node, .. } if self.nodes.nodes[node].end == Some(NodeEnd::Killed) => {}
                Action::Run { node, .. } => {
                    let index = self.nodes.next_event - 1;
                    self.nodes.nodes[node].orders.push_back(order_word(order::RUN, index));
                    self.nodes.nodes[node].due_commands += 1;
                }
                Action::Checkpoint => self.take_checkpoint(false),
                Action::Every { every_ns, keep } => {
                    self.checkpoints.schedule = Schedule::new(event.at_ns, every_ns, keep);
                }
                Action::Seed { seed } => self.reseed(seed),
                Action::Stop => self.stop.stop(StopReason::Asked),
            }
            if event.is_wish {
                let taken = takes_checkpoint.then_some(self.checkpoints.count);
                self.control.tell_done(event.at_ns, self.now_ns, taken);
            }
            self.end_if_over(None);
        }
    }

    /// A node loses power.
    fn kill_node(&mut self, node: usize) {
        let serves = self.serving_sockets(node).next().is_some();
        self.fabric.set_power(HostId(node), false);
        self.placeholders.forget_node(node);
        self.processes.kill_node(node);
        for pid in self.processes.of_node(node) {
            self.processes.await_end(pid);
            self.timers.signals.forget(pid);
            for slot in self.processes.slots_of(pid) {
                self.slot(slot).state.store(lab_state::FREE, std::sync::atomic::Ordering::Release);
                self.end_thread(slot);
            }
            if let Some(process) = self.processes.processes.remove(&pid)
                && let Some(parent) = process.parent
            {
                self.signal(parent);
            }
        }
        if self.nodes.nodes[node].end.is_none() {
            self.nodes.nodes[node].end = Some(NodeEnd::Killed);
            self.nodes.nodes[node].was_serving = serves;
        }
        self.nodes.nodes[node].orders.clear();
        self.nodes.nodes[node].commands.clear();
        self.nodes.nodes[node].due_commands = 0;
    }

    /// Who has no link to another node, and may have meant a way over others, is told so by name.
    pub fn note_no_way(&mut self, call: &Call, result: &Result<(), fabric::Error>, to: SocketAddr) {
        let of_node = |node: &NodeSpec| node.addresses.contains(&to.ip().to_canonical());
        if *result == Err(fabric::Error::Unreachable)
            && let Some(other) =
                self.spec.nodes.iter().find(|node| of_node(node)).map(|node| node.name.clone())
        {
            self.name_unsupported(
                call.slot,
                &format!("a way to `{other}`, to which the node has no link (there are no routers)"),
            );
        }
    }

    /// A program of a node did what a lab does not have.
    pub fn name_unsupported(&mut self, slot: u32, what: &str) {
        self.name_unsupported_of(self.processes.node_of(slot), what);
    }

    /// The same, of a node.
    pub fn name_unsupported_of(&mut self, node: Option<usize>, what: &str) {
        if self.nodes.named.insert((node, what.to_owned())) {
            self.log.record(Record::Unsupported { at_ns: self.now_ns, node, what: what.to_owned() });
        }
    }
}
