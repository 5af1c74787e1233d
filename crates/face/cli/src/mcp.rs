//! `retrovane mcp`: the verbs of [`crate::verbs`] for agents, by the Model Context Protocol on
//! standard input and output.
//!
//! Deliberately absent: tools that run a command of a shell or of a debugger, or that reach outside of
//! the traces; a network port.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, transport};
use serde_json::{Value, json};

use crate::exit::{self, CommandError};
use crate::settings::Settings;
use crate::verbs::answers::{Answers, Question};
use crate::verbs::cursor::{Beginning, Cursor, Limit};
use crate::verbs::log::LastIndex;
use crate::verbs::table::{self, BOOKMARK, CLOSE, CURSOR, OPEN, Of, Parameter, TIMEOUT, TRACE, VERBS, Verb};
use crate::verbs::{Arguments, VerbError, bounded, made, number, text, whole};

const EXAMPLES: &str = "\
Examples:
  retrovane mcp                         an agent's client starts it: its standard input and output are the protocol
  retrovane mcp make-3                  the tools mean this trace where they name none
  {\"mcpServers\": {\"retrovane\": {\"command\": \"retrovane\", \"args\": [\"mcp\"]}}}

The tools look at recordings and move cursors in them. `report` writes a page beside a trace. `hunt` runs the recorded
program again, in a sandbox, and only with --allow-hunt. See docs/AGENTS.md.";

/// Cursors that may be open at once: each has a debugger and a replaying program.
const CURSORS_MAX: usize = 8;
/// So long a request may take where nobody says otherwise, in seconds.
const TIMEOUT_S: u64 = 120;
const TIMEOUT_S_MAX: u64 = 3600;

const INSTRUCTIONS: &str = "Recordings of programs, which replay exactly, forwards and backwards. Begin with `open` \
(it stands at the crash, or at the end) and `backtrace` with locals; ask `last_write` of the value that is wrong, and again of \
what it came from; `evaluate` where it was written. Positions in answers lead back by `go`.";

/// Serve recordings to agents, by the Model Context Protocol on standard input and output
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct McpArguments {
    /// The trace that tools mean where they name none [default: the latest]
    trace: Option<String>,
    /// Permit the tool `hunt`: it runs the recorded program again, in a sandbox without network, until it fails
    #[arg(long)]
    allow_hunt: bool,
}

/// Serves until the client closes standard input.
pub fn run(arguments: McpArguments, settings: Settings) -> ExitCode {
    let McpArguments { trace, allow_hunt } = arguments;
    let server = Server {
        settings,
        trace,
        may_hunt: allow_hunt,
        cursors: Mutex::default(),
        last_index: LastIndex::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            let service = Agents(Arc::new(server)).serve(transport::stdio()).await;
            let service = service.map_err(|error| error.to_string())?;
            service.waiting().await.map(drop).map_err(|error| error.to_string())
        })
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("the client does not speak the Model Context Protocol: {error}");
            exit::failure(exit::FAILED, &CommandError::Usage(text))
        }
    }
}

struct Server {
    settings: Settings,
    trace: Option<String>,
    may_hunt: bool,
    cursors: Mutex<Cursors>,
    last_index: LastIndex,
}

#[derive(Default)]
struct Cursors {
    open: HashMap<u64, Arc<Mutex<Cursor>>>,
    next: u64,
}

impl Server {
    fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trace_dir(&self, arguments: &Arguments) -> Result<PathBuf, VerbError> {
        let found = match text(arguments, "trace")? {
            Some(name) => self.settings.present_dir(Some(name)),
            None => self.settings.trace_dir(self.trace.as_deref()),
        };
        found.map_err(|error| VerbError::Refused(error.to_string()))
    }

    fn answer(
        &self,
        verb: &Verb,
        mut arguments: Arguments,
        give_up: &AtomicBool,
    ) -> Result<Value, VerbError> {
        refuse_unknown(verb, &arguments)?;
        let seconds = number(&arguments, "timeout_s", TIMEOUT_S_MAX)?.unwrap_or(TIMEOUT_S).max(1);
        let limit = Limit::new(seconds, give_up, self.settings.sandbox);
        if verb.of != Of::Cursor {
            let trace = self.trace_dir(&arguments)?;
            return match verb.name {
                "open" => self.open(&trace, &arguments, limit),
                name if verb.of == Of::Made => {
                    made::answer(name, &trace, &arguments, &limit, &self.settings, self.may_hunt)
                }
                _ => self.of_trace(verb, &trace, arguments, &limit),
            };
        }
        let wanted = number(&arguments, "cursor", u64::MAX)?
            .ok_or_else(|| VerbError::Refused("`cursor` is missing: `open` gives one".to_owned()))?;
        if verb.name == CLOSE.name {
            let closed = self.cursors().open.remove(&wanted);
            return match closed {
                Some(_) => Ok(json!({"closed": wanted})),
                None => Err(no_cursor(wanted)),
            };
        }
        let cursor = self.cursors().open.get(&wanted).cloned().ok_or_else(|| no_cursor(wanted))?;
        arguments.remove("cursor");
        arguments.remove("timeout_s");
        let answer = cursor.lock().unwrap_or_else(PoisonError::into_inner).ask(verb.name, &arguments, limit);
        if matches!(answer, Err(VerbError::Ended(_))) {
            self.cursors().open.remove(&wanted);
        }
        answer
    }

