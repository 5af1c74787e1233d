//! The system calls that replay needs, and no others.
//!
//! A list of what is allowed, so that calls of later kernels are refused too. What is refused gives
//! EPERM rather than an end: where the runtime intercepts by a seccomp filter of its own, its
//! traps must win over this filter, and the kernel prefers ends to traps.

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// linux/audit.h
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// All that clone(2) makes new namespaces for; clone3(2), whose flags lie in memory, is refused.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
/// Of descriptors: nothing that sends signals (F_SETOWN), or holds others up (F_SETLEASE).
const DESCRIPTOR_COMMANDS: [u32; 10] = [
    libc::F_DUPFD as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_SETFL as u32,
    libc::F_GETLK as u32,
    libc::F_SETLK as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_ADD_SEALS as u32,
    libc::F_GET_SEALS as u32,
];
/// PAGEMAP_SCAN; nothing of terminals (TIOCSTI types into them).
const REQUESTS: [u32; 1] = [0xc060_6610];

/// When a call is allowed.
enum Rule {
    Always(&'static [i64]),
    /// The lower half of an argument is one of these.
    OneOf(i64, u32, &'static [u32]),
    /// The lower half of an argument has none of these bits.
    Without(i64, u32, u32),
}

const RULES: [Rule; 10] = [
    // What memory of its own is.
    Rule::Always(&[
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_mincore,
        libc::SYS_arch_prctl,
    ]),
    // Its threads and processes: signals go no further than Landlock lets them.
    Rule::Always(&[
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getppid,
        libc::SYS_set_tid_address,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_prctl,
        libc::SYS_seccomp,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_getcpu,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigpending,
        libc::SYS_rt_sigsuspend,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_sigaltstack,
        libc::SYS_pause,
        libc::SYS_restart_syscall,
    ]),
    // Its files.
    Rule::Always(&[
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_writev,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fchmod,
        libc::SYS_flock,
        libc::SYS_unlink,
        libc::SYS_getdents64,
        libc::SYS_readlink,
        libc::SYS_sendfile,
        libc::SYS_memfd_create,
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_dup,
        libc::SYS_dup2,
        libc::SYS_dup3,
        libc::SYS_pipe2,
        libc::SYS_poll,
    ]),
    // The time, and what else only tells something.
    Rule::Always(&[
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_time,
        libc::SYS_setitimer,
        libc::SYS_getitimer,
        libc::SYS_timer_create,
        libc::SYS_timer_settime,
        libc::SYS_timer_gettime,
        libc::SYS_timer_delete,
        libc::SYS_getrandom,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_uname,
    ]),
    // Of itself only.
    Rule::OneOf(libc::SYS_prlimit64, 0, &[0]),
    Rule::OneOf(libc::SYS_sched_setaffinity, 0, &[0]),
    // Into a group of its own, never into another.
    Rule::OneOf(libc::SYS_setpgid, 1, &[0]),
    Rule::OneOf(libc::SYS_fcntl, 1, &DESCRIPTOR_COMMANDS),
    Rule::OneOf(libc::SYS_ioctl, 1, &REQUESTS),
    Rule::Without(libc::SYS_clone, 0, NAMESPACES),
];

/// The program for the kernel.
pub fn program() -> Vec<sock_filter> {
    let mut program = vec![load(ARCHITECTURE), jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0), refuse(libc::EPERM)];
    program.push(load(NUMBER));
    for rule in &RULES {
        match *rule {
            Rule::Always(numbers) => {
                for number in numbers {
                    program.extend([jump(BPF_JEQ, *number as u32, 0, 1), allow()]);
                }
            }
            Rule::OneOf(number, argument, values) => {
                program.push(jump(BPF_JEQ, number as u32, 0, 2 * values.len() as u8 + 2));
                program.push(load(ARGUMENTS + 8 * argument));
                for value in values {
                    program.extend([jump(BPF_JEQ, *value, 0, 1), allow()]);
                }
                program.push(refuse(libc::EPERM));
            }
            Rule::Without(number, argument, bits) => {
                program.push(jump(BPF_JEQ, number as u32, 0, 4));
                program.push(load(ARGUMENTS + 8 * argument));
                program.extend([jump(BPF_JSET, bits, 0, 1), refuse(libc::EPERM), allow()]);
            }
        }
    }
    // As if the kernel had none: who tries it falls back.
    program.extend([jump(BPF_JEQ, libc::SYS_clone3 as u32, 0, 1), refuse(libc::ENOSYS)]);
    program.push(refuse(libc::EPERM));
    program
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW)
}

fn refuse(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(kind: u32, k: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | kind | BPF_K) as u16, jt: if_true, jf: if_false, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would return, by its own rules.
    fn answer(architecture: u32, number: i64, arguments: [u64; 6]) -> u32 {
        let program = program();
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let instruction = &program[at];
            let (code, k) = (u32::from(instruction.code), instruction.k);
            at += 1;
            let is_true = match code & !(BPF_K) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    accumulator = match k {
                        NUMBER => number as u32,
                        ARCHITECTURE => architecture,
                        offset => arguments[(offset - ARGUMENTS) as usize / 8] as u32,
                    };
                    continue;
                }
                BPF_RET => return k,
                code if code == BPF_JMP | BPF_JEQ => accumulator == k,
                code if code == BPF_JMP | BPF_JSET => accumulator & k != 0,
                code => panic!("no such instruction: {code:#x}"),
            };
            at += usize::from(if is_true { instruction.jt } else { instruction.jf });
        }
    }

    fn of(number: i64, arguments: [u64; 6]) -> u32 {
        answer(AUDIT_ARCH_X86_64, number, arguments)
    }

    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

    #[test]
    fn what_replay_needs_is_allowed() {
        for number in [libc::SYS_mmap, libc::SYS_futex, libc::SYS_uname, libc::SYS_open] {
            assert_eq!(of(number, [0; 6]), libc::SECCOMP_RET_ALLOW, "{number}");
        }
        assert_eq!(of(libc::SYS_clone, [0x8000, 0, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(of(libc::SYS_fcntl, [3, libc::F_GETFL as u64, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn what_reaches_outside_is_refused() {
        let refused = [
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_connect,
            libc::SYS_sendmsg,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_shmget,
            libc::SYS_shmat,
            libc::SYS_msgget,
            libc::SYS_semget,
            libc::SYS_mq_open,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_chroot,
            libc::SYS_open_by_handle_at,
            libc::SYS_setpriority,
            libc::SYS_fork,
            libc::SYS_vfork,
            // The x32 interface, and what no kernel has yet.
            libc::SYS_write | 0x4000_0000,
            4000,
        ];
        for number in refused {
            assert_eq!(of(number, [0; 6]), REFUSED, "{number}");
        }
        assert_eq!(of(libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]), REFUSED);
        assert_eq!(of(libc::SYS_fcntl, [3, libc::F_SETOWN as u64, 0, 0, 0, 0]), REFUSED);
        assert_eq!(of(libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]), REFUSED);
        assert_eq!(of(libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]), REFUSED);
        // 32-bit calls have other numbers.
        assert_eq!(answer(0x4000_0003, libc::SYS_write, [0; 6]), REFUSED);
    }
}
