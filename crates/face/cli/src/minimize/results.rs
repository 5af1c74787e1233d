//! What a search leaves: the minimal inputs as files, a script that fails, and sizes.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use injector::Connection;
use serde_json::{Value, json};

use super::present::PresentFile;
use super::search::Stream;
use crate::exit::CommandError;
use crate::recorded::Recorded;

/// Of what it gets as it was recorded, in each try: it fails with that only.
const NEEDED: &str = "needed as recorded";
/// Of what a program asks for, and fails whatever it gets: the runs that confirm a failure have the time and the random numbers
/// of today.
const NOT_NEEDED: &str = "asked for, not needed";
/// Of what it does not ask for.
const NOT_ASKED: &str = "not asked for";

/// What became of one stream.
#[derive(Debug, Clone)]
pub struct Changed {
    pub stream: Stream,
    /// Bytes that the recording had.
    pub before: usize,
    pub content: Vec<u8>,
    pub tests: u64,
    /// Tries that were made at the same time as others, and then did not count.
    pub in_vain: u64,
    pub time: Duration,
    /// No single character, argument or variable of it can be left out.
    pub is_minimal: bool,
    /// Of the result, where that was measured.
    pub tries_per_second: Option<f64>,
}

impl Changed {
    /// A stream that stays as it was.
    pub fn nothing(stream: Stream, content: Vec<u8>) -> Changed {
        let before = content.len();
        Changed {
            stream,
            before,
            content,
            tests: 0,
            in_vain: 0,
            time: Duration::ZERO,
            is_minimal: false,
            tries_per_second: None,
        }
    }

    fn text(&self) -> String {
        let minimal = match (self.is_minimal, self.tests) {
            (true, _) => "1-minimal",
            (false, 0) => "nothing could be tried",
            (false, _) => "not known to be 1-minimal",
        };
        let lines = |content: &[u8]| content.iter().filter(|byte| **byte == b'\n').count();
        let (before, after, unit) = match &self.stream {
            Stream::Present(files) => (files.len(), lines(&self.content), ""),
            _ => (self.before, self.content.len(), " bytes"),
        };
        let in_vain = match self.in_vain {
            0 => String::new(),
            count => format!(" and {count} in vain"),
        };
        format!(
            "{}: {before} -> {after}{unit}, {} tests{in_vain}, {:.2} s, {minimal}",
            self.stream.name(),
            self.tests,
            self.time.as_secs_f64()
        )
    }

    fn json(&self) -> Value {
        json!({
            "stream": self.stream.name(),
            "before_bytes": self.before,
            "after_bytes": self.content.len(),
            "tests": self.tests,
            "tests_in_vain": self.in_vain,
            "seconds": self.time.as_secs_f64(),
            "is_minimal": self.is_minimal,
            "tries_per_s": self.tries_per_second,
        })
    }
}

/// The directory of results.
pub struct Results {
    dir: PathBuf,
    changed: Vec<Changed>,
}

impl Results {
    pub fn new(dir: PathBuf) -> Results {
        Results { dir, changed: Vec::new() }
    }

    pub fn add(&mut self, changed: Changed) {
        self.changed.push(changed);
    }

    /// Where the minimal content of a stream is.
    fn path(&self, stream: &Stream) -> PathBuf {
        match stream {
            Stream::Stdin => self.dir.join("stdin"),
            Stream::File(path) => {
                let name = path.file_name().unwrap_or_default();
                self.dir.join("files").join(name)
            }
            Stream::Connection(number) => self.dir.join("connections").join((number + 1).to_string()),
            Stream::Arguments => self.dir.join("arguments"),
            Stream::Environment => self.dir.join("environment"),
            Stream::Present(_) => self.dir.join("files-needed"),
        }
    }

    /// What an earlier search left there.
    pub fn earlier(&self, stream: &Stream) -> Option<Vec<u8>> {
        std::fs::read(self.path(stream)).ok()
    }

