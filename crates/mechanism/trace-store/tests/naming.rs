//! Names, listings, removal.

mod sample;

use std::fs;
use std::path::Path;

use sample::Sample;
use trace_store::{LaneEnd, StoreError, TraceWriter, traces};

fn record(home: &Path, program: &str, started_unix_ns: u64) -> std::path::PathBuf {
    let mut sample = Sample::small();
    sample.meta.started_unix_ns = started_unix_ns;
    let dir = traces::new_dir(home, program).expect("there is a free name");
    sample.write_log(&dir).finish(&sample.summary).expect("it is finished");
    traces::set_latest(home, &dir).expect("the link can be made");
    dir
}

#[test]
fn names_count_on() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let name = |program: &str| {
        let dir = traces::new_dir(home.path(), program).expect("there is a free name");
        dir.file_name().expect("it has one").to_string_lossy().into_owned()
    };
    assert_eq!([name("/usr/bin/ls"), name("ls"), name("cat")], ["ls-0", "ls-1", "cat-0"]);
    fs::create_dir(home.path().join("ls-41")).expect("it is new");
    assert_eq!(name("ls"), "ls-42", "numbers only grow, so that a name is not soon another trace");
    assert_eq!(name("../..//"), "trace-0");
    assert_eq!(name(".hidden"), "hidden-0");
    assert_eq!(name("a b;$(c)\u{e9}"), "a_b___c__-0");
    assert!(name(&"x".repeat(1000)).len() < 120);
}

#[test]
fn names_are_given_once() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut names: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| traces::new_dir(home.path(), "prog").expect("there is a free name")))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 8);
}

#[test]
fn traces_are_found_by_name_by_path_and_as_the_latest() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let resolve = |name| traces::resolve(home.path(), name);
    assert!(matches!(resolve(None), Err(StoreError::NoTraces { .. })));
    let first = fs::canonicalize(record(home.path(), "one", 1)).expect("it is there");
    let second = fs::canonicalize(record(home.path(), "two", 2)).expect("it is there");
    assert_eq!(resolve(None).expect("it is there"), second);
    assert_eq!(resolve(Some("latest")).expect("it is there"), second);
    assert_eq!(resolve(Some("one-0")).expect("it is there"), first);
    assert_eq!(resolve(first.to_str()).expect("it is there"), first);
    assert!(matches!(resolve(Some("three-0")), Err(StoreError::NoSuchTrace { .. })));
    assert!(matches!(resolve(home.path().to_str()), Err(StoreError::NotATrace { .. })));

    traces::remove(home.path(), "two-0").expect("it is removed");
    assert_eq!(resolve(None).expect("the one before is the latest"), home.path().join("one-0"));
}

#[test]
fn listings_say_what_there_is() {
    let home = tempfile::tempdir().expect("a temporary directory");
    assert!(traces::list(&home.path().join("nothing")).expect("nothing is no error").is_empty());
    record(home.path(), "old", 1);
    record(home.path(), "new", 9);
    let sample = Sample::small();
    drop(sample.write_log(&home.path().join("killed-0")));
    let broken = record(home.path(), "broken", 3);
    fs::write(broken.join("trace.json"), b"{}").expect("it is writable");
    fs::create_dir(home.path().join("no-trace")).expect("it is new");

    let listed = traces::list(home.path()).expect("the home directory is readable");
    let names: Vec<_> = listed.iter().map(|listing| listing.name.as_str()).collect();
    assert_eq!(names, ["killed-0", "new-0", "old-0", "broken-0"]);
    let [killed, new, _, broken] = listed.as_slice() else { panic!("there are four") };
    assert_eq!((new.exit, new.events, new.cut), (Some(LaneEnd::Exited(3)), Some(sample.events()), false));
    assert_eq!(new.command, sample.meta.command);
    assert!(new.size_bytes > 500);
    assert_eq!((killed.exit, killed.events, killed.cut, killed.recording), (None, None, true, false));
    assert!(broken.problem.as_deref().is_some_and(|problem| problem.contains("trace.json")));
}

#[test]
fn only_traces_are_removed() {
    let home = tempfile::tempdir().expect("a temporary directory");
    record(home.path(), "prog", 1);
    fs::create_dir(home.path().join("precious")).expect("it is new");
    fs::write(home.path().join("precious/data"), b"x").expect("it is writable");
    for name in ["precious", "latest", "nothing"] {
        assert!(matches!(traces::remove(home.path(), name), Err(StoreError::NoSuchTrace { .. })), "{name}");
    }
    for name in ["", ".", "..", "prog-0/..", "./prog-0", "prog-0/", "/tmp"] {
        assert!(matches!(traces::remove(home.path(), name), Err(StoreError::BadName { .. })), "{name}");
    }
    let precious = home.path().join("precious");
    assert!(matches!(traces::discard(&precious), Err(StoreError::NotATrace { .. })));
    assert!(precious.join("data").exists() && home.path().join("prog-0").exists());
    traces::remove(home.path(), "prog-0").expect("it is a trace");
    assert!(!home.path().join("prog-0").exists());
    assert!(fs::symlink_metadata(home.path().join("latest")).is_err(), "the link leads nowhere");
}

#[test]
fn the_directory_of_a_new_name_takes_a_trace() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = traces::new_dir(&home.path().join("made/here"), "prog").expect("directories are made");
    TraceWriter::create(&dir, &Sample::small().meta).expect("an empty directory is taken over");
}
