//! Whether threads of the process spin for each other.

use core::sync::atomic::{AtomicU32, Ordering};

/// True if threads of the process spin for each other, as far as was seen.
pub fn threads_spin() -> bool {
    SPUN.load(Ordering::Relaxed) != 0
}

/// Not zero: a thread that was asked gently the last time did spin.
pub static SPUN: AtomicU32 = AtomicU32::new(0);
