//! A small trace with two lanes and two files, and what it must read as.
#![allow(dead_code, reason = "each test file uses the part that it needs")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use trace_store::{FileEntry, LaneEnd, Meta, NO_PARENT, StoreError, Summary, TraceReader, TraceWriter};

/// A chunk: how many events, and their bytes.
pub type Chunk = (u64, Vec<u8>);

pub struct Sample {
    pub meta: Meta,
    pub summary: Summary,
    /// The chunks of lane 0 and of lane 5.
    pub lanes: [(u32, Vec<Chunk>); 2],
    pub files: Vec<(u32, FileEntry)>,
}

impl Sample {
    /// Some chunks shrink, some do not.
    pub fn small() -> Sample {
        let mut meta = Meta::now(vec!["prog".into(), "--flag".into()], "/tmp".into(), "user-dispatch");
        meta.options.insert("check".to_owned(), "100".to_owned());
        let file = |fill: u8, path: &str| FileEntry {
            hash: [fill; 32],
            path: path.as_bytes().to_vec(),
            size: u64::from(fill),
            mode: 0o100_755,
        };
        Sample {
            meta,
            summary: Summary {
                exit: LaneEnd::Exited(3),
                duration_ns: 12_345,
                notes: vec!["a note".to_owned()],
            },
            lanes: [
                (0, vec![(3, vec![7; 400]), (1, b"not much".to_vec()), (2, (0..=255).collect())]),
                (5, vec![(9, b"abcdefgh".repeat(30)), (1, vec![0; 16])]),
            ],
            files: vec![(1, file(11, "/bin/prog")), (16_000, file(22, "/lib/libc.so.6"))],
        }
    }

    pub fn events(&self) -> u64 {
        self.lanes.iter().flat_map(|(_, chunks)| chunks).map(|(events, _)| events).sum()
    }

    /// A home directory, and the path of a trace that is not there yet.
    pub fn directory(&self) -> (TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("prog-0");
        (home, dir)
    }

    /// Writes all but the end; the lanes' chunks alternate.
    pub fn write_log(&self, dir: &Path) -> TraceWriter {
        self.try_write_log(dir).expect("the sample is written")
    }

    fn try_write_log(&self, dir: &Path) -> Result<TraceWriter, StoreError> {
        let mut writer = TraceWriter::create(dir, &self.meta)?;
        let [(first, first_chunks), (second, second_chunks)] = &self.lanes;
        writer.begin_lane(*first, NO_PARENT, 100)?;
        writer.add_file(self.files[0].0, &self.files[0].1)?;
        writer.append(*first, first_chunks[0].0, &first_chunks[0].1)?;
        writer.begin_lane(*second, *first, 101)?;
        for index in 1..first_chunks.len() {
            let (events, bytes) = &second_chunks[index - 1];
            writer.append(*second, *events, bytes)?;
            let (events, bytes) = &first_chunks[index];
            writer.append(*first, *events, bytes)?;
        }
        writer.add_file(self.files[1].0, &self.files[1].1)?;
        writer.end_lane(*second, LaneEnd::Killed(9))?;
        writer.end_lane(*first, LaneEnd::Exited(3))?;
        Ok(writer)
    }

    pub fn write_finished(&self) -> (TempDir, PathBuf) {
        let (home, dir) = self.directory();
        self.write_log(&dir).finish(&self.summary).expect("the sample is finished");
        (home, dir)
    }

    pub fn write_unfinished(&self) -> (TempDir, PathBuf) {
        let (home, dir) = self.directory();
        drop(self.write_log(&dir));
        (home, dir)
    }

    pub fn assert_lanes_equal(&self, reader: &TraceReader) {
        let lanes: Vec<u32> = reader.lanes().iter().map(|info| info.lane).collect();
        assert_eq!(lanes, [0, 5]);
        for (lane, chunks) in &self.lanes {
            assert_eq!(&read_lane(reader, *lane).expect("the lane is whole"), chunks);
        }
    }

    pub fn assert_files_equal(&self, reader: &TraceReader) {
        let files: Vec<_> = reader.files().iter().map(|kept| (kept.id, kept.file.clone())).collect();
        assert_eq!(files, self.files);
    }

    /// Whatever happened to its bytes: what can be read was written, in order and
    /// from the start; and it is all there unless the trace is cut.
    pub fn assert_nothing_wrong(&self, reader: &TraceReader) {
        assert_eq!(reader.meta(), &self.meta);
        assert!(reader.summary().is_none_or(|summary| summary == &self.summary));
        let mut damaged = false;
        for info in reader.lanes() {
            let (_, chunks) =
                self.lanes.iter().find(|(lane, _)| *lane == info.lane).expect("no lane is made up");
            let mut lane = reader.lane(info.lane).expect("it is listed");
            let mut bytes = Vec::new();
            for expected in chunks {
                match lane.next_chunk(&mut bytes) {
                    Ok(Some(events)) => assert_eq!(&(events, bytes.clone()), expected),
                    Ok(None) => {
                        assert!(reader.cut().is_some(), "a chunk is missing and nothing says so");
                        break;
                    }
                    Err(_) => {
                        assert!(bytes.is_empty(), "bytes were handed out in spite of the error");
                        damaged = true;
                        break;
                    }
                }
            }
        }
        let files: Vec<_> = reader.files().iter().map(|kept| (kept.id, kept.file.clone())).collect();
        assert_eq!(files, self.files[..files.len()]);
        if reader.cut().is_none() && !damaged {
            assert_eq!((reader.lanes().len(), files.len()), (self.lanes.len(), self.files.len()));
        }
    }
}

/// All chunks of a lane.
pub fn read_lane(reader: &TraceReader, lane: u32) -> Result<Vec<Chunk>, StoreError> {
    let mut lane = reader.lane(lane)?;
    let (mut chunks, mut bytes) = (Vec::new(), Vec::new());
    while let Some(events) = lane.next_chunk(&mut bytes)? {
        chunks.push((events, bytes.clone()));
    }
    assert_eq!(lane.next_event(), chunks.iter().map(|(events, _)| events).sum::<u64>());
    Ok(chunks)
}
