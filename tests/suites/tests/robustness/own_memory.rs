//! Memory that only recorded processes have is not taken for that of others.

use std::fs;

use suites::{RUN_TIME_MAX, TestResult, Tool, User, compare, in_workspace, run, tests_run_as_root};

use crate::bench::{Bench, check, path, trace_files};

/// As much as each page once, and a few calls during which it is not known yet who opened it.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Processes that may not be looked at, as root's are for others, could have opened it; those that did are
/// recorded. What the program stores there 300 times is not in the trace.
pub fn opens_own_memory(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "own-memory")?;
    let source = in_workspace("tests/workloads/opens_own_memory.c");
    let program = bench.compiled("program", &source, &["-O1", "-lrt"])?;
    let user = if tests_run_as_root() { User::Nobody } else { User::Current };
    let trace = bench.run.join("trace");
    let recorded = run(
        bench.tool_command(user, &["record", "-q", "-o", path(&trace), "--", path(&program)]),
        RUN_TIME_MAX,
    )?;
    check(recorded.code == 0, "it runs", &recorded)?;
    let bytes: u64 =
        trace_files(&trace)?.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
    check(bytes < TRACE_BYTES_MAX, &format!("the trace has {bytes} bytes"), &recorded)?;
    let replayed = run(bench.tool_command(user, &["replay", "-q", path(&trace)]), RUN_TIME_MAX)?;
    compare("recorded", &recorded, "replayed", &replayed)
}
