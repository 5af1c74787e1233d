//! Memory management: performed in both modes, at the same addresses.

use events::{Header, Tag};
use lane_protocol::CodeMap;
use linux_abi::{errno, general as nr};
use syscall_model::Arg;

use crate::address_space::mapped_files::{self, Place};
use crate::address_space::recorded_places::{map_at, map_kept};
use crate::address_space::shared_ranges::{forget_shared, note_shared};
use crate::address_space::{
    foreign_writes, outsider_signs, outsiders, packet_rings, page_tracker, partial_effects, private_views,
    region, shared_writes, unforked,
};
use crate::checkpoint::take::increments::tracking;
use crate::code::{clocks, non_executable, one_processor, own_vdso, sites};
use crate::debugger::displaced;
use crate::ground::memory::{self, in_region, pages};
use crate::ground::proc_files::Path;
use crate::ground::registers::Registers;
use crate::ground::{kernel, map_changes};
use crate::log::call_event::{begin_call, consume, inject_with, recorded_result};
use crate::log::file_extents;
use crate::log::kept_files::{self, Kept};
use crate::scheduler::shared_files;
use crate::state::block::{process, space};
use crate::state::call_state::Done;
use crate::state::{group_replay, outside_memory, report};
use crate::syscalls::calls;

const PROT_EXEC: u64 = nr::PROT_EXEC as u64;
const PROT_WRITE: u64 = nr::PROT_WRITE as u64;
const PAGE_MASK: u64 = 4095;

fn error(number: u32) -> i64 {
    -i64::from(number)
}

/// Replay: what was performed has to give what was recorded.
pub fn same(registers: &Registers, recorded: i64, now: i64) {
    if recorded != now {
        let word = process().log.peek().unwrap_or(Header::NONE);
        report::diverge(registers, word, registers.rax, &[recorded as u64, now as u64]);
    }
}

/// A file that is about to be mapped.
struct Mapped {
    kept: Kept,
    /// Device and inode.
    identity: [u64; 2],
    /// Its memory is shared in the session already.
    known: bool,
    /// Stores through the mapping can reach others.
    shares_stores: bool,
}

impl Mapped {
    const NOTHING: Mapped =
        Mapped { kept: Kept::Nothing, identity: [0, 0], known: false, shares_stores: false };

    fn of(fd: u64, protection: u64, shared: bool) -> Mapped {
        let Some(status) = kept_files::Status::of(fd as i32) else { return Mapped::NOTHING };
        let identity = status.identity();
        let foreign = outsiders::note_mapping(fd, &status, protection, shared);
        let shares_stores = shared && (foreign || is_writable(fd, protection));
        let known = shared && status.is_regular() && shared_files::enter(identity, shares_stores);
        let is_memory = || shared && protection & PROT_EXEC == 0 && status.is_memory(fd as i32);
        let kept = if known || foreign || is_memory() {
            // It may have changed since it was kept, through memory. Translators make it larger than all
            // memory there is.
            match !known && shared && status.has_no_data(fd as i32) {
                true => Kept::Empty(status.size()),
                false => Kept::Content(status.size()),
            }
        } else if let Some(file) = kept_files::kept_before(&status) {
            Kept::File(file)
        } else {
            kept_files::keep_file(fd as i32, &status, protection & PROT_EXEC != 0)
        };
        Mapped { kept, identity, known, shares_stores }
    }
}

