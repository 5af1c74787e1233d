//! How to go forward, and why a movement ended where it did.

use lane_protocol::{AgentStop, agent_stop};

/// How to go forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Going {
    /// To the next stop.
    On,
    /// One instruction of the thread of this index.
    Step(u32),
}

/// Why the present position is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// History begins here.
    Begin,
    /// History ends here; one of `report_kind`, and an exit code or signal.
    End {
        report: u32,
        code: i32,
    },
    Breakpoint,
    /// Which of the watched places.
    Watch(usize),
    Stepped,
    Interrupted,
    /// A new image begins.
    Image,
    /// Behind the system call of this number.
    Call(u64),
    /// A branch, or a live program, is about to die of this signal.
    Signal(i32),
    /// Where the handler of this signal begins.
    Handler(u64),
    /// A branch has ended with this exit code, or its process with none.
    Left(Option<i32>),
    /// A branch waits for what cannot come.
    Stuck,
    /// The past of a live program ends here, in the present.
    Present,
    /// A live program is about to end with this exit code.
    Leaving(i32),
    /// A live program has ended, with this exit code.
    Exited(i32),
    /// A live program has died of this signal.
    Killed(i32),
    /// A live program went back to a checkpoint, because it asked for that itself.
    WentBack,
}

/// Why a process stands where it does.
pub(crate) fn reason_of(stop: &AgentStop) -> Reason {
    match stop.kind {
        agent_stop::END => Reason::End { report: stop.report, code: stop.code },
        agent_stop::BREAKPOINT => Reason::Breakpoint,
        agent_stop::WATCHPOINT => Reason::Watch(stop.last_hit.watch as usize),
        agent_stop::INTERRUPTED => Reason::Interrupted,
        agent_stop::IMAGE => Reason::Image,
        agent_stop::CALL => Reason::Call(stop.call.saturating_sub(1)),
        agent_stop::FAULTED => Reason::Signal(stop.code),
        agent_stop::SIGNAL => Reason::Handler(stop.signal),
        agent_stop::EXITED => Reason::Left(Some(stop.code)),
        agent_stop::STUCK => Reason::Stuck,
        agent_stop::LEAVING => Reason::Leaving(stop.code),
        agent_stop::ROLLED_BACK => Reason::WentBack,
        _ => Reason::Stepped,
    }
}
