//! Which replays run confined.

use std::fmt;
use std::str::FromStr;

use trace_store::TraceReader;

/// When the processes of a replay are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// For traces that came in a pack: a stranger may have made them.
    #[default]
    Auto,
    Always,
    Never,
}

impl Sandbox {
    /// Whether this trace is replayed so.
    pub fn is_wanted_for(self, trace: &TraceReader) -> bool {
        match self {
            Sandbox::Auto => trace.came_in_pack(),
            Sandbox::Always => true,
            Sandbox::Never => false,
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sandbox::Auto => "auto",
            Sandbox::Always => "always",
            Sandbox::Never => "never",
        })
    }
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Sandbox, String> {
        match text {
            "auto" => Ok(Sandbox::Auto),
            "always" => Ok(Sandbox::Always),
            "never" => Ok(Sandbox::Never),
            _ => Err("auto, always or never is wanted".to_owned()),
        }
    }
}
