//! What a failure is, and when two are the same.

use injector::{ExitReport, Stopping, TryEnd};
use replayer::{Frame, Stacks};
use trace_store::LaneEnd;

use crate::wording;

/// Frames that identify a failure.
const FRAMES: usize = 3;
/// Files whose frames only pass a failure on, where they are innermost.
const LIBC: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-linux"];
/// So many frames of so few functions are a recursion that ate the stack: which of them is innermost is
/// chance.
const RECURSION_FRAMES: usize = 48;
const RECURSION_FUNCTIONS: usize = 8;

/// How a program failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub end: TryEnd,
    /// The signal that a process got before, with its innermost frames.
    pub crash: Option<Crash>,
    /// What it said on standard error, where it ended by itself: the telling line, its numbers and
    /// quoted parts masked.
    pub message: Option<String>,
}

/// A signal and the place where it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    pub signal: i32,
    pub frames: Vec<String>,
}

impl Failure {
    /// From what was seen of a run.
    pub fn new(end: TryEnd, crash: Option<Crash>, errors: &[u8]) -> Failure {
        let message = match end {
            TryEnd::Ended(ExitReport::Exited(_)) => telling_line(errors),
            TryEnd::Ended(ExitReport::Killed(_)) | TryEnd::Expired => None,
        };
        Failure { end, crash, message }
    }

    /// True if something went wrong at all.
    pub fn is_one(&self) -> bool {
        self.end != TryEnd::Ended(ExitReport::Exited(0))
    }

    /// True if the recording ended like this.
    pub fn ended_as(&self, recorded: LaneEnd) -> bool {
        match (self.end, recorded) {
            (TryEnd::Ended(ExitReport::Exited(code)), LaneEnd::Exited(then)) => code == then,
            (TryEnd::Ended(ExitReport::Killed(signal)), LaneEnd::Killed(then)) => signal == then,
            _ => false,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = match self.end {
            TryEnd::Ended(ExitReport::Exited(code)) => format!("exit code {code}"),
            TryEnd::Ended(ExitReport::Killed(signal)) => wording::signal(signal),
            TryEnd::Expired => "it takes longer than the limit".to_owned(),
        };
        if let Some(crash) = &self.crash {
            if self.end != TryEnd::Ended(ExitReport::Killed(crash.signal)) {
                text.push_str(&format!(", after {}", wording::signal(crash.signal)));
            }
            text.push_str(&format!(" in {}", crash.frames.join(" < ")));
        }
        if let Some(message) = &self.message {
            text.push_str(&format!(", \"{}\"", wording::printable(message.as_bytes())));
        }
        text
    }
}

/// Notes the last crash that a run shows.
#[derive(Default)]
pub struct CrashReader {
    stacks: Stacks,
    last: Option<Crash>,
}

impl CrashReader {
    /// To be called where a process stands.
    pub fn note(&mut self, stopping: &Stopping) {
        let frames = self.stacks.of(stopping.pid, stopping.instruction, stopping.stack, stopping.frame);
        self.last = Some(Crash { signal: stopping.signal, frames: innermost(&frames) });
    }

    /// What was noted since the last time.
    pub fn take(&mut self) -> Option<Crash> {
        self.last.take()
    }
}

/// Names of the frames that identify a place.
pub fn innermost(frames: &[Frame]) -> Vec<String> {
    let file = |frame: &Frame| {
        frame.module.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or("?").to_owned()
    };
    let name = |frame: &Frame| match &frame.function {
        Some((name, _)) => name.clone(),
        None => format!("{:#x} of {}", frame.address & 0xfff, file(frame)),
    };
    if frames.len() >= RECURSION_FRAMES {
        let mut names: Vec<String> = frames[..RECURSION_FRAMES].iter().map(name).collect();
        names.sort();
        names.dedup();
        if names.len() <= RECURSION_FUNCTIONS {
            return vec!["endless recursion".to_owned()];
        }
    }
    let is_libc = |frame: &&Frame| LIBC.iter().any(|start| file(frame).starts_with(start));
    let skipped = frames.iter().take_while(is_libc).count();
    let from = if skipped == frames.len() { 0 } else { skipped };
    frames[from..].iter().take(FRAMES).map(name).collect()
}

/// The line of standard error that tells most of a failure.
fn telling_line(errors: &[u8]) -> Option<String> {
    const WORDS: [&str; 8] = ["error", "exception", "assert", "panic", "abort", "fatal", "fail", "caught"];
    let text = String::from_utf8_lossy(errors);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tells = |line: &&&str| {
        let lower = line.to_lowercase();
        WORDS.iter().any(|word| lower.contains(word))
    };
    // The last line of an interpreter's trace back names the exception.
    let is_trace_back = lines.iter().any(|line| line.starts_with("Traceback "));
    let line = match is_trace_back {
        true => lines.last(),
        false => lines.iter().find(tells).or(lines.last()),
    };
    line.map(|line| masked(line))
}

/// Without numbers and quoted texts, which the input may have chosen.
fn masked(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let closing = match char {
            '"' | '`' => Some(char),
            '‘' => Some('’'),
            '“' => Some('”'),
            // An apostrophe inside of a word opens nothing.
            '\'' if !text.ends_with(char::is_alphanumeric) => Some('\''),
            _ => None,
        };
        let rest = chars.clone().collect::<String>();
        if let Some(closing) = closing
            && rest.contains(closing)
        {
            for inner in chars.by_ref() {
                if inner == closing || char == '`' && inner == '\'' {
                    break;
                }
            }
            text.push_str("'...'");
        } else if char.is_ascii_digit() {
            while chars.next_if(char::is_ascii_hexdigit).is_some() {}
            text.push('#');
        } else {
            text.push(char);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_compared_without_what_the_input_chooses() {
        let line = |text: &str| telling_line(text.as_bytes()).unwrap_or_default();
        assert_eq!(line("note\nx.c:12:5: error: 'ab' undeclared\n"), "x.c:#:#: error: '...' undeclared");
        assert_eq!(
            line("Parse error near line 7: near \"FROM\": syntax error"),
            line("Parse error near line 1: near \"x\": syntax error")
        );
        let trace = "Traceback (most recent call last):\n  File \"a\", line 3, in error\nTypeError: no\n";
        assert_eq!(line(trace), "TypeError: no");
        assert_eq!(telling_line(b""), None);
    }

    #[test]
    fn libc_only_passes_a_failure_on() {
        let frame = |name: &str, module: &str| Frame {
            address: 0x1234,
            function: Some((name.to_owned(), 4)),
            module: Some(module.to_owned()),
            source: None,
        };
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        let frames = [frame("raise", libc), frame("abort", libc), frame("check", "/a"), frame("main", "/a")];
        assert_eq!(innermost(&frames), ["check", "main"]);
        assert_eq!(innermost(&frames[..2]), ["raise", "abort"]);
        let deep: Vec<Frame> = (0..100).map(|at| frame(["f", "g"][at % 2], "/a")).collect();
        assert_eq!(innermost(&deep), ["endless recursion"]);
    }
}
