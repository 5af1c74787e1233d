//! The lab's own programs: the first one, which starts a holder for each node; the holder, which makes
//! the node's namespaces; and the agent, the first process in them, which starts the node's programs. They
//! are recorded with all else, and ask the engine what to do (`injector::lab_call`).

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, ValueEnum};
use injector::lab_call;
use lab::{Action, NodeSpec, Spec, order, output_name};
use lane_protocol::{LAB_COMMAND, LAB_ENDED, LAB_ENTER, LAB_LAYER, LAB_NEXT, LAB_NODE_NEXT};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{getgid, getuid, sethostname};

use crate::exit;
use crate::lab::interfaces;
use crate::lab::kept::{SPEC, read_json};
use crate::lab::layers::{self, Outside};

/// Where a node sees its own folder.
pub const FOLDER: &str = "/mnt";

/// One of the lab's own programs.
///
/// Example: none; `retrovane lab run` starts them.
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct OwnArguments {
    role: Role,
    dir: PathBuf,
    node: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    First,
    Holder,
    Agent,
}

pub fn run(arguments: &OwnArguments) -> ExitCode {
    let done = match arguments.role {
        Role::First => first(&arguments.dir),
        Role::Holder => hold(&arguments.dir, arguments.node),
        Role::Agent => serve(&arguments.dir, arguments.node),
    };
    match done {
        Ok(code) => code,
        Err(reason) => exit::failure(exit::FAILED, &reason),
    }
}

fn start(dir: &Path, role: &str, node: usize) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| format!("retrovane's own path: {error}"))?;
    let mut command = Command::new(own);
    command.args(["lab-own", role]).arg(dir).arg(node.to_string());
    Ok(command)
}

/// An order of the engine's: what, and which.
fn next(number: u64) -> (u64, usize) {
    let word = lab_call(number, [0, 0]) as u64;
    (word >> 32, (word & 0xffff_ffff) as usize)
}

fn first(dir: &Path) -> Result<ExitCode, String> {
    // A terminal's Ctrl-C is for `lab run`, which ends the nodes; it fails where that is so already.
    let _ = nix::unistd::setsid();
    loop {
        match next(LAB_NEXT) {
            (order::START, node) => {
                let holder = start(dir, "holder", node)?.spawn();
                holder.map_err(|error| format!("a node cannot be started: {error}"))?;
            }
            (order::END, _) => return Ok(ExitCode::SUCCESS),
            (what, _) => return Err(format!("the engine gave an order that nobody knows: {what}")),
        }
    }
}

fn read_spec(dir: &Path) -> Result<Spec, String> {
    read_json(&dir.join(SPEC))
}

