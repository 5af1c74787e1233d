//! The `retrovane` binary under test, and what this machine has.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::TestResult;
use crate::run::{TRACES, User, plain_environment};

/// What is done with each program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Native, recorded, replayed.
    Full,
    /// Natively only: for writing tests before the tool can run them
    /// (`RETROVANE_SUITES=native`).
    Native,
}

/// The tool and how to call it.
#[derive(Clone, Debug)]
pub struct Tool {
    pub binary: PathBuf,
    pub mode: Mode,
    /// What tests of a suite keep of files together.
    kept_files: Option<PathBuf>,
}

impl Tool {
    /// `RETROVANE_BIN`, else the release binary of this workspace.
    pub fn find() -> Tool {
        let mode = match std::env::var("RETROVANE_SUITES").as_deref() {
            Ok("native") => Mode::Native,
            Ok(_) | Err(_) => Mode::Full,
        };
        let binary = match std::env::var_os("RETROVANE_BIN") {
            Some(path) => PathBuf::from(path),
            None => target_directory().join("release/retrovane"),
        };
        Tool { binary, mode, kept_files: None }
    }

    /// A copy of the tool that every user can reach, whatever the permissions
    /// of the directories above the build.
    pub fn reachable_copy(&self, directory: &Path) -> Result<Tool, String> {
        if self.mode == Mode::Native {
            return Ok(self.clone());
        }
        let copy = directory.join("retrovane");
        fs::copy(&self.binary, &copy).map_err(|error| {
            format!(
                "no tool to test at {} ({error}): `cargo build --release` makes it",
                self.binary.display()
            )
        })?;
        let kept_files = directory.join("kept");
        fs::create_dir(&kept_files)
            .map_err(|error| format!("cannot make {}: {error}", kept_files.display()))?;
        Ok(Tool { binary: copy, mode: self.mode, kept_files: Some(kept_files) })
    }

    /// Lets recordings in this home directory find what others of the suite have kept, and what is known of
    /// its code: a library, and the tool itself, is read once by a suite. For whoever runs the tests.
    ///
    /// # Errors
    /// That the directory cannot be written to.
    pub fn share_kept_files(&self, home: &Path) -> TestResult {
        let Some(kept_files) = &self.kept_files else { return Ok(()) };
        let traces = home.join(TRACES);
        let made = fs::create_dir_all(&traces).and_then(|()| symlink(kept_files, traces.join("files")));
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(format!("cannot share kept files in {}: {error}", traces.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// `retrovane ARGS…` as this user.
    pub fn command(&self, user: User, home: &Path, args: &[OsString]) -> Command {
        self.command_behind(&[], user, home, args)
    }

    /// The same, started by the words of a launcher.
    pub fn command_behind(
        &self,
        launcher: &[OsString],
        user: User,
        home: &Path,
        args: &[OsString],
    ) -> Command {
        let own = self.binary.as_os_str();
        let mut words = launcher.iter().map(OsString::as_os_str).chain([own]);
        let mut command = user.command(words.next().unwrap_or(own));
        command.args(words).args(args);
        plain_environment(&mut command, home);
        command
    }
}

/// The workspace's target directory, from where this test binary lies
/// (target/PROFILE/deps/NAME), so that `CARGO_TARGET_DIR` is respected.
pub fn target_directory() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    own.ancestors().nth(3).expect("test binaries lie in target/PROFILE/deps").to_path_buf()
}

/// Builds the launcher that refuses calls.
pub fn build_refuse(binary: &Path) -> Result<(), String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../launchers/refuse.c");
    let built = Command::new("gcc").args(["-Wall", "-Werror", "-O2", source, "-o"]).arg(binary).status();
    if built.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err("the launcher does not build".to_owned())
}

/// Whether the tests can become other users.
pub fn tests_run_as_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Smaller inputs, for a quick look (`RETROVANE_QUICK=1`).
pub fn quick_mode() -> bool {
    std::env::var_os("RETROVANE_QUICK").is_some()
}

/// How often each case is recorded and replayed (`RETROVANE_TIMES=20`).
pub fn times() -> u32 {
    std::env::var("RETROVANE_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// The path that tests use: the system's directories, and those of programs that
/// lie elsewhere by custom.
pub fn search_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let mut directories = vec![PathBuf::from("/usr/local/go/bin")];
        if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
            directories.extend(versions.flatten().map(|version| version.path().join("bin")));
        }
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            path.push(':');
            path.push_str(&directory.to_string_lossy());
        }
        path
    })
}

/// Whether the program is on the path that tests use.
pub fn have_program(name: &str) -> bool {
    search_path().split(':').any(|directory| Path::new(directory).join(name).exists())
}

/// Without a static libc gcc answers with the bare name it was asked for.
pub fn has_static_libc() -> bool {
    Command::new("gcc")
        .arg("-print-file-name=libc.a")
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"/"))
}
