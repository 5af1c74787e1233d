//! The verbs, as agents and people see them: one table for `mcp`, `query` and the documents.

use serde_json::{Map, Value, json};

/// What a verb is asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A trace as a whole: answered by a replay of all of it.
    Trace,
    /// The log of a trace: answered from its index.
    Log,
    /// A cursor: a position in one process of a recording.
    Cursor,
    /// A trace, beside which something is made.
    Made,
}

pub struct Verb {
    pub name: &'static str,
    pub of: Of,
    pub about: &'static str,
    pub parameters: &'static [Parameter],
}

pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub is_needed: bool,
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Truth,
    Texts,
    OneOf(&'static [&'static str]),
}

const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, is_needed: true, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, is_needed: false, about }
}

const EXPRESSION: &str = "An expression of the program's language that reads: variables, members, elements, *p, &x, casts, \
     arithmetic, registers ($rax). No calls, no assignments";
const MOST: Parameter = may("most", Kind::Number, "Most objects in the answer [20]");
const LAST: Parameter = may("last", Kind::Truth, "The last ones instead of the first");
const CONDITION: Parameter = may("condition", Kind::Text, "Only where this expression is not 0");
const MEETING_PROCESS: Parameter =
    may("process", Kind::Number, "The process [needed with a position, where the recording has several]");
const MEETING_POSITION: Parameter = may(
    "position",
    Kind::Text,
    "A position such as 109+4578, or an event such as 109, as `search` numbers them [end]",
);

const MEETING_POSITION_OF_TURNS: Parameter =
    may("position", Kind::Text, "From here on: a position of that process, or an event [the beginning]");

pub const VERBS: &[Verb] = &[
    Verb {
        name: "overview",
        of: Of::Trace,
        about: "What a recording is: command, processes, number of events, how it ended, what was refused.",
        parameters: &[],
    },
    Verb {
        name: "search",
        of: Of::Log,
        about: "Events of the log (system calls, signals, ends) whose text holds something, as strace would show them, \
                each with process and position.",
        parameters: &[
            may("text", Kind::Text, "What the event's text holds [anything]"),
            may(
                "calls",
                Kind::Text,
                "Only these calls or classes (file, network, process, memory, signal, ...), with commas",
            ),
            may("process", Kind::Number, "Only this process"),
            MOST,
            LAST,
        ],
    },
    Verb {
        name: "sender",
        of: Of::Log,
        about: "Which event, of which process, sent what a process received last before a position: over pipes, sockets and \
                queues, by signals, waits, births, and through memory that processes share. Open a cursor of the sender's process \
                at the sender's position to see who sent it.",
        parameters: &[MEETING_PROCESS, MEETING_POSITION],
    },
    Verb {
        name: "receiver",
        of: Of::Log,
        about: "Which events received what a process sent last before a position.",
        parameters: &[MEETING_PROCESS, MEETING_POSITION],
    },
    Verb {
        name: "turns",
        of: Of::Log,
        about: "Who ran when: which thread of which process, from which event to which, in the order of time. With a position, \
                from the turn on in which it is.",
        parameters: &[MEETING_PROCESS, MEETING_POSITION_OF_TURNS, MOST, LAST],
    },
    Verb {
        name: "report",
        of: Of::Made,
        about: "Writes one self-contained page about the recording and its failure beside the trace, under a new name, and says \
                where. Replays the recording up to the crash.",
        parameters: &[
            may("redact", Kind::Truth, "Leave data out that may be secret; there is no pack then"),
            may("pack", Kind::Truth, "Also make the pack that the page names: the whole trace in one file"),
        ],
    },
    Verb {
        name: "hunt",
        of: Of::Made,
        about: "Runs the recorded program again and again, each time with another schedule of its threads and processes, until it \
                fails, and keeps that recording: `open` takes its name. Each try runs in a sandbox, in the recorded world: no network, \
                no other processes, no files outside. Takes as long as its tries. Refused unless whoever started the server \
                permitted it (--allow-hunt).",
        parameters: &[
            may("tries", Kind::Number, "Most tries [100, at most 10000]"),
            may(
                "seed",
                Kind::Number,
                "The number that the schedules come from, at most 4294967295 [a random one]",
            ),
        ],
    },
    Verb {
        name: "calls",
        of: Of::Trace,
        about: "Each call of a function in the whole recording, with arguments, result and position. Replays the recording once.",
        parameters: &[needed("function", Kind::Text, "Its name"), CONDITION, MOST, LAST],
    },
    Verb {
        name: "values",
        of: Of::Trace,
        about: "Values of expressions at each execution of a line in the whole recording, with positions. Replays the \
                recording once.",
        parameters: &[
            needed("line", Kind::Text, "FILE:LINE, the file by the end of its path"),
            needed("expressions", Kind::Texts, "Expressions that read"),
            CONDITION,
            MOST,
            LAST,
        ],
    },
    Verb {
        name: "where",
        of: Of::Cursor,
        about: "Where the cursor is: position, thread, frame, and the source lines around it.",
        parameters: &[],
    },
    Verb {
        name: "go",
        of: Of::Cursor,
        about: "Moves the cursor to the start, the end, the crash, a bookmark, or a position that an answer named.",
        parameters: &[needed(
            "to",
            Kind::Text,
            "start, end, crash, the name of a bookmark, or a position such as 109 or 109+4578",
        )],
    },
    Verb {
        name: "backtrace",
        of: Of::Cursor,
        about: "The frames of the thread with arguments (and locals), innermost first.",
        parameters: &[
            may("frames", Kind::Number, "Most frames [12, at most 40]"),
            may("locals", Kind::Truth, "With the values of local variables"),
        ],
    },
    Verb {
        name: "evaluate",
        of: Of::Cursor,
        about: "Values and types of expressions in a frame.",
        parameters: &[
            needed("expressions", Kind::Texts, EXPRESSION),
            may("frame", Kind::Number, "Level of the frame [0, the innermost]"),
        ],
    },
    Verb {
        name: "last_write",
        of: Of::Cursor,
        about: "Goes back to the instruction that last wrote an expression's place, and shows the values before and \
                behind it. May replay much of the recording.",
        parameters: &[needed("expression", Kind::Text, EXPRESSION)],
    },
    Verb {
        name: "writes",
        of: Of::Cursor,
        about: "The writes of an expression's place before the cursor, latest first. The cursor stays. May replay much of the \
                recording.",
        parameters: &[
            needed("expression", Kind::Text, EXPRESSION),
            may("most", Kind::Number, "Most writes [10, at most 50]"),
        ],
    },
    Verb {
        name: "step",
        of: Of::Cursor,
        about: "Steps by source lines, back by default: back_line over calls, back_into the end of a call, back_to_caller to \
                where this function was called; line, into and out go forward.",
        parameters: &[
            may(
                "way",
                Kind::OneOf(&["back_line", "back_into", "back_to_caller", "line", "into", "out"]),
                "Which way [back_line]",
            ),
            may("times", Kind::Number, "So many times [1]"),
        ],
    },
    Verb {
        name: "run_to",
        of: Of::Cursor,
        about: "Runs back (or forward) to the nearest execution of a line or function, and stands before it. May replay much of \
                the recording.",
        parameters: &[
            needed("location", Kind::Text, "FILE:LINE, or a function's name"),
            may("forward", Kind::Truth, "Forward instead of back"),
            CONDITION,
        ],
    },
    Verb {
        name: "threads",
        of: Of::Cursor,
        about: "All threads of the process at this position, with their innermost frames.",
        parameters: &[],
    },
];

