//! Packs: whole, verified, and harmless to unpack.

mod sample;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sample::Sample;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;
use trace_store::{FORMAT_VERSION, FileKey, FileStore, StoreError, TraceReader, hash_hex, pack};

/// A trace whose files are there, and its home directory.
fn trace_with_files(sample: &mut Sample) -> (TempDir, PathBuf) {
    let (home, dir) = sample.directory();
    let store = FileStore::open(home.path()).expect("the store opens");
    for (id, entry) in &mut sample.files {
        let content = vec![*id as u8; 100_000 + *id as usize];
        let path = home.path().join("source");
        fs::write(&path, &content).expect("it is writable");
        let file = File::open(&path).expect("it is there");
        let key = FileKey::of(&file).expect("it is open");
        entry.hash = store.keep(&file, key).expect("it is kept").hash;
        entry.size = content.len() as u64;
    }
    sample.write_log(&dir).finish(&sample.summary).expect("it is finished");
    for (_, entry) in &sample.files {
        store.link_into(&entry.hash, &dir.join("files")).expect("it is linked");
    }
    (home, dir)
}

#[test]
fn a_pack_is_the_whole_trace() {
    let mut sample = Sample::small();
    let (home, dir) = trace_with_files(&mut sample);
    let out = home.path().join("trace.rvpack");
    let mut last = (0, 0);
    pack::pack(&dir, &out, &mut |done, total| {
        assert!(done >= last.0 && done <= total, "progress goes forward");
        last = (done, total);
    })
    .expect("it is packed");
    assert_eq!(last.0, last.1);
    assert!(pack::is_pack(&out) && !pack::is_pack(&dir.join("events.rvt")) && !pack::is_pack(&dir));

    let into = home.path().join("elsewhere");
    pack::unpack(&out, &into).expect("it is unpacked");
    let reader = TraceReader::open(&into).expect("it opens");
    sample.assert_lanes_equal(&reader);
    sample.assert_files_equal(&reader);
    for kept in reader.files() {
        let content = fs::read(reader.file_path(&kept.file).expect("it is there")).expect("it is readable");
        assert_eq!(*blake3::hash(&content).as_bytes(), kept.file.hash);
    }
    assert!(matches!(pack::unpack(&out, &into), Err(StoreError::NotEmpty { .. })));
    sample.assert_lanes_equal(&TraceReader::open(&into).expect("what is there stays"));
}

#[test]
fn what_is_damaged_or_missing_is_not_packed() {
    let mut sample = Sample::small();
    let (home, dir) = trace_with_files(&mut sample);
    let out = home.path().join("trace.rvpack");
    let kept = dir.join("files").join(hash_hex(&sample.files[0].1.hash));
    let content = fs::read(&kept).expect("it is there");
    let mut wrong = content.clone();
    wrong[5] ^= 1;
    fs::write(&kept, &wrong).expect("it is writable");
    assert!(matches!(pack::pack(&dir, &out, &mut |_, _| ()), Err(StoreError::Damaged { .. })));
    fs::write(&kept, &content).expect("it is writable");

    let events = dir.join("events.rvt");
    let log = fs::read(&events).expect("it is there");
    let mut wrong = log.clone();
    wrong[300] ^= 1;
    fs::write(&events, &wrong).expect("it is writable");
    assert!(matches!(pack::pack(&dir, &out, &mut |_, _| ()), Err(StoreError::Damaged { .. })));
    fs::write(&events, &log).expect("it is writable");

    fs::remove_file(&kept).expect("it is there");
    match pack::pack(&dir, &out, &mut |_, _| ()) {
        Err(StoreError::MissingFile { path, .. }) => assert_eq!(path, Path::new("/bin/prog")),
        other => panic!("expected a missing file, got {other:?}"),
    }
    assert!(!out.exists(), "no half a pack");
}

