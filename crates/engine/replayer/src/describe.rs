//! What a process that stands still says, in words.

use std::fmt;

use events::{ARG_COUNT_MASK, Header, IN_PLACE, Instruction, Kind, preemption_word};
use injector::ReportCopy;
use lane_protocol::{GOT_FAULT, report_kind};
use syscall_model::{Row, row};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// The program did something else than the log says.
    Divergence,
    /// Something that replay needs is missing.
    Missing,
    /// The runtime or the replayer failed.
    Failed,
}

/// One frame of a stack, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    /// Function, with the distance from its start in bytes.
    pub function: Option<(String, u64)>,
    /// Original path of the file that holds the code.
    pub module: Option<String>,
    /// Source file and line.
    pub source: Option<(String, u32)>,
}

/// What went wrong, and where.
#[derive(Debug, Clone)]
pub struct Divergence {
    pub kind: ReportKind,
    /// Pid of the process when it was recorded.
    pub pid: i32,
    pub lane: u32,
    /// Events of the lane that went well.
    pub event: u64,
    /// What the runtime says.
    pub text: String,
    pub expected: String,
    pub got: String,
    /// Names and values; empty where the process is gone.
    pub registers: Vec<(&'static str, u64)>,
    pub stack: Vec<Frame>,
}

const REGISTERS: [&str; 18] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip", "flags",
];

impl Divergence {
    /// True where the program makes the call of the log, and sends other bytes with it.
    pub fn is_of_sent(&self) -> bool {
        self.kind == ReportKind::Divergence && self.text.starts_with("it sent ")
    }

    /// What a report says; the stack is empty.
    pub(crate) fn of_report(report: &ReportCopy, pid: i32, lane: u32) -> Divergence {
        let kind = match report.kind {
            report_kind::DIVERGENCE => ReportKind::Divergence,
            report_kind::MISSING => ReportKind::Missing,
            _ => ReportKind::Failed,
        };
        // A report without registers has zeroes there; no program runs at address 0.
        let is_noted = report.registers[16] != 0;
        let registers = REGISTERS.iter().copied().zip(report.registers).filter(|_| is_noted).collect();
        let is_compared = kind == ReportKind::Divergence;
        Divergence {
            kind,
            pid,
            lane,
            event: report.event,
            text: report.text.clone(),
            expected: if is_compared {
                expected(report.expected_header, &report.expected)
            } else {
                String::new()
            },
            got: if is_compared { got(report) } else { String::new() },
            registers,
            stack: Vec::new(),
        }
    }

    /// A process that died without a report.
    pub(crate) fn of_death(pid: i32, lane: u32, event: u64, how: String) -> Divergence {
        Divergence {
            kind: ReportKind::Failed,
            pid,
            lane,
            event,
            text: how,
            expected: String::new(),
            got: String::new(),
            registers: Vec::new(),
            stack: Vec::new(),
        }
    }
}

/// What a process says of why it cannot go on, in one line.
pub fn in_words(report: &ReportCopy) -> String {
    let said = Divergence::of_report(report, 0, 0);
    let mut parts = Vec::new();
    for (name, text) in [("", said.text), ("expected ", said.expected), ("got ", said.got)] {
        if !text.is_empty() {
            parts.push(format!("{name}{text}"));
        }
    }
    parts.join("; ")
}

/// The event that the log has, of which these are the header and the first words.
pub(crate) fn expected(head: u64, words: &[u64]) -> String {
    if head == 0 {
        return String::new();
    }
    let header = Header(head);
    let (flags, code) = (header.flags(), header.code());
    match header.kind() {
        Some(Kind::Syscall) => {
            let count = (flags & ARG_COUNT_MASK).min(6) as usize;
            let (args, result) = match flags & IN_PLACE != 0 {
                true => (&words[..count], 0),
                false => (&words[1..=count], words[0] as i64),
            };
            format!("{} = {result}", call(u64::from(code), args))
        }
        Some(Kind::Signal) => format!("signal {code} for a handler"),
        Some(Kind::Fault) => format!("a fault, signal {code}, at {:#x}", words[0]),
        Some(Kind::Instruction) => match Instruction::from_code(code) {
            Some(instruction) => format!("the instruction {instruction:?}").to_lowercase(),
            None => format!("an instruction of unknown kind {code}"),
        },
        Some(Kind::Exit) => format!("the end of the process, exit code {}", words[0] as i64),
        Some(Kind::Birth) => "a new image (execve)".to_owned(),
        Some(Kind::Checksum) => format!("memory with checksum {:#018x}", words[0]),
        Some(Kind::Trampoline) => "memory for rewritten sites".to_owned(),
        Some(Kind::Stop) => "the end of the recording".to_owned(),
        Some(Kind::Preemption) => match words.get(preemption_word::RIP) {
            Some(address) => format!("a preemption point at {address:#x}"),
            None => "a preemption point".to_owned(),
        },
        Some(Kind::Token) => format!("the token of thread {code}"),
        Some(Kind::Store) => "what a call that sleeps changed".to_owned(),
        Some(Kind::Change) => "a change of the program's code".to_owned(),
        Some(Kind::Edit) => "what the debugger changed".to_owned(),
        Some(Kind::Data) => "data of the event before".to_owned(),
        None => format!("an event of unknown kind {}", head as u8),
    }
}

