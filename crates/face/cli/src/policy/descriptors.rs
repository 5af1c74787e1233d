//! What the descriptors of a recorded process lead to, as its log tells.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;

use events::Tag;
use linux_abi::general as raw;

use crate::lane_events::WholeEvent;
use crate::recorded::simplified;

/// What an open file description is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    Stdin,
    /// By its absolute path.
    File(PathBuf),
    /// Memory without a name: of memfd_create(2), or what a display passed on.
    Memory,
    Socket {
        domain: u64,
        kind: u64,
        protocol: u64,
    },
}

/// An open file description: shared by duplicates of a descriptor, and by processes.
#[derive(Debug)]
pub struct Description {
    pub id: u32,
    pub thing: Thing,
    /// Number of its stream in the plan, once it has one.
    pub stream: Cell<u64>,
    /// Of the next read or write, as far as that is known.
    pub offset: Cell<u64>,
    /// Number of the connection to a display that is shown.
    pub screen: Cell<Option<usize>>,
}

impl Description {
    /// One of which nothing more is known; `ids` counts them.
    pub fn new(ids: &mut u32, thing: Thing) -> Rc<Description> {
        *ids += 1;
        Rc::new(Description {
            id: *ids,
            thing,
            stream: Cell::new(0),
            offset: Cell::new(0),
            screen: Cell::new(None),
        })
    }
}

/// Which way a descriptor of the replay is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    In,
    Out,
}

/// The descriptors of one process. A child begins with a copy.
#[derive(Debug, Clone)]
pub struct Descriptors {
    table: HashMap<i32, (Rc<Description>, bool)>,
    pub directory: PathBuf,
    /// Lanes of the processes that it made, by their pids.
    pub children: HashMap<i32, u32>,
    /// Descriptors of the replay that stand for descriptions.
    slots: BTreeMap<(u32, Way), u64>,
}

impl Descriptors {
    /// Those of the first process.
    pub fn first(directory: PathBuf) -> Descriptors {
        Descriptors { table: HashMap::new(), directory, children: HashMap::new(), slots: BTreeMap::new() }
    }

    /// What a descriptor leads to.
    pub fn get(&self, fd: i32) -> Option<&Rc<Description>> {
        self.table.get(&fd).map(|(description, _)| description)
    }

    /// A descriptor is new. Returns slots that are free, if it took another's place.
    pub fn insert(&mut self, fd: i32, description: Rc<Description>, closes: bool) -> Vec<u64> {
        let freed = self.remove(fd);
        self.table.insert(fd, (description, closes));
        freed
    }

    /// A descriptor is another name of one; see [`Descriptors::insert`].
    pub fn duplicate(&mut self, from: i32, to: i32, closes: bool) -> Vec<u64> {
        match self.get(from).cloned() {
            _ if from == to => Vec::new(),
            Some(description) => self.insert(to, description, closes),
            None => self.remove(to),
        }
    }

    /// A descriptor is closed. Returns the slots that nothing needs any more.
    pub fn remove(&mut self, fd: i32) -> Vec<u64> {
        let Some((gone, _)) = self.table.remove(&fd) else { return Vec::new() };
        if self.table.values().any(|(other, _)| other.id == gone.id) {
            return Vec::new();
        }
        let mut freed: Vec<u64> =
            [Way::In, Way::Out].iter().filter_map(|&way| self.slots.remove(&(gone.id, way))).collect();
        freed.dedup();
        freed.retain(|&slot| slot >= events::real::FD_FIRST);
        freed
    }

    /// Descriptors of a range are closed.
    pub fn remove_range(&mut self, first: u64, last: u64) -> Vec<u64> {
        let range = |fd: &&i32| (first..=last).contains(&(**fd as u64));
        let fds: Vec<i32> = self.table.keys().filter(range).copied().collect();
        fds.into_iter().flat_map(|fd| self.remove(fd)).collect()
    }

    /// The process executes a program.
    pub fn execute(&mut self) -> Vec<u64> {
        let closing: Vec<i32> =
            self.table.iter().filter(|(_, (_, closes))| *closes).map(|(fd, _)| *fd).collect();
        closing.into_iter().flat_map(|fd| self.remove(fd)).collect()
    }

