//! Policies of streams in a replay: where inputs come from, and what becomes of outputs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use replayer::RealPlan;
use trace_store::TraceReader;

use super::check::{Checked, Comparison};
use super::file::{Direction, Line, lines_of};
use super::pattern::{Pattern, StreamKind};
use super::plan::{Planned, ScreenPlan};
use crate::exit::CommandError;

/// Options of commands that replay.
#[derive(Args, Debug, Default)]
pub struct PolicyArguments {
    /// Where an input comes from: stdin, file:PATH, tcp:HOST:PORT, udp:HOST:PORT, unix:PATH or * = recorded, real or
    /// `from FILE` [default: recorded]
    #[arg(long, value_name = "PATTERN=POLICY")]
    input: Vec<String>,
    /// What becomes of an output: stdout, stderr, the same names or * = show, drop, real, `to FILE`, check or `check
    /// FILE` [default: show for stdout and stderr, else drop]
    #[arg(long, value_name = "PATTERN=POLICY")]
    output: Vec<String>,
    /// A file of policies, one a line (`input PATTERN=POLICY`, `output PATTERN=POLICY`; # begins a comment)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Where standard output and error go; `None`: where they would anyway.
#[derive(Debug, Default)]
pub struct Outputs([Option<File>; 2]);

impl Outputs {
    /// True if one goes elsewhere.
    pub fn are_some(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// The command starts a process that has them.
    ///
    /// # Errors
    /// Of fcntl(2).
    pub fn given_to(&self, mut command: Command) -> std::io::Result<Command> {
        let [out, errors] = &self.0;
        if let Some(file) = out {
            command.stdout(file.try_clone()?);
        }
        if let Some(file) = errors {
            command.stderr(file.try_clone()?);
        }
        Ok(command)
    }
}

/// What is said to policies that gdb cannot have.
const FOR_RUN: &str = "with gdb, outputs of stdout and stderr can be show, drop or `to FILE`; all else is for a replay to the end: give --run, too (gdb goes back and forth, and what is real does not); `retrovane retry --input PATTERN=FILE` makes a recording with another input, which gdb opens";

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputPolicy {
    Recorded,
    Real,
    From(PathBuf),
}

/// What becomes of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputPolicy {
    Show,
    Drop,
    Real,
    To(PathBuf),
    /// It is compared with what stands there now, or with a file.
    Check(Option<PathBuf>),
}

/// All policies, in their order: the last one that fits counts.
#[derive(Debug, Default)]
pub struct Policies {
    inputs: Vec<(Pattern, InputPolicy)>,
    outputs: Vec<(Pattern, OutputPolicy)>,
    /// Where sockets are for what is shown of connections to displays; `None`: it is not shown.
    pub screens: Option<PathBuf>,
}

/// What a replay does because of policies.
#[derive(Default)]
pub struct Applied {
    /// `None`: nothing is real.
    pub plan: Option<RealPlan>,
    /// Names of the plan's streams, by their numbers.
    pub streams: Vec<String>,
    /// Numbers of those for which the user gave something else.
    pub replaced: Vec<u64>,
    /// What the replay is about to touch outside of it, for the user.
    pub touches: Vec<String>,
    /// What is to be shown of connections to displays.
    pub screens: ScreenPlan,
    checked: Vec<Checked>,
    comparisons: Vec<Comparison>,
    /// Goes when the comparisons are done.
    _shadow: Option<replayer::PrivateFolder>,
}

impl PolicyArguments {
    /// True if nothing is said.
    pub fn are_none(&self) -> bool {
        self.input.is_empty() && self.output.is_empty() && self.policy.is_none()
    }

    /// Finds out what the policies mean for a trace (in `screens` are sockets, if its windows are shown), and redirects this process's standard streams: replay
    /// reads and writes there.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for what is no policy, or cannot be had of this trace.
    pub fn apply(&self, trace_dir: &Path, screens: Option<&Path>) -> Result<Applied, CommandError> {
        if self.are_none() && screens.is_none() {
            return Ok(Applied::default());
        }
        let mut policies = self.parse()?;
        policies.screens = screens.map(Path::to_owned);
        let trace = TraceReader::open(trace_dir)?;
        let planned = if policies.reach_beyond_outputs() {
            Planned::of(&trace, &policies)?
        } else {
            Planned::default()
        };
        let comparisons = redirect(&policies)?;
        let is_real = !planned.plan.is_empty();
        Ok(Applied {
            plan: is_real.then_some(planned.plan),
            streams: planned.streams,
            replaced: planned.replaced,
            touches: planned.touches,
            screens: planned.screens,
            checked: planned.checked,
            comparisons,
            _shadow: planned.shadow,
        })
    }

