//! Sizes, times, ends and commands as people read them.
//!
//! What comes from a trace may hold anything: text that reaches a terminal has its
//! control characters escaped here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use events::StopReason;
use nix::sys::signal::Signal;
use trace_store::LaneEnd;

/// A number of bytes: `1.4 MB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if amount < 999.95 {
            break;
        }
        amount /= 1000.0;
        unit = next;
    }
    format!("{amount:.1} {unit}")
}

/// A number with its digits in groups of three.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A length of time.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{} min {} s", seconds as u64 / 60, seconds as u64 % 60)
    }
}

/// A time of RFC 3339 without what nobody reads: `2024-03-01 12:30:00`, in UTC.
pub fn time(rfc3339: &str) -> String {
    printable(rfc3339.split('.').next().unwrap_or_default().replacen('T', " ", 1).as_bytes())
}

/// A process, and which of its threads, counted from 0, if that is not the first.
pub fn process(pid: i32, thread: u32) -> String {
    match thread {
        0 => pid.to_string(),
        thread => format!("{pid}/{}", thread + 1),
    }
}

/// Name of a signal.
pub fn signal(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if (32..=64).contains(&number) => format!("SIGRT_{}", number - 32),
        Err(_) => format!("signal {number}"),
    }
}

/// How a lane ended, in a word or two.
pub fn lane_end(end: LaneEnd) -> String {
    match end {
        LaneEnd::Exited(code) => format!("exit {code}"),
        LaneEnd::Killed(number) => signal(number),
        LaneEnd::Unknown => "end unknown".to_owned(),
        LaneEnd::Stopped(reason) => format!("not recorded to its end: {}", stop_reason(reason)),
    }
}

/// Why recording stopped while the program went on.
pub fn stop_reason(code: u16) -> &'static str {
    match StopReason::from_code(code) {
        Some(StopReason::Thread) => "it made a thread",
        Some(StopReason::SharedMemory) => "it shares writable memory with another process",
        Some(StopReason::DiskFull) => "the trace could not be written",
        Some(StopReason::RecorderDied) => "the recorder died",
        Some(StopReason::Unsupported) => "it did what cannot be recorded",
        Some(StopReason::TooManyProcesses) => "too many processes ran at once",
        Some(StopReason::Traced) => "its parent traced it (ptrace)",
        None => "for a reason that this version does not know",
    }
}

/// A command as a shell would take it.
pub fn command(words: &[OsString]) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&shell_word(word));
    }
    line
}

fn shell_word(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return printable(bytes);
    }
    if word.to_str().is_some_and(|text| !text.chars().any(char::is_control)) {
        return format!("'{}'", printable(bytes).replace('\'', r"'\''"));
    }
    format!("$'{}'", bytes.escape_ascii())
}

/// Text without what a terminal would obey.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for char in String::from_utf8_lossy(bytes).chars() {
        if char.is_control() {
            text.extend(char.escape_default());
        } else {
            text.push(char);
        }
    }
    text
}

/// At most this many characters, the last of them an ellipsis if some were cut.
pub fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn sizes_have_three_digits_or_so() {
        let shown: Vec<String> = [0, 999, 1000, 999_949, 999_950, 1_234_567_890].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "1.2 GB"]);
        assert_eq!([0, 12, 1234, 1_234_567].map(count), ["0", "12", "1,234", "1,234,567"]);
        assert_eq!(
            [1_500_000, 1_500_000_000, 150_000_000_000].map(duration),
            ["1.5 ms", "1.50 s", "2 min 30 s"]
        );
    }

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let words = ["sh", "-c", "echo 'a b' | wc", ""].map(OsString::from);
        assert_eq!(command(&words), r"sh -c 'echo '\''a b'\'' | wc' ''");
        assert_eq!(command(&[OsString::from_vec(b"a\n\xff".to_vec())]), r"$'a\n\xff'");
    }

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}c".as_bytes()), r"a\u{1b}[2Jb\u{9b}c");
    }

    #[test]
    fn signals_have_their_names() {
        assert_eq!([9, 17, 34, 99].map(signal), ["SIGKILL", "SIGCHLD", "SIGRT_2", "signal 99"]);
    }
}
