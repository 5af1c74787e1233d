//! `retrovane pack`.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use trace_store::{TraceReader, pack, traces};

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

/// Most bytes at the start of a pack that are searched for the trace's description.
const HEAD_BYTES: u64 = 1 << 20;

/// Unpacks a pack into the home directory, under the pack's name, and returns
/// the trace's directory. A pack that was unpacked before is not unpacked again.
pub fn unpack(file: &Path, settings: &Settings) -> Result<PathBuf, CommandError> {
    let home = settings.home()?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = home.join(&stem);
    if holds(file, &wanted) {
        return Ok(wanted);
    }
    let is_name = !stem.starts_with('.') && stem != "latest" && stem.chars().all(|char| !char.is_control());
    make_home(&home)?;
    let dir = if is_name && !wanted.exists() { wanted } else { traces::new_dir(&home, &stem)? };
    pack::unpack(file, &dir)?;
    if !settings.quiet {
        eprintln!("retrovane: unpacked into {}", dir.display());
    }
    Ok(dir)
}

/// Makes the home directory where it is missing, for nobody else to look into.
fn make_home(home: &Path) -> Result<(), CommandError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.map_err(|source| CommandError::Write { path: home.to_owned(), source })
}

/// True if the directory holds the trace that the pack holds: the description of
/// a trace tells its start to the nanosecond, and a pack begins with it.
fn holds(file: &Path, dir: &Path) -> bool {
    let head = || -> std::io::Result<(Vec<u8>, Vec<u8>)> {
        let description = std::fs::read(dir.join("trace.json"))?;
        let mut head = Vec::new();
        std::fs::File::open(file)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok((description, head))
    };
    let is_inside = |(description, head): (Vec<u8>, Vec<u8>)| {
        !description.is_empty() && head.windows(description.len()).any(|window| window == description)
    };
    head().is_ok_and(is_inside) && TraceReader::open(dir).is_ok_and(|trace| trace.cut().is_none())
}
