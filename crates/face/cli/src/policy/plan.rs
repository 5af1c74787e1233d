//! What a replay with real streams does, and where: found out from the whole trace before it begins.
//!
//! Invariant: what cannot be had is said here, before anything is touched. Deliberately absent:
//! connections that came to the program (accept(2)) and descriptors that came in messages, which are
//! always as recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use events::real::{self, OP_WORDS};
use events::{Kind, Tag};
use replayer::{PrivateFolder, RealOp, RealPlan};
use trace_store::{LaneEnd, LaneInfo, TraceReader};

use super::check::Checked;
use super::descriptors::{Description, Descriptors, Thing, Way, cloexec, text_at};
use super::pattern::StreamKind;
use super::replaying::{InputPolicy, OutputPolicy, Policies, opened};
use crate::exit::CommandError;
use crate::info::in_tree_order;
use crate::lane_events::{LaneEvents, WholeEvent};

mod calls;
mod names;
mod screens;

pub use names::of_address;
pub use screens::{Attached, DISPLAY_PORTS, DISPLAY_SOCKETS, Moment, Screen, ScreenPlan, Shown};

/// The descriptor's own place.
const ITS_PLACE: u64 = u64::MAX;

/// What is to be done.
#[derive(Default)]
pub struct Planned {
    pub plan: RealPlan,
    /// Names, by the numbers in the plan.
    pub streams: Vec<String>,
    /// Those for which the user gave something else: that it differs is no news.
    pub replaced: Vec<u64>,
    /// In the user's words.
    pub touches: Vec<String>,
    pub checked: Vec<Checked>,
    /// Where files go that are checked.
    pub shadow: Option<PrivateFolder>,
    /// Connections to displays, where they are to be shown.
    pub screens: ScreenPlan,
}

/// The walk through the trace.
struct Planner<'a> {
    policies: &'a Policies,
    planned: Planned,
    ids: u32,
    stream_numbers: HashMap<String, u64>,
    touched: BTreeSet<String>,
    /// Files of `to FILE`, and the streams that go there.
    targets: HashMap<PathBuf, u64>,
    lane: u32,
    event: u64,
    /// When the event at hand was logged, in milliseconds since the recording began.
    logged: u32,
    /// Where a lane waited for the process of another: that one waits for what it did.
    waits: Vec<(u32, u64, u32)>,
    /// Where it was learned that a lane's process had ended.
    reaped: HashMap<u32, Moment>,
    /// What cannot be done; the first is told.
    failure: Option<CommandError>,
}

impl Planned {
    /// Goes through all lanes, parents before their children.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for what cannot be real.
    pub fn of(trace: &TraceReader, policies: &Policies) -> Result<Planned, CommandError> {
        let lanes = trace.lanes();
        let mut planner = Planner {
            policies,
            planned: Planned::default(),
            ids: 0,
            stream_numbers: HashMap::new(),
            touched: BTreeSet::new(),
            targets: HashMap::new(),
            lane: 0,
            event: 0,
            logged: 0,
            waits: Vec::new(),
            reaped: HashMap::new(),
            failure: None,
        };
        let mut begun: HashMap<u32, Descriptors> = HashMap::new();
        for (position, _) in in_tree_order(lanes) {
            let info = &lanes[position];
            let begins = begun.remove(&info.lane);
            let mut process = begins.unwrap_or_else(|| planner.first(trace.meta().cwd.clone()));
            planner.read_lane(trace, info, &mut process, &mut begun)?;
        }
        planner.order_lanes(lanes);
        planner.compare_mapped(trace)?;
        match planner.failure {
            Some(error) => Err(error),
            None => {
                planner.planned.touches = planner.touched.into_iter().collect();
                Ok(planner.planned)
            }
        }
    }
}

