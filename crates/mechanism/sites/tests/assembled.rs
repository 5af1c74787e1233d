//! Recipes for code that is written for the purpose.

mod elf;

use elf::{CODE_AT, DATA_AT, Symbol, file};
use iced_x86::code_asm::*;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use lane_protocol::{Recipe, site_kind};
use sites::{Analysis, analyse, from_bytes, to_bytes};

const NO_DATA: [u8; 8] = [0; 8];

/// The code as one function, with what it calls `data` and further symbols.
fn check(asm: &mut CodeAssembler, data: &[u8], symbols: &[Symbol]) -> Analysis {
    let code = asm.assemble(CODE_AT).expect("the test's code assembles");
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    let symbols: Vec<Symbol> = symbols.iter().copied().chain([function]).collect();
    analyse(&file(&code, data, &symbols))
}

fn assembler() -> CodeAssembler {
    CodeAssembler::new(64).expect("64 bits are supported")
}

/// The data's address, as an operand relative to the instruction pointer.
fn data_operand() -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RIP, DATA_AT as i64)
}

/// `lea` of the data's address.
fn lea_data(register: Register) -> Result<Instruction, IcedError> {
    Instruction::with2(Code::Lea_r64_m, register, data_operand())
}

fn one(analysis: &Analysis) -> &Recipe {
    assert_eq!(analysis.recipes.len(), 1, "{analysis:?}");
    assert!(!analysis.unresolved_time_sites);
    &analysis.recipes[0]
}

fn cover(recipe: &Recipe) -> (u64, u8, u8) {
    (u64::from(recipe.site_offset) - CODE_AT, recipe.before, recipe.after)
}

#[test]
fn takes_the_move_of_the_number() -> Result<(), IcedError> {
    let mut a = assembler();
    a.endbr64()?;
    a.mov(eax, 39)?;
    a.syscall()?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    assert_eq!(cover(one(&analysis)), (9, 5, 0));
    assert_eq!(analysis.recipes[0].code[..5], [0xb8, 39, 0, 0, 0]);
    Ok(())
}

#[test]
fn takes_two_short_instructions_unless_something_jumps_between() -> Result<(), IcedError> {
    for is_target in [false, true] {
        let mut a = assembler();
        let mut between = a.create_label();
        a.test(rdi, rdi)?;
        a.je(between)?;
        a.mov(rdi, rsi)?;
        if is_target {
            a.set_label(&mut between)?;
        }
        a.mov(eax, edx)?;
        a.syscall()?;
        if !is_target {
            a.set_label(&mut between)?;
        }
        a.ret()?;
        let analysis = check(&mut a, &NO_DATA, &[]);
        let expected = if is_target { (10, 0, 0) } else { (10, 5, 0) };
        assert_eq!(cover(one(&analysis)), expected);
    }
    Ok(())
}

#[test]
fn a_loop_finds_the_jump_in_each_round() -> Result<(), IcedError> {
    for is_loop in [false, true] {
        let mut a = assembler();
        let mut again = a.create_label();
        a.endbr64()?;
        a.mov(edi, 0x1234_5678)?;
        a.set_label(&mut again)?;
        a.lfence()?;
        a.rdtsc()?;
        a.shl(rdx, 32)?;
        if is_loop {
            a.jne(again)?;
        }
        a.ret()?;
        let recipe = *one(&check(&mut a, &NO_DATA, &[]));
        if is_loop {
            assert_eq!((recipe.before, recipe.after), (0, 4));
        } else {
            assert!(recipe.before > 5);
        }
    }
    Ok(())
}

/// A function whose only way is forward: `syscall; cmp rax, -4096`.
fn forward(asm: &mut CodeAssembler, behind: Option<&mut CodeLabel>) -> Result<(), IcedError> {
    asm.endbr64()?;
    asm.syscall()?;
    if let Some(label) = behind {
        asm.set_label(label)?;
    }
    asm.cmp(rax, -4096)?;
    asm.ret()
}

#[test]
fn covers_forward() -> Result<(), IcedError> {
    let mut a = assembler();
    forward(&mut a, None)?;
    assert_eq!(cover(one(&check(&mut a, &NO_DATA, &[]))), (4, 0, 6));
    Ok(())
}

