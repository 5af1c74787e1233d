//! Which calls pass bytes of a stream that is masked.
//!
//! Deliberately absent: descriptors that came in messages; `Walk::unknown` says that there are some.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use events::{Kind, Tag};
use linux_abi::{general as raw, net};
use trace_store::TraceReader;

use super::secrets::Secret;
use super::wanted::Wanted;
use crate::births::Image;
use crate::exit::CommandError;
use crate::info::in_tree_order;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::policy::{Description, Descriptors, StreamKind, Thing, cloexec, of_address, text_at};

/// A shorter value is masked behind its name only.
const VALUE_BYTES_MIN: usize = 6;

/// Stands among the names of streams.
const MADE_OF_IT: &str = "what programs made of it";

/// Of one call: which stream, and which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    pub stream: usize,
    pub is_input: bool,
}

/// What the whole trace says of what is masked.
#[derive(Default)]
pub struct Walk {
    /// By lane and event.
    pub calls: HashMap<u32, BTreeMap<u64, Passing>>,
    /// Calls that read what a process of the recording may have written, by lane and event.
    pub given: HashMap<u32, BTreeSet<u64>>,
    /// Files that processes opened for writing.
    pub written: HashSet<PathBuf>,
    /// Calls that read from files, of which only at the end it is known whether processes write to them.
    read: Vec<(u32, u64, Rc<Description>)>,
    /// Names of streams that are masked.
    pub streams: Vec<String>,
    pub secrets: Vec<Secret>,
    /// Messages brought descriptors, of which nobody knows what they lead to.
    pub unknown: bool,
    ids: u32,
}

impl Walk {
    /// Goes through all lanes, parents before their children.
    pub fn of(trace: &TraceReader, wanted: &Wanted) -> Result<Walk, CommandError> {
        let mut walk = Walk::default();
        for value in &wanted.values {
            walk.secrets.push(Secret { name: "a value that was given".to_owned(), value: value.clone() });
        }
        let lanes = trace.lanes();
        let mut begun: HashMap<u32, Descriptors> = HashMap::new();
        for (position, _) in in_tree_order(lanes) {
            let lane = lanes[position].lane;
            let mut process = begun.remove(&lane).unwrap_or_else(|| walk.first(&trace.meta().cwd, wanted));
            let mut events = LaneEvents::open(trace, lane)?;
            let mut whole = WholeEvent::default();
            while events.read(&mut whole)? {
                match whole.kind {
                    Kind::Birth => {
                        process.execute();
                        walk.environment(&whole, wanted);
                    }
                    Kind::Syscall if !whole.is_filtered() => {
                        walk.call(lane, &mut process, &whole, wanted);
                        if let Some(child) = whole.child_lane() {
                            begun.insert(child, process.clone());
                        }
                    }
                    _ => {}
                }
            }
        }
        for (lane, event, file) in std::mem::take(&mut walk.read) {
            if matches!(&file.thing, Thing::File(path) if walk.written.contains(path)) {
                walk.given.entry(lane).or_default().insert(event);
            }
        }
        walk.secrets.sort();
        walk.secrets.dedup();
        Ok(walk)
    }

    /// A write hangs on what was masked, though nothing of it is found there.
    pub fn mask_write(&mut self, lane: u32, event: u64) {
        let known = self.streams.iter().position(|name| name == MADE_OF_IT);
        let stream = known.unwrap_or_else(|| {
            self.streams.push(MADE_OF_IT.to_owned());
            self.streams.len() - 1
        });
        self.calls.entry(lane).or_default().insert(event, Passing { stream, is_input: false });
    }

    fn first(&mut self, directory: &Path, wanted: &Wanted) -> Descriptors {
        let mut process = Descriptors::first(directory.to_owned());
        let stdin = self.description(Thing::Stdin);
        self.name(&stdin, StreamKind::Stdin, "", wanted);
        process.insert(0, stdin, false);
        process
    }

