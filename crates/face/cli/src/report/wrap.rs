//! `retrovane report --wrap`: a command of which each failing process leaves a page.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use trace_store::{LaneEnd, LaneInfo, TraceReader, pack, traces};

use super::{Written, write_page};
use crate::exit::{self, CommandError};
use crate::settings::Settings;

/// Signals that tell of a fault of the program: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
/// Most pages of one run.
const PAGES_MAX: usize = 50;
const PACK_NAME: &str = "trace.rvpack";

/// Records the command, writes a page into `dir` for each process that failed, and ends as the command.
pub fn run(command: &[OsString], dir: &Path, settings: &Settings) -> Result<ExitCode, CommandError> {
    let doing = |doing| move |source| CommandError::Try { doing, source };
    if command.is_empty() {
        return Err(CommandError::Usage("report --wrap: a command is wanted behind `--`".to_owned()));
    }
    // What could not be written is said before the command runs, not after it.
    std::fs::create_dir_all(dir).map_err(|source| CommandError::Write { path: dir.to_owned(), source })?;
    let home = settings.home_to_write()?;
    let trace_dir = traces::new_dir(&home, &command[0].to_string_lossy())?;
    let own = std::env::current_exe().map_err(doing("find retrovane itself"))?;
    let mut recorder = Command::new(own);
    recorder.env("RETROVANE_HOME", &home).args(["--quiet", "record", "-o"]).arg(&trace_dir).arg("--");
    let status = recorder.args(command).status().map_err(doing("record the command"))?;
    let written = match TraceReader::open(&trace_dir) {
        Ok(trace) => pages(&trace, dir, settings)?,
        // It could not be recorded, which the recorder has said; the command may have run all the same.
        Err(_) => Vec::new(),
    };
    if written.is_empty() {
        let _ = std::fs::remove_dir_all(&trace_dir);
    }
    tell(&written, dir, &trace_dir);
    if let Some(signal) = status.signal() {
        injector::die_by_signal(signal);
    }
    Ok(ExitCode::from(status.code().unwrap_or(i32::from(exit::FAILED)) as u8))
}

fn tell(written: &[PathBuf], dir: &Path, trace_dir: &Path) {
    match written {
        [] => diagnostics::tell!("retrovane: no process failed: no report, and no trace"),
        pages => {
            for page in pages {
                diagnostics::tell!("retrovane: {}", page.display());
            }
            diagnostics::tell!(
                "retrovane: {} of processes that failed, with {} (the trace is {})",
                if pages.len() == 1 { "a report" } else { "reports" },
                dir.join(PACK_NAME).display(),
                trace_dir.display()
            );
        }
    }
}

fn pages(trace: &TraceReader, dir: &Path, settings: &Settings) -> Result<Vec<PathBuf>, CommandError> {
    let failed = failed(trace.lanes());
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let pack_path = dir.join(PACK_NAME);
    pack::pack(trace.dir(), &pack_path, &mut |_, _| {})?;
    let mut written = Vec::new();
    for info in failed.into_iter().take(PAGES_MAX) {
        let output = dir.join(format!("process-{}.html", info.pid));
        write_page(
            trace,
            settings,
            &Written { output: &output, pack: Some(&pack_path), pid: Some(info.pid), is_redacted: false },
        )?;
        written.push(output);
    }
    Ok(written)
}

/// The processes that failed by themselves: by a fault, or with an exit code that all of their ancestors
/// took for a failure, too. Not those that only pass the failure of a child on.
fn failed(lanes: &[LaneInfo]) -> Vec<&LaneInfo> {
    let by_lane: HashMap<u32, &LaneInfo> = lanes.iter().map(|info| (info.lane, info)).collect();
    let is_failure = |info: &LaneInfo| match info.end {
        Some(LaneEnd::Exited(code)) => code != 0,
        Some(LaneEnd::Killed(_)) => true,
        Some(LaneEnd::Unknown | LaneEnd::Stopped(_)) | None => false,
    };
    let ancestors = |info: &LaneInfo| {
        std::iter::successors(by_lane.get(&info.parent).copied(), |above| by_lane.get(&above.parent).copied())
            .collect::<Vec<_>>()
    };
    let is_own = |info: &&LaneInfo| match info.end {
        Some(LaneEnd::Killed(signal)) => FAULTS.contains(&signal),
        _ => is_failure(info) && ancestors(info).into_iter().all(is_failure),
    };
    let own: Vec<&LaneInfo> = lanes.iter().filter(is_own).collect();
    let passes_on = |info: &LaneInfo| {
        own.iter().any(|other| ancestors(other).iter().any(|above| above.lane == info.lane))
    };
    own.iter().copied().filter(|info| !passes_on(info)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(lane: u32, parent: u32, end: LaneEnd) -> LaneInfo {
        let pid = lane as i32 + 100;
        LaneInfo { lane, parent, pid, events: 1, chunks: 1, raw_bytes: 1, stored_bytes: 1, end: Some(end) }
    }

    #[test]
    fn processes_are_reported_that_failed_by_themselves() {
        let top = trace_store::NO_PARENT;
        let lanes = [
            lane(0, top, LaneEnd::Exited(2)),
            // A condition of a shell that went on.
            lane(1, 0, LaneEnd::Exited(0)),
            lane(2, 1, LaneEnd::Exited(1)),
            // A test that failed, under a shell that says so.
            lane(3, 0, LaneEnd::Exited(1)),
            lane(4, 3, LaneEnd::Exited(1)),
            // A crash whose parent did not mind, and one that was told to end.
            lane(5, 1, LaneEnd::Killed(11)),
            lane(6, 1, LaneEnd::Killed(15)),
        ];
        let found: Vec<u32> = failed(&lanes).iter().map(|info| info.lane).collect();
        assert_eq!(found, [4, 5]);
    }
}
