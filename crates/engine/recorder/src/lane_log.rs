//! One lane on its way from the ring into the trace.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use events::{Event, Header, Kind, StopReason, Tag};
use injector::{Lane, PidFd, Segment, SessionMemory};
use lane_protocol::{lane_state, request};
use trace_store::LaneEnd;

use crate::crash::Crash;
use crate::environment;
use crate::lending::{errno_of, send_bytes, socket_of};
use crate::log_bytes::{end_of, measure};
use crate::lost::Back;
use crate::sink::Sink;
use crate::undoing::{MadeThen, Undoing, pids_of, restore_channels, undo_since};
use crate::waits::killed_child;

/// A chunk is written when it is this long,
const CHUNK_BYTES: usize = 256 * 1024;
/// or this old, so that a recorder that is killed loses little.
const CHUNK_AGE: Duration = Duration::from_millis(50);

/// A lane's buffer and what the events in it said of its end.
pub(crate) struct LaneLog {
    pub segment: Segment,
    pub lane: u32,
    pub pid: i32,
    /// `None`: the process was gone when its lane was first seen.
    pub process: Option<PidFd>,
    /// The end that the log itself tells.
    pub end: Option<LaneEnd>,
    /// Children that it waited for, with the signals that had killed them.
    pub waited: Vec<(i32, i32)>,
    buffer: Vec<u8>,
    /// Bytes of the ring that were read, and stay there until they are written: who takes the
    /// ring over where this process dies finds them.
    taken: u64,
    /// Events in the buffer.
    buffered_events: u64,
    buffered_since: Instant,
    pub events: u64,
    pub raw_bytes: u64,
    /// The log stopped making sense: what follows is not recorded.
    damaged: bool,
    /// Live: the log is fed to the process again, from here on.
    feeding: Option<Feeding>,
    /// Live: descriptors that ways back closed.
    made: Vec<MadeThen>,
    /// Live: the process was killed, and what is left of its log was given to be saved.
    is_given: bool,
}

/// A part of the log on its way back into the ring.
struct Feeding {
    /// Position of the next byte.
    next: u64,
    chunk: Vec<u8>,
    /// Bytes of the chunk that are in the ring.
    done: usize,
    closed: bool,
}

/// What one look at a ring found.
pub(crate) struct Drained {
    pub bytes: usize,
    /// A text to tell the user, once.
    pub message: Option<String>,
}

impl LaneLog {
    pub fn new(segment: Segment, lane: u32, pid: i32) -> LaneLog {
        LaneLog {
            segment,
            lane,
            pid,
            process: PidFd::open(pid),
            end: None,
            waited: Vec::new(),
            buffer: Vec::with_capacity(2 * CHUNK_BYTES),
            taken: 0,
            buffered_events: 0,
            buffered_since: Instant::now(),
            events: 0,
            raw_bytes: 0,
            damaged: false,
            feeding: None,
            made: Vec::new(),
            is_given: false,
        }
    }

    /// Live: the process was killed by SIGKILL, of which nobody is asked. Where the beginning of
    /// its log has fallen off, what is left is saved while its shadows are there, which go with the
    /// lane; `now`: also if it has not. True until that is done.
    pub fn is_being_saved(&mut self, lane: Lane, sink: &Sink, now: bool) -> bool {
        if !self.is_given {
            self.is_given = true;
            self.flush(lane, sink);
            if now || sink.with_history(|history| history.is_lane_whole(self.lane)) == Some(false) {
                lane.dying().store(libc::SIGKILL as u32, Ordering::Release);
            }
        }
        lane.dying().load(Ordering::Acquire) != 0
    }

