//! Reading events: arbitrary bytes never panic, and what is written is read.

use events::{
    ARG_COUNT_MASK, BIRTH_FIXED_BYTES, Blob, DecodeError, EVENT_BYTES_MAX, Event, HEADER_BYTES, Header,
    IN_PLACE, Instruction, Kind, MORE, MapRecord, SummedRange, Tag, padded,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Calls all that an event can be asked.
fn ask_everything(event: &Event<'_>) {
    let _ = (event.has_more(), event.arg_count(), event.result(), event.instruction());
    for index in [0, 1, 5, 6, 7, usize::MAX >> 4] {
        let _ = (event.arg(index), event.body_word(index));
    }
    if let Some(birth) = event.birth() {
        for map in birth.maps() {
            assert!(event.body.len() >= size_of_val(&map));
        }
        assert!(birth.path.len() <= event.body.len());
    }
    let mut bytes = 0;
    let in_place = event.kind == Kind::Syscall && event.flags & IN_PLACE != 0;
    for blob in event.blobs() {
        bytes += if in_place { 0 } else { 16 } + blob.data.len();
    }
    assert!(bytes <= event.body.len(), "blobs lie within their event");
}

/// Reads events as a reader of a log does.
fn read_log(mut log: &[u8]) {
    while let Ok((event, bytes)) = Event::parse(log) {
        assert!((HEADER_BYTES..=EVENT_BYTES_MAX).contains(&bytes) && bytes <= log.len());
        assert_eq!(event.body.len(), bytes - HEADER_BYTES);
        ask_everything(&event);
        log = &log[bytes..];
    }
}

fn finish(kind: Kind, flags: u8, code: u16, body: Vec<u8>) -> Vec<u8> {
    let len_bytes = u32::try_from(HEADER_BYTES + body.len()).expect("tests make short events");
    let mut event = Header::new(kind, flags, code, len_bytes).to_le_bytes().to_vec();
    event.extend(body);
    event
}

fn put_blob(body: &mut Vec<u8>, address: u64, tag: Tag, extra: u16, data: &[u8]) {
    let len_bytes = u32::try_from(data.len()).expect("tests make short blobs");
    body.extend(address.to_le_bytes());
    body.extend(len_bytes.to_le_bytes());
    body.extend((tag as u32 | u32::from(extra) << 16).to_le_bytes());
    body.extend(data);
    body.resize(padded(body.len()), 0);
}

fn tag() -> impl Strategy<Value = Tag> {
    (0u32..16).prop_map(|word| Tag::from_word(word).expect("there are sixteen tags"))
}

type AnyBlob = (u64, Tag, u16, Vec<u8>);

fn blobs() -> impl Strategy<Value = Vec<AnyBlob>> {
    vec((any::<u64>(), tag(), any::<u16>(), vec(any::<u8>(), 0..60)), 0..5)
}

fn same(found: &Blob<'_>, (address, tag, extra, data): &AnyBlob) -> bool {
    (found.address, found.tag, found.extra, found.data) == (*address, *tag, *extra, data.as_slice())
}

fn any_map() -> impl Strategy<Value = MapRecord> {
    let words = any::<(u64, u64, u64)>();
    (words, any::<(u32, u32, u32)>()).prop_map(|((start, end, file_offset), (protection, flags, file))| {
        MapRecord { start, end, protection, flags, file, file_offset }
    })
}

fn put_map(body: &mut Vec<u8>, map: &MapRecord) {
    body.extend(map.start.to_le_bytes());
    body.extend(map.end.to_le_bytes());
    body.extend(map.protection.to_le_bytes());
    body.extend(map.flags.to_le_bytes());
    body.extend(map.file.to_le_bytes());
    body.extend([0; 4]);
    body.extend(map.file_offset.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(log in vec(any::<u8>(), 0..300)) {
        read_log(&log);
    }

    /// Arbitrary bytes behind a good header get further.
    #[test]
    fn arbitrary_bodies_never_panic(
        kind in 0u8..18,
        flags: u8,
        code: u16,
        words in vec(prop_oneof![any::<u64>(), 0u64..64, Just(u64::MAX)], 0..40),
        claimed in prop::option::of(any::<u32>()),
    ) {
        let len_bytes = claimed.unwrap_or((HEADER_BYTES + 8 * words.len()) as u32);
        let head = u64::from(kind) | u64::from(flags) << 8 | u64::from(code) << 16 | u64::from(len_bytes) << 32;
        let mut log = head.to_le_bytes().to_vec();
        log.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        read_log(&log);
    }

    #[test]
    fn calls_are_read_as_written(
        number: u16,
        args in vec(any::<u64>(), 0..=6),
        result: i64,
        more: bool,
        blobs in blobs(),
    ) {
        let mut body = result.to_le_bytes().to_vec();
        body.extend(args.iter().flat_map(|arg| arg.to_le_bytes()));
        for (address, tag, extra, data) in &blobs {
            put_blob(&mut body, *address, *tag, *extra, data);
        }
        let flags = args.len() as u8 & ARG_COUNT_MASK | if more { MORE } else { 0 };
        let log = finish(Kind::Syscall, flags, number, body);
        let (event, bytes) = Event::parse(&log).expect("it was just written");
        prop_assert_eq!(bytes, log.len());
        prop_assert_eq!((event.kind, event.code, event.result()), (Kind::Syscall, number, result));
        prop_assert_eq!((event.arg_count(), event.has_more()), (args.len(), more));
        for index in 0..8 {
            prop_assert_eq!(event.arg(index), args.get(index).copied().unwrap_or(0));
        }
        let found: Vec<_> = event.blobs().collect();
        prop_assert_eq!(found.len(), blobs.len());
        prop_assert!(found.iter().zip(&blobs).all(|(found, blob)| same(found, blob)));
        // A log that ends anywhere inside the event says so.
        for len in 0..log.len() {
            prop_assert_eq!(Event::parse(&log[..len]).err(), Some(DecodeError::Truncated));
        }
    }

    #[test]
    fn what_is_written_in_place_is_memory(
        number: u16,
        args in vec(any::<u64>(), 1..=6),
        words in vec(any::<u64>(), 1..4),
    ) {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let body = [bytes(&args), bytes(&words)].concat();
        let log = finish(Kind::Syscall, args.len() as u8 | IN_PLACE, number, body);
        let (event, _) = Event::parse(&log).expect("it was just written");
        prop_assert_eq!((event.code, event.result(), event.arg_count()), (number, 0, args.len()));
        for index in 0..8 {
            prop_assert_eq!(event.arg(index), args.get(index).copied().unwrap_or(0));
        }
        let found: Vec<_> = event.blobs().map(|blob| (blob.address, blob.tag, blob.data.to_vec())).collect();
        prop_assert_eq!(found, [(args[args.len() - 1], Tag::Memory, bytes(&words))]);
        // It needs a place.
        let log = finish(Kind::Syscall, IN_PLACE, number, bytes(&words));
        prop_assert_eq!(Event::parse(&log).err(), Some(DecodeError::BadBody));
    }

    #[test]
    fn births_are_read_as_written(
        entry: u64,
        maps in vec(any_map(), 0..6),
        path in vec(any::<u8>(), 0..40),
        blobs in blobs(),
    ) {
        let mut body = Vec::new();
        for word in [entry, entry ^ 1, entry ^ 2] {
            body.extend(word.to_le_bytes());
        }
        body.extend((maps.len() as u32).to_le_bytes());
        body.extend((path.len() as u32).to_le_bytes());
        prop_assert_eq!(body.len(), BIRTH_FIXED_BYTES);
        maps.iter().for_each(|map| put_map(&mut body, map));
        body.extend(&path);
        body.resize(padded(body.len()), 0);
        for (address, tag, extra, data) in &blobs {
            put_blob(&mut body, *address, *tag, *extra, data);
        }
        let log = finish(Kind::Birth, 0, 0, body);
        let (event, _) = Event::parse(&log).expect("it was just written");
        let birth = event.birth().expect("it is one");
        prop_assert_eq!((birth.entry, birth.stack_pointer, birth.break_start), (entry, entry ^ 1, entry ^ 2));
        prop_assert_eq!(birth.path, path.as_slice());
        prop_assert_eq!(birth.maps().collect::<Vec<_>>(), maps);
        prop_assert!(event.blobs().count() == blobs.len());
    }
}

#[test]
fn instructions_are_read_as_written() {
    let words: Vec<u8> = (1u64..=7).flat_map(u64::to_le_bytes).collect();
    let log = finish(Kind::Instruction, 0, Instruction::Cpuid as u16, words);
    let (event, _) = Event::parse(&log).expect("it was just written");
    let body = event.instruction().expect("it is one");
    assert_eq!(body.instruction, Instruction::Cpuid);
    assert_eq!((body.inputs, body.outputs), ([1, 2], [3, 4, 5, 6, 7]));
}

#[test]
fn what_is_wrong_is_said() {
    let parse = |word: u64| Event::parse(&word.to_le_bytes()).map(|(_, bytes)| bytes);
    assert_eq!(parse(0), Err(DecodeError::UnknownKind(0)));
    assert_eq!(parse(200), Err(DecodeError::UnknownKind(200)));
    for len_bytes in [0, 4, 7, 9, 1_000_001, u32::MAX] {
        assert_eq!(parse(Header::new(Kind::Stop, 0, 0, len_bytes).0), Err(DecodeError::BadLength(len_bytes)));
    }
    assert_eq!(parse(Header::new(Kind::Stop, 0, 0, 8).0), Ok(8));
    assert_eq!(parse(Header::new(Kind::Exit, 0, 0, 8).0), Err(DecodeError::BadBody), "an exit has a code");
    assert_eq!(parse(Header::new(Kind::Exit, 0, 0, 16).0), Err(DecodeError::Truncated));
}

/// A blob that claims more than its event has must not reach into the next one.
#[test]
fn blobs_end_with_their_event() {
    let mut body = Vec::new();
    put_blob(&mut body, 1, Tag::Memory, 0, &[1; 8]);
    body[8] = 16;
    let mut log = finish(Kind::Data, 0, 0, body);
    log.extend(finish(Kind::Stop, 0, 0, Vec::new()));
    assert_eq!(Event::parse(&log).err(), Some(DecodeError::BadBody));
}

proptest! {
    #[test]
    fn a_summed_range_comes_back(first in 0u64..1 << 40, pages in 0..=SummedRange::PAGES_MAX, sum in any::<u64>()) {
        let range = SummedRange { first, pages, sum };
        prop_assert_eq!(SummedRange::from_words(range.to_words()), range);
    }
}
