//! A disk that fills up: what was written before stays whole.
//!
//! A limit on the size of files stands for the disk: the test runs its own
//! executable again under one. Writes then fail with EFBIG, and the last one that
//! fits is a short one, as on a full disk.

mod sample;

use std::path::Path;
use std::process::Command;

use sample::{Sample, read_lane};
use trace_store::{LaneEnd, NO_PARENT, StoreError, TraceReader, TraceWriter};

const DIR_VARIABLE: &str = "TRACE_STORE_TEST_FILL";

#[test]
fn a_full_disk_is_named_and_costs_only_what_did_not_fit() {
    if let Some(dir) = std::env::var_os(DIR_VARIABLE) {
        return fill(Path::new(&dir));
    }
    let (_home, dir) = Sample::small().directory();
    let status = Command::new("sh")
        // Ignored, the signal leaves the error to the caller.
        .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("it runs"))
        .args(["--exact", "a_full_disk_is_named_and_costs_only_what_did_not_fit"])
        .env(DIR_VARIABLE, &dir)
        .status()
        .expect("there is a shell");
    assert!(status.success());

    let reader = TraceReader::open(&dir).expect("it opens");
    reader.verify(&mut |_, _| ()).expect("it is whole");
    assert!(reader.cut().is_none(), "what was given back had room for the end");
    assert_eq!(reader.lanes()[0].end, Some(LaneEnd::Stopped(3)));
    let chunks = read_lane(&reader, 0).expect("it is whole");
    assert!(chunks.len() > 3);
    for (number, chunk) in (0..).zip(&chunks) {
        assert!(*chunk == (1, noise(number)), "chunk {number} is as it was written");
    }
}

/// Bytes that do not shrink.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let step = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(15_000).collect()
}

fn fill(dir: &Path) {
    let mut writer =
        TraceWriter::create(dir, &Sample::small().meta).expect("there is room for the beginning");
    writer.begin_lane(0, NO_PARENT, 1).expect("there is room for the beginning");
    let error = (0..1000).find_map(|number| writer.append(0, 1, &noise(number)).err());
    match error {
        Some(StoreError::DiskFull { path }) => assert_eq!(path, dir.join("events.rvt")),
        other => panic!("expected a full disk, got {other:?}"),
    }
    assert!(
        matches!(writer.append(0, 1, b"small"), Err(StoreError::Refused { lane: 0, .. })),
        "a hole in the log"
    );
    writer.end_lane(0, LaneEnd::Stopped(3)).expect("a small record fits");
    writer.finish(&Sample::small().summary).expect("the end fits");
}
