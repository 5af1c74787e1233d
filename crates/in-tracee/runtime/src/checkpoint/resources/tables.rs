//! The descriptors of then and of now. The shadow lists its own, and keeps those of
//! files open, so that the process can get them back.

mod taking;

use core::sync::atomic::Ordering;

use linux_abi::general as nr;

use crate::address_space::{descriptor_classes, page_tracker};
use crate::checkpoint::area::area;
use crate::checkpoint::kept_resources::{
    Connection, DESCRIPTORS_MAX, Descriptor, DescriptorTimer, INTERESTS_MAX, Interest, Lock, Notes, Object,
    TIMERS_MAX, Table, Terminal,
};
use crate::checkpoint::resources::{interests, lists, locks, objects, pushback, terminals, timers};
use crate::checkpoint::restore::placeholders;
use crate::checkpoint::restore::snapshot_view::Then;
use crate::debugger::watchpoints;
use crate::ground::kernel;
use crate::ground::proc_files::{each_line, number};
use crate::state::block::{lane, process};
use crate::state::own_descriptors::move_high;
use crate::state::proc_dir;

const TYPE: u64 = 0o170000;
const REGULAR: u64 = 0o100000;
const DIRECTORY: u64 = 0o040000;
const SOCKET: u64 = 0o140000;
const PIPE: u64 = 0o010000;
const CHARACTERS: u64 = 0o020000;

/// Below such a number a file gets its own again at once.
const NUMBERS_MAX: usize = 65536;

/// Connections and pipes that were closed since, and are open under other numbers.
const COPIES_MAX: usize = 64;

impl Descriptor {
    fn is_file(&self) -> bool {
        matches!(self.mode & TYPE, REGULAR | DIRECTORY)
    }

    /// An object without another side, which is open again after a way back.
    pub fn is_object(&self) -> bool {
        self.object != Object::None
    }

    /// A shadow keeps it open.
    fn is_kept(&self) -> bool {
        self.is_file() || self.is_object()
    }

    pub fn is_pipe(&self) -> bool {
        self.mode & TYPE == PIPE
    }

    /// What was noted of it earlier: FD_CLOEXEC, O_NONBLOCK and its like, and the offset.
    pub fn set(&mut self, flags: u32, status: u64, offset: Option<u64>) {
        (self.flags, self.status) = (flags, status);
        if self.is_file() {
            self.offset = offset.unwrap_or(self.offset);
        }
    }

    /// A socket or a pipe.
    pub fn is_channel(&self) -> bool {
        self.is_pipe() || self.mode & TYPE == SOCKET
    }

    pub fn is_cloexec(&self) -> bool {
        self.flags != 0
    }

    /// What F_SETFL sets of `status`.
    pub fn settable(&self) -> u64 {
        self.status & u64::from(nr::O_APPEND | nr::O_NONBLOCK)
    }

    /// Its offset is set on the way back, so that nothing has to be given back.
    pub fn is_seekable(&self) -> bool {
        self.is_file()
    }

    /// What it reads from.
    pub fn channel(&self) -> pushback::Channel {
        pushback::Channel::new(self.fd, self.mode, self.device, self.inode)
    }

    /// It reads from, and writes to, the same under another number.
    fn is_copy(&self, other: &Descriptor) -> bool {
        let has_inode = self.mode & TYPE != 0 && !self.is_file();
        has_inode && self.is_same(other) && self.access() == other.access()
    }

    pub fn is_same(&self, other: &Descriptor) -> bool {
        (self.mode & TYPE, self.device, self.inode) == (other.mode & TYPE, other.device, other.inode)
    }

    fn access(&self) -> u64 {
        self.status & u64::from(nr::O_ACCMODE | nr::O_PATH)
    }

    /// The process still has, under this number, what the keeper has: a file, or another object, may
    /// have been closed, and opened again.
    fn is_still_open(&self, now: &Descriptor, keeper: i32) -> bool {
        const KCMP_FILE: u64 = 0;
        let fd = u64::from(self.fd);
        let compare = || {
            let (own, other) = (process().pid as u64, keeper as u64);
            kernel::call(nr::__NR_kcmp, [own, other, KCMP_FILE, fd, fd, 0])
        };
        // Where it cannot be asked (an errno), what it looks like counts.
        self.is_same(now)
            && self.object == now.object
            && (!self.is_kept() || (self.access() == now.access() && compare() <= 0))
    }
}