    /// Writes all files. `recorded` has the minimal program.
    pub fn finish(&self, recorded: &Recorded) -> Result<(), CommandError> {
        for changed in &self.changed {
            let path = self.path(&changed.stream);
            if let Some(folder) = path.parent() {
                create(folder)?;
            }
            write(&path, &changed.content)?;
        }
        let path = self.dir.join("reproduce.sh");
        write(&path, self.script(recorded).as_bytes())?;
        let rights = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&path, rights).map_err(|source| CommandError::Write { path, source })?;
        let facts: Vec<Value> = self.changed.iter().map(Changed::json).collect();
        let circumstances = self.circumstances(recorded);
        let facts = json!({ "streams": facts, "circumstances": circumstances });
        write(&self.dir.join("minimize.json"), facts.to_string().as_bytes())
    }

    fn circumstances(&self, recorded: &Recorded) -> Value {
        let asked = recorded.readings.asked;
        let answers = &recorded.program.answers;
        let need = |is_given: bool, is_asked: bool| match (is_given, is_asked) {
            (true, _) => NEEDED,
            (false, true) => NOT_NEEDED,
            (false, false) => NOT_ASKED,
        };
        json!({
            "time": need(answers.time.is_some(), asked.time),
            "recorded_time_ns": answers.time,
            "random_numbers": need(answers.random.is_some(), asked.random),
            "files_needed": self.needed(),
        })
    }

    /// Files that have to be there; `None` where that was not asked.
    fn needed(&self) -> Option<Vec<String>> {
        let asked = self.changed.iter().find(|changed| matches!(changed.stream, Stream::Present(_)))?;
        Some(String::from_utf8_lossy(&asked.content).lines().map(str::to_owned).collect())
    }

    /// Says what came of it; sizes are on the last line.
    pub fn tell(&self, recorded: &Recorded, as_json: bool, is_interrupted: bool) -> Result<(), CommandError> {
        let mut out = std::io::stdout().lock();
        if as_json {
            let streams: Vec<Value> = self.changed.iter().map(Changed::json).collect();
            let circumstances = self.circumstances(recorded);
            let facts = json!({
                "dir": self.dir, "interrupted": is_interrupted, "streams": streams, "circumstances": circumstances,
            });
            writeln!(out, "{facts}")?;
            return Ok(());
        }
        for changed in self.changed.iter().filter(|changed| changed.before > 0) {
            writeln!(out, "{}", changed.text())?;
        }
        writeln!(out, "the failure again: sh {}", self.dir.join("reproduce.sh").display())?;
        let sum = |of: fn(&Changed) -> usize| {
            self.changed.iter().filter(|one| is_input(one)).map(of).sum::<usize>()
        };
        let (before, after) = (sum(|one| one.before), sum(|one| one.content.len()));
        let note = if is_interrupted { ", interrupted: the same command goes on from there" } else { "" };
        writeln!(out, "{before} bytes before, {after} bytes after{note}")?;
        Ok(())
    }

    /// A script that makes the minimal inputs in a folder of its own, and runs the program there.
    fn script(&self, recorded: &Recorded) -> String {
        let program = &recorded.program;
        let mut text =
            String::from("#!/bin/sh\n# The recorded failure, with the smallest input that was found.\n");
        // It failed the same in whole runs at several times of today, before anything was changed, or with these of
        // the recording only.
        let (asked, answers) = (recorded.readings.asked, &recorded.program.answers);
        for (is_given, is_asked, what) in [
            (answers.time.is_some(), asked.time, "the time"),
            (answers.random.is_some(), asked.random, "random numbers"),
        ] {
            if is_given {
                text.push_str(&format!(
                    "# It asks for {what}, and fails with what the recording has of that only: this script cannot give it.\n"
                ));
            } else if is_asked {
                text.push_str(&format!("# It asks for {what}, and fails whatever that says.\n"));
            }
        }
        if let Some(time) = answers.time {
            text.push_str(&format!(
                "# The recorded time is `date -d @{}`; faketime(1) sets it.\n",
                time / 1_000_000_000
            ));
        }
        text.push_str("work=$(mktemp -d) || exit 125\ntrap 'rm -rf \"$work\"' EXIT\n");
        let mut command: Vec<String> = program.command.iter().map(|word| quoted(word.as_bytes())).collect();
        for changed in &self.changed {
            let name = match &changed.stream {
                Stream::Stdin => "stdin".to_owned(),
                Stream::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                Stream::Connection(_) | Stream::Arguments | Stream::Environment => continue,
                Stream::Present(files) => {
                    text.push_str(&needs(files, &changed.content));
                    continue;
                }
            };
            let target = format!("\"$work\"/{}", quoted(name.as_bytes()));
            text.push_str(&format!("printf '{}' >{target}\n", escaped(&changed.content)));
            if let Stream::File(path) = &changed.stream {
                let named = path.strip_prefix(&program.directory).unwrap_or(path);
                for (word, shown) in program.command.iter().zip(&mut command).skip(1) {
                    *shown =
                        replaced(word.as_bytes(), &[path.as_path(), named], &target).unwrap_or(shown.clone());
                }
            }
        }
        text.push_str(&format!("cd {} || exit 125\n", quoted(program.directory.as_os_str().as_bytes())));
        let stdin = if recorded.has_stdin() { "\"$work\"/stdin" } else { "/dev/null" };
        let environment: Vec<String> =
            program.environment.iter().map(|entry| quoted(entry.as_bytes())).collect();
        let behind = if program.connections.is_empty() { "" } else { " &" };
        text.push_str(&format!("env -i {} {} <{stdin}{behind}\n", environment.join(" "), command.join(" ")));
        text.push_str(&clients(&program.connections));
        text
    }
}