    /// What is asked of a whole trace: from before, where a replay of all of it has answered it.
    fn of_trace(
        &self,
        verb: &Verb,
        trace: &std::path::Path,
        mut given: Arguments,
        limit: &Limit<'_>,
    ) -> Result<Value, VerbError> {
        if verb.of == Of::Log {
            return whole::answer(verb.name, trace, &given, limit, &self.last_index);
        }
        given.remove("trace");
        given.remove("timeout_s");
        let question = Question { verb: verb.name, pid: None, at: None, given: &given };
        let answers = Answers::of(trace);
        if let Some(answer) = answers.as_ref().and_then(|answers| answers.get(question)) {
            return Ok(answer.clone());
        }
        let answer = whole::answer(verb.name, trace, &given, limit, &self.last_index)?;
        if let Some(answers) = answers {
            answers.keep(question, &answer, &[]);
        }
        Ok(answer)
    }

    fn open(
        &self,
        trace: &std::path::Path,
        arguments: &Arguments,
        limit: Limit<'_>,
    ) -> Result<Value, VerbError> {
        if self.cursors().open.len() >= CURSORS_MAX {
            return Err(VerbError::Refused(format!("{CURSORS_MAX} cursors are open: `close` one")));
        }
        let at = text(arguments, "at")?.unwrap_or("crash");
        if at.starts_with('-') {
            return Err(VerbError::Refused("`at` is start, end, crash or a position".to_owned()));
        }
        let pid = number(arguments, "process", u64::from(u32::MAX))?;
        let opened = Cursor::open(&Beginning { trace, pid, at }, limit);
        let (cursor, mut place) = match opened {
            // A program that did not crash has an end.
            Err(VerbError::Ended(_)) if at == "crash" && !arguments.contains_key("at") => {
                Cursor::open(&Beginning { trace, pid, at: "end" }, limit)?
            }
            opened => opened?,
        };
        let mut cursors = self.cursors();
        cursors.next += 1;
        let number = cursors.next;
        cursors.open.insert(number, Arc::new(Mutex::new(cursor)));
        place["cursor"] = Value::from(number);
        Ok(place)
    }
}

fn no_cursor(number: u64) -> VerbError {
    VerbError::Refused(format!("there is no cursor {number}: `open` makes one"))
}

/// The server, as the protocol's library wants it.
struct Agents(Arc<Server>);

impl ServerHandler for Agents {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("retrovane", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(all_verbs().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(verb) = all_verbs().find(|verb| verb.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let (server, give_up) = (Arc::clone(&self.0), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&give_up);
        let mut work = tokio::task::spawn_blocking(move || server.answer(verb, arguments, &seen));
        let answer = tokio::select! {
            answer = &mut work => answer,
            () = context.ct.cancelled() => {
                give_up.store(true, Ordering::Release);
                work.await
            }
        };
        let result = match answer {
            Ok(Ok(answer)) => CallToolResult::structured(bounded(answer)),
            Ok(Err(error)) => CallToolResult::structured_error(json!({"error": error.to_string()})),
            Err(error) => CallToolResult::structured_error(json!({"error": error.to_string()})),
        };
        Ok(result.into())
    }
}

fn all_verbs() -> impl Iterator<Item = &'static Verb> {
    [&OPEN, &CLOSE, &BOOKMARK].into_iter().chain(VERBS)
}

/// The arguments that all tools of a kind have.
fn in_common(of: Of) -> &'static [Parameter] {
    match of {
        Of::Trace | Of::Log | Of::Made => &[TRACE, TIMEOUT],
        Of::Cursor => &[CURSOR, TIMEOUT],
    }
}

/// What is not known would be left out without a word, and the answer be another than was meant.
fn refuse_unknown(verb: &Verb, arguments: &Arguments) -> Result<(), VerbError> {
    let known: Vec<&str> =
        verb.parameters.iter().chain(in_common(verb.of)).map(|parameter| parameter.name).collect();
    match arguments.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let (verb, known) = (verb.name, known.join(", "));
            Err(VerbError::Refused(format!("{verb} has no argument `{name}`: it has {known}")))
        }
        None => Ok(()),
    }
}

fn tool(verb: &Verb) -> Tool {
    let others = in_common(verb.of);
    let mut tool = Tool::new(verb.name, verb.about, Arc::new(table::schema(verb, others)));
    let hints = ToolAnnotations::new().read_only(verb.of != Of::Made).open_world(false);
    tool.annotations = Some(if verb.of == Of::Made { hints.destructive(false) } else { hints });
    tool
}
