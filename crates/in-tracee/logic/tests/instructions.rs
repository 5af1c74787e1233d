//! What is read out of instructions that are assembled here.

mod support;

use iced_x86::code_asm::*;
use proptest::prelude::*;
use runtime_logic::decode::{self, LOOPNE};
use runtime_logic::registers::{Registers, TRAP_FLAG};
use support::Stretch;

const START: u64 = 0x40_0000;

/// The code that `write` assembles at [`START`], with zeros behind it.
fn code(write: impl FnOnce(&mut CodeAssembler)) -> Stretch {
    let mut assembler = CodeAssembler::new(64).expect("64 bits are known");
    write(&mut assembler);
    let mut bytes = assembler.assemble(START).expect("the test's code is right");
    bytes.resize(bytes.len() + 64, 0xcc);
    Stretch::of(START, bytes)
}

#[test]
fn a_jump_covers_whole_instructions() {
    let memory = code(|a| {
        a.push(rbx).expect("it is one");
        a.mov(rbx, rdi).expect("it is one");
        a.add(eax, 0x1234_5678).expect("it is one");
    });
    let run = decode::run(&memory, START).expect("all can go on from a copy");
    assert_eq!((run.count, run.bytes), (3, 9));
    let places: Vec<(u8, u8)> =
        run.instructions[..3].iter().map(|moved| (moved.offset, moved.bytes)).collect();
    assert_eq!(places, [(0, 1), (1, 3), (4, 5)]);
    assert_eq!(decode::behind(&memory, START + 1), Some(START + 4));
}

#[test]
fn what_asks_the_kernel_or_shows_the_place_is_not_moved() {
    let is_moved = |bytes: &[u8]| {
        let mut all = bytes.to_vec();
        all.extend([0x90; 32]);
        decode::run(&Stretch::of(START, all), START).is_some()
    };
    let stays: [&[u8]; 11] = [
        &[0x0f, 0x05],                   // syscall
        &[0xe8, 0, 0, 0, 0],             // call
        &[0xf3, 0xa4],                   // rep movsb
        &[0x9c],                         // pushf
        &[0x66, 0x9d],                   // popf
        &[0xcc],                         // int3
        &[0xd9, 0x30],                   // fnstenv [rax]
        &[0xdd, 0x30],                   // fnsave [rax]
        &[0x67, 0x8b, 0x05, 0, 0, 0, 0], // mov eax, [eip]
        &[0xff, 0x10],                   // call [rax]
        &[0x48, 0xcf],                   // iretq
    ];
    for bytes in stays {
        assert!(!is_moved(bytes), "{bytes:x?}");
    }
    let goes: [&[u8]; 6] = [
        &[0xa4],                   // movsb
        &[0x8b, 0x05, 1, 0, 0, 0], // mov eax, [rip + 1]
        &[0xff, 0xe0],             // jmp rax
        &[0xc3],                   // ret
        &[0x0f, 0x84, 1, 0, 0, 0], // je
        &[0xe2, 0xfe],             // loop
    ];
    for bytes in goes {
        assert!(is_moved(bytes), "{bytes:x?}");
    }
}

#[test]
fn moved_instructions_say_what_is_relative_in_them() {
    let of = |bytes: &[u8]| {
        let mut all = bytes.to_vec();
        all.resize(16, 0);
        decode::movable(&Stretch::of(START, all), START, 0).expect("it can be moved")
    };
    assert_eq!(of(&[0x8b, 0x05, 1, 0, 0, 0]).displacement, Some(2));
    // An immediate behind the displacement.
    assert_eq!(of(&[0x81, 0x3d, 1, 0, 0, 0, 2, 0, 0, 0]).displacement, Some(2));
    assert_eq!(of(&[0x74, 0x10]).jump, Some((START + 0x12, Some(4))));
    assert_eq!(of(&[0x0f, 0x8f, 0xfa, 0xff, 0xff, 0xff]).jump, Some((START, Some(15))));
    assert_eq!(of(&[0xeb, 0xfe]).jump, Some((START, None)));
    assert_eq!(of(&[0xe0, 0]).jump, Some((START + 2, Some(LOOPNE))));
    assert_eq!(of(&[0xe3, 0]).jump, Some((START + 2, Some(LOOPNE + 3))));
    assert!(of(&[0xc3]).is_indirect && of(&[0xc2, 8, 0]).is_indirect && of(&[0xff, 0x20]).is_indirect);
}

