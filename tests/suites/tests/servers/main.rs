//! Programs of many threads and processes that share memory, which nobody
//! changed: servers under load, runtimes of languages, compressors, and the
//! stress classes of stress-ng.
//!
//! `RETROVANE_TIMES=20` records and replays each of them so often.

mod services;
mod stress;
mod threads;

use std::process::ExitCode;
use std::sync::Arc;

use suites::{Server, Surroundings, User, program_trials, service_trials, suite_arguments};

fn main() -> ExitCode {
    let prepared = Surroundings::new().and_then(|mut surroundings| {
        surroundings.set("{port}", Server::start()?.port().to_string());
        Ok(Arc::new(surroundings))
    });
    match prepared {
        Ok(surroundings) => {
            let mut trials = service_trials(&surroundings, services::SERVICES);
            for programs in [threads::PROGRAMS, stress::PROGRAMS, stress::MORE_PROGRAMS] {
                trials.extend(program_trials(&surroundings, programs, &[User::Nobody]));
            }
            libtest_mimic::run(&suite_arguments(), trials).exit_code()
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
