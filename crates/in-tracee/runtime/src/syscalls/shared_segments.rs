//! System V shared memory: attached in both modes, its content logged.

use events::Tag;
use linux_abi::general as nr;

use crate::address_space::mapped_files::{self, Place};
use crate::address_space::recorded_places::{map_at, map_kept};
use crate::address_space::segments::identity_of;
use crate::address_space::shared_ranges::{forget_shared, note_shared};
use crate::address_space::{outsider_signs, outsiders, page_tracker};
use crate::ground::memory::{in_region, pages};
use crate::ground::registers::Registers;
use crate::ground::{kernel, map_changes};
use crate::log::call_event::{begin_call, consume, recorded_result};
use crate::scheduler::shared_files;
use crate::state::block::{process, space};
use crate::state::call_state::Done;
use crate::state::outside_memory::Source;
use crate::state::report;

fn place(start: u64, bytes: u64, identity: [u64; 2]) -> Place {
    Place { start, end: start + bytes, identity, offset: 0, only_shows: false, is_private: false }
}

/// shmat(2): the segment's content is logged as it is found; who attaches what
/// another process has attached joins its lane.
pub fn shmat(registers: &mut Registers, args: &[u64; 6]) -> Done {
    let number = u64::from(nr::__NR_shmat);
    const SHM_RDONLY: u64 = 0o10000;
    let identity = identity_of(args[0]);
    if process().replays() {
        let recorded = recorded_result(registers);
        if !kernel::failed(recorded) {
            let Some(word) = process().log.peek() else { report::log_ended() };
            // The length is the first blob's own: an empty one with it as address.
            let (bytes, known) = (process().log.body(4), process().log.body(5) >> 32 != 0);
            if in_region(recorded as u64, bytes) || word.bytes() < 48 {
                report::fail("a recorded segment lies where the runtime is");
            }
            note_shared(recorded as u64, bytes);
            let source = if known { Source::Shared } else { Source::Logged };
            let flags = u64::from(nr::MAP_SHARED | nr::MAP_FIXED);
            match mapped_files::common_copy(source, identity, true, false) {
                Some(fd) => {
                    mapped_files::grow(fd, bytes);
                    map_at(recorded as u64, bytes, 3, flags, fd, 0);
                }
                None => map_kept(recorded as u64, bytes, 3, flags, None),
            }
            mapped_files::note(place(recorded as u64, bytes, identity));
            let result = consume(registers);
            if args[2] & SHM_RDONLY != 0 {
                kernel::mprotect(recorded as u64, bytes, nr::PROT_READ);
            }
            return Done::Result(result);
        }
        return Done::Result(consume(registers));
    }
    let segment = shared_segment(args[0]);
    outsider_signs::note_segment(args[0]);
    let known = segment.is_some() && shared_files::enter(identity, true);
    let result = kernel::call(nr::__NR_shmat, *args);
    page_tracker::mappings_changed();
    map_changes::note_everything();
    begin_call(number, args, 3, result, 0);
    let log = &mut process().log;
    if let Some((bytes, _)) = segment
        && !kernel::failed(result)
    {
        log.blob(pages(bytes), 0, if known { Tag::Text } else { Tag::Memory }, 0);
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(4096);
            log.memory(result as u64 + done, part);
            done += part;
        }
        note_shared(result as u64, pages(bytes));
        mapped_files::note(place(result as u64, pages(bytes), identity));
        outsiders::sum_mapped(result as u64, result as u64 + pages(bytes), identity);
    }
    log.end();
    Done::Result(result)
}

/// Size in bytes and number of attachments of a System V segment.
fn shared_segment(id: u64) -> Option<(u64, u64)> {
    // struct shmid64_ds: 48 bytes of permissions, size, three times, two pids,
    // attachments.
    let mut state = [0u64; 32];
    const IPC_STAT: u64 = 2;
    let result = kernel::call(nr::__NR_shmctl, [id, IPC_STAT, state.as_mut_ptr() as u64, 0, 0, 0]);
    (result == 0).then_some((state[6], state[11]))
}

/// shmdt(2).
pub fn shmdt(registers: &Registers, args: &[u64; 6]) -> Done {
    let space = &mut *space();
    let range = space.shared[..space.shared_count].iter().find(|range| range.start == args[0]).copied();
    if process().replays() {
        if recorded_result(registers) == 0
            && let Some(range) = range
        {
            kernel::munmap(range.start, range.end - range.start);
            mapped_files::forget(range.start, range.end - range.start);
            forget_shared(range.start, range.end - range.start);
        }
        return Done::Result(consume(registers));
    }
    let result = kernel::call(nr::__NR_shmdt, *args);
    page_tracker::mappings_changed();
    map_changes::note_everything();
    if result == 0
        && let Some(range) = range
    {
        mapped_files::forget(range.start, range.end - range.start);
        forget_shared(range.start, range.end - range.start);
    }
    begin_call(u64::from(nr::__NR_shmdt), args, 1, result, 0);
    process().log.end();
    Done::Result(result)
}