#[test]
fn refuses_what_a_branch_enters() -> Result<(), IcedError> {
    for distance in [0, 100, 1000] {
        let mut a = assembler();
        let mut behind = a.create_label();
        forward(&mut a, Some(&mut behind))?;
        for _ in 0..distance {
            a.int3()?;
        }
        a.je(behind)?;
        assert_eq!(cover(one(&check(&mut a, &NO_DATA, &[]))), (4, 0, 0));
    }
    Ok(())
}

#[test]
fn refuses_what_undescribed_code_enters() -> Result<(), IcedError> {
    for distance in [1, 100, 1000] {
        let mut a = assembler();
        let mut behind = a.create_label();
        forward(&mut a, Some(&mut behind))?;
        for _ in 0..distance {
            a.int3()?;
        }
        a.je(behind)?;
        let code = a.assemble(CODE_AT)?;
        let function = Symbol::Function { start: CODE_AT, end: CODE_AT + 13 };
        let analysis = analyse(&file(&code, &NO_DATA, &[function]));
        assert_eq!(cover(one(&analysis)), (4, 0, 0));
    }
    Ok(())
}

#[test]
fn refuses_what_data_and_symbols_name() -> Result<(), IcedError> {
    let behind = CODE_AT + 6;
    let mut a = assembler();
    forward(&mut a, None)?;
    let analysis = check(&mut a, &behind.to_le_bytes(), &[]);
    assert_eq!(cover(one(&analysis)), (4, 0, 0));

    let mut a = assembler();
    forward(&mut a, None)?;
    let analysis = check(&mut a, &NO_DATA, &[Symbol::Label(behind)]);
    assert_eq!(cover(one(&analysis)), (4, 0, 0));
    Ok(())
}

#[test]
fn refuses_what_a_jump_table_names() -> Result<(), IcedError> {
    let mut a = assembler();
    forward(&mut a, None)?;
    a.add_instruction(lea_data(Register::RAX)?)?;
    a.movsxd(rcx, dword_ptr(rax + rcx * 4))?;
    a.add(rax, rcx)?;
    a.jmp(rax)?;
    let offset = |target: u64| (target as i64 - DATA_AT as i64) as i32;
    let entries = [offset(CODE_AT), offset(CODE_AT + 6)];
    let data: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    assert_eq!(cover(one(&check(&mut a, &data, &[]))), (4, 0, 0));
    Ok(())
}

#[test]
fn never_covers_branches_other_sites_or_ends_of_functions() -> Result<(), IcedError> {
    let mut a = assembler();
    a.endbr64()?;
    a.syscall()?;
    a.ret()?;
    a.mov(eax, ebx)?;
    assert_eq!(cover(one(&check(&mut a, &NO_DATA, &[]))), (4, 0, 0));

    let mut a = assembler();
    a.endbr64()?;
    a.syscall()?;
    a.mov(esi, edi)?;
    a.syscall()?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    assert_eq!(analysis.recipes.iter().map(cover).collect::<Vec<_>>(), [(4, 0, 0), (8, 0, 0)]);
    Ok(())
}

#[test]
fn leaves_signal_returns_alone() -> Result<(), IcedError> {
    let mut a = assembler();
    a.db(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0])?;
    a.syscall()?;
    assert_eq!(cover(one(&check(&mut a, &NO_DATA, &[]))).1, 0);
    let mut a = assembler();
    a.mov(eax, 15)?;
    a.syscall()?;
    assert_eq!(cover(one(&check(&mut a, &NO_DATA, &[]))).1, 0);
    Ok(())
}

