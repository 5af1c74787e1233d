//! The resolver that each node has at 127.0.0.53 (RFC 1035): it knows the lab's nodes, and nobody else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fabric::{Fabric, HostId, SocketId, Transport};

use crate::spec::NodeSpec;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);
const HEADER_BYTES: usize = 12;
/// Kinds of records.
const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const SECONDS_TO_LIVE: u32 = 60;

/// Opens a host's resolver.
pub fn open(fabric: &mut Fabric, host: HostId) -> SocketId {
    let id = fabric.open(host, Transport::Datagram, false);
    // A name server of the node's own may have all its addresses.
    fabric.share_address(id, |sharing| sharing.yields = true);
    // The host has just got power: nobody has the address.
    let bound = fabric.bind(id, ADDRESS);
    debug_assert!(bound.is_ok());
    id
}

/// Answers what has come to a resolver.
pub fn answer_all(fabric: &mut Fabric, id: SocketId, nodes: &[NodeSpec]) {
    while let Ok(question) = fabric.receive_from(id, false) {
        if let Some(answer) = answer(&question.data, nodes) {
            // Who has closed its socket meanwhile is not told.
            let _ = fabric.send_to(id, Some(question.from), &answer);
        }
    }
}

/// The answer to a message; `None`: it asks nothing.
fn answer(message: &[u8], nodes: &[NodeSpec]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u16::from_be_bytes(*message.get(at..at + 2)?.first_chunk()?));
    let (is_answer, opcode) = (message.get(2)? & 0x80 != 0, message.get(2)? >> 3 & 15);
    if is_answer || word(4)? != 1 {
        return None;
    }
    let (name, name_end) = read_name(message)?;
    let (kind, class) = (word(name_end)?, word(name_end + 2)?);
    let question = message.get(HEADER_BYTES..name_end + 4)?;
    let found = find(&name, kind, nodes).filter(|_| class == INTERNET);
    let (code, records) = match found {
        _ if opcode != 0 => (NOT_IMPLEMENTED, Vec::new()),
        Some(records) => (0, records),
        None => (NO_SUCH_NAME, Vec::new()),
    };
    let mut answer = message.get(..2)?.to_vec();
    // It is an answer, of who is in charge; recursion was asked for, and is there.
    answer.extend([0x84 | message[2] & 0x79, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    answer.extend(question);
    for record in records {
        // The name is the one asked for.
        answer.extend([0xc0, HEADER_BYTES as u8]);
        answer.extend(kind.to_be_bytes());
        answer.extend(INTERNET.to_be_bytes());
        answer.extend(SECONDS_TO_LIVE.to_be_bytes());
        answer.extend((record.len() as u16).to_be_bytes());
        answer.extend(record);
    }
    Some(answer)
}

/// The name that is asked for, in small letters, and where it ends.
fn read_name(message: &[u8]) -> Option<(String, usize)> {
    let (mut name, mut at) = (String::new(), HEADER_BYTES);
    loop {
        let length = usize::from(*message.get(at)?);
        let label = message.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        match length {
            0 => return Some((name, at)),
            // No question points elsewhere.
            64.. => return None,
            _ if !name.is_empty() => name.push('.'),
            _ => {}
        }
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
    }
}

/// The records of a kind that a name has; `None`: there is no such name.
fn find(name: &str, kind: u16, nodes: &[NodeSpec]) -> Option<Vec<Vec<u8>>> {
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<&str> = reversed.rsplit('.').collect();
        let address: IpAddr = octets.join(".").parse().ok()?;
        let node = nodes.iter().find(|node| node.addresses.contains(&address))?;
        let label = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let pointed = [label(&node.name), vec![0]].concat();
        return Some(if kind == PTR { vec![pointed] } else { Vec::new() });
    }
    let node = nodes.iter().find(|node| node.name.eq_ignore_ascii_case(name))?;
    let records = node.addresses.iter().filter_map(|address| match (address, kind) {
        (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
        (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
        _ => None,
    });
    Some(records.collect())
}

#[cfg(test)]
mod tests {
    use super::{A, AAAA, NO_SUCH_NAME, answer};
    use crate::spec::NodeSpec;

    fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(label.len() as u8);
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend([0, kind as u8, 0, 1]);
        message
    }

    #[test]
    fn names_of_nodes_and_no_others() {
        let node = NodeSpec {
            name: "db".to_owned(),
            command: Vec::new(),
            environment: Default::default(),
            files: Default::default(),
            addresses: vec!["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
            starts_at_ns: 0,
        };
        let nodes = [node];
        let v4 = answer(&question("DB", A), &nodes).unwrap();
        assert_eq!((&v4[..2], v4[3] & 15, v4[7]), (&[0x12, 0x34][..], 0, 1));
        assert_eq!(v4[v4.len() - 4..], [10, 0, 0, 7]);
        let v6 = answer(&question("db", AAAA), &nodes).unwrap();
        assert_eq!((v6[7], v6[v6.len() - 1]), (1, 7));
        let nobody = answer(&question("elsewhere", A), &nodes).unwrap();
        assert_eq!((nobody[3] & 15, nobody[7]), (NO_SUCH_NAME, 0));
        let back = answer(&question("7.0.0.10.in-addr.arpa", 12), &nodes).unwrap();
        assert!(back.ends_with(b"\x02db\0"));
        assert_eq!(answer(&[0; 3], &nodes), None);
    }
}
