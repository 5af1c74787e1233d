//! What can be asked of the machine without changing it, and without `unsafe`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use injector::Features;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, memfd_create, statvfs};
use rustix::process::{Resource, getrlimit, time_stamp_counter_readability};

use crate::lab::layers;
use crate::lab::own::enter;

/// What was found.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Release of the kernel, and the two numbers that count.
    pub release: String,
    pub version: (u32, u32),
    pub processor: String,
    pub user_dispatch: bool,
    /// The kernel can turn a system call into a signal by a seccomp filter.
    pub seccomp_trap: bool,
    /// A filter of somebody else's is active: we run in a container.
    pub is_filtered: bool,
    pub yama_scope: u32,
    /// The error of an attempt to trace a child.
    pub ptrace_error: Option<Errno>,
    pub shared_memory: bool,
    pub cpuid_faulting: bool,
    pub time_counter_trap: bool,
    /// The error of an attempt to switch the randomisation of addresses off.
    pub layout_error: Option<Errno>,
    /// Asynchronous write protection and PAGEMAP_SCAN, both of Linux 6.7.
    pub write_tracking: bool,
    pub clock_source: String,
    pub home: Option<Space>,
    /// Bytes that a process may lock; `None`: as many as there are.
    pub lockable_bytes: Option<u64>,
    pub hardware_counters: bool,
    /// What the sandbox of replays cannot keep away.
    pub sandbox_lacks: Option<&'static str>,
    /// What nodes of labs can have of their own.
    pub node_files: NodeFiles,
}

/// What a node of a lab has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFiles {
    /// Namespaces, and a layer over all of the machine's files.
    Layers,
    /// Namespaces, and a folder.
    Folder,
    /// There can be no nodes.
    NoNode,
}

/// Space for traces.
#[derive(Debug, Clone)]
pub struct Space {
    pub path: PathBuf,
    pub free_bytes: u64,
    pub is_writable: bool,
}

/// How system calls will be intercepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interception {
    UserDispatch,
    Seccomp,
}

impl Machine {
    /// Asks for everything.
    pub fn probe(home: Option<&Path>) -> Machine {
        let features = Features::probe();
        let release = line_of("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
        let version = version_of(&release);
        let limit = getrlimit(Resource::Memlock).current;
        Machine {
            version,
            release,
            processor: processor(),
            user_dispatch: features.user_dispatch,
            seccomp_trap: line_of("/proc/sys/kernel/seccomp/actions_avail")
                .is_some_and(|actions| actions.split(' ').any(|action| action == "trap")),
            is_filtered: status("Seccomp:").is_some_and(|mode| mode == "2"),
            yama_scope: features.yama_scope,
            ptrace_error: ptrace_error(),
            shared_memory: memfd_create("retrovane-doctor", MemfdFlags::CLOEXEC).is_ok(),
            cpuid_faulting: features.cpuid_faulting,
            time_counter_trap: time_stamp_counter_readability().is_ok(),
            layout_error: layout_error(),
            write_tracking: version >= (6, 7),
            clock_source: line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(|| "unknown".to_owned()),
            home: home.map(space),
            lockable_bytes: limit,
            hardware_counters: Path::new("/sys/bus/event_source/devices/cpu").exists()
                || Path::new("/sys/bus/event_source/devices/cpu_core").exists(),
            sandbox_lacks: injector::confinement_lacks(),
            node_files: node_files(home),
        }
    }

    /// The path that a recording takes.
    pub fn interception(&self) -> Option<Interception> {
        match (self.user_dispatch, self.seccomp_trap) {
            (true, _) => Some(Interception::UserDispatch),
            (false, true) => Some(Interception::Seccomp),
            (false, false) => None,
        }
    }
}

impl Interception {
    /// As traces name it.
    pub fn name(self) -> &'static str {
        match self {
            Interception::UserDispatch => "user-dispatch",
            Interception::Seccomp => "seccomp",
        }
    }

    /// In a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Interception::UserDispatch => "System calls are intercepted by syscall user dispatch.",
            Interception::Seccomp => "System calls are intercepted by a seccomp filter.",
        }
    }
}

fn line_of(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

/// A field of our own status.
fn status(field: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()))
}

/// The first two numbers of a release.
pub fn version_of(release: &str) -> (u32, u32) {
    let mut numbers =
        release.split(|char: char| !char.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    model.unwrap_or("unknown").to_owned()
}

/// Tries to trace a child of ours, which is what a recording does at every execve.
fn ptrace_error() -> Option<Errno> {
    let child =
        Command::new("/proc/self/exe").args(["doctor", "--stand-still"]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return Some(Errno::ECHILD) };
    let pid = i32::try_from(child.id()).map_or(Pid::this(), Pid::from_raw);
    let error = ptrace::seize(pid, ptrace::Options::empty()).err();
    // A traced process that is killed ends like any other.
    let _ = child.kill();
    let _ = child.wait();
    error
}

/// Where layers are tried: where runs are kept, or would be.
fn trial_dir(home: Option<&Path>, pid: u32) -> PathBuf {
    let above = home.and_then(|home| home.ancestors().find(|path| path.is_dir())).map(Path::to_owned);
    above.unwrap_or_else(std::env::temp_dir).join(format!(".doctor-{pid}"))
}

/// Makes namespaces and layers of files like those of a node of a lab, for this process.
pub fn enter_node(home: Option<&Path>) -> NodeFiles {
    let spaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET;
    let dir = trial_dir(home, std::process::id());
    let has_dir = std::fs::create_dir(&dir).is_ok();
    match enter(spaces) {
        Err(_) => NodeFiles::NoNode,
        Ok(()) if has_dir && layers::try_in(&dir) => NodeFiles::Layers,
        Ok(()) => NodeFiles::Folder,
    }
}

/// The same, tried by a process that has one thread.
fn node_files(home: Option<&Path>) -> NodeFiles {
    let mut command = Command::new("/proc/self/exe");
    if let Some(home) = home {
        command.arg("--home").arg(home);
    }
    let Ok(mut child) = command.args(["doctor", "--enter-node"]).spawn() else { return NodeFiles::NoNode };
    let dir = trial_dir(home, child.id());
    let code = child.wait().ok().and_then(|status| status.code());
    layers::tidy(&dir);
    // What is in the way of that is empty, and harmless.
    let _ = std::fs::remove_dir_all(&dir);
    match code {
        Some(0) => NodeFiles::Layers,
        Some(1) => NodeFiles::Folder,
        _ => NodeFiles::NoNode,
    }
}

/// Tries to switch the randomisation of addresses off, and on again.
fn layout_error() -> Option<Errno> {
    let before = match personality::get() {
        Ok(before) => before,
        Err(error) => return Some(error),
    };
    match personality::set(before | Persona::ADDR_NO_RANDOMIZE) {
        Ok(_) => personality::set(before).err(),
        Err(error) => Some(error),
    }
}

/// The space where the directory is, or will be made.
fn space(home: &Path) -> Space {
    let existing = home.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let free_bytes = statvfs(existing).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    let is_writable = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_ok();
    Space { path: home.to_owned(), free_bytes, is_writable }
}
