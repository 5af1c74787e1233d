//! Connections to displays that are shown: what the program sent when, and what it had been answered.

use super::*;

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
    pub answers: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub struct Screen {
    /// The socket to which the replay sends what the program sends.
    pub socket: PathBuf,
    pub shown: Vec<Shown>,
    /// Received since the last one.
    answers: Vec<u8>,
    lane: u32,
    pub ended: Option<Moment>,
}

/// A System V segment in a process.
#[derive(Debug, Clone, Copy)]
pub struct Attached {
    pub at: Moment,
    pub segment: u32,
    pub address: u64,
}

/// All connections, and what their programs share with servers.
#[derive(Debug, Default)]
pub struct ScreenPlan {
    pub screens: Vec<Screen>,
    pub attached: Vec<Attached>,
}

impl Planner<'_> {
    fn moment(&self) -> Moment {
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
        let (shown, answers) = (Vec::new(), Vec::new());
        self.planned.screens.screens.push(Screen { socket, shown, answers, lane: self.lane, ended: None });
        true
    }

    /// What a program received from its display.
    pub(super) fn screen_answers(&mut self, screen: usize, whole: &WholeEvent) {
        let event = whole.event();
        let mut left = event.result().max(0) as usize;
        let is_message = u32::from(whole.code) == linux_abi::general::__NR_recvmsg;
        let answers = &mut self.planned.screens.screens[screen].answers;
        for blob in whole.blobs().filter(|blob| blob.tag == Tag::Memory) {
            // The header of a message, which the kernel wrote as well.
            if is_message && blob.address == event.arg(1) {
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
    pub(super) fn show(&mut self, screen: usize, stream: u64, slot: u64) {
        let at = self.moment();
        let own = &mut self.planned.screens.screens[screen];
        let answers = std::mem::take(&mut own.answers);
        own.shown.push(Shown { at, answers });
        self.add(real::SHOW, stream, &[slot, u64::from(at.lane), at.event], Vec::new());
    }

    pub(super) fn attach_segment(&mut self, segment: u32, address: u64) {
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

    /// A process ends, and its connections with it.
    pub(super) fn screens_end(&mut self) {
        let lane = self.lane;
        let at = Moment { event: self.event + 1, ..self.moment() };
        for screen in self.planned.screens.screens.iter_mut().filter(|screen| screen.lane == lane) {
            screen.ended.get_or_insert(at);
        }
    }
}

/// Displays have sockets in a folder of their own, or ports from 6000 on (X(7)).
fn is_display(kind: StreamKind, name: &str) -> bool {
    const PORTS: std::ops::RangeInclusive<u32> = 6000..=6063;
    match kind {
        StreamKind::Unix => name.trim_start_matches('@').starts_with("/tmp/.X11-unix/X"),
        StreamKind::Tcp => {
            let port = name.rsplit(':').next().and_then(|port| port.parse().ok());
            port.is_some_and(|port| PORTS.contains(&port))
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
