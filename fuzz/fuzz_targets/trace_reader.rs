//! Arbitrary bytes as the log of a trace: opening, reading and verifying it never
//! panics and allocates no more than the format's bounds.
//!
//! Under `cfg(fuzzing)` checksums count as right, so that the fuzzer gets behind
//! them.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use trace_store::{CHUNK_BYTES_MAX, Meta, TraceReader, TraceWriter};

/// A trace in memory whose log each input replaces. It stays when the fuzzer
/// ends: statics are not dropped.
static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
    let home = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary directory");
    let dir = home.keep().join("trace");
    let meta = Meta::now(vec!["fuzzed".into()], "/".into(), "user-dispatch");
    drop(TraceWriter::create(&dir, &meta).expect("the directory is new"));
    dir
});

fuzz_target!(|log: &[u8]| {
    let dir = DIR.as_path();
    std::fs::write(dir.join("events.rvt"), log).expect("the directory is writable");
    let Ok(reader) = TraceReader::open(dir) else {
        return;
    };
    let _ = reader.verify(&mut |_, _| ());
    let mut bytes = Vec::new();
    for info in reader.lanes() {
        let mut lane = reader.lane(info.lane).expect("it is listed");
        while let Ok(Some(_)) = lane.next_chunk(&mut bytes) {
            assert!(bytes.len() <= CHUNK_BYTES_MAX);
        }
    }
    for kept in reader.files() {
        let _ = reader.file_path(&kept.file);
    }
});
