//! Files beside a trace with what was computed from its log once, and is read instead of it: an index of its
//! events, and answers.
//!
//! This is the file: what it fits to, its checksum, who may have written it. What it holds is the affair of who
//! makes it. It is a cache: nothing is lost with it, and one that does not fit is made again. The bytes are described in
//! `docs/TRACE_FORMAT.md`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use xxhash_rust::xxh3::xxh3_64;

use crate::disk;
use crate::error::StoreError;
use crate::keyframes::identity;
use crate::reader::TraceReader;
use crate::writer::EVENTS_NAME;

/// Which of these files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Computed {
    /// An index of the events.
    Index,
    /// Answers to questions.
    Answers,
}

impl Computed {
    pub(crate) const ALL: [Computed; 2] = [Computed::Index, Computed::Answers];

    /// Its name in the trace's directory.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Computed::Index => "events.rvi",
            Computed::Answers => "answers.rvi",
        }
    }
}

const MAGIC: [u8; 8] = *b"RVINDEX\n";
const HEAD_BYTES: usize = 64;
/// What is longer is not read.
const BYTES_MAX: u64 = 4 << 30;
/// Bytes of the log's beginning and end that tell it from another.
const BEGIN_BYTES: usize = 32;
const END_BYTES: u64 = 64;

/// What such a file of a trace fits to: its log, and who made it. `None`: the trace is not whole.
fn fits(trace: &TraceReader, maker: &[u8]) -> Option<[u8; 32]> {
    if trace.cut().is_some() {
        return None;
    }
    let mut log = disk::open_regular(&trace.dir().join(EVENTS_NAME)).ok()?;
    let bytes = log.metadata().ok()?.len();
    let (mut begin, mut end) = ([0; BEGIN_BYTES], [0; END_BYTES as usize]);
    log.read_exact(&mut begin).ok()?;
    log.seek(SeekFrom::Start(bytes.checked_sub(END_BYTES)?)).ok()?;
    log.read_exact(&mut end).ok()?;
    Some(identity(&[maker, &bytes.to_le_bytes(), &begin, &end]))
}

/// What `maker` wrote for this trace; `None` if there is nothing that fits, or it is not the user's own.
pub fn read(trace: &TraceReader, which: Computed, maker: &[u8]) -> Option<Vec<u8>> {
    let mut file = open_own(&trace.dir().join(which.name()))?;
    let mut head = [0; HEAD_BYTES];
    file.read_exact(&mut head).ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    if head[..8] != MAGIC || head[8..40] != fits(trace, maker)? {
        return None;
    }
    let bytes = word(40).filter(|bytes| *bytes <= BYTES_MAX)?;
    if word(56)? != xxh3_64(&head[..56]) || file.metadata().ok()?.len() != HEAD_BYTES as u64 + bytes {
        return None;
    }
    let mut payload = Vec::with_capacity(usize::try_from(bytes).ok()?);
    file.read_to_end(&mut payload).ok()?;
    (payload.len() as u64 == bytes && word(48)? == xxh3_64(&payload)).then_some(payload)
}

fn open_own(path: &std::path::Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let about = file.metadata().ok()?;
    let is_own = about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0;
    (about.is_file() && is_own).then_some(file)
}

/// Keeps what `maker` computed beside the trace, mode 0600; nothing of a trace that is not whole.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::DiskFull`], as where the trace may only be read.
pub fn write(trace: &TraceReader, which: Computed, maker: &[u8], payload: &[u8]) -> Result<(), StoreError> {
    let Some(identity) = fits(trace, maker) else { return Ok(()) };
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend(MAGIC);
    head.extend(identity);
    head.extend((payload.len() as u64).to_le_bytes());
    head.extend(xxh3_64(payload).to_le_bytes());
    head.extend(xxh3_64(&head).to_le_bytes());
    disk::write_whole(&trace.dir().join(which.name()), &[&head, payload])
}
