//! The fast search for bytes that may be a site.

use crate::image::Region;

/// What the bytes look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Syscall,
    /// `rdtsc`, `rdtscp`, `rdrand`, `rdseed` or `cpuid`.
    Time,
    /// `xsavec`.
    Save,
}

/// Bytes that may be a site, or a part of another instruction, or data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Address of the opcode's 0f; prefixes may stand ahead of it.
    pub address: u64,
    pub pattern: Pattern,
}

/// Every candidate in ascending order of address.
pub(crate) fn find(code: &[Region<'_>]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for region in code {
        for at in memchr::memchr_iter(0x0f, region.bytes) {
            if let Some(pattern) = classify(&region.bytes[at..]) {
                found.push(Candidate { address: region.address + at as u64, pattern });
            }
        }
    }
    found
}

/// The pattern that `bytes`, which begin with 0f, start with.
fn classify(bytes: &[u8]) -> Option<Pattern> {
    match *bytes.get(1)? {
        0x05 => Some(Pattern::Syscall),
        0x31 | 0xa2 => Some(Pattern::Time),
        0x01 => (*bytes.get(2)? == 0xf9).then_some(Pattern::Time),
        // rdrand is /6 and rdseed /7, on a register.
        0xc7 => match *bytes.get(2)? {
            0xf0.. => Some(Pattern::Time),
            // xsavec is /4, on memory.
            operand if operand < 0xc0 && operand >> 3 & 7 == 4 => Some(Pattern::Save),
            _ => None,
        },
        _ => None,
    }
}
