//! Streams, datagrams and links, by seeds: what was sent arrives, whole and in order, whatever the
//! links do, and the same seed gives the same network.

use std::net::SocketAddr;

use fabric::{Error, Fabric, HostId, Kind, LinkSpec, Random, SocketId, Transport};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Two hosts with a link.
fn two_hosts(seed: u64, spec: &LinkSpec) -> (Fabric, HostId, HostId) {
    let mut fabric = Fabric::new(seed);
    let hosts = ["10.0.0.1", "10.0.0.2"].map(|ip| fabric.add_host(vec![ip.parse().expect("an address")]));
    fabric.link(hosts[0], hosts[1], spec);
    (fabric, hosts[0], hosts[1])
}

/// A listener on the second host, port 80, and a connection to it from the first, both ends.
fn connected(fabric: &mut Fabric, one: HostId, other: HostId) -> (SocketId, SocketId) {
    let listener = fabric.open(other, Transport::Stream, false);
    fabric.bind(listener, address("0.0.0.0:80")).expect("the port is free");
    fabric.listen(listener, 10).expect("it can listen");
    let client = fabric.open(one, Transport::Stream, false);
    assert_eq!(fabric.connect(client, address("10.0.0.2:80")), Err(Error::InProgress));
    let mut server = fabric.accept(listener);
    while server == Err(Error::Nothing) {
        let next = fabric.next_event_ns().expect("a SYN is sent again");
        fabric.advance(next);
        server = fabric.accept(listener);
    }
    (client, server.expect("a connection"))
}

/// Sends bytes over a stream and closes it; gives what arrives, and when it had.
fn transfer(fabric: &mut Fabric, from: SocketId, to: SocketId, bytes: &[u8]) -> (Vec<u8>, u64) {
    let (mut given, mut taken) = (0, Vec::new());
    for _ in 0..10_000_000u64 {
        if given < bytes.len() {
            given += fabric.give(from, &bytes[given..]).expect("the connection holds");
            if given == bytes.len() {
                fabric.end_sending(from);
            }
        }
        taken.extend(fabric.take(to, 100_000));
        let ended =
            fabric.socket(to).and_then(|socket| socket.stream()).is_some_and(|end| end.receive_ended());
        if ended && taken.len() == bytes.len() {
            return (taken, fabric.now_ns());
        }
        let Some(next) = fabric.next_event_ns() else { break };
        fabric.advance(next);
    }
    panic!("the transfer stands still at {} of {} bytes", taken.len(), bytes.len());
}

fn some_bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.word() as u8).collect()
}

#[test]
fn a_round_trip_takes_twice_the_delay() {
    let spec = LinkSpec { delay_ns: 10 * MILLISECOND, ..LinkSpec::default() };
    let (mut fabric, one, other) = two_hosts(1, &spec);
    let (client, server) = connected(&mut fabric, one, other);
    let begun = fabric.now_ns();
    assert_eq!(begun, 30 * MILLISECOND, "SYN, its answer, and the acknowledgement");
    fabric.give(client, b"ping").expect("it is connected");
    fabric.advance(begun + 9 * MILLISECOND);
    assert_eq!(fabric.take(server, 10), b"");
    fabric.advance(begun + 10 * MILLISECOND);
    assert_eq!(fabric.take(server, 10), b"ping");
}

#[test]
fn a_rate_is_kept() {
    let spec = LinkSpec { delay_ns: MILLISECOND, bits_per_second: 100_000_000, ..LinkSpec::default() };
    let (mut fabric, one, other) = two_hosts(1, &spec);
    let (client, server) = connected(&mut fabric, one, other);
    let bytes = some_bytes(5_000_000, 3);
    let begun = fabric.now_ns();
    let (arrived, at_ns) = transfer(&mut fabric, client, server, &bytes);
    assert!(arrived == bytes);
    let seconds = (at_ns - begun) as f64 / SECOND as f64;
    // 1448 of 1502 bytes are data.
    let ideal = 5_000_000.0 * 8.0 / 100e6 * 1502.0 / 1448.0;
    assert!((ideal..ideal * 1.25).contains(&seconds), "{seconds} s, where {ideal} are the link's");
}

#[test]
fn bad_links_lose_nothing_of_a_stream() {
    for seed in 0..40 {
        let spec = LinkSpec {
            delay_ns: 5 * MILLISECOND,
            jitter_ns: 2 * MILLISECOND,
            bits_per_second: 20_000_000,
            loss: 0.02 * (seed % 5) as f64,
            reorder: 0.05 * (seed % 3) as f64,
            duplicate: 0.05 * (seed % 2) as f64,
            queue_bytes: 30_000,
        };
        let (mut fabric, one, other) = two_hosts(seed, &spec);
        let (client, server) = connected(&mut fabric, one, other);
        let bytes = some_bytes(300_000, seed);
        let (arrived, _) = transfer(&mut fabric, client, server, &bytes);
        assert!(arrived == bytes, "seed {seed}: other bytes arrived");
    }
}

