//! One process of the replay, which stands still except while a command is done.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use injector::{Segment, SessionMemory};
use lane_protocol::bytecode::{PROGRAM_BYTES_MAX, breakpoint_kind};
use lane_protocol::{AgentCommand, AgentStop, agent_stop, agent_verb, report_kind};
use recorder::debuggee::Debuggee;

use crate::command::{command_of, slowed_by};
use crate::error::TimelineError;
use crate::limits::{AskPatience, Limits, Patience};
use crate::position::{Position, Stops, position_of};
use crate::session::{Session, wait_standing};
use crate::spectator::Spectator;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long an interrupted process may take to its next event.
const TO_NEXT_EVENT: Duration = Duration::from_millis(60);

/// Where a process belongs.
#[derive(Clone)]
enum Home {
    Replay(Rc<Session>),
    Live(Rc<Debuggee>),
}

impl Home {
    fn memory(&self) -> &SessionMemory {
        match self {
            Home::Replay(session) => session.memory(),
            Home::Live(debuggee) => debuggee.memory(),
        }
    }

    /// Why a process will not come to a stop, if so.
    fn failure_of(&self, pid: i32) -> Option<TimelineError> {
        match self {
            Home::Replay(session) => session.failure_of(pid),
            Home::Live(debuggee) => debuggee.is_gone().then_some(TimelineError::Ended),
        }
    }
}

/// A change of a live process, which is logged.
#[derive(Clone, Copy)]
pub enum Edit<'a> {
    /// None yet: the place where it stands.
    Mark,
    /// The general registers of the thread that runs.
    Registers(&'a [u64; 18]),
    /// These bytes, to this address: at most [`Edit::BYTES_MAX`].
    Memory(u64, &'a [u8]),
}

impl Edit<'_> {
    pub const BYTES_MAX: usize = PROGRAM_BYTES_MAX;
}

/// A process. One of a replay ends when this is dropped.
pub struct Process {
    home: Home,
    segment: Segment,
    pub pid: i32,
    mem: File,
    pub stop: Box<AgentStop>,
    /// It goes on by itself.
    is_branch: bool,
    /// How long it took to come here from where history begins.
    pub way: Duration,
}

