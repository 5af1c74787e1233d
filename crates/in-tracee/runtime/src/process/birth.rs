//! The beginning of an image: a recorded one, which the injector has just made
//! jump here, or a replayed one, which is built from its birth event.

use core::sync::atomic::Ordering;

use events::{BIRTH_FIXED_BYTES, BOARDED, HEADER_BYTES, Header, Kind, MAP_RECORD_BYTES, Tag, WINDOW, padded};
use lane_protocol::{
    CodeMap, FILE_RECIPES, FILE_SESSION, OWN_VDSO_BYTES, RECIPES_BYTES, RECIPES_START, REGION_BYTES,
    REGION_START, SESSION_BYTES, SESSION_START,
};
use linux_abi::general as nr;

use crate::address_space::{file_reads, recorded_places};
use crate::code::interception::intercept;
use crate::code::{clocks, own_vdso, seccomp, sites, vector_saves};
use crate::debugger::keyframes;
use crate::ground::assembly::rv_resume;
use crate::ground::auxiliary_vector;
use crate::ground::auxiliary_vector::AT_SYSINFO_EHDR;
use crate::ground::registers::{Leave, Registers};
use crate::ground::{frame, kernel, memory, stack_limit};
use crate::log::lanes;
use crate::process::{given_filters, processes};
use crate::state::block::{
    self, enter_block, forget_other_threads, lane, prepare_block, process, session, space, thread,
};
use crate::state::report;
use crate::{lab, signals};

/// End of the memory that a process can map, in bytes.
const MEMORY_END: u64 = 0x7fff_ffff_f000;
const FLAGS_AT_START: u64 = 0x202;
/// Of a map in a birth event: it is what stands for the vDSO.
const MAP_IS_VDSO: u64 = 2;
/// It grows downwards.
const MAP_GROWS_DOWN: u64 = 1;

/// What begins. Known to the entry code.
mod beginning {
    pub const REPLAY: u32 = 1;
    /// A process that ran already.
    pub const BOARDED: u32 = 2;
    /// A replay, from the image of a process.
    pub const IMAGE: u32 = 3;
}

/// Called once for each real image, on the runtime's first stack.
pub unsafe extern "C" fn begin(segment: u64, control_fd: u64, user_stack: u64, what: u32) -> ! {
    let control_fd = control_fd as i32;
    let replaying = matches!(what, beginning::REPLAY | beginning::IMAGE);
    crate::state::block::populate(true);
    if replaying {
        forget_everything_else();
    }
    let shared = nr::MAP_SHARED | nr::MAP_FIXED;
    let session_map = kernel::mmap(SESSION_START, SESSION_BYTES, 3, shared, control_fd, FILE_SESSION);
    let recipes_map = kernel::mmap(RECIPES_START, RECIPES_BYTES, 1, shared, control_fd, FILE_RECIPES);
    if kernel::failed(session_map) || kernel::failed(recipes_map) {
        report::tell("the program's limit on memory (ulimit -v) leaves no room for the runtime (64 MB)");
        kernel::exit_group(125);
    }
    lanes::without_readahead(SESSION_START, SESSION_BYTES);
    prepare_block(0, 0);
    enter_block(0);
    lanes::map_lane(0, segment, control_fd);
    let process = &mut *process();
    process.threads = 1;
    process.mode.set_replay(replaying);
    process.segment = segment;
    process.control_fd = control_fd;
    process.slot = 0;
    process.lane = lane().lane.load(Ordering::Relaxed);
    process.pid = kernel::call(nr::__NR_getpid, [0; 6]) as i32;
    if !replaying {
        crate::process::namespaces::begin_image();
    }
    crate::scheduler::token::begin_process();
    crate::debugger::agent::begin_process();
    process.check_every = u64::from(session().check_every_events);
    process.log.attach(0);
    process.log.populate();
    vector_saves::measure();
    if process.replays() {
        // One supervisor, many ends: what happens to us is its own affair.
        if what == beginning::IMAGE {
            seccomp::begin_anew();
        }
        lane().pid.store(process.pid, Ordering::Release);
        signals::install();
        intercept();
        clocks::trap_time();
        if what == beginning::IMAGE {
            keyframes::load();
        }
        let Some(word) = process.log.peek() else {
            report::log_ended();
        };
        if !word.is(Kind::Birth) {
            report::fail("the log of a new image does not begin with its birth");
        }
        recreate(word)
    }
    processes::leave_memory(segment);
    if what == beginning::BOARDED {
        crate::process::boarding::begin();
    }
    record_birth(user_stack)
}

