//! The passage through a recording, and what comes of it.

use std::path::PathBuf;
use std::sync::Arc;

use lane_protocol::NONE;
use lane_protocol::bytecode::{RecordHeader, part};
use replayer::{ReplayOptions, Sandbox};
use timeline::{Passage, Pausing, report_kind};
use trace_store::{Cut, TraceReader};

use crate::calls::{self, Pending, Returns};
use crate::error::PrintError;
use crate::parse::Named;
use crate::parts::Parts;
use crate::plan::{Plan, Planner, Purpose, Site, Wanted};
use crate::recorded;
use crate::shown::Shown;

/// What to print of which recording.
pub struct Request {
    pub trace_dir: PathBuf,
    /// Where recipes of kept files are cached, if anywhere.
    pub home: Option<PathBuf>,
    pub wanted: Wanted,
    pub condition: Option<Named>,
    /// Of these processes; empty: of all.
    pub pids: Vec<i32>,
    /// Count instructions, so that each row has its exact position.
    pub exactly: bool,
    pub sandbox: Sandbox,
}

/// One execution of the line, or one call.
pub struct Row {
    pub pid: i32,
    /// Index of the thread in its process.
    pub thread: u32,
    /// Events before it.
    pub event: u64,
    /// Which one it is since that event, the first being 1.
    pub ordinal: u64,
    /// Instructions since the event, if they were counted.
    pub steps: Option<u64>,
    /// What was asked for, or the arguments, with their names.
    pub values: Vec<(String, Shown)>,
    /// Of a call.
    pub result: Option<Shown>,
    pub(crate) site: Arc<Site>,
}

impl Row {
    /// The function that was called, as its language writes it.
    pub fn function(&self) -> Option<String> {
        let function = self.site.function.as_ref()?;
        self.site.file.name(function.id)
    }
}

/// What the user is told besides the rows.
#[derive(Debug, Default)]
pub struct Outcome {
    pub rows: u64,
    /// Why not all was shown that the recording has.
    pub worst: Option<Failing>,
    /// The trace is cut.
    pub cut: Option<Cut>,
    pub notes: Vec<String>,
}

/// Why the replay of a process did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failing {
    /// It did something else than the recording says.
    Diverged,
    /// It could not go on.
    Stuck,
}

/// Prints: gives each row to `each`, those of one process after the other.
///
/// # Errors
/// [`PrintError`]; the rows before it have been given.
pub fn print(
    request: &Request,
    each: &mut dyn FnMut(&Row) -> std::io::Result<()>,
) -> Result<Outcome, PrintError> {
    let trace = TraceReader::open(&request.trace_dir)?;
    trace.verify_files(request.home.as_deref())?;
    let mut planner = Planner::new(&trace, request.wanted.clone(), request.condition.clone())?;
    let known: Vec<i32> = trace.lanes().iter().map(|lane| lane.pid).collect();
    if let Some(unknown) = request.pids.iter().find(|pid| !known.contains(pid)) {
        return Err(PrintError::NoSuchProcess(*unknown));
    }
    let mut pids = Vec::new();
    for pid in known {
        if (request.pids.is_empty() || request.pids.contains(&pid)) && !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    let notes = std::mem::take(&mut planner.notes);
    let mut outcome = Outcome { rows: 0, worst: None, cut: trace.cut().copied(), notes };
    for pid in pids {
        let mut passing = Passing {
            planner: &mut planner,
            pid,
            exactly: request.exactly,
            seen: Vec::new(),
            counted: Vec::new(),
            returns: Returns::default(),
            pending: Pending::default(),
            calls: Vec::new(),
            learns: false,
            undecided: 0,
            outcome: &mut outcome,
            each: &mut *each,
        };
        match request.wanted {
            Wanted::Line { .. } if request.exactly => passing.pass_counting(request)?,
            Wanted::Line { .. } => passing.pass(request)?,
            Wanted::Calls { .. } => passing.pass_twice(request)?,
        }
    }
    Ok(outcome)
}

/// The way through one process.
struct Passing<'a> {
    planner: &'a mut Planner,
    pid: i32,
    exactly: bool,
    /// Events behind which there was a hit, in their order.
    seen: Vec<u64>,
    /// From which events to which instructions are counted.
    counted: Vec<(u64, u64)>,
    returns: Returns,
    pending: Pending,
    /// Calls, until their results are known.
    calls: Vec<Row>,
    /// The first passage: behind which events are hits, and where do calls return to?
    learns: bool,
    /// Hits whose condition could not be evaluated.
    undecided: u64,
    outcome: &'a mut Outcome,
    each: &'a mut dyn FnMut(&Row) -> std::io::Result<()>,
}

