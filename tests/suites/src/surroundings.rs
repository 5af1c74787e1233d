//! What the scripts of a table find around them: the tool, the sources of
//! workloads, and values that are filled in for `{name}`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::scratch::Scratch;
use crate::tool::Tool;

/// Shared by all trials of a suite; its directory lasts as long as it does.
pub struct Surroundings {
    pub tool: Tool,
    values: Vec<(&'static str, String)>,
    _scratch: Scratch,
}

impl Surroundings {
    /// The tool and the sources of tests/workloads, where every user can reach them.
    pub fn new() -> Result<Surroundings, String> {
        let scratch = Scratch::new("tool")?;
        let tool = Tool::find().reachable_copy(scratch.path())?;
        let workloads = scratch.fresh_directory("workloads")?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
        let entries =
            fs::read_dir(&sources).map_err(|error| format!("cannot read {}: {error}", sources.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            fs::copy(entry.path(), workloads.join(entry.file_name())).map_err(|error| error.to_string())?;
        }
        let values = vec![("{workloads}", workloads.to_string_lossy().into_owned())];
        Ok(Surroundings { tool, values, _scratch: scratch })
    }

    /// From now on scripts find this value for this name, which includes the braces.
    pub fn set(&mut self, name: &'static str, value: String) {
        self.values.push((name, value));
    }

    /// The script with its values, those of one trial too.
    pub fn fill(&self, script: &str, own: &[(&'static str, String)]) -> String {
        let fill = |script: String, (name, value): &(&str, String)| script.replace(name, value);
        own.iter().chain(&self.values).fold(script.to_owned(), fill)
    }

    /// Compiles what a trial needs, once, and returns the value of `{built}`.
    pub fn build(&self, script: &str, scratch: &Scratch) -> Result<(&'static str, String), String> {
        let directory = scratch.fresh_directory("built")?;
        let value = ("{built}", directory.to_string_lossy().into_owned());
        if !script.is_empty() {
            prepare(&self.fill(script, std::slice::from_ref(&value)), &directory)?;
        }
        Ok(value)
    }
}

/// Runs a script in a directory, and makes the files that it wrote (as root,
/// perhaps) usable for whoever runs the program.
pub fn prepare(script: &str, directory: &Path) -> Result<(), String> {
    let script = format!("set -e\nPATH=$PATH:{}\n{script}\nchmod -R a+rwX .", crate::tool::search_path());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(directory)
        .output()
        .map_err(|error| format!("cannot start bash: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("a preparation failed ({}): {stderr}", output.status))
    }
}
