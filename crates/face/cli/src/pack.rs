//! `retrovane pack`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use trace_store::{StoreError, pack, traces};

use crate::exit::CommandError;
use crate::progress;
use crate::settings::Settings;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane pack make-3 -o make.rvpack       for another machine, or for a bug report
  retrovane replay make.rvpack               there

A pack holds all that the program read, secrets included.";

/// Make one file of a trace, whole in itself, for another machine
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PackArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// The file to write; replaced if it exists
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Packs.
pub fn run(arguments: &PackArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let dir = settings.trace_dir(arguments.trace.as_deref())?;
    let bar = progress::bytes(settings, "packing");
    let packed = pack::pack(&dir, &arguments.output, &mut |done, total| progress::show(&bar, done, total));
    bar.finish_and_clear();
    packed?;
    if !settings.quiet {
        let bytes = std::fs::metadata(&arguments.output).map_or(0, |found| found.len());
        eprintln!("retrovane: packed into {} ({})", arguments.output.display(), wording::bytes(bytes));
    }
    Ok(ExitCode::SUCCESS)
}

/// Unpacks a pack into the home directory, under the pack's name, and returns
/// the trace's directory. A pack that was unpacked before is not unpacked again.
pub fn unpack(file: &Path, settings: &Settings) -> Result<PathBuf, CommandError> {
    let home = settings.home()?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(dir) = unpacked_before(file, &home.join(&stem)) {
        return Ok(dir);
    }
    let wanted = home.join(&stem);
    let dir = match std::fs::create_dir_all(&home).and_then(|()| std::fs::create_dir(&wanted)) {
        Ok(()) => wanted,
        Err(_) => traces::new_dir(&home, &stem)?,
    };
    pack::unpack(file, &dir).inspect_err(|_| {
        // What is left of it is empty: the store removes what it wrote.
        let _ = std::fs::remove_dir(&dir);
    })?;
    if !settings.quiet {
        eprintln!("retrovane: unpacked into {}", dir.display());
    }
    Ok(dir)
}

/// The trace that this pack was unpacked into before, if it is there still.
fn unpacked_before(file: &Path, dir: &Path) -> Option<PathBuf> {
    let same = || -> Result<bool, StoreError> {
        Ok(trace_store::TraceReader::open(dir)?.cut().is_none() && pack::is_pack_of(file, dir)?)
    };
    matches!(same(), Ok(true)).then(|| dir.to_owned())
}
