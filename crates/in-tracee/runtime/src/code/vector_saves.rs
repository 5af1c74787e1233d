//! Which vector state there is, and `xsavec` in the program's code: the loader saves the
//! vector registers on the stack where a function is called for the first time.
//!
//! It leaves out the parts that the processor takes to be in their initial state, and says so in
//! the header. A part that holds what it began with may count as in use or not: each time that
//! the kernel saves and loads the registers, because of a signal or of another thread, it may
//! change from one to the other. The loader's stack is summed at preemptions, so all parts are
//! written here, and the header names those that hold anything.
//!
//! It does not name them all: what is loaded is in use from then on, even if it is zero. Upper
//! halves in use cost some 100 ns each time that code goes from AVX to SSE and back, and nobody
//! clears them.

use core::arch::asm;

use crate::code::processor_words::processor_words;
use crate::ground::frame::{self, RealFrame};
use crate::ground::registers::Registers;
use crate::ground::vector_state::{self, VectorState, vector_state};
use crate::ground::{decode, memory};
use iced_x86::{Decoder, DecoderOptions};

const HEADER: u64 = 512;
const PARTS_START: u64 = 576;

/// OSPKE in ecx of cpuid's leaf 7.
const KEYS_IN_USE: u32 = 1 << 4;

/// Finds out which vector state there is. From what the session knows of the processor: in a
/// virtual machine cpuid leaves it each time, for some microseconds.
pub fn measure() {
    let [_, _, ecx, _] = processor_words(&[1, 0]);
    let mut parts = [(0, 0); 8];
    if ecx & 1 << 27 == 0 {
        // No xsave: the legacy area alone.
        vector_state::set(VectorState { bytes: 512, frame_bytes: 512, features: 0, parts });
        return;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE is set, so xgetbv works.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    // AMX tiles (17, 18) are not in a frame unless the program asked for them.
    let features = (u64::from(high) << 32 | u64::from(low)) & 0xff;
    let mut bytes: u32 = 576;
    for feature in 2..8 {
        if features & 1 << feature != 0 {
            let [size, offset, _, _] = processor_words(&[0xd, feature as u64]);
            parts[feature as usize] = (offset, size);
            bytes = bytes.max(size + offset);
        }
    }
    let own_bytes = bytes;
    // The kernel's frames have room for the rights of protection keys, which the program does
    // not get to set.
    if processor_words(&[7, 0])[2] & KEYS_IN_USE != 0 {
        let [size, offset, _, _] = processor_words(&[0xd, 9]);
        bytes = bytes.max(size + offset);
    }
    vector_state::set(VectorState { bytes: own_bytes, frame_bytes: bytes, features, parts });
    assert!(bytes as usize <= frame::VECTOR_BYTES_MAX);
}

/// Does such an instruction of the program's, at which it trapped. False: it would fault.
pub fn save_of_trap(code: &[u8], context: &RealFrame) -> bool {
    let registers = context.registers();
    let Some((address, wanted)) = room_for(code, &registers) else { return false };
    frame::load_vectors_from(context.vector_memory().0);
    save_all(address, wanted);
    true
}

/// The same where a trampoline led here, with the program's own vector registers, which the runtime
/// does not use.
pub fn save(code: &[u8], registers: &Registers) -> bool {
    let Some((address, wanted)) = room_for(code, registers) else { return false };
    save_all(address, wanted);
    true
}

/// Where it writes to, and which parts. `None`: it would fault.
fn room_for(code: &[u8], registers: &Registers) -> Option<(u64, u64)> {
    let address = operand(code, registers)?;
    let wanted = (registers.rax & 0xffff_ffff | registers.rdx << 32) & vector_state().features;
    let bytes = PARTS_START + parts_of(wanted).map(|(_, length)| length).sum::<u64>();
    (address % 64 == 0 && can_be_written(address, address + bytes)).then_some((address, wanted))
}

fn can_be_written(start: u64, end: u64) -> bool {
    let mut at = start;
    while at < end {
        let byte = memory::read::<u8>(at);
        if !byte.is_some_and(|byte| memory::write(at, &byte)) {
            return false;
        }
        at = (at | 4095) + 1;
    }
    true
}

/// The parts behind the header in a compacted area, in their order: number and length.
fn parts_of(wanted: u64) -> impl Iterator<Item = (usize, u64)> {
    let parts = &vector_state().parts;
    (2..parts.len()).filter(move |part| wanted & 1 << part != 0).map(|part| (part, u64::from(parts[part].1)))
}

/// Saves what the processor has now.
fn save_all(address: u64, wanted: u64) {
    let (low, high) = (wanted as u32, (wanted >> 32) as u32);
    // SAFETY: the area was looked at, and is the program's own.
    unsafe {
        asm!("xsavec64 [{}]", in(reg) address, in("eax") low, in("edx") high, options(nostack));
    }
    let Some(written) = memory::read_word(address + HEADER) else { return };
    let left_out = wanted & !written;
    if left_out & 1 != 0 {
        clear(address, 24);
        clear(address + 32, 128);
        memory::write(address, &0x37fu16);
    }
    if left_out & 2 != 0 {
        clear(address + 160, 256);
        memory::write(address + 24, &0x1f80u32);
    }
    // The mask of MXCSR is written with it only, and read by nobody.
    memory::write(address + 28, &0u32);
    let mut named = wanted;
    let mut at = address + PARTS_START;
    for (part, length) in parts_of(wanted) {
        if left_out & 1 << part != 0 {
            clear(at, length);
            named &= !(1 << part);
        } else if is_clear(at, length) {
            named &= !(1 << part);
        }
        at += length;
    }
    memory::write(address + HEADER, &named);
}

fn is_clear(address: u64, bytes: u64) -> bool {
    (address..address + bytes).step_by(8).all(|at| memory::read_word(at) == Some(0))
}

fn clear(address: u64, bytes: u64) {
    for at in (address..address + bytes).step_by(8) {
        memory::write(at, &0u64);
    }
}

/// Address of the instruction's operand in memory.
fn operand(code: &[u8], registers: &Registers) -> Option<u64> {
    // As the dynamic loader has it, in every program: the decoder's tables take a tenth of a
    // millisecond and a hundred pages.
    let plain = code.strip_prefix(&[0x48]).unwrap_or(code);
    match *plain {
        [0x0f, 0xc7, 0x64, 0x24, near] => return Some(registers.rsp.wrapping_add(near as i8 as u64)),
        [0x0f, 0xc7, 0xa4, 0x24, a, b, c, d] => {
            let far = i32::from_le_bytes([a, b, c, d]);
            return Some(registers.rsp.wrapping_add(far as u64));
        }
        _ => {}
    }
    let mut decoder = Decoder::with_ip(64, code, registers.rip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    instruction.virtual_address(0, 0, |register, _, _| decode::value_of(register, registers))
}
