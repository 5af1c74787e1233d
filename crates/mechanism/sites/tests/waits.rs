//! Loops in which a thread waits for another one.

mod elf;

use elf::{CODE_AT, Symbol, file};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use lane_protocol::{Recipe, site_kind};
use sites::{Analysis, Loops, analyse, from_bytes, to_bytes};

/// Offset, length, and what is covered ahead and behind, of the sites in the code.
fn sites_of(asm: &mut CodeAssembler) -> Vec<(u64, u8, u8, u8)> {
    let code = asm.assemble(CODE_AT).expect("the test's code assembles");
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    let analysis = analyse(&file(&code, &[0; 8], &[function]));
    assert!(analysis.recipes.iter().all(|recipe| site_kind::is_spin(recipe.kind)), "{analysis:?}");
    let found = |recipe: &lane_protocol::Recipe| {
        (u64::from(recipe.site_offset) - CODE_AT, recipe.site_bytes, recipe.before, recipe.after)
    };
    let sites = analysis.recipes.iter().map(found).collect();
    assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
    sites
}

/// What a loop does behind its jump is the end of a function.
fn looping(
    body: impl Fn(&mut CodeAssembler, &mut CodeLabel) -> Result<(), IcedError>,
) -> Result<Vec<(u64, u8, u8, u8)>, IcedError> {
    Ok(sites_of(&mut loop_of(body)?))
}

/// The kinds of the sites in a loop.
fn kinds_of(
    body: impl Fn(&mut CodeAssembler, &mut CodeLabel) -> Result<(), IcedError>,
) -> Result<Vec<u8>, IcedError> {
    let code = loop_of(body)?.assemble(CODE_AT)?;
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    let analysis = analyse(&file(&code, &[0; 8], &[function]));
    Ok(analysis.recipes.iter().map(|recipe| recipe.kind).collect())
}

fn loop_of(
    body: impl Fn(&mut CodeAssembler, &mut CodeLabel) -> Result<(), IcedError>,
) -> Result<CodeAssembler, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut again = a.create_label();
    a.endbr64()?;
    body(&mut a, &mut again)?;
    a.ret()?;
    Ok(a)
}

#[test]
fn a_pause_is_covered_with_what_follows() -> Result<(), IcedError> {
    let found = looping(|a, again| {
        a.set_label(again)?;
        a.pause()?;
        a.mov(eax, dword_ptr(rdi))?;
        a.test(eax, eax)?;
        a.je(*again)
    })?;
    assert_eq!(found, [(4, 2, 0, 4)]);
    Ok(())
}

#[test]
fn a_pause_without_room_traps() -> Result<(), IcedError> {
    // As compilers do without optimisation: the condition is jumped to.
    let found = looping(|a, again| {
        let mut condition = a.create_label();
        a.jmp(condition)?;
        a.set_label(again)?;
        a.pause()?;
        a.set_label(&mut condition)?;
        a.mov(rax, qword_ptr(rbp - 0x18))?;
        a.mov(eax, dword_ptr(rax))?;
        a.test(eax, eax)?;
        a.je(*again)
    })?;
    assert_eq!(found, [(6, 2, 0, 0)]);
    // The pause is the last of the round.
    let found = looping(|a, again| {
        let mut out = a.create_label();
        a.set_label(again)?;
        a.inc(rcx)?;
        a.cmp(dword_ptr(rdi), edx)?;
        a.je(out)?;
        a.pause()?;
        a.jmp(*again)?;
        a.set_label(&mut out)?;
        a.mov(rax, rcx)
    })?;
    assert_eq!(found, [(11, 2, 0, 0)]);
    Ok(())
}

#[test]
fn nops_wait_only_in_a_loop_that_looks() -> Result<(), IcedError> {
    for writes in [false, true] {
        let found = looping(|a, again| {
            a.set_label(again)?;
            a.db(&[0x90; 8])?;
            if writes {
                a.inc(dword_ptr(rsi))?;
            }
            a.mov(rdx, qword_ptr(rdi))?;
            a.test(rdx, rdx)?;
            a.jne(*again)
        })?;
        assert_eq!(found, if writes { vec![] } else { vec![(4 + 6, 2, 5, 0)] });
    }
    // Nops between functions are no loop.
    assert_eq!(looping(|a, _| a.db(&[0x90; 40]))?, []);
    Ok(())
}

