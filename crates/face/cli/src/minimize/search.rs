//! The order in which things get smaller, and what is said meanwhile.

mod helping;

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use injector::{Readiness, TryError, TryInput, TryLimits, TryProgram};
use reducer::Reduction;

use super::crew::Crew;
use super::orders::Order;
use super::present::PresentFile;
use super::results::{Changed, Results};
use super::tries::{Ended, Runner, Tries, WORTH_HELP, Wanted, copies, observe_whole, succeeds};
use super::undo::Undo;
use super::{Interruption, Kit, MinimizeArguments, NOT_THE_SAME, say};
use crate::exit::CommandError;
use crate::failure::{CrashReader, Failure};
use crate::recorded::Recorded;
use crate::settings::Settings;

/// Whole runs that must agree before anything is changed.
const CONFIRMATIONS: usize = 3;
/// Between two messages of how far the search is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Something that gets smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stream {
    Stdin,
    File(PathBuf),
    /// What a client sent: the first one that was accepted is 0.
    Connection(usize),
    Arguments,
    Environment,
    /// Which of these files are there.
    Present(Rc<Vec<PresentFile>>),
}

impl Stream {
    pub fn name(&self) -> String {
        match self {
            Stream::Stdin => "stdin".to_owned(),
            Stream::File(path) => path.display().to_string(),
            Stream::Connection(number) => format!("connection {}", number + 1),
            Stream::Arguments => "arguments".to_owned(),
            Stream::Environment => "environment".to_owned(),
            Stream::Present(_) => "files present".to_owned(),
        }
    }
}

/// A search.
pub struct Search<'a> {
    recorded: Recorded,
    limits: TryLimits,
    arguments: &'a MinimizeArguments,
    settings: &'a Settings,
    interruption: &'a Interruption,
    results: Results,
    undo: Undo,
    /// All that gets smaller, but for which files are there.
    streams: Vec<Stream>,
    crew: Crew,
}

