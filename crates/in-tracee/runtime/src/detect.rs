//! Calls that nobody described: what the kernel wrote is found, logged, and the
//! event marked.

use events::{DETECTED, Tag};
use syscall_model::Arg;

use crate::block::process;
use crate::dispatch::begin_call;
use crate::kernel::{self, ABORTED};
use crate::memory;

/// Bytes around each pointer-like argument that are compared.
const WINDOW: usize = 2048;

/// Performs and logs a call; `None` if a signal comes first. Not in line: its
/// buffers would be a part of the stack of every call.
#[cold]
#[inline(never)]
pub fn record(number: u64, args: &[u64; 6], model: &[Arg]) -> Option<i64> {
    let mut before = [[0u8; WINDOW]; 6];
    let mut known = [0usize; 6];
    for (index, slot) in before.iter_mut().enumerate() {
        known[index] = snapshot(args[index], slot);
    }
    let result = kernel::call_for_program(number, args);
    if result == ABORTED {
        return None;
    }
    begin_call(number, args, model.len(), result, DETECTED);
    for index in 0..6 {
        let mut after = [0u8; WINDOW];
        let bytes = snapshot(args[index], &mut after).min(known[index]);
        if let Some(first) = (0..bytes).find(|&at| before[index][at] != after[at]) {
            let last = (0..bytes).rfind(|&at| before[index][at] != after[at]).unwrap_or(first);
            let address = args[index] + first as u64;
            process().log.blob(address, (last + 1 - first) as u64, Tag::Memory, address);
        }
    }
    process().log.end();
    Some(result)
}

fn snapshot(address: u64, into: &mut [u8; WINDOW]) -> usize {
    if address < 0x1000 {
        return 0;
    }
    let mut done = 0;
    while done < WINDOW {
        let at = address.wrapping_add(done as u64);
        let step = (4096 - at % 4096).min((WINDOW - done) as u64);
        if !memory::copy(into[done..].as_mut_ptr() as u64, at, step) {
            break;
        }
        done += step as usize;
    }
    done
}
