//! Memory of files that others write without a log that says so: processes outside of the recording,
//! by stores or by calls, and recorded ones that store through a mapping of their own to a file that
//! this one has mapped privately.
//!
//! The program maps such a file as it would natively, since locks lie in such memory. Where a call
//! of the program is logged by which it can have learned of a write, the pages that are not what
//! they were are logged with it: they are known by a sum each. Their content goes to the log as it
//! was summed. What the program stores there itself is logged too, and changes nothing in replay.
//!
//! Who may write to a file is in a list of the session (`lane_protocol::OutsideFiles`); the
//! supervisor looks for processes that have it open, and until it knows they count as there. What
//! shows that one came later is in `outsider_signs.rs`.
//!
//! Deliberately absent: live sessions, in which what others wrote cannot be gone back over; and
//! what the program reads of a write between two calls. It is named
//! where it shows; nothing short of a copy of the memory would keep it out, and locks would not work
//! in one.

use core::sync::atomic::{Ordering, fence};

use events::Tag;
use lane_protocol::{OUTSIDE_SUMS_BYTES, OUTSIDE_SUMS_START, outside_state};
use linux_abi::general as nr;

use crate::address_space::checksum::{self, PAGE_WORDS};
use crate::address_space::{known_shared_files, mapped_files, outsider_signs};
use crate::ground::owned::Owned;
use crate::ground::{kernel, memory, proc_files};
use crate::log::kept_files::Status;
use crate::state::block::{process, session, space};
use crate::state::outside_memory::{Outsiders, Place, Region};
use crate::state::{live, report};

const PAGE_BYTES: u64 = 4096;
/// Most bytes of a region: a sum for each page.
const REGION_BYTES_MAX: u64 = OUTSIDE_SUMS_BYTES / 8 * PAGE_BYTES;
/// Most bytes of all: they are looked at with many calls.
const BYTES_MAX: u64 = 1 << 30;
/// So much is looked at with every event, and more only where the program can have learned something.
const SMALL_BYTES: u64 = 1 << 16;
/// So many changes between calls, where the program may store itself, are named.
const UNTIMELY_MIN: u32 = 4;
/// A file that is kept is followed before it is known that somebody writes to it up to this size.
const ASKED_BYTES_MAX: u64 = 64 << 20;

/// A page as it is summed and logged.
static PAGE: Owned<[u64; PAGE_WORDS]> = Owned::new([0; PAGE_WORDS]);

impl Outsiders {
    #[inline]
    fn is_quiet(&self) -> bool {
        self.count == 0
            && !self.is_stale
            && self.changes == session().outside_files.changes()
            && !self.signs.are_any()
    }
}

/// Recording: true if something may have to be logged with the next event.
#[inline]
pub fn are_about() -> bool {
    !space().outsiders.is_quiet()
}

/// Calls that bring no news: nobody tells the program by them that memory has changed. What /proc says of
/// memory and threads is read in loops, and nobody tells by it what he has written.
fn brings_no_news(number: u64, args: &[u64; 6]) -> bool {
    let is_read = matches!(number as u32, nr::__NR_read | nr::__NR_pread64 | nr::__NR_getdents64);
    if is_read {
        return proc_files::is_in_proc(args[0]);
    }
    matches!(
        number as u32,
        nr::__NR_write
            | nr::__NR_writev
            | nr::__NR_pwrite64
            | nr::__NR_pwritev
            | nr::__NR_sendto
            | nr::__NR_sendmsg
            | nr::__NR_close
            | nr::__NR_brk
            | nr::__NR_mmap
            | nr::__NR_munmap
            | nr::__NR_mprotect
            | nr::__NR_madvise
            | nr::__NR_msync
            | nr::__NR_mincore
            | nr::__NR_mremap
            | nr::__NR_rt_sigaction
            | nr::__NR_rt_sigprocmask
            | nr::__NR_sigaltstack
            | nr::__NR_getpid
            | nr::__NR_gettid
            | nr::__NR_getppid
            | nr::__NR_getuid
            | nr::__NR_geteuid
            | nr::__NR_getgid
            | nr::__NR_getegid
            | nr::__NR_clock_gettime
            | nr::__NR_gettimeofday
            | nr::__NR_time
            | nr::__NR_getrusage
            | nr::__NR_times
            | nr::__NR_dup
            | nr::__NR_dup2
            | nr::__NR_dup3
            | nr::__NR_pipe
            | nr::__NR_pipe2
            | nr::__NR_socket
            | nr::__NR_lseek
            | nr::__NR_set_robust_list
            | nr::__NR_prctl
            | nr::__NR_arch_prctl
    )
}

/// Recording, in the event of a call: logs what others have written.
#[inline]
pub fn log_new(number: u64, args: &[u64; 6]) {
    if are_about() {
        log_changed(!brings_no_news(number, args));
    }
}

/// The same in any other event.
#[inline]
pub fn log_all_new() {
    if are_about() {
        log_changed(true);
    }
}

