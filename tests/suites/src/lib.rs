//! What the test suites share: guests found by folder, runs with a limit of
//! time, and the comparison of native, recorded and replayed runs.
//!
//! Linux is the oracle: the same program in the same fresh directory runs
//! natively and under the tool, and both must say the same. Deliberately
//! absent: retries, and sleeps as synchronisation.
#![forbid(unsafe_code)]

mod attached;
mod guest;
mod leftovers;
mod live_guest;
mod objects;
mod ordered;
mod other_users;
mod outcome;
mod program;
mod recording;
mod recovered;
mod run;
mod scratch;
mod server;
mod service;
mod suite;
mod surroundings;
mod together;
mod tool;
mod triple;
mod windowed;

pub use attached::{AttachedGuest, REFUSED, check_no_such_process};
pub use guest::{
    Guest, Variant, covered_system_calls, find_guests, find_live_guests, in_workspace, make_file,
};
pub use leftovers::Leftovers;
pub use live_guest::LiveGuest;
pub use ordered::Ordered;
pub use other_users::OtherUser;
pub use outcome::{Outcome, compare, without_nondeterminism};
pub use program::{Comparison, Program, program_trials};
pub use recording::{Recording, check};
pub use recovered::RecoverGuest;
pub use run::{Live, RUN_TIME_MAX, User, hearing_interrupts, plain_environment, run};
pub use scratch::Scratch;
pub use server::Server;
pub use service::{Listens, Service, service_trials};
pub use suite::{run_suite, suite_arguments, unless_missing};
pub use surroundings::Surroundings;
pub use together::{check_postgres, check_redis_data};
pub use tool::{
    Mode, Tool, build_refuse, has_static_libc, have_program, quick_mode, search_path, target_directory,
    tests_run_as_root, times,
};
pub use triple::{Case, check_against, check_case};
pub use windowed::{WindowGuest, check_killed, check_redis};

/// What a test says when it fails: whole sentences with the evidence.
pub type TestResult = Result<(), String>;
