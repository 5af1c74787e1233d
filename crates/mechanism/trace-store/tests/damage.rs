//! Truncated and damaged traces: they open cut, or are refused, and never show
//! anything that was not written.

mod sample;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use proptest::prelude::*;
use sample::{Sample, read_lane};
use trace_store::{CutWhy, StoreError, TraceReader};

/// Gives a file other bytes. Not by truncating it first: ext4 then writes every
/// version to the disk.
fn replace(path: &Path, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).expect("it is writable");
    file.write_all_at(bytes, 0).and_then(|()| file.set_len(bytes.len() as u64)).expect("it is writable");
}

/// Opens what is in `dir` and checks all that can be read of it. Returns whether
/// it opened.
fn opens(sample: &Sample, dir: &Path) -> bool {
    match TraceReader::open(dir) {
        Ok(reader) => {
            sample.assert_nothing_wrong(&reader);
            true
        }
        Err(StoreError::Damaged { .. } | StoreError::Version { .. } | StoreError::NotATrace { .. }) => false,
        Err(other) => panic!("damage is not to be reported as {other:?}"),
    }
}

#[test]
fn a_trace_truncated_anywhere_opens_cut() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let events = dir.join("events.rvt");
    let whole = fs::read(&events).expect("it is there");
    let (mut offset, mut reasons) = (0, Vec::new());
    for len in 0..whole.len() {
        replace(&events, &whole[..len]);
        let reader = TraceReader::open(&dir).expect("a truncated trace opens");
        let cut = reader.cut().expect("it has no end");
        assert!(cut.offset >= offset && cut.offset <= len as u64, "what is whole only grows: {cut} of {len}");
        offset = cut.offset;
        reasons.push(cut.why);
        sample.assert_nothing_wrong(&reader);
        assert!(
            reader.lanes().iter().all(|info| read_lane(&reader, info.lane).is_ok()),
            "what is left is whole"
        );
    }
    assert!(reasons.contains(&CutWhy::NotFinished) && reasons.contains(&CutWhy::Incomplete));
}

#[test]
fn a_truncated_description_is_refused() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let json = dir.join("trace.json");
    let whole = fs::read(&json).expect("it is there");
    for len in 0..whole.len() {
        replace(&json, &whole[..len]);
        assert!(!opens(&sample, &dir), "{len} bytes are not what was written");
    }
}

#[test]
fn no_flipped_byte_shows_wrong_data() {
    let sample = Sample::small();
    for (_home, dir) in [sample.write_finished(), sample.write_unfinished()] {
        let mut refused = 0;
        for name in ["events.rvt", "trace.json"] {
            let path = dir.join(name);
            let whole = fs::read(&path).expect("it is there");
            let file = fs::File::options().write(true).open(&path).expect("it is writable");
            for (at, byte) in (0..).zip(whole) {
                for flip in [0x01, 0x80, 0xff] {
                    file.write_all_at(&[byte ^ flip], at).expect("it is writable");
                    refused += usize::from(!opens(&sample, &dir));
                }
                file.write_all_at(&[byte], at).expect("it is writable");
            }
        }
        assert!(refused > 0, "damage is noticed");
        assert!(opens(&sample, &dir), "the trace itself is good");
    }
}

#[test]
fn damage_in_the_middle_of_a_cut_trace_is_refused() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_unfinished();
    let events = dir.join("events.rvt");
    let mut bytes = fs::read(&events).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    replace(&events, &bytes);
    match TraceReader::open(&dir) {
        Err(StoreError::Damaged { offset, .. }) => assert!(offset <= middle as u64),
        other => panic!("expected damage, got {other:?}"),
    }
}

/// A file system can give a file its length before it has its bytes.
#[test]
fn zeros_at_the_end_are_a_crash_and_no_damage() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_unfinished();
    let events = dir.join("events.rvt");
    let whole = fs::read(&events).expect("it is there");
    for (kept, zeros) in [(whole.len(), 64), (whole.len(), 100_000), (whole.len() - 5, 4096)] {
        let mut bytes = whole[..kept].to_vec();
        bytes.resize(kept + zeros, 0);
        replace(&events, &bytes);
        let reader = TraceReader::open(&dir).expect("it opens");
        assert_eq!(reader.cut().expect("it is cut").why, CutWhy::Torn);
        sample.assert_nothing_wrong(&reader);
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let sample = Sample::small();
    let (_home, dir) = sample.write_finished();
    let events = dir.join("events.rvt");
    let mut bytes = fs::read(&events).expect("it is there");
    bytes.push(0);
    replace(&events, &bytes);
    assert!(matches!(TraceReader::open(&dir), Err(StoreError::Damaged { .. })));
}

/// One way to damage a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    /// Moves a piece to another place.
    Copy(prop::sample::Index, prop::sample::Index, u8),
    Append(Vec<u8>),
    Remove(prop::sample::Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), 1u8..).prop_map(|(at, flip)| Damage::Flip(at, flip)),
        place().prop_map(Damage::Truncate),
        (place(), place(), any::<u8>()).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
        prop::collection::vec(any::<u8>(), 1..200).prop_map(Damage::Append),
        (place(), 1u8..).prop_map(|(at, len)| Damage::Remove(at, len)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Flip(at, flip) => {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        Damage::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Copy(from, to, len) => {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            let len = usize::from(*len).min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
        Damage::Append(more) => bytes.extend_from_slice(more),
        Damage::Remove(at, len) => {
            let at = at.index(bytes.len());
            let end = (at + usize::from(*len)).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_shows_wrong_data(finished: bool, damages in prop::collection::vec(damage(), 1..4)) {
        let sample = Sample::small();
        let (_home, dir) = if finished { sample.write_finished() } else { sample.write_unfinished() };
        let events = dir.join("events.rvt");
        let mut bytes = fs::read(&events).expect("it is there");
        for damage in &damages {
            apply(damage, &mut bytes);
        }
        replace(&events, &bytes);
        opens(&sample, &dir);
    }
}
