//! Where the stub of a probe lies.
//!
//! A jump over several short instructions leaves bytes of its distance where some of
//! them began. Whatever may jump there has to trap, so the distance is chosen: see
//! `probe::enter_copy`, which lets the program go on at the instruction's copy.

use linux_abi::general as nr;

use crate::decode::{Cover, Form, JUMP_BYTES};
use crate::{islands, kernel};

const MAPPED_BYTES: u64 = 8192;
/// First bytes of instructions that the processor refuses in 64-bit mode, or to
/// programs, the nearest distances first: as the highest byte, 0xfb is 80 MiB below.
const REFUSED: [u8; 24] = [
    0xfb, 0xfa, 0x06, 0x07, 0xf4, 0x0e, 0xef, 0xee, 0xed, 0xec, 0x16, 0x17, 0xea, 0x1e, 0x1f, 0x27, 0x2f,
    0xd6, 0xce, 0xcc, 0x37, 0x3f, 0x9a, 0x82,
];
const LOWEST_ADDRESS: u64 = 0x1_0000;
const HIGHEST_ADDRESS: u64 = 0x7fff_f000_0000;
/// Attempts to map memory for a stub.
const ATTEMPTS_MAX: u32 = 2000;

/// Finds memory for the stub: its address, and that of memory mapped for it, or 0. While a probe is planted the program makes no call, so
/// that nothing else will want the place.
pub fn find(address: u64, cover: &Cover) -> Option<(u64, u64)> {
    if cover.count == 1
        && let Some(stub) = islands::probe_space(address)
    {
        return Some((stub, 0));
    }
    let begins = |offset: u64| cover.pieces[..cover.count].iter().any(|piece| piece.offset == offset);
    let mut attempts = 0;
    let near: [u8; 4] = [0xff, 0x00, 0xfe, 0x01];
    for &fourth in if begins(4) { &REFUSED[..] } else { &near[..] } {
        for step in 0..256usize {
            let third = match (begins(3), REFUSED.get(step)) {
                (true, Some(&byte)) => byte,
                (true, None) => break,
                (false, _) => (step * 37) as u8,
            };
            let second = if begins(2) { REFUSED[0] } else { 0 };
            let first = if begins(1) { REFUSED[0] } else { 0 };
            let distance = i32::from_le_bytes([first, second, third, fourth]);
            let stub = address.wrapping_add(JUMP_BYTES).wrapping_add(distance as i64 as u64);
            if !(LOWEST_ADDRESS..HIGHEST_ADDRESS).contains(&stub) || !reaches(address, stub, cover) {
                continue;
            }
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return None;
            }
            let start = stub & !4095;
            if map_at(start) {
                return Some((stub, start));
            }
        }
    }
    None
}

/// True if what the covered instructions refer to is in reach of the stub.
fn reaches(address: u64, stub: u64, cover: &Cover) -> bool {
    const NEAR_BYTES: i64 = i32::MAX as i64 - 8192;
    let is_near = |target: u64| (target.wrapping_sub(stub) as i64).abs() < NEAR_BYTES;
    cover.pieces[..cover.count].iter().all(|piece| match piece.form {
        Form::Copied(None) => true,
        Form::Copied(Some(place)) => {
            let mut field = [0u8; 4];
            field.copy_from_slice(&cover.code[piece.offset as usize + place..][..4]);
            let distance = i64::from(i32::from_le_bytes(field)) as u64;
            is_near((address + piece.offset + piece.bytes).wrapping_add(distance))
        }
        Form::Jump(target) | Form::Conditional(_, target) | Form::Counting(target) => is_near(target),
    })
}

fn map_at(start: u64) -> bool {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
    let protection = nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC;
    let result = kernel::mmap(start, MAPPED_BYTES, protection, flags, -1, 0);
    if result as u64 == start {
        return true;
    }
    if !kernel::failed(result) {
        kernel::munmap(result as u64, MAPPED_BYTES);
    }
    false
}

/// Unmaps what was mapped.
pub fn give_back(start: u64) {
    kernel::munmap(start, MAPPED_BYTES);
}
