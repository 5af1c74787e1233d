//! Goes through a recorded process instruction by instruction, and tells [`Order`] what its threads touch
//! and how they synchronise.
//!
//! Deliberately absent: several processes that share memory.

use std::collections::HashMap;
use std::time::Instant;

use injector::{Mapping, read_maps};
use syscall_model::row;
use timeline::{Accesses, AgentThread, Going, INSTRUCTION_BYTES_MAX, Position, Reason, Stops, Timeline};

use super::order::{By, Clock, Order, Through};
use crate::exit::CommandError;

const RAX: usize = 0;
const RIP: usize = 16;
const RSP: usize = 7;
/// futex(2): what it does, without its flags.
const FUTEX_COMMAND: u64 = 0x7f;
/// Of mmap(2).
const PROT_WRITE: u32 = 2;
const CLONE_VM: u64 = 0x100;
/// Where in `struct clone_args` they are.
const CHILD_TID: u64 = 16;
const TLS: u64 = 56;

mod call {
    use linux_abi::general as raw;

    const fn numbers<const COUNT: usize>(of: [u32; COUNT]) -> [u64; COUNT] {
        let mut wide = [0; COUNT];
        let mut at = 0;
        while at < COUNT {
            wide[at] = of[at] as u64;
            at += 1;
        }
        wide
    }

    pub const CLONE: u64 = raw::__NR_clone as u64;
    pub const CLONE3: u64 = raw::__NR_clone3 as u64;
    pub const EXIT: u64 = raw::__NR_exit as u64;
    pub const FUTEX: u64 = raw::__NR_futex as u64;
    /// Memory that others map later is not what was there before.
    pub const MAPPINGS: [u64; 8] = numbers([
        raw::__NR_mmap,
        raw::__NR_mprotect,
        raw::__NR_munmap,
        raw::__NR_brk,
        raw::__NR_mremap,
        raw::__NR_madvise,
        raw::__NR_shmat,
        raw::__NR_shmdt,
    ]);
}

/// How far a walk came.
pub struct Walked {
    pub from: Position,
    pub to: Position,
    pub instructions: u64,
    pub threads: usize,
    /// It came to the end of the recording.
    pub is_at_end: bool,
    /// How often it left out the rest of the instructions between two events.
    pub gaps: u64,
}

/// The process on its way.
pub struct Walk<'a> {
    timeline: &'a mut Timeline,
    pub order: Order,
    accesses: Accesses,
    /// Where the C library is.
    libraries: Vec<(u64, u64)>,
    /// Where the dynamic linker is, which writes to tables of the program as its threads call functions.
    linker: Vec<(u64, u64)>,
    /// The program's variables: what the C library does to them it was asked to.
    variables: Vec<(u64, u64)>,
    maps_are_old: bool,
    threads: HashMap<u32, Thread>,
    /// What each new thread knows, by its fs base.
    births: HashMap<u64, (Clock, u64)>,
    originals: HashMap<String, String>,
}

#[derive(Default)]
struct Thread {
    /// The call that it made last and has not come back from: its number, and what it is about.
    calls: Option<(u64, u64)>,
    /// Where the kernel tells its end.
    end: u64,
}

