//! Keyframes: files beside a trace, from which a replay can go on in its middle.
//!
//! This is the file: its head, its checksums, who may have written it. What the payload
//! means is the debugger's affair. The bytes are described in `docs/TRACE_FORMAT.md`.
//!
//! Invariant: a payload whose checksum is wrong is never said to be whole; who reads it
//! does nothing with it before [`KeyframeReader::finish`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Take, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::disk::{self, Temporary};
use crate::error::{Doing, StoreError};

/// The folder in a trace's directory.
pub(crate) const KEYFRAMES_NAME: &str = "keyframes";
/// How a keyframe's name ends.
const EXTENSION: &str = "rvk";
/// Version of the format that is written, and the only one that is read: a keyframe is
/// made again sooner than converted.
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"RVKEYFR\n";
const HEAD_BYTES: usize = 128;
/// Most keyframes of a trace that are looked at.
const KEYFRAMES_MAX: usize = 4096;
/// Half of the log's level: most pages are zeros, texts and pointers.
const LEVEL: i32 = 1;

/// What a keyframe is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyframe {
    pub lane: u32,
    /// Of the trace, and of what else has to be the same: see [`identity`].
    pub identity: [u8; 32],
    /// Its position: events consumed, and instructions since then.
    pub event: u64,
    pub steps: u64,
    /// Bytes of the lane's log that were consumed.
    pub log_position: u64,
    /// How the running thread stands: its block, and where its stack ends.
    pub standing: [u64; 2],
}

/// What tells that things are the same: a hash of all of them.
pub fn identity(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// A keyframe that is there.
#[derive(Debug, Clone)]
pub struct Listed {
    pub path: PathBuf,
    pub keyframe: Keyframe,
}

/// Lengths and sum of a payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Payload {
    raw_bytes: u64,
    stored_bytes: u64,
    sum: u64,
}

fn head(keyframe: &Keyframe, payload: Payload) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&keyframe.lane.to_le_bytes());
    bytes[16..48].copy_from_slice(&keyframe.identity);
    let [block, stack] = keyframe.standing;
    let Payload { raw_bytes, stored_bytes, sum } = payload;
    let words =
        [keyframe.event, keyframe.steps, keyframe.log_position, block, stack, raw_bytes, stored_bytes, sum];
    for (to, word) in bytes[48..].chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let sum = xxh3_64(&bytes[..HEAD_BYTES - 8]);
    bytes[HEAD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn parse_head(bytes: &[u8; HEAD_BYTES], path: &Path) -> Result<(Keyframe, Payload), StoreError> {
    if bytes[..8] != MAGIC {
        return Err(damaged(path, 0, "it is no keyframe"));
    }
    if word_at(bytes, HEAD_BYTES - 8) != xxh3_64(&bytes[..HEAD_BYTES - 8]) && !cfg!(fuzzing) {
        return Err(damaged(path, 0, "the checksum of its head is wrong"));
    }
    let [version, lane] = [8, 12].map(|at| (word_at(bytes, at) & 0xffff_ffff) as u32);
    if version != VERSION {
        return Err(StoreError::Version { path: path.to_owned(), found: version, supported: VERSION });
    }
    let mut identity = [0; 32];
    identity.copy_from_slice(&bytes[16..48]);
    let word = |index: usize| word_at(bytes, 48 + 8 * index);
    let keyframe = Keyframe {
        lane,
        identity,
        event: word(0),
        steps: word(1),
        log_position: word(2),
        standing: [word(3), word(4)],
    };
    Ok((keyframe, Payload { raw_bytes: word(5), stored_bytes: word(6), sum: word(7) }))
}

fn damaged(path: &Path, offset: u64, what: &'static str) -> StoreError {
    StoreError::BadKeyframe { path: path.to_owned(), offset, what }
}

// --- writing ---

/// A file of which what is written is summed.
struct Summed {
    file: File,
    hasher: Xxh3,
    bytes: u64,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes one keyframe, which is there once it is whole.
pub struct KeyframeWriter {
    temporary: Temporary,
    path: PathBuf,
    keyframe: Keyframe,
    encoder: zstd::Encoder<'static, Summed>,
    raw_bytes: u64,
}

impl KeyframeWriter {
    /// Begins one of the trace in this directory.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DiskFull`].
    pub fn create(trace_dir: &Path, keyframe: Keyframe) -> Result<KeyframeWriter, StoreError> {
        let dir = trace_dir.join(KEYFRAMES_NAME);
        match disk::make_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::io("create", &dir, error));
            }
            _ => {}
        }
        let Keyframe { lane, event, steps, .. } = keyframe;
        let path = dir.join(format!("{lane}-{event}+{steps}.{EXTENSION}"));
        let temporary = Temporary::beside(&path)?;
        let mut file = temporary.file.try_clone().doing("write", &path)?;
        file.seek(SeekFrom::Start(HEAD_BYTES as u64)).doing("write", &path)?;
        let summed = Summed { file, hasher: Xxh3::new(), bytes: 0 };
        let encoder = zstd::Encoder::new(summed, LEVEL).doing("write", &path)?;
        Ok(KeyframeWriter { temporary, path, keyframe, encoder, raw_bytes: 0 })
    }

    /// Adds to the payload.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DiskFull`].
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.raw_bytes += bytes.len() as u64;
        self.encoder.write_all(bytes).doing("write", &self.path)
    }

    /// Ends it; returns its path, and its bytes on the disk.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DiskFull`].
    pub fn finish(self) -> Result<(PathBuf, u64), StoreError> {
        let KeyframeWriter { temporary, path, keyframe, encoder, raw_bytes } = self;
        let mut summed = encoder.finish().doing("write", &path)?;
        let payload = Payload { raw_bytes, stored_bytes: summed.bytes, sum: summed.hasher.digest() };
        summed.file.seek(SeekFrom::Start(0)).doing("write", &path)?;
        summed.file.write_all(&head(&keyframe, payload)).doing("write", &path)?;
        temporary.rename_to(&path)?;
        Ok((path, HEAD_BYTES as u64 + payload.stored_bytes))
    }
}

