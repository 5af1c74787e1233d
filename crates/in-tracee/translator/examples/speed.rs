//! Prints how much slower functions run by the engine than natively.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use support::{Bench, functions};
use translator::Stop;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut bench = Bench::new();
    // SAFETY: a `hlt` to return to, in memory of the bench's own.
    unsafe { (bench.code as *mut u8).write(0xf4) };
    for (name, function, argument) in functions::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        let mut native = f64::MAX;
        let mut expected = 0;
        for _ in 0..3 {
            let begin = Instant::now();
            expected = function(argument);
            native = native.min(begin.elapsed().as_secs_f64());
        }
        let mut times = [f64::MAX; 2];
        let mut executed = 0;
        for (way, watched) in [None, Some((bench.data + 64, 8))].into_iter().enumerate() {
            bench.engine.set_watches(watched.as_slice());
            for _ in 0..3 {
                let mut state = bench.start(function as *const () as u64, bench.code);
                state.general[7] = argument;
                let begin = Instant::now();
                let outcome = bench.run(&mut state, u64::MAX);
                times[way] = times[way].min(begin.elapsed().as_secs_f64());
                assert_eq!(outcome.stop, Stop::Instruction, "{name} at {:x}", state.rip);
                assert_eq!(state.general[0], expected, "{name}");
                executed = outcome.executed;
            }
        }
        println!(
            "{name:12} native {:6.1} ms, {:5.2} times; watching {:5.2} times; {:5.0} M instructions",
            native * 1e3,
            times[0] / native,
            times[1] / native,
            executed as f64 / 1e6
        );
    }
}