/// mmap(2).
pub fn mmap(registers: &mut Registers, args: &[u64; 6]) -> Done {
    let [address, bytes, protection, flags, fd, offset] = *args;
    let anonymous = flags & u64::from(nr::MAP_ANONYMOUS) != 0;
    if process().replays() {
        return replay_mmap(registers, args, anonymous);
    }
    let number = u64::from(nr::__NR_mmap);
    let fixed = flags & u64::from(nr::MAP_FIXED | nr::MAP_FIXED_NOREPLACE) != 0;
    if fixed && in_region(address, bytes) {
        let result =
            if region::is_reserved(args) { region::reserve(args) } else { region::refuse_place(flags) };
        begin_call(number, args, 6, result, 0);
        process().log.end();
        return Done::Result(result);
    }
    let shared = matches!(flags & 15, 1 | 3);
    let Mapped { kept, identity, known, shares_stores } = match anonymous {
        true => Mapped { kept: Kept::Anonymous, shares_stores: shared, ..Mapped::NOTHING },
        false => Mapped::of(fd, protection, shared),
    };
    if matches!(kept, Kept::Kernels) && is_of_counters(fd) {
        // As for who may not lock that much memory; the counters can be read.
        return crate::log::call_event::reject(registers, number, args, 6, errno::EPERM);
    }
    if matches!(kept, Kept::Device) {
        return Done::Elsewhere(crate::process::detach::detach(
            registers,
            events::StopReason::Unsupported as u16,
            "it maps the memory of a device, which cannot be recorded",
        ));
    }
    if fixed {
        // It may fail behind having unmapped what was there.
        map_changes::note(address, bytes);
    }
    // What others write to the file from here on is seen, though nothing shows it yet.
    if !anonymous {
        foreign_writes::note_mapped(identity);
    }
    let others = foreign_writes::known();
    let real = region::without_wish(args);
    let make = || match kernel::call(nr::__NR_mmap, real) {
        found if !kernel::failed(found) && in_region(found as u64, bytes) => region::elsewhere(&real, found),
        result => result,
    };
    // Who shares a file first logs that before those who come to share it, and before they store there.
    let is_first = shares_stores && !anonymous && !known;
    let result = if is_first { make() } else { calls::make_aside(make) };
    if kernel::failed(result) {
        begin_call(number, args, 6, result, 0);
        if fixed && flags & u64::from(nr::MAP_FIXED_NOREPLACE) == 0 && address & PAGE_MASK == 0 {
            partial_effects::log_holes(address, bytes, &mut unmapped);
        }
        process().log.end();
        return Done::Result(result);
    }
    let start = result as u64;
    if fixed {
        packet_rings::unmapped(start, pages(bytes));
    }
    if kept == Kept::Kernels && !packet_rings::map(args, start, identity[1]) {
        // Behind the call: most such descriptors cannot be mapped, and nothing is lost then.
        sites::unmapped(start, pages(bytes));
        return Done::Elsewhere(crate::process::detach::detach_behind(
            registers,
            events::StopReason::Unsupported as u16,
            "it maps memory that the kernel writes at any time, which cannot be recorded",
            result,
        ));
    }
    page_tracker::forget(start, pages(bytes));
    if flags & u64::from(nr::MAP_GROWSDOWN) != 0 {
        page_tracker::note_growing();
    }
    if fixed {
        sites::unmapped(start, pages(bytes));
        mapped_files::forget(start, pages(bytes));
    }
    if shares_stores {
        note_shared(start, pages(bytes));
    }
    let end = start + pages(bytes);
    let is_file = matches!(kept, Kept::File(_) | Kept::Content(_) | Kept::Empty(_));
    let is_first_of_file = is_file && !mapped_files::is_mapped(identity);
    if is_file {
        let only_shows = shared && protection & PROT_WRITE == 0;
        mapped_files::note(Place { start, end, identity, offset, only_shows, is_private: !shared });
        foreign_writes::look_again(others);
    }
    begin_call(number, args, 6, result, 0);
    let log = &mut process().log;
    let mut refer = |file: u32| {
        let reference = [u64::from(file), offset, identity[0], identity[1]];
        log.blob(start, 32, Tag::FileRef, reference.as_ptr() as u64);
    };
    match kept {
        Kept::File(file) => refer(file),
        Kept::Content(size) => {
            refer(if known { SHARED_MEMORY } else { LOGGED_CONTENT });
            let there = log_length(bytes, offset, size);
            if protection & u64::from(nr::PROT_READ) != 0 {
                log_content(fd, start, offset, there);
            }
        }
        Kept::Empty(size) => {
            refer(LOGGED_CONTENT);
            log_length(bytes, offset, size);
        }
        Kept::Anonymous | Kept::Nothing | Kept::Device | Kept::Kernels => {}
    }
    if is_first_of_file && protection & PROT_EXEC == 0 {
        outsider_signs::watch(fd, start, identity);
    }
    if is_file {
        outsiders::sum_mapped(start, end, identity);
        // Before others open it: the kernel joins what it tells of that with what was opened to map it.
        outsider_signs::take_notices();
    }
    foreign_writes::log_new(number, args);
    process().log.end();
    if protection & PROT_EXEC != 0 {
        match kept {
            Kept::File(file) => {
                sites::code_mapped(CodeMap {
                    start,
                    end,
                    file_offset: offset,
                    file,
                    protection: protection as u32,
                });
            }
            _ => {
                clocks::trap_time();
                one_processor::generated_code_mapped();
            }
        }
    }
    Done::Result(result)
}

