//! Which files the program has mapped: when it writes to one of them by a system
//! call, the kernel changes its memory too, and the log has to say so.

use events::Tag;
use lane_protocol::{borrowed, report_kind};
use linux_abi::general as nr;

use crate::address_space::{descriptor_classes, foreign_writes, outsiders, shared_writes};
use crate::ground::maps::{self, Mapping};
use crate::ground::owned::Owned;
use crate::ground::{kernel, memory, notices};
use crate::log::borrowed::open as open_borrowed;
use crate::log::{file_extents, kept_files};
use crate::state::block::{process, session, space};
pub use crate::state::outside_memory::Place;
use crate::state::outside_memory::{COPIES, Copied, MappedFiles, Source};
use crate::state::{group_replay, live, report};

/// Most mappings of shared memory in a process that is copied, and most bytes of it.
const VIEWS: usize = 256;
const VIEWS_BYTES_MAX: u64 = 64 << 20;
/// The same of a process of a group.
const GROUP_BYTES_MAX: u64 = 256 << 20;
/// Words of `struct stat`, see stat(2) on x86-64.
pub const STATUS_WORDS: usize = 18;
const STATUS_DEVICE: usize = 0;
pub const STATUS_INODE: usize = 1;
/// In its lower half.
const STATUS_MODE: usize = 3;
pub const STATUS_BYTES: usize = 6;
const STATUS_BLOCKS: usize = 8;

pub fn all() -> &'static [Place] {
    // SAFETY: the callers are done with it before they map anything.
    unsafe { space().shared() }.mapped.files.all()
}

/// Notes a new mapping. Descriptors that were looked at before may reach it.
pub fn note(place: Place) {
    let fits = space().mapped.files.add(place);
    tell_unless(fits);
    foreign_writes::note_mapped(place.identity);
    descriptor_classes::forget_file(place.identity);
    outsiders::mappings_changed();
}

fn tell_unless(fits: bool) {
    if !fits && !process().replays() && !core::mem::replace(&mut space().mapped.has_told, true) {
        report::tell(
            "more than 65536 mappings of files: what write(2) changes in further ones is not recorded",
        );
    }
}

/// Replay: the descriptor of a copy that all mappings of the file show, made when
/// the first shared mapping appears: what is stored through one is seen through
/// the others, in all processes, and the kept file stays as it is. `None`: no
/// mapping is shared. One that was only shown is kept for the next mapping of its content.
pub fn common_copy(source: Source, identity: [u64; 2], shared: bool, only_shows: bool) -> Option<i32> {
    let alive = is_mapped(identity);
    let mapped = &mut space().mapped;
    let copies = &mut mapped.copies[..mapped.copy_count];
    if let Some(index) = copies.iter().position(|copy| copy.identity == identity) {
        // Under the debugger it has none of another time; but what others made since the
        // process was copied is newer.
        let own = &mut *process();
        let others_are_newer = own.copied && !group_replay::are_wanted() && is_made(identity);
        let brings = (own.has_agent() || own.copied) && !others_are_newer;
        let copy = &mut copies[index];
        if alive || source == Source::Shared && brings {
            if !only_shows {
                copy.note_changed();
            }
            return Some(copy.fd);
        }
        if shared && only_shows && !own.has_agent() && !own.copied && copy.shows_still(source) {
            return Some(copy.fd);
        }
        // Nothing shows it any more: the file has changed since, or the inode is
        // another file's.
        mapped.give_back(index);
    }
    if !shared {
        return None;
    }
    // One that goes without the others is told what is in it.
    let is_told = source == Source::Shared && group_replay::is_without_others();
    if source == Source::Shared && process().copied && !is_told && !is_made(identity) {
        report::stand(report_kind::MISSING, 0, "memory that was shared and unmapped is mapped again");
    }
    if mapped.copy_count == COPIES {
        forget_dead_copies();
    }
    let mapped = &mut space().mapped;
    if mapped.copy_count == COPIES {
        report::stand(report_kind::MISSING, 0, "more shared files are mapped at once than replay can hold");
    }
    let fd = open_object(identity, source != Source::Shared || is_told);
    if kernel::failed(fd) {
        report::stand(report_kind::MISSING, fd as i32, "a file for shared memory could not be made");
    }
    if let Source::File(file) = source {
        let kept = kept_files::open(file);
        file_extents::copy_data(kept as u64, fd as u64);
        kernel::call(nr::__NR_close, [kept as u64, 0, 0, 0, 0, 0]);
    }
    mapped.copies[mapped.copy_count] =
        Copied { identity, fd: fd as i32, shown: [0; 2], source, is_told_changed: false };
    if !only_shows {
        mapped.copies[mapped.copy_count].note_changed();
    }
    mapped.copy_count += 1;
    shared_writes::disturb_all();
    if source == Source::Shared {
        notices::shared_file_opened(identity);
    }
    Some(fd as i32)
}

