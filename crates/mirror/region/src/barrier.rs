//! The barrier as functions: for stores that compiled code does not mirror by itself.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, compiler_fence};

use crate::layout::{PAGE, is_in_window, marks_of};
use crate::protocol;
use crate::sections::{self, CONTROL};

/// Stores a word to the region and to its mirror: in place, as compiled code does
/// (docs/adr/0099-plain-stores-are-mirrored-in-place.md).
///
/// # Safety
/// The address is that of an aligned word in the open region, which nobody else uses now: no signal handler of this thread either.
#[inline]
pub unsafe fn put(address: usize, value: u64) {
    debug_assert!(is_in_window(address) && address.is_multiple_of(8));
    // SAFETY: the word is ours to write, as the caller says; its mirror and its page's mark are mapped as long as it is.
    let (own, mark) = unsafe { (&*(address as *const AtomicU64), &*(marks_of(address) as *const AtomicU8)) };
    own.store(value, Relaxed);
    compiler_fence(SeqCst);
    let mut offset = CONTROL.offset.load(Relaxed);
    if offset == 0 {
        mark.store(1, Relaxed);
        compiler_fence(SeqCst);
        // Frozen: looked at once more, as the mirror may have been thawed, and the marks taken, before this one.
        offset = CONTROL.offset.load(Relaxed);
        if offset == 0 {
            return;
        }
    }
    // SAFETY: as above.
    unsafe { (*((address + offset) as *const AtomicU64)).store(value, Relaxed) };
    compiler_fence(SeqCst);
    if mark.load(Relaxed) == 0 {
        mark.store(1, Relaxed);
    }
}

/// Mirrors what was just stored, as far as it is in the region.
///
/// # Safety
/// The bytes are mapped, and no other thread stores to them meanwhile.
pub unsafe fn wrote(address: usize, count: usize) {
    if count == 0 || !is_in_window(address) {
        return;
    }
    if count <= sections::SHORT_BYTES_MAX {
        // SAFETY: so few bytes of the region.
        unsafe { sections::copy_in_place(address, count) };
        return;
    }
    let (mut at, end) = (address, address + count);
    while at < end {
        let piece = (PAGE - at % PAGE).min(end - at);
        // SAFETY: the piece is in one page of the region.
        unsafe { sections::copy_in_place(at, piece) };
        at += piece;
    }
}

/// What is done to a value in one step. The numbers are those of the C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    Exchange = 0,
    Add = 1,
    Subtract = 2,
    And = 3,
    Nand = 4,
    Or = 5,
    Xor = 6,
    Max = 7,
    Min = 8,
    UnsignedMax = 9,
    UnsignedMin = 10,
    FloatAdd = 11,
    FloatSubtract = 12,
    FloatMax = 13,
    FloatMin = 14,
    IncrementWrapped = 15,
    DecrementWrapped = 16,
}

impl Operation {
    const ALL: [Operation; 17] = [
        Operation::Exchange,
        Operation::Add,
        Operation::Subtract,
        Operation::And,
        Operation::Nand,
        Operation::Or,
        Operation::Xor,
        Operation::Max,
        Operation::Min,
        Operation::UnsignedMax,
        Operation::UnsignedMin,
        Operation::FloatAdd,
        Operation::FloatSubtract,
        Operation::FloatMax,
        Operation::FloatMin,
        Operation::IncrementWrapped,
        Operation::DecrementWrapped,
    ];

    /// The operation of a number.
    pub fn of(number: u32) -> Option<Operation> {
        Operation::ALL.get(number as usize).copied()
    }

