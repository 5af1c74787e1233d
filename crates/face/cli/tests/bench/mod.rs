//! A folder with a program of the sources, and what is recorded of it.
#![allow(dead_code, reason = "each test file uses the part that it needs")]

use std::path::{Path, PathBuf};
use std::process::Command;

pub const RETROVANE: &str = env!("CARGO_BIN_EXE_retrovane");

pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the recording is that the tests look at.
    pub fn trace(&self) -> PathBuf {
        self.path("trace")
    }

    /// A command in the folder, with a home of its own for ours.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("RETROVANE_HOME", self.path("home"));
        command
    }

    pub fn retrovane(&self, words: &[&str]) -> Command {
        let mut command = self.command(RETROVANE);
        command.args(words);
        command
    }

    /// Builds a source, named from the root of the repository.
    pub fn build(&self, source: &str, optimisation: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(source);
        let program = self.path(from.file_stem().and_then(|stem| stem.to_str()).expect("a name"));
        let mut gcc = Command::new("gcc");
        let built = gcc.args(["-g", optimisation, "-no-pie", "-o"]).arg(&program).arg(from).status();
        assert!(built.expect("gcc is installed").success());
        program
    }
}
