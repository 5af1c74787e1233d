//! When a lab is over.

use std::collections::{BTreeSet, VecDeque};

use fabric::{HostId, Kind, Socket, SocketId};

use super::{Node, NodeEnd, order, order_word};
use crate::engine::Engine;
use crate::log::Record;
use crate::placeholders;
use crate::spec::Action;

/// How long one that serves is waited for that may end by itself, where nobody else is left: one that began to listen only
/// then, one that takes datagrams, which may be on their way, and those beside one that was killed, which deal with that.
const LISTENS_FOR_NOBODY_NS: u64 = 60_000_000_000;

/// What those do that have not ended.
pub(super) struct Standing {
    /// One that served nobody has ended, or all have.
    clients_ended: bool,
    /// Each listens for connections.
    all_listen: bool,
    /// How many datagrams came to them; `None` where nobody has ended, or one does something else than to serve.
    pub(super) served: Option<u64>,
}

impl Engine {
    pub(super) fn end_node(&mut self, node: usize, end: NodeEnd) {
        self.sweep();
        self.nodes.nodes[node].end = Some(end);
        self.fabric.note_done(HostId(node));
        self.log.record(Record::End { at_ns: self.now_ns, node, end });
        self.end_if_over(None);
    }

    /// The lab is over when all nodes have ended, or when those that have not only serve those that have; commands of events
    /// are waited for, too. One that serves by datagrams alone is not told from one that exchanges them with others that
    /// serve: they have to cease to come. Who was killed while it served was not served: what the others do then is to be seen.
    pub(super) fn end_if_over(&mut self, before: Option<u64>) {
        let is_done = self.nodes.next_event >= self.spec.events.len()
            && self.nodes.orders.is_empty()
            && self.nodes.starts.is_empty()
            && !self.awaits_commands();
        let standing = self.standing();
        let is_waited_for = |served| match (standing.clients_ended, before) {
            (true, before) => !standing.all_listen && before != Some(served),
            (false, before) => before.is_none(),
        };
        match standing.served {
            Some(served) if is_done && !is_waited_for(served) => self.finish(NodeEnd::Stopped),
            Some(served) if is_done && self.nodes.looks_again_ns.is_none() => {
                self.nodes.looks_again_ns = Some(self.now_ns + LISTENS_FOR_NOBODY_NS);
                self.nodes.served = served;
            }
            Some(_) | None => {}
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let nodes = || self.nodes.nodes.iter().enumerate();
        let open = || nodes().filter(|(_, node)| node.end.is_none()).map(|(node, _)| node);
        let of = |node: usize| self.serving_sockets(node).map(|(_, socket)| socket);
        let listens = |node| of(node).any(|socket| matches!(socket.kind, Kind::Listener { .. }));
        let served = open().flat_map(of).map(|socket| socket.arrived).sum();
        let is_over =
            nodes().any(|(_, node)| node.end.is_some()) && open().all(|node| of(node).next().is_some());
        let is_client = |node: &Node| node.end.is_some() && !node.was_serving;
        Standing {
            clients_ended: open().next().is_none() || nodes().any(|(_, node)| is_client(node)),
            all_listen: open().all(listens),
            served: is_over.then_some(served),
        }
    }

    /// Whether the command of an event has to begin yet, or has not ended and does not serve.
    fn awaits_commands(&self) -> bool {
        let is_awaited = |(node, one): (usize, &Node)| {
            one.due_commands > 0 || one.commands.keys().any(|&command| !self.command_serves(node, command))
        };
        self.nodes.nodes.iter().enumerate().any(is_awaited)
    }

    /// Whether a command of a node, or a process that it made, has a socket by which others can reach it.
    fn command_serves(&self, node: usize, inner_pid: i32) -> bool {
        let inode = |(id, _): (SocketId, &Socket)| self.placeholders.inode(id);
        let serving: BTreeSet<u64> = self.serving_sockets(node).filter_map(inode).collect();
        let processes = self.processes.made_by(node, inner_pid);
        processes
            .into_iter()
            .any(|pid| placeholders::sockets_of(pid).any(|(_, inode)| serving.contains(&inode)))
    }

    /// By which others can reach a node.
    pub(super) fn serving_sockets(&self, node: usize) -> impl Iterator<Item = (SocketId, &Socket)> {
        let sockets = self.fabric.sockets().filter(|(id, _)| !self.resolvers.contains(id));
        sockets.filter(move |(_, socket)| socket.host == HostId(node) && socket.serves())
    }

    /// A node listens: if the others have ended before, nobody reaches it, and it is done a minute later.
    pub fn note_listening(&mut self) {
        if self.nodes.nodes.iter().any(|node| node.end.is_some()) {
            self.nodes.looks_again_ns = Some(self.now_ns + LISTENS_FOR_NOBODY_NS);
        }
    }

    /// All nodes end.
    pub(super) fn finish(&mut self, how: NodeEnd) {
        for node in 0..self.nodes.nodes.len() {
            if self.nodes.nodes[node].end.is_none() {
                self.nodes.nodes[node].end = Some(how);
                self.log.record(Record::End { at_ns: self.now_ns, node, end: how });
            }
        }
        self.nodes.orders = VecDeque::from([order_word(order::END, 0)]);
    }

    /// The command of an event, of this number, began. It may come to serve.
    pub(super) fn begin_command(&mut self, slot: u32, inner_pid: i32, event: usize) {
        let Some(node) = self.processes.node_of(slot) else { return };
        let of_node = &mut self.nodes.nodes[node];
        of_node.due_commands = of_node.due_commands.saturating_sub(1);
        of_node.commands.insert(inner_pid, event);
        self.note_listening();
    }

    /// The command of an event ended, with this status.
    pub(super) fn end_command(&mut self, slot: u32, inner_pid: i32, code: i32) {
        let Some(node) = self.processes.node_of(slot) else { return };
        let event = self.nodes.nodes[node].commands.remove(&inner_pid);
        self.sweep();
        let action = event.and_then(|number| self.spec.events.get(number)).map(|event| &event.action);
        if let Some(Action::Run { command, .. }) = action.filter(|_| code != 0) {
            let command = command.clone();
            self.log.record(Record::Command { at_ns: self.now_ns, node, command, code });
        }
        self.end_if_over(None);
    }
}
