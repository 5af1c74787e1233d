//! What single instructions name of memory, for circles that programs compute in.

mod support;

use iced_x86::code_asm::*;
use runtime_logic::circles::{Named, add_named, named};
use runtime_logic::registers::Registers;
use support::Stretch;

const START: u64 = 0x40_0000;

/// The instruction, and what it names with these registers.
fn named_by(write: impl FnOnce(&mut CodeAssembler)) -> Option<Named> {
    let mut assembler = CodeAssembler::new(64).expect("64 bits");
    write(&mut assembler);
    let mut code = assembler.assemble(START).expect("one instruction");
    code.resize(64, 0xcc);
    let registers = Registers { rip: START, rbx: 0x1000, rcx: 2, ..Registers::default() };
    named(&Stretch::of(START, code), &registers, 0x7000)
}

#[test]
fn operands_are_named_with_their_widths() {
    let at = |address, bytes| Some(Named { address, bytes });
    assert_eq!(named_by(|a| a.mov(dword_ptr(rbx + rcx * 8 + 4), eax).expect("mov")), at(0x1014, 4));
    assert_eq!(named_by(|a| a.lock().xadd(qword_ptr(rbx), rax).expect("xadd")), at(0x1000, 8));
    assert_eq!(named_by(|a| a.mov(rax, qword_ptr(16).fs()).expect("mov")), at(0x7010, 8));
    assert_eq!(named_by(|a| a.movups(xmmword_ptr(rbx), xmm0).expect("movups")), at(0x1000, 16));
}

#[test]
fn instructions_without_memory_name_none() {
    assert_eq!(named_by(|a| a.add(rax, rbx).expect("add")), Some(Named::default()));
    assert_eq!(named_by(|a| a.lea(rax, qword_ptr(rbx + 8)).expect("lea")), Some(Named::default()));
}

#[test]
fn what_may_change_more_than_it_names_is_unknown() {
    assert_eq!(named_by(|a| a.rep().stosb().expect("stosb")), None);
    assert_eq!(named_by(|a| a.fxsave64(ptr(rbx)).expect("fxsave")), None);
    assert_eq!(named_by(|a| a.mov(rax, qword_ptr(16).gs()).expect("mov")), None);
}

#[test]
fn sums_tell_contents_and_places_apart() {
    let memory = |word: u64| Stretch::of(START, [word.to_le_bytes(), word.to_le_bytes()].concat());
    let sum = |word, offset| add_named(0, &memory(word), Named { address: START + offset, bytes: 8 });
    assert!(sum(1, 0).is_some());
    assert_eq!(sum(1, 0), sum(1, 0));
    assert_ne!(sum(1, 0), sum(2, 0));
    assert_ne!(sum(1, 0), sum(1, 8));
    assert_eq!(sum(1, 9), None, "the end is not there");
}
