//! Patterns by which users choose streams: `file:/etc/**`, `stdin`, `tcp:*:5432`, `unix:/tmp/.X11-unix/*`.
//!
//! `*` and `?` stand for characters of one component of a path, `**` for any number of components, `[...]`
//! for one of some characters. Deliberately absent: patterns for the environment, the clock and random
//! numbers, which are always as recorded.

use glob::{MatchOptions, Pattern as Glob};

/// What kind of outside thing a stream leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamKind {
    Stdin,
    Stdout,
    Stderr,
    File,
    Tcp,
    Udp,
    Unix,
}

impl StreamKind {
    /// How its streams are called.
    pub fn prefix(self) -> &'static str {
        match self {
            StreamKind::Stdin => "stdin",
            StreamKind::Stdout => "stdout",
            StreamKind::Stderr => "stderr",
            StreamKind::File => "file",
            StreamKind::Tcp => "tcp",
            StreamKind::Udp => "udp",
            StreamKind::Unix => "unix",
        }
    }
}

const KINDS: [StreamKind; 7] = [
    StreamKind::Stdin,
    StreamKind::Stdout,
    StreamKind::Stderr,
    StreamKind::File,
    StreamKind::Tcp,
    StreamKind::Udp,
    StreamKind::Unix,
];

/// A pattern of streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// `None`: all streams.
    kind: Option<StreamKind>,
    /// Of the name behind the kind; `None` where there is none.
    name: Option<Glob>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, for the user.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text == "*" {
            return Ok(Pattern { kind: None, name: None });
        }
        let (prefix, name) = match text.split_once(':') {
            Some((prefix, name)) => (prefix, Some(name)),
            None => (text, None),
        };
        let wanted =
            "a pattern is *, stdin, stdout, stderr, file:PATH, tcp:HOST:PORT, udp:HOST:PORT or unix:PATH";
        let kind = KINDS.into_iter().find(|kind| kind.prefix() == prefix).ok_or_else(|| wanted.to_owned())?;
        let has_name = !matches!(kind, StreamKind::Stdin | StreamKind::Stdout | StreamKind::Stderr);
        match name {
            Some(name) if has_name && !name.is_empty() => {
                if kind == StreamKind::File && !name.starts_with(['/', '*']) {
                    return Err("the path of file: is absolute, or begins with * or **".to_owned());
                }
                let glob = Glob::new(name).map_err(|error| error.to_string())?;
                Ok(Pattern { kind: Some(kind), name: Some(glob) })
            }
            None if !has_name => Ok(Pattern { kind: Some(kind), name: None }),
            Some(_) | None => Err(wanted.to_owned()),
        }
    }

    /// True if it fits stdout and stderr only, or stands for both.
    pub fn is_standard(&self) -> bool {
        matches!(self.kind, None | Some(StreamKind::Stdout | StreamKind::Stderr)) && self.name.is_none()
    }

    /// True if it fits the stream of this kind and name.
    pub fn fits(&self, kind: StreamKind, name: &str) -> bool {
        const OPTIONS: MatchOptions = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        self.kind.is_none_or(|own| own == kind)
            && self.name.as_ref().is_none_or(|glob| glob.matches_with(name, OPTIONS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_name() {
        for (pattern, kind, name, fits) in [
            ("*", StreamKind::Stdout, "", true),
            ("stdin", StreamKind::Stdin, "", true),
            ("stdin", StreamKind::Stdout, "", false),
            ("file:/etc/**", StreamKind::File, "/etc/ssl/cert", true),
            ("file:/etc/*", StreamKind::File, "/etc/ssl/cert", false),
            ("file:/etc/*", StreamKind::File, "/etc/.hidden", true),
            ("file:**/*.h", StreamKind::File, "/usr/include/a.h", true),
            ("file:/etc/**", StreamKind::Unix, "/etc/ssl", false),
            ("tcp:*:5432", StreamKind::Tcp, "127.0.0.1:5432", true),
            ("tcp:*:5432", StreamKind::Tcp, "::1:5433", false),
            ("unix:/tmp/.X11-unix/*", StreamKind::Unix, "/tmp/.X11-unix/X0", true),
        ] {
            let parsed = Pattern::parse(pattern).expect("it is a pattern");
            assert_eq!(parsed.fits(kind, name), fits, "{pattern} and {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for wrong in ["", "stdio", "stdin:", "file:", "file", "file:etc/x", "tcp", "file:/a[", "env:HOME"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
