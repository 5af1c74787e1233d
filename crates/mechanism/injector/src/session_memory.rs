//! The memory that the supervisor and all processes of a session share.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lane_protocol::{
    Detection, FILE_BYTES, FILE_RECIPES, FILE_SESSION, FILES_MAX, FORCED_MAX, ForcedSwitch, Interception,
    Mode, OutsideFiles, RECIPES_BYTES, RECOVER_WAYS_MAX, RealStreams, Recipe, SEGMENT_BYTES, SEGMENTS,
    SESSION_MAGIC, Session, lane_state, segment_offset,
};

use crate::confinement::Confinement;
use crate::error::InjectError;
use crate::files::FileSlot;
use crate::image::runtime_image;
use crate::lane::{Lane, Segment};
use crate::limits::FileSizeLimit;
use crate::prepared_memory::{self, PreparedMemory};
use crate::process::unnamed_file;
use crate::runtime_log;
use crate::session_file::SessionFile;
use crate::standard_files::{offset_of, standard_file};

/// What this machine offers to interception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Syscall user dispatch (Linux 5.11) works.
    pub user_dispatch: bool,
    /// Seccomp filters that trap work.
    pub seccomp_trap: bool,
    /// `/proc` is mounted and shows this process's namespace.
    pub has_proc: bool,
    /// cpuid can be made to fault.
    pub cpuid_faulting: bool,
    /// `/proc/sys/kernel/yama/ptrace_scope`; 0 without Yama.
    pub yama_scope: u32,
}

/// What a live session's processes do by themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveSetup {
    /// A `crash_policy`.
    pub on_crash: u32,
    /// How often they may go back instead of dying.
    pub recoveries_max: u32,
    /// Signals from outside at which their past is saved, a bit each.
    pub saved_signals: u64,
    /// How they then go on: each a `recover_way`.
    pub recover_ways: [u32; RECOVER_WAYS_MAX],
    /// A `checkpoint_way`.
    pub checkpoint_way: u32,
    /// A `files_policy`.
    pub files_policy: u32,
    /// A `sharing_policy`.
    pub sharing_policy: u32,
}

/// What is decided before a session begins.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    pub mode: Mode,
    pub interception: Interception,
    pub features: Features,
    /// Checksum memory every so many events; 0: never.
    pub check_every_events: u32,
    pub rewriting_off: bool,
    pub detection: Detection,
    /// Described calls are treated as if nobody had described them.
    pub detect_all: bool,
    /// Recording: the seed of chaos; `None`: no chaos.
    pub chaos_seed: Option<u64>,
    /// Recording: threads are switched only where they wait, and where this says.
    pub schedule: Option<Vec<ForcedSwitch>>,
    /// Recording: of some files only a digest is kept, so that each that is read is asked for.
    pub refers: bool,
    /// Recording: processes can go back in time.
    pub live: Option<LiveSetup>,
    /// Live: the process that is boarded; `None`: one is started, with our descriptors.
    pub running: Option<i32>,
    /// Replay: the folder of kept files, absolute.
    pub files_dir: Option<&'a Path>,
    /// Replay: a private folder for files that stand for shared memory.
    pub objects_dir: Option<&'a Path>,
    /// Replay: some streams are real.
    pub real: RealStreams,
    /// Replay: outputs are shown.
    pub show_output: bool,
    /// Replay: lanes to follow; `None`: all.
    pub wanted_lanes: Option<&'a [u32]>,
    /// Replay: the lane that the debugger has; `None`: none.
    pub debugged_lane: Option<u32>,
}

