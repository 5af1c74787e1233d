//! Connections to displays that are shown: what the program sent when, and what it had been answered.

use super::*;

use display::Segment;
use linux_abi::general as raw;

use crate::control_messages::passed_descriptors;

/// What is kept of one answer; larger than any that says what a number means.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A place in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub lane: u32,
    pub event: u64,
    /// Milliseconds since the recording began.
    pub logged: u32,
}

impl Moment {
    /// True if this came before the other, of whose process so many events have been: of two processes the time
    /// decides, and what came at the same time counts as earlier.
    pub fn is_until(&self, other: &Moment) -> bool {
        if self.lane == other.lane { self.event < other.event } else { self.logged <= other.logged }
    }

    /// The same, but what came at the same time counts as later.
    pub fn is_before(&self, other: &Moment) -> bool {
        self.is_until(other) && (self.lane == other.lane || self.logged < other.logged)
    }
}

/// What a program sent in one call.
#[derive(Debug)]
pub struct Shown {
    pub at: Moment,
    /// What it had received before, since the last one.
    pub answers: Answers,
    /// Where the header of the message lies in its memory, if it was one.
    pub message: Option<u64>,
    /// Its descriptors that lead to memory which it maps, each with the number of what that is.
    pub shared: Vec<(i32, u32)>,
}

/// What a program received from its display.
#[derive(Debug, Default)]
pub struct Answers {
    pub bytes: Vec<u8>,
    /// Numbers of what the descriptors that came along lead to.
    pub descriptors: Vec<u32>,
}

/// One connection.
#[derive(Debug)]
pub struct Screen {
    /// The socket to which the replay sends what the program sends.
    pub socket: PathBuf,
    pub shown: Vec<Shown>,
    /// Received since the last one.
    answers: Answers,
    lane: u32,
    pub ended: Option<Moment>,
}

/// Memory in a process that a display may see as well.
#[derive(Debug, Clone, Copy)]
pub struct Attached {
    pub at: Moment,
    pub segment: Segment,
    /// Of its first byte.
    pub address: u64,
}

/// All connections, and what their programs share with servers.
#[derive(Debug, Default)]
pub struct ScreenPlan {
    pub screens: Vec<Screen>,
    pub attached: Vec<Attached>,
}

impl Planner<'_> {
    pub(super) fn moment(&self) -> Moment {
        Moment { lane: self.lane, event: self.event, logged: self.logged }
    }

    /// A connection to a display, if displays are shown.
    pub(super) fn connect_screen(
        &mut self,
        process: &mut Descriptors,
        description: &Description,
        kind: StreamKind,
        name: &str,
    ) -> bool {
        let Some(folder) = self.policies.screens.clone().filter(|_| is_display(kind, name)) else {
            return false;
        };
        let number = self.planned.screens.screens.len();
        let stream = self.stream(format!("{}:{name}", kind.prefix()));
        let socket = folder.join(number.to_string());
        let slot = process.free_slot();
        let address = [&(linux_abi::net::AF_UNIX as u16).to_le_bytes()[..], &ended(&socket)].concat();
        let [domain, socket_kind] = [linux_abi::net::AF_UNIX, linux_abi::net::SOCK_STREAM].map(u64::from);
        self.add(real::CONNECT, stream, &[slot, domain, socket_kind, 0], address);
        process.set_slot(description, Way::Out, slot);
        description.stream.set(stream);
        description.screen.set(Some(number));
        let (shown, answers) = (Vec::new(), Answers::default());
        self.planned.screens.screens.push(Screen { socket, shown, answers, lane: self.lane, ended: None });
        true
    }

    /// What a program received from its display.
    pub(super) fn screen_answers(&mut self, process: &mut Descriptors, screen: usize, whole: &WholeEvent) {
        let event = whole.event();
        let mut left = event.result().max(0) as usize;
        let beside = match u32::from(whole.code) {
            raw::__NR_recvmsg => Some(Beside::of(whole)),
            _ => None,
        };
        for fd in beside.iter().flat_map(|beside| passed_descriptors(beside.control)) {
            let memory = self.description(Thing::Memory);
            self.planned.screens.screens[screen].answers.descriptors.push(memory.id);
            let freed = process.insert(fd, memory, false);
            self.close(freed);
        }
        let answers = &mut self.planned.screens.screens[screen].answers.bytes;
        for blob in whole.blobs().filter(|blob| blob.tag == Tag::Memory) {
            if beside.as_ref().is_some_and(|beside| beside.places.contains(&blob.address)) {
                continue;
            }
            let part = left.min(blob.total_bytes as usize);
            let kept = blob.data.len().min(part);
            answers.extend_from_slice(&blob.data[..kept]);
            answers.resize(answers.len() + part - kept, 0);
            left -= part;
        }
    }

    /// What a program sent to its display.
    pub(super) fn show(&mut self, process: &Descriptors, whole: &WholeEvent, screen: usize, slot: u64) {
        let at = self.moment();
        let event = whole.event();
        let message = (u32::from(whole.code) == raw::__NR_sendmsg).then(|| event.arg(1));
        let attached = &self.planned.screens.attached;
        let is_attached = |id: u32| attached.iter().any(|attached| attached.segment == Segment::Passed(id));
        let shared = if message.is_some() { process.leading_to(is_attached) } else { Vec::new() };
        let stream = process.get(event.arg(0) as i32).map_or(0, |description| description.stream.get());
        let own = &mut self.planned.screens.screens[screen];
        let answers = std::mem::take(&mut own.answers);
        own.shown.push(Shown { at, answers, message, shared });
        self.add(real::SHOW, stream, &[slot, u64::from(at.lane), at.event], Vec::new());
    }

    /// Memory gets a place in a process.
    pub(super) fn attach(&mut self, segment: Segment, address: u64) {
        if self.policies.screens.is_some() {
            let at = self.moment();
            self.planned.screens.attached.push(Attached { at, segment, address });
        }
    }

    /// A descriptor of the replay is closed: if it was that of a connection, it ends.
    pub(super) fn screen_ends(&mut self, screen: usize) {
        let at = self.moment();
        self.planned.screens.screens[screen].ended.get_or_insert(at);
    }

    /// A process ends, and its connections with it. Of one that was killed from elsewhere the log does not say when;
    /// it was there until it was waited for, or as long as the recording.
    pub(super) fn screens_end(&mut self, is_logged: bool) {
        let lane = self.lane;
        let at = match is_logged {
            true => Some(Moment { event: self.event + 1, ..self.moment() }),
            false => self.reaped.get(&lane).copied(),
        };
        for screen in self.planned.screens.screens.iter_mut().filter(|screen| screen.lane == lane) {
            screen.ended = screen.ended.or(at);
        }
    }
}

