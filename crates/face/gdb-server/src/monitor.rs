//! `monitor`: what gdb has no packets for. The commands in `gdb/` are built on it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use timeline::{Position, TimelineError, report_kind};

use crate::server::Server;

const HELP: &str = "\
monitor when                the present position: events+instructions
monitor seek POSITION       the next movement (stepi) leads there; also: begin, end, a mark
monitor mark NAME           names the present position
monitor marks               all names
monitor checkpoint          keeps the present position under a number
monitor checkpoints         all of them
monitor discard NUMBER      forgets one
monitor rollback NUMBER     the next movement (stepi) leads there; takes a live program back
monitor keyframe            writes the present position to the disk, to begin there another time
monitor live                the next movement (stepi) leads to the present of a live program
monitor log FIRST-LAST      events of the log
monitor timeline            all of it as a picture; timeline --html: as a page
monitor autocheckpoint T    keeps a checkpoint every 500ms, 2s of running, or: off
monitor branch              from here on, in a copy, on by itself; branch off leads back
monitor forks               from now on the client is told of forks
monitor signals ignored     the client is told of no signal that is handled, until: signals told
monitor others              who changed what is watched here, if other processes did
monitor death               the number of the signal that the program dies of where it stands
monitor status              where history begins, what is kept for going back
";

impl Server<'_> {
    pub(crate) fn monitor(&mut self, command: &str) -> String {
        let mut words = command.split_whitespace();
        let (name, argument) = (words.next().unwrap_or("help"), words.next().unwrap_or(""));
        match name {
            "help" => HELP.to_owned(),
            "when" => self.present().map_or_else(|text| text, |position| format!("{position}\n")),
            "seek" => self.plan(argument),
            "mark" if !argument.is_empty() => match self.present() {
                Ok(position) => {
                    self.marks.insert(argument.to_owned(), position);
                    format!("{argument} is {position}\n")
                }
                Err(text) => text,
            },
            "marks" => lines(&self.marks),
            "keyframe" => match self.present() {
                Ok(position) => self.keyframe(position),
                Err(text) => text,
            },
            "live" if self.timeline.debuggee().is_none() => {
                "this is a recording: no program is live\n".to_owned()
            }
            "live" => {
                self.pending = Some(Position { event: u64::MAX, steps: 0 });
                String::new()
            }
            "checkpoint" | "checkpoints" | "discard" | "rollback" | "autocheckpoint"
                if self.timeline.debuggee().is_some() =>
            {
                self.of_live(name, argument)
            }
            "checkpoint" => match self.present() {
                Ok(position) => {
                    let number = self.checkpoints.keys().next_back().map_or(1, |last| last + 1);
                    self.checkpoints.insert(number, position);
                    format!("checkpoint {number} at {position}\n")
                }
                Err(text) => text,
            },
            "checkpoints" => lines(&self.checkpoints),
            "discard" => match argument.parse().ok().and_then(|number: u32| self.checkpoints.remove(&number))
            {
                Some(position) => format!("discarded the checkpoint at {position}\n"),
                None => format!("there is no checkpoint {argument}\n"),
            },
            "rollback" if argument.parse().map_or(true, |number| !self.checkpoints.contains_key(&number)) => {
                format!("there is no checkpoint {argument}\n")
            }
            "rollback" => self.plan(&format!("#{argument}")),
            "log" => match self.open_past() {
                Ok(()) => crate::history::list(&self.timeline, argument),
                Err(text) => text,
            },
            "timeline" => {
                if let Err(text) = self.open_past() {
                    return text;
                }
                let named = self.marks.iter().map(|(name, position)| (&name[..], *position));
                match argument {
                    "--html" => crate::page::page(&self.timeline, named),
                    _ => crate::history::picture(&self.timeline, named),
                }
            }
            "autocheckpoint" => self.autocheckpoint(argument),
            "others" => crate::others::in_words(&self.timeline),
            "death" => self.death().map(|signal| format!("{signal}\n")).unwrap_or_default(),
            "status" => self.status(),
            "call" => self.note_call(argument),
            "branch" => self.branch(argument),
            "repeats" => self.choose_repeats(&command.split_whitespace().skip(1).collect::<Vec<_>>()),
            "forks" | "signals" => self.choose_told(name, argument),
            _ => format!("no such command: {name}\n{HELP}"),
        }
    }

    /// What the client is told of from now on.
    fn choose_told(&mut self, name: &str, argument: &str) -> String {
        match name {
            "forks" => self.children.tells_forks = true,
            _ => self.inserted.ignores_signals = argument == "ignored",
        }
        String::new()
    }

    /// The present position; else why it is not known.
    fn present(&mut self) -> Result<Position, String> {
        // The client cannot interrupt this.
        const COUNTED_FOR: Duration = Duration::from_secs(10);
        let (connection, since) = (self.connection, Instant::now());
        let event = self.timeline.stop().event;
        self.timeline.position(&|| connection.wants_stop() || since.elapsed() > COUNTED_FOR).map_err(
            |error| {
                if matches!(error, TimelineError::Interrupted) {
                    format!("after event {event}; counting the instructions since then takes too long\n")
                } else {
                    format!("retrovane: {error}\n")
                }
            },
        )
    }

    fn keyframe(&mut self, position: Position) -> String {
        if self.timeline.shows_branch() {
            return "a branch has no keyframes: it is not in the recording\n".to_owned();
        }
        match self.timeline.write_keyframe_here() {
            Ok(Some(bytes)) => format!("keyframe at {position}, {} KB\n", bytes.div_ceil(1024)),
            Ok(None) => format!("there is a keyframe at {position}\n"),
            Err(error) => format!("no keyframe can be written: {error}\n"),
        }
    }

    fn open_past(&mut self) -> Result<(), String> {
        let connection = self.connection;
        let opened = self.timeline.open_past(&|| connection.wants_stop());
        opened.map_err(|error| format!("retrovane: {error}\n"))
    }

    /// Checkpoints of a live program, which is taken back itself.
    fn of_live(&mut self, name: &str, argument: &str) -> String {
        let number = argument.parse::<u64>();
        let result = match (name, number) {
            ("checkpoint", _) => {
                let taken = self.timeline.take_checkpoint();
                taken.map(|number| format!("checkpoint {number} of the live program\n"))
            }
            ("checkpoints", _) => {
                Ok(self.timeline.debuggee().map(timeline::Debuggee::list_checkpoints).unwrap_or_default())
            }
            ("autocheckpoint", _) => return self.autocheckpoint(argument),
            (_, Err(_)) => return format!("`{argument}` is not the number of a checkpoint\n"),
            ("discard", Ok(number)) => {
                let discarded = self.timeline.discard_checkpoint(number);
                discarded.map(|()| format!("discarded checkpoint {number}\n"))
            }
            (_, Ok(number)) => {
                self.rolls_back_to = Some(number);
                return String::new();
            }
        };
        result.unwrap_or_else(|error| format!("retrovane: {error}\n"))
    }

    /// `autocheckpoint T` or `off`.
    fn autocheckpoint(&mut self, word: &str) -> String {
        let live_every = self.timeline.debuggee().map(timeline::Debuggee::checkpoint_every);
        let every = match word {
            "" => live_every.unwrap_or(self.timeline.checkpoint_every),
            "off" => None,
            word => match duration(word) {
                Some(every) => Some(every),
                None => return format!("{word} is no time: 500ms, 2s, or off\n"),
            },
        };
        match self.timeline.debuggee() {
            Some(debuggee) => debuggee.set_checkpoint_every(every),
            None => self.timeline.checkpoint_every = every,
        }
        match every {
            Some(every) => {
                format!("a checkpoint is kept every {} ms that the program runs\n", every.as_millis())
            }
            None => "no checkpoint is kept while the program runs\n".to_owned(),
        }
    }

    /// The position that a word means; an event of `u64::MAX` is the end.
    fn position_of(&self, word: &str) -> Option<Position> {
        match word {
            "begin" => Some(self.timeline.beginning()),
            "end" => Some(Position { event: u64::MAX, steps: 0 }),
            word => {
                let number = word.strip_prefix('#').and_then(|number| number.parse::<u32>().ok());
                let kept = number.and_then(|number| self.checkpoints.get(&number));
                self.marks.get(word).or(kept).copied().or_else(|| word.parse().ok())
            }
        }
    }

    fn plan(&mut self, word: &str) -> String {
        match self.position_of(word) {
            Some(position) => {
                self.pending = Some(position);
                String::new()
            }
            None => format!("{word} is no position, mark or checkpoint (#NUMBER)\n"),
        }
    }

    fn status(&self) -> String {
        let mut text = String::new();
        let kept = self.timeline.checkpoints();
        let _ = writeln!(text, "history begins at {}", self.timeline.beginning());
        let _ = writeln!(text, "the process at the present position is {}", self.timeline.pid());
        let _ = writeln!(text, "{} processes stand at earlier positions:", kept.len());
        for position in kept {
            let _ = writeln!(text, "  {position}");
        }
        let keyframes = self.timeline.keyframes();
        let _ = writeln!(text, "{} keyframes are on the disk:", keyframes.len());
        for position in keyframes {
            let _ = writeln!(text, "  {position}");
        }
        text
    }
}