#[test]
fn truncated_and_damaged_packs_are_refused() {
    let mut sample = Sample::small();
    let (home, dir) = trace_with_files(&mut sample);
    let out = home.path().join("trace.rvpack");
    pack::pack(&dir, &out, &mut |_, _| ()).expect("it is packed");
    let whole = fs::read(&out).expect("it is there");
    let into = home.path().join("into");
    // The two blocks of zeros at the end of a tar file carry nothing.
    for len in (0..whole.len() - 1024).step_by(997) {
        fs::write(&out, &whole[..len]).expect("it is writable");
        let refused = pack::unpack(&out, &into);
        assert!(matches!(refused, Err(StoreError::BadPack { .. })), "{len}: {refused:?}");
        assert!(!into.exists(), "what was begun is removed");
    }
    for at in (0..whole.len()).step_by(251) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&out, &bytes).expect("it is writable");
        if pack::unpack(&out, &into).is_ok() {
            sample.assert_nothing_wrong(&TraceReader::open(&into).expect("it was verified"));
            fs::remove_dir_all(&into).expect("it is there");
        }
    }
}

/// Name, kind, content, and the size that the header claims if it lies.
type ForgedEntry<'a> = (&'a str, EntryType, &'a [u8], Option<u64>);

/// A pack made by hand, of entries that no pack has.
fn forged(path: &Path, entries: &[ForgedEntry<'_>]) {
    let mut tar = Builder::new(File::create(path).expect("it is writable"));
    let total: u64 = entries.iter().map(|(_, _, data, _)| data.len() as u64).sum();
    let manifest = format!("{{\"pack\":{FORMAT_VERSION},\"entries\":{},\"bytes\":{total}}}", entries.len());
    let first = ("RVPACK", EntryType::Regular, manifest.as_bytes(), None);
    for (name, kind, data, size) in std::iter::once(&first).chain(entries) {
        let mut header = Header::new_gnu();
        // Not set_path, which refuses the names that matter here.
        header.as_gnu_mut().expect("it is one").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(size.unwrap_or(data.len() as u64));
        header.set_mode(0o777);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc").expect("it fits");
        }
        header.set_cksum();
        tar.append(&header, *data).expect("it is writable");
    }
    tar.finish().expect("it is writable");
}

#[test]
fn forged_packs_do_no_harm() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (file, into) = (home.path().join("forged.rvpack"), home.path().join("inner/into"));
    fs::create_dir(home.path().join("inner")).expect("it is new");
    let regular = EntryType::Regular;
    let hex = "a".repeat(64);
    let upper = format!("files/{}", "A".repeat(64));
    let wrong = format!("files/{hex}");
    let up = format!("files/../{hex}");
    let cases: [&[ForgedEntry<'_>]; 11] = [
        &[("../escaped", regular, b"x", None)],
        &[("/tmp/retrovane-escaped", regular, b"x", None)],
        &[("files/../../escaped", regular, b"x", None)],
        &[(&up, regular, b"x", None)],
        &[(&upper, regular, b"x", None)],
        &[(&wrong, regular, b"x", None)],
        &[("files", EntryType::Symlink, b"", None)],
        &[("trace.json", EntryType::Symlink, b"", None)],
        &[("trace.json", EntryType::Link, b"", None)],
        &[("trace.json", regular, b"x", Some(1 << 60))],
        &[("trace.json", EntryType::GNUSparse, b"x", None)],
    ];
    for entries in cases {
        forged(&file, entries);
        assert!(pack::is_pack(&file));
        let refused = pack::unpack(&file, &into);
        assert!(matches!(refused, Err(StoreError::BadPack { .. })), "{entries:?}: {refused:?}");
        assert!(!into.exists() && !home.path().join("escaped").exists());
        assert!(!home.path().join("inner/escaped").exists() && !Path::new("/tmp/retrovane-escaped").exists());
    }
    forged(&file, &[("trace.json", regular, b"x", None), ("trace.json", regular, b"y", None)]);
    assert!(pack::unpack(&file, &into).is_err(), "one name is written once");
    forged(&file, &[("trace.json", regular, b"{}", None)]);
    assert!(matches!(pack::unpack(&file, &into), Err(StoreError::NotATrace { .. })));
}
