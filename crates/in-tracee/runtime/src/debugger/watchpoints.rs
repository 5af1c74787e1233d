//! Watched places of the program's memory, under the debugger.
//!
//! At full speed the processor watches, with a perf event for each place and thread
//! (perf_event_open(2), PERF_TYPE_BREAKPOINT, with a signal from Linux 5.13 on).
//! While the program is stepped, values are compared after each instruction, and
//! for reads the events are counted. A write is noticed in both ways if it changes
//! the value. The processor cannot watch for reads alone: a read is an access that
//! leaves the value as it was.

use lane_protocol::{THREADS_MAX, WATCHES_MAX, Watch, watch_kind};
use linux_abi::general as nr;

use crate::ground::owned::{Held, Owned};
use crate::ground::{kernel, memory};
use crate::state::block::{process, thread};

/// Places that the processor watches at a time.
const PROCESSOR_MAX: usize = 4;

struct Watching {
    list: [Watch; WATCHES_MAX],
    count: usize,
    values: [u64; WATCHES_MAX],
    accessed: [bool; WATCHES_MAX],
    /// Of the counting events.
    counts: [u64; WATCHES_MAX],
    signals: bool,
    /// Accesses that the processor saw since the places were set.
    seen: u32,
    generation: u32,
    /// The generation that each thread is watched for.
    watched: [u32; THREADS_MAX],
    fds: [i32; PROCESSOR_MAX * THREADS_MAX],
    /// Which place each is for.
    places: [u8; PROCESSOR_MAX * THREADS_MAX],
    fd_count: usize,
}

static WATCHING: Owned<Watching> = Owned::new(Watching {
    list: [Watch { address: 0, bytes: 0, kind: 0 }; WATCHES_MAX],
    count: 0,
    values: [0; WATCHES_MAX],
    accessed: [false; WATCHES_MAX],
    counts: [0; WATCHES_MAX],
    signals: false,
    seen: 0,
    generation: 0,
    watched: [0; THREADS_MAX],
    fds: [0; PROCESSOR_MAX * THREADS_MAX],
    places: [0; PROCESSOR_MAX * THREADS_MAX],
    fd_count: 0,
});

fn watching() -> Held<Watching> {
    WATCHING.hold()
}

/// Watches these places from now on; false if the processor cannot, so that the
/// program has to be stepped.
pub fn set(list: &[Watch], stepping: bool) -> bool {
    let own = &mut *watching();
    let same = own.count == list.len() && own.list[..own.count] == *list && own.signals != stepping;
    if !same {
        close();
        own.list[..list.len()].copy_from_slice(list);
        own.count = list.len();
        own.signals = !stepping;
        own.generation += 1;
    }
    own.seen = 0;
    look_anew(own);
    watch_thread()
}

/// The running thread is watched like the others.
pub fn watch_thread() -> bool {
    let own = &mut *watching();
    let index = thread().index;
    if own.count == 0 || own.watched[index] == own.generation {
        return true;
    }
    own.watched[index] = own.generation;
    for place in 0..own.count {
        let watch = own.list[place];
        if !own.signals && watch.kind == watch_kind::WRITE {
            continue;
        }
        let fd = open(&watch, place, own.signals);
        if kernel::failed(fd) || own.fd_count == own.fds.len() {
            return false;
        }
        own.fds[own.fd_count] = fd as i32;
        own.places[own.fd_count] = place as u8;
        own.fd_count += 1;
        own.counts[place] = total(place);
    }
    true
}

/// `struct perf_event_attr`, its version 7.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    breakpoint_address: u64,
    breakpoint_bytes: u64,
    rest: [u64; 6],
    signal_data: u64,
}

const _: () = assert!(size_of::<Attributes>() == 128);

fn open(watch: &Watch, place: usize, signals: bool) -> i64 {
    const TYPE_BREAKPOINT: u32 = 5;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGNAL: u64 = 1 << 37;
    const CLOSE_ON_EXEC: u64 = 8;
    let write_only = watch.kind == watch_kind::WRITE;
    let attributes = Attributes {
        kind: TYPE_BREAKPOINT,
        bytes: size_of::<Attributes>() as u32,
        sample_period: 1,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | if signals { REMOVE_ON_EXEC | SIGNAL } else { 0 },
        breakpoint_kind: if write_only { 2 } else { 3 },
        breakpoint_address: watch.address,
        breakpoint_bytes: u64::from(watch.bytes),
        signal_data: place as u64,
        ..Attributes::default()
    };
    let none = -1i64 as u64;
    let fd = kernel::call(
        nr::__NR_perf_event_open,
        [&raw const attributes as u64, 0, none, none, CLOSE_ON_EXEC, 0],
    );
    if process().replays() || kernel::failed(fd) { fd } else { out_of_the_way(fd) }
}