/// The verb of this name.
pub fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

/// The JSON schema of a verb's arguments; `others` are those that all verbs have.
pub fn schema(verb: &Verb, others: &[Parameter]) -> Map<String, Value> {
    let all = || others.iter().chain(verb.parameters);
    let properties: Map<String, Value> =
        all().map(|parameter| (parameter.name.to_owned(), property(parameter))).collect();
    let needed: Vec<&str> =
        all().filter(|parameter| parameter.is_needed).map(|parameter| parameter.name).collect();
    let schema = json!({
        "type": "object", "properties": properties, "required": needed, "additionalProperties": false
    });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn property(parameter: &Parameter) -> Value {
    let mut property = match parameter.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Number => json!({"type": "integer", "minimum": 0}),
        Kind::Truth => json!({"type": "boolean"}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16}),
        Kind::OneOf(words) => json!({"type": "string", "enum": words}),
    };
    property["description"] = Value::String(parameter.about.to_owned());
    property
}

pub const TRACE: Parameter = may("trace", Kind::Text, "Name or directory of the trace [the latest]");
pub const CURSOR: Parameter = needed("cursor", Kind::Number, "The cursor, as `open` numbered it");
pub const TIMEOUT: Parameter =
    may("timeout_s", Kind::Number, "Give up after so many seconds; the cursor is then where it was [120]");

/// What makes a cursor, and what ends it; for servers that hold several.
pub const OPEN: Verb = Verb {
    name: "open",
    of: Of::Trace,
    about: "Opens a cursor on a recording, at the crash by default, and shows where that is. Several may be open at once. \
            Answers with the cursor's number. Replays the recording up to that place.",
    parameters: &[
        may(
            "at",
            Kind::Text,
            "start, end, crash (the panic of a program in Rust or Go), or a position such as 109+4578 [crash]",
        ),
        may(
            "process",
            Kind::Number,
            "The process, where the recording has several [the one that died or panicked, or the first]",
        ),
    ],
};
pub const CLOSE: Verb =
    Verb { name: "close", of: Of::Cursor, about: "Closes a cursor: its debugger ends.", parameters: &[] };
/// Names the position of a cursor; for servers, where a cursor stays.
pub const BOOKMARK: Verb = Verb {
    name: "bookmark",
    of: Of::Cursor,
    about: "Names the cursor's position, so that `go` leads back to it; without a name, lists all names of this cursor.",
    parameters: &[may("name", Kind::Text, "A word")],
};