    /// Live: does what the process asks, if it asks for something that has to do with
    /// its log.
    pub fn serve(&mut self, memory: &SessionMemory, sink: &Sink, undoing: &Undoing) {
        let lane = memory.lane(self.segment);
        let asked = lane.request().state.load(Ordering::Acquire);
        let position = lane.request().arguments[0].load(Ordering::Relaxed);
        let answer = match asked {
            request::REWIND => self.rewind(lane, sink, position),
            request::BRANCH => {
                let [_, way, signal, id] = &lane.request().arguments;
                let [way, signal, id] = [way, signal, id].map(|word| word.load(Ordering::Relaxed));
                let (way, socket) = (way as u32, (way >> 32) as i32);
                let crash = (way != 0).then_some(Crash { way, signal, checkpoint: id });
                match socket_of(lane, socket) {
                    Ok(socket) => self.branch(memory, sink, [position, id], undoing, crash, &socket),
                    Err(error) => errno_of(Err(error)),
                }
            }
            request::REACHES if self.is_kept(lane, sink, position) => 0,
            request::REACHES => libc::ERANGE,
            request::LOST => {
                // What it did until now counts.
                self.drain(lane, sink);
                self.flush(lane, sink);
                let id = position as u32;
                let was = lane.request().arguments[1].load(Ordering::Relaxed) != 0;
                let back =
                    Back { memory, sink, journals: undoing.journals.as_deref(), segment: self.segment };
                let lost = &undoing.lost;
                let text = if was { lost.of(lane, id) } else { lost.of_next(&back, id) };
                undoing.write(&format!("lost-{}", self.lane), text.as_bytes(), b"\0")
            }
            request::TOGETHER => memory.call_together(self.segment),
            request::UNCHANGED => {
                let why = environment::why_unchanged(position);
                diagnostics::tell!(
                    "retrovane: the allocations of process {} are not changed: {why}",
                    self.pid
                );
                0
            }
            request::PRESENT => {
                self.feeding = None;
                lane.go_to(self.raw_bytes);
                0
            }
            _ => return,
        };
        lane.answer(answer);
    }

    /// Live: a process that came to something else than before stands for ever: it is
    /// ended, and what happened is told.
    pub fn failed_replay(&mut self, lane: Lane) -> Option<String> {
        if self.feeding.is_none() || lane.state().load(Ordering::Acquire) != lane_state::REPORTED {
            return None;
        }
        let report = lane.report();
        self.feeding = None;
        // What is left in the ring was fed: it is no news of the process, which writes no more.
        lane.go_to(self.raw_bytes);
        injector::kill_process(self.pid, libc::SIGKILL);
        let header = Header(report.expected_header);
        let (expected, code) = (header.kind(), header.code());
        Some(format!(
            "process {} was ended: it did something else than before when it went back and did it again (event {}, expected {expected:?} {code} with {:x?}, got {} with {:x?} at {:x}{})",
            self.pid,
            report.event,
            report.expected,
            report.got_number as i64,
            report.got,
            report.registers[16],
            if report.text.is_empty() { String::new() } else { format!(": {}", report.text) }
        ))
    }

    /// True if all of the log from the position on is in the history.
    fn is_kept(&mut self, lane: Lane, sink: &Sink, position: u64) -> bool {
        self.drain(lane, sink);
        self.flush(lane, sink);
        sink.with_history(|history| history.reaches(self.lane, position)).unwrap_or(false)
    }

    fn rewind(&mut self, lane: Lane, sink: &Sink, position: u64) -> i32 {
        if !self.is_kept(lane, sink, position) {
            return libc::ERANGE;
        }
        self.feeding = Some(Feeding { next: position, chunk: Vec::new(), done: 0, closed: false });
        lane.go_to(position);
        self.inject(lane, sink);
        0
    }

    fn branch(
        &mut self,
        memory: &SessionMemory,
        sink: &Sink,
        [position, id]: [u64; 2],
        undoing: &Undoing,
        crash: Option<Crash>,
        socket: &OwnedFd,
    ) -> i32 {
        let (lane, id) = (memory.lane(self.segment), id as u32);
        if !self.is_kept(lane, sink, position) {
            return libc::ERANGE;
        }
        if let Some(crash) = crash
            && let Err(errno) = crash.plan(self.pid, &undoing.dir.join(format!("change-{}", self.lane)))
        {
            return errno;
        }
        let mut said = Vec::new();
        let between = restore_channels(memory, sink, undoing, self.segment, self.lane);
        let made = &self.made;
        if let Some(mut undo) = sink.with_history(|history| undo_since(history, self.lane, position, made)) {
            undo.forget_input(&between.read);
            if let Some(crash) = crash {
                said = crash.change(&mut undo, self.pid);
            }
            let children = pids_of(memory, &undo.children);
            let killed = if undoing.kills_children { &children[..] } else { &[] };
            let answer = send_bytes(socket, &undo.records(killed));
            if answer != 0 {
                return answer;
            }
            let back = Back { memory, sink, journals: undoing.journals.as_deref(), segment: self.segment };
            let goes_on = children.len() - killed.len();
            let mut lost = back.notes(id, position, &undo, goes_on, &between.written);
            lost.extend(said.iter().skip(1).cloned());
            match undoing.journals.as_ref().map(|journals| journals.undo(self.lane, position)) {
                None => {}
                Some(Ok(notes)) => lost.extend(notes),
                Some(Err(errno)) => return errno,
            }
            undoing.lost.keep(memory, self.segment, id, &lost);
            MadeThen::note(&mut self.made, position, &undo);
            for pid in killed {
                memory.note_killed(*pid);
                injector::kill_process(*pid, libc::SIGKILL);
            }
        }
        said.iter().for_each(|line| diagnostics::tell!("retrovane: {line}"));
        sink.with_history(|history| history.cut(self.lane, position));
        self.raw_bytes = position;
        self.end = None;
        lane.go_to(position);
        0
    }

