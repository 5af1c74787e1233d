//! What a lab says, as text or as JSON.

use std::io::Write;

use lab::{Action, NodeEnd, Record, Spec, Stream, Taken};

/// Where and how it is shown.
pub struct Shown {
    names: Vec<String>,
    width: usize,
    as_json: bool,
    only: Option<String>,
}

impl Shown {
    pub fn new(spec: &Spec, as_json: bool, only: Option<String>) -> Shown {
        let names: Vec<String> = spec.nodes.iter().map(|node| node.name.clone()).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        Shown { names, width, as_json, only }
    }

    /// Shows one record.
    pub fn record(&mut self, record: &Record) {
        let node = match record {
            Record::Output { node, .. } | Record::End { node, .. } | Record::Command { node, .. } => {
                Some(*node)
            }
            Record::Unsupported { node, .. } | Record::Preempted { node, .. } => *node,
            Record::Event { .. } => None,
        };
        let name = node.map_or("lab", |node| self.names[node].as_str());
        if self.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        let line = if self.as_json { self.json(record, name) } else { self.text(record, name) };
        // Nobody reads any more: the lab goes on.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// Says that the lab is at a checkpoint again.
    pub fn back(&self, taken: &Taken) {
        let line = if self.as_json {
            serde_json::json!({ "is": "back", "at_ns": taken.at_ns, "checkpoint": taken.number }).to_string()
        } else {
            self.line(taken.at_ns, "lab", &format!("* back at checkpoint {}", taken.number))
        };
        // Nobody reads any more: the lab goes on.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    fn line(&self, at_ns: u64, name: &str, what: &str) -> String {
        let seconds = at_ns as f64 / 1e9;
        format!("{seconds:12.6} {name:width$} | {what}", width = self.width.max(3))
    }

    fn json(&self, record: &Record, name: &str) -> String {
        let mut value = serde_json::to_value(record).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("node".to_owned(), name.into());
        }
        value.to_string()
    }

    /// A record as a line.
    pub fn text(&self, record: &Record, name: &str) -> String {
        let (at_ns, what) = match record {
            Record::Output { at_ns, stream: Stream::Stdout, line, .. } => (at_ns, escaped(line)),
            Record::Output { at_ns, stream: Stream::Stderr, line, .. } => {
                (at_ns, format!("! {}", escaped(line)))
            }
            Record::Event { at_ns, action } => (at_ns, format!("* {}", self.action(action))),
            Record::End { at_ns, end, .. } => (at_ns, format!("* {}", end_text(*end))),
            Record::Command { at_ns, command, code, .. } => {
                (at_ns, format!("* `{}` failed: it ended with {code}", escaped(&command.join(" "))))
            }
            Record::Unsupported { at_ns, what, .. } => (at_ns, format!("* not there in a lab: {what}")),
            Record::Preempted { at_ns, thread, place, .. } => {
                (at_ns, format!("* thread {thread} was preempted, which computed at {place}"))
            }
        };
        self.line(*at_ns, name, &what)
    }

    fn action(&self, action: &Action) -> String {
        let name = |node: usize| self.names[node].as_str();
        match action {
            Action::Kill { node } => format!("{} loses power", name(*node)),
            Action::Restart { node } => format!("{} restarts", name(*node)),
            Action::Heal => "the network is whole".to_owned(),
            Action::Checkpoint => "checkpoint".to_owned(),
            Action::Every { every_ns: 0, .. } => "no more checkpoints by time".to_owned(),
            Action::Every { every_ns, keep } => {
                format!("a checkpoint every {} s, of which {keep} are kept", *every_ns as f64 / 1e9)
            }
            Action::Seed { seed } => format!("chance draws by the seed {seed}"),
            Action::Stop => "the lab ends".to_owned(),
            Action::Run { node, command } => format!("{} runs {}", name(*node), command.join(" ")),
            Action::Link { between: (one, other), .. } => {
                format!("the link of {} and {} changes", name(*one), name(*other))
            }
            Action::Partition { parts } => {
                let numbers: std::collections::BTreeSet<u32> = parts.iter().copied().collect();
                let groups = numbers.iter().map(|number| {
                    let members = parts.iter().enumerate().filter(|(_, part)| *part == number);
                    members.map(|(node, _)| name(node)).collect::<Vec<_>>().join(" ")
                });
                format!("the network falls apart: {}", groups.collect::<Vec<_>>().join(" / "))
            }
        }
    }
}

fn end_text(end: NodeEnd) -> String {
    match end {
        NodeEnd::Ended(code) => format!("ended with {code}"),
        NodeEnd::Killed => "was without power at the end".to_owned(),
        NodeEnd::Stopped => "served until all others had ended".to_owned(),
    }
}

/// Without what would control a terminal.
fn escaped(line: &str) -> String {
    let tame = |char: char| match char {
        '\t' => "\t".to_owned(),
        char if char.is_control() => char.escape_default().to_string(),
        char => char.to_string(),
    };
    line.chars().map(tame).collect()
}
