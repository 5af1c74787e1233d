//! The index as bytes: a head in JSON, and compressed parts.

use std::collections::{BTreeMap, HashMap};

use events::Kind;
use serde::{Deserialize, Serialize};
use trace_store::computed::{self, Computed};
use trace_store::{StoreError, TraceReader};

use super::{BLOCK_EVENTS, Block, EventIndex, LEVEL, Sort};
use crate::own_build;
use crate::senders::{Arrow, Meeting, Place};

/// Grows with every change of the bytes, or of what is in them.
const VERSION: u32 = 2;
/// Most bytes of a part before it was compressed.
const PART_BYTES_MAX: usize = 1 << 32;
const ARROW_BYTES: usize = 34;
/// In place of where an arrow comes from: from outside.
const OUTSIDE: u64 = u64::MAX;

#[derive(Serialize, Deserialize)]
struct Head {
    rows: usize,
    /// Kind, code, whether it is an output.
    sorts: Vec<(u8, u16, bool)>,
    programs: BTreeMap<u32, String>,
    /// Position of the process, thread, name.
    thread_names: Vec<(u16, u16, String)>,
    /// Bytes before and after compression: of the columns, the arrows, then the blocks of text.
    parts: Vec<(usize, usize)>,
}

/// Who makes the index: another build may show events by other texts.
fn maker() -> Vec<u8> {
    format!("{VERSION} {}", own_build::identity()).into_bytes()
}

pub fn write(trace: &TraceReader, index: &EventIndex) -> Result<(), StoreError> {
    let columns = [
        index.processes.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(),
        index.sorts_of.iter().flat_map(|number| number.to_le_bytes()).collect(),
        index.threads.iter().flat_map(|number| number.to_le_bytes()).collect(),
        index.errors.iter().flat_map(|number| number.to_le_bytes()).collect(),
        since_last(index).iter().flat_map(|number| number.to_le_bytes()).collect(),
        index.times.iter().flat_map(|number| number.to_le_bytes()).collect(),
        index.arrows.iter().flat_map(arrow_bytes).collect(),
    ];
    let mut parts = Vec::new();
    let mut stored = Vec::new();
    for column in &columns {
        let bytes = zstd::bulk::compress(column, LEVEL).unwrap_or_default();
        parts.push((column.len(), bytes.len()));
        stored.extend(bytes);
    }
    for block in &index.blocks {
        parts.push((block.raw_bytes, block.stored.len()));
        stored.extend(&block.stored);
    }
    let sorts = index.sorts.iter().map(|sort| (sort.kind as u8, sort.code, sort.is_output)).collect();
    let programs = index.programs.iter().map(|(lane, name)| (*lane, name.clone())).collect();
    let names = index.thread_names.iter();
    let thread_names = names.map(|((process, thread), name)| (*process, *thread, name.clone())).collect();
    let head = Head { rows: index.events.len(), sorts, programs, thread_names, parts };
    let Ok(head) = serde_json::to_vec(&head) else { return Ok(()) };
    let mut payload = (head.len() as u64).to_le_bytes().to_vec();
    payload.extend(head);
    payload.extend(stored);
    computed::write(trace, Computed::Index, &maker(), &payload)
}

/// `None`: there is none, it fits to another trace or build, or makes no sense.
pub fn read(trace: &TraceReader) -> Option<EventIndex> {
    parse(&computed::read(trace, Computed::Index, &maker())?, trace.lanes().len())
}