// --- reading ---

/// The keyframes of the trace in this directory, by their positions; and what is wrong with
/// those that cannot be used.
pub fn list(trace_dir: &Path) -> (Vec<Listed>, Vec<StoreError>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let entries = fs::read_dir(trace_dir.join(KEYFRAMES_NAME)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let named = paths.filter(|path| is_keyframe(path));
    for path in named.take(KEYFRAMES_MAX) {
        match KeyframeReader::open(&path) {
            Ok(reader) => found.push(Listed { keyframe: reader.keyframe, path }),
            Err(error) => problems.push(error),
        }
    }
    found.sort_by_key(|listed| (listed.keyframe.event, listed.keyframe.steps));
    (found, problems)
}

/// Bytes of all keyframes of the trace in this directory.
pub(crate) fn bytes_of_all(trace_dir: &Path) -> u64 {
    let entries = fs::read_dir(trace_dir.join(KEYFRAMES_NAME)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Removes a keyframe.
///
/// # Errors
/// [`StoreError::Io`].
pub fn remove(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).doing("remove", path)
}

/// Removes all keyframes of the trace in this directory; how many there were.
///
/// # Errors
/// [`StoreError::Io`].
pub fn remove_all(trace_dir: &Path) -> Result<usize, StoreError> {
    let dir = trace_dir.join(KEYFRAMES_NAME);
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.doing("read", &dir)?,
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    let count = names.iter().filter(|path| is_keyframe(path)).count();
    fs::remove_dir_all(&dir).doing("remove", &dir)?;
    Ok(count)
}

fn is_keyframe(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == EXTENSION)
}

/// A file of which what is read is summed.
struct Checked {
    file: Take<File>,
    hasher: Xxh3,
}

impl Read for Checked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(into)?;
        self.hasher.update(&into[..bytes]);
        Ok(bytes)
    }
}

/// Reads one keyframe.
pub struct KeyframeReader {
    pub keyframe: Keyframe,
    payload: Payload,
    path: PathBuf,
    decoder: zstd::Decoder<'static, io::BufReader<Checked>>,
    raw_bytes: u64,
}

