//! What cpuid says to the program: each leaf is asked for once in a session.

use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::Ordering;

use lane_protocol::cpuid_state::{CLAIMED as CPUID_CLAIMED, FREE as CPUID_FREE, READY as CPUID_READY};

use crate::code::clocks;
use crate::state::block::session;

/// What cpuid says to the program: asked once in a session, since cpuid costs an
/// exit of the virtual machine, and two more for letting it through.
pub fn processor_words(inputs: &[u64; 2]) -> [u32; 4] {
    let leaf = inputs[0] as u32;
    // Leaves that do not look at ecx; others are told apart by it.
    let subleaf =
        if matches!(leaf, 0..=3 | 5 | 6 | 0x8000_0000..=0x8000_0008) { 0 } else { inputs[1] as u32 };
    let words = if differs_between_processors(leaf) { None } else { find_words(leaf, subleaf) };
    words.unwrap_or_else(|| {
        let found = clocks::with_cpuid(|| __cpuid_count(leaf, subleaf));
        let mut words = [found.eax, found.ebx, found.ecx, found.edx];
        hide(inputs, &mut words);
        publish_words(leaf, subleaf, words);
        words
    })
}

/// Core types, hypervisors' own leaves, AMD's topology.
pub fn differs_between_processors(leaf: u32) -> bool {
    matches!(leaf, 0x1a | 0x4000_0000..=0x4fff_ffff | 0x8000_001e)
}

pub fn find_words(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    for entry in &session().processor {
        match entry.state.load(Ordering::Acquire) {
            CPUID_READY => {
                let key = (entry.leaf.load(Ordering::Relaxed), entry.subleaf.load(Ordering::Relaxed));
                if key == (leaf, subleaf) {
                    return Some([0, 1, 2, 3].map(|index: usize| entry.words[index].load(Ordering::Relaxed)));
                }
            }
            CPUID_FREE => return None,
            _ => {}
        }
    }
    None
}

/// Hides what could not be recorded in generated code (randomness, transactions, the processor)
/// and what depends on the processor that the thread happens to run on.
pub fn hide(inputs: &[u64; 2], words: &mut [u32; 4]) {
    const RDRAND: u32 = 1 << 30;
    const RDSEED: u32 = 1 << 18;
    const HLE_RTM: u32 = 1 << 4 | 1 << 11;
    const RDPID: u32 = 1 << 22;
    match inputs {
        [1, _] => {
            words[1] &= 0x00ff_ffff;
            words[2] &= !RDRAND;
        }
        [7, 0] => {
            words[1] &= !(RDSEED | HLE_RTM);
            words[2] &= !RDPID;
        }
        [0xb | 0x1f, _] => words[3] = 0,
        _ => {}
    }
}

/// Keeps an answer for the next who asks; two who ask at once keep it twice.
pub fn publish_words(leaf: u32, subleaf: u32, words: [u32; 4]) {
    if differs_between_processors(leaf) {
        return;
    }
    let claimed = session().processor.iter().find(|entry| {
        let claim =
            entry.state.compare_exchange(CPUID_FREE, CPUID_CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        claim.is_ok()
    });
    if let Some(entry) = claimed {
        entry.leaf.store(leaf, Ordering::Relaxed);
        entry.subleaf.store(subleaf, Ordering::Relaxed);
        for (place, word) in entry.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        entry.state.store(CPUID_READY, Ordering::Release);
    }
}
