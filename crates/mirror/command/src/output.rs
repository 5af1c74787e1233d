//! What the command says, and why it ends.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Why a command ended before its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The reader of our output is gone, as `head` is after its lines: nobody wants to hear of it.
    Unheard,
    /// What to tell the user.
    Told(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Told(text)
    }
}

/// Says a line on standard output, at once.
pub fn say(line: Arguments) -> Result<(), Failure> {
    write_line(&mut io::stdout().lock(), line)
}

fn write_line(to: &mut impl Write, line: Arguments) -> Result<(), Failure> {
    to.write_fmt(format_args!("{line}\n")).and_then(|()| to.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unheard,
        _ => Failure::Told(format!("standard output: {error}")),
    })
}

/// Says a line on standard error. Where that is gone too, there is nobody to tell.
pub fn warn(line: impl std::fmt::Display) {
    let _ = io::stderr().write_fmt(format_args!("retrovane-mirror: {line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_no_error_to_tell() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        assert_eq!(write_line(&mut writer, format_args!("a")), Ok(()));
        drop(reader);
        assert_eq!(write_line(&mut writer, format_args!("b")), Err(Failure::Unheard));
        let mut full = std::fs::File::create("/dev/full").expect("the kernel's");
        assert!(matches!(write_line(&mut full, format_args!("c")), Err(Failure::Told(_))));
    }
}
