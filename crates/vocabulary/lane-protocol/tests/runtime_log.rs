//! The runtime's log of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use lane_protocol::{LOG_ENTRIES, LogSubject, RuntimeLog, log_mask};

fn log() -> Box<RuntimeLog> {
    Box::new(RuntimeLog::empty())
}

#[test]
fn the_last_entries_are_kept() {
    let log = log();
    assert!(log.read(1).is_none() && log.read(0).is_none());
    let last = LOG_ENTRIES as u64 + 10;
    for number in 1..=last {
        log.write([7, number as u32], 2 * number, "a text that is cut somewhere", [number, !number]);
    }
    assert_eq!(log.count(), last);
    assert!(log.read(10).is_none());
    for number in 11..=last {
        let entry = log.read(number).expect("it is kept");
        assert_eq!((entry.lane, entry.thread, entry.events), (7, number as u32, 2 * number));
        assert_eq!((entry.text(), entry.words), ("a text that is cut somew", [number, !number]));
    }
    assert!(log.read(last + 1).is_none());
}

#[test]
fn entries_that_are_written_over_are_not_read_half() {
    let (log, over) = (log(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let (log, over) = (&log, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let number = log.count();
                    log.write([writer, writer], number, "x", [number, number ^ u64::from(writer)]);
                }
            });
        }
        let mut seen = 0u32;
        while seen < 20_000 {
            let count = log.count();
            for number in count.saturating_sub(LOG_ENTRIES as u64 + 2)..=count {
                if let Some(entry) = log.read(number) {
                    assert_eq!(entry.lane, entry.thread);
                    assert_eq!(entry.words, [entry.events, entry.events ^ u64::from(entry.lane)]);
                    seen += 1;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn subjects_have_names() {
    assert_eq!(log_mask("scheduler, signals"), Ok(LogSubject::Scheduler as u32 | LogSubject::Signals as u32));
    assert_eq!(log_mask("all"), Ok(u32::MAX));
    assert_eq!(log_mask(""), Ok(0));
    assert_eq!(log_mask("code,token"), Err("token"));
}