    /// Whether the next execve closes it.
    pub fn set_closes(&mut self, fd: i32, closes: bool) {
        if let Some((_, known)) = self.table.get_mut(&fd) {
            *known = closes;
        }
    }

    /// A call that succeeded: what it means for numbers and for the directory. Returns the slots that are free then;
    /// `None` for a call that means nothing for them.
    pub fn follow(&mut self, whole: &WholeEvent) -> Option<Vec<u64>> {
        let event = whole.event();
        let (first, result) = (event.arg(0) as i32, event.result() as i32);
        Some(match u32::from(whole.code) {
            raw::__NR_chdir => {
                if let Some(path) = self.path(None, &text_at(whole, event.arg(0))) {
                    self.directory = path;
                }
                Vec::new()
            }
            raw::__NR_fchdir => {
                if let Some(Thing::File(path)) = self.get(first).map(|known| known.thing.clone()) {
                    self.directory = path;
                }
                Vec::new()
            }
            raw::__NR_close => self.remove(first),
            raw::__NR_close_range if event.arg(2) == 0 => {
                self.remove_range(event.arg(0), event.arg(1) & 0xffff_ffff)
            }
            raw::__NR_dup | raw::__NR_dup2 => self.duplicate(first, result, false),
            raw::__NR_dup3 => self.duplicate(first, result, cloexec(event.arg(2))),
            raw::__NR_fcntl => match event.arg(1) as u32 {
                raw::F_DUPFD => self.duplicate(first, result, false),
                raw::F_DUPFD_CLOEXEC => self.duplicate(first, result, true),
                raw::F_SETFD => {
                    self.set_closes(first, event.arg(2) & 1 != 0);
                    Vec::new()
                }
                _ => Vec::new(),
            },
            _ => return None,
        })
    }

    /// Descriptors of these descriptions.
    pub fn leading_to(&self, is_one: impl Fn(u32) -> bool) -> Vec<(i32, u32)> {
        let numbers = self.table.iter().map(|(fd, (description, _))| (*fd, description.id));
        numbers.filter(|(_, id)| is_one(*id)).collect()
    }

    /// The descriptor of the replay that stands for a descriptor of the program.
    pub fn slot(&self, fd: i32, way: Way) -> Option<u64> {
        self.slots.get(&(self.get(fd)?.id, way)).copied()
    }

    /// The same of a description.
    pub fn set_slot(&mut self, description: &Description, way: Way, slot: u64) {
        self.slots.insert((description.id, way), slot);
    }

    /// A slot that stands for nothing yet.
    pub fn free_slot(&self) -> u64 {
        let is_free = |slot: &u64| !self.slots.values().any(|used| used == slot);
        (events::real::FD_FIRST..).find(is_free).unwrap_or(events::real::FD_FIRST)
    }

    /// The absolute path that a text means.
    pub fn path(&self, directory: Option<i32>, text: &[u8]) -> Option<PathBuf> {
        let path = PathBuf::from(OsString::from_vec(text.to_vec()));
        let base = match directory.filter(|fd| *fd != raw::AT_FDCWD && !path.is_absolute()) {
            Some(fd) => match &self.get(fd)?.thing {
                Thing::File(base) => base.clone(),
                Thing::Stdin | Thing::Memory | Thing::Socket { .. } => return None,
            },
            None => self.directory.clone(),
        };
        Some(simplified(&base.join(path)))
    }
}

/// Whether an execve closes what a call makes with these flags.
pub fn cloexec(flags: u64) -> bool {
    flags & u64::from(raw::O_CLOEXEC) != 0
}

/// The text that a call read at an address.
pub fn text_at(whole: &WholeEvent, address: u64) -> Vec<u8> {
    let found = whole.blobs().find(|blob| blob.tag == Tag::Text && blob.address == address);
    let data = found.map(|blob| blob.data).unwrap_or_default();
    data.strip_suffix(b"\0").unwrap_or(data).to_vec()
}