impl Table {
    pub fn copy(&mut self, other: &Table) {
        self.count = other.count;
        self.all[..other.count].copy_from_slice(&other.all[..other.count]);
        self.interest_count = other.interest_count;
        self.interests[..other.interest_count].copy_from_slice(&other.interests[..other.interest_count]);
        self.timer_count = other.timer_count;
        self.timers[..other.timer_count].copy_from_slice(&other.timers[..other.timer_count]);
        self.copy_locks(other);
        (self.terminal_count, self.terminals) = (other.terminal_count, other.terminals);
    }

    pub fn copy_locks(&mut self, other: &Table) {
        self.lock_count = other.lock_count;
        self.locks[..other.lock_count].copy_from_slice(&other.locks[..other.lock_count]);
    }

    pub fn locks(&self) -> &[Lock] {
        &self.locks[..self.lock_count]
    }

    pub fn all(&self) -> &[Descriptor] {
        &self.all[..self.count]
    }

    pub fn interests(&self) -> &[Interest] {
        &self.interests[..self.interest_count]
    }

    fn timers(&self) -> &[DescriptorTimer] {
        &self.timers[..self.timer_count]
    }

    pub fn find(&self, fd: u32) -> Option<&Descriptor> {
        // In ascending order, as the kernel lists them.
        self.all().binary_search_by_key(&fd, |one| one.fd).ok().map(|index| &self.all[index])
    }

    /// Lists what is open, but for what is the runtime's, and for locks.
    pub fn fill(&mut self) {
        self.count = 0;
        self.interest_count = 0;
        self.timer_count = 0;
        self.terminal_count = 0;
        each_open(&mut |fd| {
            if self.count < DESCRIPTORS_MAX {
                self.note(fd);
            }
        });
    }

    /// Forgets descriptors, and what is told of them; `is_kept` may change those that stay.
    pub fn keep_only(&mut self, is_kept: &mut dyn FnMut(&mut Descriptor) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            let mut one = self.all[index];
            if is_kept(&mut one) {
                self.all[kept] = one;
                kept += 1;
            }
        }
        self.count = kept;
        let known = &self.all[..kept];
        let has = |fd: u32| known.binary_search_by_key(&fd, |one| one.fd).is_ok();
        self.interest_count = keep(&mut self.interests[..self.interest_count], |one| has(one.epoll));
        self.timer_count = keep(&mut self.timers[..self.timer_count], |one| has(one.fd()));
        self.terminal_count = keep(&mut self.terminals[..self.terminal_count], |one| has(one.fd()));
    }

    /// True if the kernel changes what is told of a descriptor, or another process may.
    pub fn changes_by_itself(&self) -> bool {
        self.timer_count != 0 || self.terminal_count != 0 || self.interests().iter().any(Interest::is_of_once)
    }

    fn note(&mut self, fd: u32) {
        let mut stat = [0u64; 18];
        let number = u64::from(fd);
        if kernel::failed(kernel::call(nr::__NR_fstat, [number, stat.as_mut_ptr() as u64, 0, 0, 0, 0])) {
            return;
        }
        let ask = |what: u32| kernel::call(nr::__NR_fcntl, [number, u64::from(what), 0, 0, 0, 0]);
        let mut one = Descriptor {
            fd,
            flags: ask(nr::F_GETFD).max(0) as u32,
            mode: stat[3] & 0xffff_ffff,
            device: stat[0],
            inode: stat[1],
            offset: 0,
            status: ask(nr::F_GETFL).max(0) as u64,
            connection: Connection::default(),
            object: Object::None,
            stays: false,
        };
        if one.mode & TYPE == SOCKET {
            one.connection = Connection::of(number);
        }
        if one.is_file() {
            one.offset = kernel::call(nr::__NR_lseek, [number, 0, 1, 0, 0, 0]).max(0) as u64;
        }
        if one.mode & TYPE == 0 {
            one.object = Object::of(fd);
            self.note_details(fd);
        }
        if one.mode & TYPE == CHARACTERS
            && let Some(place) = self.terminals.get_mut(self.terminal_count)
            && let Some(terminal) = Terminal::of(fd)
        {
            *place = terminal;
            self.terminal_count += 1;
        }
        self.all[self.count] = one;
        self.count += 1;
    }

    /// The number means something else now.
    fn forget_details(&mut self, of: u32) {
        for timer in &mut self.timers[..self.timer_count] {
            timer.forget(of);
        }
    }

    /// What an epoll set waits for (`tfd: N events: X data: X`), and what a timer is set to, as
    /// its fdinfo tells.
    pub fn note_details(&mut self, of: u32) {
        let mut timer = DescriptorTimer::new(of);
        each_line(of, &mut |line| {
            if let Some(interest) = interests::of_line(of, line)
                && self.interest_count < INTERESTS_MAX
            {
                self.interests[self.interest_count] = interest;
                self.interest_count += 1;
            }
            if timer.note(line) && self.timer_count < TIMERS_MAX {
                self.timers[self.timer_count] = timer;
                self.timer_count += 1;
            }
        });
    }
}