/// Takes this process into namespaces of its own, where it is root.
pub fn enter(spaces: CloneFlags) -> Result<(), String> {
    let (user, group) = (getuid(), getgid());
    if user.is_root() {
        return unshare(spaces).map_err(|error| format!("namespaces are refused here (unshare: {error})"));
    }
    unshare(spaces | CloneFlags::CLONE_NEWUSER)
        .map_err(|error| format!("user namespaces are refused here (unshare: {error})"))?;
    let write = |name: &str, text: String| {
        std::fs::write(format!("/proc/self/{name}"), text).map_err(|error| format!("{name}: {error}"))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

fn hold(dir: &Path, node: usize) -> Result<ExitCode, String> {
    lab_call(LAB_ENTER, [node as u64, 0]);
    let spec = read_spec(dir)?;
    let name = &spec.nodes[node].name;
    let spaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWPID;
    enter(spaces)?;
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .map_err(|error| format!("mounts cannot be made private: {error}"))?;
    let _other_side = interfaces::make(node, &spec.nodes[node].addresses)?;
    // As the run's folder is outside of the node: pipes are none through a layer, and there are files of others.
    let outside = Outside::of(dir)?;
    let has_layers = lay(&outside, name);
    outside.bring_in(dir)?;
    place_files(dir, has_layers)?;
    // The same path in each run, wherever the run's folder is.
    mount(Some(&dir.join("nodes").join(name)), FOLDER, nothing, MsFlags::MS_BIND, nothing)
        .map_err(|error| format!("{FOLDER} cannot be the node's folder: {error}"))?;
    sethostname(name).map_err(|error| format!("the host's name cannot be set: {error}"))?;
    let status = start(dir, "agent", node)?.status();
    let status = status.map_err(|error| format!("a node's first process cannot be made: {error}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)))
}

/// Lays the node's layers of files; where that is refused it goes without.
fn lay(outside: &Outside, name: &str) -> bool {
    match layers::lay(outside, name) {
        Ok(devices) => {
            for [layer, below] in devices {
                lab_call(LAB_LAYER, [layer, below]);
            }
            true
        }
        Err(error) => {
            lab_call(LAB_LAYER, [0, error as u64]);
            false
        }
    }
}

/// Names of hosts are the lab's.
fn place_files(dir: &Path, has_layers: bool) -> Result<(), String> {
    for (file, place) in [("hosts", "/etc/hosts"), ("resolv.conf", "/etc/resolv.conf")] {
        let (file, place) = (dir.join(file), Path::new(place));
        let is_placed = has_layers && place.starts_with("/etc") && layers::place(&file, place).is_ok();
        if !is_placed && place.exists() {
            let nothing: Option<&str> = None;
            mount(Some(&file), place, nothing, MsFlags::MS_BIND, nothing)
                .map_err(|error| format!("{} cannot be the lab's: {error}", place.display()))?;
        }
    }
    Ok(())
}

fn serve(dir: &Path, node: usize) -> Result<ExitCode, String> {
    let nothing: Option<&str> = None;
    let failed = |error| format!("/proc cannot be the node's own: {error}");
    let before = layers::device_of("/proc".as_ref()).map_err(failed)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), nothing).map_err(failed)?;
    lab_call(LAB_LAYER, [layers::device_of("/proc".as_ref()).map_err(failed)?, before]);
    let spec = read_spec(dir)?;
    let mut main = None;
    let mut commands = BTreeSet::new();
    loop {
        match next(LAB_NODE_NEXT) {
            (order::MAIN, _) => {
                main = spawn(dir, node, &spec.nodes[node], &spec.nodes[node].command);
                if main.is_none() {
                    lab_call(LAB_ENDED, [0, u64::from(exit::NOT_FOUND)]);
                }
            }
            (order::RUN, event) => {
                // It may have come to the description since.
                let spec = read_spec(dir)?;
                if let Some(Action::Run { command, .. }) = spec.events.get(event).map(|event| &event.action) {
                    let pid = spawn(dir, node, &spec.nodes[node], command);
                    // One that cannot be started has no id, and ends at once.
                    lab_call(LAB_COMMAND, [1, pid.unwrap_or(0) as u64 | (event as u64) << 32]);
                    match pid {
                        Some(pid) => _ = commands.insert(pid),
                        None => _ = lab_call(LAB_COMMAND, [0, u64::from(exit::NOT_FOUND) << 32]),
                    }
                }
            }
            (order::LOOK, _) => reap(&mut main, &mut commands),
            (what, _) => return Err(format!("the engine gave an order that nobody knows: {what}")),
        }
    }
}

/// Starts a program of the node's; gives its id.
fn spawn(dir: &Path, node: usize, spec: &NodeSpec, words: &[String]) -> Option<i32> {
    let open = |stream: usize| -> std::io::Result<File> {
        OpenOptions::new().write(true).open(dir.join(output_name(node, stream)))
    };
    let spawned = || -> std::io::Result<i32> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", FOLDER).env("LANG", "C.UTF-8");
        command.envs(&spec.environment).current_dir(FOLDER);
        // As a shell gives each command: where getpgrp(2) is 0, programs do not expect it.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(open(0)?).stderr(open(1)?);
        Ok(command.spawn()?.id() as i32)
    };
    match spawned() {
        Ok(pid) => Some(pid),
        Err(error) => {
            use std::io::Write;
            if let Ok(mut errors) = open(1) {
                // There is nobody else to be told.
                let _ = writeln!(errors, "{} cannot be started: {error}", words[0]);
            }
            None
        }
    }
}

/// Waits for all that have ended, and says so of the node's command and those of events.
fn reap(main: &mut Option<i32>, commands: &mut BTreeSet<i32>) {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        let (pid, code) = match status {
            WaitStatus::Exited(pid, code) => (pid, code),
            WaitStatus::Signaled(pid, signal, _) => (pid, 128 + signal as i32),
            WaitStatus::StillAlive => return,
            _ => continue,
        };
        if Some(pid.as_raw()) == *main {
            *main = None;
            lab_call(LAB_ENDED, [0, code as u64]);
        } else if commands.remove(&pid.as_raw()) {
            lab_call(LAB_COMMAND, [0, pid.as_raw() as u64 | (code as u64) << 32]);
        }
    }
}