#[test]
fn a_call_in_the_loop_comes_first() -> Result<(), IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.pause()?;
    a.mov(eax, 24)?;
    a.syscall()?;
    a.jmp(again)?;
    let code = a.assemble(CODE_AT)?;
    let function = Symbol::Function { start: CODE_AT, end: CODE_AT + code.len() as u64 };
    let analysis = analyse(&file(&code, &[0; 8], &[function]));
    let kinds: Vec<u8> = analysis.recipes.iter().map(|recipe| recipe.kind).collect();
    assert_eq!(kinds, [site_kind::SYSCALL]);
    assert_eq!(analysis.recipes[0].before, 5);
    Ok(())
}

#[test]
fn a_loop_that_ends_by_counting_is_told_apart() -> Result<(), IcedError> {
    type Body = fn(&mut CodeAssembler, &mut CodeLabel) -> Result<(), IcedError>;
    // A delay up to a number in memory; the same on the stack, as without optimisation.
    let delays: [Body; 3] = [
        |a, again| {
            a.set_label(again)?;
            a.add(ecx, 1)?;
            a.cmp(dword_ptr(rbx + 0x14), ecx)?;
            a.ja(*again)
        },
        |a, again| {
            a.set_label(again)?;
            a.add(dword_ptr(rbp - 4), 1)?;
            a.cmp(dword_ptr(rbp - 4), 999)?;
            a.jle(*again)
        },
        |a, again| {
            a.set_label(again)?;
            a.mov(edx, dword_ptr(rdi))?;
            a.movsxd(rdx, edx)?;
            a.add(rax, 1)?;
            a.cmp(rdx, rax)?;
            a.jg(*again)
        },
    ];
    // It counts its tries, and another thread ends it before.
    let waits: [Body; 2] = [
        |a, again| {
            let mut out = a.create_label();
            a.set_label(again)?;
            a.cmp(dword_ptr(rbx), 0)?;
            a.jne(out)?;
            a.sub(ecx, 1)?;
            a.jne(*again)?;
            a.set_label(&mut out)?;
            a.mov(eax, ecx)
        },
        |a, again| {
            a.set_label(again)?;
            a.sub(dword_ptr(rbp - 4), 1)?;
            a.mov(eax, dword_ptr(rdi))?;
            a.test(eax, eax)?;
            a.je(*again)
        },
    ];
    for (bodies, kind) in [(&delays[..], site_kind::COUNTING_LOOP), (&waits, site_kind::IDLE_LOOP)] {
        for (index, body) in bodies.iter().enumerate() {
            let found = kinds_of(body)?;
            assert_eq!(found, [kind], "loop {index}");
        }
    }
    Ok(())
}

#[test]
fn rounds_count_as_the_format_says() {
    let recipe = |kind, site_offset| Recipe {
        site_offset,
        kind,
        site_bytes: 2,
        before: 5,
        after: 0,
        fixup_before: 0xff,
        fixup_before_end: 0xff,
        fixup_after: 0xff,
        fixup_after_end: 0xff,
        code: [0; 36],
    };
    let kinds = [site_kind::SPIN, site_kind::IDLE_LOOP, site_kind::COUNTING_LOOP];
    for (loops, left) in [
        (Loops::None, &[(site_kind::SPIN, 0)][..]),
        (Loops::Waiting, &[(site_kind::SPIN, 0), (site_kind::IDLE_LOOP, 1)]),
        (Loops::Counting, &[(site_kind::SPIN, 0), (site_kind::IDLE_LOOP, 1), (site_kind::IDLE_LOOP, 2)]),
    ] {
        let recipes = (0..).zip(kinds).map(|(offset, kind)| recipe(kind, offset)).collect();
        let mut analysis = Analysis { recipes, unresolved_time_sites: false };
        analysis.keep_loops(loops);
        let found: Vec<_> = analysis.recipes.iter().map(|recipe| (recipe.kind, recipe.site_offset)).collect();
        assert_eq!(found, left);
    }
}