    fn environment(&mut self, whole: &WholeEvent, wanted: &Wanted) {
        for entry in Image::of(whole).map(|image| image.environment).unwrap_or_default() {
            let entry = entry.as_encoded_bytes();
            let Some(equals) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (String::from_utf8_lossy(&entry[..equals]), &entry[equals + 1..]);
            if value.is_empty() || !wanted.has_name(&name) {
                continue;
            }
            let value = if value.len() < VALUE_BYTES_MIN { entry } else { value };
            let secret = Secret { name: name.into_owned(), value: value.to_vec() };
            if !self.secrets.contains(&secret) {
                self.secrets.push(secret);
            }
        }
    }

    fn description(&mut self, thing: Thing) -> Rc<Description> {
        Description::new(&mut self.ids, thing)
    }

    /// Says which stream it is; the number is one more than its place among the names, and 0 for one that is left.
    fn name(&mut self, description: &Description, kind: StreamKind, name: &str, wanted: &Wanted) {
        if !wanted.has_stream(kind, name) {
            return description.stream.set(0);
        }
        let text = match name {
            "" => kind.prefix().to_owned(),
            name => format!("{}:{name}", kind.prefix()),
        };
        let known = self.streams.iter().position(|other| *other == text);
        let place = known.unwrap_or_else(|| {
            self.streams.push(text);
            self.streams.len() - 1
        });
        description.stream.set(place as u64 + 1);
    }

    fn call(&mut self, lane: u32, process: &mut Descriptors, whole: &WholeEvent, wanted: &Wanted) {
        let event = whole.event();
        let (result, first) = (event.result(), event.arg(0) as i32);
        let number = u32::from(whole.code);
        if number == raw::__NR_connect {
            return self.connect(process, whole, wanted);
        }
        // A call that failed may have written all the same.
        if let Some(is_input) = passes(number) {
            self.pass(lane, whole.index, process.get(first), is_input);
        }
        if result < 0 {
            return;
        }
        let text = |index: usize| text_at(whole, event.arg(index));
        let opened = match number {
            raw::__NR_open => Some((process.path(None, &text(0)), event.arg(1))),
            raw::__NR_creat => Some((process.path(None, &text(0)), raw::O_WRONLY.into())),
            raw::__NR_openat => Some((process.path(Some(first), &text(1)), event.arg(2))),
            // Its flags are in memory.
            raw::__NR_openat2 => Some((process.path(Some(first), &text(1)), raw::O_RDWR.into())),
            _ => None,
        };
        if let Some((path, flags)) = opened {
            let closes = cloexec(flags);
            process.remove(result as i32);
            if let Some(path) = path {
                if flags & u64::from(raw::O_ACCMODE) != 0 {
                    self.written.insert(path.clone());
                }
                let description = self.description(Thing::File(path.clone()));
                self.name(&description, StreamKind::File, &path.to_string_lossy(), wanted);
                process.insert(result as i32, description, closes);
            }
            return;
        }
        match number {
            raw::__NR_socket | raw::__NR_accept | raw::__NR_accept4 => self.socket(process, whole, wanted),
            raw::__NR_recvmsg => {
                self.unknown |= whole.blobs().any(|blob| {
                    blob.tag == Tag::Memory
                        && !crate::control_messages::passed_descriptors(blob.data).is_empty()
                });
            }
            // Pipes and pairs take numbers that were others' before.
            raw::__NR_pipe | raw::__NR_pipe2 | raw::__NR_socketpair => {
                let at = event.arg(if number == raw::__NR_socketpair { 3 } else { 0 });
                let pair = whole.memory(at).map(|blob| blob.data).unwrap_or_default();
                for fd in pair.chunks_exact(4) {
                    process.remove(i32::from_le_bytes([fd[0], fd[1], fd[2], fd[3]]));
                }
            }
            _ => drop(process.follow(whole)),
        }
    }

