//! The lane's log as the runtime sees it: it writes events when recording and
//! reads them when replaying.
//!
//! The ring is mapped twice in a row, so whatever starts inside of it is
//! contiguous. Memory of a recorded call goes from the program straight into
//! the ring.

pub mod borrowed;
pub mod cache;
pub mod call_event;
pub mod effects;
pub mod file_extents;
pub mod images;
pub mod kept_files;
pub mod lanes;
pub mod locks_of_session;
pub mod output_order;
pub mod real_streams;
pub mod shown;

use core::sync::atomic::Ordering;

use events::{BLOB_HEADER_BYTES, EVENT_BYTES_MAX, HEADER_BYTES, Header, IN_PLACE, Kind, MORE, Tag, padded};
use lane_protocol::{RING_BYTES, Ring, report_kind, ring_address};

use crate::ground::memory::{self, in_region};
use crate::ground::{kernel, notices};
use crate::state::block::{lane, process, session};
use crate::state::log_end::Log;
use crate::state::report;

/// Bytes after which the supervisor is told of progress.
const NOTICE_BYTES: u64 = RING_BYTES / 4;

/// Longest path or name that is logged for people, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// The only blob of a short event.
pub struct ShortBlob {
    pub address: u64,
    pub bytes: u64,
    pub tag: Tag,
    pub source: u64,
}

impl Log {
    /// Attaches to the ring at the slot, going on where it stands.
    pub fn attach(&mut self, slot: u64) {
        let ring = ring();
        self.base = ring_address(slot);
        self.position = if process().replays() {
            ring.tail.load(Ordering::Acquire)
        } else {
            ring.head.load(Ordering::Acquire)
        };
        self.limit = self.position;
        self.noticed = self.position;
        self.broken = 0;
    }

    /// In a copy of the process: the ring is another, and goes on at the same place.
    pub fn go_on(&mut self) {
        self.limit = self.position;
        self.noticed = self.position;
    }

    /// Replay: bytes consumed.
    pub fn consumed_bytes(&self) -> u64 {
        self.position
    }

    /// Maps the part of the ring that the birth of an image and its loader use, in
    /// one go where the kernel can (Linux 5.14).
    pub fn populate(&self) {
        const MADV_POPULATE_WRITE: u64 = 23;
        const BYTES: u64 = 0x7000;
        let start = self.here(0) & !4095;
        kernel::call(linux_abi::general::__NR_madvise, [start, BYTES, MADV_POPULATE_WRITE, 0, 0, 0]);
    }

    /// Bytes of the log so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes back to a position, to read from there on or to write.
    pub fn go_to(&mut self, position: u64, events: u64, reads: bool) {
        self.position = position;
        self.noticed = position;
        self.limit = if reads { position } else { position + RING_BYTES };
        self.events = events;
        self.broken = 0;
        self.follows = false;
    }

    /// All was read: from now on it is written to.
    pub fn record_again(&mut self) {
        self.limit = self.position + RING_BYTES;
        self.noticed = self.position;
    }

    #[inline]
    fn here(&self, offset: u64) -> u64 {
        self.base + ((self.position + offset) & (RING_BYTES - 1))
    }

    // --- recording ---

    /// Begins an event; its words and blobs follow, then [`Log::end`].
    #[inline]
    pub fn begin(&mut self, kind: Kind, flags: u8, code: u16) {
        if self.position + EVENT_BYTES_MAX as u64 > self.limit {
            self.wait_for_space();
        }
        self.kind = kind as u64;
        self.flags = flags;
        self.code = code;
        self.at = HEADER_BYTES as u64;
    }

