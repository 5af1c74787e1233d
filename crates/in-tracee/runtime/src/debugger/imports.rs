//! Replay under the debugger: what the other processes of a group wrote to the memory that they
//! share. The one process of the debugged lane that goes with them, the lead, says it; copies of
//! it, which go without them, take it in.
//!
//! Others run between two tokens of the process and at no other time, and all that comes from them
//! is in shared memory: a copy that finds there what the lead found is in the same state.
//!
//! Invariant: the lead and its copies come to the same imports in the same order. One copy runs
//! at a time.

use core::sync::atomic::Ordering;

use lane_protocol::{
    IMPORT_ENDS, IMPORTS_AHEAD, ImportPiece, KEPT_IMPORTS, SAID_IMPORT, WrittenPages, import_kind,
    imports_end, report_kind,
};
use linux_abi::general as nr;

use crate::address_space::mapped_files::{self, Object};
use crate::debugger::agent_state;
use crate::ground::owned::Owned;
use crate::ground::{kernel, memory};
use crate::log::file_extents;
use crate::state::block::{process, session};
use crate::state::group_replay::{is_lead, is_without_others};
use crate::state::own_descriptors::close;
use crate::state::report;

const PAGE_BYTES: u64 = 4096;
/// Most bytes of a piece.
const PIECE_BYTES: u64 = 32 << 10;
const HEADER_BYTES: u64 = size_of::<ImportPiece>() as u64;
/// What is compared at a time where something may be new.
const GRAIN_BYTES: usize = 64;
const BUFFER_BYTES: usize = 2 * (HEADER_BYTES + PIECE_BYTES) as usize;

static BUFFER: Owned<[u8; BUFFER_BYTES]> = Owned::new([0; BUFFER_BYTES]);
/// A copy: the piece at hand, and what is there so far.
static PIECE: Owned<[u8; (HEADER_BYTES + PIECE_BYTES) as usize]> =
    Owned::new([0; (HEADER_BYTES + PIECE_BYTES) as usize]);
static FORMER: Owned<[u8; PIECE_BYTES as usize]> = Owned::new([0; PIECE_BYTES as usize]);

/// The token is back from other processes.
pub fn token_is_back() {
    if is_lead() {
        say(&mut |writer| {
            let is_known = session().imports.written.take(&mut |page| writer.page(page));
            if !is_known {
                mapped_files::for_each_object(&mut |object| writer.whole(object));
            }
        });
    } else if is_without_others() {
        take_in();
    }
}

/// What others have shared already is mapped for the first time, and this stands for it.
pub fn opened(identity: [u64; 2]) {
    if is_lead() {
        say(&mut |writer| {
            mapped_files::for_each_object(&mut |object| {
                if object.identity == identity {
                    writer.whole(object);
                }
            });
        });
    } else if is_without_others() {
        take_in();
    }
}

// --- the lead replica ---

fn say(import: &mut dyn FnMut(&mut Writer)) {
    if agent_state::state().boundaries == 0 {
        // There are no copies yet.
        session().imports.written.take(&mut |_| {});
        return;
    }
    let number = next_number();
    let imports = &session().imports;
    loop {
        let kept = imports.kept.load(Ordering::Acquire);
        if number < kept + IMPORTS_AHEAD as u32 {
            break;
        }
        kernel::futex_wait(&imports.kept, kept, 1000);
    }
    let mut writer = Writer { fd: open_said(number), at: 0, filled: 0 };
    import(&mut writer);
    writer.flush();
    close(writer.fd);
    imports.said_bytes[number as usize % IMPORTS_AHEAD].store(writer.at, Ordering::Relaxed);
    imports.said.store(number + 1, Ordering::Release);
    kernel::futex_wake(&imports.said);
}

fn next_number() -> u32 {
    let number = process().imports;
    process().imports += 1;
    number
}

/// Writes pieces to a file.
struct Writer {
    fd: i32,
    /// Where what is in the buffer goes to.
    at: u64,
    filled: usize,
}

impl Writer {
    /// A page as it is now, of all files that it may be of.
    fn page(&mut self, page: u64) {
        let offset = (page & 0xffff_ffff) * PAGE_BYTES;
        mapped_files::for_each_object(&mut |object| {
            if WrittenPages::page_of(object.inode, offset / PAGE_BYTES) == page {
                self.part(object, offset, object.bytes.min(offset + PAGE_BYTES));
            }
        });
    }