impl Walk<'_> {
    /// One over a recording at its first instruction; `originals` are the recorded paths of kept files, by
    /// their names.
    pub fn new(timeline: &mut Timeline, originals: HashMap<String, String>) -> Walk<'_> {
        Walk {
            timeline,
            order: Order::default(),
            accesses: Accesses::default(),
            libraries: Vec::new(),
            linker: Vec::new(),
            variables: Vec::new(),
            maps_are_old: true,
            threads: HashMap::new(),
            births: HashMap::new(),
            originals,
        }
    }

    /// From where it made its first thread to its end, or for as long as that may take; `None` if there
    /// is only one thread. Behind each event it looks at `dense` instructions, and not at the rest.
    pub fn run(&mut self, dense: u64, until: Instant) -> Result<Option<Walked>, CommandError> {
        if !self.reach_first_thread()? {
            return Ok(None);
        }
        let from = self.timeline.position(&|| false)?;
        let mut walked = Walked { from, to: from, instructions: 0, threads: 0, is_at_end: true, gaps: 0 };
        let (mut event, mut since_event) = (from.event, 0);
        loop {
            let stop = self.timeline.stop();
            let index = stop.thread;
            let Some(&thread) = stop.threads.iter().find(|thread| thread.index == index) else { break };
            walked.to = Position { event: stop.event, steps: stop.steps };
            if self.timeline.is_at_end() {
                break;
            }
            if walked.instructions.is_multiple_of(1024) && Instant::now() > until {
                walked.is_at_end = false;
                break;
            }
            since_event = if stop.event == event { since_event + 1 } else { 0 };
            event = stop.event;
            let reason = if since_event > dense {
                walked.gaps += 1;
                self.order.forget();
                self.timeline.forward_to_event(event + 1, &|| Instant::now() > until)?
            } else {
                self.look(thread, walked.to);
                walked.instructions += 1;
                self.timeline.forward(Going::Step(index), &Stops::default(), &|| false)?
            };
            match reason {
                Reason::End { .. } | Reason::Image => break,
                Reason::Interrupted => {
                    walked.is_at_end = false;
                    break;
                }
                _ => {}
            }
        }
        walked.threads = self.threads.len();
        Ok(Some(walked))
    }

    /// Behind the call that makes the first thread; false if none does.
    fn reach_first_thread(&mut self) -> Result<bool, CommandError> {
        let mut stops = Stops::default();
        for number in [call::CLONE, call::CLONE3] {
            stops.calls[(number / 64) as usize] |= 1 << (number % 64);
        }
        loop {
            match self.timeline.forward(Going::On, &stops, &|| false)? {
                Reason::Call(number) => {
                    let stop = self.timeline.stop();
                    let thread = stop.threads.iter().find(|thread| thread.index == stop.thread);
                    let Some(mut thread) = thread.copied() else { return Ok(false) };
                    // A child of fork has no threads yet.
                    if thread.registers[RAX] == 0 || self.shares_memory(number, &thread) {
                        thread.registers[RAX] = number;
                        self.begin(&thread);
                        self.enter(&thread);
                        return Ok(true);
                    }
                }
                Reason::Image => {}
                _ => return Ok(false),
            }
        }
    }

    fn shares_memory(&self, number: u64, thread: &AgentThread) -> bool {
        let first = argument(thread, 0);
        let flags = if number == call::CLONE3 { self.word(first) } else { first };
        flags & CLONE_VM != 0
    }

    /// Notes what a thread is about to do.
    fn look(&mut self, thread: AgentThread, position: Position) {
        if self.maps_are_old {
            self.read_maps();
        }
        self.begin(&thread);
        let own = thread.index as usize;
        self.leave(&thread);
        let at = thread.registers[RIP];
        let mut code = [0; INSTRUCTION_BYTES_MAX];
        self.timeline.read(at, &mut code);
        let step = self.accesses.of(&thread, code);
        if step.is_syscall {
            return self.enter(&thread);
        }
        let (is_library, is_linker) = (is_in(&self.libraries, at), is_in(&self.linker, at));
        let stack = thread.registers[RSP].saturating_sub(256)..thread.registers[RSP].saturating_add(512);
        for access in step.accesses {
            let is_data = !is_linker || access.is_atomic;
            if is_data && !stack.contains(&access.address) && !timeline::is_of_runtime(access.address) {
                let by = match is_library {
                    false => By::Program,
                    true if is_in(&self.variables, access.address) => By::LibraryOnVariable,
                    true => By::Library,
                };
                self.order.access(own, position, at, access, by);
            }
        }
    }

    fn begin(&mut self, thread: &AgentThread) {
        if self.threads.contains_key(&thread.index) {
            return;
        }
        let (known, end) =
            self.births.remove(&thread.fs_base).map_or((None, 0), |(known, end)| (Some(known), end));
        self.order.begin(thread.index as usize, known);
        self.threads.insert(thread.index, Thread { calls: None, end });
    }

    /// A thread makes a system call: what others may learn by it.
    fn enter(&mut self, thread: &AgentThread) {
        let (own, number) = (thread.index as usize, thread.registers[RAX]);
        let first = argument(thread, 0);
        let state = self.threads.entry(thread.index).or_default();
        state.calls = Some((number, first));
        let end = state.end;
        match number {
            call::CLONE | call::CLONE3 => {
                let (flags, end, base) = match number {
                    call::CLONE => (first, argument(thread, 3), argument(thread, 4)),
                    _ => (self.word(first), self.word(first + CHILD_TID), self.word(first + TLS)),
                };
                if flags & CLONE_VM != 0 {
                    let known = self.order.known_to_child(own);
                    self.births.insert(base, (known, end));
                }
            }
            call::EXIT => {
                // Whoever joins it reads there that it has ended.
                self.order.release(own, Order::word(end));
                self.order.release(own, Through::Mappings);
            }
            // A wait, too, tells that the word is one to synchronise through.
            call::FUTEX if is_wait(argument(thread, 1)) => self.order.acquire(own, Order::word(first)),
            call::FUTEX => self.order.release(own, Order::word(first)),
            _ if call::MAPPINGS.contains(&number) => {
                self.maps_are_old = true;
                self.order.release(own, Through::Mappings);
            }
            _ if row(number).is_some_and(|row| row.releases) => self.order.release(own, Through::Kernel),
            _ => {}
        }
    }

    /// The same thread has come back from it: what it may have learned.
    fn leave(&mut self, thread: &AgentThread) {
        let own = thread.index as usize;
        let Some((number, first)) = self.threads.get_mut(&thread.index).and_then(|state| state.calls.take())
        else {
            return;
        };
        match number {
            call::FUTEX => self.order.acquire(own, Order::word(first)),
            _ if call::MAPPINGS.contains(&number) => {
                self.maps_are_old = true;
                self.order.acquire(own, Through::Mappings);
            }
            _ if row(number).is_some_and(|row| row.acquires) => self.order.acquire(own, Through::Kernel),
            _ => {}
        }
    }

    fn read_maps(&mut self) {
        self.maps_are_old = false;
        let maps = read_maps(self.timeline.pid()).unwrap_or_default();
        let of = |names: &[&str]| -> Vec<(u64, u64)> {
            let is_it = |map: &&Mapping| {
                let path = recorded_path(map, &self.originals);
                let name = path.rsplit('/').next().unwrap_or("");
                names.iter().any(|begin| name.starts_with(begin))
            };
            maps.iter().filter(is_it).map(|map| (map.start, map.end)).collect()
        };
        (self.libraries, self.linker) =
            (of(&["libc.so", "libc-", "libpthread", "[vdso]"]), of(&["ld-", "ld.so"]));
        let others = |map: &Mapping| !is_in(&self.libraries, map.start) && !is_in(&self.linker, map.start);
        self.variables = variables_in(&maps, others);
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.timeline.read(address, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
}

/// Where the variables of these files are: memory of the file, and behind it what is zero at first.
fn variables_in(maps: &[Mapping], is_one: impl Fn(&Mapping) -> bool) -> Vec<(u64, u64)> {
    let is_written = |map: &Mapping| map.protection & PROT_WRITE != 0 && !map.shared;
    let mut found: Vec<(u64, u64)> = Vec::new();
    for map in maps.iter().filter(|map| is_written(map)) {
        let continues = map.name.is_empty() && found.last().is_some_and(|(_, end)| *end == map.start);
        if continues || map.has_file() && is_one(map) {
            found.push((map.start, map.end));
        }
    }
    found
}

/// The path that a mapped file had when it was recorded.
pub fn recorded_path(map: &Mapping, originals: &HashMap<String, String>) -> String {
    let path = String::from_utf8_lossy(&map.name).into_owned();
    let name = path.rsplit('/').next().unwrap_or("");
    originals.get(name).cloned().unwrap_or(path)
}

fn is_wait(operation: u64) -> bool {
    // FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET.
    matches!(operation & FUTEX_COMMAND, 0 | 6 | 9)
}

/// An argument of a system call.
fn argument(thread: &AgentThread, number: usize) -> u64 {
    // rdi, rsi, rdx, r10, r8, r9.
    thread.registers[[5, 4, 3, 10, 8, 9][number]]
}
