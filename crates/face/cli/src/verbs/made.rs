//! Verbs that make something beside a trace: a page of it, and recordings of its program run again.
//!
//! Invariant: what was there stays as it was. A page has a name that was free; a program is run again only where
//! whoever started us permitted it, as `retry` runs it: in a sandbox, in the recorded world.
//!
//! Deliberately absent: other commands than the recorded one, and a hunt outside of the sandbox.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trace_store::{TraceReader, traces};

use super::cursor::Limit;
use super::log::refused;
use super::whole::run_ending;
use super::{Arguments, VerbError, is_true, number};
use crate::exit;
use crate::seeds;
use crate::settings::Settings;

const TRIES: u64 = 100;
const TRIES_MAX: u64 = 10_000;
/// Pages of one trace that are written beside it.
const PAGES_MAX: u32 = 1000;

/// The answer to one of these verbs.
pub fn answer(
    verb: &str,
    trace: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    settings: &Settings,
    may_hunt: bool,
) -> Result<Value, VerbError> {
    match verb {
        "report" => report(trace, arguments, limit),
        "hunt" if may_hunt => hunt(trace, arguments, limit, settings),
        "hunt" => Err(VerbError::Refused(
            "`hunt` runs the recorded program again, which was not permitted: `--allow-hunt` does".to_owned(),
        )),
        other => Err(VerbError::Refused(format!("{other} makes nothing"))),
    }
}

fn as_text(path: &Path) -> Result<&str, VerbError> {
    path.to_str()
        .ok_or_else(|| VerbError::Refused("the trace's directory has a name that is no text".to_owned()))
}

/// Writes a page, and says where.
fn report(trace: &Path, arguments: &Arguments, limit: &Limit<'_>) -> Result<Value, VerbError> {
    let trace = std::fs::canonicalize(trace)
        .map_err(|source| VerbError::Try { doing: "find the trace's directory", source })?;
    let page = free_page(&trace)?;
    // What stands behind `--` would be a command of the user's.
    let mut words = vec!["report", "--json", as_text(&trace)?, "-o", as_text(&page)?];
    if is_true(arguments, "redact") {
        words.push("--redact");
    }
    if !is_true(arguments, "pack") {
        words.push("--no-pack");
    }
    let mut answer = Value::Null;
    let written = run_ending(&words, &[], &[], limit, &mut |line| {
        answer = line;
        true
    });
    written.inspect_err(|_| {
        // What was begun is of no use.
        let _ = std::fs::remove_file(&page);
        let _ = std::fs::remove_file(page.with_extension("rvpack"));
    })?;
    for (name, bytes) in [("page", "page_bytes"), ("pack", "pack_bytes")] {
        if let Some(found) = answer[name].as_str().and_then(|path| std::fs::metadata(path).ok()) {
            answer[bytes] = Value::from(found.len());
        }
    }
    Ok(answer)
}

/// The name of a page beside a trace that nothing has, nor a pack of that name.
fn free_page(trace: &Path) -> Result<PathBuf, VerbError> {
    let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1..=PAGES_MAX).map(|number| match number {
        1 => trace.with_file_name(format!("{name}-report.html")),
        _ => trace.with_file_name(format!("{name}-report-{number}.html")),
    });
    let is_free = |page: &PathBuf| {
        [page.clone(), page.with_extension("rvpack")].iter().all(|path| path.symlink_metadata().is_err())
    };
    names.into_iter().find(is_free).ok_or_else(|| {
        VerbError::Refused(format!("{PAGES_MAX} pages of this trace are beside it: remove some"))
    })
}

/// Runs the recorded program again until it fails, and keeps that recording.
fn hunt(
    trace: &Path,
    arguments: &Arguments,
    limit: &Limit<'_>,
    settings: &Settings,
) -> Result<Value, VerbError> {
    let tries = number(arguments, "tries", TRIES_MAX)?.unwrap_or(TRIES).max(1);
    let seed = number(arguments, "seed", u64::from(u32::MAX))?.unwrap_or_else(|| seeds::random() >> 32);
    let reader = TraceReader::open(trace).map_err(|error| refused(error.into()))?;
    // Its program is somebody else's, who may want to read what is here.
    if reader.came_in_pack() {
        let why = "this trace came in a pack: `hunt` runs programs of recordings that were made here only";
        return Err(VerbError::Refused(why.to_owned()));
    }
    let command = reader.meta().command.clone();
    let program = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let home = settings.home_to_write().map_err(refused)?;
    for number in 1..=tries {
        let dir = traces::new_dir(&home, &program).map_err(|error| refused(error.into()))?;
        let ended = try_once(trace, &home, &dir, seeds::of_try(seed, number), limit);
        let failed = ended.as_ref().is_ok_and(|about| about["failure"] != "gone");
        if !failed {
            forget(&home, &dir);
        }
        let about = ended?;
        if failed {
            return Ok(json!({
                "caught": true, "tries": number, "hunt_seed": seed, "trace": dir, "failure": about["end"],
                "as_recorded": about["failure"] == "the same",
            }));
        }
    }
    Ok(json!({"caught": false, "tries": tries, "hunt_seed": seed}))
}

/// What `retry` says of one run.
fn try_once(trace: &Path, home: &Path, dir: &Path, seed: u64, limit: &Limit<'_>) -> Result<Value, VerbError> {
    let seed = seed.to_string();
    let words =
        ["retry", "--json", "--quiet", "--home", as_text(home)?, "--seed", &seed, "-o", as_text(dir)?];
    let mut about = Value::Null;
    let codes = [exit::NOT_CAUGHT, exit::ANOTHER_FAILURE].map(i32::from);
    run_ending(&words, &[trace.as_os_str()], &codes, limit, &mut |line| {
        about = line;
        true
    })?;
    match about["failure"].is_string() {
        true => Ok(about),
        false => Err(VerbError::Refused("the program could not be run again".to_owned())),
    }
}

/// Removes what a try left.
fn forget(home: &Path, dir: &Path) {
    if traces::discard(dir).is_err() {
        let _ = std::fs::remove_dir(dir);
    }
    // While somebody records, kept files stay until the next one is removed.
    let _ = traces::prune(home);
}
