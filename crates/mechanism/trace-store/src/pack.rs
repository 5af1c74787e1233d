//! A trace in one file, whole in itself, for another machine.
//!
//! A pack is a plain tar file: `RVPACK` (what the pack holds), `trace.json`,
//! `events.rvt`, and `files/HASH` for each kept content, or `files/HASH.LENGTH` with the list
//! of parts of a long one, so that holes take no room; with sources, `sources.json` and `sources/HASH`. Nothing is compressed again; every checksum is
//! verified when it is packed and when it is unpacked.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};

use crate::content_copy::{self, PartList, SHORT_BYTES_MAX};
use crate::disk::{self, Temporary};
use crate::error::{Doing, StoreError};
use crate::reader::TraceReader;
use crate::record::{FORMAT_VERSION, is_read};
use crate::sources::{self, LIST_NAME, Listed, SOURCES_MAX, SOURCES_NAME, SourceFile};
use crate::writer::{EVENTS_NAME, FILES_NAME, META_NAME};
use crate::{FileHash, hash_hex};

const MANIFEST_NAME: &str = "RVPACK";
/// A file beside the trace that came in a pack: what it holds may be made by anybody.
pub(crate) const MARK_NAME: &str = "from-pack";
const MANIFEST_BYTES_MAX: u64 = 4096;
/// Most entries of a pack: a session keeps 16384 files at most.
const ENTRIES_MAX: u64 = 1 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// What the pack's first entry says, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    pack: u32,
    entries: u64,
    bytes: u64,
}

/// One file of the pack.
struct Item {
    name: String,
    path: PathBuf,
    /// In the pack.
    bytes: u64,
    hash: Option<FileHash>,
    /// Length of a long content, of which the pack holds the list of parts.
    long: Option<u64>,
}

/// Writes the trace with its kept files into `out_file`, which is replaced if it
/// exists once the pack is whole. `progress` is told the bytes done and in all.
///
/// # Errors
/// [`StoreError::MissingFile`], [`StoreError::Damaged`], [`StoreError::InUse`]
/// for a trace that is being recorded, [`StoreError::DiskFull`], [`StoreError::Io`].
pub fn pack(trace_dir: &Path, out_file: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
    pack_with_sources(trace_dir, out_file, &[], progress).map(drop)
}

/// The same with sources, of which those that cannot be read are left out; how many are in it.
///
/// # Errors
/// As [`pack`].
pub fn pack_with_sources(
    trace_dir: &Path,
    out_file: &Path,
    sources: &[SourceFile],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<usize, StoreError> {
    let reader = TraceReader::open(trace_dir)?;
    if reader.cut().is_some_and(|cut| cut.why == crate::CutWhy::Recording) {
        return Err(StoreError::InUse { path: trace_dir.to_owned() });
    }
    let items = items(&reader)?;
    let sources = PackedSources::read(sources, out_file)?;
    let bytes = items.iter().map(|item| item.bytes).sum::<u64>() + sources.bytes();
    // The log is read twice: verified, then copied.
    let log_bytes = items.iter().find(|item| item.name == EVENTS_NAME).map_or(0, |item| item.bytes);
    let total = bytes + log_bytes;
    reader.verify(&mut |done, _| progress(done, total))?;

    let temporary = Temporary::beside(out_file)?;
    let mut tar = Builder::new(BufWriter::with_capacity(BUFFER_BYTES, &temporary.file));
    let manifest = Manifest { pack: FORMAT_VERSION, entries: items.len() as u64 + sources.entries(), bytes };
    let json =
        serde_json::to_vec(&manifest).map_err(|error| StoreError::io("write", out_file, error.into()))?;
    append(&mut tar, MANIFEST_NAME, json.len() as u64, &mut json.as_slice()).doing("write", out_file)?;
    let mut done = log_bytes;
    for item in &items {
        let file = disk::open_regular(&item.path).doing("read", &item.path)?;
        let told = |bytes| {
            done += bytes;
            progress(done, total);
        };
        let (from, hasher): (Box<dyn Read + '_>, _) = match item.long {
            Some(len) => {
                let parts = PartList::of(&file).doing("read", &item.path)?;
                (Box::new(parts), content_copy::long_hasher(len))
            }
            None => (Box::new(&file), blake3::Hasher::new()),
        };
        let mut source = Hashed { from: from.take(item.bytes), hasher, bytes: 0, progress: told };
        append(&mut tar, &item.name, item.bytes, &mut source).doing("write", out_file)?;
        source.check(item)?;
    }
    for (name, content) in sources.parts() {
        append(&mut tar, &name, content.len() as u64, &mut &content[..]).doing("write", out_file)?;
    }
    let writer = tar.into_inner().doing("write", out_file)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error).doing("write", out_file)?;
    temporary.rename_to(out_file)?;
    Ok(sources.listed.len())
}

