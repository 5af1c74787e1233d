//! Input that a way back cannot give again: of connections that were accepted since, and closed.
//! Nothing stands for them any more from which it could be read.

use std::collections::BTreeMap;

/// So many connections have a line of their own.
const LINES_MAX: usize = 20;
/// So much of what a connection sent is shown.
const SHOWN_BYTES: usize = 40;

/// What a connection had sent.
#[derive(Default)]
struct Sent {
    bytes: u64,
    start: Vec<u8>,
}

/// The connections, in the order in which they were closed.
#[derive(Default)]
pub(crate) struct LostInput {
    connections: Vec<(u32, Sent)>,
}

impl LostInput {
    /// These pieces of input, each with the descriptor that it was read from, are dropped with
    /// their connections.
    pub fn add<'a>(&mut self, pieces: impl Iterator<Item = (u32, &'a [u8])>) {
        let mut closed: BTreeMap<u32, Sent> = BTreeMap::new();
        for (fd, bytes) in pieces {
            let sent = closed.entry(fd).or_default();
            sent.bytes += bytes.len() as u64;
            let missing = SHOWN_BYTES.saturating_sub(sent.start.len()).min(bytes.len());
            sent.start.extend(&bytes[..missing]);
        }
        self.connections.extend(closed.into_iter().filter(|(_, sent)| sent.bytes != 0));
    }

    /// A line for each, for people.
    pub fn lines(&self) -> Vec<String> {
        let line = |(fd, Sent { bytes, start }): &(u32, Sent)| {
            let more = if *bytes > start.len() as u64 { "..." } else { "" };
            format!(
                "descriptor {fd}: the connection was accepted and closed since, and the {bytes} bytes that it had sent are lost (\"{}\"{more}); what others sent is read again without them",
                start.escape_ascii()
            )
        };
        let mut lines: Vec<String> = self.connections.iter().take(LINES_MAX).map(line).collect();
        if let Some(rest @ [_, ..]) = self.connections.get(LINES_MAX..) {
            let bytes: u64 = rest.iter().map(|(_, sent)| sent.bytes).sum();
            lines.push(format!(
                "{} more such connections: the {bytes} bytes that they had sent are lost",
                rest.len()
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_a_line_with_what_it_sent() {
        let mut lost = LostInput::default();
        lost.add([(7, &b"SET a"[..]), (8, b"GET b"), (7, b" 1\r\n")].into_iter());
        lost.add([(7, &[b'x'; 100][..]), (9, b"")].into_iter());
        let lines = lost.lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("descriptor 7") && lines[0].contains("9 bytes"), "{lines:?}");
        assert!(lines[0].contains(r#"("SET a 1\r\n");"#), "{lines:?}");
        assert!(lines[2].contains("100 bytes") && lines[2].contains("x\"...)"), "{lines:?}");
    }

    #[test]
    fn many_connections_are_summed_up() {
        let mut lost = LostInput::default();
        (0..25).for_each(|fd| lost.add([(fd, &b"ab"[..])].into_iter()));
        let lines = lost.lines();
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines[LINES_MAX].starts_with("5 more such connections: the 10 bytes"), "{lines:?}");
    }
}
