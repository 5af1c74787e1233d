//! Recipes for the machine's own libraries, checked against a disassembly that
//! the analysis does not share.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use lane_protocol::{Recipe, site_kind};
use object::{Object, ObjectSection};
use sites::{analyse, from_bytes, is_time_kind, to_bytes};

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The content, or `None` on a machine that keeps it elsewhere.
fn read(path: &str) -> Option<Vec<u8>> {
    let content = std::fs::read(path);
    if content.is_err() {
        println!("skipped: {path} is missing");
    }
    content.ok()
}

fn is_rewritten(recipe: &Recipe) -> bool {
    recipe.before > 0 || recipe.after > 0
}

#[test]
fn nearly_every_system_call_of_libc_has_a_recipe() {
    let Some(content) = read(LIBC) else { return };
    let analysis = analyse(&content);
    assert!(!analysis.unresolved_time_sites);
    let calls: Vec<&Recipe> =
        analysis.recipes.iter().filter(|recipe| recipe.kind == site_kind::SYSCALL).collect();
    let rewritten = calls.iter().filter(|recipe| is_rewritten(recipe)).count();
    assert!(calls.len() > 300, "{}", calls.len());
    assert!(rewritten * 100 >= calls.len() * 95, "{rewritten} of {}", calls.len());
    assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
}

#[test]
fn the_loader_reads_the_clock() {
    let Some(content) = read(LOADER) else { return };
    let analysis = analyse(&content);
    assert!(!analysis.unresolved_time_sites);
    assert!(analysis.recipes.iter().any(|recipe| recipe.kind == site_kind::RDTSC));
    assert!(analysis.recipes.iter().any(|recipe| is_time_kind(recipe.kind)));
}

#[test]
fn recipes_agree_with_a_linear_disassembly() {
    for path in [LIBC, LOADER] {
        let Some(content) = read(path) else { continue };
        let sweep = Sweep::new(&content);
        for recipe in analyse(&content).recipes {
            check_site(&sweep, &content, &recipe);
            if is_rewritten(&recipe) {
                check_cover(&sweep, &content, &recipe);
            }
        }
    }
}

#[test]
fn covers_do_not_overlap() {
    for path in [LIBC, LOADER] {
        let Some(content) = read(path) else { continue };
        let mut end = 0;
        for recipe in analyse(&content).recipes {
            let start = recipe.site_offset - u32::from(recipe.before);
            assert!(start >= end, "{:#x}", recipe.site_offset);
            end = recipe.site_offset + u32::from(recipe.site_bytes) + u32::from(recipe.after);
        }
    }
}

/// Whatever stands in the tables of a file: no panic, and nothing that could not
/// be cached.
#[test]
fn damaged_files_do_no_harm() {
    let Some(content) = read(LOADER) else { return };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for round in 0..60 {
        let mut damaged = content.clone();
        // The headers in half of the rounds, everything in the others.
        let span = if round % 2 == 0 { 1024 } else { damaged.len() };
        for _ in 0..1 + round * 4 {
            let (at, value) = (next() % span, next());
            damaged[at] = value as u8;
        }
        damaged[..16].copy_from_slice(&content[..16]);
        let analysis = analyse(&damaged);
        assert_eq!(from_bytes(&to_bytes(&analysis)), Some(analysis));
    }
}

/// All executable sections decoded from their first byte to their last. In the
/// libraries of a distribution that is in step nearly everywhere.
struct Sweep {
    /// File offsets.
    starts: BTreeSet<u64>,
    /// File offsets that direct branches go to.
    targets: BTreeSet<u64>,
}

impl Sweep {
    fn new(content: &[u8]) -> Sweep {
        let file = object::File::parse(content).expect("the library is an object file");
        let mut sweep = Sweep { starts: BTreeSet::new(), targets: BTreeSet::new() };
        for section in file.sections().filter(|section| section.kind() == object::SectionKind::Text) {
            let bytes = section.data().expect("the section's data is in the file");
            let (offset, _) = section.file_range().expect("the section is in the file");
            let shift = section.address() - offset;
            let mut decoder = Decoder::with_ip(64, bytes, section.address(), DecoderOptions::NONE);
            for instruction in &mut decoder {
                sweep.starts.insert(instruction.ip() - shift);
                if instruction.op0_kind() == OpKind::NearBranch64 {
                    sweep.targets.insert(instruction.near_branch64().wrapping_sub(shift));
                }
            }
        }
        sweep
    }
}

