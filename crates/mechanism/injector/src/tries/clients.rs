//! The clients of a server that is tried: they connect, send what the recorded ones sent, and take what is answered.
//!
//! One after the other, in the order in which they were accepted; one that the server had read to its end says so, the others
//! stay connected. A server that has taken everything and waits ends the try: it would wait for ever. Deliberately absent:
//! waiting for an answer before more is sent.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::traced::kill_all;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Looks in a row that find all processes asleep, none of which has computed meanwhile.
const LOOKS: usize = 4;
/// So long a server may sleep before it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(1);

/// A connection that a recorded server accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What it read.
    pub content: Vec<u8>,
    /// It read all of it, and was told that nothing more comes.
    pub has_ended: bool,
}

/// The thread of the clients.
pub(super) struct Clients {
    over: Arc<AtomicBool>,
    waits: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Clients {
    /// Of the processes of a group; `None` where nobody connects.
    pub fn begin(group: i32, connections: &[Connection]) -> Option<Clients> {
        if connections.is_empty() {
            return None;
        }
        let (over, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let act = Act { group, over: Arc::clone(&over), waits: Arc::clone(&waits) };
        let connections = connections.to_vec();
        let thread = crate::limits::start_thread("clients", move || act.run(&connections));
        Some(Clients { over, waits, thread })
    }

    /// Ends them; true if the server waited for more when they were done, and was killed.
    pub fn end(self) -> bool {
        self.over.store(true, Ordering::Relaxed);
        // It holds nothing that a panic could leave behind.
        let _ = self.thread.join();
        self.waits.load(Ordering::Relaxed)
    }
}

struct Act {
    group: i32,
    over: Arc<AtomicBool>,
    waits: Arc<AtomicBool>,
}

impl Act {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn run(&self, connections: &[Connection]) {
        let mut open = Vec::new();
        for connection in connections {
            let Some(mut stream) = self.connect(connection.address) else { break };
            if self.speak(&mut stream, connection).is_some() {
                open.push(stream);
            }
        }
        let mut idle = Idle::default();
        while !self.is_over() {
            if idle.is_long(self.group) {
                self.waits.store(true, Ordering::Relaxed);
                kill_all(self.group);
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn connect(&self, address: SocketAddr) -> Option<TcpStream> {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < LISTENS_WITHIN {
            if let Ok(stream) = TcpStream::connect_timeout(&address, LISTENS_WITHIN) {
                stream.set_nonblocking(true).ok()?;
                return Some(stream);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }

    /// Sends all, and takes what comes until the server closes the connection (`None`) or waits.
    fn speak(&self, stream: &mut TcpStream, connection: &Connection) -> Option<()> {
        let mut left = &connection.content[..];
        let mut answer = vec![0; 64 << 10];
        let mut idle = Idle::default();
        let mut is_told = false;
        while !self.is_over() {
            if left.is_empty() && connection.has_ended && !is_told {
                is_told = true;
                stream.shutdown(Shutdown::Write).ok()?;
            }
            let sent = match left.is_empty() {
                true => 0,
                false => moved(stream.write(left))?,
            };
            left = &left[sent..];
            let got = match stream.read(&mut answer) {
                Ok(0) => return None,
                got => moved(got)?,
            };
            if sent + got > 0 {
                idle = Idle::default();
            } else if idle.is_long(self.group) {
                return Some(());
            } else {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        None
    }
}

/// Bytes that went; `None` if the connection is no more.
fn moved(result: std::io::Result<usize>) -> Option<usize> {
    match result {
        Ok(bytes) => Some(bytes),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Some(0),
        Err(_) => None,
    }
}

/// Looks that found all threads of a group asleep.
#[derive(Default)]
struct Idle {
    looks: usize,
    /// What all of them had computed then.
    ticks: Option<u64>,
}

impl Idle {
    fn is_long(&mut self, group: i32) -> bool {
        let now = asleep(group);
        self.looks = if now.is_some() && now == self.ticks { self.looks + 1 } else { 0 };
        self.ticks = now;
        self.looks >= LOOKS
    }
}

/// Switches that all threads of a process group have made so far, if each of them sleeps.
fn asleep(group: i32) -> Option<u64> {
    let mut switches = 0;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let path = process.path();
        let Ok(stat) = std::fs::read_to_string(path.join("stat")) else { continue };
        let field = |at: usize| stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(at));
        if field(2).and_then(|text| text.parse().ok()) != Some(group) {
            continue;
        }
        for thread in std::fs::read_dir(path.join("task")).ok()?.flatten() {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if !value("State:")?.starts_with(['S', 'Z']) {
                return None;
            }
            for name in ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"] {
                switches += value(name)?.parse::<u64>().ok()?;
            }
        }
    }
    Some(switches)
}