impl<'a> Search<'a> {
    pub fn new(kit: Kit<'a>, interruption: &'a Interruption, crew: Crew) -> Result<Search<'a>, CommandError> {
        let Kit { recorded, limits, arguments, settings, output, mut streams } = kit;
        let inputs = streams.iter().filter_map(|stream| match stream {
            Stream::File(path) => Some(path.clone()),
            _ => None,
        });
        let undo = Undo::begin(inputs.collect()).map_err(failed)?;
        let results = Results::new(output);
        if !arguments.input_only {
            streams.extend([Stream::Arguments, Stream::Environment]);
        }
        Ok(Search { recorded, limits, arguments, settings, interruption, results, undo, streams, crew })
    }

    /// Searches, and says what came of it.
    pub fn run(&mut self) -> Result<ExitCode, CommandError> {
        let wanted = match self.confirm() {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Ok(ExitCode::from(NOT_THE_SAME)),
            Err(error) => return Err(failed(error)),
        };
        let mut interrupted = !self.minimise_all(self.streams.clone(), &wanted)?;
        // Which files it needs is asked with the smallest inputs.
        let files = if self.arguments.input_only || interrupted { Vec::new() } else { self.present() };
        if !files.is_empty() {
            interrupted = !self.minimise_all(vec![Stream::Present(Rc::new(files))], &wanted)?;
        }
        self.results.finish(&self.recorded)?;
        self.results.tell(&self.recorded, self.arguments.json, interrupted)?;
        Ok(if interrupted { ExitCode::from(130) } else { ExitCode::SUCCESS })
    }

    /// One after the other; false where the user ended it.
    fn minimise_all(&mut self, streams: Vec<Stream>, wanted: &Wanted) -> Result<bool, CommandError> {
        for stream in streams {
            match self.minimise(&stream, wanted) {
                Ok(changed) => self.results.add(changed),
                Err(Ended::Interrupted) => return Ok(false),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(true)
    }

    /// Files that are circumstances: inputs of which nothing is left, and those that the program looked into.
    fn present(&self) -> Vec<PresentFile> {
        let emptied = self.recorded.input_files().into_iter().map(|file| file.path.clone());
        let emptied = emptied.filter(|path| std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0));
        let paths = emptied.chain(self.recorded.circumstances());
        let files: Vec<PresentFile> = paths.filter_map(PresentFile::of).collect();
        self.undo.leave_out(files.iter().map(|file| file.path.clone()));
        files
    }

    /// What fails, if it does so every time: as it is today, or with the recorded time, the recorded random numbers, or both.
    fn confirm(&mut self) -> Result<Option<Wanted>, Ended> {
        let today = self.confirm_with(&self.recorded.program)?;
        let mut why = match today {
            Ok(wanted) => return Ok(Some(wanted)),
            Err(why) => why,
        };
        for (number, answers) in self.recorded.answers().into_iter().enumerate() {
            let what = match (answers.time.is_some(), answers.random.is_some()) {
                (true, false) => "the recorded time",
                (false, _) => "the recorded random numbers",
                (true, true) => "the recorded time and random numbers",
            };
            let program = TryProgram { answers, ..self.recorded.program.clone() };
            match self.confirm_with(&program)? {
                Ok(wanted) => {
                    say(self.settings, &format!("it fails with {what} only, which each try gets"));
                    self.recorded.program = program;
                    self.crew.tell(Order::Answers(number));
                    return Ok(Some(wanted));
                }
                Err(_) => why.push_str(&format!("; not with {what} either")),
            }
        }
        say(self.settings, &why);
        Ok(None)
    }

    /// What fails, if it does so every time, or why it does not.
    fn confirm_with(&self, program: &TryProgram) -> Result<Result<Wanted, String>, Ended> {
        let mut crashes = CrashReader::default();
        let mut first: Option<Failure> = None;
        for _ in 0..CONFIRMATIONS {
            let begun = Instant::now();
            let (failure, out, errors) = observe_whole(program, &self.limits, &mut crashes, &self.undo)?;
            if begun.elapsed() > WORTH_HELP {
                self.crew.start();
            }
            if let Some(test) = &self.arguments.until {
                if !succeeds(test, failure.end, &program.stdin, &out, &errors)? {
                    return Ok(Err(
                        "the test of --until does not succeed for the recorded run itself: nothing to make smaller".to_owned()
                    ));
                }
            } else if !failure.ended_as(self.recorded.end) {
                return Ok(Err(format!(
                    "run again, the program does not end as it was recorded ({}), but: {}; it may need luck, another schedule or what is not in the trace",
                    crate::wording::lane_end(self.recorded.end),
                    failure.text()
                )));
            } else if first.as_ref().is_some_and(|first| *first != failure) {
                return Ok(Err(format!("run again and again, it fails now so, now so: {}", failure.text())));
            }
            first = Some(failure);
        }
        let Some(failure) = first else { return Ok(Err("it was not run".to_owned())) };
        say(self.settings, &format!("the failure: {}", failure.text()));
        Ok(Ok(match &self.arguments.until {
            Some(test) => Wanted::Test(test.clone()),
            None => Wanted::Same(failure),
        }))
    }

    fn content(&self, stream: &Stream) -> Vec<u8> {
        let program = &self.recorded.program;
        let lines = |words: &[std::ffi::OsString]| {
            words.iter().flat_map(|word| [word.as_bytes(), b"\n"].concat()).collect::<Vec<u8>>()
        };
        match stream {
            Stream::Stdin => program.stdin.clone(),
            Stream::File(path) => {
                self.recorded.file(path).map(|file| file.content.clone()).unwrap_or_default()
            }
            Stream::Connection(number) => {
                program.connections.get(*number).map(|known| known.content.clone()).unwrap_or_default()
            }
            Stream::Arguments => lines(program.command.get(1..).unwrap_or_default()),
            Stream::Environment => lines(&program.environment),
            Stream::Present(files) => files.iter().flat_map(|file| file.line()).collect(),
        }
    }

    /// The program with another content of the stream. Files are written to the sandbox.
    fn changed(program: &TryProgram, stream: &Stream, content: &[u8]) -> Result<TryProgram, TryError> {
        let mut changed = program.clone();
        let words = || {
            let lines = content.split_inclusive(|byte| *byte == b'\n');
            lines.map(|line| std::ffi::OsString::from_vec(line.strip_suffix(b"\n").unwrap_or(line).to_vec()))
        };
        match stream {
            Stream::Stdin => changed.stdin = content.to_vec(),
            Stream::Connection(number) => {
                changed.connections.get_mut(*number).expect("it was recorded").content = content.to_vec();
            }
            Stream::File(path) => std::fs::write(path, content)
                .map_err(|source| TryError::System { doing: "write the file of a try", source })?,
            Stream::Arguments => {
                changed.command.truncate(1);
                changed.command.extend(words());
            }
            Stream::Environment => changed.environment = words().collect(),
            Stream::Present(files) => {
                let listed: Vec<std::ffi::OsString> = words().collect();
                for file in files.iter() {
                    let is_listed = listed.iter().any(|path| file.path.as_os_str() == path);
                    file.put(is_listed).map_err(|source| TryError::System {
                        doing: "change which files are there",
                        source,
                    })?;
                }
            }
        }
        Ok(changed)
    }

    fn minimise(&mut self, stream: &Stream, wanted: &Wanted) -> Result<Changed, Ended> {
        let content = self.content(stream);
        let original = content.len();
        if !matches!(stream, Stream::Stdin | Stream::File(_) | Stream::Connection(_)) {
            // A line is a word here: one that holds another cannot be told.
            let words = match stream {
                Stream::Arguments => self.recorded.program.command.len().saturating_sub(1),
                Stream::Present(files) => files.len(),
                _ => self.recorded.program.environment.len(),
            };
            if content.iter().filter(|byte| **byte == b'\n').count() != words || words == 0 {
                return Ok(Changed::nothing(stream.clone(), content));
            }
        }
        let content = self.gone_on_with(stream, content, wanted)?;
        for readiness in [Some(Readiness::BeforeReading), Some(Readiness::BeforeAsking), None] {
            self.call_crew(stream, readiness, &content);
            let Some(runner) = self.runner(stream, readiness, wanted)? else { continue };
            let is_whole = matches!(runner, Runner::Whole(_));
            let changed = match self.reduce(stream, runner, wanted, content.clone(), original) {
                Ok(Some(changed)) => changed,
                Ok(None) => continue,
                Err(Ended::Undo(why)) if !is_whole => {
                    tracing::debug!(stream = stream.name(), %why, "copies are of no use");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if changed.content == content || self.is_confirmed(stream, &changed.content, wanted)? {
                self.keep(stream, &changed.content)?;
                return Ok(changed);
            }
            tracing::debug!(stream = stream.name(), "the result of copies does not hold for a whole run");
        }
        Ok(Changed::nothing(stream.clone(), content))
    }

    /// Lets the crew stand where the tries begin.
    fn call_crew(&self, stream: &Stream, readiness: Option<Readiness>, content: &[u8]) {
        match self.streams.iter().position(|known| known == stream) {
            Some(stream) => {
                self.crew.tell(Order::Begin { stream, readiness, content: content.to_vec() });
            }
            None => self.crew.rest(),
        }
    }

    /// What an earlier search found, if it fails too.
    fn gone_on_with(&self, stream: &Stream, content: Vec<u8>, wanted: &Wanted) -> Result<Vec<u8>, Ended> {
        match self.results.earlier(stream) {
            Some(earlier)
                if earlier.len() < content.len() && self.is_confirmed(stream, &earlier, wanted)? =>
            {
                say(self.settings, &format!("{}: going on from {} bytes", stream.name(), earlier.len()));
                Ok(earlier)
            }
            _ => Ok(content),
        }
    }

    /// A way to try; `None` if this one is of no use for the stream.
    fn runner(
        &self,
        stream: &Stream,
        readiness: Option<Readiness>,
        wanted: &Wanted,
    ) -> Result<Option<Runner>, Ended> {
        let program = self.recorded.program.clone();
        let input = match stream {
            Stream::Stdin => TryInput::Stdin,
            Stream::File(path) => TryInput::File(path.clone()),
            Stream::Connection(_) | Stream::Arguments | Stream::Environment | Stream::Present(_) => {
                if readiness.is_some() {
                    return Ok(None);
                }
                return Ok(Some(self.whole(stream)));
            }
        };
        let Some(readiness) = readiness else { return Ok(Some(self.whole(stream))) };
        // Copies get the time and the random numbers of today, and nobody connects to them.
        if !program.answers.is_empty() || !program.connections.is_empty() {
            return Ok(None);
        }
        let mut runner = match copies(&program, &input, readiness, &self.limits, &self.undo) {
            Ok(runner) => runner,
            Err(Ended::Try(TryError::NeverRead(_) | TryError::Threads)) => return Ok(None),
            Err(error) => return Err(error),
        };
        // The test is about the whole program's end.
        if let (Runner::Copies(copies), Wanted::Test(_)) = (&mut runner, wanted)
            && !copies.server.is_first()
        {
            return Ok(None);
        }
        Ok(Some(runner))
    }

    fn whole(&self, stream: &Stream) -> Runner {
        let (program, stream) = (self.recorded.program.clone(), stream.clone());
        Runner::Whole(Box::new(move |content| Search::changed(&program, &stream, content)))
    }

    fn tries(&self, runner: Runner, wanted: Wanted) -> Tries<'_> {
        Tries {
            runner,
            wanted,
            limits: self.limits,
            crashes: CrashReader::default(),
            interruption: self.interruption,
            undo: &self.undo,
            trust: None,
            crew: None,
            in_vain: 0,
            spent: Duration::ZERO,
            note: Box::new(|_, _| {}),
        }
    }

    fn reduce(
        &mut self,
        stream: &Stream,
        runner: Runner,
        wanted: &Wanted,
        content: Vec<u8>,
        original: usize,
    ) -> Result<Option<Changed>, Ended> {
        let mut progress = Progress { told: Instant::now(), stream: stream.name(), original };
        let settings = self.settings;
        let note = move |best: &[u8], tests: u64| progress.tell(settings, best.len(), tests);
        let mut tries = self.tries(runner, wanted.clone());
        tries.crew = Some(&self.crew);
        tries.note = Box::new(note);
        if !tries.begin_with(&content)? {
            return Ok(None);
        }
        self.crew.expect(tries.wanted.text());
        let begun = Instant::now();
        let (mut tests, mut from) = (0, content);
        let (best, ended) = loop {
            let mut reduction = Reduction::new(&mut tries, from);
            let ended = match stream {
                Stream::Stdin | Stream::File(_) | Stream::Connection(_) => reduction.run(),
                Stream::Arguments | Stream::Environment | Stream::Present(_) => reduction.run_by_lines(),
            };
            tests += reduction.tests();
            let best = reduction.best().to_vec();
            let is_right = tries.confirm(&best);
            match (ended.and(is_right), &mut tries.trust) {
                (Err(Ended::Slipped), trust @ Some(_)) => {
                    from = trust.take().map(|trust| trust.seen).unwrap_or_default();
                    tracing::debug!(bytes = from.len(), "other crashes were among them: each is looked at");
                }
                // Nobody looked at the best one.
                (Err(error), Some(trust)) => break (std::mem::take(&mut trust.seen), Err(error)),
                (ended, _) => break (best, ended),
            }
        };
        let mut changed = Changed {
            stream: stream.clone(),
            before: original,
            content: best,
            tests,
            in_vain: tries.in_vain,
            time: begun.elapsed(),
            is_minimal: ended.is_ok(),
            tries_per_second: None,
        };
        if self.arguments.rate {
            changed.tries_per_second = tries.rate(&changed.content)?;
        }
        match ended {
            Ok(()) => Ok(Some(changed)),
            Err(error) => {
                drop(tries);
                self.results.add(changed);
                Err(error)
            }
        }
    }

    /// True if a whole run with this content fails as wanted.
    fn is_confirmed(&self, stream: &Stream, content: &[u8], wanted: &Wanted) -> Result<bool, Ended> {
        let program = Search::changed(&self.recorded.program, stream, content)?;
        let mut crashes = CrashReader::default();
        let (failure, out, errors) = observe_whole(&program, &self.limits, &mut crashes, &self.undo)?;
        match wanted {
            Wanted::Same(wanted) => Ok(failure == *wanted),
            Wanted::Test(test) => succeeds(test, failure.end, content, &out, &errors),
        }
    }

    /// Later streams are made smaller with this one as it is now.
    fn keep(&mut self, stream: &Stream, content: &[u8]) -> Result<(), Ended> {
        self.recorded.program = Search::changed(&self.recorded.program, stream, content)?;
        if let Some(stream) = self.streams.iter().position(|known| known == stream) {
            self.crew.tell(Order::Keep { stream, content: content.to_vec() });
        }
        Ok(())
    }
}

/// Says now and then how far it is.
struct Progress {
    told: Instant,
    stream: String,
    original: usize,
}

impl Progress {
    fn tell(&mut self, settings: &Settings, bytes: usize, tests: u64) {
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let Progress { stream, original, .. } = self;
            say(settings, &format!("{stream}: {original} -> {bytes} bytes, {tests} tests so far"));
        }
    }
}

fn failed(error: Ended) -> CommandError {
    CommandError::Usage(error.to_string())
}
