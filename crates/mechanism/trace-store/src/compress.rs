//! Compression of chunks, as hard as there is time for.

use zstd::bulk::{Compressor, Decompressor};

/// How far the writer is behind the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// The rings are nearly empty: compress well.
    Idle,
    /// The rings fill faster than they are emptied: compress fast.
    Behind,
}

impl Pressure {
    /// The zstd level. Negative levels are several times faster than level 1 and
    /// still halve typical logs.
    fn level(self) -> i32 {
        match self {
            Pressure::Idle => 3,
            Pressure::Behind => -5,
        }
    }
}

/// Compresses chunks one after the other: a context for each level, because a
/// context that ran out of room takes no new level.
pub struct ChunkCompressor {
    contexts: [Compressor<'static>; 2],
    pressure: Pressure,
}

impl ChunkCompressor {
    /// # Errors
    /// If memory for the contexts is short.
    pub fn new() -> std::io::Result<ChunkCompressor> {
        let contexts = [Compressor::new(Pressure::Idle.level())?, Compressor::new(Pressure::Behind.level())?];
        Ok(ChunkCompressor { contexts, pressure: Pressure::Idle })
    }

    /// Chooses how hard the following chunks are compressed.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Appends to `record` the bytes to store, and says whether they are
    /// compressed. What does not shrink by a sixteenth is stored as it is: reading
    /// it back is then a plain copy.
    pub fn store(&mut self, bytes: &[u8], record: &mut Vec<u8>) -> bool {
        let start = record.len();
        let room = bytes.len() - bytes.len() / 16;
        record.resize(start + room, 0);
        let context = &mut self.contexts[usize::from(self.pressure == Pressure::Behind)];
        match context.compress_to_buffer(bytes, &mut record[start..]) {
            Ok(stored) if stored < bytes.len() => {
                record.truncate(start + stored);
                true
            }
            // No room: it does not shrink. Any other failure costs space only.
            Ok(_) | Err(_) => {
                record.truncate(start);
                record.extend_from_slice(bytes);
                false
            }
        }
    }
}

/// Decompresses chunks one after the other with one context.
pub struct ChunkDecompressor(Decompressor<'static>);

impl ChunkDecompressor {
    /// # Errors
    /// If memory for the context is short.
    pub fn new() -> std::io::Result<ChunkDecompressor> {
        Ok(ChunkDecompressor(Decompressor::new()?))
    }

    /// Replaces `into` by the chunk; false if the bytes are not `raw_bytes` of
    /// compressed data. Never allocates more than `raw_bytes`, whatever the
    /// compressed bytes claim.
    pub fn restore(&mut self, stored: &[u8], raw_bytes: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        into.reserve(raw_bytes);
        match self.0.decompress_to_buffer(stored, into) {
            Ok(bytes) => bytes == raw_bytes && into.len() == raw_bytes,
            Err(_) => false,
        }
    }
}
