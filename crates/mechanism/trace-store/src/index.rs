//! The index at the end of a complete trace: its [`Contents`] as bytes.

use crate::contents::{ChunkPlace, Contents, Entry};
use crate::record::{
    CHUNK_BYTES_MAX, Fields, RECORD_HEADER_BYTES, encode_end, encode_file, parse_end, parse_file,
};

/// Most bytes of the index in one record.
pub(crate) const PART_BYTES_MAX: usize = 4 << 20;

/// The contents as bytes.
pub(crate) fn encode(contents: &Contents) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(contents.lanes.len() as u64).to_le_bytes());
    for (info, chunks) in contents.lanes.iter().zip(&contents.chunks) {
        bytes.extend_from_slice(&info.lane.to_le_bytes());
        bytes.extend_from_slice(&info.parent.to_le_bytes());
        bytes.extend_from_slice(&info.pid.to_le_bytes());
        encode_end(info.end, &mut bytes);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(chunks.len() as u64).to_le_bytes());
        for chunk in chunks {
            bytes.extend_from_slice(&chunk.offset.to_le_bytes());
            bytes.extend_from_slice(&chunk.raw_bytes.to_le_bytes());
            bytes.extend_from_slice(&chunk.stored_bytes.to_le_bytes());
            bytes.extend_from_slice(&chunk.events.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&(contents.files.len() as u64).to_le_bytes());
    for file in &contents.files {
        encode_file(file, &mut bytes);
    }
    bytes
}

/// Reads the contents of a trace whose chunks end before `index_offset`. `None`
/// if the bytes contradict themselves. No count is trusted: each item is read
/// from bytes that are there.
pub(crate) fn parse(bytes: &[u8], index_offset: u64) -> Option<Contents> {
    let mut fields = Fields(bytes);
    let mut contents = Contents::default();
    for _ in 0..fields.u64()? {
        let (lane, parent, pid) = (fields.u32()?, fields.u32()?, fields.i32()?);
        let end = parse_end(&mut fields)?;
        let _reserved = fields.u32()?;
        contents.add(Entry::Begin { lane, parent, pid }).ok()?;
        let mut free_from = 0;
        for _ in 0..fields.u64()? {
            let chunk = parse_chunk(&mut fields)?;
            let chunk_end =
                chunk.offset.checked_add(RECORD_HEADER_BYTES as u64 + u64::from(chunk.stored_bytes))?;
            let bounded =
                chunk.stored_bytes <= chunk.raw_bytes && chunk.raw_bytes as usize <= CHUNK_BYTES_MAX;
            if !bounded || chunk.offset < free_from || chunk_end > index_offset {
                return None;
            }
            free_from = chunk_end;
            contents.add_chunk(lane, chunk).ok()?;
        }
        if let Some(end) = end {
            contents.add(Entry::End { lane, end }).ok()?;
        }
    }
    for _ in 0..fields.u64()? {
        contents.add(Entry::File(parse_file(&mut fields)?)).ok()?;
    }
    fields.0.is_empty().then_some(contents)
}

fn parse_chunk(fields: &mut Fields<'_>) -> Option<ChunkPlace> {
    Some(ChunkPlace {
        offset: fields.u64()?,
        raw_bytes: fields.u32()?,
        stored_bytes: fields.u32()?,
        events: fields.u64()?,
    })
}