    /// What gdb's replay can have of the policies: where what it shows goes. It is shown once, where gdb comes to it for the
    /// first time.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for all that is real.
    pub fn for_gdb(&self) -> Result<Outputs, CommandError> {
        let policies = self.parse()?;
        let is_check = |(_, policy): &(Pattern, OutputPolicy)| matches!(policy, OutputPolicy::Check(_));
        if policies.reach_beyond_outputs() || policies.outputs.iter().any(is_check) {
            return Err(CommandError::Usage(FOR_RUN.to_owned()));
        }
        let open = |kind: StreamKind| match policies.output(kind, "") {
            OutputPolicy::Show | OutputPolicy::Real | OutputPolicy::Check(_) => Ok(None),
            OutputPolicy::Drop => opened(Path::new("/dev/null")).map(Some),
            OutputPolicy::To(path) => opened(&path).map(Some),
        };
        Ok(Outputs([open(StreamKind::Stdout)?, open(StreamKind::Stderr)?]))
    }

    fn parse(&self) -> Result<Policies, CommandError> {
        let mut lines = match &self.policy {
            Some(path) => lines_of(path)?,
            None => Vec::new(),
        };
        lines.extend(self.input.iter().map(|text| Line::of_option(Direction::Input, text)));
        lines.extend(self.output.iter().map(|text| Line::of_option(Direction::Output, text)));
        let mut policies = Policies::default();
        for line in &lines {
            let (pattern, policy) = line.split()?;
            let parsed = Pattern::parse(pattern).map_err(|why| line.wrong(&why))?;
            match line.direction {
                // In a file they are for the recording.
                Direction::Input if !line.is_option && matches!(policy, "keep" | "refer") => {}
                Direction::Input => policies.inputs.push((parsed, input_policy(line, pattern, policy)?)),
                Direction::Output => policies.outputs.push((parsed, output_policy(line, pattern, policy)?)),
            }
        }
        Ok(policies)
    }
}

fn input_policy(line: &Line, pattern: &str, policy: &str) -> Result<InputPolicy, CommandError> {
    if matches!(pattern, "stdout" | "stderr") {
        return Err(line.wrong("this is an output"));
    }
    match policy {
        "recorded" => Ok(InputPolicy::Recorded),
        "real" => Ok(InputPolicy::Real),
        _ => match file_behind(policy, "from") {
            Some(path) if path.is_file() => Ok(InputPolicy::From(path)),
            Some(path) => Err(line.wrong(&format!("there is no file {}", path.display()))),
            None => Err(line.wrong("recorded, real or `from FILE` is wanted")),
        },
    }
}

fn output_policy(line: &Line, pattern: &str, policy: &str) -> Result<OutputPolicy, CommandError> {
    if pattern == "stdin" {
        return Err(line.wrong("this is an input"));
    }
    let is_standard = matches!(pattern, "stdout" | "stderr" | "*");
    match policy {
        "show" if is_standard => Ok(OutputPolicy::Show),
        "show" => Err(line.wrong("stdout and stderr can be shown; others can go `to FILE`")),
        "drop" => Ok(OutputPolicy::Drop),
        "real" => Ok(OutputPolicy::Real),
        "check" if pattern.starts_with("file:") => Ok(OutputPolicy::Check(None)),
        "check" => Err(line.wrong("`check FILE` is wanted: what stands in a terminal cannot be compared, and what connections got is gone")),
        _ => match (file_behind(policy, "to"), file_behind(policy, "check")) {
            (Some(path), _) => Ok(OutputPolicy::To(path)),
            (_, Some(_)) if !is_standard => Err(line.wrong("`check FILE` is for stdout and stderr")),
            (_, Some(path)) if path.is_file() => Ok(OutputPolicy::Check(Some(path))),
            (_, Some(path)) => Err(line.wrong(&format!("there is no file {}", path.display()))),
            (None, None) => Err(line.wrong("show, drop, real, `to FILE` or check is wanted")),
        },
    }
}

fn file_behind(policy: &str, word: &str) -> Option<PathBuf> {
    let path = policy.strip_prefix(word)?.strip_prefix(' ')?.trim();
    (!path.is_empty()).then(|| std::path::absolute(path).unwrap_or_else(|_| path.into()))
}

/// True for what a policy of inputs may be in a replay.
pub fn is_input_policy(policy: &str) -> bool {
    matches!(policy, "recorded" | "real") || policy.starts_with("from ")
}

impl Policies {
    /// Where this input comes from.
    pub fn input(&self, kind: StreamKind, name: &str) -> InputPolicy {
        let found = self.inputs.iter().rev().find(|(pattern, _)| pattern.fits(kind, name));
        found.map_or(InputPolicy::Recorded, |(_, policy)| policy.clone())
    }

