//! Forks, as the client is told of them, and the ids by which it names processes.
//!
//! A fork is told behind the call that made the child. The child itself is not debugged
//! here: what the client does to it (it takes its breakpoints out of it, and lets it go) is
//! answered, and changes nothing.

use timeline::{Reason, Stops, Timeline};

use crate::server::Server;

const CLONE: u64 = 56;
const FORK: u64 = 57;
const VFORK: u64 = 58;
const CLONE3: u64 = 435;
/// Calls that make processes.
const CALLS: [u64; 4] = [CLONE, FORK, VFORK, CLONE3];

/// What the client knows of processes, and was told of children.
#[derive(Default)]
pub(crate) struct Children {
    /// Its ids name processes, too.
    pub has_process_ids: bool,
    /// It takes stops at forks.
    pub knows_forks: bool,
    /// Only where this was asked for.
    pub tells_forks: bool,
    /// It was told of a vfork, and waits to hear that the child has left the memory.
    pub vfork_done_is_due: bool,
    /// It means a child by what it asks for next.
    pub means_child: bool,
}

/// How a child was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Fork,
    Vfork,
}

/// How a call made a child, by the flags of those that have any; `None`: it made none.
fn made_by(number: u64, flags: u64) -> Option<Made> {
    const VFORK_FLAG: u64 = 0x4000;
    const THREAD_FLAG: u64 = 0x1_0000;
    match number {
        FORK => Some(Made::Fork),
        VFORK => Some(Made::Vfork),
        CLONE | CLONE3 if flags & THREAD_FLAG != 0 => None,
        CLONE | CLONE3 => Some(if flags & VFORK_FLAG != 0 { Made::Vfork } else { Made::Fork }),
        _ => None,
    }
}

/// True where the program stands behind a call that is none of these.
pub(crate) fn is_for_nobody(timeline: &Timeline, asked_for: &Stops, reason: Reason) -> bool {
    let Reason::Call(number) = reason else { return false };
    !asked_for.catches(number + 1) && child_made(timeline, reason).is_none()
}

fn child_made(timeline: &Timeline, reason: Reason) -> Option<(Made, u64)> {
    const RAX: usize = 0;
    const RDI: usize = 5;
    let Reason::Call(number) = reason else { return None };
    let registers = &timeline.stop().threads[0].registers;
    let child = u64::try_from(registers[RAX] as i64).ok().filter(|child| *child > 0)?;
    let mut flags = registers[RDI];
    if number == CLONE3 {
        let mut bytes = [0; 8];
        if timeline.read(flags, &mut bytes) != bytes.len() {
            return None;
        }
        flags = u64::from_le_bytes(bytes);
    }
    Some((made_by(number, flags)?, child))
}

impl Server<'_> {
    /// What is stopped at: what the client inserted, and the calls by which children are
    /// made.
    pub(crate) fn wanted_stops(&self) -> Stops {
        let mut stops = self.inserted.stops();
        let children = &self.children;
        // A client without our commands cannot say whether it wants them.
        if children.knows_forks && (children.tells_forks || !self.apart.announces()) {
            for call in CALLS {
                stops.calls[(call / 64) as usize] |= 1 << (call % 64);
            }
        }
        stops
    }

    /// True where the program stands behind a call that the client did not ask for.
    pub(crate) fn is_for_nobody(&self, reason: Reason) -> bool {
        is_for_nobody(&self.timeline, &self.inserted.stops(), reason)
    }

    /// The child that was made by the call behind which the program stands.
    pub(crate) fn child_made(&self, reason: Reason) -> Option<(Made, u64)> {
        child_made(&self.timeline, reason)
    }

    /// How a stop reply tells of the child.
    pub(crate) fn fork_detail(&self) -> Option<String> {
        let is_asked_for =
            matches!(self.reason, Reason::Call(number) if self.inserted.stops().catches(number + 1));
        if !self.children.knows_forks || is_asked_for {
            return None;
        }
        let (made, child) = self.child_made(self.reason)?;
        let word = match made {
            Made::Fork => "fork",
            Made::Vfork => "vfork",
        };
        Some(format!("{word}:p{child:x}.{child:x};"))
    }

    /// The process id by which the client is told of the program.
    pub(crate) fn process_id(&self) -> i32 {
        match self.timeline.debuggee() {
            Some(debuggee) => debuggee.pid(),
            None => self.timeline.recorded_pid(),
        }
    }

    /// The id of a thread.
    pub(crate) fn thread_id(&self, index: u32) -> String {
        if self.children.has_process_ids {
            format!("p{:x}.{:x}", self.process_id(), index + 1)
        } else {
            format!("{:x}", index + 1)
        }
    }

    /// True if an id names another process than the program's.
    pub(crate) fn names_child(&self, id: &str) -> bool {
        if !self.children.has_process_ids {
            return false;
        }
        let process = id.strip_prefix('p').and_then(|id| id.split('.').next());
        let number = process.and_then(|process| i32::from_str_radix(process, 16).ok());
        number.is_some_and(|number| number > 0 && number != self.process_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_no_children() {
        assert_eq!(made_by(CLONE, 0x0100_0011), Some(Made::Fork));
        assert_eq!(made_by(CLONE3, 0x4111), Some(Made::Vfork));
        assert_eq!(made_by(CLONE3, 0x003d_0f00), None);
        assert_eq!(made_by(VFORK, 0x1_0000), Some(Made::Vfork));
        assert_eq!(made_by(1, 0), None);
    }
}
