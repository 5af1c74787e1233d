//! What a replaying process of a stranger's trace cannot do.
//!
//! The code in such a trace may have been made to leave the runtime's hands, and to make system
//! calls of its own. A process that is confined has no capabilities, no descriptor of the outside
//! but the two streams that are passed on, reads the trace's files, writes in one private folder,
//! reaches no process but those of its replay (Landlock), and makes no system call but those that
//! replay needs (seccomp): none that makes sockets, executes files, traces, or asks for keys.
//!
//! Invariant: what confines is made before the fork, and entered by the child before it runs the
//! first instruction of the runtime; a child that cannot enter ends. Deliberately absent:
//! namespaces, which many machines forbid and which would give nothing that is left here.

mod filter;
mod outlet;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::session_memory::SessionMemory;

use outlet::Outlet;

/// The files that a confined process has.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    /// The directory of the trace's files.
    pub read: &'a Path,
    /// Files that the trace only refers to.
    pub referred: &'a [PathBuf],
    /// The folder of what the processes share.
    pub write: &'a Path,
}

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error("this machine's kernel cannot keep a process from {0}")]
    Lacking(&'static str),
    #[error("the rules for files cannot be made: {0}")]
    Rules(#[source] RulesetError),
    #[error("a file of the trace cannot be opened for its rule: {0}")]
    Path(#[source] landlock::PathFdError),
    #[error("the streams of the output cannot be made: {0}")]
    Streams(#[source] io::Error),
}

/// What a child enters. Kept as long as children may be made.
pub struct Confinement {
    rules: OwnedFd,
    filter: Vec<libc::sock_filter>,
    nothing: OwnedFd,
    outlet: Mutex<Outlet>,
    /// The ends to which children write: the outlet has them.
    streams: [i32; 2],
}

/// What this kernel can confine, as a version of Landlock's interface; 0 if it has none.
fn landlock_version() -> u32 {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: the call reads no memory, and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// What of confining this kernel lacks; `None` if nothing.
pub fn confinement_lacks() -> Option<&'static str> {
    /// The first version that keeps signals inside.
    const WITH_SIGNALS: u32 = 6;
    match landlock_version() {
        0 => Some("files (Landlock, from Linux 5.13 on, and `landlock` among the kernel's lsm=)"),
        version if version < WITH_SIGNALS => {
            Some("other processes (Landlock keeps signals inside from Linux 6.12 on)")
        }
        _ => None,
    }
}

impl Confinement {
    /// Makes what children enter.
    ///
    /// # Errors
    /// [`ConfinementError`]: then nothing of the trace may run.
    pub fn new(reach: &Reach) -> Result<Confinement, ConfinementError> {
        if let Some(lacking) = confinement_lacks() {
            return Err(ConfinementError::Lacking(lacking));
        }
        let rules = rules().map_err(ConfinementError::Rules)?;
        let rules = [
            (reach.read, reading()),
            // The runtime reads its mappings there. What is asked of processes outside of the
            // domain, but for what everybody may see, is refused as tracing them is.
            (Path::new("/proc"), reading()),
            (reach.write, writing()),
        ]
        .into_iter()
        .chain(reach.referred.iter().map(|path| (path.as_path(), AccessFs::ReadFile.into())))
        .try_fold(rules, |rules, (path, access)| {
            let path = PathFd::new(path).map_err(ConfinementError::Path)?;
            rules.add_rule(PathBeneath::new(path, access)).map_err(ConfinementError::Rules)
        })?;
        let rules: Option<OwnedFd> = rules.into();
        let rules = rules.ok_or(ConfinementError::Lacking("files (Landlock, from Linux 5.13 on)"))?;
        let nothing = std::fs::File::open("/dev/null").map_err(ConfinementError::Streams)?;
        let outlet = Outlet::new().map_err(ConfinementError::Streams)?;
        let streams = outlet.ends();
        let filter = filter::program();
        Ok(Confinement { rules, filter, nothing: nothing.into(), outlet: Mutex::new(outlet), streams })
    }

    /// Enters, in the child; false if a part of it fails.
    ///
    /// # Safety
    /// The caller is the only thread of a process that goes on with nothing of its parent. Only
    /// system calls are made, and nothing is allocated.
    pub(crate) unsafe fn enter(&self) -> bool {
        /// `struct __user_cap_header_struct` of version 3, for the calling thread.
        const HEADER: [u32; 2] = [0x2008_0522, 0];
        const NONE: [u32; 6] = [0; 6];
        let program =
            libc::sock_fprog { len: self.filter.len() as u16, filter: self.filter.as_ptr().cast_mut() };
        // SAFETY: the descriptors are the parent's, of which this process has copies; what is
        // pointed to lives for the calls.
        unsafe {
            let streams = [self.nothing.as_raw_fd(), self.streams[0], self.streams[1]];
            for (number, stream) in streams.into_iter().enumerate() {
                if libc::dup2(stream, number as i32) < 0 {
                    return false;
                }
            }
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_landlock_restrict_self, self.rules.as_raw_fd(), 0u32) == 0
                && libc::syscall(libc::SYS_capset, HEADER.as_ptr(), NONE.as_ptr()) == 0
                && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program)
                    == 0
        }
    }
}

impl SessionMemory {
    /// Lets all processes that replay from now on enter it.
    pub fn confine(&self, confinement: Confinement) {
        let is_first = self.confinement.set(confinement).is_ok();
        assert!(is_first, "a session is confined once");
    }

    /// Returns when all that confined processes wrote is passed on. None is made any more.
    pub fn finish_outputs(&self) {
        if let Some(confinement) = self.confinement.get() {
            confinement.outlet.lock().unwrap_or_else(PoisonError::into_inner).finish();
        }
    }
}

/// Rules that allow nothing yet. What the first and the sixth version of the interface know has to
/// be refused; what later ones know is where it can be.
fn rules() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// Plain files only, and none that could be executed.
fn writing() -> BitFlags<AccessFs> {
    reading() | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile
}
