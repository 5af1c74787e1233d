//! `retrovane rm`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use trace_store::{StoreError, traces};

use crate::exit::CommandError;
use crate::settings::Settings;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane rm make-3 ls-0
  retrovane rm --all --yes

  retrovane rm ./bug                 a trace that was recorded with -o

Kept files that no other trace needs are removed with the last trace that does.";

/// Remove traces
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, visible_alias = "remove")]
pub struct RmArguments {
    /// Names or directories of the traces
    #[arg(required_unless_present = "all", value_name = "TRACE", conflicts_with = "all")]
    traces: Vec<String>,
    /// Every trace; needs --yes
    #[arg(long)]
    all: bool,
    /// Do not ask (for --all)
    #[arg(long)]
    yes: bool,
    /// One JSON object that says what was removed
    #[arg(long)]
    json: bool,
}

/// Removes.
pub fn run(arguments: &RmArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let home = settings.home()?;
    let names = if arguments.all {
        let all: Vec<String> = traces::list(&home)?.into_iter().map(|trace| trace.name).collect();
        if !arguments.yes {
            let message = format!("this would remove {} traces: say --all --yes if that is meant", all.len());
            return Err(CommandError::Usage(message));
        }
        all
    } else {
        arguments.traces.clone()
    };
    // One that cannot be removed does not keep the others.
    let (mut first_error, mut removed) = (None, Vec::new());
    for name in &names {
        let done = traces::remove(&home, name);
        match done {
            Ok(()) => removed.push(name),
            Err(error) if first_error.is_some() => diagnostics::tell!("retrovane: {error}"),
            Err(error) => first_error = Some(error),
        }
    }
    if removed.is_empty() && first_error.is_some() {
        return first_error.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()));
    }
    let pruned = traces::prune(&home);
    if arguments.json {
        let [files, bytes] = pruned.as_ref().map_or([0; 2], |pruned| [pruned.files, pruned.bytes]);
        let done = json!({"removed": removed, "kept_files": files, "kept_files_bytes": bytes});
        writeln!(std::io::stdout(), "{done}")?;
    }
    match pruned {
        Ok(pruned) if pruned.files > 0 && !settings.quiet => {
            diagnostics::tell!(
                "retrovane: {} kept files went too ({})",
                pruned.files,
                wording::bytes(pruned.bytes)
            );
        }
        Ok(_) => {}
        // Somebody records: the files go with the next trace that is removed.
        Err(StoreError::InUse { .. }) => {}
        Err(error) => first_error = first_error.or(Some(error)),
    }
    first_error.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}