/// Sources as they are packed: one content may have several paths.
struct PackedSources {
    listed: Vec<Listed>,
    contents: std::collections::BTreeMap<String, Vec<u8>>,
    list: Vec<u8>,
}

impl PackedSources {
    fn read(wanted: &[SourceFile], out_file: &Path) -> Result<PackedSources, StoreError> {
        let (mut listed, mut contents) = (Vec::new(), std::collections::BTreeMap::new());
        for one in wanted.iter().take(SOURCES_MAX) {
            if let Some((hash, content)) = sources::read(one) {
                listed.push(Listed { path: one.named.clone(), hash: hash_hex(&hash) });
                contents.insert(format!("{SOURCES_NAME}/{}", hash_hex(&hash)), content);
            }
        }
        let list = serde_json::to_vec(&listed);
        let list = list.map_err(|error| StoreError::io("write", out_file, error.into()))?;
        Ok(PackedSources { listed, contents, list })
    }

    /// Names and contents of the entries: none where there is no source.
    fn parts(&self) -> impl Iterator<Item = (String, &[u8])> {
        let list = (!self.listed.is_empty()).then(|| (LIST_NAME.to_owned(), self.list.as_slice()));
        list.into_iter().chain(self.contents.iter().map(|(name, content)| (name.clone(), content.as_slice())))
    }

    fn entries(&self) -> u64 {
        self.parts().count() as u64
    }

    fn bytes(&self) -> u64 {
        self.parts().map(|(_, content)| content.len() as u64).sum()
    }
}

fn items(reader: &TraceReader) -> Result<Vec<Item>, StoreError> {
    let mut items = Vec::new();
    for name in [META_NAME, EVENTS_NAME] {
        let path = reader.dir().join(name);
        let bytes = fs::metadata(&path).doing("read", &path)?.len();
        items.push(Item { name: name.to_owned(), path, bytes, hash: None, long: None });
    }
    let mut hashes = std::collections::HashSet::new();
    for kept in reader.files() {
        if hashes.insert(kept.file.hash) {
            let path = reader.file_path(&kept.file)?;
            items.push(item_of_content(path, kept.file.hash, kept.file.size)?);
        }
    }
    Ok(items)
}

fn item_of_content(path: PathBuf, hash: FileHash, len: u64) -> Result<Item, StoreError> {
    let name = format!("{FILES_NAME}/{}", hash_hex(&hash));
    if len <= SHORT_BYTES_MAX {
        return Ok(Item { name, path, bytes: len, hash: Some(hash), long: None });
    }
    let file = disk::open_regular(&path).doing("read", &path)?;
    let bytes = PartList::bytes_of(&file).doing("read", &path)?;
    Ok(Item { name: format!("{name}.{len}"), path, bytes, hash: Some(hash), long: Some(len) })
}

fn append(tar: &mut Builder<impl Write>, name: &str, bytes: u64, source: &mut impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    header.set_mtime(0);
    header.set_path(name)?;
    header.set_cksum();
    tar.append(&header, source)
}

/// A source that hashes what is read from it.
struct Hashed<R, F> {
    from: R,
    hasher: blake3::Hasher,
    bytes: u64,
    progress: F,
}

