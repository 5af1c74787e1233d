//! The past of a live program: a replay of what it logged, which is kept while the program
//! goes on, and made longer when somebody looks back again.
//!
//! What was logged before is what it was, so processes that stand in it stay where they are.
//! One that stands behind all that was known had nothing to look ahead at: it stays only if
//! what comes next is what it comes to by itself, such as a call.
//!
//! Deliberately absent: a past of a program that went back, whose log is another; and one of
//! processes that share memory, where the others have gone as far as the log went.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use events::Kind;
use lane_protocol::{NONE, agent_stop};
use replayer::{PrivateFolder, ReplayError, ReplayOptions, Sandbox, prepare};
use trace_store::{LaneReader, StoreError, TraceReader};

use crate::checkpoints::Checkpoints;
use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, Patience};
use crate::live::End;
use crate::position::{Position, Stops, position_of};
use crate::process::Process;
use crate::session::Session;
use crate::timeline::Timeline;

/// What the past is replayed from.
pub(crate) struct Saved {
    /// The last trace, with all that was logged; the first's files, which the session's
    /// processes look for there.
    folder: PrivateFolder,
    /// Of traces so far.
    count: u32,
    /// How often the live program's log had lost its end.
    cuts: u64,
}

impl Saved {
    fn new(cuts: u64) -> std::io::Result<Saved> {
        let folder = PrivateFolder::on_disk()?;
        Ok(Saved { folder, count: 0, cuts })
    }

    fn trace(&self, number: u32) -> PathBuf {
        self.folder.path().join(format!("trace-{number}"))
    }

    /// A place for the next trace.
    fn next(&mut self) -> PathBuf {
        self.count += 1;
        self.trace(self.count)
    }

    /// Puts the files of the last trace where those of the first are, and removes what is in
    /// the last as well: it stays open where it is still read.
    fn tidy(&self) -> std::io::Result<()> {
        let files = self.trace(1).join("files");
        for file in std::fs::read_dir(self.trace(self.count).join("files"))? {
            let file = file?;
            let place = files.join(file.file_name());
            if !place.exists() && std::fs::hard_link(file.path(), &place).is_err() {
                std::fs::copy(file.path(), &place)?;
            }
        }
        let before = self.trace(self.count - 1);
        for part in std::fs::read_dir(&before)? {
            let part = part?.path();
            match part.is_dir() {
                true if part == files => {}
                true => std::fs::remove_dir_all(part)?,
                false => std::fs::remove_file(part)?,
            }
        }
        Ok(())
    }
}

/// The kind of the event at a position of a log; `None` at its end.
fn kind_at(mut log: LaneReader, log_bytes: u64) -> Result<Option<Kind>, StoreError> {
    let rest = (log_bytes - log.skip(log_bytes)) as usize;
    let mut chunk = Vec::new();
    log.next_chunk(&mut chunk)?;
    Ok(chunk.get(rest).and_then(|kind| Kind::from_byte(*kind)))
}

fn failed(error: &dyn std::fmt::Display) -> TimelineError {
    TimelineError::Past(error.to_string())
}

impl Timeline {
    /// Sees to it that there is a replay of the past, and that its end is known.
    ///
    /// # Errors
    /// [`TimelineError`]
    pub fn open_past(&mut self, give_up: &dyn Fn() -> bool) -> Result<(), TimelineError> {
        if self.live.as_ref().is_none_or(|live| live.present.is_some()) {
            return Ok(());
        }
        let patience = || if give_up() { Patience::Enough } else { Patience::Wait };
        let found = self.follow_log(&patience).and_then(|()| self.find_present(&patience));
        match found {
            Ok(_) => {}
            // What has been replayed of it is so.
            Err(TimelineError::Interrupted) => self.leave_past(),
            Err(_) => self.forget_past(),
        }
        if let Some(live) = &mut self.live {
            live.present = Some(found?);
        }
        Ok(())
    }

