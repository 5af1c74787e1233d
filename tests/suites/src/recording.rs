//! Programs of a suite's own that are recorded, and what commands say of their traces.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use crate::{Outcome, RUN_TIME_MAX, Scratch, TestResult, Tool, User, in_workspace, make_file, run};

/// A folder in which a program is recorded, and where its traces are.
pub struct Recording {
    pub scratch: Scratch,
    folder: &'static str,
    tool: Arc<Tool>,
}

impl Recording {
    /// With the program, a C file of a folder of `tests`.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn new(
        tool: &Arc<Tool>,
        folder: &'static str,
        label: &str,
        program: &str,
    ) -> Result<Recording, String> {
        let recording = Recording::empty(tool, folder, label)?;
        recording.build(program, "-DAS_IT_WAS", program)?;
        Ok(recording)
    }

    /// Without any program.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn empty(tool: &Arc<Tool>, folder: &'static str, label: &str) -> Result<Recording, String> {
        Ok(Recording { scratch: Scratch::new(label)?, folder, tool: Arc::clone(tool) })
    }

    /// Another build of the program.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(&self, program: &str, definition: &str, output: &str) -> Result<(), String> {
        let mut compiler = Command::new("gcc");
        compiler.args(["-Wall", "-Werror", "-g", "-O1", "-pthread", definition]);
        compiler
            .arg(in_workspace(&format!("tests/{}/{program}.c", self.folder)))
            .arg("-o")
            .arg(self.path(output));
        make_file(compiler)
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Writes a file of the folder.
    ///
    /// # Errors
    /// That of the file.
    pub fn write(&self, name: &str, content: &str) -> Result<(), String> {
        std::fs::write(self.path(name), content).map_err(|error| format!("cannot write {name}: {error}"))
    }

    /// Reads a file of the folder.
    ///
    /// # Errors
    /// That of the file.
    pub fn read(&self, name: &str) -> Result<String, String> {
        std::fs::read_to_string(self.path(name)).map_err(|error| format!("cannot read {name}: {error}"))
    }

    /// Runs the tool in the folder.
    ///
    /// # Errors
    /// Why it did not run.
    pub fn tool(&self, words: &[&str], stdin: Option<&str>) -> Result<Outcome, String> {
        match stdin.map(|name| format!("exec \"$@\" <{name}")) {
            Some(script) => self.tool_behind(&["sh", "-c", &script, "sh"], words),
            None => self.tool_behind(&[], words),
        }
    }

    /// Runs the tool by a launcher's words, which are before its own.
    ///
    /// # Errors
    /// As [`Recording::tool`].
    pub fn tool_behind(&self, launcher: &[&str], words: &[&str]) -> Result<Outcome, String> {
        let to_os = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
        let (launcher, words) = (to_os(launcher), to_os(words));
        let mut command = self.tool.command_behind(&launcher, User::Current, self.scratch.path(), &words);
        command.current_dir(self.scratch.path());
        run(command, RUN_TIME_MAX)
    }
}

/// Checks an exit code, and that the output contains a text.
///
/// # Errors
/// What differs.
pub fn check(outcome: &Outcome, code: i32, says: &str) -> TestResult {
    let text = outcome.stdout_text() + &outcome.stderr_text();
    if outcome.code == code && text.contains(says) {
        return Ok(());
    }
    Err(format!("exit code {} instead of {code}, or no \"{says}\" in:\n{text}", outcome.code))
}
