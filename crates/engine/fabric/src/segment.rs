//! A part of a stream, as it travels.

use serde::{Deserialize, Serialize};

/// Bytes of the headers of Ethernet, IPv4 and TCP; they take time on a link, too.
const TCP_HEADERS_BYTES: usize = 14 + 20 + 20;
const STAMP_BYTES: usize = 12;
/// What else a SYN says (segment size, scale of windows, selective acknowledgements), and each block of these.
const SYN_MORE_BYTES: usize = 8;
const SELECTED_BYTES: [usize; 2] = [4, 8];

/// A part of a stream (RFC 9293). Numbers count from 0, where the SYN is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Segment {
    pub sequence: u64,
    pub acknowledged: u64,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub ack: bool,
    /// The number behind the last urgent byte (RFC 6093); 0: there is none that is not acknowledged.
    pub urgent: u64,
    /// Bytes that the sender of this has room for behind `acknowledged`.
    pub window: u64,
    /// When it was sent, in milliseconds, and what the sender saw last of the other end's (RFC 7323). 0: none.
    pub stamp: u32,
    pub echo: u32,
    /// What has arrived behind holes: beginnings and ends (RFC 2018).
    pub selected: Vec<(u64, u64)>,
    pub data: Vec<u8>,
}

impl Segment {
    /// Bytes of its headers, with those of the packet.
    pub fn headers_bytes(&self) -> usize {
        let selected = match self.selected.len() {
            0 => 0,
            blocks => SELECTED_BYTES[0] + blocks * SELECTED_BYTES[1],
        };
        let stamp = if self.stamp == 0 { 0 } else { STAMP_BYTES };
        TCP_HEADERS_BYTES + stamp + selected + if self.syn { SYN_MORE_BYTES } else { 0 }
    }

    /// How many numbers it takes up.
    pub fn length(&self) -> u64 {
        self.data.len() as u64 + u64::from(self.syn) + u64::from(self.fin)
    }
}