/// Where a session's memory is.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// In a memfd of its own.
    Memory,
    /// In a file that must not exist, if the file system there bears it, so that the memory outlives
    /// all processes; else in a memfd.
    File(&'a Path),
    /// In one that has the image already, and that no other session has.
    Prepared(&'a PreparedMemory),
}

/// How many segments are mapped: as many as a limit on address space permits.
const SEGMENTS_WANTED: [usize; 4] = [SEGMENTS, 1024, 256, 64];

/// The mapping of a session's memfd, and the memfd.
pub struct SessionMemory {
    base: NonNull<u8>,
    memfd: OwnedFd,
    text_bytes: u64,
    /// Bytes that are mapped: fewer than FILE_BYTES where address space is limited.
    bytes: u64,
    file_size_limit: FileSizeLimit,
    /// First free place in the area of recipes.
    next_recipe: AtomicU32,
    /// Where the memory is a file with a name.
    file: Option<PathBuf>,
    /// What replaying processes enter; empty: nothing.
    pub(crate) confinement: OnceLock<Confinement>,
}

// SAFETY: the mapping belongs to no thread; what is shared in it is accessed
// through atomics, or written by one side before it is announced by an atomic.
unsafe impl Send for SessionMemory {}
// SAFETY: as above.
unsafe impl Sync for SessionMemory {}

/// A seed as the session's header has it, where 0 says that there is no chaos.
fn chaos_word(seed: u64) -> u64 {
    const SEED_FOR_ZERO: u64 = 0x9e37_79b9_7f4a_7c15;
    if seed == 0 { SEED_FOR_ZERO } else { seed }
}

impl Features {
    /// Asks the kernel, without changing anything.
    pub fn probe() -> Features {
        const ARCH_SET_CPUID: libc::c_int = 0x1012;
        const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
        const SECCOMP_GET_ACTION_AVAIL: libc::c_ulong = 2;
        let trap: u32 = libc::SECCOMP_RET_TRAP;
        // SAFETY: the calls ask, or set what is set already: dispatch off, cpuid permitted.
        let (seccomp, dispatch, cpuid) = unsafe {
            (
                libc::syscall(libc::SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &raw const trap),
                libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0),
                libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, 1),
            )
        };
        let yama_scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        let own = std::fs::read_link("/proc/self").ok();
        let has_proc = own.is_some_and(|own| own.to_string_lossy() == std::process::id().to_string());
        Features {
            has_proc,
            user_dispatch: dispatch == 0,
            seccomp_trap: seccomp == 0,
            cpuid_faulting: cpuid == 0,
            yama_scope,
        }
    }
}

impl SessionMemory {
    /// Makes the memory, loads the runtime's image, and fills the header.
    ///
    /// # Errors
    /// [`InjectError::Memory`] when memory is short, [`InjectError::RuntimeImage`]
    /// when this executable was built wrongly.
    pub fn create(setup: &Setup) -> Result<SessionMemory, InjectError> {
        Self::create_in(setup, Place::Memory)
    }

    /// The same elsewhere.
    ///
    /// # Errors
    /// As above.
    pub fn create_in(setup: &Setup, place: Place) -> Result<SessionMemory, InjectError> {
        let file_size_limit = FileSizeLimit::raise();
        // Whoever runs the program without us runs it under the limit that was.
        Self::create_under(setup, place, file_size_limit).inspect_err(|_| file_size_limit.restore())
    }

    fn create_under(
        setup: &Setup,
        place: Place,
        file_size_limit: FileSizeLimit,
    ) -> Result<SessionMemory, InjectError> {
        let image = runtime_image()?;
        let file = match place {
            Place::File(path) => SessionFile::create(path, &image).map(|file| (file, path)),
            Place::Memory | Place::Prepared(_) => None,
        };
        let path = file.as_ref().map(|(_, path)| path.to_path_buf());
        let fd = match (file, place) {
            (None, Place::Prepared(prepared)) => prepared.memfd().map_err(InjectError::Memory)?,
            (file, _) => {
                let file = match file {
                    Some((file, _)) => file,
                    None => unnamed_file(c"retrovane").map_err(InjectError::Memory)?,
                };
                prepared_memory::load(&file, &image).map_err(InjectError::Memory)?;
                file.into()
            }
        };
        let mut memory = Self::map(fd, file_size_limit).map_err(InjectError::Memory)?;
        memory.text_bytes = image.text_bytes;
        if path.is_some() {
            memory.read_no_more_than_is_touched();
        }
        memory.file = path;
        memory.fill_header(setup);
        Ok(memory)
    }

    /// Maps the session's file, which gets its length.
    pub(crate) fn map(memfd: OwnedFd, file_size_limit: FileSizeLimit) -> io::Result<SessionMemory> {
        // SAFETY: only the length of the file is set.
        unsafe {
            if libc::ftruncate(memfd.as_raw_fd(), FILE_BYTES as libc::off_t) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let mut error = io::Error::last_os_error();
        for segments in SEGMENTS_WANTED {
            let bytes = segment_offset(segments as u64);
            // SAFETY: a new mapping at a place of the kernel's choice, of a file
            // that is at least as long.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    memfd.as_raw_fd(),
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                error = io::Error::last_os_error();
                continue;
            }
            let base = NonNull::new(base.cast()).expect("mmap without MAP_FIXED does not return 0");
            let next_recipe = AtomicU32::new(0);
            let (text_bytes, file, confinement) = (0, None, OnceLock::new());
            return Ok(SessionMemory {
                base,
                memfd,
                text_bytes,
                bytes,
                file_size_limit,
                next_recipe,
                file,
                confinement,
            });
        }
        Err(error)
    }