fn parse(payload: &[u8], processes: usize) -> Option<EventIndex> {
    let (length, rest) = payload.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (head, mut stored) = rest.split_at_checked(length)?;
    let head: Head = serde_json::from_slice(head).ok()?;
    let mut parts = Vec::new();
    for (raw_bytes, stored_bytes) in &head.parts {
        let (part, behind) = stored.split_at_checked(*stored_bytes)?;
        parts.push((*raw_bytes, part));
        stored = behind;
    }
    let (columns, blocks) = parts.split_at_checked(7)?;
    let column = |number: usize, bytes: usize| {
        let (raw_bytes, stored) = columns[number];
        let is_right = raw_bytes <= PART_BYTES_MAX && raw_bytes.checked_div(bytes)? == head.rows;
        is_right.then(|| zstd::bulk::decompress(stored, raw_bytes).ok())?
    };
    let sorts = head.sorts.iter().map(|(kind, code, is_output)| {
        Some(Sort { kind: Kind::from_byte(*kind)?, code: *code, is_output: *is_output })
    });
    let mut index = EventIndex {
        processes: halves(&column(0, 2)?),
        sorts_of: halves(&column(1, 2)?),
        threads: halves(&column(2, 2)?),
        errors: halves(&column(3, 2)?),
        events: halves(&column(4, 2)?).into_iter().map(u64::from).collect(),
        sorts: sorts.collect::<Option<Vec<Sort>>>()?,
        times: words(&column(5, 4)?),
        arrows: arrows(columns[6])?,
        programs: head.programs.into_iter().collect(),
        thread_names: head
            .thread_names
            .into_iter()
            .map(|(process, thread, name)| ((process, thread), name))
            .collect(),
        blocks: Vec::new(),
    };
    let are_known = index.sorts_of.iter().all(|sort| usize::from(*sort) < index.sorts.len());
    if !are_known || blocks.len() != head.rows.div_ceil(BLOCK_EVENTS) {
        return None;
    }
    for (raw_bytes, stored) in blocks {
        let is_bounded = *raw_bytes <= BLOCK_EVENTS * (super::TEXT_BYTES_MAX + 1);
        index.blocks.push(is_bounded.then(|| Block { raw_bytes: *raw_bytes, stored: stored.to_vec() })?);
    }
    restore_events(&mut index, processes)?;
    Some(index)
}

fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// For each row how far it is behind the row before of its process, most often 0.
fn since_last(index: &EventIndex) -> Vec<u16> {
    let mut next: HashMap<u16, u64> = HashMap::new();
    let rows = index.processes.iter().zip(&index.events);
    rows.map(|(process, event)| {
        let expected = next.insert(*process, event + 1).unwrap_or(0);
        u16::try_from(event.saturating_sub(expected)).unwrap_or(u16::MAX)
    })
    .collect()
}

fn restore_events(index: &mut EventIndex, processes: usize) -> Option<()> {
    let mut next = vec![0u64; processes];
    for (process, event) in index.processes.iter().zip(&mut index.events) {
        let next = next.get_mut(usize::from(*process))?;
        *event += *next;
        *next = *event + 1;
    }
    Some(())
}

fn arrow_bytes(arrow: &Arrow) -> [u8; ARROW_BYTES] {
    let mut bytes = [0; ARROW_BYTES];
    bytes[0] = arrow.meeting as u8;
    bytes[1] = u8::from(arrow.is_certain);
    let from = arrow.from.map_or([OUTSIDE; 2], |from| [from.process as u64, from.event]);
    let words = [from[0], from[1], arrow.to.process as u64, arrow.to.event];
    for (to, word) in bytes[2..].chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn arrows((raw_bytes, stored): (usize, &[u8])) -> Option<Vec<Arrow>> {
    let bytes = zstd::bulk::decompress(stored, (raw_bytes <= PART_BYTES_MAX).then_some(raw_bytes)?).ok()?;
    let arrow = |bytes: &[u8]| {
        let word = |index: usize| {
            let at = 2 + 8 * index;
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        let place = |first: usize| {
            Some(Place { process: usize::try_from(word(first)?).ok()?, event: word(first + 1)? })
        };
        let meeting = *Meeting::ALL.get(usize::from(bytes[0]))?;
        let from = if word(0)? == OUTSIDE { None } else { Some(place(0)?) };
        Some(Arrow { meeting, from, to: place(2)?, is_certain: bytes[1] != 0 })
    };
    bytes.chunks_exact(ARROW_BYTES).map(arrow).collect()
}
