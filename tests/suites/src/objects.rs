//! Objects of guests. What is linked dynamically and statically is compiled once (gcc compiles both alike), and so is what
//! several suites run; they lie in the target folder, by a hash of all that they are made of.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::guest::{in_workspace, make_file};
use crate::scratch::Scratch;
use crate::tool::target_directory;

/// Below the target folder.
const FOLDER: &str = "guests";
/// Where headers are looked for, besides the source's own folder.
const INCLUDED: [&str; 3] = ["include", "tests/guests", "tests/live"];
/// Folders with headers that guests may include.
const HEADERS: [&str; 6] =
    ["include", "tests/guests", "tests/live", "tests/attach", "tests/window", "tests/recover"];

/// A hash of the compiler, the C library's headers and ours.
static SURROUNDINGS: LazyLock<Result<u64, String>> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    let version = Command::new("gcc").arg("--version").output();
    version.map_err(|error| format!("cannot start gcc: {error}"))?.stdout.hash(&mut hasher);
    // Without the C library's headers the compiler says so.
    fs::metadata("/usr/include/features.h").and_then(|features| features.modified()).ok().hash(&mut hasher);
    for folder in HEADERS.map(in_workspace) {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let mut headers: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "h")).collect();
        headers.sort();
        for header in headers {
            let text = fs::read(&header).map_err(|error| format!("{}: {error}", header.display()))?;
            (header, text).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
});

/// The object of a source, compiled with these words unless it is there; a warning is an error.
pub(crate) fn compiled(source: &Path, optimisation: &str, words: &[String]) -> Result<PathBuf, String> {
    let text = fs::read(source).map_err(|error| format!("cannot read {}: {error}", source.display()))?;
    let mut hasher = DefaultHasher::new();
    (SURROUNDINGS.clone()?, source, text, optimisation, words).hash(&mut hasher);
    let folder = target_directory().join(FOLDER);
    let named = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let kind = named(source.parent().and_then(Path::file_name));
    let own = format!("{kind}-{}{optimisation}-", named(source.file_name()));
    let object = folder.join(format!("{own}{:016x}.o", hasher.finish()));
    if object.exists() {
        return Ok(object);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let scratch = Scratch::new("object")?;
    let made = scratch.join("object.o");
    let mut command = Command::new("gcc");
    command.args(["-Wall", "-Werror", "-g", optimisation, "-c"]);
    for folder in INCLUDED {
        command.arg("-iquote").arg(in_workspace(folder));
    }
    command.arg("-o").arg(&made).arg(source).args(words);
    make_file(command)?;
    // Of this name nobody else makes one.
    let new = folder.join(named(scratch.path().file_name()));
    put(&made, &new, &own, &object).map_err(|error| format!("cannot make {}: {error}", object.display()))?;
    Ok(object)
}

/// Puts it there as a whole, as others may look at the same time, in place of those of an earlier text.
fn put(made: &Path, new: &Path, own: &str, object: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(object.parent().unwrap_or(object))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(own) && entry.path() != object {
            // Another suite may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
    fs::copy(made, new)?;
    fs::rename(new, object)
}
