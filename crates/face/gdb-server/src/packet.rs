//! Packets: framing, checksums, escapes, numbers. All of it is untrusted.

/// Longest packet that is taken, in bytes.
pub const PACKET_BYTES_MAX: usize = 0x2_0000;

/// What a client's bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Not enough bytes yet.
    Nothing,
    /// An acknowledgement, or noise between packets: so many bytes to drop.
    Skip(usize),
    /// The interrupt byte.
    Interrupt,
    /// A packet of so many bytes in all; `None`: its checksum is wrong.
    Packet(usize, Option<Vec<u8>>),
    /// It is longer than any packet can be.
    TooLong,
}

/// Looks at the start of what has come in.
pub fn parse(bytes: &[u8]) -> Incoming {
    match bytes.first() {
        None => return Incoming::Nothing,
        Some(0x03) => return Incoming::Interrupt,
        Some(b'$') => {}
        Some(_) => {
            let noise = bytes.iter().position(|byte| matches!(byte, b'$' | 0x03)).unwrap_or(bytes.len());
            return Incoming::Skip(noise);
        }
    }
    let Some(end) = bytes.iter().position(|&byte| byte == b'#') else {
        return if bytes.len() > PACKET_BYTES_MAX { Incoming::TooLong } else { Incoming::Nothing };
    };
    let Some(sum) = bytes.get(end + 1..end + 3) else { return Incoming::Nothing };
    let body = &bytes[1..end];
    let fits = std::str::from_utf8(sum).ok().and_then(|sum| u8::from_str_radix(sum, 16).ok())
        == Some(checksum(body));
    Incoming::Packet(end + 3, fits.then(|| unescape(body)))
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'}' => plain.extend(rest.next().map(|escaped| escaped ^ 0x20)),
            _ => plain.push(byte),
        }
    }
    plain
}

/// A packet around these bytes.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let mut packet = vec![b'$'];
    for &byte in body {
        if matches!(byte, b'$' | b'#' | b'}' | b'*') {
            packet.extend([b'}', byte ^ 0x20]);
        } else {
            packet.push(byte);
        }
    }
    let sum = checksum(&packet[1..]);
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from hexadecimal; `None` if it is none.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// A number in hexadecimal.
pub fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Two numbers with a comma between.
pub fn pair(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once(',')?;
    Some((number(first)?, number(second)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_parsed() {
        for body in [&b""[..], b"qSupported", b"}#$*\x03\x00\xff"] {
            let packet = frame(body);
            assert_eq!(parse(&packet), Incoming::Packet(packet.len(), Some(body.to_vec())));
            for cut in 1..packet.len() {
                assert_eq!(parse(&packet[..cut]), Incoming::Nothing, "{cut} of {packet:?}");
            }
        }
    }

    use proptest::prelude::{any, proptest};

    proptest! {
        /// Whatever comes in, each look at it takes bytes away, or says that more is needed
        /// or that it is hopeless.
        #[test]
        fn any_bytes_are_looked_at_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut rest = &bytes[..];
            loop {
                let taken = match parse(rest) {
                    Incoming::Nothing | Incoming::TooLong => break,
                    Incoming::Interrupt => 1,
                    Incoming::Skip(taken) | Incoming::Packet(taken, _) => taken,
                };
                assert!(taken > 0 && taken <= rest.len());
                rest = &rest[taken..];
            }
        }

        #[test]
        fn any_packet_survives_its_frame(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let packet = frame(&body);
            assert_eq!(parse(&packet), Incoming::Packet(packet.len(), Some(body)));
        }

        #[test]
        fn any_text_is_a_number_or_none(text in ".{0,40}|[0-9a-fA-F,]{0,20}") {
            let _ = (number(&text), pair(&text));
            let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if let Some(bytes) = unhex(&text).filter(|_| plain) {
                assert_eq!(hex(&bytes), text.to_lowercase());
            }
        }
    }

    #[test]
    fn garbage_is_no_packet() {
        assert_eq!(parse(b"++-$"), Incoming::Skip(3));
        assert_eq!(parse(b"\x03$"), Incoming::Interrupt);
        assert_eq!(parse(b"$abc#00"), Incoming::Packet(7, None));
        assert_eq!(parse(b"$abc#zz"), Incoming::Packet(7, None));
        assert_eq!(parse(b"$abc}#e3"), Incoming::Packet(8, None));
        assert_eq!(parse(&[b"$", &vec![b'a'; PACKET_BYTES_MAX][..]].concat()), Incoming::TooLong);
        assert_eq!(unhex("6g"), None);
        assert_eq!(unhex("é"), None);
        assert_eq!(pair("1f,"), None);
    }
}