    /// Puts more of the log into the ring; closes it behind the last.
    fn inject(&mut self, lane: Lane, sink: &Sink) -> usize {
        let Some(feeding) = self.feeding.as_mut() else { return 0 };
        let mut moved = 0;
        while !feeding.closed {
            if feeding.done == feeding.chunk.len() {
                feeding.done = 0;
                let chunk = sink.with_history(|history| history.read(self.lane, feeding.next)).flatten();
                feeding.chunk = chunk.unwrap_or_default();
                feeding.next += feeding.chunk.len() as u64;
                if feeding.chunk.is_empty() {
                    feeding.closed = true;
                    lane.close();
                    break;
                }
            }
            let Ok(put) = lane.copy_in(&feeding.chunk[feeding.done..]) else { break };
            feeding.done += put;
            moved += put;
            if put == 0 {
                break;
            }
        }
        moved
    }

    /// Empties the ring, and writes a chunk if it is time.
    pub fn drain(&mut self, lane: Lane, sink: &Sink) -> Drained {
        if self.feeding.is_some() {
            return Drained { bytes: self.inject(lane, sink), message: None };
        }
        let start = self.buffer.len();
        if self.taken == 0 {
            self.buffered_since = Instant::now();
        }
        let mut message = None;
        let bytes = match lane.copy_out(self.taken, &mut self.buffer) {
            Ok(bytes) => bytes,
            Err(error) => {
                message = self.damage(start, &error.to_string());
                0
            }
        };
        if bytes != 0 {
            message = self.walk(start);
        }
        self.taken += bytes as u64;
        let is_long = self.taken >= CHUNK_BYTES as u64 || lane.waits_for_space();
        if is_long || self.buffered_since.elapsed() >= CHUNK_AGE {
            self.flush(lane, sink);
        }
        Drained { bytes, message }
    }

    /// Writes what there is as a chunk, and then frees its place in the ring.
    pub fn flush(&mut self, lane: Lane, sink: &Sink) {
        if !self.buffer.is_empty() {
            sink.append(self.lane, self.buffered_events, &self.buffer);
            self.buffer.clear();
            self.buffered_events = 0;
        }
        lane.release(std::mem::take(&mut self.taken));
        self.buffered_since = Instant::now();
    }

    /// Counts the events from `start` on, and finds the end if it is among them.
    /// What comes after an end, or after damage, is dropped.
    fn walk(&mut self, start: usize) -> Option<String> {
        if self.damaged {
            self.buffer.truncate(start);
            return None;
        }
        let mut at = start;
        let mut message = None;
        while at < self.buffer.len() {
            let rest = &self.buffer[at..];
            let Some((kind, len_bytes)) = measure(rest) else {
                return self.damage(at, "its log is no sequence of events: the program overwrote it");
            };
            match kind {
                Kind::Data => {}
                Kind::Exit | Kind::Stop | Kind::Fault => {
                    self.buffered_events += 1;
                    self.events += 1;
                    let end = Event::parse(rest).ok().and_then(|(event, _)| end_of(&event));
                    // Who is traced wanted to be: a debugger's user need not be told each time.
                    if let Some(LaneEnd::Stopped(reason)) = end
                        && reason != StopReason::Traced as u16
                    {
                        message = Some(stop_text(rest));
                    }
                    self.end = end.or(self.end);
                }
                Kind::Syscall
                | Kind::Signal
                | Kind::Instruction
                | Kind::Trampoline
                | Kind::Birth
                | Kind::Checksum
                | Kind::Preemption
                | Kind::Token
                | Kind::Store
                | Kind::Change
                | Kind::Edit => {
                    if kind == Kind::Syscall {
                        self.waited.extend(killed_child(rest));
                    }
                    self.buffered_events += 1;
                    self.events += 1;
                }
            }
            at += len_bytes;
        }
        self.raw_bytes += (at - start) as u64;
        message
    }

