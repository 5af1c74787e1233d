//! Functions of this process, the C library's among them: the engine against the trap
//! flag.

mod support;

use support::programs::Random;
use support::{Bench, functions};
use translator::Stop;

const STEPS_MAX: usize = 60_000;

#[test]
fn real_functions_reach_the_same_states() {
    let mut bench = Bench::new();
    // A `hlt` to return to.
    unsafe { (bench.code as *mut u8).write(0xf4) };
    for (name, function, argument) in functions::ALL {
        let argument = if argument < 100 { 12 } else { argument / 100_000 + 30 };
        // Whatever it does once only.
        function(argument);
        let end = bench.code;
        let mut start = bench.start(function as *const () as u64, end);
        start.general[7] = argument;
        let steps = bench.reference(start, end, STEPS_MAX);
        let all = steps.len() - 1;
        assert!(all > 100, "{name} does too little: {all}");
        let mut random = Random(argument);
        for round in 0..40 {
            let limit = if round == 0 { all } else { random.below(all) };
            let mut state = bench.start(start.rip, end);
            state.general[7] = argument;
            let outcome = bench.run(&mut state, limit as u64);
            assert_eq!(outcome.executed, limit as u64, "{name} {outcome:?}");
            assert_eq!(bench.step_of(&state), steps[limit], "{name}: after {limit} instructions");
        }
        eprintln!("{name}: {all}");
    }
}

#[test]
fn what_cannot_be_read_is_said_each_time() {
    const NOWHERE: u64 = 0x1000;
    let mut bench = Bench::new();
    bench.host.is_unstable = true;
    let end = bench.code;
    for _ in 0..3 {
        let mut state = bench.start(NOWHERE, end);
        let outcome = bench.run(&mut state, 10_000);
        assert_eq!((outcome.executed, outcome.stop), (0, Stop::Unreadable), "{outcome:?}");
    }
}
