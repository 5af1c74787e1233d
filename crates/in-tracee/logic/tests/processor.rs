//! Flags and branches as the processor computes them: the same instructions run here.

mod support;

use std::arch::asm;

use proptest::prelude::*;
use runtime_logic::accesses::{self, Access, Change};
use runtime_logic::branches::Branch;
use runtime_logic::decode::ARITHMETIC_FLAGS;
use runtime_logic::registers::Registers;
use support::Stretch;

const CODE: u64 = 0x40_0000;
const DATA: u64 = CODE + 64;

/// What the processor leaves in memory and flags: the instruction, with one operand in memory at `rdi`
/// and another in `rsi`, which begins with these flags.
macro_rules! by_processor {
    ($text:literal, $before:expr, $operand:expr, $flags:expr) => {{
        let mut memory: u64 = $before;
        let mut flags: u64 = $flags;
        // SAFETY: the instruction touches the word that rdi points to; flags are set and read by stack.
        unsafe {
            asm!("push {flags}", "popfq", $text, "pushfq", "pop {flags}", flags = inout(reg) flags,
                in("rdi") &raw mut memory, in("rsi") $operand);
        }
        (memory, flags & ARITHMETIC_FLAGS)
    }};
}

/// Each operation in each size: the instruction's code, its text, and whether it leaves the adjust flag open.
macro_rules! operations {
    ($before:expr, $operand:expr, $flags:expr; $($code:expr, $text:literal;)*) => {
        vec![$((&$code[..], $text, by_processor!($text, $before, $operand, $flags))),*]
    };
}

/// The same in two steps, as a preempted thread makes it.
fn in_two_steps(code: &[u8], before: u64, operand: u64, flags: u64) -> (u64, u64, u64) {
    let mut bytes = code.to_vec();
    bytes.resize((DATA - CODE) as usize, 0x90);
    bytes.extend(before.to_le_bytes());
    let memory = Stretch::of(CODE, bytes);
    let mut registers = Registers { rip: CODE, rdi: DATA, rsi: operand, flags, ..Registers::default() };
    let change = Change::begin(&memory, &registers).expect("it reads, changes and writes");
    assert_eq!(memory.bytes.borrow()[64..], before.to_le_bytes(), "it has only read yet");
    assert!(change.end(&memory, &mut registers));
    let after = u64::from_le_bytes(memory.bytes.borrow()[64..].try_into().expect("a word"));
    (after, registers.flags & ARITHMETIC_FLAGS, registers.rip - CODE)
}

