//! What goes wrong in practice: kills in the middle, full disks, damaged and
//! moved traces, programs that cannot be recorded, wrong options.
//!
//! In every case the tool says what happened, ends with a code of its own, and
//! never shows a panic.

mod analysis;
mod bench;
mod kills;
mod own_memory;
mod refusals;
mod strangers;
mod survivors;
mod traces;
mod ways;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{Mode, TestResult, Tool, run_suite, tests_run_as_root, unless_missing};

/// Runs one case with the tool.
type Test = fn(&Tool) -> TestResult;

/// The tests by name; the second says whether root is needed.
const TESTS: &[(&str, bool, Test)] = &[
    ("program_killed", false, kills::program_killed),
    ("recorder_killed", false, kills::recorder_killed),
    ("both_killed", false, kills::both_killed),
    ("killed_from_outside", false, kills::killed_from_outside),
    ("ends_of_children", false, kills::ends_of_children),
    ("ended_while_computing", false, kills::ended_while_computing),
    ("interrupted_from_terminal", false, kills::interrupted_from_terminal),
    ("interrupted_alone", false, kills::interrupted_alone),
    ("disk_full", true, kills::disk_full),
    ("token_comes_while_stopped", false, kills::token_comes_while_stopped),
    ("group_killed", false, survivors::group_killed),
    ("kills_its_group", false, survivors::kills_its_group),
    ("aborts_its_group", false, survivors::aborts_its_group),
    ("namespace_killed", true, survivors::namespace_killed),
    ("recorder_killed_among_threads", false, survivors::recorder_killed_among_threads),
    ("supervisor_killed_among_checkpoints", false, survivors::supervisor_killed_among_checkpoints),
    ("threads_have_names", false, survivors::threads_have_names),
    ("children_ignored", false, survivors::children_ignored),
    ("moved_trace", false, traces::moved_trace),
    ("replayed_repeatedly", false, traces::replayed_repeatedly),
    ("damaged_trace", false, traces::damaged_trace),
    ("truncated_trace", false, traces::truncated_trace),
    ("changed_kept_file", false, traces::changed_kept_file),
    ("removed_meanwhile", false, traces::removed_meanwhile),
    ("pack_named_as_the_store", false, traces::pack_named_as_the_store),
    ("missing_program", false, refusals::missing_program),
    ("not_executable", false, refusals::not_executable),
    ("thirty_two_bit", false, refusals::thirty_two_bit),
    ("setuid_program", true, refusals::setuid_program),
    ("tracer", false, refusals::tracer),
    ("unknown_options", false, refusals::unknown_options),
    ("missing_trace", false, refusals::missing_trace),
    ("no_write_permission", false, refusals::no_write_permission),
    ("existing_directory_is_kept", false, refusals::existing_directory_is_kept),
    ("output_goes_back", false, traces::output_goes_back),
    ("private_trace", false, traces::private_trace),
    ("named_traces", false, traces::named_traces),
    ("pack_and_unpack", false, traces::pack_and_unpack),
    ("dump_and_info", false, traces::dump_and_info),
    ("doctor", false, ways::doctor),
    ("seccomp_fallback", false, ways::seccomp_fallback),
    ("without_rewriting", false, ways::without_rewriting),
    ("with_memory_checks", false, ways::with_memory_checks),
    ("with_memory_checks_that_cannot_be_made", false, ways::with_memory_checks_that_cannot_be_made),
    ("limit_leaves_no_room", false, ways::limit_leaves_no_room),
    ("narrow_limits", false, ways::narrow_limits),
    ("largest_size", false, ways::largest_size),
    ("strict_rollback", false, ways::strict_rollback),
    ("linked_meanwhile", false, ways::linked_meanwhile),
    ("without_home", false, ways::without_home),
    ("nobody_listens", false, ways::nobody_listens),
    ("traced_is_told", false, ways::traced_is_told),
    ("runtime_says_what_it_does", false, ways::runtime_says_what_it_does),
    ("loops_jump_in_replay_too", false, ways::loops_jump_in_replay_too),
    ("strangers_reach_nothing", false, strangers::reaches_nothing),
    ("strangers_are_refused_without_landlock", false, strangers::refused_without_landlock),
    ("sandbox_by_option", false, strangers::sandbox_by_option),
    ("opens_own_memory", false, own_memory::opens_own_memory),
    ("analysis_takes_long", false, analysis::analysis_takes_long),
];

/// Tests of what is replayed in a sandbox.
const IN_SANDBOX: [&str; 3] = ["strangers_reach_nothing", "sandbox_by_option", "pack_and_unpack"];

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let is_root = tests_run_as_root();
    let has_sandbox = strangers::has_sandbox(tool);
    TESTS
        .iter()
        .map(|&(name, needs_root, test)| {
            let own = Arc::clone(tool);
            let trial = Trial::test(name, move || test(&own).map_err(Failed::from));
            let missing = if needs_root && !is_root {
                Some("needs root")
            } else if !has_sandbox && IN_SANDBOX.contains(&name) {
                Some("needs Landlock's sixth version")
            } else {
                (tool.mode == Mode::Native).then_some("needs the tool")
            };
            unless_missing(trial, missing)
        })
        .collect()
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