#[test]
fn behind_a_jump_only_padding_is_covered() {
    let run = |bytes: &[u8]| {
        let mut all = bytes.to_vec();
        all.extend([0x53; 16]);
        decode::run(&Stretch::of(START, all), START)
    };
    assert_eq!(run(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc]).map(|run| (run.count, run.bytes)), Some((1, 5)));
    assert_eq!(run(&[0xc3, 0x0f, 0x1f, 0x40, 0]).map(|run| run.count), Some(1));
    assert!(run(&[0xc3, 0xcc, 0xcc, 0xcc]).is_none(), "the next function begins in it");
    assert!(run(&[0xeb, 0, 0x53]).is_none());
    // A jump that may not be taken goes on behind it.
    assert_eq!(run(&[0x74, 0, 0x53, 0x53, 0x53]).map(|run| run.count), Some(4));
}

#[test]
fn a_run_with_calls_ends_with_one() {
    let memory = Stretch::of(START, [[0x53; 5].as_slice(), &[0xe8, 0x10, 0, 0, 0], &[0x90; 16]].concat());
    assert!(decode::run(&memory, START + 1).is_none());
    let run = decode::run_with_calls(&memory, START + 1, 5).expect("a call may be the last");
    let last = run.instructions[run.count - 1];
    assert!(last.is_call);
    assert_eq!(last.jump, Some((START + 10 + 0x10, None)));
}

#[test]
fn code_at_the_end_of_what_is_mapped_is_read() {
    // The last byte of a page; nothing behind it.
    let memory = Stretch::of(START, [[0x90; 4095].as_slice(), &[0x53]].concat());
    assert_eq!(decode::behind(&memory, START + 4095), Some(START + 4096));
    assert!(decode::behind(&memory, START + 4096).is_none());
    // An instruction that would go on there is one with zeros behind it.
    let memory = Stretch::of(START, [[0x90; 4095].as_slice(), &[0xb8]].concat());
    assert_eq!(decode::behind(&memory, START + 4095), Some(START + 4100));
}

#[test]
fn flags_are_dead_before_what_sets_all_of_them() {
    let of = |bytes: &[u8], faults: bool| {
        let mut all = bytes.to_vec();
        all.extend([0xcc; 32]);
        decode::sets_flags_first(&Stretch::of(START, all), START, faults)
    };
    assert!(of(&[0x48, 0x89, 0xc3, 0x85, 0xc0], false), "mov, test");
    assert!(!of(&[0x74, 0], false), "a branch looks at them");
    assert!(of(&[0xff, 0xc0, 0x85, 0xc0], false), "inc keeps the carry, test does not");
    assert!(!of(&[0x11, 0xc0], false), "adc looks at the carry");
    assert!(of(&[0x8b, 0x00, 0x85, 0xc0], false), "a load that does not fault");
    assert!(!of(&[0x8b, 0x00, 0x85, 0xc0], true), "a fault would show them");
    assert!(of(&[0x8d, 0x00, 0x85, 0xc0], true), "lea touches nothing");
    assert!(of(&[0x8b, 0x45, 0x08, 0x85, 0xc0], true), "the stack is there");
    assert!(!of(&[0xf7, 0xf1, 0x85, 0xc0], true), "a division may fault");
    assert!(of(&[0xeb, 0x01, 0x9c, 0x85, 0xc0], false), "a jump is followed");
    assert!(!of(&[0x9c, 0x85, 0xc0], false), "pushf shows them");
    assert!(!of(&[0xc3], false), "who knows where that leads");
}

#[test]
fn constants_under_a_jump_are_found() {
    let covers = |bytes: &[u8]| {
        let mut all = bytes.to_vec();
        all.extend([0x53; 16]);
        decode::covers_constant(&Stretch::of(START, all), START)
    };
    assert!(covers(&[0xb8, 1, 2, 3, 4]));
    assert!(covers(&[0x53, 0xe9, 1, 2, 3, 4]), "where a jump leads to");
    assert!(covers(&[0x0f, 0x1f, 0x40, 0]), "a long nop");
    assert!(!covers(&[0x83, 0xc0, 1]), "a short constant");
    assert!(!covers(&[0x53, 0x53, 0x53, 0x53, 0x53, 0xb8, 1, 2, 3, 4]), "behind the jump");
    assert!(!covers(&[0x53, 0x53, 0x53, 0x53, 0xb8, 1, 2, 3, 4]), "its opcode only");
    assert!(!covers(&[0x0f, 0x84, 1, 2, 3, 4]), "a condition goes on from a copy");
}

