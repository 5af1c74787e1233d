//! The recorded processes of a trace, each opened when its stack is wanted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use trace_store::TraceReader;

use crate::exit::CommandError;
use crate::settings::Settings;
use crate::stack_at::Past;

pub struct Pasts<'a> {
    trace: &'a TraceReader,
    settings: &'a Settings,
    opened: HashMap<u32, Past>,
}

impl<'a> Pasts<'a> {
    pub fn new(trace: &'a TraceReader, settings: &'a Settings) -> Pasts<'a> {
        Pasts { trace, settings, opened: HashMap::new() }
    }

    /// The process of this lane.
    pub fn of(&mut self, lane: u32) -> Result<&mut Past, CommandError> {
        match self.opened.entry(lane) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let info = self.trace.lanes().iter().find(|info| info.lane == lane);
                let pid = info.map_or(0, |info| info.pid);
                Ok(place.insert(Past::open(self.trace, pid, self.settings)?))
            }
        }
    }
}
