//! The check: pages that differ from their mirror though no checkpoint is under way. Somebody
//! stored there without a barrier.

use std::sync::LazyLock;
use std::time::Duration;

use crate::fence;
use crate::memory::Memory;

/// How long a word must differ in the same way: a thread that is interrupted between its two
/// stores makes the second one when it runs again.
const LOOKS: usize = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// True where each checkpoint is to begin with the check: behind it pages are made equal to their mirror that were stored to
/// beside it, and what was missed there is no difference any more.
pub fn is_before_checkpoints() -> bool {
    static ASKED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("RETROVANE_MIRROR_CHECK").is_some());
    *ASKED
}

/// Addresses of words that differ and stay so, one for each page. Stores are mirrored meanwhile.
pub fn differences(memory: &Memory) -> Vec<usize> {
    let mut found: Vec<usize> = (0..memory.pages()).filter_map(|page| memory.differs(page)).collect();
    for _ in 0..LOOKS {
        if found.is_empty() {
            break;
        }
        fence::all_threads();
        std::thread::sleep(BETWEEN_LOOKS);
        found.retain(|&address| memory.word_differs(address));
    }
    found
}
