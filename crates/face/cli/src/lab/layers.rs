//! Files of a node: over the machine's files lies a layer of what the node changed, for each directory below which nothing
//! is mounted (overlayfs). The node sees its own changes, and nobody else does.
//!
//! A layer is kept in the run's folder, in `layers/NODE`, as the tree of what was changed. Each future of a run has
//! folders of its own, so what lies there goes back with the lab.
//!
//! Deliberately absent: layers of what is not on a disk (/proc, /sys, /dev). /dev/shm is a new one for each node.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// In the run's folder: what nodes changed, and what the kernel needs beside it.
const LAYERS: &str = "layers";
const WORK: &str = "layers/.work";
/// What the kernel gives as if it were files.
const NOT_FILES: [&str; 4] = ["/proc", "/sys", "/dev", super::own::FOLDER];
/// The same by kinds of file systems.
const KINDS_WITHOUT_FILES: [&str; 19] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];
const MEMORY: &str = "/dev/shm";

/// A layer's device, and that of what it lies on.
pub type Devices = [u64; 2];

/// Where something is mounted, and of which kind it is.
fn mounts() -> BTreeMap<PathBuf, String> {
    // The path comes fifth; the kind behind a dash (proc_pid_mountinfo(5)).
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.split(|&byte| byte == b'\n');
    let parsed = lines.filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let at = PathBuf::from(std::ffi::OsString::from_vec(unescaped(fields.nth(4)?)));
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some((at, String::from_utf8_lossy(kind).into_owned()))
    });
    parsed.collect()
}

/// Blanks and the like are written as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let [first, more @ ..] = rest {
        let code = more.get(..3).and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        let code = code.filter(|_| *first == b'\\');
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[3..] } else { more };
    }
    bytes
}

/// The largest directories that have no mount below them, of files.
fn directories(from: &Path, mounts: &BTreeMap<PathBuf, String>, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(from).into_iter().flatten().flatten();
    let mut children: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    children.sort();
    for child in children {
        let is_of_kernel =
            mounts.get(&child).is_some_and(|kind| KINDS_WITHOUT_FILES.contains(&kind.as_str()));
        if is_of_kernel || NOT_FILES.iter().any(|name| child == Path::new(name)) {
            continue;
        }
        match mounts.keys().any(|at| at != &child && at.starts_with(&child)) {
            true => directories(&child, mounts, found),
            false => found.push(child),
        }
    }
}

/// The run's folder, as it is outside of all layers.
pub struct Outside {
    tree: OwnedFd,
    folder: File,
}

impl Outside {
    pub fn of(dir: &Path) -> Result<Outside, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        let folder = File::open(dir).map_err(failed)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, dir, flags).map_err(|error| failed(error.into()))?;
        Ok(Outside { tree, folder })
    }

    /// By a descriptor: its own path may lead through a layer.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }

    /// From here on the folder's path leads to it again.
    pub fn bring_in(&self, dir: &Path) -> Result<(), String> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.tree, c"", CWD, dir, flags).map_err(|error| format!("{}: {error}", dir.display()))
    }
}

fn make_dir(dir: &Path) -> Result<(), Errno> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// Lays a layer over each directory of the machine's, in the calling process's mount namespace; `node`: the
/// node's name.
///
/// # Errors
/// That of the first layer that the kernel refuses; some may be there already, which do no harm.
pub fn lay(outside: &Outside, node: &str) -> Result<Vec<Devices>, Errno> {
    let dir = outside.path();
    let mut found = Vec::new();
    directories(Path::new("/"), &mounts(), &mut found);
    let is_root = is_machines_root();
    let mut devices = Vec::new();
    for (number, directory) in found.iter().enumerate() {
        let upper = dir.join(LAYERS).join(node).join(directory.strip_prefix("/").unwrap_or(directory));
        let work = dir.join(WORK).join(node).join(number.to_string());
        make_dir(&upper)?;
        make_dir(&work)?;
        devices.push(lay_one(directory, &upper, &work, is_root)?);
    }
    if Path::new(MEMORY).is_dir() {
        let before = device_of(MEMORY.as_ref())?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("shm"), MEMORY, Some("tmpfs"), flags, Some("mode=1777"))?;
        devices.push([device_of(MEMORY.as_ref())?, before]);
    }
    Ok(devices)
}

/// True for the machine's root, false for that of a namespace.
fn is_machines_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether there could be layers, tried in the mount namespace of this process.
pub fn try_in(dir: &Path) -> bool {
    let nothing: Option<&str> = None;
    let is_private = mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).is_ok();
    let tried = || lay(&Outside::of(dir).ok()?, "node").ok();
    is_private && tried().is_some()
}

pub fn device_of(path: &Path) -> Result<u64, Errno> {
    let found = fs::metadata(path);
    found.map(|found| found.dev()).map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

fn lay_one(directory: &Path, upper: &Path, work: &Path, is_root: bool) -> Result<Devices, Errno> {
    let below = device_of(directory)?;
    if let Ok(found) = fs::metadata(directory) {
        // Who may not give it away lays it as who it is.
        let _ = std::os::unix::fs::chown(upper, Some(found.uid()), Some(found.gid()));
        let _ = fs::set_permissions(upper, Permissions::from_mode(found.mode() & 0o7777));
    }
    let mut options = Vec::new();
    for (name, path) in [("lowerdir", directory), ("upperdir", upper), ("workdir", work)] {
        if !options.is_empty() {
            options.push(b',');
        }
        options.extend(name.bytes().chain([b'=']));
        for &byte in path.as_os_str().as_bytes() {
            if matches!(byte, b'\\' | b',' | b':') {
                options.push(b'\\');
            }
            options.push(byte);
        }
    }
    // Of directories that are renamed only root can say where they were; nothing of a layer outlives a run.
    options.extend(if is_root { &b",redirect_dir=on"[..] } else { b",userxattr" });
    let options = std::ffi::OsStr::from_bytes(&options);
    mount(Some("overlay"), directory, Some("overlay"), MsFlags::empty(), Some(options))?;
    Ok([device_of(directory)?, below])
}

/// Puts a file of the lab's in place of the machine's: one of the node's own.
pub fn place(file: &Path, at: &Path) -> std::io::Result<()> {
    let early = at.with_extension("lab");
    fs::copy(file, &early)?;
    fs::set_permissions(&early, Permissions::from_mode(0o644))?;
    fs::rename(early, at)
}

/// Removes what the kernel needed of layers that are mounted no more, and directories in which nothing was changed.
pub fn tidy(dir: &Path) {
    tidy_work(&dir.join(WORK));
    for node in fs::read_dir(dir.join(LAYERS)).into_iter().flatten().flatten() {
        remove_empty(&node.path());
    }
    let _ = fs::remove_dir(dir.join(LAYERS));
}

fn tidy_work(work: &Path) {
    for node in fs::read_dir(work).into_iter().flatten().flatten() {
        for work in fs::read_dir(node.path()).into_iter().flatten().flatten() {
            // The kernel's own, which may not be entered.
            let _ = fs::set_permissions(work.path().join("work"), Permissions::from_mode(0o700));
        }
    }
    // What is left does no harm, and goes with the run's folder.
    let _ = fs::remove_dir_all(work);
}

fn remove_empty(dir: &Path) {
    if fs::remove_dir(dir).is_ok() {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}
