//! What a lab says: its nodes' outputs, events and ends, with lab times; and what it was, in hashes.

use std::fs::File;
use std::io::Write;

use fabric::{Content, Sent};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::nodes::NodeEnd;
use crate::spec::Action;

/// Which output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Stdout = 0,
    Stderr = 1,
}

/// Something that is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Record {
    /// A line that a node wrote.
    Output {
        at_ns: u64,
        node: usize,
        stream: Stream,
        line: String,
    },
    Event {
        at_ns: u64,
        action: Action,
    },
    End {
        at_ns: u64,
        node: usize,
        end: NodeEnd,
    },
    /// The command of an event failed.
    Command {
        at_ns: u64,
        node: usize,
        command: Vec<String>,
        /// Its exit status, or 128 and the number of the signal that killed it.
        code: i32,
    },
    Unsupported {
        at_ns: u64,
        node: Option<usize>,
        what: String,
    },
    /// A thread that computed was preempted for the first time: from here on the run is not the same again.
    Preempted {
        at_ns: u64,
        node: Option<usize>,
        /// As the node knows it.
        thread: i32,
        place: String,
    },
}

impl Record {
    /// When it was said.
    pub fn at_ns(&self) -> u64 {
        match self {
            Record::Output { at_ns, .. }
            | Record::Event { at_ns, .. }
            | Record::End { at_ns, .. }
            | Record::Command { at_ns, .. }
            | Record::Unsupported { at_ns, .. }
            | Record::Preempted { at_ns, .. } => *at_ns,
        }
    }
}

/// Bytes of packets that are hashed at a time.
const UNHASHED_BYTES_MAX: usize = 128 << 10;

/// Told each record as it comes.
pub type Show = Box<dyn FnMut(&Record) + Send>;

/// All that is said.
pub struct Log {
    /// Without a buffer: what was said is there when the lab is killed.
    file: File,
    show: Show,
    is_silent: bool,
    partial: Vec<[Vec<u8>; 2]>,
    outputs: Vec<blake3::Hasher>,
    packets: blake3::Hasher,
    /// Of packets, and not in the hash yet: many bytes at a time are hashed several times as fast.
    unhashed: Vec<u8>,
    packet_count: u64,
    capture: Option<crate::capture::Capture>,
}

impl Log {
    pub fn new(file: File, node_count: usize, show: Show, capture: Option<crate::capture::Capture>) -> Log {
        Log {
            file,
            show,
            is_silent: false,
            partial: vec![Default::default(); node_count],
            outputs: vec![blake3::Hasher::new(); node_count],
            packets: blake3::Hasher::new(),
            unhashed: Vec::new(),
            packet_count: 0,
            capture,
        }
    }

    /// A node wrote something.
    pub fn output(&mut self, at_ns: u64, node: usize, stream: Stream, bytes: &[u8]) {
        let hash = &mut self.outputs[node];
        hash.update(&at_ns.to_le_bytes());
        hash.update(&[stream as u8]);
        hash.update(bytes);
        let mut whole = std::mem::take(&mut self.partial[node][stream as usize]);
        whole.extend(bytes);
        let mut lines = whole.split_inclusive(|&byte| byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            if lines.peek().is_none() && line.last() != Some(&b'\n') {
                self.partial[node][stream as usize] = line.to_vec();
                return;
            }
            let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned();
            self.record(Record::Output { at_ns, node, stream, line });
        }
    }

    /// Something is said.
    pub fn record(&mut self, record: Record) {
        if let Record::End { at_ns, node, .. } = &record {
            // Nothing comes behind a line that has no end.
            for stream in [Stream::Stdout, Stream::Stderr] {
                let rest = std::mem::take(&mut self.partial[*node][stream as usize]);
                if !rest.is_empty() {
                    let line = String::from_utf8_lossy(&rest).into_owned();
                    self.record(Record::Output { at_ns: *at_ns, node: *node, stream, line });
                }
            }
        }
        if let Ok(text) = serde_json::to_string(&record) {
            // A log that cannot be written is not worth the lab.
            let _ = self.file.write_all(format!("{text}\n").as_bytes());
        }
        if !self.is_silent {
            (self.show)(&record);
        }
    }

    /// Packets were put on links.
    pub fn packets(&mut self, sent: &[Sent]) {
        for one in sent {
            self.packet_count += 1;
            let Sent { at_ns, from, to, arrives, packet } = one;
            let bytes = &mut self.unhashed;
            for word in [*at_ns, from.0 as u64, to.0 as u64, u64::from(*arrives)] {
                bytes.extend(word.to_le_bytes());
            }
            // Writing to a buffer does not fail.
            let _ = write!(bytes, "{} {}", packet.from, packet.to);
            match &packet.content {
                Content::Tcp(segment) => {
                    let flags = [segment.syn, segment.fin, segment.rst, segment.ack].map(u8::from);
                    for word in [segment.sequence, segment.acknowledged, segment.window] {
                        bytes.extend(word.to_le_bytes());
                    }
                    bytes.extend(flags);
                    if segment.data.len() < UNHASHED_BYTES_MAX / 4 {
                        bytes.extend_from_slice(&segment.data);
                    } else {
                        self.packets.update(bytes);
                        bytes.clear();
                        self.packets.update(&segment.data);
                    }
                }
                Content::Udp(data) => {
                    bytes.extend_from_slice(data);
                }
                Content::Echo(echo) => bytes.extend(echo.message(packet.to.is_ipv4())),
                Content::Unreachable => {
                    bytes.extend_from_slice(b"unreachable");
                }
            }
            if bytes.len() >= UNHASHED_BYTES_MAX {
                self.packets.update(bytes);
                bytes.clear();
            }
            if let Some(capture) = &mut self.capture {
                capture.packet(one);
            }
        }
    }

    /// Nothing is shown of a past that was shown before.
    pub fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// What comes is shown.
    pub fn show_from_here(&mut self) {
        self.is_silent = false;
    }

    /// What the run was; the log is complete.
    pub fn digest(&mut self, ended_at_ns: u64) -> Digest {
        if let Some(capture) = &mut self.capture {
            capture.flush();
        }
        self.so_far(ended_at_ns)
    }

    /// What the run was until now.
    pub fn so_far(&self, at_ns: u64) -> Digest {
        Digest {
            outputs: self.outputs.iter().map(|hash| hash.finalize().to_hex().to_string()).collect(),
            packets: self.packets.clone().update(&self.unhashed).finalize().to_hex().to_string(),
            packet_count: self.packet_count,
            memory: Vec::new(),
            ended_at_ns: at_ns,
        }
    }
}
