//! Branches: copies of the program that go on by themselves. gdb calls functions of the
//! program in one, and the user may ask for one.
//!
//! gdb has no packet that says "a call": it sets registers, writes a frame, lets the
//! program run to a breakpoint, and puts the registers back. A client with our commands
//! announces it, and says when the command is done that made it; of others each write is
//! taken for a call, and what it leads to is shown until the next movement.
//!
//! Invariant: a movement that is not a branch's own is one in the recording.

use std::collections::BTreeSet;

use timeline::{Going, Heard, Reason, Timeline, TimelineError};

use crate::packet::{hex, number, pair, unhex};
use crate::registers;
use crate::resume::Movement;
use crate::server::Server;

/// What a branch is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    #[default]
    Call,
    /// The user asked for it.
    Branch,
}

/// What is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Branch,
    /// The present of a live program.
    Present,
}

/// What is known of the branch, and of the client's calls.
#[derive(Default)]
pub(crate) struct Apart {
    pub purpose: Purpose,
    /// The client announces its calls.
    announces: bool,
    /// Announced calls that are not over, nested ones among them.
    calls: u32,
    /// Why the present position was what it was, before the branch.
    reason: Option<Reason>,
    /// The next movement leads out of the branch, and nowhere.
    pub leaves: bool,
    /// Calls that were refused, each said once.
    refused: std::cell::RefCell<BTreeSet<u16>>,
}

pub(crate) const CHANGES_NOTHING: &str = "E.this is a recording: its memory and registers cannot be changed. \
     `branch` leads to a copy that goes on by itself, in which they can";

impl Apart {
    /// True of a client with our commands.
    pub fn announces(&self) -> bool {
        self.announces
    }
}

