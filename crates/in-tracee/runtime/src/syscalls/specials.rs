//! Calls with code of their own, in both modes.
//!
//! Each function executes its call and logs it when recording, or consumes its
//! event when replaying: one place for both.

use core::sync::atomic::Ordering;

use events::{Header, Tag};
use linux_abi::{errno, general as nr};
use syscall_model::{ARCH_PRCTL, Act, Arg, PRCTL, Special, Variant};

use crate::address_space::logged_calls::log_call;
use crate::code::{clocks, gs};
use crate::ground::kernel::{self, ABORTED};
use crate::ground::registers::Registers;
use crate::ground::{memory, stack_limit};
use crate::log::call_event::{begin_call, reject, replayed};
use crate::log::effects;
use crate::process::{processes, threads};
use crate::signals;
use crate::state::block::{lane, process, thread};
use crate::state::call_state::{Before, Done};
use crate::state::proc_dir;
use crate::state::report;
use crate::syscalls::{
    calls, descriptors, filters, foreign_memory, memory_calls, mremap, priority_futexes, shared_segments,
    time_calls, tracing, visible_descriptors,
};

/// Executes or replays a call.
pub fn execute(special: Special, number: u64, registers: &mut Registers, model: &'static [Arg]) -> Done {
    let args = registers.args();
    match special {
        Special::Mmap => memory_calls::mmap(registers, &args),
        Special::Munmap => memory_calls::munmap(registers, &args),
        Special::Mprotect => memory_calls::mprotect(registers, number, &args, model),
        Special::PkeyMprotect => memory_calls::pkey_mprotect(registers, number, &args, model),
        Special::Mremap => mremap::mremap(registers, &args),
        Special::Brk => memory_calls::brk(registers, &args),
        Special::Madvise => memory_calls::madvise(registers, &args, model),
        Special::Fork => {
            processes::fork(registers, number, [u64::from(linux_abi::general::SIGCHLD), 0, 0, 0, 0, 0])
        }
        Special::Vfork => {
            let flags = nr::CLONE_VM | nr::CLONE_VFORK | nr::SIGCHLD;
            processes::fork(registers, number, [u64::from(flags), 0, 0, 0, 0, 0])
        }
        Special::Clone => processes::fork(registers, number, args),
        Special::Execve | Special::Execveat => processes::exec(registers, number, &args),
        Special::Exit => processes::exit_thread(registers, &args),
        Special::ExitGroup => processes::exit(args[0] as i32),
        Special::RtSigaction => own(registers, number, &args, 4, signals::sigaction(&args), &[(args[2], 32)]),
        Special::RtSigprocmask => {
            own(registers, number, &args, 4, signals::sigprocmask(&args), &[(args[2], 8)])
        }
        Special::Sigaltstack => {
            let result = signals::sigaltstack(&args, registers.rsp);
            own(registers, number, &args, 2, result, &[(args[1], 24)])
        }
        Special::RtSigreturn => sigreturn(registers),
        Special::MaskedWait => masked_wait(registers, number, &args, model),
        Special::ArchPrctl => arch_prctl(registers, number, &args),
        Special::Prctl => prctl(registers, number, &args),
        Special::ClockGettime => time_calls::execute(registers, number, &args, args[0], &[(args[1], 0, 16)]),
        Special::Gettimeofday => {
            time_calls::execute(registers, number, &args, 0, &[(args[0], 0, 16), (args[1], 2, 8)])
        }
        Special::Time => time_calls::execute_time(registers, number, &args),
        Special::Getcpu => {
            time_calls::execute(registers, number, &args, 0, &[(args[0], 0, 4), (args[1], 1, 4)])
        }
        Special::Output => descriptors::output(registers, number, &args, model),
        Special::KernelCopy => descriptors::kernel_copy(registers, number, &args, model),
        Special::Close => descriptors::close(registers, number, &args, model),
        Special::CloseRange => descriptors::close_range(registers, number, &args, model),
        Special::DupTo => descriptors::dup_to(registers, number, &args, model),
        Special::DescriptorFlags => descriptors::set_flags(registers, number, &args, model),
        Special::AskDescriptor => descriptors::asked(registers, number, &args, model),
        Special::ListDirectory => visible_descriptors::list(registers, number, &args, model),
        Special::Clone3 => processes::clone3(registers, &args),
        Special::Seccomp => filters::seccomp(registers, number, &args),
        Special::RtSigpending => sigpending(registers, number, &args, model),
        Special::Signalfd => signalfd(registers, number, &args, model),
        Special::RtSigtimedwait => sigtimedwait(registers, number, &args, model),
        Special::SetRlimit => rlimit(registers, number, &args, model),
        Special::Shmat => shared_segments::shmat(registers, &args),
        Special::Shmdt => shared_segments::shmdt(registers, &args),
        Special::Ptrace => tracing::ptrace(registers, number, &args, model),
        Special::ProcessVm => process_vm(registers, number, &args, model),
        Special::SetTidAddress => threads::set_tid_address(registers, number, &args),
        Special::SetRobustList => set_robust_list(registers, number, &args, model),
        Special::ChangeRoot => {
            proc_dir::keep();
            plain(registers, number, &args, model)
        }
        Special::FutexPi => priority_futexes::execute(registers, number, &args, model),
        Special::PerfEventOpen => perf_event_open(registers, number, &args, model),
        Special::Namespaces => change(registers, number, &args, model),
        Special::Receive | Special::GetRobustList | Special::PidfdGetfd => {
            plain(registers, number, &args, model)
        }
    }
}

