//! What the processes of a trace read from standard input, from files and from connections that they accepted.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use events::{Instruction, Kind, Tag};
use injector::{Connection, RecordedAnswers, StdinKind};
use linux_abi::general as raw;
use linux_abi::net;
use nix::errno::Errno;
use trace_store::{LaneInfo, TraceReader};

use crate::exit::CommandError;
use crate::info::in_tree_order;
use crate::lane_events::{LaneEvents, WholeEvent};

/// Longest read that is looked at, in bytes.
const READ_BYTES_MAX: usize = 1 << 30;

/// A file that was read.
#[derive(Debug, Clone, Default)]
pub struct ReadFile {
    pub path: PathBuf,
    pub content: Vec<u8>,
    /// All of it was read.
    pub is_whole: bool,
    /// The program wrote to it as well.
    pub is_written: bool,
    /// The program made it: it was not there before.
    pub is_new: bool,
}

/// What else a run can hang on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    pub time: bool,
    pub random: bool,
}

/// All that was read.
pub struct Readings {
    pub asked: Asked,
    /// What it was answered first when it asked for the time of the day, and all random numbers of getrandom(2).
    pub answers: RecordedAnswers,
    pub stdin_kind: StdinKind,
    pub stdin: Vec<u8>,
    pub files: Vec<ReadFile>,
    /// TCP connections that were accepted, in that order.
    pub connections: Vec<Connection>,
}

/// What a description stands for.
#[derive(Debug, Clone)]
enum Source {
    Stdin,
    File(PathBuf),
    /// By its place among those that were accepted.
    Connection(usize),
}

/// An open file description: shared by duplicates of a descriptor.
#[derive(Debug, Clone)]
struct Description {
    source: Source,
    offset: Rc<Cell<u64>>,
}

/// One process.
#[derive(Debug, Clone, Default)]
struct Process {
    descriptors: HashMap<i32, (Description, bool)>,
    /// Addresses of sockets.
    bound: HashMap<i32, SocketAddr>,
    directory: PathBuf,
}

#[derive(Default)]
struct Collected {
    files: BTreeMap<PathBuf, ReadFile>,
    /// Files that were asked for, and were not there.
    missed: HashSet<PathBuf>,
    stdin: Vec<u8>,
    stdin_mode: Option<u32>,
    is_seekable: bool,
    asked: Asked,
    answers: RecordedAnswers,
    connections: Vec<Connection>,
    /// Ports that the program's own processes connected to: those clients come by themselves.
    own: HashSet<u16>,
}

impl Readings {
    /// Goes through all lanes, parents before their children.
    pub fn of(trace: &TraceReader) -> Result<Readings, CommandError> {
        let lanes = trace.lanes();
        let mut begun: HashMap<u32, Process> = HashMap::new();
        let mut collected = Collected::default();
        for (position, _) in in_tree_order(lanes) {
            let info = &lanes[position];
            let mut process =
                begun.remove(&info.lane).unwrap_or_else(|| Process::first(trace.meta().cwd.clone()));
            read_lane(trace, info, &mut process, &mut begun, &mut collected)?;
        }
        for kept in trace.files() {
            let path = PathBuf::from(OsString::from_vec(kept.file.path.clone()));
            if let Some(file) = collected.files.get_mut(&path)
                && file.content.is_empty()
                && !file.is_whole
                && let Ok(content) = trace.file_path(&kept.file).map(std::fs::read)
            {
                file.content = content.unwrap_or_default();
                file.is_whole = true;
            }
        }
        let mut connections = collected.connections;
        connections.retain(|known| !collected.own.contains(&known.address.port()));
        let kind = match collected.stdin_mode.map(|mode| mode & raw::S_IFMT) {
            Some(raw::S_IFREG) => StdinKind::File,
            Some(_) => StdinKind::Pipe,
            None if collected.is_seekable => StdinKind::File,
            None if collected.stdin.is_empty() => StdinKind::Nothing,
            None => StdinKind::File,
        };
        Ok(Readings {
            asked: collected.asked,
            answers: collected.answers,
            stdin_kind: kind,
            stdin: collected.stdin,
            files: collected.files.into_values().collect(),
            connections,
        })
    }
}