/// A copy's mode when it may have another content than its source, for all that inherit it.
const CHANGED: u32 = 0o700;

impl Copied {
    /// The content may become another one.
    fn note_changed(&mut self) {
        if core::mem::replace(&mut self.is_told_changed, true) {
            return;
        }
        kernel::call(nr::__NR_fchmod, [self.fd as u64, u64::from(CHANGED), 0, 0, 0, 0]);
    }

    /// True if the content is what this source has.
    fn shows_still(&self, source: Source) -> bool {
        matches!(source, Source::File(_))
            && source == self.source
            && status_of(self.fd).is_some_and(|status| status[STATUS_MODE] as u32 & 0o777 != CHANGED)
    }
}

/// Replay: how long a kept file is.
pub fn bytes_of_kept(file: u32) -> u64 {
    let kept = kept_files::open(file);
    let bytes = kept_files::size_of(kept);
    kernel::call(nr::__NR_close, [kept as u64, 0, 0, 0, 0, 0]);
    bytes
}

/// Replay: gives copies back that no mapping shows any more.
fn forget_dead_copies() {
    let mut index = 0;
    while index < space().mapped.copy_count {
        if is_mapped(space().mapped.copies[index].identity) {
            index += 1;
        } else {
            space().mapped.give_back(index);
        }
    }
}

impl MappedFiles {
    fn give_back(&mut self, index: usize) {
        kernel::call(nr::__NR_close, [self.copies[index].fd as u64, 0, 0, 0, 0, 0]);
        self.copy_count -= 1;
        self.copies[index] = self.copies[self.copy_count];
    }
}

/// Replay, under the debugger: an object for memory that was shared with nobody's file, so
/// that copies of the process can have one of their own. `None`: there are too many.
pub fn object_of_memory(identity: [u64; 2], bytes: u64) -> Option<i32> {
    if space().mapped.copy_count >= COPIES / 2 {
        return None;
    }
    let fd = common_copy(Source::Logged, identity, true, false)?;
    grow(fd, bytes);
    Some(fd)
}

/// True if something stands for shared memory.
pub fn has_objects() -> bool {
    space().mapped.copy_count != 0
}

/// What a copy of the process has to map anew: mappings, and which copy each shows.
pub struct SharedViews {
    views: [(Mapping, usize); VIEWS],
    count: usize,
}

static SHARED_VIEWS: Owned<SharedViews> =
    Owned::new(SharedViews { views: [(Mapping::NONE, 0); VIEWS], count: 0 });

/// A file that stands for shared memory.
pub struct Object {
    pub identity: [u64; 2],
    pub fd: i32,
    pub inode: u64,
    pub bytes: u64,
    allocated_bytes: u64,
}

/// Calls `each` with what stands for memory that the process shares, or has shared.
pub fn for_each_object(each: &mut dyn FnMut(&Object)) {
    let count = space().mapped.copy_count;
    for copy in &mut space().mapped.copies[..count] {
        let status = status_of(copy.fd).unwrap_or_default();
        copy.shown = [maps::device(status[STATUS_DEVICE]), status[STATUS_INODE]];
        each(&Object {
            identity: copy.identity,
            fd: copy.fd,
            inode: copy.shown[1],
            bytes: status[STATUS_BYTES],
            allocated_bytes: status[STATUS_BLOCKS] * 512,
        });
    }
}