/// Numbers at whose edges flags change, and any others.
fn numbers() -> impl Strategy<Value = u64> {
    let edges =
        [0, 1, 0xf, 0x10, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    prop_oneof![
        prop::sample::select(edges.to_vec()),
        prop::sample::select(vec![u64::MAX, i64::MAX as u64, 1 << 63]),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_change_in_two_steps_is_what_the_processor_does(before in numbers(), operand in numbers(), bits in any::<u64>()) {
        let flags = 0x202 | bits & ARITHMETIC_FLAGS;
        let all = operations!(before, operand, flags;
            [0x40, 0x00, 0x37], "add byte ptr [rdi], sil";
            [0x66, 0x01, 0x37], "add word ptr [rdi], si";
            [0x01, 0x37], "add dword ptr [rdi], esi";
            [0x48, 0x01, 0x37], "add qword ptr [rdi], rsi";
            [0x40, 0x28, 0x37], "sub byte ptr [rdi], sil";
            [0x66, 0x29, 0x37], "sub word ptr [rdi], si";
            [0x29, 0x37], "sub dword ptr [rdi], esi";
            [0x48, 0x29, 0x37], "sub qword ptr [rdi], rsi";
            [0x40, 0x20, 0x37], "and byte ptr [rdi], sil";
            [0x48, 0x21, 0x37], "and qword ptr [rdi], rsi";
            [0x66, 0x09, 0x37], "or word ptr [rdi], si";
            [0x48, 0x09, 0x37], "or qword ptr [rdi], rsi";
            [0x31, 0x37], "xor dword ptr [rdi], esi";
            [0x48, 0x31, 0x37], "xor qword ptr [rdi], rsi";
            [0xfe, 0x07], "inc byte ptr [rdi]";
            [0xff, 0x07], "inc dword ptr [rdi]";
            [0x48, 0xff, 0x07], "inc qword ptr [rdi]";
            [0xfe, 0x0f], "dec byte ptr [rdi]";
            [0x48, 0xff, 0x0f], "dec qword ptr [rdi]";
            [0x48, 0x83, 0x07, 0x80], "add qword ptr [rdi], -0x80";
            [0x81, 0x2f, 0x78, 0x56, 0x34, 0x12], "sub dword ptr [rdi], 0x12345678";
            [0x66, 0x83, 0x07, 0xff], "add word ptr [rdi], -1";
        );
        for (code, text, expected) in all {
            let (after, flags, bytes) = in_two_steps(code, before, operand, flags);
            prop_assert_eq!((after, flags), expected, "{}", text);
            prop_assert_eq!(bytes, code.len() as u64);
        }
    }

    #[test]
    fn branches_are_taken_as_the_processor_takes_them(bits in any::<u64>()) {
        let flags = 0x202 | bits & ARITHMETIC_FLAGS;
        macro_rules! is_set {
            ($($instruction:literal)*) => {[$({
                let set: u8;
                // SAFETY: a register is set; the flags go over the stack.
                unsafe { asm!("push {flags}", "popfq", concat!($instruction, " {set}"), flags = in(reg) flags, set = out(reg_byte) set) };
                set != 0
            }),*]};
        }
        let taken = is_set!("seto" "setno" "setb" "setae" "sete" "setne" "setbe" "seta" "sets" "setns" "setp" "setnp" "setl" "setge" "setle" "setg");
        for (condition, expected) in taken.into_iter().enumerate() {
            let branch = Branch::of(0x1000, [0x70 | condition as u8, 0x80]).expect("a branch");
            prop_assert_eq!(branch.is_taken(flags), expected, "{:#x}", condition);
            prop_assert_eq!(branch.target, 0x1002 - 0x80);
            let opposite = branch.not_taken().expect("it has a condition");
            prop_assert_eq!(Branch::of(0x1000, [opposite, 0]).map(|branch| branch.is_taken(flags)), Some(!expected));
        }
    }
}

#[test]
fn a_jump_is_always_taken() {
    let jump = Branch::of(0x1000, [0xeb, 0x7f]).expect("a branch");
    assert!(jump.is_taken(0) && jump.is_taken(u64::MAX) && jump.not_taken().is_none());
    assert_eq!(jump.target, 0x1081);
    assert!(
        Branch::of(0, [0x6f, 0]).is_none()
            && Branch::of(0, [0x80, 0]).is_none()
            && Branch::of(0, [0xe9, 0]).is_none()
    );
    assert_eq!(Branch::of(u64::MAX, [0xeb, 0]).map(|branch| branch.target), Some(1));
}

#[test]
fn accesses_are_what_another_thread_may_see() {
    let of = |code: &[u8]| {
        let mut bytes = code.to_vec();
        bytes.resize(16, 0x90);
        accesses::look(&Stretch::of(CODE, bytes), CODE).map(|(access, next)| (access, next - CODE))
    };
    let is =
        |code: &[u8], access: Access| assert!(of(code) == Some((access, code.len() as u64)), "{code:x?}");
    is(&[0x48, 0x8b, 0x07], Access::Load);
    is(&[0x48, 0x89, 0x37], Access::Store);
    is(&[0x48, 0x01, 0x37], Access::Change);
    is(&[0xf0, 0x48, 0x01, 0x37], Access::Atomic);
    is(&[0x48, 0x87, 0x37], Access::Atomic);
    is(&[0x48, 0x39, 0x37], Access::Load);
    is(&[0x48, 0x8b, 0x44, 0x24, 0x08], Access::Nothing);
    is(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], Access::Nothing);
    is(&[0x48, 0x8d, 0x07], Access::Nothing);
    is(&[0x74, 0x00], Access::Nothing);
    is(&[0xe8, 0, 0, 0, 0], Access::Call);
    is(&[0xff, 0x17], Access::Call);
    is(&[0x0f, 0x05], Access::NoPlace);
    is(&[0xf3, 0xa4], Access::NoPlace);
    is(&[0xcc], Access::NoPlace);
    is(&[0x9c], Access::NoPlace);
    is(&[0x0f, 0x31], Access::NoPlace);
    is(&[0xf3, 0x90], Access::NoPlace);
    assert!(of(&[0x06]).is_none(), "no instruction of 64 bits");
}

#[test]
fn places_are_weighed_and_counted() {
    // A load; one that does nothing behind it; a change; a store; one that does nothing; a return.
    let code = [0x48, 0x8b, 0x07, 0x90, 0x48, 0x01, 0x37, 0x48, 0x89, 0x37, 0x90, 0x90, 0xc3];
    let memory = Stretch::of(CODE, [code.as_slice(), &[0x90; 16]].concat());
    let end = CODE + code.len() as u64;
    let places = |left: &mut usize| {
        let mut found = Vec::new();
        assert!(
            accesses::each_place(&memory, CODE, end, left, &mut |at, weight| found.push((at - CODE, weight)))
        );
        found
    };
    let mut left = 100;
    assert_eq!(places(&mut left), [(0, 1), (3, 1), (4, 3), (7, 2), (10, 1)]);
    assert_eq!(left, 100 - 7);
    assert_eq!(places(&mut 2), [(0, 1), (3, 1)]);
    // With the floating-point unit none may be taken.
    let floats = Stretch::of(CODE, [[0x48, 0x8b, 0x07, 0xd9, 0xe8].as_slice(), &[0x90; 16]].concat());
    assert!(!accesses::each_place(&floats, CODE, CODE + 5, &mut 100, &mut |_, _| {}));
}

#[test]
fn memory_that_is_gone_is_not_changed() {
    let memory = Stretch::of(CODE, [[0x48, 0x01, 0x37].as_slice(), &[0x90; 32]].concat());
    let registers = Registers { rip: CODE, rdi: 0x1000, rsp: 0x80_0000, ..Registers::default() };
    assert!(Change::begin(&memory, &registers).is_none());
    assert_eq!(accesses::shared_address(&memory, &registers), Some(0x1000));
    // What is near the stack pointer is the thread's own.
    let own = Registers { rsp: 0x1100, ..registers };
    assert_eq!(accesses::shared_address(&memory, &own), None);
}