impl Passing<'_> {
    /// Instructions are counted only where there are hits: counting takes a hundred times as long.
    fn pass_counting(&mut self, request: &Request) -> Result<(), PrintError> {
        self.learn(request)?;
        if self.counted.is_empty() {
            self.tell_undecided();
            return Ok(());
        }
        self.undecided = 0;
        self.pass(request)
    }

    /// The first passage.
    fn learn(&mut self, request: &Request) -> Result<(), PrintError> {
        self.learns = true;
        self.pass(request)?;
        self.learns = false;
        if self.exactly {
            self.counted = parts_of(&self.seen);
        }
        Ok(())
    }

    fn pass_twice(&mut self, request: &Request) -> Result<(), PrintError> {
        self.learn(request)?;
        if self.returns.addresses.is_empty() {
            return Ok(());
        }
        self.undecided = 0;
        self.pending = Pending::default();
        self.returns.compile();
        self.pass(request)?;
        for row in &mut self.calls {
            row.result.get_or_insert_with(calls::unseen);
            (self.each)(row)?;
            self.outcome.rows += 1;
        }
        self.calls.clear();
        Ok(())
    }

    fn pass(&mut self, request: &Request) -> Result<(), PrintError> {
        let options = ReplayOptions {
            pid: Some(self.pid),
            rewriting_off: true,
            ..ReplayOptions::new(request.trace_dir.clone(), request.home.clone(), request.sandbox)
        };
        let mut passage = Passage::open(&options)?;
        let result = self.follow(&mut passage);
        passage.close();
        result
    }

    fn follow(&mut self, passage: &mut Passage) -> Result<(), PrintError> {
        let mut plan = self.planner.plan(passage.pid(), &self.returns)?;
        self.learn_types(&plan);
        loop {
            let pausing = passage.run(&plan.stops, &self.counted)?;
            self.take(&plan, &passage.records()?)?;
            match pausing {
                Pausing::Recorded => {}
                Pausing::NewCode => {
                    plan = self.planner.plan(passage.pid(), &self.returns)?;
                    self.learn_types(&plan);
                }
                Pausing::End { report, .. } => {
                    self.tell_end(report, passage);
                    return Ok(());
                }
            }
        }
    }

    fn learn_types(&mut self, plan: &Plan) {
        for purpose in &plan.purposes {
            if let Purpose::Site(site) = purpose {
                self.returns.include(site);
            }
        }
    }

    fn tell_undecided(&mut self) {
        if self.undecided != 0 {
            let (pid, count) = (self.pid, self.undecided);
            self.outcome.notes.push(format!(
                "process {pid}: {count} times the condition could not be evaluated; those are not shown"
            ));
        }
    }

    fn tell_end(&mut self, report: u32, passage: &Passage) {
        let pid = self.pid;
        if !self.learns {
            self.tell_undecided();
        }
        let event = passage.stop().event;
        let said = Some(passage.said()).filter(|said| !said.is_empty());
        let said = said.map_or(String::new(), |said| format!(" ({said})"));
        let failing = match report {
            report_kind::DIVERGENCE => Some(Failing::Diverged),
            report_kind::FAILED | report_kind::MISSING => Some(Failing::Stuck),
            _ => None,
        };
        self.outcome.worst = self.outcome.worst.max(failing);
        let how = match report {
            report_kind::DIVERGENCE => "diverges from the recording",
            report_kind::FAILED | report_kind::MISSING => "cannot go on",
            _ => return,
        };
        let note =
            format!("process {pid}: its replay {how} at event {event}{said}; what is shown ends there");
        // Two passages end alike.
        if !self.outcome.notes.contains(&note) {
            self.outcome.notes.push(note);
        }
    }

    /// Makes rows of records.
    fn take(&mut self, plan: &Plan, records: &[u8]) -> Result<(), PrintError> {
        let mut rest = records;
        while let Some((header, data, behind)) = split(rest) {
            rest = behind;
            let index = header.breakpoint as usize;
            let Some(purpose) = plan.purposes.get(index) else { continue };
            let word = data.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
            if word >> part::KIND_SHIFT == part::NO_CONDITION {
                self.undecided += 1;
                continue;
            }
            let mut parts = Parts::new(data);
            match purpose {
                Purpose::Site(site) => self.take_site(&header, site, &mut parts)?,
                Purpose::Exit => self.pending.leave(header.thread, &mut parts),
                Purpose::Return => {
                    let address = plan.stops.breakpoints[index];
                    self.pending.end(header.thread, address, &self.returns, &mut parts, &mut self.calls);
                }
            }
        }
        Ok(())
    }

    fn take_site(
        &mut self,
        header: &RecordHeader,
        site: &Arc<Site>,
        parts: &mut Parts,
    ) -> Result<(), PrintError> {
        let mut shapes = &site.shapes[..];
        let is_call = site.function.is_some();
        if is_call {
            let frame = calls::frame_of(parts);
            let goes_to = self.pending.begin(header.thread, &frame, self.calls.len(), site.leaves_at_once());
            if self.learns {
                self.returns.addresses.extend(goes_to);
            }
            shapes = &shapes[1..];
        }
        if self.learns {
            if self.seen.last() != Some(&header.event) {
                self.seen.push(header.event);
            }
            return Ok(());
        }
        let values = shapes
            .iter()
            .map(|(name, shape)| (name.clone(), recorded::read(site.image(), shape, parts)))
            .collect();
        let row = Row {
            pid: self.pid,
            thread: header.thread,
            event: header.event,
            ordinal: header.ordinal,
            steps: (header.steps != NONE).then_some(header.steps),
            values,
            result: None,
            site: Arc::clone(site),
        };
        if is_call {
            self.calls.push(row);
        } else {
            (self.each)(&row)?;
            self.outcome.rows += 1;
        }
        Ok(())
    }
}