/// How much memory all of them take, in bytes.
pub fn object_bytes() -> u64 {
    let mut bytes = 0;
    for_each_object(&mut |object| bytes += object.allocated_bytes);
    bytes
}

/// The descriptor of what stands for this file.
pub fn object_of(identity: [u64; 2]) -> Option<i32> {
    let copies = &space().mapped.copies[..space().mapped.copy_count];
    copies.iter().find(|copy| copy.identity == identity).map(|copy| copy.fd)
}

/// Calls `each` with all mappings of what stands for shared memory; false if they are not known.
pub fn for_each_view(each: &mut dyn FnMut(&Mapping)) -> bool {
    for_each_object(&mut |_| {});
    !has_objects()
        || maps::for_each(&mut |map| {
            if !map.private && shown_by(map).is_some() {
                each(map);
            }
        })
}

/// Which object a mapping shows, as of the last look at them.
fn shown_by(map: &Mapping) -> Option<usize> {
    let copies = &space().mapped.copies[..space().mapped.copy_count];
    copies.iter().position(|copy| map.inode != 0 && copy.shown == [map.device, map.inode])
}

/// Mappings of objects that shared memory stands for, as they are now. `None`: something
/// else is shared, or there is too much of it, and a copy would see what becomes of it.
pub fn shared_views() -> Option<&'static SharedViews> {
    let bytes = object_bytes();
    // SAFETY: only the thread that holds the token comes here.
    let shared = unsafe { &mut *SHARED_VIEWS.get() };
    shared.count = 0;
    let is_of_group = process().in_group && group_replay::are_wanted();
    let most = if is_of_group { GROUP_BYTES_MAX } else { VIEWS_BYTES_MAX };
    let mut fits = bytes <= most;
    let complete = maps::for_each(&mut |map| match shown_by(map) {
        Some(index) if !map.private && shared.count < VIEWS => {
            shared.views[shared.count] = (*map, index);
            shared.count += 1;
        }
        Some(_) => fits = false,
        None => fits &= map.private || !map.writable,
    });
    (complete && fits).then_some(shared)
}

impl SharedViews {
    /// In a copy of the process: the objects become its own.
    pub fn take_over(&self) {
        for (index, copy) in space().mapped.copies[..space().mapped.copy_count].iter().enumerate() {
            const MFD_CLOEXEC: u64 = 1;
            let name = c"retrovane".as_ptr() as u64;
            let own = kernel::call(nr::__NR_memfd_create, [name, MFD_CLOEXEC, 0, 0, 0, 0]);
            if kernel::failed(own) {
                report::stand(report_kind::MISSING, own as i32, "memory for a copy could not be made");
            }
            file_extents::copy_data(copy.fd as u64, own as u64);
            let cloexec = u64::from(nr::O_CLOEXEC);
            kernel::call(nr::__NR_dup3, [own as u64, copy.fd as u64, cloexec, 0, 0, 0]);
            kernel::call(nr::__NR_close, [own as u64, 0, 0, 0, 0, 0]);
            for (map, _) in self.views[..self.count].iter().filter(|view| view.1 == index) {
                let flags = nr::MAP_SHARED | nr::MAP_FIXED;
                let protection = maps::protection(map);
                let bytes = map.end - map.start;
                let result = kernel::mmap(map.start, bytes, protection, flags, copy.fd, map.offset);
                if kernel::failed(result) {
                    report::stand(report_kind::MISSING, result as i32, "a copy's memory could not be mapped");
                }
            }
        }
    }
}

/// Replay: sees to it that a copy is at least this long.
pub fn grow(fd: i32, bytes: u64) {
    const SEEK_END: u64 = 2;
    let now = kernel::call(nr::__NR_lseek, [fd as u64, 0, SEEK_END, 0, 0, 0]);
    if now >= 0 && (now as u64) < bytes {
        shared_writes::disturb_all();
        kernel::call(nr::__NR_ftruncate, [fd as u64, bytes, 0, 0, 0, 0]);
    }
}