    /// A session that replays all that was logged so far.
    fn follow_log(&mut self, patience: AskPatience) -> Result<(), TimelineError> {
        let can_go_on = self.session.as_ref().is_some_and(|session| session.can_go_on());
        let cuts = self.debuggee().map_or(0, recorder::debuggee::Debuggee::cuts);
        let is_same = self.live.as_ref().and_then(|live| live.saved.as_ref());
        if !can_go_on || is_same.is_none_or(|saved| saved.cuts != cuts) {
            self.forget_past();
        }
        let Some(live) = &mut self.live else { return Ok(()) };
        let mut saved = match live.saved.take() {
            Some(saved) => saved,
            None => Saved::new(cuts).map_err(|error| failed(&error))?,
        };
        let trace_dir = saved.next();
        let is_first = saved.count == 1;
        live.debuggee.save(&trace_dir, self.here.stop.log_position).map_err(TimelineError::Past)?;
        live.saved = Some(saved);
        // The program runs here already: it needs no sandbox.
        let options = ReplayOptions {
            pid: (!live.debuggee.is_first()).then(|| live.debuggee.pid()),
            rewriting_off: true,
            ..ReplayOptions::new(trace_dir.clone(), None, Sandbox::Never)
        };
        if !is_first {
            self.make_longer(&trace_dir)?;
        }
        if self.checkpoints.is_empty() {
            self.begin_past(&options, patience)?;
        }
        self.options = Some(options);
        Ok(())
    }

    fn begin_past(&mut self, options: &ReplayOptions, patience: AskPatience) -> Result<(), TimelineError> {
        let session = Rc::new(Session::start(prepare(options, true)?)?);
        let first = Process::first(&session, patience)?;
        self.checkpoints = Checkpoints::new(position_of(&first.stop), first);
        self.session = Some(session);
        Ok(())
    }

    /// The session of the past goes on with a trace that begins with the one before.
    fn make_longer(&mut self, trace_dir: &Path) -> Result<(), TimelineError> {
        let (Some(session), Some(live)) = (&self.session, &self.live) else { return Ok(()) };
        let stored = |error: StoreError| TimelineError::Replay(ReplayError::from(error));
        let tidied = live.saved.as_ref().map_or(Ok(()), Saved::tidy);
        tidied.map_err(|error| failed(&error))?;
        let trace = TraceReader::open(trace_dir).map_err(stored)?;
        let known_bytes = session.trace().lane(session.lane).map_err(stored)?.skip(u64::MAX);
        let next = kind_at(trace.lane(session.lane).map_err(stored)?, known_bytes).map_err(stored)?;
        session.replace_trace(trace);
        if !matches!(next, None | Some(Kind::Syscall | Kind::Instruction | Kind::Exit)) {
            self.checkpoints.forget_from(known_bytes);
        }
        Ok(())
    }

    /// Where in its past the live process stands.
    fn find_present(&mut self, patience: AskPatience) -> Result<End, TimelineError> {
        let stop = &self.here.stop;
        let event = stop.event;
        if stop.is_at_log_end != 0 {
            return Ok(End::Log { event, steps: None });
        }
        let registers = stop.threads[0].registers;
        let process = if stop.steps_known != 0 {
            self.process_at(Position { event, steps: stop.steps }, patience)?
        } else {
            self.counted(event, patience)?
        };
        if process.stop.threads[0].registers[..17] != registers[..17] {
            let text = format!("after event {event} the replay of it is not what was seen");
            return Err(TimelineError::Past(text));
        }
        let position = position_of(&process.stop);
        // From there on it is a few steps back, more often than not.
        self.keep(&process)?;
        Ok(End::At(position))
    }

    pub(crate) fn process_at_log_end(&mut self, patience: AskPatience) -> Result<Process, TimelineError> {
        let event = self.here.stop.event;
        let (_, mut process) = self.start_before(Position { event, steps: 0 }, NONE, patience)?;
        while process.stop.kind != agent_stop::END {
            self.run_keeping(&mut process, &Stops::default(), Limits::ALL_HITS, patience)?;
        }
        if process.stop.event != event {
            return Err(TimelineError::Past(format!("the replay ends after event {}", process.stop.event)));
        }
        Ok(process)
    }

    /// The live program goes on: its past becomes longer.
    pub(crate) fn leave_past(&mut self) {
        self.leave_branch();
        if let Some(live) = &mut self.live {
            live.present = None;
        }
    }

    /// The replay of the past is one of another past from now on.
    pub(crate) fn forget_past(&mut self) {
        self.leave_past();
        self.checkpoints = Checkpoints::default();
        self.session = None;
        self.options = None;
        if let Some(live) = &mut self.live {
            live.saved = None;
        }
    }
}
