//! The code that compares a store's range with the ranges that are watched, once the
//! table has said that it may touch one.

use crate::assembler::Operand;
use crate::memory::{
    COMPARISON, COMPARISON_END, CONTEXT_COUNTER, CONTEXT_EXIT, CONTEXT_NOTED, CONTEXT_NOTED_COUNTER,
    CONTEXT_NOTED_EXIT, CONTEXT_NOTES_STORES, CONTEXT_STORE_ADDRESS, CONTEXT_STORE_BYTES, CONTEXT_STORE_CODE,
    CONTEXT_STORE_EXIT, CONTEXT_STORE_FLAGS, RAX, RCX, RDX, Writer,
};

/// Writes the comparison for these ranges (start, bytes). It is jumped to with the
/// store's address in rcx; rcx and rdx are kept. A store elsewhere goes on.
/// One that touches a range is noted and goes on, or leaves by its exit.
pub fn write(base: u64, ranges: &[(u64, u64)], leave: u32) {
    let mut code = Writer::new(base, COMPARISON, COMPARISON_END);
    code.keep(RAX);
    // lahf; seto al
    code.bytes(&[0x9f, 0x0f, 0x90, 0xc0]);
    code.store(RAX, CONTEXT_STORE_FLAGS);
    let mut hits = [0u32; crate::engine::WATCHES_MAX];
    for (place, &(start, bytes)) in hits.iter_mut().zip(ranges) {
        // It ends behind the range's start: rax = address + bytes - start - 1.
        code.load(RAX, CONTEXT_STORE_BYTES);
        code.constant(RDX, start.wrapping_add(1).wrapping_neg());
        // add rax, rdx; add rax, rcx
        code.bytes(&[0x48, 0x01, 0xd0, 0x48, 0x01, 0xc8]);
        // mov rdx, bytes - 1; add rdx, [bytes of the store]; cmp rax, rdx
        code.constant(RDX, bytes.saturating_sub(1));
        code.bytes(&[0x48, 0x03, 0x15]);
        code.distance(CONTEXT_STORE_BYTES, 0);
        code.bytes(&[0x48, 0x39, 0xd0]);
        // jb
        code.branch(2, 0);
        *place = code.at - 4;
    }
    go_on(&mut code);
    let hit = code.at;
    for &place in &hits[..ranges.len()] {
        code.set_distance(place, hit);
    }
    code.load(RAX, CONTEXT_NOTES_STORES);
    // test rax, rax; jz
    code.bytes(&[0x48, 0x85, 0xc0]);
    code.branch(4, 0);
    let leaves = code.at - 4;
    code.load(RAX, CONTEXT_STORE_EXIT);
    code.store(RAX, CONTEXT_NOTED_EXIT);
    code.load(RAX, CONTEXT_COUNTER);
    code.store(RAX, CONTEXT_NOTED_COUNTER);
    code.load(RAX, CONTEXT_NOTED);
    code.address(RAX, &Operand { base: Some(RAX), index: None, displacement: 1 });
    code.store(RAX, CONTEXT_NOTED);
    go_on(&mut code);
    let way_out = code.at;
    code.set_distance(leaves, way_out);
    code.store(RCX, CONTEXT_STORE_ADDRESS);
    code.load(RAX, CONTEXT_STORE_EXIT);
    code.store(RAX, CONTEXT_EXIT);
    give_back_all(&mut code);
    code.jump(leave);
    assert!(!code.is_full);
}

fn give_back_all(code: &mut Writer) {
    code.load(RAX, CONTEXT_STORE_FLAGS);
    // add al, 0x7f; sahf
    code.bytes(&[0x04, 0x7f, 0x9e]);
    for register in [RAX, RCX, RDX] {
        code.give_back(register);
    }
}

fn go_on(code: &mut Writer) {
    give_back_all(code);
    // jmp [store_code]
    code.bytes(&[0xff, 0x25]);
    code.distance(CONTEXT_STORE_CODE, 0);
}
