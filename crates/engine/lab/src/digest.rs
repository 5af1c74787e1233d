//! What a run was, in hashes.

use serde::{Deserialize, Serialize};

/// What a run was: equal for equal runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Of each node's outputs, with their times, in hex.
    pub outputs: Vec<String>,
    /// Of all packets that were sent.
    pub packets: String,
    pub packet_count: u64,
    /// Of each node's memory: of its processes when they ended, and at the lab's end. None where that was not asked for.
    #[serde(default)]
    pub memory: Vec<String>,
    pub ended_at_ns: u64,
}