/// Lines of the script: who connects to the program.
fn clients(connections: &[Connection]) -> String {
    /// Its arguments: address and port. It sends its standard input, and takes answers until none come.
    const CLIENT: &str = "for try in 1 2 3 4 5 6 7 8 9; do exec 3<>/dev/tcp/$0/$1 && break; sleep 0.2; done 2>/dev/null; \
        cat >&3; timeout 1 cat <&3 >/dev/null";
    if connections.is_empty() {
        return String::new();
    }
    let mut text = String::from("server=$!\n");
    for connection in connections {
        let (content, address) = (escaped(&connection.content), connection.address);
        text.push_str(&format!(
            "printf '{content}' | bash -c '{CLIENT}' {} {}\n",
            address.ip(),
            address.port()
        ));
    }
    text.push_str("wait $server\n");
    text
}

/// Lines of the script: which files have to be there, and which do not.
fn needs(files: &[PresentFile], needed: &[u8]) -> String {
    let line = |file: &PresentFile| {
        let path = crate::wording::printable(file.path.as_os_str().as_bytes());
        let is_needed = needed.split_inclusive(|byte| *byte == b'\n').any(|line| line == file.line());
        let need = if is_needed { "It needs" } else { "It does not need" };
        format!("# {need} {path}\n")
    };
    files.iter().map(line).collect()
}

fn is_input(changed: &Changed) -> bool {
    matches!(changed.stream, Stream::Stdin | Stream::File(_) | Stream::Connection(_))
}

fn create(folder: &Path) -> Result<(), CommandError> {
    std::fs::create_dir_all(folder).map_err(|source| CommandError::Write { path: folder.to_owned(), source })
}

fn write(path: &Path, content: &[u8]) -> Result<(), CommandError> {
    std::fs::write(path, content).map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

/// A word for a shell.
fn quoted(word: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(word).replace('\'', "'\\''"))
}

/// For printf(1), between apostrophes.
fn escaped(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in content {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\\' | b'\'' | b'%' | 0..0x20 | 0x7f.. => text.push_str(&format!("\\{byte:03o}")),
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

/// The word, quoted, with a path in it replaced by an expression of the shell.
fn replaced(word: &[u8], paths: &[&Path], by: &str) -> Option<String> {
    paths.iter().find_map(|path| {
        let path = path.as_os_str().as_bytes();
        let at = word.windows(path.len().max(1)).position(|part| part == path)?;
        Some(format!("{}{by}{}", quoted(&word[..at]), quoted(&word[at + path.len()..])))
    })
}
