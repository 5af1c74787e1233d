//! The check: pages that differ from their mirror though no checkpoint is under way. Somebody
//! stored there without a barrier.
//!
//! While a checkpoint is written the mirror is frozen, and pages that are stored to with a barrier are made equal to it behind that,
//! with what was missed in them. So with the check a checkpoint is written from a snapshot, and the mirror is frozen as long as it
//! takes to copy that: the thread that asks waits for it. Not seen is then only what other threads miss in these milliseconds.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use crate::fence;
use crate::layout::PAGE;
use crate::memory::Memory;
use crate::pages::Pages;

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

/// Pages of the mirror as they were when it was frozen.
pub struct Snapshot(BTreeMap<usize, Vec<u8>>);

impl Snapshot {
    pub fn of(memory: &Memory, pages: &Pages) -> Snapshot {
        let copied = pages.iter().map(|page| {
            let mut bytes = vec![0; PAGE];
            memory.copy_mirror(page * PAGE, &mut bytes);
            (page, bytes)
        });
        Snapshot(copied.collect())
    }

    /// Copies whole pages, from an offset on.
    pub fn copy(&self, offset: usize, into: &mut [u8]) {
        for (page, into) in (offset / PAGE..).zip(into.chunks_exact_mut(PAGE)) {
            into.copy_from_slice(self.0.get(&page).expect("all pages that may be written are in it"));
        }
    }
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
