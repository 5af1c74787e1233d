//! How long a child has run, as its parent is told when it ends or stops: nothing, as getrusage(2) says in a lab.
//! The machine's own figures differ from run to run.

use linux_abi::general as nr;

use crate::ground::memory;
use crate::ground::proc_files::Path;
use crate::state::in_lab::is_on;
use crate::state::signal_state::Info;

const SIGCHLD: u32 = 17;
/// Words of siginfo_t: what the signal is, and si_utime and si_stime (sigaction(2)).
const TIMES: [usize; 2] = [4, 5];
/// Bytes of struct signalfd_siginfo; where its ssi_utime and ssi_stime begin (signalfd(2)).
const READ_BYTES: u64 = 128;
const READ_TIMES: u64 = 56;
/// Bytes of struct rusage.
const USAGE_BYTES: usize = 144;

/// The signal's information, without times in a lab.
pub fn without_times(signal: u32, info: &Info) -> Info {
    let mut info = *info;
    if signal == SIGCHLD && is_of_kernel(&info) && is_on() {
        for word in TIMES {
            info[word] = 0;
        }
    }
    info
}

/// The same where a call put it at an address of the program.
pub fn hide_in_info(address: u64) {
    if let Some(info) = memory::read::<Info>(address) {
        memory::write(address, &without_times(info[0] as u32, &info));
    }
}

/// The same for all that was read of a descriptor of signals.
pub fn hide_in_read(number: u64, real: &[u64; 6], bytes: u64) {
    if number != u64::from(nr::__NR_read) || !bytes.is_multiple_of(READ_BYTES) || !is_of_signals(real[0]) {
        return;
    }
    for at in (real[1]..real[1] + bytes).step_by(READ_BYTES as usize) {
        if memory::read::<u32>(at) == Some(SIGCHLD) {
            memory::write(at + READ_TIMES, &[0u64; 2]);
        }
    }
}

/// What a child used, as wait4(2) and waitid(2) tell it.
pub fn hide_usage(address: u64) {
    if address != 0 {
        memory::write(address, &[0u8; USAGE_BYTES]);
    }
}

/// True where the kernel sent it (CLD_EXITED and its kin), and not kill(2) or sigqueue(3).
fn is_of_kernel(info: &Info) -> bool {
    (1..=6).contains(&(info[1] as i32))
}

fn is_of_signals(fd: u64) -> bool {
    let mut path = Path::new();
    path.text(b"/proc/thread-self/fd/").number(fd & 0xffff_ffff).target(&mut [0; 64])
        == b"anon_inode:[signalfd]"
}
