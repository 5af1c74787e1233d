//! What can happen to a trace on a disk, and what can be made of one by somebody who knows the format.

use std::fs;
use std::path::{Path, PathBuf};

use events::{Event, HEADER_BYTES};
use trace_store::{LaneEnd, LaneInfo, TraceReader, TraceWriter};

use crate::random::Random;

/// What a damaged trace may still be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    /// Bytes are not what was written: a success has to show what the whole trace shows.
    Decayed,
    /// The checksums are right, and what the log says is another thing: a success may show that.
    Forged,
}

/// A damaged trace, in words.
pub struct Damaged {
    pub nature: Nature,
    pub what: String,
}

/// Makes a damaged copy of a trace in a directory that does not exist. What is not damaged is linked.
pub fn damage(trace: &Path, copy: &Path, random: &mut Random) -> Result<Damaged, String> {
    if random.below(3) == 0 {
        let what = forge(trace, copy, random)?;
        return Ok(Damaged { nature: Nature::Forged, what });
    }
    link_trace(trace, copy)?;
    let mut files = vec![copy.join("events.rvt"), copy.join("trace.json")];
    // Most of a trace is its log.
    while files.len() < 8 {
        files.push(copy.join("events.rvt"));
    }
    files.extend(kept(copy)?);
    let file = random.one_of(&files).clone();
    let what = decay(&file, random)?;
    Ok(Damaged { nature: Nature::Decayed, what: format!("{}: {what}", name_of(&file)) })
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().chars().take(16).collect()
}

fn told(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("cannot {doing} {}: {error}", path.display())
}