/// Unmaps all that is not the runtime's.
fn forget_everything_else() {
    kernel::munmap(0, REGION_START);
    let end = REGION_START + REGION_BYTES;
    kernel::munmap(end, MEMORY_END - end);
}

// --- recording ---

fn record_birth(user_stack: u64) -> ! {
    let birth = lane().birth;
    put_entry_back(&birth);
    if lane().shares_root.load(Ordering::Relaxed) != 0 {
        crate::state::proc_dir::keep();
    }
    lab::begin_image(random_bytes(user_stack));
    let image_bytes = put_vdso(birth.vdso);
    let vdso = replace_vdso(user_stack);
    let process = &mut *process();
    let carried = core::mem::take(&mut lane().carried_signals);
    process.log.events += core::mem::take(&mut lane().carried_events);
    file_reads::note_inherited();
    thread().signals.mask = signals::inherited(kernel::current_mask()) | carried[0];
    let mask = thread().signals.mask;
    let break_start = kernel::call(nr::__NR_brk, [0; 6]) as u64;
    space().break_start = break_start;
    space().break_now = break_start;
    let log = &mut process.log;
    log.begin(Kind::Data, 0, 0);
    // By convention three empty blobs: where the break starts, the signal mask,
    // and how far the stack may grow.
    log.blob(break_start, 0, Tag::Memory, 0);
    log.blob(mask, 0, Tag::Memory, 0);
    log.blob(stack_limit::stack_limit(), 0, Tag::Memory, 0);
    for range in &birth.ranges[..(birth.range_count as usize).min(birth.ranges.len())] {
        log.blob(range.start, range.end - range.start, Tag::Memory, range.start);
    }
    if let Some(bytes) = image_bytes {
        log.blob(birth.vdso, bytes, Tag::Memory, birth.vdso);
    }
    log.end();
    clocks::find_vdso(vdso);
    clocks::begin_untrapped();
    thread().time_forbidden = core::mem::take(&mut lane().carried_time) != 0;
    if thread().time_forbidden {
        clocks::trap_time();
    }
    signals::install();
    signals::hold_asking(false);
    signals::take_carried(carried);
    given_filters::take_carried();
    intercept();
    space().translates_code = translates_code(birth.entry);
    for map in &birth.code[..(birth.code_count as usize).min(birth.code.len())] {
        sites::code_mapped(*map);
    }
    if birth.unknown_code != 0 {
        clocks::trap_time();
    }
    crate::checkpoint::observed_calls::begin();
    crate::debugger::agent::note_image(user_stack);
    start(birth.entry, user_stack)
}

/// True for valgrind's tools, which nobody else's programs are linked near
/// (VALT_LOAD_ADDRESS of its configure).
fn translates_code(entry: u64) -> bool {
    (0x5800_0000..0x5900_0000).contains(&entry)
}

/// Puts back the bytes at the entry point that the injector borrowed.
fn put_entry_back(birth: &lane_protocol::Birth) {
    let page = birth.entry & !4095;
    let bytes = (birth.entry + 8 - page).next_multiple_of(4096);
    kernel::mprotect(page, bytes, nr::PROT_READ | nr::PROT_WRITE);
    memory::write(birth.entry, &birth.entry_word);
    kernel::mprotect(page, bytes, birth.entry_protection);
}

/// Where the kernel put random bytes for the program (AT_RANDOM).
fn random_bytes(user_stack: u64) -> Option<u64> {
    const AT_RANDOM: u64 = 25;
    let arguments = memory::read_word(user_stack)?;
    let mut at = user_stack + 8 * (arguments + 2);
    while memory::read_word(at)? != 0 {
        at += 8;
    }
    at += 8;
    loop {
        match memory::read::<[u64; 2]>(at)? {
            [0, _] => return None,
            [AT_RANDOM, address] => return Some(address),
            _ => at += 16,
        }
    }
}

