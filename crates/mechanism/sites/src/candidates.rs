//! The fast search for bytes that may be a site.

use memchr::memmem;

use crate::idle_loops::{self, End};
use crate::image::Region;

/// What the bytes look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Syscall,
    /// `rdtsc`, `rdtscp`, `rdrand`, `rdseed`, `rdpid` or `cpuid`.
    Time,
    /// `xsavec`.
    Save,
    /// `wrgsbase`.
    SetsGs,
    /// `pause`.
    Pause,
    /// Nops of a byte each, as many as a jump and a `pause` take.
    Nops,
    /// The branch at the end of a loop that waits, though it does not say so.
    IdleLoop(End),
}

impl Pattern {
    /// True for what a thread does that waits for another one in a loop.
    pub fn is_waiting(self) -> bool {
        matches!(self, Pattern::Pause | Pattern::Nops | Pattern::IdleLoop(_))
    }
}

/// Bytes that may be a site, or a part of another instruction, or data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Address of the opcode's 0f; prefixes may stand ahead of it. Of `pause`; of the last two
    /// of the nops. Of the branch.
    pub address: u64,
    pub pattern: Pattern,
}

/// Every candidate in ascending order of address; of those that set gs the first of each region.
pub(crate) fn find(code: &[Region<'_>]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for region in code {
        let mut sets_gs = false;
        for at in memchr::memchr_iter(0x0f, region.bytes) {
            let pattern = classify(&region.bytes[at..])
                .or_else(|| (!sets_gs && is_setting_gs(region.bytes, at)).then_some(Pattern::SetsGs));
            if let Some(pattern) = pattern {
                sets_gs |= pattern == Pattern::SetsGs;
                found.push(Candidate { address: region.address + at as u64, pattern });
            }
        }
        let waits = |at: usize, pattern| Candidate { address: region.address + at as u64, pattern };
        found.extend(memmem::find_iter(region.bytes, PAUSE).map(|at| waits(at, Pattern::Pause)));
        found.extend(runs_of_nops(region.bytes).map(|at| waits(at, Pattern::Nops)));
        let branches = idle_loops::ends(region).into_iter();
        found.extend(branches.map(|(address, end)| Candidate { address, pattern: Pattern::IdleLoop(end) }));
    }
    found.sort_by_key(|candidate| candidate.address);
    found
}

const PAUSE: &[u8] = &[0xf3, 0x90];
const NOP: u8 = 0x90;
/// A jump and what stands for a `pause`.
const NOPS: [u8; 7] = [NOP; 7];

/// Where the last two nops of each long enough run are. Assemblers pad with longer ones.
fn runs_of_nops(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memmem::find_iter(bytes, &NOPS).filter_map(|at| {
        let is_start = at == 0 || bytes[at - 1] != NOP && bytes[at - 1] != 0xf3;
        let count = bytes[at..].iter().take_while(|byte| **byte == NOP).count();
        is_start.then_some(at + count - 2)
    })
}

/// The pattern that `bytes`, which begin with 0f, start with.
fn classify(bytes: &[u8]) -> Option<Pattern> {
    match *bytes.get(1)? {
        0x05 => Some(Pattern::Syscall),
        0x31 | 0xa2 => Some(Pattern::Time),
        0x01 => (*bytes.get(2)? == 0xf9).then_some(Pattern::Time),
        // rdrand is /6, rdseed and (behind f3) rdpid are /7, on a register.
        0xc7 => match *bytes.get(2)? {
            0xf0.. => Some(Pattern::Time),
            // xsavec is /4, on memory.
            operand if operand < 0xc0 && operand >> 3 & 7 == 4 => Some(Pattern::Save),
            _ => None,
        },
        _ => None,
    }
}

/// `wrgsbase` is 0f ae /3 on a register, behind f3 and perhaps a REX prefix.
fn is_setting_gs(bytes: &[u8], at: usize) -> bool {
    let is_one = bytes.get(at + 1) == Some(&0xae) && matches!(bytes.get(at + 2), Some(0xd8..=0xdf));
    is_one && matches!(bytes[..at], [.., 0xf3] | [.., 0xf3, 0x40..=0x4f])
}
