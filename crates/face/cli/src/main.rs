//! The command `retrovane`.
//!
//! Architecture invariant: everything here is words: arguments in, text out. What
//! a trace, a recording or a replay is, other crates know; no command keeps
//! state of its own.
#![forbid(unsafe_code)]

mod answer_file;
mod births;
mod columns;
mod command_line;
mod completions;
mod control_messages;
mod crash_place;
mod ctl;
mod dap;
mod debug;
mod diff;
mod doctor;
mod dump;
mod event_index;
mod exit;
mod failure;
mod gdb;
mod hunt;
mod in_gdb;
mod info;
mod inside;
mod keyframe;
mod lab;
mod lane_events;
mod live;
mod ls;
mod manual;
mod mcp;
mod minimize;
mod own_build;
mod pack;
mod page;
mod policy;
mod print;
mod progress;
mod query;
mod questions;
mod race;
mod record;
mod recorded;
mod redact;
mod replay;
mod report;
mod retry;
mod rm;
mod schedule;
mod screenshot;
mod seeds;
mod senders;
mod settings;
mod show;
mod sources;
mod stack_at;
mod standby;
mod unpacked;
mod verbs;
mod wording;

use std::panic;
use std::process::{self, ExitCode};

use clap::Parser;

use command_line::{Command, CommandLine};

/// A thread that panics ends all: others would wait for it for ever.
fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        report(what);
        process::exit(exit::FAILED.into());
    }));
}

fn main() -> ExitCode {
    injector::spare_address_space();
    end_on_panic();
    injector::with_enough_stack(run)
}

fn run() -> ExitCode {
    let CommandLine { settings, command } = match CommandLine::try_parse_from(command_line::words()) {
        Ok(parsed) => parsed,
        Err(error) => exit::of_command_line(&error),
    };
    settings.start_telling();
    if let Some(code) = inside::instead(&command, &settings) {
        return code;
    }
    match command {
        Command::Record(arguments) => record::run(arguments, &settings),
        Command::Hunt(arguments) => exit::of_command(hunt::run(&arguments, &settings)),
        Command::Live(arguments) => live::run(arguments, &settings),
        Command::Ctl(arguments) => exit::of_command(ctl::run(&arguments, &settings)),
        Command::Lab(arguments) => lab::run(arguments, &settings),
        Command::LabOwn(arguments) => lab::own::run(&arguments),
        Command::Replay(arguments) => replay::run(arguments, &settings),
        Command::Screenshot(arguments) => exit::of_command(screenshot::run(&arguments, &settings)),
        Command::Report(arguments) => exit::of_command(report::run(&arguments, &settings)),
        Command::Retry(arguments) => exit::of_command(retry::run(&arguments, &settings)),
        Command::Diff(arguments) => exit::of_command(diff::run(&arguments, &settings)),
        Command::Minimize(arguments) => exit::of_command(minimize::run(&arguments, &settings)),
        Command::Ls(arguments) => exit::of_command(ls::run(&arguments, &settings)),
        Command::Info(arguments) => exit::of_command(info::run(&arguments, &settings)),
        Command::Dump(arguments) => exit::of_command(dump::run(&arguments, &settings)),
        Command::Print(arguments) => exit::of_command(print::run_print(&arguments, &settings)),
        Command::Calls(arguments) => exit::of_command(print::run_calls(&arguments, &settings)),
        Command::Keyframe(arguments) => exit::of_command(keyframe::run(&arguments, &settings)),
        Command::Dap(arguments) => dap::run(&arguments, settings),
        Command::Mcp(arguments) => mcp::run(arguments, settings),
        Command::Bt(arguments) => exit::of_command(questions::backtrace(&arguments, &settings)),
        Command::WhoWrote(arguments) => exit::of_command(questions::who_wrote(&arguments, &settings)),
        Command::When(arguments) => exit::of_command(questions::when(&arguments, &settings)),
        Command::Race(arguments) => exit::of_command(race::run(&arguments, &settings)),
        Command::Query(arguments) => exit::of_command(query::run(&arguments, &settings)),
        Command::Timeline(arguments) => exit::of_command(page::run(&arguments, &settings)),
        Command::Pack(arguments) => exit::of_command(pack::run(&arguments, &settings)),
        Command::Rm(arguments) => exit::of_command(rm::run(&arguments, &settings)),
        Command::Doctor(arguments) => exit::of_command(doctor::run(&arguments, &settings)),
        Command::Completions(arguments) => exit::of_command(completions::run(&arguments)),
        Command::Man(arguments) => exit::of_command(manual::run(&arguments)),
        Command::Debug(arguments) => debug::run(arguments, &settings),
        Command::ServeLive(arguments) => debug::serve_one(arguments, &settings),
        Command::ServeQuestions(arguments) => standby::server::run(&arguments, &settings),
        Command::ServeGdb(arguments) => gdb::serve_one(&arguments, &settings),
    }
}
