//! Keyframes: processes at earlier positions, on the disk.
//!
//! One is read where it is nearer than what is in memory; from there on it is a checkpoint
//! like others. One that is damaged, of another trace, of another version or of another
//! machine is told of and left alone, and the way is longer.
//!
//! They are written while the program runs forward: one each time that it has run for so
//! long, and one near the end of history, where most sessions begin. If there are many,
//! every other one goes and the distance doubles.

mod capture;
mod table;

use std::fs::File;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane_protocol::agent_stop;
use trace_store::keyframes::{self as store, Keyframe, KeyframeReader, KeyframeWriter, Listed};

use crate::error::TimelineError;
use crate::position::{Position, position_of};
use crate::process::Process;
use crate::session::Session;
use crate::timeline::Timeline;

/// Most keyframes of a process, besides the one near its end.
const KEYFRAMES_MAX: usize = 16;

/// Who is told of what was written, and of what could not be used.
pub type Tell = Box<dyn Fn(&str)>;

/// The keyframes of a recording.
pub(crate) struct Keyframes {
    identity: [u8; 32],
    /// In the order of their positions.
    known: Vec<Listed>,
    writing: Option<Writing>,
    /// Why none are written, though that was asked.
    refused: Option<String>,
    tell: Tell,
}

struct Writing {
    every: Duration,
    since: Instant,
}

fn position_in(keyframe: &Keyframe) -> Position {
    Position { event: keyframe.event, steps: keyframe.steps }
}

impl Keyframes {
    /// Those that there are of the process of a session.
    fn find(session: &Session, tell: Tell) -> Keyframes {
        let trace = session.trace();
        let (runtime, facts) = injector::image_facts(session.memory());
        let about = std::fs::read(trace.dir().join("trace.json")).unwrap_or_default();
        let identity = store::identity(&[&about, runtime, facts.as_bytes()]);
        let (all, problems) = store::list(trace.dir());
        for problem in problems {
            tell(&problem.to_string());
        }
        let (known, others): (Vec<Listed>, _) = all
            .into_iter()
            .filter(|listed| listed.keyframe.lane == session.lane)
            .partition(|listed| listed.keyframe.identity == identity);
        if !others.is_empty() {
            tell(&format!(
                "{} keyframes of this trace are of another trace, version or machine, and are not used",
                others.len()
            ));
        }
        Keyframes { identity, known, writing: None, refused: None, tell }
    }

    /// The last one at `target` or before it, and behind `from`.
    fn between(&self, from: Position, target: Position) -> Option<&Listed> {
        let behind = self.known.partition_point(|listed| position_in(&listed.keyframe) <= target);
        let last = self.known.get(behind.checked_sub(1)?)?;
        (position_in(&last.keyframe) > from).then_some(last)
    }

    fn note(&mut self, listed: Listed) {
        let place =
            self.known.partition_point(|other| position_in(&other.keyframe) < position_in(&listed.keyframe));
        self.known.insert(place, listed);
    }

    /// Removes every other one if there are many.
    fn thin(&mut self) -> Result<(), TimelineError> {
        if self.known.len() <= KEYFRAMES_MAX {
            return Ok(());
        }
        let mut index = 0;
        let mut gone = Vec::new();
        self.known.retain(|listed| {
            index += 1;
            let stays = index % 2 == 0;
            if !stays {
                gone.push(listed.path.clone());
            }
            stays
        });
        if let Some(writing) = &mut self.writing {
            writing.every *= 2;
        }
        gone.iter().try_for_each(|path| store::remove(path)).map_err(TimelineError::Store)
    }
}

impl Timeline {
    /// Looks for keyframes of the recording, and uses them from now on.
    pub fn use_keyframes(&mut self, tell: Tell) {
        if let Some(session) = &self.session {
            self.keyframes = Some(Keyframes::find(session, tell));
        }
    }

    /// Writes keyframes too, whenever the program has run forward for so long, and one near
    /// the end of history once that is reached.
    pub fn write_keyframes(&mut self, every: Duration) {
        if let Some(keyframes) = &mut self.keyframes {
            keyframes.writing = Some(Writing { every, since: Instant::now() });
            self.checkpoint_every = self.checkpoint_every.map(|usual| usual.min(every));
        }
    }

    /// Positions of the keyframes that are used.
    pub fn keyframes(&self) -> Vec<Position> {
        let known = self.keyframes.iter().flat_map(|keyframes| &keyframes.known);
        known.map(|listed| position_in(&listed.keyframe)).collect()
    }

    /// Why no keyframes were written, though that was asked; `None` if nothing was in the way.
    pub fn no_keyframes(&self) -> Option<&str> {
        self.keyframes.as_ref()?.refused.as_deref()
    }

    /// Sees to it that the checkpoint before a position is not farther from it than the
    /// last keyframe.
    pub(crate) fn approach(&mut self, target: Position) {
        while let Some(keyframes) = &mut self.keyframes
            && let Some(session) = &self.session
            && let Some((from, _)) = self.checkpoints.before(target)
            && let Some(listed) = keyframes.between(from, target).cloned()
        {
            match taken_up(session, &listed) {
                Ok(process) => {
                    self.checkpoints.keep(position_in(&listed.keyframe), process);
                    return;
                }
                Err(error) => {
                    keyframes.known.retain(|other| other.path != listed.path);
                    (keyframes.tell)(&format!("a keyframe is not used: {error}"));
                }
            }
        }
    }

    /// Goes to the last keyframe, if it is ahead.
    pub(crate) fn go_near_end(&mut self) -> Result<(), TimelineError> {
        const END: Position = Position { event: u64::MAX, steps: 0 };
        self.approach(END);
        let here = self.known_position();
        if let Some((last, _)) = self.checkpoints.before(END)
            && here.is_some_and(|here| last > here)
        {
            let (_, process) = self.checkpoints.copy_before(last)?;
            self.put_here(process);
            self.legs.clear();
        }
        Ok(())
    }