/// True for a descriptor of perf_event_open(2), behind which is a ring to which the kernel writes.
fn is_of_counters(fd: u64) -> bool {
    let (mut path, mut room) = (Path::new(), [0u8; 64]);
    let target = path.text(b"/proc/thread-self/fd/").number(fd & 0xffff_ffff).target(&mut room);
    target == b"anon_inode:[perf_event]"
}

/// In place of a kept file's id: memory that other processes have mapped as well;
/// content that is logged.
const SHARED_MEMORY: u32 = u32::MAX;
const LOGGED_CONTENT: u32 = u32::MAX - 1;
/// A device of stat(2) that no file has.
const ANONYMOUS: u64 = u64::from_be_bytes(*b"\0Memory\0");

/// True if stores through the mapping can reach the file.
fn is_writable(fd: u64, protection: u64) -> bool {
    const F_GETFL: u64 = 3;
    if protection & PROT_WRITE != 0 {
        return true;
    }
    let flags = kernel::call(nr::__NR_fcntl, [fd, F_GETFL, 0, 0, 0, 0]);
    flags >= 0 && flags & i64::from(nr::O_ACCMODE) == i64::from(nr::O_RDWR)
}

/// How much of the file there is, for the one that stands for it in replay.
fn log_length(bytes: u64, offset: u64, size: u64) -> u64 {
    let there = size.saturating_sub(offset).min(bytes);
    process().log.blob(there, 0, Tag::Memory, 0);
    there
}

/// The content of a mapping that no kept file has. Holes are zero in replay, too.
fn log_content(fd: u64, start: u64, offset: u64, there: u64) {
    kept_files::each_part(fd as i32, offset, offset + there, &mut |from, to| {
        let mut at = from;
        while at < to {
            let part = (to - at).min(PAGE_MASK + 1 - at % (PAGE_MASK + 1));
            process().log.memory(start + (at - offset), part);
            at += part;
        }
    });
}

fn replay_mmap(registers: &Registers, args: &[u64; 6], anonymous: bool) -> Done {
    let [_, bytes, protection, flags, ..] = *args;
    let recorded = recorded_result(registers);
    if kernel::failed(recorded) {
        return Done::Result(replay_parts(registers, &mut |start, bytes, _| {
            displaced::make_room(start, bytes);
            partial_effects::unmap(start, bytes);
            unmapped(start, bytes);
        }));
    }
    let start = recorded as u64;
    if in_region(start, bytes) && region::is_reserved(args) {
        same(registers, recorded, region::reserve(args));
        return Done::Result(consume(registers));
    }
    if in_region(start, bytes) || start & PAGE_MASK != 0 {
        report::fail("a recorded mapping lies where the runtime is");
    }
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    // A file's mapping is private in replay: the file itself is never touched.
    let mut reference = if anonymous { None } else { file_reference(word) };
    let growing = flags & u64::from(nr::MAP_GROWSDOWN | nr::MAP_NORESERVE | nr::MAP_STACK);
    let is_shared = matches!(flags & 15, 1 | 3);
    let identity = [ANONYMOUS, process().log.events];
    if anonymous
        && is_shared
        && (process().has_agent() || group_replay::are_wanted())
        && mapped_files::object_of_memory(identity, pages(bytes)).is_some()
    {
        reference = Some((LOGGED_CONTENT, 0, identity));
        // It counts as in use from here on.
        let end = start + pages(bytes);
        mapped_files::note(Place { start, end, identity, offset: 0, only_shows: false, is_private: false });
    }
    let kind = if is_shared && reference.is_none() { nr::MAP_SHARED } else { nr::MAP_PRIVATE };
    let real_flags = u64::from(kind | nr::MAP_FIXED) | growing;
    let source = reference.map(|(file, ..)| match file {
        SHARED_MEMORY => outside_memory::Source::Shared,
        LOGGED_CONTENT => outside_memory::Source::Logged,
        file => outside_memory::Source::File(file),
    });
    let is_logged = matches!(source, Some(outside_memory::Source::Shared | outside_memory::Source::Logged));
    let file = reference.filter(|_| !is_logged);
    let writable_first = is_logged;
    let real_protection = if writable_first { 3 } else { protection };
    // A large file that is only read is mapped as it was kept, not copied.
    const COPIED_BYTES_MAX: u64 = 64 << 20;
    let writable = protection & PROT_WRITE != 0;
    let is_small = || {
        let kept_bytes = |(file, ..): (u32, u64, [u64; 2])| mapped_files::bytes_of_kept(file);
        bytes <= COPIED_BYTES_MAX || reference.map_or(0, kept_bytes) <= COPIED_BYTES_MAX
    };
    let shared = !anonymous && is_shared && (writable || is_logged || is_small());
    let is_first = reference.is_some_and(|(.., identity)| mapped_files::object_of(identity).is_none());
    let common = source
        .zip(reference)
        .and_then(|(source, (.., identity))| mapped_files::common_copy(source, identity, shared, !writable));
    let content = file.map(|(file, offset, _)| (file, offset));
    match (common, reference) {
        (Some(fd), Some((_, offset, _))) => {
            let kind = if is_shared { nr::MAP_SHARED } else { nr::MAP_PRIVATE };
            let flags = u64::from(nr::MAP_FIXED | kind | nr::MAP_NORESERVE);
            if is_logged {
                mapped_files::grow(fd, offset + logged_bytes(word));
            }
            map_at(start, bytes, real_protection, flags, fd, offset);
            if !is_shared {
                private_views::note();
            }
        }
        _ => map_kept(start, bytes, real_protection, real_flags, content),
    }
    sites::unmapped(start, pages(bytes));
    mapped_files::forget(start, pages(bytes));
    if let Some((_, offset, identity)) = reference {
        let only_shows = is_shared && !writable;
        let end = start + pages(bytes);
        mapped_files::note(Place { start, end, identity, offset, only_shows, is_private: !is_shared });
    }
    if let (Some(fd), Some((_, offset, identity))) = (common, reference)
        && is_shared
    {
        if is_first {
            private_views::follow(identity, fd);
        }
        if is_logged {
            clear_holes(fd, offset, logged_bytes(word));
        }
    }
    let result = inject_with(word, registers, &mut |_, _, _, _| {});
    if writable_first && protection != 3 {
        kernel::mprotect(start, pages(bytes), protection as u32);
    }
    if protection & PROT_EXEC != 0 {
        if let Some((file, file_offset)) = content {
            let end = start + pages(bytes);
            sites::code_mapped(CodeMap { start, end, file_offset, file, protection: protection as u32 });
            crate::debugger::agent_state::state().new_code = true;
        } else {
            clocks::trap_time();
            one_processor::generated_code_mapped();
        }
    }
    Done::Result(result)
}

