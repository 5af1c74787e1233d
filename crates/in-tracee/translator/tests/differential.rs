//! The engine against the trap flag: after every number of instructions all registers
//! are the same.

mod support;

use support::programs::{self, Random};
use support::{Bench, Step};
use translator::{Goal, State, Stop};

const STEPS_MAX: usize = 40_000;

fn programs() -> u64 {
    std::env::var("RETROVANE_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

fn seed() -> u64 {
    std::env::var("RETROVANE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Writes the program and runs it by the trap flag.
fn prepare(bench: &mut Bench, seed: u64) -> (State, Vec<Step>, u64) {
    let program = programs::generate(seed, bench.code, bench.data, support::has_avx()).expect("it assembles");
    // Rounds of each loop.
    let mut random = Random(seed ^ 77);
    for at in 0..64 {
        let rounds = (1 + random.below(12)) as u32;
        bench.initial[0x8000 + at * 4..][..4].copy_from_slice(&rounds.to_le_bytes());
    }
    bench.engine.flush();
    unsafe { core::ptr::copy_nonoverlapping(program.code.as_ptr(), bench.code as *mut u8, program.code.len()) };
    let state = bench.start(program.entry, program.end);
    let steps = bench.reference(state, program.end, STEPS_MAX);
    (state, steps, program.end)
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
            let goal = Goal { limit: (steps.len() - 1 - at) as u64, passes_first, fs_base: 0 };
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
