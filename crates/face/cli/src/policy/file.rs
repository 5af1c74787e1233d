//! Policies as they are written: in options, and in a file of them.

use std::path::Path;

use crate::exit::CommandError;

/// Which way a stream's bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Input,
    Output,
}

/// One `PATTERN=POLICY`, and where it stands.
#[derive(Debug, Clone)]
pub struct Line {
    pub direction: Direction,
    pub text: String,
    /// For messages.
    place: String,
    /// It was given on the command line.
    pub is_option: bool,
}

impl Line {
    /// Of an option.
    pub fn of_option(direction: Direction, text: &str) -> Line {
        let name = match direction {
            Direction::Input => "--input",
            Direction::Output => "--output",
        };
        Line { direction, text: text.to_owned(), place: format!("{name} {text}"), is_option: true }
    }

    /// Pattern and policy.
    ///
    /// # Errors
    /// [`CommandError::Usage`]
    pub fn split(&self) -> Result<(&str, &str), CommandError> {
        let (pattern, policy) =
            self.text.split_once('=').ok_or_else(|| self.wrong("PATTERN=POLICY is wanted"))?;
        Ok((pattern.trim(), policy.trim()))
    }

    /// Says what is wrong with it.
    pub fn wrong(&self, why: &str) -> CommandError {
        CommandError::Usage(format!("{}: {why}", self.place))
    }
}

/// The policies in a file.
///
/// # Errors
/// [`CommandError::Read`]; [`CommandError::Usage`] for a line that is none.
pub fn lines_of(path: &Path) -> Result<Vec<Line>, CommandError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| CommandError::Read { path: path.to_owned(), source })?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let told = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    told.map(|(number, line)| {
        let place = format!("{}, line {number}", path.display());
        let (direction, text) = match line.split_once(char::is_whitespace) {
            Some(("input", text)) => (Direction::Input, text),
            Some(("output", text)) => (Direction::Output, text),
            _ => {
                return Err(CommandError::Usage(format!(
                    "{place}: `input PATTERN=POLICY` or `output PATTERN=POLICY` is wanted, not: {line}"
                )));
            }
        };
        Ok(Line { direction, text: text.trim().to_owned(), place, is_option: false })
    })
    .collect()
}
