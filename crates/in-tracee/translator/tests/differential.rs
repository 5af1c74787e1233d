//! The engine against the trap flag: after every number of instructions all registers
//! are the same.

mod support;

use support::programs::{self, Random};
use support::{Bench, Step};
use translator::{Goal, State, Stop};

const STEPS_MAX: usize = 40_000;

fn programs() -> u64 {
    std::env::var("RETROVANE_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn seed() -> u64 {
    std::env::var("RETROVANE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Writes the program and runs it by the trap flag.
fn prepare(bench: &mut Bench, seed: u64) -> (State, Vec<Step>, u64) {
    let (state, end) = write(bench, seed, false);
    let steps = bench.reference(state, end, STEPS_MAX);
    (state, steps, end)
}

/// Writes the program; its stores are near to each other or not.
fn write(bench: &mut Bench, seed: u64, narrow: bool) -> (State, u64) {
    let generated = programs::generate(seed, bench.code, bench.data, support::has_avx(), narrow);
    let program = generated.expect("it assembles");
    // Rounds of each loop.
    let mut random = Random(seed ^ 77);
    for at in 0..64 {
        let rounds = (1 + random.below(12)) as u32;
        bench.initial[0x8000 + at * 4..][..4].copy_from_slice(&rounds.to_le_bytes());
    }
    bench.engine.flush();
    unsafe {
        core::ptr::copy_nonoverlapping(program.code.as_ptr(), bench.code as *mut u8, program.code.len())
    };
    bench.constants = program.code[..programs::CONSTANT_BYTES].to_vec();
    (bench.start(program.entry, program.end), program.end)
}

fn expect(bench: &mut Bench, state: &State, steps: &[Step], at: usize, what: &str) {
    let got = bench.step_of(state);
    if got != steps[at] && std::env::var_os("RETROVANE_SHOW").is_some() {
        for (index, step) in steps.iter().enumerate().skip(at.saturating_sub(90)) {
            eprintln!("{index}: {:x}", step.state.rip - bench.code);
        }
        eprintln!("got {:x}", got.state.rip.wrapping_sub(bench.code));
        let code = unsafe { core::slice::from_raw_parts(bench.code as *const u8, 8192) };
        std::fs::write("/tmp/program.bin", code).expect("it can be written");
    }
    assert_eq!(got, steps[at], "{what}: after {at} instructions of {}", steps.len() - 1);
}

#[test]
fn random_programs_reach_the_same_states() {
    let mut bench = Bench::new();
    let mut instructions = 0;
    for number in 0..programs() {
        let seed = seed() + number;
        let (start, steps, end) = prepare(&mut bench, seed);
        let all = steps.len() - 1;
        instructions += all;
        if std::env::var_os("RETROVANE_SHOW").is_some() {
            let mut state = bench.start(start.rip, end);
            for (at, step) in steps.iter().enumerate() {
                let same = bench.step_of(&state) == *step;
                eprintln!("{at}: {:x} {:x} {same}", step.state.rip - bench.code, state.rip - bench.code);
                let outcome = bench.run(&mut state, 1);
                if !same || outcome.executed != 1 {
                    eprintln!("{outcome:?}");
                    break;
                }
            }
        }
        let mut random = Random(seed);
        // To the end at once, which is a `hlt`.
        let mut state = bench.start(start.rip, end);
        let ends = steps[all].state.rip == end;
        let outcome = bench.run(&mut state, if ends { u64::MAX } else { all as u64 });
        expect(&mut bench, &state, &steps, all, &format!("seed {seed}, to the end"));
        assert_eq!(outcome.executed, all as u64, "seed {seed}");
        assert_eq!(outcome.stop, if ends { Stop::Instruction } else { Stop::Limit }, "seed {seed}");
        // From the start to anywhere.
        for _ in 0..20 {
            let limit = random.below(all + 1);
            let mut state = bench.start(start.rip, end);
            let outcome = bench.run(&mut state, limit as u64);
            expect(&mut bench, &state, &steps, limit, &format!("seed {seed}, limit {limit}"));
            assert_eq!(outcome.executed, limit as u64);
        }
        // All the way in pieces.
        let mut state = bench.start(start.rip, end);
        let mut at = 0;
        while at < all {
            let piece = (1 + random.below(if number % 3 == 0 { 3 } else { 400 })).min(all - at);
            bench.run(&mut state, piece as u64);
            at += piece;
            expect(&mut bench, &state, &steps, at, &format!("seed {seed}, in pieces"));
        }
    }
    assert!(instructions > 1000 * programs() as usize / 10, "the programs do too little: {instructions}");
    eprintln!("{instructions} instructions of {} programs", programs());
}

#[test]
fn unstable_code_reaches_the_same_states() {
    let mut bench = Bench::new();
    bench.host.is_unstable = true;
    for seed in 1000..1000 + programs() / 10 {
        let (start, steps, end) = prepare(&mut bench, seed);
        let all = steps.len() - 1;
        let mut state = bench.start(start.rip, end);
        let outcome = bench.run(&mut state, all as u64);
        expect(&mut bench, &state, &steps, all, &format!("seed {seed}"));
        assert_eq!(outcome.executed, all as u64);
    }
}

#[test]
fn breakpoints_stop_at_each_passage() {
    let mut bench = Bench::new();
    for seed in 2000..2000 + programs() / 5 {
        let (start, steps, end) = prepare(&mut bench, seed);
        let mut random = Random(seed);
        let addresses = [0; 3].map(|_| steps[random.below(steps.len() - 1)].state.rip);
        assert!(bench.engine.set_breakpoints(&addresses));
        let mut state = bench.start(start.rip, end);
        let mut at = 0;
        let mut passes_first = false;
        loop {
            let next = (at + usize::from(passes_first)..steps.len())
                .find(|&index| addresses.contains(&steps[index].state.rip));
            let goal = Goal {
                limit: (steps.len() - 1 - at) as u64,
                passes_breakpoint: passes_first,
                passes_store: passes_first,
                notes_stores: false,
                fs_base: 0,
            };
            let outcome = bench.run_to(&mut state, &goal);
            at += outcome.executed as usize;
            expect(&mut bench, &state, &steps, at, &format!("seed {seed}"));
            match next {
                Some(next) if next < steps.len() - 1 => {
                    assert_eq!((outcome.stop, at), (Stop::Breakpoint, next), "seed {seed}");
                }
                _ => break,
            }
            passes_first = true;
        }
        assert_eq!(at, steps.len() - 1, "seed {seed}");
        bench.engine.set_breakpoints(&[]);
    }
}

#[test]
fn stores_to_watched_memory_are_found() {
    let mut bench = Bench::new();
    let mut all_stores = 0;
    for seed in 3000..3000 + programs() {
        let mut random = Random(seed);
        let (start, end) = write(&mut bench, seed, true);
        let address = match random.below(3) {
            // In the stack, where calls and pushes store.
            0 => start.general[4] - 8 * random.below(8) as u64,
            // In the constants, which are ahead of the code.
            1 => bench.code + 8 * random.below(40) as u64,
            _ => bench.data + random.below(260) as u64,
        };
        let (steps, words) = bench.reference_with_word(start, end, 4000, address);
        let all = steps.len() - 1;
        let changes: Vec<usize> = (0..all).filter(|&at| words[at] != words[at + 1]).collect();
        assert!(bench.engine.set_watches(&[(address, 8), (0x1000, 1)]));
        let mut state = bench.start(start.rip, end);
        let (mut stores, mut at, mut passes_first) = (Vec::new(), 0, false);
        while at < all {
            let limit = (all - at) as u64;
            let goal = Goal {
                limit,
                passes_breakpoint: passes_first,
                passes_store: passes_first,
                notes_stores: false,
                fs_base: support::fs_base(),
            };
            let outcome = bench.run_to(&mut state, &goal);
            at += outcome.executed as usize;
            expect(&mut bench, &state, &steps, at, &format!("seed {seed}"));
            if let Stop::Store { start, bytes } = outcome.stop {
                assert!(start < address + 8 && address < start.saturating_add(bytes));
                stores.push(at);
            }
            passes_first = true;
        }
        let missed: Vec<&usize> = changes.iter().filter(|change| !stores.contains(change)).collect();
        for &&at in &missed {
            let code = unsafe { core::slice::from_raw_parts(steps[at].state.rip as *const u8, 8) };
            eprintln!("{at}: {code:02x?}");
        }
        assert!(missed.is_empty(), "seed {seed}: missed the stores at {missed:?} of {changes:?}");
        // And all at once.
        let mut state = bench.start(start.rip, end);
        let goal = Goal {
            limit: all as u64,
            passes_breakpoint: false,
            passes_store: false,
            notes_stores: true,
            fs_base: support::fs_base(),
        };
        let outcome = bench.run_to(&mut state, &goal);
        assert_eq!(outcome.executed, all as u64, "seed {seed}: {outcome:?}");
        expect(&mut bench, &state, &steps, all, &format!("seed {seed}, noting"));
        assert_eq!(outcome.stores, stores.len() as u64, "seed {seed}");
        assert_eq!(outcome.last_store, stores.last().map(|&at| at as u64), "seed {seed}");
        all_stores += stores.len();
        bench.engine.set_watches(&[]);
    }
    assert!(all_stores > programs() as usize, "the programs store too little: {all_stores}");
}

#[test]
fn faults_are_those_of_the_program() {
    let mut bench = Bench::new();
    let mut faults = 0;
    for seed in 4000..4000 + 2 * programs() {
        let (start, end) = write(&mut bench, seed, false);
        let whole = bench.reference(start, end, STEPS_MAX);
        // Some instruction becomes one that faults: each of these changes registers in
        // the copy, or would.
        let mut random = Random(seed);
        let place = whole[random.below(whole.len() - 1)].state.rip;
        let bad: &[u8] = match random.below(7) {
            // mov rax, [0]; push [rip + far]; add [rip + far], ebx; jmp [r15 = wild]
            0 => &[0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
            1 => &[0xff, 0x35, 0, 0, 0, 0x70],
            2 => &[0x01, 0x1d, 0, 0, 0, 0x70],
            3 => &[0x31, 0xff, 0xff, 0x27],
            // mov ecx, [rip + far]; call [rip + far]
            4 => &[0x8b, 0x0d, 0, 0, 0, 0x70],
            5 => &[0xff, 0x15, 0, 0, 0, 0x70],
            // xor ecx, ecx; div ecx
            _ => &[0x31, 0xc9, 0xf7, 0xf1],
        };
        unsafe { core::ptr::copy_nonoverlapping(bad.as_ptr(), place as *mut u8, bad.len()) };
        let start = bench.start(start.rip, end);
        let steps = bench.reference(start, end, STEPS_MAX);
        if bench.fault() == 0 {
            continue;
        }
        let all = steps.len() - 1;
        for watch in [false, true] {
            let ranges = [(bench.data + 100, 100)];
            bench.engine.set_watches(if watch { &ranges } else { &[] });
            let mut state = bench.start(start.rip, end);
            let goal = Goal {
                limit: 1 << 40,
                passes_breakpoint: false,
                passes_store: false,
                notes_stores: true,
                fs_base: support::fs_base(),
            };
            let outcome = bench.run_to(&mut state, &goal);
            expect(&mut bench, &state, &steps, all, &format!("seed {seed}, {outcome:?}"));
            assert_eq!((outcome.stop, outcome.executed), (Stop::Fault, all as u64), "seed {seed}");
        }
        faults += 1;
    }
    assert!(faults > programs() / 2, "there were {faults} faults");
}

#[test]
fn code_that_changes_itself_is_noticed() {
    use iced_x86::code_asm::*;
    let mut bench = Bench::new();
    bench.host.is_unstable = true;
    let write = |bench: &Bench| {
        let mut asm = CodeAssembler::new(64)?;
        let (mut round, mut patched) = (asm.create_label(), asm.create_label());
        asm.mov(ecx, 5)?;
        asm.set_label(&mut round)?;
        asm.lea(rdx, ptr(patched))?;
        asm.mov(byte_ptr(rdx + 1), cl)?;
        asm.set_label(&mut patched)?;
        asm.mov(eax, 0)?;
        asm.add(rsi, rax)?;
        asm.dec(ecx)?;
        asm.jne(round)?;
        asm.ret()?;
        asm.hlt()?;
        let code = asm.assemble(bench.code)?;
        unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), bench.code as *mut u8, code.len()) };
        Ok::<u64, iced_x86::IcedError>(bench.code + code.len() as u64 - 1)
    };
    let end = write(&bench).expect("it assembles");
    let start = bench.start(bench.code, end);
    let steps = bench.reference(start, end, STEPS_MAX);
    let all = steps.len() - 1;
    assert_eq!(all, 32);
    assert_eq!(steps[all].state.general[6], start.general[6] + 15);
    for limit in [all, 3, all, 20] {
        write(&bench).expect("it assembles");
        let mut state = bench.start(start.rip, end);
        let outcome = bench.run(&mut state, limit as u64);
        expect(&mut bench, &state, &steps, limit, &format!("{outcome:?}"));
        // More than are run at once.
        let mut state = bench.start(start.rip, end);
        write(&bench).expect("it assembles");
        let outcome = bench.run(&mut state, u64::MAX);
        assert_eq!((outcome.stop, outcome.executed), (Stop::Instruction, all as u64));
        expect(&mut bench, &state, &steps, all, "to the end");
    }
}

#[test]
fn an_interrupted_run_stops_at_a_known_place() {
    let mut bench = Bench::new();
    // An endless loop of two instructions, none of which sets all flags.
    unsafe {
        core::ptr::copy_nonoverlapping([0x48, 0xff, 0xc0, 0xeb, 0xfb].as_ptr(), bench.code as *mut u8, 5)
    };
    let start = bench.start(bench.code, 0);
    let mut state = start;
    let timer = support::interrupt_after_a_moment(&bench);
    let outcome = bench.run(&mut state, u64::MAX);
    timer.join().expect("it only waits");
    assert_eq!(outcome.stop, Stop::Interrupted);
    assert!(outcome.executed > 1000);
    // One increment in two instructions.
    assert_eq!(state.general[0].wrapping_sub(start.general[0]), outcome.executed.div_ceil(2));
}
