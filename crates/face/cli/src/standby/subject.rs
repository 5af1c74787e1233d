//! What a server answers for: a trace, and all else that answers depend on.
//!
//! Two are the same where the same question has the same answer: the trace's files, this build, the debug files
//! of the system, and from where and how it is asked.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use trace_store::TraceReader;

use crate::settings::Settings;
use crate::verbs::answers;

/// Variables that say where gdb and we look for something.
const VARIABLES: [&str; 6] = ["HOME", "PATH", "TMPDIR", "XDG_CONFIG_HOME", "DEBUGINFOD_URLS", "LANG"];

#[derive(Debug)]
pub struct Subject {
    pub text: String,
    /// The trace's own files, as they were.
    own_files: Vec<(PathBuf, State)>,
}

impl Subject {
    /// `None` for what no server answers for: a trace that is not whole, as it may still grow, and one whose code
    /// runs in the sandbox, as it is a stranger's and is not to stay.
    pub fn of(trace_dir: &Path, settings: &Settings) -> Option<Subject> {
        let trace = TraceReader::open(trace_dir).ok()?;
        if trace.cut().is_some() || settings.sandbox.is_wanted_for(&trace) {
            return None;
        }
        let dir = trace_dir.canonicalize().ok()?;
        let mut hasher = DefaultHasher::new();
        let mut own_files = Vec::new();
        for path in trace.own_files() {
            let state = state(&path)?;
            state.hash(&mut hasher);
            own_files.push((path, state));
        }
        for kept in trace.files() {
            let path = trace.files_dir().join(trace_store::hash_hex(&kept.file.hash));
            state(&path).hash(&mut hasher);
        }
        for name in VARIABLES {
            std::env::var_os(name).hash(&mut hasher);
        }
        let maker = String::from_utf8_lossy(&answers::maker()).into_owned();
        let text = format!(
            "{maker} {} {:?} {:?} {:?} {:x}",
            settings.sandbox,
            dir,
            settings.home().ok(),
            std::env::current_dir().ok()?,
            hasher.finish()
        );
        Some(Subject { text, own_files })
    }

    /// Whether the trace is still there, as it was: what one looks at while nobody asks. Kept files, which may be many,
    /// and all else are compared with each question.
    pub fn stands(&self) -> bool {
        self.own_files.iter().all(|(path, then)| state(path).as_ref() == Some(then))
    }

    /// Where its server is asked.
    pub fn socket(&self, folder: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        folder.join(format!("{:016x}", hasher.finish()))
    }
}

/// Which file that is, and when what it holds changed last.
type State = (u64, u64, u64, i64, i64);

fn state(path: &Path) -> Option<State> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