/// Replay: a part that the log has no content for was a hole in the file when it was mapped, whatever was stored there before.
fn clear_holes(object: i32, offset: u64, there: u64) {
    if kept_files::has_holes_left_out(there) {
        file_extents::punch(object, offset, there);
    }
}

/// How many bytes of content the event at hand logs: the address of an empty blob
/// behind the reference, by convention.
fn logged_bytes(word: Header) -> u64 {
    let log = &process().log;
    let reference = 16 + 8 * 6 + 48;
    if word.bytes() < reference + 16 {
        return 0;
    }
    log.body((reference - 8) / 8)
}

/// The file reference among the blobs of the event at hand, if there is one: it
/// comes first.
fn file_reference(word: Header) -> Option<(u32, u64, [u64; 2])> {
    let log = &process().log;
    let first = 16 + 8 * 6;
    if word.bytes() < first + 48 {
        return None;
    }
    let index = (first - 8) / 8;
    let is_reference = log.body(index + 1) == 32 | (Tag::FileRef as u64) << 32;
    let identity = [log.body(index + 4), log.body(index + 5)];
    is_reference.then(|| (log.body(index + 2) as u32, log.body(index + 3), identity))
}

/// Replay: consumes the event of a call that failed. `follow` does a part once more: its beginning,
/// its bytes, where it was moved to.
pub fn replay_parts(registers: &Registers, follow: &mut dyn FnMut(u64, u64, u64)) -> i64 {
    let Some(word) = process().log.peek() else { report::log_ended() };
    inject_with(word, registers, &mut |tag, start, bytes, source| {
        if tag == Tag::Part
            && bytes == 16
            && let Some([length, moved_to]) = memory::read::<[u64; 2]>(source)
            && !in_region(start, length)
        {
            follow(start, length, moved_to);
        }
    })
}

