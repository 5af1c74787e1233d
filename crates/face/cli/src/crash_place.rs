//! Where a recording failed: the place that `--at crash` names.
//!
//! A signal that killed a process; or a panic of Rust or Go, which tell of it on standard error, and exit.
//! Deliberately absent: other languages, whose exit codes and messages say less.

use events::{Kind, Tag};
use linux_abi::general as raw;
use nix::sys::signal::Signal;
use trace_store::{LaneEnd, LaneInfo, TraceReader};

use crate::exit::CommandError;
use crate::lane_events::{LaneEvents, WholeEvent};

/// The code with which a program in Rust ends whose `main`, or a test of which, panicked.
const CODE_OF_RUST: i32 = 101;
/// The code with which Go's runtime ends a program.
const CODE_OF_GO: i32 = 2;
const STANDARD_ERROR: u64 = 2;

/// Where a process failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPlace {
    pub pid: i32,
    pub moment: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Its end, by a signal or not.
    End,
    /// Its end, where the stack of a goroutine that panicked still stands.
    EndOfGo,
    /// Before this event, which tells of the panic that ended it.
    Panic(u64),
}

impl CrashPlace {
    /// The place of a recording, or of one of its processes; `None` where none was killed or panicked.
    pub fn of(trace: &TraceReader, pid: Option<i32>) -> Result<Option<CrashPlace>, CommandError> {
        let at_end = |info: &LaneInfo| CrashPlace { pid: info.pid, moment: Moment::End };
        let mut wanted: Vec<&LaneInfo> =
            trace.lanes().iter().filter(|info| pid.is_none_or(|pid| info.pid == pid)).collect();
        let killed = |info: &&&LaneInfo, counts: fn(i32) -> bool| matches!(info.end, Some(LaneEnd::Killed(by)) if counts(by));
        if let Some(info) = wanted.iter().find(|info| killed(info, dumps_core)) {
            return Ok(Some(at_end(info)));
        }
        for info in &wanted {
            if let Some(moment) = panic_of(trace, info)? {
                return Ok(Some(CrashPlace { pid: info.pid, moment }));
            }
        }
        // One that was only ended, by kill(1) say, is no crash where another process has one.
        wanted.retain(|info| pid.is_some() || killed(&info, |_| true));
        Ok(wanted.first().map(|info| at_end(info)))
    }

    /// The event before which a panic is told of.
    pub fn panic(&self) -> Option<u64> {
        match self.moment {
            Moment::Panic(event) => Some(event),
            Moment::End | Moment::EndOfGo => None,
        }
    }
}

/// Whether the default action of a signal dumps core (signal(7)), as that of crashes does.
fn dumps_core(signal: i32) -> bool {
    use Signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ};
    let crashes = [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS];
    Signal::try_from(signal).is_ok_and(|signal| crashes.contains(&signal))
}

/// Where a process panicked last that ended by that.
fn panic_of(trace: &TraceReader, info: &LaneInfo) -> Result<Option<Moment>, CommandError> {
    let tells: fn(&[u8]) -> bool = match info.end {
        Some(LaneEnd::Exited(CODE_OF_RUST)) => tells_of_rust,
        Some(LaneEnd::Exited(CODE_OF_GO)) => tells_of_go,
        Some(LaneEnd::Exited(_) | LaneEnd::Killed(_) | LaneEnd::Unknown | LaneEnd::Stopped(_)) | None => {
            return Ok(None);
        }
    };
    let mut events = LaneEvents::open(trace, info.lane)?;
    let mut whole = WholeEvent::default();
    let mut last = None;
    while events.read(&mut whole)? {
        let is_write = whole.kind == Kind::Syscall && u32::from(whole.code) == raw::__NR_write;
        if is_write
            && whole.event().arg(0) == STANDARD_ERROR
            && whole.blob(Tag::Sent).is_some_and(|sent| tells(sent.data))
        {
            last = Some(whole.index);
        }
    }
    let is_of_go = info.end == Some(LaneEnd::Exited(CODE_OF_GO));
    Ok(last.map(|event| if is_of_go { Moment::EndOfGo } else { Moment::Panic(event) }))
}

/// `thread 'main' panicked at src/main.rs:1:2:`, behind an empty line or not.
fn tells_of_rust(text: &[u8]) -> bool {
    text.strip_prefix(b"\n").unwrap_or(text).starts_with(b"thread '")
}

/// `panic: ` with what follows in other calls; `fatal error: ` of the runtime's own.
fn tells_of_go(text: &[u8]) -> bool {
    [b"panic: ".as_slice(), b"fatal error: "].iter().any(|begin| text.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_told_by_their_first_words() {
        assert!(tells_of_rust(b"\nthread 'main' (1950) panicked at pan.rs:5:158:\n"));
        assert!(tells_of_rust(b"thread 'a::b' panicked at 'x'"));
        assert!(!tells_of_rust(b"warning: thread 'main'"));
        assert!(tells_of_go(b"panic: ") && tells_of_go(b"fatal error: all goroutines are asleep"));
        assert!(!tells_of_go(b"usage: panic: "));
    }
}
