//! A changed environment: how a process that went back allocates from there on.
//!
//! The functions of the process's allocator begin with jumps then, to code in memory of
//! its own, which changes the arguments and goes on with what the function began with.
//! The change is written to a file for the runtime, which makes it where all memory is as
//! it was, and logs it as memory that changed: replay needs neither this nor the
//! allocator.
//!
//! Deliberately absent: another allocator in place of the program's. Blocks that it has
//! made before are freed after, and its own functions know of them.

mod allocator;
mod thunks;

use std::path::Path;

use lane_protocol::{
    CHANGE_BYTES, CHANGE_CODE_BYTES_MAX, CodeChange, Entry, environment, recover_way, unchanged,
};

use allocator::Allocator;

/// Bytes that each allocation gets more.
const PADDING_BYTES: u64 = 256;

/// What is different, as a sentence goes on behind "from here on".
pub fn described(flags: u32) -> Vec<String> {
    let all = [
        (environment::PADDED, format!("allocations have {PADDING_BYTES} bytes more")),
        (environment::ZEROED, "allocations are filled with zeros".to_owned()),
        (environment::KEPT, "what is freed is kept for some time".to_owned()),
    ];
    all.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, text)| text).collect()
}

/// What is different in this way of going on, if it is a changed environment.
pub(crate) fn flags_of(way: u32) -> Option<u32> {
    (way & recover_way::ENVIRONMENT != 0).then_some(way & environment::ALL)
}

/// Why the runtime has not made a change.
pub(crate) fn why_unchanged(reason: u64) -> &'static str {
    const NO_MEMORY: u64 = unchanged::NO_MEMORY as u64;
    const IN_USE: u64 = unchanged::IN_USE as u64;
    match reason {
        NO_MEMORY => "there is no memory for it near its allocator",
        IN_USE => "a thread stands where its allocator's code would be replaced",
        _ => "its allocator's code is other than in its file",
    }
}

/// Plans the change of a process: the file for the runtime, or why it cannot be.
pub(crate) fn plan(pid: i32, flags: u32) -> Result<Vec<u8>, String> {
    let proc = Path::new("/proc").join(pid.to_string());
    let allocator = Allocator::find(&proc)?;
    let mut plan = Vec::new();
    for &place in &allocator.free {
        let made = thunks::assemble(&allocator, place, flags, PADDING_BYTES)
            .map_err(|error| format!("code for its allocator cannot be made: {error}"))?;
        if made.code.len() as u64 > CHANGE_CODE_BYTES_MAX || made.jumps.is_empty() {
            return Err("the beginnings of its allocator's functions cannot be moved".to_owned());
        }
        let mut change = CodeChange {
            place,
            place_bytes: thunks::place_bytes(flags),
            code_bytes: made.code.len() as u64,
            count: made.jumps.len() as u64,
            ..CodeChange::default()
        };
        for (slot, jump) in change.entries.iter_mut().zip(&made.jumps) {
            *slot = entry(jump);
        }
        put(&mut plan, &change, &made.code);
    }
    Ok(plan)
}

fn entry(jump: &thunks::Jump) -> Entry {
    const JUMP_BYTES: u64 = 5;
    let mut entry = Entry { address: jump.from, bytes: jump.covered.len() as u64, ..Entry::default() };
    for (to, from) in entry.was.iter_mut().zip(&jump.covered) {
        *to = *from;
    }
    let distance = jump.to.wrapping_sub(jump.from + JUMP_BYTES) as u32;
    entry.jump[0] = 0xe9;
    entry.jump[1..5].copy_from_slice(&distance.to_le_bytes());
    entry
}

/// Appends it as the runtime reads it.
fn put(bytes: &mut Vec<u8>, change: &CodeChange, code: &[u8]) {
    let end = bytes.len() + CHANGE_BYTES as usize;
    for word in [change.place, change.place_bytes, change.code_bytes, change.count] {
        bytes.extend(word.to_le_bytes());
    }
    for entry in &change.entries {
        bytes.extend(entry.address.to_le_bytes());
        bytes.extend(entry.bytes.to_le_bytes());
        bytes.extend(entry.was);
        bytes.extend(entry.jump);
    }
    bytes.extend(code);
    bytes.resize(end, 0);
}
