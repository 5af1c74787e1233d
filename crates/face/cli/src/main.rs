//! The command `retrovane`.
#![forbid(unsafe_code)]

mod exit;
mod record;
mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Record what a program does, and replay it.
#[derive(Parser)]
#[command(name = "retrovane", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(record::RecordArguments),
    Replay(replay::ReplayArguments),
}

fn main() -> ExitCode {
    match CommandLine::parse().command {
        Command::Record(arguments) => record::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
    }
}
