//! `/proc/net/tcp`, `udp` and their kin of a node, as proc_net(5) describes them: by these `ss`, `netstat`
//! and `lsof` know of sockets.

use std::fmt::Write as _;
use std::io::{Seek, SeekFrom, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use fabric::{Kind, Pings, Socket, SocketId, State};
use lane_protocol::lab_answer;

use crate::calls::Call;
use crate::engine::Engine;
use crate::questions::Answer;

const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECEIVED: u8 = 3;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

/// Which of them a path names: the table's name, and whether it is that of IPv6.
fn table(path: &str) -> Option<(&'static str, bool)> {
    let rest = path.strip_prefix("/proc/")?;
    let name = match rest.split_once("net/")? {
        ("" | "self/" | "thread-self/", name) => name,
        (process, name) => process.strip_suffix('/')?.parse::<u32>().ok().map(|_| name)?,
    };
    let known = ["tcp", "udp", "icmp", "raw"].into_iter();
    known.into_iter().find_map(|one| match name.strip_prefix(one)? {
        "" => Some((one, false)),
        "6" => Some((one, true)),
        _ => None,
    })
}

/// An address in words as the machine has them, and a port.
fn address(address: Option<SocketAddr>, is_v6: bool) -> String {
    let any: IpAddr = if is_v6 { [0u16; 8].into() } else { [0u8; 4].into() };
    let (ip, port) = address.map_or((any, 0), |address| (address.ip(), address.port()));
    let octets = match (ip, is_v6) {
        (IpAddr::V4(ip), false) => ip.octets().to_vec(),
        (IpAddr::V4(ip), true) if ip.is_unspecified() => vec![0; 16],
        (IpAddr::V4(ip), true) => ip.to_ipv6_mapped().octets().to_vec(),
        (IpAddr::V6(ip), _) => ip.octets().to_vec(),
    };
    let mut text = String::new();
    for word in octets.as_chunks::<4>().0 {
        // Writing to a string does not fail.
        let _ = write!(text, "{:08X}", u32::from_le_bytes(*word));
    }
    let _ = write!(text, ":{port:04X}");
    text
}

/// The table that a socket is in.
fn kind_of(socket: &Socket) -> &'static str {
    match (&socket.kind, socket.pings) {
        (_, Some(Pings::Datagram)) => "icmp",
        (_, Some(Pings::Raw)) => "raw",
        (Kind::Datagram { .. }, None) => "udp",
        (Kind::Unconnected | Kind::Listener { .. } | Kind::Stream(_), None) => "tcp",
    }
}

/// The state, and bytes (or connections) that wait to be sent and to be read.
fn state_of(socket: &Socket) -> Option<(u8, usize, usize)> {
    match &socket.kind {
        Kind::Unconnected => None,
        Kind::Listener { ready, .. } => Some((LISTEN, 0, ready.len())),
        Kind::Stream(end) => {
            let state = match end.state {
                State::SynSent => SYN_SENT,
                State::SynReceived => SYN_RECEIVED,
                State::Established => ESTABLISHED,
                State::Closed | State::Reset | State::TimedOut => return None,
            };
            Some((state, end.unsent_bytes(), end.received().len()))
        }
        Kind::Datagram { queue } => {
            socket.local?;
            let state = if socket.remote.is_some() { ESTABLISHED } else { CLOSE };
            Some((state, 0, queue.iter().map(|one| one.data.len()).sum()))
        }
    }
}

impl Engine {
    /// open(2) of a path of procfs: the program's descriptor becomes such a table, if it is one.
    pub fn open_table(&mut self, call: &Call) -> Answer {
        const PATH_BYTES: usize = 128;
        let kernels = Answer::kind(lab_answer::KERNEL);
        let at = if call.number == libc::SYS_open { call.args[0] } else { call.args[1] };
        let Some(process) = self.processes.of_slot(call.slot) else { return kernels };
        // A path near the end of what is mapped is shorter.
        let to_page = 4096 - at as usize % 4096;
        let read = |bytes| process.memory.read(at, bytes);
        let bytes = read(PATH_BYTES).or_else(|| read(PATH_BYTES.min(to_page)));
        let path = bytes.unwrap_or_default();
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let (Ok(path), Some(node)) = (std::str::from_utf8(path), process.node) else { return kernels };
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => {
                let Some(pid) = self.processes.pid_of(call.slot) else { return kernels };
                let dir = std::fs::read_link(format!("/proc/{pid}/fd/{}", call.args[0] as i32));
                let Ok(dir) = dir else { return kernels };
                format!("{}/{path}", dir.display())
            }
        };
        let file = process.handle.descriptor(call.made[0]);
        let text = match table(&path) {
            Some((name, is_v6)) => Some(self.table_of(node, name, is_v6)),
            None => self.proc_file(call.slot, &path),
        };
        let Some(text) = text else { return kernels };
        let written = file.map(OwnedFd::from).map(std::fs::File::from).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.seek(SeekFrom::Start(0))
        });
        match written {
            Ok(_) => Answer::result(i64::from(call.made[0])),
            Err(_) => kernels,
        }
    }

    fn table_of(&mut self, node: usize, name: &str, is_v6: bool) -> String {
        let queues = "tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let mut text = match is_v6 {
            false => format!("  sl  local_address rem_address   st {queues}\n"),
            true => format!("  sl  {:38}{:38}st {queues}\n", "local_address", "remote_address"),
        };
        let host = self.nodes.host(node);
        let is_in = |socket: &Socket| socket.host == host && socket.is_v6 == is_v6 && kind_of(socket) == name;
        let resolver = self.resolvers.get(node).copied();
        let found: Vec<SocketId> = self
            .fabric
            .sockets()
            .filter(|(id, socket)| Some(*id) != resolver && is_in(socket))
            .map(|(id, _)| id)
            .collect();
        let mut line = 0;
        for id in found {
            let inode = self.placeholders.get(id).map(|one| one.inode);
            let inode = inode.map_or(0, |inode| self.files.number(Some(node), 0, inode));
            let Some(socket) = self.fabric.socket(id) else { continue };
            let Some((state, sends, waits)) = state_of(socket) else { continue };
            let [local, remote] = [socket.local, socket.remote].map(|one| address(one, is_v6));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{line:4}: {local} {remote} {state:02X} {sends:08X}:{waits:08X} 00:00000000 00000000 {:5} {:8} {inode} 1 0000000000000000 100 0 0 10 0",
                0, 0
            );
            line += 1;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_their_paths() {
        assert_eq!(table("/proc/net/tcp"), Some(("tcp", false)));
        assert_eq!(table("/proc/self/net/udp6"), Some(("udp", true)));
        assert_eq!(table("/proc/12/net/raw"), Some(("raw", false)));
        assert_eq!(table("/proc/net/dev"), None);
        assert_eq!(table("/proc/net/tcp66"), None);
        assert_eq!(table("/proc/x/net/tcp"), None);
    }

    #[test]
    fn addresses_are_words_of_the_machine() {
        let own = "127.0.0.1:80".parse().ok();
        assert_eq!(address(own, false), "0100007F:0050");
        assert_eq!(address(own, true), "0000000000000000FFFF00000100007F:0050");
        assert_eq!(address(None, false), "00000000:0000");
    }
}