/// A call that is performed and logged by its row alone.
pub fn plain(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    plain_as(registers, number, args, args, model)
}

/// The same, with other arguments for the kernel than the program gave.
pub fn plain_as(
    registers: &Registers,
    number: u64,
    args: &[u64; 6],
    real: &[u64; 6],
    model: &'static [Arg],
) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    let before = effects::before(model, args);
    let blocks = calls::BLOCKS.get(number as usize).is_some_and(|&blocks| blocks);
    let result = calls::make(number, args, real, model, blocks);
    if result == ABORTED {
        return Done::Aborted;
    }
    log_call(number, args, model, effects::work_of(model), result, &before, 0);
    Done::Result(result)
}

/// A call that the runtime answers by itself, the same in both modes.
pub fn own(
    registers: &Registers,
    number: u64,
    args: &[u64; 6],
    count: usize,
    result: i64,
    written: &[(u64, u64)],
) -> Done {
    if process().replays() {
        let Done::Result(recorded) = replayed(registers) else {
            return Done::Result(result);
        };
        return Done::Result(recorded);
    }
    begin_call(number, args, count, result, 0);
    let log = &mut process().log;
    for &(address, bytes) in written {
        if address != 0 && result == 0 {
            log.blob(address, bytes, Tag::Memory, address);
        }
    }
    log.end();
    Done::Result(result)
}

fn sigreturn(registers: &mut Registers) -> Done {
    let word = process().log_word();
    if process().replays() {
        let _ = replayed(registers);
    }
    let leave = signals::sigreturn(registers);
    if process().replays() {
        if word.flags() & events::SIGNAL_FOLLOWS != 0 {
            signals::replay_at_return(registers);
        }
    } else {
        begin_call(u64::from(nr::__NR_rt_sigreturn), &[0; 6], 0, 0, 0);
        process().log.end();
        // The mask that was restored may have let more in: they come before the
        // program goes on, as from the kernel.
        if process().log.follows {
            signals::deliver_at_return(registers);
        }
    }
    Done::Elsewhere(leave)
}

