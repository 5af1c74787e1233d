//! What only reading all events tells.

use std::collections::BTreeMap;

use events::{DETECTED, Kind, REFUSED, Tag};
use syscall_model::{Act, by_name, row};
use trace_store::TraceReader;

use crate::births::Image;
use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::progress;
use crate::settings::Settings;
use crate::wording;

/// How often each call occurred.
pub type CallCounts = BTreeMap<String, u64>;

/// Facts of the whole trace.
#[derive(Debug, Default)]
pub struct Facts {
    /// In the order of the trace's lanes.
    pub lanes: Vec<LaneFacts>,
    pub refused: CallCounts,
    /// By seccomp filters of the program's own.
    pub filtered: CallCounts,
    pub detected: CallCounts,
}

/// Facts of one lane.
#[derive(Debug, Default)]
pub struct LaneFacts {
    pub pid: i32,
    /// The images that the process was, the last one last.
    pub images: Vec<Image>,
    /// Why recording stopped in this lane.
    pub stop: Option<String>,
}

impl Facts {
    /// Reads all events of a trace.
    pub fn gather(trace: &TraceReader, settings: &Settings) -> Result<Facts, CommandError> {
        let bar = progress::events(settings, "reading");
        let total = trace.totals().events;
        let (mut facts, mut done) = (Facts::default(), 0);
        let mut whole = WholeEvent::default();
        for info in trace.lanes() {
            let mut lane = LaneFacts { pid: info.pid, ..LaneFacts::default() };
            let mut events = LaneEvents::open(trace, info.lane)?;
            while events.read(&mut whole)? {
                facts.add(&whole, &mut lane);
                done += 1;
                if done % 65_536 == 0 {
                    progress::show(&bar, done, total);
                }
            }
            facts.lanes.push(lane);
        }
        bar.finish_and_clear();
        Ok(facts)
    }

    fn add(&mut self, whole: &WholeEvent, lane: &mut LaneFacts) {
        match whole.kind {
            Kind::Syscall => {
                if whole.is_filtered() {
                    *self.filtered.entry(call_name(whole)).or_default() += 1;
                    return;
                }
                if whole.has_flag(REFUSED) {
                    *self.refused.entry(call_name(whole)).or_default() += 1;
                }
                if whole.has_flag(DETECTED) {
                    *self.detected.entry(call_name(whole)).or_default() += 1;
                }
            }
            Kind::Birth => lane.images.extend(Image::of(whole)),
            Kind::Stop => lane.stop = Some(stop_text(whole)),
            Kind::Data
            | Kind::Signal
            | Kind::Fault
            | Kind::Instruction
            | Kind::Trampoline
            | Kind::Exit
            | Kind::Checksum
            | Kind::Preemption
            | Kind::Token
            | Kind::Store
            | Kind::Change
            | Kind::Edit => {}
        }
    }

    /// Where and why recording stopped before processes ended.
    pub fn stops(&self) -> impl Iterator<Item = String> {
        self.lanes.iter().filter_map(|lane| Some(format!("process {}: {}", lane.pid, lane.stop.as_ref()?)))
    }
}

/// The text that a stop gives, or its reason's own.
pub fn stop_text(whole: &WholeEvent) -> String {
    let given =
        whole.blob(Tag::Text).map(|blob| wording::printable(blob.data)).filter(|text| !text.is_empty());
    given.unwrap_or_else(|| wording::stop_reason(whole.code).to_owned())
}

/// Name of the call, with the request where that selects what it does.
fn call_name(whole: &WholeEvent) -> String {
    let event = whole.event();
    let Some(row) = row(u64::from(whole.code)) else { return format!("syscall_{}", whole.code) };
    let Act::Variant(table) = row.act else { return row.name.to_owned() };
    let request = event.arg(usize::from(table.selector));
    match table.find(request) {
        Some(variant) => format!("{} {}", row.name, variant.name),
        None => format!("{} {:#x}", row.name, request & u64::from(table.mask)),
    }
}

/// Why the model refuses a call of this name.
pub fn refusal_reason(name: &str) -> Option<&'static str> {
    let (call, request) = name.split_once(' ').unwrap_or((name, ""));
    match by_name(call)?.act {
        Act::Reject(reason) => Some(reason),
        Act::Variant(table) => {
            table.variants.iter().find(|variant| variant.name == request).and_then(|variant| {
                match variant.act {
                    Act::Reject(reason) => Some(reason),
                    Act::Inject | Act::Execute(_) | Act::Variant(_) | Act::PageDiff | Act::Options(_) => None,
                }
            })
        }
        Act::Inject | Act::Execute(_) | Act::PageDiff | Act::Options(_) => None,
    }
}
