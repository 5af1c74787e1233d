//! The files of a region: two slots, of which one always holds the last whole checkpoint.
//!
//! A checkpoint goes to the slot that does not hold the last one: the pages that differ from
//! what that slot has, the table of page checksums, a flush; then the header with the new
//! generation, and another flush. Until the second flush the other slot is the one.
//!
//! File: header (one page), checksums (8 bytes for each page, XXH3-64, 0: never written,
//! zeros), the region's pages at their offsets, so that recovery maps them as they are.
//!
//! Recovery looks at the header, the checksums and the first pages; the others are compared with
//! their checksums in pieces, while the program runs already.
//!
//! Invariant: nothing is written to the slot with the last whole checkpoint, nor to the other one before all
//! pages of a recovered checkpoint were compared. Deliberately absent: a log that must be replayed before
//! the first access.

use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::header::{Found, Header, PageBuffer, read_begun, read_header, with_begun};
use crate::layout::{PAGE, whole_pages};
use crate::pages::Pages;

/// Pages that are written by one call: 1 MiB.
const RUN_PAGES_MAX: usize = 256;
/// Pages of a recovered checkpoint that are compared with their checksums at a time: 256 KiB.
const VERIFIED_PAGES: usize = 64;
/// One file of the pair: a disk's, or a simulated one's.
pub trait SlotFile {
    /// Writes all bytes; buffer, offset and length are whole pages.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Returns when everything that was written is durable.
    fn flush(&mut self) -> io::Result<()>;
    fn bytes(&self) -> io::Result<u64>;
    /// Empties the file and gives it a length: zeros.
    fn reset(&mut self, bytes: u64) -> io::Result<()>;
    /// For messages.
    fn path(&self) -> &Path;
}

/// Where the data of a region of this size begin.
pub fn data_offset(size: usize) -> u64 {
    (PAGE + table_bytes(size)) as u64
}

fn table_bytes(size: usize) -> usize {
    whole_pages(size / PAGE * 8)
}

fn file_bytes(size: usize) -> u64 {
    data_offset(size) + size as u64
}

/// Both files, and what is known of them.
pub struct Slots<F> {
    pub files: [F; 2],
    size: usize,
    base: usize,
    /// The slot with the last whole checkpoint.
    last: Option<usize>,
    generation: u64,
    /// Checksums of the pages as of the last checkpoint that was begun.
    table: PageBuffer,
    /// Pages of each slot that differ from the last checkpoint that was begun.
    stale: [Pages; 2],
    /// Slots of which nothing is known: they are emptied before they are written.
    unknown: [bool; 2],
    /// What is written may be forgotten again, by a rollback of a live session, while it stays on disk
    /// (docs/adr/0110-files-of-a-region-outlive-a-rollback.md).
    pub may_go_back: bool,
    /// The numbers in the files, as they are if nothing was forgotten.
    begun: [u64; 2],
    /// Pages of a recovered checkpoint before this one were compared with their checksums.
    verified: usize,
    /// Those that were others.
    damaged: Vec<usize>,
}

/// What recovery found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    pub slot: usize,
    pub generation: u64,
}