#[cold]
fn log_changed(brings_news: bool) {
    if brings_news {
        outsider_signs::look();
    }
    let own = &mut space().outsiders;
    if own.is_stale || own.changes != session().outside_files.changes() {
        own.refresh();
    }
    if brings_news || own.bytes <= SMALL_BYTES {
        for index in 0..own.count {
            own.scan(index, Scan::Log { is_timely: brings_news });
        }
    }
}

/// What becomes of pages that are not what they were.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// They are logged.
    Log { is_timely: bool },
    /// They are in the log already.
    Sum,
}

// --- what is followed ---

/// Recording: the program is about to map a file, by this descriptor. True: others write to it, so
/// that no kept content is what it shows.
pub fn note_mapping(fd: u64, status: &Status, protection: u64, shared: bool) -> bool {
    if !status.is_regular() {
        return false;
    }
    let identity = status.identity();
    if live::is_on() {
        return false;
    }
    match session().outside_files.state_of(identity) {
        outside_state::OUTSIDE | outside_state::ASKED => status.is_memory(fd as i32),
        outside_state::STORED => !shared,
        outside_state::INSIDE => false,
        _ => note_unknown(fd, status, protection, shared),
    }
}

fn note_unknown(fd: u64, status: &Status, protection: u64, shared: bool) -> bool {
    let identity = status.identity();
    let files = &session().outside_files;
    if !shared {
        // Who stores there asks whether somebody has it mapped, once the others can see that.
        session().written_files.mark(identity);
        fence(Ordering::SeqCst);
        if known_shared_files::is_known(identity) {
            files.raise(identity, outside_state::STORED, process().outer_pid);
            return true;
        }
    }
    let has_name = status.links() != 0;
    let is_code = protection & u64::from(nr::PROT_EXEC) != 0 || has_name && status.may_be_executed();
    if !shared && is_code || outsider_signs::is_of_system(fd) {
        return false;
    }
    let is_memory = status.is_memory(fd as i32);
    let is_asked = match (is_memory, has_name) {
        // Nobody else can have got it yet, unless it was sent.
        (_, false) => !files.is_made(identity),
        (true, true) => true,
        (false, true) => {
            shared && status.size() <= ASKED_BYTES_MAX && !outsider_signs::is_only_read(fd, protection)
        }
    };
    if is_asked && let Some(file) = files.raise(identity, outside_state::ASKED, process().outer_pid) {
        if has_name && is_memory && !files.is_made(identity) {
            file.is_opened.store(1, Ordering::Release);
        }
        file.bytes.store(status.size(), Ordering::Release);
        file.is_foreign.store(u32::from(!has_name), Ordering::Release);
        kernel::futex_wake_one(files.doorbell());
    }
    is_asked && is_memory
}

/// Recording: memory of a file was mapped, and its content is in the log.
pub fn sum_mapped(start: u64, end: u64, identity: [u64; 2]) {
    let state = session().outside_files.state_of(identity);
    if state < outside_state::STORED {
        return;
    }
    let own = &mut space().outsiders;
    own.refresh();
    for index in 0..own.count {
        let place = own.regions[index].place;
        if place.start < end && start < place.end {
            own.scan(index, Scan::Sum);
        }
    }
}

/// Recording: the mappings of files are others.
#[inline]
pub fn mappings_changed() {
    let own = &mut space().outsiders;
    if own.count != 0 {
        own.is_stale = true;
    }
}

/// Recording: a recorded process is about to store through memory to a file.
pub fn note_stored(identity: [u64; 2]) {
    fence(Ordering::SeqCst);
    if session().written_files.is_marked(lane_protocol::mark_of(identity)) {
        session().outside_files.raise(identity, outside_state::STORED, process().outer_pid);
    }
}

/// Recording: others than recorded processes have the file, or the segment.
pub fn note_outside(identity: [u64; 2]) {
    session().outside_files.raise(identity, outside_state::OUTSIDE, process().outer_pid);
}

/// This process is recorded no more: what it shares it writes as an outsider from here on.
pub fn note_leaving() {
    for place in mapped_files::all().iter().filter(|place| !place.is_private) {
        note_outside(place.identity);
    }
}

/// True where the supervisor knows that somebody else can write there.
fn is_outside(place: &Place) -> bool {
    session().outside_files.state_of(place.identity) == outside_state::OUTSIDE
}

fn is_followed(place: &Place) -> bool {
    if live::is_on() {
        return false;
    }
    match session().outside_files.state_of(place.identity) {
        outside_state::OUTSIDE | outside_state::ASKED => true,
        outside_state::STORED => place.is_private || !process().in_group,
        _ => false,
    }
}