#[test]
fn marks_displacements_relative_to_the_instruction_pointer() -> Result<(), IcedError> {
    let mut a = assembler();
    a.endbr64()?;
    a.add_instruction(lea_data(Register::RDI)?)?;
    a.syscall()?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    let recipe = one(&analysis);
    assert_eq!(cover(recipe), (11, 7, 0));
    assert_eq!((recipe.fixup_before, recipe.fixup_before_end, recipe.fixup_after), (3, 7, 0xff));

    // Forward, with an immediate behind the displacement.
    let mut a = assembler();
    a.endbr64()?;
    a.syscall()?;
    a.add_instruction(Instruction::with2(Code::Cmp_rm32_imm8, data_operand(), 7)?)?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    let recipe = one(&analysis);
    assert_eq!(cover(recipe), (4, 0, 7));
    assert_eq!((recipe.fixup_before, recipe.fixup_after, recipe.fixup_after_end), (0xff, 2, 7));
    Ok(())
}

#[test]
fn lists_every_kind_with_its_length() -> Result<(), IcedError> {
    let mut a = assembler();
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.rdtscp()?;
    a.shl(rdx, 32)?;
    a.rdrand(r9)?;
    a.cmovae(eax, ecx)?;
    a.rdseed(ax)?;
    a.cmovae(eax, ecx)?;
    a.rdpid(rcx)?;
    a.mov(eax, ebx)?;
    a.cpuid()?;
    a.mov(eax, ebx)?;
    a.add(eax, ecx)?;
    a.xsavec(ptr(rsp + 0x40))?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    let found: Vec<(u8, u8)> =
        analysis.recipes.iter().map(|recipe| (recipe.kind, recipe.site_bytes)).collect();
    assert_eq!(
        found,
        [
            (site_kind::RDTSC, 2),
            (site_kind::RDTSCP, 3),
            (site_kind::RDRAND, 4),
            (site_kind::RDSEED, 4),
            (site_kind::RDPID, 4),
            (site_kind::CPUID, 2),
            (site_kind::XSAVEC, 5)
        ]
    );
    // One that is as long as a jump needs nothing else to be covered.
    let covers = |recipe: &Recipe| recipe.before + recipe.after > 0 || recipe.site_bytes >= 5;
    assert!(analysis.recipes.iter().all(covers));
    Ok(())
}

#[test]
fn names_the_first_that_sets_gs() -> Result<(), IcedError> {
    let mut a = assembler();
    a.rdgsbase(rax)?;
    a.wrgsbase(r9)?;
    a.wrgsbase(rdi)?;
    a.wrfsbase(rdi)?;
    a.ret()?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    let recipe = one(&analysis);
    assert_eq!((recipe.kind, recipe.before, recipe.after), (site_kind::SETS_GS, 0, 0));
    assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
    let mut a = assembler();
    a.rdgsbase(rax)?;
    a.wrfsbase(rdi)?;
    a.mov(r9, ptr(rdi))?;
    a.ret()?;
    assert_eq!(check(&mut a, &NO_DATA, &[]), Analysis::default());
    Ok(())
}

#[test]
fn says_that_the_vsyscall_page_is_named() -> Result<(), IcedError> {
    type Build = fn(&mut CodeAssembler) -> Result<(), IcedError>;
    let names: [Build; 4] = [
        |a| a.mov(r14, 0xffff_ffff_ff60_0400u64 as i64),
        |a| a.mov(qword_ptr(rbp - 16), 0xff60_0000u32 as i32),
        |a| a.mov(qword_ptr(rsp + 1000), 0xff60_0800u32 as i32),
        |a| {
            a.add_instruction(Instruction::with2(
                Code::Mov_r64_imm64,
                Register::R9,
                0xffff_ffff_ff60_0000u64,
            )?)
        },
    ];
    let others: [Build; 3] = [
        |a| a.mov(r14, 0xffff_ffff_ff60_0c00u64 as i64),
        |a| a.mov(dword_ptr(rbp - 16), 0xff60_0000u32 as i32),
        |a| a.add(eax, 0xff60_0000u32 as i32),
    ];
    for (build, expected) in names.iter().map(|build| (build, 1)).chain(others.iter().map(|build| (build, 0)))
    {
        let mut a = assembler();
        build(&mut a)?;
        a.ret()?;
        let analysis = check(&mut a, &NO_DATA, &[]);
        assert!(analysis.recipes.iter().all(|recipe| recipe.kind == site_kind::VSYSCALL));
        assert_eq!(analysis.recipes.len(), expected);
        assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
    }
    let mut a = assembler();
    a.ret()?;
    let word = 0xffff_ffff_ff60_0400u64.to_le_bytes();
    assert_eq!(one(&check(&mut a, &word, &[])).kind, site_kind::VSYSCALL);
    Ok(())
}