impl<F: SlotFile> Slots<F> {
    /// Looks into both files, and begins them where they are new. `size` 0: whatever they hold.
    ///
    /// So many first pages of a checkpoint are compared with their checksums before it is taken; where they are
    /// damaged the one before is. The others are left to [`Slots::verify_piece`].
    pub fn open(
        mut files: [F; 2],
        size: usize,
        base: usize,
        pages_first: usize,
    ) -> Result<(Slots<F>, Option<Recovered>), Error> {
        let found = [read_header(&files[0])?, read_header(&files[1])?];
        let mut whole: Vec<(usize, Header)> = found
            .iter()
            .enumerate()
            .filter_map(|(slot, found)| match found {
                Found::Whole(header) => Some((slot, *header)),
                Found::Empty | Found::Torn => None,
            })
            .collect();
        whole.sort_by_key(|(_, header)| std::cmp::Reverse(header.generation));
        if let Some((slot, header)) = whole.first() {
            let path = files[*slot].path().to_owned();
            if size != 0 && header.size != size as u64 {
                return Err(Error::OtherSize { path, found: header.size, wanted: size as u64 });
            }
        } else if found.iter().any(|found| matches!(found, Found::Torn)) {
            return Err(Error::NoWholeCheckpoint {
                path: files[0].path().to_owned(),
                why: "their headers are damaged",
            });
        }
        let has_torn = found.iter().any(|found| matches!(found, Found::Torn));
        let mut is_first = !has_torn;
        let mut damaged = false;
        for (slot, header) in whole.iter().filter(|(_, header)| header.generation > 0) {
            let checked = pages_first.min(header.size as usize / PAGE);
            let checked = if is_first { checked } else { header.size as usize / PAGE };
            if let Some(table) = read_table(&files[*slot], header)
                && is_intact(&files[*slot], header, &table, checked)
            {
                let recovered = Recovered { slot: *slot, generation: header.generation };
                let mut slots = Slots::known(files, header, table, Some(recovered))?;
                slots.verified = checked;
                return Ok((slots, Some(recovered)));
            }
            (is_first, damaged) = (false, true);
        }
        if damaged {
            return Err(Error::NoWholeCheckpoint {
                path: files[0].path().to_owned(),
                why: "their checksums do not fit",
            });
        }
        let size = whole.first().map_or(size, |(_, header)| header.size as usize);
        let base = whole.first().map_or(base, |(_, header)| header.base as usize);
        if size == 0 {
            return Err(Error::BadSize(0));
        }
        let header = Header { generation: 0, size: size as u64, base: base as u64, table_hash: 0 };
        for file in &mut files {
            begin(file, &header).map_err(|error| Error::disk("cannot begin", file.path(), &error))?;
        }
        let table = PageBuffer::zeroed(table_bytes(size));
        Ok((Slots::known(files, &header, table, None)?, None))
    }

    fn known(
        files: [F; 2],
        header: &Header,
        table: PageBuffer,
        found: Option<Recovered>,
    ) -> Result<Slots<F>, Error> {
        let size = header.size as usize;
        let none = Pages::none(size / PAGE);
        let last = found.map(|found| found.slot);
        let unknown = [0, 1].map(|slot| last.is_some_and(|last| last != slot));
        let (base, generation) = (header.base as usize, header.generation);
        let stale = [none.clone(), none];
        let (verified, damaged) = (size / PAGE, Vec::new());
        let (may_go_back, begun) = (false, [0; 2]);
        let mut slots = Slots {
            files,
            size,
            base,
            last,
            generation,
            table,
            stale,
            unknown,
            may_go_back,
            begun,
            verified,
            damaged,
        };
        slots.begun = slots.read_begun()?;
        Ok(slots)
    }

    fn read_begun(&self) -> Result<[u64; 2], Error> {
        let read =
            |file: &F| read_begun(file).map_err(|error| Error::disk("cannot read", file.path(), &error));
        Ok([read(&self.files[0])?, read(&self.files[1])?])
    }