impl Outsiders {
    /// Makes the regions those parts of mappings that are to be followed now.
    fn refresh(&mut self) {
        self.changes = session().outside_files.changes();
        self.is_stale = false;
        for region in &mut self.regions[..self.count] {
            region.is_used = false;
        }
        let (mut fits, mut left) = (true, BYTES_MAX);
        for place in mapped_files::all().iter().filter(|place| is_followed(place)) {
            let mut start = place.start;
            while start < place.end && left != 0 {
                let end = place.end.min(start + REGION_BYTES_MAX.min(left));
                let offset = place.offset + (start - place.start);
                if !self.follow(Place { start, end, offset, ..*place }) {
                    break;
                }
                left -= end - start;
                start = end;
            }
            fits &= start >= place.end || !is_outside(place);
        }
        // From behind: the last takes the place of one that goes, with its sums.
        for index in (0..self.count).rev() {
            if !self.regions[index].is_used {
                self.drop_region(index);
            }
        }
        self.bytes =
            self.regions[..self.count].iter().map(|region| region.place.end - region.place.start).sum();
        if !fits && !core::mem::replace(&mut self.has_told, true) {
            report::tell(
                "the program has more memory mapped that processes outside of the recording may write than can be followed: what they write to the rest is not recorded",
            );
        }
    }

    fn follow(&mut self, place: Place) -> bool {
        let is_it = |region: &&mut Region| {
            let known = &region.place;
            (known.start, known.end, known.identity, known.offset)
                == (place.start, place.end, place.identity, place.offset)
        };
        if let Some(region) = self.regions[..self.count].iter_mut().find(is_it) {
            region.is_used = true;
            return true;
        }
        let Some(free) = self.regions.get_mut(self.count) else { return false };
        let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED | nr::MAP_NORESERVE;
        if kernel::failed(kernel::mmap(sums_of(self.count), OUTSIDE_SUMS_BYTES, 3, flags, -1, 0)) {
            return false;
        }
        *free = Region { place, is_known: false, is_used: true, untimely: 0 };
        self.count += 1;
        true
    }

    fn drop_region(&mut self, index: usize) {
        self.count -= 1;
        let last = self.count;
        self.regions[index] = self.regions[last];
        if index != last {
            let flags = u64::from(nr::MREMAP_MAYMOVE | nr::MREMAP_FIXED);
            let arguments = [sums_of(last), OUTSIDE_SUMS_BYTES, OUTSIDE_SUMS_BYTES, flags, sums_of(index), 0];
            if kernel::failed(kernel::call(nr::__NR_mremap, arguments)) {
                self.regions[index].is_known = false;
            }
        } else {
            kernel::munmap(sums_of(last), OUTSIDE_SUMS_BYTES);
        }
    }
}

fn sums_of(region: usize) -> u64 {
    OUTSIDE_SUMS_START + region as u64 * OUTSIDE_SUMS_BYTES
}

/// A new image, or a process that is not recorded any more, has none of it.
pub fn reset() {
    let own = &mut space().outsiders;
    while own.count != 0 {
        own.drop_region(own.count - 1);
    }
    own.bytes = 0;
    own.is_stale = false;
    outsider_signs::reset();
}

// --- what has changed ---

impl Outsiders {
    /// Looks at the pages of a region.
    fn scan(&mut self, index: usize, scan: Scan) {
        let Region { place, is_known, .. } = self.regions[index];
        let mut any = false;
        each_resident(place.start, place.end, &mut |page| {
            let at = sums_of(index) + (page - place.start) / PAGE_BYTES * 8;
            any |= look_at_page(page, at, is_known, scan);
        });
        self.regions[index].is_known = true;
        if any && is_known && scan == (Scan::Log { is_timely: false }) {
            let untimely = &mut self.regions[index].untimely;
            *untimely = untimely.saturating_add(1);
            if place.only_shows || *untimely == UNTIMELY_MIN {
                outsider_signs::note_untimely(place.identity, place.only_shows);
            }
        }
    }
}

/// Sums a page, and logs it if it is another one than before. True if it is.
fn look_at_page(page: u64, sum_at: u64, is_known: bool, scan: Scan) -> bool {
    let copy = PAGE.get() as u64;
    // It may end here by now, or may not be read.
    if !memory::copy(copy, page, PAGE_BYTES) {
        return false;
    }
    let sum = checksum::page_sum(copy);
    // SAFETY: the sums of a region are mapped, and it has as many pages at most.
    let before = unsafe { (sum_at as *mut u64).replace(sum) };
    let is_new = before != sum || !is_known;
    if is_new && scan != Scan::Sum {
        process().log.blob(page, PAGE_BYTES, Tag::Memory, copy);
    }
    is_new
}

/// Calls `each` with the pages that are in memory: to read others would put them there.
fn each_resident(start: u64, end: u64, each: &mut dyn FnMut(u64)) {
    const PAGES: usize = 512;
    let mut resident = [0u8; PAGES];
    let mut from = start;
    while from < end {
        let pages = ((end - from) / PAGE_BYTES).min(PAGES as u64);
        let arguments = [from, pages * PAGE_BYTES, resident.as_mut_ptr() as u64, 0, 0, 0];
        let is_told = kernel::call(nr::__NR_mincore, arguments) == 0;
        for index in 0..pages {
            if !is_told || resident[index as usize] & 1 != 0 {
                each(from + index * PAGE_BYTES);
            }
        }
        from += pages * PAGE_BYTES;
    }
}
