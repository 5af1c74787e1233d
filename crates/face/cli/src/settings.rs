//! The options that every command has.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{ArgAction, Args};
use replayer::{ReplayOptions, Sandbox};
use trace_store::pack::is_pack;
use trace_store::{TraceReader, claim_home, default_home, traces};

use crate::exit::CommandError;
use crate::unpacked::unpack;

/// The variable by which commands of ours tell those that they start.
const SANDBOX: &str = "RETROVANE_SANDBOX";

/// Tells a command of ours which sandbox was chosen.
pub fn pass_on(sandbox: Sandbox, command: &mut Command) {
    command.env(SANDBOX, sandbox.to_string());
}

/// Options of every command.
#[derive(Args, Debug, Default)]
pub struct Settings {
    /// Directory of traces [default: RETROVANE_HOME, else ~/.local/share/retrovane, or
    /// /var/tmp/retrovane-UID where that cannot be written]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    home: Option<PathBuf>,
    /// Say nothing but errors, and show no progress
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
    /// Replay code in a sandbox: auto (of traces that came in a pack), always or never [default:
    /// RETROVANE_SANDBOX, else auto]
    #[arg(long, global = true, value_name = "WHEN", default_value_t, hide_default_value = true, env = SANDBOX, hide_env = true, help_heading = "Everywhere")]
    pub sandbox: Sandbox,
    /// Say on stderr what happens inside; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Everywhere")]
    verbose: u8,
}

impl Settings {
    /// The directory of traces.
    pub fn home(&self) -> Result<PathBuf, CommandError> {
        self.home.clone().or_else(default_home).ok_or(CommandError::NoHome)
    }

    /// A replay of this trace, as [`ReplayOptions::new`] says.
    pub fn replay_of(&self, trace_dir: PathBuf) -> ReplayOptions {
        ReplayOptions::new(trace_dir, self.home().ok(), self.sandbox)
    }

    /// The directory of traces for what makes some. Says where it is, if that may surprise.
    pub fn home_to_write(&self) -> Result<PathBuf, CommandError> {
        let home = self.home()?;
        if self.home.is_none() && claim_home(&home)? && !self.quiet {
            diagnostics::tell!(
                "retrovane: there is no HOME that can be written: traces and kept files go to {} (or where RETROVANE_HOME says)",
                home.display()
            );
        }
        Ok(home)
    }

    /// True if the directory of traces is the one that the next command finds too.
    pub fn has_usual_home(&self) -> bool {
        self.home.is_none()
    }

    /// The directory of a trace: the latest, a name, or a path; that of a pack is unpacked first.
    pub fn trace_dir(&self, name: Option<&str>) -> Result<PathBuf, CommandError> {
        if let Some(pack) = name.map(Path::new).filter(|path| is_pack(path)) {
            return unpack(pack, &self.home()?, self.quiet);
        }
        self.present_dir(name)
    }

    /// The same, but of no pack: for who asks and is not the user.
    pub fn present_dir(&self, name: Option<&str>) -> Result<PathBuf, CommandError> {
        // A path needs no home directory.
        let home = match (self.home(), name) {
            (Ok(home), _) => home,
            (Err(_), Some(name)) if name.contains('/') => Path::new("/").to_owned(),
            (Err(error), _) => return Err(error),
        };
        let dir = traces::resolve(&home, name)?;
        self.take_over(&dir);
        Ok(dir)
    }

    /// Where the recorder of a trace was killed: adds what it had not written.
    fn take_over(&self, dir: &Path) {
        match recorder::take_over(dir) {
            Ok(Some(taken)) if !self.quiet && taken.events != 0 => diagnostics::tell!(
                "retrovane: the recorder of {} was killed; {} events that it had not written were taken over",
                dir.display(),
                taken.events
            ),
            Ok(_) => {}
            Err(error) => diagnostics::tell!(
                "retrovane: the recorder of {} was killed, and what it had not written is left out: {error}",
                dir.display()
            ),
        }
    }

    /// Tells a command of ours what was chosen.
    pub fn pass_on(&self, command: &mut Command) {
        pass_on(self.sandbox, command);
    }

    /// Opens a trace: the latest, a name, or a path.
    pub fn open(&self, name: Option<&str>) -> Result<TraceReader, CommandError> {
        let dir = self.trace_dir(name)?;
        tracing::debug!(dir = %dir.display(), "opening the trace");
        let trace = TraceReader::open(&dir)?;
        tracing::debug!(
            lanes = trace.lanes().len(),
            files = trace.files().len(),
            is_cut = trace.cut().is_some(),
            "opened"
        );
        Ok(trace)
    }

    /// Sends what crates tell about themselves to stderr, as far as it is wanted.
    pub fn start_telling(&self) {
        let level = match self.verbose {
            0 => return,
            1 => tracing::Level::DEBUG,
            _ => tracing::Level::TRACE,
        };
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).without_time().init();
    }
}
