//! Kept files: by content, once, and not read again.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use trace_store::{FileKey, FileStore, KnownContents, StoreError, hash_hex, traces};

struct Fixture {
    dir: TempDir,
    home: PathBuf,
    outside: PathBuf,
    store: FileStore,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (home, outside) = (dir.path().join("home"), dir.path().join("outside"));
    fs::create_dir(&outside).expect("it is new");
    let store = FileStore::open(&home).expect("the store opens");
    Fixture { dir, home, outside, store }
}

fn file_with(dir: &Path, name: &str, content: &[u8]) -> File {
    fs::write(dir.join(name), content).expect("it is writable");
    File::open(dir.join(name)).expect("it is there")
}

fn key(file: &File) -> FileKey {
    FileKey::of(file).expect("it is open")
}

#[test]
fn a_content_is_kept_once_and_private() {
    let Fixture { outside, store, home, dir: _dir, .. } = fixture();
    let (one, two) = (file_with(&outside, "one", b"the content"), file_with(&outside, "two", b"the content"));
    let first = store.keep(&one, key(&one)).expect("it is kept");
    let second = store.keep(&two, key(&two)).expect("it is kept");
    assert_eq!(first.hash, second.hash);
    assert_eq!(first.hash, *blake3::hash(b"the content").as_bytes());
    let hex = hash_hex(&first.hash);
    let path = home.join("files").join(&hex[..2]).join(&hex);
    assert_eq!(store.content_path(&first.hash), path);
    assert_eq!(fs::read(&path).expect("it is there"), b"the content");
    let found = fs::metadata(&path).expect("it is there");
    assert_eq!((found.permissions().mode() & 0o777, found.nlink()), (0o600, 1));
    let left_over = fs::read_dir(home.join("files")).expect("it is there").flatten();
    assert!(left_over.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".tmp")));
}

/// The shell is older than the time for which a key is not remembered.
#[test]
fn an_unchanged_file_is_not_read_again() {
    let Fixture { store, home, dir: _dir, .. } = fixture();
    let shell = File::open("/bin/sh").expect("there is a shell");
    let first = store.keep(&shell, key(&shell)).expect("it is kept");
    assert!(!first.was_known);
    let again = store.keep(&shell, key(&shell)).expect("it is kept");
    assert!(again.was_known && again.hash == first.hash);
    let later = FileStore::open(&home).expect("it opens again");
    assert!(later.keep(&shell, key(&shell)).expect("it is kept").was_known, "the index outlives the store");

    fs::write(store.content_path(&first.hash), b"").expect("it is writable");
    assert!(
        !store.keep(&shell, key(&shell)).expect("it is kept").was_known,
        "a content that was lost is kept again"
    );
    let kept = fs::read(store.content_path(&first.hash)).expect("it is there");
    assert_eq!(blake3::hash(&kept).as_bytes(), &first.hash);
}

#[test]
fn what_a_file_holds_is_known_while_it_is_unchanged() {
    let Fixture { outside, store, home, dir: _dir } = fixture();
    let path = fs::canonicalize("/bin/sh").expect("there is a shell");
    let shell = File::open(&path).expect("it is there");
    let young = file_with(&outside, "young", b"aaaa");
    let (hash, young_hash) = (
        store.keep(&shell, key(&shell)).expect("it is kept").hash,
        store.keep(&young, key(&young)).expect("it is kept").hash,
    );
    let known = KnownContents::of(Some(&home));
    assert!(known.have(&path, &hash));
    assert!(!known.have(&path, &young_hash), "another content");
    assert!(!known.have(&outside.join("young"), &young_hash), "its times can hide a change");
    assert!(!known.have(&outside.join("missing"), &hash));
    assert!(!KnownContents::of(None).have(&path, &hash));
}

#[test]
fn a_file_that_was_changed_just_now_is_read_again() {
    let Fixture { outside, store, dir: _dir, .. } = fixture();
    let file = file_with(&outside, "young", b"aaaa");
    store.keep(&file, key(&file)).expect("it is kept");
    assert!(!store.keep(&file, key(&file)).expect("it is kept").was_known, "its times can hide a change");
}

#[test]
fn a_file_that_is_not_what_its_key_says_is_refused() {
    let Fixture { outside, store, dir: _dir, .. } = fixture();
    let file = file_with(&outside, "file", b"before");
    let before = key(&file);
    OpenOptions::new()
        .append(true)
        .open(outside.join("file"))
        .and_then(|mut file| file.write_all(b" and after"))
        .expect("it is writable");
    assert!(matches!(store.keep(&file, before), Err(StoreError::Changing { .. })));
    let device = File::open("/dev/null").expect("it is there");
    assert!(matches!(store.keep(&device, key(&device)), Err(StoreError::NotRegular { .. })));
}

#[test]
fn the_offset_of_a_shared_descriptor_does_not_move() {
    let Fixture { outside, store, dir: _dir, .. } = fixture();
    let mut file = file_with(&outside, "file", b"0123456789");
    let mut start = [0; 4];
    file.read_exact(&mut start).expect("it is long enough");
    store.keep(&file, key(&file)).expect("it is kept");
    let mut rest = String::new();
    file.read_to_string(&mut rest).expect("it is text");
    assert_eq!(rest, "456789");
}