    fn apply(self, size: usize, old: u64, operand: u64) -> u64 {
        let shift = 64 - 8 * size as u32;
        let signed = |value: u64| (value << shift) as i64 >> shift;
        let unsigned = |value: u64| value << shift >> shift;
        match self {
            Operation::Exchange => operand,
            Operation::Add => old.wrapping_add(operand),
            Operation::Subtract => old.wrapping_sub(operand),
            Operation::And => old & operand,
            Operation::Nand => !(old & operand),
            Operation::Or => old | operand,
            Operation::Xor => old ^ operand,
            Operation::Max => signed(old).max(signed(operand)) as u64,
            Operation::Min => signed(old).min(signed(operand)) as u64,
            Operation::UnsignedMax => unsigned(old).max(unsigned(operand)),
            Operation::UnsignedMin => unsigned(old).min(unsigned(operand)),
            Operation::FloatAdd => float(size, old, operand, |a, b| a + b, |a, b| a + b),
            Operation::FloatSubtract => float(size, old, operand, |a, b| a - b, |a, b| a - b),
            Operation::FloatMax => float(size, old, operand, f32::max, f64::max),
            Operation::FloatMin => float(size, old, operand, f32::min, f64::min),
            Operation::IncrementWrapped if unsigned(old) >= unsigned(operand) => 0,
            Operation::IncrementWrapped => old.wrapping_add(1),
            Operation::DecrementWrapped if unsigned(old) == 0 || unsigned(old) > unsigned(operand) => operand,
            Operation::DecrementWrapped => old.wrapping_sub(1),
        }
    }
}

fn float(
    size: usize,
    old: u64,
    operand: u64,
    single: impl Fn(f32, f32) -> f32,
    double: impl Fn(f64, f64) -> f64,
) -> u64 {
    match size {
        4 => u64::from(single(f32::from_bits(old as u32), f32::from_bits(operand as u32)).to_bits()),
        _ => double(f64::from_bits(old), f64::from_bits(operand)).to_bits(),
    }
}

/// Changes a value of the region in one step, there and in the mirror; returns the old one.
///
/// # Safety
/// The address is in the open region, aligned to the size, which is 1, 2, 4 or 8.
pub unsafe fn modify(address: usize, size: usize, operation: Operation, operand: u64) -> u64 {
    let mut old = protocol::load(address, size);
    loop {
        let new = operation.apply(size, old, operand);
        // SAFETY: as the caller says.
        let found = unsafe { protocol::compare_exchange(address, size, old, new) };
        if found == old {
            return old;
        }
        old = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MIRROR_DISTANCE;

    /// Every length, also across pages: the bytes that were written, and none beside them.
    #[test]
    fn what_was_written_is_copied_and_nothing_else() {
        const ROOM: usize = 4 * PAGE;
        let region = crate::RegionOfTest::with_block(ROOM);
        let block = region.block;
        // SAFETY: the block and its mirror are mapped, and this thread is their only user.
        let (own, mirror) = unsafe {
            let bytes = |at: usize| std::slice::from_raw_parts_mut(at as *mut u8, ROOM);
            (bytes(block), bytes(block + MIRROR_DISTANCE))
        };
        let lengths = (0..100).chain((500..530).step_by(3)).chain([4095, 4096, 4097, 9000]);
        for (length, start) in lengths.flat_map(|length| [(length, 5), (length, PAGE - 7), (length, 64)]) {
            mirror.fill(0xee);
            own.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index % 251) as u8);
            // SAFETY: within the block.
            unsafe { wrote(block + start, length) };
            let wrong = (0..ROOM).find(|&at| {
                let is_copied = (start..start + length).contains(&at);
                mirror[at] != if is_copied { own[at] } else { 0xee }
            });
            assert_eq!(wrong, None, "{length} bytes from {start} on");
        }
    }

    #[test]
    fn operations_know_sizes_and_signs() {
        assert_eq!(Operation::Max.apply(1, 0xff, 1), 1);
        assert_eq!(Operation::UnsignedMax.apply(1, 0xff, 1), 0xff);
        assert_eq!(Operation::Min.apply(2, 0x8000, 7) as u16, 0x8000);
        let sum = Operation::FloatAdd.apply(4, u64::from(1.5f32.to_bits()), u64::from(2.0f32.to_bits()));
        assert_eq!(sum, u64::from(3.5f32.to_bits()));
        assert_eq!(Operation::DecrementWrapped.apply(4, 0, 9), 9);
        for (number, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, number);
        }
    }
}
