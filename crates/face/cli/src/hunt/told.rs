//! What is said of a try that failed: for people, and as an object.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use trace_store::{LaneEnd, TraceReader, traces};

use super::{Failure, Hunt};
use crate::exit::CommandError;
use crate::stack_at;
use crate::wording;

impl Hunt<'_> {
    pub(super) fn tell_caught(
        &self,
        number: u64,
        seed: u64,
        failure: Failure,
        dir: &Path,
    ) -> Result<(), CommandError> {
        let name = if self.output.is_none() {
            if let Err(error) = traces::set_latest(&self.home, dir) {
                diagnostics::tell!("retrovane: {error}");
            }
            dir.file_name().filter(|_| self.settings.has_usual_home())
        } else {
            None
        };
        let needs_place = self.arguments.json || !self.settings.quiet;
        let place = if needs_place { self.place_of_crash(dir) } else { None };
        if self.arguments.json {
            let caught = json!({
                "caught": true, "tries": number, "seed": seed, "hunt_seed": self.seed, "trace": dir,
                "failure": failure_text(failure), "place": place,
            });
            writeln!(std::io::stdout(), "{caught}")?;
        }
        let (number, tries) = (wording::count(number), wording::count(self.arguments.tries));
        self.say(&format!("caught in try {number} of {tries}: {}", failure_text(failure)));
        self.say(&format!("its seed is {seed}"));
        self.say(&format!("its trace is {}", wording::printable(dir.to_string_lossy().as_bytes())));
        let words = ["retrovane".into(), "replay".into(), name.unwrap_or(dir.as_os_str()).to_owned()];
        let at = if place.is_some() { " --at crash" } else { "" };
        self.say(&format!("replay it: {}{at}", wording::command(&words)));
        if let Some(place) = place {
            let how = if matches!(failure, Failure::Exited(_)) { "panicked" } else { "died" };
            self.say(&format!("it {how} in {}", wording::printable(place.as_bytes())));
        }
        Ok(())
    }

    /// Where a signal killed the program, or it panicked, with its callers, as far as sources are known; `None` if
    /// neither.
    fn place_of_crash(&self, dir: &Path) -> Option<String> {
        const CALLERS: usize = 2;
        let trace = TraceReader::open(dir).ok()?;
        // Another process of it may have been ended by its parent.
        let frames = match trace.summary()?.exit {
            LaneEnd::Killed(_) => stack_at::crash(&trace, None, self.settings).ok().flatten()?.2,
            LaneEnd::Exited(_) => stack_at::panic(&trace, None, self.settings).ok().flatten()?.1,
            LaneEnd::Unknown | LaneEnd::Stopped(_) => return None,
        };
        let mut known =
            frames.iter().enumerate().filter(|(level, frame)| *level == 0 || frame.source.is_some());
        let shown: Vec<String> =
            known.by_ref().take(1 + CALLERS).map(|(_, frame)| stack_at::frame_text(frame)).collect();
        (!shown.is_empty()).then(|| shown.join(", called by "))
    }
}

fn failure_text(failure: Failure) -> String {
    match failure {
        Failure::Exited(code) => format!("it ended with exit code {code}"),
        Failure::Killed(number) => format!("{} killed it", wording::signal(number)),
        Failure::Hung(limit) => {
            let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            format!("it ran for longer than {}, and was killed", wording::duration(limit))
        }
        Failure::Test => "the test of --until succeeded".to_owned(),
    }
}
