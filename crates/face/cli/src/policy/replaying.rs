//! Policies of streams in a replay: what becomes of recorded output.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;

use super::file::{Direction, lines_of};
use crate::exit::CommandError;

/// Streams that a replay writes.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Options of commands that replay.
#[derive(Args, Debug)]
pub struct PolicyArguments {
    /// What becomes of an output: stdout, stderr or * = show, drop or `to FILE` [default: show]
    #[arg(long, value_name = "PATTERN=POLICY")]
    output: Vec<String>,
    /// A file of policies, one a line (`output PATTERN=POLICY`; # begins a comment)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// What becomes of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Policy {
    Show,
    Drop,
    To(PathBuf),
}

impl PolicyArguments {
    /// Redirects this process's standard streams as the policies say: replay writes there. The last
    /// policy that fits a stream counts, and the command line comes behind the file.
    pub fn apply(&self) -> Result<(), CommandError> {
        let mut policies = [Policy::Show, Policy::Show];
        let lines = match &self.policy {
            Some(path) => lines_of(path)?
                .into_iter()
                .filter(|line| line.direction == Direction::Output)
                .map(|line| line.text)
                .collect(),
            None => Vec::new(),
        };
        for text in lines.iter().chain(&self.output) {
            let (pattern, policy) = parse(text)?;
            for (stream, slot) in STREAMS.iter().zip(&mut policies) {
                if pattern == "*" || pattern == *stream {
                    slot.clone_from(&policy);
                }
            }
        }
        let open = |policy: &Policy| match policy {
            Policy::Show => Ok(None),
            Policy::Drop => opened(Path::new("/dev/null")).map(Some),
            Policy::To(path) => opened(path).map(Some),
        };
        // Both are opened before either is moved: an error can still be read.
        let [out, errors] = [open(&policies[0])?, open(&policies[1])?];
        let failed = |error: rustix::io::Errno| CommandError::Output(error.into());
        if let Some(file) = out {
            rustix::stdio::dup2_stdout(file).map_err(failed)?;
        }
        if let Some(file) = errors {
            rustix::stdio::dup2_stderr(file).map_err(failed)?;
        }
        Ok(())
    }
}

fn opened(path: &Path) -> Result<File, CommandError> {
    let file = File::options().create(true).truncate(true).write(true).open(path);
    file.map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

/// True for what a policy of inputs may be in a replay.
pub fn is_input_policy(policy: &str) -> bool {
    matches!(policy, "recorded" | "real") || policy.starts_with("from ")
}

fn parse(text: &str) -> Result<(&str, Policy), CommandError> {
    let wrong = |what: &str| CommandError::Usage(format!("--output {text}: {what}"));
    let (pattern, policy) = text.split_once('=').ok_or_else(|| wrong("PATTERN=POLICY is wanted"))?;
    if pattern != "*" && !STREAMS.contains(&pattern) {
        return Err(wrong("a replay shows stdout and stderr (or *: both); other outputs are always dropped"));
    }
    let policy = match policy.trim() {
        "show" => Policy::Show,
        "drop" => Policy::Drop,
        "real" | "check" => {
            return Err(wrong("this policy is not available: show, drop and `to FILE` are"));
        }
        other => match other.strip_prefix("to ") {
            Some(file) if !file.trim().is_empty() => Policy::To(file.trim().into()),
            _ => return Err(wrong("show, drop or `to FILE` is wanted")),
        },
    };
    Ok((pattern, policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        assert_eq!(parse("stdout=drop").ok(), Some(("stdout", Policy::Drop)));
        assert_eq!(parse("*=to a b").ok(), Some(("*", Policy::To("a b".into()))));
        for wrong in ["stdout", "tcp:*=drop", "stdout=real", "stderr=to ", "stdout=hide"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
