//! Retrovane inside of a recording. A process has one runtime at a time: what is recorded already is
//! recorded by the outer one, and nothing can be replayed there.

use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};

use recorder::RecordError;

use crate::command_line::Command;
use crate::exit;
use crate::record::{self, RecordArguments};
use crate::settings::Settings;

/// What a command does there. `None`: what it does elsewhere.
pub fn instead(command: &Command, settings: &Settings) -> Option<ExitCode> {
    if !injector::is_recorded() {
        return None;
    }
    if let Command::Record(arguments) = command {
        return Some(run(arguments, settings));
    }
    needs_session(command).then(|| {
        exit::failure(
            exit::NOT_RECORDABLE,
            &"this runs inside of a recording, where no other session can be: run the command outside of it",
        )
    })
}

/// True for a command that records or replays; others read traces.
fn needs_session(command: &Command) -> bool {
    matches!(
        command,
        Command::Hunt(_)
            | Command::Live(_)
            | Command::Replay(_)
            | Command::Print(_)
            | Command::Calls(_)
            | Command::Bt(_)
            | Command::WhoWrote(_)
            | Command::When(_)
            | Command::Race(_)
            | Command::Query(_)
            | Command::Keyframe(_)
            | Command::Dap(_)
            | Command::Debug(_)
            | Command::Minimize(_)
            | Command::Retry(_)
            | Command::Report(_)
            | Command::ServeLive(_)
            | Command::ServeGdb(_)
            | Command::ServeQuestions(_)
    )
}

/// Becomes the program, which the outer recording goes on with.
fn run(arguments: &RecordArguments, settings: &Settings) -> ExitCode {
    let Some((name, rest)) = arguments.command().split_first() else {
        return exit::failure(exit::USAGE, &"no program given");
    };
    let program = match injector::resolve(name, rest) {
        Ok(program) => program,
        Err(error) => {
            let error = RecordError::Program(error);
            return exit::failure(record::code_of(&error), &error);
        }
    };
    if !settings.quiet {
        diagnostics::tell!(
            "retrovane: this runs inside of a recording: the outer `retrovane record` records {} in its own trace, and this one writes none",
            name.display()
        );
    }
    let error = process::Command::new(&program.file).arg0(name).args(rest).exec();
    exit::failure(exit::FAILED, &format!("cannot execute {}: {error}", program.file.display()))
}
