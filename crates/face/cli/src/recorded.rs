//! What a recorded program began with, and what it read: the material of changed runs.
//!
//! Invariant: everything comes from the trace. Deliberately absent: the machine's present files, but
//! where `world` compares the trace with them.

mod reading;
mod world;

use std::path::{Path, PathBuf};

use injector::{RecordedAnswers, StdinKind, TryProgram};
use trace_store::{LaneEnd, TraceReader};

use crate::births::Image;
use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};
use crate::wording;

pub use reading::{ReadFile, Readings, simplified};
pub use world::World;

/// A recorded program.
pub struct Recorded {
    pub program: TryProgram,
    pub end: LaneEnd,
    pub readings: Readings,
}

impl Recorded {
    /// Reads it from the trace.
    pub fn of(trace: &TraceReader) -> Result<Recorded, CommandError> {
        let unusable = |why: &str| {
            CommandError::Usage(format!(
                "{}: {why}",
                wording::printable(trace.dir().as_os_str().as_encoded_bytes())
            ))
        };
        let first = trace.lanes().iter().find(|info| info.parent == trace_store::NO_PARENT);
        let first = first.ok_or_else(|| unusable("the trace holds no process"))?;
        let end = trace.summary().map(|summary| summary.exit).or(first.end);
        let mut whole = WholeEvent::default();
        let image = match LaneEvents::open(trace, first.lane)?.read(&mut whole)? {
            true => Image::of(&whole),
            false => None,
        };
        let image = image.ok_or_else(|| {
            unusable("the trace does not begin with the program's beginning, so it cannot be run again")
        })?;
        let readings = Readings::of(trace)?;
        let program = TryProgram {
            command: trace.meta().command.clone(),
            environment: image.environment,
            directory: trace.meta().cwd.clone(),
            stdin_kind: readings.stdin_kind,
            stdin: readings.stdin.clone(),
            answers: RecordedAnswers::default(),
            connections: readings.connections.clone(),
        };
        Ok(Recorded { program, end: end.unwrap_or(LaneEnd::Unknown), readings })
    }

    /// What the recorded run got that another one can be given, least first: the time, random numbers, both.
    pub fn answers(&self) -> Vec<RecordedAnswers> {
        let all = &self.readings.answers;
        let time = RecordedAnswers { time: all.time, random: None };
        let random = RecordedAnswers { time: None, random: all.random.clone() };
        let mut some = vec![time, random, all.clone()];
        some.retain(|answers| !answers.is_empty());
        some.dedup();
        some
    }

    /// The files that are input in the user's sense: named on the command line, or below the
    /// directory that the program began in.
    pub fn input_files(&self) -> Vec<&ReadFile> {
        let command: Vec<&[u8]> =
            self.program.command.iter().skip(1).map(|word| word.as_encoded_bytes()).collect();
        let is_named = |path: &Path| {
            path.file_name().is_some_and(|name| {
                let name = name.as_encoded_bytes();
                command.iter().any(|word| word.windows(name.len().max(1)).any(|part| part == name))
            })
        };
        let is_inside = |path: &Path| path.starts_with(&self.program.directory);
        let is_input = |file: &&ReadFile| {
            !file.is_written && !file.content.is_empty() && (is_named(&file.path) || is_inside(&file.path))
        };
        let mut files: Vec<&ReadFile> = self.readings.files.iter().filter(is_input).collect();
        // What was named comes first, then the largest.
        files.sort_by_key(|file| (!is_named(&file.path), std::cmp::Reverse(file.content.len())));
        files
    }

    /// Other files that the program looked into, and that may be missing elsewhere: of the user, of the system's settings. None
    /// that belongs to the system's programs, or to an interpreter.
    pub fn circumstances(&self) -> Vec<PathBuf> {
        const OF_PROGRAMS: [&str; 7] = ["bin", "sbin", "lib", "lib64", "usr", "share", "opt"];
        let is_of_programs = |path: &Path| {
            path.components().any(|part| OF_PROGRAMS.iter().any(|name| part.as_os_str() == *name))
                || path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld.so."))
        };
        let inputs = self.input_files();
        let is_one = |file: &&ReadFile| {
            let is_input = inputs.iter().any(|input| input.path == file.path);
            let is_code = file.content.starts_with(b"\x7fELF");
            let is_itself = self.program.command.first().is_some_and(|word| {
                Path::new(word).file_name().is_some() && file.path.file_name() == Path::new(word).file_name()
            });
            !file.is_written && !is_input && !is_code && !is_itself && !is_of_programs(&file.path)
        };
        self.readings.files.iter().filter(is_one).map(|file| file.path.clone()).collect()
    }

    /// The file of this path.
    pub fn file(&self, path: &Path) -> Option<&ReadFile> {
        let absolute: PathBuf = self.program.directory.join(path);
        self.readings.files.iter().find(|file| file.path == absolute || file.path == path)
    }

    /// Where the program's standard input is an input.
    pub fn has_stdin(&self) -> bool {
        !self.program.stdin.is_empty() && self.program.stdin_kind != StdinKind::Nothing
    }
}
