//! What is written is what is read, whole or cut, with the right permissions.

mod sample;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sample::{Sample, read_lane};
use trace_store::{
    CHUNK_BYTES_MAX, CutWhy, FORMAT_VERSION, FileEntry, LaneEnd, Meta, NO_PARENT, Pressure, StoreError,
    TraceReader, TraceWriter,
};

#[test]
fn a_finished_trace_is_read_as_it_was_written() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let reader = TraceReader::open(&dir).expect("a finished trace opens");
    assert!(reader.cut().is_none());
    assert_eq!(reader.meta(), &sample.meta);
    assert_eq!(reader.summary(), Some(&sample.summary));
    sample.assert_lanes_equal(&reader);
    sample.assert_files_equal(&reader);
    let ends: Vec<_> = reader.lanes().iter().map(|info| info.end).collect();
    assert_eq!(ends, [Some(LaneEnd::Exited(3)), Some(LaneEnd::Killed(9))]);
    assert_eq!(reader.totals().events, sample.events());
    reader.verify(&mut |done, total| assert!(done <= total)).expect("every checksum is right");
    assert!(matches!(reader.lane(77), Err(StoreError::NoSuchLane { lane: 77 })));
}

#[test]
fn an_unfinished_trace_is_cut_and_whole_up_to_there() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_unfinished();
    let reader = TraceReader::open(&dir).expect("a cut trace opens");
    let cut = reader.cut().expect("it has no end");
    assert_eq!(cut.why, CutWhy::NotFinished);
    assert_eq!(cut.offset, fs::metadata(dir.join("events.rvt")).expect("it is there").len());
    assert_eq!(reader.summary(), None);
    sample.assert_lanes_equal(&reader);
    sample.assert_files_equal(&reader);
}

#[test]
fn a_trace_that_is_being_recorded_says_so() {
    let sample = Sample::small();
    let (home, dir) = sample.directory();
    let writer = sample.write_log(&dir);
    let cut = *TraceReader::open(&dir).expect("it opens").cut().expect("it has no end");
    assert_eq!(cut.why, CutWhy::Recording);
    let name = dir.file_name().expect("it has one").to_str().expect("it is text");
    assert!(matches!(trace_store::traces::remove(home.path(), name), Err(StoreError::InUse { .. })));
    drop(writer);
    let cut = *TraceReader::open(&dir).expect("it opens").cut().expect("it has no end");
    assert_eq!(cut.why, CutWhy::NotFinished);
    trace_store::traces::remove(home.path(), name).expect("nobody uses it any more");
}

#[test]
fn large_chunks_at_every_pressure_and_of_every_kind() {
    let (_home, dir) = Sample::small().directory();
    let mut writer = TraceWriter::create(&dir, &Sample::small().meta).expect("it is created");
    writer.begin_lane(0, NO_PARENT, 1).expect("it begins");
    let mut noise: u64 = 1;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    let regular: Vec<u8> = (0..CHUNK_BYTES_MAX).map(|index| (index / 9) as u8).collect();
    for pressure in [Pressure::Behind, Pressure::Idle] {
        writer.set_pressure(pressure);
        writer.append(0, 5, &random).expect("it is written");
        writer.append(0, 7, &regular).expect("it is written");
    }
    assert!(matches!(
        writer.append(0, 1, &vec![0; CHUNK_BYTES_MAX + 1]),
        Err(StoreError::Refused { lane: 0, .. })
    ));
    let totals = writer.finish(&Sample::small().summary).expect("it is finished");
    assert_eq!((totals.events, totals.chunks), (24, 4));

    let reader = TraceReader::open(&dir).expect("it opens");
    let info = &reader.lanes()[0];
    assert!(info.stored_bytes > 2 * random.len() as u64, "what does not shrink is stored as it is");
    assert!(info.stored_bytes < info.raw_bytes / 4, "what shrinks is compressed");
    let chunks = read_lane(&reader, 0).expect("it is whole");
    assert_eq!(chunks.len(), 4);
    for pair in chunks.chunks(2) {
        assert!(pair[0] == (5, random.clone()) && pair[1] == (7, regular.clone()));
    }
}