    fn fill_header(&mut self, setup: &Setup) {
        // SAFETY: the header lies at its offset, aligned to a page and zeroed, which
        // is valid for all its fields; nobody else has a reference to it yet.
        let session = unsafe { &mut *self.at(FILE_SESSION).cast::<Session>() };
        session.magic = SESSION_MAGIC;
        runtime_log::begin(session);
        session.mode = setup.mode as u32;
        session.has_file = u32::from(self.file.is_some());
        session.interception = setup.interception as u32;
        session.supervisor_pid = std::process::id() as i32;
        session.control_fd.store(-1, Ordering::Relaxed);
        session.cpuid_faulting = u32::from(setup.features.cpuid_faulting);
        const HWCAP2_FSGSBASE: libc::c_ulong = 2;
        // SAFETY: it only reads what the kernel told this process at its start.
        session.reads_gs_base = u32::from(unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0);
        session.yama = u32::from(setup.features.yama_scope != 0);
        session.check_every_events = setup.check_every_events;
        session.rewriting_off = u32::from(setup.rewriting_off);
        session.detection = setup.detection as u32;
        session.detect_all = u32::from(setup.detect_all);
        session.chaos_seed = setup.chaos_seed.map_or(0, chaos_word);
        if let Some(schedule) = &setup.schedule {
            session.is_scheduled = 1;
            session.chaos_seed = chaos_word(setup.chaos_seed.unwrap_or(0));
            session.forced_count = schedule.len().min(FORCED_MAX) as u32;
            for (place, forced) in session.forced.iter_mut().zip(schedule) {
                *place = *forced;
            }
        }
        session.refers = u32::from(setup.refers);
        session.live = u32::from(setup.live.is_some());
        let live = setup.live.unwrap_or_default();
        session.on_crash = live.on_crash;
        session.recoveries_max = live.recoveries_max;
        session.saved_signals = live.saved_signals;
        session.recover_ways = live.recover_ways;
        session.checkpoint_way = live.checkpoint_way;
        session.files_policy = live.files_policy;
        session.sharing_policy = live.sharing_policy;
        session.next_lane.store(1, Ordering::Relaxed);
        session.debugged_lane = setup.debugged_lane.map_or(0, |lane| lane + 1);
        session.is_real = setup.real as u32;
        session.show_output = u32::from(setup.show_output);
        session.output_fds = [1, 2];
        session.standard_files = [0, 1, 2].map(|fd| standard_file(setup.running, fd));
        for (places, fd) in session.output_places.iter_mut().zip(1..) {
            *places.base.get_mut() = offset_of(setup.running, fd);
        }
        session.files_dir_bytes = put_path(&mut session.files_dir, setup.files_dir);
        session.objects_dir_bytes = put_path(&mut session.objects_dir, setup.objects_dir);
        if let Some(lanes) = setup.wanted_lanes {
            session.lane_filter = 1;
            session.shown_lane = lanes.first().copied().unwrap_or(0);
            for lane in lanes {
                if let Some(word) = session.wanted_lanes.get_mut(*lane as usize / 64) {
                    *word |= 1 << (lane % 64);
                }
            }
        }
        // What is not mapped here is in use for ever.
        for word in &session.segments[self.segments() / 64..] {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        session.segments[0].store(1, Ordering::Relaxed);
        session.segments_with_room[0].store(1, Ordering::Relaxed);
        let first = self.lane(Segment::FIRST);
        first.set_lane(0, u32::MAX);
        first.state().store(lane_state::LIVE, Ordering::Release);
    }

    /// Where all of it is mapped here, and its bytes.
    pub(crate) fn mapping(&self) -> (*mut libc::c_void, usize) {
        (self.base.as_ptr().cast(), self.bytes as usize)
    }

    /// Gives this process the limits back that were raised for the session.
    pub fn restore_limits(&self) {
        self.file_size_limit.restore();
    }

    /// The session's file, if it has a name.
    pub(crate) fn file_path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn set_file(&mut self, path: &Path) {
        self.file = Some(path.to_owned());
    }

    fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.bytes);
        // SAFETY: callers pass offsets inside of the mapping.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Segments that are mapped.
    pub(crate) fn segments(&self) -> usize {
        ((self.bytes - segment_offset(0)) / SEGMENT_BYTES) as usize
    }

    pub(crate) fn file_size_limit(&self) -> FileSizeLimit {
        self.file_size_limit
    }

    pub(crate) fn session(&self) -> *mut Session {
        self.at(FILE_SESSION).cast()
    }

