//! The table of what checkpoints cost, beside a plain fork of the same process.

use std::path::Path;
use std::process::Command;

/// Compiles the program, runs it in a live session, and lets it print its table.
pub fn measure(tool: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("checkpoints");
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-iquote"])
        .arg(here.join("../include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("micro/checkpoints.c"))
        .status()
        .map_err(|error| format!("cannot start gcc: {error}"))?;
    if !compiled.success() {
        return Err("micro/checkpoints.c does not compile".to_owned());
    }
    let status = Command::new(tool)
        .args(["live", "--home"])
        .arg(folder.path())
        .arg("--")
        .arg(&program)
        .current_dir(folder.path())
        .status()
        .map_err(|error| format!("cannot start {}: {error}", tool.display()))?;
    if status.success() { Ok(()) } else { Err(format!("the table of checkpoints: {status}")) }
}
