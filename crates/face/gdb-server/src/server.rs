//! Packets and their answers.

use std::collections::BTreeMap;

use timeline::{AgentThread, Position, Reason, Timeline};

use crate::apart::Apart;
use crate::breakpoints::Inserted;
use crate::children::Children;
use crate::connection::{Connection, ServeError};
use crate::names::Names;
use crate::packet::{hex, number, pair};
use crate::registers;
use crate::repeats::Repeats;
use crate::resume::Movement;

/// What a client is served.
pub(crate) struct Server<'a> {
    pub timeline: Timeline,
    pub connection: &'a Connection,
    pub inserted: Inserted,
    /// Why the present position is where it is.
    pub reason: Reason,
    /// The thread that `g` and others mean; `None`: the one that ran.
    pub general: Option<u32>,
    /// The thread that `s` and others mean.
    pub resumed: Option<u32>,
    /// History had ended before the last movement already.
    pub was_at_end: bool,
    /// The last movement was a step, as far as the client knows.
    pub is_step: bool,
    pub has_moved: bool,
    pub knows_exec: bool,
    /// Where the next movement goes instead.
    pub pending: Option<Position>,
    /// A live program's checkpoint, to which the next movement takes it back.
    pub rolls_back_to: Option<u64>,
    pub marks: BTreeMap<String, Position>,
    pub checkpoints: BTreeMap<u32, Position>,
    pub apart: Apart,
    pub children: Children,
    pub repeats: Repeats,
    /// The client was told of another image; the next movement is where it is already.
    pub stays: bool,
    /// Where history ends, once that was seen.
    pub end: Option<Position>,
    pub names: Names,
    /// What is mapped, while the client has opened that.
    pub opened: Option<Vec<u8>>,
    /// It is lldb, which asks what gdb does not.
    pub is_lldb: bool,
    /// Address of what says where a link map has its module's number; `None`: not known.
    pub module_number_at: Option<u64>,
}

/// What to do after a packet.
enum After {
    Answer(Vec<u8>),
    Detach,
    End,
}

/// How a client left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// It wants a live program to go on, which it does.
    Detached,
    /// What becomes of a live program is the caller's.
    Left,
}

/// Serves a client until it leaves. The position is told to be where `reason` says.
///
/// # Errors
/// [`ServeError`] if the connection breaks. That the client is gone is none.
pub fn serve(timeline: Timeline, connection: &Connection, reason: Reason) -> Result<Farewell, ServeError> {
    let mut server = Server {
        timeline,
        connection,
        inserted: Inserted::default(),
        reason,
        general: None,
        resumed: None,
        was_at_end: false,
        is_step: false,
        has_moved: false,
        knows_exec: false,
        pending: None,
        rolls_back_to: None,
        marks: BTreeMap::new(),
        checkpoints: BTreeMap::new(),
        apart: Apart::default(),
        children: Children::default(),
        repeats: Repeats::default(),
        stays: false,
        end: None,
        names: Names::default(),
        opened: None,
        is_lldb: false,
        module_number_at: None,
    };
    let farewell = converse(&mut server);
    let is_detached = matches!(farewell, Ok(Farewell::Detached));
    // What ran before its debugger came does not end with it.
    let outlives_us = server.timeline.debuggee().is_some_and(|debuggee| debuggee.ran_already());
    if is_detached || outlives_us {
        server.timeline.detach();
    }
    if outlives_us { Ok(Farewell::Detached) } else { farewell }
}

/// Answers until the debugger leaves, or does without the program.
fn converse(server: &mut Server<'_>) -> Result<Farewell, ServeError> {
    let connection = server.connection;
    while let Some(packet) = connection.receive()? {
        // Commands are text; what is not is none of them.
        let text = String::from_utf8_lossy(&packet).into_owned();
        let after = match packet.first() {
            Some(b'M' | b'X') => answer(server.write_memory(&packet)),
            _ => server.handle(&text)?,
        };
        match after {
            After::Answer(answer) => connection.send(&answer)?,
            After::Detach => {
                connection.send(b"OK")?;
                let has_child = server.children.knows_forks && server.child_made(server.reason).is_some();
                // A child of which it was just told it lets go next.
                while has_child && let Some(packet) = connection.receive()? {
                    connection.send(if packet.first() == Some(&b'D') { b"OK" } else { b"" })?;
                }
                return Ok(Farewell::Detached);
            }
            After::End => return Ok(Farewell::Left),
        }
    }
    Ok(Farewell::Left)
}

