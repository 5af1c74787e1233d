//! Questions about a recording, for programs: what `mcp` and `query` offer.
//!
//! A *verb* is asked of a *cursor*, which stands at a position of a recording ([`cursor`]), or of the
//! trace itself ([`whole`]). Answers are JSON objects of bounded size.
//!
//! Two make something: a page, and recordings of the program run again ([`made`]).
//!
//! Deliberately absent: commands of gdb or of a shell in any form; what reaches outside of the trace.

pub mod answers;
pub mod cursor;
pub mod log;
pub mod made;
pub mod table;
pub mod turns;
pub mod whole;

use serde_json::{Map, Value};

/// Longest answer, in bytes. What is longer is cut, and says so.
pub const ANSWER_BYTES_MAX: usize = 12 * 1024;

/// Why a verb has no answer.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// What was asked makes no sense, or the program cannot answer it.
    #[error("{0}")]
    Refused(String),
    #[error("cannot {doing}: {source}")]
    Try {
        doing: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// The debugger behind a cursor ended; what it said last.
    #[error("{}", why_ended(.0))]
    Ended(String),
    #[error("given up: it took longer than {0} s; `timeout_s` permits more")]
    TooLong(u64),
}

/// What ours said last is why; of anything else, what it was is not clear by itself.
fn why_ended(said: &str) -> String {
    const OURS: &str = "retrovane: ";
    // What the recorded program wrote stands before it.
    let ours = said.lines().rev().find_map(|line| line.strip_prefix(OURS));
    ours.map_or_else(|| format!("the debugger has ended: {said}"), str::to_owned)
}

/// The arguments of a request.
pub type Arguments = Map<String, Value>;

/// The text under this name, if there is one.
pub fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<Option<&'a str>, VerbError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(VerbError::Refused(format!("`{name}` is a text"))),
    }
}

/// True if that stands under this name.
pub fn is_true(arguments: &Arguments, name: &str) -> bool {
    matches!(arguments.get(name), Some(Value::Bool(true)))
}

/// The number under this name, if there is one, at most `most`.
pub fn number(arguments: &Arguments, name: &str, most: u64) -> Result<Option<u64>, VerbError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .filter(|number| *number <= most)
            .map(Some)
            .ok_or_else(|| VerbError::Refused(format!("`{name}` is a number from 0 to {most}"))),
    }
}

/// Makes an answer fit: lists become shorter, from their ends, until it does.
pub fn bounded(mut answer: Value) -> Value {
    while answer.to_string().len() > ANSWER_BYTES_MAX {
        let Some(list) = longest_list(&mut answer) else {
            return serde_json::json!({"error": "the answer is too long", "cut": true});
        };
        let kept = list.len() / 2;
        list.truncate(kept);
        if let Some(object) = answer.as_object_mut() {
            object.insert("cut".to_owned(), Value::Bool(true));
        }
    }
    answer
}

/// The list with the longest text, at any depth, that still has an element.
fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    let path = longest_path(value)?.1;
    let pointer: String = path.iter().map(|part| format!("/{part}")).collect();
    value.pointer_mut(&pointer)?.as_array_mut()
}

fn longest_path(value: &Value) -> Option<(usize, Vec<String>)> {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(list) if !list.is_empty() => Some((value.to_string().len(), Vec::new())),
        Value::Object(members) => members
            .iter()
            .filter_map(|(name, member)| {
                let (bytes, mut path) = longest_path(member)?;
                path.insert(0, escaped(name));
                Some((bytes, path))
            })
            .max_by_key(|(bytes, _)| *bytes),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_lose_the_ends_of_their_lists() {
        let long = serde_json::json!({"a/b": {"lines": vec!["x".repeat(100); 1000]}, "few": [1, 2]});
        let answer = bounded(long);
        assert!(answer.to_string().len() <= ANSWER_BYTES_MAX);
        assert_eq!(answer["cut"], true);
        assert_eq!(answer["few"], serde_json::json!([1, 2]));
        assert!(answer["a/b"]["lines"].as_array().expect("a list").len() > 50);
        assert_eq!(bounded(serde_json::json!({"x": 1})), serde_json::json!({"x": 1}));
        assert!(bounded(Value::String("x".repeat(ANSWER_BYTES_MAX + 1)))["error"].is_string());
    }
}