#[test]
fn a_loop_that_only_looks_waits() -> Result<(), IcedError> {
    // As compilers make it of `while (*word == old);`.
    let found = looping(|a, again| {
        a.set_label(again)?;
        a.mov(eax, dword_ptr(rdi))?;
        a.cmp(eax, edx)?;
        a.je(*again)
    })?;
    assert_eq!(found, [(8, 2, 4, 0)]);
    // It counts down as well, and what it counts is no address.
    let found = looping(|a, again| {
        let (mut out, mut look) = (a.create_label(), a.create_label());
        a.jmp(look)?;
        a.set_label(again)?;
        a.sub(eax, 1)?;
        a.je(out)?;
        a.set_label(&mut look)?;
        a.mov(rdx, qword_ptr(rbp))?;
        a.test(rdx, rdx)?;
        a.je(*again)?;
        a.set_label(&mut out)?;
        a.mov(rax, qword_ptr(rbp))
    })?;
    assert_eq!(found, [(20, 2, 7, 0)]);
    // A lock that is tried, and a sum of words that begins anew.
    let found = looping(|a, again| {
        a.set_label(again)?;
        a.mov(eax, edx)?;
        a.xchg(dword_ptr(rdi), eax)?;
        a.test(eax, eax)?;
        a.jne(*again)
    })?;
    assert_eq!(found, [(10, 2, 6, 0)]);
    let found = looping(|a, again| {
        let mut next = a.create_label();
        a.set_label(again)?;
        a.lea(rdx, qword_ptr(rsi + 8))?;
        a.xor(ecx, ecx)?;
        a.set_label(&mut next)?;
        a.add(rcx, qword_ptr(rdx))?;
        a.add(rdx, 8)?;
        a.cmp(rdx, rdi)?;
        a.jne(next)?;
        a.test(rcx, rcx)?;
        a.jne(*again)?;
        a.mov(rax, qword_ptr(rsi))
    })?;
    assert_eq!(found, [(25, 2, 0, 3)]);
    Ok(())
}

/// What a loop does before it compares.
type Body<'a> = &'a dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>;

#[test]
fn a_loop_that_gets_on_does_not_wait() -> Result<(), IcedError> {
    // The next byte, the next of a list, what another one makes of it, a word that is changed, a call.
    let bodies: [Body<'_>; 6] = [
        &|a| {
            a.add(rdi, 1)?;
            a.cmp(byte_ptr(rdi), 7)
        },
        &|a| {
            a.mov(rdi, qword_ptr(rdi))?;
            a.test(rdi, rdi)
        },
        &|a| {
            a.mov(rcx, rax)?;
            a.add(rax, 1)?;
            a.cmp(qword_ptr(rdi + rcx * 8), 0)
        },
        &|a| {
            a.add(rcx, qword_ptr(rdi))?;
            a.cmp(rcx, rdx)
        },
        &|a| {
            a.mov(dword_ptr(rsi), 1)?;
            a.cmp(dword_ptr(rdi), 0)
        },
        &|a| {
            a.call(rbx)?;
            a.cmp(dword_ptr(rdi), 0)
        },
    ];
    for body in bodies {
        let found = looping(|a, again| {
            a.set_label(again)?;
            body(a)?;
            a.jne(*again)
        })?;
        assert_eq!(found, []);
    }
    Ok(())
}

/// Compiled with tables of exceptions: an exception of `call` enters behind the loop.
const WITH_CLEANUP: &str = "
void call(void);
void clean(int *);
int wait(volatile int *flag)
{
	int held __attribute__((cleanup(clean))) = 1;
	do
		__builtin_ia32_pause();
	while (*flag == 0);
	call();
	return held;
}";

#[test]
fn a_pause_is_covered_beside_landing_pads() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = std::env::temp_dir().join(format!("retrovane-sites-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let (source, library) = (scratch.join("wait.c"), scratch.join("wait.so"));
    std::fs::write(&source, WITH_CLEANUP)?;
    let arguments = ["-O2", "-fexceptions", "-fPIC", "-shared", "-o"];
    let compiled = std::process::Command::new("gcc").args(arguments).args([&library, &source]).status();
    let file = std::fs::read(&library);
    std::fs::remove_dir_all(&scratch)?;
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: there is no gcc");
        return Ok(());
    }
    let recipes = analyse(&file?).recipes;
    assert!(matches!(&recipes[..], [wait] if wait.kind == site_kind::SPIN && wait.after > 0), "{recipes:?}");
    Ok(())
}