fn answer(text: impl Into<Vec<u8>>) -> After {
    After::Answer(text.into())
}

impl Server<'_> {
    fn handle(&mut self, packet: &str) -> Result<After, ServeError> {
        let Some(first) = packet.chars().next() else { return Ok(answer("")) };
        let rest = &packet[first.len_utf8()..];
        self.repeats.look_at(packet);
        Ok(match first {
            '?' => answer(self.first_reply()),
            'g' => answer(self.all_registers()),
            'p' => answer(self.one_register(rest)),
            'm' => answer(self.memory(rest)),
            'G' => answer(self.write_all_registers(rest)),
            'P' => answer(self.write_register(rest)),
            'H' => answer(self.choose_thread(rest)),
            'T' => answer(if self.thread(parse_thread(rest)).is_some() { "OK" } else { "E03" }),
            'z' | 'Z' => answer(self.change_breakpoint(first == 'Z', rest)),
            'c' | 'C' | 's' | 'S' | 'b' => self.resume(packet)?,
            'D' if rest.strip_prefix(';').is_some_and(|pid| self.names_child(&format!("p{pid}"))) => {
                answer("OK")
            }
            'D' => After::Detach,
            'k' => After::End,
            'v' if packet.starts_with("vCont;") => self.resume(packet)?,
            'v' if packet == "vCont?" => answer("vCont;c;C;s;S;r;t"),
            // It is not debugged, and stays what it was.
            'v' if packet.strip_prefix("vKill;").is_some_and(|pid| self.names_child(&format!("p{pid}"))) => {
                answer("OK")
            }
            'v' if packet.starts_with("vKill") => {
                self.connection.send(b"OK")?;
                After::End
            }
            'v' if packet.starts_with("vFile:") => answer(self.file(&packet["vFile:".len()..])),
            'q' | 'Q' => answer(self.query(packet)?),
            _ => answer(""),
        })
    }

    fn resume(&mut self, packet: &str) -> Result<After, ServeError> {
        let Some(movement) = crate::resume::parse(packet, self.resumed, self.timeline.stop().thread) else {
            return Ok(answer(""));
        };
        if core::mem::take(&mut self.stays) {
            return Ok(answer(self.told("00", "")));
        }
        if core::mem::take(&mut self.children.vfork_done_is_due) {
            return Ok(answer(self.told("05", "vforkdone:;")));
        }
        self.children.means_child = false;
        self.was_at_end = self.timeline.is_at_end();
        // gdb never finishes a step over a breakpoint that ends with history: that it
        // has ended is told with the next movement.
        self.is_step = self.pending.is_some()
            || self.rolls_back_to.is_some()
            || !matches!(movement, Movement::On | Movement::Back);
        let before = self.timeline.known_position();
        let image = self.image();
        let planned_in = self.pending.map(|_| self.timeline.stop().thread);
        if let Reason::End { .. } = self.reason {
            self.end = before.or(self.end);
        }
        let kills = packet.starts_with('C') || packet.starts_with("vCont;C");
        match self.go(movement, kills) {
            Ok(reason) => self.reason = reason,
            Err(error) => {
                self.say(&format!("retrovane: {error}\n"))?;
                self.reason = Reason::Interrupted;
                if matches!(error, timeline::TimelineError::Died(_) | timeline::TimelineError::Replay(_)) {
                    self.connection.send(b"X09")?;
                    return Ok(After::End);
                }
            }
        }
        self.has_moved = self.timeline.known_position() != before;
        self.general = None;
        self.connection.forget_interrupt();
        self.tell_end()?;
        let has_other_image = match (image, self.image()) {
            // In a live program only the present image is counted.
            ((0, before), (_, now)) | ((_, before), (0, now)) => before != now,
            (before, now) => before != now,
        };
        if has_other_image && self.knows_exec && self.reason != Reason::Image {
            self.stays = true;
            return Ok(answer(self.told("05", &self.exec_detail())));
        }
        let made = self.fork_detail();
        self.children.vfork_done_is_due = made.is_some_and(|made| made.starts_with('v'));
        let is_death = self.death().is_some() || self.reason == Reason::Interrupted;
        if planned_in.is_some_and(|thread| thread != self.timeline.stop().thread) && !is_death {
            // The thread that runs there made no step.
            return Ok(answer(self.told("00", "")));
        }
        Ok(answer(self.stop_reply()))
    }

    /// Which image is looked at: its number, if it has one, and its first stack.
    fn image(&self) -> (u64, u64) {
        let stop = self.timeline.stop();
        (if self.timeline.is_live() { 0 } else { stop.images }, stop.first_stack)
    }

    fn exec_detail(&self) -> String {
        format!("exec:{};", hex(self.executable().as_bytes()))
    }

    /// A stop of the thread that runs.
    fn told(&self, signal: &str, detail: &str) -> String {
        format!("T{signal}thread:{};{detail}", self.thread_id(self.timeline.stop().thread))
    }

    /// Shows text to the user, while the client waits for a stop.
    pub fn say(&self, text: &str) -> Result<(), ServeError> {
        self.connection.send(format!("O{}", hex(text.as_bytes())).as_bytes())
    }

    pub fn threads(&self) -> &[AgentThread] {
        let stop = self.timeline.stop();
        &stop.threads[..(stop.thread_count as usize).min(stop.threads.len())]
    }

    pub(crate) fn thread(&self, index: Option<u32>) -> Option<&AgentThread> {
        let wanted = index.unwrap_or(self.timeline.stop().thread);
        self.threads().iter().find(|thread| thread.index == wanted)
    }

    fn register_values(&self) -> Option<Vec<Option<Vec<u8>>>> {
        let thread = self.thread(self.general)?;
        Some(registers::values(&self.timeline, thread, thread.index == self.timeline.stop().thread))
    }

    fn all_registers(&self) -> String {
        self.register_values().map_or("E03".to_owned(), |values| {
            registers::encode(&values, registers::has_high(&self.timeline))
        })
    }

    fn one_register(&self, rest: &str) -> String {
        let Some(values) = self.register_values() else { return "E03".to_owned() };
        let index = number(rest).map_or(usize::MAX, |index| index as usize);
        match (values.get(index), registers::lengths(registers::has_high(&self.timeline)).get(index)) {
            (Some(Some(value)), _) => hex(value),
            (Some(None), Some(bytes)) => "xx".repeat(*bytes),
            _ => "E01".to_owned(),
        }
    }

    fn memory(&self, rest: &str) -> String {
        const READ_BYTES_MAX: u64 = 0xf000;
        let Some((address, bytes)) = pair(rest) else { return "E01".to_owned() };
        let mut buffer = vec![0; bytes.min(READ_BYTES_MAX) as usize];
        let count = self.timeline.read(address, &mut buffer);
        if count == 0 && bytes != 0 { "E14".to_owned() } else { hex(&buffer[..count]) }
    }

    fn choose_thread(&mut self, rest: &str) -> &'static str {
        let Some(id) = rest.get(1..) else { return "E01" };
        self.children.means_child = self.names_child(id);
        if self.children.means_child {
            return "OK";
        }
        let chosen = parse_thread(id);
        if chosen.is_some() && self.thread(chosen).is_none() {
            return "E03";
        }
        match rest.as_bytes()[0] {
            b'g' => self.general = chosen,
            b'c' => self.resumed = chosen,
            _ => return "E01",
        }
        "OK"
    }

    fn change_breakpoint(&mut self, insert: bool, rest: &str) -> &'static str {
        let Some((kind, place)) = rest.split_once(',') else { return "E01" };
        if self.children.means_child {
            // There is nothing of it in a child.
            return "OK";
        }
        let (place, conditions) = place.split_at(place.find(';').unwrap_or(place.len()));
        let Some((address, bytes)) = pair(place) else { return "E01" };
        let [kind] = *kind.as_bytes() else { return "E01" };
        if insert && timeline::is_of_runtime(address) {
            return "E.that memory is Retrovane's own: nothing of the program is there";
        }
        // Memory may come and go, that of a library's code too: at the beginning of history
        // gdb steps with breakpoints of its own there. Here there never is any.
        const LOWEST_MAPPED: u64 = 0x1_0000;
        if insert && kind <= b'1' && address < LOWEST_MAPPED {
            return "E14";
        }
        if self.inserted.change(insert, kind, address, bytes, conditions) { "OK" } else { "" }
    }

    /// Says how history ended, if it has.
    fn tell_end(&self) -> Result<(), ServeError> {
        let text = match self.reason {
            Reason::End { report, code } => crate::monitor::end_text(report, code, self),
            Reason::Present if !self.is_step => {
                "[The present: from here on the program is live]\n".to_owned()
            }
            Reason::Leaving(code) => {
                format!("[The program is about to exit with {code}: `continue` lets it]\n")
            }
            _ => return Ok(()),
        };
        if text.is_empty() { Ok(()) } else { self.say(&text) }
    }

    /// Where the client finds the program: that history has its ends goes without saying.
    fn first_reply(&self) -> String {
        match self.reason {
            Reason::Begin | Reason::Image => self.told("05", ""),
            _ => self.stop_reply(),
        }
    }

    /// What follows an end.
    fn of_process(&self) -> String {
        if self.children.has_process_ids {
            format!(";process:{:x}", self.process_id())
        } else {
            String::new()
        }
    }

    /// What the client is told of the present position.
    pub fn stop_reply(&self) -> String {
        let mut signal = 5;
        let detail = match self.reason {
            Reason::Begin if self.is_step && self.has_moved => String::new(),
            Reason::Begin => "replaylog:begin;".to_owned(),
            Reason::End { .. } if !self.was_at_end && self.death().is_some() => {
                signal = self.signal_for_client(self.death().unwrap_or_default());
                String::new()
            }
            Reason::End { .. } if self.is_step && !self.was_at_end => String::new(),
            Reason::End { .. } => "replaylog:end;".to_owned(),
            Reason::Breakpoint => "swbreak:;".to_owned(),
            Reason::Watch(index) => self
                .inserted
                .watched(index)
                .map_or(String::new(), |(kind, address)| format!("{kind}:{address:x};")),
            Reason::Interrupted => {
                signal = 2;
                String::new()
            }
            Reason::Image if self.knows_exec => self.exec_detail(),
            Reason::Call(number) => {
                self.fork_detail().unwrap_or_else(|| format!("syscall_return:{number:x};"))
            }
            Reason::Signal(number) => {
                signal = self.signal_for_client(number);
                String::new()
            }
            Reason::Handler(number) => {
                signal = self.signal_for_client(number as i32);
                String::new()
            }
            Reason::Stuck => {
                signal = 2;
                String::new()
            }
            Reason::Exited(code) => return format!("W{:02x}{}", code & 0xff, self.of_process()),
            Reason::Killed(number) => {
                return format!("X{:02x}{}", self.signal_for_client(number) & 0xff, self.of_process());
            }
            Reason::Leaving(_) => {
                signal = 0;
                String::new()
            }
            Reason::Present if !self.is_step => "replaylog:end;".to_owned(),
            Reason::Image | Reason::Stepped | Reason::Left(_) | Reason::Present | Reason::WentBack => {
                String::new()
            }
        };
        self.told(&format!("{signal:02x}"), &detail)
    }
}

/// The index of a thread from its id, with a process or without; `None`: any.
pub(crate) fn parse_thread(id: &str) -> Option<u32> {
    let id = match id.strip_prefix('p') {
        Some(id) => id.split_once('.')?.1,
        None => id,
    };
    let id = number(id)?;
    u32::try_from(id).ok()?.checked_sub(1)
}
