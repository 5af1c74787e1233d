//! Answers that were given before, kept beside the trace: who asks the same again has it at once.
//!
//! An answer is computed from the trace, from debug information, and from sources. It counts while the trace, this
//! build, the system's debug files, and the sources that were read for it are as they were.
//!
//! Invariant: a cache; nothing is lost with it. Deliberately absent: errors, and answers that were given up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trace_store::TraceReader;
use trace_store::computed::{self, Computed};

use super::Arguments;
use crate::own_build;

/// Bytes of all answers of a trace; the oldest go first.
const BYTES_MAX: usize = 1 << 20;
/// Where distributions install debug information: a folder for each first byte of a build's number.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";

/// What is asked, and where.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub verb: &'a str,
    pub pid: Option<u64>,
    pub at: Option<&'a str>,
    pub given: &'a Arguments,
}

impl Question<'_> {
    fn key(&self) -> String {
        json!([self.verb, self.pid, self.at, self.given]).to_string()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    question: String,
    answer: Value,
    /// Of each source that was read: when it was changed last, in nanoseconds, and its bytes; `None`: it was not there.
    sources: BTreeMap<PathBuf, Option<(i128, u64)>>,
}

/// The answers that were kept of a trace.
#[derive(Debug)]
pub struct Answers {
    trace: TraceReader,
    maker: Vec<u8>,
    all: Vec<Kept>,
}

impl Answers {
    /// `None` for what is no whole trace: whoever reads it says why.
    pub fn of(dir: &Path) -> Option<Answers> {
        let trace = TraceReader::open(dir).ok()?;
        let maker = maker();
        let read = computed::read(&trace, Computed::Answers, &maker);
        let all = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Some(Answers { trace, maker, all })
    }

    /// The answer to this question, if it still counts.
    pub fn get(&self, question: Question<'_>) -> Option<&Value> {
        let key = question.key();
        let kept = self.all.iter().find(|kept| kept.question == key)?;
        kept.sources.iter().all(|(path, before)| stamp(path) == *before).then_some(&kept.answer)
    }

    /// Keeps an answer that was computed from these sources, where the trace may be written to.
    pub fn keep(mut self, question: Question<'_>, answer: &Value, sources: &[PathBuf]) {
        let key = question.key();
        self.all.retain(|kept| kept.question != key);
        let sources = sources.iter().map(|path| (path.clone(), stamp(path))).collect();
        self.all.push(Kept { question: key, answer: answer.clone(), sources });
        let mut bytes = serde_json::to_vec(&self.all).unwrap_or_default();
        while bytes.len() > BYTES_MAX && !self.all.is_empty() {
            self.all.remove(0);
            bytes = serde_json::to_vec(&self.all).unwrap_or_default();
        }
        if let Err(error) = computed::write(&self.trace, Computed::Answers, &self.maker, &bytes) {
            tracing::debug!("the answer is not kept: {error}");
        }
    }
}

/// Which build asks, and with which debug files of the system.
pub fn maker() -> Vec<u8> {
    let folders = fs::read_dir(DEBUG_FILES).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = folders.filter_map(|folder| stamp(&folder)).max();
    format!("answers 1 {} {newest:?}", own_build::identity()).into_bytes()
}

fn stamp(path: &Path) -> Option<(i128, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()), found.len()))
}