    /// All of a file.
    fn whole(&mut self, object: &Object) {
        let Object { identity, bytes, .. } = *object;
        self.header(&ImportPiece { kind: import_kind::END, identity, offset: bytes, bytes: 0 });
        let mut before = 0;
        file_extents::for_each_extent(object.fd, bytes, &mut |start, end| {
            self.zeros(identity, before, start);
            for offset in (start..end).step_by(PIECE_BYTES as usize) {
                self.part(object, offset, end.min(offset + PIECE_BYTES));
            }
            before = end;
        });
        self.zeros(identity, before, bytes);
    }

    fn zeros(&mut self, identity: [u64; 2], offset: u64, end: u64) {
        if offset < end {
            self.header(&ImportPiece { kind: import_kind::ZEROS, identity, offset, bytes: end - offset });
        }
    }

    fn part(&mut self, object: &Object, offset: u64, end: u64) {
        let Some(bytes) = end.checked_sub(offset).filter(|&bytes| bytes != 0) else { return };
        self.header(&ImportPiece { kind: import_kind::BYTES, identity: object.identity, offset, bytes });
        let target = BUFFER.get() as u64 + self.filled as u64;
        let read = kernel::call(nr::__NR_pread64, [object.fd as u64, target, bytes, offset, 0, 0]);
        if read != bytes as i64 {
            not_kept(read);
        }
        self.filled += bytes as usize;
    }

    /// There is room for the piece behind it.
    fn header(&mut self, piece: &ImportPiece) {
        if self.filled + (HEADER_BYTES + PIECE_BYTES) as usize > BUFFER_BYTES {
            self.flush();
        }
        memory::write(BUFFER.get() as u64 + self.filled as u64, piece);
        self.filled += HEADER_BYTES as usize;
    }

    fn piece(&mut self, piece: &ImportPiece, source: u64) {
        self.header(piece);
        memory::copy(BUFFER.get() as u64 + self.filled as u64, source, piece.bytes);
        self.filled += piece.bytes as usize;
    }

    fn flush(&mut self) {
        let mut done = 0;
        while done < self.filled {
            let (source, bytes) = (BUFFER.get() as u64 + done as u64, (self.filled - done) as u64);
            let written = kernel::call(nr::__NR_pwrite64, [self.fd as u64, source, bytes, self.at, 0, 0]);
            if written <= 0 {
                not_kept(written);
            }
            done += written as usize;
            self.at += written as u64;
        }
        self.filled = 0;
    }
}

fn not_kept(result: i64) -> ! {
    report::stand(
        if is_lead() { report_kind::MISSING } else { report_kind::ALONE },
        result as i32,
        "what other processes wrote to shared memory could not be kept",
    )
}

// --- copies ---

fn take_in() {
    let number = next_number();
    let imports = &session().imports;
    let (kept, ends) = (open(KEPT_IMPORTS), open(IMPORT_ENDS));
    let begin = number.checked_sub(1).map_or(0, |before| end_of(ends, before));
    if number < imports.kept.load(Ordering::Acquire) {
        let (mut at, end) = (begin, end_of(ends, number));
        while at < end {
            at += take_piece(kept, at, None);
        }
    } else {
        wait_for(number);
        let said = open_said(number);
        let end = imports.said_bytes[number as usize % IMPORTS_AHEAD].load(Ordering::Relaxed);
        let (mut at, mut news) = (0, Writer { fd: kept, at: begin, filled: 0 });
        while at < end {
            at += take_piece(said, at, Some(&mut news));
        }
        news.flush();
        close(said);
        let place = u64::from(number) * 8;
        let end = &raw const news.at as u64;
        let written = kernel::call(nr::__NR_pwrite64, [ends as u64, end, 8, place, 0, 0]);
        if written != 8 {
            not_kept(written);
        }
        imports.kept.store(number + 1, Ordering::Release);
        kernel::futex_wake(&imports.kept);
    }
    close(kept);
    close(ends);
}

/// Waits until the lead replica has been there.
fn wait_for(number: u32) {
    let imports = &session().imports;
    imports.wanted.fetch_max(number + 1, Ordering::AcqRel);
    loop {
        let said = imports.said.load(Ordering::Acquire);
        if said > number {
            return;
        }
        match imports.over.load(Ordering::Acquire) {
            0 => {}
            imports_end::LOST => report::stand(report_kind::ALONE, 0, "the others are lost"),
            _ => report::log_ended(),
        }
        // It may stand still, as at the beginning of an image.
        session().doorbell.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&session().doorbell);
        kernel::futex_wait(&imports.said, said, 100);
    }
}