    /// Appends a word to the body.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let target = self.here(self.at) as *mut u64;
        // SAFETY: inside the ring's double mapping; `begin` saw to the space and
        // events keep below their maximum.
        unsafe { target.write(word) };
        self.at += 8;
    }

    /// Appends `bytes` from memory to the body, padded.
    pub fn raw(&mut self, source: u64, bytes: u64) {
        memory::copy(self.here(self.at), source, bytes);
        self.at += padded(bytes as usize) as u64;
    }

    /// Appends a blob; what does not fit goes on in data events.
    pub fn blob(&mut self, address: u64, bytes: u64, tag: Tag, source: u64) {
        let mut done = 0;
        loop {
            let room = EVENT_BYTES_MAX as u64 - self.at;
            if room < BLOB_HEADER_BYTES as u64 + 64 {
                self.close(MORE);
                self.begin(Kind::Data, 0, 0);
                continue;
            }
            let part = (bytes - done).min((room - BLOB_HEADER_BYTES as u64) & !7);
            self.word(address + done);
            self.word(part | (tag as u64) << 32);
            if part > 0 {
                let target = self.here(self.at);
                if part <= 8 {
                    // SAFETY: space as in `word`; the padding is deterministic.
                    unsafe { (target as *mut u64).write(0) };
                }
                if !memory::copy(target, source + done, part) {
                    // The kernel wrote it, so it was there; now it is not readable
                    // (write-only memory): nothing can read it in replay either.
                    memory::copy_readable(target, source + done, part);
                }
                self.at += padded(part as usize) as u64;
            }
            done += part;
            if done >= bytes {
                return;
            }
        }
    }

    /// Appends a blob that is never split over two events.
    pub fn whole_blob(&mut self, address: u64, bytes: u64, tag: Tag, source: u64) {
        self.make_room(bytes);
        self.blob(address, bytes, tag, source);
    }

    /// Begins a data event if the one at hand has no room for a blob of this length.
    fn make_room(&mut self, bytes: u64) {
        if self.at + bytes + BLOB_HEADER_BYTES as u64 + 64 > EVENT_BYTES_MAX as u64 {
            self.close(MORE);
            self.begin(Kind::Data, 0, 0);
        }
    }

    /// Appends memory that the kernel wrote, by reference where the log has it.
    pub fn memory(&mut self, address: u64, bytes: u64) {
        // What a live process read may have to be given back to it.
        if !(cache::BLOCK_BYTES_MIN..=4 * cache::BLOCK_BYTES).contains(&bytes) || crate::state::live::is_on()
        {
            return self.blob(address, bytes, Tag::Memory, address);
        }
        if memory::read::<u8>(address).is_none() || memory::read::<u8>(address + bytes - 1).is_none() {
            return self.blob(address, bytes, Tag::Memory, address);
        }
        let mut done = 0;
        while done < bytes {
            let at = address + done;
            let part = (bytes - done).min(cache::BLOCK_BYTES);
            if part < cache::BLOCK_BYTES_MIN {
                self.blob(at, part, Tag::Memory, at);
            } else {
                match cache::find_or_enter(at, part) {
                    cache::Found::Held(slot) => {
                        let reference = u64::from(slot) | part << 32;
                        self.blob(at, 8, Tag::Cached, &raw const reference as u64);
                    }
                    cache::Found::Entered(slot) => self.block(at, part, slot),
                }
            }
            done += part;
        }
    }

    /// Appends a text of the program's, or its beginning; nothing if it cannot be read.
    pub fn text(&mut self, address: u64) {
        self.make_room(TEXT_BYTES_MAX as u64);
        let target = self.here(self.at + BLOB_HEADER_BYTES as u64) as *mut u8;
        // SAFETY: `make_room` saw to the space.
        let Some(len) = (unsafe { memory::copy_text(target, address, TEXT_BYTES_MAX) }) else { return };
        // The padding is deterministic.
        // SAFETY: as above.
        unsafe { core::ptr::write_bytes(target.add(len), 0, padded(len) - len) };
        self.word(address);
        self.word(len as u64 | (Tag::Text as u64) << 32);
        self.at += padded(len) as u64;
    }

    /// Appends the start of what the program sends, if it can be read.
    #[inline]
    pub fn sent(&mut self, address: u64, bytes: u64) {
        let target = self.here(self.at + BLOB_HEADER_BYTES as u64);
        // The padding is deterministic.
        // SAFETY: as in `word`; events keep room for one short blob.
        unsafe { ((target + ((bytes - 1) & !7)) as *mut u64).write(0) };
        if memory::copy(target, address, bytes) {
            self.word(address);
            self.word(bytes | (Tag::Sent as u64) << 32);
            self.at += padded(bytes as usize) as u64;
        }
    }

    /// Appends a block that entered the cache: never split over two events.
    fn block(&mut self, address: u64, bytes: u64, slot: u16) {
        if self.at + bytes + BLOB_HEADER_BYTES as u64 + 8 > EVENT_BYTES_MAX as u64 {
            self.close(MORE);
            self.begin(Kind::Data, 0, 0);
        }
        self.word(address);
        self.word(bytes | (Tag::MemoryToCache as u64) << 32 | u64::from(slot) << 48);
        memory::copy(self.here(self.at), address, bytes);
        self.at += padded(bytes as usize) as u64;
    }

    fn close(&mut self, extra_flags: u8) {
        let word = Header::new(
            Kind::from_byte(self.kind as u8).unwrap_or(Kind::Data),
            self.flags | extra_flags,
            self.code,
            self.at as u32,
        );
        // SAFETY: as in `word`.
        unsafe { (self.here(0) as *mut Header).write(word) };
        self.position += self.at;
        if self.broken == 0 {
            ring().head.store(self.position, Ordering::Release);
            if self.position - self.noticed >= NOTICE_BYTES {
                self.notice();
            }
        }
    }

    /// True if an event of so many bytes can be written without asking anybody.
    #[inline(always)]
    fn has_room_at_once(&self, bytes: u64) -> bool {
        self.position + bytes <= self.limit && self.position - self.noticed < NOTICE_BYTES && self.broken == 0
    }

    /// The event of so many bytes that was written here is a whole one.
    #[inline(always)]
    fn publish_short(&mut self, bytes: u64) {
        self.position += bytes;
        ring().head.store(self.position, Ordering::Release);
        self.events += 1;
        self.follows = false;
    }

    /// A whole event of a call of which only number, arguments and result matter:
    /// false if there is no space for it at once.
    #[inline]
    pub fn short_call(&mut self, number: u16, args: &[u64], result: i64) -> bool {
        let bytes = (16 + 8 * args.len()) as u64;
        if !self.has_room_at_once(bytes) {
            return false;
        }
        let target = self.here(0) as *mut u64;
        // SAFETY: as in `word`.
        unsafe {
            target.write(Header::new(Kind::Syscall, args.len() as u8, number, bytes as u32).0);
            target.add(1).write(result as u64);
            for (index, &arg) in args.iter().enumerate() {
                target.add(2 + index).write(arg);
            }
        }
        self.publish_short(bytes);
        true
    }

    /// The same of a call that gave 0 and wrote two words to where the last argument points.
    #[inline]
    pub fn in_place(&mut self, number: u16, args: &[u64], words: [u64; 2]) -> bool {
        let bytes = (8 + 8 * (args.len() + words.len())) as u64;
        if !self.has_room_at_once(bytes) {
            return false;
        }
        let target = self.here(0) as *mut u64;
        // SAFETY: as in `word`.
        unsafe {
            target.write(Header::new(Kind::Syscall, args.len() as u8 | IN_PLACE, number, bytes as u32).0);
            for (index, &word) in args.iter().chain(&words).enumerate() {
                target.add(1 + index).write(word);
            }
        }
        self.publish_short(bytes);
        true
    }

    /// The same with one blob of at most 64 bytes, copied from `source`.
    #[inline]
    pub fn short_blob(&mut self, number: u16, args: &[u64], result: i64, blob: &ShortBlob) -> bool {
        let start = 16 + 8 * args.len() as u64;
        let data = start + BLOB_HEADER_BYTES as u64;
        let bytes = data + padded(blob.bytes as usize) as u64;
        if !self.has_room_at_once(bytes) {
            return false;
        }
        let target = self.here(0) as *mut u64;
        // SAFETY: as in `word`. The last word is cleared first: it may be padding.
        unsafe {
            target.add((bytes / 8 - 1) as usize).write(0);
            if !memory::copy(target as u64 + data, blob.source, blob.bytes) {
                return false;
            }
            target.write(Header::new(Kind::Syscall, args.len() as u8, number, bytes as u32).0);
            target.add(1).write(result as u64);
            for (index, &arg) in args.iter().enumerate() {
                target.add(2 + index).write(arg);
            }
            let blob_header = target.add(start as usize / 8);
            blob_header.write(blob.address);
            blob_header.add(1).write(blob.bytes | (blob.tag as u64) << 32);
        }
        self.publish_short(bytes);
        true
    }

    /// Ends the event (and its group).
    #[inline]
    pub fn end(&mut self) {
        self.close(0);
        self.events += 1;
    }

    #[cold]
    fn notice(&mut self) {
        self.noticed = self.position;
        let session = session();
        session.doorbell.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&session.doorbell);
        if session.stop.load(Ordering::Relaxed) != 0 {
            self.broken = session.stop.load(Ordering::Relaxed) as u16;
        }
    }

    #[cold]
    fn wait_for_space(&mut self) {
        let ring = ring();
        loop {
            if self.broken != 0 {
                // Nobody reads any more: the ring is scratch memory now.
                self.limit = u64::MAX;
                return;
            }
            self.limit = ring.tail.load(Ordering::Acquire) + RING_BYTES;
            if self.position + EVENT_BYTES_MAX as u64 <= self.limit {
                return;
            }
            let seen = ring.hot_prepare_sleep();
            if ring.tail.load(Ordering::SeqCst) + RING_BYTES == self.limit {
                self.notice();
                kernel::futex_wait(&ring.hot_wake, seen, 100);
            }
            ring.hot_end_sleep();
            if supervisor_died() {
                self.leave_ring();
                self.broken = events::StopReason::RecorderDied as u16;
            }
        }
    }

    /// What the ring holds is taken over later, by who finds the session's file: what is written
    /// from now on goes elsewhere.
    fn leave_ring(&self) {
        use linux_abi::general::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        // Where that fails, it is overwritten, as memory that nobody reads.
        kernel::mmap(self.base, 2 * RING_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    }

    // --- replaying ---

    /// The header word of the next event; waits for it. `None`: the log ends.
    #[inline]
    pub fn peek(&mut self) -> Option<Header> {
        if self.position + HEADER_BYTES as u64 > self.limit && !self.wait_for_bytes(HEADER_BYTES as u64) {
            return None;
        }
        // SAFETY: at least a header is there.
        let word = unsafe { (self.here(0) as *const Header).read() };
        let bytes = word.bytes();
        if bytes < 8 || bytes > EVENT_BYTES_MAX as u64 || bytes % 8 != 0 {
            report::fail("the log holds an event of an impossible length");
        }
        if self.position + bytes > self.limit && !self.wait_for_bytes(bytes) {
            return None;
        }
        Some(word)
    }

    /// A word of the next event's body; [`Log::peek`] came first.
    #[inline]
    pub fn body(&self, index: u64) -> u64 {
        // SAFETY: inside the double mapping whatever the index, as events are
        // shorter than the ring; checked against the length by the callers.
        unsafe { (self.here(8 + index * 8) as *const u64).read() }
    }

    /// Bytes of the next event's body; [`Log::peek`] came first.
    pub fn body_bytes(&self) -> u64 {
        // SAFETY: at least a header is there.
        let word = unsafe { (self.here(0) as *const Header).read() };
        word.bytes() - HEADER_BYTES as u64
    }

    /// Address of the byte at this offset of the next event.
    #[inline]
    pub fn address_of(&self, offset: u64) -> u64 {
        self.here(offset)
    }

    /// Consumes the next event, of which `word` is the header.
    #[inline]
    pub fn consume(&mut self, word: Header) {
        self.position += word.bytes();
        ring().tail.store(self.position, Ordering::Release);
        if self.position - self.noticed >= RING_BYTES / 2 {
            self.notice_consumed();
        }
    }

    #[cold]
    fn notice_consumed(&mut self) {
        self.noticed = self.position;
        lane().events_done.store(self.events, Ordering::Relaxed);
        let session = session();
        session.doorbell.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&session.doorbell);
    }

    /// Waits until this many bytes can be read; false at the end of the log.
    #[cold]
    fn wait_for_bytes(&mut self, bytes: u64) -> bool {
        let ring = ring();
        loop {
            // Closed first: what was produced before is visible then.
            let closed = ring.closed.load(Ordering::Acquire) != 0;
            self.limit = ring.head.load(Ordering::Acquire);
            if self.position + bytes <= self.limit {
                return true;
            }
            if closed {
                return false;
            }
            let seen = ring.hot_prepare_sleep();
            if ring.head.load(Ordering::SeqCst) == self.limit && ring.closed.load(Ordering::SeqCst) == 0 {
                self.notice_consumed();
                kernel::futex_wait(&ring.hot_wake, seen, 100);
            }
            ring.hot_end_sleep();
            if supervisor_died() {
                kernel::exit_group(255);
            }
        }
    }

    /// Applies an event that [`Log::in_place`] made, with so many arguments, and consumes it.
    #[inline]
    pub fn apply_in_place(&mut self, word: Header, count: u64) {
        let (address, start) = (self.body(count - 1), 8 + 8 * count);
        put_memory(address, self.here(start), word.bytes() - start);
        self.consume(word);
        self.events += 1;
    }

    /// Number, arguments and result of the call at hand; nothing where no stream is real.
    fn call(&self, word: Header) -> real_streams::Call {
        if session().is_real == 0 {
            return real_streams::Call::default();
        }
        let mut args = [0; 6];
        let count = word.arguments() as usize;
        for (index, arg) in args.iter_mut().enumerate().take(count) {
            *arg = self.body(1 + index as u64);
        }
        real_streams::Call { number: u64::from(word.code()), args, result: self.body(0) as i64 }
    }

    /// Applies the blobs of the event at hand, from `offset` bytes after its
    /// start: memory is written, everything else goes to `other`.
    /// Then consumes the event and applies its data events.
    pub fn apply(&mut self, word: Header, offset: u64, other: &mut dyn FnMut(Tag, u64, u64, u64)) {
        let call = self.call(word);
        let mut word = word;
        let mut offset = offset;
        loop {
            let end = word.bytes();
            while offset + BLOB_HEADER_BYTES as u64 <= end {
                let address = self.body((offset - 8) / 8);
                let len_tag = self.body((offset - 8) / 8 + 1);
                let bytes = len_tag & 0xffff_ffff;
                let source = self.here(offset + BLOB_HEADER_BYTES as u64);
                if offset + BLOB_HEADER_BYTES as u64 + bytes > end {
                    report::fail("a blob is longer than its event");
                }
                match Tag::from_word((len_tag >> 32) as u32 & 0xffff) {
                    Some(Tag::Memory) if bytes > 0 => {
                        put_memory(address, source, bytes);
                    }
                    Some(Tag::MemoryToCache) => {
                        put_memory(address, source, bytes);
                        cache::enter((len_tag >> 48) as u16, source, bytes);
                    }
                    Some(Tag::Cached) => {
                        let reference = memory::read_word(source).unwrap_or(0);
                        let length = (reference >> 32).min(cache::BLOCK_BYTES);
                        put_memory(address, cache::slot_address(reference as u16), length);
                    }
                    Some(Tag::FilePart) => {
                        let part: [u64; 3] = memory::read(source).unwrap_or_default();
                        if bytes != 24 || in_region(address, part[2]) {
                            report::fail("the log names a part of a file in a way that is none");
                        }
                        kept_files::read_part(address, part, put_memory);
                    }
                    Some(Tag::Real) => real_streams::execute(source, bytes, &call),
                    Some(Tag::FileSize) => {
                        notices::file_end_moved(memory::read(source).unwrap_or_default());
                    }
                    Some(Tag::Output) if bytes > 24 => output_order::replay_length(source, bytes),
                    Some(tag) => other(tag, address, bytes, source),
                    None => report::fail("a blob has an unknown tag"),
                }
                offset += BLOB_HEADER_BYTES as u64 + padded(bytes as usize) as u64;
            }
            let more = word.flags() & MORE != 0;
            self.consume(word);
            if !more {
                break;
            }
            word = match self.peek() {
                Some(word) => word,
                None => report::log_ended(),
            };
            offset = HEADER_BYTES as u64;
        }
        self.events += 1;
    }
}

