//! `retrovane man`: the manual, from the same grammar that parses the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::command_line::CommandLine;
use crate::exit::CommandError;

const EXAMPLES: &str = "\
Examples:
  retrovane man | man -l -
  retrovane man dump | man -l -
  retrovane man --dir ~/.local/share/man/man1";

/// Print the manual page, or write all of them into a directory
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManArguments {
    /// Page of this command [default: that of retrovane itself]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    page: Option<String>,
    /// Write retrovane.1 and a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes pages.
pub fn run(arguments: &ManArguments) -> Result<ExitCode, CommandError> {
    let mut root = CommandLine::command().disable_help_subcommand(true);
    root.build();
    if let Some(dir) = &arguments.dir {
        write_all(&root, dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = match &arguments.page {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            CommandError::Usage(format!("there is no command {name:?}: `retrovane --help` lists them"))
        })?,
    };
    std::io::stdout().write_all(&render(page)?)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(root: &Command, dir: &Path) -> Result<(), CommandError> {
    let failed = |path: &Path, source| CommandError::Write { path: path.to_owned(), source };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for command in std::iter::once(root).chain(root.get_subcommands()) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, render(command.clone())?).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn render(command: Command) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    Man::new(command).manual("Retrovane").render(&mut page)?;
    Ok(page)
}