fn end_of(ends: i32, number: u32) -> u64 {
    let mut end = 0u64;
    let place = u64::from(number) * 8;
    let read = kernel::call(nr::__NR_pread64, [ends as u64, &raw mut end as u64, 8, place, 0, 0]);
    if read != 8 {
        not_there();
    }
    end
}

/// Takes the piece in that lies there, and writes down what of it is new; how long it is.
fn take_piece(pieces: i32, at: u64, news: Option<&mut Writer>) -> u64 {
    let place = PIECE.get() as u64;
    let read = kernel::call(nr::__NR_pread64, [pieces as u64, place, HEADER_BYTES + PIECE_BYTES, at, 0, 0]);
    let piece = memory::read::<ImportPiece>(place).unwrap_or_default();
    let bytes = if piece.kind == import_kind::BYTES { piece.bytes } else { 0 };
    let whole = HEADER_BYTES.saturating_add(bytes);
    let Some(fd) = mapped_files::object_of(piece.identity).filter(|_| read >= 0 && whole <= read as u64)
    else {
        not_there();
    };
    match (piece.kind, news) {
        (import_kind::BYTES, Some(news)) => take_news(&piece, place + HEADER_BYTES, fd, news),
        (import_kind::BYTES, None) => write(fd, piece.offset, place + HEADER_BYTES, bytes),
        (kind @ (import_kind::ZEROS | import_kind::END), news) => {
            let result = if kind == import_kind::END {
                kernel::call(nr::__NR_ftruncate, [fd as u64, piece.offset, 0, 0, 0, 0])
            } else {
                file_extents::punch(fd, piece.offset, piece.bytes)
            };
            if kernel::failed(result) {
                no_memory(result);
            }
            if let Some(news) = news {
                news.header(&piece);
            }
        }
        _ => not_there(),
    }
    whole
}

/// Takes in what differs from what is there, and writes it down.
fn take_news(piece: &ImportPiece, source: u64, fd: i32, news: &mut Writer) {
    // SAFETY: only the thread that holds the token comes here; the piece fits.
    let (now, former) = unsafe { (&(&*PIECE.get())[HEADER_BYTES as usize..], &mut *FORMER.get()) };
    let (now, former) = (&now[..piece.bytes as usize], &mut former[..piece.bytes as usize]);
    let target = former.as_mut_ptr() as u64;
    let read = kernel::call(nr::__NR_pread64, [fd as u64, target, piece.bytes, piece.offset, 0, 0]);
    // Behind the file's end there is nothing.
    former[read.max(0) as usize..].fill(0);
    let mut begin = None;
    for at in (0..now.len() + GRAIN_BYTES).step_by(GRAIN_BYTES) {
        let grain = at.min(now.len())..(at + GRAIN_BYTES).min(now.len());
        let differs = now[grain.clone()] != former[grain];
        match begin {
            None if differs => begin = Some(at),
            Some(first) if !differs => {
                let bytes = (at.min(now.len()) - first) as u64;
                let (offset, source) = (piece.offset + first as u64, source + first as u64);
                write(fd, offset, source, bytes);
                news.piece(&ImportPiece { offset, bytes, ..*piece }, source);
                begin = None;
            }
            None | Some(_) => {}
        }
    }
}

fn write(fd: i32, offset: u64, source: u64, bytes: u64) {
    let written = kernel::call(nr::__NR_pwrite64, [fd as u64, source, bytes, offset, 0, 0]);
    if written != bytes as i64 {
        no_memory(written);
    }
}

fn no_memory(result: i64) -> ! {
    report::stand(report_kind::ALONE, result as i32, "memory for a copy could not be made")
}

fn not_there() -> ! {
    report::fail("what other processes wrote to shared memory was not kept as it has to be")
}

fn open_said(number: u32) -> i32 {
    let mut name = [0u8; SAID_IMPORT.len()];
    name.copy_from_slice(SAID_IMPORT);
    name[SAID_IMPORT.len() - 1] = b'0' + (number as usize % IMPORTS_AHEAD) as u8;
    open(&name)
}

fn open(name: &[u8]) -> i32 {
    let path = mapped_files::path_in_objects(name);
    let flags = u64::from(nr::O_RDWR | nr::O_CREAT | nr::O_CLOEXEC);
    let fd = kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0o600, 0, 0, 0]);
    if kernel::failed(fd) {
        not_kept(fd);
    }
    fd as i32
}