/// Maps our own vDSO there and fills it; how many bytes of it are not zero. `None`: it cannot be there.
fn put_vdso(start: u64) -> Option<u64> {
    const NO_FILE: i32 = -1;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED_NOREPLACE;
    let (image, bytes) = own_vdso::image();
    if start == 0 || bytes > OWN_VDSO_BYTES {
        return None;
    }
    let mapped = kernel::mmap(start, OWN_VDSO_BYTES, nr::PROT_READ | nr::PROT_WRITE, flags, NO_FILE, 0);
    if kernel::failed(mapped) {
        return None;
    }
    let is_there = mapped as u64 == start
        && memory::copy(start, image, bytes)
        && !kernel::failed(kernel::mprotect(start, OWN_VDSO_BYTES, nr::PROT_READ | nr::PROT_EXEC));
    if !is_there {
        kernel::munmap(mapped as u64, OWN_VDSO_BYTES);
        return None;
    }
    own_vdso::begin(start, start + OWN_VDSO_BYTES);
    Some(bytes)
}

/// Names our own vDSO to the program in place of the kernel's, so that its time calls come to us;
/// where it cannot be, none. Returns where the kernel's is.
fn replace_vdso(user_stack: u64) -> u64 {
    // argc, argv, NULL, envp, NULL, then pairs.
    // SAFETY: the kernel built this stack a moment ago.
    unsafe {
        let mut at = user_stack as *mut u64;
        at = at.add(at.read() as usize + 2);
        while at.read() != 0 {
            at = at.add(1);
        }
        at = at.add(1);
        while at.read() != 0 {
            if at.read() == AT_SYSINFO_EHDR {
                let kernels = at.add(1).read();
                let [tag, value] = auxiliary_vector::vdso_entry(own_vdso::place(), kernels);
                at.write(tag);
                at.add(1).write(value);
                return kernels;
            }
            at = at.add(2);
        }
    }
    0
}

fn start(entry: u64, stack_pointer: u64) -> ! {
    let mut registers =
        Registers { rip: entry, rsp: stack_pointer, flags: FLAGS_AT_START, ..Registers::default() };
    crate::debugger::agent::leaving(&mut registers);
    // SAFETY: the image is complete; these are the registers that execve leaves.
    unsafe { rv_resume(&registers) }
}

// --- replaying ---

/// Replay: the program's exec succeeded.
pub fn replay_exec() -> Leave {
    crate::process::threads::end_others();
    processes::leave_parents_memory();
    become_first_thread();
    crate::debugger::agent::forget_image();
    forget_everything_else();
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    recreate(word)
}

/// The image's only thread is its first, whichever executed it.
fn become_first_thread() {
    let (own, mask) = (thread().index, thread().signals.mask);
    let time_forbidden = thread().time_forbidden;
    let process = &mut *process();
    if own != 0 {
        let block = &mut *prepare_block(0, block::index_of_process(process));
        block.signals.begin_thread(mask);
        block.preemption = crate::state::preemption::Preemption::default();
        enter_block(0);
        signals::use_own_stack();
    }
    forget_other_threads();
    let first = &mut *thread();
    first.time_forbidden = time_forbidden;
    first.clear_tid = 0;
    first.robust_list = [0; 2];
    first.pending = 0;
    first.filters = Default::default();
    crate::scheduler::token_end::leave_group();
    crate::scheduler::token::begin_process();
}

/// A mapping of the image at its birth.
#[derive(Clone, Copy)]
struct ImagePart {
    start: u64,
    end: u64,
    protection: u64,
    grows_down: bool,
    /// Id of a kept file, and the place in it.
    content: Option<(u32, u64)>,
    is_vdso: bool,
}

impl ImagePart {
    /// The one with this index in the birth event at hand.
    fn read(index: u64) -> ImagePart {
        let log = &process().log;
        let at = 4 + index * (MAP_RECORD_BYTES as u64 / 8);
        let (start, end) = (log.body(at), log.body(at + 1));
        let (protection, flags) = (log.body(at + 2) & 0xffff_ffff, log.body(at + 2) >> 32);
        let (file, file_offset) = (log.body(at + 3) as u32, log.body(at + 4));
        if end <= start || memory::in_region(start, end - start) {
            report::fail("a birth maps memory where the runtime is");
        }
        let content = (file != u32::MAX).then_some((file, file_offset));
        let (grows_down, is_vdso) = (flags & MAP_GROWS_DOWN != 0, flags & MAP_IS_VDSO != 0);
        ImagePart { start, end, protection, grows_down, content, is_vdso }
    }