/// Calls that replace the signal mask while they wait: the kernel gets the mask
/// without the signals that the runtime needs.
fn masked_wait(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let mut real = *args;
    let mut mask = signals::real_mask(thread().signals.mask);
    let mut wanted = thread().signals.mask;
    let mut pair = [0u64; 2];
    let place = match number as u32 {
        nr::__NR_rt_sigsuspend => 0,
        nr::__NR_ppoll => 3,
        nr::__NR_epoll_pwait | nr::__NR_epoll_pwait2 => 4,
        _ => 5,
    };
    if args[place] != 0 {
        if place == 5 {
            // pselect6 and io_pgetevents: a pointer to the set, and its size.
            pair = memory::read::<[u64; 2]>(args[5]).unwrap_or_default();
            if pair[0] != 0
                && let Some(set) = memory::read::<u64>(pair[0])
            {
                wanted = set;
                mask = signals::real_mask(set);
                pair[0] = &raw const mask as u64;
                real[5] = pair.as_ptr() as u64;
            }
        } else if let Some(set) = memory::read::<u64>(args[place]) {
            wanted = set;
            mask = signals::real_mask(set);
            real[place] = &raw const mask as u64;
        }
    }
    let word = process().log_word();
    signals::begin_masked_wait(wanted);
    let done = plain_as(registers, number, args, &real, model);
    let follows = match process().replays() {
        true => word.flags() & events::SIGNAL_FOLLOWS != 0,
        false => process().log.follows,
    };
    let interrupted = matches!(done, Done::Result(result) if result == -i64::from(errno::EINTR));
    signals::end_masked_wait(follows && interrupted);
    core::hint::black_box((&mask, &pair));
    done
}

/// Some blocked signals wait with the runtime: they are pending too.
fn sigpending(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    let result = kernel::call(number as u32, *args);
    if result == 0
        && args[1] >= 8
        && let Some(set) = memory::read::<u64>(args[0])
    {
        memory::write(args[0], &(set | signals::waiting_set()));
    }
    log_call(number, args, model, effects::work_of(model), result, &Before::default(), 0);
    Done::Result(result)
}

/// Takes a signal that waits with the runtime, or waits in the kernel.
fn sigtimedwait(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() || args[3] != 8 {
        return plain(registers, number, args, model);
    }
    let set = memory::read::<u64>(args[0]);
    let kept = set.map(signals::without_asking);
    let real = with_set(args, 0, kept.as_ref());
    let set = set.unwrap_or(0);
    loop {
        if let Some((signal, info)) = signals::take_waiting(set) {
            let result = match args[1] == 0 || memory::write(args[1], &info) {
                true => i64::from(signal),
                false => -i64::from(errno::EFAULT),
            };
            log_call(number, args, model, effects::work_of(model), result, &Before::default(), 0);
            return Done::Result(result);
        }
        let result = calls::make(number, args, &real, model, true);
        if result == ABORTED {
            return Done::Aborted;
        }
        if result == -i64::from(errno::EINTR) && signals::waiting_set() & set != 0 {
            continue;
        }
        log_call(number, args, model, effects::work_of(model), result, &Before::default(), 0);
        return Done::Result(result);
    }
}

/// A descriptor of signals does not take those by which threads are asked for something.
fn signalfd(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let kept = memory::read::<u64>(args[1]).map(signals::without_asking);
    let done = plain_as(registers, number, args, &with_set(args, 1, kept.as_ref()), model);
    core::hint::black_box(&kept);
    done
}

/// The call with this set of signals behind the argument `place`.
fn with_set(args: &[u64; 6], place: usize, set: Option<&u64>) -> [u64; 6] {
    let mut real = *args;
    if let Some(set) = set {
        real[place] = &raw const *set as u64;
    }
    real
}

/// A stack grows in replay as far as it did when recording.
fn rlimit(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if !process().replays() {
        return plain(registers, number, args, model);
    }
    let (pid, resource, new) = match number as u32 {
        nr::__NR_setrlimit => (0, args[0], args[1]),
        _ => (args[0], args[1], args[2]),
    };
    let limit = memory::read::<u64>(new);
    let done = replayed(registers);
    if let (Done::Result(0), Some(limit)) = (&done, limit)
        && pid as u32 == 0
        && resource as u32 == nr::RLIMIT_STACK
        && new != 0
    {
        stack_limit::set_stack_limit(limit);
    }
    done
}

