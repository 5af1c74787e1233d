//! Policies of inputs when recording: what the trace keeps of them.

use std::path::{Path, PathBuf};

use clap::Args;
use recorder::Referred;

use super::file::{Direction, Line, lines_of};
use super::pattern::{Pattern, StreamKind};
use crate::exit::CommandError;

/// Options of `record`.
#[derive(Args, Debug)]
pub struct InputArguments {
    /// What is kept of an input: file:PATH = keep (its bytes are in the trace), or refer (only a digest: replay
    /// reads the file itself) [default: keep]
    #[arg(long, value_name = "PATTERN=POLICY")]
    input: Vec<String>,
    /// A file of policies, one a line (`input PATTERN=POLICY`; # begins a comment)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

impl InputArguments {
    /// Files of which only a digest is kept, if any policy says so. The last policy that fits counts, and
    /// the command line comes behind the file.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for what is no policy, [`CommandError::Read`].
    pub fn referred(&self) -> Result<Option<Referred>, CommandError> {
        let mut lines = match &self.policy {
            Some(path) => lines_of(path)?,
            None => Vec::new(),
        };
        lines.extend(self.input.iter().map(|text| Line::of_option(Direction::Input, text)));
        let mut policies = Vec::new();
        let mut told = Vec::new();
        for line in lines.iter().filter(|line| line.direction == Direction::Input) {
            let (pattern, policy) = line.split()?;
            let refers = match policy {
                "keep" => false,
                "refer" => true,
                // In a file they are for the replay.
                _ if !line.is_option && super::replaying::is_input_policy(policy) => continue,
                _ => return Err(line.wrong("keep or refer is wanted when recording")),
            };
            let parsed = Pattern::parse(pattern).map_err(|why| line.wrong(&why))?;
            if refers && !pattern.starts_with("file:") {
                return Err(line.wrong(
                    "only files can be referred to: the bytes of other inputs are gone when they were read",
                ));
            }
            policies.push((parsed, refers));
            told.push(format!("{pattern}={policy}"));
        }
        if !policies.iter().any(|(_, refers)| *refers) {
            return Ok(None);
        }
        let fits = move |path: &Path| {
            let name = path.to_string_lossy();
            let last = policies.iter().rev().find(|(pattern, _)| pattern.fits(StreamKind::File, &name));
            last.is_some_and(|(_, refers)| *refers)
        };
        Ok(Some(Referred { told: told.join(","), fits: Box::new(fits) }))
    }
}
