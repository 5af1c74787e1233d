//! How a run ended and what it printed, and whether two runs agree.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Lines shown of an output that differs.
const LINES_SHOWN_MAX: usize = 12;

/// Everything of one run that a user can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The exit code, or 128 + n for death by signal n, as shells say it.
    pub code: i32,
}

impl Outcome {
    /// Folds an exit status into one number, so that a tool that dies by the
    /// program's signal and one that exits with 128 + n count as equal.
    pub fn code_of(status: ExitStatus) -> i32 {
        match status.code() {
            Some(code) => code,
            None => 128 + status.signal().expect("a status without code has a signal"),
        }
    }

    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Drops the lines that differ between native runs (they begin with `~`).
pub fn without_nondeterminism(output: &[u8]) -> Vec<u8> {
    output
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"~"))
        .flatten()
        .copied()
        .collect()
}

/// Says where two runs differ; `Ok` if they agree.
pub fn compare(left_name: &str, left: &Outcome, right_name: &str, right: &Outcome) -> Result<(), String> {
    let mut report = String::new();
    if left.code != right.code {
        let _ = writeln!(report, "exit code: {left_name} {}, {right_name} {}", left.code, right.code);
    }
    for (what, a, b) in [("stdout", &left.stdout, &right.stdout), ("stderr", &left.stderr, &right.stderr)] {
        if a != b {
            let _ = writeln!(report, "{what} differs:");
            describe_difference(&mut report, left_name, a, right_name, b);
        }
    }
    if report.is_empty() { Ok(()) } else { Err(report) }
}

fn describe_difference(report: &mut String, left_name: &str, left: &[u8], right_name: &str, right: &[u8]) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(|line| line.chars().take(200).collect()).collect()
    };
    let (left, right) = (lines(left), lines(right));
    let first = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let _ = writeln!(report, "  first at line {}", first + 1);
    for (name, lines) in [(left_name, &left), (right_name, &right)] {
        let _ = writeln!(report, "  {name} ({} lines):", lines.len());
        for line in lines.iter().skip(first).take(LINES_SHOWN_MAX) {
            let _ = writeln!(report, "    {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: &str, code: i32) -> Outcome {
        Outcome { stdout: stdout.into(), stderr: Vec::new(), code }
    }

    #[test]
    fn lines_with_a_tilde_are_dropped() {
        assert_eq!(without_nondeterminism(b"a\n~ b\nc~\n~"), b"a\nc~\n");
    }

    #[test]
    fn a_difference_names_its_line() {
        let report =
            compare("x", &outcome("a\nb\n", 0), "y", &outcome("a\nc\n", 1)).expect_err("the outcomes differ");
        assert!(report.contains("first at line 2"), "{report}");
        assert!(report.contains("x 0, y 1"), "{report}");
    }
}