#[test]
fn the_same_seed_is_the_same_network() {
    let spec = LinkSpec { delay_ns: MILLISECOND, loss: 0.1, reorder: 0.1, ..LinkSpec::default() };
    let run = |seed| {
        let (mut fabric, one, other) = two_hosts(seed, &spec);
        let (client, server) = connected(&mut fabric, one, other);
        transfer(&mut fabric, client, server, &some_bytes(100_000, 5));
        (fabric.take_sent(), fabric)
    };
    assert!(run(7) == run(7));
    assert!(run(7).0 != run(8).0, "chance depends on the seed");
}

#[test]
fn a_copy_goes_on_as_the_network_does() {
    let spec = LinkSpec { delay_ns: MILLISECOND, loss: 0.05, ..LinkSpec::default() };
    let (mut fabric, one, other) = two_hosts(3, &spec);
    let (client, server) = connected(&mut fabric, one, other);
    fabric.give(client, &some_bytes(60_000, 1)).expect("it is connected");
    fabric.advance(fabric.now_ns() + 2 * MILLISECOND);
    let text = serde_json::to_string(&fabric).expect("it is data");
    let mut copy: Fabric = serde_json::from_str(&text).expect("it is what was written");
    assert!(copy == fabric);
    for network in [&mut fabric, &mut copy] {
        network.advance(20 * SECOND);
        assert_eq!(network.take(server, usize::MAX).len(), 60_000);
    }
    assert!(copy == fabric);
}

#[test]
fn nobody_at_a_port_refuses() {
    let (mut fabric, one, _) = two_hosts(1, &LinkSpec::default());
    let client = fabric.open(one, Transport::Stream, false);
    assert_eq!(fabric.connect(client, address("10.0.0.2:81")), Err(Error::InProgress));
    fabric.advance(0);
    assert_eq!(fabric.take_error(client), Some(Error::Refused));
    let datagrams = fabric.open(one, Transport::Datagram, false);
    fabric.connect(datagrams, address("10.0.0.2:81")).expect("there is a way");
    fabric.send_to(datagrams, None, b"?").expect("there is a way");
    fabric.advance(0);
    assert_eq!(fabric.receive_from(datagrams, false), Err(Error::Refused));
}

#[test]
fn partitions_part_and_heal() {
    let (mut fabric, one, other) = two_hosts(1, &LinkSpec::default());
    let (client, server) = connected(&mut fabric, one, other);
    fabric.partition(|host| host.0 as u32);
    fabric.give(client, b"late").expect("nobody knows yet");
    fabric.advance(5 * SECOND);
    assert_eq!(fabric.take(server, 10), b"");
    fabric.heal();
    fabric.advance(15 * SECOND);
    assert_eq!(fabric.take(server, 10), b"late");
}

#[test]
fn a_host_without_power_says_nothing() {
    let (mut fabric, one, other) = two_hosts(1, &LinkSpec::default());
    let (client, _) = connected(&mut fabric, one, other);
    fabric.set_power(other, false);
    fabric.give(client, b"hello?").expect("nobody knows yet");
    fabric.advance(5 * SECOND);
    assert_eq!(fabric.take_error(client), None);
    fabric.set_power(other, true);
    fabric.advance(30 * SECOND);
    assert_eq!(fabric.take_error(client), Some(Error::Reset), "the host has forgotten the connection");
}

#[test]
fn datagrams_arrive_once_and_whole_or_not() {
    let spec = LinkSpec { loss: 0.5, ..LinkSpec::default() };
    let (mut fabric, one, other) = two_hosts(9, &spec);
    let receiver = fabric.open(other, Transport::Datagram, false);
    fabric.bind(receiver, address("0.0.0.0:53")).expect("the port is free");
    let sender = fabric.open(one, Transport::Datagram, false);
    for number in 0..100u8 {
        fabric.send_to(sender, Some(address("10.0.0.2:53")), &[number; 100]).expect("there is a way");
    }
    fabric.advance(0);
    let mut arrived = Vec::new();
    while let Ok(datagram) = fabric.receive_from(receiver, false) {
        assert!(datagram.data.len() == 100 && datagram.data.iter().all(|&byte| byte == datagram.data[0]));
        arrived.push(datagram.data[0]);
    }
    assert!((20..80).contains(&arrived.len()), "{} of 100 arrived", arrived.len());
    assert!(arrived.is_sorted());
}

#[test]
fn a_closed_end_is_seen() {
    let (mut fabric, one, other) = two_hosts(1, &LinkSpec::default());
    let (client, server) = connected(&mut fabric, one, other);
    fabric.give(client, b"bye").expect("it is connected");
    fabric.close(client);
    fabric.advance(SECOND);
    assert_eq!(fabric.take(server, 10), b"bye");
    assert!(fabric.socket(server).and_then(|socket| socket.stream()).is_some_and(|end| end.receive_ended()));
    fabric.close(server);
    fabric.advance(2 * SECOND);
    let streams = fabric.sockets().filter(|(_, socket)| matches!(socket.kind, Kind::Stream(_))).count();
    assert_eq!(streams, 0, "both ends have forgotten the connection");
}