/// The kept files of a trace, in order.
fn kept(trace: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = trace.join("files");
    let entries = fs::read_dir(&folder).map_err(told("read", &folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

fn link_trace(trace: &Path, copy: &Path) -> Result<(), String> {
    let folder = copy.join("files");
    fs::create_dir_all(&folder).map_err(told("make", &folder))?;
    for name in ["events.rvt", "trace.json"] {
        fs::hard_link(trace.join(name), copy.join(name)).map_err(told("link", &copy.join(name)))?;
    }
    for file in kept(trace)? {
        let link = folder.join(file.file_name().unwrap_or_default());
        fs::hard_link(&file, &link).map_err(told("link", &link))?;
    }
    Ok(())
}

/// Changes the bytes of one file, in a copy of its own.
fn decay(file: &Path, random: &mut Random) -> Result<String, String> {
    let mut bytes = fs::read(file).map_err(told("read", file))?;
    let at = random.below(bytes.len());
    let what = match random.below(8) {
        0..=2 => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} is flipped")
        }
        3 => {
            let count = (1 + random.below(64)).min(bytes.len() - at);
            bytes[at..at + count].fill_with(|| random.next() as u8);
            format!("{count} bytes from {at} on are others")
        }
        4 => {
            let count = (1 + random.below(4096)).min(bytes.len() - at);
            let value = *random.one_of(&[0, 0xff]);
            bytes[at..at + count].fill(value);
            format!("{count} bytes from {at} on are {value:#x}")
        }
        5 => {
            bytes.truncate(at);
            format!("it is cut to {at} bytes")
        }
        6 => {
            let count = (1 + random.below(200)).min(bytes.len() - at);
            bytes.drain(at..at + count);
            format!("{count} bytes from {at} on are missing")
        }
        _ => {
            let count = (1 + random.below(200)).min(bytes.len() - at);
            let again = bytes[at..at + count].to_vec();
            bytes.splice(at..at, again);
            format!("{count} bytes from {at} on are there twice")
        }
    };
    // The file is a link: others have it too.
    fs::remove_file(file).map_err(told("remove", file))?;
    fs::write(file, bytes).map_err(told("write", file))?;
    Ok(what)
}

/// Writes the trace again with one lane's log changed, so that all checksums are right.
fn forge(trace: &Path, copy: &Path, random: &mut Random) -> Result<String, String> {
    let failed = |error: trace_store::StoreError| error.to_string();
    let reader = TraceReader::open(trace).map_err(failed)?;
    let mut writer = TraceWriter::create(copy, reader.meta()).map_err(failed)?;
    for kept in reader.files() {
        writer.add_file(kept.id, &kept.file).map_err(failed)?;
    }
    for file in kept(trace)? {
        let link = copy.join("files").join(file.file_name().unwrap_or_default());
        fs::hard_link(&file, &link).map_err(told("link", &link))?;
    }
    let changed = random.below(reader.lanes().len());
    let mut what = String::new();
    for (index, info) in reader.lanes().iter().enumerate() {
        writer.begin_lane(info.lane, info.parent, info.pid).map_err(failed)?;
        let mut log = whole_log(&reader, info)?;
        if index == changed {
            what = format!("lane {}: {}", info.lane, forge_log(&mut log, random));
        }
        for (events, part) in parts(&log) {
            writer.append(info.lane, events, part).map_err(failed)?;
        }
        writer.end_lane(info.lane, info.end.unwrap_or(LaneEnd::Unknown)).map_err(failed)?;
    }
    let summary = reader.summary().ok_or("the sample is cut")?;
    writer.finish(summary).map_err(failed)?;
    Ok(what)
}

fn whole_log(reader: &TraceReader, info: &LaneInfo) -> Result<Vec<u8>, String> {
    let mut lane = reader.lane(info.lane).map_err(|error| error.to_string())?;
    let (mut log, mut chunk) = (Vec::new(), Vec::new());
    while lane.next_chunk(&mut chunk).map_err(|error| error.to_string())?.is_some() {
        log.extend_from_slice(&chunk);
    }
    Ok(log)
}

/// Where the events of a log begin.
fn starts(log: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while let Ok((_, bytes)) = Event::parse(&log[at..]) {
        starts.push(at);
        at += bytes;
    }
    starts
}

/// The log in chunks. What is no event any more is counted as one.
fn parts(log: &[u8]) -> Vec<(u64, &[u8])> {
    const PART_BYTES: usize = 1 << 20;
    let starts = starts(log);
    let (mut parts, mut begin, mut events) = (Vec::new(), 0, 0);
    for start in starts {
        if start - begin >= PART_BYTES {
            parts.push((events, &log[begin..start]));
            (begin, events) = (start, 0);
        }
        events += 1;
    }
    if begin < log.len() {
        parts.push((events, &log[begin..]));
    }
    parts
}

/// Changes one event of a log, or leaves events out.
fn forge_log(log: &mut Vec<u8>, random: &mut Random) -> String {
    let starts = starts(log);
    if starts.is_empty() {
        return "nothing".to_owned();
    }
    let number = random.below(starts.len());
    let start = starts[number];
    let end = starts.get(number + 1).copied().unwrap_or(log.len());
    let what = match random.below(7) {
        0 | 1 => {
            let at = start + random.below(end - start);
            log[at] ^= 1 << random.below(8);
            format!("byte {}", at - start)
        }
        2 => {
            let word = start + random.below((end - start) / HEADER_BYTES) * HEADER_BYTES;
            let value = *random.one_of(&[0, 1, u64::MAX, 1 << 63, 0x7fff_ffff_f000, 0xffff_ffff]);
            log[word..word + HEADER_BYTES].copy_from_slice(&value.to_le_bytes());
            format!("the word at {} is {value:#x}", word - start)
        }
        3 => {
            log[start] = random.below(20) as u8;
            format!("its kind is {}", log[start])
        }
        4 => {
            log.drain(start..end);
            "it is missing".to_owned()
        }
        5 => {
            let again = log[start..end].to_vec();
            log.splice(start..start, again);
            "it is there twice".to_owned()
        }
        _ => {
            log.truncate(start);
            "the log ends before it".to_owned()
        }
    };
    format!("event {number} of {}: {what}", starts.len())
}