/// Parts of the recording, from an event to another, in which all events behind which something was are; short gaps are in them.
fn parts_of(seen: &[u64]) -> Vec<(u64, u64)> {
    /// Stopping twice costs as much as to count so many events.
    const GAP_EVENTS: u64 = 4;
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for event in seen {
        match parts.last_mut() {
            Some((_, to)) if *event <= *to + GAP_EVENTS => *to = event + 1,
            _ => parts.push((*event, event + 1)),
        }
    }
    parts
}

/// The first record, and what is behind it.
fn split(records: &[u8]) -> Option<(RecordHeader, &[u8], &[u8])> {
    const HEADER_BYTES: usize = size_of::<RecordHeader>();
    let header = records.get(..HEADER_BYTES)?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let header = RecordHeader {
        bytes: word(0),
        breakpoint: word(4),
        event: long(8),
        ordinal: long(16),
        steps: long(24),
        thread: word(32),
        tid: word(36) as i32,
    };
    let length = header.bytes as usize;
    let data = records.get(HEADER_BYTES..length)?;
    Some((header, data, &records[length..]))
}

#[cfg(test)]
mod tests {
    use super::parts_of;

    #[test]
    fn parts_hold_all_events_and_no_long_gaps() {
        assert_eq!(parts_of(&[]), []);
        assert_eq!(parts_of(&[0, 1, 5, 20, 24, 40]), [(0, 6), (20, 25), (40, 41)]);
    }
}