impl<R: Read, F: FnMut(u64)> Hashed<R, F> {
    /// Errors if what was read is not what the item should be.
    fn check(self, item: &Item) -> Result<(), StoreError> {
        let damaged = |what| StoreError::Damaged { path: item.path.clone(), offset: 0, what };
        if self.bytes != item.bytes {
            return Err(damaged("its length changed while it was packed"));
        }
        if item.hash.is_some_and(|hash| hash != *self.hasher.finalize().as_bytes()) {
            return Err(damaged("the content does not have its hash"));
        }
        Ok(())
    }
}

impl<R: Read, F: FnMut(u64)> Read for Hashed<R, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.hasher.update(&into[..read]);
        self.bytes += read as u64;
        (self.progress)(read as u64);
        Ok(read)
    }
}

/// True if the file begins like a pack.
pub fn is_pack(path: &Path) -> bool {
    let Ok(file) = disk::open_regular(path) else {
        return false;
    };
    let mut block = [0; 512];
    let mut name = [0; 100];
    name[..MANIFEST_NAME.len()].copy_from_slice(MANIFEST_NAME.as_bytes());
    (&file).read_exact(&mut block).is_ok() && block[..100] == name && block[257..262] == *b"ustar"
}

/// Unpacks into a directory that does not exist or is empty, and verifies all of
/// it. Only the names that a pack has are written, each once, and never more
/// bytes than the pack's own. What a failure leaves is removed. [`TraceReader::came_in_pack`] tells it
/// from then on.
///
/// # Errors
/// [`StoreError::BadPack`], [`StoreError::NotEmpty`], [`StoreError::Damaged`],
/// [`StoreError::Version`], [`StoreError::DiskFull`], [`StoreError::Io`].
pub fn unpack(file: &Path, into_dir: &Path) -> Result<(), StoreError> {
    let bad = |what| StoreError::BadPack { path: file.to_owned(), what };
    if !is_pack(file) {
        return Err(bad("it does not begin like one"));
    }
    disk::make_empty_dir(into_dir)?;
    // Before there is anything that could be replayed.
    disk::create_file(&into_dir.join(MARK_NAME))?;
    unpack_entries(file, into_dir).inspect_err(|_| {
        // The directory was made, or found empty, above.
        let _ = fs::remove_dir_all(into_dir);
    })
}

fn unpack_entries(file: &Path, into_dir: &Path) -> Result<(), StoreError> {
    let bad = |what| StoreError::BadPack { path: file.to_owned(), what };
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::Other
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData => bad("its structure is damaged, or it is truncated"),
        _ => StoreError::io("read", file, error),
    };
    let files_dir = into_dir.join(FILES_NAME);
    disk::make_dir(&files_dir).doing("create", &files_dir)?;
    let sources_dir = into_dir.join(SOURCES_NAME);
    disk::make_dir(&sources_dir).doing("create", &sources_dir)?;
    let source = disk::open_regular(file).doing("read", file)?;
    let pack_bytes = source.metadata().doing("read", file)?.len();
    let mut archive = Archive::new(io::BufReader::with_capacity(BUFFER_BYTES, source));
    // Raw entries: the extensions for long names and sparse files, which a pack
    // does not use, stay unknown kinds of entries.
    let mut entries = archive.entries().map_err(broken)?.raw(true);
    let mut first = entries.next().ok_or_else(|| bad("it is empty"))?.map_err(broken)?;
    let manifest = read_manifest(&mut first, file)?;
    if manifest.entries > ENTRIES_MAX || manifest.bytes > pack_bytes {
        return Err(bad("it claims to hold more than it does"));
    }
    drop(first);
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let mut entry = entry.map_err(broken)?;
        let size = entry.header().size().map_err(broken)?;
        count += 1;
        bytes += size.min(pack_bytes);
        if count > manifest.entries || bytes > manifest.bytes {
            return Err(bad("it holds more than it says"));
        }
        let name = entry.path_bytes().into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(bad("an entry is not a regular file"));
        }
        let place =
            destination(&name, into_dir).ok_or_else(|| bad("an entry has a name that no pack has"))?;
        let out = disk::create_file(&place.to)?;
        if let Some(len) = place.long {
            if content_copy::write_parts(&mut entry, len, &out).map_err(broken)? != place.hash {
                return Err(bad("a kept file's content does not have its hash"));
            }
            continue;
        }
        let mut content =
            Hashed { from: &mut entry, hasher: blake3::Hasher::new(), bytes: 0, progress: |_| () };
        let copied = copy_to(&mut content, &out, &place.to, &broken)?;
        if copied != size {
            return Err(bad("it is truncated"));
        }
        if place.hash.is_some_and(|hash| hash != *content.hasher.finalize().as_bytes()) {
            return Err(bad("a kept file's content does not have its hash"));
        }
    }
    if (count, bytes) != (manifest.entries, manifest.bytes) {
        return Err(bad("it is truncated"));
    }
    // Most packs have none, and a directory that is not empty stays.
    let _ = fs::remove_dir(&sources_dir);
    let reader = TraceReader::open(into_dir)?;
    reader.verify(&mut |_, _| ())?;
    reader.files().iter().try_for_each(|kept| reader.file_path(&kept.file).map(|_| ()))
}

