//! `retrovane lab discard`: checkpoints are not gone back to any more.

use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

use clap::Args;

use crate::exit;
use crate::lab::futures::{self, Event};
use crate::lab::running;
use crate::settings::Settings;

#[derive(Args, Debug)]
pub struct DiscardArguments {
    /// Their numbers, as `lab tree` lists them
    #[arg(required = true, value_name = "N")]
    numbers: Vec<usize>,
    /// The run: its name, its folder [default: the latest that runs]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

/// Hands it to the keeper; waits until it is done.
pub fn ask_keeper(keeper: Option<&Sender<Event>>, numbers: Vec<usize>) -> Result<(), String> {
    let (reply, answer) = channel();
    let asked = keeper.is_some_and(|keeper| keeper.send(Event::Discard { numbers, reply }).is_ok());
    let answer = asked.then(|| answer.recv().ok()).flatten();
    answer.unwrap_or_else(|| Err("the lab has ended meanwhile".to_owned()))
}

pub fn discard(arguments: &DiscardArguments, settings: &Settings) -> ExitCode {
    let dir = match running::named_run(arguments.run.as_deref(), settings) {
        Ok(dir) => dir,
        Err(error) => return exit::failure(exit::USAGE, &error),
    };
    let numbers = arguments.numbers.clone();
    let done = running::ask_discard(&dir, numbers)
        // Nobody runs it any more.
        .unwrap_or_else(|_| futures::discard(&futures::present(&dir), &arguments.numbers));
    match done {
        Ok(()) if arguments.json => println!("{}", serde_json::json!({ "discarded": arguments.numbers })),
        Ok(()) => {}
        Err(reason) => return exit::failure(exit::FAILED, &reason),
    }
    ExitCode::SUCCESS
}
