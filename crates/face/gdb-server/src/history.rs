//! The log as text: a list of events, and a picture of all of it.

use std::fmt::Write;

use events::{HEADER_BYTES, Header, Kind, MORE};
use timeline::{Position, Timeline};

/// Events that `log` lists at a time.
const LISTED_MAX: u64 = 200;
/// Columns of the picture.
const COLUMNS: usize = 60;

/// One event, as far as it is shown.
pub(crate) struct Shown {
    pub index: u64,
    pub thread: u16,
    pub kind: Kind,
    pub code: u16,
}

/// Calls `act` for each event of the lane that is debugged.
pub(crate) fn for_each(timeline: &Timeline, act: &mut dyn FnMut(&Shown)) -> Result<(), String> {
    let trace = timeline.trace().ok_or("the past has not been opened")?;
    let mut reader = trace.lane(timeline.lane()).map_err(|error| error.to_string())?;
    let mut chunk = Vec::new();
    let (mut index, mut thread) = (0, 0);
    let mut goes_on = false;
    while reader.next_chunk(&mut chunk).map_err(|error| error.to_string())?.is_some() {
        let mut at = 0;
        while let Some(header) = chunk.get(at..).and_then(Header::read) {
            let bytes = header.bytes() as usize;
            let Some(kind) = header.kind().filter(|_| bytes >= HEADER_BYTES) else {
                return Err(format!("event {index} is none"));
            };
            let code = header.code();
            if kind == Kind::Token {
                thread = code;
            }
            if !goes_on {
                act(&Shown { index, thread, kind, code });
                index += 1;
            }
            goes_on = header.flags() & MORE != 0;
            at += bytes;
        }
    }
    Ok(())
}

pub(crate) fn name_of(event: &Shown) -> String {
    match event.kind {
        Kind::Syscall => {
            let row = syscall_model::row(u64::from(event.code));
            row.map_or_else(|| format!("call {}", event.code), |row| row.name.to_owned())
        }
        Kind::Signal => format!("signal {}", event.code),
        Kind::Fault => format!("fault, signal {}", event.code),
        Kind::Token => format!("the token goes to thread {}", u32::from(event.code) + 1),
        Kind::Preemption => "pause".to_owned(),
        kind => format!("{kind:?}").to_lowercase(),
    }
}

/// The events of `first-last`, or those around the present. Event N is what leads to
/// the position N+1.
pub(crate) fn list(timeline: &Timeline, range: &str) -> String {
    let now = timeline.stop().event;
    let range = match range.split_once('-') {
        Some((first, last)) => (first.trim().parse().ok(), last.trim().parse().ok()),
        None if range.is_empty() => (Some(now.saturating_sub(6)), Some(now + 3)),
        None => (range.parse().ok(), range.parse().ok()),
    };
    let (Some(first), Some(last)) = range else { return "log FIRST-LAST\n".to_owned() };
    let last = last.min(first.saturating_add(LISTED_MAX - 1));
    let mut text = String::new();
    let read = for_each(timeline, &mut |event| {
        if (first..=last).contains(&event.index) {
            let here = if event.index + 1 == now { "=>" } else { "  " };
            let _ = writeln!(
                text,
                "{here} {:>8}  thread {:<3} {}",
                event.index,
                event.thread + 1,
                name_of(event)
            );
        }
    });
    if let Err(error) = read {
        let _ = writeln!(text, "retrovane: {error}");
    }
    text
}

/// The whole recording: a line for each thread, and one for marks.
pub(crate) fn picture<'a>(timeline: &Timeline, named: impl Iterator<Item = (&'a str, Position)>) -> String {
    let mut total = 0u64;
    let counted = for_each(timeline, &mut |_| total += 1);
    let column = |event: u64| (event.min(total) as usize * COLUMNS / (total as usize + 1)).min(COLUMNS - 1);
    let mut rows: Vec<[u8; COLUMNS]> = Vec::new();
    let drawn = for_each(timeline, &mut |event| {
        let thread = usize::from(event.thread).min(255);
        if rows.len() <= thread {
            rows.resize(thread + 1, [b' '; COLUMNS]);
        }
        let place = &mut rows[thread][column(event.index)];
        let sign = match event.kind {
            Kind::Signal => b'S',
            Kind::Fault => b'!',
            Kind::Preemption => b'p',
            Kind::Exit => b'x',
            Kind::Birth => b'B',
            _ => b'-',
        };
        if sign != b'-' || *place == b' ' {
            *place = sign;
        }
    });
    if let Err(error) = counted.and(drawn) {
        return format!("retrovane: {error}\n");
    }
    let mut text = format!("{total} events; B image, S signal, ! fault, p pause, x exit, ^ the present\n");
    for (thread, row) in rows.iter().enumerate().filter(|(_, row)| row.iter().any(|&sign| sign != b' ')) {
        let _ = writeln!(text, "thread {:<4} |{}|", thread + 1, String::from_utf8_lossy(row));
    }
    let mut marks = [b' '; COLUMNS];
    let mut names = String::new();
    for (name, position) in named {
        marks[column(position.event)] = b'*';
        let _ = writeln!(names, "* {name} at {position}");
    }
    marks[column(timeline.stop().event)] = b'^';
    let _ = write!(text, "{:11} |{}|\n{names}", "", String::from_utf8_lossy(&marks));
    text
}