    /// Looks what a branch of the program has written that it knows nothing of, since it went back to before that.
    fn look_again(&mut self) -> Result<(), Error> {
        let begun = self.read_begun()?;
        let is_other = begun != self.begun;
        for ((unknown, now), then) in self.unknown.iter_mut().zip(begun).zip(self.begun) {
            *unknown |= now != then;
        }
        self.begun = begun;
        if is_other {
            for slot in 0..2 {
                if let Found::Whole(header) = read_header(&self.files[slot])?
                    && header.generation > self.generation
                {
                    (self.last, self.generation) = (Some(slot), header.generation);
                }
            }
        }
        Ok(())
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn base(&self) -> usize {
        self.base
    }

    /// The generation of the last whole checkpoint.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether all pages of the recovered checkpoint are as they were written: `None` while that is not known.
    pub fn verification(&self) -> Option<Result<(), Error>> {
        if self.verified < self.size / PAGE {
            return None;
        }
        Some(match (self.damaged.first(), self.last) {
            (Some(page), Some(slot)) => Err(Error::Damaged {
                path: self.files[slot].path().to_owned(),
                address: self.base + page * PAGE,
                generation: self.generation,
            }),
            _ => Ok(()),
        })
    }

    /// Bytes up to the last page that was ever written, but for the last ones of all, which always are.
    pub fn written_bytes(&self) -> usize {
        let pages = self.size / PAGE;
        (0..pages.saturating_sub(2))
            .rev()
            .find(|page| self.hash(*page) != 0)
            .map_or(0, |page| (page + 1) * PAGE)
    }

    /// True if one of these pages was ever written.
    pub fn is_any_written(&self, pages: std::ops::Range<usize>) -> bool {
        let end = pages.end.min(self.size / PAGE);
        (pages.start..end).any(|page| self.hash(page) != 0)
    }

    /// Compares the next pages of the recovered checkpoint with their checksums; returns those that are damaged.
    pub fn verify_piece(&mut self) -> Result<&[usize], Error> {
        let known = self.damaged.len();
        let first = self.verified;
        let end = (first + VERIFIED_PAGES).min(self.size / PAGE);
        if let (true, Some(slot)) = (self.is_any_written(first..end), self.last) {
            let file = &self.files[slot];
            let mut bytes = vec![0; (end - first) * PAGE];
            let offset = data_offset(self.size) + (first * PAGE) as u64;
            file.read_at(offset, &mut bytes)
                .map_err(|error| Error::disk("cannot read", file.path(), &error))?;
            let pages = (first..end).zip(bytes.chunks_exact(PAGE));
            let damaged: Vec<usize> =
                pages.filter(|(page, bytes)| !self.is_page(*page, bytes)).map(|(page, _)| page).collect();
            self.damaged.extend(damaged);
        }
        self.verified = end;
        Ok(&self.damaged[known..])
    }

    /// Makes the next checkpoint durable: `changed` since the last one that was begun. `copy` copies bytes from an offset
    /// on, of pages that may still change: what is written has the checksum of what is written. `pause` is
    /// called with the bytes of each write.
    ///
    /// # Panics
    /// If the recovered checkpoint was not verified: this one overwrites the one before that.
    pub fn write(
        &mut self,
        changed: &Pages,
        mut copy: impl FnMut(usize, &mut [u8]),
        mut pause: impl FnMut(usize),
    ) -> Result<(), Error> {
        self.verification().expect("what is overwritten may be needed until that is known")?;
        self.stale.iter_mut().for_each(|stale| stale.add(changed));
        let slot = loop {
            if self.may_go_back {
                self.look_again()?;
            }
            let slot = self.last.map_or(0, |last| 1 - last);
            let result = self.write_slot(slot, &mut copy, &mut pause);
            result.map_err(|error| Error::disk("cannot write", self.files[slot].path(), &error))?;
            // Somewhere on the way the program may have come back from a branch that wrote on.
            if !self.may_go_back || self.read_begun()? == self.begun {
                break slot;
            }
        };
        self.stale[slot].clear();
        self.last = Some(slot);
        self.generation += 1;
        Ok(())
    }

    fn write_slot(
        &mut self,
        slot: usize,
        copy: &mut impl FnMut(usize, &mut [u8]),
        pause: &mut impl FnMut(usize),
    ) -> io::Result<()> {
        if self.unknown[slot] {
            self.files[slot].reset(file_bytes(self.size))?;
            let written: Vec<usize> = (0..self.size / PAGE).filter(|page| self.hash(*page) != 0).collect();
            written.into_iter().for_each(|page| self.stale[slot].insert(page));
        }
        if self.may_go_back {
            self.begin_slot(slot)?;
        }
        self.unknown[slot] = false;
        let runs = self.stale[slot].runs(RUN_PAGES_MAX);
        let mut buffer = PageBuffer::zeroed(RUN_PAGES_MAX * PAGE);
        for (first, count) in runs {
            let run = &mut buffer.bytes_mut()[..count * PAGE];
            copy(first * PAGE, run);
            let hashes: Vec<u64> = run.chunks_exact(PAGE).map(|page| xxh3_64(page).max(1)).collect();
            for (page, hash) in (first..).zip(hashes) {
                if self.hash(page) != hash {
                    self.set_hash(page, hash);
                    // A store came late: it marks the page yet, but the other file has to have what the table says.
                    self.stale[1 - slot].insert(page);
                }
            }
            let run = &buffer.bytes()[..count * PAGE];
            self.files[slot].write_at(data_offset(self.size) + (first * PAGE) as u64, run)?;
            pause(run.len());
        }
        let (file, stale) = (&mut self.files[slot], &self.stale[slot]);
        let mut blocks = Pages::none(table_bytes(self.size) / PAGE);
        stale.iter().for_each(|page| blocks.insert(page * 8 / PAGE));
        for (first, count) in blocks.runs(RUN_PAGES_MAX) {
            let run = &self.table.bytes()[first * PAGE..][..count * PAGE];
            file.write_at((PAGE + first * PAGE) as u64, run)?;
        }
        file.flush()?;
        let header = Header {
            generation: self.generation + 1,
            size: self.size as u64,
            base: self.base as u64,
            table_hash: xxh3_64(self.table.bytes()),
        };
        file.write_at(0, header.encode(self.begun[slot]).bytes())?;
        file.flush()
    }

    /// Tells whoever goes back to before this that the slot was written.
    fn begin_slot(&mut self, slot: usize) -> io::Result<()> {
        let begun = self.begun[slot].wrapping_add(1);
        let page = if self.unknown[slot] {
            // It is empty now.
            let (size, base) = (self.size as u64, self.base as u64);
            Header { generation: 0, size, base, table_hash: 0 }.encode(begun)
        } else {
            with_begun(&self.files[slot], begun)?
        };
        self.files[slot].write_at(0, page.bytes())?;
        self.begun[slot] = begun;
        Ok(())
    }

    fn hash(&self, page: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|index| self.table.bytes()[page * 8 + index]))
    }

    fn set_hash(&mut self, page: usize, hash: u64) {
        self.table.bytes_mut()[page * 8..][..8].copy_from_slice(&hash.to_le_bytes());
    }

    /// True if these are the bytes of a page as of the last checkpoint.
    pub fn is_page(&self, page: usize, bytes: &[u8]) -> bool {
        match self.hash(page) {
            0 => bytes.iter().all(|byte| *byte == 0),
            hash => hash == xxh3_64(bytes).max(1),
        }
    }
}