/// A live program counts on the lowest free descriptor.
fn out_of_the_way(fd: i64) -> i64 {
    const LOWEST: u64 = 800;
    let arguments = [fd as u64, u64::from(nr::F_DUPFD_CLOEXEC), LOWEST, 0, 0, 0];
    let moved = kernel::call(nr::__NR_fcntl, arguments);
    if kernel::failed(moved) {
        return fd;
    }
    kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    moved
}

/// Accesses to a place that the counting events have seen.
fn total(place: usize) -> u64 {
    let own = &mut *watching();
    let mut sum = 0u64;
    for (&fd, &of) in own.fds[..own.fd_count].iter().zip(&own.places) {
        let mut count = 0u64;
        if of as usize == place {
            kernel::call(nr::__NR_read, [fd as u64, &raw mut count as u64, 8, 0, 0, 0]);
            sum += count;
        }
    }
    sum
}

/// True for the descriptor of an event: it is none of the program's.
pub fn is_descriptor(fd: u64) -> bool {
    let own = &mut *watching();
    own.fds[..own.fd_count].iter().any(|&one| one as u64 == fd)
}

fn close() {
    let own = &mut *watching();
    for &fd in &own.fds[..own.fd_count] {
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    own.fd_count = 0;
}

/// True if there are so many accesses that the kernel may leave some out: it limits how
/// often an event comes (perf_event_max_sample_rate, 400 for a tick of 4 ms). Then
/// the program is stepped by the translator, which misses none.
pub fn is_crowded() -> bool {
    const SEEN_MAX: u32 = 64;
    watching().seen >= SEEN_MAX && are_for_writes()
}

/// True if places are watched for writes only.
pub fn are_for_writes() -> bool {
    let own = &mut *watching();
    own.list[..own.count].iter().all(|watch| watch.kind == watch_kind::WRITE)
}

/// The watched places: start and bytes of each.
pub fn ranges(into: &mut [(u64, u64); WATCHES_MAX]) -> &[(u64, u64)] {
    let own = &mut *watching();
    for (range, watch) in into.iter_mut().zip(&own.list[..own.count]) {
        *range = (watch.address, u64::from(watch.bytes));
    }
    &into[..own.count]
}

/// In a copy of the process: what is watched is the original.
pub fn forget() {
    close();
    let own = &mut *watching();
    own.count = 0;
    own.generation += 1;
}

/// The value of a place. Where accesses count, the kernel reads it, which is none.
fn read(watch: &Watch) -> u64 {
    let mut value = 0u64;
    let bytes = u64::from(watch.bytes.min(8));
    if watch.kind == watch_kind::WRITE {
        memory::copy(&raw mut value as u64, watch.address, bytes);
        return value;
    }
    // The id in the namespace that the process is in now: of copies and children, too.
    let own_id = kernel::call(nr::__NR_getpid, [0; 6]) as u64;
    let (to, from) = ([&raw mut value as u64, bytes], [watch.address, bytes]);
    let arguments = [own_id, &raw const to as u64, 1, &raw const from as u64, 1, 0];
    kernel::call(nr::__NR_process_vm_readv, arguments);
    value
}

/// All places are looked at from now on as they are now.
fn look_anew(own: &mut Watching) {
    for index in 0..own.count {
        own.values[index] = read(&own.list[index]);
        own.accessed[index] = false;
    }
}

/// The processor saw an access.
pub fn note_access(place: u64) {
    watching().seen += 1;
    if let Some(accessed) = watching().accessed.get_mut(place as usize) {
        *accessed = true;
    }
}

fn has_changed(own: &Watching, place: usize) -> bool {
    let is_as_before = || read(&own.list[place]) == own.values[place];
    match own.list[place].kind {
        watch_kind::WRITE => !is_as_before(),
        watch_kind::READ => own.accessed[place] && is_as_before(),
        _ => own.accessed[place],
    }
}

/// Takes in what the counting events have seen since the last look.
fn count_accesses(own: &mut Watching) {
    if own.signals {
        return;
    }
    for place in (0..own.count).filter(|&place| own.list[place].kind != watch_kind::WRITE) {
        let count = total(place);
        own.accessed[place] |= core::mem::replace(&mut own.counts[place], count) != count;
    }
}

/// True if a watched place was accessed since the last look.
pub fn have_changed() -> bool {
    let own = &mut *watching();
    count_accesses(own);
    (0..own.count).any(|place| has_changed(own, place))
}

/// The first such place, which is looked at from now on as it is now.
pub fn take_changed() -> Option<u64> {
    let own = &mut *watching();
    count_accesses(own);
    let found = (0..own.count).find(|&place| has_changed(own, place));
    if found.is_some() || own.accessed[..own.count].contains(&true) {
        look_anew(own);
    }
    found.map(|place| place as u64)
}