impl KeyframeReader {
    /// Opens one, which has to be the user's own: it says what is in a process's memory.
    ///
    /// # Errors
    /// [`StoreError::BadKeyframe`], [`StoreError::Version`], [`StoreError::Io`].
    pub fn open(path: &Path) -> Result<KeyframeReader, StoreError> {
        let no_link = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = no_link.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).doing("open", path)?;
        let about = file.metadata().doing("read", path)?;
        let is_own = about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0;
        if !about.is_file() || !is_own {
            return Err(damaged(path, 0, "it is not a file of yours alone"));
        }
        let mut bytes = [0; HEAD_BYTES];
        file.read_exact(&mut bytes).map_err(|_| damaged(path, 0, "it is too short"))?;
        let (keyframe, payload) = parse_head(&bytes, path)?;
        if about.len() != (HEAD_BYTES as u64).saturating_add(payload.stored_bytes) {
            return Err(damaged(path, about.len(), "it has another length than it says"));
        }
        let checked = Checked { file: file.take(payload.stored_bytes), hasher: Xxh3::new() };
        let decoder = zstd::Decoder::new(checked).doing("read", path)?;
        Ok(KeyframeReader { keyframe, payload, path: path.to_owned(), decoder, raw_bytes: 0 })
    }

    /// Reads of the payload exactly so many bytes.
    ///
    /// # Errors
    /// [`StoreError::BadKeyframe`] if there are not so many.
    pub fn take(&mut self, into: &mut [u8]) -> Result<(), StoreError> {
        if into.len() as u64 > self.left() || self.decoder.read_exact(into).is_err() {
            return Err(damaged(&self.path, HEAD_BYTES as u64, "its payload is damaged"));
        }
        self.raw_bytes += into.len() as u64;
        Ok(())
    }

    /// Bytes of the payload that are still to be read.
    pub fn left(&self) -> u64 {
        self.payload.raw_bytes - self.raw_bytes
    }

    /// All was read: says whether it was what was written.
    ///
    /// # Errors
    /// [`StoreError::BadKeyframe`] if it was not, or not all of it was read.
    pub fn finish(mut self) -> Result<(), StoreError> {
        // What remains is the end of the compressed frame.
        let at_end = matches!(self.decoder.read(&mut [0]), Ok(0)) && self.left() == 0;
        let checked = self.decoder.finish();
        let rest = checked.buffer().len();
        let Checked { file, hasher } = checked.into_inner();
        if !at_end || rest != 0 || file.limit() != 0 || hasher.digest() != self.payload.sum {
            return Err(damaged(&self.path, HEAD_BYTES as u64, "its checksum is wrong"));
        }
        Ok(())
    }

    /// An error for what its payload says and cannot be.
    pub fn impossible(&self, what: &'static str) -> StoreError {
        damaged(&self.path, HEAD_BYTES as u64, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Keyframe {
        Keyframe {
            lane: 3,
            identity: identity(&[b"one", b"two"]),
            event: 12,
            steps: 7,
            log_position: 4096,
            standing: [1, 2],
        }
    }

    fn content() -> Vec<u8> {
        (0..300_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect()
    }

    fn written(dir: &Path) -> PathBuf {
        let mut writer = KeyframeWriter::create(dir, sample()).expect("a writable folder");
        content().chunks(1000).for_each(|part| writer.add(part).expect("room"));
        writer.finish().expect("room").0
    }

    fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
        let mut reader = KeyframeReader::open(path)?;
        let mut bytes = vec![0; reader.left().min(1 << 24) as usize];
        reader.take(&mut bytes)?;
        reader.finish()?;
        Ok(bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = written(dir.path());
        assert_eq!(read(&path).expect("whole"), content());
        let (listed, problems) = list(dir.path());
        assert_eq!(listed[0].keyframe, sample());
        assert!(problems.is_empty() && listed.len() == 1);
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert!(bytes_of_all(dir.path()) < 300_000);
    }

    #[test]
    fn no_byte_can_be_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = written(dir.path());
        let whole = fs::read(&path).expect("there");
        let places = (0..HEAD_BYTES).chain((HEAD_BYTES..whole.len()).step_by(97)).chain([whole.len() - 1]);
        for place in places {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, &bytes).expect("room");
            assert!(read(&path).is_err(), "byte {place} was changed");
        }
        for length in [0, 1, HEAD_BYTES - 1, HEAD_BYTES, whole.len() - 1] {
            fs::write(&path, &whole[..length]).expect("room");
            assert!(read(&path).is_err(), "{length} bytes were left");
            assert_eq!(list(dir.path()).1.len(), 1);
        }
        fs::write(&path, [&whole[..], b"x"].concat()).expect("room");
        assert!(read(&path).is_err());
    }

    #[test]
    fn what_others_could_have_written_is_not_read() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().expect("a folder");
        let path = written(dir.path());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).expect("own file");
        assert!(KeyframeReader::open(&path).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
        let link = path.with_file_name("0-1+1.rvk");
        symlink(&path, &link).expect("a folder of ours");
        assert!(KeyframeReader::open(&link).is_err());
        assert!(KeyframeReader::open(&path).is_ok());
    }

    #[test]
    fn a_keyframe_that_was_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = KeyframeWriter::create(dir.path(), sample()).expect("a writable folder");
        writer.add(&content()).expect("room");
        drop(writer);
        assert_eq!(fs::read_dir(dir.path().join(KEYFRAMES_NAME)).expect("there").count(), 0);
    }

    #[test]
    fn parts_of_an_identity_do_not_run_into_each_other() {
        assert_ne!(identity(&[b"ab", b"c"]), identity(&[b"a", b"bc"]));
    }
}
