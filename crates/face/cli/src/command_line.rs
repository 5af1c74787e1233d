//! The grammar of the command line.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::completions::CompletionsArguments;
use crate::ctl::CtlArguments;
use crate::dap::DapArguments;
use crate::debug::{DebugArguments, ServeLiveArguments};
use crate::diff::DiffArguments;
use crate::doctor::DoctorArguments;
use crate::dump::DumpArguments;
use crate::exit;
use crate::gdb::ServeArguments;
use crate::hunt::HuntArguments;
use crate::info::InfoArguments;
use crate::keyframe::KeyframeArguments;
use crate::lab::{LabArguments, OwnArguments};
use crate::live::LiveArguments;
use crate::ls::LsArguments;
use crate::manual::ManArguments;
use crate::mcp::McpArguments;
use crate::minimize::MinimizeArguments;
use crate::pack::PackArguments;
use crate::page::TimelineArguments;
use crate::print::{CallsArguments, PrintArguments};
use crate::query::QueryArguments;
use crate::questions::{BtArguments, WhenArguments, WhoWroteArguments};
use crate::race::RaceArguments;
use crate::record::RecordArguments;
use crate::replay::ReplayArguments;
use crate::report::ReportArguments;
use crate::retry::RetryArguments;
use crate::rm::RmArguments;
use crate::screenshot::ScreenshotArguments;
use crate::settings::Settings;
use crate::standby::server::ServeQuestionsArguments;

const EXAMPLES: &str = "\
Examples:
  retrovane record -- make -j2     record a program and all the processes it makes
  retrovane hunt -- ./flaky-test   record it again and again, until it fails
  retrovane replay                 replay what was recorded last
  retrovane debug -- ./server      gdb on a live program, with its past
  retrovane dump | less            what it did, call by call
  retrovane print --at app.c:42 'x, p->name'    x and p->name each time that the line was executed
  retrovane doctor                 what this machine offers

A trace is named by its name (see `retrovane ls`), by its directory, or, if it
is the latest, not at all. It holds what the program read: treat it as a secret.";

/// Record what a Linux program does, and replay it exactly.
#[derive(Parser, Debug)]
#[command(name = "retrovane", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
pub struct CommandLine {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Command,
}

/// The words of the command line. `replay` and `debug` take gdb's own spelling of `--ex`.
pub fn words() -> impl Iterator<Item = OsString> {
    let (mut is_gdb, mut are_ours) = (false, true);
    std::env::args_os().enumerate().map(move |(place, word)| {
        is_gdb |= place > 0 && (word == "replay" || word == "debug");
        are_ours &= word != "--";
        if is_gdb && are_ours && word == "-ex" { OsString::from("--ex") } else { word }
    })
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    Record(RecordArguments),
    Hunt(HuntArguments),
    Replay(ReplayArguments),
    Retry(RetryArguments),
    Minimize(MinimizeArguments),
    Diff(DiffArguments),
    Report(ReportArguments),
    Screenshot(ScreenshotArguments),
    Live(LiveArguments),
    Ctl(CtlArguments),
    Lab(LabArguments),
    Debug(DebugArguments),
    #[command(visible_alias = "list")]
    Ls(LsArguments),
    Info(InfoArguments),
    Dump(DumpArguments),
    Print(PrintArguments),
    Calls(CallsArguments),
    Bt(BtArguments),
    WhoWrote(WhoWroteArguments),
    When(WhenArguments),
    Race(RaceArguments),
    Query(QueryArguments),
    Mcp(McpArguments),
    Dap(DapArguments),
    Timeline(TimelineArguments),
    Keyframe(KeyframeArguments),
    Pack(PackArguments),
    Rm(RmArguments),
    Doctor(DoctorArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
    ServeGdb(ServeArguments),
    ServeLive(ServeLiveArguments),
    ServeQuestions(ServeQuestionsArguments),
    LabOwn(OwnArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        for command in CommandLine::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "`retrovane {} --help` has no example", command.get_name());
        }
    }

    #[test]
    fn options_of_the_program_are_not_ours() {
        let line = CommandLine::try_parse_from(["retrovane", "record", "ls", "-q", "--home", "x"]);
        let line = line.expect("everything after the program belongs to it");
        assert!(!line.settings.quiet);
        let line = CommandLine::try_parse_from(["retrovane", "record", "--", "ls", "--", "-q"]);
        let Command::Record(arguments) = line.expect("`--` ends our options").command else {
            panic!("another command");
        };
        assert_eq!(arguments.command(), ["ls", "--", "-q"]);
    }

    #[test]
    fn options_before_the_program_are_ours() {
        for words in [&["--no-such-option", "--", "true"][..], &["--no-such-option"], &["-x", "ls"]] {
            let line = CommandLine::try_parse_from([&["retrovane", "record"], words].concat());
            let error = line.expect_err("nobody knows the option");
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{words:?}");
        }
    }
}
