//! Every way of interception and checking gives the same recording; doctor tells them.

use suites::{TestResult, Tool, compare};

use crate::bench::{Bench, ORDINARY, check, path};

pub fn doctor(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "doctor")?;
    let outcome = bench.call(&["doctor"])?;
    check(outcome.code == 0 && !outcome.stdout.is_empty(), "doctor speaks", &outcome)
}

pub fn seccomp_fallback(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "seccomp")?;
    let args = ["record", "--seccomp", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

pub fn without_rewriting(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "no-rewrite")?;
    let args = ["record", "--no-rewrite", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

pub fn with_memory_checks(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "memory-checks")?;
    let args = ["record", "--check", "10", "-o", path(&bench.trace), "--", "bash", "-c", ORDINARY];
    let recorded = bench.call(&args)?;
    check(recorded.code == 5, "the program's code", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}
