//! What is to be masked, in the user's words.

use glob::{MatchOptions, Pattern as Glob};

use crate::exit::CommandError;
use crate::policy::{Pattern, StreamKind};

/// Names of variables whose values are masked without being asked for.
const TELLING_NAMES: [&str; 8] =
    ["*KEY*", "*TOKEN*", "*SECRET*", "*PASS*", "*CREDENTIAL*", "*AUTH*", "*COOKIE*", "*PRIVATE*"];
/// Connections are, too.
const CONNECTIONS: [StreamKind; 3] = [StreamKind::Tcp, StreamKind::Udp, StreamKind::Unix];
/// A shorter text would be found where nobody meant it.
const VALUE_BYTES_MIN: usize = 4;

/// What is masked in a trace.
#[derive(Debug, Default)]
pub struct Wanted {
    names: Vec<Glob>,
    /// Given as they are.
    pub values: Vec<Vec<u8>>,
    streams: Vec<Pattern>,
    left: Vec<Pattern>,
}

impl Wanted {
    /// Reads the options: what is masked beside the usual, and streams that are left.
    ///
    /// # Errors
    /// [`CommandError::Usage`].
    pub fn parse(mask: &[String], leave: &[String]) -> Result<Wanted, CommandError> {
        let usage = |text: &str, why: &str| CommandError::Usage(format!("{text}: {why}"));
        let mut wanted = Wanted::default();
        for name in TELLING_NAMES {
            wanted.names.extend(Glob::new(name));
        }
        for text in mask {
            if let Some(name) = text.strip_prefix("env:") {
                wanted.names.push(Glob::new(name).map_err(|error| usage(text, &error.to_string()))?);
            } else if let Some(value) = text.strip_prefix("value:") {
                if value.len() < VALUE_BYTES_MIN {
                    return Err(usage(text, "a value of at least 4 bytes is wanted"));
                }
                wanted.values.push(value.as_bytes().to_vec());
            } else {
                let pattern = Pattern::parse(text).map_err(|why| {
                    usage(text, &format!("env:NAME or value:TEXT is wanted, or a stream: {why}"))
                })?;
                if pattern.is_standard() && text != "*" {
                    return Err(usage(
                        text,
                        "what a program writes is computed again by each replay: mask what it comes from",
                    ));
                }
                wanted.streams.push(pattern);
            }
        }
        for text in leave {
            wanted.left.push(Pattern::parse(text).map_err(|why| usage(text, &why))?);
        }
        Ok(wanted)
    }

    /// True for a variable of the environment whose value is masked.
    pub fn has_name(&self, name: &str) -> bool {
        const OPTIONS: MatchOptions = MatchOptions {
            case_sensitive: false,
            require_literal_separator: false,
            require_literal_leading_dot: false,
        };
        self.names.iter().any(|glob| glob.matches_with(name, OPTIONS))
    }

    /// True for a stream of which all bytes are masked.
    pub fn has_stream(&self, kind: StreamKind, name: &str) -> bool {
        let fits = |pattern: &Pattern| pattern.fits(kind, name);
        (CONNECTIONS.contains(&kind) || self.streams.iter().any(fits)) && !self.left.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(mask: &[&str], leave: &[&str]) -> Result<Wanted, CommandError> {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Wanted::parse(&owned(mask), &owned(leave))
    }

    #[test]
    fn telling_names_and_connections_are_masked_without_being_named() {
        let usual = wanted(&["env:HOME", "file:/etc/**"], &["tcp:*:5432"]).expect("they are right");
        for (name, is_masked) in
            [("AWS_SECRET_ACCESS_KEY", true), ("pgpassword", true), ("HOME", true), ("PATH", false)]
        {
            assert_eq!(usual.has_name(name), is_masked, "{name}");
        }
        assert!(usual.has_stream(StreamKind::Tcp, "10.0.0.1:443"));
        assert!(!usual.has_stream(StreamKind::Tcp, "10.0.0.1:5432"), "it was left");
        assert!(usual.has_stream(StreamKind::File, "/etc/shadow"));
        assert!(!usual.has_stream(StreamKind::Stdin, ""));
    }

    #[test]
    fn what_cannot_be_masked_is_refused() {
        for wrong in ["stdout", "value:abc", "nothing", "env:[", "file:relative"] {
            assert!(wanted(&[wrong], &[]).is_err(), "{wrong}");
        }
    }
}