impl Process {
    /// The process that is debugged, when it has come to its first instruction.
    pub fn first(session: &Rc<Session>, patience: AskPatience) -> Result<Process, TimelineError> {
        loop {
            if let Some(segment) = session.first_segment() {
                return Process::at(session, segment);
            }
            if let Some(failure) = session.failure() {
                return Err(failure);
            }
            if session.is_over() {
                return Err(session.failure_before());
            }
            if patience() == Patience::Enough {
                return Err(TimelineError::Interrupted);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn at(session: &Rc<Session>, segment: Segment) -> Result<Process, TimelineError> {
        let lane = session.memory().lane(segment);
        let pid = lane.pid().load(Ordering::Acquire);
        let mem = File::open(format!("/proc/{pid}/mem"))?;
        let home = Home::Replay(Rc::clone(session));
        let stop = lane.agent_stop();
        session.note_stand(segment, stop.event, stop.met_others != 0);
        Ok(Process { home, segment, pid, mem, stop, is_branch: false, way: Duration::ZERO })
    }

    /// A live process, when it stands at its first instruction.
    pub fn live(debuggee: &Rc<Debuggee>) -> Result<Process, TimelineError> {
        let (segment, pid) = (debuggee.segment(), debuggee.pid());
        let lane = debuggee.memory().lane(segment);
        while !lane.wait_for_stop(LOOK_EVERY) {
            if debuggee.is_gone() {
                return Err(TimelineError::Ended);
            }
        }
        let mem = File::open(format!("/proc/{pid}/mem"))?;
        let home = Home::Live(Rc::clone(debuggee));
        let stop = lane.agent_stop();
        Ok(Process { home, segment, pid, mem, stop, is_branch: false, way: Duration::ZERO })
    }

    /// The session of a process that is replayed.
    pub fn session(&self) -> Result<&Rc<Session>, TimelineError> {
        match &self.home {
            Home::Replay(session) => Ok(session),
            Home::Live(_) => Err(TimelineError::Copy(libc::EBUSY)),
        }
    }

    fn is_live(&self) -> bool {
        matches!(self.home, Home::Live(_))
    }

    /// A live process does what it is ordered, one of `lane_protocol::command`, where it
    /// stands, or from where it goes back to. The answer, or an errno.
    pub fn order(&mut self, order: u32, argument: u64) -> Result<Result<u64, i32>, TimelineError> {
        let (mut command, _) = command_of(agent_verb::ORDER, &Stops::default(), Limits::FIRST_HIT)?;
        (command.order, command.argument) = (u64::from(order), argument);
        self.obey(&command, &[])
    }

    /// A live process logs and makes a change of itself. The same.
    pub fn edit(&mut self, edit: Edit) -> Result<Result<u64, i32>, TimelineError> {
        let verb = match edit {
            Edit::Mark => agent_verb::MARK,
            Edit::Registers(_) => agent_verb::SET,
            Edit::Memory(..) => agent_verb::WRITE,
        };
        let (mut command, _) = command_of(verb, &Stops::default(), Limits::FIRST_HIT)?;
        let mut content = &[][..];
        match edit {
            Edit::Mark => {}
            Edit::Registers(registers) => command.registers = *registers,
            Edit::Memory(address, bytes) => {
                (command.argument, command.order) = (address, bytes.len() as u64);
                content = bytes;
            }
        }
        self.obey(&command, content)
    }

    /// A live process obeys, where it stands, and then stands there for the reason that it
    /// stood for.
    fn obey(&mut self, command: &AgentCommand, content: &[u8]) -> Result<Result<u64, i32>, TimelineError> {
        let before = self.stop.clone();
        self.home.memory().lane(self.segment).give_command(command, content);
        self.wait(command.verb, &|| Patience::Wait)?;
        let answer = match self.stop.kind {
            agent_stop::ORDERED => u64::try_from(self.stop.code).map_err(|_| -self.stop.code),
            _ => return Ok(Ok(0)),
        };
        // Why it stands there is what it was.
        self.stop.kind = before.kind;
        self.stop.code = before.code;
        self.stop.last_hit = before.last_hit;
        Ok(answer)
    }

    /// Does one command to its end.
    pub fn command(
        &mut self,
        verb: u32,
        stops: &Stops,
        limits: Limits,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        let (command, programs) = command_of(verb, stops, limits)?;
        if let Home::Replay(session) = &self.home {
            session.note_command(slowed_by(verb));
        }
        self.home.memory().lane(self.segment).give_command(&command, &programs);
        let began = Instant::now();
        let waited = self.wait(verb, patience);
        self.way += began.elapsed();
        if let Home::Replay(session) = &self.home
            && !self.is_branch
        {
            // Where it is lost it may have come to others.
            let met_others = waited.is_err() || self.stop.met_others != 0;
            session.note_stand(self.segment, self.stop.event, met_others);
        }
        if self.stop.kind == agent_stop::END && self.stop.report == report_kind::ALONE {
            return Err(TimelineError::Alone);
        }
        if self.stop.kind == agent_stop::END
            && self.stop.report == report_kind::LOG_ENDED
            && let Home::Replay(session) = &self.home
            && let Some(failure) = session.ends_too_soon()
        {
            return Err(failure);
        }
        waited
    }

    /// True if it can go on up to this event: others that it comes to share memory with there
    /// do not go on with another copy.
    pub fn can_run_to(&self, until_event: u64) -> bool {
        match &self.home {
            Home::Replay(session) => !session.is_with_another(self.segment) || session.serves(until_event),
            Home::Live(_) => true,
        }
    }

    /// It goes with the others of its group from now on, and copies of it go without.
    pub fn send_out(&self) -> Result<(), TimelineError> {
        self.session()?.send_out(self.segment);
        Ok(())
    }

    /// True if it is of this session.
    pub fn is_of(&self, session: Option<&Rc<Session>>) -> bool {
        match (&self.home, session) {
            (Home::Replay(own), Some(session)) => Rc::ptr_eq(own, session),
            _ => false,
        }
    }

    /// At full speed.
    pub fn run(&mut self, stops: &Stops, limits: Limits, patience: AskPatience) -> Result<(), TimelineError> {
        self.command(agent_verb::RUN, stops, limits, patience)
    }

    /// Counting instructions.
    pub fn step(
        &mut self,
        stops: &Stops,
        limits: Limits,
        patience: AskPatience,
    ) -> Result<(), TimelineError> {
        self.command(agent_verb::STEP, stops, limits, patience)
    }

    /// Waits until it stands still, and looks ever more rarely. Where patience ends it interrupts
    /// the process, and ends well, with a stop that says so.
    fn wait(&mut self, verb: u32, patience: AskPatience) -> Result<(), TimelineError> {
        let (mut asked, mut look): (Option<Instant>, _) = (None, LOOK_EVERY / 20);
        let home = self.home.clone();
        let lane = home.memory().lane(self.segment);
        while !lane.wait_for_stop(look) {
            look = (look * 2).min(LOOK_EVERY);
            if let Some(failure) = home.failure_of(self.pid) {
                return Err(failure);
            }
            match patience() {
                Patience::Wait => {}
                Patience::NextEvent => lane.interrupt_at_event(),
                Patience::Enough if self.is_live() => self.interrupt_live(),
                Patience::Enough => {
                    let since = asked.get_or_insert_with(Instant::now);
                    // While it steps it looks for itself, and a signal could hide a step.
                    lane.interrupt(verb == agent_verb::RUN && since.elapsed() > TO_NEXT_EVENT);
                }
            }
        }
        self.stop = lane.agent_stop();
        if self.is_live() {
            // It may have got new memory by execve.
            self.mem = File::open(format!("/proc/{}/mem", self.pid))?;
        }
        Ok(())
    }

    /// A live process goes on, and nothing stops it.
    pub fn release(&mut self) {
        if let Ok((command, _)) = command_of(agent_verb::RELEASE, &Stops::default(), Limits::ALL_HITS) {
            self.home.memory().lane(self.segment).give_command(&command, &[]);
        }
    }

    fn interrupt_live(&self) {
        if let Home::Live(debuggee) = &self.home {
            debuggee.interrupt();
        }
    }

    /// A branch has said something: lets it go on with what it does.
    pub fn go_on(&mut self, verb: u32, patience: AskPatience) -> Result<(), TimelineError> {
        let (nothing, _) = command_of(0, &Stops::default(), Limits::FIRST_HIT)?;
        self.home.memory().lane(self.segment).give_command(&nothing, &[]);
        self.wait(verb, patience)
    }

    /// True if it stands at one of these breakpoints, and its condition holds, behind one of these
    /// calls, or where the handler of one of these signals begins.
    pub fn stands_at(&self, stops: &Stops) -> bool {
        const RIP: usize = 16;
        let at = self.stop.threads[0].registers[RIP];
        let holds = || match stops.programs.get(&at).map(Vec::as_slice) {
            Some([breakpoint_kind::STOPS_IF, conditions @ ..]) => {
                bytecode::any_holds(conditions, &mut Spectator(self))
            }
            _ => true,
        };
        stops.catches(self.stop.call)
            || stops.catches_signal(self.stop.signal)
            || stops.breakpoints.contains(&at) && holds()
    }

    /// A copy of it, if copies can be made of it here.
    pub fn copy_if_possible(&self) -> Result<Option<Process>, TimelineError> {
        if self.stop.cannot_copy != 0 || self.stop.kind == agent_stop::END {
            return Ok(None);
        }
        match self.copy() {
            Err(TimelineError::Copy(libc::EBUSY | libc::EAGAIN)) => Ok(None),
            copy => copy.map(Some),
        }
    }

    /// A copy of it, which stands where it does.
    pub fn copy(&self) -> Result<Process, TimelineError> {
        let (command, _) = command_of(agent_verb::COPY, &Stops::default(), Limits::FIRST_HIT)?;
        self.copy_by(command)
    }

    /// A copy that goes on by itself from here, with memory that is all its own.
    pub fn branch(&self) -> Result<Process, TimelineError> {
        let mut ranges = Vec::new();
        for (start, end) in shared_mappings(self.pid)? {
            ranges.extend([start, end]);
        }
        let stops = Stops { breakpoints: ranges, ..Stops::default() };
        let (mut command, _) = command_of(agent_verb::BRANCH, &stops, Limits::FIRST_HIT)?;
        command.pid = self.session()?.recorded_pid();
        let mut branch = self.copy_by(command)?;
        branch.is_branch = true;
        Ok(branch)
    }

    fn copy_by(&self, mut command: AgentCommand) -> Result<Process, TimelineError> {
        let before = self.stop.clone();
        let session = self.session()?;
        let segment = session.prepare_copy(before.log_position)?;
        command.segment = segment.index() as u32;
        let lane = session.memory().lane(self.segment);
        lane.give_command(&command, &[]);
        let new = session.memory().lane(segment);
        loop {
            let done = lane.wait_for_stop(LOOK_EVERY);
            let made = if done { lane.agent_stop().code } else { 0 };
            if made < 0 {
                session.end(segment, 0);
                return Err(TimelineError::Copy(-made));
            }
            if done && new.wait_for_stop(LOOK_EVERY) {
                break;
            }
            if let Some(failure) = session.failure_of(self.pid) {
                return Err(failure);
            }
            if made > 0 && session.failure_of(made).is_some() {
                // Mostly there may be no more threads.
                session.end(segment, made);
                return Err(TimelineError::Copy(libc::EAGAIN));
            }
        }
        let mut copy = Process::at(session, segment)?;
        // Why it stands there is the original's.
        (copy.stop.kind, copy.stop.code) = (before.kind, before.code);
        copy.way = self.way;
        Ok(copy)
    }

    /// Stands in such a way that an image can be made of it, until the next command. Gives
    /// the running thread's block, and where its stack ends.
    pub fn stand(&mut self) -> Result<[u64; 2], TimelineError> {
        let (command, _) = command_of(agent_verb::STAND, &Stops::default(), Limits::FIRST_HIT)?;
        let lane = self.home.memory().lane(self.segment);
        lane.give_command(&command, &[]);
        wait_standing(lane, || self.home.failure_of(self.pid))?;
        Ok(lane.standing())
    }

    /// A new process of an image, with a log of which so much was consumed then.
    pub fn from_image(
        session: &Rc<Session>,
        log_position: u64,
        image: &File,
    ) -> Result<Process, TimelineError> {
        let segment = session.prepare_copy(log_position)?;
        let started = session.start_from_image(segment, image);
        let pid = started.inspect_err(|_| session.end(segment, 0))?;
        wait_standing(session.memory().lane(segment), || session.failure_of(pid))
            .inspect_err(|_| session.end(segment, pid))?;
        Process::at(session, segment)
    }

    /// Sets the registers of a branch's running thread.
    pub fn set_registers(&mut self, registers: &[u64; 18]) -> Result<(), TimelineError> {
        let (mut command, _) = command_of(agent_verb::SET, &Stops::default(), Limits::FIRST_HIT)?;
        command.registers = *registers;
        self.home.memory().lane(self.segment).give_command(&command, &[]);
        self.wait(agent_verb::SET, &|| Patience::Wait)
    }

    /// Writes memory of a branch; how many bytes were written.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<usize, TimelineError> {
        let mem = File::options().write(true).open(format!("/proc/{}/mem", self.pid))?;
        Ok(mem.write_at(bytes, address).unwrap_or(0))
    }

    /// Reads memory: as many bytes as are there, from the address on.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            // Up to the end of a page: behind it nothing may be mapped.
            let part = ((4096 - at % 4096) as usize).min(bytes.len() - done);
            match self.mem.read_at(&mut bytes[done..done + part], at) {
                Ok(0) | Err(_) => break,
                Ok(count) => done += count,
            }
        }
        done
    }

    /// Why a position was not come to: there is none, or the process cannot go on.
    pub(crate) fn missed(&self, target: Position) -> TimelineError {
        let stop = &self.stop;
        if stop.kind == agent_stop::END
            && matches!(stop.report, report_kind::DIVERGENCE | report_kind::FAILED | report_kind::MISSING)
        {
            let why = format!("the replay ends at {}: {}", position_of(stop), self.said());
            return TimelineError::Lost(target, why);
        }
        TimelineError::NoSuchPosition(target)
    }

    /// What the process said at its end, or of why it cannot go on.
    pub fn said(&self) -> String {
        replayer::in_words(&self.home.memory().lane(self.segment).report())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Home::Replay(session) = &self.home {
            session.end(self.segment, self.pid);
        }
    }
}

/// What a process shares with others and can write to, outside of the runtime's region.
fn shared_mappings(pid: i32) -> Result<Vec<(u64, u64)>, TimelineError> {
    let maps = injector::read_maps(pid)?;
    let shared =
        maps.iter().filter(|mapping| mapping.shared && mapping.is_writable() && !mapping.is_of_runtime());
    Ok(shared.map(|mapping| (mapping.start, mapping.end)).collect())
}