#[test]
fn what_is_logged_now_has_its_time() {
    let (_home, dir) = Sample::small().directory();
    let meta = Meta::now(vec!["prog".into()], "/".into(), "none");
    let mut writer = TraceWriter::create(&dir, &meta).expect("it is created");
    writer.begin_lane(0, NO_PARENT, 1).expect("it begins");
    writer.append(0, 1, b"12345678").expect("it is written");
    writer.append_now(0, 1, b"12345678").expect("it is written");
    drop(writer);
    let mut lane = TraceReader::open(&dir).expect("it opens").lane(0).expect("it is there");
    let mut chunk = Vec::new();
    let mut logged = || lane.next_chunk(&mut chunk).map(|_| lane.logged()).expect("it is whole");
    assert_eq!(logged(), None);
    let since = logged().expect("it is known");
    assert!(since < 60_000, "{since} ms");
    assert!(meta.time_after(since) >= meta.started, "{}", meta.time_after(since));
}

#[test]
fn only_the_owner_may_read() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("files")), 0o700);
    assert_eq!(mode(&dir.join("events.rvt")), 0o600);
    assert_eq!(mode(&dir.join("trace.json")), 0o600);
}

#[test]
fn nothing_is_written_over() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let before = fs::read(dir.join("events.rvt")).expect("it is there");
    assert!(matches!(TraceWriter::create(&dir, &sample.meta), Err(StoreError::NotEmpty { .. })));
    assert_eq!(fs::read(dir.join("events.rvt")).expect("it is there"), before);
}

#[test]
fn the_writer_refuses_what_a_reader_would() {
    let (_home, dir) = Sample::small().directory();
    let mut writer = TraceWriter::create(&dir, &Sample::small().meta).expect("it is created");
    let refused = |result| matches!(result, Err(StoreError::Refused { lane: 4, .. }));
    assert!(refused(writer.append(4, 1, b"12345678")), "no such lane");
    assert!(refused(writer.end_lane(4, LaneEnd::Unknown)), "no such lane");
    writer.begin_lane(4, NO_PARENT, 1).expect("it begins");
    assert!(refused(writer.begin_lane(4, NO_PARENT, 1)), "begun twice");
    writer.end_lane(4, LaneEnd::Stopped(3)).expect("it ends");
    assert!(refused(writer.append(4, 1, b"12345678")), "ended");
    let file = FileEntry { hash: [1; 32], path: b"/bin/true".to_vec(), size: 1, mode: 0o100_755 };
    writer.add_file(9, &file).expect("it is added");
    assert!(matches!(writer.add_file(9, &file), Err(StoreError::RefusedFile { id: 9, .. })));
    let long = FileEntry { path: vec![b'a'; 4097], ..file };
    assert!(matches!(writer.add_file(10, &long), Err(StoreError::RefusedFile { id: 10, .. })));
    writer.finish(&Sample::small().summary).expect("what was refused left no trace");
    let reader = TraceReader::open(&dir).expect("it opens");
    reader.verify(&mut |_, _| ()).expect("it is whole");
    assert_eq!(reader.lanes()[0].end, Some(LaneEnd::Stopped(3)));
}

#[test]
fn newer_versions_are_named() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let events = dir.join("events.rvt");
    let mut bytes = fs::read(&events).expect("it is there");
    bytes[8] = u8::MAX;
    fs::write(&events, &bytes).expect("it is writable");
    match TraceReader::open(&dir) {
        Err(StoreError::Version { found: 255, .. }) => {}
        other => panic!("expected a version error, got {other:?}"),
    }
}

#[test]
fn a_newer_description_is_named() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let newer = serde_json::to_vec(&Meta { format: FORMAT_VERSION + 1, ..sample.meta.clone() })
        .expect("it is plain data");
    fs::write(dir.join("trace.json"), newer).expect("it is writable");
    assert!(
        matches!(TraceReader::open(&dir), Err(StoreError::Version { found, .. }) if found == FORMAT_VERSION + 1)
    );
}

#[test]
fn what_is_no_trace_is_called_so() {
    let home = tempfile::tempdir().expect("a temporary directory");
    assert!(matches!(TraceReader::open(home.path()), Err(StoreError::NotATrace { .. })));
    assert!(matches!(TraceReader::open(&home.path().join("nothing")), Err(StoreError::NotATrace { .. })));
}

/// Nothing that a writer holds keeps it from another thread.
#[test]
fn writers_and_readers_can_be_sent() {
    fn send<T: Send>() {}
    send::<TraceWriter>();
    send::<TraceReader>();
    send::<trace_store::LaneReader>();
    send::<trace_store::FileStore>();
}

#[test]
fn the_document_is_of_this_format() {
    let document = include_str!("../../../../docs/TRACE_FORMAT.md");
    assert!(document.contains(&format!("Format version {FORMAT_VERSION}.")));
    assert!(
        document.contains(&format!("\n{FORMAT_VERSION} "))
            || document.contains(&format!(", {FORMAT_VERSION} "))
    );
}
