//! Throughput over nine links beside what Linux 6.18 reached over the same (`tests/lab/tcp-against-linux` measured it:
//! CUBIC, the median of seven seeds).

use std::net::SocketAddr;

use fabric::{Error, Fabric, LinkSpec, Transport};

const SECOND: u64 = 1_000_000_000;
/// Mbit/s, ms for one way, lost packets; Mbit/s that Linux reached.
const LINKS: [(u64, u64, f64, f64); 9] = [
    (10, 5, 0.0, 9.56),
    (10, 20, 0.001, 8.78),
    (10, 50, 0.01, 1.42),
    (50, 20, 0.0, 47.42),
    (50, 50, 0.001, 9.48),
    (50, 5, 0.01, 11.19),
    (100, 50, 0.0, 92.23),
    (100, 5, 0.001, 41.36),
    (100, 20, 0.01, 3.11),
];

/// Megabits that arrive in a second, of a stream that always has something to send.
fn throughput(spec: &LinkSpec, seed: u64, seconds: u64) -> f64 {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let mut fabric = Fabric::new(seed);
    let hosts = ["10.0.0.1", "10.0.0.2"].map(|ip| fabric.add_host(vec![ip.parse().expect("an address")]));
    fabric.link(hosts[0], hosts[1], spec);
    let listener = fabric.open(hosts[1], Transport::Stream, false);
    fabric.bind(listener, address("0.0.0.0:80")).expect("the port is free");
    fabric.listen(listener, 10).expect("it can listen");
    let sender = fabric.open(hosts[0], Transport::Stream, false);
    assert_eq!(fabric.connect(sender, address("10.0.0.2:80")), Err(Error::InProgress));
    let receiver = loop {
        match fabric.accept(listener) {
            Ok(receiver) => break receiver,
            Err(_) => {
                let next = fabric.next_event_ns().expect("a SYN is sent again");
                fabric.advance(next);
            }
        }
    };
    let (end_ns, block, mut bytes) = (fabric.now_ns() + seconds * SECOND, vec![0; 1 << 16], 0);
    while fabric.now_ns() < end_ns {
        while fabric.give(sender, &block).expect("it is connected") > 0 {}
        bytes += fabric.take(receiver, usize::MAX).len();
        fabric.take_sent();
        let next = fabric.next_event_ns().expect("something is always on its way");
        fabric.advance(next);
    }
    bytes as f64 * 8.0 / 1e6 / seconds as f64
}

#[test]
fn nine_links_carry_as_much_as_with_linux() {
    for (rate, delay, loss, linux) in LINKS {
        let spec = LinkSpec {
            delay_ns: delay * 1_000_000,
            bits_per_second: rate * 1_000_000,
            loss,
            queue_bytes: (rate * 2 * delay * 125).max(30_000),
            ..LinkSpec::default()
        };
        // A slow stream loses few packets: it takes more time until chance evens out.
        let seconds = if delay as f64 * loss >= 0.2 { 60 } else { 20 };
        let mut ours: Vec<f64> = (1..=9).map(|seed| throughput(&spec, seed, seconds)).collect();
        ours.sort_by(f64::total_cmp);
        let ratio = ours[4] / linux;
        assert!(
            (0.9..=1.1).contains(&ratio),
            "{rate} Mbit/s, {delay} ms, {loss}: {} beside {linux}",
            ours[4]
        );
    }
}