/// munmap(2).
pub fn munmap(registers: &Registers, args: &[u64; 6]) -> Done {
    let [address, bytes, ..] = *args;
    let number = u64::from(nr::__NR_munmap);
    if process().replays() && recorded_result(registers) != 0 {
        // Refused then (bad arguments, sealed memory): what is around the region and trampolines is several
        // calls, of which the first may have been made.
        return Done::Result(replay_parts(registers, &mut |start, bytes, _| {
            displaced::make_room(start, bytes);
            partial_effects::unmap(start, bytes);
            unmapped(start, bytes);
        }));
    }
    displaced::make_room(address, bytes);
    let result = calls::make_aside(|| region::unmap(address, bytes));
    if result == 0 {
        unmapped(address, bytes);
    }
    if process().replays() {
        same(registers, recorded_result(registers), result);
        return Done::Result(consume(registers));
    }
    begin_call(number, args, 2, result, 0);
    if result != 0 && address & PAGE_MASK == 0 {
        partial_effects::log_holes(address, bytes, &mut unmapped);
    }
    process().log.end();
    Done::Result(result)
}

/// What was mapped there is no more.
pub fn unmapped(address: u64, bytes: u64) {
    page_tracker::forget(address, pages(bytes));
    mapped_files::forget(address, pages(bytes));
    sites::unmapped(address, pages(bytes));
    forget_shared(address, pages(bytes));
    packet_rings::unmapped(address, pages(bytes));
}

/// mprotect(2).
pub fn mprotect(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    /// mprotect(2): PROT_GROWSDOWN, PROT_GROWSUP.
    const TO_THE_END: u64 = 0x0300_0000;
    let [address, bytes, protection, ..] = *args;
    let nr = u64::from(nr::__NR_mprotect) as u32;
    let protect =
        |start: u64, bytes: u64, protection: u64| kernel::call(nr, [start, bytes, protection, 0, 0, 0]);
    if process().replays() && recorded_result(registers) != 0 {
        return Done::Result(replay_parts(registers, &mut |start, bytes, _| {
            non_executable::give_back_if_met(start, bytes);
            protect(start, bytes, protection & !TO_THE_END);
            protected(start, bytes, protection);
        }));
    }
    non_executable::give_back_if_met(address, bytes);
    let result = region::around(address, bytes, error(errno::ENOMEM), &mut |start, bytes| {
        protect(start, bytes, protection)
    });
    page_tracker::mappings_changed();
    map_changes::note(address, bytes);
    if result == 0 {
        protected(address, bytes, protection);
    }
    if process().replays() {
        same(registers, recorded_result(registers), result);
        return Done::Result(consume(registers));
    }
    begin_call(number, args, model.len(), result, 0);
    if result != 0 && address & PAGE_MASK == 0 {
        let mut make = |start, bytes| protect(start, bytes, protection & !TO_THE_END);
        partial_effects::each_done([address, bytes], true, &mut make, &mut |start, bytes| {
            protected(start, bytes, protection);
            partial_effects::log(start, bytes, 0);
        });
    }
    process().log.end();
    Done::Result(result)
}

/// Memory is protected so from now on.
fn protected(address: u64, bytes: u64, protection: u64) {
    if protection & PROT_WRITE != 0 {
        tracking::begin_writing(address, pages(bytes));
        own_vdso::may_change(address, address.saturating_add(pages(bytes)));
    }
    // Code that the program generates: it may write it first, and make it executable then.
    let is_generated = protection & PROT_WRITE != 0 || sites::map_of(address).is_none();
    if protection & PROT_EXEC != 0 && is_generated {
        clocks::trap_time();
        one_processor::generated_code_protected(address, pages(bytes));
    }
}

/// pkey_mprotect(2). No key but the first is ever given out: as on a machine without keys.
pub fn pkey_mprotect(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    match args[3] as i32 {
        -1 | 0 => mprotect(registers, number, args, model),
        _ => crate::log::call_event::reject(registers, number, args, model.len(), errno::EINVAL),
    }
}

/// brk(2): the break is the runtime's own, so that it can be where it was when
/// recording, whatever the kernel would choose.
pub fn brk(registers: &Registers, args: &[u64; 6]) -> Done {
    let space = &mut *space();
    let wanted = args[0];
    if wanted >= space.break_start && wanted != space.break_now {
        let old_end = pages(space.break_now);
        let new_end = pages(wanted);
        displaced::make_room(old_end.min(new_end), old_end.abs_diff(new_end));
        let possible = if new_end > old_end {
            let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
            let recorded_refusal = process().replays() && recorded_result(registers) as u64 != wanted;
            !recorded_refusal && kernel::mmap(old_end, new_end - old_end, 3, flags, -1, 0) as u64 == old_end
        } else {
            new_end == old_end || kernel::munmap(new_end, old_end - new_end) == 0
        };
        if possible {
            page_tracker::forget(old_end.min(new_end), old_end.abs_diff(new_end));
            space.break_now = wanted;
        }
    }
    let result = space.break_now as i64;
    if process().replays() {
        same(registers, recorded_result(registers), result);
        return Done::Result(consume(registers));
    }
    begin_call(u64::from(nr::__NR_brk), args, 1, result, 0);
    process().log.end();
    Done::Result(result)
}

