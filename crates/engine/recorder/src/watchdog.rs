//! Says which thread holds up its lane: who has held the token for long while others
//! wait for it, and where it is.
//!
//! Deliberately absent: any remedy. A thread that computes is preempted by those who
//! wait; one that stays is stopped from outside, or shows a fault of ours.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::{Segment, SessionMemory};

/// How long a thread may hold the token while others wait.
const HELD_MAX: Duration = Duration::from_secs(10);
/// How often tokens are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

struct Held {
    changes: u32,
    since: Instant,
    told: bool,
}

/// What is known of the tokens so far.
pub(crate) struct Watchdog {
    looked: Instant,
    tokens: HashMap<u32, Held>,
}

impl Watchdog {
    pub fn new() -> Watchdog {
        Watchdog { looked: Instant::now(), tokens: HashMap::new() }
    }

    /// What is to be told of the lanes in these segments.
    pub fn look(&mut self, memory: &SessionMemory, segments: &[Segment]) -> Vec<String> {
        if memory.is_debugged() || self.looked.elapsed() < LOOK_EVERY {
            return Vec::new();
        }
        self.looked = Instant::now();
        let mut texts = Vec::new();
        for segment in segments {
            let lane = memory.lane(*segment);
            let slot = lane.token().load(Ordering::Acquire);
            let Some(token) = memory.token_of(lane) else { continue };
            let changes = token.changes.load(Ordering::Relaxed);
            let is_held = token.running().is_some() && token.has_sleepers();
            let held =
                self.tokens.entry(slot).or_insert(Held { changes, since: Instant::now(), told: false });
            if !is_held || held.changes != changes {
                *held = Held { changes, since: Instant::now(), told: false };
            } else if !held.told && held.since.elapsed() >= HELD_MAX {
                held.told = true;
                let (pid, tid) =
                    (token.holder_pid.load(Ordering::Relaxed), token.holder_tid.load(Ordering::Relaxed));
                texts.push(format!(
                    "thread {tid} of process {pid} has run for {} s while others of its lane wait ({})",
                    held.since.elapsed().as_secs(),
                    place(pid, tid, token.holder_space.load(Ordering::Relaxed))
                ));
            }
        }
        texts
    }
}

/// What the kernel says of a thread: its state, and the call or address it is at.
fn place(pid: i32, tid: i32, space: u32) -> String {
    if space != 0 {
        return format!("as numbered in the namespace of process {space}");
    }
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}"));
    let state = file("status").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("State:").map(|state| state.trim().to_owned()))
    });
    let call = file("syscall").unwrap_or_default();
    match state {
        Some(state) => format!("state {state}, at: {}", call.trim()),
        None => "it is gone".to_owned(),
    }
}