    /// Writes a keyframe of the present position, which is known. Gives its bytes on the disk;
    /// `None`: there is one.
    ///
    /// # Errors
    /// [`TimelineError::NoKeyframe`] if none can be made here.
    pub fn write_keyframe_here(&mut self) -> Result<Option<u64>, TimelineError> {
        if self.is_live() || self.live.is_some() {
            return Err(TimelineError::NoKeyframe("keyframes are of recordings alone".to_owned()));
        }
        let session = Rc::clone(self.here.session()?);
        let unused = || Keyframes::find(&session, Box::new(|_| ()));
        let keyframes = self.keyframes.get_or_insert_with(unused);
        if self.here.stop.kind == agent_stop::END {
            return Err(TimelineError::NoKeyframe("history ends here".to_owned()));
        }
        Ok(write(keyframes, &session, &mut self.here)?.map(|(_, bytes)| bytes))
    }

    /// The program has run forward, and stands: writes a keyframe if it is time.
    pub(crate) fn write_keyframe_if_due(&mut self) {
        let due = |writing: &Writing| writing.since.elapsed() >= writing.every;
        let is_due = self.keyframes.as_ref().and_then(|known| known.writing.as_ref()).is_some_and(due);
        if !is_due || self.is_live() {
            return;
        }
        let session = self.here.session().map(Rc::clone);
        if let (Some(keyframes), Ok(session)) = (&mut self.keyframes, session) {
            let began = Instant::now();
            let written = write(keyframes, &session, &mut self.here);
            tell_of(keyframes, written);
            if let Some(writing) = &mut keyframes.writing {
                // Writing takes a small part of the time, however large the program is.
                writing.every = writing.every.max(began.elapsed() * 10);
                writing.since = Instant::now();
            }
        }
    }

    /// History ends here: the last place before that of which there is a checkpoint becomes
    /// a keyframe.
    pub(crate) fn write_last_keyframe(&mut self) {
        let is_writing = self.keyframes.as_ref().is_some_and(|keyframes| keyframes.writing.is_some());
        let last = self.checkpoints.positions().last().copied();
        let (true, Some(last)) = (is_writing, last.filter(|last| *last > self.beginning())) else { return };
        let copy = self.checkpoints.copy_before(last);
        if let (Some(keyframes), Some(session)) = (&mut self.keyframes, &self.session) {
            let written = copy.and_then(|(_, mut process)| write(keyframes, session, &mut process));
            tell_of(keyframes, written);
        }
    }
}

fn tell_of(keyframes: &mut Keyframes, written: Result<Option<(Position, u64)>, TimelineError>) {
    match written {
        Ok(Some((position, bytes))) => {
            (keyframes.tell)(&format!("keyframe at {position}, {} KB", bytes.div_ceil(1024)));
        }
        Ok(None) => {}
        Err(error) => {
            keyframes.writing = None;
            keyframes.refused = Some(error.to_string());
            (keyframes.tell)(&format!("no keyframes are written: {error}"));
        }
    }
}

/// Writes one of a process that stands still; its position and size. `None`: there is one.
fn write(
    keyframes: &mut Keyframes,
    session: &Session,
    process: &mut Process,
) -> Result<Option<(Position, u64)>, TimelineError> {
    let stop = &process.stop;
    let position = position_of(stop);
    if keyframes.known.iter().any(|listed| position_in(&listed.keyframe) == position) {
        return Ok(None);
    }
    if stop.cannot_copy != 0 || stop.without_others != 0 {
        let why = "it shares memory with other processes".to_owned();
        return Err(TimelineError::NoKeyframe(why));
    }
    if stop.steps_known == 0 || stop.kind == agent_stop::END {
        return Ok(None);
    }
    let (event, steps) = (position.event, position.steps);
    let log_position = stop.log_position;
    let standing = process.stand()?;
    let control_fd = session.memory().control_fd().load(std::sync::atomic::Ordering::Relaxed);
    let image = capture::Image::of(process.pid, control_fd, session.objects(), &session.trace())?;
    let identity = keyframes.identity;
    let keyframe = Keyframe { lane: session.lane, identity, event, steps, log_position, standing };
    let mut writer = KeyframeWriter::create(session.trace().dir(), keyframe).map_err(TimelineError::Store)?;
    image.write(&mut writer)?;
    let (path, bytes) = writer.finish().map_err(TimelineError::Store)?;
    keyframes.note(Listed { path, keyframe });
    keyframes.thin()?;
    Ok(Some((position, bytes)))
}

/// A process that stands where a keyframe says.
fn taken_up(session: &Rc<Session>, listed: &Listed) -> Result<Process, TimelineError> {
    let reader = KeyframeReader::open(&listed.path).map_err(TimelineError::Store)?;
    if reader.keyframe != listed.keyframe {
        let why = format!("{} has changed", listed.path.display());
        return Err(TimelineError::NoKeyframe(why));
    }
    let image: File = tempfile::tempfile_in(session.objects())?;
    table::unfold(reader, &image).map_err(TimelineError::Store)?;
    let Keyframe { log_position, .. } = listed.keyframe;
    let process = Process::from_image(session, log_position, &image)?;
    let stop = &process.stop;
    let is_there = position_of(stop) == position_in(&listed.keyframe)
        && stop.log_position == log_position
        && stop.steps_known != 0;
    if is_there {
        return Ok(process);
    }
    let why = format!("{} leads to {}", listed.path.display(), position_of(stop));
    Err(TimelineError::NoKeyframe(why))
}