// linux/mman.h, Linux 6.13
const MADV_GUARD_INSTALL: u32 = 102;
const MADV_GUARD_REMOVE: u32 = 103;

/// madvise(2): advice that changes content, or what may be touched, is followed in both modes.
pub fn madvise(registers: &Registers, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let [address, bytes, advice, ..] = *args;
    let advice = advice as u32;
    if drops_content(advice) {
        tracking::lose_memory(address, bytes);
    }
    if process().replays() {
        let recorded = recorded_result(registers);
        // The debugger's copies have all memory.
        let follows = changes_content(advice) || changes_children(advice) && !process().has_agent();
        if kernel::failed(recorded) {
            return Done::Result(replay_parts(registers, &mut |start, bytes, _| {
                if follows {
                    advise_again(start, bytes, advice);
                }
            }));
        }
        if follows {
            advise_again(address, bytes, advice);
        }
        return Done::Result(consume(registers));
    }
    let result = match in_region(address, bytes) && !region::wraps(address, bytes) {
        // For what is around, which the parts are.
        true => error(errno::ENOMEM),
        false => advise(address, bytes, advice),
    };
    if result == 0 {
        unforked::note(address, bytes, advice);
    }
    begin_call(u64::from(nr::__NR_madvise), args, model.len(), result, 0);
    if result != 0 && address & PAGE_MASK == 0 && (changes_content(advice) || changes_children(advice)) {
        let mut make = |start, bytes| advise(start, bytes, advice);
        partial_effects::each_done([address, bytes], false, &mut make, &mut |start, bytes| {
            unforked::note(start, bytes, advice);
            partial_effects::log(start, bytes, 0);
        });
    }
    process().log.end();
    Done::Result(result)
}

/// When the kernel takes the pages of MADV_FREE is its own affair: they are taken at once.
fn advise(address: u64, bytes: u64, advice: u32) -> i64 {
    let give = |advice: u32| kernel::call(nr::__NR_madvise, [address, bytes, u64::from(advice), 0, 0, 0]);
    match give(advice) {
        0 if advice == nr::MADV_FREE => give(nr::MADV_DONTNEED),
        result => result,
    }
}

/// Replay: advice that was followed there.
fn advise_again(address: u64, bytes: u64, advice: u32) {
    shared_writes::disturb(address, bytes);
    let real = if advice == nr::MADV_FREE { nr::MADV_DONTNEED } else { advice };
    let result = kernel::call(nr::__NR_madvise, [address, bytes, u64::from(real), 0, 0, 0]);
    if result == 0 {
        unforked::note(address, bytes, advice);
    }
    // Removing from a file's mapping: private in replay.
    if advice == nr::MADV_REMOVE && result != 0 {
        // SAFETY: the recorded kernel zeroed this range, which has to be
        // mapped writable for that.
        unsafe { core::ptr::write_bytes(address as *mut u8, 0, bytes as usize) };
    }
}

/// True for advice on what a child of fork has.
fn changes_children(advice: u32) -> bool {
    matches!(advice, nr::MADV_DONTFORK | nr::MADV_DOFORK | nr::MADV_WIPEONFORK | nr::MADV_KEEPONFORK)
}

/// True for advice of madvise(2) after which pages hold something else, or fault.
fn changes_content(advice: u32) -> bool {
    matches!(
        advice,
        nr::MADV_DONTNEED
            | nr::MADV_DONTNEED_LOCKED
            | nr::MADV_FREE
            | nr::MADV_REMOVE
            | MADV_GUARD_INSTALL
            | MADV_GUARD_REMOVE
    )
}

/// True for advice after which pages may be gone, and for unknown advice.
fn drops_content(advice: u32) -> bool {
    /// The last that is known to keep content.
    const MADV_COLLAPSE: u32 = 25;
    changes_content(advice) || advice > MADV_COLLAPSE
}

// --- shared writable memory ---

pub fn is_shared(start: u64, bytes: u64) -> bool {
    let space = &mut *space();
    space.shared[..space.shared_count].iter().any(|range| range.start < start + bytes && start < range.end)
}
