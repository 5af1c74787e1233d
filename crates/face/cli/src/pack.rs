//! `retrovane pack`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use trace_store::{TraceReader, pack};

use crate::exit::{self, CommandError};
use crate::progress;
use crate::redact::{Masked, RedactArguments};
use crate::settings::Settings;
use crate::sources;
use crate::unpacked::is_pack_of;
use crate::wording;

const EXAMPLES: &str = "\
Examples:
  retrovane pack make-3                      for another machine, or for a bug report
  retrovane replay make-3.rvpack             there
  retrovane pack -o /tmp/bug.rvpack          the latest, under another name
  retrovane pack --sources                   with the sources, so that who has none sees lines
  retrovane pack --redact                    for strangers
  retrovane pack --redact --mask stdin --mask 'file:/srv/**' --leave 'tcp:*:5432'

A pack holds all that the program read, secrets included.

--redact masks in it the values of variables of the environment with telling names (KEY, TOKEN, SECRET, PASS,
CREDENTIAL, AUTH, COOKIE, PRIVATE), wherever they are and however they are encoded, and all bytes of connections. Lengths and ends of lines stay. The
masked trace is replayed, and the memory of each process searched for the values at its end; where one is
left nothing is written. It says what was masked, and how far the masked trace replays.";

/// Make one file of a trace, whole in itself, for another machine
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PackArguments {
    /// Name or directory of the trace [default: the latest]
    trace: Option<String>,
    /// The file to write, replaced if it exists [default: NAME.rvpack here; its path is printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the sources that the debug information names, as far as they are here
    #[arg(long)]
    sources: bool,
    /// Mask what may be secret, and say what
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    masking: RedactArguments,
    /// One JSON object that names what was written
    #[arg(long)]
    json: bool,
}

/// Packs.
pub fn run(arguments: &PackArguments, settings: &Settings) -> Result<ExitCode, CommandError> {
    let dir = settings.trace_dir(arguments.trace.as_deref())?;
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => default_output(&dir)?,
    };
    let masked = match arguments.redact {
        true => Some(arguments.masking.masked(&TraceReader::open(&dir)?, settings)?),
        false => None,
    };
    let packed_dir = masked.as_ref().map_or_else(|| dir.clone(), Masked::dir);
    let bar = progress::bytes(settings, "packing");
    let mut sources = if arguments.sources { sources::named(&TraceReader::open(&dir)?) } else { Vec::new() };
    if let Some(masked) = &masked {
        sources.retain(|source| masked.is_clean(&source.content));
    }
    let packed = pack::pack_with_sources(&packed_dir, &output, &sources, &mut |done, total| {
        progress::show(&bar, done, total)
    });
    bar.finish_and_clear();
    let count = packed?;
    for line in masked.iter().flat_map(Masked::lines) {
        diagnostics::tell!("retrovane: {line}");
    }
    let bytes = std::fs::metadata(&output).map_or(0, |found| found.len());
    if arguments.json {
        let masked = masked.as_ref().map(Masked::json);
        let written = json!({"pack": output, "bytes": bytes, "sources": count, "masked": masked});
        writeln!(std::io::stdout(), "{written}")?;
    }
    if !settings.quiet {
        let with = if arguments.sources { format!(", with {count} sources") } else { String::new() };
        diagnostics::tell!("retrovane: packed {} ({}{with})", dir.display(), wording::bytes(bytes));
    }
    if arguments.output.is_none() && !arguments.json {
        writeln!(std::io::stdout(), "{}", output.display())?;
    }
    Ok(exit::of_shown(TraceReader::open(&dir)?.cut()))
}

/// `NAME.rvpack` in the current directory. Nobody named this file: one that is
/// there is replaced only if it is a pack of the same trace.
fn default_output(dir: &Path) -> Result<PathBuf, CommandError> {
    let whole = std::fs::canonicalize(dir);
    let whole = whole.map_err(|source| CommandError::Read { path: dir.to_owned(), source })?;
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push(".rvpack");
    let output = PathBuf::from(name);
    if output.symlink_metadata().is_ok() && !is_pack_of(&output, &whole) {
        let shown = output.display();
        return Err(CommandError::Usage(format!(
            "{shown} is there and holds something else: name a file with -o"
        )));
    }
    Ok(output)
}
