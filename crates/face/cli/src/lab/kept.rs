//! What is kept in a run's folder.

use std::path::Path;

use lab::Digest;
pub use lab::SPEC;

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    pub is_good: bool,
    /// The lab went back, and on in another future.
    #[serde(default)]
    pub is_left: bool,
    pub digest: Digest,
    /// From when on the run is not the same again, as a thread was preempted that computed.
    #[serde(default)]
    pub preempted_ns: Option<u64>,
}

impl Kept {
    /// Says that it is not the same again from a time on, if that is so.
    pub fn not_the_same_text(&self) -> Option<String> {
        let seconds = self.preempted_ns? as f64 / 1e9;
        Some(format!(
            "from {seconds:.6} s on this run is not the same again: a thread that computed without a call was preempted"
        ))
    }
}

/// The name of the file with [`Kept`] in a run's folder.
pub const KEPT: &str = "result.json";

/// Reads one of these files.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}
