//! What concerns processes and signals.

use super::super::names::{bits, of};
use super::super::quote::{put, quoted};
use super::{Fields, signals, time};
use crate::wording;

const SA_FLAGS: [(u64, &str); 8] = [
    (0x1, "SA_NOCLDSTOP"),
    (0x2, "SA_NOCLDWAIT"),
    (0x4, "SA_SIGINFO"),
    (0x0400_0000, "SA_RESTORER"),
    (0x0800_0000, "SA_ONSTACK"),
    (0x1000_0000, "SA_RESTART"),
    (0x4000_0000, "SA_NODEFER"),
    (0x8000_0000, "SA_RESETHAND"),
];
const CHILD_CODES: [(u64, &str); 6] = [
    (1, "CLD_EXITED"),
    (2, "CLD_KILLED"),
    (3, "CLD_DUMPED"),
    (4, "CLD_TRAPPED"),
    (5, "CLD_STOPPED"),
    (6, "CLD_CONTINUED"),
];
const FAULT_CODES: [(u64, &str); 4] =
    [(1, "SEGV_MAPERR"), (2, "SEGV_ACCERR"), (3, "SEGV_BNDERR"), (4, "SEGV_PKUERR")];
const ARITHMETIC_CODES: [(u64, &str); 8] = [
    (1, "FPE_INTDIV"),
    (2, "FPE_INTOVF"),
    (3, "FPE_FLTDIV"),
    (4, "FPE_FLTOVF"),
    (5, "FPE_FLTUND"),
    (6, "FPE_FLTRES"),
    (7, "FPE_FLTINV"),
    (8, "FPE_FLTSUB"),
];
const INSTRUCTION_CODES: [(u64, &str); 4] =
    [(1, "ILL_ILLOPC"), (2, "ILL_ILLOPN"), (3, "ILL_ILLADR"), (5, "ILL_PRVOPC")];
const BUS_CODES: [(u64, &str); 3] = [(1, "BUS_ADRALN"), (2, "BUS_ADRERR"), (3, "BUS_OBJERR")];

const SIGCHLD: i32 = 17;

/// The kernel's `struct sigaction`.
pub fn action(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let handler = match fields.u64(0)? {
        0 => "SIG_DFL".to_owned(),
        1 => "SIG_IGN".to_owned(),
        address => format!("{address:#x}"),
    };
    let (flags, mask) = (bits(&SA_FLAGS, fields.u64(8)?), signals(fields.u64(24)?));
    put(out, format_args!("{{sa_handler={handler}, sa_mask={mask}, sa_flags={flags}}}"));
    Some(())
}

fn code_name(signal: i32, code: i32) -> String {
    const SENT: [(i32, &str); 8] = [
        (0, "SI_USER"),
        (0x80, "SI_KERNEL"),
        (-1, "SI_QUEUE"),
        (-2, "SI_TIMER"),
        (-3, "SI_MESGQ"),
        (-4, "SI_ASYNCIO"),
        (-5, "SI_SIGIO"),
        (-6, "SI_TKILL"),
    ];
    if let Some((_, name)) = SENT.iter().find(|(value, _)| *value == code) {
        return (*name).to_owned();
    }
    let table: &[(u64, &str)] = match signal {
        4 => &INSTRUCTION_CODES,
        7 => &BUS_CODES,
        8 => &ARITHMETIC_CODES,
        11 => &FAULT_CODES,
        SIGCHLD => &CHILD_CODES,
        _ => &[],
    };
    u64::try_from(code).map_or_else(|_| code.to_string(), |code| of(table, code))
}

/// `siginfo_t`.
pub fn signal_info(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let (signal, code) = (fields.i32(0)?, fields.i32(8)?);
    if signal == 0 {
        out.push_str("{}");
        return Some(());
    }
    put(out, format_args!("{{si_signo={}, si_code={}", wording::signal(signal), code_name(signal, code)));
    let sender = |out: &mut String| {
        put(out, format_args!(", si_pid={}, si_uid={}", fields.i32(16)?, fields.u32(20)?));
        Some(())
    };
    match (signal, code) {
        (SIGCHLD, 1..=6) => {
            sender(out)?;
            let status = fields.i32(24)?;
            let shown = if code == 1 { status.to_string() } else { wording::signal(status) };
            put(out, format_args!(", si_status={shown}"));
        }
        // SI_TIMER: the timer and its overruns stand where the sender would.
        (_, -2) => put(out, format_args!(", si_timerid={}, si_overrun={}", fields.i32(16)?, fields.i32(20)?)),
        (_, -1) => {
            sender(out)?;
            put(out, format_args!(", si_value={:#x}", fields.u64(24)?));
        }
        (4 | 5 | 7 | 8 | 11, 1..) if code != 0x80 => {
            put(out, format_args!(", si_addr={:#x}", fields.u64(16)?))
        }
        (_, ..=0) => sender(out)?,
        (_, 1..) => {}
    }
    out.push('}');
    Some(())
}

/// What wait says of a child.
pub fn wait_status(out: &mut String, status: u32) {
    const CONTINUED: u32 = 0xffff;
    let (signal, upper) = ((status & 0x7f) as i32, status >> 8 & 0xff);
    match signal {
        _ if status == CONTINUED => out.push_str("[{WIFCONTINUED(s)}]"),
        0 => put(out, format_args!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {upper}}}]")),
        0x7f => {
            put(out, format_args!("[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]", wording::signal(upper as i32)))
        }
        signal => {
            let core = if status & 0x80 != 0 { " && WCOREDUMP(s)" } else { "" };
            put(
                out,
                format_args!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {}{core}}}]", wording::signal(signal)),
            );
        }
    }
}

/// `struct rlimit`.
pub fn limit(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let amount = |value: u64| match value {
        u64::MAX => "RLIM_INFINITY".to_owned(),
        value if value >= 1024 && value.is_multiple_of(1024) => format!("{}*1024", value / 1024),
        value => value.to_string(),
    };
    put(out, format_args!("{{rlim_cur={}, rlim_max={}}}", amount(fields.u64(0)?), amount(fields.u64(8)?)));
    Some(())
}

/// `struct rusage`.
pub fn usage(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let (user, system) = (time(fields, 0, "tv_usec")?, time(fields, 16, "tv_usec")?);
    put(out, format_args!("{{ru_utime={user}, ru_stime={system}, ...}}"));
    Some(())
}

/// `struct new_utsname`.
pub fn system_name(out: &mut String, fields: Fields<'_>) -> Option<()> {
    const FIELD_BYTES: usize = 65;
    let mut separator = "{";
    for (index, name) in ["sysname", "nodename", "release"].iter().enumerate() {
        put(out, format_args!("{separator}{name}="));
        quoted(out, fields.text(index * FIELD_BYTES)?);
        separator = ", ";
    }
    out.push_str(", ...}");
    Some(())
}