/// Replay: the same of the copy that the mapping shows which ends there, if there is one.
pub fn grow_to(end: u64) {
    let Some(place) = all().iter().find(|place| place.end == end) else { return };
    if let Some(fd) = copy_of(place.identity) {
        grow(fd, place.offset + (place.end - place.start));
    }
}

/// Replay: where the session's file is that stands for a file's memory. Copies of a process,
/// and those that they make, have files of their own.
fn object_path(identity: [u64; 2]) -> [u8; 256 + 60] {
    let mut name = [0u8; 49];
    name[0] = b'/';
    let mut at = 1;
    for number in [process().family, identity[0], identity[1]] {
        for shift in (0..16).rev() {
            name[at] = b"0123456789abcdef"[(number >> (4 * shift) & 15) as usize];
            at += 1;
        }
    }
    path_in_objects(&name)
}

/// Replay: the path of a name, which begins with a slash, in the folder of these files.
pub fn path_in_objects(name: &[u8]) -> [u8; 256 + 60] {
    let session = session();
    let mut path = [0u8; 256 + 60];
    let dir = (session.objects_dir_bytes as usize).min(session.objects_dir.len());
    path[..dir].copy_from_slice(&session.objects_dir[..dir]);
    path[dir..][..name.len()].copy_from_slice(name);
    path
}

/// Replay: true if the file is there.
fn is_made(identity: [u64; 2]) -> bool {
    let path = object_path(identity);
    !kernel::failed(kernel::call(nr::__NR_access, [path.as_ptr() as u64, 0, 0, 0, 0, 0]))
}

/// Replay: opens it; an empty one if `anew`.
fn open_object(identity: [u64; 2], anew: bool) -> i64 {
    if live::is_on() {
        return open_borrowed(if anew { borrowed::NEW_OBJECT } else { borrowed::OBJECT }, identity);
    }
    let path = object_path(identity);
    if anew {
        kernel::call(nr::__NR_unlink, [path.as_ptr() as u64, 0, 0, 0, 0, 0]);
    }
    let flags = u64::from(nr::O_RDWR | nr::O_CREAT | nr::O_CLOEXEC);
    kernel::call(nr::__NR_open, [path.as_ptr() as u64, flags, 0o600, 0, 0, 0])
}

/// What fstat(2) says of a descriptor.
pub fn status_of(fd: i32) -> Option<[u64; STATUS_WORDS]> {
    let mut status = [0u64; STATUS_WORDS];
    let result = kernel::call(nr::__NR_fstat, [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]);
    (!kernel::failed(result)).then_some(status)
}

/// True if the file is mapped.
pub fn is_mapped(identity: [u64; 2]) -> bool {
    all().iter().any(|file| file.identity == identity)
}

/// True if a file is mapped at the address.
pub fn is_file(address: u64) -> bool {
    all().iter().any(|file| (file.start..file.end).contains(&address))
}

/// Hands over the mappings through which the file is read and not written: first and last
/// address, place in the file.
pub fn for_each_showing(identity: [u64; 2], each: &mut dyn FnMut(u64, u64, u64)) {
    for file in all().iter().filter(|file| file.only_shows && file.identity == identity) {
        each(file.start, file.end, file.offset);
    }
}

/// Replay: hands over where the file is mapped: first and last address, place in the file.
pub fn for_each_mapping(identity: [u64; 2], each: &mut dyn FnMut(u64, u64, u64)) {
    for file in all().iter().filter(|file| file.identity == identity) {
        each(file.start, file.end, file.offset);
    }
}

/// Replay: whether there are mappings of the file that its size changes, and that no copy shows.
pub fn is_mapped_privately(identity: [u64; 2]) -> bool {
    all().iter().any(|file| file.is_private && file.identity == identity)
}

/// Replay: the copy that mappings of the file show, if they share one. The caller changes it.
pub fn copy_of(identity: [u64; 2]) -> Option<i32> {
    let mapped = &mut space().mapped;
    let copies = &mut mapped.copies[..mapped.copy_count];
    let copy = copies.iter_mut().find(|copy| copy.identity == identity)?;
    copy.note_changed();
    Some(copy.fd)
}

