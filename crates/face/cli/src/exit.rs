//! What the command's exit code says.

use std::process::ExitCode;

use replayer::ExitReport;

/// Replay diverged.
pub const DIVERGED: u8 = 120;
/// The trace is damaged, missing or unusable.
pub const BAD_TRACE: u8 = 121;
/// The program cannot be recorded.
pub const NOT_RECORDABLE: u8 = 122;
/// Retrovane itself failed.
pub const FAILED: u8 = 125;
/// The program was found and is not executable.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// Says what went wrong and gives the code that stands for it.
pub fn failure(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("retrovane: {error}");
    ExitCode::from(code)
}

/// The code of a program's end, as shells have it.
pub fn of_program(status: ExitReport) -> ExitCode {
    match status {
        ExitReport::Exited(code) => ExitCode::from(code as u8),
        ExitReport::Killed(signal) => ExitCode::from(128u8.wrapping_add(signal as u8)),
    }
}