#[test]
fn float_instructions_are_known_behind_prefixes() {
    let uses = |bytes: &[u8]| decode::uses_float_unit(&Stretch::of(START, bytes), START);
    let padded = |bytes: &[u8]| uses(&[bytes, &[0x90; 16]].concat());
    assert!(padded(&[0xd9, 0xe8]) && padded(&[0x66, 0xdd, 0x30]) && padded(&[0x48, 0xdf, 0xe0]));
    assert!(!padded(&[0x0f, 0x58, 0xc0]) && !padded(&[0xd7]) && !padded(&[0xe0, 0xd8]));
}

#[test]
fn memory_that_is_named_ahead_is_handed_over() {
    let memory = code(|a| {
        let mut top = a.create_label();
        let mut out = a.create_label();
        a.set_label(&mut top).expect("it is new");
        a.mov(rax, qword_ptr(rbx + 8)).expect("it is one");
        a.cmp(rax, rcx).expect("it is one");
        a.je(out).expect("it is one");
        a.inc(dword_ptr(rsi)).expect("it is one");
        a.jmp(top).expect("it is one");
        a.set_label(&mut out).expect("it is new");
        a.mov(byte_ptr(rdi + rdx * 4), al).expect("it is one");
        a.ret().expect("it is one");
    });
    let registers =
        Registers { rip: START, rbx: 0x1000, rsi: 0x2000, rdi: 0x3000, rdx: 4, ..Registers::default() };
    let mut named = Vec::new();
    decode::each_operand_ahead(&memory, &registers, &mut |address| named.push(address));
    assert_eq!(named, [0x1008, 0x2000, 0x3010]);
}

#[test]
fn a_pushed_trap_flag_is_hidden() {
    let memory = Stretch::of(START, [[0x9c; 16].as_slice(), &[0x46, 0x03, 0, 0]].concat());
    decode::hide_trap_flag(&memory, START, START + 16);
    assert_eq!(memory.bytes.borrow()[16..], [0x46, 0x03 & !(TRAP_FLAG >> 8) as u8, 0, 0]);
    // Nothing is pushed by another one, before a pushf or not.
    for others in [[0x90; 2], [0x9d, 0x9c], [0xcc, 0x9c]] {
        let memory = Stretch::of(START, [others.repeat(8).as_slice(), &[0x46, 0x03, 0, 0]].concat());
        decode::hide_trap_flag(&memory, START, START + 16);
        assert_eq!(memory.bytes.borrow()[16..], [0x46, 0x03, 0, 0]);
    }
}

#[test]
fn popped_flags_are_the_programs() {
    for code in [[0x9d, 0x90], [0x66, 0x9d], [0x48, 0x9d]] {
        assert!(decode::pops_flags(&code) && decode::shows_flags(&code));
    }
    assert!(![[0x9c, 0x9d], [0x66, 0x9c], [0x90, 0x9d]].iter().any(|code| decode::pops_flags(code)));
}

proptest! {
    /// Where a jump leads is what the disassembler says, for all that has one.
    #[test]
    fn jumps_lead_where_the_disassembler_says(bytes in prop::collection::vec(any::<u8>(), 16), first in 0..40u8) {
        let mut bytes = bytes;
        match first {
            0..=15 => bytes[0] = 0x70 | first,
            16..=19 => bytes[0] = 0xe0 + first - 16,
            20 => bytes[0] = 0xeb,
            21 => bytes[0] = 0xe9,
            22..=37 => (bytes[0], bytes[1]) = (0x0f, 0x80 + first - 22),
            _ => {}
        }
        let mut decoder = iced_x86::Decoder::with_ip(64, &bytes, START, 0);
        let instruction = decoder.decode();
        let expected = instruction.near_branch_target();
        match decode::jump_target(&bytes, START) {
            Some(target) => prop_assert_eq!(target, expected),
            None => prop_assert!(first >= 38),
        }
    }

    /// No bytes are too strange, and a run covers what it says, one instruction behind the other.
    #[test]
    fn any_bytes_are_a_run_or_none(bytes in prop::collection::vec(any::<u8>(), 1..80)) {
        let memory = Stretch::of(START, bytes);
        decode::covers_constant(&memory, START);
        decode::sets_flags_first(&memory, START, true);
        decode::each_operand_ahead(&memory, &Registers { rip: START, ..Registers::default() }, &mut |_| {});
        if let Some(run) = decode::run(&memory, START) {
            let mut at = 0;
            for moved in &run.instructions[..run.count] {
                prop_assert_eq!(u64::from(moved.offset), at);
                at += u64::from(moved.bytes);
            }
            prop_assert!(at <= run.bytes && run.bytes >= decode::JUMP_BYTES as u64);
            prop_assert!(run.bytes - at < decode::JUMP_BYTES as u64);
        }
    }
}