impl Process {
    fn first(directory: PathBuf) -> Process {
        let stdin = Description { source: Source::Stdin, offset: Rc::default() };
        Process { bound: HashMap::new(), descriptors: HashMap::from([(0, (stdin, false))]), directory }
    }

    fn path(&self, directory: Option<i32>, text: &[u8]) -> PathBuf {
        let path = PathBuf::from(OsString::from_vec(text.to_vec()));
        let base = match directory.filter(|fd| *fd != raw::AT_FDCWD) {
            Some(fd) => match self.descriptors.get(&fd) {
                Some((Description { source: Source::File(base), .. }, _)) => base.clone(),
                _ => return path,
            },
            None => self.directory.clone(),
        };
        simplified(&base.join(path))
    }
}

/// Without `.` and `..`.
pub fn simplified(path: &Path) -> PathBuf {
    let mut simple = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(simple.pop()),
            other => simple.push(other),
        }
    }
    simple
}

fn read_lane(
    trace: &TraceReader,
    info: &LaneInfo,
    process: &mut Process,
    begun: &mut HashMap<u32, Process>,
    into: &mut Collected,
) -> Result<(), CommandError> {
    let mut events = LaneEvents::open(trace, info.lane)?;
    let mut whole = WholeEvent::keeping(READ_BYTES_MAX);
    while events.read(&mut whole)? {
        match whole.kind {
            Kind::Birth => process.descriptors.retain(|_, (_, closes)| !*closes),
            Kind::Instruction => match whole.event().instruction().map(|body| body.instruction) {
                Some(Instruction::Rdtsc | Instruction::Rdtscp) => into.asked.time = true,
                Some(Instruction::Rdrand | Instruction::Rdseed) => into.asked.random = true,
                _ => {}
            },
            Kind::Syscall if !whole.is_filtered() => {
                if let Some(child) = whole.child_lane() {
                    begun.insert(child, process.clone());
                }
                if u32::from(whole.code) == raw::__NR_connect {
                    let address = whole.blob(Tag::Sent).and_then(|blob| listening_at(blob.data));
                    into.own.extend(address.map(|address| address.port()));
                }
                match whole.event().result() {
                    0.. => call(process, &whole, into),
                    result if result == -i64::from(Errno::ENOENT as i32) => miss(process, &whole, into),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a call that succeeded means for descriptors and readings.
fn call(process: &mut Process, whole: &WholeEvent, into: &mut Collected) {
    let event = whole.event();
    let (result, first) = (event.result(), event.arg(0) as i32);
    let text = || whole.blob(Tag::Text).map(|blob| blob.data).unwrap_or_default();
    match u32::from(whole.code) {
        raw::__NR_open => open(process, whole, None, event.arg(1), into),
        raw::__NR_creat => open(process, whole, None, u64::from(raw::O_WRONLY | raw::O_TRUNC), into),
        raw::__NR_openat => open(process, whole, Some(first), event.arg(2), into),
        raw::__NR_openat2 => {
            let how = whole.blobs().find(|blob| blob.tag == Tag::Sent).map(|blob| blob.data);
            let flags = how.and_then(|how| Some(u64::from_le_bytes(how.get(..8)?.try_into().ok()?)));
            open(process, whole, Some(first), flags.unwrap_or(0), into);
        }
        raw::__NR_clock_gettime | raw::__NR_gettimeofday | raw::__NR_time => {
            into.asked.time = true;
            if into.answers.time.is_none() {
                into.answers.time = time_of(whole);
            }
        }
        raw::__NR_getrandom => {
            into.asked.random = true;
            if let Some(blob) = whole.memory(event.arg(0)) {
                let got = &blob.data[..blob.data.len().min(result as usize)];
                into.answers.random.get_or_insert_default().extend_from_slice(got);
            }
        }
        raw::__NR_chdir => process.directory = process.path(None, text()),
        raw::__NR_close => drop(process.descriptors.remove(&first)),
        raw::__NR_dup | raw::__NR_dup2 => duplicate(process, first, result as i32, false),
        raw::__NR_dup3 => {
            duplicate(process, first, result as i32, event.arg(2) & u64::from(raw::O_CLOEXEC) != 0);
        }
        raw::__NR_fcntl => match event.arg(1) as u32 {
            raw::F_DUPFD => duplicate(process, first, result as i32, false),
            raw::F_DUPFD_CLOEXEC => duplicate(process, first, result as i32, true),
            raw::F_SETFD => {
                if let Some((_, closes)) = process.descriptors.get_mut(&first) {
                    *closes = event.arg(2) & 1 != 0;
                }
            }
            _ => {}
        },
        raw::__NR_lseek => {
            if let Some((description, _)) = process.descriptors.get(&first) {
                description.offset.set(result as u64);
                into.is_seekable |= matches!(description.source, Source::Stdin);
            }
        }
        raw::__NR_fstat => look(process, whole, first, event.arg(1), into),
        raw::__NR_newfstatat if text().is_empty() => look(process, whole, first, event.arg(2), into),
        raw::__NR_read | raw::__NR_readv => read(process, whole, first, None, into),
        // What is only looked at (MSG_PEEK) comes again.
        raw::__NR_recvfrom if event.arg(3) & 2 == 0 => read(process, whole, first, None, into),
        raw::__NR_bind => {
            let address = whole.blob(Tag::Sent).and_then(|blob| listening_at(blob.data));
            process.bound.extend(address.map(|address| (first, address)));
        }
        raw::__NR_accept | raw::__NR_accept4 => accept(process, first, result as i32, into),
        raw::__NR_pread64 | raw::__NR_preadv | raw::__NR_preadv2 => {
            read(process, whole, first, Some(event.arg(3)), into);
        }
        _ => {}
    }
}

fn open(process: &mut Process, whole: &WholeEvent, at: Option<i32>, flags: u64, into: &mut Collected) {
    let text = whole.blob(Tag::Text).map(|blob| blob.data).unwrap_or_default();
    let path = process.path(at, text);
    let flags = flags as u32;
    into.asked.random |= path.starts_with("/dev/random") || path.starts_with("/dev/urandom");
    let is_written = flags & raw::O_ACCMODE != raw::O_RDONLY || flags & raw::O_TRUNC != 0;
    let is_made = flags & raw::O_CREAT != 0 && (flags & raw::O_EXCL != 0 || into.missed.contains(&path));
    if !["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel)) {
        let file = into
            .files
            .entry(path.clone())
            .or_insert_with(|| ReadFile { is_new: is_made, ..ReadFile::default() });
        file.path.clone_from(&path);
        file.is_written |= is_written;
    }
    let description = Description { source: Source::File(path), offset: Rc::default() };
    let closes = flags & raw::O_CLOEXEC != 0;
    process.descriptors.insert(whole.event().result() as i32, (description, closes));
}

/// The time of the day that a call gave, in nanoseconds.
fn time_of(whole: &WholeEvent) -> Option<u64> {
    let event = whole.event();
    let pair = |address: u64, unit: u64| {
        let data = whole.memory(address)?.data;
        let word = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
        word(0)?.checked_mul(1_000_000_000)?.checked_add(word(8)?.checked_mul(unit)?)
    };
    match u32::from(whole.code) {
        raw::__NR_clock_gettime => {
            let is_of_the_day =
                [raw::CLOCK_REALTIME, raw::CLOCK_REALTIME_COARSE].contains(&(event.arg(0) as u32));
            is_of_the_day.then(|| pair(event.arg(1), 1))?
        }
        raw::__NR_gettimeofday => pair(event.arg(0), 1000),
        _ => (event.result() as u64).checked_mul(1_000_000_000),
    }
}

/// A file that was not there when it was first asked for.
fn miss(process: &Process, whole: &WholeEvent, into: &mut Collected) {
    let event = whole.event();
    let directory = match u32::from(whole.code) {
        raw::__NR_open | raw::__NR_stat | raw::__NR_lstat | raw::__NR_access => None,
        raw::__NR_openat
        | raw::__NR_newfstatat
        | raw::__NR_statx
        | raw::__NR_faccessat
        | raw::__NR_faccessat2 => Some(event.arg(0) as i32),
        _ => return,
    };
    if let Some(text) = whole.blob(Tag::Text).map(|blob| blob.data) {
        let path = process.path(directory, text);
        if !into.files.contains_key(&path) {
            into.missed.insert(path);
        }
    }
}

fn accept(process: &mut Process, listener: i32, fd: i32, into: &mut Collected) {
    let Some(&address) = process.bound.get(&listener) else { return };
    let source = Source::Connection(into.connections.len());
    into.connections.push(Connection { address, content: Vec::new(), has_ended: false });
    process.descriptors.insert(fd, (Description { source, offset: Rc::default() }, false));
}

/// Where who listens at an address of TCP is reached on its own machine.
fn listening_at(address: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
    let ip = match u32::from(u16::from_le_bytes(address.get(..2)?.try_into().ok()?)) {
        net::AF_INET => IpAddr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?),
        net::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?),
        _ => return None,
    };
    let local = match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    (port != 0).then_some(SocketAddr::new(local, port))
}

fn duplicate(process: &mut Process, from: i32, to: i32, closes: bool) {
    match process.descriptors.get(&from).cloned() {
        Some((description, _)) => drop(process.descriptors.insert(to, (description, closes))),
        None => drop(process.descriptors.remove(&to)),
    }
}

/// What the program learns of standard input's kind.
fn look(process: &Process, whole: &WholeEvent, fd: i32, address: u64, into: &mut Collected) {
    /// Of `st_mode` in `struct stat`.
    const MODE_AT: usize = 24;
    let is_stdin = process.descriptors.get(&fd).is_some_and(|(of, _)| matches!(of.source, Source::Stdin));
    if is_stdin
        && let Some(blob) = whole.memory(address)
        && let Some(bytes) = blob.data.get(MODE_AT..MODE_AT + 4)
    {
        into.stdin_mode = bytes.try_into().ok().map(u32::from_le_bytes);
    }
}

fn read(process: &Process, whole: &WholeEvent, fd: i32, at: Option<u64>, into: &mut Collected) {
    let Some((description, _)) = process.descriptors.get(&fd) else { return };
    let count = whole.event().result() as u64;
    let offset = at.unwrap_or_else(|| description.offset.get());
    if at.is_none() {
        description.offset.set(offset + count);
    }
    let (content, file) = match &description.source {
        Source::Stdin => (&mut into.stdin, None),
        Source::Connection(number) => {
            let Some(connection) = into.connections.get_mut(*number) else { return };
            connection.has_ended |= count == 0;
            (&mut connection.content, None)
        }
        Source::File(path) => match into.files.get_mut(path) {
            Some(file) => (&mut file.content, Some((&mut file.is_whole, file.is_written))),
            None => return,
        },
    };
    if let Some((is_whole, is_written)) = file {
        if is_written {
            return;
        }
        if count == 0 && offset == content.len() as u64 {
            *is_whole = true;
        }
    }
    let mut left = count as usize;
    let mut place = offset as usize;
    for blob in whole.blobs().filter(|blob| blob.tag == Tag::Memory) {
        let piece = &blob.data[..blob.data.len().min(left)];
        let end = place + piece.len();
        if content.len() < end {
            if end > READ_BYTES_MAX {
                return;
            }
            content.resize(end, 0);
        }
        content[place..end].copy_from_slice(piece);
        (place, left) = (end, left - piece.len());
    }
}
