//! Traces that are recorded once, and what each command makes of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use suites::{Outcome, RUN_TIME_MAX, Scratch, Tool, User, have_program, in_workspace, make_file, run};

/// What the sample program can be told to do.
pub const KINDS: [&str; 4] = ["files", "computes", "processes", "threads"];

/// A command that is given a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    Run,
    Print,
    Calls,
    Dump,
    Info,
    Keyframe,
    Pack,
    Gdb,
}

impl View {
    /// Each as often as it is tried in so many tries. gdb takes ten times as long as the others.
    const TRIED: [View; 16] = [
        View::Run,
        View::Print,
        View::Keyframe,
        View::Calls,
        View::Dump,
        View::Run,
        View::Info,
        View::Print,
        View::Pack,
        View::Run,
        View::Keyframe,
        View::Calls,
        View::Print,
        View::Run,
        View::Gdb,
        View::Dump,
    ];

    /// The command for a number.
    pub fn of(number: u64) -> View {
        match View::TRIED[(number % View::TRIED.len() as u64) as usize] {
            View::Gdb if !have_program("gdb") => View::Keyframe,
            view => view,
        }
    }

    fn arguments(self, sample: &Sample, trace: &Path, out: &Path) -> Vec<OsString> {
        let trace = trace.as_os_str();
        let words: Vec<&str> = match self {
            View::Run => vec!["replay", "--run"],
            View::Print => vec!["print"],
            View::Calls => vec!["calls"],
            View::Dump => vec!["dump"],
            View::Info => vec!["info"],
            View::Keyframe => vec!["keyframe", "--every", "20ms"],
            View::Pack => vec!["pack", "-q", "-o"],
            View::Gdb => vec!["replay", "--batch", "--at", "end", "-ex", "bt", "-ex", "reverse-stepi"],
        };
        let mut arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        match self {
            View::Print => arguments.extend(["--at".into(), sample.line.clone()]),
            View::Pack => arguments.push(out.into()),
            View::Run | View::Calls | View::Dump | View::Info | View::Keyframe | View::Gdb => {}
        }
        arguments.push(trace.into());
        match self {
            View::Print => arguments.push("round, value".into()),
            View::Calls => arguments.push("work".into()),
            View::Run | View::Dump | View::Info | View::Keyframe | View::Pack | View::Gdb => {}
        }
        arguments
    }

    /// Its output is the same each time, but for the trace's directory.
    pub fn is_compared(self) -> bool {
        match self {
            View::Run | View::Print | View::Calls | View::Dump => true,
            View::Info | View::Keyframe | View::Pack | View::Gdb => false,
        }
    }
}

/// A recorded trace.
pub struct Sample {
    pub trace: PathBuf,
    tool: Tool,
    home: PathBuf,
    line: OsString,
    whole: Vec<(View, Outcome)>,
    _scratch: Scratch,
}

impl Sample {
    pub fn record(tool: &Tool, kind: &str) -> Result<Sample, String> {
        let scratch = Scratch::new(&format!("mutations-{kind}"))?;
        let source = in_workspace("tests/damage/sample.c");
        let program = scratch.join("sample");
        let mut gcc = Command::new("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread"])
            .arg(&source)
            .arg("-o")
            .arg(&program);
        make_file(gcc)?;
        let text = std::fs::read_to_string(&source).map_err(|error| error.to_string())?;
        let line =
            text.lines().position(|line| line.contains("/* LINE */")).ok_or("the line is not marked")?;
        let home = scratch.fresh_directory("home")?;
        let trace = scratch.join("trace");
        let sample = Sample {
            trace,
            tool: tool.clone(),
            home,
            line: format!("sample.c:{}", line + 1).into(),
            whole: Vec::new(),
            _scratch: scratch,
        };
        let words: [OsString; 6] = [
            "record".into(),
            "-q".into(),
            "-o".into(),
            sample.trace.clone().into(),
            program.into(),
            kind.into(),
        ];
        let recorded = run(sample.tool.command(User::Current, &sample.home, &words), RUN_TIME_MAX)?;
        if recorded.code != 7 {
            return Err(format!("the sample ended with {}: {}", recorded.code, recorded.stderr_text()));
        }
        sample.with_whole()
    }

    fn with_whole(mut self) -> Result<Sample, String> {
        let out = self.home.join("whole.rvpack");
        for view in [View::Run, View::Print, View::Calls, View::Dump, View::Info, View::Keyframe, View::Pack]
        {
            let outcome = self.look(view, &self.trace, &out, RUN_TIME_MAX)?;
            // Where it is to write one hangs on how long the replay takes: processes may share memory there.
            let is_refused = view == View::Keyframe
                && outcome.code == 125
                && outcome.stderr_text().contains("it shares memory with other processes");
            if outcome.code != self.code_of(view) && !is_refused {
                return Err(format!("{view:?} ends with {}: {}", outcome.code, outcome.stderr_text()));
            }
            self.whole.push((view, outcome));
        }
        Ok(self)
    }

    /// The code with which a command ends that has shown all of the trace.
    pub fn code_of(&self, view: View) -> i32 {
        if view == View::Run { 7 } else { 0 }
    }

    /// What the command says of the whole trace.
    pub fn whole(&self, view: View) -> Option<&Outcome> {
        self.whole.iter().find(|(other, _)| *other == view).map(|(_, outcome)| outcome)
    }

    /// Lets a command look at a trace.
    pub fn look(&self, view: View, trace: &Path, out: &Path, time_max: Duration) -> Result<Outcome, String> {
        let arguments = view.arguments(self, trace, out);
        let mut command = self.tool.command(User::Current, &self.home, &arguments);
        command.current_dir(out.parent().unwrap_or(&self.home)).env("TMPDIR", &self.home);
        run(command, time_max)
    }
}
