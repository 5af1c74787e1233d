//! Processes, threads, their limits and identities.

use crate::flags::process::*;
use crate::flags::system::PERSONALITY;
use crate::notation::*;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};

pub(super) const ROWS: &[Row] = rows! {
    24 sched_yield();
    39 getpid();
    56 clone(flags: of(&CLONE), newsp: ADDRESS, parent_tid: updates(Success, I32, Fixed(4)),
        child_tid: ADDRESS, tls: ADDRESS) => execute(Clone), blocks;
    57 fork() => execute(Fork);
    58 vfork() => execute(Vfork), blocks;
    59 execve(filename: PATH, argv: TEXT_LIST, envp: TEXT_LIST) => execute(Execve), blocks;
    60 exit(error_code: INT) => execute(Exit);
    61 wait4(pid: PID, stat_addr: writes_when(Positive, WaitStatus, Fixed(4)), options: of(&WAIT),
        ru: writes_when(Positive, Rusage, Fixed(144))), blocks, acquires;
    97 getrlimit(resource: of(&RLIMIT), rlim: writes(Rlimit, Fixed(16)));
    98 getrusage(who: of(&RUSAGE), ru: writes(Rusage, Fixed(144)));
    101 ptrace(request: of(&PTRACE), pid: PID, addr: HEX, data: HEX) => execute(Ptrace), blocks, outward;
    102 getuid();
    104 getgid();
    105 setuid(uid: ID), changes_ids;
    106 setgid(gid: ID), changes_ids;
    107 geteuid();
    108 getegid();
    109 setpgid(pid: PID, pgid: PID);
    110 getppid();
    111 getpgrp();
    112 setsid();
    113 setreuid(ruid: ID, euid: ID), changes_ids;
    114 setregid(rgid: ID, egid: ID), changes_ids;
    115 getgroups(gidsetsize: INT, grouplist: writes_when(Positive, Opaque, RetOrArgTimes(0, 4)));
    116 setgroups(gidsetsize: INT, grouplist: reads(Opaque, ArgTimes(0, 4))), changes_rights;
    117 setresuid(ruid: ID, euid: ID, suid: ID), changes_ids;
    118 getresuid(ruid: U32_OUT, euid: U32_OUT, suid: U32_OUT);
    119 setresgid(rgid: ID, egid: ID, sgid: ID), changes_ids;
    120 getresgid(rgid: U32_OUT, egid: U32_OUT, sgid: U32_OUT);
    121 getpgid(pid: PID);
    122 setfsuid(uid: ID);
    123 setfsgid(gid: ID);
    124 getsid(pid: PID);
    125 capget(header: updates(Always, Opaque, Fixed(8)), dataptr: updates(Success, Opaque, Fixed(24)));
    126 capset(header: updates(Always, Opaque, Fixed(8)), data: reads(Opaque, Fixed(24))), changes_rights;
    135 personality(personality: of(&PERSONALITY));
    140 getpriority(which: of(&PRIORITY), who: INT);
    141 setpriority(which: of(&PRIORITY), who: INT, niceval: INT);
    142 sched_setparam(pid: PID, param: I32_IN);
    143 sched_getparam(pid: PID, param: I32_OUT);
    144 sched_setscheduler(pid: PID, policy: of(&SCHED), param: I32_IN);
    145 sched_getscheduler(pid: PID);
    146 sched_get_priority_max(policy: of(&SCHED));
    147 sched_get_priority_min(policy: of(&SCHED));
    148 sched_rr_get_interval(pid: PID, interval: writes(Timespec, Fixed(16)));
    154 modify_ldt(func: INT, ptr: ADDRESS, bytecount: SIZE)
        => reject("segment descriptors are state of the processor that replay does not rebuild");
    157 prctl(option: INT, arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX) => execute(Prctl);
    158 arch_prctl(option: HEX, arg2: ADDRESS) => execute(ArchPrctl);
    160 setrlimit(resource: of(&RLIMIT), rlim: reads(Rlimit, Fixed(16))) => execute(SetRlimit);
    186 gettid();
    203 sched_setaffinity(pid: PID, len: UINT, user_mask: reads(Opaque, Arg(1))), outward;
    204 sched_getaffinity(pid: PID, len: UINT, user_mask: fills(Opaque));
    205 set_thread_area(u_info: ADDRESS);
    211 get_thread_area(u_info: ADDRESS);
    218 set_tid_address(tidptr: ADDRESS) => execute(SetTidAddress);
    219 restart_syscall(), blocks;
    231 exit_group(error_code: INT) => execute(ExitGroup);
    247 waitid(which: of(&WAIT_ID), upid: PID, infop: updates(Always, Siginfo, Fixed(128)),
        options: of(&WAIT), ru: updates(Success, Rusage, Fixed(144))), blocks, acquires;
    251 ioprio_set(which: of(&IOPRIO), who: INT, ioprio: HEX);
    252 ioprio_get(which: of(&IOPRIO), who: INT);
    272 unshare(unshare_flags: of(&CLONE)) => execute(Namespaces);
    273 set_robust_list(head: ADDRESS, len: SIZE) => execute(SetRobustList);
    274 get_robust_list(pid: PID, head_ptr: U64_OUT, len_ptr: U64_OUT) => execute(GetRobustList);
    302 prlimit64(pid: PID, resource: of(&RLIMIT), new_rlim: reads(Rlimit, Fixed(16)),
        old_rlim: writes(Rlimit, Fixed(16))) => execute(SetRlimit);
    309 getcpu(cpup: U32_OUT, nodep: U32_OUT, unused: ADDRESS) => execute(Getcpu);
    312 kcmp(pid1: PID, pid2: PID, type: of(&KCMP), idx1: HEX, idx2: HEX);
    314 sched_setattr(pid: PID, uattr: updates(Always, Opaque, SelfSized32), flags: HEX);
    315 sched_getattr(pid: PID, uattr: updates(Success, Opaque, Arg(2)), usize: UINT, flags: HEX);
    322 execveat(fd: DIRFD, filename: PATH, argv: TEXT_LIST, envp: TEXT_LIST,
        flags: of(&crate::flags::files::AT)) => execute(Execveat), blocks;
    334 rseq(rseq: ADDRESS, rseq_len: UINT, flags: of(&RSEQ), sig: HEX)
        => reject("the kernel sends the thread elsewhere where no call shows it");
    434 pidfd_open(pid: PID, flags: of(&PIDFD)), outward;
    435 clone3(uargs: reads(Opaque, Arg(1)), size: SIZE) => execute(Clone3), blocks;
    438 pidfd_getfd(pidfd: FD, fd: INT, flags: HEX) => execute(PidfdGetfd);
};
