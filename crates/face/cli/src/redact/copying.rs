//! The masked copy of a trace.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use trace_store::{Changes, Meta, Summary, TraceFile};

use super::contents::Of;
use super::places::{Edit, Places};
use super::secrets::{MASK, Secrets};
use super::wanted::Wanted;
use crate::policy::StreamKind;

/// The description says that it is not the trace itself.
const OPTION: &str = "redacted";
/// Longer files are searched, and are not changed.
const CHANGED_BYTES_MAX: u64 = 64 << 20;

/// What becomes of the parts of the trace.
pub struct Copying<'a> {
    pub wanted: &'a Wanted,
    pub secrets: &'a Secrets,
    pub places: &'a mut Places,
    /// Files that processes of the recording wrote.
    pub written: &'a HashSet<PathBuf>,
    /// Kept files that were masked.
    pub files: Vec<String>,
    /// What holds a value and could not be masked.
    pub refused: Vec<String>,
}

impl Copying<'_> {
    fn text(&mut self, bytes: &mut [u8]) {
        for secret in self.secrets.mask(bytes) {
            *self.places.found.entry(secret).or_default() += 1;
        }
    }

    fn words(&mut self, words: OsString) -> OsString {
        let mut bytes = words.into_vec();
        self.text(&mut bytes);
        OsString::from_vec(bytes)
    }
}

impl Changes for Copying<'_> {
    fn description(&mut self, meta: &mut Meta) {
        for word in &mut meta.command {
            *word = self.words(std::mem::take(word));
        }
        meta.cwd = PathBuf::from(self.words(std::mem::take(&mut meta.cwd).into_os_string()));
        for value in meta.options.values_mut() {
            *value = self.words(std::mem::take(value).into()).to_string_lossy().into_owned();
        }
        // Two that are masked in different ways are different traces, though they began at the same time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        meta.options.insert(OPTION.to_owned(), format!("values and streams are masked, number {now}"));
    }

    fn summary(&mut self, summary: &mut Summary) {
        for note in &mut summary.notes {
            *note = self.words(std::mem::take(note).into()).to_string_lossy().into_owned();
        }
    }

    fn events(&mut self, lane: u32, offset: u64, bytes: &mut [u8]) {
        let Some(edits) = self.places.edits.get(&lane) else { return };
        for (at, edits) in edits.range(offset..offset + bytes.len() as u64) {
            let rest = &mut bytes[(at - offset) as usize..];
            for edit in edits {
                match edit {
                    Edit::Bytes(mask) => rest[..mask.len()].copy_from_slice(mask),
                    Edit::Fill(len) => fill(&mut rest[..*len as usize]),
                }
            }
        }
    }

    fn path(&mut self, path: &mut [u8]) {
        self.text(path);
    }

    fn content(&mut self, file: &TraceFile, path: &Path) -> std::io::Result<Option<Vec<u8>>> {
        let name = String::from_utf8_lossy(file.file.original().as_os_str().as_bytes()).into_owned();
        let is_masked =
            self.wanted.has_stream(StreamKind::File, &name) || self.places.files.contains(&file.id);
        if file.file.size > CHANGED_BYTES_MAX {
            if is_masked || holds_one(self.secrets, path)? {
                self.refused.push(format!("{name} is longer than 64 MiB, and is not masked"));
            }
            return Ok(None);
        }
        let mut content = std::fs::read(path)?;
        if is_masked {
            fill(&mut content);
            self.files.push(name);
            return Ok(Some(content));
        }
        let found = self.secrets.mask(&mut content);
        for &secret in &found {
            *self.places.found.entry(secret).or_default() += 1;
        }
        let passed_on = match self.written.contains(&file.file.original()) {
            true => self.places.contents.find(&content, Of::Given, false),
            false => Vec::new(),
        };
        for range in &passed_on {
            fill(&mut content[range.clone()]);
        }
        Ok((!found.is_empty() || !passed_on.is_empty()).then(|| {
            self.files.push(name);
            content
        }))
    }
}

/// Masks all but the ends of lines, so that a program that reads lines goes on reading them.
fn fill(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = MASK);
}

fn holds_one(secrets: &Secrets, path: &Path) -> std::io::Result<bool> {
    let (mut file, mut window) = (File::open(path)?, Vec::new());
    let mut part = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok(false);
        }
        window.extend_from_slice(&part[..read]);
        if secrets.find(&window).next().is_some() {
            return Ok(true);
        }
        window.drain(..window.len().saturating_sub(secrets.bytes_max()));
    }
}

/// Whose values are still in a trace, with where: what was written is read again, and searched.
pub fn left_in(
    trace: &trace_store::TraceReader,
    secrets: &Secrets,
) -> Result<Vec<String>, crate::exit::CommandError> {
    let mut left = BTreeMap::new();
    let mut chunk = Vec::new();
    for info in trace.lanes() {
        let mut reader = trace.lane(info.lane)?;
        while reader.next_chunk(&mut chunk)?.is_some() {
            for found in secrets.find(&chunk) {
                left.insert((found.secret, info.pid), found.what);
            }
        }
    }
    Ok(left
        .into_iter()
        .map(|((secret, pid), what)| {
            format!("the log of process {pid} still holds the value of {} ({what})", secrets.name(secret))
        })
        .collect())
}
