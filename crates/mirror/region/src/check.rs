//! The check: what changed in the region without a barrier before the store.
//!
//! With `RETROVANE_MIRROR_CHECK` in the environment of who opens the region all that is stored to is saved, always, and not only while a
//! checkpoint is copied. What differs from the mirror and was not saved was stored without a barrier. Each checkpoint begins with such a look,
//! since behind it nothing of that can be seen; and the thread that asks for one waits until it is captured, so that what it stores
//! without a barrier then is not taken for a store before.

use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::watch;

/// Bytes that were stored to without a barrier, as the program says itself.
static TOLD: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Notes that these are not to be counted.
pub fn tell(bytes: Range<usize>) {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
}

/// What was told since this was asked last.
pub fn told() -> Vec<Range<usize>> {
    std::mem::take(&mut TOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// True with the check.
pub fn is_on() -> bool {
    static ASKED: LazyLock<bool> = LazyLock::new(|| {
        ["RETROVANE_MIRROR_CHECK", watch::VARIABLE].iter().any(|name| std::env::var_os(name).is_some())
    });
    *ASKED
}