/// Replay: writes what the recorded kernel wrote.
fn put_memory(address: u64, source: u64, bytes: u64) {
    if shown::shows_already(address, source, bytes) {
        return;
    }
    if in_region(address, bytes)
        || !(memory::copy(address, source, bytes)
            || notices::write_behind_mapping(address, source, bytes)
            || force_memory(address, source, bytes))
    {
        report::stand(report_kind::FAILED, 14, "memory that the recorded kernel wrote is not there");
    }
}

/// Memory that the program may only read changes when somebody writes to the file
/// behind it.
#[cold]
pub fn force_memory(address: u64, source: u64, bytes: u64) -> bool {
    use linux_abi::general::{PROT_READ, PROT_WRITE};
    let page = address & !4095;
    let end = (address + bytes).next_multiple_of(4096);
    let (rights, count) = rights_between(page, end);
    if kernel::failed(kernel::mprotect(page, end - page, PROT_READ | PROT_WRITE)) {
        return false;
    }
    let copied = memory::copy(address, source, bytes) || {
        // The file is longer than it was when it was kept.
        add_missing_pages(page, end - page);
        memory::copy(address, source, bytes)
    };
    notices::memory_lost(page, end - page);
    for &(start, end, protection) in &rights[..count] {
        kernel::mprotect(start, end - start, protection);
    }
    copied
}