fn read_manifest(entry: &mut impl Read, file: &Path) -> Result<Manifest, StoreError> {
    let bad = |what| StoreError::BadPack { path: file.to_owned(), what };
    let mut json = Vec::new();
    entry
        .take(MANIFEST_BYTES_MAX)
        .read_to_end(&mut json)
        .map_err(|_| bad("its structure is damaged, or it is truncated"))?;
    let manifest: Manifest =
        serde_json::from_slice(&json).map_err(|_| bad("its first entry makes no sense"))?;
    if !is_read(manifest.pack) {
        return Err(StoreError::version(file, manifest.pack));
    }
    Ok(manifest)
}

/// Where an entry goes.
struct Destination {
    to: PathBuf,
    /// That the content must have.
    hash: Option<FileHash>,
    /// Length of a long content; the entry is its list of parts.
    long: Option<u64>,
}

/// `None` for any name but those that a pack has: none of them leads out of the directory.
fn destination(name: &[u8], into_dir: &Path) -> Option<Destination> {
    let name = std::str::from_utf8(name).ok()?;
    if name == META_NAME || name == EVENTS_NAME || name == LIST_NAME {
        return Some(Destination { to: into_dir.join(name), hash: None, long: None });
    }
    let (folder, content) = name.split_once('/')?;
    if folder != FILES_NAME && folder != SOURCES_NAME {
        return None;
    }
    let (hex, long) = match content.split_once('.') {
        Some(_) if folder == SOURCES_NAME => return None,
        Some((hex, digits)) => (hex, Some(long_length(digits)?)),
        None => (content, None),
    };
    let hash = blake3::Hash::from_hex(hex).ok()?;
    // Upper-case digits would be another name for the same content.
    (hash.to_hex().as_str() == hex).then(|| Destination {
        to: into_dir.join(folder).join(hex),
        hash: Some(*hash.as_bytes()),
        long,
    })
}

/// The length of a long content, which has one name only.
fn long_length(digits: &str) -> Option<u64> {
    let len: u64 = digits.parse().ok()?;
    let is_it = len > SHORT_BYTES_MAX && i64::try_from(len).is_ok() && len.to_string() == digits;
    is_it.then_some(len)
}

fn copy_to(
    from: &mut impl Read,
    mut out: &File,
    to: &Path,
    broken: &impl Fn(io::Error) -> StoreError,
) -> Result<u64, StoreError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut copied = 0;
    loop {
        let read = from.read(&mut buffer).map_err(broken)?;
        if read == 0 {
            return Ok(copied);
        }
        out.write_all(&buffer[..read]).doing("write", to)?;
        copied += read as u64;
    }
}