fn begin<F: SlotFile>(file: &mut F, header: &Header) -> io::Result<()> {
    file.reset(file_bytes(header.size as usize))?;
    file.write_at(0, header.encode(0).bytes())?;
    file.flush()
}

fn read_table<F: SlotFile>(file: &F, header: &Header) -> Option<PageBuffer> {
    let size = usize::try_from(header.size).ok()?;
    if file.bytes().ok()? != file_bytes(size) {
        return None;
    }
    let mut table = PageBuffer::zeroed(table_bytes(size));
    file.read_at(PAGE as u64, table.bytes_mut()).ok()?;
    (xxh3_64(table.bytes()) == header.table_hash).then_some(table)
}

/// Compares so many pages with their checksums.
fn is_intact<F: SlotFile>(file: &F, header: &Header, table: &PageBuffer, pages: usize) -> bool {
    let mut page = vec![0; PAGE];
    table.bytes().chunks_exact(8).take(pages).enumerate().all(|(index, hash)| {
        let hash = u64::from_le_bytes(std::array::from_fn(|at| hash[at]));
        let offset = data_offset(header.size as usize) + (index * PAGE) as u64;
        hash == 0 || (file.read_at(offset, &mut page).is_ok() && xxh3_64(&page).max(1) == hash)
    })
}

/// The paths of the pair.
pub fn pair(path: &Path) -> [PathBuf; 2] {
    ["0", "1"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(end);
        PathBuf::from(name)
    })
}