    /// True if processes are intercepted by a filter, which they cannot get rid of.
    pub(crate) fn is_filtered(&self) -> bool {
        // SAFETY: the header is mapped as long as `self`; the field does not change.
        unsafe { (*self.session()).interception == Interception::Seccomp as u32 }
    }

    /// True if somebody debugs a process of the session: it may stand for as long as they like.
    pub fn is_debugged(&self) -> bool {
        // SAFETY: the session is mapped; this was set before its first process began.
        unsafe { (*self.session()).debugged_lane != 0 }
    }

    pub(crate) fn memfd(&self) -> &OwnedFd {
        &self.memfd
    }

    /// Bytes of the runtime's code and constants, whole pages.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// The lane in a segment.
    pub fn lane(&self, segment: Segment) -> Lane<'_> {
        let start = self.at(segment_offset(segment.index() as u64));
        // SAFETY: the segment is inside of the mapping (its index is bounded) and
        // stays mapped as long as the borrow of `self`.
        unsafe { Lane::new(start) }
    }

    /// A slot of the table of kept files; `None` beyond its end.
    pub fn file(&self, slot: usize) -> Option<FileSlot<'_>> {
        if slot >= FILES_MAX {
            return None;
        }
        // SAFETY: the slot is inside of the table, in the mapping that `self` keeps.
        Some(unsafe { FileSlot::new(&raw mut (*self.session()).files[slot]) })
    }

    /// Announces the recipes of a file's sites. They go into the area of recipes;
    /// where that is full, the file has none and its sites go on trapping.
    /// `complete`: no other site of the file reads time.
    pub fn announce_recipes(&self, slot: u32, recipes: &[Recipe], complete: bool) {
        let Some(file) = self.file(slot as usize) else { return };
        let count = recipes.len() as u32;
        let first = self.next_recipe.fetch_add(count, Ordering::Relaxed);
        let size = size_of::<Recipe>() as u64;
        let start = u64::from(first) * size;
        let bytes = u64::from(count) * size;
        if start + bytes > RECIPES_BYTES || !self.reserve(FILE_RECIPES + start, bytes) {
            file.set_recipes(0, 0, false);
            return;
        }
        // SAFETY: the range was just checked; it was given out once, and nobody
        // reads it before the file's `recipes_ready` announces it.
        unsafe {
            let to = self.at(FILE_RECIPES + start).cast::<Recipe>();
            std::ptr::copy_nonoverlapping(recipes.as_ptr(), to, recipes.len());
        }
        file.set_recipes(first, count, complete);
    }
}

/// Accessors of the header's atomics.
macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl SessionMemory {
            $($(#[$doc])*
            pub fn $name(&self) -> &$type {
                // SAFETY: the session's header is mapped as long as `self`; atomics may be shared.
                unsafe { &(*self.session()).$name }
            })*
        }
    };
}

atomics! {
    /// See [`Session::stop`].
    stop: AtomicU32;
    /// See [`Session::doorbell`].
    doorbell: AtomicU32;
    /// See [`Session::attach_doorbell`].
    attach_doorbell: AtomicU32;
    /// See [`Session::outside_files`].
    outside_files: OutsideFiles;
    /// See [`Session::keep_doorbell`].
    keep_doorbell: AtomicU32;
    /// See [`Session::life_is_locked`].
    life_is_locked: AtomicU32;
    /// See [`Session::next_lane`].
    next_lane: AtomicU32;
    /// See [`Session::joining`].
    joining: AtomicU32;
    /// See [`Session::output_order`].
    output_order: AtomicU64;
    /// See [`Session::output_wake`].
    output_wake: AtomicU32;
    /// See [`Session::outputs_misplaced`].
    outputs_misplaced: AtomicU32;
    /// See [`Session::lab`].
    lab: lane_protocol::Lab;
    /// See [`Session::imports`].
    imports: lane_protocol::Imports;
    /// See [`Session::control_fd`].
    control_fd: std::sync::atomic::AtomicI32;
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`; all borrows of it ended with `self`.
        unsafe {
            runtime_log::end(self.session());
            libc::munmap(self.base.as_ptr().cast(), self.bytes as usize);
        }
    }
}

/// Writes a path, and gives its length in bytes.
fn put_path(to: &mut [u8], path: Option<&Path>) -> u32 {
    let bytes = path.map_or(&[][..], |path| path.as_os_str().as_encoded_bytes());
    let len_bytes = bytes.len().min(to.len() - 1);
    to[..len_bytes].copy_from_slice(&bytes[..len_bytes]);
    len_bytes as u32
}