impl Planner<'_> {
    /// The first process: its standard input is ours, if that is real.
    fn first(&mut self, directory: PathBuf) -> Descriptors {
        let mut process = Descriptors::first(directory);
        let stdin = self.description(Thing::Stdin);
        match self.policies.input(StreamKind::Stdin, "") {
            InputPolicy::Recorded => {}
            policy @ (InputPolicy::Real | InputPolicy::From(_)) => {
                stdin.stream.set(self.stream("stdin".to_owned()));
                match policy {
                    InputPolicy::From(path) => self.replace(stdin.stream.get(), &path, "stdin"),
                    InputPolicy::Real | InputPolicy::Recorded => self.touch("reads stdin".to_owned()),
                }
                process.set_slot(&stdin, Way::In, 0);
            }
        }
        process.insert(0, stdin, false);
        process
    }

    fn read_lane(
        &mut self,
        trace: &TraceReader,
        info: &LaneInfo,
        process: &mut Descriptors,
        begun: &mut HashMap<u32, Descriptors>,
    ) -> Result<(), CommandError> {
        let mut events = LaneEvents::open(trace, info.lane)?;
        let mut whole = match self.policies.screens {
            Some(_) => WholeEvent::keeping(screens::ANSWER_BYTES_MAX),
            None => WholeEvent::default(),
        };
        let mut left: Vec<u64> = Vec::new();
        self.lane = info.lane;
        let mut last = Kind::Birth;
        while events.read(&mut whole)? {
            self.event = whole.index;
            self.logged = whole.logged.unwrap_or(self.logged);
            last = whole.kind;
            match whole.kind {
                // What an execve closes is closed with the next call.
                Kind::Birth => left.extend(process.execute()),
                Kind::Syscall if !whole.is_filtered() => {
                    self.close(std::mem::take(&mut left));
                    self.call(process, &whole);
                    let ended = calls::ended_child(&whole).and_then(|pid| process.children.get(&pid));
                    if let Some(&child) = ended {
                        self.waits.push((info.lane, whole.index, child));
                        self.reaped.insert(child, self.moment());
                    }
                    if let Some(child) = whole.child_lane() {
                        begun.insert(child, process.clone());
                        process.children.insert(whole.event().result() as i32, child);
                    }
                }
                _ => {}
            }
        }
        let is_logged = match info.end {
            Some(LaneEnd::Exited(_)) => true,
            Some(LaneEnd::Killed(_)) => matches!(last, Kind::Signal | Kind::Fault),
            Some(LaneEnd::Unknown | LaneEnd::Stopped(_)) | None => false,
        };
        self.screens_end(is_logged);
        Ok(())
    }

    fn description(&mut self, thing: Thing) -> Rc<Description> {
        Description::new(&mut self.ids, thing)
    }

    /// The number of a stream of this name.
    fn stream(&mut self, name: String) -> u64 {
        let streams = &mut self.planned.streams;
        *self.stream_numbers.entry(name.clone()).or_insert_with(|| {
            streams.push(name);
            streams.len() as u64 - 1
        })
    }

    fn touch(&mut self, what: String) {
        self.touched.insert(what);
    }

    /// An input comes from a file.
    fn replace(&mut self, stream: u64, from: &Path, name: &str) {
        self.touch(format!("reads {} as {name}", from.display()));
        self.planned.replaced.push(stream);
    }

    fn refuse(&mut self, why: String) {
        self.failure.get_or_insert(CommandError::Usage(why));
    }

    /// Adds an operation to the event at hand.
    fn add(&mut self, op: u64, stream: u64, rest: &[u64], text: Vec<u8>) {
        let mut words = [0; OP_WORDS];
        words[0] = op;
        words[1] = stream;
        words[2..2 + rest.len()].copy_from_slice(rest);
        let lane: &mut BTreeMap<u64, Vec<RealOp>> = self.planned.plan.entry(self.lane).or_default();
        lane.entry(self.event).or_default().push(RealOp { words, text });
    }

    fn close(&mut self, slots: Vec<u64>) {
        for slot in slots {
            self.add(real::CLOSE, 0, &[slot], Vec::new());
        }
    }

    /// The descriptor for what goes to another file than the program's: each stream has its own.
    fn target(&mut self, path: &Path, stream: u64) {
        match self.targets.get(path) {
            Some(other) if *other != stream => {
                let names = [*other, stream].map(|number| self.planned.streams[number as usize].clone());
                self.refuse(format!("{} and {} would both go to {}", names[0], names[1], path.display()));
            }
            Some(_) => {}
            None => {
                self.targets.insert(path.to_owned(), stream);
                if let Err(error) = opened(path) {
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Where a file goes that is checked.
    fn shadow(&mut self, path: &Path) -> Option<PathBuf> {
        if self.planned.shadow.is_none() {
            match PrivateFolder::on_disk() {
                Ok(folder) => self.planned.shadow = Some(folder),
                Err(error) => {
                    self.failure.get_or_insert(CommandError::Output(error));
                }
            }
        }
        let inside = path.strip_prefix("/").unwrap_or(path);
        let at = self.planned.shadow.as_ref()?.path().join(inside);
        if let Some(Err(error)) = at.parent().map(std::fs::create_dir_all) {
            self.failure.get_or_insert(CommandError::Output(error));
        }
        Some(at)
    }

    /// Who waited for a process goes on when that one has done all: replay makes nobody wait otherwise.
    fn order_lanes(&mut self, lanes: &[LaneInfo]) {
        // Children come first: what they wait for is theirs, too.
        for (position, _) in in_tree_order(lanes).into_iter().rev() {
            let lane = lanes[position].lane;
            let own: Vec<_> = self.waits.iter().filter(|(waiting, ..)| *waiting == lane).copied().collect();
            for (lane, event, child) in own {
                if self.planned.plan.contains_key(&child) && (child as usize) < lane_protocol::REAL_LANES {
                    (self.lane, self.event) = (lane, event);
                    self.add(real::AWAIT, 0, &[u64::from(child)], Vec::new());
                }
            }
            let last = self.planned.plan.get(&lane).and_then(|events| events.last_key_value());
            if let Some((event, _)) = last {
                (self.lane, self.event) = (lane, *event);
                self.add(real::DONE, 0, &[u64::from(lane)], Vec::new());
            }
        }
    }

    /// A mapped file that is real has to be what it was: its memory is that of the kept content.
    fn compare_mapped(&mut self, trace: &TraceReader) -> Result<(), CommandError> {
        for entry in trace.files() {
            let path = entry.file.original();
            let policy = self.policies.input(StreamKind::File, &path.to_string_lossy());
            if policy == InputPolicy::Real
                && self.stream_numbers.contains_key(&format!("file:{}", path.display()))
            {
                trace.compare_with_original(&entry.file)?;
            }
        }
        Ok(())
    }
}

/// A text with its end.
fn ended(path: &Path) -> Vec<u8> {
    let mut text = path.as_os_str().as_encoded_bytes().to_vec();
    text.push(0);
    text
}