/// Moves those that are kept to the beginning; how many they are.
fn keep<T: Copy>(all: &mut [T], is_kept: impl Fn(&T) -> bool) -> usize {
    let mut kept = 0;
    for index in 0..all.len() {
        if is_kept(&all[index]) {
            all[kept] = all[index];
            kept += 1;
        }
    }
    kept
}

/// Calls `each` with the number of every open descriptor but the runtime's, in ascending order;
/// false where they cannot be listed.
pub fn each_open(each: &mut dyn FnMut(u32)) -> bool {
    let dir = proc_dir::open_as(c"/proc/thread-self/fd", nr::O_DIRECTORY);
    if kernel::failed(dir) {
        return false;
    }
    let mut entries = [0u8; 4096];
    let complete = loop {
        let bytes =
            kernel::call(nr::__NR_getdents64, [dir as u64, entries.as_mut_ptr() as u64, 4096, 0, 0, 0]);
        if bytes <= 0 {
            break bytes == 0;
        }
        let mut at = 0;
        while at < bytes as usize {
            let length = usize::from(u16::from_le_bytes([entries[at + 16], entries[at + 17]]));
            let name = &entries[at + 19..at + length];
            at += length;
            let Some(fd) = number(name) else { continue };
            let ours = fd == dir as u32
                || fd == process().control_fd as u32
                || page_tracker::is_descriptor(u64::from(fd))
                || watchpoints::is_descriptor(u64::from(fd))
                || proc_dir::is_descriptor(u64::from(fd));
            if !ours {
                each(fd);
            }
        }
    };
    kernel::call(nr::__NR_close, [dir as u64, 0, 0, 0, 0, 0]);
    complete
}

/// The shadow lists its descriptors, and closes all but files and objects without another side:
/// others would keep connections open.
pub fn keep_files(
    table: &mut Table,
    offsets: &crate::checkpoint::kept_resources::Offsets,
    notes: Option<&Notes>,
) {
    table.fill();
    if let Some(notes) = notes {
        notes.apply(table);
    }
    for one in &mut table.all[..table.count] {
        if let Some((_, offset)) = offsets.iter().find(|(fd, _)| *fd == one.fd + 1) {
            one.offset = *offset;
        }
    }
    let mut next = 0;
    for index in 0..table.count {
        let one = table.all[index];
        // In ascending order, as the kernel lists them.
        if one.is_kept() {
            close_range(next, one.fd);
            next = one.fd + 1;
        }
    }
    close_range(next, u32::MAX);
}

/// Not the session's memory, which a shadow may be asked to write to, nor /proc, in which it looks.
fn close_range(first: u32, end: u32) {
    let ours = [Some(process().control_fd as u32), proc_dir::descriptor().map(|fd| fd as u32)];
    if let Some(kept) = ours.into_iter().flatten().find(|fd| (first..end).contains(fd)) {
        close_range(first, kept);
        close_range(kept + 1, end);
    } else if first < end {
        kernel::call(nr::__NR_close_range, [u64::from(first), u64::from(end - 1), 0, 0, 0, 0]);
    }
}

