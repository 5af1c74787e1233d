//! `retrovane completions`.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::command_line::CommandLine;
use crate::exit::CommandError;

const EXAMPLES: &str = "\
Examples:
  retrovane completions bash > ~/.local/share/bash-completion/completions/retrovane
  retrovane completions zsh > \"${fpath[1]}/_retrovane\"
  retrovane completions fish > ~/.config/fish/completions/retrovane.fish";

/// Print the script that lets a shell complete our commands
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell
    shell: KnownShell,
}

/// Shells that are known here.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub fn run(arguments: &CompletionsArguments) -> Result<ExitCode, CommandError> {
    let shell = match arguments.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    // The generator panics where it cannot write: it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "retrovane", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
