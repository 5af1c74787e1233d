//! The mounts of a sandbox, in the order in which they have to be made.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::written::{LAYERS, OVER};
use super::{Placed, SandboxError, SandboxPlan, check, while_doing};

/// Devices that do nothing outside.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "pts"];

/// Makes the world inside.
pub(super) fn make(plan: &SandboxPlan) -> Result<(), SandboxError> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, "")
        .map_err(while_doing("make the mounts private"))?;
    // Copies of what stays as it is, taken before all is made read-only.
    let outside: Vec<(PathBuf, OwnedFd)> =
        plan.outside.iter().map(|path| Ok((path.clone(), copy_of(path)?))).collect::<Result<_, _>>()?;
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .into_iter()
        .filter_map(|name| Some((name, copy_of(&Path::new("/dev").join(name)).ok()?)))
        .collect();
    make_read_only(Path::new("/")).map_err(while_doing("make the tree read-only"))?;
    make_devices(devices)?;
    mount(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), libc::MS_NOSUID | libc::MS_NODEV, "")
        .map_err(while_doing("mount /proc"))?;
    // Knobs of the whole machine, which root may turn by its user id alone.
    for knobs in ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"] {
        let knobs = Path::new(knobs);
        if knobs.exists() {
            mount(Some(knobs), knobs, None, libc::MS_BIND | libc::MS_REC, "")
                .and_then(|()| make_read_only(knobs))
                .map_err(while_doing(format!("protect {}", knobs.display())))?;
        }
    }
    // Sockets of services that would answer.
    for sockets in ["/run", "/var/run"] {
        let sockets = Path::new(sockets);
        if sockets.is_dir() && !sockets.is_symlink() {
            mount(Some(Path::new("run")), sockets, Some("tmpfs"), libc::MS_NOSUID, "mode=755")
                .map_err(while_doing("empty /run"))?;
        }
    }
    for (number, directory) in layers(plan).into_iter().enumerate() {
        add_layer(&directory, number)?;
    }
    for (path, copy) in outside {
        move_to(&copy, &path).map_err(while_doing(format!("bring {} in", path.display())))?;
    }
    plan.placed.iter().try_for_each(place)?;
    for path in plan.absent.iter().filter(|path| path.is_file()) {
        fs::remove_file(path).map_err(while_doing(format!("leave {} out", path.display())))?;
    }
    // The directory that this process stands in may lie below a new mount.
    if let Ok(here) = std::env::current_dir() {
        let _ = std::env::set_current_dir(here);
    }
    Ok(())
}

/// The directories that get a layer: those of the plan, and those that files come back to.
/// None lies below another.
fn layers(plan: &SandboxPlan) -> Vec<PathBuf> {
    let missing = plan.placed.iter().filter(|placed| !placed.at.exists());
    let above = missing.filter_map(|placed| placed.at.ancestors().find(|path| path.is_dir()));
    let wanted = plan.layered.iter().map(PathBuf::as_path).chain(above);
    let mut real: Vec<PathBuf> = wanted.filter_map(|path| path.canonicalize().ok()).collect();
    real.retain(|path| path.is_dir() && path.parent().is_some() && !path.starts_with("/dev"));
    real.sort();
    real.dedup();
    let all = real.clone();
    real.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    real
}

fn add_layer(directory: &Path, number: usize) -> Result<(), SandboxError> {
    let base = format!("{LAYERS}/{number}");
    let lower = format!("{base}/lower");
    let failed = || format!("lay a layer over {}", directory.display());
    for name in ["upper", "work", "lower"] {
        fs::create_dir_all(format!("{base}/{name}")).map_err(while_doing(failed()))?;
    }
    std::os::unix::fs::symlink(directory, format!("{base}/{OVER}")).map_err(while_doing(failed()))?;
    // By a path of its own, since options have no way to write a comma or a colon.
    mount(Some(directory), Path::new(&lower), None, libc::MS_BIND, "").map_err(while_doing(failed()))?;
    if let Ok(rights) = fs::metadata(directory) {
        let _ = fs::set_permissions(format!("{base}/upper"), rights.permissions());
    }
    let options = format!("lowerdir={lower},upperdir={base}/upper,workdir={base}/work,userxattr");
    mount(Some(Path::new("overlay")), directory, Some("overlay"), 0, &options).map_err(while_doing(failed()))
}

