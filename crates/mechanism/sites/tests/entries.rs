//! What jumps at the beginnings of functions cover.

mod elf;

use elf::{CODE_AT, Symbol, file};
use iced_x86::code_asm::*;
use sites::{Beginning, NotMovable, Symbols, beginnings, find_functions};

/// The beginning of the only function, with this code.
fn check(write: &dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> Result<Beginning, NotMovable> {
    let mut asm = CodeAssembler::new(64).expect("64 bits are supported");
    write(&mut asm).expect("the test's code can be written");
    let code = asm.assemble(CODE_AT).expect("the test's code assembles");
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    beginnings(&file(&code, &[0; 8], &[function]), &[CODE_AT]).remove(0)
}

#[test]
fn whole_instructions_are_covered_behind_a_landing_place() {
    let plain = check(&|a| {
        a.push(rbp)?;
        a.mov(rbp, rsp)?;
        a.push(rbx)?;
        a.sub(rsp, 8)?;
        a.ret()
    });
    let covered = [0x55, 0x48, 0x89, 0xe5, 0x53].to_vec();
    assert_eq!(plain, Ok(Beginning { start: CODE_AT, offset: CODE_AT, covered: covered.clone() }));
    let marked = check(&|a| {
        a.endbr64()?;
        a.push(rbp)?;
        a.mov(rbp, rsp)?;
        a.push(rbx)?;
        a.ret()
    });
    assert_eq!(marked, Ok(Beginning { start: CODE_AT + 4, offset: CODE_AT + 4, covered }));
}

#[test]
fn a_branch_may_be_covered_but_nothing_behind_one_that_always_goes() {
    let branch = check(&|a| {
        let mut end = a.create_label();
        a.test(rdi, rdi)?;
        a.je(end)?;
        a.mov(eax, edi)?;
        a.set_label(&mut end)?;
        a.ret()
    });
    assert_eq!(branch.map(|at| at.covered.len()), Ok(5));
    let elsewhere = check(&|a| a.jmp(CODE_AT + 0x500));
    assert_eq!(elsewhere.map(|at| at.covered.len()), Ok(5));
    let short = check(&|a| {
        let mut next = a.create_label();
        a.jmp(next)?;
        a.nop()?;
        a.set_label(&mut next)?;
        a.mov(eax, 1)?;
        a.ret()
    });
    assert_eq!(short, Err(NotMovable));
}

#[test]
fn what_calls_ends_or_is_entered_is_left_alone() {
    assert_eq!(check(&|a| a.ret()), Err(NotMovable));
    assert_eq!(check(&|a| a.call(CODE_AT + 0x500)), Err(NotMovable));
    let entered = |inside: bool| {
        check(&|a| {
            let mut back = a.create_label();
            a.push(rbp)?;
            if inside {
                a.set_label(&mut back)?;
            }
            a.mov(rbp, rsp)?;
            a.push(rbx)?;
            if !inside {
                a.set_label(&mut back)?;
            }
            a.dec(rdi)?;
            a.jne(back)?;
            a.ret()
        })
    };
    assert_eq!(entered(false).map(|at| at.covered.len()), Ok(5));
    assert_eq!(entered(true), Err(NotMovable));
}

#[test]
fn other_content_has_no_functions() {
    for symbols in [Symbols::Exported, Symbols::AllIfStatic] {
        assert_eq!(find_functions(b"#!/bin/sh\n", &["malloc", "free"], symbols), [None, None]);
    }
    assert_eq!(beginnings(b"", &[0, 1]), [Err(NotMovable), Err(NotMovable)]);
}
