//! Indirect jumps to addresses that are not canonical, which fault where the jump is.

mod support;

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use support::Bench;
use translator::Stop;

const WILD: u64 = 0x4141_4141_4141_4141;

/// A loop that jumps to a function's end and back, and in its fourth round to a wild address.
fn write(
    code: u64,
    jump: fn(&mut CodeAssembler, AsmRegister64) -> Result<(), IcedError>,
) -> Result<(u64, u64), IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let (mut round, mut tame, mut target) = (asm.create_label(), asm.create_label(), asm.create_label());
    asm.mov(ecx, 6)?;
    asm.set_label(&mut round)?;
    asm.lea(rax, qword_ptr(target))?;
    asm.cmp(ecx, 3)?;
    asm.jne(tame)?;
    asm.mov(rax, WILD)?;
    asm.set_label(&mut tame)?;
    asm.lea(rdx, qword_ptr(rcx + 7))?;
    jump(&mut asm, rax)?;
    asm.hlt()?;
    asm.set_label(&mut target)?;
    asm.mov(rsp, r12)?;
    asm.dec(ecx)?;
    asm.jne(round)?;
    asm.nop()?;
    let bytes = asm.assemble(code)?;
    // SAFETY: the bench's code is as long, and its own.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), code as *mut u8, bytes.len()) };
    Ok((code, code + bytes.len() as u64 - 1))
}

fn check(jump: fn(&mut CodeAssembler, AsmRegister64) -> Result<(), IcedError>, unstable: bool) {
    let mut bench = Bench::new();
    let (start, end) = write(bench.code, jump).expect("it assembles");
    let mut first = bench.start(start, end);
    let stack = first.general[4];
    first.general[12] = stack;
    let steps = bench.reference(first, end, 200);
    assert_eq!(bench.fault(), libc::SIGSEGV);
    let all = steps.len() - 1;
    bench.host.is_unstable = unstable;
    for limit in [1 << 40, 7] {
        let mut state = bench.start(start, end);
        state.general[12] = stack;
        let mut executed = 0;
        let stop = loop {
            let outcome = bench.run(&mut state, limit);
            executed += outcome.executed;
            if outcome.stop != Stop::Limit {
                break outcome.stop;
            }
        };
        assert_eq!((stop, executed), (Stop::Instruction, all as u64));
        assert!(bench.step_of(&state) == steps[all], "{:x?} is not {:x?}", state, steps[all].state);
    }
}

#[test]
fn a_wild_jump_is_not_made() {
    check(|asm, target| asm.jmp(target), false);
    check(|asm, target| asm.jmp(target), true);
}

#[test]
fn a_wild_call_is_not_made() {
    check(|asm, target| asm.call(target), false);
    check(|asm, target| asm.call(target), true);
}

#[test]
fn a_wild_return_is_not_made() {
    let with = |asm: &mut CodeAssembler, target: AsmRegister64| -> Result<(), IcedError> {
        asm.push(target)?;
        asm.ret()
    };
    check(with, false);
    check(with, true);
    let dropping = |asm: &mut CodeAssembler, target: AsmRegister64| -> Result<(), IcedError> {
        asm.push(target)?;
        asm.ret_1(16)
    };
    check(dropping, false);
}