fn place(placed: &Placed) -> Result<(), SandboxError> {
    let failed = || format!("put {} where it was", placed.at.display());
    let (target, is_new) = match placed.at.canonicalize() {
        Ok(real) => (real, false),
        Err(_) => (placed.at.clone(), true),
    };
    if is_new && let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(while_doing(failed()))?;
    }
    let written = fs::write(&target, &placed.content);
    if written.is_err() && !is_new {
        // The tree is read-only there: a file in memory stands in front of it.
        let placeholder = PathBuf::from(format!("{LAYERS}/{}", blob_name(&target)));
        fs::write(&placeholder, &placed.content).map_err(while_doing(failed()))?;
        let _ = fs::set_permissions(&placeholder, fs::Permissions::from_mode(placed.mode & 0o777));
        return mount(Some(&placeholder), &target, None, libc::MS_BIND, "").map_err(while_doing(failed()));
    }
    written.map_err(while_doing(failed()))?;
    let _ = fs::set_permissions(&target, fs::Permissions::from_mode(placed.mode & 0o777));
    Ok(())
}

fn blob_name(path: &Path) -> String {
    let hex = path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}"));
    // A name is no longer than 255 bytes; the end of a path tells most.
    let name: String = hex.collect();
    format!("file-{}", &name[name.len().saturating_sub(200)..])
}

fn make_devices(devices: Vec<(&str, OwnedFd)>) -> Result<(), SandboxError> {
    let failed = |what: &str| while_doing(format!("make /dev/{what}"));
    mount(Some(Path::new("dev")), Path::new("/dev"), Some("tmpfs"), libc::MS_NOSUID, "mode=755")
        .map_err(failed(""))?;
    for (name, copy) in devices {
        let at = Path::new("/dev").join(name);
        let made = if name == "pts" { fs::create_dir(&at) } else { fs::write(&at, "") };
        made.and_then(|()| move_to(&copy, &at)).map_err(failed(name))?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, Path::new("/dev").join(link)).map_err(failed(link))?;
    }
    for name in ["shm", ".layers"] {
        fs::create_dir(Path::new("/dev").join(name)).map_err(failed(name))?;
    }
    let everybody = fs::Permissions::from_mode(0o1777);
    fs::set_permissions("/dev/shm", everybody).map_err(failed("shm"))
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn mount(from: Option<&Path>, at: &Path, kind: Option<&str>, flags: u64, options: &str) -> io::Result<()> {
    let from = from.map(c_string).transpose()?;
    let at = c_string(at)?;
    let kind = kind.map(|kind| c_string(Path::new(kind))).transpose()?;
    let options = c_string(Path::new(options))?;
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: all texts live for the whole call, and end with a zero.
    check(unsafe { libc::mount(pointer(&from), at.as_ptr(), pointer(&kind), flags, options.as_ptr().cast()) })
        .map(drop)
}

/// A copy of a mount that no directory shows yet.
fn copy_of(path: &Path) -> Result<OwnedFd, SandboxError> {
    const OPEN_TREE_CLONE: i32 = 1;
    let text = c_string(path).map_err(while_doing(format!("look at {}", path.display())))?;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE;
    // SAFETY: the path lives for the whole call; the descriptor is owned at once.
    unsafe {
        let fd = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, text.as_ptr(), flags) as i32;
        let fd = check(fd).map_err(while_doing(format!("copy the mount of {}", path.display())))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn move_to(copy: &OwnedFd, path: &Path) -> io::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
    let path = c_string(path)?;
    // SAFETY: the paths live for the whole call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            copy.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    check(result as i32).map(drop)
}

fn make_read_only(path: &Path) -> io::Result<()> {
    let path = c_string(path)?;
    // `struct mount_attr`: what is set, what is cleared, propagation, user namespace.
    let attributes = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0u64];
    // SAFETY: the structure and the path live for the whole call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    check(result as i32).map(drop)
}