fn arch_prctl(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_SET_FS: u64 = 0x1002;
    const ARCH_GET_FS: u64 = 0x1003;
    const ARCH_GET_GS: u64 = 0x1004;
    const ARCH_GET_CPUID: u64 = 0x1011;
    const ARCH_SET_CPUID: u64 = 0x1012;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    match args[0] & 0xffff_ffff {
        // gs is the runtime's.
        ARCH_SET_GS if !gs::can_be_shared() => reject(registers, number, args, 2, errno::EPERM),
        ARCH_SET_GS => {
            const ADDRESSES_END: u64 = 0x7fff_ffff_f000;
            let result = if args[1] < ADDRESSES_END { 0 } else { -i64::from(errno::EPERM) };
            let done = own(registers, number, args, 2, result, &[]);
            if matches!(done, Done::Result(0)) {
                gs::set(args[1]);
            }
            done
        }
        ARCH_SET_FS => {
            let result = kernel::call(number as u32, *args);
            if result == 0 {
                thread().fs_base = args[1];
            }
            own(registers, number, args, 2, result, &[])
        }
        ARCH_GET_FS => {
            let result = kernel::call(number as u32, *args);
            own(registers, number, args, 2, result, &[(args[1], 8)])
        }
        ARCH_GET_GS => {
            let written = memory::write(args[1], &thread().programs_gs);
            let result = if written { 0 } else { -i64::from(errno::EFAULT) };
            own(registers, number, args, 2, result, &[(args[1], 8)])
        }
        // The traps are the runtime's: the program never has cpuid disabled.
        ARCH_GET_CPUID => own(registers, number, args, 2, 1, &[]),
        ARCH_SET_CPUID => reject(registers, number, args, 2, errno::EINVAL),
        // Tile registers are larger than what the runtime saves of the processor: as on a machine without.
        ARCH_REQ_XCOMP_PERM => reject(registers, number, args, 2, errno::EOPNOTSUPP),
        option => by_option(registers, number, args, ARCH_PRCTL.find(option)),
    }
}

/// An option of prctl or arch_prctl for which the runtime has no code: what its row says.
fn by_option(registers: &Registers, number: u64, args: &[u64; 6], variant: Option<&'static Variant>) -> Done {
    let Some(variant) = variant else {
        return reject(registers, number, args, 5, errno::EINVAL);
    };
    match variant.act {
        Act::Reject(_) => reject(registers, number, args, variant.args.len(), errno::EINVAL),
        _ => plain(registers, number, args, variant.args),
    }
}

fn prctl(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    const PR_GET_DUMPABLE: u64 = 3;
    const PR_SET_DUMPABLE: u64 = 4;
    const PR_GET_SECCOMP: u64 = 21;
    const PR_SET_SECCOMP: u64 = 22;
    const PR_GET_TSC: u64 = 25;
    const PR_SET_TSC: u64 = 26;
    const PR_SET_MM: u64 = 35;
    const PR_SET_MM_MAP_SIZE: u64 = 15;
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    const PR_GET_TID_ADDRESS: u64 = 40;
    const PR_GET_NO_NEW_PRIVS: u64 = 39;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    let process_block = &mut *process();
    match args[0] & 0xffff_ffff {
        // Recording later images needs ptrace: the program's wish is only noted.
        PR_SET_DUMPABLE if args[1] <= 1 => {
            process_block.dumpable = args[1] as u32 + 1;
            own(registers, number, args, 5, 0, &[])
        }
        PR_GET_DUMPABLE if process_block.dumpable != 0 => {
            own(registers, number, args, 5, i64::from(process_block.dumpable) - 1, &[])
        }
        PR_SET_SECCOMP => filters::set_by_prctl(registers, number, args),
        PR_GET_TSC => {
            let result = clocks::tell_permission(args[1]);
            own(registers, number, args, 5, result, &[(args[1], 4)])
        }
        PR_SET_TSC => own(registers, number, args, 5, clocks::set_permission(args[1]), &[]),
        PR_SET_MM if args[1] & 0xffff_ffff != PR_SET_MM_MAP_SIZE => {
            reject(registers, number, args, 5, errno::EINVAL)
        }
        PR_SET_MM => {
            // Its size goes where the argument behind says.
            static MODEL: [Arg; 5] = {
                const WORD: Arg = Arg::new("", syscall_model::Ty::Hex);
                const SIZE: syscall_model::Ty =
                    syscall_model::Ty::Out(syscall_model::Len::Fixed(4), syscall_model::When::Success);
                [WORD, WORD, Arg::new("", SIZE), WORD, WORD]
            };
            plain(registers, number, args, &MODEL)
        }
        PR_SET_SYSCALL_USER_DISPATCH => reject(registers, number, args, 5, errno::EINVAL),
        // A filter of ours needs the flag, which the program did not ask for.
        PR_SET_NO_NEW_PRIVS if is_filtered() && args[1..5] == [1, 0, 0, 0] => {
            process_block.no_new_privileges = true;
            kernel::call(number as u32, *args);
            own(registers, number, args, 5, 0, &[])
        }
        PR_GET_NO_NEW_PRIVS if is_filtered() && args[1..5] == [0; 4] => {
            own(registers, number, args, 5, i64::from(process_block.no_new_privileges), &[])
        }
        PR_GET_TID_ADDRESS => {
            let written = memory::write(args[1], &thread().clear_tid);
            let result = if written { 0 } else { -i64::from(errno::EFAULT) };
            own(registers, number, args, 5, result, &[(args[1], 8)])
        }
        PR_GET_SECCOMP => own(registers, number, args, 5, filters::mode(), &[]),
        option => by_option(registers, number, args, PRCTL.find(option)),
    }
}

