//! Access to memory that the program named and nobody vouches for.

use linux_abi::PAGE_BYTES;

use crate::ground::assembly::rv_replay_trap_copy;

/// Copies `bytes` from anywhere to anywhere; returns false if a part of it is
/// not mapped as needed.
#[inline]
pub fn copy(to: u64, from: u64, bytes: u64) -> bool {
    // SAFETY: a fault inside the routine ends it early (entry::traps); the
    // caller owns the target or is emulating a store of the program.
    unsafe { rv_replay_trap_copy(to, from, bytes) == 0 }
}

/// All memory that the program can name.
pub struct Program;

impl runtime_logic::Memory for Program {
    #[inline]
    fn read_into(&self, address: u64, into: &mut [u8]) -> bool {
        copy(into.as_mut_ptr() as u64, address, into.len() as u64)
    }

    #[inline]
    fn write_from(&self, address: u64, from: &[u8]) -> bool {
        copy(address, from.as_ptr() as u64, from.len() as u64)
    }
}

/// Copies what can be read of `bytes`, page by page; the rest becomes zeros. The target is ours.
#[cold]
pub fn copy_readable(to: u64, from: u64, bytes: u64) {
    let mut done = 0;
    while done < bytes {
        let at = from + done;
        let part = (PAGE_BYTES - at % PAGE_BYTES).min(bytes - done);
        if !copy(to + done, at, part) {
            // SAFETY: the caller has room for all.
            unsafe { core::ptr::write_bytes((to + done) as *mut u8, 0, part as usize) };
        }
        done += part;
    }
}

/// Calls `each` with the stretches of pages that can be read.
pub fn each_readable(start: u64, end: u64, each: &mut dyn FnMut(u64, u64)) {
    let mut from = start;
    while from < end {
        let mut to = from;
        while to < end && read::<u8>(to).is_some() {
            to += PAGE_BYTES;
        }
        if from < to {
            each(from, to);
        }
        from = to + PAGE_BYTES;
    }
}

/// Reads a plain value of the program's memory. Nothing is at NULL, which calls often name:
/// to try would cost a fault.
#[inline]
pub fn read<T: Copy + Default>(address: u64) -> Option<T> {
    if address == 0 {
        return None;
    }
    let mut value = T::default();
    copy(&raw mut value as u64, address, size_of::<T>() as u64).then_some(value)
}

/// Reads a word of the program's memory.
pub fn read_word(address: u64) -> Option<u64> {
    read(address)
}

/// Writes a plain value into the program's memory.
#[inline]
pub fn write<T: Copy>(address: u64, value: &T) -> bool {
    copy(address, value as *const T as u64, size_of::<T>() as u64)
}

/// Copies a NUL-terminated text, at most `buffer.len()` bytes, without the NUL.
pub fn read_text(address: u64, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer is as long as that.
    unsafe { copy_text(buffer.as_mut_ptr(), address, buffer.len()) }
}

/// The same to where nothing may have been written yet.
///
/// # Safety
///
/// There is room for `most` bytes.
pub unsafe fn copy_text(to: *mut u8, address: u64, most: usize) -> Option<usize> {
    let mut len = 0;
    while len < most {
        // Up to the end of a page at once: behind it nothing may be mapped.
        let at = address.wrapping_add(len as u64);
        let step = (4096 - at % 4096).min((most - len) as u64).min(64) as usize;
        if !copy(to as u64 + len as u64, at, step as u64) {
            return None;
        }
        // SAFETY: it was written just now.
        let part = unsafe { core::slice::from_raw_parts(to.add(len), step) };
        if let Some(end) = part.iter().position(|&byte| byte == 0) {
            return Some(len + end);
        }
        len += step;
    }
    Some(len)
}

/// True if the range touches the runtime's own memory.
pub fn in_region(address: u64, bytes: u64) -> bool {
    use lane_protocol::{REGION_BYTES, REGION_START};
    address < REGION_START + REGION_BYTES && address.saturating_add(bytes) > REGION_START
}

pub fn pages(bytes: u64) -> u64 {
    const PAGE_MASK: u64 = 4095;
    bytes.saturating_add(PAGE_MASK) & !PAGE_MASK
}

/// The pieces of an array of `struct iovec`.
pub fn vector_piece(vectors: u64, count: u64, index: usize) -> Option<(u64, u64)> {
    if index as u64 >= count {
        return None;
    }
    let [base, len] = read::<[u64; 2]>(vectors + index as u64 * 16)?;
    Some((base, len))
}
