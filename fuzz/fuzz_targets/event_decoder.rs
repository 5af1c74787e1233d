//! Arbitrary bytes as a lane's log: reading them never panics, and no part of an
//! event lies outside of it.
#![no_main]

use events::{Event, HEADER_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let mut rest = log;
    while let Ok((event, bytes)) = Event::parse(rest) {
        assert!(bytes >= HEADER_BYTES && bytes <= rest.len());
        let _ = (event.has_more(), event.result(), event.instruction());
        for index in 0..8 {
            let _ = (event.arg(index), event.body_word(index));
        }
        if let Some(birth) = event.birth() {
            let maps = birth.maps().count();
            assert!(birth.path.len() + maps <= event.body.len());
        }
        let in_blobs: usize = event.blobs().map(|blob| 16 + blob.data.len()).sum();
        assert!(in_blobs <= event.body.len());
        rest = &rest[bytes..];
    }
});
