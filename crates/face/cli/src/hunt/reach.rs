//! What a program reaches beyond itself, as far as its calls say: two tries of one that writes to
//! files or waits at addresses would disturb each other, and are not made at once.
//!
//! Deliberately absent: what another program does with what it is sent, and devices.

use events::Kind;
use syscall_model::row;
use trace_store::TraceReader;

use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};

/// True if tries of this program may run at once.
pub fn keeps_to_itself(trace: &TraceReader) -> Result<bool, CommandError> {
    let mut event = WholeEvent::default();
    for lane in trace.lanes() {
        let mut events = LaneEvents::open(trace, lane.lane)?;
        while events.read(&mut event)? {
            if event.kind == Kind::Stop || event.kind == Kind::Syscall && reaches_out(&event) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn reaches_out(event: &WholeEvent) -> bool {
    let parsed = event.event();
    let Some(call) = row(u64::from(event.code)).filter(|_| parsed.result() >= 0) else { return false };
    match call.name {
        "open" => writes(event, parsed.arg(0), parsed.arg(1)),
        "openat" => writes(event, parsed.arg(1), parsed.arg(2)),
        _ => call.outward,
    }
}

/// True if a file was opened to be written to, or made; not a device.
fn writes(event: &WholeEvent, path: u64, flags: u64) -> bool {
    // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC.
    const CHANGES: u64 = 0o1 | 0o2 | 0o100 | 0o1000;
    let is_device = event
        .memory(path)
        .is_some_and(|blob| blob.data.starts_with(b"/dev/") && !blob.data.starts_with(b"/dev/shm"));
    flags & CHANGES != 0 && !is_device
}