impl Server<'_> {
    /// `monitor call WORD`: what the client says of its calls.
    pub(crate) fn note_call(&mut self, word: &str) -> String {
        match word {
            "announced" => self.apart.announces = true,
            "begin" => {
                self.apart.calls += 1;
                if !self.timeline.shows_branch()
                    && let Err(error) = self.branch_off(Purpose::Call)
                {
                    return format!("retrovane: {error}\n");
                }
            }
            "end" => self.apart.calls = self.apart.calls.saturating_sub(1),
            "done" => {
                self.apart.calls = 0;
                if self.apart.purpose == Purpose::Call && self.timeline.branch_stands_at_beginning() {
                    self.leave_branch();
                }
            }
            _ => return format!("no such word: {word}\n"),
        }
        String::new()
    }

    /// `monitor branch`.
    pub(crate) fn branch(&mut self, word: &str) -> String {
        let is_in = self.timeline.shows_branch() && self.apart.purpose == Purpose::Branch;
        match word {
            "off" if is_in => {
                self.apart.leaves = true;
                String::new()
            }
            "off" => "this is no branch\n".to_owned(),
            "" if is_in => "this is a branch already; `branch off` leads back\n".to_owned(),
            "" => match self.branch_off(Purpose::Branch) {
                Ok(()) => {
                    let others = self.threads().len() - 1;
                    let still = if others == 0 {
                        String::new()
                    } else {
                        format!("Its {others} other threads stand still. ")
                    };
                    format!(
                        "From here on this is a copy of the program that goes on by itself. It reaches \
                         nothing outside. {still}Going back, or `branch off`, throws it away.\n"
                    )
                }
                Err(error) => format!("retrovane: no branch can be made here: {error}\n"),
            },
            word => format!("branch, or branch off; not: branch {word}\n"),
        }
    }

    fn branch_off(&mut self, purpose: Purpose) -> Result<(), TimelineError> {
        self.leave_branch();
        self.timeline.branch_off()?;
        self.apart.purpose = purpose;
        self.apart.reason = Some(self.reason);
        Ok(())
    }

    /// Throws the branch away, if there is one.
    pub(crate) fn leave_branch(&mut self) {
        self.timeline.leave_branch();
        self.apart.leaves = false;
        self.apart.refused.borrow_mut().clear();
        if let Some(reason) = self.apart.reason.take() {
            self.reason = reason;
        }
    }

    /// True if a movement is the branch's. One that is of no use any more is thrown away.
    pub(crate) fn moves_branch(&mut self) -> bool {
        let is_over = self.apart.purpose == Purpose::Call && self.timeline.branch_stands_at_beginning();
        if !self.timeline.shows_branch() || (is_over && self.apart.calls == 0) {
            self.leave_branch();
        }
        self.timeline.shows_branch()
    }

    /// Sees to it that there is something that may be written to; else says why not.
    /// `is_register`: a register, `is_general`: one of those that tell where the program is.
    fn prepare_write(&mut self, is_register: bool, is_general: bool) -> Result<Target, String> {
        let running = self.timeline.stop().thread;
        // Memory is that of all threads.
        let is_free = !is_register && self.timeline.is_live();
        if !is_free && self.general.is_some_and(|chosen| chosen != running) {
            let text = format!("E.only in the thread that runs, which is thread {}", running + 1);
            return Err(text);
        }
        let apart = &self.apart;
        let is_shown = self.timeline.shows_branch();
        if is_shown
            && (apart.purpose == Purpose::Branch
                || apart.calls > 0
                || !apart.announces
                // The client puts back what it had set: behind that it is where it began.
                || is_register && !(is_general && self.timeline.is_at_present())
                || !self.timeline.branch_stands_at_beginning())
        {
            return Ok(Target::Branch);
        }
        if apart.announces {
            if !self.timeline.is_at_present() {
                return Err(CHANGES_NOTHING.to_owned());
            }
            // A branch was there for a call whose result is written now.
            self.leave_branch();
            return Ok(Target::Present);
        }
        self.branch_off(Purpose::Call).map_err(|error| format!("E.{error}"))?;
        Ok(Target::Branch)
    }

    /// `M address,length:hex` and `X address,length:bytes`.
    pub(crate) fn write_memory(&mut self, packet: &[u8]) -> String {
        let Some(colon) = packet.iter().position(|&byte| byte == b':') else { return "E01".to_owned() };
        let place = std::str::from_utf8(&packet[1..colon]).ok().and_then(pair);
        let content = &packet[colon + 1..];
        let bytes = match packet[0] {
            b'X' => Some(content.to_vec()),
            _ => std::str::from_utf8(content).ok().and_then(unhex),
        };
        let (Some((address, length)), Some(bytes)) = (place, bytes) else { return "E01".to_owned() };
        if bytes.len() as u64 != length {
            return "E01".to_owned();
        }
        if bytes.is_empty() {
            // It only asks whether there is such a packet.
            return "OK".to_owned();
        }
        let written = match self.prepare_write(false, false) {
            Err(text) => {
                // Why a register cannot be written gdb tells its user, but not this.
                diagnostics::tell!("retrovane: {}", text.trim_start_matches("E."));
                return text;
            }
            Ok(Target::Branch) => self.timeline.write_branch(address, &bytes),
            Ok(Target::Present) => self.timeline.edit_memory(address, &bytes).map(|()| bytes.len()),
        };
        match written {
            Ok(count) if count == bytes.len() => "OK".to_owned(),
            Ok(_) => "E14".to_owned(),
            Err(error) => format!("E.{error}"),
        }
    }

    /// `P index=hex`.
    pub(crate) fn write_register(&mut self, rest: &str) -> String {
        let parsed = rest.split_once('=').and_then(|(index, value)| Some((number(index)?, unhex(value)?)));
        let Some((index, value)) = parsed else { return "E01".to_owned() };
        self.write_registers(&[(index as usize, &value)])
    }

    /// `G hex`.
    pub(crate) fn write_all_registers(&mut self, rest: &str) -> String {
        let Some(bytes) = unhex(rest) else { return "E01".to_owned() };
        let mut values = Vec::new();
        let mut at = 0;
        for (index, length) in registers::lengths(registers::has_high(&self.timeline)).into_iter().enumerate()
        {
            let Some(value) = bytes.get(at..at + length) else { break };
            values.push((index, value));
            at += length;
        }
        self.write_registers(&values)
    }

    fn write_registers(&mut self, values: &[(usize, &[u8])]) -> String {
        let lengths = registers::lengths(registers::has_high(&self.timeline));
        if values.iter().any(|(index, value)| lengths.get(*index) != Some(&value.len())) {
            return "E01".to_owned();
        }
        let is_general = general_of(&self.timeline, values) != self.timeline.stop().threads[0].registers;
        let target = match self.prepare_write(true, is_general) {
            Err(text) => return text,
            Ok(target) => target,
        };
        match self.set_registers(target, values) {
            Ok(()) => "OK".to_owned(),
            Err(error) => format!("E.{error}"),
        }
    }

    fn set_registers(&mut self, target: Target, values: &[(usize, &[u8])]) -> Result<(), TimelineError> {
        let before = self.timeline.stop().threads[0].registers;
        let general = general_of(&self.timeline, values);
        let vectors = registers::vector_bytes(&self.timeline, values);
        match target {
            Target::Present if vectors.is_empty() && general == before => Ok(()),
            Target::Present => self.timeline.edit_registers(&general, &vectors),
            Target::Branch => {
                let state = self.timeline.stop().vectors;
                for (offset, bytes) in &vectors {
                    self.timeline.write_branch(state + offset, bytes)?;
                }
                if general == before { Ok(()) } else { self.timeline.set_branch_registers(&general) }
            }
        }
    }

    /// A movement of the branch. `kills`: with the signal that it stopped at.
    pub(crate) fn go_apart(&mut self, movement: Movement, kills: bool) -> Result<Reason, TimelineError> {
        let connection = self.connection;
        if kills && let Reason::Signal(signal) = self.reason {
            self.leave_branch();
            self.tell(&format!(
                "[The program dies of signal {signal} in its branch, which is thrown away]\n"
            ));
            return Ok(Reason::Stepped);
        }
        let give_up = || connection.wants_stop();
        let stops = self.inserted.stops();
        let apart = &self.apart;
        let hear = |heard: Heard| {
            let text = match heard {
                Heard::Output(bytes) => hex(bytes),
                Heard::Refused(number) if apart.refused.borrow_mut().insert(number) => {
                    let row = syscall_model::row(u64::from(number));
                    let name = row.map_or("an unknown call", |row| row.name);
                    hex(format!("[{name} is refused: a branch reaches nothing outside]\n").as_bytes())
                }
                Heard::Refused(_) => return,
            };
            // A connection that broke is noticed at the answer.
            let _ = connection.send(format!("O{text}").as_bytes());
        };
        let timeline = &mut self.timeline;
        // The thread that runs is the only one.
        let step = Going::Step(0);
        let reason = match movement {
            Movement::On => timeline.forward_branch(Going::On, &stops, &give_up, &hear)?,
            Movement::Step(_) => timeline.forward_branch(step, &stops, &give_up, &hear)?,
            Movement::Range(_, start, end) => loop {
                let reason = timeline.forward_branch(step, &stops, &give_up, &hear)?;
                let at = timeline.stop().threads[0].registers[registers::RIP];
                if reason != Reason::Stepped || !(start..end).contains(&at) || stops.breakpoints.contains(&at)
                {
                    break reason;
                }
                if give_up() {
                    break Reason::Interrupted;
                }
            },
            Movement::Back | Movement::StepBack(_) => Reason::Stepped,
        };
        self.note_end_of_branch(reason);
        Ok(reason)
    }

    fn note_end_of_branch(&mut self, reason: Reason) {
        match reason {
            Reason::Left(code) => {
                let how = code.map_or("ends".to_owned(), |code| format!("exits with {code}"));
                self.leave_branch();
                self.tell(&format!("[The program {how} in its branch, which is thrown away]\n"));
            }
            Reason::Stuck => {
                self.tell("[It waits for another thread, and there is none in a branch]\n");
            }
            _ => {}
        }
    }

    /// Says something, if the client is still there.
    pub(crate) fn tell(&self, text: &str) {
        let _ = self.say(text);
    }
}

/// The general registers of the thread that runs, with these values.
fn general_of(timeline: &Timeline, values: &[(usize, &[u8])]) -> [u64; 18] {
    let mut general = timeline.stop().threads[0].registers;
    for (index, value) in values {
        if let registers::Place::General(number) = registers::place_of(timeline, *index) {
            let mut word = [0; 8];
            word[..value.len()].copy_from_slice(value);
            general[number] = u64::from_le_bytes(word);
        }
    }
    general
}
