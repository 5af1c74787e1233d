//! `retrovane dap`: an editor's debugger, by the Debug Adapter Protocol on standard input and output.
//!
//! This process frames the messages, records programs, and starts and ends one gdb on our server; in
//! it `gdb/editor.py` answers what concerns the program ([`debugger`]). When the editor leaves, or its
//! end of the pipe is closed, all of that ends too.
//!
//! Deliberately absent: a port on a network.

mod debugger;
mod launch;
mod messages;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{self, CommandError};
use crate::settings::Settings;

use debugger::Debugger;
use launch::{Opening, Running};
use messages::Messages;

const EXAMPLES: &str = "\
Examples:
  retrovane dap                        an editor starts it: its standard input and output are the protocol
  retrovane dap --log /tmp/dap.log     with all messages, one a line, to look at

An editor's configuration says what is debugged:
  {\"request\": \"launch\", \"program\": \"./app\"}               record it, then look at the recording
  {\"request\": \"launch\", \"program\": \"./app\", \"hunt\": 500}  record it until it fails, at most so often
  {\"request\": \"launch\", \"program\": \"./app\", \"live\": true} the live program, with its past
  {\"request\": \"attach\", \"trace\": \"app-3\"}                  a recording
  {\"request\": \"attach\", \"processId\": 4711}                a process that runs, and its past from then on
  {\"request\": \"attach\", \"session\": \"server\"}               the past of a session of `retrovane live`
See docs/EDITORS.md for all fields, and for each editor's settings.";

/// Serve an editor as its debugger, by the Debug Adapter Protocol on standard input and output
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DapArguments {
    /// Write all messages to this file, one a line: `<` from the editor, `>` to it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Serves until the editor disconnects, or closes standard input.
pub fn run(arguments: &DapArguments, settings: Settings) -> ExitCode {
    let messages = match Messages::new(arguments.log.as_deref()) {
        Ok(messages) => Arc::new(messages),
        Err(error) => return exit::failure(error.code(), &error),
    };
    let adapter =
        Adapter { messages, settings: Arc::new(settings), state: Arc::default(), opener: Mutex::default() };
    let ended = adapter.serve();
    adapter.end();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error.code(), &error),
    }
}

/// What is debugged.
#[derive(Default)]
enum State {
    #[default]
    Nothing,
    /// A program is being recorded, or a debugger starts.
    Opening(Opening),
    Debugging(Debugger),
}

struct Adapter {
    messages: Arc<Messages>,
    settings: Arc<Settings>,
    state: Arc<Mutex<State>>,
    /// Who opens something.
    opener: Mutex<Option<JoinHandle<()>>>,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Adapter {
    fn serve(&self) -> Result<(), CommandError> {
        let mut input = std::io::stdin().lock();
        while let Some(request) = self.messages.read(&mut input)? {
            let command = request["command"].as_str().unwrap_or_default();
            match command {
                "initialize" if request["arguments"]["linesStartAt1"] == false => {
                    self.messages.refuse(&request, "lines are counted from 1 here");
                }
                "initialize" => self.messages.respond(&request, Some(capabilities())),
                "launch" | "attach" => self.open(request),
                "disconnect" => {
                    self.end();
                    self.messages.respond(&request, None);
                    return Ok(());
                }
                "terminate" => {
                    self.end();
                    self.messages.respond(&request, None);
                    self.messages.event("terminated", json!({}));
                }
                _ => self.pass_on(&request),
            }
        }
        Ok(())
    }

    /// Records, and starts the debugger, while further requests are read.
    fn open(&self, request: Value) {
        let opening = Opening::default();
        {
            let mut state = locked(&self.state);
            if !matches!(*state, State::Nothing) {
                drop(state);
                return self.messages.refuse(&request, "something is debugged already: disconnect first");
            }
            *state = State::Opening(opening.clone());
        }
        let (messages, settings, state) =
            (Arc::clone(&self.messages), Arc::clone(&self.settings), Arc::clone(&self.state));
        let opener = std::thread::spawn(move || {
            let running = Running { opening: &opening, messages: &messages, settings: &settings };
            let opened = running.open(&request);
            let mut state = locked(&state);
            match opened {
                // The editor has left meanwhile: what was opened ends with this.
                Ok(_) if opening.is_given_up() => {}
                Ok(debugger) => {
                    *state = State::Debugging(debugger);
                    messages.respond(&request, None);
                    messages.event("initialized", json!({}));
                }
                Err(problem) => {
                    *state = State::Nothing;
                    messages.refuse(&request, &problem);
                }
            }
        });
        *self.opener() = Some(opener);
    }

    fn opener(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, request: &Value) {
        match &*locked(&self.state) {
            State::Debugging(debugger) => {
                if !debugger.ask(request) {
                    self.messages.refuse(request, "the debugger has ended");
                }
            }
            State::Nothing | State::Opening(_) => {
                self.messages.refuse(request, "no program is looked at yet")
            }
        }
    }

    /// Ends all that was started.
    fn end(&self) {
        // A debugger ends by being dropped.
        let state = std::mem::take(&mut *locked(&self.state));
        let opener = self.opener().take();
        if let (State::Opening(opening), Some(opener)) = (state, opener) {
            opening.give_up(&opener);
            let _ = opener.join();
        }
    }
}

fn capabilities() -> Value {
    let filters = [("throw", "C++: exceptions thrown"), ("catch", "C++: exceptions caught")];
    json!({
        "supportsStepBack": true,
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsDataBreakpoints": true,
        "supportsInstructionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsLogPoints": true,
        "supportsEvaluateForHovers": true,
        "supportsSetVariable": true,
        "supportsSetExpression": true,
        "supportsGotoTargetsRequest": true,
        "supportsExceptionInfoRequest": true,
        "supportsReadMemoryRequest": true,
        "supportsDisassembleRequest": true,
        "supportsSteppingGranularity": true,
        "supportsValueFormattingOptions": true,
        "supportsDelayedStackTraceLoading": true,
        "supportsTerminateRequest": true,
        "exceptionBreakpointFilters":
            filters.map(|(filter, label)| json!({"filter": filter, "label": label})),
    })
}
