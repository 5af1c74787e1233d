//! What is known of copies that were made before a store to watched memory stopped them.

mod support;

use iced_x86::code_asm::*;
use support::Bench;
use translator::{Goal, Stop};

/// Five rounds that store the counter; the load of the fourth is from a wild address.
fn write(code: u64) -> Result<u64, iced_x86::IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let mut round = asm.create_label();
    asm.mov(ecx, 5)?;
    asm.xor(esi, esi)?;
    asm.mov(r8, 0x7000_0000_0000_0000u64)?;
    asm.set_label(&mut round)?;
    asm.mov(qword_ptr(rbx + 100), rcx)?;
    asm.mov(rax, qword_ptr(rbx + rsi))?;
    asm.cmp(ecx, 3)?;
    asm.cmove(rsi, r8)?;
    asm.dec(ecx)?;
    asm.jne(round)?;
    asm.ret()?;
    asm.hlt()?;
    let bytes = asm.assemble(code)?;
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), code as *mut u8, bytes.len()) };
    Ok(code + bytes.len() as u64 - 1)
}

#[test]
fn a_fault_in_an_older_copy_is_the_programs() {
    let mut bench = Bench::new();
    let end = write(bench.code).expect("it assembles");
    let start = bench.start(bench.code, end);
    let steps = bench.reference(start, end, 100);
    assert_eq!(bench.fault(), libc::SIGSEGV);
    let all = steps.len() - 1;
    assert!(bench.engine.set_watches(&[(bench.data + 100, 8)]));
    let mut state = bench.start(start.rip, end);
    let (mut executed, mut stores) = (0, 0);
    let stop = loop {
        let goal = Goal {
            limit: 1 << 40,
            passes_breakpoint: false,
            passes_store: stores > 0,
            notes_stores: false,
            fs_base: support::fs_base(),
        };
        let outcome = bench.run_to(&mut state, &goal);
        executed += outcome.executed;
        match outcome.stop {
            Stop::Store { .. } => stores += 1,
            other => break other,
        }
    };
    assert_eq!((stop, stores, executed), (Stop::Fault, 4, all as u64));
    assert!(bench.step_of(&state) == steps[all], "{:x?} is not {:x?}", state, steps[all].state);
}