    /// What becomes of this output.
    pub fn output(&self, kind: StreamKind, name: &str) -> OutputPolicy {
        let is_standard = matches!(kind, StreamKind::Stdout | StreamKind::Stderr);
        let found = self.outputs.iter().rev().find(|(pattern, _)| pattern.fits(kind, name));
        match found.map(|(_, policy)| policy) {
            None if is_standard => OutputPolicy::Show,
            None => OutputPolicy::Drop,
            // One file does not hold several outputs: `*=to FILE` means the two that are shown.
            Some(OutputPolicy::Show | OutputPolicy::Check(Some(_))) if !is_standard => OutputPolicy::Drop,
            Some(OutputPolicy::To(_))
                if !is_standard && found.is_some_and(|(pattern, _)| pattern.is_standard()) =>
            {
                OutputPolicy::Drop
            }
            Some(policy) => policy.clone(),
        }
    }

    /// True unless all that is said is about what is shown.
    fn reach_beyond_outputs(&self) -> bool {
        let recorded = |(_, policy): &(Pattern, InputPolicy)| *policy == InputPolicy::Recorded;
        let is_drop =
            |(_, policy): &(Pattern, OutputPolicy)| matches!(policy, OutputPolicy::Drop | OutputPolicy::Show);
        let is_shown = |(pattern, policy): &(Pattern, OutputPolicy)| {
            pattern.is_standard() && *policy != OutputPolicy::Real
        };
        self.screens.is_some()
            || !self.inputs.iter().all(recorded)
            || !self.outputs.iter().all(|one| is_drop(one) || is_shown(one))
    }
}

/// Redirects this process's standard streams. All files are opened before any stream is moved: an error can
/// still be read.
fn redirect(policies: &Policies) -> Result<Vec<Comparison>, CommandError> {
    let mut comparisons = Vec::new();
    let mut open = |kind: StreamKind| match policies.output(kind, "") {
        OutputPolicy::Show | OutputPolicy::Real => Ok(None),
        OutputPolicy::Drop => opened(Path::new("/dev/null")).map(Some),
        OutputPolicy::To(path) => opened(&path).map(Some),
        OutputPolicy::Check(expected) => {
            let comparison = Comparison::new(kind.prefix(), expected.unwrap_or_default())?;
            let file = comparison.file()?;
            comparisons.push(comparison);
            Ok(Some(file))
        }
    };
    let [out, errors] = [open(StreamKind::Stdout)?, open(StreamKind::Stderr)?];
    let input = match policies.input(StreamKind::Stdin, "") {
        InputPolicy::Recorded | InputPolicy::Real => None,
        InputPolicy::From(path) => {
            Some(File::open(&path).map_err(|source| CommandError::Read { path: path.clone(), source })?)
        }
    };
    let failed = |error: rustix::io::Errno| CommandError::Output(error.into());
    if let Some(file) = input {
        rustix::stdio::dup2_stdin(file).map_err(failed)?;
    }
    if let Some(file) = out {
        rustix::stdio::dup2_stdout(file).map_err(failed)?;
    }
    if let Some(file) = errors {
        rustix::stdio::dup2_stderr(file).map_err(failed)?;
    }
    Ok(comparisons)
}

/// A file that is replaced.
pub fn opened(path: &Path) -> Result<File, CommandError> {
    let file = File::options().create(true).truncate(true).write(true).open(path);
    file.map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

impl Applied {
    /// What is another output than it should be, if something is: to be asked when the replay is over.
    ///
    /// # Errors
    /// [`CommandError::Read`]
    pub fn difference(&self) -> Result<Option<String>, CommandError> {
        for comparison in &self.comparisons {
            if let Some(found) = comparison.difference()? {
                return Ok(Some(found));
            }
        }
        for checked in &self.checked {
            if let Some(found) = checked.difference()? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(input: &[&str], output: &[&str]) -> Result<Policies, CommandError> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        PolicyArguments { input: texts(input), output: texts(output), policy: None }.parse()
    }

    #[test]
    fn the_last_policy_that_fits_counts() {
        let policies = parsed(&["*=real", "stdin=recorded"], &["*=to a b", "stderr=drop"]).expect("policies");
        assert_eq!(policies.input(StreamKind::Stdin, ""), InputPolicy::Recorded);
        assert_eq!(policies.input(StreamKind::Tcp, "127.0.0.1:80"), InputPolicy::Real);
        assert_eq!(policies.output(StreamKind::Stderr, ""), OutputPolicy::Drop);
        assert!(
            matches!(policies.output(StreamKind::Stdout, ""), OutputPolicy::To(path) if path.ends_with("a b"))
        );
        assert_eq!(Policies::default().output(StreamKind::File, "/x"), OutputPolicy::Drop);
        assert_eq!(Policies::default().output(StreamKind::Stdout, ""), OutputPolicy::Show);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for wrong in ["stdout", "stderr=to ", "stdout=hide", "tcp:*:1=show", "stdout=check", "stdin=drop"] {
            assert!(parsed(&[], &[wrong]).is_err(), "{wrong}");
        }
        for wrong in ["stdin", "stdout=real", "stdin=from /nowhere", "file:/x=keep", "env:HOME=real"] {
            assert!(parsed(&[wrong], &[]).is_err(), "{wrong}");
        }
    }
}