/// perf_event_open(2). With `sigtrap` the kernel stops the program at instructions that replay cannot
/// know beforehand: as before Linux 5.13, which had no such bit.
fn perf_event_open(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    const FLAGS_OFFSET: u64 = 40;
    const SIGNAL: u64 = 1 << 37;
    let bytes = memory::read::<u32>(args[0].wrapping_add(4)).unwrap_or(0);
    let flags = memory::read::<u64>(args[0].wrapping_add(FLAGS_OFFSET)).unwrap_or(0);
    // A size of 0 means the first version of the structure, of 64 bytes.
    if (bytes == 0 || u64::from(bytes) >= FLAGS_OFFSET + 8) && flags & SIGNAL != 0 {
        return reject(registers, number, args, model.len(), errno::EINVAL);
    }
    plain(registers, number, args, model)
}

/// A filter of ours intercepts the calls.
pub fn is_filtered() -> bool {
    crate::state::block::session().interception == lane_protocol::Interception::Seccomp as u32
}

/// process_vm_readv writes to our memory, process_vm_writev to another's, which may be recorded too.
fn process_vm(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() || number as u32 == nr::__NR_process_vm_readv {
        return plain(registers, number, args, model);
    }
    if foreign_memory::meets_region(args) {
        return reject(registers, number, args, model.len(), errno::EFAULT);
    }
    foreign_memory::write(number, args, model)
}

/// Replay of an exit: the process ends as recorded.
pub fn replay_exit(registers: &Registers, word: Header) -> ! {
    let log = &mut process().log;
    let code = log.body(0) as i32;
    if code != registers.rdi as i32 {
        report::diverge(registers, word, registers.rax, &registers.args());
    }
    log.apply(word, 16, &mut |_, _, _, _| {});
    report::leave(lane_protocol::report_kind::EXITED, code, "")
}

/// set_robust_list(2).
pub fn set_robust_list(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if args[1] == 24 {
        thread().robust_list = [args[0], args[1]];
    }
    plain(registers, number, args, model)
}

/// unshare(2) and setns(2): the children that follow may be in another namespace.
pub fn change(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let done = plain(registers, number, args, model);
    let ids_stay = number as u32 == nr::__NR_unshare && args[0] & u64::from(nr::CLONE_NEWPID) == 0;
    if !process().replays() && !ids_stay && matches!(done, Done::Result(0)) {
        process().children_apart = true;
        lane().children_apart.store(1, Ordering::Relaxed);
    }
    done
}