    fn map(&self) {
        let grows = if self.grows_down { u64::from(nr::MAP_GROWSDOWN | nr::MAP_STACK) } else { 0 };
        let flags = u64::from(nr::MAP_PRIVATE | nr::MAP_FIXED) | grows;
        // The log is about to fill it.
        let write = if self.is_vdso { u64::from(nr::PROT_WRITE) } else { 0 };
        recorded_places::map_kept(
            self.start,
            self.end - self.start,
            self.protection | write,
            flags,
            self.content,
        );
        if self.is_vdso {
            own_vdso::begin(self.start, self.end);
        }
    }

    /// The log has filled it.
    fn protect(&self) {
        kernel::mprotect(self.start, self.end - self.start, self.protection as u32);
    }

    /// Code of a kept file.
    fn code(&self) -> Option<CodeMap> {
        let (file, file_offset) = self.content.filter(|_| self.is_executable())?;
        let (start, end, protection) = (self.start, self.end, self.protection as u32);
        Some(CodeMap { start, end, file_offset, file, protection })
    }

    fn is_unknown_code(&self) -> bool {
        self.content.is_none() && self.is_executable() && !self.is_vdso
    }

    fn is_executable(&self) -> bool {
        self.protection & u64::from(nr::PROT_EXEC) != 0
    }
}

/// Builds the image that the birth event at hand describes, and starts it.
fn recreate(word: Header) -> ! {
    let log = &mut process().log;
    let entry = log.body(0);
    let stack_pointer = log.body(1);
    let map_count = log.body(3) & 0xffff_ffff;
    let path_bytes = log.body(3) >> 32;
    let fixed =
        BIRTH_FIXED_BYTES as u64 + map_count * MAP_RECORD_BYTES as u64 + padded(path_bytes as usize) as u64;
    if fixed > word.bytes() - HEADER_BYTES as u64 {
        report::fail("a birth does not fit into its event");
    }
    sites::reset();
    own_vdso::begin(0, 0);
    crate::address_space::mapped_files::reset();
    space().shared_count = 0;
    let boarded = matches!(word.code(), BOARDED | WINDOW);
    let mut has_first = false;
    if word.code() == WINDOW {
        // The log says it, unless that thread has ended.
        process().logged_thread = u32::MAX;
    }
    let mut has_unknown_code = false;
    let mut code = [CodeMap::default(); lane_protocol::BOARDING_MAPS];
    let mut code_count = 0;
    let mut vdso: Option<ImagePart> = None;
    for index in 0..map_count {
        let part = ImagePart::read(index);
        part.map();
        if let Some(map) = part.code()
            && code_count < code.len()
        {
            code[code_count] = map;
            code_count += 1;
        }
        vdso = if part.is_vdso { Some(part) } else { vdso };
        has_unknown_code |= part.is_unknown_code();
    }
    let process = &mut *process();
    process.actions().reset_for_image();
    thread().signals.reset_for_image();
    let mut conventions = [0u64; 4];
    let mut seen = 0;
    log.apply(word, HEADER_BYTES as u64 + fixed, &mut |tag, address, bytes, source| {
        if tag == Tag::Memory && bytes == 0 && seen < conventions.len() {
            conventions[seen] = address;
            seen += 1;
        } else if boarded {
            has_first |= tag == Tag::ThreadState && address == 0;
            crate::process::boarding::replay_blob(tag, address, bytes, source);
        }
    });
    if let Some(vdso) = vdso {
        vdso.protect();
    }
    space().break_start = conventions[0];
    space().break_now = if boarded { conventions[3] } else { conventions[0] };
    thread().signals.mask = conventions[1];
    stack_limit::set_stack_limit(conventions[2]);
    crate::debugger::agent::note_image(stack_pointer);
    if boarded {
        crate::process::boarding::replay(&code[..code_count], has_unknown_code, has_first);
    }
    space().translates_code = translates_code(entry);
    for map in &code[..code_count] {
        sites::code_mapped(*map);
    }
    kernel::set_fs_base(0);
    frame::clear_vectors();
    crate::preemption::preemption_point::arm_if_next();
    start(entry, stack_pointer)
}