    fn damage(&mut self, keep: usize, why: &str) -> Option<String> {
        self.buffer.truncate(keep);
        if self.damaged {
            return None;
        }
        self.damaged = true;
        self.end = Some(LaneEnd::Stopped(StopReason::Unsupported as u16));
        Some(why.to_owned())
    }
}

/// The text that the runtime gave with its stop, or the reason's own.
fn stop_text(bytes: &[u8]) -> String {
    let Ok((event, _)) = Event::parse(bytes) else { return String::new() };
    let text = event
        .blobs()
        .find(|blob| blob.tag == Tag::Text)
        .map(|blob| String::from_utf8_lossy(blob.data).trim_end_matches('\0').to_owned())
        .filter(|text| !text.is_empty());
    text.unwrap_or_else(|| reason_text(event.code).to_owned())
}

fn reason_text(code: u16) -> &'static str {
    match StopReason::from_code(code) {
        Some(StopReason::Thread) => "it made a thread, which the version that recorded it could not follow",
        Some(StopReason::SharedMemory) => {
            "it shares writable memory with another process, which the version that recorded it could not follow"
        }
        Some(StopReason::DiskFull) => "the trace cannot be written",
        Some(StopReason::RecorderDied) => "the recorder is gone",
        Some(StopReason::Unsupported) => "it did something that cannot be recorded",
        Some(StopReason::TooManyProcesses) => "there are too many processes at the same time",
        Some(StopReason::Traced) => "its parent traces it (ptrace), and is recorded on",
        None => "for a reason that this version does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{BLOB_HEADER_BYTES, HEADER_BYTES, Header, padded};

    fn log() -> LaneLog {
        LaneLog::new(Segment::FIRST, 0, 0)
    }

    fn exit_event(code: u64) -> Vec<u8> {
        [Header::new(Kind::Exit, 0, 0, 16).to_le_bytes(), code.to_le_bytes()].concat()
    }

    #[test]
    fn events_are_counted_and_the_exit_is_the_end() {
        let mut log = log();
        log.buffer.extend(Header::new(Kind::Syscall, 0, 39, 16).to_le_bytes());
        log.buffer.extend(7u64.to_le_bytes());
        log.buffer.extend(Header::new(Kind::Data, 0, 0, 8).to_le_bytes());
        log.buffer.extend(exit_event(3));
        assert_eq!(log.walk(0), None);
        assert_eq!((log.events, log.end), (2, Some(LaneEnd::Exited(3))));
    }

    #[test]
    fn a_stop_tells_its_text() {
        let text = b"it made a thread (clone)";
        let len_bytes = HEADER_BYTES + BLOB_HEADER_BYTES + padded(text.len());
        let mut bytes =
            Header::new(Kind::Stop, 0, StopReason::Thread as u16, len_bytes as u32).to_le_bytes().to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend((Tag::Text as u32).to_le_bytes());
        bytes.extend(text);
        bytes.resize(len_bytes, 0);
        let mut log = log();
        log.buffer = bytes;
        assert_eq!(log.walk(0).as_deref(), Some("it made a thread (clone)"));
        assert_eq!(log.end, Some(LaneEnd::Stopped(1)));
    }

    #[test]
    fn damage_cuts_the_log_after_the_last_whole_event() {
        let mut log = log();
        log.buffer.extend(exit_event(0));
        log.buffer.extend([0xff; 24]);
        assert!(log.walk(0).is_some());
        assert_eq!(log.buffer.len(), 16);
        log.buffer.extend([1; 8]);
        assert_eq!(log.walk(16), None);
        assert_eq!(log.buffer.len(), 16);
    }
}