/// A time with its unit, from 1 ms to a day.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let ms = match &text[digits..] {
        "ms" => number,
        "s" | "" => number.checked_mul(1000)?,
        "m" | "min" => number.checked_mul(60_000)?,
        _ => return None,
    };
    (1..=86_400_000).contains(&ms).then(|| Duration::from_millis(ms))
}

fn lines<K: std::fmt::Display>(named: &std::collections::BTreeMap<K, Position>) -> String {
    let mut text = String::new();
    for (name, position) in named {
        let _ = writeln!(text, "{name}\t{position}");
    }
    text
}

fn killed_text(signal: i32) -> String {
    format!("[Signal {signal} kills the program here; history ends]\n")
}

/// What the user is told where history ends.
pub(crate) fn end_text(report: u32, code: i32, server: &Server) -> String {
    let said = server.timeline.said();
    match report {
        report_kind::EXITED => format!("[The program exits with {code} here; history ends]\n"),
        report_kind::FAULTED => killed_text(code),
        report_kind::LOG_ENDED => match server.death() {
            Some(signal) => killed_text(signal),
            None => "[The recording ends here]\n".to_owned(),
        },
        report_kind::STOPPED => "[Recording stopped here]\n".to_owned(),
        report_kind::DIVERGENCE => format!("[The replay diverges here from the recording] {said}\n"),
        _ => format!("[The replay cannot go on: {said}]\n"),
    }
}