#[test]
fn tells_immediates_from_instructions() -> Result<(), IcedError> {
    let mut a = assembler();
    a.mov(ecx, 0x310f_050fu32 as i32)?;
    a.mov(edx, 0xa20f)?;
    a.ret()?;
    assert_eq!(check(&mut a, &NO_DATA, &[]), Analysis::default());
    Ok(())
}

#[test]
fn says_where_it_cannot_tell() {
    // Every starting point keeps its own step: bytes that are two-byte
    // instructions whichever way they are read.
    let mut code = vec![0; 300];
    code.extend([0x0f, 0xa2, 0xc3, 0xcc]);
    code.resize(400, 0xcc);
    let analysis = analyse(&file(&code, &NO_DATA, &[]));
    let [place] = analysis.recipes[..] else { panic!("one place: {:?}", analysis.recipes) };
    assert_eq!((place.kind, cover(&place)), (site_kind::UNSURE, (300, 0, 0)));
    assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
    // A symbol settles it.
    let object = Symbol::Object { start: CODE_AT, end: CODE_AT + 400 };
    assert_eq!(analyse(&file(&code, &NO_DATA, &[object])), Analysis::default());
}

#[test]
fn does_not_trust_code_among_tables() -> Result<(), IcedError> {
    let mut a = assembler();
    a.cpuid()?;
    a.xor(eax, eax)?;
    a.inc(ecx)?;
    a.ret()?;
    let sure = check(&mut a, &NO_DATA, &[]);
    assert_eq!(sure.recipes.iter().map(|site| site.kind).collect::<Vec<_>>(), [site_kind::CPUID]);
    let code = a.assemble(CODE_AT)?;
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    let among_tables = analyse(&file(&code, b"libHSbase-4.15.1.0.so\0", &[function]));
    assert_eq!(among_tables.recipes.iter().map(|site| site.kind).collect::<Vec<_>>(), [site_kind::UNSURE]);
    Ok(())
}

#[test]
fn does_without_symbols_and_sections() -> Result<(), IcedError> {
    let mut a = assembler();
    a.mov(eax, 1)?;
    a.add_instruction(lea_data(Register::RSI)?)?;
    a.syscall()?;
    a.xor(edi, edi)?;
    a.mov(al, 60)?;
    a.syscall()?;
    // A program's message, which must not be taken for code to cover.
    a.db(b"hello, world\n")?;
    let code = a.assemble(CODE_AT)?;
    let analysis = analyse(&file(&code, &NO_DATA, &[]));
    let covers: Vec<_> = analysis.recipes.iter().map(cover).collect();
    assert_eq!(covers, [(12, 7, 0), (18, 0, 0)]);
    Ok(())
}

#[test]
fn other_content_has_no_sites() {
    assert_eq!(analyse(b""), Analysis::default());
    assert_eq!(analyse(b"#!/bin/sh\n"), Analysis::default());
    let whole = file(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05], &NO_DATA, &[Symbol::Label(CODE_AT)]);
    for len in 0..whole.len() {
        analyse(&whole[..len]);
    }
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let analysis = analyse(&damaged);
            assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
        }
    }
}

#[test]
fn bytes_survive_and_damage_is_refused() -> Result<(), IcedError> {
    let mut a = assembler();
    forward(&mut a, None)?;
    let analysis = check(&mut a, &NO_DATA, &[]);
    let bytes = to_bytes(&analysis);
    assert_eq!(from_bytes(&bytes), Some(analysis));
    for len in 0..bytes.len() {
        assert_eq!(from_bytes(&bytes[..len]), None);
    }
    for at in 0..16 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x80;
        assert_eq!(from_bytes(&damaged), None);
    }
    // A count of bytes ahead that the code does not hold.
    let mut damaged = bytes;
    damaged[16 + 6] = 200;
    assert_eq!(from_bytes(&damaged), None);
    Ok(())
}
