//! What a process knows of the end of its ring that it writes to or reads from; see `log`.

/// The writing or reading end of a ring.
#[repr(C)]
pub struct Log {
    pub base: u64,
    /// Head when recording, tail when replaying.
    pub position: u64,
    /// Recording: up to here there is space. Replaying: up to here there are events.
    pub limit: u64,
    pub noticed: u64,
    /// Recording: place inside the event that is being written.
    pub at: u64,
    pub kind: u64,
    pub flags: u8,
    pub code: u16,
    /// Whole groups of events so far.
    pub events: u64,
    /// Recording has to stop; a `StopReason`. Nothing is published any more.
    pub broken: u16,
    /// The call logged last said that a signal follows.
    pub follows: bool,
}
