//! Journals of real files, in a folder of each test's own.

use super::*;

/// A folder with files, and a journal of them.
struct Case {
    root: PathBuf,
    journal: Journal,
}

impl Case {
    fn new(name: &str) -> Case {
        let root = std::env::temp_dir().join(format!("journal-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("session")).expect("the folder of tests can be written to");
        let journal = Journal::new(&root.join("session"));
        Case { root, journal }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it can be written");
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn place(&self, name: &str) -> Place {
        Place::of(&self.path(name)).expect("its folder is there")
    }

    /// Overwrites bytes as a process would that tells of it first.
    fn write(&mut self, newest: u64, name: &str, offset: u64, text: &str) {
        let path = self.path(name);
        let file = File::open(&path).expect("it is there");
        let kept = self.journal.before_range(newest, file, path.clone(), offset, text.len() as u64);
        kept.expect("it can be kept");
        let file = OpenOptions::new().write(true).open(path).expect("it is there");
        file.write_all_at(text.as_bytes(), offset).expect("it can be written");
    }

    fn unlink(&mut self, newest: u64, name: &str) {
        let place = self.place(name);
        self.journal.before_unlink(newest, place).expect("it can be kept");
        fs::remove_file(self.path(name)).expect("it is there");
    }

    fn undo(&mut self, position: u64) -> Vec<String> {
        self.journal.undo_since(position).expect("nothing is in the way")
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn each_checkpoint_has_its_own_content() {
    let mut case = Case::new("content");
    case.put("file", "0123456789");
    case.write(10, "file", 2, "aa");
    case.write(10, "file", 3, "bbbb");
    case.write(20, "file", 9, "ccc");
    assert_eq!(case.text("file"), "01abbbb78ccc");
    assert!(case.undo(20).is_empty());
    assert_eq!(case.text("file"), "01abbbb789");
    case.write(10, "file", 0, "longer than before");
    assert!(case.undo(10).is_empty());
    assert_eq!(case.text("file"), "0123456789");
    assert!(case.journal.is_empty());
}

#[test]
fn only_what_is_not_kept_yet_is_kept() {
    let mut case = Case::new("once");
    case.put("file", &"x".repeat(1000));
    for offset in [100, 150, 100, 90, 400, 300] {
        case.write(5, "file", offset, &"y".repeat(100));
    }
    // 90 to 250, and 300 to 500.
    assert_eq!(case.journal.parts[0].stored_bytes, 360);
    case.write(5, "file", 0, &"z".repeat(2000));
    assert_eq!(case.journal.parts[0].stored_bytes, 1000);
    case.undo(5);
    assert_eq!(case.text("file"), "x".repeat(1000));
}

#[test]
fn what_no_checkpoint_needs_is_forgotten() {
    let mut case = Case::new("forgotten");
    case.put("file", "one");
    case.write(1, "file", 0, "two");
    case.write(2, "file", 0, "six");
    case.journal.forget_before(Some(2));
    case.undo(1);
    assert_eq!(case.text("file"), "two");
    case.unlink(3, "file");
    let hidden = || fs::read_dir(case.path("session")).expect("it is there").count();
    assert_eq!(hidden(), 1);
    case.journal.forget_before(None);
    assert_eq!(fs::read_dir(case.path("session")).expect("it is there").count(), 0);
}

#[test]
fn a_refused_way_back_leaves_everything() {
    let mut case = Case::new("refused");
    case.put("first", "then");
    case.put("second", "then");
    case.put("third", "then");
    case.write(1, "first", 0, "now and longer");
    case.unlink(1, "third");
    case.write(1, "second", 0, "NOW!");
    let handle = Arc::clone(case.journal.parts[0].entries.first().map(handle_of).expect("it was changed"));
    // Bytes that the store does not have: reading them fails.
    case.journal.parts[0]
        .entries
        .insert(1, Entry::Bytes { handle, offset: 0, bytes: 4, stored_at: Some(1 << 40) });
    let refused = case.journal.undo_since(1).expect_err("the store is cut");
    assert!(refused.text.contains("first"), "{}", refused.text);
    assert_eq!([case.text("first"), case.text("second")], ["now and longer", "NOW!"]);
    assert!(!case.path("third").exists());
}

fn handle_of(entry: &Entry) -> &Arc<Handle> {
    match entry {
        Entry::Bytes { handle, .. } | Entry::Size { handle, .. } => handle,
        _ => panic!("the first change was one of bytes"),
    }
}

#[test]
fn names_return() {
    let mut case = Case::new("names");
    case.put("old", "old");
    case.put("target", "target");
    let (old, target, new) = (case.place("old"), case.place("target"), case.place("new"));
    case.put("new", "new");
    case.journal.made(1, new);
    case.write(1, "target", 0, "TAR");
    case.journal.before_rename(1, old, target).expect("it can be kept");
    fs::rename(case.path("old"), case.path("target")).expect("both are there");
    case.unlink(2, "target");
    case.undo(2);
    assert_eq!(case.text("target"), "old");
    assert!(case.undo(1).is_empty());
    assert_eq!([case.text("old"), case.text("target"), case.text("new")], ["old", "target", ""]);
    assert!(!case.path("new").exists());
}

#[test]
fn what_came_back_as_a_copy_is_written_to() {
    let mut case = Case::new("copies");
    case.put("file", "0123456789");
    case.write(1, "file", 0, "aaa");
    let place = case.place("file");
    let metadata = fs::symlink_metadata(place.path()).expect("it is there");
    let hidden = case.path("session/copy");
    let absent = Absent::copy(&place, &metadata, &hidden).expect("it can be read");
    let old = Some(Arc::new(place.open_path().expect("it is there")));
    let entry = Entry::Gone { place, identity: identity_of(&metadata), absent, old };
    case.journal.part(2).entries.push(entry);
    fs::remove_file(case.path("file")).expect("it is there");
    assert_eq!(case.undo(2).len(), 1);
    assert_eq!(case.text("file"), "aaa3456789");
    case.undo(1);
    assert_eq!(case.text("file"), "0123456789");
}

#[test]
fn directories_that_came_back_are_no_others() {
    let mut case = Case::new("directories");
    for round in 0..20 {
        fs::create_dir(case.path("dir")).expect("it is not there");
        case.put("dir/inside", "inside");
        case.unlink(1, "dir/inside");
        let place = case.place("dir");
        case.journal.before_unlink(1, place).expect("it can be kept");
        fs::remove_dir(case.path("dir")).expect("it is empty");
        // They may get the numbers of what was removed.
        for name in ["made", "made/deep"] {
            fs::create_dir(case.path(name)).expect("it is not there");
            let place = case.place(name);
            case.journal.made(1, place);
        }
        assert!(case.undo(1).is_empty(), "round {round}");
        assert_eq!(case.text("dir/inside"), "inside");
        assert!(!case.path("made").exists());
        fs::remove_dir_all(case.path("dir")).expect("it is there");
    }
}