fn check_site(sweep: &Sweep, content: &[u8], recipe: &Recipe) {
    let at = recipe.site_offset as usize;
    assert!(sweep.starts.contains(&(at as u64)), "{at:#x} starts no instruction");
    assert!(sweep.starts.contains(&(at as u64 + u64::from(recipe.site_bytes))));
    let bytes = &content[at..at + usize::from(recipe.site_bytes)];
    match recipe.kind {
        site_kind::SYSCALL => assert_eq!(bytes, [0x0f, 0x05]),
        site_kind::RDTSC => assert_eq!(bytes, [0x0f, 0x31]),
        site_kind::RDTSCP => assert_eq!(bytes, [0x0f, 0x01, 0xf9]),
        site_kind::CPUID => assert_eq!(bytes, [0x0f, 0xa2]),
        site_kind::XSAVEC => assert!(bytes.windows(2).any(|pair| pair == [0x0f, 0xc7])),
        site_kind::RDRAND | site_kind::RDSEED | site_kind::RDPID => assert!(bytes.len() >= 3),
        site_kind::SPIN => assert!(matches!(bytes, [0xf3 | 0x90, 0x90])),
        site_kind::IDLE_LOOP | site_kind::COUNTING_LOOP => assert!(matches!(bytes, [0x70..=0x7f | 0xeb, _])),
        other => panic!("unknown kind {other}"),
    }
}

fn check_cover(sweep: &Sweep, content: &[u8], recipe: &Recipe) {
    let site = u64::from(recipe.site_offset);
    let (before, after) = (u64::from(recipe.before), u64::from(recipe.after));
    let start = site - before;
    let behind = site + u64::from(recipe.site_bytes);
    let end = behind + after;
    assert!(end - start >= 5);
    assert!(sweep.starts.contains(&start) && sweep.starts.contains(&end), "{site:#x}");
    // The site stays whole, or what is covered is closed.
    let closed_end = if before >= 5 { start + 5 } else { end };
    assert!(after == 0 || before < 5);
    assert_eq!(sweep.targets.range(start + 1..closed_end).next(), None, "{site:#x}");

    let code = &recipe.code[..(before + after) as usize];
    let (ahead_code, behind_code) = code.split_at(before as usize);
    assert_eq!(ahead_code, &content[start as usize..site as usize]);
    assert_eq!(behind_code, &content[behind as usize..end as usize]);
    let fixup_ahead = (recipe.fixup_before, recipe.fixup_before_end);
    check_code(ahead_code, 0, fixup_ahead);
    check_code(behind_code, recipe.before, (recipe.fixup_after, recipe.fixup_after_end));
}

/// Whole instructions, none of which is a branch; the fixup is where the one
/// displacement is that the instruction pointer counts in. Decoded at two
/// addresses, patched code has to reach the same memory.
fn check_code(code: &[u8], shift: u8, (fixup, fixup_end): (u8, u8)) {
    let (origin, trampoline) = (0x1000_0000u64, 0x1234_5000u64);
    let mut copy = code.to_vec();
    if fixup != 0xff {
        let at = usize::from(fixup - shift);
        let old = i32::from_le_bytes(copy[at..at + 4].try_into().expect("four bytes"));
        let new = old.wrapping_sub((trampoline - origin) as i32);
        copy[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
    let there: Vec<Instruction> =
        Decoder::with_ip(64, &copy, trampoline, DecoderOptions::NONE).into_iter().collect();
    let here: Vec<Instruction> =
        Decoder::with_ip(64, code, origin, DecoderOptions::NONE).into_iter().collect();
    assert_eq!(here.len(), there.len());
    for (here, there) in here.iter().zip(&there) {
        assert!(!here.is_invalid());
        assert_eq!(here.flow_control(), FlowControl::Next, "{:#x}", here.ip());
        assert_eq!(here.code(), there.code());
        assert_eq!(here.is_ip_rel_memory_operand(), there.is_ip_rel_memory_operand());
        if here.is_ip_rel_memory_operand() {
            assert_eq!(here.ip_rel_memory_address(), there.ip_rel_memory_address());
            assert_eq!(here.next_ip() - origin, u64::from(fixup_end - shift));
        }
    }
    assert_eq!(here.iter().map(Instruction::len).sum::<usize>(), code.len());
}