    /// A call that passes bytes of this descriptor, as far as it is known.
    fn pass(&mut self, lane: u32, event: u64, known: Option<&Rc<Description>>, is_input: bool) {
        let stream = known.map_or(0, |known| known.stream.get());
        if stream != 0 {
            let passing = Passing { stream: stream as usize - 1, is_input };
            self.calls.entry(lane).or_default().insert(event, passing);
        } else if is_input {
            match known {
                Some(file) if matches!(file.thing, Thing::File(_)) => {
                    self.read.push((lane, event, Rc::clone(file)));
                }
                Some(known) if known.thing == Thing::Stdin => {}
                // Of pipes and pairs nothing is known.
                _ => {
                    self.given.entry(lane).or_default().insert(event);
                }
            }
        }
    }

    /// A socket is made, or accepted.
    fn socket(&mut self, process: &mut Descriptors, whole: &WholeEvent, wanted: &Wanted) {
        let event = whole.event();
        let result = event.result() as i32;
        if u32::from(whole.code) == raw::__NR_socket {
            let [domain, kind, protocol] = [0, 1, 2].map(|index| event.arg(index));
            let socket = self.description(Thing::Socket { domain, kind, protocol });
            if let Some(kind) = kind_of(domain, kind) {
                self.name(&socket, kind, "", wanted);
            }
            process.insert(result, socket, cloexec(kind));
            return;
        }
        let listening = process.get(event.arg(0) as i32).map(|listens| listens.thing.clone());
        process.remove(result);
        let Some(Thing::Socket { domain, kind, protocol }) = listening else { return };
        let socket = self.description(Thing::Socket { domain, kind, protocol });
        let peer = whole.memory(event.arg(1)).map(|blob| blob.data.to_vec()).unwrap_or_default();
        let name = of_address(&peer, peer.len() as u64, false).map(|(_, name)| name);
        if let Some(kind) = kind_of(domain, kind) {
            self.name(&socket, kind, &name.unwrap_or_default(), wanted);
        }
        process.insert(result, socket, cloexec(event.arg(3)));
    }

    fn connect(&mut self, process: &Descriptors, whole: &WholeEvent, wanted: &Wanted) {
        let event = whole.event();
        let Some(description) = process.get(event.arg(0) as i32).cloned() else { return };
        let Thing::Socket { kind, .. } = description.thing else { return };
        let address = whole.blobs().find(|blob| blob.tag == Tag::Sent).map(|blob| blob.data.to_vec());
        let is_datagram = kind & 0xf == u64::from(net::SOCK_DGRAM);
        let named = of_address(&address.unwrap_or_default(), event.arg(2), is_datagram);
        if let Some((kind, name)) = named {
            self.name(&description, kind, &name, wanted);
        }
    }
}

/// The kind of a socket's stream.
fn kind_of(domain: u64, kind: u64) -> Option<StreamKind> {
    let is_datagram = kind & 0xf == u64::from(net::SOCK_DGRAM);
    match u32::try_from(domain).ok()? {
        net::AF_UNIX => Some(StreamKind::Unix),
        net::AF_INET | net::AF_INET6 if is_datagram => Some(StreamKind::Udp),
        net::AF_INET | net::AF_INET6 => Some(StreamKind::Tcp),
        _ => None,
    }
}

/// True for calls that read from their first argument, false for those that write to it.
pub fn passes(number: u32) -> Option<bool> {
    match number {
        raw::__NR_read
        | raw::__NR_readv
        | raw::__NR_pread64
        | raw::__NR_preadv
        | raw::__NR_preadv2
        | raw::__NR_recvfrom
        | raw::__NR_recvmsg
        | raw::__NR_recvmmsg => Some(true),
        raw::__NR_write
        | raw::__NR_writev
        | raw::__NR_pwrite64
        | raw::__NR_pwritev
        | raw::__NR_pwritev2
        | raw::__NR_sendto
        | raw::__NR_sendmsg
        | raw::__NR_sendmmsg => Some(false),
        _ => None,
    }
}