/// What the program did.
fn got(report: &ReportCopy) -> String {
    match report.got_number {
        u64::MAX => return String::new(),
        GOT_FAULT => return format!("a fault, signal {}, at {:#x}", report.got[0], report.got[1]),
        _ => {}
    }
    let count = row(report.got_number).map_or(6, |row| row.args.len().min(6));
    call(report.got_number, &report.got[..count])
}

/// A call with its arguments, as far as they are known.
fn call(number: u64, values: &[u64]) -> String {
    let described: Option<&Row> = row(number);
    let name = described.map_or_else(|| format!("system call {number}"), |row| row.name.to_owned());
    let argument = |(index, value): (usize, &u64)| {
        let shown = if *value < 0x1_0000 { value.to_string() } else { format!("{value:#x}") };
        match described.and_then(|row| row.args.get(index)) {
            Some(argument) => format!("{}={shown}", argument.name),
            None => shown,
        }
    };
    let arguments: Vec<String> = values.iter().enumerate().map(argument).collect();
    format!("{name}({})", arguments.join(", "))
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.address)?;
        if let Some((name, distance)) = &self.function {
            write!(f, " {name}+{distance:#x}")?;
        }
        if let Some(module) = &self.module {
            write!(f, " in {module}")?;
        }
        if let Some((file, line)) = &self.source {
            write!(f, " at {file}:{line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ReportKind::Divergence => "replay diverged",
            ReportKind::Missing => "replay lacks something",
            ReportKind::Failed => {
                "replay failed: the trace is damaged where its checksums do not show it, or retrovane is wrong"
            }
        };
        write!(f, "{what}: process {}, after {} events", self.pid, self.event)?;
        for (name, text) in [("what", &self.text), ("expected", &self.expected), ("got", &self.got)] {
            if !text.is_empty() {
                write!(f, "\n  {name:<9}{text}")?;
            }
        }
        for (number, frame) in self.stack.iter().enumerate() {
            write!(f, "\n  #{number:<2} {frame}")?;
        }
        for line in self.registers.chunks(4) {
            write!(f, "\n ")?;
            for (name, value) in line {
                write!(f, " {name:>5} {value:016x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divergence_without_a_text_is_not_empty() {
        let mut report = ReportCopy {
            kind: report_kind::DIVERGENCE,
            code: 0,
            event: 7,
            expected_header: u64::from(Kind::Stop as u8),
            expected: [0; 8],
            got_number: 9999,
            got: [0; 8],
            registers: [0; 18],
            text: String::new(),
        };
        assert_eq!(
            in_words(&report),
            "expected the end of the recording; got system call 9999(0, 0, 0, 0, 0, 0)"
        );
        report.text = "the token".to_owned();
        report.got_number = u64::MAX;
        assert_eq!(in_words(&report), "the token; expected the end of the recording");
        // A sum of memory, say.
        report.got[..2].copy_from_slice(&[11, 0x1000]);
        assert_eq!(in_words(&report), "the token; expected the end of the recording");
        report.got_number = GOT_FAULT;
        assert_eq!(
            in_words(&report),
            "the token; expected the end of the recording; got a fault, signal 11, at 0x1000"
        );
    }

    #[test]
    fn calls_are_shown_with_their_names() {
        assert_eq!(call(1, &[1, 0x7fff_0000_0000, 5]), "write(fd=1, buf=0x7fff00000000, count=5)");
        assert_eq!(call(9999, &[1]), "system call 9999(1)");
    }
}
