//! Packs, unpacked into the directory of traces.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use trace_store::{TraceReader, pack, traces};

use crate::exit::CommandError;

/// Most bytes at the start of a pack that are searched for the trace's description.
const HEAD_BYTES: u64 = 1 << 20;

/// Unpacks a pack into the home directory, under the pack's name, and returns
/// the trace's directory. A pack that was unpacked before is not unpacked again.
pub fn unpack(file: &Path, home: &Path, is_quiet: bool) -> Result<PathBuf, CommandError> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = home.join(&stem);
    if holds(file, &wanted) {
        return Ok(wanted);
    }
    make_home(home)?;
    let dir =
        if traces::can_be_named(&stem) && !wanted.exists() { wanted } else { traces::new_dir(home, &stem)? };
    pack::unpack(file, &dir)?;
    if !is_quiet {
        diagnostics::tell!("retrovane: unpacked into {}", dir.display());
    }
    Ok(dir)
}

/// Makes the home directory where it is missing, for nobody else to look into.
fn make_home(home: &Path) -> Result<(), CommandError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.map_err(|source| CommandError::Write { path: home.to_owned(), source })
}

/// True if the directory holds, whole, the trace that the pack holds.
fn holds(file: &Path, dir: &Path) -> bool {
    is_pack_of(file, dir) && TraceReader::open(dir).is_ok_and(|trace| trace.cut().is_none())
}

/// True if the pack is of the trace in this directory: the description of a trace
/// tells its start to the nanosecond, and a pack begins with it.
pub fn is_pack_of(file: &Path, dir: &Path) -> bool {
    let head = || -> std::io::Result<(Vec<u8>, Vec<u8>)> {
        let description = std::fs::read(dir.join("trace.json"))?;
        let mut head = Vec::new();
        std::fs::File::open(file)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok((description, head))
    };
    let is_inside = |(description, head): (Vec<u8>, Vec<u8>)| {
        !description.is_empty() && head.windows(description.len()).any(|window| window == description)
    };
    head().is_ok_and(is_inside)
}
