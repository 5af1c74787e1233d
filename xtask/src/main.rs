//! Chores of the workspace: `cargo xtask <chore>`.
#![forbid(unsafe_code)]

mod syscalls_doc;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask syscalls-doc    writes docs/SYSCALLS.md
       cargo xtask tidy            checks the rules of the tree that the compiler does not know";

fn main() -> ExitCode {
    let chore = std::env::args().nth(1);
    let done = match chore.as_deref() {
        Some("syscalls-doc") => syscalls_doc::write(&syscalls_doc::page_path()),
        Some("tidy") => tidy::run(),
        Some(_) | None => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
