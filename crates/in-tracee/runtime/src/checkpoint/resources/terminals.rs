//! Modes of terminals (termios(3)): a branch makes them what they were.

use linux_abi::general as nr;

use crate::checkpoint::kept_resources::Terminal;
use crate::ground::kernel;

const TCGETS2: u64 = 0x802c_542a;
const TCSETS2: u64 = 0x402c_542b;

impl Terminal {
    pub fn fd(&self) -> u32 {
        self.fd
    }

    /// `None`: it is no terminal.
    pub fn of(fd: u32) -> Option<Terminal> {
        let mut modes = [0; 11];
        let place = modes.as_mut_ptr() as u64;
        let result = kernel::call(nr::__NR_ioctl, [u64::from(fd), TCGETS2, place, 0, 0, 0]);
        (!kernel::failed(result)).then_some(Terminal { fd, modes })
    }
}

/// True for what changes a terminal's modes, by its number of ioctl(2).
pub fn is_change(request: u64) -> bool {
    const TCSETS_TO_TCSETAF: core::ops::RangeInclusive<u64> = 0x5402..=0x5408;
    TCSETS_TO_TCSETAF.contains(&request) || (TCSETS2..=TCSETS2 + 2).contains(&request)
}

/// What is open is what was open then.
pub fn restore(then: &[Terminal]) {
    const SIG_BLOCK: u64 = 0;
    const SIG_SETMASK: u64 = 2;
    let (all, mut before) = (u64::MAX, 0u64);
    let mask = |how: u64, to: *const u64, from: *mut u64| {
        kernel::call(nr::__NR_rt_sigprocmask, [how, to as u64, from as u64, 8, 0, 0]);
    };
    for terminal in then {
        if Terminal::of(terminal.fd).is_none_or(|now| now == *terminal) {
            continue;
        }
        // In the background it would be stopped (SIGTTOU).
        mask(SIG_BLOCK, &raw const all, &raw mut before);
        let place = terminal.modes.as_ptr() as u64;
        kernel::call(nr::__NR_ioctl, [u64::from(terminal.fd), TCSETS2, place, 0, 0, 0]);
        mask(SIG_SETMASK, &raw const before, core::ptr::null_mut());
    }
}