/// What this thread has read from files so far (proc_pid_io(5)).
fn bytes_read() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/io").expect("the kernel counts it");
    let line = told.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("it is told");
    line.parse().expect("it is a number")
}

#[test]
fn holes_stay_holes_and_contents_stay_equal() {
    let Fixture { outside, store, dir: _dir, .. } = fixture();
    let path = outside.join("sparse");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("it is new");
    file.set_len(64 << 20).expect("it is writable");
    file.write_all_at(b"in the middle", (5 << 20) + 4090).expect("it is writable");
    file.write_all_at(&[7; 5000], 32 << 20).expect("it is writable");
    let before = bytes_read();
    let kept = store.keep(&file, key(&file)).expect("it is kept");
    let read = bytes_read() - before;
    assert!(read < 16 << 20, "{read} bytes were read, holes among them");
    let copy = store.content_path(&kept.hash);
    let found = fs::metadata(&copy).expect("it is there");
    assert_eq!(found.len(), 64 << 20);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    assert!(fs::read(&copy).expect("it is there") == fs::read(&path).expect("it is there"));
}

#[test]
fn traces_link_contents_and_pruning_removes_what_none_links() {
    let Fixture { outside, store, home, dir: _dir, .. } = fixture();
    let (used, unused) = (file_with(&outside, "used", b"used"), file_with(&outside, "unused", b"not used"));
    let used = store.keep(&used, key(&used)).expect("it is kept").hash;
    let unused = store.keep(&unused, key(&unused)).expect("it is kept").hash;
    let trace_files = home.join("prog-0-files");
    fs::create_dir(&trace_files).expect("it is new");
    store.link_into(&used, &trace_files).expect("it is linked");
    store.link_into(&used, &trace_files).expect("twice is once");
    let linked = trace_files.join(hash_hex(&used));
    assert_eq!(fs::read(&linked).expect("it is there"), b"used");
    assert_eq!(fs::metadata(&linked).expect("it is there").nlink(), 2, "it takes no space");
    match store.link_into(&[9; 32], &trace_files) {
        Err(StoreError::MissingFile { hash, .. }) => assert_eq!(hash, [9; 32]),
        other => panic!("expected a missing file, got {other:?}"),
    }

    store.side_write(&used, "recipes-1", b"kept").expect("it is written");
    store.side_write(&unused, "recipes-1", b"goes").expect("it is written");
    assert!(matches!(traces::prune(&home), Err(StoreError::InUse { .. })), "the store is open");
    drop(store);
    let pruned = traces::prune(&home).expect("nobody uses it");
    assert_eq!((pruned.files, pruned.bytes), (1, 8));
    let store = FileStore::open(&home).expect("it opens again");
    assert_eq!(store.side_read(&used, "recipes-1"), Some(b"kept".to_vec()));
    assert_eq!(store.side_read(&unused, "recipes-1"), None);
    assert!(store.content_path(&used).exists() && !store.content_path(&unused).exists());
}

#[test]
fn side_files_are_whole_or_not_there() {
    let Fixture { store, dir: _dir, .. } = fixture();
    let hash = [3; 32];
    assert_eq!(store.side_read(&hash, "sites-2"), None);
    for data in [b"first".as_slice(), b"", &[0; 100_000]] {
        store.side_write(&hash, "sites-2", data).expect("it is written");
        assert_eq!(store.side_read(&hash, "sites-2").as_deref(), Some(data));
    }
    for bad in ["", "../x", "a/b", "Upper", "dot.", &"a".repeat(65)] {
        assert!(matches!(store.side_write(&hash, bad, b""), Err(StoreError::BadName { .. })), "{bad:?}");
        assert_eq!(store.side_read(&hash, bad), None);
    }
    let mut path = store.content_path(&hash).into_os_string();
    path.push(".sites-2");
    let whole = fs::read(&path).expect("it is there");
    for (at, len) in [(20, whole.len()), (3, whole.len()), (0, 5), (0, whole.len() - 1)] {
        let mut bytes = whole[..len].to_vec();
        if len == whole.len() {
            bytes[at] ^= 1;
        }
        fs::write(&path, bytes).expect("it is writable");
        assert_eq!(store.side_read(&hash, "sites-2"), None);
    }
}

#[test]
fn threads_can_keep_the_same_files_at_once() {
    let Fixture { outside, store, dir: _dir, .. } = fixture();
    for name in 0..4 {
        fs::write(outside.join(name.to_string()), vec![name; 300_000]).expect("it is writable");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for name in 0..4u8 {
                    let file = File::open(outside.join(name.to_string())).expect("it is there");
                    let kept = store.keep(&file, key(&file)).expect("it is kept");
                    assert_eq!(kept.hash, *blake3::hash(&vec![name; 300_000]).as_bytes());
                }
            });
        }
    });
}
