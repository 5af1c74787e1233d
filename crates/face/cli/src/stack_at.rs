//! The stack of a recorded process at a position, and where it died.

use replayer::{Frame, ReplayOptions, Stacks};
use timeline::{Position, Timeline, TimelineError};
use trace_store::{LaneEnd, TraceReader, hash_hex};

use crate::crash_place::{CrashPlace, Moment};
use crate::exit::CommandError;
use crate::failure::{Crash, innermost};
use crate::settings::Settings;

/// Places of registers in a stop report.
const RIP: usize = 16;
const RSP: usize = 7;
const RBP: usize = 6;

/// A recorded process that can be brought to positions.
pub struct Past {
    pub timeline: Timeline,
    stacks: Stacks,
}

impl Past {
    /// Opens the recording of a process.
    pub fn open(trace: &TraceReader, pid: i32, settings: &Settings) -> Result<Past, CommandError> {
        let options = ReplayOptions {
            pid: Some(pid),
            rewriting_off: true,
            ..settings.replay_of(trace.dir().to_owned())
        };
        let timeline = Timeline::open(&options, &|| false).map_err(failed)?;
        let originals =
            trace.files().iter().map(|kept| (hash_hex(&kept.file.hash), kept.file.path.clone())).collect();
        Ok(Past { timeline, stacks: Stacks::with_originals(originals) })
    }

    /// The stack behind this many events, innermost frame first.
    pub fn at_event(&mut self, event: u64) -> Result<Vec<Frame>, CommandError> {
        self.timeline.seek(Position { event, steps: 0 }, &|| false).map_err(failed)?;
        Ok(self.stack())
    }

    /// The same of this thread, whoever runs there; `None` where it is not told.
    pub fn of_thread_at(&mut self, event: u64, thread: u32) -> Result<Option<Vec<Frame>>, CommandError> {
        self.timeline.seek(Position { event, steps: 0 }, &|| false).map_err(failed)?;
        let stop = self.timeline.stop();
        let known = &stop.threads[..(stop.thread_count as usize).min(stop.threads.len())];
        let found = known.iter().find(|known| known.index == thread).map(|known| known.registers);
        Ok(found.map(|registers| self.stack_of(&registers)))
    }

    /// The stack at a position.
    pub fn at_position(&mut self, position: Position) -> Result<Vec<Frame>, CommandError> {
        self.timeline.seek(position, &|| false).map_err(failed)?;
        Ok(self.stack())
    }

    /// The stack at the end of its history.
    pub fn at_end(&mut self) -> Result<Vec<Frame>, CommandError> {
        self.timeline.seek_end(&|| false).map_err(failed)?;
        Ok(self.stack())
    }

    fn stack(&mut self) -> Vec<Frame> {
        let registers = self.registers();
        self.stack_of(&registers)
    }

    fn stack_of(&mut self, registers: &[u64; 18]) -> Vec<Frame> {
        self.stacks.of(self.timeline.pid(), registers[RIP], registers[RSP], registers[RBP])
    }

    /// The running thread's.
    fn registers(&self) -> [u64; 18] {
        let stop = self.timeline.stop();
        let running = stop.threads.iter().find(|thread| thread.index == stop.thread);
        running.unwrap_or(&stop.threads[0]).registers
    }
}

/// Which process a signal killed, and where; `None` if none did. With `pid` only that one.
pub fn crash(
    trace: &TraceReader,
    pid: Option<i32>,
    settings: &Settings,
) -> Result<Option<(i32, Crash, Vec<Frame>)>, CommandError> {
    let place = CrashPlace::of(trace, pid)?;
    let died = place.and_then(|place| trace.lanes().iter().find(|info| info.pid == place.pid));
    let Some((pid, LaneEnd::Killed(signal))) = died.and_then(|info| Some((info.pid, info.end?))) else {
        return Ok(None);
    };
    let frames = Past::open(trace, pid, settings)?.at_end()?;
    Ok(Some((pid, Crash { signal, frames: innermost(&frames) }, frames)))
}

/// Which process ended by a panic of Rust's, and the stack from where the program's own code panicked.
pub fn panic(
    trace: &TraceReader,
    pid: Option<i32>,
    settings: &Settings,
) -> Result<Option<(i32, Vec<Frame>)>, CommandError> {
    let Some(CrashPlace { pid, moment: Moment::Panic(event) }) = CrashPlace::of(trace, pid)? else {
        return Ok(None);
    };
    let mut frames = Past::open(trace, pid, settings)?.at_event(event)?;
    let own = frames.iter().position(is_of_program);
    frames.drain(..own.unwrap_or(0));
    if let Some(first) = frames.first_mut() {
        // Of what was inlined there.
        first.source.take_if(|(path, _)| is_of_rust(path));
    }
    Ok(Some((pid, frames)))
}

/// Whether a frame is none of Rust's own libraries.
fn is_of_program(frame: &Frame) -> bool {
    const OF_RUST: [&str; 6] = ["std::", "core::", "alloc::", "__rust", "rust_", "<"];
    let is_own = |name: &str| !OF_RUST.iter().any(|begin| name.starts_with(begin));
    frame.source.is_some() && frame.function.as_ref().is_some_and(|(name, _)| is_own(name))
}

/// Whether a path in debug information is that of a source of Rust's own libraries.
fn is_of_rust(path: &str) -> bool {
    path.starts_with("library/") || path.starts_with("/rustc/") || path.contains("/rustlib/src/")
}

/// A frame in a line.
pub fn frame_text(frame: &Frame) -> String {
    let place = match (&frame.function, &frame.module) {
        (Some((name, _)), _) => name.clone(),
        (None, module) => format!("{:#x} ({})", frame.address, module.as_deref().unwrap_or("?")),
    };
    match &frame.source {
        Some((file, line)) => format!("{place} at {}:{line}", file.rsplit('/').next().unwrap_or(file)),
        None => place,
    }
}

fn failed(error: TimelineError) -> CommandError {
    match error {
        TimelineError::Replay(replayer::ReplayError::Store(error)) | TimelineError::Store(error) => {
            CommandError::Store(error)
        }
        error => CommandError::Debugger(error.to_string()),
    }
}