/// No blob has more pages, and none is half in one mapping.
const RIGHTS_MAX: usize = 40;

/// What may be done with the memory of each mapping between two addresses, and how many there are.
fn rights_between(start: u64, end: u64) -> ([(u64, u64, u32); RIGHTS_MAX], usize) {
    let mut rights = [(0, 0, 0); RIGHTS_MAX];
    let mut count = 0;
    crate::ground::maps::for_each(&mut |map| {
        let (from, to) = (map.start.max(start), map.end.min(end));
        if from < to && count < RIGHTS_MAX {
            rights[count] = (from, to, crate::ground::maps::protection(map));
            count += 1;
        }
    });
    (rights, count)
}

/// Pages of a mapping that lie behind the end of what is mapped there become zeros.
fn add_missing_pages(start: u64, bytes: u64) {
    use linux_abi::general::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
    for page in (start..start + bytes).step_by(4096) {
        if memory::read::<u8>(page).is_none() {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            kernel::mmap(page, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        }
    }
}

fn ring() -> &'static Ring {
    // SAFETY: atomics.
    unsafe { &lane().shared().ring }
}

/// True once nobody is there to read or feed the ring.
pub fn supervisor_died() -> bool {
    // A process that nobody has waited for still has its number.
    if process().pid_space != 0 || session().life_is_locked.load(Ordering::Acquire) != 0 {
        return locks_of_session::life_is_over();
    }
    let result =
        kernel::call(linux_abi::general::__NR_kill, [session().supervisor_pid as u64, 0, 0, 0, 0, 0]);
    result == -i64::from(linux_abi::errno::ESRCH)
}
