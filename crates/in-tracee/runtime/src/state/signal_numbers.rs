//! Signals by what they do, as bits of masks.

use lane_protocol::ASKING;

pub const DEFAULT: u64 = 0;

pub const IGNORE: u64 = 1;

pub const SIGILL: u32 = 4;

pub const SIGTRAP: u32 = 5;

pub const SIGBUS: u32 = 7;

pub const SIGFPE: u32 = 8;

pub const SIGKILL: u32 = 9;

pub const SIGSEGV: u32 = 11;

pub const SIGSTOP: u32 = 19;

pub const SIGSYS: u32 = 31;

/// From here on each one counts that is sent (signal(7)).
pub const REAL_TIME: u32 = 32;

/// Faults of the program, and the traps that bring its calls to us.
pub const FAULTS: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);

/// Signals whose real handler is always ours.
pub const OURS: u64 = FAULTS | bit(ASKING);

/// Those that come from outside, or from the kernel, and end a process by default.
pub const ENDINGS: u64 = !(HARMLESS | OURS | bit(SIGKILL));

/// Those that leave a core: QUIT, ABRT, XCPU, XFSZ, and the faults.
pub const CORES: u64 = FAULTS | bit(3) | bit(6) | bit(24) | bit(25);

/// Signals that end nobody by default: CHLD, CONT, STOP to TTOU, URG, WINCH.
pub const HARMLESS: u64 = bit(17) | bit(18) | bit(19) | bit(20) | bit(21) | bit(22) | bit(23) | bit(28);

/// Signals that are never blocked for real.
pub const NEVER_BLOCKED: u64 = OURS;

pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}