/// Replay: writes to what stands for a file, where a shared mapping shows it that the program may not store
/// to. False if no such mapping has all of this memory, or the file stops before.
pub fn write_behind(address: u64, source: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes);
    let has_all = |place: &&Place| place.only_shows && place.start <= address && end <= place.end;
    let Some(place) = all().iter().find(has_all) else { return false };
    let Some(fd) = copy_of(place.identity) else { return false };
    let at = place.offset + (address - place.start);
    if status_of(fd).is_none_or(|status| at + bytes > status[STATUS_BYTES]) {
        return false;
    }
    let written = kernel::call(nr::__NR_pwrite64, [fd as u64, source, bytes, at, 0, 0]);
    let page = address & !4095;
    notices::memory_lost(page, end.next_multiple_of(4096) - page);
    written == bytes as i64
}

/// Memory went away.
pub fn forget(start: u64, bytes: u64) {
    shared_writes::disturb(start, bytes);
    space().mapped.files.remove(start, start.saturating_add(bytes));
    outsiders::mappings_changed();
}

/// Memory moved, grew or shrank; or it is there twice, if it `stays` or had no length.
pub fn moved(old: [u64; 2], new: [u64; 2], stays: bool) {
    let fits = space().mapped.files.move_to(old, new, stays);
    tell_unless(fits);
    outsiders::mappings_changed();
}

/// A new image has mappings of its own.
pub fn reset() {
    shared_writes::disturb(0, u64::MAX);
    let mapped = &mut space().mapped;
    mapped.files.clear();
    for copy in &mapped.copies[..mapped.copy_count] {
        kernel::call(nr::__NR_close, [copy.fd as u64, 0, 0, 0, 0, 0]);
    }
    mapped.copy_count = 0;
    mapped.has_private_views = false;
}

/// The program wrote to a mapped file through a descriptor: logs what the
/// mappings show now, as blobs of the event at hand.
#[cold]
pub fn log_written(fd: u64, position: Option<u64>, bytes: u64) {
    let Some(status) = status_of(fd as i32) else { return };
    let from = position.unwrap_or_else(|| {
        const SEEK_CUR: u64 = 1;
        (kernel::call(nr::__NR_lseek, [fd, 0, SEEK_CUR, 0, 0, 0]) as u64).wrapping_sub(bytes)
    });
    // Behind the page that the file ends in nothing is shown.
    let end = status[STATUS_BYTES].next_multiple_of(4096);
    log_shown(&status, from, bytes.min(end.saturating_sub(from)));
}

/// Tells others that these bytes of the file of this status were written, and logs its size and
/// what mappings show of them.
pub fn log_shown(status: &[u64; STATUS_WORDS], from: u64, bytes: u64) {
    let identity = [status[STATUS_DEVICE], status[STATUS_INODE]];
    foreign_writes::tell(identity, status[STATUS_BYTES], from, bytes);
    log_part(identity, status[STATUS_BYTES], from, bytes);
}

/// Logs a file's size, and what mappings show of these bytes.
pub fn log_part(identity: [u64; 2], size: u64, from: u64, bytes: u64) {
    if !is_mapped(identity) {
        return;
    }
    let size = [identity[0], identity[1], size];
    process().log.blob(0, 24, Tag::FileSize, size.as_ptr() as u64);
    let to = from.saturating_add(bytes);
    // Private ones show what replay writes through shared ones, and have pages of their own where it has to write to them.
    for is_private in [false, true] {
        let is_it = |file: &&Place| file.identity == identity && file.is_private == is_private;
        for file in all().iter().filter(is_it) {
            let file_end = file.offset + (file.end - file.start);
            let (first, last) = (from.max(file.offset), to.min(file_end));
            if first < last {
                let address = file.start + (first - file.offset);
                process().log.blob(address, last - first, Tag::Memory, address);
            }
        }
    }
}

/// Logs all that mappings show of files of which `wanted` is true.
pub fn log_all(wanted: impl Fn([u64; 2]) -> bool) {
    for file in all().iter().filter(|file| wanted(file.identity)) {
        // Behind the file's end there is nothing.
        memory::each_readable(file.start, file.end, &mut |from, to| {
            process().log.blob(from, to - from, Tag::Memory, from);
        });
    }
}
