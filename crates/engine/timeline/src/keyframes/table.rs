//! What a keyframe's payload says, checked, and as a new process reads it.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use lane_protocol::{
    DATA_START, IMAGE_MAGIC, IMAGE_TABLES_BYTES_MAX, ImageMapping, LOADER_BYTES, LOADER_START, REGION_BYTES,
    REGION_START, SCRATCH_START, SESSION_START, image_flags, image_source,
};
use trace_store::StoreError;
use trace_store::keyframes::KeyframeReader;

const PAGE_BYTES: u64 = 4096;
/// End of what a process can map.
const MEMORY_END: u64 = 0x7fff_ffff_f000;
const MAPPINGS_MAX: u64 = 1 << 18;
const OBJECTS_MAX: u64 = 1024;
const RUN_BYTES_MAX: u64 = 1 << 20;
/// The first descriptor of the program's, and where those of the session are at most.
const DESCRIPTORS: std::ops::Range<u64> = 3..1024;

/// A mapping as it is written.
pub fn words_of(mapping: &ImageMapping) -> [u64; 5] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let ImageMapping { start, end, protection, flags, source, number, offset } = *mapping;
    [start, end, pair(protection, flags), pair(source, number), offset]
}

fn mapping_of(words: &[u64]) -> ImageMapping {
    let [low, high] = [|word: u64| word as u32, |word: u64| (word >> 32) as u32];
    ImageMapping {
        start: words[0],
        end: words[1],
        protection: low(words[2]),
        flags: high(words[2]),
        source: low(words[3]),
        number: high(words[3]),
        offset: words[4],
    }
}

/// True if a mapping is what one can be: none that the new process needs for itself.
fn is_possible(mapping: &ImageMapping, objects: u64) -> bool {
    let ImageMapping { start, end, protection, flags, source, number, offset } = *mapping;
    let meets = |from: u64, to: u64| start < to && from < end;
    let is_sessions = meets(REGION_START, DATA_START)
        || meets(SESSION_START, SCRATCH_START)
        || meets(LOADER_START, LOADER_START + LOADER_BYTES);
    let in_region = meets(REGION_START, REGION_START + REGION_BYTES);
    [start, end, offset].iter().all(|word| word.is_multiple_of(PAGE_BYTES))
        && start < end
        && end <= MEMORY_END
        && !is_sessions
        && protection <= 7
        && flags & !(image_flags::GROWS_DOWN | image_flags::SHARED) == 0
        && match source {
            image_source::ZEROS => true,
            image_source::FILE => !in_region && flags & image_flags::SHARED == 0,
            image_source::OBJECT => !in_region && u64::from(number) < objects,
            _ => false,
        }
}

/// Reads a payload, and writes it to an empty file as `lane_protocol::ImageHead` says.
///
/// # Errors
/// [`StoreError`] if it is not what was written, or cannot be.
pub fn unfold(mut reader: KeyframeReader, image: &File) -> Result<(), StoreError> {
    let mut words = Words { reader: &mut reader };
    let [mapping_count, object_count] = words.some()?;
    if mapping_count > MAPPINGS_MAX || object_count > OBJECTS_MAX {
        return Err(reader.impossible("it has too many mappings"));
    }
    let mut tables = Vec::new();
    let mut mappings: Vec<ImageMapping> = Vec::new();
    for _ in 0..mapping_count {
        let mapping = mapping_of(&words.some::<5>()?);
        let behind = mappings.last().is_none_or(|last| last.end <= mapping.start);
        if !behind || !is_possible(&mapping, object_count) {
            return Err(reader.impossible("it has an impossible mapping"));
        }
        tables.extend(words_of(&mapping));
        mappings.push(mapping);
    }
    let mut object_bytes = Vec::new();
    for _ in 0..object_count {
        let [fd, bytes] = words.some()?;
        if !DESCRIPTORS.contains(&fd) || bytes > 1 << 32 {
            return Err(reader.impossible("it has an impossible descriptor"));
        }
        tables.extend([fd, bytes]);
        object_bytes.push(bytes);
    }
    let runs = unfold_runs(&mut words, image, &mappings, &object_bytes)?;
    tables.extend(runs.words);
    let standing = reader.keyframe.standing;
    let is_runtimes = |address: &u64| (DATA_START..REGION_START + REGION_BYTES).contains(address);
    if !standing.iter().all(is_runtimes) || tables.len() as u64 * 8 > IMAGE_TABLES_BYTES_MAX {
        return Err(reader.impossible("it has an impossible thread, or is too large"));
    }
    let [block, stack] = standing;
    let place = runs.end.next_multiple_of(PAGE_BYTES);
    let head =
        [IMAGE_MAGIC, place, tables.len() as u64 * 8, mapping_count, object_count, runs.count, block, stack];
    let failed = |source| StoreError::io("write", "an image".as_ref(), source);
    write_at(image, place, &tables).and_then(|()| write_at(image, 0, &head)).map_err(failed)?;
    reader.finish()
}

fn write_at(mut file: &File, place: u64, words: &[u64]) -> std::io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.seek(SeekFrom::Start(place))?;
    file.write_all(&bytes)
}

struct Words<'a> {
    reader: &'a mut KeyframeReader,
}

impl Words<'_> {
    fn some<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], StoreError> {
        let mut words = [0; COUNT];
        for word in &mut words {
            let mut bytes = [0; 8];
            self.reader.take(&mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        Ok(words)
    }
}

/// Runs that were put into the file.
struct Unfolded {
    words: Vec<u64>,
    count: u64,
    end: u64,
}

fn unfold_runs(
    words: &mut Words,
    image: &File,
    mappings: &[ImageMapping],
    objects: &[u64],
) -> Result<Unfolded, StoreError> {
    let failed = |source| StoreError::io("write", "an image".as_ref(), source);
    let mut to = BufWriter::with_capacity(1 << 20, image);
    to.seek(SeekFrom::Start(PAGE_BYTES)).map_err(failed)?;
    let mut found = Unfolded { words: Vec::new(), count: 0, end: PAGE_BYTES };
    let mut content = Vec::new();
    while words.reader.left() > 0 {
        let [object, address, bytes] = words.some()?;
        let inside =
            |start: u64, end: u64| start <= address && address.checked_add(bytes).is_some_and(|to| to <= end);
        let fits = match object.checked_sub(1) {
            Some(index) => objects.get(index as usize).is_some_and(|&bytes| inside(0, bytes)),
            None => {
                let behind = mappings.partition_point(|mapping| mapping.start <= address);
                behind.checked_sub(1).is_some_and(|at| inside(mappings[at].start, mappings[at].end))
            }
        };
        if !fits || bytes > RUN_BYTES_MAX {
            return Err(words.reader.impossible("it has content for no memory"));
        }
        content.resize(bytes as usize, 0);
        words.reader.take(&mut content)?;
        to.write_all(&content).map_err(failed)?;
        found.words.extend([object, address, bytes, found.end]);
        found.count += 1;
        found.end += bytes;
    }
    to.flush().map_err(failed)?;
    Ok(found)
}