/// What the kernel wrote beside the bytes of a message.
struct Beside<'a> {
    /// Header, name, and control data.
    places: [u64; 3],
    control: &'a [u8],
}

impl Beside<'_> {
    /// From the header (`struct msghdr` of recvmsg(2)), as the kernel left it.
    fn of(whole: &WholeEvent) -> Beside<'_> {
        let header = whole.event().arg(1);
        let bytes = whole.memory(header).map(|blob| blob.data).unwrap_or_default();
        let word = |index: usize| {
            let bytes = bytes.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let (name, control) = (word(0), word(4));
        let data = whole.memory(control).filter(|_| control != 0).map(|blob| blob.data);
        Beside { places: [header, name, control], control: data.unwrap_or_default() }
    }
}

/// Where sockets of displays are (X(7)).
pub const DISPLAY_SOCKETS: &str = "/tmp/.X11-unix/X";
/// Ports of displays.
pub const DISPLAY_PORTS: std::ops::RangeInclusive<u16> = 6000..=6063;

fn is_display(kind: StreamKind, name: &str) -> bool {
    match kind {
        StreamKind::Unix => name.trim_start_matches('@').starts_with(DISPLAY_SOCKETS),
        StreamKind::Tcp => {
            let port = name.rsplit(':').next().and_then(|port| port.parse().ok());
            port.is_some_and(|port| DISPLAY_PORTS.contains(&port))
        }
        StreamKind::Stdin | StreamKind::Stdout | StreamKind::Stderr | StreamKind::File | StreamKind::Udp => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_are_known_by_their_addresses() {
        for (kind, name, is_one) in [
            (StreamKind::Unix, "@/tmp/.X11-unix/X0", true),
            (StreamKind::Unix, "/tmp/.X11-unix/X17", true),
            (StreamKind::Unix, "/run/user/0/bus", false),
            (StreamKind::Tcp, "127.0.0.1:6010", true),
            (StreamKind::Tcp, "127.0.0.1:5432", false),
        ] {
            assert_eq!(is_display(kind, name), is_one, "{name}");
        }
    }

    #[test]
    fn moments_of_one_process_are_ordered_by_events() {
        let at = |lane: u32, event: u64, logged: u32| Moment { lane, event, logged };
        assert!(at(1, 5, 900).is_until(&at(1, 6, 800)));
        assert!(!at(1, 6, 100).is_until(&at(1, 6, 800)));
        assert!(at(2, 7, 100).is_until(&at(1, 6, 800)));
    }
}