/// Reads the table of then, and lists what is open now.
pub fn compare(then: &Then) -> bool {
    let known = then.fetch_table();
    area().tables.now.fill();
    known
}

/// Notes which descriptors of then cannot be had again: closed since, and no files. To be called
/// behind [`compare`].
pub fn note_missing(checkpoint: u32) {
    let tables = &area().tables;
    let missing = &lane().missing;
    missing.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    for then in tables.then.all() {
        let is_there = then.is_kept()
            || tables.now.find(then.fd).is_some_and(|now| then.is_same(now))
            || placeholders::has_other_end(tables, then)
            || tables.now.all().iter().any(|now| then.is_copy(now));
        if let (false, Some(word)) = (is_there, missing.words.get(then.fd as usize / 64)) {
            word.fetch_or(1 << (then.fd % 64), Ordering::Relaxed);
        }
    }
    missing.checkpoint.store(u64::from(checkpoint) + 1, Ordering::Release);
}

/// Branch: the descriptors are as then, as far as they can be; `keeps` says which of
/// now are kept, and moves them away.
pub fn restore(from: &Then, keeps: &mut dyn FnMut(&Descriptor) -> bool) {
    let tables = &mut area().tables;
    interests::forget(tables);
    let mut copies = [(0, 0); COPIES_MAX];
    taking::copy_others(tables, &mut copies);
    for now in &mut tables.now.all[..tables.now.count] {
        now.stays = tables.then.find(now.fd).is_some_and(|then| then.is_still_open(now, from.keeper));
        if !now.stays {
            // An earlier checkpoint may need it, too.
            lists::wait_for_closing(now.fd, now.fd);
        }
        if !now.stays && !keeps(now) {
            locks::drop_since(now.fd);
            kernel::call(nr::__NR_close, [u64::from(now.fd), 0, 0, 0, 0, 0]);
        }
    }
    for &(fd, copy) in copies.iter().filter(|(_, copy)| *copy != 0) {
        let is_cloexec = tables.then.find(fd).is_some_and(Descriptor::is_cloexec);
        let cloexec = if is_cloexec { u64::from(nr::O_CLOEXEC) } else { 0 };
        kernel::call(nr::__NR_dup3, [copy, u64::from(fd), cloexec, 0, 0, 0]);
        kernel::call(nr::__NR_close, [copy, 0, 0, 0, 0, 0]);
    }
    // Out of the way of the numbers that are restored.
    let handle = move_high(from.open_keeper()).map_or(-1, i64::from);
    for then in tables.then.all() {
        let same = tables.now.find(then.fd).is_some_and(|now| now.stays);
        if !same && then.object == Object::Epoll {
            objects::make_epoll(then.fd);
        } else if !same && then.is_kept() && !kernel::failed(handle) {
            taking::take_from(from.keeper, handle, then);
            if then.is_object() {
                tables.now.forget_details(then.fd);
                tables.now.note_details(then.fd);
            }
        }
        if then.is_file() && !descriptor_classes::is_standard_error(then.device, then.inode) {
            kernel::call(nr::__NR_lseek, [u64::from(then.fd), then.offset, 0, 0, 0, 0]);
        }
        if same || then.is_kept() {
            let set = |what: u32, value: u64| {
                kernel::call(nr::__NR_fcntl, [u64::from(then.fd), u64::from(what), value, 0, 0, 0]);
            };
            set(nr::F_SETFL, then.settable());
            set(nr::F_SETFD, u64::from(then.flags));
        }
    }
    if !kernel::failed(handle) {
        kernel::call(nr::__NR_close, [handle as u64, 0, 0, 0, 0, 0]);
    }
    placeholders::make(tables, &|fd| copies.iter().any(|&(of, copy)| of == fd && copy != 0));
    interests::set(tables);
    locks::restore(&tables.then);
    terminals::restore(&tables.then.terminals[..tables.then.terminal_count]);
    timers::restore_descriptors(tables.then.timers(), tables.now.timers(), &pushback::has_input_of);
}
