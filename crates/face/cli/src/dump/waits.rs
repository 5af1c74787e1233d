//! Whose end a wait reports.

use syscall_model::row;

use crate::lane_events::WholeEvent;

/// The pid of the child whose end a call reports.
pub fn waited_for(whole: &WholeEvent) -> Option<i32> {
    let event = whole.event();
    let word = |address: u64, at: usize| -> Option<u32> {
        let data = whole.memory(address)?.data;
        Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
    };
    match row(u64::from(whole.code))?.name {
        "wait4" if event.result() > 0 => {
            const STOPPED: u32 = 0x7f;
            const CONTINUED: u32 = 0xffff;
            let status = word(event.arg(1), 0).unwrap_or(0);
            let goes_on = status & 0xff == STOPPED || status == CONTINUED;
            (!goes_on).then_some(event.result() as i32)
        }
        // siginfo_t of SIGCHLD: si_code 1 to 3 are ends; its union, of which si_pid is the first, is at 16.
        "waitid" if event.result() == 0 => {
            let info = event.arg(2);
            let is_end = word(info, 8).is_some_and(|code| (1..=3).contains(&code));
            word(info, 16).filter(|_| is_end).map(|pid| pid as i32)
        }
        _ => None,
    }
}
